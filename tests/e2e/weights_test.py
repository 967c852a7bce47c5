#!/usr/bin/env python3
"""Weights that take fewer bytes on the disk: what is read for an inference, by how much the answer
changes, and that residents compute with the same bits as what is streamed.

A float network is served with each value of `weights`, streamed whole and resident; one with 16-bit
weights is read in half the bytes of its float twin.

Usage: weights_test.py BUILD_DIR
"""
import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy

from daemon import Daemon, read_outputs, shared, skip

PYTHON = "/usr/bin/python3"  # Debian's, which has the onnx and numpy packages.
# Most bytes of the disk for those in memory, and most change of an answer relative to its largest.
KINDS = {"as_is": (1.0, 0.0), "fp16": (0.52, 0.01), "bf16": (0.52, 0.06), "int8": (0.30, 0.2)}


def configuration(model, weights, max_resident):
    return ("memory: { budget: 1GiB }\ncompute: { threads: 2 }\nmodels:\n"
            f"  - name: net\n    path: {model}\n    weights: {weights}\n"
            f"    max_resident: {max_resident}\n    dims: {{ batch: 1 }}\n")


def serve(binaries, model, weights, max_resident, work):
    """State of the model after one answer, and that answer."""
    with Daemon(binaries, configuration(model, weights, max_resident), work=work) as daemon:
        daemon.wait_ready()
        shutil.rmtree(work / "out", ignore_errors=True)
        daemon.ctl("infer", "net", "--random", 1, "--raw", work / "out")
        return daemon.model("net"), read_outputs(work / "out")


def answer_of(outputs):
    (raw,) = outputs.values()
    return numpy.frombuffer(raw, numpy.float32)


def generate(tools, folder, *options):
    subprocess.run([PYTHON, tools / "gen_models.py", "resnet50", "--seed", "1", "--out", folder,
                    *options], check=True, stdout=subprocess.DEVNULL)
    return next(folder.glob("*.onnx"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("build_dir", type=Path)
    binaries = parser.parse_args().build_dir
    source = shared()
    if source is None:
        skip("no folder of models beside the checkout")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for folder in ("float", "half"):
            (work / folder).mkdir()
        model = generate(source / "tools", work / "float")
        exact = None
        for weights, (most_bytes, most_change) in KINDS.items():
            state, outputs = serve(binaries, model, weights, 0, work)
            resident, same = serve(binaries, model, weights, "1GiB", work)
            assert outputs == same, f"{weights}: resident and streamed answers differ"
            assert resident["last_streamed_bytes"] == 0, resident
            assert state["last_streamed_bytes"] == state["stored_weight_bytes"], state
            share = state["stored_weight_bytes"] / state["weight_bytes"]
            answer = answer_of(outputs)
            exact = answer if exact is None else exact
            change = float(abs(answer - exact).max() / abs(exact).max())
            print(f"{weights}: {state['last_streamed_bytes']} bytes read, {share:.3f} of those in "
                  f"memory; weights changed by {state['weight_rms_error']:.2e} (rms), "
                  f"{state['weight_largest_error']:.2e} (largest), the answer by {change:.2e}; "
                  f"{state['last_latency_seconds'] * 1e3:.1f} ms", flush=True)
            assert share <= most_bytes and change <= most_change
            assert (state["weight_rms_error"] > 0) == (weights != "as_is"), state
        half = generate(source / "tools", work / "half", "--fp16")
        state, outputs = serve(binaries, half, "as_is", 0, work)
        _, same = serve(binaries, half, "as_is", "1GiB", work)
        assert outputs == same, "16-bit weights: resident and streamed answers differ"
        share = state["last_streamed_bytes"] / state["weight_bytes"]
        print(f"16-bit weights: {state['last_streamed_bytes']} bytes read, {share:.3f} of those in "
              "memory", flush=True)
        assert share <= 0.52 and state["weight_rms_error"] == 0, state


if __name__ == "__main__":
    main()
