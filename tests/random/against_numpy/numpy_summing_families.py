# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Families of ops of many elements each: reductions, products, windows, norms."""

import math

import numpy as np
from numpy_sources import Sources
from numpy_values import FLOATS


class SummingFamilies(Sources):
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
        op = self.pick(["max_pool", "max_pool_with_indices", "avg_pool", "lp_pool"])
        x = self.spatial()
        attrs = self.windowed(len(self.values[x].shape) - 2, self.values[x].shape[2:])
        if op == "avg_pool" and self.chance(0.5):
            attrs["count_include_pad"] = True
        if op == "lp_pool":
            attrs["p"] = self.random.randint(1, 2)
        self.add(op, [x], attrs, 2 if op == "max_pool_with_indices" else 1)

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

    def weight_gradient(self):
        x = self.spatial()
        value = self.values[x]
        if 0 in value.shape:
            return
        attrs = self.windowed(len(value.shape) - 2, value.shape[2:])
        kernel, rank = attrs["kernel"], len(value.shape) - 2
        low, high = attrs.get("pads_low") or [0] * rank, attrs.pop("pads_high", [0] * rank)
        places = [
            (dim + a + b - ((k - 1) * d + 1)) // s + 1
            for dim, a, b, k, d, s in zip(
                value.shape[2:], low, high, kernel, attrs.get("dilations") or [1] * rank, attrs.get("strides") or [1] * rank, strict=True
            )
        ]
        groups = self.pick([g for g in (1, 1, 2, value.shape[1]) if value.shape[1] % g == 0])
        out = groups * self.random.randint(1, 5)
        if groups > 1:
            attrs["groups"] = groups
        if value.v.size * out * math.prod(kernel) > 300000:
            return
        self.add("conv_weight_gradient", [x, self.given(value.dtype, [value.shape[0], out, *places])], attrs)

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
