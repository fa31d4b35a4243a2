# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small ONNX models for tests, and what the program computes for them."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from program import OK, ProgramTest


class ModelTest(ProgramTest):
    OPTIONS = ("--device", "interpreter")

    def save(self, nodes, inputs, outputs, domains=("com.test",), functions=(), opset=17, initializers=(), versions=None):
        """model.onnx: inputs and outputs are f32 names with shapes, or names with None."""
        infos = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in ports.items()] for ports in (inputs, outputs)]
        graph = helper.make_graph(nodes, "model", *infos, list(initializers))
        opsets = [helper.make_opsetid("", opset)]
        opsets += [helper.make_opsetid(d, (versions or {}).get(d, 1)) for d in domains]
        model = helper.make_model(graph, opset_imports=opsets, functions=list(functions), ir_version=10)
        (self.folder / "model.onnx").write_bytes(model.SerializeToString())
        return model

    def run_saved(self, *words, **inputs):
        for name, value in inputs.items():
            np.save(self.folder / f"{name}.npy", value)
            words += ("-i", f"{name}={name}.npy")
        return self.call("run", "model.onnx", *self.OPTIONS, *words, "-o", "out")

    def results(self, *words, count=1, **inputs):
        done = self.run_saved(*words, **inputs)
        self.assertEqual(done.returncode, OK, done.stderr)
        return [np.load(self.folder / f"out/output_{k}.npy") for k in range(count)]


class ArraysTest(ProgramTest):
    def run_on(self, inputs, nodes, outputs=("y",), shape=None, constants=(), value_info=(), opset=13, ir_version=8, options=()):
        """The finished process of m.onnx, which takes these arrays; its outputs have the type of the first one. The first result is found()."""
        infos = [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for n, x in inputs.items()]
        results = [helper.make_tensor_value_info(n, infos[0].type.tensor_type.elem_type, shape) for n in outputs]
        tensors = [numpy_helper.from_array(x, name) for name, x in dict(constants).items()]
        graph = helper.make_graph(nodes, "g", infos, results, tensors, value_info=list(value_info))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
        (self.folder / "m.onnx").write_bytes(model.SerializeToString())
        words = []
        for name, x in inputs.items():
            np.save(self.folder / f"{name}.npy", x)
            words += ["-i", f"{name}={name}.npy"]
        return self.call("run", "m.onnx", *words, "-o", "out", *options)

    def found(self):
        return np.load(self.folder / "out/output_0.npy")
