#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs a model compiled and on the interpreter, with the same inputs, and compares all outputs.

Usage: same_result.py FERRITE MODEL [options of `ferrite run`]
Floats may differ by 1e-5 relative (f64 1e-12, f16 2e-3, bf16 1.6e-2) and as much near zero; all else is equal.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

TOLERANCE = {"f64": 1e-12, "f32": 1e-5, "f16": 2e-3, "bf16": 1.6e-2}


def results(ferrite, model, folder, options):
    subprocess.run([ferrite, "run", model, "-o", folder, *options], check=True, capture_output=True)
    tensors = []
    for output in json.loads((folder / "outputs.json").read_text()):
        values = np.load(folder / f"output_{output['index']}.npy")
        if output["dtype"] == "bf16":
            values = (values.astype(np.uint32) << 16).view(np.float32)
        tensors.append((output["name"], output["dtype"], values))
    return tensors


def main():
    ferrite, model, *options = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="ferrite-same-") as scratch:
        compiled = results(ferrite, model, Path(scratch) / "cpu", options)
        expected = results(ferrite, model, Path(scratch) / "interpreter", ["--device", "interpreter", *options])
    for (name, dtype, ours), (_, _, theirs) in zip(compiled, expected, strict=True):
        bound = TOLERANCE.get(dtype, 0)
        equal = np.isclose(ours, theirs, rtol=bound, atol=bound, equal_nan=True) if bound else ours == theirs
        if not equal.all():
            place = tuple(np.argwhere(~np.atleast_1d(equal))[0])
            sys.exit(f"output {name}: {(~equal).sum()} of {equal.size} elements differ, the first at {place}: "
                     f"{np.atleast_1d(ours)[place]}, the interpreter has {np.atleast_1d(theirs)[place]}")
    print(f"{len(compiled)} outputs are the same")


if __name__ == "__main__":
    main()
