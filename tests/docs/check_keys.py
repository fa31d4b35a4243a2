#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The schemas of docs/schema and the tables of docs/manifest.md against what `ferrite plugin schema` gives.

Usage: check_keys.py [--root DIRECTORY] [--ferrite FILE] [--bless]
Prints one line a violation; exit status 1 when there is any. --bless writes both anew.

In the page the tables of a kind of file stand between `<!-- keys: KIND -->` and `<!-- end of keys -->`.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

KINDS = ("manifest", "descriptor", "lock")
PAGE = "docs/manifest.md"
CURE = "run tests/docs/check_keys.py --bless"


def schema(ferrite: Path, *words: str) -> str:
    return subprocess.run([ferrite, "plugin", "schema", *words], capture_output=True, text=True, check=True).stdout


def with_tables(page: str, kind: str, tables: str) -> str | None:
    """The page with other tables for a kind of file; nothing where it has no place for them."""
    part = re.compile(rf"(<!-- keys: {kind} -->\n).*?(<!-- end of keys -->\n)", re.DOTALL)
    if not part.search(page):
        return None
    return part.sub(lambda match: f"{match[1]}\n{tables}\n{match[2]}", page)


def main() -> int:
    root = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=root)
    parser.add_argument("--ferrite", type=Path, default=root / "build/release/bin/ferrite")
    parser.add_argument("--bless", action="store_true", help="write the files anew")
    options = parser.parse_args()
    wanted: dict[str, str] = {}
    page = (options.root / PAGE).read_text(encoding="utf-8")
    faults = []
    for kind in KINDS:
        wanted[f"docs/schema/{kind}.json"] = schema(options.ferrite, kind)
        changed = with_tables(page, kind, schema(options.ferrite, kind, "--markdown"))
        if changed is None:
            faults.append(f"{PAGE}: there are no lines <!-- keys: {kind} --> and <!-- end of keys -->")
        page = changed or page
    wanted[PAGE] = page
    for name, text in wanted.items():
        file = options.root / name
        if options.bless:
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
        elif not file.exists() or file.read_text(encoding="utf-8") != text:
            faults.append(f"{name}: is not what `ferrite plugin schema` gives; {CURE}")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
