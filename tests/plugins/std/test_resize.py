#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Positions and weights of resize, against exact fractions: 200 pairs of sizes in all coordinate and rounding modes.

Usage: test_resize.py [--ferrite FILE] [unittest options]
"""

import math
import random
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import BAD_INPUT, OK, ProgramTest, main  # noqa: E402

LONGEST = 72
HALF = Fraction(1, 2)
INTERPRETER = ("--device", "interpreter")
PAIRS = [(20, 6), (28, 4), (26, 64), (7, 7), (1, 9), (9, 1), (64, 2)]
PAIRS += [(draw.randint(1, LONGEST), draw.randint(1, LONGEST)) for draw in [random.Random(32)] for _ in range(193)]
# Scales that f32 does not hold; the size is floor(dim * scale) in f32.
GIVEN = [(dim, np.float32(scale)) for scale in (0.7, 1.3, 0.35, 2.6, 0.3, 1.1, 0.6180339, 1.7320508) for dim in (7, 19, 33, 50, 71)]
GIVEN += [(dim, np.float32(scale)) for scale in (0.75, 1.5, 2.25, 0.3125) for dim in (5, 17, 42)]

POSITIONS = {
    "half_pixel": lambda k, size, out, scale: (k + HALF) / scale - HALF,
    "asymmetric": lambda k, size, out, scale: k / scale,
    "align_corners": lambda k, size, out, scale: Fraction(k * (size - 1), out - 1) if out > 1 else Fraction(0),
    "pytorch_half_pixel": lambda k, size, out, scale: (k + HALF) / scale - HALF if out > 1 else Fraction(0),
    "half_pixel_symmetric": lambda k, size, out, scale: HALF * size * (1 - out / (scale * size)) + (k + HALF) / scale - HALF,
    "tf_half_pixel_for_nn": lambda k, size, out, scale: (k + HALF) / scale,
}
ROUNDINGS = {
    "round_prefer_floor": lambda x: math.ceil(x - HALF),
    "round_prefer_ceil": lambda x: math.floor(x + HALF),
    "floor": math.floor,
    "ceil": math.ceil,
}


def inside(at, size):
    return min(max(at, 0), size - 1)


def cases():
    """Sizes, the number that is the scale, and the fraction that it stands for."""
    for size, out in PAIRS:
        yield size, out, out / size, Fraction(out, size)
    for size, out in PAIRS[::4]:
        yield size, out, float(np.float32(out) / np.float32(size)), Fraction(out, size)
    for size, scale in GIVEN:
        out = int(np.float32(size) * scale)
        ratio = Fraction(out, size)
        yield size, out, float(scale), ratio if np.float32(out) / np.float32(size) == scale else Fraction(float(scale))


class ResizeTest(ProgramTest):
    def results(self, x, nodes, *options):
        """What each node of the lines gives; each line is of slices of x, the first `size` elements, and says its own size first."""
        np.save(self.folder / "x.npy", x)
        dtype = x.dtype.name.replace("uint", "u").replace("int", "i").replace("float", "f")
        body, known = "", set()
        for k, (size, line) in enumerate(nodes):
            if size not in known:
                known.add(size)
                body += f"  %s{size} = slice(%x) {{starts = [0], sizes = [{size}], strides = [1]}}\n"
            body += f"  {line.format(x=f'%s{size}', r=f'%r{k}', roi=f'%roi{k}')}\n"
        outputs = ", ".join(f'%r{k} "r{k}"' for k in range(len(nodes)))
        text = f"ferrite graph 0\ngraph @g(%x: {dtype}[{len(x)}]) -> ({outputs}) {{\n{body}}}\n"
        (self.folder / "g.fe").write_text(text)
        done = self.call("run", "g.fe", "-i", "x=x.npy", "-o", "out", *options)
        self.assertEqual(done.returncode, OK, done.stderr)
        return [np.load(self.folder / f"out/output_{k}.npy") for k in range(len(nodes))]

    def check_nearest(self, mode, rounding, *options, every=1):
        wanted, nodes = [], []
        for size, out, number, scale in list(cases())[::every]:
            at = [ROUNDINGS[rounding](POSITIONS[mode](k, size, out, scale)) for k in range(out)]
            if scale == 1:  # stays, as in ONNX Runtime; (k + 1/2) of tf_half_pixel_for_nn would be the next element
                at = range(out)
            wanted.append([inside(k, size) for k in at])
            nodes.append((size, f'{{r}} = resize({{x}}) {{{{scales = [{number!r}], sizes = [{out}], '
                                f'coordinate_mode = "{mode}", nearest_mode = "{rounding}"}}}}'))  # fmt: skip
        found = self.results(np.arange(LONGEST, dtype=np.int32), nodes, *options)
        for node, is_, should in zip(nodes, found, wanted):
            np.testing.assert_array_equal(is_, should, err_msg=str(node))

    def test_nearest(self):
        for mode in POSITIONS:
            for rounding in ROUNDINGS:
                with self.subTest(mode=mode, rounding=rounding):
                    self.check_nearest(mode, rounding, *INTERPRETER)

    def test_nearest_in_code(self):
        self.check_nearest("half_pixel", "round_prefer_ceil", every=9)
        self.check_nearest("asymmetric", "floor", every=9)

    def test_nearest_in_a_region(self):
        """tf_crop_and_resize: of a part of the dim, what lies outside of the dim being 99."""
        for rounding, round_ in ROUNDINGS.items():
            wanted, nodes = [], []
            for size, out in PAIRS[::4]:
                for start, end in ((0.25, 0.75), (0.1, 0.9), (0.9, 0.3), (-0.125, 1.5)):
                    start, end = np.float32(start), np.float32(end)
                    low, high = Fraction(float(start)), Fraction(float(end))
                    at = [low * (size - 1) + k * (high - low) * (size - 1) / (out - 1) if out > 1 else
                          HALF * (low + high) * (size - 1) for k in range(out)]  # fmt: skip
                    wanted.append([inside(round_(x), size) if 0 <= x <= size - 1 else 99 for x in at])
                    nodes.append((size, f'{{roi}} = literal f32[2] {{{{{float(start)!r}, {float(end)!r}}}}}\n'
                                        f'  {{r}} = resize({{x}}, {{roi}}) {{{{scales = [{out / size!r}], sizes = [{out}], '
                                        f'coordinate_mode = "tf_crop_and_resize", nearest_mode = "{rounding}", '
                                        f'extrapolation_value = 99.0}}}}'))  # fmt: skip
            found = self.results(np.arange(LONGEST, dtype=np.int32), nodes, *INTERPRETER)
            for node, is_, should in zip(nodes, found, wanted):
                np.testing.assert_array_equal(is_, should, err_msg=str(node))

    def check_weights(self, mode, dtype, bound):
        """Linear and cubic (Keys, a = -3/4) interpolation of random numbers, with fractions as weights."""
        x = np.random.default_rng(5).normal(size=LONGEST).astype(dtype)
        exact = [Fraction(float(number)) for number in x]

        def weight(distance):
            if mode == "linear":
                return 1 - distance
            a = Fraction(-3, 4)
            if distance <= 1:
                return ((a + 2) * distance - (a + 3)) * distance * distance + 1
            return ((a * distance - 5 * a) * distance + 8 * a) * distance - 4 * a

        taps = (0, 1) if mode == "linear" else (-1, 0, 1, 2)
        for coordinates in POSITIONS:
            wanted, nodes = [], []
            for size, out, number, scale in list(cases())[::11]:
                places = [POSITIONS[coordinates](k, size, out, scale) for k in range(out)]
                wanted.append([float(sum(weight(abs(at - math.floor(at) - tap)) * exact[inside(math.floor(at) + tap, size)]
                                         for tap in taps)) for at in places])  # fmt: skip
                nodes.append((size, f'{{r}} = resize({{x}}) {{{{mode = "{mode}", scales = [{number!r}], sizes = [{out}], '
                                    f'coordinate_mode = "{coordinates}"}}}}'))  # fmt: skip
            for node, is_, should in zip(nodes, self.results(x, nodes, *INTERPRETER), wanted):
                np.testing.assert_allclose(is_, should, rtol=0, atol=bound, err_msg=str(node))

    def test_weights(self):
        for mode in ("linear", "cubic"):
            with self.subTest(mode=mode):
                self.check_weights(mode, np.float64, 4e-15)
                self.check_weights(mode, np.float32, 2e-6)

    def test_thirds_of_f64(self):
        x = np.array([0.0, 1.0])
        node = '{r} = resize({x}) {{mode = "linear", scales = [3.5], sizes = [7]}}'
        for options in ((), INTERPRETER):
            (found,) = self.results(x, [(2, node)], *options)
            np.testing.assert_array_equal(found, [0, 0, 3 / 14, 1 / 2, 11 / 14, 1, 1])

    def test_long_integers(self):
        """What f32 does not hold stays, where it is only repeated."""
        x = np.full(4, 2**30 + 1, np.int32)
        (found,) = self.results(x, [(4, '{r} = resize({x}) {{mode = "linear", scales = [2.0], sizes = [8]}}')])
        np.testing.assert_array_equal(found, np.full(8, 2**30 + 1))

    def test_equal_numbers_stay(self):
        """Weights that are rounded need not sum to 1, and integers truncate; one number all over is that number still."""
        attributes = ["", 'coordinate_mode = "align_corners", ', 'coordinate_mode = "asymmetric", exclude_outside = true, ']
        nodes = [(size, f'{{r}} = resize({{x}}) {{{{mode = "{mode}", {more}scales = [{number!r}], sizes = [{out}]}}}}')
                 for mode in ("linear", "cubic") for more in attributes for size, out, number, _ in [*list(cases())[1::90], (10, 13, 1.3, 0)]]  # fmt: skip
        for number in (np.uint8(20), np.int8(-77), np.uint16(65535), np.int32(-(2**31) + 1), np.float16(0.1), np.float32(0.1), np.float64(-0.7),
                       np.float32(np.inf), np.float32(3e38)):  # fmt: skip
            for options in ((), INTERPRETER):
                with self.subTest(number=number, options=options):
                    for node, found in zip(nodes, self.results(np.full(LONGEST, number), nodes, *options)):
                        np.testing.assert_array_equal(found, np.full(found.shape, number), err_msg=str(node))

    def test_what_is_refused(self):
        for attributes, pattern in (
            ("scales = [1e-12], sizes = [2]", r"holds 1e-12, which is not in"),
            ("scales = [5e9], sizes = [2]", r"holds 5e\+09, which is not in"),
            ('mode = "cubic", scales = [2.0], sizes = [4294967296]', "holds 4294967296, and a resampled dim has at most 67108864"),
        ):
            (self.folder / "g.fe").write_text(f'ferrite graph 0\ngraph @g(%x: f32[3]) -> (%r "r") {{\n  %r = resize(%x) {{{attributes}}}\n}}\n')
            self.assertRefused(self.call("run", "g.fe"), "FE-G75", pattern, BAD_INPUT)
        region = "  %roi = literal f32[2] {0.5, nan}\n"
        (self.folder / "g.fe").write_text(f'ferrite graph 0\ngraph @g(%x: f32[3]) -> (%r "r") {{\n{region}  %r = resize(%x, %roi) '
                                          '{scales = [2.0], sizes = [6], coordinate_mode = "tf_crop_and_resize"}\n}\n')  # fmt: skip
        self.assertRefused(self.call("run", "g.fe"), "FE-G79", "region of interest holds", BAD_INPUT)


if __name__ == "__main__":
    main(__doc__)
