# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What ops that move elements mean, in numpy: views, indices, orders."""

import numpy as np
from numpy_pointwise import OPS, op
from numpy_sums import reduced
from numpy_values import Value, cleaned, computed, contiguous, moved, numpy_type, read, source

# ---- views and moves

OPS["reshape"] = lambda attrs, x: [moved(x, lambda a: a.reshape(attrs["shape"]))]
OPS["transpose"] = lambda attrs, x: [moved(x, lambda a: a.transpose(attrs["perm"]))]
OPS["expand"] = lambda attrs, x: [moved(x, lambda a: np.broadcast_to(a, attrs["shape"]))]
OPS["tile"] = lambda attrs, x: [moved(x, lambda a: np.tile(a, attrs["repeats"]))]
OPS["dropout"] = lambda attrs, x: [x]


@op("slice")
def slice_(attrs, x):
    taken = np.ix_(
        *(
            start + stride * np.arange(size)
            for start, size, stride in zip(attrs["starts"], attrs["sizes"], attrs["strides"], strict=True)
        )
    )
    return [moved(x, lambda a: a[taken])]


@op("split")
def split(attrs, x):
    ends = np.cumsum(attrs["sizes"])
    if ends[-1] != x.shape[attrs.get("axis", 0)]:
        raise ValueError("sizes")
    parts = [
        np.take(np.arange(x.shape[attrs.get("axis", 0)]), np.arange(end - size, end))
        for end, size in zip(ends, attrs["sizes"], strict=True)
    ]
    return [moved(x, lambda a, part=part: np.take(a, part, attrs.get("axis", 0))) for part in parts]


@op("concat")
def concat(attrs, *xs):
    return [moved(xs[0], lambda *arrays: np.concatenate(arrays, attrs.get("axis", 0)), *xs[1:])]


@op("bitcast")
def bitcast(attrs, x):
    """Of bits that nothing but moves made, or of integers."""
    raw = x.raw if x.raw is not None else x.v
    result = source(attrs["dtype"], contiguous(raw).view(numpy_type(attrs["dtype"])))
    result.unsure = x.unsure
    return [result]


@op("pad")
def pad(attrs, x, value=None):
    low, high, mode = attrs["low"], attrs["high"], attrs.get("mode", "constant")
    fill = (
        source(x.dtype, np.zeros((), numpy_type(x.dtype))) if value is None else moved(value, lambda a: a.reshape(()))
    )
    outside = np.zeros((), bool)
    at = []
    for axis, (before, after, dim) in enumerate(zip(low, high, x.shape, strict=True)):
        place = np.arange(-before, dim + after)
        if mode == "reflect":
            place = np.zeros_like(place) if dim == 1 else (dim - 1) - np.abs((dim - 1) - place % (2 * (dim - 1)))
        elif mode == "edge":
            place = np.clip(place, 0, dim - 1)
        elif mode == "wrap":
            place = place % dim
        off = (place < 0) | (place >= dim)
        outside = outside | off.reshape([-1 if d == axis else 1 for d in range(len(x.shape))])
        at.append(np.where(off, 0, place))
    outside = np.broadcast_to(outside, [len(a) for a in at])
    if x.v.size == 0:
        return [moved(fill, lambda f: np.broadcast_to(f, outside.shape))]
    return [moved(x, lambda a, f: np.where(outside, f, a[np.ix_(*at)]), fill)]


@op("reverse_sequence")
def reverse_sequence(attrs, x, lengths):
    batch, time = attrs.get("batch_axis", 1), attrs.get("time_axis", 0)
    step = np.arange(x.shape[time])[:, None]
    n = lengths.v.astype(np.int64)[None, :]
    place = np.where(step < n, n - 1 - step, step)  # [time, batch]
    shape = [1] * len(x.shape)
    shape[batch], shape[time] = x.shape[batch], x.shape[time]
    place = (place if time < batch else place.T).reshape(shape)
    return [moved(x, lambda a: np.take_along_axis(a, np.broadcast_to(place, a.shape), time))]


@op("iota")
def iota(attrs):
    axis, shape = attrs.get("axis", 0), attrs["shape"]
    place = np.arange(shape[axis]).reshape([-1 if d == axis % len(shape) else 1 for d in range(len(shape))])
    return [OPS["cast"]({"dtype": attrs["dtype"]}, source("i64", np.broadcast_to(place, shape)))[0]]


@op("full")
def full(attrs):
    return [
        OPS["cast"]({"dtype": attrs["dtype"]}, source("f64", np.broadcast_to(attrs.get("value", 0.0), attrs["shape"])))[
            0
        ]
    ]


@op("trilu")
def trilu(attrs, x):
    function, k = (np.triu if attrs.get("upper", True) else np.tril), attrs.get("k", 0)
    keep = function(np.ones(x.shape[-2:], bool), k)
    return [moved(x, lambda a: np.where(keep, a, np.zeros((), a.dtype)))]


# ---- indices


def places(indices, dim):
    """Indices in [-dim, dim), none of them unsure."""
    at = indices.v.astype(np.int64) if indices.dtype != "u64" else indices.v
    if indices.unsure.any() or (at < -dim).any() or (at >= dim).any():
        raise ValueError("an index that is not known")
    return np.where(at < 0, at + dim, at).astype(np.int64)


@op("gather")
def gather(attrs, x, indices):
    axis = attrs.get("axis", 0)
    at = places(indices, x.shape[axis])
    return [moved(x, lambda a: np.take(a, at, axis))]


@op("gather_elements")
def gather_elements(attrs, x, indices):
    axis = attrs.get("axis", 0) % len(x.shape)
    at = list(np.indices(indices.shape, sparse=True))
    at[axis] = places(indices, x.shape[axis])
    return [moved(x, lambda a: a[tuple(at)])]


@op("gather_nd")
def gather_nd(attrs, x, indices):
    batch = attrs.get("batch_dims", 0)
    tuples = np.stack(
        [
            places(Value(indices.dtype, indices.v[..., k], None, indices.unsure[..., k]), x.shape[batch + k])
            for k in range(indices.shape[-1])
        ],
        -1,
    )
    lead = np.indices(indices.shape[:batch], sparse=True)
    lead = [a.reshape(a.shape + (1,) * (tuples.ndim - 1 - batch)) for a in lead]
    at = (*lead, *(tuples[..., k] for k in range(tuples.shape[-1])))
    return [moved(x, lambda a: a[at])]


def scatter(x, at, updates, reduction):
    """`at`: for each update the place in x, as an index of numpy."""
    places_of = (
        np.stack([a.ravel() for a in np.broadcast_arrays(*at)], -1) if at else np.zeros((updates.v.size, 0), np.int64)
    )
    v, e, unsure = x.v.copy(), x.e.copy(), x.unsure.copy()
    if reduction == "none":
        # The last of the updates of a place stays.
        last = {tuple(place): k for k, place in enumerate(places_of)}
        raw = x.raw.copy() if x.raw is not None and updates.raw is not None else None
        for place, k in last.items():
            v[place], e[place], unsure[place] = updates.v.flat[k], updates.e.flat[k], updates.unsure.flat[k]
            if raw is not None:
                raw[place] = updates.raw.flat[k]
        return Value(x.dtype, v, e, unsure, raw)
    groups = {}
    for k, place in enumerate(places_of):
        groups.setdefault(tuple(place), []).append(k)
    x, updates = read(x), read(updates)
    unsure |= x.unsure
    for place, ks in groups.items():
        terms = [
            Value(x.dtype, x.v[place], x.e[place], x.unsure[place]),
            *(Value(x.dtype, updates.v.flat[k], updates.e.flat[k], updates.unsure.flat[k]) for k in ks),
        ]
        stacked = moved(terms[0], lambda *arrays: np.stack(arrays), *terms[1:])
        # Sums and products of small floats are rounded after each update.
        combined = reduced(
            {"axes": [0], "keepdims": False},
            stacked,
            {"add": "sum", "mul": "prod"}.get(reduction, reduction),
            each=True,
        )
        v[place], e[place], unsure[place] = combined.v, combined.e, combined.unsure
    return cleaned(Value(x.dtype, v, e, unsure))


@op("scatter_elements")
def scatter_elements(attrs, x, indices, updates):
    axis = attrs.get("axis", 0) % len(x.shape)
    at = list(np.indices(indices.shape))
    at[axis] = places(indices, x.shape[axis])
    return [scatter(x, at, updates, attrs.get("reduction", "none"))]


@op("scatter_nd")
def scatter_nd(attrs, x, indices, updates):
    length = indices.shape[-1]
    tuples = [
        places(Value(indices.dtype, indices.v[..., k], None, indices.unsure[..., k]), x.shape[k]) for k in range(length)
    ]
    rest = x.shape[length:]
    at = [np.broadcast_to(t.reshape(t.shape + (1,) * len(rest)), updates.shape) for t in tuples]
    at += [np.broadcast_to(a, updates.shape) for a in np.indices(rest, sparse=True)]
    return [scatter(x, at, updates, attrs.get("reduction", "none"))]


@op("one_hot")
def one_hot(attrs, indices, values):
    depth, axis = attrs["depth"], attrs.get("axis", -1)
    # An unsigned index that i64 does not hold is out of range, and names no place.
    at = indices.v if indices.dtype == "u64" else indices.v.astype(np.int64)
    at = np.where(at > np.asarray(2**62, at.dtype), 2**62, at).astype(np.int64)
    at = np.expand_dims(np.where(at < 0, at + depth, at), axis)
    places_there = np.arange(depth).reshape([-1 if d == axis % at.ndim else 1 for d in range(at.ndim)])
    hot = at == places_there
    parts = [moved(values, lambda a, k=k: np.broadcast_to(a[k], hot.shape)) for k in range(2)]
    result = moved(parts[0], lambda off, on: np.where(hot, on, off), parts[1])
    result.unsure = result.unsure | np.broadcast_to(np.expand_dims(indices.unsure, axis), hot.shape)
    return [cleaned(result)]


# ---- orders


def ordered(x, axis, descending, count):
    """NaN is the greatest, zeros are equal, equal elements come in the order of their indices."""
    x = read(x) if x.raw is None else x
    rows = moved(x, lambda a: np.moveaxis(a, axis, -1))
    if rows.is_float:
        nan = np.isnan(rows.v)
        ranks = np.zeros(rows.shape, np.int64)
        for row in np.ndindex(rows.shape[:-1]):
            _, inverse = np.unique(np.where(nan[row], 0, rows.v[row]) + 0.0, return_inverse=True)
            ranks[row] = np.where(nan[row], inverse.size + 1, inverse)
    else:
        ranks = np.zeros(rows.shape, np.int64)
        for row in np.ndindex(rows.shape[:-1]):
            ranks[row] = np.unique(rows.v[row], return_inverse=True)[1]
    at = np.argsort(-ranks if descending else ranks, -1, kind="stable")[..., :count]
    unsure = np.zeros(at.shape, bool) | rows.unsure.any(-1, keepdims=True)
    if rows.is_float and (rows.e > 0).any():
        # Elements that are nearer to each other than their errors may change places.
        order = np.argsort(ranks, -1, kind="stable")
        v, e = np.take_along_axis(rows.v, order, -1), np.take_along_axis(rows.e, order, -1)
        close = ((v[..., 1:] - v[..., :-1]) <= e[..., 1:] + e[..., :-1]) & ((e[..., 1:] > 0) | (e[..., :-1] > 0))
        unsure = unsure | close.any(-1, keepdims=True) | (e > 1e30).any(-1, keepdims=True)
    values = moved(rows, lambda a: np.moveaxis(np.take_along_axis(a, at, -1), -1, axis))
    unsure = np.moveaxis(unsure, -1, axis)
    values.unsure = values.unsure | unsure
    return [cleaned(values), computed("i64", np.moveaxis(at, -1, axis), 0, unsure)]


OPS["sort"] = lambda attrs, x: ordered(x, attrs.get("axis", -1), attrs.get("descending", False), None)
OPS["topk"] = lambda attrs, x: ordered(x, attrs.get("axis", -1), attrs.get("largest", True), attrs["k"])
