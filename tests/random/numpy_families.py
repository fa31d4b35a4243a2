# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The families of ops that random graphs are made of: each draws an op, operands that it takes, and attributes."""

import math

import numpy as np
from numpy_sources import ALL, Sources
from numpy_graph import Dtype
from numpy_values import FLOATS, INTEGERS, numpy_type

UNARY = (
    "exp exp2 expm1 log log2 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf floor ceil "
    "round trunc"
).split()
ACTIVATIONS = (
    "gelu silu mish sigmoid softplus softsign elu celu selu leaky_relu hardsigmoid hardswish thresholded_relu shrink"
).split()
COMPARISONS = "eq ne lt le gt ge".split()


class Generator(Sources):
    def step(self):
        """One more node, of a family drawn at random. Shapes that do not fit are drawn again."""
        families = [
            (self.binary, 10),
            (self.unary, 6),
            (self.activation, 4),
            (self.comparison, 3),
            (self.logic, 3),
            (self.bits, 3),
            (self.select, 3),
            (self.cast, 5),
            (self.view, 12),
            (self.join, 4),
            (self.pad, 3),
            (self.reduction, 8),
            (self.arg, 2),
            (self.running, 2),
            (self.order, 2),
            (self.gathered, 5),
            (self.scattered, 5),
            (self.product, 6),
            (self.window, 3),
            (self.convolution, 3),
            (self.transposed_convolution, 2),
            (self.norm, 5),
            (self.quantised, 3),
            (self.constant, 1),
            (self.sequence, 1),
        ]
        family = self.random.choices([f for f, _ in families], [w for _, w in families])[0]
        family()

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

    def view(self):
        op = self.pick(
            ["slice", "slice", "transpose", "transpose", "reshape", "reshape", "expand", "tile", "split", "dropout"]
        )
        x = self.anything(1 if op in ("slice", "split") else 0)
        shape = list(self.values[x].shape)
        if op == "slice":
            self.add(op, [x], self.sliced(shape))
        elif op == "transpose":
            self.add(op, [x], {"perm": self.random.sample(range(len(shape)), len(shape))})
        elif op == "reshape":
            self.add(op, [x], {"shape": self.reshaped(shape)})
        elif op == "expand":
            target = [self.pick(self.sizes) if size == 1 and self.chance(0.7) else size for size in shape]
            target = [self.pick([1, 2, 3])] * self.chance(0.4) + target
            if math.prod(target) <= 20000:
                self.add(op, [x], {"shape": target})
        elif op == "tile":
            repeats = [self.pick([1, 1, 2, 3]) for _ in shape]
            if math.prod(shape) * math.prod(repeats) <= 20000:
                self.add(op, [x], {"repeats": repeats})
        elif op == "split":
            axis = self.random.randrange(len(shape))
            cuts = sorted(self.random.randint(0, shape[axis]) for _ in range(self.random.randint(0, 3)))
            sizes = [b - a for a, b in zip([0, *cuts], [*cuts, shape[axis]], strict=True)]
            self.add(op, [x], {"axis": axis, "sizes": sizes}, len(sizes))
        else:
            self.add(op, [x])

    def sliced(self, shape):
        starts, sizes, strides = [], [], []
        for dim in shape:
            stride = self.pick([1, 1, 1, 2, 3, -1, -1, -2])
            start = self.random.randrange(dim) if dim else 0
            if self.chance(0.5):
                start = 0 if stride > 0 else max(0, dim - 1)
            room = 0 if dim == 0 else ((dim - 1 - start) // stride if stride > 0 else start // -stride) + 1
            starts.append(start)
            sizes.append(
                room if self.chance(0.6) else self.random.randint(min(room, 1) if self.chance(0.95) else 0, room)
            )
            strides.append(stride)
        return {"starts": starts, "sizes": sizes, "strides": strides}

    def reshaped(self, shape):
        count = math.prod(shape)
        if count == 0:
            return self.random.sample(shape, len(shape))
        factors, left, d = [], count, 2
        while left > 1:
            if left % d == 0:
                factors.append(d)
                left //= d
            else:
                d += 1
        self.random.shuffle(factors)
        dims = []
        for factor in factors:
            if dims and self.chance(0.5):
                dims[-1] *= factor
            else:
                dims.append(factor)
        while self.chance(0.3) and len(dims) < 9:
            dims.insert(self.random.randint(0, len(dims)), 1)
        return dims

    def join(self):
        x = self.anything(1)
        value = self.values[x]
        axis = self.axis_of(x)
        others = []
        for _ in range(self.random.randint(0, 4)):
            fits = [
                n
                for n, v in self.values.items()
                if v.dtype == value.dtype
                and len(v.shape) == len(value.shape)
                and all(
                    a == b
                    for d, (a, b) in enumerate(zip(v.shape, value.shape, strict=True))
                    if d != axis % len(v.shape)
                )
            ]
            if self.chance(0.6):
                others.append(self.pick(fits))
            else:
                shape = list(value.shape)
                shape[axis] = self.pick([0, 1, 2, 5]) if self.chance(0.5) else shape[axis]
                others.append(self.given(value.dtype, shape))
        operands = [x, *others]
        self.random.shuffle(operands)
        if sum(self.values[n].v.size for n in operands) <= 20000:
            self.add("concat", operands, {"axis": axis})

    def pad(self):
        x = self.anything()
        shape = self.values[x].shape
        mode = self.pick(["constant", "constant", "reflect", "edge", "wrap"])
        if mode != "constant" and 0 in shape:
            return
        low = [self.random.randint(-1 if dim > 2 else 0, 3) if self.chance(0.6) else 0 for dim in shape]
        high = [self.random.randint(-1 if dim > 2 else 0, 3) if self.chance(0.6) else 0 for dim in shape]
        if math.prod(dim + a + b for dim, a, b in zip(shape, low, high, strict=True)) > 20000:
            return
        value = [self.given(self.values[x].dtype, [])] if mode == "constant" and self.chance(0.6) else []
        self.add("pad", [x, *value], {"low": low, "high": high} | ({"mode": mode} if mode != "constant" else {}))

    def reduction(self):
        op = self.pick("sum sum prod max min mean any all l1 l2 log_sum log_sum_exp sum_square".split())
        if op in ("any", "all"):
            x = self.a_bool()
        else:
            x = self.a_float() if op in ("l2", "log_sum", "log_sum_exp") or self.chance(0.7) else self.a_number()
        rank = len(self.values[x].shape)
        axes = self.random.sample(range(rank), self.random.randint(0 if self.chance(0.1) else min(1, rank), rank))
        axes = [axis - rank if self.chance(0.2) else axis for axis in axes]
        self.add(f"reduce_{op}", [x], {"axes": axes} | ({"keepdims": False} if self.chance(0.5) else {}))

    def arg(self):
        x = self.a_number(1)
        axis = self.axis_of(x)
        if self.values[x].shape[axis] > 0:
            flags = {name: value for name, value in (("keepdims", False), ("select_last", True)) if self.chance(0.5)}
            self.add(self.pick(["argmax", "argmin"]), [x], {"axis": axis} | flags)

    def running(self):
        x = self.a_number(1)
        self.add(
            "cumsum",
            [x],
            {"axis": self.axis_of(x)} | {name: True for name in ("exclusive", "reverse") if self.chance(0.4)},
        )

    def order(self):
        x = self.anything(1)
        axis = self.axis_of(x)
        if self.chance(0.5):
            self.add("sort", [x], {"axis": axis} | ({"descending": True} if self.chance(0.5) else {}), 2)
        else:
            k = self.random.randint(
                0 if self.chance(0.1) else min(1, self.values[x].shape[axis]), self.values[x].shape[axis]
            )
            self.add("topk", [x], {"k": k, "axis": axis} | ({"largest": False} if self.chance(0.5) else {}), 2)

    def indices(self, shape, dims, distinct=False):
        """Of dims[k] in the last dim of `shape` where there are several; in range, some from the end."""
        dtype = self.pick(["i64", "i64", "i32", "i16", "u32", "u8", "i8", "u64"])
        dims = np.array(dims)
        at = self.numbers.integers(0, dims, shape)
        if dtype[0] == "i":
            at = np.where(self.numbers.random(shape) < 0.3, at - dims, at)
        return self.given(dtype, shape, at)

    def gathered(self):
        op = self.pick(["gather", "gather", "gather_elements", "gather_nd", "one_hot"])
        if op == "one_hot":
            x = self.found(
                lambda v: v.dtype in INTEGERS and not v.unsure.any(),
                lambda: (self.pick(self.ints), self.shape(self.random.randint(0, 3)), None, "whole"),
            )
            depth = self.random.randint(1, 7)
            if self.values[x].v.size * depth <= 20000:
                values = self.given(self.pick([*self.floats, *self.ints, "bool"]), [2])
                self.add(op, [x, values], {"depth": depth, "axis": self.random.randint(-1, len(self.values[x].shape))})
            return
        x = self.anything(1)
        shape = self.values[x].shape
        if 0 in shape:
            return
        if op == "gather":
            axis = self.axis_of(x)
            indices = self.indices(self.shape(self.random.randint(0, 2), most=40), shape[axis])
            self.add(op, [x, indices], {"axis": axis})
        elif op == "gather_elements":
            axis = self.axis_of(x) % len(shape)
            taken = [
                self.random.randint(1, 5) if d == axis else self.random.randint(1, size) for d, size in enumerate(shape)
            ]
            self.add(op, [x, self.indices(taken, shape[axis])], {"axis": axis})
        else:
            batch = self.random.randint(0, len(shape) - 1)
            length = self.random.randint(1, len(shape) - batch)
            lead = [*shape[:batch], *([self.random.randint(1, 4)] if self.chance(0.7) else [])]
            self.add(op, [x, self.indices([*lead, length], shape[batch : batch + length])], {"batch_dims": batch})

    def scattered(self):
        x = self.anything(1)
        value = self.values[x]
        shape = value.shape
        if 0 in shape:
            return
        kinds = ["none", "none", "max", "min"] + (["add", "mul"] if value.dtype != "bool" else [])
        reduction = self.pick(kinds)
        attrs = {"reduction": reduction} if reduction != "none" else {}
        if self.chance(0.5):
            axis = self.axis_of(x) % len(shape)
            taken = [self.random.randint(1, size + 1 if d == axis else size) for d, size in enumerate(shape)]
            if math.prod(taken) <= 1000:
                updates = self.given(value.dtype, taken)
                self.add("scatter_elements", [x, self.indices(taken, shape[axis]), updates], {"axis": axis} | attrs)
        else:
            length = self.random.randint(1, len(shape))
            lead = [self.random.randint(1, 4) for _ in range(self.random.randint(0, 2))]
            if math.prod(lead) * math.prod(shape[length:]) <= 1000:
                updates = self.given(value.dtype, [*lead, *shape[length:]])
                self.add("scatter_nd", [x, self.indices([*lead, length], shape[:length]), updates], attrs)

    def product(self):
        op = self.pick(["matmul", "matmul", "gemm", "einsum", "matmul_integer"])
        dtype = self.pick([*self.floats, *self.floats, self.pick([*self.ints])])
        m, k, n = (self.pick(self.sizes) for _ in range(3))
        if op == "matmul":
            a = self.found(
                lambda v: v.dtype == dtype and len(v.shape) >= 1,
                lambda: (dtype, [*self.shape(self.random.randint(0, 2), 20), m, k]),
            )
            shape = self.values[a].shape
            batch = [size if self.chance(0.6) else 1 for size in shape[:-2]]
            if math.prod(shape) * n <= 300000:
                self.add(op, [a, self.given(dtype, [shape[-1]] if self.chance(0.15) else [*batch, shape[-1], n])])
        elif op == "gemm":
            attrs = {name: True for name in ("trans_a", "trans_b") if self.chance(0.5)}
            if dtype in FLOATS:
                attrs |= {name: self.pick([0.0, 0.5, -1.0, 2.0, 1.3]) for name in ("alpha", "beta") if self.chance(0.4)}
            a = self.given(dtype, [k, m] if attrs.get("trans_a") else [m, k])
            b = self.given(dtype, [n, k] if attrs.get("trans_b") else [k, n])
            c = [self.given(dtype, self.pick([[n], [m, n], [1, n], [m, 1], []]))] if self.chance(0.6) else []
            self.add(op, [a, b, *c], attrs)
        elif op == "einsum":
            equation = self.pick(
                [
                    "bij,bjk->bik",
                    "ij,kj->ik",
                    "i,j->ij",
                    "ijk,ijk->i",
                    "ij->ji",
                    "bhqd,bhkd->bhqk",
                    "ij,jk,kl->il",
                    "ii->i",
                    "ij->",
                ]
            )
            sizes = {
                label: self.pick([size for size in self.sizes if size <= 17] or [2])
                for label in "abcdefghijklmnopqrstuvwxyz"
            }
            self.add(
                op,
                [self.given(dtype, [sizes[label] for label in term]) for term in equation.split("->")[0].split(",")],
                {"equation": equation},
            )
        else:
            kinds = self.random.choices(["u8", "i8"], k=2)
            a, b = self.given(kinds[0], [m, k], profile="special"), self.given(kinds[1], [k, n], profile="special")
            zeros = []
            if self.chance(0.6):
                zeros.append(self.given(kinds[0], [m] if self.chance(0.4) else [], profile="special"))
                if self.chance(0.6):
                    zeros.append(self.given(kinds[1], [n] if self.chance(0.4) else [], profile="special"))
            self.add(op, [a, b, *zeros])

    def windowed(self, rank, dims):
        """Attributes of windows that fit dims, each of them with an element of the operand."""
        kernel = [self.random.randint(1, min(3, dim)) for dim in dims]
        attrs = {"kernel": kernel}
        if self.chance(0.5):
            attrs["strides"] = [self.random.randint(1, 3) for _ in dims]
        if self.chance(0.5):
            attrs["pads_low"] = [self.random.randint(0, k - 1) for k in kernel]
            attrs["pads_high"] = [self.random.randint(0, k - 1) for k in kernel]
        if self.chance(0.3):
            attrs["dilations"] = [
                self.random.randint(1, 2) if k > 1 and 2 * (k - 1) + 1 <= dim else 1
                for k, dim in zip(kernel, dims, strict=True)
            ]
            if "pads_low" in attrs:
                del attrs["pads_low"], attrs["pads_high"]
        return attrs

    def spatial(self, dtype=None):
        return self.found(
            lambda v: v.is_float and 3 <= len(v.shape) <= 5 and 0 not in v.shape and dtype in (None, v.dtype),
            lambda: (
                dtype or self.pick(self.floats),
                [max(1, size) for size in self.shape(self.random.randint(3, 5), 2000)],
            ),
        )

    def window(self):
        op = self.pick(["max_pool", "avg_pool", "lp_pool"])
        x = self.spatial()
        attrs = self.windowed(len(self.values[x].shape) - 2, self.values[x].shape[2:])
        if op == "avg_pool" and self.chance(0.5):
            attrs["count_include_pad"] = True
        if op == "lp_pool":
            attrs["p"] = self.random.randint(1, 2)
        self.add(op, [x], attrs)

    def convolution(self):
        x = self.spatial()
        value = self.values[x]
        if 0 in value.shape:
            return
        attrs = self.windowed(len(value.shape) - 2, value.shape[2:])
        kernel = attrs.pop("kernel")
        groups = self.pick([g for g in (1, 1, 2, 3, value.shape[1]) if value.shape[1] % g == 0])
        out = groups * self.random.randint(1, 5)
        if groups > 1:
            attrs["groups"] = groups
        if value.v.size * out * math.prod(kernel) > 300000:
            return
        w = self.given(value.dtype, [out, value.shape[1] // groups, *kernel])
        self.add("conv", [x, w, *([self.given(value.dtype, [out])] if self.chance(0.5) else [])], attrs)

    def transposed_convolution(self):
        x = self.spatial()
        value = self.values[x]
        groups = self.pick([g for g in (1, 1, 2, value.shape[1]) if value.shape[1] % g == 0])
        rank = len(value.shape) - 2
        kernel = [self.random.randint(1, 3) for _ in range(rank)]
        strides = [self.random.randint(1, 3) for _ in range(rank)]
        attrs = {"strides": strides, "groups": groups}
        if self.chance(0.5):
            attrs["pads_low"] = [self.random.randint(0, k - 1) for k in kernel]
            attrs["pads_high"] = [self.random.randint(0, k - 1) for k in kernel]
        if self.chance(0.4):
            attrs["output_padding"] = [self.random.randint(0, step - 1) for step in strides]
        out = self.random.randint(1, 4)
        size = value.v.size * out * math.prod(kernel) * math.prod(strides)
        low, high = attrs.get("pads_low", [0] * rank), attrs.get("pads_high", [0] * rank)
        results = [
            (dim - 1) * s + k - a - b
            for dim, s, k, a, b in zip(value.shape[2:], strides, kernel, low, high, strict=True)
        ]
        if size > 100000 or min(results) < 1:
            return
        w = self.given(value.dtype, [value.shape[1], out, *kernel])
        bias = [self.given(value.dtype, [groups * out])] if self.chance(0.5) else []
        self.add("conv_transpose", [x, w, *bias], attrs)

    def norm(self):
        op = self.pick(
            "softmax log_softmax layer_norm rms_norm batch_norm instance_norm group_norm lp_norm mean_variance_norm lrn".split()
        )
        least = {
            "softmax": 1,
            "log_softmax": 1,
            "layer_norm": 1,
            "rms_norm": 1,
            "lp_norm": 1,
            "mean_variance_norm": 1,
        }.get(op, 2)
        x = self.a_float(least=3 if op == "instance_norm" else least)
        value = self.values[x]
        if 0 in value.shape:
            return
        c = value.shape[1] if len(value.shape) > 1 else 0
        vector = lambda profile=None: self.given(value.dtype, [c], profile=profile)  # noqa: E731
        if op in ("softmax", "log_softmax"):
            self.add(op, [x], {"axis": self.axis_of(x)})
        elif op in ("layer_norm", "rms_norm"):
            axis = self.axis_of(x)
            inner = value.shape[axis % len(value.shape) :]
            more = [
                self.given(value.dtype, inner) for _ in range(self.random.randint(0, 2 if op == "layer_norm" else 1))
            ]
            self.add(op, [x, *more], {"axis": axis, "epsilon": self.pick([1e-5, 1e-3, 0.5])})
        elif op == "batch_norm":
            variance = np.abs(self.elements(value.dtype, [c], "normal").astype(np.float64)) + 0.25
            self.add(
                op, [x, vector(), vector(), vector("normal"), self.given(value.dtype, [c], variance)], {"epsilon": 1e-3}
            )
        elif op == "instance_norm":
            self.add(op, [x, vector(), vector()], {"epsilon": 1e-3})
        elif op == "group_norm":
            more = [vector() for _ in range(self.random.randint(0, 2))]
            self.add(op, [x, *more], {"groups": self.pick([g for g in (1, 2, 3, c) if c % g == 0]), "epsilon": 1e-3})
        elif op == "lp_norm":
            self.add(op, [x], {"axis": self.axis_of(x), "p": self.random.randint(1, 2)})
        elif op == "mean_variance_norm":
            rank = len(value.shape)
            self.add(op, [x], {"axes": self.random.sample(range(rank), self.random.randint(1, rank))})
        else:
            self.add(
                op,
                [x],
                {
                    "size": self.random.randint(1, 5),
                    "alpha": self.pick([1e-4, 0.5]),
                    "beta": self.pick([0.75, 0.5]),
                    "bias": 1.0,
                },
            )

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

    def sequence(self):
        x = self.anything(2)
        shape = self.values[x].shape
        batch, time = self.random.sample(range(len(shape)), 2)
        lengths = self.numbers.integers(0, shape[time] + 1, [shape[batch]])
        self.add(
            "reverse_sequence",
            [x, self.given("i64", [shape[batch]], lengths)],
            {"batch_axis": batch, "time_axis": time},
        )

    def make(self):
        self.given(self.pick([*self.floats, *self.ints]), self.shape())
        wanted = self.random.randint(1, 14)
        while len(self.graph.nodes) < wanted:
            self.step()
        graph = self.graph
        used = {name for node in graph.nodes for name in node.operands}
        made = [name for node in graph.nodes for name in node.results]
        graph.outputs = [name for name in made if name not in used or self.chance(0.2)] or made[-1:]
        used |= set(graph.outputs)
        for s in graph.sources:
            same = [n for n in made if self.values[n].dtype == s.dtype and self.values[n].shape == s.raw.shape]
            if s.kind == "input" and same and self.chance(0.4):
                s.mutated_by = self.pick(same)
        graph.sources = [s for s in graph.sources if s.name in used or s.mutated_by]
        return graph, self.values


def generate(seed):
    return Generator(seed).make()
