#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Draws way.svg: the way of a model from its file to a run, and where plugins take part.

Usage: way.py [--check]
"""

import sys
from pathlib import Path

import svg

WIDTH, HEIGHT = 880, 318
LEFT, BOX, GAP, TOP, TALL = 13, 104, 46, 56, 66
BELOW = 166
# Title, what it is, class; and the name of the step that leads to the next one.
FORMS = [
    ("Model", ["PyTorch, ONNX", "or graph text"], "file frame", "import"),
    ("Graph", ["operations", "on tensors"], "core core-edge", "lower"),
    ("Loop program", ["loops over", "buffers"], "core core-edge", "fuse"),
    ("Schedule", ["groups of", "fused loops"], "core core-edge", "select"),
    ("Kernels", ["machine code,", "library calls"], "core core-edge", "link"),
    ("Executable", ["in memory or", "as a package"], "file frame", ""),
]
# Where plugins take part: left edge and width of the box, its title and lines, and where its arrow ends: at a step or a form.
PLUGINS = [
    (80, 120, "Importers", ["PyTorch, ONNX,", "graph text"], "step"),
    (206, 168, "Operators, passes, rules", ["types, decompositions,", "lowerings; rewrites"], "step"),
    (380, 150, "Policies, cost models", ["which loops to fuse,", "which kernel to take"], "step"),
    (536, 196, "Code generators, libraries", ["LLVM: CPU, CUDA, HIP, SPIR-V", "oneDNN, cuBLASLt, cuDNN"], "form"),
    (738, 129, "Runtimes", ["CPU, CUDA, HIP,", "Level Zero"], "form"),
]


def box(picture: svg.Picture, x: float, y: float, width: float, classes: str, title: str, lines: list[str]):
    picture.box(x, y, width, TALL, classes)
    picture.text(x + width / 2, y + 22, title, size=12, bold=True)
    for row, words in enumerate(lines):
        picture.text(x + width / 2, y + 40 + 15 * row, words, "faint", size=11)


def draw() -> svg.Picture:
    picture = svg.Picture(WIDTH, HEIGHT, "The way of a model: model, graph, loop program, schedule, kernels, executable; plugins take "
                          "part in every step.")
    picture.text(LEFT, 32, "The core: one text form for every stage", anchor="start", bold=True)
    for number, (title, lines, classes, step) in enumerate(FORMS):
        x = LEFT + number * (BOX + GAP)
        box(picture, x, TOP, BOX, classes, title, lines)
        if step:
            picture.arrow(x + BOX + 2, TOP + TALL / 2, x + BOX + GAP - 2, TOP + TALL / 2)
            picture.text(x + BOX + GAP / 2, TOP + TALL / 2 - 9, step, "faint", size=11)
    for x, width, title, lines, end in PLUGINS:
        box(picture, x, BELOW, width, "plugin plugin-edge", title, lines)
        at = x + width / 2
        if end == "step":  # the middle of the step above the box
            at = LEFT + BOX + GAP / 2 + round((at - LEFT - BOX - GAP / 2) / (BOX + GAP)) * (BOX + GAP)
        picture.arrow(at, BELOW - 2, at, TOP + (TALL / 2 + 9 if end == "step" else TALL + 3))
    picture.text(LEFT, BELOW + TALL + 24, "Plugins: all of them through one C interface", anchor="start", bold=True)

    y = HEIGHT - 22
    picture.line(LEFT, y - 24, WIDTH - LEFT, y - 24, "grid")
    picture.text(LEFT, y, "Every stage: ferrite opt --to STAGE", "faint", "start", 12)
    picture.text(WIDTH / 2, y, "Every decision with its reason: ferrite explain", "faint", "middle", 12)
    picture.text(WIDTH - LEFT, y, "Reference: an interpreter of loop programs", "faint", "end", 12)
    return picture


if __name__ == "__main__":
    sys.exit(svg.main(__doc__.splitlines()[0], Path(__file__).with_suffix(".svg"), draw()))
