#!/usr/bin/env python3
"""For every network: the arena of its activations, before and after. Before is the network as its
file has it, each value in a buffer of its own and in the file's order: the sum, and the best of the
paper's strategies (greedy by size, greedy by breadth). After is what the daemon runs: nodes in the
order that needs least, in-place steps, joined and elided concats, slices and reshapes as names, in
the kernels' own layouts and with their scratch.

Writes the table into docs/benchmarks.md between its markers.

Usage: arenas_benchmark.py BUILD_DIR [--write] [NETWORK ...]
"""
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from benchmarks_page import network_arguments, network_table  # noqa: E402
from daemon import MIB  # noqa: E402
from networks_test import Network, configuration  # noqa: E402

TITLES = ("network", "values", "each in its own place", "the paper's best", "ours",
          "of the paper's", "our plan")


def plan(binaries, config, *options):
    done = subprocess.run([binaries / "server" / "sluiced", "plan", "--config", config, "--json",
                           *options], capture_output=True, text=True)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return json.loads(done.stdout)


def row(binaries, source, name, folder):
    """The network's first case."""
    network = Network(name, source, binaries, folder / name)
    config = network.folder / "plan.yaml"
    config.write_text(configuration(64 * MIB, network.variants()[0].describe()))
    before, after = plan(binaries, config, "--as-written"), plan(binaries, config)
    paper = min(before["offsets"][strategy]["bytes"]
                for strategy in ("greedy_by_size", "greedy_by_breadth")
                if strategy in before["offsets"])
    ours = after["plan"]["bytes"]
    figures = " | ".join(f"{figure / MIB:.3f}" for figure in (before["naive_bytes"], paper, ours))
    return (f"| {name} | {before['records']} | {figures} | {ours / paper:.0%} "
            f"| {after['plan']['certificate']} |")


def main():
    network_table(network_arguments(__doc__.split("\n\n")[0]).parse_intermixed_args(), "arenas",
                  "2 threads, fp32; MiB.", TITLES, row)


if __name__ == "__main__":
    main()
