#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The schemas of docs/schema against files: every manifest and descriptor of this project is valid, and mistakes are not.

Usage: check_schemas.py [--root DIRECTORY]
Prints one line a fault; exit status 1 when there is any.
"""

import argparse
import json
import sys
import tomllib
from pathlib import Path

import jsonschema

TOP = ("backends", "bench", "docs", "passes", "plugins", "sdk", "tests")
MANIFESTS = ("ferrite.toml", "pipeline.toml", "default.toml")
LIBRARY = 'schema = 0\nid = "a.b"\nversion = "1.0"\nlibrary = "a.so"\nabi = ">= 0.1"\n'
# Of a file, what stands between the two, and whether it is as the schema says.
CASES = {
    "manifest": {
        "schema = 0\n": True,
        "schema = 9\n": False,
        "schema = '0'\n": False,
        "": False,
        'schema = 0\nenable = ["acme.fuse"]\n[plugin."acme.fuse"]\non_error = "skip"\n': True,
        'schema = 0\nenable = "acme.fuse"\n': False,
        'schema = 0\n[plugin."acme.fuse"]\non_error = "ignore"\n': False,
        'schema = 0\n[pipeline]\nwithout = ["split", "layout"]\n': True,
        'schema = 0\n[pipeline]\nwithout = ["spilt"]\n': False,
        "schema = 0\nenabled = []\n": False,
    },
    "descriptor": {
        LIBRARY: True,
        LIBRARY.replace('abi = ">= 0.1"\n', ""): False,
        LIBRARY.replace('library = "a.so"\n', ""): False,
        LIBRARY.replace("a.b", "a..b"): False,
        LIBRARY.replace("1.0", "one"): False,
        LIBRARY + '[config]\na = "integer"\nb = { type = "integer", min = 1 }\nc.d = { type = "string" }\n': True,
        LIBRARY + "[config]\na = { min = 1 }\n": False,
        LIBRARY + '[config]\na = "int"\n': False,
        LIBRARY + '[config]\na.type = { type = "integer" }\n': True,
        LIBRARY + '[config]\na = { type = "integer", least = 1 }\n': False,
    },
    "lock": {"schema = 0\n": True, "schema = 1\n": False, "schemas = 0\n": False},
}


def kind_of(file: Path) -> str | None:
    if file.name.endswith(".plugin.toml"):
        return "descriptor"
    return "manifest" if file.name in MANIFESTS else None


def fault_of(validator: jsonschema.Draft202012Validator, text: str) -> str | None:
    for error in validator.iter_errors(tomllib.loads(text)):
        return f"{'.'.join(str(part) for part in error.absolute_path)}: {error.message}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    options = parser.parse_args()
    faults, files = [], 0
    validators = {}
    for kind in CASES:
        schema = json.loads((options.root / f"docs/schema/{kind}.json").read_text(encoding="utf-8"))
        jsonschema.Draft202012Validator.check_schema(schema)
        validators[kind] = jsonschema.Draft202012Validator(schema)
    for file in sorted(file for top in TOP for file in (options.root / top).rglob("*.toml")):
        kind = kind_of(file)
        if not kind:
            continue
        files += 1
        # In a template the id is a word between two @.
        text = file.read_text(encoding="utf-8").replace("@ID@", "acme.name").replace("@TARGET@", "acme_name")
        if fault := fault_of(validators[kind], text):
            faults.append(f"{file.relative_to(options.root)}: {fault}")
    for kind, cases in CASES.items():
        for text, valid in cases.items():
            fault = fault_of(validators[kind], text)
            if valid != (fault is None):
                faults.append(f"{kind} {text!r}: {fault or 'is valid by the schema'}")
    if files == 0:
        faults.append(f"{options.root}: there are no manifests and descriptors")
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
