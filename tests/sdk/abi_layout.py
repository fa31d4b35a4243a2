#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The plugin ABI keeps its layout: offsets and sizes of every struct against a golden file; every header stands alone.

Usage: abi_layout.py [--cc FILE] [--cxx FILE] [--bless]

The structs are read from the headers, so that none can be forgotten; the C compiler says where their fields lie. Padding at
the end of a struct is an error: a field appended there would change the meaning of bytes that older code left unset.
"""

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
INCLUDE = ROOT / "sdk" / "include"
ABI = INCLUDE / "ferrite" / "abi"
GOLDEN = Path(__file__).with_name("abi_v0.golden")

Structs = dict[str, list[str]]


def field_names(declaration: str) -> list[str]:
    """Names that one member declaration gives: 'fe_value_token a, b', 'const void* data', 'int32_t (*run)(void*, ...)'."""
    function = re.search(r"\(\s*\*\s*(\w+)\s*\)\s*\(", declaration)
    if function:
        return [function.group(1)]
    names = [re.search(r"(\w+)\s*(\[\w+\])?\s*$", part) for part in declaration.split(",")]
    if not all(names):
        raise ValueError(f"cannot read the member '{declaration}'")
    return [name.group(1) for name in names]


def structs_of(header: Path) -> Structs:
    text = header.read_text(encoding="utf-8")
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    found: Structs = {}
    for match in re.finditer(r"typedef\s+struct\s+(\w+)\s*\{(.*?)\}\s*(\w+)\s*;", text, flags=re.DOTALL):
        name, body, alias = match.groups()
        if name != alias:
            raise ValueError(f"{header.name}: struct {name} is called {alias}")
        members = [" ".join(member.split()) for member in body.split(";")]
        found[name] = [field for member in members if member for field in field_names(member)]
    declared = len(re.findall(r"\bstruct\s+\w+\s*\{", text))
    if declared != len(found):
        raise ValueError(f"{header.name}: {declared} structs, {len(found)} were read")
    return found


def program_of(headers: list[Path], structs: Structs) -> str:
    lines = [f"#include <ferrite/abi/{header.name}>" for header in headers]
    lines += ["#include <stdio.h>", "int main(void) {"]
    for name, fields in structs.items():
        lines.append(f'  printf("{name} %zu\\n", sizeof({name}));')
        for field in fields:
            lines.append(f'  printf("  {field} %zu %zu\\n", offsetof({name}, {field}), sizeof((({name}*)0)->{field}));')
    return "\n".join([*lines, "  return 0;", "}", ""])


def padding_of(layout: str) -> list[str]:
    """Structs whose last field does not end where the struct ends."""
    faults, name, size, end = [], "", 0, 0
    for line in [*layout.splitlines(), "end 0"]:
        if line.startswith("  "):
            _, offset, length = line.split()
            end = int(offset) + int(length)
            continue
        if end != size:
            faults.append(f"{name}: {size - end} bytes of padding at its end")
        name, size, end = line.split()[0], int(line.split()[1]), 0
        end = 0 if name != "end" else size
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--cxx", default="c++")
    parser.add_argument("--bless", action="store_true", help="write the golden file instead of comparing with it")
    arguments = parser.parse_args()
    headers = sorted(ABI.glob("*.h"))
    failures: list[str] = []

    for header in headers:
        for compiler, language, standard in ((arguments.cc, "c", "c11"), (arguments.cxx, "c++", "c++20")):
            done = subprocess.run(
                [compiler, "-x", language, f"-std={standard}", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only"]
                + [f"-I{INCLUDE}", "-"],
                input=f"#include <ferrite/abi/{header.name}>\n", capture_output=True, text=True, check=False,
            )
            if done.returncode != 0:
                failures.append(f"{header.name} alone as {standard}:\n{done.stderr}")

    structs: Structs = {}
    for header in headers:
        structs |= structs_of(header)
    with tempfile.TemporaryDirectory(prefix="ferrite-abi-") as scratch:
        source, program = Path(scratch) / "layout.c", Path(scratch) / "layout"
        source.write_text(program_of(headers, structs), encoding="utf-8")
        subprocess.run([arguments.cc, "-std=c11", f"-I{INCLUDE}", source, "-o", program], check=True)
        layout = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    failures += padding_of(layout)

    if arguments.bless:
        GOLDEN.write_text(layout, encoding="utf-8")
    golden = GOLDEN.read_text(encoding="utf-8") if GOLDEN.is_file() else ""
    if layout != golden:
        change = difflib.unified_diff(golden.splitlines(), layout.splitlines(), str(GOLDEN.name), "the headers", lineterm="", n=1)
        failures.append("the layout is not the golden one (--bless accepts it):\n" + "\n".join(change))
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{len(headers)} headers, {len(structs)} structs")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
