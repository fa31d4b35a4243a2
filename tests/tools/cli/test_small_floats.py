#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Floats of 8 bits, from and to every other type, on the interpreter and in compiled code, beside what ml_dtypes makes of them.

Usage: test_small_floats.py [--ferrite FILE] [unittest options]
"""

import json
import platform
import sys
import unittest
from pathlib import Path

import ml_dtypes
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from program import OK, ProgramTest, main  # noqa: E402

SMALL = {
    "f8e4m3": ml_dtypes.float8_e4m3fn,
    "f8e5m2": ml_dtypes.float8_e5m2,
    "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
    "f8e5m2fnuz": ml_dtypes.float8_e5m2fnuz,
}
TYPES = SMALL | {"bf16": ml_dtypes.bfloat16, "f16": np.float16, "f32": np.float32, "f64": np.float64, "i32": np.int32, "u8": np.uint8}
RAW = {1: np.uint8, 2: np.uint16}  # what files have of types that NumPy lacks


def edges(wide):
    """Of every form each value, the middle between it and the next one, what lies beside both, and what no form has."""
    with np.errstate(all="ignore"):
        found = [np.array([0, -0.0, np.nan, -np.nan, np.inf, -np.inf, 1e-30, -1e30, 464, 61440, 248, 1e-45], wide)]
        for small in SMALL.values():
            values = np.arange(256, dtype=np.uint8).view(small).astype(wide)
            middles = (values + np.roll(values, -1)) / 2
            found += [op(x, np.array(to, wide)) for x in (values, middles) for op, to in
                      ((lambda x, _: x, 0), (np.nextafter, np.inf), (np.nextafter, -np.inf))]  # fmt: skip
        return np.concatenate(found)


def to_odd(wide):
    """f64 to f32, of which a narrower float is what it is of the f64: ml_dtypes itself rounds twice."""
    with np.errstate(all="ignore"):
        nearest = wide.astype(np.float32)
        back = nearest.astype(np.float64)
        truncated = nearest.view(np.uint32) - (np.abs(back) > np.abs(wide)).astype(np.uint32)
        odd = (truncated | (back != wide)).astype(np.uint32).view(np.float32)
        return np.where(np.isnan(wide), nearest, odd)


def inputs():
    """The elements that each type is read with: all of types up to 16 bits."""
    bits = {1: np.arange(256, dtype=np.uint8), 2: np.arange(65536, dtype=np.uint16)}
    whole = np.concatenate([np.arange(-600, 600), [57343, 61439, 61440, 65535, -(2**31), 2**31 - 1]]).astype(np.int32)
    result = {"f32": edges(np.float32), "f64": edges(np.float64), "i32": whole}
    for name, dtype in TYPES.items():
        size = np.dtype(dtype).itemsize
        result.setdefault(name, bits[size].view(dtype) if size in bits else None)
    return result


class SmallFloatsTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.given = inputs()
        self.words = []
        for name, values in self.given.items():
            np.save(self.folder / f"{name}.npy", values.view(RAW.get(values.itemsize, values.dtype)) if name in SMALL or name == "bf16" else values)
            self.words += ["-i", f"{name}={name}.npy"]

    def results(self, nodes, *words, target=None):
        """The outputs of a graph that has all inputs, by name; `target`: from a package for it."""
        ports = ", ".join(f"%{name}: {name}[{values.size}]" for name, values in self.given.items())
        outputs = ", ".join(f'%{name} "{name}"' for name in nodes)
        body = "".join(f"  %{name} = {node}\n" for name, node in nodes.items())
        (self.folder / "g.fe").write_text(f"ferrite graph 0\ngraph @g({ports}) -> ({outputs}) {{\n{body}}}\n")
        model = "g.fe"
        if target:
            done = self.call("compile", model, "--target", target, "-o", "g.fepkg")
            self.assertEqual(done.returncode, OK, done.stderr)
            model = "g.fepkg"
        done = self.call("run", model, *self.words, *words, "-o", "out")
        self.assertEqual(done.returncode, OK, done.stderr)
        found = {}
        for output in json.loads((self.folder / "out/outputs.json").read_text()):
            values, dtype = np.load(self.folder / f"out/output_{output['index']}.npy"), TYPES[output["dtype"]]
            found[output["name"]] = values if values.dtype == dtype else values.view(dtype)
        return found

    def assertSame(self, found, expected, name):
        """Equal bits, but for those of a NaN."""
        raw = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[expected.itemsize]
        self.assertEqual(found.dtype, expected.dtype, name)
        same = found.view(raw) == expected.view(raw)
        if expected.dtype.kind not in "iu":
            same |= np.isnan(found.astype(np.float64)) & np.isnan(expected.astype(np.float64))
        self.assertTrue(same.all(), f"{name}: {np.flatnonzero(~same)[:5]}: {found[~same][:5]}, not {expected[~same][:5]}")

    def check_casts(self, *words, **options):
        pairs = [(a, b) for a in TYPES for b in TYPES if a != b and (a in SMALL or b in SMALL)]
        found = self.results({f"{a}_{b}": f"cast(%{a}) {{dtype = {b}}}" for a, b in pairs}, *words, **options)
        for a, b in pairs:
            with np.errstate(all="ignore"):
                given = to_odd(self.given[a]) if a == "f64" and b in SMALL else self.given[a]
                expected = given.astype(TYPES[b])
                if b in ("i32", "u8"):  # saturates, and NaN gives 0
                    limits = np.iinfo(TYPES[b])
                    expected = np.clip(np.nan_to_num(self.given[a].astype(np.float64)), limits.min, limits.max).astype(TYPES[b])
            self.assertSame(found[f"{a}_{b}"], expected, f"{a} to {b}")

    def test_casts_of_the_interpreter(self):
        self.check_casts("--device", "interpreter")

    def test_casts_of_compiled_code(self):
        self.check_casts()

    @unittest.skipIf(platform.machine() != "x86_64", "the target is a level of x86-64")
    def test_casts_of_the_baseline(self):
        self.check_casts(target="x86-64")

    def test_what_is_only_moved_keeps_its_bits(self):
        nodes = {f"m_{name}": f"reshape(%{name}) {{shape = [16, 16]}}" for name in SMALL}
        nodes |= {f"t_{name}": f"transpose(%m_{name}) {{perm = [1, 0]}}" for name in SMALL}
        nodes |= {f"b_{name}": f"bitcast(%{name}) {{dtype = u8}}" for name in SMALL}
        found = self.results(nodes)
        for name in SMALL:
            self.assertSame(found[f"t_{name}"], self.given[name].reshape(16, 16).T.copy(), name)
            self.assertSame(found[f"b_{name}"].view(SMALL[name]), self.given[name], name)

    def test_extremes_of_nothing(self):
        """ONNX's ReduceMax and ReduceMin: infinite, or the last number of a type without infinities, as ml_dtypes has it."""
        nodes = {f"n_{name}": f"slice(%{name}) {{starts = [0], sizes = [0], strides = [1]}}" for name in SMALL}
        nodes |= {f"{op}_{name}": f"reduce_{op}(%n_{name}) {{axes = [0]}}" for name in SMALL for op in ("max", "min")}
        for words in ((), ("--device", "interpreter")):
            found = self.results(nodes, *words)
            for name, dtype in SMALL.items():
                last = np.inf if name == "f8e5m2" else float(ml_dtypes.finfo(dtype).max)
                for op, value in (("max", -last), ("min", last)):
                    self.assertEqual(float(found[f"{op}_{name}"].astype(np.float32).ravel()[0]), value, f"{op} of {name}")

    def test_arithmetic_is_rounded_once(self):
        """Of two values in f32, then to the nearest."""
        nodes = {f"{op}_{name}": f"{op}(%{name}, %r_{name})" for name in SMALL for op in ("add", "mul")}
        turned = {f"r_{name}": f"slice(%{name}) {{starts = [255], sizes = [256], strides = [-1]}}" for name in SMALL}
        found = self.results(turned | nodes)
        for name, dtype in SMALL.items():
            x = self.given[name].astype(np.float32)
            with np.errstate(all="ignore"):
                self.assertSame(found[f"add_{name}"], (x + x[::-1]).astype(dtype), f"add {name}")
                self.assertSame(found[f"mul_{name}"], (x * x[::-1]).astype(dtype), f"mul {name}")


if __name__ == "__main__":
    main(__doc__)
