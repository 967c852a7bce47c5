#!/usr/bin/env python3
"""Loading and unloading leaves nothing behind: N cycles of mixed networks, several at once, resident
and streamed, with requests in between, while one model stays and answers. Memory that the kernel
counts (smaps: resident and swapped), descriptors, threads and the ledger stay as they were.

Each cycle loads one to three models, asks each, and unloads them in another order; it is measured
when they are gone. Single readings are noisy, so the least of each ten counts.

Usage: cycles_test.py BUILD_DIR [--cycles N] [--seed S]
"""
import argparse
import os
import random
import re
import subprocess
import tempfile
import time
from pathlib import Path

from daemon import MIB, Daemon, read_outputs, write_random_inputs

SETTLED = 10  # Cycles until everything has run once.
WINDOW = 10
MODELS = {  # Name: network, and how its weights are kept.
    "whole": ("mobilenet_v2", "    pipeline: resident\n"),
    "stream": ("mobilenet_v2", "    max_resident: 0\n"),
    "half": ("resnet50", "    max_resident: 48MiB\n"),
    "thin": ("resnet50", "    max_resident: 4MiB\n"),
    "dense": ("densenet201", "    max_resident: 16MiB\n"),
}


def configuration(scratch):
    lines = [f"memory: {{ budget: {256 * MIB} }}\ncompute: {{ threads: 2 }}\nmodels:\n"
             f"  - name: keeper\n    path: {scratch / 'mobilenet_v2.onnx'}\n"]
    for name, (network, more) in MODELS.items():
        lines.append(f"  - name: {name}\n    path: {scratch / network}.onnx\n"
                     f"    load: explicit\n{more}")
    return "".join(lines)


def measure(daemon):
    process = Path(f"/proc/{daemon.process.pid}")
    rollup = (process / "smaps_rollup").read_text()
    kib = sum(int(n) for n in re.findall(r"^(?:Rss|Swap): +(\d+) kB", rollup, flags=re.M))
    ledger = {f"{line['line']} {line['model']}".strip(): line["reserved_bytes"]
              for line in daemon.status()["ledger"]}
    return {"bytes": kib * 1024, "fds": len(os.listdir(process / "fd")),
            "threads": len(os.listdir(process / "task")), "ledger": ledger}


def run(daemon, scratch, cycles, seed):
    draw = random.Random(seed)
    right, samples = {}, []
    begin = time.monotonic()
    for cycle in range(cycles):
        # The one with most kernels takes longest to load: every fifth cycle.
        names = sorted(name for name in MODELS if name != "dense" or cycle % 5 == 0)
        chosen = draw.sample(names, draw.choice((1, 1, 1, 2, 3)))
        for name in chosen:
            daemon.ctl("load", name)
            inputs = scratch / "inputs" / MODELS[name][0]
            if not inputs.exists():
                write_random_inputs(daemon.ctl_json("metadata", name), inputs, seed=3)
            daemon.ctl("infer", name, "--inputs", inputs, "--raw", scratch / "out")
            got = read_outputs(scratch / "out")
            network = MODELS[name][0]
            assert right.setdefault(network, got) == got, f"cycle {cycle}, {name}: another answer"
        daemon.ctl("infer", "keeper", "--random", cycle)
        draw.shuffle(chosen)
        for name in chosen:
            daemon.ctl("unload", name)
        samples.append(measure(daemon))
        if cycle % 50 == 49 or cycle == cycles - 1:
            print(f"cycle {cycle + 1}: {samples[-1]['bytes'] / MIB:.2f} MiB, "
                  f"{samples[-1]['fds']} descriptors, {samples[-1]['threads']} threads, "
                  f"{time.monotonic() - begin:.0f} s", flush=True)
    return samples


def check(samples):
    samples = samples[SETTLED:]
    least = [min(s["bytes"] for s in samples[i:i + WINDOW])
             for i in range(0, len(samples) - WINDOW + 1, WINDOW)]
    spread = max(least) - min(least)
    print(f"memory, least of each {WINDOW} cycles from cycle {SETTLED}: first {least[0] / MIB:.2f}, "
          f"last {least[-1] / MIB:.2f}, spread {spread / MIB:.2f} MiB")
    for key in ("fds", "threads"):
        values = sorted({s[key] for s in samples})
        print(f"{key}: {values}")
        # A connection that closes is counted or not: the least must not grow.
        first = min(s[key] for s in samples[:WINDOW])
        last = min(s[key] for s in samples[-WINDOW:])
        assert last <= first, f"{key} grew from {first} to {last}"
    lines = {line for s in samples for line in s["ledger"]}
    for line in sorted(lines):
        values = [s["ledger"].get(line, 0) for s in samples]
        print(f"ledger, {line}: {min(values) / MIB:.2f} to {max(values) / MIB:.2f} MiB, "
              f"last {values[-1] / MIB:.2f}")
        assert not re.search(rf" ({'|'.join(MODELS)})$", line), f"{line} is left of an unloaded model"
        # Residents of the keeper and the arena are what the budget leaves; the base must not creep.
        if line in ("base", "headroom"):
            grown = min(values[-WINDOW:]) - min(values[:WINDOW])
            assert grown <= MIB, f"{line} grew by {grown / MIB:.2f} MiB"
    assert spread <= MIB, f"memory moved by {spread / MIB:.2f} MiB"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=Path)
    parser.add_argument("--cycles", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-cycles-") as scratch:
        scratch = Path(scratch)
        for network in sorted({"mobilenet_v2"} | {network for network, _ in MODELS.values()}):
            subprocess.run([options.binaries / "tests" / "networks" / "sluice_make_network", network,
                            "--out", scratch / f"{network}.onnx"], check=True)
        with Daemon(options.binaries, configuration(scratch), work=scratch / "work") as daemon:
            daemon.wait_ready()
            samples = run(daemon, scratch, options.cycles, options.seed)
            assert daemon.peak_bytes() <= 256 * MIB, daemon.peak_bytes()
            assert daemon.stop() == 0, daemon.log_text()
    check(samples)
    print(f"{options.cycles} cycles: nothing is left behind")


if __name__ == "__main__":
    main()
