#!/usr/bin/env python3
"""Plans of hard instances: `sluiced plan` on public benchmarks and on generated ones, each plan
checked here, beside the lowest height that others reached.

The public instances are read from the shared folder where it is beside the checkout; the generated
ones are made by planner/make_instance. Each runs in a process of its own; seconds are CPU time of
that process, so that other work on the machine counts little, and reading and writing are in it.
Exit 1 when a plan is wrong or above the best known height of others.

Usage: plans_benchmark.py BUILD_DIR [--time-limit 10s] [--threads 1] [--only TEXT] [--write]

  --only TEXT  instances with TEXT in their names
  --write      put the table into docs/benchmarks.md; otherwise print it
"""
import argparse
import bisect
import csv
import datetime
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from benchmarks_page import write_section  # noqa: E402
from daemon import MIB, shared  # noqa: E402
from networks_benchmark import processor  # noqa: E402

FAMILIES = ("training", "skip", "decoder", "loose", "perfect")
TITLES = ("instance", "records", "lower bound, MiB", "best greedy", "the plan", "certificate",
          "CPU s", "peak MiB", "best of others")


def read(path, *columns):
    with open(path, newline="") as file:
        return [tuple(row[0] if name == "id" else int(row[i]) for i, name in columns)
                for columns in [columns_of(file, columns)]
                for row in csv.reader(file)]


def columns_of(file, names):
    header = next(csv.reader([file.readline()]))
    return [(header.index(name), name) for name in names]


def mistake(instance, plan):
    """What is wrong with the plan of the instance: None when nothing is."""
    records = {row[0]: row[1:] for row in read(instance, "id", "lower", "upper", "size")}
    offsets = dict(read(plan, "id", "offset"))
    if records.keys() != offsets.keys():
        return "other ids than the instance"
    events = []
    for name, (lower, upper, size) in records.items():
        if size:
            events += [(lower, 1, name), (upper, 0, name)]
    alive = []  # (first byte, end), apart from each other and in order.
    for _, begins, name in sorted(events):
        box = (offsets[name], offsets[name] + records[name][2])
        place = bisect.bisect_left(alive, box)
        if not begins:
            del alive[place]
            continue
        before, after = alive[place - 1:place], alive[place:place + 1]
        if (before and before[0][1] > box[0]) or (after and after[0][0] < box[1]):
            return f"record {name} shares bytes"
        alive.insert(place, box)
    return None


def highest_end(instance, plan):
    sizes = dict(read(instance, "id", "size"))
    return max((offset + sizes[name] for name, offset in read(plan, "id", "offset")), default=0)


def measure(binaries, instance, folder, options):
    plan, out = folder / "plan.csv", folder / "out.json"
    with open(out, "w") as file:
        process = subprocess.Popen(
            [binaries / "server" / "sluiced", "plan", instance, "--json", "--out", plan,
             "--time-limit", options.time_limit, "--threads", str(options.threads)], stdout=file)
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"{instance}: exit {process.returncode}"
    report = json.loads(out.read_text())
    wrong = mistake(instance, plan)
    assert wrong is None, f"{instance}: {wrong}"
    assert highest_end(instance, plan) == report["plan"]["bytes"], instance
    return {"records": report["records"], "bound": report["lower_bound_bytes"],
            "greedy": min(row["bytes"] for row in report["offsets"].values()),
            "bytes": report["plan"]["bytes"], "certificate": report["plan"]["certificate"],
            "seconds": usage.ru_utime + usage.ru_stime, "peak": usage.ru_maxrss * 1024}


def row(name, found, other):
    """`other`: what others reached in bytes and MiniMalloc's seconds at the bound, or None."""
    bound = max(found["bound"], 1)
    beside = ""
    if other:
        seconds = f", MiniMalloc {other[1]} s" if other[1] else ""
        beside = f"{other[0] / bound:.4f}{seconds}"
    return (f"| {name} | {found['records']} | {found['bound'] / MIB:.2f} "
            f"| {found['greedy'] / bound:.4f} | {found['bytes'] / bound:.4f} "
            f"| {found['certificate']} | {found['seconds']:.2f} | {found['peak'] / MIB:.0f} "
            f"| {beside} |")


def public_instances(source):
    """Name, file, and what others reached."""
    with open(source / "best.csv", newline="") as file:
        for known in csv.DictReader(file):
            yield (known["instance"].split("/")[1].removesuffix(".1048576"),
                   source / (known["instance"] + ".csv"),
                   (int(known["best_known"]), known["minimalloc_seconds"]))


def generated_instances(binaries, folder):
    wanted = [(family, count, 7) for count in (400, 3000, 100000) for family in FAMILIES]
    wanted += [("loose", count, seed) for count in (150, 250, 400, 1000) for seed in (1, 2, 3)]
    for family, count, seed in wanted:
        path = folder / "instance.csv"
        with open(path, "w") as file:
            subprocess.run([binaries / "planner" / "sluice_make_instance", family, str(count),
                            str(seed)], check=True, stdout=file)
        yield f"{family} {count}, seed {seed}", path, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--time-limit", default="10s")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--only", default="")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    table = [f"{datetime.date.today()}, {processor()}, --time-limit {options.time_limit}, "
             f"--threads {options.threads}.", "",
             "| " + " | ".join(TITLES) + " |", "|---|" + "---:|" * 4 + "---|" + "---:|" * 2 + "---|"]
    worse = []
    with tempfile.TemporaryDirectory(prefix="sluice-bench-") as name:
        folder = Path(name)
        instances = []
        if shared() is None:
            print("SKIPPED: public instances, the shared folder is not beside this checkout")
        else:
            instances = public_instances(shared() / "data" / "planner")
        for source in (instances, generated_instances(options.build, folder)):
            for name, path, other in source:
                if options.only not in name:
                    continue
                found = measure(options.build, path, folder, options)
                table.append(row(name, found, other))
                print(table[-1], flush=True)
                if other and found["bytes"] > other[0]:
                    worse.append(name)
    if options.write:
        write_section("plans", table)
    if worse:
        print("above the best of others: " + ", ".join(worse))
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
