#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Constant scales, shifts and batch norms after a convolution: as NumPy computes them one op after the other, with weights, scales and
inputs up to the ends of the range, infinities and NaN.

Usage: test_fold_scales.py [--ferrite FILE] [unittest options]
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import OK, ProgramTest, main  # noqa: E402

TYPES = {"f32": np.float32, "f64": np.float64}


def ends(dtype):
    """Numbers of which two have a product out of the range, denormal, or in it."""
    large = dtype(1e30) if dtype == np.float32 else dtype(1e200)
    return [0, -0.0, 1, -3, large, -large, 1 / large, -1 / large, np.finfo(dtype).max, np.finfo(dtype).tiny,
            np.finfo(dtype).smallest_subnormal, np.inf, -np.inf, np.nan]  # fmt: skip


def text_of(values):
    return "{" + ", ".join(str(v) if np.isfinite(v) else {np.inf: "inf", -np.inf: "-inf"}.get(v, "nan") for v in values.ravel()) + "}"


class FoldTest(ProgramTest):
    def graph(self, name, kind, x, constants, body):
        """A model over %x and these constants, each `data`."""
        lines = [f"  #{key} = data {kind}[{','.join(map(str, value.shape))}] {text_of(value)}" for key, value in constants.items()]
        dims = ",".join(map(str, x.shape))
        (self.folder / name).write_text("\n".join(
            ["ferrite graph 0", f'graph @g(%x: {kind}[{dims}]) -> (%r "r") {{', *lines, *(f"  {line}" for line in body), "}\n"]))  # fmt: skip
        np.save(self.folder / "x.npy", x)
        return name

    def check(self, kind, steps, body, x, constants, inputs=None):
        """`steps(x, *constants)`: the value after each op. Where an intermediate one leaves the range by itself, what comes out depends
        on the order of the ops, whatever the constants: such elements are left out. Results may differ by the rounding of a term."""
        dtype = TYPES[kind]
        model = self.graph("fold.fe", kind, x, inputs or constants, body)
        wide = [np.longdouble(value) for value in (x, *constants.values())]
        with np.errstate(all="ignore"):
            expected = steps(x, *constants.values())[-1]
            exact, sizes = steps(*wide), steps(*map(np.abs, wide))
        info = np.finfo(dtype)
        compared = np.ones(expected.shape, bool)
        for value in exact[:-1]:
            magnitude = np.broadcast_to(np.abs(value), expected.shape)
            compared &= ~(np.isfinite(magnitude) & (magnitude != 0) & ((magnitude > info.max) | (magnitude < info.tiny)))
        self.assertGreater(compared.mean(), 0.3)
        bound = np.where(np.isfinite(sizes[-1]), sizes[-1] * info.eps * 4, 0) + 4 * info.smallest_subnormal
        for device in (["--device", "interpreter"], []):
            done = self.call("run", model, "-i", "x=x.npy", "-o", "out", *device)
            self.assertEqual(done.returncode, OK, done.stderr)
            ours = np.load(self.folder / "out/output_0.npy")
            with np.errstate(all="ignore"):
                close = (ours == expected) | (np.isnan(ours) & np.isnan(expected)) | (np.abs(ours - np.longdouble(expected)) <= bound)
            for place in np.argwhere(compared & ~close)[:1]:
                n, c, h, _ = place
                at = {key: value.reshape(-1)[c] for key, value in constants.items()}
                self.fail(f"{kind} {body} {device}: {ours[tuple(place)]}, NumPy has {expected[tuple(place)]}; x {x[n, 0, h, 0]}, {at}")

    def pairs(self, dtype):
        """Inputs, and every weight with every scale, one pair a channel."""
        w, s = np.meshgrid(np.array(ends(dtype), dtype), np.array(ends(dtype), dtype))
        return np.array(ends(dtype), dtype).reshape(1, 1, -1, 1), w.reshape(1, -1, 1, 1), s.reshape(1, -1, 1, 1)

    def weight(self, row):
        return row.reshape(-1, 1, 1, 1)

    def test_scale(self):
        for kind, dtype in TYPES.items():
            x, w, s = self.pairs(dtype)
            self.check(kind, lambda x, w, s: [x * w, x * w * s], ["%c = conv(%x, #w)", "%r = mul(%c, #s)"],
                       x, {"w": w, "s": s}, {"w": self.weight(w), "s": s})  # fmt: skip

    def test_scale_and_bias(self):
        for kind, dtype in TYPES.items():
            x, b, s = self.pairs(dtype)
            w = np.ones_like(b)
            self.check(kind, lambda x, w, b, s: [x * w, x * w + b, (x * w + b) * s], ["%c = conv(%x, #w, #b)", "%r = mul(%c, #s)"],
                       x, {"w": w, "b": b, "s": s}, {"w": self.weight(w), "b": b.reshape(-1), "s": s})  # fmt: skip

    def test_bias_and_shift(self):
        for kind, dtype in TYPES.items():
            x, b, t = self.pairs(dtype)
            w = np.full_like(b, 2)
            self.check(kind, lambda x, w, b, t: [x * w, x * w + b, (x * w + b) + t], ["%c = conv(%x, #w, #b)", "%r = add(%c, #t)"],
                       x, {"w": w, "b": b, "t": t}, {"w": self.weight(w), "b": b.reshape(-1), "t": t})  # fmt: skip

    def test_batch_norm(self):
        for kind, dtype in TYPES.items():
            x, w, gamma = self.pairs(dtype)
            for beta, mean, variance in ((1, 0, 4), (0.5, -2, 1e-30), (0, 0, 0), (1e30, -1e30, 1), (1, -1, np.inf), (0, 0, -1)):
                constants = {"w": w, "s": gamma} | {key: np.full_like(gamma, value) for key, value in
                                                    (("b", beta), ("m", -mean), ("v", variance))}  # fmt: skip

                # As ONNX Runtime and PyTorch: one scale and one shift. The mean is negated, so that magnitudes add up.
                def steps(x, w, gamma, beta, negated, variance):
                    scale = gamma / np.sqrt(variance + variance.dtype.type(dtype(1e-5)))
                    return [x * w, scale + 0 * x, negated * scale + 0 * x, x * w * scale, x * w * scale + (beta + negated * scale)]

                given = {key: value.reshape(-1) for key, value in constants.items()} | {"w": self.weight(w)}
                given["m"] = -given["m"]
                self.check(kind, steps, ["%c = conv(%x, #w)", "%r = batch_norm(%c, #s, #b, #m, #v) {epsilon = 1e-5}"],
                           x, constants, given)  # fmt: skip

    def test_one_scale_after_another(self):
        for kind, dtype in TYPES.items():
            large = dtype(1e20) if kind == "f32" else dtype(1e160)
            x = np.array([1, -2, large, 1 / large, 0, np.inf], dtype).reshape(1, 1, -1, 1)
            w = np.array([1, large, 1 / large, large, 3], dtype).reshape(1, -1, 1, 1)
            s = np.array([large, large, 1 / large, 1, 0], dtype).reshape(1, -1, 1, 1)
            t = np.array([large, 1 / large, large, large, np.inf], dtype).reshape(1, -1, 1, 1)
            self.check(kind, lambda x, w, s, t: [x * w, x * w * s, (x * w * s) * t],
                       ["%c = conv(%x, #w)", "%d = mul(%c, #s)", "%r = mul(%d, #t)"],
                       x, {"w": w, "s": s, "t": t}, {"w": self.weight(w), "s": s, "t": t})  # fmt: skip

    def test_weights_too_large_to_be_evaluated(self):
        """1.2 MB of weights, of which one channel is at the end of the range; transposed and cast, as exporters leave them."""
        random = np.random.default_rng(4)
        w = random.standard_normal((600, 512)).astype(np.float32)
        w[:, 7] *= 1e30
        s = np.full((1, 512, 1, 1), 1e-10, np.float32)
        s[0, 7] = 1e15
        x = np.full((1, 600, 1, 1), 1e-30, np.float32)
        w.tofile(self.folder / "w.bin")
        s.tofile(self.folder / "s.bin")
        (self.folder / "large.fe").write_text(f"""ferrite graph 0
graph @g(%x: f32[1,600,1,1]) -> (%r "r") {{
  #w = weight("w.bin", 0, {w.nbytes}) : f32[600,512]
  #s = weight("s.bin", 0, {s.nbytes}) : f32[1,512,1,1]
  %t = transpose(#w) {{perm = [1, 0]}}
  %k = reshape(%t) {{shape = [512, 600, 1, 1]}}
  %c = conv(%x, %k)
  %r = mul(%c, #s)
}}
""")
        np.save(self.folder / "x.npy", x)
        done = self.call("run", "large.fe", "-i", "x=x.npy", "-o", "out")
        self.assertEqual(done.returncode, OK, done.stderr)
        ours = np.load(self.folder / "out/output_0.npy")[0, :, 0, 0]
        expected = (w.T.astype(np.float64) @ x[0, :, 0, 0].astype(np.float64)) * s[0, :, 0, 0].astype(np.float64)
        np.testing.assert_allclose(ours[7], expected[7], rtol=1e-3)


if __name__ == "__main__":
    main(__doc__)
