#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Real models on the backends and providers of other makers, what they do not take on the CPU: the results are ONNX Runtime's.

Usage: test_stub_models.py [--ferrite FILE] [--stubs DIRECTORY] [--list] [CASE...]
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "bench" / "models"), str(ROOT / "tests" / "models"), str(Path(__file__).resolve().parent)]

import rows as table  # noqa: E402
import tables  # noqa: E402
import test_models as models  # noqa: E402

# What the backend that prints C is said to have declined: reductions and the error function.
MEASURED = """schema = 0
target = "TARGET"
provider = "c"
plugin = "acme.c 1.0.0"
[declined]
reduce = ["f32", "i64"]
erf = ["f32"]
"""


@dataclass
class Case:
    """A model with a plugin, and what `ferrite explain` must say of it."""

    row: str
    plugin: str
    manifest: str = ""
    more: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    measured: str = ""
    explained: list[str] = field(default_factory=list)


MANIFEST = """schema = 0
extends = "default"
search = ["."]
enable = [{plugins}]
{more}
"""

NPU = [r"claim: .*taken", r"taken .* <- +elementwise of acme.npu: on npu", r"transfers: copies between memories"]

CASES = {
    # Everything on the backend that prints C, contractions as the reductions that they are.
    "c-alone": Case("magika-b1", "acme.c", options=["--device", "c"], explained=[r"chosen +\S.* <- +c:"]),
    # What was measured as declined is the CPU's.
    "c-measured": Case(
        "minilm-1x128", "acme.c", options=["--device", "c,cpu"],
        measured=MEASURED,
        explained=[r"placement: .*\d+ placed", r"placed .* <- +c$", r"placed .* <- +cpu$",
                   r"refused .* <- +c: reduce of f32"],
    ),  # fmt: skip
    # The library takes the products and their bias, the code generator what follows.
    "gemm": Case(
        "minilm-1x128", "acme.gemm", manifest='[plugin."acme.gemm".config]\nprice = 0.001',
        explained=[r"select: .*chosen", r"chosen .* <- +gemm\.bias: covers 2 of [3-9] statements",
                   r"refused \(cost\) .* <- +the code generator"],
    ),  # fmt: skip
    # Regions of at most one op, so that tensors stay in the accelerator's layout between two of them; the rest is the CPU's.
    "npu": Case(
        "open-nsfw-b1", "acme.npu", more=["acme.npu.runtime"], options=["--device", "npu,cpu"],
        manifest='[plugin."acme.npu".config]\nmost = 1', explained=NPU,
    ),
    # Its compiler in a process of its own.
    "npu-isolated": Case(
        "open-nsfw-b1", "acme.npu", more=["acme.npu.runtime"], options=["--device", "npu,cpu"],
        manifest='[plugin."acme.npu"]\nconfig.most = 1\nisolation = "process"', explained=NPU,
    ),
}  # fmt: skip


def check(name: str, case: Case, arguments: argparse.Namespace) -> list[str]:
    row = table.select([case.row])[0]
    with tempfile.TemporaryDirectory(prefix="ferrite-stubs-") as scratch:
        folder = Path(scratch)
        plugins = [case.plugin, *case.more]
        for plugin in plugins:
            for file in (f"{plugin}.plugin.toml", f"{plugin.replace('.', '_')}.so"):
                shutil.copy(arguments.stubs / file, folder)
        enabled = ", ".join(f'"{plugin}"' for plugin in plugins)
        (folder / "ferrite.toml").write_text(MANIFEST.format(plugins=enabled, more=case.manifest))
        options = ("--manifest", str(folder / "ferrite.toml"), *case.options)
        command = [arguments.ferrite, "explain", "--all", row.path(), *table.write_inputs(row.inputs(), folder), *options]

        def explain() -> subprocess.CompletedProcess:
            return subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False,
                                  env={**os.environ, "FERRITE_LOG": "plugins"})  # fmt: skip

        done = explain()
        if case.measured:
            tables.write(tables.place_of(done.stderr, "c"), case.measured)
            done = explain()
        found = models.failures(row, arguments.ferrite, table.MODELS, 2, options)
    if done.returncode != 0:
        return [*found, done.stderr]
    missing = [pattern for pattern in case.explained if not re.search(pattern, done.stdout, re.MULTILINE)]
    if missing:
        print(re.sub(r"(?ms)^(rule|pass|inline|fusion|lowering):.*?(?=^\w+:)", "", done.stdout))
    return found + [f"`ferrite explain` has no line {pattern!r}" for pattern in missing]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--stubs", type=Path, default=ROOT / "build/release/lib/ferrite/stubs")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("cases", nargs="*", choices=[*CASES, []], metavar="CASE")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(CASES))
        return 0
    status = 0
    for name in arguments.cases or CASES:
        for failure in check(name, CASES[name], arguments):
            print(f"{name}: FAILED: {failure}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
