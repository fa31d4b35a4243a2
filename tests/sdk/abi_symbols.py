#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What libferrite and the plugins of this repository export, against a golden file.

Usage: abi_symbols.py [--build DIRECTORY] [--nm FILE] [--bless]

A symbol that is gone breaks what was linked against it; one that came without being meant to is a promise that nobody made.
"""

import argparse
import difflib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = Path(__file__).with_name("abi_symbols.golden")


def exported(nm: str, library: Path) -> list[str]:
    """The names of the dynamic symbols that a library defines, sorted."""
    done = subprocess.run([nm, "--dynamic", "--defined-only", "--format=posix", library], capture_output=True, text=True, check=True)
    return sorted(line.split()[0] for line in done.stdout.splitlines() if line)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--nm", default="nm")
    parser.add_argument("--bless", action="store_true", help="write the golden file instead of comparing with it")
    options = parser.parse_args()
    libraries = [options.build / "lib" / "libferrite.so", *sorted((options.build / "lib/ferrite/plugins").glob("*.so"))]
    if len(libraries) < 2:
        print(f"FAILED: there are no plugins in {options.build}/lib/ferrite/plugins")
        return 1
    text = "".join(f"{library.name}\n" + "".join(f"  {name}\n" for name in exported(options.nm, library)) for library in libraries)
    if options.bless:
        GOLDEN.write_text(text, encoding="utf-8")
    golden = GOLDEN.read_text(encoding="utf-8") if GOLDEN.is_file() else ""
    print(f"{len(libraries)} libraries, {text.count('  ')} symbols")
    if text == golden:
        return 0
    change = difflib.unified_diff(golden.splitlines(), text.splitlines(), GOLDEN.name, "the libraries", lineterm="", n=1)
    print("FAILED: other symbols are exported than the golden file has (--bless accepts them):\n" + "\n".join(change))
    return 1


if __name__ == "__main__":
    sys.exit(main())
