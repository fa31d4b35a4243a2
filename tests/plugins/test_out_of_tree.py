#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example plugin, built against the installed SDK alone, matches on a real model and leaves its output as it was.

Usage: test_out_of_tree.py [--build DIRECTORY] [--models DIRECTORY]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "sdk" / "examples" / "fused_activation"
SKIPPED = 77
DIMS = ["--dim", "x:0=1", "--dim", "x:2=48", "--dim", "x:3=160"]


def call(*command: object, **environment: str) -> str:
    """The standard output of a command, which must succeed."""
    words = [str(word) for word in command]
    done = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **environment}, timeout=55)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\nexit status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--models", type=Path, default=ROOT / "build" / "models")
    arguments = parser.parse_args()
    model = arguments.models / "rapidocr" / "rec.onnx"
    if not model.is_file():
        print(f"skipped: {model} is not there; ./dev setup fetches the models")
        return SKIPPED

    with tempfile.TemporaryDirectory(prefix="ferrite-out-of-tree-") as name:
        scratch = Path(name)
        prefix, build = scratch / "prefix", scratch / "build"
        call("cmake", "--install", arguments.build, "--prefix", prefix)
        call("cmake", "-S", EXAMPLE, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}", "-DCMAKE_BUILD_TYPE=Release")
        call("cmake", "--build", build)
        ferrite, manifest = prefix / "bin" / "ferrite", build / "ferrite.toml"

        values = np.random.default_rng(7).uniform(-1, 1, (1, 3, 48, 160)).astype(np.float32)
        np.save(scratch / "x.npy", values)
        variants = {"without": [], "with": ["--manifest", manifest]}
        outputs, kernels, ledgers = {}, {}, {}
        for key, options in variants.items():
            call(ferrite, "run", model, "-i", f"x={scratch / 'x.npy'}", "-o", scratch / key, "--threads", 2, *options)
            outputs[key] = np.load(scratch / key / "output_0.npy")
            ledgers[key] = json.loads(call(ferrite, "explain", model, *DIMS, "--json", *options))
            kernels[key] = sum(record["kind"] == "kernel" for record in ledgers[key])

    ours = [record for record in ledgers["with"] if record["object"] == "acme.fused_activation"]
    matches = Counter(record["subject"] for record in ours if record["kind"] == "rule" and record["outcome"] == "applied")
    overridden = sum(record["kind"] == "lowering" and record["outcome"] == "overridden" for record in ours)
    print(f"matches: {dict(matches)}; lowerings overridden: {overridden}")
    print(f"kernels: {kernels['without']} before, {kernels['with']} after")
    failures = []
    for rule in ("acme.hard_swish", "acme.silu"):
        if matches[rule] == 0:
            failures.append(f"rule {rule} was never applied")
    if overridden == 0:
        failures.append("the lowering of hardsigmoid was not used")
    if any(record["object"] == "acme.fused_activation" for record in ledgers["without"]):
        failures.append("the plugin is there without its manifest")
    if not np.allclose(outputs["with"], outputs["without"], rtol=1e-3, atol=1e-4):
        worst = np.abs(outputs["with"] - outputs["without"]).max()
        failures.append(f"the outputs differ by up to {worst}")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
