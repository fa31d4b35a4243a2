# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tensors with what is known of their elements: values, error bounds, and which elements nothing is known of.

A float is held in more precision than its dtype has (f64 in the 80 bits of x86's long double, all others in f64), with a bound
of the error that any order of roundings which docs/numerics.md allows may make. An element is `unsure` where rounding decides
which way a jump goes (a comparison of two values that are apart by less than their errors, an overflow that may happen or not,
the sign of a zero): nothing is expected of it, nor of what depends on it.
"""

import ml_dtypes
import numpy as np


class Float:
    def __init__(self, numpy_type, relative):
        self.numpy_type, self.relative = np.dtype(numpy_type), relative  # the tolerance that docs/numerics.md states
        info = ml_dtypes.finfo(numpy_type)
        self.wide = np.dtype(np.longdouble if numpy_type is np.float64 else np.float64)
        self.unit = 2.0 ** -(info.nmant + 1)  # half of a unit in the last place of 1
        self.most = self.wide.type(info.max)
        self.tiny = self.wide.type(info.smallest_subnormal)
        self.is_storage = self.numpy_type.itemsize < 4
        with np.errstate(all="ignore"):
            self.has_infinity = bool(np.isinf(np.array(np.inf).astype(numpy_type)))


# The rows "random graphs" of docs/numerics.md.
FLOATS = {
    "f64": Float(np.float64, 1e-9),
    "f32": Float(np.float32, 1e-5),
    "f16": Float(np.float16, 4e-3),
    "bf16": Float(ml_dtypes.bfloat16, 3e-2),
    "f8e4m3": Float(ml_dtypes.float8_e4m3fn, 2.0**-3),
    "f8e5m2": Float(ml_dtypes.float8_e5m2, 2.0**-2),
    "f8e4m3fnuz": Float(ml_dtypes.float8_e4m3fnuz, 2.0**-3),
    "f8e5m2fnuz": Float(ml_dtypes.float8_e5m2fnuz, 2.0**-2),
}
INTEGERS = {
    f"{letter}{bits}": np.dtype(f"{name}{bits}")
    for letter, name in (("i", "int"), ("u", "uint"))
    for bits in (8, 16, 32, 64)
}


def numpy_type(dtype):
    if dtype == "bool":
        return np.dtype(np.bool_)
    return FLOATS[dtype].numpy_type if dtype in FLOATS else INTEGERS[dtype]


def held_type(dtype):
    """Of the elements of a Value."""
    return FLOATS[dtype].wide if dtype in FLOATS else numpy_type(dtype)


def unit_of_arithmetic(dtype):
    """Half of a unit in the last place of 1 of what sums and products of this dtype are computed in."""
    return FLOATS["f64" if dtype == "f64" else "f32"].unit


class Value:
    """v: elements; e: error bounds of floats; unsure: elements of which nothing is known; raw: the bits, where nothing but moves made it."""

    def __init__(self, dtype, v, e=None, unsure=None, raw=None):
        self.dtype = dtype
        self.v = np.asarray(v, held_type(dtype))
        self.e = (
            np.zeros(self.v.shape, self.v.dtype)
            if e is None
            else np.broadcast_to(np.asarray(e, self.v.dtype), self.v.shape)
        )
        self.unsure = np.zeros(self.v.shape, bool) if unsure is None else np.broadcast_to(unsure, self.v.shape)
        self.raw = raw

    @property
    def shape(self):
        return self.v.shape

    @property
    def is_float(self):
        return self.dtype in FLOATS

    def knows_signs_of_zeros(self):
        return self.raw is not None


def contiguous(a):
    """numpy's own makes a scalar a vector."""
    return np.array(a, order="C", copy=True)


def source(dtype, raw):
    raw = np.asarray(raw, numpy_type(dtype))
    with np.errstate(all="ignore"):
        return Value(dtype, raw.astype(held_type(dtype)), raw=raw)


def rounded(v, dtype):
    with np.errstate(all="ignore"):
        return v.astype(numpy_type(dtype)).astype(held_type(dtype))


def read(x):
    """An operand of arithmetic: a small float that overflowed is infinite or NaN if it was stored in between, and is not otherwise."""
    if not x.is_float or not FLOATS[x.dtype].is_storage or x.raw is not None:
        return x
    kind = FLOATS[x.dtype]
    with np.errstate(all="ignore"):
        over = np.isfinite(x.v) & (np.abs(x.v) + x.e > kind.most)
    if not kind.has_infinity:
        over |= np.isinf(x.v)
    return Value(x.dtype, x.v, x.e, x.unsure | over) if over.any() else x


def cleaned(x):
    """Nothing of what is unsure spreads but that it is unsure."""
    if x.unsure.any():
        x.v = np.where(x.unsure, np.ones((), x.v.dtype), x.v)
        x.e = np.where(x.unsure, np.zeros((), x.v.dtype), x.e)
    return x


def computed(dtype, v, e=0.0, unsure=False, ulps=1.0, exact=True):
    """The result of arithmetic. `exact`: it is rounded correctly, so that what the dtype holds has no error; `ulps`: of the result's last place."""
    if dtype not in FLOATS:
        return cleaned(Value(dtype, v, None, np.broadcast_to(unsure, np.shape(v))))
    kind = FLOATS[dtype]
    with np.errstate(all="ignore"):
        v = np.asarray(v, kind.wide)
        e = np.broadcast_to(np.asarray(e, kind.wide), v.shape)
        unsure = np.broadcast_to(unsure, v.shape)
        finite = np.isfinite(v)
        unsure = unsure | (finite & ~(e < np.inf))
        inexact = (e > 0) | ((rounded(v, dtype) != v) if exact else (v != 0))
        step = np.maximum(kind.unit * np.abs(v), kind.tiny)
        e = np.where(finite, np.where(inexact, e + ulps * step, e), 0)
        if not kind.is_storage:
            over = finite & (np.abs(v) - e > kind.most)
            unsure = unsure | (finite & ~over & (np.abs(v) + e > kind.most))
            v = np.where(over, np.copysign(kind.wide.type(np.inf), v), v)
            e = np.where(over, 0, e)
    return cleaned(Value(dtype, v, e, unsure))


def moved(x, move, *others):
    """`move` of arrays, of the elements of x and `others` and all that is known of them."""
    xs = (x, *others)
    raw = move(*(y.raw for y in xs)) if all(y.raw is not None for y in xs) else None
    return Value(x.dtype, move(*(y.v for y in xs)), move(*(y.e for y in xs)), move(*(y.unsure for y in xs)), raw)


def stored(x):
    """What a tensor of x's dtype holds: the numpy array that is nearest, or the bits themselves."""
    with np.errstate(all="ignore"):
        return x.raw if x.raw is not None else x.v.astype(numpy_type(x.dtype))


def wrong_elements(x, got):
    """Where `got`, a numpy array of x's dtype, is not what is known of x."""
    if got.shape != x.shape or got.dtype != numpy_type(x.dtype):
        raise ValueError(f"{got.dtype}{list(got.shape)} for {x.dtype}{list(x.shape)}")
    if x.raw is not None or not x.is_float:
        bits = np.dtype(f"u{got.dtype.itemsize}")
        same = contiguous(got).view(bits) == contiguous(stored(x)).view(bits)
        return ~same & ~x.unsure
    kind = FLOATS[x.dtype]
    with np.errstate(all="ignore"):
        g = got.astype(kind.wide)
        nearest = rounded(x.v, x.dtype)
        bound = x.e + kind.relative * np.abs(x.v) + kind.tiny
        right = (np.abs(g - x.v) <= bound) | (g == nearest) | (np.isnan(g) & np.isnan(nearest))
        # Beside the largest number either may be.
        edge = (
            np.isfinite(x.v)
            & (np.abs(x.v) + bound >= kind.most)
            & (np.abs(x.v) - bound <= kind.most * (1 + 2 * kind.unit))
        )
        right |= edge & (~np.isfinite(g) | (np.abs(g) >= kind.most * (1 - 4 * kind.relative)))
    return ~right & ~x.unsure
