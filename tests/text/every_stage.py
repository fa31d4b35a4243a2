#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Takes a model through the stages one by one, each from the text of the one before, and compares with the direct way.

Usage: every_stage.py FERRITE MODEL [options of `ferrite opt` that are no inputs]
Loop programs and schedules also come out of their own stage as they went in, and each kernel of the listing does when it
is cut out of it; its machine code is then that of the model's.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path

# A text, the stages that it goes through, and the text that these end in.
STEPS = [
    ("import", "pre_grad", "pre_lower", "pre_lower"),
    ("pre_lower", "lower", "lower", "lower"),
    ("lower", "inline", "inline", "inline"),
    ("inline", "pre_fusion", "pre_fusion", "inline"),
    ("inline", "fuse", "fuse", "fuse"),
    ("fuse", "post_fusion", "post_fusion", "post_fusion"),
    ("post_fusion", "schedule", "schedule", "schedule"),
    ("schedule", "schedule", "schedule", "schedule"),
    ("schedule", "emit", "emit", "emit"),
]


def without_node_numbers(text):
    return re.sub(r"^( *\w+ .* from .*)$", lambda line: re.sub(r" %\d+\)", ")", line[1]), text, flags=re.MULTILINE)


# A kernel of a listing or of its code: name, candidate, and the lines within.
KERNEL = re.compile(r"^kernel (\w+) from .* candidate (\S+) \{\n((?:  .*\n|\n)*)\}\n", re.MULTILINE)


def kernels_of(listing):
    return {name: (candidate, body) for name, candidate, body in KERNEL.findall(listing)}


def without_comments(entry):
    """Code without what names the model's nodes."""
    return entry and (entry[0], re.sub(r"^  ;.*\n", "", entry[1], flags=re.MULTILINE))


def main():
    ferrite, model, *options = sys.argv[1:]

    def opt(source, *arguments):
        command = [ferrite, "opt", source, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"opt {source} {' '.join(arguments)}: {done.stderr}")
        return done.stdout

    stages = list(dict.fromkeys(stage for step in STEPS for stage in (step[0], step[3])))
    direct = {stage: opt(model, "--to", stage, *options) for stage in stages}
    with tempfile.TemporaryDirectory(prefix="ferrite-stages-") as scratch:
        for number, (source, first, last, expected) in enumerate(STEPS):
            text = Path(scratch) / f"{number}_{source}.fe"
            text.write_text(direct[source])
            result = opt(text, "--from", first, "--to", last, *options)
            # Nodes are numbered as they stand in the graph that was read.
            if without_node_numbers(result) != without_node_numbers(direct[expected]):
                sys.exit(f"the text of '{source}' through '{first}' to '{last}' is not that of '{expected}'")
        kernels, code = kernels_of(direct["emit"]), kernels_of(opt(model, "--to", "code", *options))
        if list(kernels) != list(code):
            sys.exit("'emit' and 'code' show different kernels")
        for name, (candidate, body) in kernels.items():
            text = Path(scratch) / f"{name}.fe"
            text.write_text(re.sub(r"^  ", "", body, flags=re.MULTILINE))
            listed = kernels_of(opt(text, "--from", "emit", *options)).get(name)
            # What packs a constant is not proposed for but compiled as it is; by itself it is a kernel like others.
            if candidate == '"pack"' and listed and listed[1] == body:
                continue
            if listed != (candidate, body):
                sys.exit(f"kernel {name} comes out of 'emit' as another one")
            alone = kernels_of(opt(text, "--to", "code", *options))
            if without_comments(alone.get(name)) != without_comments(code[name]):
                sys.exit(f"the code of kernel {name} is not that of the model's")
    print(f"{len(STEPS)} texts and {len(kernels)} kernels are the same")


if __name__ == "__main__":
    main()
