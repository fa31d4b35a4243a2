#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""sort and topk: as NumPy sorts, of all types, along any axis, with equal elements, NaN and infinities, on the CPU and in the interpreter.

Usage: test_sort.py [--ferrite FILE] [unittest options]
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import OK, ProgramTest, main  # noqa: E402

FLOATS = {"f16": np.float16, "f32": np.float32, "f64": np.float64}
INTEGERS = {f"{kind}{bits}": np.dtype(f"{name}{bits}") for kind, name in (("i", "int"), ("u", "uint")) for bits in (8, 16, 32, 64)}
TYPES = {"bool": np.bool_} | FLOATS | INTEGERS


def expected(x, axis, descending):
    """Stable in both directions; NaN is the greatest."""
    if not descending:
        return np.argsort(x, axis=axis, kind="stable")
    turned = np.argsort(np.flip(x, axis), axis=axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(turned, axis)


def values(random, dtype, shape):
    """Many of them equal; of floats also NaN, infinities and zeros of both signs; of integers the least and the greatest."""
    if dtype == np.bool_:
        return random.random(shape) < 0.5
    if np.issubdtype(dtype, np.floating):
        x = random.integers(-40, 40, shape).astype(dtype) / 4
        some = random.random(shape)
        for least, value in ((0.9, np.nan), (0.92, np.inf), (0.94, -np.inf), (0.96, -0.0), (0.98, np.finfo(dtype).tiny / 2)):
            x[some > least] = value
        return x
    info = np.iinfo(dtype)
    x = random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)
    few = random.integers(max(info.min, -9), 9, shape).astype(dtype)
    x = np.where(random.random(shape) < 0.5, few, x)
    x[random.random(shape) > 0.95] = info.min
    x[random.random(shape) > 0.95] = info.max
    return x


class SortTest(ProgramTest):
    def results(self, nodes, inputs, options):
        """What each node `op(%x) {attributes}` of an input gives, by pairs."""
        types = {np.dtype(dtype): name for name, dtype in TYPES.items()}
        declared, words = [], []
        for name, x in inputs.items():
            np.save(self.folder / f"{name}.npy", x)
            declared.append(f"%{name}: {types[x.dtype]}[{','.join(map(str, x.shape))}]")
            words += ["-i", f"{name}={name}.npy"]
        body = "".join(f"  %v{k}, %i{k} = {node}\n" for k, node in enumerate(nodes))
        outputs = ", ".join(f'%v{k} "v{k}", %i{k} "i{k}"' for k in range(len(nodes)))
        (self.folder / "s.fe").write_text(f"ferrite graph 0\ngraph @s({', '.join(declared)}) -> ({outputs}) {{\n{body}}}\n")
        done = self.call("run", "s.fe", *words, "-o", "out", *options)
        self.assertEqual(done.returncode, OK, done.stderr)
        found = [np.load(self.folder / f"out/output_{k}.npy") for k in range(2 * len(nodes))]
        return list(zip(found[::2], found[1::2]))

    def check(self, cases, *options):
        """Each case: x, axis, whether descending, and how many, or None for all of them."""
        inputs = {f"x{k}": case[0] for k, case in enumerate(cases)}
        nodes = [
            f"sort(%x{k}) {{axis = {axis}, descending = {str(down).lower()}}}" if kept is None else
            f"topk(%x{k}) {{axis = {axis}, largest = {str(down).lower()}, k = {kept}}}"
            for k, (_, axis, down, kept) in enumerate(cases)]  # fmt: skip
        for (x, axis, down, kept), (v, i) in zip(cases, self.results(nodes, inputs, options)):
            with self.subTest(dtype=x.dtype, shape=x.shape, axis=axis, descending=down, kept=kept):
                order = np.take(expected(x, axis, down), range(x.shape[axis] if kept is None else kept), axis)
                self.assertEqual(i.dtype, np.int64)
                np.testing.assert_array_equal(i, order)
                self.assertEqual(v.dtype, x.dtype)
                taken = np.take_along_axis(x, order, axis)
                np.testing.assert_array_equal(v, taken)
                if x.dtype.kind == "f":
                    real = ~np.isnan(taken)
                    np.testing.assert_array_equal(np.signbit(v[real]), np.signbit(taken[real]))

    def everywhere(self, cases):
        self.check(cases)
        self.check(cases, "--device", "interpreter")

    def test_types(self):
        random = np.random.default_rng(1)
        cases = []
        for dtype in TYPES.values():
            x = values(random, dtype, (2, 150))
            cases += [(x, 1, False, None), (x, -1, True, None), (x, 1, True, 5), (x, 1, False, 7)]
            cases += [(values(random, dtype, (330,)), 0, down, kept) for down in (False, True) for kept in (None, 3, 170)]
        self.everywhere(cases)

    def test_bf16(self):
        """Widened, as no array of NumPy has it."""
        x = (np.random.default_rng(2).integers(-200, 200, (3, 300)) / 4).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        (self.folder / "s.fe").write_text("""ferrite graph 0
graph @s(%x: f32[3,300]) -> (%w "w", %i "i") {
  %b = cast(%x) {dtype = bf16}
  %v, %i = sort(%b) {descending = true}
  %w = cast(%v) {dtype = f32}
}
""")
        for options in ((), ("--device", "interpreter")):
            done = self.call("run", "s.fe", "-i", "x=x.npy", "-o", "out", *options)
            self.assertEqual(done.returncode, OK, done.stderr)
            order = expected(x, 1, True)
            np.testing.assert_array_equal(np.load(self.folder / "out/output_1.npy"), order)
            np.testing.assert_array_equal(np.load(self.folder / "out/output_0.npy"), np.take_along_axis(x, order, 1))

    def test_lengths(self):
        """Around those at which rows are sorted in another way, with one run too many, and with what is kept a part of runs."""
        random = np.random.default_rng(3)
        cases = []
        for length in (1, 2, 3, 63, 64, 65, 202, 203, 256, 257, 319, 320, 385, 1000):
            x = values(random, np.float32, (2, length))
            kept = {k for k in (0, 1, 2, 31, 63, 64, 65, 100, length - 1, length) if k <= length}
            cases += [(x, 1, False, None), *((x, 1, True, k) for k in sorted(kept))]
        self.everywhere(cases)

    def test_long_rows(self):
        random = np.random.default_rng(4)
        for length in (4097, 50257):
            x = values(random, np.float32, (length,))
            self.check([(x, 0, False, None), (x, 0, True, None), *((x, 0, True, k) for k in (1, 2, 50, 64, 65, 1000))])
        sorted_already = np.arange(3000, dtype=np.int32)
        self.check([(sorted_already, 0, down, kept) for down in (False, True) for kept in (None, 40, 300)])
        equal = np.zeros(3000, np.float32)
        self.check([(equal, 0, down, kept) for down in (False, True) for kept in (None, 40, 300)])

    def test_axes(self):
        random = np.random.default_rng(5)
        x = values(random, np.float32, (5, 70, 6))
        y = values(random, np.int64, (300, 2, 3))
        cases = [(z, axis, down, kept) for z in (x, y) for axis in (0, 1, -1) for down, kept in ((False, None), (True, 2))]
        self.everywhere(cases)

    def test_of_a_view(self):
        x = values(np.random.default_rng(6), np.float32, (70, 9))
        nodes = """  %t = transpose(%x) {perm = [1, 0]}
  %p = slice(%t) {starts = [1, 68], sizes = [4, 35], strides = [2, -2]}
  %v, %i = topk(%p) {k = 4}
  %r = neg(%v)
"""
        np.save(self.folder / "x.npy", x)
        (self.folder / "s.fe").write_text(f'ferrite graph 0\ngraph @s(%x: f32[70,9]) -> (%r "r", %i "i") {{\n{nodes}}}\n')
        for options in ((), ("--device", "interpreter"), ("--without", "fuse"), ("--without", "inline")):
            done = self.call("run", "s.fe", "-i", "x=x.npy", "-o", "out", *options)
            self.assertEqual(done.returncode, OK, done.stderr)
            part = x.T[1::2][:4, 68::-2]
            order = expected(part, 1, True)[:, :4]
            np.testing.assert_array_equal(np.load(self.folder / "out/output_1.npy"), order)
            np.testing.assert_array_equal(np.load(self.folder / "out/output_0.npy"), -np.take_along_axis(part, order, 1))

    def test_empty(self):
        cases = []
        for shape, axis in (((0,), 0), ((3, 0), 1), ((0, 5), 1), ((0, 300), 1), ((0, 5), 0)):
            x = np.zeros(shape, np.float32)
            cases += [(x, axis, False, None), (x, axis, True, 0), (x, axis, True, shape[axis])]
        cases.append((np.ones((4, 5), np.float32), 1, True, 0))
        self.everywhere(cases)

    def test_what_does_not_fit(self):
        for call, code, pattern in [
            ("topk(%x) {k = 6}", "FE-G75", "attribute 'k' is 6, and the axis has 5 elements"),
            ("topk(%x) {k = -1}", "FE-G75", "attribute 'k' is -1"),
            ("topk(%x) {k = 1, axis = 2}", "FE-G71", "axis 2"),
            ("sort(%x) {axis = -3}", "FE-G71", "axis -3"),
        ]:
            (self.folder / "s.fe").write_text(
                f'ferrite graph 0\ngraph @s(%x: f32[4,5]) -> (%v "v") {{\n  %v, %i = {call}\n}}\n')  # fmt: skip
            self.assertRefused(self.call("run", "s.fe"), code, pattern)
        (self.folder / "s.fe").write_text(
            'ferrite graph 0\ngraph @s(%x: i8[4294967295]) -> (%v "v") {\n  %v, %i = topk(%x) {k = 1}\n}\n')
        self.assertRefused(self.call("opt", "s.fe", "--to", "import"), "FE-G74", "a row of 4294967295 elements is too long")


if __name__ == "__main__":
    main(__doc__)
