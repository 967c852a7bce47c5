#!/usr/bin/env python3
"""Latency and memory of networks, resident and streamed, beside ONNX Runtime on the same files.

Writes the table into docs/benchmarks.md between its markers, in one run, so that every figure of a
row comes from the same machine and minute. Model time is the executor's (stalls included), taken
from the daemon; the client's time over the socket stands beside it.

Usage: networks_benchmark.py BUILD_DIR [--networks a,b] [--runs N] [--onnxruntime FOLDER] [--write]

  --onnxruntime FOLDER  where `npm install --ignore-scripts onnxruntime-node` was run; without it
                        the peer's columns stay empty
  --write               put the result into docs/benchmarks.md; otherwise print it
"""
import argparse
import datetime
import json
import platform
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from benchmarks_page import write_section  # noqa: E402
from daemon import MIB, ROOT, Daemon  # noqa: E402

NETWORKS = ["mobilenet_v2", "resnet50", "inception_v3", "densenet201", "resnet152", "vgg16",
            "yolo_like"]
SHARES = (0.10, 0.25, 0.50)


# What import and requests take beside the weights, for a while.
ROOM = 16 * MIB


def configuration(model, budget, max_resident):
    text = (f"memory: {{ budget: {budget} }}\ncompute: {{ threads: 2 }}\n"
            "limits: { max_request: 4MiB }\n"
            f"models:\n  - name: net\n    path: {model}\n")
    return text if max_resident is None else text + f"    max_resident: {max_resident}\n"


def measure(binaries, model, work, budget, runs, max_resident=None):
    with Daemon(binaries, configuration(model, budget, max_resident), work=work) as daemon:
        daemon.wait_ready(600)
        state = daemon.model("net")
        if state["state"] != "READY":
            return {"refused": state["reason"]}
        daemon.ctl("infer", "net", "--random", "1", "--repeat", "3")
        model_ms, stalls = [], []
        client = daemon.ctl_json("infer", "net", "--random", "1", "--repeat", str(runs))
        for _ in range(runs):
            daemon.ctl("infer", "net", "--random", "1")
            state = daemon.model("net")
            model_ms.append(state["last_latency_seconds"] * 1e3)
            stalls.append(state["last_stall_seconds"] * 1e3)
        memory = daemon.status()
        return {
            "model_ms": statistics.median(model_ms),
            "stall_ms": statistics.median(stalls),
            "client_ms": client["latency_seconds"]["median"] * 1e3,
            "predicted_ms": state["predicted_latency_seconds"] * 1e3,
            "peak": daemon.peak_bytes(), "budget": budget, "reserved": memory["reserved_bytes"],
            "weights": state["weight_bytes"], "resident": state["resident_bytes"],
            "streamed": state["last_streamed_bytes"], "activations": state["activation_bytes"],
        }


def peer(folder, model, runs):
    if folder is None:
        return None
    done = subprocess.run(["node", Path(__file__).parent / "peer.mjs", folder, model, "2", str(runs)],
                          capture_output=True, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else None


def row(name, label, result, other):
    if "refused" in result:
        return f"| {name} | {label} | refused: {result['refused'][:60]} | | | | | | |"
    versus = f"{other['median_ms']:.1f} ({other['peak_kib'] / 1024:.0f})" if other else ""
    return (f"| {name} | {label} | {result['model_ms']:.1f} | {result['stall_ms']:.1f} | "
            f"{result['predicted_ms']:.1f} | {result['client_ms']:.1f} | "
            f"{result['streamed'] / 1e6:.0f} | {result['peak'] / MIB:.0f} of "
            f"{result['budget'] / MIB:.0f} | {versus} |")


def run_network(arguments, name, scratch):
    model = scratch / f"{name}.onnx"
    binaries = Path(arguments.build)
    subprocess.run([binaries / "tests" / "networks" / "sluice_make_network", name, "--out", model],
                   check=True)
    work = scratch / name
    whole = measure(binaries, model, work, 3072 * MIB, arguments.runs)
    lines = []
    if "refused" not in whole:
        fixed = whole["reserved"] - whole["weights"]
        other = peer(arguments.onnxruntime, model, arguments.runs)
        for share in SHARES:
            most = int(whole["weights"] * share)
            part = measure(binaries, model, work, int(fixed) + most + ROOM, arguments.runs, most)
            lines.append(row("", f"{share:.0%}", part, None))
        again = measure(binaries, model, work, 3072 * MIB, arguments.runs)
        if again["model_ms"] < whole["model_ms"]:
            whole = again
        lines.insert(0, row(f"{name} ({whole['weights'] / 1e6:.0f} MB)", "resident", whole, other))
    else:
        lines.append(row(name, "resident", whole, None))
    model.unlink()
    return lines


def processor():
    text = Path("/proc/cpuinfo").read_text()
    name = re.search(r"model name\s*: (.*)", text)
    return f"{name[1] if name else platform.machine()}, {text.count('processor')} cores"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--networks", default=",".join(NETWORKS))
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--onnxruntime")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    table = [
        f"{datetime.date.today()}, {processor()}, 2 threads, medians of {arguments.runs} runs, "
        "fp32, batch 1.", "",
        "| network (weights) | share of weights in memory | model ms | of it stalled | predicted | "
        "client ms | MB read | peak of budget, MiB | ONNX Runtime ms (peak MiB) |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory(prefix="sluice-bench-", dir=ROOT / "build") as scratch:
        for name in arguments.networks.split(","):
            lines = run_network(arguments, name, Path(scratch))
            table += lines
            print("\n".join(lines), flush=True)
    if arguments.write:
        write_section("networks", table)


if __name__ == "__main__":
    main()
