#!/usr/bin/env python3
"""Threads are those that ARCHITECTURE.md names, before and after work, and as many compute as the
machine, a CPU set and a quota leave to the process.

Usage: threads_test.py BUILD_DIR
"""
import collections
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import MIB, Daemon

# Ours by name and number; `compute` comes on top.
OURS = {"sluiced": 1, "reader": 1, "loader": 1, "sweeper": 1, "front door": 1}
# Libraries' threads are few, whatever is asked.
MOST_OTHERS = 24


def threads(daemon):
    tasks = Path(f"/proc/{daemon.process.pid}/task")
    return collections.Counter((tasks / t / "comm").read_text().strip() for t in os.listdir(tasks))


def check(names, compute, pool):
    ours = dict(OURS, compute=compute, **({"disk": pool} if pool else {}))
    assert {name: names[name] for name in ours} == ours, (names, ours)
    others = sum(names.values()) - sum(ours.values())
    assert others <= MOST_OTHERS, names


def are_those_that_are_named(binaries, model, io_uring):
    config = (f"memory: {{ budget: {160 * MIB} }}\ncompute: {{ threads: 3 }}\n"
              f"storage: {{ io_uring: {'true' if io_uring else 'false'} }}\n"
              f"models:\n  - name: net\n    path: {model}\n    max_resident: 0\n")
    with Daemon(binaries, config) as daemon:
        daemon.wait_ready()
        pool = 4 if daemon.status()["device"] == "thread pool" else 0
        check(threads(daemon), 3, pool)
        callers = [subprocess.Popen([binaries / "client" / "sluicectl", "--address",
                                     daemon.address, "infer", "net", "--random", "1"],
                                    stdout=subprocess.DEVNULL) for _ in range(8)]
        assert all(caller.wait(120) == 0 for caller in callers)
        daemon.metrics()
        names = threads(daemon)
        print(f"{daemon.status()['device']}: {sum(names.values())} threads: {dict(names)}",
              flush=True)
        check(names, 3, pool)
        assert daemon.stop() == 0, daemon.log_text()


class QuotaGroup:
    """A cgroup with one and a half CPUs, version 1 or 2. `make` is None where that is not allowed."""

    def __init__(self, path):
        self.path = path

    @staticmethod
    def make():
        name = f"sluice-threads-{os.getpid()}"
        for base, files in ((Path("/sys/fs/cgroup/cpu"), {"cpu.cfs_period_us": "100000",
                                                          "cpu.cfs_quota_us": "150000"}),
                            (Path("/sys/fs/cgroup"), {"cpu.max": "150000 100000"})):
            try:
                (base / name).mkdir()
            except OSError:
                continue
            try:
                for file, text in files.items():
                    (base / name / file).write_text(text)
                return QuotaGroup(base / name)
            except OSError:
                (base / name).rmdir()
        return None

    def enter(self):
        (self.path / "cgroup.procs").write_text(str(os.getpid()))


class OneCpu:
    """Quacks like a cgroup: the process may use one CPU."""

    def enter(self):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def chosen(binaries, group):
    with Daemon(binaries, "memory: { budget: 100MiB }\n", cgroup=group) as daemon:
        daemon.wait_ready()
        said = re.findall(r"compute threads (\d+), set by (\w+) \((.*)\)", daemon.log_text())
        assert len(said) == 1, daemon.log_text()
        names = threads(daemon)
        print(said[0], flush=True)
        assert names["compute"] == int(said[0][0]), names
        assert daemon.stop() == 0, daemon.log_text()
    return int(said[0][0]), said[0][1]


def follow_the_limits(binaries):
    cpus = len(os.sched_getaffinity(0))
    assert chosen(binaries, None) in ((cpus, "affinity"), (cpus, "quota"))
    assert chosen(binaries, OneCpu()) == (1, "affinity")
    group = QuotaGroup.make()
    if group is None or cpus < 2:
        print("SKIPPED in part: no CPU cgroup may be made here, or it has one CPU", flush=True)
        return
    try:
        assert chosen(binaries, group) == (1, "quota")
    finally:
        group.path.rmdir()


def main():
    binaries = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="sluice-threads-") as scratch:
        model = Path(scratch) / "net.onnx"
        subprocess.run([binaries / "tests" / "networks" / "sluice_make_network", "mobilenet_v2",
                        "--out", model], check=True)
        for io_uring in (True, False):
            are_those_that_are_named(binaries, model, io_uring)
    follow_the_limits(binaries)


if __name__ == "__main__":
    main()
