#!/usr/bin/env python3
"""Quantised networks beside the same in FP32: weights, activations, process peak and latency, with
every weight resident and with every weight streamed in the smallest budget that inspect promises.

Writes the table into docs/benchmarks.md between its markers.

Usage: bytes_benchmark.py BUILD_DIR [--write] [NETWORK ...]
"""
import statistics
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from benchmarks_page import network_arguments, network_table  # noqa: E402
from daemon import MIB, Daemon  # noqa: E402
from networks_benchmark import processor  # noqa: E402
from networks_test import Network, configuration, ready_state  # noqa: E402

NETWORKS = ("gen_mobilenet_v2", "gen_mobilenet_v2_qdq", "ulfg_rfb320", "ulfg_rfb320_qdq",
            "ulfg_rfb320_qlinear")
RUNS = 15
TITLES = ("network", "weights", "peak activations", "process peak, streamed", "resident",
          "model ms, streamed", "resident")


def measure(binaries, work, variant, budget, max_resident):
    """Peak in bytes and median latency in seconds."""
    with Daemon(binaries, configuration(budget, variant.describe(max_resident)),
                work=work) as daemon:
        ready_state(daemon, variant, budget)
        latencies = []
        for _ in range(RUNS):
            variant.answer(daemon, work / "out")
            latencies.append(daemon.model(variant.name)["last_latency_seconds"])
        return daemon.peak_bytes(), statistics.median(latencies)


def row(binaries, source, name, folder):
    network = Network(name, source, binaries, folder / name)
    variant = network.variants()[0]
    promise = variant.inspect(binaries)
    work = folder / "work"
    streamed = measure(binaries, work, variant, promise["smallest_budget_bytes"], 0)
    resident = measure(binaries, work, variant, promise["largest_useful_budget_bytes"], None)
    sizes = (promise["weight_bytes"], promise["activation_bytes"], streamed[0], resident[0])
    return (f"| {name} | " + " | ".join(f"{size / MIB:.1f}" for size in sizes)
            + f" | {streamed[1] * 1e3:.1f} | {resident[1] * 1e3:.1f} |")


def main():
    network_table(network_arguments(__doc__.split("\n\n")[0]).parse_intermixed_args(), "bytes",
                  f"{processor()}, 2 threads, medians of {RUNS} runs; MiB.", TITLES, row, NETWORKS)


if __name__ == "__main__":
    main()
