#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Why pairs were not fused is recognised in real models: each refusal has a category that the documentation lists, none `unknown`.

Usage: test_categories.py [--ferrite FILE] [--models DIRECTORY] [ROW...]
Without rows, those of bench/models/rows.py, and of the exported ones those that are there; then a graph of transformer layers.
"""

import argparse
import collections
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/models")]

import rows as table  # noqa: E402
import scale  # noqa: E402

TIMEOUT_SECONDS = 55


def documented() -> set[str]:
    text = (ROOT / "docs/seeing.md").read_text()
    return set(re.findall(r"(?m)^\| `([^`]+)`", text[text.index("## Why a pair was refused") :]))


def refusals(ferrite: Path, model: Path, options: list[str]) -> list[dict]:
    done = subprocess.run([str(ferrite), "explain", "--json", str(model), *options],
                          capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False)  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(f"ferrite explain {model}: exit status {done.returncode}\n{done.stderr}")
    return [r for r in json.loads(done.stdout) if r["kind"] == "fusion" and r["outcome"] == "refused"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--models", type=Path, default=table.MODELS)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    arguments = parser.parse_args()
    known, failed = documented() - {"unknown"}, False

    def check(name: str, found: list[dict]) -> None:
        nonlocal failed
        print(f"{name}: {dict(collections.Counter(record['category'] for record in found))}", flush=True)
        for record in found:
            if record["category"] not in known:
                failed = True
                print(f"{name}: {record}", file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="ferrite-categories-") as scratch:
        for row in table.select(arguments.rows):
            path = row.path(arguments.models)
            if arguments.rows or not row.exported or path.is_file():
                check(row.name, refusals(arguments.ferrite, path, table.write_inputs(row.inputs(), Path(scratch))))
        layers = Path(scratch) / "layers.fe"
        layers.write_text(scale.layers_text(2))
        check("layers", refusals(arguments.ferrite, layers, []))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
