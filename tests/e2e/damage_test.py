#!/usr/bin/env python3
"""Nothing wrong is ever computed from damaged data, and nothing damaged stops the daemon.

Packages truncated or with flipped bits are rebuilt or refused, and the answer is the right one or
DATA_LOSS; a thousand mutated and truncated models each get an error or load, while a good one is
served; kill -9 at random moments leaves a daemon that starts clean.

Usage: damage_test.py BUILD_DIR [--kills N] [--seed S] [--only-kills]
"""
import argparse
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from daemon import MIB, Daemon, read_outputs, write_random_inputs

MUTATIONS = 1000


def configuration(model, more=""):
    return (f"memory: {{ budget: {64 * MIB} }}\ncompute: {{ threads: 2 }}\n"
            f"models:\n  - name: net\n    path: {model}\n{more}")


def make_network(binaries, name, path):
    subprocess.run([binaries / "tests" / "networks" / "sluice_make_network", name, "--out", path],
                   check=True)


def package_of(work):
    packages = list((work / "cache").glob("*.sluice"))
    assert len(packages) == 1, packages
    return packages[0]


def answer(daemon, inputs, out):
    """The outputs, or None when the daemon said DATA_LOSS or that the model is being rebuilt."""
    done = daemon.ctl("infer", "net", "--inputs", inputs, "--raw", out, check=False)
    if done.returncode == 0:
        return read_outputs(out)
    assert "DATA_LOSS" in done.stderr or "UNAVAILABLE" in done.stderr, done.stderr
    return None


def damaged_packages(binaries, scratch):
    model = scratch / "net.onnx"
    make_network(binaries, "mobilenet_v2", model)
    work, inputs = scratch / "work", scratch / "inputs"
    with Daemon(binaries, configuration(model), work=work) as daemon:
        daemon.wait_ready()
        write_random_inputs(daemon.ctl_json("metadata", "net"), inputs, seed=3)
        right = answer(daemon, inputs, scratch / "out")
    good = package_of(work).read_bytes()
    draw = random.Random(11)
    damages = [("truncated", draw.randrange(len(good))) for _ in range(6)]
    damages += [("truncated", 0), ("truncated", len(good) - 1)]
    damages += [("flipped", draw.randrange(len(good))) for _ in range(12)]
    damages += [("flipped", at) for at in (0, 9, 64, 4096)]
    for kind, at in damages:
        path = package_of(work)
        if kind == "truncated":
            path.write_bytes(good[:at])
        else:
            path.write_bytes(good[:at] + bytes([good[at] ^ 0x10]) + good[at + 1:])
        with Daemon(binaries, configuration(model), work=work) as daemon:
            daemon.wait_ready()
            got = answer(daemon, inputs, scratch / "out")
            until = time.monotonic() + 60
            while got is None and time.monotonic() < until:  # Rebuilt in the background.
                time.sleep(0.2)
                got = answer(daemon, inputs, scratch / "out")
            assert got == right, f"{kind} at {at}: another answer\n{daemon.log_text()}"
    print(f"{len(damages)} damaged packages: each rebuilt or refused, never another answer")

    # Damage under a running daemon: extents that stream are verified at every inference.
    with Daemon(binaries, configuration(model, "    max_resident: 0\n"), work=work) as daemon:
        daemon.wait_ready()
        assert answer(daemon, inputs, scratch / "out") == right
        with open(package_of(work), "r+b") as file:
            for at in range(8192, len(good), 65536):
                file.seek(at)
                byte = file.read(1)
                file.seek(at)
                file.write(bytes([byte[0] ^ 1]))
        for _ in range(3):
            got = answer(daemon, inputs, scratch / "out")
            assert got is None or got == right, "another answer from a package damaged while open"
        assert daemon.process.poll() is None
    print("package damaged under a running daemon: never another answer")


def mutated_models(binaries, scratch):
    seed_model = scratch / "seed.onnx"
    make_network(binaries, "mobilenet_v2", seed_model)
    good = seed_model.read_bytes()
    # The head and the tail hold the structure; the middle is weights.
    draw = random.Random(5)
    repository = scratch / "models"
    small = good[:20000]
    for i in range(MUTATIONS):
        folder = repository / f"m{i:04}" / "1"
        folder.mkdir(parents=True)
        data = bytearray(small)
        kind = i % 4
        if kind == 0:
            data = data[:draw.randrange(len(data))]
        else:
            for _ in range(draw.choice((1, 2, 8, 64))):
                data[draw.randrange(len(data))] = draw.randrange(256)
            if kind == 3:
                at = draw.randrange(len(data))
                data[at:at] = bytes(draw.randrange(256) for _ in range(draw.randrange(1, 32)))
        (folder / "model.onnx").write_bytes(data)
    (repository / "good" / "1").mkdir(parents=True)
    (repository / "good" / "1" / "model.onnx").write_bytes(good)
    config = (f"memory: {{ budget: {96 * MIB} }}\ncompute: {{ threads: 2 }}\n"
              f"model_repository: {repository}\n")
    with Daemon(binaries, config, work=scratch / "mutated") as daemon:
        daemon.wait_ready(600)
        listing = daemon.ctl_json("models")["models"]
        states = {m["name"]: m for m in listing}
        assert len(states) == MUTATIONS + 1, len(states)
        refused = [m for m in listing if m["state"] == "UNAVAILABLE"]
        assert all(m["reason"] for m in refused), "a refused model without a reason"
        assert states["good"]["state"] == "READY", states["good"]
        daemon.ctl("infer", "good", "--random", "1")
        print(f"{MUTATIONS} mutated models: {len(refused)} refused with a reason, daemon serves")
        assert daemon.stop() == 0


def stale_files(work):
    """What a start must have removed: everything but packages and the records of their self-tests."""
    cache = work / "cache"
    if not cache.exists():
        return []
    return [p.name for p in cache.iterdir() if p.suffix != ".sluice" and
            not (p.suffix == ".selftest" and p.with_suffix(".sluice").exists())]


def killed(binaries, scratch, kills, seed):
    """Kill -9 at a random moment of import, pack or serve; the next start must be clean."""
    print(f"kills: {kills}, seed {seed}", flush=True)
    networks = {"net": "mobilenet_v2", "large": "resnet50"}
    for network in networks.values():
        if not (scratch / f"{network}.onnx").exists():
            make_network(binaries, network, scratch / f"{network}.onnx")
    config = (f"memory: {{ budget: {96 * MIB} }}\ncompute: {{ threads: 2 }}\nmodels:\n" +
              "".join(f"  - name: {name}\n    path: {scratch / network}.onnx\n"
                      for name, network in networks.items()))
    work, inputs = scratch / "killed", scratch / "kill-inputs"
    draw = random.Random(seed)
    right, moments = {}, {"importing": 0, "packing": 0, "serving": 0}
    for i in range(kills):
        # Packing takes longer than the rest, so it is entered afresh every other time.
        if i % 2 == 0:
            shutil.rmtree(work / "cache", ignore_errors=True)
        daemon = Daemon(binaries, config, work=work).start()
        time.sleep(draw.uniform(0.01, 1.5))
        daemon.stop(signal.SIGKILL)
        shutil.rmtree(daemon.socket.parent, ignore_errors=True)
        cache = work / "cache"
        left = sorted(p.name for p in cache.iterdir()) if cache.exists() else []
        moment = ("packing" if any(n.endswith(".sluice-build") for n in left) else
                  "serving" if len(left) == len(networks) else "importing")
        moments[moment] += 1
        with Daemon(binaries, config, work=work) as daemon:
            daemon.wait_ready()
            assert not stale_files(work), f"kill {i}: {stale_files(work)}"
            for name in networks:
                folder = inputs / name
                if not folder.exists():
                    write_random_inputs(daemon.ctl_json("metadata", name), folder, seed=3)
                daemon.ctl("infer", name, "--inputs", folder, "--raw", scratch / "out")
                got = read_outputs(scratch / "out")
                assert right.setdefault(name, got) == got, f"kill {i}: another answer of {name}"
            assert daemon.stop() == 0, daemon.log_text()
        packages = list(cache.glob("*.sluice"))
        assert len(packages) == len(networks), packages
        if i % 20 == 19:
            print(f"kill {i + 1}: {moments}", flush=True)
    print(f"killed {kills} times ({moments}): each next start is clean and answers right")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("binaries", type=Path)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=17)
    parser.add_argument("--only-kills", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sluice-damage-") as scratch:
        scratch = Path(scratch)
        if not options.only_kills:
            damaged_packages(options.binaries, scratch)
            mutated_models(options.binaries, scratch)
        killed(options.binaries, scratch, options.kills, options.seed)


if __name__ == "__main__":
    main()
