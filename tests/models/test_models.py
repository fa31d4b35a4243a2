#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ferrite run` gives on real models what ONNX Runtime gives, on seeded inputs.

Usage: test_models.py [--ferrite FILE] [--models DIRECTORY] [--threads N] [--list] [--with OPTION]... [ROW...]
Rows are those of bench/models/rows.py; --list prints their names (one ctest entry each). --with gives `ferrite run` one more word, as in
--with=--device --with=cuda:0. Exit status 1 where a row failed; 77 where none did and one was left out that bench/models/export.py has to make first.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "models"))

import rows as table  # noqa: E402

TIMEOUT_SECONDS = 55.0
LEFT_OUT = 77  # ctest takes it for skipped


def failures(row: table.Row, ferrite: Path, models: Path, threads: int, options: tuple[str, ...] = ()) -> list[str]:
    import onnxruntime

    path = row.path(models)
    if not path.is_file():
        return [f"{path} is not there; ./dev setup fetches the models"]
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    expected = session.run(None, row.inputs())
    names = [output.name for output in session.get_outputs()]
    with tempfile.TemporaryDirectory(prefix="ferrite-models-") as scratch:
        try:
            actual = table.run_ferrite(ferrite, row, models, threads, Path(scratch), TIMEOUT_SECONDS, options)
        except (RuntimeError, OSError) as error:
            return [str(error)]
    found = []
    if [name for name, _ in actual] != names:
        found.append(f"outputs are {[name for name, _ in actual]}, expected {names}")
    for (name, array), reference in zip(actual, expected, strict=False):
        close, text = table.difference(array, reference)
        print(f"{row.name}: {name}: {text}")
        if not close:
            found.append(f"{name}: {text}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--models", type=Path, default=table.MODELS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--with", dest="options", action="append", default=[], metavar="OPTION")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    arguments = parser.parse_args()
    try:
        # PyTorch exports the others; here they are run only by name.
        rows = [row for row in table.select(arguments.rows) if arguments.rows or not row.exported]
    except ValueError as error:
        parser.error(str(error))
    if arguments.list:
        print("\n".join(row.name for row in rows))
        return 0
    status = 0
    for row in rows:
        if said := row.left_out(arguments.models):
            print(said)
            status = status or LEFT_OUT
            continue
        for failure in failures(row, arguments.ferrite, arguments.models, arguments.threads, tuple(arguments.options)):
            print(f"{row.name}: FAILED: {failure}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())
