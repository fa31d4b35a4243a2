#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every error code of sdk/include/ferrite/errors.def is expected by a test, or is one that no test can produce.

Usage: check_tested_errors.py [--root DIRECTORY]
Prints one line a violation; exit status 1 when there is any. A code counts as expected where a test names it: in C++,
Python and tables of cases in a string, in text tests anywhere.
"""

import argparse
import re
import sys
from pathlib import Path

TABLE = "sdk/include/ferrite/errors.def"
ENTRY = re.compile(r'^FE_ERROR\(\s*"(FE-[A-Z]\d\d)"', re.MULTILINE)
CODE = re.compile(r"FE-[A-Z]\d\d\b")
# "FE-M0[56]", as a pattern of a test says two codes at once, names none of them.
STRING = re.compile(r'"((?:\\.|[^"\\\n])*)"')
QUOTED = {".cpp", ".h", ".py", ".toml"}
WHOLE = {".fe", ".sh"}
EXEMPT = ("tests/rules/", "tests/docs/")

# What guards against defects of Ferrite itself, or of the machine: the reason that no test produces it.
UNREACHABLE = {
    "FE-C99": "an exception that no command lets out",
    "FE-X37": "an exception that no function of the embedding API lets out",
    "FE-G24": "an exception in a slot of the graph, or no memory",
    "FE-G50": "use lists that contradict the operands: edits keep them in step",
    "FE-G51": "a value without a type: each edit infers it",
    "FE-G54": "an operand that is gone: what is erased has no uses",
    "FE-G56": "a result of another node: edits keep them in step",
}


def expected(root: Path) -> set[str]:
    """The codes that the tests name."""
    codes: set[str] = set()
    for path in sorted((root / "tests").rglob("*")):
        name = path.relative_to(root).as_posix()
        if not path.is_file() or name.startswith(EXEMPT):
            continue
        if path.suffix in QUOTED:
            for string in STRING.findall(path.read_text(encoding="utf-8")):
                codes.update(CODE.findall(string))
        elif path.suffix in WHOLE:
            codes.update(CODE.findall(path.read_text(encoding="utf-8")))
    return codes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    root = parser.parse_args().root
    known = set(ENTRY.findall((root / TABLE).read_text(encoding="utf-8")))
    tested = expected(root)
    faults = [f"{TABLE}: no test expects {code}" for code in sorted(known - tested - set(UNREACHABLE))]
    faults += [f"UNREACHABLE: {code} is expected by a test" for code in sorted(tested & set(UNREACHABLE))]
    faults += [f"UNREACHABLE: {code} is not in {TABLE}" for code in sorted(set(UNREACHABLE) - known)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
