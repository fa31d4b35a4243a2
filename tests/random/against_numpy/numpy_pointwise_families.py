# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Families of ops of one element each, and of constants."""

import math

import numpy as np
from numpy_graph import Dtype
from numpy_sources import ALL, Sources
from numpy_values import FLOATS, INTEGERS, numpy_type

UNARY = (
    "exp exp2 expm1 log log2 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf floor ceil "
    "round trunc"
).split()
ACTIVATIONS = (
    "gelu silu mish sigmoid softplus softsign elu celu selu leaky_relu hardsigmoid hardswish thresholded_relu shrink"
).split()
COMPARISONS = "eq ne lt le gt ge".split()


class PointwiseFamilies(Sources):
    def binary(self):
        op = self.pick("add sub mul div mod remainder_trunc pow minimum maximum atan2 prelu clamp".split())
        if op in ("minimum", "maximum"):
            x = self.anything()
        else:
            x = self.a_float() if op == "atan2" or self.chance(0.6) else self.a_number()
        dtype = self.values[x].dtype
        if op == "clamp":
            if dtype == "bool":
                return
            bounds = [self.partner(x, to_x=True) if self.chance(0.7) else "_" for _ in range(2)]
            while bounds and bounds[-1] == "_":
                bounds.pop()
            self.add(op, [x, *bounds])
        elif op == "pow" and dtype in INTEGERS:
            shape = self.values[x].shape
            self.add(op, [x, self.given(dtype, shape, self.numbers.integers(0, 6, shape))])
        else:
            self.add(op, [x, self.partner(x, to_x=op == "prelu")])

    def unary(self):
        op = self.pick([*UNARY, "neg", "abs", "sign", "relu", "neg", "abs", "isnan", "isinf"])
        x = self.a_number() if op in ("neg", "abs", "sign", "relu") else self.a_float()
        attrs = {}
        if op == "isinf":
            attrs = {name: False for name in ("detect_positive", "detect_negative") if self.chance(0.4)}
        self.add(op, [x], attrs)

    def activation(self):
        op = self.pick(ACTIVATIONS)
        attrs = {}
        if op in ("elu", "celu", "leaky_relu", "thresholded_relu") and self.chance(0.6):
            attrs["alpha"] = self.pick([0.25, 0.5, 1.0, 1.5, 2.0])
        if op == "hardsigmoid" and self.chance(0.5):
            attrs = {"alpha": self.pick([0.125, 0.5]), "beta": self.pick([0.25, 0.5])}
        if op == "shrink" and self.chance(0.6):
            attrs = {"bias": self.pick([0.0, 0.5]), "lambda": self.pick([0.25, 0.5, 1.0])}
        if op == "gelu" and self.chance(0.5):
            attrs["approximate"] = "tanh"
        self.add(op, [self.a_float()], attrs)

    def comparison(self):
        x = self.anything()
        self.add(self.pick(COMPARISONS), [x, self.partner(x)])

    def logic(self):
        x = self.a_bool()
        if self.chance(0.25):
            self.add("logical_not", [x])
        else:
            self.add(self.pick(["logical_and", "logical_or", "logical_xor"]), [x, self.partner(x)])

    def bits(self):
        x = self.an_integer()
        op = self.pick("bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right".split())
        if op == "bitwise_not":
            self.add(op, [x])
        elif op.startswith("shift"):
            value = self.values[x]
            self.add(
                op,
                [
                    x,
                    self.given(
                        value.dtype, value.shape, self.numbers.integers(0, value.v.itemsize * 8 + 2, value.shape)
                    ),
                ],
            )
        else:
            self.add(op, [x, self.partner(x)])

    def select(self):
        condition = self.a_bool()
        x = self.partner(condition, dtype=self.pick([*self.floats, *self.ints, "bool"]))
        y = self.partner(x)
        try:
            if math.prod(np.broadcast_shapes(*(self.values[v].shape for v in (condition, x, y)))) <= 20000:
                self.add("where", [condition, x, y])
        except ValueError:
            pass

    def cast(self):
        x = self.anything()
        value = self.values[x]
        if value.dtype != "bool" and self.chance(0.4) and (value.raw is not None or value.dtype in INTEGERS):
            same = [d for d in [*FLOATS, *INTEGERS] if numpy_type(d).itemsize == numpy_type(value.dtype).itemsize]
            self.add("bitcast", [x], {"dtype": Dtype(self.pick(same))})
        else:
            self.add("cast", [x], {"dtype": Dtype(self.pick([*self.floats, *self.ints, self.pick(ALL)]))})

    def quantised(self):
        axis = 0
        if self.chance(0.5):
            x = self.a_float(least=1)
            value = self.values[x]
            parameters = [value.shape[0]] if self.chance(0.4) else []
            scale = self.given(value.dtype, parameters, np.ldexp(1.0, self.numbers.integers(-3, 3, parameters)))
            zero = (
                [
                    self.given(
                        self.pick(["u8", "i8", "i16", "u16", "i32"]),
                        parameters,
                        self.numbers.integers(0, 100, parameters),
                    )
                ]
                if self.chance(0.7)
                else []
            )
            attrs = {} if zero else {"dtype": Dtype(self.pick(["u8", "i8", "i16"]))}
            self.add("quantize_linear", [x, scale, *zero], {"axis": axis} | attrs)
        else:
            x = self.found(
                lambda v: v.dtype in INTEGERS and len(v.shape) > 0,
                lambda: (self.pick(self.ints), self.shape(self.random.randint(1, 3))),
            )
            value = self.values[x]
            parameters = [value.shape[0]] if self.chance(0.4) else []
            scale = self.given(
                self.pick(["f32", "f32", "f16", "bf16", "f64"]),
                parameters,
                np.ldexp(1.0, self.numbers.integers(-3, 3, parameters)),
            )
            zero = [self.given(value.dtype, parameters)] if self.chance(0.6) else []
            self.add("dequantize_linear", [x, scale, *zero], {"axis": axis})

    def constant(self):
        op = self.pick(["iota", "full", "trilu"])
        dtype = self.pick([*self.floats, *self.ints])
        shape = self.shape(self.random.randint(1, 3))
        if op == "iota":
            self.add(op, [], {"dtype": Dtype(dtype), "shape": shape, "axis": self.random.randrange(len(shape))})
        elif op == "full":
            self.add(op, [], {"dtype": Dtype(dtype), "shape": shape, "value": self.pick([0.0, 1.0, 3.0, 7.0])})
        else:
            x = self.anything(2)
            self.add(op, [x], {"k": self.random.randint(-2, 2)} | ({"upper": False} if self.chance(0.5) else {}))
