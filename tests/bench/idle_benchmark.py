#!/usr/bin/env python3
"""CPU time and wakeups of an idle daemon, by thread: a network is loaded, has answered, and nothing
is asked any more. Fails when the daemon takes 0.5 % of one CPU or more.

Usage: idle_benchmark.py BUILD_DIR [--seconds 30] [--write]
"""
import argparse
import datetime
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))
from benchmarks_page import write_section  # noqa: E402
from daemon import MIB, Daemon  # noqa: E402

MOST_PERCENT = 0.5
# After the last answer the daemon gives freed memory back and compares itself with its ledger.
SETTLE_SECONDS = 5


def threads(pid):
    """Thread to its name, nanoseconds on a CPU, and times that it was woken."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        found[task.name] = ((task / "comm").read_text().strip(),
                            int((task / "schedstat").read_text().split()[0]),
                            int(re.search(r"^voluntary_ctxt_switches:\s+(\d+)", status,
                                          flags=re.M)[1]))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=Path)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-idle-") as scratch:
        model = Path(scratch) / "net.onnx"
        subprocess.run([arguments.build / "tests" / "networks" / "sluice_make_network",
                        "mobilenet_v2", "--out", model], check=True)
        config = f"memory: {{ budget: {160 * MIB} }}\nmodels:\n  - name: net\n    path: {model}\n"
        with Daemon(arguments.build, config) as daemon:
            daemon.wait_ready()
            daemon.ctl("infer", "net", "--random", "1")
            time.sleep(SETTLE_SECONDS)
            before = threads(daemon.process.pid)
            time.sleep(arguments.seconds)
            after = threads(daemon.process.pid)
            begin = time.monotonic()
            assert daemon.stop() == 0, daemon.log_text()
            stop_seconds = time.monotonic() - begin
    table = ["| thread | CPU % | wakeups a second |", "|---|---|---|"]
    total = 0.0
    for task, (name, nanoseconds, woken) in sorted(after.items(), key=lambda item: item[1]):
        spent = (nanoseconds - before.get(task, (name, 0, 0))[1]) / 1e7 / arguments.seconds
        wakeups = (woken - before.get(task, (name, 0, 0))[2]) / arguments.seconds
        total += spent
        if wakeups > 0:
            table.append(f"| {name} | {spent:.4f} | {wakeups:.1f} |")
    table += ["", f"{datetime.date.today()}, {os.cpu_count()} cores, {arguments.seconds:.0f} s: "
                  f"{total:.3f} % of one CPU in {len(after)} threads; the daemon stops in "
                  f"{stop_seconds:.2f} s."]
    print("\n".join(table))
    if arguments.write:
        write_section("idle", table)
    if total >= MOST_PERCENT:
        sys.exit(f"{total:.3f} % is not below {MOST_PERCENT} %")


if __name__ == "__main__":
    main()
