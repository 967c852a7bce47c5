#!/usr/bin/env python3
"""Checks the rules of the tree that a machine can check; prints one line for each breach.

Include direction, words that are banned, machine paths, files that nobody builds, file length, one
title a page. Usage: check_tree.py [--help]; exit 1 on a breach.
"""
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TOP_LEVEL = {
    "CMakeLists.txt", "CMakePresets.json", "README.md", "ARCHITECTURE.md", "LICENSE",
    "base", "planner", "model", "engine", "streamer", "server", "client", "proto",
    "configs", "deploy", "docs", "tests", "cmake",
}
# What a folder may include, beside itself and the system.
MAY_INCLUDE = {
    "base": set(),
    "planner": {"base"},
    "model": {"base", "planner"},
    "engine": {"base", "planner", "model"},
    "streamer": {"base", "planner", "model", "engine"},
    "server": {"base", "planner", "model", "engine", "streamer"},
    "client": {"base"},
    "tests": {"base", "planner", "model", "engine", "streamer", "server", "client"},
}
BANNED_IN_PRODUCT = [
    (r"std::cout", "print through the logger, or from client/"),
    (r"sleep_for|\busleep\(", "wait on a condition or a clock"),
    (r"absl::Mutex\b", "base/mutex.h; the packaged library is uninstrumented"),
    (r"\bstd::(expected|format|source_location)\b", "not in both compilers"),
    (r"\bthrow\s", "errors are absl::Status"),
]
BANNED_ANYWHERE = [
    (r"FIX" r"ME|X" r"XX\b", "finish it, or file an issue and give its number"),
    (r"TO" r"DO(?!\(#\d+\))", "needs an issue number"),
]
MACHINE_PATH = re.compile(r"/(work|workspace|root|tmp)/|/home/\w")
MAX_LINES = 500
TABLES = {  # Long because they are tables.
}


def tracked():
    out = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True)
    return [name for name in out.stdout.split("\n") if name and (ROOT / name).exists()]


def check_includes(name, text, say):
    folder = name.split("/")[0]
    if folder not in MAY_INCLUDE:
        return
    allowed = MAY_INCLUDE[folder] | {folder}
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'#include "([a-z_]+)/', line)
        if match and match[1] in MAY_INCLUDE and match[1] not in allowed:
            say(name, number, f"{folder}/ must not include {match[1]}/")
        if re.match(r'#include [<"].*\.(grpc\.)?pb\.h', line):
            onnx = "onnx" in line and name.startswith(("model/onnx/", "tests/"))
            if folder not in ("server", "client", "tests") and not onnx:
                say(name, number, "messages are seen by server and client alone")


def check_words(name, text, say):
    product = name.split("/")[0] in MAY_INCLUDE and not name.startswith(("tests/", "client/"))
    product = product and not re.search(r"_(test|benchmark|fuzz)\.cc$|/testing/", name)
    rules = BANNED_ANYWHERE + (BANNED_IN_PRODUCT if product else [])
    for number, line in enumerate(text.split("\n"), 1):
        for pattern, why in rules:
            if re.search(pattern, line):
                say(name, number, f"'{re.search(pattern, line)[0].strip()}': {why}")
        if MACHINE_PATH.search(line) and not name.endswith("check_tree.py"):
            say(name, number, "a path of one machine")


def check_built(names, say):
    lists = "\n".join(
        (ROOT / n).read_text() for n in names if n.endswith(("CMakeLists.txt", ".cmake"))
    )
    for name in names:
        if name.endswith((".cc", ".cu")) and not re.search(
                rf"(?<![\w-]){re.escape(Path(name).name)}\b", lists):
            say(name, 1, "no CMakeLists.txt builds it")


def main():
    if "--help" in sys.argv:
        print(__doc__)
        return 0
    breaches = []

    def say(name, number, what):
        breaches.append(f"{name}:{number}: {what}")

    names = tracked()
    for name in names:
        top = name.split("/")[0]
        if top not in TOP_LEVEL and not top.startswith("."):
            say(name, 1, "outside the chosen layout")
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        if not re.search(r"\.(cc|h|cu|cuh|py|sh|md|txt|cmake|yaml|json|proto|service)$|/run$", name):
            continue
        check_words(name, text, say)
        if name.endswith((".cc", ".h", ".cu", ".cuh")):
            check_includes(name, text, say)
            lines = text.count("\n")
            if lines > MAX_LINES and name not in TABLES:
                say(name, lines, f"{lines} lines, want at most {MAX_LINES}: split by noun")
        if name.endswith(".md"):
            body = re.sub(r"```.*?```", "", text, flags=re.S)
            titles = len(re.findall(r"^# ", body, flags=re.M))
            if titles != 1:
                say(name, 1, f"{titles} titles, want one")
    check_built(names, say)
    for breach in breaches:
        print(breach)
    print(f"{len(names)} files, {len(breaches)} breaches")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
