#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws speed.svg: for each model, how long other engines take as multiples of Ferrite's time.

Usage: speed.py [--check]
The figures are those of the table of models in README.md (bench/pages.py says which file of bench/results).
"""

import math
import sys
from pathlib import Path

import svg

sys.path.append(str(Path(__file__).resolve().parents[2] / "bench"))

import figures  # noqa: E402
import pages  # noqa: E402

WIDTH, LEFT, RIGHT, TOP, STEP = 880, 178, 36, 92, 23
TICKS = [0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8]
CLASSES = dict(zip(figures.PEERS, ["first", "second", "third"], strict=True))


def mark(picture: svg.Picture, engine: str, x: float, y: float):
    if engine == "onnxruntime":
        picture.circle(x, y, 5, "first")
    elif engine == "openvino":
        picture.box(x - 4.5, y - 4.5, 9, 9, "second", 1)
    else:
        picture.polygon([(x, y - 6), (x + 5.5, y + 4), (x - 5.5, y + 4)], "third")


def draw() -> svg.Picture:
    report = pages.read(pages.MODELS_OF_README)
    rows = report["rows"]
    height = TOP + STEP * len(rows) + 58
    picture = svg.Picture(WIDTH, height, "Times of other engines as multiples of Ferrite's, for each model; the figures are in the table.")
    picture.text(20, 32, "Time of a run, as a multiple of Ferrite's", anchor="start", size=15, bold=True)
    subtitle = f"log scale; f32, {report['threads']} threads, {pages.title(pages.MODELS_OF_README)}"
    picture.text(20, 52, subtitle, "faint", "start", 12)
    x = WIDTH - RIGHT
    for engine in reversed(report["peers"]):
        x -= 7.5 * len(figures.TITLES[engine]) + 10
        picture.text(x + 10, 32, figures.TITLES[engine], "ink", "start", 12.5)
        mark(picture, engine, x, 28)
        x -= 22

    ratios = [ratio for row in rows for peer in report["peers"] if (ratio := figures.ratio(row, peer))]
    low, high = min([*ratios, 0.8]) * 0.97, max([*ratios, 2]) * 1.04

    def across(ratio: float) -> float:
        return LEFT + (WIDTH - RIGHT - LEFT) * math.log(ratio / low) / math.log(high / low)

    bottom = TOP + STEP * len(rows)
    for tick in TICKS:
        if low <= tick <= high and tick != 1:
            picture.line(across(tick), TOP - 8, across(tick), bottom, "grid")
            picture.text(across(tick), bottom + 18, f"{tick:g}", "faint", size=12)
    picture.line(across(1), TOP - 8, across(1), bottom, "ours", ' stroke-width="2.5"')
    picture.text(across(1), bottom + 18, "Ferrite = 1", "ours-ink", size=12, bold=True)
    picture.text(across(1) - 62, bottom + 40, "← faster than Ferrite", "faint", "end", 12)
    picture.text(across(1) + 62, bottom + 40, "slower than Ferrite →", "faint", "start", 12)
    for number, row in enumerate(rows):
        y = TOP + STEP * (number + 0.5)
        picture.text(LEFT - 14, y + 4, row["row"], "ink", "end", 12.5)
        for engine in report["peers"]:
            if ratio := figures.ratio(row, engine):
                mark(picture, engine, across(ratio), y)
    return picture


if __name__ == "__main__":
    sys.exit(svg.main(__doc__.splitlines()[0], Path(__file__).with_suffix(".svg"), draw()))
