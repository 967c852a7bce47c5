#!/usr/bin/env python3
"""The cache folder and the models' files at their worst: quota, a full disk, a read-only one, two
daemons on one folder, signals while packing, sources that vanish or change, a great repository.

Usage: disk_test.py BUILD_DIR [--models N] [--only PART ...]
"""
import argparse
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from daemon import MIB, Daemon, read_outputs, write_random_inputs

BUDGET = 96 * MIB


def configuration(models, more=""):
    """`models`: name to (path, further keys)."""
    text = f"memory: {{ budget: {BUDGET} }}\ncompute: {{ threads: 2 }}\n{more}models:\n"
    for name, (path, keys) in models.items():
        text += f"  - name: {name}\n    path: {path}\n"
        text += "".join(f"    {key}\n" for key in keys)
    return text


class Networks:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = binaries, folder

    def make(self, network, seed, path):
        subprocess.run([self.binaries / "tests" / "networks" / "sluice_make_network", network,
                        "--seed", str(seed), "--out", path], check=True, capture_output=True)
        return path

    def get(self, network, seed=1):
        path = self.folder / f"{network}-{seed}.onnx"
        return path if path.exists() else self.make(network, seed, path)


def answer(daemon, name, scratch):
    inputs = scratch / "inputs"
    if not inputs.exists():
        write_random_inputs(daemon.ctl_json("metadata", name), inputs, seed=3)
    daemon.ctl("infer", name, "--inputs", inputs, "--raw", scratch / "out")
    return read_outputs(scratch / "out")


def files(daemon):
    """Names in the cache folder, without the self-tests' records; none may outlive its package."""
    names = sorted(p.name for p in (daemon.work / "cache").iterdir())
    for name in names:
        if name.endswith(".selftest"):
            assert name.replace(".selftest", ".sluice") in names, names
    return [name for name in names if not name.endswith(".selftest")]


def wait_until(condition, what, seconds=60):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.005)


def refused(daemon, name, *texts):
    done = daemon.ctl("load", name, check=False)
    assert done.returncode == 1, done.stdout
    for text in ("failed to load", *texts):
        assert text in done.stderr, f"{text!r} is not in {done.stderr!r}"


def quota(binaries, networks, scratch):
    models = {"a": (networks.get("mobilenet_v2"), ["load: explicit"]),
              "b": (networks.get("mobilenet_v2", 2), ["load: explicit"]),
              "c": (networks.get("mobilenet_v2", 3), ["load: explicit"]),
              "large": (networks.get("resnet50"), ["load: explicit"])}
    with Daemon(binaries, configuration(models, "cache_quota: 32MiB\n"),
                work=scratch / "quota") as daemon:
        daemon.wait_ready()
        foreign = daemon.work / "cache" / "notes.sluice.txt"
        foreign.write_text("mine")
        daemon.ctl("load", "a")
        first = files(daemon)
        daemon.ctl("load", "b")
        refused(daemon, "c", "RESOURCE_EXHAUSTED", "cache_quota 32 MiB")
        refused(daemon, "large", "FAILED_PRECONDITION", "cache_quota, 32 MiB")
        assert answer(daemon, "a", scratch) is not None
        daemon.ctl("unload", "a")
        daemon.ctl("load", "c")
        assert not set(first) - {foreign.name} <= set(files(daemon)), "a's package had to go"
        assert len(files(daemon)) == 3 and foreign.read_text() == "mine", files(daemon)
    print("quota: the least recently used gives way; what does not fit is refused with numbers")


def small_disk(binaries, networks, scratch):
    work = scratch / "small"
    disk = work / "cache"
    disk.mkdir(parents=True)
    mount = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32m,mode=755", "tmpfs", disk],
                           capture_output=True, text=True)
    if mount.returncode != 0:
        print(f"SKIPPED in part: no disk may be mounted here ({mount.stderr.strip()})", flush=True)
        return
    try:
        models = {"net": (networks.get("mobilenet_v2"), []),
                  "other": (networks.get("mobilenet_v2", 2), ["load: explicit"]),
                  "large": (networks.get("resnet50"), ["load: explicit"])}
        with Daemon(binaries, configuration(models), work=work) as daemon:
            daemon.wait_ready()
            before = answer(daemon, "net", scratch)
            refused(daemon, "large", "RESOURCE_EXHAUSTED", "the disk")
            assert len(files(daemon)) == 1, files(daemon)
            # The disk fills by another's hand.
            (disk / "foreign").write_bytes(bytes(12 * MIB))
            refused(daemon, "other", "RESOURCE_EXHAUSTED", "the disk")
            (disk / "foreign").unlink()
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
            refused(daemon, "other", "UNAVAILABLE", "Read-only file system")
            daemon.ctl("unload", "net")
            daemon.ctl("load", "net")
            assert answer(daemon, "net", scratch) == before
            assert len(files(daemon)) == 1, files(daemon)
            subprocess.run(["mount", "-o", "remount,rw", disk], check=True)
            daemon.ctl("load", "other")
            assert daemon.stop() == 0, daemon.log_text()
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
    print("a full and a read-only disk refuse the load and hurt nothing else")


def two_daemons(binaries, networks, scratch):
    models = {"net": (networks.get("mobilenet_v2"), []), "large": (networks.get("resnet50"), [])}
    works = [scratch / "first", scratch / "second"]
    (works[0] / "cache").mkdir(parents=True)
    works[1].mkdir()
    (works[1] / "cache").symlink_to(works[0] / "cache")
    with Daemon(binaries, configuration(models), work=works[0]) as first, \
            Daemon(binaries, configuration(models), work=works[1]) as second:
        first.wait_ready()
        second.wait_ready()
        assert answer(first, "net", scratch) == answer(second, "net", scratch)
        packages = {p: os.stat(p).st_ino for p in works[0].glob("cache/*.sluice")}
        assert len(packages) == 2, packages
        first.stop(signal.SIGKILL)
        for name in models:
            second.ctl("unload", name)
            second.ctl("load", name)
        assert {p: os.stat(p).st_ino for p in packages} == packages, "packed again"
        # By hand, under the daemon that serves.
        for package in packages:
            package.unlink()
        assert answer(second, "net", scratch) is not None
    print("two daemons on one folder: one packs, the other opens; removed by hand, it is served on")


def signals(binaries, networks, scratch):
    models = {"net": (networks.get("mobilenet_v2"), []), "large": (networks.get("resnet50"), [])}
    work = scratch / "signals"
    with Daemon(binaries, configuration(models), work=work) as daemon:
        wait_until(lambda: list(work.glob("cache/*.sluice-build")), "it never packs")
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(30) == 0, daemon.log_text()
        assert not list(work.glob("cache/*.sluice-build")), files(daemon)
    with Daemon(binaries, configuration(models), work=work) as daemon:
        wait_until(daemon.socket.exists, "it never listens")
        for _ in range(100):
            daemon.process.send_signal(signal.SIGHUP)
            time.sleep(0.005)
        daemon.wait_ready()
        daemon.ctl("ready", "large", "--wait", 60)
        assert answer(daemon, "net", scratch) is not None
        threads = len(os.listdir(f"/proc/{daemon.process.pid}/task"))
        for _ in range(100):
            daemon.process.send_signal(signal.SIGHUP)
        assert answer(daemon, "net", scratch) is not None
        assert len(os.listdir(f"/proc/{daemon.process.pid}/task")) <= threads
        assert daemon.stop() == 0, daemon.log_text()
    print("SIGTERM while packing ends clean; 200 SIGHUPs leave it serving")


def sources(binaries, networks, scratch):
    wanted = {}
    for seed in (1, 2):
        with Daemon(binaries, configuration({"net": (networks.get("mobilenet_v2", seed), [])}),
                    work=scratch / f"wanted-{seed}") as daemon:
            daemon.wait_ready()
            wanted[seed] = answer(daemon, "net", scratch)
    assert wanted[1] != wanted[2]
    for how in ("renamed over", "written over"):
        work = scratch / how.replace(" ", "-")
        model = scratch / "model.onnx"
        shutil.copy(networks.get("mobilenet_v2", 1), model)
        with Daemon(binaries, configuration({"net": (model, [])}), work=work) as daemon:
            wait_until(lambda: list(work.glob("cache/*.sluice*")), "it never packs")
            if how == "renamed over":
                shutil.copy(networks.get("mobilenet_v2", 2), scratch / "next.onnx")
                os.replace(scratch / "next.onnx", model)
            else:
                model.write_bytes(networks.get("mobilenet_v2", 2).read_bytes())
            daemon.wait_ready()
            daemon.ctl("load", "net")  # It may have been loaded just before the change.
            assert answer(daemon, "net", scratch) == wanted[2], f"{how}: another answer"
            assert not list(work.glob("cache/*.sluice-build"))
            model.unlink()
            assert answer(daemon, "net", scratch) == wanted[2], "the file is gone: it serves on"
            refused(daemon, "net", "NOT_FOUND", str(model))
            assert answer(daemon, "net", scratch) == wanted[2], "refused: the old one stays"
            daemon.ctl("unload", "net")
            refused(daemon, "net", "NOT_FOUND", str(model))
            assert daemon.stop() == 0, daemon.log_text()
    print("a model that changes while it is packed is never served half; one that vanishes stays")


def great_repository(binaries, networks, scratch, count):
    repository = scratch / "models"
    for i in range(count):
        folder = repository / f"m{i:05}" / "1"
        folder.mkdir(parents=True)
        (folder / "model.onnx").write_bytes(b"no network")
        if i % 2 == 0:
            (folder.parent / "model.yaml").write_text("load: explicit\n")
    (repository / "good" / "1").mkdir(parents=True)
    shutil.copy(networks.get("mobilenet_v2"), repository / "good" / "1" / "model.onnx")
    config = (f"memory: {{ budget: {BUDGET} }}\ncompute: {{ threads: 2 }}\n"
              f"model_repository: {repository}\n")
    with Daemon(binaries, config, work=scratch / "great") as daemon:
        begin = time.monotonic()
        daemon.wait_ready(900)
        took = time.monotonic() - begin
        assert answer(daemon, "good", scratch) is not None
        listing = daemon.ctl_json("models")["models"]
        assert len(listing) == count + 1
        assert all(m["reason"] for m in listing if m["state"] != "READY")
        page = len(daemon.metrics())
        daemon.process.send_signal(signal.SIGHUP)
        assert answer(daemon, "good", scratch) is not None
        peak = daemon.peak_bytes()
        assert peak <= BUDGET, peak
        assert daemon.stop() == 0, daemon.log_text()
    print(f"{count} models in the repository: ready after {took:.1f} s, peak {peak / MIB:.1f} MiB "
          f"of {BUDGET / MIB:.0f}, metrics page {page / 1e6:.1f} MB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=Path)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--only", action="append")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-disk-") as scratch:
        networks = Networks(options.binaries, Path(scratch))
        for test in (quota, small_disk, two_daemons, signals, sources):
            if not options.only or test.__name__ in options.only:
                with tempfile.TemporaryDirectory(prefix="sluice-disk-") as folder:
                    test(options.binaries, networks, Path(folder))
        if not options.only or "great_repository" in options.only:
            with tempfile.TemporaryDirectory(prefix="sluice-disk-") as folder:
                great_repository(options.binaries, networks, Path(folder), options.models)


if __name__ == "__main__":
    main()
