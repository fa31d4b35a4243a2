#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ONNX's floats of 8 bits: its own node tests with them, and what Cast, CastLike and the quantising operators make of every value.

Usage: test_float8.py [--ferrite FILE] [unittest options]
"""

import importlib
import json
import re
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, defs, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from program import OK, ProgramTest, main  # noqa: E402

SMALL = (TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ)
# Cast and CastLike between each form and FLOAT or FLOAT16, and from these without saturation; QuantizeLinear to two forms, DequantizeLinear
# from these, one of them with float16 scales and one with a zero point.
CASES = {"cast": 24, "castlike": 24, "quantizelinear": 2, "dequantizelinear": 4}


def node_tests(module):
    """ONNX's cases of one operator in which an input or a result is a float of 8 bits, and of no other type that is missing."""
    importlib.import_module(f"onnx.backend.test.case.node.{module}")
    made = sys.modules["onnx.backend.test.case.node"]._NodeTestCases
    for case in made:
        graph = case.model.graph
        types = {port.type.tensor_type.elem_type for port in (*graph.input, *graph.output)}
        operator = re.fullmatch(rf"test_{module}_.*", case.name) and not case.name.endswith("_expanded")
        if operator and types & set(SMALL) and types <= {*SMALL, TensorProto.FLOAT, TensorProto.FLOAT16}:
            yield case


class Float8Test(ProgramTest):
    def test_onnx_node_tests(self):
        for module, count in CASES.items():
            folder = self.folder / module
            for case in node_tests(module):
                for opset in case.model.opset_import:  # those of a set that is not final are as in the one before
                    opset.version = min(opset.version, defs.onnx_opset_version() - 1)
                data = folder / case.name / "test_data_set_0"
                data.mkdir(parents=True)
                (data.parent / "model.onnx").write_bytes(case.model.SerializeToString())
                for kind, values in zip(("input", "output"), case.data_sets[0], strict=True):
                    for k, value in enumerate(values):
                        proto = value if isinstance(value, TensorProto) else numpy_helper.from_array(value)
                        (data / f"{kind}_{k}.pb").write_bytes(proto.SerializeToString())
            done = self.call("onnx-test", folder, "--json", "report.json")
            report = json.loads((self.folder / "report.json").read_text())
            self.assertEqual(done.returncode, OK, done.stdout)
            self.assertEqual((report["passed"], len(report["cases"])), (count, count), report["cases"])

    def run_model(self, nodes, inputs, result, initializers=()):
        """The one output of a model of these nodes, whose elements are read as the ONNX type `result`."""
        ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in inputs.items()]
        out = helper.make_tensor_value_info("y", result, None)
        graph = helper.make_graph(nodes, "g", ports, [out], list(initializers))
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
        (self.folder / "m.onnx").write_bytes(model.SerializeToString())
        words = []
        for name, x in inputs.items():
            np.save(self.folder / f"{name}.npy", x.view(np.uint8) if x.itemsize == 1 else x)
            words += ["-i", f"{name}={name}.npy"]
        done = self.call("run", "m.onnx", *words, "-o", "out")
        self.assertEqual(done.returncode, OK, done.stderr)
        return np.load(self.folder / "out/output_0.npy").view(helper.tensor_dtype_to_np_dtype(result))

    def assertSame(self, found, expected):
        """Equal bits, but for those of a NaN."""
        self.assertEqual(found.dtype, expected.dtype)
        wide, other = found.astype(np.float32), expected.astype(np.float32)
        same = (wide == other) & (np.signbit(wide) == np.signbit(other)) | np.isnan(wide) & np.isnan(other)
        self.assertTrue(same.all(), f"{np.flatnonzero(~same)[:5]}: {found[~same][:5]}, not {expected[~same][:5]}")

    def values(self, dtype):
        """All of float16, and what is larger; whole numbers where it has only these."""
        halves = np.arange(65536, dtype=np.uint16).view(np.float16)
        with np.errstate(all="ignore"):
            if dtype == np.int32:
                return np.concatenate([np.arange(-600, 600), [57344, 61440, 65535, -(2**31), 2**31 - 1]]).astype(dtype)
            return np.concatenate([halves.astype(dtype), np.array([1e10, -1e30], dtype)])

    def test_saturation(self):
        """Of Cast and CastLike, as their tables have it."""
        for to in SMALL:
            small = helper.tensor_dtype_to_np_dtype(to)
            like = helper.make_tensor("like", to, [1], b"\0", raw=True)
            for dtype in (np.float16, np.float32, np.float64, np.int32):
                x = self.values(dtype)
                for saturate in (None, 1, 0):
                    with np.errstate(all="ignore"):
                        expected = x.astype(small) if saturate == 0 else numpy_helper.saturate_cast(x.astype(np.float64), small)
                    attributes = {} if saturate is None else {"saturate": saturate}
                    with self.subTest(to=small, dtype=dtype, saturate=saturate):
                        self.assertSame(self.run_model([helper.make_node("Cast", ["x"], ["y"], to=to, **attributes)], {"x": x}, to), expected)
                        node = helper.make_node("CastLike", ["x", "like"], ["y"], **attributes)
                        self.assertSame(self.run_model([node], {"x": x}, to, [like]), expected)

    def test_quantisation(self):
        """One scale, or one for each column; the zero point says which type it is, and counts where it is not 0."""
        x = np.concatenate([self.values(np.float32)[:65536:97], [-0.0, np.inf]]).astype(np.float32)
        x = x[: x.size // 3 * 3].reshape(-1, 3)
        for to in SMALL:
            small = helper.tensor_dtype_to_np_dtype(to)
            for scale in (np.array(0.5, np.float32), np.array([0.25, 3, 1e-3], np.float32)):
                for zero in (0, 2):
                    zeros = np.full(scale.shape, zero, np.float32).astype(small)
                    constants = [numpy_helper.from_array(scale, "s"), helper.make_tensor("z", to, scale.shape, zeros.tobytes(), raw=True)]
                    with np.errstate(all="ignore"):
                        for saturate in (1, 0):
                            q = x / scale + zeros.astype(np.float32) if zero else x / scale
                            expected = numpy_helper.saturate_cast(q, small) if saturate else q.astype(small)
                            node = helper.make_node("QuantizeLinear", ["x", "s", "z"], ["y"], axis=1, saturate=saturate)
                            with self.subTest(to=small, scale=scale, zero=zero, saturate=saturate):
                                self.assertSame(self.run_model([node], {"x": x}, to, constants), expected)
                        q = np.arange(255, dtype=np.uint8).view(small).reshape(85, 3)
                        expected = (q.astype(np.float32) - zeros.astype(np.float32) if zero else q.astype(np.float32)) * scale
                        node = helper.make_node("DequantizeLinear", ["x", "s", "z"], ["y"], axis=1)
                        with self.subTest(what="back", to=small, scale=scale, zero=zero):
                            self.assertSame(self.run_model([node], {"x": q}, TensorProto.FLOAT, constants), expected)

    def test_weights(self):
        """Initializers of each form, with their elements raw and as numbers of a field."""
        for to in SMALL:
            small = helper.tensor_dtype_to_np_dtype(to)
            bits = np.arange(256, dtype=np.uint8)
            raw = helper.make_tensor("w", to, [256], bits.tobytes(), raw=True)
            field = TensorProto(name="w", data_type=to, dims=[256], int32_data=bits.tolist())
            node = helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)
            for weight in (raw, field):
                self.assertSame(self.run_model([node], {}, TensorProto.FLOAT, [weight]), bits.view(small).astype(np.float32))


if __name__ == "__main__":
    main(__doc__)
