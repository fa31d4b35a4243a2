#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the whole listing of a text test anew, from what the program prints now. Read the difference before keeping it.

Usage: bless.py [--ferrite FILE] FILE.fe...
For files with one line `// RUN: %ferrite ... %s ... | %FileCheck %s`, whose CHECK lines stand last.
"""

import argparse
import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def bless(ferrite, path):
    text = path.read_text()
    runs = re.findall(r"^// RUN: (.*)$", text, re.MULTILINE)
    if len(runs) != 1 or not (run := re.fullmatch(r"%ferrite (.*) \| %FileCheck %s", runs[0])):
        sys.exit(f"{path}: needs one line '// RUN: %ferrite ... | %FileCheck %s'")
    words = [word.replace("%s", str(path)) for word in shlex.split(run[1])]
    done = subprocess.run([ferrite, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{path}: {done.stderr}")
    head = re.split(r"^// CHECK", text, maxsplit=1, flags=re.MULTILINE)[0]
    first, *rest = [line.strip() for line in done.stdout.rstrip().split("\n")]
    path.write_text(head + f"// CHECK: {first}\n" + "".join(f"// CHECK-NEXT: {line}\n" for line in rest))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("files", nargs="+", type=Path)
    given = parser.parse_args()
    for path in given.files:
        bless(given.ferrite, path)


if __name__ == "__main__":
    main()
