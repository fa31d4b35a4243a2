#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Operators that the published node tests do not reach: TopK, whose number of elements they compute, and random numbers.

Usage: test_ops.py [--ferrite FILE] [--data DIR] [unittest options]
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from program import BAD_INPUT, OK, UNSUPPORTED, ProgramTest, Settings, main  # noqa: E402


class OpsTest(ProgramTest):
    def save(self, nodes, inputs, outputs, opset, initializers=()):
        infos = [[helper.make_tensor_value_info(n, t, s) for n, t, s in ports] for ports in (inputs, outputs)]
        graph = helper.make_graph(nodes, "ops", *infos, list(initializers))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
        model.ir_version = 8
        (self.folder / "m.onnx").write_bytes(model.SerializeToString())

    def run_model(self, outputs, *options, **inputs):
        words = []
        for name, x in inputs.items():
            np.save(self.folder / f"{name}.npy", x)
            words += ["-i", f"{name}={name}.npy"]
        done = self.call("run", "m.onnx", *words, "-o", "out", *options)
        self.assertEqual(done.returncode, OK, done.stderr)
        return [np.load(self.folder / f"out/output_{k}.npy") for k in range(outputs)]


class TopK(OpsTest):
    def top_k(self, opset, k, shape=(3, 40), **attributes):
        """A model of one node, with k where its opset has it."""
        number = [numpy_helper.from_array(np.array([k], np.int64), "k")] if opset >= 10 else []
        if opset < 10:
            attributes["k"] = k
        node = helper.make_node("TopK", ["x", *(n.name for n in number)], ["v", "i"], name="most", **attributes)
        self.save([node], [("x", TensorProto.FLOAT, shape)], [("v", TensorProto.FLOAT, None), ("i", TensorProto.INT64, None)],
                  opset, number)  # fmt: skip

    def test_opsets(self):
        x = np.random.default_rng(1).integers(0, 12, (3, 40)).astype(np.float32)
        for opset in (7, 9, 10, 11, 13, 17, 24):
            for axis, up in ((-1, False), (0, False), (1, True)):
                if up and opset < 11:
                    continue
                with self.subTest(opset=opset, axis=axis, up=up):
                    self.top_k(opset, 3, axis=axis, **({"largest": 0, "sorted": 0} if up else {}))
                    order = np.argsort(x if up else -x, axis=axis, kind="stable").take(range(3), axis)
                    v, i = self.run_model(2, x=x)
                    np.testing.assert_array_equal(i, order)
                    np.testing.assert_array_equal(v, np.take_along_axis(x, order, axis))

    def test_published_cases(self):
        """With the number of elements as a constant, which is an input there."""
        cases = sorted(Path(Settings.data).glob("test_top_k*"))
        self.assertGreaterEqual(len(cases), 3)
        for case in cases:
            model = onnx.load(case / "model.onnx")

            def read(name, case=case):
                tensor = TensorProto.FromString((case / f"test_data_set_0/{name}.pb").read_bytes())
                return numpy_helper.to_array(tensor)

            self.assertEqual([port.name for port in model.graph.input], ["x", "k"])
            del model.graph.input[1]
            model.graph.initializer.append(numpy_helper.from_array(read("input_1"), "k"))
            (self.folder / "m.onnx").write_bytes(model.SerializeToString())
            for k, found in enumerate(self.run_model(2, x=read("input_0"))):
                with self.subTest(case=case.name, output=k):
                    np.testing.assert_array_equal(found, read(f"output_{k}"))

    def test_what_is_refused(self):
        for k, pattern in ((41, "attribute 'k' is 41"), (-1, "attribute 'k' is -1")):
            self.top_k(11, k)
            self.assertRefused(self.call("run", "m.onnx"), "FE-G75", "'most'.*" + pattern, BAD_INPUT)
        inputs = [("x", TensorProto.FLOAT, (3, 4)), ("k", TensorProto.INT64, (1,))]
        self.save([helper.make_node("TopK", ["x", "k"], ["v", "i"], name="most")], inputs, [("v", TensorProto.FLOAT, None)], 11)
        self.assertRefused(self.call("run", "m.onnx"), "FE-I22",
                           r"node 'most'.*input 1 \(K\) 'k' must be known when the model is imported, and is the model's input 'k'", UNSUPPORTED)


class Random(OpsTest):
    SHAPE = (200, 300)

    def numbers(self, *nodes, like=None, opset=17):
        """What the nodes give, each called by its number."""
        outputs = [(f"r{k}", type_, None) for k, (_, type_, _) in enumerate(nodes)]
        inputs = [("x", like, self.SHAPE)] if like else []
        made = []
        for k, (op, _, attributes) in enumerate(nodes):
            shape = {} if op.endswith("Like") else {"shape": self.SHAPE}
            made.append(helper.make_node(op, ["x"] if op.endswith("Like") else [], [f"r{k}"], **shape, **attributes))
        self.save(made, inputs, outputs, opset)
        given = {"x": np.zeros(self.SHAPE, helper.tensor_dtype_to_np_dtype(like))} if like else {}
        return [self.run_model(len(nodes), *options, **given) for options in ((), ("--device", "interpreter"))]

    def test_distributions(self):
        nodes = [("RandomUniform", TensorProto.FLOAT, {}), ("RandomUniform", TensorProto.FLOAT, {"low": -3.0, "high": 5.0}),
                 ("RandomNormal", TensorProto.FLOAT, {}), ("RandomNormal", TensorProto.FLOAT, {"mean": 4.0, "scale": 0.5})]  # fmt: skip
        means, deviations = (0.5, 1, 0, 4), (12**-0.5, 8 * 12**-0.5, 1, 0.5)
        found, reference = self.numbers(*nodes)
        for k, x in enumerate(found):
            self.assertEqual((x.shape, x.dtype), (self.SHAPE, np.float32))
            self.assertLess(abs(x.mean() - means[k]), 0.02 * deviations[k] + 1e-3)
            self.assertLess(abs(x.std() / deviations[k] - 1), 0.02)
            np.testing.assert_allclose(x, reference[k], rtol=1e-5, atol=1e-5)
        self.assertTrue(((found[1] >= -3) & (found[1] <= 5)).all())

    def test_seeds(self):
        seeded = ("RandomUniform", TensorProto.FLOAT, {"seed": 2.5})
        other = ("RandomUniform", TensorProto.FLOAT, {"seed": 2.75})
        bare = ("RandomUniform", TensorProto.FLOAT, {})
        first, _ = self.numbers(seeded, seeded, other, bare, bare)
        again, _ = self.numbers(bare, seeded)
        np.testing.assert_array_equal(first[0], first[1])
        np.testing.assert_array_equal(again[1], first[0])
        for a, b in ((0, 2), (0, 3), (3, 4), (2, 4)):
            self.assertLess(abs(np.corrcoef(first[a].ravel(), first[b].ravel())[0, 1]), 0.02)
        once_more, _ = self.numbers(bare, seeded)
        np.testing.assert_array_equal(once_more[0], again[0])

    def test_types(self):
        nodes = [("RandomUniform", TensorProto.DOUBLE, {"dtype": TensorProto.DOUBLE, "seed": 1.0}),
                 ("RandomNormal", TensorProto.FLOAT16, {"dtype": TensorProto.FLOAT16}),
                 ("RandomUniformLike", TensorProto.FLOAT16, {}),
                 ("RandomNormalLike", TensorProto.FLOAT, {"dtype": TensorProto.FLOAT})]  # fmt: skip
        found, _ = self.numbers(*nodes, like=TensorProto.FLOAT16)
        self.assertEqual([x.dtype for x in found], [np.float64, np.float16, np.float16, np.float32])
        self.assertTrue(all(x.shape == self.SHAPE for x in found))

    def test_what_is_refused(self):
        node = helper.make_node("RandomNormalLike", ["x"], ["r"], name="noise")
        self.save([node], [("x", TensorProto.INT64, (2, 3))], [("r", TensorProto.INT64, None)], 17)
        self.assertRefused(self.call("run", "m.onnx"), "FE-I24", "'noise'.*random numbers of i64", UNSUPPORTED)


class NewestOpset(OpsTest):
    """What operator set 28 allows or adds; the references are numpy's, bit by bit where integers are moved or shifted."""

    def one(self, node, outputs=1, **inputs):
        types = {n: helper.np_dtype_to_tensor_dtype(x.dtype) for n, x in inputs.items()}
        result = types.get("x", TensorProto.FLOAT)
        self.save([node], [(n, types[n], x.shape) for n, x in inputs.items()], [("y", result, None)], 28)
        for device in ("cpu", "interpreter"):
            (y,) = self.run_model(outputs, "--device", device, **inputs)
            yield y

    def test_floor_modulus_of_floats(self):
        x = np.array([5.5, -5.5, 5.5, -5.5, 6, -6, 1e-3], np.float32)
        by = np.array([2, 2, -2, -2, 3, 3, -7], np.float32)
        for y in self.one(helper.make_node("Mod", ["x", "by"], ["y"]), x=x, by=by):
            np.testing.assert_array_equal(y, np.mod(x, by))

    def test_signed_shifts(self):
        x = np.array([-8, -8, -8, -8, 7, 7, 7, -1, -128], np.int8)
        by = np.array([1, 7, 8, -1, 1, 8, -3, 100, 3], np.int8)
        wanted = [int(a) >> int(b) if 0 <= b < 8 else (-1 if a < 0 else 0) for a, b in zip(x, by, strict=True)]
        for y in self.one(helper.make_node("BitShift", ["x", "by"], ["y"], direction="RIGHT"), x=x, by=by):
            np.testing.assert_array_equal(y, np.array(wanted, np.int8))

    def test_space_to_depth(self):
        x = np.arange(2 * 3 * 4 * 6, dtype=np.float32).reshape(2, 3, 4, 6)
        blocks = x.reshape(2, 3, 2, 2, 3, 2)
        for mode, order in (("DCR", (0, 3, 5, 1, 2, 4)), ("CRD", (0, 1, 3, 5, 2, 4))):
            for y in self.one(helper.make_node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode=mode), x=x):
                np.testing.assert_array_equal(y, blocks.transpose(order).reshape(2, 12, 2, 3))

    def test_swiglu(self):
        x, b = np.random.default_rng(2).standard_normal((2, 3, 5)).astype(np.float32)
        for alpha in (1.0, 1.75):
            wanted = x / (1 + np.exp(-alpha * x.astype(np.float64))) * b
            for y in self.one(helper.make_node("SwiGLU", ["x", "b"], ["y"], alpha=alpha), x=x, b=b):
                np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)

    def test_range(self):
        given = [numpy_helper.from_array(np.array(v, np.float32), n) for n, v in (("a", 1), ("b", 4), ("c", 0.5))]
        node = helper.make_node("Range", ["a", "b", "c"], ["y"], stash_type=1)
        self.save([node], [], [("y", TensorProto.FLOAT, None)], 27, given)
        np.testing.assert_array_equal(self.run_model(1)[0], np.arange(1, 4, 0.5, dtype=np.float32))


if __name__ == "__main__":
    main(__doc__, data=Path("/usr/share/libonnx-testdata/data/node"))
