#!/usr/bin/env python3
"""Every network answers over gRPC from another process within tolerance, and with the same bits in the
smallest budget that `sluiced inspect` promises (imported, packed and served there, every weight
streamed) as with all of its weights in memory.

The judge is ONNX Runtime: its answers are in the case.json of the folder of real models, and for
others in tests/networks/cases. Generated networks are made here, byte for byte.

Usage: networks_test.py BUILD_DIR [--all] [NETWORK ...]

  --all   large ones too (transformers, 16-bit floats), and more budgets: residents chosen by the planner in the smallest, and
          half of the weights
"""
import argparse
import json
import subprocess
import tempfile
import time
from pathlib import Path

from daemon import MIB, ROOT, Daemon, read_outputs, shared, skip

PYTHON = "/usr/bin/python3"  # Debian's, which has the onnx and numpy packages.
LIGHT = ("bvlc_alexnet", "densenet121", "inception_v1", "inception_v2", "resnet50", "shufflenet",
         "squeezenet", "vgg19", "zfnet512")

# Those of a group share a resident daemon, so that no disk or memory holds all of them at once.
GROUPS = (
    ("mnist_cnn", "mobilenet_v2_050_128", "ulfg_rfb320", "ppocr_v4_det", "ppocr_v2_cls",
     "fastestdet", "yunet_n_dynamic", "dtln_1", "dtln_2", "silero_vad_v5", "basic_pitch",
     "magika_v3_3"),
    ("ulfg_rfb320_qdq", "ulfg_rfb320_qlinear", "gen_mobilenet_v2_qdq"),
    ("light_densenet121", "light_inception_v1", "light_inception_v2", "light_resnet50",
     "light_shufflenet", "light_squeezenet"),
    ("gen_resnet50", "gen_resnet50_dyn_ext", "gen_mobilenet_v2", "densenet201"),
    ("gen_inception_v3", "gen_unet", "gen_yolo_like"),
    ("light_bvlc_alexnet", "light_zfnet512"),
    ("light_vgg19",),
    ("gen_vgg16",),
)
# Fifty to five hundred megabytes each, some with seconds of arithmetic; only with --all.
HEAVY = (("gen_bert_base",), ("gpt2",), ("vit_b16",), ("gen_resnet50_fp16",), ("isnet_fp16",))
assert {f"light_{name}" for name in LIGHT} <= {name for group in GROUPS for name in group}
# Made by gen_models.py, which writes external data and transformers.
BY_SCRIPT = {"gen_resnet50_dyn_ext": ("resnet50", "--dynamic", "--external"),
             "gen_resnet50_fp16": ("resnet50", "--fp16"),
             "gen_bert_base": ("bert_base",), "gpt2": ("gpt2",), "vit_b16": ("vit_b16",)}
# Inputs whose contents decide which branch a network takes.
DECIDING = {"silero_vad_v5": ("sr",)}


class Unreachable(Exception):
    """A network that has to be fetched, and cannot be."""


class Network:
    def __init__(self, name, source, binaries, folder):
        self.name, self.source, self.folder = name, source, folder
        own = ROOT / "tests" / "networks" / "cases" / name
        self.case_dir = own if own.is_dir() else source / "models" / name
        self.cases = json.loads((self.case_dir / "case.json").read_text())["cases"]
        folder.mkdir()
        self.model = self.make(binaries)
        subprocess.run([PYTHON, source / "tools" / "judge_case.py", "--inputs", self.case_dir,
                        source / "models" / "_inputs", folder / "in"], check=True)

    def make(self, binaries):
        stored = self.source / "models" / self.name / "model.onnx"
        if stored.exists():
            return stored
        if self.name in BY_SCRIPT:
            network, *options = BY_SCRIPT[self.name]
            subprocess.run([PYTHON, self.source / "tools" / "gen_models.py", network, "--seed", "1",
                            "--out", self.folder, *options], check=True, stdout=subprocess.DEVNULL)
            return next(self.folder.glob("*.onnx"))
        model = self.folder / "model.onnx"
        if self.name == "isnet_fp16":
            fetched = subprocess.run([PYTHON, ROOT / "tests" / "networks" / "fetch_isnet.py", model])
            if fetched.returncode == 77:
                raise Unreachable(self.name)
            fetched.check_returncode()
            return model
        subprocess.run([binaries / "tests" / "networks" / "sluice_make_network",
                        self.name.removeprefix("gen_"), "--out", model], check=True,
                       stderr=subprocess.DEVNULL)
        return model

    def variants(self):
        """Cases that are one model to the daemon: those of the same dimensions, together."""
        by_dims = {}
        for case in self.cases:
            # Every dimension by its place, which any model accepts.
            dims = tuple((f"{tensor['name']}[{axis}]", size) for tensor in case["inputs"]
                         for axis, size in enumerate(tensor["shape"]))
            by_dims.setdefault(dims, []).append(case["id"])
        return [Variant(self, dims, ids) for dims, ids in by_dims.items()]

    def judge(self):
        return subprocess.run([PYTHON, self.source / "tools" / "judge_case.py", self.case_dir,
                               self.folder / "out"], capture_output=True, text=True)


class Variant:
    def __init__(self, network, dims, ids):
        self.network, self.dims, self.ids = network, dims, ids
        self.name = f"{network.name}.{ids[0]}"

    def describe(self, max_resident=None):
        lines = [f"  - name: {self.name}", f"    path: {self.network.model}"]
        if max_resident is not None:
            lines.append(f"    max_resident: {max_resident}")
        lines.append("    dims:")
        lines += [f'      "{key}": {value}' for key, value in self.dims]
        values = [f'      "{key}": {value}' for key, value in self.values()]
        lines += ["    values:", *values] if values else []
        return "\n".join(lines) + "\n"

    def values(self):
        """What decides branches, as the first case has it; dimensions tell the others apart."""
        folder = self.network.folder / "in" / self.ids[0]
        for tensor in json.loads((folder / "tensors.json").read_text())["tensors"]:
            if tensor["name"] in DECIDING.get(self.network.name, ()):
                number = int.from_bytes((folder / tensor["file"]).read_bytes(), "little")
                yield tensor["name"], number

    def inspect(self, binaries):
        # Inspect's --dims splits at commas, which names of inputs may hold: from a configuration.
        config = self.network.folder / "inspect.yaml"
        config.write_text(configuration(64 * MIB, self.describe()))
        done = subprocess.run([binaries / "server" / "sluiced", "inspect", "--config", config,
                               "--json"], capture_output=True, text=True)
        assert done.returncode == 0, f"{self.name}: {done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def answer(self, daemon, out):
        """Outputs of every case, by case."""
        for case in self.ids:
            daemon.ctl("infer", self.name, "--inputs", self.network.folder / "in" / case, "--raw",
                       out / case)
        return {case: read_outputs(out / case) for case in self.ids}


def configuration(budget, models):
    return f"memory: {{ budget: {budget} }}\ncompute: {{ threads: 2 }}\nmodels:\n{models}"


def ready_state(daemon, variant, budget):
    daemon.wait_ready()
    state = daemon.model(variant.name)
    assert state["state"] == "READY", f"{variant.name} in {budget} bytes: {state['reason']}"
    return state


def run_within(binaries, work, variant, budget, max_resident):
    """Answers of a daemon that has this budget and model alone, its state and its peak."""
    with Daemon(binaries, configuration(budget, variant.describe(max_resident)),
                work=work) as daemon:
        ready_state(daemon, variant, budget)
        answers = variant.answer(daemon, work / f"out-{variant.name}")
        peak = daemon.peak_bytes()
        assert peak <= budget, f"{variant.name}: peak {peak} over the budget of {budget}"
        return answers, daemon.model(variant.name), peak


def run_variant(binaries, work, variant, every_budget):
    """Answers by budget, and what to print."""
    promise = variant.inspect(binaries)
    least = promise["smallest_budget_bytes"]
    answers, state, peak = run_within(binaries, work, variant, least, 0)
    assert state["resident_bytes"] == 0 and state["last_streamed_bytes"] > 0, state
    found = {least: answers}
    if every_budget:
        found[least + 1], _, _ = run_within(binaries, work, variant, least + 1, None)
        half = least + state["weight_bytes"] // 2
        found[half], _, _ = run_within(binaries, work, variant, half, None)
    return found, promise, (f"{variant.name}: weights {state['weight_bytes'] / MIB:.1f} MiB, "
                            f"streamed in {least / MIB:.1f}, peak {peak / MIB:.1f}")


def check_group(binaries, source, names, scratch, every_budget):
    work = scratch / "work"
    try:
        networks = [Network(name, source, binaries, scratch / name) for name in names]
    except Unreachable as missing:
        print(f"SKIPPED {missing}: npm or its registry is not there", flush=True)
        return
    variants = [variant for network in networks for variant in network.variants()]
    streamed, total = {}, 0
    for variant in variants:
        begin = time.monotonic()
        found, promise, line = run_variant(binaries, work, variant, every_budget)
        streamed[variant.name] = found
        total += promise["largest_useful_budget_bytes"]
        print(f"{line} ({time.monotonic() - begin:.1f} s)", flush=True)
    # The packages are there: one daemon brings all of them into memory.
    models = "".join(variant.describe() for variant in variants)
    with Daemon(binaries, configuration(total, models), work=work) as daemon:
        for variant in variants:
            state = ready_state(daemon, variant, total)
            assert state["resident_bytes"] == state["weight_bytes"], state
            whole = variant.answer(daemon, variant.network.folder / "out")
            for budget, answers in streamed[variant.name].items():
                assert answers == whole, f"{variant.name}: other bits in {budget} bytes"
    for network in networks:
        judged = network.judge()
        assert judged.returncode == 0, f"{judged.stdout}{judged.stderr}"
        print(f"{network.name}: {len(network.cases)} cases within tolerance", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("networks", nargs="*")
    parser.add_argument("--all", action="store_true")
    arguments = parser.parse_args()
    source = shared()
    if source is None:
        skip("the folder of real models is not beside this checkout (SLUICE_SHARED)")
    if subprocess.run([PYTHON, "-c", "import onnx, numpy"], capture_output=True).returncode != 0:
        skip("python3-onnx and python3-numpy are not installed")
    heavy = arguments.all or arguments.networks
    groups = GROUPS + HEAVY if heavy else GROUPS
    unknown = set(arguments.networks) - {name for group in groups for name in group}
    assert not unknown, f"no such networks: {unknown}"
    count = 0
    for group in groups:
        names = [name for name in group if not arguments.networks or name in arguments.networks]
        if not names:
            continue
        count += len(names)
        with tempfile.TemporaryDirectory(prefix="sluice-net-") as scratch:
            check_group(arguments.build, source, names, Path(scratch), arguments.all)
    print(f"{count} networks answer right")


if __name__ == "__main__":
    main()
