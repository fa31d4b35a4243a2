# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What pointwise ops mean, in numpy, from what `ferrite ops` and docs/numerics.md say: OPS[name](attributes, *operands) gives the results."""

import math

import numpy as np
from numpy_values import FLOATS, INTEGERS, Value, cleaned, computed, held_type, moved, read

OPS = {}


def op(*names):
    def add(function):
        for name in names:
            OPS[name] = function
        return function

    return add


def shape_of(*xs):
    return np.broadcast_shapes(*(x.shape for x in xs if x is not None))


def together(*xs):
    unsure = np.zeros(shape_of(*xs), bool)
    for x in xs:
        unsure = unsure | x.unsure
    return unsure


def pointwise(dtype, function, *xs, ulps=1.0, exact=True):
    """(v, e[, unsure]) of `function`, which gets the operands."""
    xs = [read(x) for x in xs]
    with np.errstate(all="ignore"):
        v, e, *unsure = function(*xs)
    unsure = together(*xs) | (unsure[0] if unsure else False)
    return computed(dtype, np.broadcast_to(v, unsure.shape), e, unsure, ulps, exact)


def integers(function):
    """Of an op over integers alone, that wrap."""
    return lambda a, b: pointwise(a.dtype, lambda a, b: (function(a.v, b.v).astype(a.v.dtype), 0), a, b)


# ---- arithmetic


def signed(x):
    """Whether the sign of each element is known, NaN excepted; that of a zero is not."""
    return (np.abs(x.v) > x.e) | np.isnan(x.v)


def add_of(a, b):
    return a.v + b.v, a.e + b.e


def mul_of(a, b):
    e = np.abs(a.v) * b.e + np.abs(b.v) * a.e + a.e * b.e
    infinite = np.isinf(a.v) | np.isinf(b.v)
    zero = ((a.v == 0) & (a.e == 0)) | ((b.v == 0) & (b.e == 0))
    return a.v * b.v, np.where(infinite, 0, e), infinite & ~zero & ~(signed(a) & signed(b))


def div_of(a, b):
    v = a.v / b.v
    room = np.abs(b.v) - b.e
    e = np.where(np.isfinite(v) & np.isfinite(b.v), (a.e + np.abs(v) * b.e) / room, 0)
    exact_zero = (b.v == 0) & (b.e == 0)
    of_zero = exact_zero & ~(np.isnan(a.v) | ((a.v == 0) & (a.e == 0)))  # an infinity, of the sign of the zero
    unsure = (exact_zero & (a.v == 0) & (a.e > 0)) | (~exact_zero & (room <= 0) & ~np.isnan(v))
    unsure |= np.isinf(a.v) & ~signed(b) & ~np.isnan(b.v) & ~exact_zero
    unsure |= exact_zero & np.isfinite(a.v) & (np.abs(a.v) <= a.e) & (a.e > 0)
    if not b.knows_signs_of_zeros():
        unsure |= of_zero
    return v, e, unsure


def truncated(a, b):
    """a / b of integers, towards zero; 0 for b = 0, and the lowest number by -1 wraps."""
    if a.dtype.kind == "u":
        return np.where(b == 0, 0, a // np.where(b == 0, 1, b))
    by = np.where((b == 0) | (b == -1), 1, b)
    q, r = np.floor_divide(a, by), np.remainder(a, by)
    q = q + ((r != 0) & ((a < 0) != (by < 0)))
    return np.where(b == 0, 0, np.where(b == -1, np.negative(a), q))


def modulus(a, b, floor):
    if a.dtype.kind == "u":
        return np.where(b == 0, 0, a % np.where(b == 0, 1, b))
    by = np.where((b == 0) | (b == -1), 1, b)
    r = np.remainder(a, by) if floor else np.fmod(a, by)
    return np.where((b == 0) | (b == -1), 0, r)


def float_modulus(floor):
    """Exact of exact operands; a multiple of b jumps."""

    def of(a, b):
        v = np.fmod(a.v, b.v)
        if floor:
            v = np.where((v != 0) & ((v < 0) != (b.v < 0)), v + b.v, v)
        exact = (a.e == 0) & (b.e == 0)
        # What is added in f32 is rounded there; by an infinity the floor modulus is what its writer likes.
        unsure = ~exact | (floor & np.isinf(b.v)) | ~(np.abs(a.v / b.v) < 2.0**20) & ~np.isnan(v)
        return v, 0 * np.abs(v), unsure

    return of


def power_of_integers(a, b):
    result, base, exponent = np.ones_like(a), a.copy(), b.astype(np.uint64)
    while exponent.any():
        result = np.where(exponent & 1, result * base, result).astype(a.dtype)
        base, exponent = (base * base).astype(a.dtype), exponent >> np.uint64(1)
    return result


def pow_of(a, b):
    # Beyond the edges of where it is smooth nothing is expected of what has errors.
    v = np.power(a.v, b.v)
    log = np.log(np.where(a.v > 0, a.v, 1))
    relative = np.abs(b.v) * a.e / np.where(a.v > a.e, a.v - a.e, np.nan) + np.abs(log) * b.e
    # The exponent of the power is rounded as well.
    e = np.where((a.e == 0) & (b.e == 0), 0, np.abs(v) * np.expm1(relative))
    exact = (a.e == 0) & (b.e == 0)
    unsure = ~exact & (~(a.v > a.e) | ~np.isfinite(a.v) | ~np.isfinite(b.v))
    if not a.knows_signs_of_zeros():
        unsure |= (a.v == 0) & (b.v < 0)
    return v, e, unsure


def atan2_of(a, b):
    v = np.arctan2(a.v, b.v)
    square = a.v * a.v + b.v * b.v
    errors = (a.e > 0) | (b.e > 0)
    e = np.where(errors, 2 * (np.abs(a.v) * b.e + np.abs(b.v) * a.e) / square, 0)
    crosses = errors & ((np.hypot(a.e, b.e) * 2 > np.sqrt(square)) | ((np.abs(a.v) <= a.e) & (b.v < 0)))
    unsure = crosses | (errors & ~(np.isfinite(a.v) & np.isfinite(b.v)))
    zero = ((a.v == 0) & (not a.knows_signs_of_zeros())) | ((b.v == 0) & (not b.knows_signs_of_zeros()))
    return v, e, unsure | zero


def binary(name, of_floats, of_integers=None, **how):
    OPS[name] = lambda attrs, a, b: [
        pointwise(a.dtype, of_floats, a, b, **how) if a.is_float else integers(of_integers)(a, b)
    ]


binary("add", add_of, np.add)
binary("sub", lambda a, b: (a.v - b.v, a.e + b.e), np.subtract)
binary("mul", mul_of, np.multiply)
binary("div", div_of, truncated)
binary("mod", float_modulus(True), lambda a, b: modulus(a, b, True))
binary("remainder_trunc", float_modulus(False), lambda a, b: modulus(a, b, False))
binary("pow", pow_of, power_of_integers, ulps=4, exact=False)
binary("atan2", atan2_of, ulps=4, exact=False)


def extreme(function):
    def of(a, b):
        # An operand with an error may be the one that is taken or not; either way the result is within the larger error.
        return function(a.v, b.v), np.maximum(a.e, b.e)

    return lambda attrs, a, b: [
        pointwise(a.dtype, of, a, b) if a.is_float else pointwise(a.dtype, lambda a, b: (function(a.v, b.v), 0), a, b)
    ]


OPS["minimum"], OPS["maximum"] = extreme(np.minimum), extreme(np.maximum)
OPS["bitwise_and"] = OPS["logical_and"] = lambda attrs, a, b: [integers(np.bitwise_and)(a, b)]
OPS["bitwise_or"] = OPS["logical_or"] = lambda attrs, a, b: [integers(np.bitwise_or)(a, b)]
OPS["bitwise_xor"] = OPS["logical_xor"] = lambda attrs, a, b: [integers(np.bitwise_xor)(a, b)]
OPS["bitwise_not"] = OPS["logical_not"] = lambda attrs, x: [Value(x.dtype, np.invert(x.v), None, x.unsure)]


def shift(function):
    def of(a, b):
        bits = a.dtype.itemsize * 8
        inside = (b >= 0) & (b < bits)  # as an unsigned number, a negative one is beyond the width
        return np.where(inside, function(a, np.where(inside, b, 0)), 0)

    return lambda attrs, a, b: [integers(of)(a, b)]


OPS["shift_left"], OPS["shift_right"] = shift(np.left_shift), shift(np.right_shift)


def comparison(function):
    def of(a, b):
        if not np.issubdtype(a.v.dtype, np.floating):
            return function(a.v, b.v), 0
        apart = np.abs(a.v - b.v) > a.e + b.e
        exact = (a.e == 0) & (b.e == 0)
        return function(a.v, b.v), 0, ~(apart | exact | np.isnan(a.v) | np.isnan(b.v))

    return lambda attrs, a, b: [pointwise("bool", of, a, b)]


for name, function in (
    ("eq", np.equal),
    ("ne", np.not_equal),
    ("lt", np.less),
    ("le", np.less_equal),
    ("gt", np.greater),
    ("ge", np.greater_equal),
):
    OPS[name] = comparison(function)

# ---- one operand


def neg_or_abs(function):
    def of(attrs, x):
        if not x.is_float:
            return [Value(x.dtype, function(x.v), None, x.unsure)]
        x = read(x)
        return [cleaned(Value(x.dtype, function(x.v), x.e, x.unsure))]

    return of


OPS["neg"], OPS["abs"] = neg_or_abs(np.negative), neg_or_abs(np.abs)


@op("sign")
def sign(attrs, x):
    if not x.is_float:
        return [Value(x.dtype, np.sign(x.v), None, x.unsure)]
    return [pointwise(x.dtype, lambda x: (np.sign(x.v), 0 * x.e, ~signed(x) & (x.e > 0)), x)]


def smooth(function, ulps=4.0, exact=False, steepest=None):
    """Of a function that is monotone or convex where it is used; else `steepest` bounds its slope."""

    def of(x):
        v = function(x.v)
        if not (x.e > 0).any():
            return v, np.zeros_like(x.v)
        if steepest is not None:
            return v, steepest * x.e
        ends = [function(x.v - x.e), function(x.v + x.e)]
        # Both ends may lie outside of the range of arguments, one at each side.
        e, unsure = np.zeros_like(x.v), np.isnan(v) & (x.e > np.abs(x.v))
        for end in ends:
            same = (end == v) | (np.isnan(end) & np.isnan(v))
            gap = np.abs(end - v)
            unsure |= ~same & ~(gap < np.inf)
            e = np.where(same | unsure, e, np.maximum(e, 1.25 * gap))
        return v, e, unsure

    return lambda attrs, x: [pointwise(x.dtype, of, x, ulps=ulps, exact=exact)]


def reciprocal_of(x, root):
    """1 / x or 1 / sqrt(x)."""
    one = Value(x.dtype, np.ones(x.shape), None, x.unsure)
    below = read(x)
    if root:
        # Beside zero the sign decides between a number and NaN.
        below = pointwise(x.dtype, lambda x: (np.sqrt(x.v), np.where(x.e > 0, x.e / np.sqrt(x.v - x.e), 0),
                                              (x.e > 0) & (np.abs(x.v) <= x.e)), x, ulps=0)  # fmt: skip
    below.raw = x.raw
    return [pointwise(x.dtype, div_of, one, below, ulps=3, exact=False)]


OPS["reciprocal"] = lambda attrs, x: reciprocal_of(x, False)
OPS["rsqrt"] = lambda attrs, x: reciprocal_of(x, True)

special = np.vectorize(math.erf, otypes=[np.float64])


def erf(x):
    return special(x.astype(np.float64)).astype(x.dtype) if x.size else x


for name, function in (
    ("exp", np.exp),
    ("exp2", np.exp2),
    ("expm1", np.expm1),
    ("log", np.log),
    ("log2", np.log2),
    ("log1p", np.log1p),
    ("asin", np.arcsin),
    ("acos", np.arccos),
    ("atan", np.arctan),
    ("sinh", np.sinh),
    ("cosh", np.cosh),
    ("tanh", np.tanh),
    ("asinh", np.arcsinh),
    ("acosh", np.arccosh),
    ("atanh", np.arctanh),
    ("erf", erf),
):
    OPS[name] = smooth(function)
OPS["sqrt"] = smooth(np.sqrt, ulps=1, exact=True)


def periodic(function, slope):
    def of(x):
        v = function(x.v)
        far = np.abs(x.v) > (1e12 if x.dtype == "f64" else 1e6)
        e = x.e * (slope if slope else 1 + v * v) * 1.25
        return v, e, (far & np.isfinite(x.v)) | ((x.e > 0) & (slope is None) & (e > 0.1 * (1 + np.abs(v))))

    return lambda attrs, x: [pointwise(x.dtype, of, x, ulps=4, exact=False)]


OPS["sin"], OPS["cos"], OPS["tan"] = periodic(np.sin, 1), periodic(np.cos, 1), periodic(np.tan, None)


def jumping(function):
    """Of a rounding."""

    def of(x):
        v = function(x.v)
        return v, 0 * x.e, (x.e > 0) & ((function(x.v - x.e) != v) | (function(x.v + x.e) != v))

    return lambda attrs, x: [pointwise(x.dtype, of, x)]


OPS["floor"], OPS["ceil"], OPS["trunc"], OPS["round"] = map(jumping, (np.floor, np.ceil, np.trunc, np.rint))
OPS["isnan"] = lambda attrs, x: [pointwise("bool", lambda x: (np.isnan(x.v), 0), x)]


@op("isinf")
def isinf(attrs, x):
    wanted = ([np.inf] if attrs.get("detect_positive", True) else []) + (
        [-np.inf] if attrs.get("detect_negative", True) else []
    )
    return [pointwise("bool", lambda x: (np.isin(x.v, wanted), 0), x)]


@op("where")
def where(attrs, condition, a, b):
    shape = shape_of(condition, a, b)
    c, a, b = (moved(x, lambda y: np.broadcast_to(y, shape)) for x in (condition, a, b))
    result = moved(a, lambda a, b: np.where(c.v, a, b), b)
    result.unsure = result.unsure | c.unsure
    if c.unsure.any():
        result.raw = None
    return [cleaned(result)]


def cast_to_integer(x, dtype):
    low, high = (0, 1) if dtype == "bool" else (np.iinfo(INTEGERS[dtype]).min, np.iinfo(INTEGERS[dtype]).max)

    def of(x):
        if dtype == "bool":
            return x.v != 0, 0, (x.e > 0) & (np.abs(x.v) <= x.e)

        def to(v):
            whole = np.trunc(np.nan_to_num(v, nan=0.0, posinf=np.inf, neginf=-np.inf)).astype(np.longdouble)
            inside = np.clip(whole, low, high)
            # A long double holds every integer of 64 bits.
            small = np.where(inside >= 2.0**63, 0, inside).astype(np.int64).astype(np.uint64)
            large = (np.where(inside >= 2.0**63, inside - 2.0**63, 0)).astype(np.int64).astype(np.uint64) + np.uint64(
                2**63
            )
            return np.where(inside >= 2.0**63, large, small).astype(INTEGERS[dtype])

        v = to(x.v)
        return v, 0, (x.e > 0) & ((to(x.v - x.e) != v) | (to(x.v + x.e) != v))

    return pointwise(dtype, of, x)


@op("cast")
def cast(attrs, x):
    dtype = attrs["dtype"]
    if dtype == x.dtype:
        return [x]
    if dtype in FLOATS:
        wide = held_type(dtype)
        if not x.is_float:
            v = x.v.astype(np.longdouble)
            # An integer of 64 bits that f64 does not hold has its error before it is rounded.
            return [computed(dtype, v.astype(wide), np.abs(v.astype(wide) - v).astype(wide), x.unsure)]
        # A wide float rounds to what is held here, which a narrow one is rounded from.
        return [pointwise(dtype, lambda x: (x.v.astype(wide), x.e.astype(wide)), x)]
    if x.is_float:
        return [cast_to_integer(x, dtype)]
    v = (x.v != 0) if dtype == "bool" else x.v.astype(held_type(dtype))
    return [Value(dtype, v, None, x.unsure)]


@op("clamp")
def clamp(attrs, x, low=None, high=None):
    result = x
    if low is not None:
        result = OPS["maximum"]({}, result, low)[0]
    if high is not None:
        result = OPS["minimum"]({}, result, high)[0]
    return [read(result)]


# ---- activations


def sigmoid(x):
    return np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x))))


def softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def activation(name, function, steepest=1.2, absolute=0.0, flushes=False):
    """`absolute`: an error of so many f32 units times max(1, |x|), which cancellation makes, beside those of the result's last place.
    `flushes`: a result below the normal numbers may be 0, as a quotient by a number that overflows is."""

    def of(attrs, x):
        def body(x):
            v = function(x.v, attrs)
            slope = steepest(attrs) if callable(steepest) else steepest
            near = (
                np.where(np.isfinite(x.v), np.maximum(1, np.abs(x.v)), 0)
                * absolute
                * FLOATS["f64" if x.dtype == "f64" else "f32"].unit
            )
            if flushes:
                near = near + np.finfo(np.float64 if x.dtype == "f64" else np.float32).tiny
            return v, np.where(x.e > 0, slope * x.e, 0) + near, ~np.isfinite(x.v) & ~np.isfinite(v) & (x.e > 0)

        return [pointwise(x.dtype, body, x, ulps=8, exact=False)]

    OPS[name] = of


def half_infinite(function, at_minus_infinity=np.nan):
    """x * g(x) where g is 0 for -inf: the product is NaN there, unless it is a quotient."""
    return lambda x, attrs: np.where(x == -np.inf, at_minus_infinity, function(np.where(x == -np.inf, 0, x), attrs))


def gelu(x, attrs):
    if attrs.get("approximate", "none") == "none":
        return x * 0.5 * (1 + erf(x / math.sqrt(2)))
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def negative_part(function):
    return lambda x, attrs: np.where(x < 0, function(np.where(x < 0, x, 0), attrs), x)


activation("gelu", half_infinite(gelu), absolute=16)
activation("silu", half_infinite(lambda x, attrs: x * sigmoid(x), np.nan), absolute=8)
activation("mish", half_infinite(lambda x, attrs: x * np.tanh(softplus(x))), absolute=16)
activation("sigmoid", lambda x, attrs: sigmoid(x), flushes=True)
activation("softplus", lambda x, attrs: softplus(x), absolute=4)
activation("softsign", lambda x, attrs: x / (1 + np.abs(x)))
activation(
    "elu",
    negative_part(lambda x, attrs: attrs.get("alpha", 1.0) * np.expm1(x)),
    lambda attrs: max(1, attrs.get("alpha", 1.0)),
)
activation("celu", negative_part(lambda x, attrs: attrs.get("alpha", 1.0) * np.expm1(x / attrs.get("alpha", 1.0))))
activation(
    "selu",
    lambda x, attrs: (
        1.05070102214813232421875 * np.where(x < 0, 1.67326319217681884765625 * np.expm1(np.minimum(x, 0)), x)
    ),
    1.8,
)
activation(
    "leaky_relu",
    negative_part(lambda x, attrs: attrs.get("alpha", 0.01) * x),
    lambda attrs: max(1, abs(attrs.get("alpha", 0.01))),
)
activation(
    "hardsigmoid",
    lambda x, attrs: np.clip(attrs.get("alpha", 0.2) * x + attrs.get("beta", 0.5), 0, 1),
    lambda attrs: abs(attrs.get("alpha", 0.2)),
    absolute=2,
)
activation("hardswish", half_infinite(lambda x, attrs: x * np.clip(x / 6 + 0.5, 0, 1)), 2, absolute=8)


@op("relu")
def relu(attrs, x):
    return OPS["maximum"](attrs, x, Value(x.dtype, np.zeros((), held_type(x.dtype))))


@op("prelu")
def prelu(attrs, x, slope):
    scaled = OPS["mul"](attrs, x, slope)[0]
    below = OPS["lt"](attrs, x, Value(x.dtype, np.zeros((), held_type(x.dtype))))[0]
    return where({}, below, scaled, read(Value(x.dtype, x.v, x.e, x.unsure)))


def with_edges(x, function, edges):
    """Of a function that jumps at `edges`, which are rounded to x's dtype or to f32, or not."""

    def body(x):
        near = np.zeros(x.shape, bool)
        for edge in edges:
            is_exact = edge == float(np.float32(edge))
            near |= (np.abs(x.v - edge) <= x.e + 1e-6 * abs(edge) * (not is_exact)) & ~((x.e == 0) & is_exact)
        return function(x.v), x.e, near

    return [pointwise(x.dtype, body, x, ulps=2)]


@op("thresholded_relu")
def thresholded_relu(attrs, x):
    alpha = attrs.get("alpha", 1.0)
    return with_edges(x, lambda v: np.where(v > alpha, v, 0), [alpha])  # NaN is not greater than anything


@op("shrink")
def shrink(attrs, x):
    bias, edge = attrs.get("bias", 0.0), attrs.get("lambda", 0.5)
    return with_edges(x, lambda v: np.where(v < -edge, v + bias, np.where(v > edge, v - bias, 0)), [-edge, edge])


# ---- quantisation


def parameter(attrs, x, y):
    """A scale or zero so that it broadcasts to x."""
    if y is None or y.v.size == 1:
        return None if y is None else moved(y, lambda a: a.reshape(()))
    shape = [1] * len(x.shape)
    shape[attrs.get("axis", 1)] = y.v.size
    return moved(y, lambda a: a.reshape(shape))


@op("quantize_linear")
def quantize_linear(attrs, x, scale, zero=None):
    dtype = zero.dtype if zero is not None else attrs.get("dtype", "u8")
    quotient = OPS["div"]({}, x, parameter(attrs, x, scale))[0]
    # Where the quotient is rounded to the type of x or not decides ties.
    q = OPS["round"]({}, Value("f64" if x.dtype == "f64" else "f32", quotient.v, quotient.e, quotient.unsure))[0]
    if zero is not None:
        q = OPS["add"]({}, q, cast({"dtype": q.dtype}, parameter(attrs, x, zero))[0])[0]
    return [cast_to_integer(q, dtype)]


@op("dequantize_linear")
def dequantize_linear(attrs, x, scale, zero=None):
    scale, zero = parameter(attrs, x, scale), parameter(attrs, x, zero)
    # The difference in exact arithmetic, which is rounded when it becomes a float.
    difference = x.v.astype(np.longdouble) - (zero.v.astype(np.longdouble) if zero is not None else 0)
    wide = "f64" if scale.dtype == "f64" else "f32"
    held = difference.astype(held_type(wide))
    unsure = x.unsure if zero is None else together(x, zero)
    factor = Value(wide, scale.v, scale.e, scale.unsure, scale.raw)
    product = OPS["mul"]({}, computed(wide, held, np.abs(held - difference), unsure, ulps=3), factor)[0]
    return [computed(scale.dtype, product.v, product.e, product.unsure)]
