#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bad ONNX models and bad inputs: each is refused with an exit status, a code and a place, and nothing crashes.

Usage: test_bad_input.py [--ferrite FILE] [unittest options]
"""

import os
import random
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from program import BAD_INPUT, UNSUPPORTED, USAGE, ProgramTest, main  # noqa: E402


def model_of(nodes, inputs=None, outputs=None, initializers=(), opset=17, domains=()):
    inputs = inputs if inputs is not None else [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])]
    outputs = outputs if outputs is not None else [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(list(nodes), "bad", inputs, outputs, list(initializers))
    opsets = [helper.make_opsetid("", opset)] + [helper.make_opsetid(domain, 1) for domain in domains]
    model = helper.make_model(graph, opset_imports=opsets)
    model.ir_version = 8
    return model


def relu_model(**more):
    return model_of([helper.make_node("Relu", ["x"], ["y"], name="only")], **more)


def add_weight_model(tensor):
    return model_of([helper.make_node("Add", ["x", tensor.name], ["y"], name="sum")], initializers=[tensor])


def external_tensor(location, offset="0", length="24"):
    tensor = TensorProto(name="weight", data_type=TensorProto.FLOAT, dims=[2, 3])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in (("location", location), ("offset", offset), ("length", length)):
        if value is not None:
            tensor.external_data.add(key=key, value=value)
    return tensor


class BadInputTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.folder = self.folder / "model"
        self.folder.mkdir()

    def run_model(self, data, *arguments):
        path = self.folder / "model.onnx"
        path.write_bytes(data if isinstance(data, bytes) else data.SerializeToString())
        return self.call("run", path, *arguments, "-o", self.folder / "out")

    def refuse(self, data, status, code, *texts, arguments=()):
        result = self.run_model(data, *arguments)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertIn(code, result.stderr)
        for text in texts:
            self.assertIn(text, result.stderr)

    def array(self, value):
        path = self.folder / "array.npy"
        np.save(path, value)
        return path


class Files(BadInputTest):
    def test_good_model_runs(self):
        result = self.run_model(relu_model())
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_empty(self):
        self.refuse(b"", BAD_INPUT, "FE-I11", "model.onnx", "empty")

    def test_no_onnx(self):
        for data in (b"\x89PNG\r\n\x1a\n" + bytes(64), b"#!/bin/sh\necho hello\n", bytes(256), b"\xff" * 64):
            with self.subTest(data=data[:8]):
                self.refuse(data, BAD_INPUT, "FE-I12", "model.onnx", "not an ONNX model")

    def test_no_graph(self):
        model = relu_model()
        model.ClearField("graph")
        self.refuse(model, BAD_INPUT, "FE-I12", "no graph")

    def test_truncated(self):
        weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "weight")
        data = add_weight_model(weight).SerializeToString()
        for length in (len(data) - 1, len(data) * 3 // 4, len(data) // 2):
            with self.subTest(length=length):
                self.refuse(data[:length], BAD_INPUT, "FE-I13", "model.onnx", "truncated")

    def test_huge_declared_length(self):
        # graph (field 7) says that it has 2^62 bytes, then that it has more than the file
        for length in (b"\xff\xff\xff\xff\xff\xff\xff\xff\x3f", b"\xff\xff\xff\xff\x07"):
            with self.subTest(length=length):
                self.refuse(b"\x08\x08\x3a" + length + b"\x0a\x00", BAD_INPUT, "FE-I13", "byte")

    def test_huge_declared_dims(self):
        for dims in ([1 << 40, 1 << 40], [-3, 2], [1 << 62]):
            tensor = TensorProto(name="weight", data_type=TensorProto.FLOAT, dims=dims, raw_data=b"1234")
            with self.subTest(dims=dims):
                self.refuse(add_weight_model(tensor), BAD_INPUT, "FE-I18", "weight")

    def test_data_do_not_fit_dims(self):
        raw = TensorProto(name="weight", data_type=TensorProto.FLOAT, dims=[2, 3], raw_data=bytes(20))
        typed = TensorProto(name="weight", data_type=TensorProto.FLOAT, dims=[2, 3], float_data=[1.0] * 5)
        for tensor in (raw, typed):
            self.refuse(add_weight_model(tensor), BAD_INPUT, "FE-I18", "weight", "24 bytes")

    def test_deep_nesting(self):
        body = helper.make_node("Relu", ["x"], ["y"])
        for _ in range(100):
            graph = helper.make_graph([body], "nest", [], [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)])
            body = helper.make_node("If", ["x"], ["y"], then_branch=graph, else_branch=graph) if _ < 12 else body
        result = self.run_model(model_of([body]))
        self.assertIn(result.returncode, (BAD_INPUT, UNSUPPORTED), result.stderr)
        self.assertIn("FE-I", result.stderr)

    def test_damaged_bytes(self):
        weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "weight")
        data = add_weight_model(weight).SerializeToString()
        generator = random.Random(7)
        for _ in range(40):
            damaged = bytearray(data)
            for _ in range(generator.randint(1, 4)):
                damaged[generator.randrange(len(damaged))] = generator.randrange(256)
            result = self.run_model(bytes(damaged))
            self.assertIn(result.returncode, (0, BAD_INPUT, UNSUPPORTED), result.stderr)
            if result.returncode:
                self.assertRegex(result.stderr, r"FE-[A-Z]\d\d")


class Graphs(BadInputTest):
    def test_unknown_op(self):
        model = model_of([helper.make_node("Frobnicate", ["x"], ["y"], name="strange")])
        self.refuse(model, UNSUPPORTED, "FE-I20", "'strange'", "Frobnicate")

    def test_unknown_domain(self):
        model = model_of([helper.make_node("Relu", ["x"], ["y"], name="strange", domain="com.acme")], domains=["com.acme"])
        self.refuse(model, UNSUPPORTED, "FE-I20", "'strange'", "com.acme.Relu", '"onnx:com.acme::Relu"')

    def test_all_that_is_unsupported_at_once(self):
        """Also in branches, once something else is; a branch alone may be one that is not needed."""
        output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        branch = helper.make_graph([helper.make_node("Hidden", ["x"], ["z"], name="deep")], "branch", [], [output])
        fork = helper.make_node("If", ["c"], ["e"], name="fork", then_branch=branch, else_branch=branch)
        nodes = [helper.make_node("Frobnicate", ["x"], ["a"], name="first"), helper.make_node("Frobnicate", ["a"], ["b"], name="second"),
                 helper.make_node("Rope", ["b"], ["d"], domain="com.acme"), fork, helper.make_node("Upsample", ["d"], ["f"], name="up"),
                 helper.make_node("Add", ["e", "f"], ["y"])]  # fmt: skip
        condition = numpy_helper.from_array(np.array(True), "c")
        model = model_of(nodes, initializers=[condition], domains=["com.acme"])
        self.refuse(model, UNSUPPORTED, "FE-I20", "4 ops are not supported: ",
                    "Frobnicate in opset 17 (2 nodes, the first is node 'first' (Frobnicate, opset 17))",
                    "Hidden in opset 17 (2 nodes, the first is node 'deep' (Hidden, opset 17) in 'else_branch' of node 'fork' (If, opset 17))",
                    "Upsample in opset 17 (1 node, node 'up' (Upsample, opset 17); opsets 7 to 9 are supported)",
                    "com.acme.Rope in opset 1 (1 node, node 2 (com.acme.Rope, opset 1, makes 'd'))")  # fmt: skip

    def test_unsupported_ops_in_a_branch_that_is_not_taken(self):
        output = helper.make_tensor_value_info("z", TensorProto.FLOAT, None)
        branches = [helper.make_graph([helper.make_node(op, ["x"], ["z"])], "branch", [], [output]) for op in ("Relu", "Hidden")]
        for taken in (True, False):
            fork = helper.make_node("If", ["c"], ["y"], name="fork", then_branch=branches[0], else_branch=branches[1])
            model = model_of([fork], initializers=[numpy_helper.from_array(np.array(taken), "c")])
            if taken:
                self.assertEqual(self.run_model(model).returncode, 0)
            else:
                self.refuse(model, UNSUPPORTED, "FE-I20", "Hidden", "node 0 (Hidden, opset 17, makes 'z')")

    def test_nearly_an_op(self):
        self.refuse(model_of([helper.make_node("LeakyRlu", ["x"], ["y"])]), UNSUPPORTED, "FE-I20", "did you mean 'LeakyRelu'?")

    def test_opset_too_new(self):
        self.refuse(relu_model(opset=99), UNSUPPORTED, "FE-I21", "'only'", "Relu", "opset 99 of ONNX is newer", "opset 28 or an older one")

    def test_op_older_than_opset(self):
        model = model_of([helper.make_node("Where", ["x", "x", "x"], ["y"], name="early")], opset=8)
        self.refuse(model, UNSUPPORTED, "FE-I21", "'early'", "opset 8")

    def test_no_opset(self):
        model = relu_model()
        del model.opset_import[:]
        self.refuse(model, BAD_INPUT, "FE-I14", "opset_import")

    def test_undefined_value(self):
        model = model_of([helper.make_node("Relu", ["nothing"], ["y"], name="only")])
        self.refuse(model, BAD_INPUT, "FE-I25", "'only'", "'nothing'")

    def test_undefined_output(self):
        model = relu_model(outputs=[helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
        self.refuse(model, BAD_INPUT, "FE-I25", "'z'")

    def test_no_outputs(self):
        self.refuse(relu_model(outputs=[]), BAD_INPUT, "FE-I14", "no outputs")

    def test_defined_twice(self):
        model = model_of([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Abs", ["x"], ["y"])])
        self.refuse(model, BAD_INPUT, "FE-I25", "'y'", "twice")

    def test_cycle(self):
        model = model_of([helper.make_node("Add", ["x", "b"], ["a"]), helper.make_node("Abs", ["a"], ["b"]),
                          helper.make_node("Abs", ["a"], ["y"])])
        self.refuse(model, BAD_INPUT, "FE-I25", "cycle")

    def test_value_dependent_shape(self):
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
                  helper.make_tensor_value_info("shape", TensorProto.INT64, [2])]
        model = model_of([helper.make_node("Reshape", ["x", "shape"], ["y"], name="turn")], inputs=inputs)
        self.refuse(model, UNSUPPORTED, "FE-I22", "node 'turn' (Reshape", "input 1 (shape) '", "model's input '")

    def test_attribute_of_wrong_type(self):
        model = model_of([helper.make_node("Softmax", ["x"], ["y"], name="soft", axis="last")])
        self.refuse(model, BAD_INPUT, "FE-I23", "'soft'", "'axis'")

    def test_attribute_that_the_op_lacks(self):
        model = model_of([helper.make_node("Relu", ["x"], ["y"], name="only", alpha=0.5)])
        self.refuse(model, BAD_INPUT, "FE-I23", "'only'", "no attribute 'alpha'", "it has none")
        model = model_of([helper.make_node("Softmax", ["x"], ["y"], name="soft", axsi=1)])
        self.refuse(model, BAD_INPUT, "FE-I23", "'soft'", "no attribute 'axsi'", "it has axis")

    def test_attribute_of_another_opset(self):
        # Reshape has 'allowzero' from opset 14 on.
        shape = numpy_helper.from_array(np.array([3, 2]), "shape")
        for opset, fine in ((13, False), (14, True)):
            model = model_of([helper.make_node("Reshape", ["x", "shape"], ["y"], name="turn", allowzero=0)],
                             initializers=[shape], opset=opset)
            with self.subTest(opset=opset):
                if fine:
                    self.assertEqual(self.run_model(model).returncode, 0)
                else:
                    self.refuse(model, BAD_INPUT, "FE-I23", "'turn'", "no attribute 'allowzero'")

    def test_attribute_twice(self):
        node = helper.make_node("Softmax", ["x"], ["y"], name="soft", axis=1)
        node.attribute.append(node.attribute[0])
        self.refuse(model_of([node]), BAD_INPUT, "FE-I23", "'soft'", "'axis' is there twice")

    def test_attribute_missing(self):
        model = model_of([helper.make_node("Cast", ["x"], ["y"], name="turn")])
        self.refuse(model, BAD_INPUT, "FE-I23", "'turn'", "'to' is missing")

    def test_attribute_that_nothing_reads(self):
        # Of the wrong type, in an op that ignores it at inference.
        model = model_of([helper.make_node("Dropout", ["x"], ["y"], name="drop", seed="many")])
        self.refuse(model, BAD_INPUT, "FE-I23", "'drop'", "'seed' is a string, and the op takes an integer")

    def test_too_many_inputs(self):
        model = model_of([helper.make_node("Relu", ["x", "x", "x"], ["y"], name="only")])
        self.refuse(model, BAD_INPUT, "FE-I23", "'only'", "3 inputs, and the op takes 1")
        model = model_of([helper.make_node("Clip", ["x", "", "", "x"], ["y"], name="clip")])
        self.refuse(model, BAD_INPUT, "FE-I23", "'clip'", "4 inputs, and the op takes 1 to 3")

    def test_too_many_outputs(self):
        model = model_of([helper.make_node("Relu", ["x"], ["y", "z"], name="only")])
        self.refuse(model, BAD_INPUT, "FE-I23", "'only'", "2 outputs, and the op gives 1")

    def test_checks_within_branches(self):
        branch = helper.make_graph([helper.make_node("Relu", ["x"], ["z"], name="inner", alpha=1.0)], "branch", [],
                                   [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
        condition = numpy_helper.from_array(np.array(True), "c")
        model = model_of([helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)],
                         initializers=[condition])
        self.refuse(model, BAD_INPUT, "FE-I23", "'inner'", "'alpha'")

    def test_declared_dtype(self):
        model = relu_model(outputs=[helper.make_tensor_value_info("y", TensorProto.INT64, [2, 3])])
        self.refuse(model, BAD_INPUT, "FE-I27", "'y'", "declared as i64", "f32")
        passed_on = relu_model(outputs=[helper.make_tensor_value_info("x", TensorProto.DOUBLE, [2, 3])])
        self.refuse(passed_on, BAD_INPUT, "FE-I27", "'x'", "declared as f64", "f32")
        between = model_of([helper.make_node("Relu", ["x"], ["m"]), helper.make_node("Abs", ["m"], ["y"])])
        between.graph.value_info.append(helper.make_tensor_value_info("m", TensorProto.FLOAT16, [2, 3]))
        self.refuse(between, BAD_INPUT, "FE-I27", "'m'", "declared as f16", "f32")

    def test_op_removed_from_the_opset(self):
        indices = numpy_helper.from_array(np.zeros((1, 3), np.int64), "i")
        model = model_of([helper.make_node("Scatter", ["x", "i", "i"], ["y"], name="put")], initializers=[indices])
        self.refuse(model, UNSUPPORTED, "FE-I21", "'put'", "opsets 9 to 10")

    def test_axis_out_of_range(self):
        model = model_of([helper.make_node("Softmax", ["x"], ["y"], name="soft", axis=5)])
        self.refuse(model, BAD_INPUT, "FE-I23", "'soft'", "axis 5")

    def test_missing_operand(self):
        model = model_of([helper.make_node("Add", ["x"], ["y"], name="sum")])
        self.refuse(model, BAD_INPUT, "FE-I23", "'sum'", "input 1")

    def test_shapes_do_not_fit(self):
        weight = numpy_helper.from_array(np.ones((5, 7), np.float32), "weight")
        model = model_of([helper.make_node("MatMul", ["x", "weight"], ["y"], name="product")], initializers=[weight])
        self.refuse(model, BAD_INPUT, "FE-G", "'product'")

    def test_strings(self):
        model = relu_model(inputs=[helper.make_tensor_value_info("x", TensorProto.STRING, [2])])
        self.refuse(model, UNSUPPORTED, "FE-I19", "'x'", "the elements are strings (ONNX type 8), which is not supported")
        model = relu_model(inputs=[helper.make_tensor_value_info("x", TensorProto.INT4, [2])])
        self.refuse(model, UNSUPPORTED, "FE-I19", "'x'", "the elements are INT4 (ONNX type 22)")

    def test_sequence(self):
        model = relu_model(inputs=[helper.make_tensor_sequence_value_info("x", TensorProto.FLOAT, None)])
        self.refuse(model, UNSUPPORTED, "FE-I24", "'x'")

    def test_branch_on_input(self):
        branch = helper.make_graph([helper.make_node("Relu", ["x"], ["z"])], "branch", [],
                                   [helper.make_tensor_value_info("z", TensorProto.FLOAT, None)])
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3]),
                  helper.make_tensor_value_info("c", TensorProto.BOOL, [])]
        model = model_of([helper.make_node("If", ["c"], ["y"], name="fork", then_branch=branch, else_branch=branch)], inputs=inputs)
        self.refuse(model, UNSUPPORTED, "FE-I26", "'fork'", "one of the branches")
        model.graph.node[0].name = ""
        self.refuse(model, UNSUPPORTED, "FE-I26", "node 0 (If, opset 17, makes 'y')")

    def test_shape_from_a_mask(self):
        inputs = [helper.make_tensor_value_info("mask", TensorProto.BOOL, [4])]
        outputs = [helper.make_tensor_value_info("y", TensorProto.INT64, None)]
        nodes = [helper.make_node("Not", ["mask"], ["n"]), helper.make_node("NonZero", ["n"], ["y"])]
        self.refuse(model_of(nodes, inputs=inputs, outputs=outputs), UNSUPPORTED, "FE-I22", "node 1 (NonZero, opset 17, makes 'y')",
                    "input 0 (X) 'n'", "computed from the model's input 'mask'", "outside of the model")  # fmt: skip

    def test_outputs_that_are_not_made(self):
        model = model_of([helper.make_node("MaxPool", ["x"], ["y", "where"], kernel_shape=[1])],
                         inputs=[helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2, 5])])
        self.refuse(model, UNSUPPORTED, "FE-I24", "node 0 (MaxPool, opset 17, makes 'y')", "output 1 (Indices) 'where' is not supported")


class ExternalData(BadInputTest):
    def test_missing(self):
        self.refuse(add_weight_model(external_tensor("weights.bin")), BAD_INPUT, "FE-I15", "'weight'", "weights.bin")

    def test_leaving_the_folder(self):
        (self.folder.parent / "outside.bin").write_bytes(bytes(24))
        os.symlink(self.folder.parent / "outside.bin", self.folder / "link.bin")
        for location in ("../outside.bin", "a/../../outside.bin", str(self.folder.parent / "outside.bin"), "link.bin", ""):
            with self.subTest(location=location):
                self.refuse(add_weight_model(external_tensor(location)), BAD_INPUT, "FE-I16", "'weight'")

    def test_wrong_length(self):
        (self.folder / "weights.bin").write_bytes(bytes(24))
        for offset, length in (("0", "23"), ("8", None), ("-1", None), ("x", None), (str(2**64), None), (str(2**63), None)):
            with self.subTest(offset=offset, length=length):
                self.refuse(add_weight_model(external_tensor("weights.bin", offset, length)), BAD_INPUT, "FE-I17", "'weight'")

    def test_whole(self):
        (self.folder / "weights.bin").write_bytes(bytes(8) + np.arange(6, dtype=np.float32).tobytes())
        x = self.array(np.zeros((2, 3), np.float32))
        result = self.run_model(add_weight_model(external_tensor("weights.bin", "8")), "-i", f"x={x}")
        self.assertEqual(result.returncode, 0, result.stderr)
        np.testing.assert_array_equal(np.load(self.folder / "out/output_0.npy"), np.arange(6, dtype=np.float32).reshape(2, 3))


class Inputs(BadInputTest):
    def refuse_input(self, name, value, *texts, status=BAD_INPUT):
        path = self.array(value)
        self.refuse(relu_model(), status, "FE-", *texts, arguments=("-i", f"{name}={path}"))

    def test_wrong_name(self):
        # The name is part of the command line, not of the file.
        self.refuse_input("z", np.zeros((2, 3), np.float32), "z", "x", status=USAGE)

    def test_wrong_dtype(self):
        self.refuse_input("x", np.zeros((2, 3), np.int64), "x", "f32", "i64")

    def test_wrong_rank(self):
        self.refuse_input("x", np.zeros((2, 3, 1), np.float32), "x")

    def test_wrong_shape(self):
        self.refuse_input("x", np.zeros((2, 4), np.float32), "x")

    def test_missing_file(self):
        self.refuse(relu_model(), BAD_INPUT, "FE-", "nowhere.npy", arguments=("-i", f"x={self.folder / 'nowhere.npy'}"))

    def test_no_npy(self):
        path = self.folder / "array.npy"
        path.write_bytes(b"no array")
        self.refuse(relu_model(), BAD_INPUT, "FE-", "array.npy", arguments=("-i", f"x={path}"))


if __name__ == "__main__":
    main(__doc__)
