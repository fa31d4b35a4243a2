# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops that combine elements mean, in numpy: reductions, products, windows, norms."""

import math

import numpy as np
from numpy_pointwise import OPS, op
from numpy_values import (
    FLOATS,
    Value,
    cleaned,
    computed,
    held_type,
    moved,
    numpy_type,
    read,
    source,
    unit_of_arithmetic,
)

# ---- reductions


def axes_of(attrs, x):
    axes = attrs["axes"] if "axes" in attrs else [attrs.get("axis", 0)]
    return tuple(axis % len(x.shape) for axis in axes)


def of_axes(attrs, x):
    """x with the axes that are reduced as its last dim, and the result's shape."""
    axes = axes_of(attrs, x)
    kept = [d for d in range(len(x.shape)) if d not in axes]
    count = math.prod(x.shape[d] for d in axes)
    rows = moved(x, lambda a: a.transpose([*kept, *axes]).reshape([x.shape[d] for d in kept] + [count]))
    if attrs.get("keepdims", True):
        return rows, [1 if d in axes else x.shape[d] for d in range(len(x.shape))], count
    return rows, [x.shape[d] for d in kept], count


def summed(dtype, v, e, unit, most):
    """Sums along the last axis in any order: (v, e, unsure)."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(v)
        size = np.where(finite, np.abs(v) + e, 0).sum(-1)
        total = v.sum(-1)
        whole = ((v == np.rint(v)) | ~finite).all(-1) & (size * unit < 0.5)
        error = np.where(finite, e, 0).sum(-1) + np.where(whole, 0, (v.shape[-1] + 1) * unit * size)
    return total, error, (size > most) & ~np.isnan(total)


def extreme_of_nothing(dtype, largest):
    if dtype == "bool":
        return largest
    if dtype not in FLOATS:
        info = np.iinfo(numpy_type(dtype))
        return info.max if largest else info.min
    kind = FLOATS[dtype]
    return (1 if largest else -1) * (kind.most if not kind.has_infinity else np.inf)


def reduced(attrs, x, what, each=False):
    """`each`: results of small floats are rounded after each element, not once."""
    x = read(x)
    rows, shape, count = of_axes(attrs, x)
    unsure = rows.unsure.any(-1)
    v, e = rows.v, rows.e
    if what in ("max", "min"):
        function = np.maximum if what == "max" else np.minimum
        if count == 0:
            v, e = (
                np.full(unsure.shape, extreme_of_nothing(x.dtype, what == "min"), held_type(x.dtype)),
                np.zeros(unsure.shape),
            )
        else:
            v, e = function.reduce(v, -1), e.max(-1)
        return computed(x.dtype, v.reshape(shape), np.reshape(e, shape), unsure.reshape(shape))
    if not x.is_float:
        function = np.add if what == "sum" else np.multiply
        return computed(x.dtype, function.reduce(v, -1, dtype=v.dtype).reshape(shape), 0, unsure.reshape(shape))
    unit = FLOATS[x.dtype].unit if each else unit_of_arithmetic(x.dtype)
    most = FLOATS["f64" if x.dtype == "f64" else x.dtype if each else "f32"].most
    with np.errstate(all="ignore"):
        if what == "sum":
            v, e, over = summed(x.dtype, v, e, unit, most)
        else:
            finite = np.isfinite(v)
            grows = np.where(finite, np.maximum(np.abs(v) + e, 1), 1).prod(-1)
            shrinks = np.where(finite & (v != 0), np.minimum(np.abs(v) - e, 1), 1).prod(-1)
            smallest = FLOATS["f64" if x.dtype == "f64" else "f32"].tiny / unit
            if each:
                smallest = FLOATS[x.dtype].tiny / unit
            total = v.prod(-1)
            relative = np.where(finite & (v != 0), e / np.abs(v), 0).sum(-1) + (count + 1) * unit
            whole = (v == np.rint(v)).all(-1) & (grows * unit < 0.5) & (e == 0).all(-1)
            over = ((grows > most) | ~(shrinks > smallest) | ((v == 0) & (e > 0)).any(-1)) & ~np.isnan(total)
            v, e = total, np.where(whole, 0, np.abs(total) * np.expm1(relative))
    return computed(x.dtype, np.reshape(v, shape), np.reshape(e, shape), np.reshape(unsure | over, shape))


for name in ("sum", "prod", "max", "min"):
    OPS[f"reduce_{name}"] = lambda attrs, x, name=name: [reduced(attrs, x, name)]
OPS["reduce_any"] = lambda attrs, x: [reduced(attrs, x, "max")]
OPS["reduce_all"] = lambda attrs, x: [reduced(attrs, x, "min")]


def as_wide(x):
    """A small float as the f32 that composite ops compute in."""
    x = read(x)
    return x if not x.is_float or x.dtype in ("f32", "f64") else Value("f32", x.v, x.e, x.unsure)


def narrowed(x, dtype):
    return x if x.dtype == dtype else computed(dtype, x.v, x.e, x.unsure)


@op("reduce_mean")
def reduce_mean(attrs, x):
    count = math.prod(x.shape[axis] for axis in axes_of(attrs, x))
    if not x.is_float:
        wide = "u64" if x.dtype == "u64" else "i64"
        total = reduced(attrs, OPS["cast"]({"dtype": wide}, x)[0], "sum")
        mean = OPS["div"]({}, total, source(wide, np.array(count)))[0]
        return [OPS["cast"]({"dtype": x.dtype}, mean)[0]]
    wide = as_wide(x)
    return [narrowed(OPS["div"]({}, reduced(attrs, wide, "sum"), source(wide.dtype, np.array(count)))[0], x.dtype)]


def composite(name, *steps):
    """Each step takes (attributes, x) to x, in f32 where x is smaller."""

    def of(attrs, x):
        y = as_wide(x)
        for step in steps:
            y = step(attrs, y)
        return [narrowed(y, x.dtype)]

    OPS[name] = of


def pointwise_step(name):
    return lambda attrs, x: OPS[name]({}, x)[0]


def squared(attrs, x):
    return OPS["mul"]({}, x, x)[0]


def squared_within(x):
    """Within one statement: what is folded, or interpreted, computes such in f64, so that an overflow of f32 is seen or not."""
    result = squared({}, x)
    result.unsure = result.unsure | (np.isinf(result.v) & np.isfinite(x.v))
    return cleaned(result)


def sum_step(attrs, x):
    return reduced(attrs, x, "sum")


composite("reduce_l1", pointwise_step("abs"), sum_step)
composite("reduce_l2", squared, sum_step, pointwise_step("sqrt"))
composite("reduce_log_sum", sum_step, pointwise_step("log"))
composite("reduce_sum_square", squared, sum_step)


def unsure_places(rows, at):
    """Whether elements of a row other than that at `at` may be its extreme, within their errors."""
    unsure = rows.unsure.any(-1)
    if not rows.is_float:
        return unsure
    best = np.take_along_axis(rows.v, at[..., None], -1)
    best_e = np.take_along_axis(rows.e, at[..., None], -1)
    others = np.arange(rows.shape[-1]) != at[..., None]
    near = others & (np.abs(rows.v - best) <= rows.e + best_e) & ((rows.e > 0) | (best_e > 0))
    return unsure | near.any(-1)


@op("argmax", "argmin")
def arg_extreme(attrs, x, function=np.argmax):
    x = read(x)
    rows, shape, count = of_axes(attrs, x)
    v = rows.v[..., ::-1] if attrs.get("select_last", False) else rows.v
    if count == 0:
        raise ValueError("of nothing")
    at = function(v, -1)
    if attrs.get("select_last", False):
        at = count - 1 - at
    return [computed("i64", at.reshape(shape), 0, unsure_places(rows, at).reshape(shape))]


OPS["argmin"] = lambda attrs, x: arg_extreme(attrs, x, np.argmin)


@op("cumsum")
def cumsum(attrs, x):
    x = read(x)
    axis = attrs.get("axis", 0) % len(x.shape)
    turn = (lambda a: np.flip(a, axis)) if attrs.get("reverse", False) else (lambda a: a)

    def running(a):
        a = turn(a)
        total = np.cumsum(a, axis, dtype=a.dtype)
        if attrs.get("exclusive", False):
            total = np.concatenate(
                [
                    np.zeros_like(np.take(total, [], axis))
                    if a.shape[axis] == 0
                    else np.zeros_like(np.take(total, [0], axis)),
                    np.take(total, np.arange(a.shape[axis] - 1) if a.shape[axis] else [], axis),
                ],
                axis,
            )
        return turn(total)

    unsure = running(x.unsure.astype(np.int64)) > 0
    if not x.is_float:
        return [computed(x.dtype, running(x.v), 0, unsure)]
    with np.errstate(all="ignore"):
        finite = np.isfinite(x.v)
        size = running(np.where(finite, np.abs(x.v) + x.e, 0))
        whole = running(((x.v != np.rint(x.v)) & finite).astype(np.int64)) == 0
        unit = unit_of_arithmetic(x.dtype)
        e = running(np.where(finite, x.e, 0)) + np.where(
            whole & (size * unit < 0.5), 0, (x.shape[axis] + 1) * unit * size
        )
        total = running(x.v)
        over = (size > FLOATS["f64" if x.dtype == "f64" else "f32"].most) & ~np.isnan(total)
    return [computed(x.dtype, total, e, unsure | over)]


# ---- products


def products(dtype, xs, function, depth, ulps=2.0):
    """`function` of arrays is a sum of `depth` products of elements, one of each."""
    xs = [read(x) for x in xs]
    if dtype not in FLOATS:
        unsure = function(*(x.unsure.astype(np.float64) if k == 0 else np.ones(x.shape) for k, x in enumerate(xs))) > 0
        for k in range(1, len(xs)):
            unsure = unsure | (
                function(*(x.unsure.astype(np.float64) if k == j else np.ones(x.shape) for j, x in enumerate(xs))) > 0
            )
        return computed(dtype, function(*(x.v for x in xs)).astype(numpy_type(dtype)), 0, unsure)
    unit, wide = unit_of_arithmetic(dtype), FLOATS["f64" if dtype == "f64" else "f32"]
    with np.errstate(all="ignore"):
        v = function(*(x.v for x in xs))
        sizes = [np.where(np.isfinite(x.v), np.abs(x.v) + x.e, 0) for x in xs]
        size = function(*sizes)
        e = np.zeros_like(v)
        for k, x in enumerate(xs):
            e = e + function(*(np.where(np.isfinite(x.v), x.e, 0) if j == k else sizes[j] for j in range(len(xs))))
        whole = all(((x.v == np.rint(x.v)) & (x.e == 0)).all() for x in xs) & (size * unit < 0.5)
        e = e + np.where(whole, 0, (depth + ulps) * unit * size + depth * wide.tiny)
        if dtype == "bf16":  # AMX takes denormal numbers for zeros
            e = e + depth * 2.0**-125 * max([1.0, *(float(s.max(initial=0)) for s in sizes)])
        unsure = np.zeros(v.shape, bool)
        for k in range(len(xs)):
            unsure |= (
                function(*(x.unsure.astype(np.float64) if j == k else np.ones(x.shape) for j, x in enumerate(xs))) > 0
            )
            # An infinity times what may be zero, or of either sign.
            vague = (~((np.abs(xs[k].v) > xs[k].e) | np.isnan(xs[k].v)) & (xs[k].e > 0)).astype(np.float64)
            for other in range(len(xs)):
                if other != k and np.isinf(xs[other].v).any():
                    unsure |= (
                        function(
                            *(
                                vague
                                if j == k
                                else np.isinf(x.v).astype(np.float64)
                                if j == other
                                else np.ones(x.shape)
                                for j, x in enumerate(xs)
                            )
                        )
                        > 0
                    )
        unsure |= (size > wide.most) & ~np.isnan(v)
    return computed(dtype, v, e, unsure)


@op("matmul")
def matmul(attrs, a, b):
    return [products(a.dtype, [a, b], np.matmul, a.shape[-1])]


@op("gemm")
def gemm(attrs, a, b, c=None):
    if attrs.get("trans_a", False):
        a = moved(a, np.transpose)
    if attrs.get("trans_b", False):
        b = moved(b, np.transpose)
    alpha, beta = attrs.get("alpha", 1.0), attrs.get("beta", 1.0)
    product = products(as_wide(a).dtype, [as_wide(a), as_wide(b)], np.matmul, a.shape[-1])
    if not a.is_float:
        return [product if c is None else OPS["add"]({}, product, c)[0]]

    def scaled(x, by):
        return OPS["mul"]({}, x, Value(x.dtype, by, 0 if by == np.float32(by) else abs(by) * FLOATS["f32"].unit))[0]

    # Each step may be rounded to the dtype, and overflow there.
    result = scaled(as_wide(narrowed(product, a.dtype)), alpha)
    if c is not None and beta != 0:  # else c is not read
        terms = [as_wide(narrowed(x, a.dtype)) for x in (result, scaled(as_wide(c), beta))]
        result = OPS["add"]({}, *terms)[0]
    return [narrowed(result, a.dtype)]


@op("einsum")
def einsum(attrs, *xs):
    equation = attrs["equation"]
    labels = {}
    for term, x in zip(equation.split("->")[0].split(","), xs, strict=True):
        labels.update(zip(term, x.shape, strict=True))
    depth = math.prod(size for label, size in labels.items() if label not in equation.split("->")[1])
    result = products(xs[0].dtype, xs, lambda *arrays: np.einsum(equation, *arrays), depth, len(xs))
    if len(xs) > 2 and xs[0].is_float:
        # Operands are multiplied two by two, and a product of two may overflow where that of all does not.
        most = math.log2(FLOATS["f64" if xs[0].dtype == "f64" else "f32"].most)
        sizes = sorted(float(np.log2(np.abs(x.v[np.isfinite(x.v)]).max(initial=1))) for x in xs)
        if sizes[-1] + sizes[-2] + math.log2(max(depth, 1)) >= most:
            result.unsure = np.ones(result.shape, bool)
    return [result]


@op("matmul_integer")
def matmul_integer(attrs, a, b, a_zero=None, b_zero=None):
    def centred(x, zero, rows):
        wide = x.v.astype(np.int32)
        if zero is None:
            return Value("i32", wide, None, x.unsure)
        offset = zero.v.astype(np.int32)
        offset = offset.reshape(()) if offset.size == 1 else offset.reshape((-1, 1) if rows else -1)
        return Value("i32", wide - offset, None, x.unsure)

    return matmul({}, centred(a, a_zero, True), centred(b, b_zero, False))


# ---- windows


def windows(attrs, x, kernel, fill):
    """x's windows, [n, c, out.., kernel..], and where they lie on x; pads are `fill`."""
    rank = len(kernel)
    strides, dilations = attrs.get("strides") or [1] * rank, attrs.get("dilations") or [1] * rank
    low, high = attrs.get("pads_low") or [0] * rank, attrs.get("pads_high") or [0] * rank
    out = [
        (dim + before + after - ((k - 1) * d + 1)) // s + 1
        for dim, before, after, k, d, s in zip(x.shape[2:], low, high, kernel, dilations, strides, strict=True)
    ]
    if min(out) < 0:
        raise ValueError("windows")
    places_of = [
        np.arange(o)[:, None] * s + np.arange(k)[None] * d - before
        for o, s, k, d, before in zip(out, strides, kernel, dilations, low, strict=True)
    ]
    inside, at = np.ones((), bool), []
    for axis, place in enumerate(places_of):
        shape = [1] * (2 * rank)
        shape[axis], shape[rank + axis] = place.shape
        inside = inside & ((place >= 0) & (place < x.shape[2 + axis])).reshape(shape)
        at.append(np.clip(place, 0, max(0, x.shape[2 + axis] - 1)).reshape(shape))
    taken = moved(
        x,
        lambda a: (
            np.where(inside, a[(slice(None), slice(None), *at)], np.asarray(fill, a.dtype))
            if a.dtype != bool
            else a[(slice(None), slice(None), *at)] & inside
        ),
    )
    taken.e = np.where(inside, taken.e, 0)
    taken.raw = None
    return taken, np.broadcast_to(inside, out + list(kernel)), low, high


def flat_windows(attrs, x, fill):
    taken, inside, *pads = windows(attrs, x, attrs["kernel"], fill)
    rank = len(attrs["kernel"])
    out = taken.shape[: 2 + rank]
    return moved(taken, lambda a: a.reshape(*out, -1)), inside.reshape(*out[2:], -1), pads


@op("max_pool")
def max_pool(attrs, x):
    taken, _, _ = flat_windows(attrs, read(x), extreme_of_nothing(x.dtype, False))
    return [reduced({"axis": len(taken.shape) - 1, "keepdims": False}, taken, "max")]


@op("max_pool_with_indices")
def max_pool_with_indices(attrs, x):
    x = read(x)
    nothing = extreme_of_nothing(x.dtype, False)
    taken, inside, _ = flat_windows(attrs, x, nothing)
    numbers = np.broadcast_to(np.arange(math.prod(x.shape[2:])).reshape(x.shape[2:]), x.shape)
    places, _, _ = flat_windows(attrs, source("i64", numbers), 0)
    nan = np.isnan(taken.v) if x.is_float else np.zeros(taken.shape, bool)
    last_nan = taken.shape[-1] - 1 - np.argmax(nan[..., ::-1], -1)
    # The first greatest element inside: all of them may be as small as the padding.
    score = np.where(inside, taken.v == np.where(nan, nothing, taken.v).max(-1, keepdims=True), False)
    at = np.where(nan.any(-1), last_nan, np.argmax(score, -1))
    found = np.take_along_axis(places.v, at[..., None], -1)[..., 0]
    return [*max_pool(attrs, x), computed("i64", found, 0, unsure_places(taken, at))]


@op("avg_pool")
def avg_pool(attrs, x):
    wide = as_wide(x)
    taken, inside, (_, _) = flat_windows(attrs, wide, 0)
    if attrs.get("count_include_pad", False):
        count = np.full(inside.shape[:-1], inside.shape[-1])  # every window fits x with its pads
    else:
        count = inside.sum(-1)
    total = reduced({"axis": len(taken.shape) - 1, "keepdims": False}, taken, "sum")
    return [narrowed(OPS["div"]({}, total, source(wide.dtype, count))[0], x.dtype)]


@op("lp_pool")
def lp_pool(attrs, x):
    taken, _, _ = flat_windows(attrs, as_wide(x), 0)
    p, axis = attrs.get("p", 2), {"axis": len(taken.shape) - 1, "keepdims": False}
    if p == 1:
        return [narrowed(reduced(axis, OPS["abs"]({}, taken)[0], "sum"), x.dtype)]
    return [narrowed(OPS["sqrt"]({}, reduced(axis, squared_within(taken), "sum"))[0], x.dtype)]


@op("conv")
def conv(attrs, x, w, bias=None):
    groups = attrs.get("groups", 1)
    x, w = read(x), read(w)
    taken, _, _, _ = windows(attrs, x, w.shape[2:], 0)
    spatial = "".join(chr(ord("p") + d) for d in range(len(w.shape) - 2))
    kernel = "".join(chr(ord("u") + d) for d in range(len(w.shape) - 2))
    split_x = moved(taken, lambda a: a.reshape(a.shape[0], groups, a.shape[1] // groups, *a.shape[2:]))
    split_w = moved(w, lambda a: a.reshape(groups, a.shape[0] // groups, *a.shape[1:]))
    depth = math.prod(w.shape[1:])
    equation = f"ngc{spatial}{kernel},goc{kernel}->ngo{spatial}"
    result = products(
        as_wide(x).dtype, [as_wide(split_x), as_wide(split_w)], lambda a, b: np.einsum(equation, a, b), depth
    )
    result = moved(result, lambda a: a.reshape(a.shape[0], w.shape[0], *a.shape[3:]))
    if x.is_float:
        # Winograd blocks spread what is not finite to their neighbours, and the precision of what is large.
        if not all(np.isfinite(y.v).all() for y in (x, w)):
            result.unsure = np.ones(result.shape, bool)
        most = [float((np.abs(y.v) + y.e).max(initial=0)) if np.isfinite(y.v).all() else 0 for y in (x, w)]
        result.e = result.e + 16 * depth * unit_of_arithmetic(x.dtype) * most[0] * most[1]
        whole = (
            all((np.rint(y.v) == y.v).all() and (y.e == 0).all() for y in (x, w))
            and 36 * depth * most[0] * most[1] * unit_of_arithmetic(x.dtype) < 0.1
        )
        if whole:
            result.e = result.e * 0
        if 64 * depth * most[0] * most[1] > FLOATS["f64" if x.dtype == "f64" else "f32"].most:
            result.unsure = np.ones(result.shape, bool)
    if bias is not None:
        result = OPS["add"]({}, result, moved(as_wide(bias), lambda a: a.reshape(-1, *([1] * (len(x.shape) - 2)))))[0]
    return [cleaned(narrowed(result, x.dtype))]


@op("conv_transpose")
def conv_transpose(attrs, x, w, bias=None):
    """The convolution of x, with zeros between its elements, with the kernel turned around."""
    rank, groups = len(w.shape) - 2, attrs.get("groups", 1)
    strides, dilations = attrs.get("strides") or [1] * rank, attrs.get("dilations") or [1] * rank
    low, high = attrs.get("pads_low") or [0] * rank, attrs.get("pads_high") or [0] * rank
    more = attrs.get("output_padding") or [0] * rank
    reach = [(k - 1) * d for k, d in zip(w.shape[2:], dilations, strict=True)]

    def spread(a):
        wide = np.zeros(
            (*a.shape[:2], *((dim - 1) * step + 1 for dim, step in zip(a.shape[2:], strides, strict=True))), a.dtype
        )
        wide[(slice(None), slice(None), *(slice(None, None, step) for step in strides))] = a
        return wide

    def turned(a):
        a = np.flip(a, tuple(range(2, 2 + rank)))
        a = a.reshape(groups, a.shape[0] // groups, *a.shape[1:]).swapaxes(1, 2)
        return a.reshape(groups * a.shape[1], *a.shape[2:])

    pads = {
        "pads_low": [r - a for r, a in zip(reach, low, strict=True)],
        "pads_high": [r - b + m for r, b, m in zip(reach, high, more, strict=True)],
    }
    if min(*pads["pads_low"], *pads["pads_high"]) < 0:
        raise ValueError("crops")
    return conv({"dilations": dilations, "groups": groups} | pads, moved(x, spread), moved(w, turned), bias)


@op("conv_weight_gradient")
def conv_weight_gradient(attrs, x, g):
    """Each element of the kernel has the sum over the batch and all places of the products of x there and g."""
    kernel, groups = attrs["kernel"], attrs.get("groups", 1)
    x, g = read(x), read(g)
    rank = len(kernel)
    strides, dilations = attrs.get("strides") or [1] * rank, attrs.get("dilations") or [1] * rank
    low = attrs.get("pads_low") or [0] * rank
    high = [
        max(0, (o - 1) * s + (k - 1) * d + 1 - dim - before)
        for o, s, k, d, dim, before in zip(g.shape[2:], strides, kernel, dilations, x.shape[2:], low, strict=True)
    ]
    taken, _, _, _ = windows({**attrs, "pads_high": high}, x, kernel, 0)
    taken = moved(taken, lambda a: a[(slice(None), slice(None), *(slice(0, o) for o in g.shape[2:]))])
    places, steps = ("".join(chr(ord(first) + d) for d in range(rank)) for first in "pu")
    split_x = moved(taken, lambda a: a.reshape(a.shape[0], groups, a.shape[1] // groups, *a.shape[2:]))
    split_g = moved(g, lambda a: a.reshape(a.shape[0], groups, a.shape[1] // groups, *a.shape[2:]))
    depth = g.shape[0] * math.prod(g.shape[2:])
    equation = f"nkc{places}{steps},nko{places}->koc{steps}"
    result = products(
        as_wide(x).dtype, [as_wide(split_x), as_wide(split_g)], lambda a, b: np.einsum(equation, a, b), depth
    )
    return [cleaned(narrowed(moved(result, lambda a: a.reshape(-1, *a.shape[2:])), x.dtype))]
