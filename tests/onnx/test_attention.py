#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Attention of ONNX, which torch 2.15 exports scaled_dot_product_attention as at opset 23: kinds of masks, of heads and of ranks, against
NumPy in f64. A row that is masked throughout is zeros.

Usage: test_attention.py [--ferrite FILE] [unittest options]
"""

import sys
from pathlib import Path

import numpy as np
from onnx import helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from models import ArraysTest  # noqa: E402
from program import OK, UNSUPPORTED, main  # noqa: E402


def expected(q, k, v, mask=None, causal=False, scale=None):
    """Of four dims. The heads of keys and values are repeated."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    k, v = (x.repeat(q.shape[1] // x.shape[1], axis=1) for x in (k, v))
    scores = q @ k.swapaxes(-1, -2) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    with np.errstate(invalid="ignore"):
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        weights = powers / powers.sum(-1, keepdims=True)
    return np.where(np.isnan(weights), 0, weights) @ v


def flat(x):
    """[batch, heads, sequence, size] with the heads in the last dim."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


class AttentionTest(ArraysTest):
    def run_model(self, inputs, opset=23, outputs=("y",), **attributes):
        node = helper.make_node("Attention", list(inputs), list(outputs), **attributes)
        return self.run_on(inputs, [node], outputs, opset=opset, ir_version=10)

    def check(self, inputs, wanted, **attributes):
        done = self.run_model(inputs, **attributes)
        self.assertEqual(done.returncode, OK, done.stderr)
        np.testing.assert_allclose(self.found(), wanted, rtol=2e-5, atol=2e-5)

    def tensors(self, heads=4, of_keys=4, rows=5, columns=7):
        random = np.random.default_rng(3)
        shapes = {"q": (2, heads, rows, 8), "k": (2, of_keys, columns, 8), "v": (2, of_keys, columns, 6)}
        return {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}

    def test_masks(self):
        random = np.random.default_rng(5)
        x = self.tensors()
        self.check(x, expected(**x))
        self.check(x, expected(**x, scale=0.3), scale=0.3)
        self.check(x, expected(**x, causal=True), is_causal=1)
        some = random.random((2, 1, 5, 7)) > 0.4
        some[0, 0, 2] = False
        numbers = random.standard_normal((5, 7)).astype(np.float32)
        for mask in (some, numbers, numbers[None] * np.ones((4, 1, 1), np.float32)):
            for causal in (False, True):
                self.check({**x, "m": mask}, expected(**x, mask=mask, causal=causal), is_causal=int(causal))

    def test_heads_of_keys(self):
        random = np.random.default_rng(5)
        for of_keys in (1, 2):
            x = self.tensors(4, of_keys)
            self.check(x, expected(**x))
            for heads in (1, 4):
                mask = random.standard_normal((2, heads, 5, 7)).astype(np.float32)
                self.check({**x, "m": mask}, expected(**x, mask=mask), opset=24)

    def test_heads_in_the_last_dim(self):
        x = self.tensors(4, 2)
        self.check({name: flat(value) for name, value in x.items()}, flat(expected(**x)), q_num_heads=4, kv_num_heads=2)

    def test_what_is_not_supported(self):
        x = self.tensors()
        done = self.run_model(x, softcap=2.0)
        self.assertEqual(done.returncode, UNSUPPORTED, done.stderr)
        self.assertIn("softcap", done.stderr)
        past = np.zeros((2, 4, 3, 8), np.float32)
        done = self.run_model({**x, "m": np.zeros((5, 10), np.float32), "p": past, "o": past[..., :6]}, outputs=("y", "a", "b"))
        self.assertEqual(done.returncode, UNSUPPORTED, done.stderr)
        self.assertIn("cache of keys", done.stderr)


if __name__ == "__main__":
    main(__doc__)
