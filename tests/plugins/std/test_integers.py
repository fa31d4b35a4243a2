#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators at the ends of ranges: unsigned indices, zero points of 32 and 64 bits, factors of integers, windows and neighbours that
are larger than what they look at, zero norms. Expected values by Python's integers and NumPy.

Usage: test_integers.py [--ferrite FILE] [unittest options]
"""

import re
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import BAD_INPUT, OK, ProgramTest, main  # noqa: E402

INTERPRETER = ("--device", "interpreter")
NAMES = {"bool": "bool", "float32": "f32", "float64": "f64"}
NAMES |= {f"{kind}{bits}": f"{kind[0]}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
UNSIGNED = (np.uint8, np.uint16, np.uint32, np.uint64)


class GraphTest(ProgramTest):
    def run_ops(self, cases, *options):
        """The process that runs a graph of cases: each the call of an op, and its inputs by their names there."""
        declared, words, body = [], [], ""
        for k, (call, inputs) in enumerate(cases):
            for name, x in inputs.items():
                x = np.asarray(x)
                np.save(self.folder / f"{name}{k}.npy", x)
                declared.append(f"%{name}{k}: {NAMES[x.dtype.name]}[{','.join(map(str, x.shape))}]")
                words += ["-i", f"{name}{k}={name}{k}.npy"]
            body += f"  %r{k} = {re.sub(r'%[a-z]', lambda found, k=k: f'{found[0]}{k}', call)}\n"
        outputs = ", ".join(f'%r{k} "r{k}"' for k in range(len(cases)))
        (self.folder / "g.fe").write_text(f"ferrite graph 0\ngraph @g({', '.join(declared)}) -> ({outputs}) {{\n{body}}}\n")
        return self.call("run", "g.fe", *words, "-o", "out", *options)

    def check(self, cases, rtol=0.0):
        """Cases of run_ops, each with what it gives, in code and in the interpreter."""
        for options in ((), INTERPRETER):
            done = self.run_ops([(call, inputs) for call, inputs, _ in cases], *options)
            self.assertEqual(done.returncode, OK, done.stderr)
            for k, (call, inputs, wanted) in enumerate(cases):
                with self.subTest(call=call, inputs=inputs, options=options):
                    found = np.load(self.folder / f"out/output_{k}.npy")
                    self.assertEqual((found.dtype, found.shape), (wanted.dtype, wanted.shape))
                    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=0)


class Indices(GraphTest):
    CALLS = {
        "gather(%x, %i)": (5, 3),
        "gather_elements(%x, %i)": (5, 3),
        "gather_nd(%x, %i)": (5, (3, 1)),
        "scatter_elements(%x, %i, %u)": (5, 3),
        'scatter_elements(%x, %i, %u) {reduction = "add"}': (5, 3),
        "scatter_nd(%x, %i, %u)": (5, (3, 1)),
        'scatter_nd(%x, %i, %u) {reduction = "max"}': (5, (3, 1)),
        "scatter_into_constant(%i, %u, %f) {size = 5}": (5, 1),
        "reverse_sequence(%x, %n) {batch_axis = 0, time_axis = 1}": ((2, 5), 2),
    }

    def inputs(self, call, indices, shape):
        given = {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "i": indices, "n": indices,
                 "u": np.full(indices.size, 50, np.float32), "f": np.float32(7)}  # fmt: skip
        return {name: x for name, x in given.items() if f"%{name}" in call}

    def test_unsigned_ones_are_never_negative(self):
        """2^64 - 1 is out of range, and not the last place."""
        for call, (shape, count) in self.CALLS.items():
            for wrong in (2**64 - 1, 2**63):
                indices = np.zeros(count, np.uint64)
                indices.flat[-1] = wrong
                case = (call, self.inputs(call, indices, shape))
                with self.subTest(call=call, wrong=wrong):
                    self.assertRefused(self.run_ops([case]), "FE-X10", "out of range", BAD_INPUT)
                    self.assertRefused(self.run_ops([case], *INTERPRETER), "FE-X21", "out of range", BAD_INPUT)

    def test_unsigned_ones_in_range(self):
        x = np.arange(300, dtype=np.float32)
        indices = [np.array([0, 3, 255], dtype) for dtype in UNSIGNED]
        cases = [("gather(%x, %i)", {"x": x, "i": i}, x[i]) for i in indices]
        lines = np.arange(6, dtype=np.float32).reshape(2, 3)
        cases.append(("reverse_sequence(%x, %n) {batch_axis = 0, time_axis = 1}", {"x": lines, "n": np.array([2, 1], np.uint64)},
                      np.array([[1, 0, 2], [3, 4, 5]], np.float32)))  # fmt: skip
        self.check(cases)

    def test_one_hot(self):
        values, cases = np.array([0, 1], np.float32), []
        for dtype in (*UNSIGNED, np.int8, np.int64):
            most = np.iinfo(dtype).max
            numbers = [0, 2, 3, most, most - 1] + ([] if dtype in UNSIGNED else [-1, -3, -4, np.iinfo(dtype).min])
            wanted = [[float(number == k or number + 3 == k) for k in range(3)] for number in numbers]
            cases.append(("one_hot(%i, %v) {depth = 3}", {"i": np.array(numbers, dtype), "v": values}, np.array(wanted, np.float32)))
        self.check(cases)


class Quantised(GraphTest):
    def test_dequantize(self):
        """The exact difference, rounded to the float once: an integer of 65 bits goes to f64 so, and these to f32 by f64, too."""
        cases = []
        for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
            info = np.iinfo(dtype)
            numbers = sorted({info.min, info.min + 1, info.max, info.max - 1, max(info.min, -7), 0, 5, info.max // 2})
            for float_ in (np.float32, np.float64):
                scale = float_(0.5)
                for zero in (None, numbers[0], numbers[-1], numbers[3]):
                    wanted = np.array([float_(float(number - (zero or 0))) for number in numbers]) * scale
                    inputs = {"q": np.array(numbers, dtype), "s": scale} | ({} if zero is None else {"z": dtype(zero)})
                    cases.append((f"dequantize_linear({', '.join('%' + name for name in inputs)})", inputs, wanted))
        self.check(cases)

    def test_quantize(self):
        """round(x / scale) + zero, saturated: the sum is exact. NaN is 0."""
        numbers = [0.0, 1.0, -1.0, 2.5, -3.5, 2.0**20, -(2.0**20), 2.0**31, -(2.0**33), 2.0**63, -(2.0**63), 2.0**70, np.inf, -np.inf, np.nan]
        cases = []
        for dtype in (np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64):
            info = np.iinfo(dtype)
            for zero in (info.min, info.max, info.max - 3, 5):
                wholes = [int(np.rint(number)) if np.isfinite(number) else int(np.sign(number)) * 2**80 for number in numbers[:-1]]
                wanted = [min(max(whole + int(zero), info.min), info.max) for whole in wholes] + [0]
                cases.append(("quantize_linear(%x, %s, %z)", {"x": np.array(numbers), "s": np.float64(1), "z": dtype(zero)},
                              np.array(wanted, dtype)))  # fmt: skip
        self.check(cases)


class Products(GraphTest):
    def test_factors_of_integers(self):
        """Those that the dtype has not: in f64, truncated."""
        a, b = np.array([[3, -4], [5, 6]], np.int32), np.array([[7, 2], [-1, 3]], np.int32)
        inputs = {"a": a, "b": b, "c": np.array([1, -3], np.int32)}
        cases = []
        for alpha, beta in ((0.5, 1.0), (1.0, 0.25), (-1.5, -2.5), (2.0, 3.0), (-2.0, 1.0), (1e-3, 1e-3), (0.5, 0.0)):
            wanted = np.trunc(alpha * (a @ b) + beta * inputs["c"]).astype(np.int32)
            cases.append((f"gemm(%a, %b, %c) {{alpha = {alpha!r}, beta = {beta!r}}}", inputs, wanted))
        one = np.array([[1]], np.uint8)
        cases.append(("gemm(%a, %b, %c) {alpha = -1.0}", {"a": one, "b": one, "c": np.array([5], np.uint8)}, np.array([[4]], np.uint8)))
        cases.append(("gemm(%a, %b) {alpha = 300.5}", {"a": one, "b": one}, np.array([[255]], np.uint8)))
        self.check(cases)

    def test_beta_of_zero_does_not_read(self):
        a, b = np.ones((2, 3), np.float32), np.full((3, 2), 2, np.float32)
        self.check([("gemm(%a, %b, %c) {beta = 0.0}", {"a": a, "b": b, "c": np.full(2, c, np.float32)}, a @ b) for c in (np.nan, np.inf)])

    def test_means_of_u64(self):
        x = np.array([2**63 + 1], np.uint64)
        self.check([("reduce_mean(%x) {axes = [0]}", {"x": x}, x)])


class Norms(GraphTest):
    def test_zero_norms(self):
        x = np.array([[0, 0, 0], [3, -4, 0], [0, -0.0, 0], [np.nan, 0, 1]], np.float32)
        cases = [(f"lp_norm(%x) {{p = {p}}}", {"x": x}, x / np.array(norms, np.float32)[:, None])
                 for p, norms in ((1, [1, 7, 1, np.nan]), (2, [1, 5, 1, np.nan]))]  # fmt: skip
        cases.append(("lp_norm(%x) {axis = 0}", {"x": np.array([[0.0, 5.0]])}, np.array([[0.0, 1.0]])))
        self.check(cases, rtol=1e-6)

    def test_thresholded_relu(self):
        x = np.array([np.nan, 1, 2, -3, np.inf], np.float32)
        self.check([("thresholded_relu(%x)", {"x": x}, np.array([0, 0, 2, 0, np.inf], np.float32))])

    def test_triangles_far_off(self):
        x, cases = np.ones((3, 4), np.float32), []
        for k in (2**63 - 1, -(2**63), 10**13, -(10**13)):
            kept = np.ones_like(x) if k < 0 else np.zeros_like(x)
            cases.append((f"trilu(%x) {{k = {k}}}", {"x": x}, kept))
            cases.append((f"trilu(%x) {{upper = false, k = {k}}}", {"x": x}, 1 - kept))
        self.check(cases)


class Windows(GraphTest):
    def test_neighbours_of_all_channels(self):
        """Of 2^40 neighbours only those that there are count."""
        x, cases = np.arange(1, 6, dtype=np.float64).reshape(1, 5, 1), []
        for size in (1, 2, 3, 8, 9, 10, 2**32, 2**40):
            sums = [sum(x[0, k, 0] ** 2 for k in range(max(0, c - (size - 1) // 2), min(5, c + size // 2 + 1))) for c in range(5)]
            wanted = x / (1 + 0.5 * np.array(sums).reshape(x.shape))
            cases.append((f"lrn(%x) {{size = {size}, alpha = {0.5 * size!r}, beta = 1.0}}", {"x": x}, wanted))
        self.check(cases, rtol=1e-14)

    @staticmethod
    def pooled(x, kernel, low, high, stride, dilation):
        """Those elements of x that each window has."""
        for place in range((x.size + low + high - (kernel - 1) * dilation - 1) // stride + 1):
            start = place * stride - low
            yield np.array([x[at] for at in range(x.size) if at >= start and (at - start) % dilation == 0
                            and (at - start) // dilation < kernel])  # fmt: skip

    def test_windows_beyond_the_operand(self):
        x, large, cases = np.array([3, -1, 4, 1, -5], np.float64), 2**24, []
        for kernel, low, high, stride, dilation in ((large, large - 1, 3, 1, 1), (large - 7, large - 9, large - 8, large // 2, 1),
                                                    (4, 6, 2, 1, 3), (3, 1, 1, 2, 2), (9, 8, 8, 3, 2), (5, 10, 9, 1, 4)):  # fmt: skip
            elements = list(self.pooled(x, kernel, low, high, stride, dilation))
            given = f"kernel = [{kernel}], pads_low = [{low}], pads_high = [{high}], strides = [{stride}], dilations = [{dilation}]"
            for op, wanted in (
                ("max_pool", [max(e, default=-np.inf) for e in elements]),
                ("avg_pool", [sum(e) / len(e) if len(e) else np.nan for e in elements]),
                ("lp_pool", [np.sqrt(sum(e * e)) for e in elements]),
            ):
                cases.append((f"{op}(%x) {{{given}}}", {"x": x.reshape(1, 1, -1)}, np.array(wanted, np.float64).reshape(1, 1, -1)))
        self.check(cases, rtol=1e-14)

    def test_as_many_windows_as_padding(self):
        """Each of 100000 windows goes over what it can meet of the operand, not over its own 100000 elements."""
        x, pad = np.array([3, -1, 4, 1], np.float64), 10**5
        for op, stride, dilation, none in (("max_pool", 1, 1, -np.inf), ("lp_pool", 1, 1, 0), ("max_pool", 2, 3, -np.inf), ("lp_pool", 1, 2, 0)):
            kernel = pad // dilation + 1
            starts = np.arange(0, x.size + 2 * pad - (kernel - 1) * dilation, stride) - pad
            parts = []
            for at, number in enumerate(x):
                met = (at >= starts) & ((at - starts) % dilation == 0) & ((at - starts) // dilation < kernel)
                parts.append(np.where(met, number if op == "max_pool" else number * number, none))
            wanted = np.max(parts, 0) if op == "max_pool" else np.sqrt(np.sum(parts, 0))
            given = f"kernel = [{kernel}], pads_low = [{pad}], pads_high = [{pad}], strides = [{stride}], dilations = [{dilation}]"
            with self.subTest(op=op, given=given):
                self.check([(f"{op}(%x) {{{given}}}", {"x": x.reshape(1, 1, -1)}, wanted.reshape(1, 1, -1))], rtol=1e-14)

    def test_padding_counts(self):
        given = "kernel = [1024], pads_low = [1023], pads_high = [1023], strides = [1024], count_include_pad = true"
        x = np.array([6.0, 3.0]).reshape(1, 1, 2)
        self.check([(f"avg_pool(%x) {{{given}}}", {"x": x}, x / 1024)])


if __name__ == "__main__":
    main(__doc__)
