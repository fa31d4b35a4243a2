#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A fusion pass from nothing, as docs/add-a-pass.md tells it: `ferrite plugin new`, at most 5 lines of rule text or 30 of C++
written by hand, and the matches counted on a real model. From an installed Ferrite that is to take less than 5 minutes; the
time limit of this test is one. The rule and the pass fuse the same, so they must find the same.

Usage: test_pass_from_nothing.py --prefix DIRECTORY [--models DIRECTORY]
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from installed import ROOT, Clock, build, call

WRITTEN = ROOT / "docs" / "examples" / "from_nothing"
DIMS = ("--dim", "x:0=1", "--dim", "x:2=48", "--dim", "x:3=320")


def written_lines(file: Path) -> int:
    """Lines that are neither empty nor comments."""
    lines = [line.strip() for line in file.read_text().splitlines()]
    return sum(bool(line) and not line.startswith("//") for line in lines)


def matches_of_rule(ferrite: Path, scratch: Path, model: Path) -> tuple[int, str]:
    clock = Clock()
    call(ferrite, "plugin", "new", "rules", "acme.fuse", folder=scratch)
    shutil.copy(WRITTEN / "hard_swish.rules", scratch / "acme.fuse" / "rules.fe")
    made = clock.lap()
    text = call(ferrite, "explain", "--all", model, *DIMS, "--plugin", scratch / "acme.fuse" / "acme.fuse.plugin.toml")
    count = text.count("applied  acme.fuse.hard_swish")
    return count, f"rule: {count} matches; made in {made:.1f} s, model compiled in {clock.lap():.1f} s"


def matches_of_pass(ferrite: Path, scratch: Path, prefix: Path, model: Path) -> tuple[int, str]:
    clock = Clock()
    call(ferrite, "plugin", "new", "pass", "acme.faster", folder=scratch)
    shutil.copy(WRITTEN / "hard_swish.cpp", scratch / "acme.faster" / "plugin.cpp")
    made = clock.lap()
    folder = scratch / "acme.faster" / "build"
    build(scratch / "acme.faster", folder, prefix)
    built = clock.lap()
    text = call(ferrite, "opt", model, *DIMS, "--to", "post_grad_pre", "--plugin", folder / "acme.faster.plugin.toml")
    count = text.count('by "acme.hard_swish"')
    seconds = f"made in {made:.1f} s, built in {built:.1f} s, rewritten in {clock.lap():.1f} s"
    return count, f"pass: {count} matches; {seconds}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=Path, required=True, help="where Ferrite is installed")
    parser.add_argument("--models", type=Path, default=ROOT / "build" / "models")
    arguments = parser.parse_args()
    prefix, model = arguments.prefix.resolve(), arguments.models.resolve() / "rapidocr" / "rec.onnx"
    if not model.is_file():
        raise SystemExit(f"{model} is not there; ./dev setup fetches the models")
    failures = [
        f"{name} has {written_lines(WRITTEN / name)} lines, more than {most}"
        for name, most in {"hard_swish.rules": 5, "hard_swish.cpp": 30}.items()
        if written_lines(WRITTEN / name) > most
    ]
    with tempfile.TemporaryDirectory(prefix="ferrite-from-nothing-") as name:
        ferrite, scratch = prefix / "bin" / "ferrite", Path(name)
        by_rule, rule_text = matches_of_rule(ferrite, scratch, model)
        by_pass, pass_text = matches_of_pass(ferrite, scratch, prefix, model)
    print(rule_text, pass_text, sep="\n")
    if by_rule == 0 or by_rule != by_pass:
        failures.append(f"the rule matches {by_rule} times, the pass {by_pass} times")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
