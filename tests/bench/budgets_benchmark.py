#!/usr/bin/env python3
"""For every network: its weights, its peak activations, the smallest budget that `sluiced inspect`
promises, and what the process really peaked at in a daemon that had exactly that budget, which
imported, packed and served the network with every weight streamed.

Writes the table into docs/benchmarks.md between its markers.

Usage: budgets_benchmark.py BUILD_DIR [--write] [NETWORK ...]
"""
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from benchmarks_page import network_arguments, network_table  # noqa: E402
from daemon import MIB  # noqa: E402
from networks_benchmark import processor  # noqa: E402
from networks_test import Network, run_within  # noqa: E402

TITLES = ("network", "weights", "peak activations", "each tensor in its own place",
          "smallest budget, promised", "process peak in it", "of it")


def row(binaries, source, name, folder):
    """The network's first case."""
    network = Network(name, source, binaries, folder / name)
    variant = network.variants()[0]
    promise = variant.inspect(binaries)
    budget = promise["smallest_budget_bytes"]
    _, state, peak = run_within(binaries, folder / "work", variant, budget, 0)
    assert state["resident_bytes"] == 0, state
    figures = [promise["weight_bytes"], promise["activation_bytes"],
               promise["naive_activation_bytes"], budget, peak]
    return (f"| {name} | " + " | ".join(f"{figure / MIB:.1f}" for figure in figures)
            + f" | {peak / budget:.0%} |")


def main():
    network_table(network_arguments(__doc__.split("\n\n")[0]).parse_intermixed_args(), "budgets",
                  f"{processor()}, 2 threads, fp32; MiB.", TITLES, row)


if __name__ == "__main__":
    main()
