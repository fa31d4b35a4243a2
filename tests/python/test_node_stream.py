# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Node streams without PyTorch: what they compute, what is refused, damage."""

import json
import pathlib
import random
import re
import unittest

import ferrite
import numpy as np


def stream(inputs, nodes, outputs):
    return json.dumps({"aten": 1, "inputs": inputs, "nodes": nodes, "outputs": outputs}).encode()


def node(target, args, results, kwargs=None, name=None, place=""):
    return [target, name or target, place, args, kwargs or {}, results]


X = ["x", "float32", [2, 3]]
ADD = stream([X, ["y", "float32", [3]]], [node("aten.add.Tensor", [{"v": 0}, {"v": 1}], [["float32", [2, 3]]], {"alpha": 2})], [["z", 2]])

DTYPES = ("float32", "float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool")
SHAPES = ([], [1], [4], [0], [2, 3], [3, 2], [4, 4], [2, 0, 3], [2, 3, 4], [1, 3, 4, 4], [2, 2, 4, 4], [1, 2, 3, 4, 5])
NUMBERS = (0, 1, -1, 2, 3, 4, 5, 7, -2, -3, 2**31, -(2**31), 2**62, 2**63 - 1, -(2**63))
NAMES = ("dim", "keepdim", "dtype", "alpha", "beta", "value", "rounding_mode", "scale", "reduce", "correction", "min", "max", "eps")


def overloads():
    """Those that the importer's table names."""
    folder = pathlib.Path(__file__).resolve().parents[2] / "plugins/torch/ops"
    found = {name for file in folder.glob("*.cpp") for name in re.findall(r'"((?:aten|prims)\.\w+\.\w+)"', file.read_text())}
    assert len(found) > 800, len(found)
    return sorted(found)


def random_number(draw):
    others = (0.5, -1.5, 1e30, True, False, None, {"d": draw.choice(DTYPES)}, {"f": "nan"}, {"f": "-inf"}, "mean", "floor", "")
    return draw.choice(NUMBERS if draw.random() < 0.1 else NUMBERS[:10] if draw.random() < 0.5 else others)


def random_argument(draw, chance_of_tensor):
    kind = draw.random()
    if kind < chance_of_tensor:
        return {"v": draw.randrange(20)}
    if kind < 0.8:
        return random_number(draw)
    one = random_number if kind < 0.95 else lambda draw: {"v": draw.randrange(20)}
    return [one(draw) for _ in range(draw.randrange(5))]


class NodeStreamTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = ferrite.Session(threads=1)

    def refused(self, contents, code):
        with self.assertRaises(ferrite.Error) as caught:
            model = self.session.load("graph.aten", contents)
            model.compile(*[np.zeros(port.dims, np.float32) for port in model.inputs])
        self.assertEqual(caught.exception.code, code, caught.exception)
        return str(caught.exception)

    def test_computes(self):
        x, y = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2, 3], np.float32)
        (z,) = self.session.load("graph.aten", ADD).run(x, y)
        np.testing.assert_array_equal(z, x + 2 * y)

    def test_scalars_keep_their_dtype(self):
        nodes = [
            node("aten.mul.Tensor", [{"v": 0}, 2], [["int64", [3]]]),
            node("aten.div.Tensor", [{"v": 1}, {"f": "inf"}], [["float32", [3]]]),
            node("aten.add.Tensor", [{"v": 1}, 9007199254740993], [["int64", [3]]]),
        ]
        model = self.session.load("graph.aten", stream([["x", "int64", [3]]], nodes, [["a", 1], ["b", 2], ["c", 3]]))
        a, b, c = model.run(np.array([1, 2, 3]))
        np.testing.assert_array_equal(a, [2, 4, 6])
        np.testing.assert_array_equal(b, [0, 0, 0])
        np.testing.assert_array_equal(c, [9007199254740995, 9007199254740997, 9007199254740999])

    def test_ops_of_ferrite(self):
        literal = node("ferrite:literal", ["0000803f"], [["float32", []]], name="one")
        clamp = node("ferrite:clamp", [{"v": 0}, None, {"v": 1}], [["float32", [2, 3]]])
        sums = node("ferrite:reduce_sum", [{"v": 2}], [["float32", [2]]], {"axes": [5, [1]], "keepdims": [8, False]})
        x = np.array([[-1, 0.5, 3], [4, 5, 6]], np.float32)
        (y,) = self.session.load("graph.aten", stream([X], [literal, clamp, sums], [["y", 3]])).run(x)
        np.testing.assert_array_equal(y, np.minimum(x, 1).sum(1))
        for wrong in (
            node("ferrite:literal", ["00"], [["float32", []]]),
            node("ferrite:literal", ["0000803x"], [["float32", []]]),
            node("ferrite:literal", ["0000803f"], [None]),
            node("ferrite:neg", [{"v": 0}], [["float32", [2, 3]], None]),
            node("ferrite:reduce_sum", [{"v": 0}], [["float32", [2]]], {"axes": [1]}),
            node("ferrite:reduce_sum", [{"v": 0}], [["float32", [2]]], {"axes": [5, ["a"]]}),
            node("ferrite:reduce_sum", [{"v": 0}], [["float32", [2]]], {"axes": [99, 1]}),
        ):
            self.refused(stream([X], [wrong], [["y", 1]] if wrong[5][0] else []), "FE-I51")
        self.refused(stream([X], [node("ferrite:none", [{"v": 0}], [["float32", [2]]])], [["y", 1]]), "FE-G13")
        self.refused(stream([X], [node("ferrite:neg", [{"v": 0}], [["float32", [3]]])], [["y", 1]]), "FE-I54")

    def test_all_unknown_overloads_in_one_message(self):
        nodes = [
            node("acme.one.default", [{"v": 0}], [["float32", [2, 3]]], place="model.py:7"),
            node("acme.two.default", [{"v": 1}], [["float32", [2, 3]]]),
            node("acme.one.default", [{"v": 2}], [["float32", [2, 3]]]),
        ]
        text = self.refused(stream([X], nodes, [["z", 3]]), "FE-I50")
        self.assertIn("acme.one.default (2 nodes), acme.two.default", text)
        self.assertIn("model.py:7", text)

    def test_unsupported_nodes_one_by_one(self):
        nodes = [
            node("aten.relu.default", [{"v": 0}], [["float32", [2, 3]]]),
            node("acme.one.default", [{"v": 1}], [["float32", [4]]]),
            node("aten.neg.default", [{"v": 2}], [["float32", [4]]]),
            node("aten.neg.default", [{"v": 3}], [["float32", [5]]]),
        ]
        model = self.session.load("graph.aten", stream([X], nodes, [["z", 4]]))
        lines = [line.split("\t") for line in model._model.unsupported().splitlines()]
        self.assertEqual([(line[0], line[1], line[2]) for line in lines],
                         [("1", "acme.one.default", "FE-I50"), ("3", "aten.neg.default", "FE-I54")])

    def test_what_the_host_refuses_is_one_nodes_error(self):
        nodes = [
            node("aten.mm.default", [{"v": 0}, {"v": 0}], [["float32", [2, 3]]]),  # [2,3] x [2,3]
            node("aten.relu.default", [{"v": 0}], [["float32", [2, 3]]]),
        ]
        model = self.session.load("graph.aten", stream([X], nodes, [["z", 2]]))
        lines = [line.split("\t") for line in model._model.unsupported().splitlines()]
        self.assertEqual([(line[0], line[1]) for line in lines], [("0", "aten.mm.default")])

    def test_wrong_arguments(self):
        result = [["float32", [2, 3]]]
        for target, args, kwargs, code in [
            ("aten.relu.default", [1.5], {}, "FE-I52"),
            ("aten.relu.default", [{"v": 0}, 1], {}, "FE-I52"),
            ("aten.relu.default", [{"v": 0}], {"inplace": True}, "FE-I52"),
            ("aten.add.Tensor", [{"v": 0}, "a"], {}, "FE-I52"),
            ("aten.add.Tensor", [{"v": 0}, [1]], {}, "FE-I52"),
            ("aten.relu.default", [{"v": 9}], {}, "FE-I51"),
            ("aten.relu.default", [], {}, "FE-I52"),
        ]:
            with self.subTest(target=target, args=args):
                self.refused(stream([X], [node(target, args, result, kwargs)], [["z", 1]]), code)

    def test_a_result_of_another_type_than_pytorch_says(self):
        text = self.refused(stream([X], [node("aten.relu.default", [{"v": 0}], [["float32", [3, 2]]])], [["z", 1]]), "FE-I54")
        self.assertIn("f32[2,3]", text)
        self.assertIn("f32[3,2]", text)

    def test_damage_is_refused(self):
        for contents in (b"", b"{}", b"[1", b'{"aten": 2}', b'{"aten": 1, "inputs": 3}', stream([["x", "float99", [1]]], [], []),
                         stream([["x", "float32", [-1]]], [], []), stream([X, X], [], [["z", 0]]), stream([X], [], [["z", 7]]),
                         b'{"aten": 1, "inputs": [], "nodes": [], "outputs": [' + b"[" * 100000):
            with self.subTest(contents=contents[:60]):
                with self.assertRaises(ferrite.Error) as caught:
                    self.session.load("graph.aten", contents)
                self.assertIn(caught.exception.code, ("FE-I51", "FE-I19"))

    def test_random_damage_never_crashes(self):
        draw = random.Random(1)
        for _ in range(400):
            damaged = bytearray(ADD)
            for _ in range(draw.randint(1, 4)):
                damaged[draw.randrange(len(damaged))] = draw.randrange(256)
            try:
                model = self.session.load("graph.aten", bytes(damaged))
                model.compile(*[np.zeros(port.dims, np.float32) for port in model.inputs if port.dims is not None and np.prod(port.dims) < 10000])
            except (ferrite.Error, ValueError):
                pass

    def test_random_calls_never_crash(self):
        draw = random.Random(1)
        for _ in range(150):
            inputs = [[f"x{k}", draw.choice(DTYPES), draw.choice(SHAPES)] for k in range(20)]
            results = [inputs[0][1], draw.choice(SHAPES)]
            calls = []
            for target in draw.sample(overloads(), 60):
                args = [random_argument(draw, 0.8 if k == 0 else 0.35) for k in range(draw.randint(1, 6))]
                kwargs = {draw.choice(NAMES): random_number(draw)} if draw.random() < 0.3 else {}
                calls.append(node(target, args, [results] * draw.choice((1, 1, 1, 2, 3)), kwargs))
            try:
                model = self.session.load("graph.aten", stream(inputs, calls, [["y", 0]]))
                lines = model._model.unsupported().splitlines()
            except ferrite.Error as error:
                self.assertRegex(error.code, "FE-I..")
                continue
            for line in lines:
                self.assertRegex(line.split("\t")[2], "FE-[A-Z]..")


if __name__ == "__main__":
    unittest.main()
