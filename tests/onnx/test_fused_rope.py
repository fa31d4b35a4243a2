#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The example of docs/add-an-op.md: an ONNX op that a plugin brings is computed in one kernel; the right values are numpy's.

Usage: test_fused_rope.py [--ferrite FILE] [--rope FILE] [unittest options]
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from models import ModelTest  # noqa: E402
from program import BUILD, OK, ROOT, Settings, main  # noqa: E402

sys.path.insert(0, str(ROOT / "docs/examples/fused_rope"))
import make_model  # noqa: E402


class FusedRope(ModelTest):
    OPTIONS = ()

    def setUp(self):
        super().setUp()
        random = np.random.default_rng(3)
        self.x = random.standard_normal((1, 4, 16, 32)).astype(np.float32)
        angles = random.uniform(-3, 3, (16, 16))
        self.cos, self.sin = np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)

    def expected(self, interleaved):
        q = self.x.astype(np.float64) * 0.125
        parts = np.s_[..., 0::2], np.s_[..., 1::2]
        if not interleaved:
            parts = np.s_[..., :16], np.s_[..., 16:]
        turned = np.empty_like(q)
        turned[parts[0]] = q[parts[0]] * self.cos - q[parts[1]] * self.sin
        turned[parts[1]] = q[parts[1]] * self.cos + q[parts[0]] * self.sin
        return turned + self.x

    def test_values(self):
        self.assertEqual((ROOT / "docs/examples/fused_rope/rope.onnx").read_bytes(), make_model.model().SerializeToString())
        for interleaved in (0, 1):
            model = make_model.model()
            model.graph.node[1].attribute[0].i = interleaved
            (self.folder / "model.onnx").write_bytes(model.SerializeToString())
            for device in ("cpu", "interpreter"):
                with self.subTest(interleaved=interleaved, device=device):
                    (y,) = self.results("--plugin", Settings.rope, "--device", device, x=self.x, cos=self.cos, sin=self.sin)
                    np.testing.assert_allclose(y, self.expected(interleaved), rtol=1e-5, atol=1e-6)

    def test_handler(self):
        """com.acme::ScaledRope, which the plugin reads as two ops."""
        for interleaved in (False, True):
            model = make_model.model()
            node = model.graph.node[1]
            node.op_type, node.attribute[0].i = "ScaledRope", int(interleaved)
            node.attribute.append(helper.make_attribute("scale", 2.0))
            (self.folder / "model.onnx").write_bytes(model.SerializeToString())
            (y,) = self.results("--plugin", Settings.rope, x=self.x, cos=self.cos, sin=self.sin)
            wanted = 2 * (self.expected(interleaved) - self.x) + self.x
            np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-6)

    def test_integers_are_refused(self):
        node = helper.make_node("FusedRope", ["x", "c", "s"], ["y"], domain="com.acme")
        ints = {"x": [2, 4], "c": [2, 2], "s": [2, 2]}
        self.save([node], ints, {}, domains=("com.acme",))
        model = onnx.load(self.folder / "model.onnx")
        for port in model.graph.input:
            port.type.tensor_type.elem_type = TensorProto.INT32
        model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.INT32, None))
        (self.folder / "model.onnx").write_bytes(model.SerializeToString())
        done = self.run_saved("--plugin", Settings.rope, **{name: np.ones(dims, np.int32) for name, dims in ints.items()})
        self.assertRefused(done, "acme.rope/dtype", "has no floats")

    def test_the_checker_tries_them_on_models(self):
        sample = ROOT / "docs/examples/fused_rope/rope.onnx"
        done = self.call("plugin", "check", Settings.rope, "--sample", sample, "--level", "L2", "--level", "L3")
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        for pattern in (r"ops of models: fused_rope/rope\.onnx.*3 nodes, computed", r"importer ferrite\.onnx: refused host calls"):
            self.assertRegex(done.stdout, pattern)
        self.save([helper.make_node("Relu", ["x"], ["y"])], {"x": [2, 3]}, {"y": None})
        done = self.call("plugin", "check", Settings.rope, "--sample", "model.onnx", "--level", "L3")
        self.assertRegex(done.stdout, "no node of the model is read by the plugin")

    def test_one_kernel(self):
        """Scale, rotation and residual are one loop."""
        (self.folder / "model.onnx").write_bytes(make_model.model().SerializeToString())
        done = self.call("run", "model.onnx", "--plugin", Settings.rope, "--device", "cpu")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stdout, r"3 nodes, \d+ statements?, 1 kernel,")


if __name__ == "__main__":
    main(__doc__, rope=BUILD / "lib/ferrite/example_plugins/acme_rope.so")
