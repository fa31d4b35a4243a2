# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What random graphs start from: sources of chosen shapes and contents, and values that an op takes."""

import math
import random

import numpy as np
from numpy_graph import Graph, Node, Source, apply
from numpy_values import FLOATS, INTEGERS, contiguous, numpy_type, source

ALL = [*FLOATS, *INTEGERS, "bool"]
LITERAL_BYTES = 1024


class Sources:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = np.random.default_rng(seed)
        self.graph, self.values = Graph(), {}
        # A graph has a few sizes, so that its tensors meet, and a few dtypes.
        self.sizes = self.random.choices([1, 2, 3, 4, 5, 7, 8, 11, 13, 16, 17, 31, 33, 64], k=3) + [1]
        if self.chance(0.06):
            self.sizes.append(0)
        self.floats = self.random.choices([*FLOATS], [3, 10, 4, 4, 1, 1, 1, 1], k=2)
        self.ints = self.random.choices([*INTEGERS], k=2)
        self.profile = self.random.choice(["whole", "normal", "normal", "special", "wide", "eighths"])

    def chance(self, p):
        return self.random.random() < p

    def pick(self, items):
        return self.random.choice(list(items))

    # ---- sources

    def shape(self, rank=None, most=3000):
        if rank is None:
            rank = self.random.choices([0, 1, 2, 3, 4, 5, 7, 9], [1, 4, 7, 6, 4, 2, 1, 1])[0]
        while True:
            shape = [self.pick(self.sizes) for _ in range(rank)]
            if rank > 5:
                shape = [min(size, 2) for size in shape]
            if math.prod(shape) <= most:
                return shape
            most *= 1.2

    def elements(self, dtype, shape, profile=None):
        profile = profile or (
            self.profile if self.chance(0.7) else self.pick(["whole", "normal", "special", "eighths"])
        )
        kind = numpy_type(dtype)
        if dtype == "bool":
            return self.numbers.integers(0, 2, shape).astype(bool)
        if dtype in INTEGERS:
            info = np.iinfo(kind)
            if profile in ("whole", "eighths"):
                return self.numbers.integers(max(info.min, -5), 6, shape).astype(kind)
            full = np.frombuffer(self.numbers.bytes(math.prod(shape) * kind.itemsize), kind).reshape(shape)
            edges = np.array([info.min, info.max, 0, 1, max(-1, info.min)], kind)
            return np.where(self.numbers.random(shape) < 0.3, self.numbers.choice(edges, shape), full)
        if profile == "whole":
            x = self.numbers.integers(-4, 5, shape).astype(np.float64)
        elif profile == "eighths":
            x = self.numbers.integers(-16, 17, shape) / 8
        elif profile == "wide":
            top = {"f16": 12, "f8e4m3": 6, "f8e5m2": 12, "f8e4m3fnuz": 5, "f8e5m2fnuz": 12}.get(dtype, 30)
            x = self.numbers.standard_normal(shape) * 2.0 ** self.numbers.uniform(-top, top, shape)
        else:
            x = self.numbers.standard_normal(shape)
        with np.errstate(all="ignore"):
            x = np.asarray(x).astype(kind)
        if profile != "special":
            return x
        bits = kind.itemsize * 8
        patterns = np.frombuffer(self.numbers.bytes(math.prod(shape) * kind.itemsize), f"u{kind.itemsize}").reshape(
            shape
        )
        float_kind = FLOATS[dtype]
        with np.errstate(all="ignore"):
            edges = np.array(
                [
                    0.0,
                    -0.0,
                    np.nan,
                    np.inf,
                    -np.inf,
                    1,
                    -1,
                    float(float_kind.tiny),
                    -float(float_kind.tiny),
                    float(float_kind.most) if dtype != "f64" else np.finfo(np.float64).max,
                    2.0,
                ]
            ).astype(kind)
        x = np.where(
            self.numbers.random(shape) < 0.25,
            self.numbers.choice(edges.view(f"u{kind.itemsize}"), shape),
            x.view(f"u{kind.itemsize}"),
        )
        # Any bits, NaN of all payloads among them.
        x = np.where(self.numbers.random(shape) < 0.1, patterns, x)
        return contiguous(x.astype(f"u{bits // 8}")).view(kind).reshape(shape)

    def given(self, dtype, shape, raw=None, profile=None, fixed=False):
        """A new source; `fixed`: its contents are what an op's meaning hangs on."""
        raw = (
            contiguous(self.elements(dtype, shape, profile) if raw is None else raw)
            .astype(numpy_type(dtype))
            .reshape(shape)
        )
        name = f"s{len(self.graph.sources)}"
        kind = "input"
        if self.chance(0.3):
            kind = "literal" if raw.nbytes <= LITERAL_BYTES and self.chance(0.6) else "weight" if raw.size else "input"
        self.graph.sources.append(Source(name, dtype, raw, kind))
        self.values[name] = source(dtype, raw)
        return name

    # ---- nodes

    def add(self, op, operands, attrs=None, results=1):
        """Nothing where the op does not take these operands."""
        first = len(self.values)
        node = Node(op, list(operands), [f"v{first + k}" for k in range(results)], attrs or {})
        apply(node, self.values)
        for name in node.results:
            if self.values[name].v.size > 40000:
                for result in node.results:
                    del self.values[result]
                return None
        self.graph.nodes.append(node)
        return node.results

    def found(self, accepts, make):
        """The name of a value that there is, rather a late one, or of a new source."""
        names = [name for name, value in self.values.items() if accepts(value)]
        if names and self.chance(0.85):
            return names[-1] if self.chance(0.4) else self.pick(names)
        return self.given(*make())

    def a_float(self, rank=None, least=0, dtype=None):
        return self.found(
            lambda v: (
                v.is_float
                and (rank is None or len(v.shape) == rank)
                and len(v.shape) >= least
                and dtype in (None, v.dtype)
            ),
            lambda: (
                dtype or self.pick(self.floats),
                self.shape(max(least, self.random.randint(0, 4)) if rank is None else rank),
            ),
        )

    def an_integer(self, rank=None):
        return self.found(
            lambda v: v.dtype in INTEGERS and rank in (None, len(v.shape)),
            lambda: (self.pick(self.ints), self.shape(rank)),
        )

    def a_bool(self):
        return self.found(lambda v: v.dtype == "bool", lambda: ("bool", self.shape()))

    def anything(self, least=0):
        return self.found(
            lambda v: len(v.shape) >= least,
            lambda: (self.pick([*self.floats, *self.ints, "bool"]), self.shape(self.random.randint(least, 4))),
        )

    def a_number(self, least=0):
        return self.found(
            lambda v: v.dtype != "bool" and len(v.shape) >= least,
            lambda: (self.pick([*self.floats, *self.ints]), self.shape(self.random.randint(least, 4))),
        )

    def partner(self, x, to_x=False, profile=None, dtype=None):
        """A value that broadcasts with x; `to_x`: without growing it."""
        value = self.values[x]
        dtype = dtype or value.dtype

        def fits(v):
            if v.dtype != dtype:
                return False
            try:
                shape = np.broadcast_shapes(v.shape, value.shape)
            except ValueError:
                return False
            return (shape == value.shape or not to_x) and math.prod(shape) <= 20000

        names = [name for name, v in self.values.items() if fits(v)]
        if names and profile is None and self.chance(0.6):
            return self.pick(names)
        shape = [1 if self.chance(0.3) else size for size in value.shape]
        while shape and self.chance(0.3):
            shape.pop(0)
        return self.given(dtype, shape, profile=profile)

    def axis_of(self, x):
        rank = len(self.values[x].shape)
        axis = self.random.randrange(rank)
        return axis - rank if self.chance(0.3) else axis
