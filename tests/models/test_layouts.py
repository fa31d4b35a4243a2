#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Real convolutional networks are channels last throughout: how many buffers are, and which relayouts are left, with why.

Usage: test_layouts.py [--ferrite FILE] [--models DIRECTORY] [ROW...]
Without rows, all that are known here, and of the exported ones those that are there.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench/models"))

import rows as table  # noqa: E402

TIMEOUT_SECONDS = 55


class Layouts(NamedTuple):
    channels_last: int | None  # buffers; None: another exporter may write other operations around the convolutions
    others: tuple[str, ...] = ()  # all other records but those of what products sum over: "outcome buffer: why"


# The results of a head of attention, which lie side by side, become the channels of the convolution behind: two blocks.
HEADS = (
    "relayout f32x6x8x40x15: converted to channels last: its channels are addressed by more than sums of loop variables, "
    "or share no loop with a channels-last tensor"
)
EXPECTED = {
    "open-nsfw-b1": Layouts(102),
    "ppocr-det-640": Layouts(139),
    "ppocr-cls-6x48x192": Layouts(121),
    "ppocr-rec-6x48x320": Layouts(91, (HEADS, HEADS)),
    "resnet50": Layouts(None),
    "mobilenet-v3": Layouts(None),
    "convnext-tiny": Layouts(None),
}


def layouts(ferrite: Path, model: Path, options: list[str], scratch: Path) -> Layouts:
    # Numbers that were measured on this machine would count other relayouts as dear.
    environment = os.environ | {"XDG_CACHE_HOME": str(scratch / "nothing-measured")}
    records = table.explain(ferrite, model, ["--layouts", *options], TIMEOUT_SECONDS, environment)
    others = [r for r in records if r["outcome"] not in ("channels last", "k contiguous")]
    return Layouts(sum(r["outcome"] == "channels last" for r in records),
                   tuple(sorted(f"{r['outcome']} {r['object']}: {r['text']}" for r in others)))  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--models", type=Path, default=table.MODELS)
    parser.add_argument("rows", nargs="*", metavar="ROW")
    arguments = parser.parse_args()
    if unknown := [name for name in arguments.rows if name not in EXPECTED]:
        parser.error(f"nothing is expected of {', '.join(unknown)}; known: {', '.join(EXPECTED)}")
    failed = False
    with tempfile.TemporaryDirectory(prefix="ferrite-layouts-") as scratch:
        for row in table.select(arguments.rows or list(EXPECTED)):
            path, expected = row.path(arguments.models), EXPECTED[row.name]
            if not arguments.rows and (said := row.left_out(arguments.models)):
                print(said, flush=True)
                continue
            inputs = table.write_inputs(row.inputs(), Path(scratch))
            found = layouts(arguments.ferrite, path, inputs, Path(scratch))
            print(f"{row.name}: {found.channels_last} channels last; {len(found.others)} others", flush=True)
            wanted = found.channels_last if expected.channels_last is None else expected.channels_last
            if found.channels_last == 0 or found != (wanted, expected.others):
                failed = True
                print(f"{row.name}: {found}, expected {expected}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
