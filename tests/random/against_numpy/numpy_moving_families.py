# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Families of ops that move elements: views, parts, indices."""

import math

import numpy as np
from numpy_sources import Sources
from numpy_values import INTEGERS


class MovingFamilies(Sources):
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
