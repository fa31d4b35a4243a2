#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The installed tree is complete: a plugin, and a program that embeds Ferrite, are built against it with nothing else.

The plugin is sdk/examples/fused_activation, enabled by its manifest on a real model: its rules match, its lowering is used, the
output equals ONNX Runtime's. Usage: test_out_of_tree.py --prefix DIRECTORY [--models DIRECTORY]
"""

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

from installed import ROOT, build, call

sys.path.insert(0, str(ROOT / "bench" / "models"))

import rows as table  # noqa: E402

EXAMPLE = ROOT / "sdk" / "examples" / "fused_activation"
EMBEDDING = ROOT / "tests" / "plugins" / "embedding"
PLUGIN = "acme.fused_activation"
SHAPE = (1, 3, 48, 320)
SILU = """ferrite graph 0
graph @silu(%x: f32[4]) -> (%1 "y") {
  %0 = sigmoid(%x) : f32[4]
  %1 = mul(%0, %x) : f32[4]
}
"""
INSTALLED = [
    "bin/ferrite",
    "include/ferrite/abi/plugin.h",
    "include/ferrite/emitter",
    "include/ferrite/ferrite.h",
    "include/ferrite/plugin.hpp",
    "include/ferrite/prims.def",
    "lib/cmake/Ferrite/FerriteConfig.cmake",
    "lib/cmake/Ferrite/plugin.map",
    "lib/libferrite.so",
    "libexec/ferrite/ferrite-plugin-host",
    "share/ferrite/default.toml",
    "share/ferrite/templates/pass/plugin.cpp",
    *(f"lib/ferrite/plugins/ferrite.{name}.plugin.toml" for name in ("cpu", "onnx", "passes", "std")),
]


def installed_tree(prefix: Path) -> list[str]:
    failures = [f"{file} is not installed" for file in INSTALLED if not (prefix / file).exists()]
    listing = call(prefix / "bin" / "ferrite", "plugin", "list")
    for name in ("std", "onnx", "passes", "cpu"):
        library = prefix / "lib" / "ferrite" / "plugins" / f"ferrite_{name}.so"
        if str(library) not in listing:
            failures.append(f"the installed program does not load {library}:\n{listing}")
    return failures


def embedding_program(scratch: Path, prefix: Path, manifest: Path) -> list[str]:
    """A program of another project, with the default pipeline and with the plugin's."""
    build(EMBEDDING, scratch / "embedding", prefix)
    model = scratch / "silu.fe"
    model.write_text(SILU)
    x = np.array([-1, 2, -3, 4])
    failures = []
    for options in ([], [manifest]):
        result = np.array(call(scratch / "embedding" / "embedding", model, *options).split(), np.float64)
        if not np.allclose(result, x / (1 + np.exp(-x)), rtol=1e-4):
            failures.append(f"the embedding program prints {result} with {options}")
    return failures


def plugin_on_model(scratch: Path, prefix: Path, manifest: Path, model: Path) -> list[str]:
    import onnxruntime

    ferrite = prefix / "bin" / "ferrite"
    x = np.random.default_rng(7).uniform(-1, 1, SHAPE).astype(np.float32)
    np.save(scratch / "x.npy", x)
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    expected = session.run(None, {"x": x})[0]
    dims = [word for axis, size in enumerate(SHAPE) if axis != 1 for word in ("--dim", f"x:{axis}={size}")]
    failures, kernels, ledgers = [], {}, {}
    for key, options in {"without": [], "with": ["--manifest", manifest]}.items():
        call(ferrite, "run", model, "-i", f"x={scratch / 'x.npy'}", "-o", scratch / key, "--threads", 2, *options)
        close, text = table.difference(np.load(scratch / key / "output_0.npy"), expected)
        print(f"{key} the plugin: {text}")
        if not close:
            failures.append(f"{key} the plugin: {text}")
        ledgers[key] = json.loads(call(ferrite, "explain", model, *dims, "--json", *options))
        kernels[key] = sum(record["kind"] == "kernel" for record in ledgers[key])

    ours = [record for record in ledgers["with"] if record["object"] == PLUGIN]
    matches = Counter(record["subject"] for record in ours if record["kind"] == "rule" and record["outcome"] == "applied")
    overridden = sum(record["kind"] == "lowering" and record["outcome"] == "overridden" for record in ours)
    print(f"matches: {dict(matches)}; lowerings overridden: {overridden}")
    print(f"kernels: {kernels['without']} before, {kernels['with']} after")
    for rule in ("acme.hard_swish", "acme.silu"):
        if matches[rule] == 0:
            failures.append(f"rule {rule} was never applied")
    if overridden == 0:
        failures.append("the lowering of hardsigmoid was not used")
    if any(record["object"] == PLUGIN for record in ledgers["without"]):
        failures.append("the plugin is there without its manifest")
    if not 0 < kernels["with"] <= kernels["without"]:
        failures.append("the plugin makes more kernels than there were without it")
    return failures


def isolated_passes(scratch: Path, prefix: Path, model: Path) -> list[str]:
    """The standard passes, in a process of their own, make the same graph of a real model."""
    manifest = scratch / "isolated.toml"
    manifest.write_text('schema = 0\n[plugin."ferrite.passes"]\nisolation = "process"\n')
    dims = [word for axis, size in enumerate(SHAPE) if axis != 1 for word in ("--dim", f"x:{axis}={size}")]
    command = [prefix / "bin" / "ferrite", "opt", model, *dims, "--to", "pre_lower"]
    here, child = call(*command), call(*command, "--manifest", manifest)
    print(f"the standard passes in a child: {len(child.splitlines())} lines of graph")
    return [] if child == here else ["the standard passes make another graph in a process of their own"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=Path, required=True, help="where Ferrite is installed")
    parser.add_argument("--models", type=Path, default=table.MODELS)
    arguments = parser.parse_args()
    model = arguments.models.resolve() / "rapidocr" / "rec.onnx"
    with tempfile.TemporaryDirectory(prefix="ferrite-out-of-tree-") as name:
        scratch = Path(name)
        prefix, manifest = arguments.prefix.resolve(), scratch / "plugin" / "ferrite.toml"
        failures = installed_tree(prefix)
        build(EXAMPLE, scratch / "plugin", prefix)
        failures += embedding_program(scratch, prefix, manifest)
        if model.is_file():
            failures += plugin_on_model(scratch, prefix, manifest, model)
            failures += isolated_passes(scratch, prefix, model)
        else:
            failures.append(f"{model} is not there; ./dev setup fetches the models")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
