#!/usr/bin/env python3
"""Every required network answers over gRPC from another process within the tolerance of its
case.json, and gives the same bits resident and streamed under three budgets.

Usage: networks_test.py BUILD_DIR [NETWORK ...]
"""
import subprocess
import sys
import tempfile
from pathlib import Path

from daemon import MIB, Daemon, read_outputs, shared, skip

PYTHON = "/usr/bin/python3"  # Debian's, which has the onnx and numpy packages.

# Name, file (made by gen_models.py where a recipe stands), dims by case.
STORED = ("mnist_cnn", "mobilenet_v2_050_128", "ulfg_rfb320", "ppocr_v4_det", "light_resnet50")
GENERATED = {
    "gen_resnet50": ("resnet50", []),
    "gen_resnet50_dyn_ext": ("resnet50", ["--dynamic", "--external"]),
    "gen_mobilenet_v2": ("mobilenet_v2", []),
}


def make_model(name, folder, source):
    if name in STORED:
        return source / "models" / name / "model.onnx"
    network, options = GENERATED[name]
    out = folder / name / "made"
    out.mkdir(parents=True)
    subprocess.run([PYTHON, source / "tools" / "gen_models.py", network, "--seed", "1", "--out",
                    out, *options], check=True, stdout=subprocess.DEVNULL)
    return next(out.glob("*.onnx"))


def cases(name, source):
    import json
    return json.loads((source / "models" / name / "case.json").read_text())["cases"]


def dims_of(case):
    """Every dimension by its place, which any model accepts."""
    return {f"{tensor['name']}[{axis}]": size
            for tensor in case["inputs"] for axis, size in enumerate(tensor["shape"])}


def configuration(budget, model, name, dims, max_resident):
    lines = [f"memory: {{ budget: {budget} }}", "compute: { threads: 2 }", "models:",
             f"  - name: {name}", f"    path: {model}"]
    if max_resident is not None:
        lines.append(f"    max_resident: {max_resident}")
    lines.append("    dims:")
    lines += [f'      "{key}": {value}' for key, value in dims.items()]
    return "\n".join(lines) + "\n"


def run_once(binaries, work, model, name, case, inputs, out, budget, max_resident=None):
    config = configuration(budget, model, name, dims_of(case), max_resident)
    with Daemon(binaries, config, work=work) as daemon:
        daemon.wait_ready()
        daemon.ctl("infer", name, "--inputs", inputs, "--raw", out)
        memory = daemon.status()
        this = next(m for m in memory["models"] if m["name"] == name)
        return memory, this, daemon.peak_bytes()


def check_network(binaries, source, name, scratch):
    case_dir = source / "models" / name
    model = make_model(name, scratch, source)
    subprocess.run([PYTHON, source / "tools" / "judge_case.py", "--inputs", case_dir,
                    source / "models" / "_inputs", scratch / name / "in"], check=True)
    judged = scratch / name / "out"
    for case in cases(name, source):
        inputs = scratch / name / "in" / case["id"]
        work = scratch / name / f"work-{case['id']}"
        memory, this, _ = run_once(binaries, work, model, name, case, inputs, judged / case["id"],
                                   1024 * MIB)
        assert this["resident_bytes"] == this["weight_bytes"], this
        whole = read_outputs(judged / case["id"])
        # The least that runs beside what import takes; a middle; and, because a small network is
        # resident in any budget that lets it load, nothing resident at all.
        fixed = memory["reserved_bytes"] - this["weight_bytes"]
        streamed = []
        for share, max_resident in ((0.1, None), (0.5, None), (1, 0)):
            budget = fixed + int(this["weight_bytes"] * share) + 12 * MIB
            out = scratch / name / f"out-{share}"
            _, part, peak = run_once(binaries, work, model, name, case, inputs, out, budget,
                                     max_resident)
            assert peak <= budget, f"{name}: peak {peak} over the budget of {budget}"
            assert read_outputs(out) == whole, f"{name}/{case['id']}: other bits at {budget} bytes"
            if max_resident == 0:
                assert part["resident_bytes"] == 0 and part["last_streamed_bytes"] > 0, part
            streamed.append(f"{part['resident_bytes'] / max(1, part['weight_bytes']):.0%}")
        print(f"{name}/{case['id']}: same bits with {', '.join(streamed)} of the weights resident")
    subprocess.run([PYTHON, source / "tools" / "judge_case.py", case_dir, judged], check=True)


def main():
    source = shared()
    if source is None:
        skip("the folder of real models is not beside this checkout (SLUICE_SHARED)")
    if subprocess.run([PYTHON, "-c", "import onnx, numpy"], capture_output=True).returncode != 0:
        skip("python3-onnx and python3-numpy are not installed")
    names = sys.argv[2:] or [*STORED, *GENERATED]
    for name in names:
        with tempfile.TemporaryDirectory(prefix="sluice-net-") as scratch:
            check_network(Path(sys.argv[1]), source, name, Path(scratch))
    print(f"{len(names)} networks answer right")


if __name__ == "__main__":
    main()
