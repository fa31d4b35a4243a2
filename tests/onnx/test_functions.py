#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Functions that a model defines: expanded, with their attributes, operator sets and overloads; the right values are numpy's.

Usage: test_functions.py [--ferrite FILE] [unittest options]
"""

import sys
from pathlib import Path

import numpy as np
from onnx import AttributeProto, TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from models import ModelTest  # noqa: E402
from program import BAD_INPUT, UNSUPPORTED, main  # noqa: E402

X = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)
SHAPE = [2, 3]


def refers(node, name, to, kind=AttributeProto.FLOAT):
    """The node with an attribute that refers to one of the function."""
    node.attribute.append(AttributeProto(name=name, ref_attr_name=to, type=kind))
    return node


def function(name, inputs, outputs, nodes, attributes=(), defaults=(), opset=17, domains=("custom",), overload=""):
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, 1) for d in domains)]
    made = helper.make_function("custom", name, inputs, outputs, nodes, opsets, list(attributes), list(defaults))
    made.overload = overload
    return made


def node(op, inputs, outputs, name="", domain="", **attributes):
    return helper.make_node(op, inputs, outputs, name=name, domain=domain, **attributes)


class Functions(ModelTest):
    def save_functions(self, nodes, *functions, outputs=("y",), **more):
        return self.save(nodes, {"x": SHAPE}, dict.fromkeys(outputs), domains=("custom",), functions=functions, **more)

    def test_nested(self):
        twice = function("Twice", ["a"], ["b"], [node("Add", ["a", "a"], ["b"])])
        four = function("Four", ["a"], ["b"], [node("Twice", ["a"], ["t"], domain="custom"), node("Twice", ["t"], ["b"], domain="custom")])
        self.save_functions([node("Four", ["x"], ["h"], domain="custom"), node("Four", ["h"], ["y"], domain="custom")], twice, four)
        np.testing.assert_array_equal(self.results(x=X)[0], 16 * X)

    def test_attributes(self):
        body = [refers(node("LeakyRelu", ["a"], ["b"]), "alpha", "slope")]
        leaky = function("Leaky", ["a"], ["b"], body, defaults=[helper.make_attribute("slope", 0.25)])
        self.save_functions([node("Leaky", ["x"], ["y"], domain="custom")], leaky)
        np.testing.assert_array_equal(self.results(x=X)[0], np.where(X < 0, X * np.float32(0.25), X))
        self.save_functions([node("Leaky", ["x"], ["y"], domain="custom", slope=0.5)], leaky)
        np.testing.assert_array_equal(self.results(x=X)[0], np.where(X < 0, X * np.float32(0.5), X))
        # An attribute that neither call nor function gives is left out: the op's own default counts.
        loose = function("Loose", ["a"], ["b"], body, defaults=[])
        loose.attribute.extend([])
        loose = helper.make_function("custom", "Loose", ["a"], ["b"], body, [helper.make_opsetid("", 17)], [])
        self.save_functions([node("Loose", ["x"], ["y"], domain="custom")], loose)
        np.testing.assert_allclose(self.results(x=X)[0], np.where(X < 0, X * np.float32(0.01), X), rtol=1e-7)

    def test_attributes_through_two_functions(self):
        inner = function("Inner", ["a"], ["b"], [refers(node("Elu", ["a"], ["b"]), "alpha", "deep")], attributes=["deep"])
        call = refers(node("Inner", ["a"], ["b"], domain="custom"), "deep", "outer")
        outer = function("Outer", ["a"], ["b"], [call], attributes=["outer"])
        self.save_functions([node("Outer", ["x"], ["y"], domain="custom", outer=3.0)], inner, outer)
        np.testing.assert_allclose(self.results(x=X)[0], np.where(X < 0, 3 * np.expm1(X), X), rtol=1e-6)

    def test_attributes_in_branches_and_constants(self):
        constant = node("Constant", [], ["c"])
        constant.attribute.append(AttributeProto(name="value_float", ref_attr_name="c", type=AttributeProto.FLOAT))
        output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        branch = helper.make_graph([refers(node("LeakyRelu", ["a"], ["z"]), "alpha", "slope")], "branch", [], [output])
        condition = node("Constant", [], ["yes"], value=helper.make_tensor("yes", TensorProto.BOOL, [], [1]))
        fork = helper.make_node("If", ["yes"], ["l"], then_branch=branch, else_branch=branch)
        made = function("Both", ["a"], ["b"], [constant, condition, fork, node("Add", ["l", "c"], ["b"])], attributes=["c", "slope"])
        self.save_functions([node("Both", ["x"], ["y"], domain="custom", c=5.0, slope=0.5)], made)
        np.testing.assert_array_equal(self.results(x=X)[0], np.where(X < 0, X * np.float32(0.5), X) + 5)

    def test_operator_sets(self):
        """A function reads its nodes in its own operator set: softmax of 11 is over all dims from the axis on."""
        soft = function("Soft", ["a"], ["b"], [node("Softmax", ["a"], ["b"], axis=0)], opset=11)
        self.save_functions([node("Soft", ["x"], ["y"], domain="custom")], soft)
        powers = np.exp(X.astype(np.float64))
        np.testing.assert_allclose(self.results(x=X)[0], powers / powers.sum(), rtol=1e-6)

    def test_overloads(self):
        plain = function("Part", ["a"], ["b"], [node("Abs", ["a"], ["b"])])
        other = function("Part", ["a"], ["b"], [node("Neg", ["a"], ["b"])], overload="negative")
        calls = [node("Part", ["x"], ["y"], domain="custom"), node("Part", ["x"], ["z"], domain="custom")]
        calls[1].overload = "negative"
        self.save_functions(calls, plain, other, outputs=("y", "z"))
        y, z = self.results(x=X, count=2)
        np.testing.assert_array_equal(y, np.abs(X))
        np.testing.assert_array_equal(z, -X)

    def test_absent_inputs_and_unused_outputs(self):
        clip = function("Bound", ["a", "low", "high"], ["b", "c"], [node("Clip", ["a", "low", "high"], ["b"]), node("Neg", ["a"], ["c"])])
        one = helper.make_tensor("one", TensorProto.FLOAT, [], [1])
        for inputs, wanted in ((["x", "", "one"], np.minimum(X, 1)), (["x", "one"], np.maximum(X, 1)), (["x"], X)):
            with self.subTest(inputs=inputs):
                self.save_functions([node("Bound", inputs, ["y"], domain="custom")], clip, initializers=[one])
                np.testing.assert_array_equal(self.results(x=X)[0], wanted)

    def test_names_of_values_are_the_functions_own(self):
        """Function and graph both have values 'x', 'y' and 't'."""
        made = function("Shadow", ["y"], ["x"], [node("Neg", ["y"], ["t"]), node("Exp", ["t"], ["x"])])
        nodes = [node("Abs", ["x"], ["t"]), node("Shadow", ["t"], ["s"], domain="custom"), node("Add", ["s", "t"], ["y"])]
        self.save_functions(nodes, made)
        np.testing.assert_allclose(self.results(x=X)[0], np.exp(-np.abs(X)) + np.abs(X), rtol=1e-6)

    def test_recursion(self):
        first = function("First", ["a"], ["b"], [node("Second", ["a"], ["b"], name="there", domain="custom")])
        second = function("Second", ["a"], ["b"], [node("First", ["a"], ["b"], name="back", domain="custom")])
        self.save_functions([node("First", ["x"], ["y"], name="start", domain="custom")], first, second)
        self.assertRefused(self.run_saved(x=X), "FE-I40",
                           "node 'back' .* in function custom.Second, called by .*calls itself: custom.First -> custom.Second -> custom.First")  # fmt: skip

    def doubling(self, levels):
        """F1 is one node, and each further function calls the one before it twice: 3 * 2**(n - 1) - 2 nodes, calls included."""
        made = [function("F1", ["a"], ["b"], [node("Neg", ["a"], ["b"])])]
        for k in range(2, levels + 1):
            before = f"F{k - 1}"
            made.append(function(f"F{k}", ["a"], ["b"], [node(before, ["a"], ["t"], domain="custom"), node(before, ["t"], ["b"], domain="custom")]))
        return made

    def test_expansion_is_bounded(self):
        for levels, count in ((40, 3 * 2**39 - 2), (20, 3 * 2**19 - 2), (80, None)):
            with self.subTest(levels=levels):
                self.save_functions([node(f"F{levels}", ["x"], ["y"], name="call", domain="custom")], *self.doubling(levels))
                text = f"expands to {count} nodes" if count else "expands to more than"
                self.assertRefused(self.run_saved(x=X), "FE-I43", rf"node 'call' .*the function custom\.F{levels} {text}.*at most 1000000", UNSUPPORTED)
        self.save_functions([node("F9", ["x"], ["y"], domain="custom")], *self.doubling(9))
        np.testing.assert_array_equal(self.results(x=X)[0], X)

    def test_expansion_counts_all_calls_and_branches(self):
        made = self.doubling(19)  # 786430 nodes
        calls = [node("F19", ["x"], ["h"], domain="custom"), node("F19", ["h"], ["y"], name="second", domain="custom")]
        self.save_functions(calls, *made)
        self.assertRefused(self.run_saved(x=X), "FE-I43", "node 'second'.*which makes 1572860 of", UNSUPPORTED)
        output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        branch = helper.make_graph([node("F40", ["x"], ["z"], name="inner", domain="custom")], "branch", [], [output])
        condition = node("Constant", [], ["yes"], value=helper.make_tensor("yes", TensorProto.BOOL, [], [1]))
        fork = helper.make_node("If", ["yes"], ["y"], then_branch=branch, else_branch=branch)
        self.save_functions([condition, fork], *self.doubling(40))
        self.assertRefused(self.run_saved(x=X), "FE-I43", "node 'inner'.* in 'then_branch'", UNSUPPORTED)

    def test_depth_is_bounded(self):
        def chain(length):
            made = [function("F1", ["a"], ["b"], [node("Neg", ["a"], ["b"])])]
            for k in range(2, length + 1):
                made.append(function(f"F{k}", ["a"], ["b"], [node(f"F{k - 1}", ["a"], ["b"], domain="custom")]))
            self.save_functions([node(f"F{length}", ["x"], ["y"], domain="custom")], *made)

        chain(201)
        np.testing.assert_array_equal(self.results(x=X)[0], -X)
        for length in (202, 20_000):
            chain(length)
            self.assertRefused(self.run_saved(x=X), "FE-I43", "more than 200 deep", UNSUPPORTED)

    def test_errors_name_function_and_node(self):
        wrong = function("Wrong", ["a"], ["b"], [node("Softmax", ["a"], ["b"], name="soft", axis=7)])
        self.save_functions([node("Wrong", ["x"], ["y"], name="outer", domain="custom")], wrong)
        self.assertRefused(self.run_saved(x=X), "FE-I23",
                           r"node 'soft' \(Softmax, opset 17\) in function custom.Wrong, called by node 'outer' \(custom.Wrong, opset 1\): axis 7")  # fmt: skip
        unknown = function("Wrong", ["a"], ["b"], [node("Frobnicate", ["a"], ["b"], name="strange")])
        self.save_functions([node("Wrong", ["x"], ["y"], domain="custom")], unknown)
        self.assertRefused(self.run_saved(x=X), "FE-I20", "Frobnicate.*node 'strange'.* in function custom.Wrong", UNSUPPORTED)

    def test_attributes_that_a_call_leaves_out(self):
        """Without a default of the function, the node within has its own, as with onnx.inliner and ONNX Runtime."""
        made = function("Leaky", ["a"], ["b"], [refers(node("LeakyRelu", ["a"], ["b"]), "alpha", "slope")], attributes=["slope"])
        self.save_functions([node("Leaky", ["x"], ["y"], domain="custom")], made)
        np.testing.assert_allclose(self.results(x=X)[0], np.where(X < 0, np.float32(0.01) * X, X), rtol=1e-6)

    def test_calls_that_do_not_fit(self):
        made = function("Leaky", ["a"], ["b"], [refers(node("LeakyRelu", ["a"], ["b"]), "alpha", "slope")], attributes=["slope"])
        for inputs, outputs, attributes, pattern in (
            (["x"], ["y"], {"slope": 1.0, "slop": 1.0}, "no attribute 'slop'"),
            (["x"], ["y"], {"slope": 1}, "'slope' of the function, which the call gives another type"),
            (["x", "x"], ["y"], {"slope": 1.0}, "2 inputs, and the function has 1"),
            (["x"], ["y", "z"], {"slope": 1.0}, "2 outputs, and the function has 1"),
        ):
            with self.subTest(pattern=pattern):
                self.save_functions([node("Leaky", inputs, outputs, name="call", domain="custom", **attributes)], made)
                self.assertRefused(self.run_saved(x=X), "FE-I23", "node 'call'.*" + pattern)
        self.save_functions([node("Leaky", ["x"], ["y"], domain="custom", slope=1.0)], made, made)
        self.assertRefused(self.run_saved(x=X), "FE-I25", "custom.Leaky is defined twice")


if __name__ == "__main__":
    main(__doc__)
