#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Composite ops in the forms of exporters: each becomes the one op that it is, or stays where it is none, and computes what NumPy
does, in f64, of the form op by op.

Usage: test_recognisers.py [--ferrite FILE] [unittest options]
"""

import math
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import OK, ProgramTest, main  # noqa: E402

ERF = np.vectorize(math.erf, otypes=[float])
SHAPE = (4, 6, 32)
X, W, B = "%x: f32[4,6,32]", "%w: f32[32]", "%b: f32[32]"

ROOTS = {  # x / sqrt(v), as PyTorch's exporters, TensorFlow's and Paddle's write it
    "div sqrt": ["%q = sqrt(%v)", "%n = div({}, %q)"],
    "reciprocal sqrt": ["%q = sqrt(%v)", "%i = reciprocal(%q)", "%n = mul({}, %i)"],
    "1 / sqrt": ["%one = literal f32[] {{1}}", "%q = sqrt(%v)", "%i = div(%one, %q)", "%n = mul(%i, {})"],
    "rsqrt": ["%i = rsqrt(%v)", "%n = mul({}, %i)"],
    "pow -0.5": ["%h = literal f32[] {{-0.5}}", "%i = pow(%v, %h)", "%n = mul({}, %i)"],
}
SQUARES = {
    "mul": ["%s = mul({0}, {0})"],
    "pow": ["%two = literal f32[] {{2}}", "%s = pow({0}, %two)"],
}


def layer_norm(x, w, b, epsilon):
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon) * w + b


def rms_norm(x, w, epsilon):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * w


def mean(result, of, axes="[-1]"):
    return f"{result} = reduce_mean({of}) {{axes = {axes}, keepdims = true}}"


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class RecogniserTest(ProgramTest):
    def check(self, inputs, body, expected, op, count=1, outputs=("%r",)):
        """`expected(*inputs)`, in f64; `op` is in the graph `count` times once the recognisers have run, and its parts are gone."""
        ports = ", ".join(f'{name} "o{k}"' for k, name in enumerate(outputs))
        text = f"ferrite graph 0\ngraph @g({', '.join(inputs)}) -> ({ports}) {{\n" + "".join(f"  {line}\n" for line in body) + "}\n"
        (self.folder / "form.fe").write_text(text)
        done = self.call("opt", "form.fe", "--to", "post_grad_post")
        self.assertEqual(done.returncode, OK, done.stderr)
        found = sum(f"= {op}(" in line for line in done.stdout.splitlines())
        self.assertEqual(found, count, f"{text}\n{done.stdout}")
        random = np.random.default_rng(7)
        feeds, values = [], []
        for declared in inputs:
            name = declared[1 : declared.index(":")]
            dims = declared[declared.index("[") + 1 : -1]
            value = (random.standard_normal([int(d) for d in dims.split(",") if d]) * 2).astype(np.float32)
            if ": bool[" in declared:
                value = value > -1
            np.save(self.folder / f"{name}.npy", value)
            feeds += ["-i", f"{name}={name}.npy"]
            values.append(value if value.dtype == bool else value.astype(np.float64))
        results = expected(*values)
        for device in (["--device", "interpreter"], []):
            done = self.call("run", "form.fe", "-o", "out", *feeds, *device)
            self.assertEqual(done.returncode, OK, done.stderr)
            for k, wanted in enumerate(results if isinstance(results, tuple) else (results,)):
                np.testing.assert_allclose(np.load(self.folder / f"out/output_{k}.npy"), wanted, rtol=2e-5, atol=2e-5, err_msg=text)

    def test_rms_norm_of_every_form(self):
        for epsilon in ("1e-6", "2e-5", "0.03"):
            for square in SQUARES.values():
                for root in ROOTS.values():
                    body = [f"%e = literal f32[] {{{epsilon}}}", *(line.format("%x") for line in square), mean("%m", "%s"),
                            "%v = add(%m, %e)", *(line.format("%x") for line in root), "%r = mul(%w, %n)"]  # fmt: skip
                    self.check([X, W], body, lambda x, w, e=float(epsilon): rms_norm(x, w, e), "rms_norm")

    def test_rms_norm_of_other_ranks_without_scale(self):
        body = ["%e = literal f32[1] {1e-5}", "%s = mul(%x, %x)", mean("%m", "%s", "[1]"), "%v = add(%e, %m)", "%i = rsqrt(%v)",
                "%r = mul(%x, %i)"]  # fmt: skip
        self.check(["%x: f32[5,7]"], body, lambda x: rms_norm(x, 1, 1e-5), "rms_norm")

    def test_what_is_no_rms_norm(self):
        def body(axes="[-1]", epsilon="%e = literal f32[] {1e-5}", extra=()):
            return [epsilon, "%s = mul(%x, %x)", mean("%m", "%s", axes), "%v = add(%m, %e)", "%i = rsqrt(%v)", "%r = mul(%x, %i)", *extra]  # fmt: skip

        for axis in (0, 1):
            self.check([X], body(f"[{axis}]"), lambda x, a=axis: x / np.sqrt((x**2).mean(a, keepdims=True) + 1e-5), "rms_norm", 0)
        self.check([X], body("[0, 2]"), lambda x: x / np.sqrt((x**2).mean((0, 2), keepdims=True) + 1e-5), "rms_norm", 0)
        # One epsilon for each row is no number.
        each = np.linspace(1, 2, 6).reshape(1, 6, 1)
        rows = f"#e = data f32[1,6,1] {{{', '.join(map(str, each.ravel()))}}}"
        self.check([X], [line.replace("%e", "#e") for line in body(epsilon=rows)],
                   lambda x: x / np.sqrt((x**2).mean(-1, keepdims=True) + each), "rms_norm", 0)  # fmt: skip
        # A computed epsilon is none either; what else reads the parts keeps them.
        self.check([X, "%e: f32[]"], body(epsilon="%z = mul(%e, %e)", extra=())[:3] + ["%v = add(%m, %z)", "%i = rsqrt(%v)", "%r = mul(%x, %i)"],
                   lambda x, e: x / np.sqrt((x**2).mean(-1, keepdims=True) + e * e), "rms_norm", 0)  # fmt: skip
        self.check([X], body(), lambda x: (rms_norm(x, 1, 1e-5), (x**2).mean(-1, keepdims=True) + 1e-5), "rms_norm", outputs=("%r", "%v"))
        # Another x than the one that is squared.
        self.check([X, "%y: f32[4,6,32]"], body()[:-1] + ["%r = mul(%y, %i)"],
                   lambda x, y: y / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5), "rms_norm", 0)  # fmt: skip

    def test_layer_norm_of_every_form(self):
        for epsilon in ("1e-12", "2e-5", "1e-3"):
            for square in SQUARES.values():
                for root in ROOTS.values():
                    body = [f"%e = literal f32[] {{{epsilon}}}", mean("%u", "%x"), "%d = sub(%x, %u)",
                            *(line.format("%d") for line in square), mean("%m", "%s", "[2]"), "%v = add(%m, %e)",
                            *(line.format("%d") for line in root), "%t = mul(%n, %w)", "%r = add(%t, %b)"]  # fmt: skip
                    self.check([X, W, B], body, lambda x, w, b, e=float(epsilon): layer_norm(x, w, b, e), "layer_norm")

    def test_layer_norm_as_tensorflow_and_keras_write_it(self):
        # Two nodes for x - mean.
        twice = ["%e = literal f32[] {2e-5}", mean("%u", "%x"), "%d = sub(%x, %u)", "%s = mul(%d, %d)", mean("%m", "%s"),
                 "%v = add(%m, %e)", "%q = sqrt(%v)", "%c = sub(%x, %u)", "%n = div(%c, %q)", "%t = mul(%n, %w)", "%r = add(%t, %b)"]  # fmt: skip
        self.check([X, W, B], twice, lambda x, w, b: layer_norm(x, w, b, 2e-5), "layer_norm")
        keras = ["%e = literal f32[] {1e-3}", mean("%u", "%x"), "%d = sub(%x, %u)", "%s = mul(%d, %d)", mean("%m", "%s"),
                 "%v = add(%m, %e)", "%q = sqrt(%v)", "%i = reciprocal(%q)", "%f = mul(%i, %w)", "%a = mul(%x, %f)",
                 "%z = mul(%u, %f)", "%o = sub(%b, %z)", "%r = add(%a, %o)"]  # fmt: skip
        scale, bias = np.linspace(0.5, 2, 32, dtype=np.float32), np.linspace(-1, 1, 32, dtype=np.float32)

        def constants(scale):
            return [f"#{name} = data f32[32] {{{', '.join(map(repr, map(float, value)))}}}" for name, value in (("w", scale), ("b", bias))]

        keras = [line.replace("%w", "#w").replace("%b,", "#b,") for line in keras]
        self.check([X], constants(scale) + keras, lambda x: layer_norm(x, scale.astype(float), bias.astype(float), 1e-3), "layer_norm")
        # Of an infinite scale the form is NaN in places, and the op would not be.
        scale[3] = np.inf

        def op_by_op(x):
            u = x.mean(-1, keepdims=True)
            f = scale.astype(float) / np.sqrt(((x - u) ** 2).mean(-1, keepdims=True) + 1e-3)
            return x * f + (bias - u * f)

        with np.errstate(invalid="ignore"):
            self.check([X], constants(scale) + keras, op_by_op, "layer_norm", 0)

    def test_layer_norm_without_scale_or_bias(self):
        body = ["%e = literal f32[] {1e-5}", mean("%u", "%x"), "%d = sub(%x, %u)", "%s = mul(%d, %d)", mean("%m", "%s"),
                "%v = add(%m, %e)", "%i = rsqrt(%v)"]  # fmt: skip
        self.check([X], [*body, "%r = mul(%d, %i)"], lambda x: layer_norm(x, 1, 0, 1e-5), "layer_norm")
        self.check([X, W], [*body, "%n = mul(%d, %i)", "%r = mul(%n, %w)"], lambda x, w: layer_norm(x, w, 0, 1e-5), "layer_norm")
        self.check([X, B], [*body, "%n = mul(%d, %i)", "%r = add(%n, %b)"], lambda x, b: layer_norm(x, 1, b, 1e-5), "layer_norm")

    def test_what_is_no_layer_norm(self):
        def body(first="[-1]", second="[-1]"):
            return ["%e = literal f32[] {1e-5}", mean("%u", "%x", first), "%d = sub(%x, %u)", "%s = mul(%d, %d)", mean("%m", "%s", second),
                    "%v = add(%m, %e)", "%q = sqrt(%v)", "%r = div(%d, %q)"]  # fmt: skip

        def reference(first, second):
            def compute(x):
                d = x - x.mean(first, keepdims=True)
                return d / np.sqrt((d**2).mean(second, keepdims=True) + 1e-5)

            return compute

        for first, second in ((0, 2), (2, 1), (1, 1)):
            self.check([X], body(f"[{first}]", f"[{second}]"), reference(first, second), "layer_norm", 0)

    def test_gelu(self):
        def expected(x):
            return x * 0.5 * (1 + ERF(x / math.sqrt(2)))

        inner = {
            "div": ["%k = literal f32[] {1.4142135623730951}", "%a = div(%x, %k)"],
            "mul": ["%k = literal f32[] {0.70710678118654752}", "%a = mul(%x, %k)"],
        }
        outer = {
            "last": ["%m = mul(%x, %f)", "%r = mul(%m, %h)"],
            "first": ["%m = mul(%h, %x)", "%r = mul(%m, %f)"],
            "factor": ["%m = mul(%f, %h)", "%r = mul(%x, %m)"],
        }
        start = ["%h = literal f32[] {0.5}", "%one = literal f32[] {1}"]
        for scale in inner.values():
            for end in outer.values():
                self.check([X], [*start, *scale, "%e = erf(%a)", "%f = add(%e, %one)", *end], expected, "gelu")
        wrong = ["%k = literal f32[] {1.5}", "%a = div(%x, %k)", "%e = erf(%a)", "%f = add(%e, %one)", *outer["last"]]
        self.check([X], start + wrong, lambda x: x * 0.5 * (1 + ERF(x / 1.5)), "gelu", 0)

    def test_gelu_by_tanh(self):
        def expected(x):
            return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))

        start = ["%h = literal f32[] {0.5}", "%one = literal f32[] {1}", "%c = literal f32[] {0.044715}", "%k = literal f32[] {0.7978845608}"]
        end = ["%t = tanh(%u)", "%f = add(%t, %one)", "%m = mul(%x, %h)", "%r = mul(%m, %f)"]
        for cube in (["%three = literal f32[] {3}", "%p = pow(%x, %three)"], ["%s = mul(%x, %x)", "%p = mul(%x, %s)"]):
            body = [*start, *cube, "%w = mul(%p, %c)", "%a = add(%x, %w)", "%u = mul(%a, %k)", *end]
            self.check([X], body, expected, "gelu")
        fast = [*start, "%z = mul(%x, %k)", "%y = mul(%x, %c)", "%s = mul(%y, %x)", "%o = add(%s, %one)", "%u = mul(%z, %o)", *end]
        self.check([X], fast, expected, "gelu")

    def test_silu(self):
        def expected(x):
            return x * sigmoid(x)

        one = "%one = literal f32[] {1}"
        parts = [one, "%n = neg(%x)", "%p = exp(%n)", "%d = add(%p, %one)"]
        self.check([X], ["%s = sigmoid(%x)", "%r = mul(%x, %s)"], expected, "silu")
        self.check([X], ["%s = sigmoid(%x)", "%r = mul(%s, %x)"], expected, "silu")
        self.check([X], [*parts, "%r = div(%x, %d)"], expected, "silu")
        self.check([X], [*parts, "%s = reciprocal(%d)", "%r = mul(%x, %s)"], expected, "silu")
        self.check([X], [*parts, "%s = div(%one, %d)", "%r = mul(%x, %s)"], expected, "silu")
        self.check([X, "%y: f32[4,6,32]"], ["%s = sigmoid(%x)", "%r = mul(%y, %s)"], lambda x, y: y * sigmoid(x), "silu", 0)

    def test_hardswish(self):
        def expected(x):
            return x * np.clip(x + 3, 0, 6) / 6

        start = ["%three = literal f32[] {3}", "%six = literal f32[] {6}", "%zero = literal f32[] {0}", "%k = literal f32[] {0.1666667}",
                 "%s = add(%x, %three)"]  # fmt: skip
        clamps = [["%c = clamp(%s, %zero, %six)"], ["%l = maximum(%s, %zero)", "%c = minimum(%l, %six)"],
                  ["%l = relu(%s)", "%c = minimum(%l, %six)"]]  # fmt: skip
        ends = [["%m = mul(%x, %c)", "%r = div(%m, %six)"], ["%m = mul(%x, %c)", "%r = mul(%m, %k)"], ["%m = mul(%c, %k)", "%r = mul(%x, %m)"],
                ["%m = div(%c, %six)", "%r = mul(%m, %x)"]]  # fmt: skip
        for clamp in clamps:
            for end in ends:
                self.check([X], start + clamp + end, expected, "hardswish")
        for alpha in ("0.16666667163372040", "0.166667"):
            self.check([X], [f"%g = hardsigmoid(%x) {{alpha = {alpha}, beta = 0.5}}", "%r = mul(%x, %g)"], expected, "hardswish")
        self.check([X], ["%g = hardsigmoid(%x)", "%r = mul(%x, %g)"], lambda x: x * np.clip(0.2 * x + 0.5, 0, 1), "hardswish", 0)
        self.check([X], start + clamps[0] + ["%seven = literal f32[] {7}", "%m = mul(%x, %c)", "%r = div(%m, %seven)"],
                   lambda x: x * np.clip(x + 3, 0, 6) / 7, "hardswish", 0)  # fmt: skip

    def test_mish(self):
        def expected(x):
            return x * np.tanh(np.log1p(np.exp(x)))

        end = ["%t = tanh(%p)", "%r = mul(%x, %t)"]
        self.check([X], ["%p = softplus(%x)", *end], expected, "mish")
        self.check([X], ["%one = literal f32[] {1}", "%e = exp(%x)", "%a = add(%one, %e)", "%p = log(%a)", *end], expected, "mish")
        self.check([X], ["%e = exp(%x)", "%p = log1p(%e)", *end], expected, "mish")
        self.check([X], ["%p = exp(%x)", *end], lambda x: x * np.tanh(np.exp(x)), "mish", 0)

    def test_attention(self):
        q, k, v, mask = "%q: f32[2,3,5,8]", "%k: f32[2,3,7,8]", "%v: f32[2,3,7,6]", "%m: f32[2,1,5,7]"

        def expected(q, k, v, m=0.0, scale=1.0):
            scores = q @ k.swapaxes(-1, -2) * scale + m
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            return powers / powers.sum(-1, keepdims=True) @ v

        start = ["%t = transpose(%k) {perm = [0, 1, 3, 2]}", "%s = matmul(%q, %t)"]
        end = ["%p = softmax(%u)", "%r = matmul(%p, %v)"]
        scale = "%c = literal f32[] {0.25}"
        # PyTorch's TorchScript exporter and BERT's of TensorFlow and Paddle: a quotient or a product, then a mask.
        self.check([q, k, v, mask], ["%c = literal f32[] {4}", *start, "%d = div(%s, %c)", "%u = add(%d, %m)", *end],
                   lambda *x: expected(*x, scale=0.25), "attention")  # fmt: skip
        self.check([q, k, v, mask], [scale, *start, "%d = mul(%c, %s)", "%u = add(%m, %d)", *end], lambda *x: expected(*x, scale=0.25), "attention")
        self.check([q, k, v], [scale, *start, "%u = mul(%s, %c)", *end], lambda *x: expected(*x, scale=0.25), "attention")
        self.check([q, k, v, mask], [*start, "%u = add(%s, %m)", *end], expected, "attention")
        # The dynamo exporter: a root of the scale on either side of the product, which stays there.
        root = ["%h = literal f32[] {0.5}", "%a = mul(%q, %h)", "%t = transpose(%k) {perm = [0, 1, 3, 2]}", "%b = mul(%t, %h)", "%s = matmul(%a, %b)"]
        self.check([q, k, v, mask], [*root, "%u = add(%s, %m)", *end], lambda *x: expected(*x, scale=0.25), "attention")
        # Heads that are transposed and split in one view.
        self.check([q, "%k: f32[2,7,3,8]", v], ["%t = transpose(%k) {perm = [0, 2, 3, 1]}", "%u = matmul(%q, %t)", *end],
                   lambda q, k, v: expected(q, k.transpose(0, 2, 1, 3), v), "attention")  # fmt: skip
        # Keys and values of one head for all of the queries'.
        self.check([q, "%k: f32[2,1,7,8]", "%v: f32[2,1,7,6]"], ["%t = transpose(%k) {perm = [0, 1, 3, 2]}", "%u = matmul(%q, %t)", *end],
                   expected, "attention")  # fmt: skip
        # A factor for each key is no scale; weights that are read stay; another axis is another softmax.
        each = "#e = data f32[7] {1, 2, 3, 4, 5, 6, 7}"
        self.check([q, k, v], [each, *start, "%u = mul(%s, #e)", *end], lambda q, k, v: expected(q, k * np.arange(1, 8)[:, None], v), "attention", 0)

        def weights(q, k, v):
            powers = np.exp(q @ k.swapaxes(-1, -2))
            return expected(q, k, v), powers / powers.sum(-1, keepdims=True)

        self.check([q, k, v], [*start, "%p = softmax(%s)", "%r = matmul(%p, %v)"], weights, "attention", 0, outputs=("%r", "%p"))

        def columns(q, k, v):
            powers = np.exp(q @ k.swapaxes(-1, -2))
            return powers / powers.sum(-2, keepdims=True) @ v

        self.check([q, k, v], [*start, "%p = softmax(%s) {axis = 2}", "%r = matmul(%p, %v)"], columns, "attention", 0)

    def test_rotary_embedding(self):
        x, cos, sin = "%x: f32[2,3,5,8]", "%c: f32[1,1,5,8]", "%s: f32[5,8]"

        def expected(x, cos, sin):
            return x * cos + np.concatenate([-x[..., 4:], x[..., :4]], -1) * sin

        def slices(first=0, second=4, size=4):
            part = "{{starts = [0, 0, 0, {}], sizes = [2, 3, 5, {}], strides = [1, 1, 1, 1]}}"
            return [f"%l = slice(%x) {part.format(first, size)}", f"%h = slice(%x) {part.format(second, size)}"]

        end = ["%n = neg(%h)", "%t = concat(%n, %l) {axis = -1}", "%a = mul(%x, %c)", "%b = mul(%t, %s)", "%r = add(%a, %b)"]
        self.check([x, cos, sin], [*slices(), *end], expected, "rotary_embedding")
        self.check([x, cos, sin], ["%l, %h = split(%x) {axis = 3, sizes = [4, 4]}", *end], expected, "rotary_embedding")
        self.check([x, cos, sin], [*slices(), *end[:2], "%a = mul(%c, %x)", "%b = mul(%s, %t)", "%r = add(%b, %a)"], expected, "rotary_embedding")
        # The halves in their places, and halves of another tensor.
        self.check([x, cos, sin], [*slices(4, 0), *end], lambda x, c, s: x * c + np.concatenate([-x[..., :4], x[..., 4:]], -1) * s, "rotary_embedding", 0)
        self.check([x, cos, sin, "%y: f32[2,3,5,8]"], [*slices(), *end[:2], "%a = mul(%y, %c)", *end[3:]],
                   lambda x, c, s, y: y * c + np.concatenate([-x[..., 4:], x[..., :4]], -1) * s, "rotary_embedding", 0)  # fmt: skip

    def test_norms_of_keras(self):
        """tf2onnx 1.17 of Keras 3: the scale goes with the root, and the mean is negated."""
        e, parts = "%e = literal f32[] {1e-3}", [mean("%m", "%x"), "%d = sub(%x, %m)", "%s = mul(%d, %d)", mean("%a", "%s"), "%v = add(%a, %e)",
                                                 "%q = sqrt(%v)", "%i = reciprocal(%q)", "%n = neg(%m)"]  # fmt: skip
        scale, bias = "#w = data f32[1,1,32] {" + ", ".join(["0.5", "-2"] * 16) + "}", "#b = data f32[1,1,32] {" + ", ".join(["1", "3"] * 16) + "}"
        w, b = np.tile([0.5, -2], 16), np.tile([1, 3], 16)
        for scaled in (True, False):
            factor = "%i"
            body = [e, scale, bias, *parts]
            if scaled:
                body.append("%f = mul(%i, #w)")
                factor = "%f"
            body += [f"%y = mul(%x, {factor})", f"%z = mul(%n, {factor})"]
            self.check([X], [*body, "%r = add(%y, %z)"], lambda x, w=w if scaled else 1: layer_norm(x, w, 0, 1e-3), "layer_norm")
            self.check([X], [*body, "%u = add(%z, #b)", "%r = add(%y, %u)"], lambda x, w=w if scaled else 1: layer_norm(x, w, b, 1e-3), "layer_norm")
        # TensorFlow's optimiser joins root and scale where the mean is subtracted, too.
        joined = [e, *parts[:-1], "%f = mul(%i, %w)", "%y = mul(%d, %f)", "%r = add(%y, %b)"]
        self.check([X, W, B], joined, lambda x, w, b: layer_norm(x, w, b, 1e-3), "layer_norm")
        rms = [e, "%s = mul(%x, %x)", mean("%a", "%s"), "%v = add(%a, %e)", "%q = sqrt(%v)", "%i = reciprocal(%q)", "%f = mul(%i, %w)", "%r = mul(%x, %f)"]
        self.check([X, W], rms, lambda x, w: rms_norm(x, w, 1e-3), "rms_norm")

    def test_norms_over_two_dims(self):
        """PyTorch's of a shape, exported without the op."""
        start = ["%e = literal f32[] {1e-5}", mean("%m", "%x", "[1, 2]"), "%d = sub(%x, %m)"]
        end = [mean("%a", "%s", "[1, 2]"), "%v = add(%a, %e)", "%q = sqrt(%v)"]
        w, b = "%w: f32[6,32]", "%b: f32[6,32]"

        def expected(x, w, b, centre=1):
            centred = x - centre * x.mean((1, 2), keepdims=True)
            return centred / np.sqrt((centred**2).mean((1, 2), keepdims=True) + 1e-5) * w + b

        self.check([X, w, b], [*start, "%s = mul(%d, %d)", *end, "%n = div(%d, %q)", "%y = mul(%n, %w)", "%r = add(%y, %b)"], expected, "layer_norm")
        self.check([X, w], [start[0], "%s = mul(%x, %x)", *end, "%n = div(%x, %q)", "%r = mul(%n, %w)"], lambda x, w: expected(x, w, 0, 0), "rms_norm")

    def test_layer_norm_with_factors_of_one_and_without_epsilon(self):
        start = ["%one = literal f32[1] {1}", "%e = literal f32[] {1e-6}", mean("%m", "%x"), "%d = sub(%x, %m)", "%s = mul(%d, %d)", mean("%a", "%s")]
        end = ["%q = sqrt(%v)", "%n = div(%d, %q)", "%y = mul(%n, %w)", "%r = add(%y, %b)"]
        # paddle2onnx 2.1: a sum with a number is a scaling by 1 and then the sum.
        self.check([X, W, B], [*start, "%k = mul(%a, %one)", "%v = add(%k, %e)", *end], lambda x, w, b: layer_norm(x, w, b, 1e-6), "layer_norm")
        # torch 2.15, dynamo: an epsilon of 1e-12 is gone.
        self.check([X, W, B], [*start, "%q = sqrt(%a)", *end[1:]], lambda x, w, b: layer_norm(x, w, b, 0), "layer_norm")

    def test_softplus(self):
        def expected(x):
            return np.log1p(np.exp(x))

        self.check([X], ["%one = literal f32[] {1}", "%e = exp(%x)", "%a = add(%e, %one)", "%r = log(%a)"], expected, "softplus")
        self.check([X], ["%e = exp(%x)", "%r = log1p(%e)"], expected, "softplus")
        self.check([X], ["%l = relu(%x)", "%a = abs(%x)", "%n = neg(%a)", "%e = exp(%n)", "%p = log1p(%e)", "%r = add(%l, %p)"], expected, "softplus")
        # torch 2.15, dynamo: the threshold of PyTorch's, which is none at 20, and is one at 1.
        for limit, left in ((20, 0), (1, 1)):
            body = [f"%t = literal f32[] {{{limit}}}", "%s = softplus(%x)", "%g = gt(%x, %t)", "%r = where(%g, %x, %s)"]
            self.check([X], body, lambda x, t=limit: np.where(x > t, x, expected(x)), "where", left)

    def test_sums_with_zero(self):
        """paddle2onnx 2.1 adds 0 to what it scales."""
        zero = "%z = literal f32[] {0}"
        gelu = [zero, "%h = literal f32[1] {0.5}", "%k = literal f32[1] {0.70710677}", "%one = literal f32[1] {1}", "%m = mul(%x, %h)",
                "%p = add(%m, %z)", "%c = mul(%x, %k)", "%a = add(%c, %z)", "%e = erf(%a)", "%o = mul(%e, %one)", "%f = add(%o, %one)",
                "%r = mul(%p, %f)"]  # fmt: skip
        self.check([X], gelu, lambda x: x * 0.5 * (1 + ERF(x / math.sqrt(2))), "gelu")
        tanh = [zero, "%h = literal f32[1] {0.5}", "%one = literal f32[1] {1}", "%c = literal f32[1] {0.044715}", "%k = literal f32[1] {0.7978846}",
                "%three = literal f32[] {3}", "%m = mul(%x, %h)", "%p = add(%m, %z)", "%u = pow(%x, %three)", "%v = mul(%u, %c)", "%w = add(%v, %z)",
                "%s = add(%x, %w)", "%t = mul(%s, %k)", "%y = add(%t, %z)", "%g = tanh(%y)", "%o = mul(%g, %one)", "%f = add(%o, %one)",
                "%r = mul(%p, %f)"]  # fmt: skip
        self.check([X], tanh, lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), "gelu")

    def test_attention_with_masks(self):
        q, k, v, mask = "%q: f32[2,3,5,8]", "%k: f32[2,3,7,8]", "%v: f32[2,3,7,6]", "%m: f32[2,1,5,7]"
        start = ["%c = literal f32[] {0.25}", "%t = transpose(%k) {perm = [0, 1, 3, 2]}", "%s = matmul(%q, %t)", "%d = mul(%s, %c)"]
        end = ["%p = softmax(%u)", "%r = matmul(%p, %v)"]

        def expected(change, nan_as_zero=False):
            def compute(q, k, v, *masks):
                with np.errstate(invalid="ignore"):
                    powers = change(q @ k.swapaxes(-1, -2) * 0.25, *masks)
                    powers = np.exp(powers - powers.max(-1, keepdims=True))
                weights = powers / powers.sum(-1, keepdims=True)
                return np.where(np.isnan(weights) & nan_as_zero, 0, weights) @ v

            return compute

        self.check([q, k, v, mask], [*start, "%u = sub(%d, %m)", *end], expected(lambda s, m: s - m), "attention")
        # Positions and padding, as of T5.
        self.check([q, k, v, mask, "%n: f32[3,5,7]"], [*start, "%b = add(%d, %n)", "%u = add(%b, %m)", *end], expected(lambda s, m, n: s + n + m), "attention")
        # Paddle adds 0 to what it scales.
        self.check([q, k, v, mask], ["%z = literal f32[] {0}", *start, "%b = add(%d, %z)", "%u = add(%b, %m)", *end], expected(lambda s, m: s + m), "attention")
        # Masks of bool, with which a row may be masked throughout: PyTorch's guard against that, and none.
        rows = [q, k, v, "%b: bool[2,1,5,7]"]
        for low in ("-inf", "-1e9", "-3"):
            fill = f"%low = literal f32[] {{{low}}}"
            for wanted, choice in ((True, "where(%b, %d, %low)"), (False, "where(%b, %low, %d)")):
                self.check(rows, [fill, *start, f"%u = {choice}", *end], expected(lambda s, b, w=wanted, f=low: np.where(b == w, s, float(f))), "attention")
        guard = ["%zero = literal f32[] {0}", "%low = literal f32[] {-inf}", *start, "%u = where(%b, %d, %low)", "%p = softmax(%u)", "%i = isnan(%p)",
                 "%w = where(%i, %zero, %p)", "%r = matmul(%w, %v)"]  # fmt: skip
        none = ["%b = expand(%one) {shape = [2, 1, 5, 7]}", *guard]
        self.check(rows, guard, expected(lambda s, b: np.where(b, s, -np.inf), True), "attention")
        self.check(rows[:3] + ["%one: bool[2,1,5,1]"], none, expected(lambda s, b: np.where(b, s, -np.inf), True), "attention")
        # Another number in place of NaN is not what the op has.
        self.check(rows, [line.replace("%zero = literal f32[] {0}", "%zero = literal f32[] {1}") for line in guard],
                   expected(lambda s, b: np.where(b, s, -np.inf)), "attention", 0)  # fmt: skip

    def test_attention_of_other_ranks(self):
        def expected(q, k, v, m=0.0):
            scores = q @ k.swapaxes(-1, -2) * 0.25 + m
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            return powers / powers.sum(-1, keepdims=True) @ v

        q, k, v = "%q: f32[6,5,8]", "%k: f32[6,7,8]", "%v: f32[6,7,4]"
        start = ["%c = literal f32[] {0.25}", "%t = transpose(%k) {perm = [0, 2, 1]}", "%s = matmul(%q, %t)"]
        self.check([q, k, v, "%m: f32[6,5,7]"], [*start, "%d = mul(%s, %c)", "%u = add(%d, %m)", "%p = softmax(%u)", "%r = matmul(%p, %v)"],
                   expected, "attention")  # fmt: skip
        # tf2onnx 1.17 of einsum: one batch dim in the products, two in the softmax.
        between = ["%s4 = reshape(%s) {shape = [2, 3, 5, 7]}", "%d = mul(%s4, %c)", "%u = add(%d, %m)", "%p = softmax(%u)",
                   "%w = reshape(%p) {shape = [6, 5, 7]}", "%r = matmul(%w, %v)"]  # fmt: skip
        self.check([q, k, v, "%m: f32[2,1,5,7]"], [*start, *between],
                   lambda q, k, v, m: expected(q, k, v, m.repeat(3, 1).reshape(6, 5, 7)), "attention")  # fmt: skip
        # The same numbers in another order are no batches.
        crossed = ["%s4 = reshape(%s) {shape = [2, 3, 7, 5]}", "%p = softmax(%s4)", "%w = reshape(%p) {shape = [6, 5, 7]}", "%r = matmul(%w, %v)"]

        def other(q, k, v):
            powers = np.exp((q @ k.swapaxes(-1, -2)).reshape(2, 3, 7, 5))
            return (powers / powers.sum(-1, keepdims=True)).reshape(6, 5, 7) @ v

        self.check([q, k, v], [*start, *crossed], other, "attention", 0)
        # Keras' einsum has keys by queries, and turns the weights around.
        turned = ["%c = literal f32[] {0.25}", "%t = transpose(%q) {perm = [0, 1, 3, 2]}", "%s = matmul(%k, %t)", "%d = mul(%s, %c)",
                  "%p = softmax(%d) {axis = 2}", "%w = transpose(%p) {perm = [0, 1, 3, 2]}", "%r = matmul(%w, %v)"]  # fmt: skip
        self.check(["%q: f32[2,3,5,8]", "%k: f32[2,3,7,8]", "%v: f32[2,3,7,6]"], turned, expected, "attention")

    def test_rotary_embedding_of_other_forms(self):
        def half(x, cos, sin):
            low, high = np.split(x, 2, -1)
            return x * cos + np.concatenate([-high, low], -1) * sin

        def pairs(x, cos, sin):
            return x * cos + np.stack([-x[..., 1::2], x[..., ::2]], -1).reshape(x.shape) * sin

        def part(name, of, start, size, stride=1, dims=(2, 3, 5)):
            starts, sizes = [0] * len(dims) + [start], [*dims, size]
            return f"{name} = slice({of}) {{starts = {starts}, sizes = {sizes}, strides = {[1] * len(dims) + [stride]}}}"

        x, cos, sin, c4, s4 = "%x: f32[2,3,5,8]", "%c: f32[5,8]", "%s: f32[5,8]", "%c: f32[5,4]", "%s: f32[5,4]"
        end = ["%a = mul(%x, %c)", "%b = mul(%t, %s)", "%r = add(%a, %b)"]
        op = "rotary_embedding"
        # Of 3 dims; the last 8 of 12 numbers; Paddle's negation.
        three = [part("%l", "%x", 0, 4, dims=(3, 5)), part("%h", "%x", 4, 4, dims=(3, 5)), "%n = neg(%h)", "%t = concat(%n, %l) {axis = -1}", *end]
        self.check(["%x: f32[3,5,8]", cos, sin], three, half, op)
        halves = [part("%x", "%y", 4, 8), part("%l", "%y", 4, 4), part("%h", "%y", 8, 4), "%n = neg(%h)", "%t = concat(%n, %l) {axis = -1}", *end]
        self.check(["%y: f32[2,3,5,12]", cos, sin], halves, lambda y, c, s: half(y[..., 4:], c, s), op)
        wrong = [part("%x", "%y", 4, 8), part("%l", "%y", 4, 4), part("%h", "%y", 7, 4), *halves[3:]]
        self.check(["%y: f32[2,3,5,12]", cos, sin], wrong,
                   lambda y, c, s: y[..., 4:] * c + np.concatenate([-y[..., 7:11], y[..., 4:8]], -1) * s, op, 0)  # fmt: skip
        minus = ["%k = literal f32[1] {-1}", "%z = literal f32[] {0}", part("%l", "%x", 0, 4), part("%h", "%x", 4, 4), "%m = mul(%h, %k)", "%n = add(%m, %z)",
                 "%t = concat(%n, %l) {axis = -1}", *end]  # fmt: skip
        self.check([x, cos, sin], minus, half, op)
        # Each half for itself, with one number of cos and sin for both.
        both = ["%ac = mul(%l, %c)", "%bs = mul(%h, %s)", "%u = sub(%ac, %bs)", "%bc = mul(%h, %c)", "%as = mul(%l, %s)", "%v = add(%bc, %as)"]
        self.check([x, c4, s4], [part("%l", "%x", 0, 4), part("%h", "%x", 4, 4), *both, "%r = concat(%u, %v) {axis = -1}"],
                   lambda x, c, s: half(x, np.tile(c, 2), np.tile(s, 2)), op)  # fmt: skip
        # One number of cos for all: no rotation by halves is spoilt by it, and one for each of the numbers is no pair's.
        self.check([x, "%c: f32[5,1]", "%s: f32[5,1]"], [part("%l", "%x", 0, 4), part("%h", "%x", 4, 4), *both, "%r = concat(%u, %v) {axis = -1}"],
                   half, op, 0)  # fmt: skip
        # Pairs side by side, GPT-J's, of the whole and of a part.
        apart = ["%n = neg(%h)", "%h5 = reshape(%n) {shape = [2, 3, 5, 4, 1]}", "%l5 = reshape(%l) {shape = [2, 3, 5, 4, 1]}",
                 "%p = concat(%h5, %l5) {axis = 4}", "%t = reshape(%p) {shape = [2, 3, 5, 8]}", *end]  # fmt: skip
        self.check([x, cos, sin], [part("%l", "%x", 0, 4, 2), part("%h", "%x", 1, 4, 2), *apart], pairs, op)
        self.check(["%y: f32[2,3,5,12]", cos, sin], [part("%x", "%y", 4, 8), part("%l", "%y", 4, 4, 2), part("%h", "%y", 5, 4, 2), *apart],
                   lambda y, c, s: pairs(y[..., 4:], c, s), op)  # fmt: skip
        self.check([x, cos, sin], [part("%l", "%x", 1, 4, 2), part("%h", "%x", 0, 4, 2), *apart],
                   lambda x, c, s: x * c + np.stack([-x[..., ::2], x[..., 1::2]], -1).reshape(x.shape) * s, op, 0)  # fmt: skip
        view, five = "%y = reshape(%x) {shape = [2, 3, 5, 4, 2]}", (2, 3, 5, 4)
        flux = [view, part("%l5", "%y", 0, 1, dims=five), part("%b", "%y", 1, 1, dims=five), "%h = reshape(%b) {shape = [2, 3, 5, 4]}", "%n = neg(%h)",
                "%h5 = reshape(%n) {shape = [2, 3, 5, 4, 1]}", "%p = concat(%h5, %l5) {axis = 4}", "%t = reshape(%p) {shape = [2, 3, 5, 8]}"]  # fmt: skip
        self.check([x, cos, sin], flux + [end[0], end[1].replace("%b", "%g"), end[2].replace("%b", "%g")], pairs, op)
        # One number of cos and sin for each pair: by slices, by gather, of a view with the pairs last.
        together = ["%u5 = reshape(%u) {shape = [2, 3, 5, 4, 1]}", "%v5 = reshape(%v) {shape = [2, 3, 5, 4, 1]}", "%p = concat(%u5, %v5) {axis = 4}",
                    "%r = reshape(%p) {shape = [2, 3, 5, 8]}"]  # fmt: skip
        takes = [[part("%l", "%x", 0, 4, 2), part("%h", "%x", 1, 4, 2)],
                 [view, "%i = literal i64[] {0}", "%j = literal i64[] {1}", "%l = gather(%y, %i) {axis = 4}", "%h = gather(%y, %j) {axis = 4}"],
                 [view, part("%l5", "%y", 0, 1, dims=five), part("%h5", "%y", 1, 1, dims=five), "%l = reshape(%l5) {shape = [2, 3, 5, 4]}",
                  "%h = reshape(%h5) {shape = [2, 3, 5, 4]}"]]  # fmt: skip
        for take in takes:
            self.check([x, c4, s4], [*take, *both, *together], lambda x, c, s: pairs(x, c.repeat(2, -1), s.repeat(2, -1)), op)
        # torch 2.15, dynamo, of complex numbers: the pairs' dim stays to the end.
        whole = [view, part("%l", "%y", 0, 1, dims=five), part("%h", "%y", 1, 1, dims=five), *both, "%p = concat(%u, %v) {axis = 4}",
                 "%r = reshape(%p) {shape = [2, 3, 5, 8]}"]  # fmt: skip
        self.check([x, "%c: f32[5,4,1]", "%s: f32[5,4,1]"], whole,
                   lambda x, c, s: pairs(x, c[..., 0].repeat(2, -1), s[..., 0].repeat(2, -1)), op)  # fmt: skip


if __name__ == "__main__":
    main(__doc__)
