#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""sdk/examples: the superbuild builds them all against the installed tree, and their tests pass. Each has at most 150 lines of
code, the C backend of the tests at most 500. Usage: test_examples.py --prefix DIRECTORY --part K/N
Part K of N builds and tests every N-th example from the K-th on, so that each part takes less than a minute.
"""

import argparse
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

from installed import ROOT, Clock, build, run_tests

EXAMPLES = ROOT / "sdk" / "examples"
MOST_LINES = 150
# A backend that prints C, with the SDK alone.
C_BACKEND = ("c_backend.cpp", "c_printer.h")
MOST_LINES_OF_C_BACKEND = 500


def code_lines(files: Iterable[Path]) -> int:
    """Lines of C and C++ that are neither empty nor comments."""
    lines = [line.strip() for file in files for line in file.read_text().splitlines()]
    return sum(bool(line) and not line.startswith("//") for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=Path, required=True, help="where Ferrite is installed")
    parser.add_argument("--part", default="1/1", help="K/N")
    arguments = parser.parse_args()
    prefix = arguments.prefix.resolve()
    part, parts = (int(number) for number in arguments.part.split("/"))
    folders = sorted(file.parent for file in EXAMPLES.glob("*/CMakeLists.txt"))
    superbuild = (EXAMPLES / "CMakeLists.txt").read_text()
    failures = [f"{folder.name} is not in the superbuild" for folder in folders if f" {folder.name}" not in superbuild]
    stubs = ROOT / "tests" / "plugins" / "stubs"
    if (lines := code_lines(stubs / name for name in C_BACKEND)) > MOST_LINES_OF_C_BACKEND:
        failures.append(f"the backend of {C_BACKEND} has {lines} lines of code, more than {MOST_LINES_OF_C_BACKEND}")
    for folder in folders:
        sources = (file for pattern in ("*.c", "*.cpp", "*.h", "*.hpp") for file in folder.glob(pattern))
        if (lines := code_lines(sources)) > MOST_LINES:
            failures.append(f"{folder.name} has {lines} lines of code, more than {MOST_LINES}")
    clock = Clock()
    with tempfile.TemporaryDirectory(prefix="ferrite-examples-") as name:
        built = [folder.name for folder in folders][part - 1 :: parts]
        build(EXAMPLES, Path(name), prefix, f"-DFERRITE_EXAMPLES={';'.join(built)}", build_type="None")
        print(f"{len(built)} of {len(folders)} examples built in {clock.lap():.1f} s")
        print(f"{run_tests(Path(name))} tests passed in {clock.lap():.1f} s")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
