#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Sizes and positions of Resize and Upsample, shapes that a model declares, zero factors and norms, unsigned indices. Expected values are
those of ONNX Runtime 1.32, or follow from the definition.

Usage: test_resize.py [--ferrite FILE] [unittest options]
"""

import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from models import ArraysTest  # noqa: E402
from program import OK, main  # noqa: E402

# A dim, a scale, and the size that ONNX Runtime makes of them in all its opsets.
SIZES = [(10, 0.7, 7), (10, 1.3, 13), (5, 2.6, 13), (20, 0.35, 7), (15, 1.4, 21), (100, 0.29, 29), (3, 1 / 3, 1), (49, 1 / 49, 1),
         (7, 0.7, 4), (33, 1.7, 56), (224, 0.875, 196), (1000, 0.001, 1), (299, 1.1, 328)]  # fmt: skip


class ModelTest(ArraysTest):
    def run_model(self, nodes, inputs, constants=(), opset=13, **model):
        """The finished process of a model whose output is y."""
        done = self.run_on(inputs, nodes, constants=constants, opset=opset, **model)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done


class Sizes(ModelTest):
    def size(self, op, opset, dim, scale):
        scales = np.array([1, 1, 1, scale], np.float32)
        mode, names = "nearest" if scale > 1 else "linear", ["x", "s"]
        constants, attributes = {"s": scales}, {"mode": mode}
        if opset < 9:
            names, constants, attributes = ["x"], {}, {"mode": mode, "scales": [float(x) for x in scales]}
        elif opset > 10:
            names, constants = ["x", "r", "s"], {"s": scales, "r": np.zeros(0, np.float32)}
        self.run_model([helper.make_node(op, names, ["y"], **attributes)], {"x": np.zeros((1, 1, 1, dim), np.float32)}, constants, opset,
                       options=("--device", "interpreter"))  # fmt: skip
        return self.found().shape[-1]

    def test_scales_in_f32(self):
        for dim, scale, size in SIZES:
            for op, opset in (("Resize", 11), ("Resize", 19), ("Resize", 10), ("Upsample", 7), ("Upsample", 9)):
                if op == "Resize" or scale > 1:
                    with self.subTest(op=op, opset=opset, dim=dim, scale=scale):
                        self.assertEqual(self.size(op, opset, dim, scale), size)

    def test_whole_scales_are_exact(self):
        """f32 has no 16777217; nothing is lost by scales of 1 and 2."""
        x = np.zeros((1, 2**24 + 1), np.int8)
        node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric")
        self.run_model([node], {"x": x}, {"s": np.array([2, 1], np.float32)})
        self.assertEqual(self.found().shape, (2, 2**24 + 1))

    def test_axes_and_a_region(self):
        """tf_crop_and_resize of the axes that are named, in their order; the size does not depend on the region."""
        x = np.arange(12, dtype=np.float32).reshape(1, 1, 3, 4)
        node = helper.make_node("Resize", ["x", "r", "s"], ["y"], mode="nearest", axes=[3, 2], extrapolation_value=-1.0,
                                coordinate_transformation_mode="tf_crop_and_resize")  # fmt: skip
        constants = {"r": np.array([0.2, 0, 1.2, 0.5], np.float32), "s": np.array([1.3, 0.7], np.float32)}
        self.run_model([node], {"x": x}, constants, 18)
        np.testing.assert_array_equal(self.found(), [[[[1, 1, 2, 3, -1], [5, 5, 6, 7, -1]]]])


class Positions(ModelTest):
    def test_a_tie_by_sizes(self):
        x = np.arange(20, dtype=np.float32)
        node = helper.make_node("Resize", ["x", "", "", "z"], ["y"], mode="nearest", nearest_mode="round_prefer_ceil")
        self.run_model([node], {"x": x}, {"z": np.array([6], np.int64)})
        np.testing.assert_array_equal(self.found(), [1, 5, 8, 11, 15, 18])

    def test_a_ratio_that_f32_does_not_hold(self):
        """64/26 in f32 is larger; element 16 is a tie all the same, as in ONNX Runtime."""
        x = np.arange(26, dtype=np.float32)
        node = helper.make_node("Resize", ["x", "", "s"], ["y"], mode="nearest", nearest_mode="round_prefer_ceil",
                                coordinate_transformation_mode="asymmetric")  # fmt: skip
        self.run_model([node], {"x": x}, {"s": np.array([64 / 26], np.float32)})
        np.testing.assert_array_equal(self.found(), [min((k * 26 * 2 + 64) // 128, 25) for k in range(64)])


class Declared(ModelTest):
    def shapes(self, *pairs):
        return [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in pairs]

    def test_shapes_that_differ(self):
        nodes = [helper.make_node("Relu", ["x"], ["h"], name="act"), helper.make_node("Flatten", ["h"], ["y"], name="flat")]
        x = np.zeros((2, 3, 4), np.float32)
        for declared, made in (([2, 3, 5], "'act' (Relu, opset 13): value 'h' is declared as f32[2,3,5] and is f32[2,3,4]"),
                               (["n", 2, None], "'act' (Relu, opset 13): value 'h' is declared as f32[n,2,?] and is f32[2,3,4]"),
                               ([2, 12], "'act' (Relu, opset 13): value 'h' is declared as f32[2,12] and is f32[2,3,4]")):  # fmt: skip
            done = self.run_model(nodes, {"x": x}, value_info=self.shapes(("h", declared)))
            self.assertRegex(done.stderr, r"^ferrite: warning: FE-I30 .*m\.onnx: node ")
            self.assertIn(made, done.stderr)
        done = self.run_model(nodes, {"x": x}, shape=[2, 13])
        self.assertIn("'flat' (Flatten, opset 13): value 'y' is declared as f32[2,13] and is f32[2,12]", done.stderr)
        self.assertEqual(done.stderr.count("FE-I30"), 1)
        self.assertEqual(self.found().shape, (2, 12))
        for command in ("opt", "explain"):
            self.assertIn("FE-I30", self.call(command, "m.onnx").stderr)
        self.assertIn("FE-I30", self.call("compile", "m.onnx", "-o", "m.fepkg").stderr)

    def test_initializers_that_differ(self):
        node = helper.make_node("Add", ["x", "w"], ["y"])
        w = np.zeros(2, np.float32)
        done = self.run_model([node], {"x": w}, {"w": w}, value_info=self.shapes(("w", [3])))
        self.assertIn("m.onnx: initializer: value 'w' is declared as f32[3] and is f32[2]", done.stderr)
        done = self.run_model([node], {"x": w}, {"w": w}, value_info=self.shapes(("w", [2])))
        self.assertEqual(done.stderr, "")

    def test_shapes_that_agree(self):
        nodes = [helper.make_node("Relu", ["x"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
        for declared in ([2, 3], ["n", 3], [None, None], [-1, 3], None):
            done = self.run_model(nodes, {"x": np.zeros((2, 3), np.float32)}, value_info=self.shapes(("h", declared)), shape=declared)
            self.assertEqual(done.stderr, "")

    def test_many_that_differ(self):
        names = ["x", *(f"h{k}" for k in range(9)), "y"]
        nodes = [helper.make_node("Relu", [a], [b]) for a, b in zip(names, names[1:])]
        done = self.run_model(nodes, {"x": np.zeros(3, np.float32)}, value_info=self.shapes(*((name, [4]) for name in names[1:-1])))
        self.assertEqual(done.stderr.count("is declared as f32[4] and is f32[3]"), 4)
        self.assertIn("5 more values have another shape", done.stderr)


class Zeros(ModelTest):
    def test_beta(self):
        inputs = {"a": np.ones((2, 3), np.float32), "b": np.full((3, 2), 2, np.float32), "c": np.full(2, np.nan, np.float32)}
        self.run_model([helper.make_node("Gemm", ["a", "b", "c"], ["y"], beta=0.0)], inputs)
        np.testing.assert_array_equal(self.found(), np.full((2, 2), 6))

    def test_factors_of_integers(self):
        inputs = {"a": np.array([[3, 4]], np.int32), "b": np.array([[5], [6]], np.int32), "c": np.array([1], np.int32)}
        self.run_model([helper.make_node("Gemm", ["a", "b", "c"], ["y"], alpha=0.25, beta=1.5)], inputs)
        np.testing.assert_array_equal(self.found(), [[11]])  # 39/4 + 3/2, truncated

    def test_norms(self):
        x = np.array([[0, 0, 0], [3, -4, 0]], np.float32)
        for p, norm in ((1, 7), (2, 5)):
            self.run_model([helper.make_node("LpNormalization", ["x"], ["y"], p=p)], {"x": x})
            np.testing.assert_allclose(self.found(), x / np.float32(norm), rtol=1e-6)


class Unsigned(ModelTest):
    def test_one_hot(self):
        """2^64 - 1 has no place, and -1 the last one."""
        for dtype, numbers, places in ((np.uint64, [2**64 - 1, 2, 0], [None, 2, 0]), (np.int32, [-1, 1, 3], [2, 1, None])):
            node = helper.make_node("OneHot", ["i", "d", "v"], ["y"])
            constants = {"d": np.array(3, np.int64), "v": np.array([0, 1], dtype)}
            self.run_model([node], {"i": np.array(numbers, dtype)}, constants)
            np.testing.assert_array_equal(self.found(), [[int(k == place) for k in range(3)] for place in places])


if __name__ == "__main__":
    main(__doc__)
