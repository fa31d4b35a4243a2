#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The error codes of the sources against sdk/include/ferrite/errors.def, and docs/errors.md against it.

Usage: check_errors.py [--root DIRECTORY] [--bless]
Prints one line a violation; exit status 1 when there is any. --bless writes docs/errors.md anew.

  each code stands in errors.def once, under the family of its letter, in order
  each code that the sources raise or document is in errors.def, and each of errors.def is raised somewhere
  docs/errors.md is what errors.def gives
"""

import argparse
import re
import sys
from pathlib import Path

SOURCES = ("core", "runtime", "driver", "tools", "sdk", "plugins", "passes", "backends", "examples", "python")
SUFFIXES = {".py", ".c", ".cpp", ".h", ".hpp", ".def"}
TABLE = "sdk/include/ferrite/errors.def"
PAGE = "docs/errors.md"
FAMILIES = {
    "I": ("import", "Import: reading a model"),
    "G": ("graph", "Graph: values, nodes, types, and the text of all stages"),
    "R": ("rule", "Rule: declarative rewriting"),
    "P": ("plugin", "Plugin: loading, contributions, passes"),
    "M": ("manifest", "Manifest: manifests, descriptors, lock files"),
    "S": ("schedule", "Schedule: the views of pre_fusion and post_fusion"),
    "K": ("kernel", "Kernel: loop programs, lowering, kernels"),
    "T": ("tune", "Tune: deciding between candidates by measuring them"),
    "X": ("run", "Run: inputs, outputs, the interpreter, the embedding API"),
    "D": ("device", "Device: finding, loading, launching"),
    "C": ("command", "Command line"),
    "Y": ("python", "Python: the package ferrite, torch.compile"),
}
STRING = r'((?:"(?:\\.|[^"\\])*"\s*)+)'  # adjacent literals are one
ENTRY = re.compile(r'^FE_ERROR\(\s*"([^"]*)",\s*(\w+),\s*' + STRING + r",\s*" + STRING + r"\)", re.MULTILINE)
CODE = re.compile(r"FE-[A-Z]\d\d\b")
RAISED = re.compile(r'"(FE-[A-Z]\d\d)"')
# What shows the form of a code and raises nothing.
COMMENT = re.compile(r"//[^\n]*")

HEAD = """# Error codes

Every error of Ferrite has a code, a place and a text: `FE-X04 model.onnx: input 'x' has shape [1, 3], ...`. A
code is `FE-`, a letter and a number. The letter names a family of errors, and each family has a section of
this page. A code keeps its meaning in later versions. The codes of a plugin's own errors are
`<plugin id>/<name>`. Each error belongs to a class, which decides the [exit status](command-line.md) of a
command.

This page is generated: to change it, edit `sdk/include/ferrite/errors.def` and run
`tests/rules/check_errors.py --bless`.
"""


def plain(text: str) -> str:
    """The text of a C string literal, or of several in a row."""
    return "".join(re.findall(r'"((?:\\.|[^"\\])*)"', text)).replace('\\"', '"').replace("\\\\", "\\")


def entries(root: Path) -> list[tuple[str, str, str, str]]:
    """(code, family, what, cure) for each line of the table."""
    text = (root / TABLE).read_text(encoding="utf-8")
    return [(code, family, plain(what), plain(cure)) for code, family, what, cure in ENTRY.findall(text)]


def page(table: list[tuple[str, str, str, str]]) -> str:
    """docs/errors.md."""
    parts = [HEAD]
    for letter, (family, title) in FAMILIES.items():
        parts.append(f"\n## {title}\n\n| code | what is wrong | what to do |\n| --- | --- | --- |\n")
        for code, _, what, cure in table:
            if code[3] == letter:
                parts.append(f"| {code} | {what} | {cure} |\n".replace("[-rank, rank)", "`[-rank, rank)`"))
    return "".join(parts)


def table_faults(table: list[tuple[str, str, str, str]], text: str) -> list[str]:
    """What is wrong within the table."""
    faults = []
    if len(table) != text.count("\nFE_ERROR("):
        faults.append(f"{TABLE}: {text.count(chr(10) + 'FE_ERROR(')} entries, of which {len(table)} can be read")
    last = {}
    for code, family, _, _ in table:
        if not CODE.fullmatch(code):
            faults.append(f"{TABLE}: '{code}' is no code; write FE-<letter><two digits>")
            continue
        if FAMILIES.get(code[3], ("",))[0] != family:
            faults.append(f"{TABLE}: {code} is given for the family '{family}'")
        if last.get(code[3], "") >= code:
            faults.append(f"{TABLE}: {code} stands twice, or behind {last[code[3]]}")
        last[code[3]] = code
    return faults


def source_faults(root: Path, known: set[str]) -> list[str]:
    """Codes of the sources that the table lacks, and those of the table that nothing raises."""
    faults, raised = [], set()
    for folder in SOURCES:
        for path in sorted((root / folder).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix not in SUFFIXES or name == TABLE:
                continue
            text = path.read_text(encoding="utf-8", errors="replace")
            raised.update(RAISED.findall(COMMENT.sub("", text)))
            for number, line in enumerate(text.splitlines(), 1):
                faults += [f"{name}:{number}: {code} is not in {TABLE}" for code in CODE.findall(line) if code not in known]
    faults += [f"{TABLE}: nothing raises {code}" for code in sorted(known - raised)]
    return faults


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--bless", action="store_true", help="write docs/errors.md anew")
    options = parser.parse_args()
    table = entries(options.root)
    faults = table_faults(table, (options.root / TABLE).read_text(encoding="utf-8"))
    faults += source_faults(options.root, {entry[0] for entry in table})
    target = options.root / PAGE
    if options.bless:
        target.write_text(page(table), encoding="utf-8")
    elif not target.exists() or target.read_text(encoding="utf-8") != page(table):
        faults.append(f"{PAGE}: is not what {TABLE} gives; run tests/rules/check_errors.py --bless")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
