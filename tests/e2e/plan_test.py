#!/usr/bin/env python3
"""What `sluiced plan` says of a model: weights and activations in one arena.

The plan is checked here byte by byte, from the JSON alone; it takes less than the split that it
replaces and not more than was allowed; the frontier falls; the picture is well-formed and shows
every rectangle; what cannot be written is an error and costs nothing.

Usage: plan_test.py BUILD_DIR
"""
import json
import resource
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from pathlib import Path

MIB = 1 << 20
PAGE = 4096
SVG = "{http://www.w3.org/2000/svg}"


def plan(binaries, *arguments, code=0):
    done = subprocess.run([binaries / "server" / "sluiced", "plan", *map(str, arguments)],
                          capture_output=True, text=True, errors="replace")
    assert done.returncode == code, f"{arguments}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    return done


def boxes(joint):
    """(low, high, from, until, name) of all that the arena holds."""
    for buffer in joint["plan"]["buffers"]:
        yield (buffer["offset"], buffer["offset"] + buffer["size"], buffer["lower"],
               buffer["upper"], buffer["id"])
    for extent in joint["plan"]["extents"]:
        if extent["resident"]:
            continue
        begin = 0 if extent["gate"] is None else extent["gate"] + 1
        assert begin <= extent["lower"], f"read after it is needed: {extent}"
        assert extent["offset"] % PAGE == 0 and extent["size"] % PAGE == 0, extent
        yield (extent["offset"], extent["offset"] + extent["size"], begin, extent["upper"],
               extent["id"])


def assert_right(joint):
    everything = list(boxes(joint))
    assert max(box[1] for box in everything) <= joint["plan"]["arena_bytes"]
    for i, (low, high, begin, end, name) in enumerate(everything):
        for other in everything[:i]:
            apart = (end <= other[2] or other[3] <= begin or high <= other[0] or other[1] <= low)
            assert apart or low == high or other[0] == other[1], f"{name} and {other[4]} share bytes"
    streamed = [e["size"] for e in joint["plan"]["extents"] if not e["resident"]]
    assert joint["plan"]["read_bytes"] == sum(streamed)
    assert joint["plan"]["resident_bytes"] == joint["weight_bytes"] - sum(streamed)


def assert_falls(frontier):
    assert len(frontier) >= 12, frontier
    for before, point in zip(frontier, frontier[1:]):
        assert point["memory_bytes"] > before["memory_bytes"], frontier
        assert point["predicted_seconds"] <= before["predicted_seconds"], frontier
    assert frontier[-1]["read_bytes"] == 0 and frontier[-1]["stall_seconds"] == 0


def plan_of_network(binaries, model, scratch):
    picture = scratch / "plan.svg"
    quick = ("--threads", 2, "--time-limit", "200ms", "--json")
    # A fast disk: computing takes longer than reading.
    said = json.loads(plan(binaries, model, *quick, "--frontier", "--read-rate", "5GB", "--picture",
                           picture).stdout)
    joint = said["joint"]
    assert joint["step_times"] == "estimated"
    assert_right(joint)
    assert_falls(joint["frontier"])
    chosen = joint["plan"]
    assert chosen["predicted_seconds"] <= 1.051 * joint["compute_seconds"], chosen
    assert chosen["memory_bytes"] < 0.9 * joint["split_memory_bytes"], joint
    assert joint["compute_seconds"] <= joint["back_to_back_seconds"] <= chosen["predicted_seconds"]
    assert joint["least_memory_bytes"] <= joint["split_least_bytes"]
    assert joint["least_memory_bytes"] <= 1.01 * joint["least_bound_bytes"], joint
    root = ElementTree.parse(picture).getroot()
    titles = [title.text for title in root.iter(f"{SVG}title")]
    for kind in ("weights of", "bytes"):
        assert any(kind in title for title in titles)
    streamed = sum(not extent["resident"] for extent in chosen["extents"])
    assert len(titles) >= len(chosen["buffers"]) + streamed, (len(titles), streamed)
    texts = " ".join(text.text for text in root.iter(f"{SVG}text"))
    assert "peak" in texts and "activations" in texts and "weights in use" in texts, texts

    memory = (joint["least_memory_bytes"] + 2 * MIB) // PAGE * PAGE
    within = json.loads(plan(binaries, model, *quick, "--memory", memory).stdout)["joint"]
    assert_right(within)
    assert within["plan"]["memory_bytes"] <= memory
    less = joint["least_memory_bytes"] - PAGE
    assert str(joint["least_memory_bytes"]) in plan(binaries, model, "--threads", 2, "--memory",
                                                    less, code=3).stderr
    text = plan(binaries, model, "--threads", 2, "--time-limit", "200ms", "--measure",
                "--frontier").stdout
    assert "measured here" in text and "frontier" in text and "the split" in text, text
    print(f"{model.name}: {chosen['memory_bytes'] / MIB:.2f} MiB, the split "
          f"{joint['split_memory_bytes'] / MIB:.2f}, everything "
          f"{(joint['activation_bytes'] + joint['weight_bytes']) / MIB:.2f}")


def wrong_options(binaries, model):
    for option, value in (("--memory", "much"), ("--read-rate", "0"), ("--read-latency", "soon")):
        assert option in plan(binaries, model, option, value, code=2).stderr
    assert "weights" in plan(binaries, "records.csv", "--frontier", code=2).stderr
    assert "weights" in plan(binaries, model, "--as-written", "--memory", "9MiB", code=2).stderr


def outputs(binaries, scratch):
    """What cannot be written is an error and costs nothing that was there."""
    records, out, picture = scratch / "r.csv", scratch / "plan.csv", scratch / "plan.svg"
    # A name that is no UTF-8.
    records.write_bytes(b"id,lower,upper,size\n" +
                        b"".join(b"\xff%d,%d,%d,64\n" % (i, i, i + 2) for i in range(100)))
    before = records.read_bytes()
    assert "--out" in plan(binaries, records, "--out", records, code=2).stderr
    assert "--picture" in plan(binaries, records, "--out", out, "--picture", out, code=2).stderr
    assert records.read_bytes() == before and not out.exists()
    with open("/dev/full", "w") as full:
        done = subprocess.run([binaries / "server" / "sluiced", "plan", records], stdout=full)
    assert done.returncode == 1
    out.write_text("precious")
    limited = subprocess.run(
        [binaries / "server" / "sluiced", "plan", records, "--out", out], capture_output=True,
        restore_signals=False,  # Python ignores SIGXFSZ, and so does what it starts.
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512)))
    assert limited.returncode == 4 and str(out) in limited.stderr.decode(errors="replace")
    assert out.read_text() == "precious" and not list(scratch.glob("*.part"))
    json.loads(plan(binaries, records, "--json", "--out", out, "--picture", picture).stdout)
    assert len(out.read_bytes().splitlines()) == 101
    assert len(list(ElementTree.parse(picture).getroot().iter(SVG + "rect"))) >= 100


def main():
    binaries = Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="sluice-plan-") as scratch:
        scratch = Path(scratch)
        model = scratch / "resnet50.onnx"
        subprocess.run([binaries / "tests" / "networks" / "sluice_make_network", "resnet50", "--out",
                        model], check=True, stderr=subprocess.DEVNULL)
        plan_of_network(binaries, model, scratch)
        wrong_options(binaries, model)
        outputs(binaries, scratch)


if __name__ == "__main__":
    main()
