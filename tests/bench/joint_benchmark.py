#!/usr/bin/env python3
"""For every network: what the joint arena takes, beside the split of activations and a ring.

Least memory, and the memory with which the predicted latency is at most 5 % above everything
resident, for two disks. Step times are the estimates of `sluiced plan`, so that the table is the
same wherever it is made; --measure takes this machine's.

Writes the table into docs/benchmarks.md between its markers.

Usage: joint_benchmark.py BUILD_DIR [--measure] [--write] [NETWORK ...]
"""
import json
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from benchmarks_page import JUDGED, network_arguments, network_table  # noqa: E402
from daemon import MIB  # noqa: E402
from networks_test import Network  # noqa: E402

RATES = ("1.5GB", "5GB")
TITLES = ["network", "weights", "activations", "least: split", "least: joint", "lower bound"]
for rate in RATES:
    TITLES += [f"{rate}/s: split", "joint", "less than split", "less than resident"]
# Without a judged case, so not in the groups.
UNJUDGED = ("resnet152", "bert_base")


def configuration(binaries, source, name, folder):
    """The network's first case, as a model of a configuration."""
    if name in UNJUDGED:
        model = folder / f"{name}.onnx"
        subprocess.run([binaries / "tests" / "networks" / "sluice_make_network", name, "--out",
                        model], check=True, stderr=subprocess.DEVNULL)
        return f"models:\n  - name: {name}\n    path: {model}\n"
    network = Network(name, source, binaries, folder / name)
    return "models:\n" + network.variants()[0].describe()


def plan(binaries, config, rate, measure):
    arguments = ["--config", config, "--json", "--time-limit", "1s", "--read-rate", rate]
    done = subprocess.run([binaries / "server" / "sluiced", "plan", *arguments,
                           *(["--measure"] if measure else [])], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{config.read_text()}{done.stderr}")
    return json.loads(done.stdout)["joint"]


def row(binaries, source, name, folder, measure):
    config = folder / "plan.yaml"
    config.write_text("memory: { budget: 64MiB }\ncompute: { threads: 2 }\n"
                      + configuration(binaries, source, name, folder))
    cells = []
    for rate in RATES:
        joint = plan(binaries, config, rate, measure)
        everything = joint["activation_bytes"] + joint["weight_bytes"]
        memory = joint["plan"]["memory_bytes"]
        split = joint["split_memory_bytes"] or everything
        if not cells:
            cells = [f"{joint[key] / MIB:.2f}" for key in (
                "weight_bytes", "activation_bytes", "split_least_bytes", "least_memory_bytes",
                "least_bound_bytes")]
        cells += [f"{split / MIB:.2f}", f"{memory / MIB:.2f}", f"{1 - memory / split:.1%}",
                  f"{1 - memory / everything:.1%}"]
    return f"| {name} | " + " | ".join(cells) + " |"


def main():
    parser = network_arguments(__doc__.split("\n\n")[0])
    parser.add_argument("--measure", action="store_true")
    arguments = parser.parse_intermixed_args()
    times = "step times measured" if arguments.measure else "estimated step times"
    network_table(arguments, "joint", f"2 threads, fp32, {times}; MiB.", TITLES,
                  lambda *network: row(*network, arguments.measure), JUDGED + list(UNJUDGED))


if __name__ == "__main__":
    main()
