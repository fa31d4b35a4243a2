#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ferrite explain` on a real model prints a summary of at most 40 lines of 110 columns, and `--all` more than that.

Usage: test_summary.py [--ferrite FILE] [--models DIRECTORY] [ROW...]
Without rows, those of ROWS, and of the exported ones those that are there.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/models"))

import rows as table  # noqa: E402

MOST_LINES, MOST_COLUMNS = 40, 110
# Those with the most records: many kernels, refused fusions and candidates, long names of nodes.
ROWS = ("ppocr-rec-6x48x320", "ppocr-det-640", "minilm-1x128", "mobilenet-v3")


def lines_of(ferrite: Path, model: Path, options: list[str]) -> list[str]:
    command = [ferrite, "explain", model, *options]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--models", type=Path, default=table.MODELS)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    arguments = parser.parse_args()
    faults = []
    with tempfile.TemporaryDirectory(prefix="ferrite-summary-") as scratch:
        for row in table.select(arguments.rows or list(ROWS)):
            path = row.path(arguments.models)
            if not arguments.rows and (said := row.left_out(arguments.models)):
                print(said, flush=True)
                continue
            inputs = table.write_inputs(row.inputs(), Path(scratch))
            summary = lines_of(arguments.ferrite, path, inputs)
            everything = lines_of(arguments.ferrite, path, [*inputs, "--all"])
            widest = max(map(len, summary), default=0)
            print(f"{row.name}: {len(summary)} lines of {len(everything)}, {widest} columns", flush=True)
            if not 0 < len(summary) <= MOST_LINES:
                faults.append(f"{row.name}: the summary has {len(summary)} lines, not 1 to {MOST_LINES}")
            if widest > MOST_COLUMNS:
                faults.append(f"{row.name}: a line of the summary has {widest} columns, more than {MOST_COLUMNS}")
            if len(everything) <= MOST_LINES:
                faults.append(f"{row.name}: --all lists {len(everything)} lines, no more than the summary may have")
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
