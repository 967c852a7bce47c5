#!/usr/bin/env python3
"""Random models of one node give the answers of ONNX Runtime: where the ONNX backend suite is thin.

Usage: onnxruntime_test.py CONFORMANCE_PROGRAM [--onnxruntime FOLDER] [--count N] [--seed S]
                           [--families a,b] [--keep FOLDER]

  --onnxruntime FOLDER  where `npm install --ignore-scripts onnxruntime-node` was run (default:
                        $SLUICE_ONNXRUNTIME); skipped without it
  --count N             models of each family (default 25)
  --keep FOLDER         leave the tests there, in the layout of the suite
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path


def skip(reason):
    print(f"SKIPPED: {reason}", flush=True)
    sys.exit(77)


def write_jobs(folder, families, count, seed):
    """Models and inputs of every case; names of the cases, and what ONNX Runtime is to run."""
    import numpy as np
    import onnx
    from draws import FAMILIES
    from onnx import numpy_helper
    names, jobs = [], []
    for family in families:
        for i in range(count):
            case = FAMILIES[family](np.random.default_rng([seed, i, *family.encode()]))
            test = folder / "node" / f"{family}_{i}"
            data = test / "test_data_set_0"
            data.mkdir(parents=True)
            onnx.save(case.model(), str(test / "model.onnx"))
            inputs = []
            for k, (name, x) in enumerate(case.fed()):
                (data / f"input_{k}.pb").write_bytes(
                    numpy_helper.from_array(x, name).SerializeToString())
                raw = data / f"raw_{k}"
                raw.write_bytes(np.ascontiguousarray(x).tobytes())
                inputs.append({"name": name, "type": x.dtype.name, "shape": list(x.shape),
                               "file": str(raw)})
            names.append(test.name)
            jobs.append({"model": str(test / "model.onnx"), "inputs": inputs,
                         "outputs": str(data / "answer_")})
    return names, jobs


def write_answers(folder, name, answer):
    """What ONNX Runtime found, as the suite has it. Its own refusals leave the suite."""
    import numpy as np
    from onnx import numpy_helper
    test = folder / "node" / name
    if "error" in answer:
        (test / "model.onnx").unlink()
        return f"{name}: {answer['error'][:160]}"
    data = test / "test_data_set_0"
    for i, output in enumerate(answer["outputs"]):
        elements = np.fromfile(data / f"answer_{i}", output["type"]).reshape(output["shape"])
        (data / f"output_{i}.pb").write_bytes(
            numpy_helper.from_array(elements, output["name"]).SerializeToString())
    return None


def run(arguments, folder):
    from draws import FAMILIES
    families = arguments.families.split(",") if arguments.families else list(FAMILIES)
    names, jobs = write_jobs(folder, families, arguments.count, arguments.seed)
    (folder / "jobs.json").write_text(json.dumps(jobs))
    answers = json.loads(subprocess.run(
        ["node", Path(__file__).parent / "answers.mjs", arguments.onnxruntime, folder / "jobs.json"],
        check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    refused = [line for line in map(lambda pair: write_answers(folder, *pair), zip(names, answers))
               if line]
    print(f"{len(names)} models, of which ONNX Runtime refuses {len(refused)}", flush=True)
    print("\n".join(refused[:20]), flush=True)
    assert len(refused) * 4 < len(names), "ONNX Runtime refuses too many to compare with"
    # Elements that cancel to nearly nothing keep the rounding of what they came from.
    done = subprocess.run([arguments.program, "--data", folder, "--absolute", "1e-5"],
                          capture_output=True, text=True)
    print(done.stdout, flush=True)
    assert done.returncode == 0, f"wrong answers; replay with --seed {arguments.seed} --keep FOLDER"
    assert " 0 refused," in done.stdout, "Sluice refuses what ONNX Runtime runs"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("program", type=Path)
    parser.add_argument("--onnxruntime", default=os.environ.get("SLUICE_ONNXRUNTIME"))
    parser.add_argument("--count", type=int, default=25)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--families")
    parser.add_argument("--keep", type=Path)
    arguments = parser.parse_args()
    if not arguments.onnxruntime:
        skip("onnxruntime-node is not installed, or SLUICE_ONNXRUNTIME does not say where")
    try:
        import numpy  # noqa: F401
        import onnx  # noqa: F401
    except ImportError:
        skip("python3-onnx and python3-numpy are not installed")
    if arguments.keep:
        run(arguments, arguments.keep)
        return
    with tempfile.TemporaryDirectory(prefix="sluice-differential-") as folder:
        run(arguments, Path(folder))


if __name__ == "__main__":
    main()
