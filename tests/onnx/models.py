# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small ONNX models for tests, and what the program computes for them."""

import numpy as np
from onnx import TensorProto, helper
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
