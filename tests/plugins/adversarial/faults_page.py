#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""docs/plugin-faults.md against tests/plugins/adversarial/cases.toml, which makes its table.

Usage: faults_page.py [--bless]
Exit status 1 where the page is not what the cases give, or a group has no case; --bless writes the table anew.
"""

import argparse
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
CASES = Path(__file__).with_name("cases.toml")
PAGE = ROOT / "docs/plugin-faults.md"
BEGIN, END = "<!-- the cases, from tests/plugins/adversarial/cases.toml -->\n", "<!-- end of the cases -->\n"
OUTCOMES = {
    "refused": "is not loaded",
    "undone": "its pass is undone",
    "fails": "the compilation fails",
    "device": "its device is refused",
    "harmless": "nothing happens",
    "limited": "its pass is undone after its `timeout_ms`",
    "blamed": "`--check-passes` names its pass",
    "checked": "`ferrite plugin check` finds it",
    "locked": "is not loaded",
    "ends": "the program ends with status 70",
    "silent": "the program ends without a message",
}


def read_cases() -> tuple[list[str], list[dict]]:
    document = tomllib.loads(CASES.read_text(encoding="utf-8"))
    return document["groups"], document["case"]


def table(groups: list[str], cases: list[dict]) -> str:
    rows = ["| | a plugin that … | what happens | code | in its own process |", "| --- | --- | --- | --- | --- |"]
    for number, title in enumerate(groups, 1):
        rows.append(f"| **{number}** | **{title}** | | | |")
        for case in cases:
            if case["group"] == number:
                rows.append(f"| | {case['does']} | {OUTCOMES[case['check']]} | {case['code']} | {case.get('isolated', '')} |")
    return "\n".join(rows) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bless", action="store_true", help="write the page's table anew")
    options = parser.parse_args()
    groups, cases = read_cases()
    names = [case["name"] for case in cases]
    faults = [f"group {number}, '{title}', has no case" for number, title in enumerate(groups, 1)
              if not any(case["group"] == number for case in cases)]
    faults += [f"two cases are called '{name}'" for name in sorted(set(names)) if names.count(name) > 1]
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN)
    wanted = before + BEGIN + "\n" + table(groups, cases) + "\n" + END + rest.split(END)[1]
    if options.bless:
        PAGE.write_text(wanted, encoding="utf-8")
    elif text != wanted:
        faults.append("docs/plugin-faults.md is not what cases.toml gives; run tests/plugins/adversarial/faults_page.py --bless")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
