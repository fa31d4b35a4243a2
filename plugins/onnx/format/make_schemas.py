#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes schemas.def, the signatures of all ONNX operators, from the schemas of the Python package onnx.

Usage: make_schemas.py [--check]
--check compares instead of writing; exit status 1 where the file differs, 77 where another version of the package
made it.
"""

import sys
from itertools import groupby
from pathlib import Path

import onnx
from onnx import defs

TARGET = Path(__file__).resolve().parent / "schemas.def"
MANY = 2147483647
# By the numbers of AttributeProto.AttributeType.
LETTERS = "?fistgFISTGxXpP"
HEADER = """\
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operators of ONNX {version}, up to operator set {opset}; made by make_schemas.py.
// ONNX_OP(domain, name, since, fewest inputs, most inputs, fewest outputs, most outputs, attributes, inputs, outputs): the signature
// from the operator set `since` on, until the next line of that name; -1: any number. An attribute is name:type, with '!' where it
// is required; the types are {letters} in the order of AttributeProto. Inputs and outputs are names.
// ONNX_OP_REMOVED(domain, name, since): the operator sets from `since` on lack it.
"""


def attributes_of(schema):
    parts = []
    for name, attribute in sorted(schema.attributes.items()):
        letter = LETTERS[int(attribute.type.value)]
        parts.append(f"{name}:{letter}{'!' if attribute.required else ''}")
    return " ".join(parts)


def lines():
    def key(schema):
        return schema.domain, schema.name

    def count(number):
        return -1 if number == MANY else number

    for (domain, name), versions in groupby(
        sorted(defs.get_all_schemas_with_history(), key=lambda s: (*key(s), s.since_version)), key
    ):
        last = None
        for schema in versions:
            place = f'"{domain}", "{name}", {schema.since_version}'
            if schema.deprecated:
                yield f"ONNX_OP_REMOVED({place})"
                last = None
                continue
            counts = [count(n) for n in (schema.min_input, schema.max_input, schema.min_output, schema.max_output)]
            names = [" ".join(formal.name.rstrip(".") for formal in formals) for formals in (schema.inputs, schema.outputs)]
            signature = ", ".join(map(str, counts)) + f', "{attributes_of(schema)}", "{names[0]}", "{names[1]}"'
            if signature != last:
                yield f"ONNX_OP({place}, {signature})"
            last = signature


def main():
    header = HEADER.format(version=onnx.__version__, opset=defs.onnx_opset_version(), letters=LETTERS[1:])
    text = header + "\n".join(lines()) + "\n"
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
        return 0
    written = TARGET.read_text()
    if f"of ONNX {onnx.__version__}," not in written:
        print(f"{TARGET.name} was not made by ONNX {onnx.__version__}")
        return 77
    if written != text:
        print(f"{TARGET.name} is not what make_schemas.py writes; run it")
    return int(written != text)


if __name__ == "__main__":
    sys.exit(main())
