#!/usr/bin/env python3
"""The budget is kept: a ResNet-50-sized network of 102 MB is imported, packed and served in 64 MiB.

First unconfined, where VmHWM + VmSwap must stay within the budget, the first import included; then
in a memory cgroup of that size, where nothing may be killed. Afterwards under 1 MiB of model and
package lies in the page cache.

Usage: budget_test.py BUILD_DIR
"""
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import MIB, Cgroup, Daemon, cached_bytes, read_outputs, write_random_inputs

BUDGET = 64 * MIB


def configuration(model, budget):
    return (f"memory: {{ budget: {budget} }}\ncompute: {{ threads: 2 }}\n"
            f"models:\n  - name: resnet50\n    path: {model}\n")


def serve(binaries, model, work, inputs, out, cgroup=None):
    with Daemon(binaries, configuration(model, BUDGET), work=work, cgroup=cgroup) as daemon:
        daemon.wait_ready()
        if not inputs.exists():
            write_random_inputs(daemon.ctl_json("metadata", "resnet50"), inputs, seed=7)
        for _ in range(5):
            daemon.ctl("infer", "resnet50", "--inputs", inputs, "--raw", out)
        state = daemon.model("resnet50")
        peak = daemon.peak_bytes()
        assert daemon.stop() == 0, daemon.log_text()
    return state, peak


def main():
    binaries = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="sluice-budget-") as scratch:
        scratch = Path(scratch)
        model = scratch / "resnet50.onnx"
        subprocess.run([binaries / "tests" / "networks" / "sluice_make_network", "resnet50",
                        "--out", model], check=True)
        subprocess.run(["sync", model], check=True)
        with open(model, "rb") as file:  # The generator's own pages are not the daemon's.
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        inputs = scratch / "inputs"

        state, peak = serve(binaries, model, scratch / "free", inputs, scratch / "out-free")
        print(f"unconfined: peak {peak / MIB:.1f} MiB of {BUDGET / MIB:.0f}, weights "
              f"{state['weight_bytes'] / MIB:.1f} MiB, resident {state['resident_bytes'] / MIB:.1f}")
        assert state["weight_bytes"] > BUDGET
        assert peak <= BUDGET, f"peak {peak} over the budget of {BUDGET}"
        packages = list((scratch / "free" / "cache").glob("*.sluice"))
        assert len(packages) == 1, packages
        cached = cached_bytes(model) + cached_bytes(packages[0])
        print(f"page cache: {cached / MIB:.2f} MiB of model and package")
        assert cached < MIB

        cgroup = Cgroup.make(BUDGET)
        if cgroup is None:
            print("SKIPPED in part: no memory cgroup may be made here", flush=True)
            return
        try:
            _, peak = serve(binaries, model, scratch / "confined", inputs, scratch / "out-confined",
                            cgroup)
            print(f"in a cgroup of {BUDGET / MIB:.0f} MiB: peak {peak / MIB:.1f} MiB, "
                  f"group's peak {cgroup.peak() / MIB:.1f} MiB, kills {cgroup.kills()}")
            assert cgroup.kills() == 0
            assert peak <= BUDGET
        finally:
            cgroup.remove()
        assert read_outputs(scratch / "out-free") == read_outputs(scratch / "out-confined")


if __name__ == "__main__":
    main()
