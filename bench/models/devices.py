#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether models give on one device what they give on another, on seeded inputs.

Usage: devices.py [--device NAME] [--reference NAME] [--models DIRECTORY] [--ferrite FILE] [--manifest FILE] [--output FILE] [ROW...]
Rows are those of rows.py. Prints a line for each, writes them to --output as JSON; exit status 1 where one failed or is not equal within
rows.py's tolerance. A row whose model is not there is said to be left out, and counts as neither.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[1])]

import figures  # noqa: E402
import rows as table  # noqa: E402

TIMEOUT_SECONDS = 300.0


def compare(row: table.Row, arguments: argparse.Namespace) -> dict:
    """The row's record. A failure of either run is its error."""
    found = {"row": row.name}
    if not row.path(arguments.models).is_file():
        return found | {"left_out": True}
    results = {}
    for device in (arguments.device, arguments.reference):
        options = ("--device", device, *(("--manifest", str(arguments.manifest)) if arguments.manifest else ()))
        with tempfile.TemporaryDirectory(prefix="ferrite-devices-") as scratch:
            try:
                results[device] = table.run_ferrite(arguments.ferrite, row, arguments.models, 2, Path(scratch),
                                                    TIMEOUT_SECONDS, options)  # fmt: skip
            except (RuntimeError, OSError) as error:
                return found | {"equal": False, "error": f"{device}: {error}"}
    outputs = {}
    for (name, actual), (_, expected) in zip(results[arguments.device], results[arguments.reference], strict=True):
        equal, text = table.difference(actual, expected, row.bf16)
        outputs[name] = {"equal": equal, "difference": text}
    return found | {"equal": all(output["equal"] for output in outputs.values()), "outputs": outputs}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    table.add_argument(parser)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--reference", default="cpu")
    parser.add_argument("--models", type=Path, default=table.MODELS)
    parser.add_argument("--ferrite", type=Path, default=table.ROOT / "build/release/bin/ferrite")
    parser.add_argument("--manifest", type=Path)
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    records = []
    for row in table.chosen(parser, arguments.rows):
        records.append(compare(row, arguments))
        last = records[-1]
        state = "left out" if "left_out" in last else "equal" if last["equal"] else "NOT EQUAL"
        texts = [last["error"]] if "error" in last else [f"{k}: {v['difference']}" for k, v in last.get("outputs", {}).items()]
        print(f"{row.name}: {state}  {'; '.join(texts)}", flush=True)
    if arguments.output:
        arguments.output.write_text(json.dumps(figures.origin("bench/models/devices.py") | {"rows": records}, indent=2) + "\n")
    return 1 if any(not record.get("equal", True) for record in records) else 0


if __name__ == "__main__":
    sys.exit(main())
