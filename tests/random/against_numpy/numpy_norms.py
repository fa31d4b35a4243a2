# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What normalisations mean, in numpy: softmax, and what subtracts a mean or divides by a deviation or a norm."""

import math

import numpy as np
from numpy_pointwise import OPS, op
from numpy_sums import as_wide, flat_windows, narrowed, of_axes, reduced, squared_within
from numpy_values import FLOATS, Value, computed, moved, read, unit_of_arithmetic

# ---- norms


@op("softmax", "log_softmax")
def softmax(attrs, x, log=False):
    wide = as_wide(x)
    axis = attrs.get("axis", -1)
    unit = unit_of_arithmetic(x.dtype)
    with np.errstate(all="ignore"):
        top = wide.v.max(axis, keepdims=True, initial=-np.inf)
        shifted = wide.v - top
        powers = np.exp(shifted)
        total = powers.sum(axis, keepdims=True)
        # An infinity above makes a NaN of its own row; what becomes of its neighbours is not said.
        unsure = wide.unsure.any(axis, keepdims=True) | np.isposinf(top)
        error = 2 * wide.e.max(axis, keepdims=True, initial=0) + unit * (16 + wide.shape[axis])
        spread = np.where(np.isfinite(shifted), np.abs(shifted), 0)
        if log:
            v = shifted - np.log(total)
            e = error + 2 * unit * spread
        else:
            v = powers / total
            e = np.abs(v) * np.expm1(error + 2 * unit * (spread + spread.max(axis, keepdims=True, initial=0)))
    return [narrowed(computed(wide.dtype, v, e, unsure | wide.unsure, ulps=4, exact=False), x.dtype)]


OPS["log_softmax"] = lambda attrs, x: softmax(attrs, x, True)


@op("reduce_log_sum_exp")
def reduce_log_sum_exp(attrs, x):
    wide = as_wide(x)
    rows, shape, count = of_axes(attrs, wide)
    unit = unit_of_arithmetic(x.dtype)
    with np.errstate(all="ignore"):
        top = rows.v.max(-1, initial=-np.inf)
        shift = np.where(np.isinf(top), 0, top)
        spread = np.where(np.isfinite(rows.v), np.abs(rows.v - shift[..., None]), 0).max(-1, initial=0)
        v = np.log(np.exp(rows.v - shift[..., None]).sum(-1)) + shift
        # Where the largest is 0 away from the sum's logarithm, the sum is what its errors are measured by.
        e = rows.e.max(-1, initial=0) + unit * (
            16 + count + np.where(np.isfinite(top), np.abs(top), 0) + 2 * np.minimum(spread, 200)
        )
    result = computed(
        wide.dtype, v.reshape(shape), e.reshape(shape), rows.unsure.any(-1).reshape(shape), ulps=4, exact=False
    )
    return [narrowed(result, x.dtype)]


def standardised(x, axes, divisor_of, centre=True):
    """(x - mean) / divisor_of(variance), with first-order errors; what they are too large for is unsure."""
    unit = unit_of_arithmetic(x.dtype)
    count = math.prod(x.shape[axis] for axis in axes)
    axes = tuple(axes)
    with np.errstate(all="ignore"):
        mean = x.v.mean(axes, keepdims=True) if centre else np.zeros_like(x.v.sum(axes, keepdims=True))
        mean_e = (
            (x.e.sum(axes, keepdims=True) + (count + 2) * unit * np.abs(x.v).sum(axes, keepdims=True))
            / max(count, 1)
            * centre
        )
        c = x.v - mean
        c_e = x.e + mean_e + unit * np.abs(c) * centre
        variance = (c * c).mean(axes, keepdims=True)
        variance_e = (2 * np.abs(c) * c_e + c_e * c_e).mean(axes, keepdims=True) + (count + 4) * unit * variance
        divisor, slope = divisor_of(variance)
        relative = slope * variance_e / np.abs(divisor) + 6 * unit
        v = c / divisor
        e = (c_e + np.abs(c) * relative) / np.abs(divisor) * (1 + 2 * relative)
        size = FLOATS["f64" if x.dtype == "f64" else "f32"].most
        unsure = x.unsure.any(axes, keepdims=True) | ~(relative < 0.25) | ~((x.v * x.v).sum(axes, keepdims=True) < size)
        unsure |= ~np.isfinite(x.v).all(axes, keepdims=True)
    return computed(x.dtype, v, e, np.broadcast_to(unsure, v.shape), ulps=4, exact=False)


def by_root(epsilon):
    def of(variance):
        root = np.sqrt(variance + epsilon)
        return root, 0.5 / root

    return of


def affine(x, scale, bias):
    if scale is not None:
        x = OPS["mul"]({}, x, Value(x.dtype, scale.v, scale.e, scale.unsure))[0]
    return x if bias is None else OPS["add"]({}, x, Value(x.dtype, bias.v, bias.e, bias.unsure))[0]


def per_channel(y, rank):
    return None if y is None else moved(read(y), lambda a: a.reshape(-1, *([1] * (rank - 2))))


@op("layer_norm")
def layer_norm(attrs, x, scale=None, bias=None, centre=True):
    wide = as_wide(x)
    axes = range(attrs.get("axis", -1) % len(x.shape), len(x.shape))
    result = standardised(wide, axes, by_root(attrs.get("epsilon", 1e-5)), centre)
    return [
        narrowed(affine(result, None if scale is None else read(scale), None if bias is None else read(bias)), x.dtype)
    ]


OPS["rms_norm"] = lambda attrs, x, scale=None: layer_norm(attrs, x, scale, None, False)


@op("instance_norm")
def instance_norm(attrs, x, scale, bias):
    wide, rank = as_wide(x), len(x.shape)
    result = standardised(wide, range(2, rank), by_root(attrs.get("epsilon", 1e-5)))
    return [narrowed(affine(result, per_channel(scale, rank), per_channel(bias, rank)), x.dtype)]


@op("group_norm")
def group_norm(attrs, x, scale=None, bias=None):
    wide, rank = as_wide(x), len(x.shape)
    grouped = moved(wide, lambda a: a.reshape(x.shape[0], attrs["groups"], math.prod(x.shape[1:]) // attrs["groups"]))
    result = moved(standardised(grouped, [2], by_root(attrs.get("epsilon", 1e-5))), lambda a: a.reshape(x.shape))
    return [narrowed(affine(result, per_channel(scale, rank), per_channel(bias, rank)), x.dtype)]


@op("batch_norm")
def batch_norm(attrs, x, *statistics):
    wide, rank = as_wide(x), len(x.shape)
    scale, bias, mean, variance = (
        Value(wide.dtype, c.v, c.e, c.unsure) for c in (per_channel(y, rank) for y in statistics)
    )
    unit = unit_of_arithmetic(x.dtype)
    epsilon = Value(wide.dtype, attrs.get("epsilon", 1e-5), attrs.get("epsilon", 1e-5) * unit)
    factor = OPS["div"]({}, scale, OPS["sqrt"]({}, OPS["add"]({}, variance, epsilon)[0])[0])[0]
    shift = OPS["sub"]({}, bias, OPS["mul"]({}, mean, factor)[0])[0]
    return [narrowed(affine(wide, factor, shift), x.dtype)]


@op("lp_norm")
def lp_norm(attrs, x):
    wide = as_wide(x)
    over = {"axes": [attrs.get("axis", -1)], "keepdims": True}
    norm = OPS["reduce_l1" if attrs.get("p", 2) == 1 else "reduce_l2"](over, wide)[0]
    result = OPS["div"]({}, wide, norm)[0]
    zero = (norm.v == 0) & (norm.e == 0)  # a row of zeros stays one
    result = Value(
        result.dtype,
        np.where(zero, 0, result.v),
        np.where(zero, 0, result.e),
        # Whether the norm is 0 may hang on how its elements were rounded.
        np.where(zero, wide.unsure, result.unsure | (np.abs(norm.v) <= norm.e)),
    )
    return [narrowed(result, x.dtype)]


@op("mean_variance_norm")
def mean_variance_norm(attrs, x):
    axes = [axis % len(x.shape) for axis in attrs.get("axes", [0, 2, 3])]

    def deviation(variance):
        root = np.sqrt(variance)
        return root + 1e-9, 0.5 / root

    return [narrowed(standardised(as_wide(x), axes, deviation), x.dtype)]


@op("lrn")
def lrn(attrs, x):
    wide = as_wide(x)
    size = attrs["size"]
    low = (size - 1) // 2
    # A window over the channels is one over a spatial dim of size 1.
    turned = moved(wide, lambda a: np.moveaxis(a, 1, -1).reshape(a.shape[0], -1, a.shape[1]))
    taken, _, _ = flat_windows({"kernel": [size], "pads_low": [low], "pads_high": [size - 1 - low]}, turned, 0)
    total = reduced({"axis": 3, "keepdims": False}, squared_within(taken), "sum")
    total = moved(total, lambda a: np.moveaxis(a.reshape(x.shape[0], *x.shape[2:], x.shape[1]), -1, 1))
    unit = unit_of_arithmetic(x.dtype)

    def number(value):
        return Value(wide.dtype, value, abs(value) * unit)

    base = OPS["add"](
        {}, OPS["mul"]({}, total, number(attrs.get("alpha", 1e-4) / size))[0], number(attrs.get("bias", 1.0))
    )[0]
    return [narrowed(OPS["div"]({}, wide, OPS["pow"]({}, base, number(attrs.get("beta", 0.75)))[0])[0], x.dtype)]
