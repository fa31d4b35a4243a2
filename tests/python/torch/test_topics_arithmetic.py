# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Dtype promotion, integers at their limits, reductions, masks, broadcasting, empty tensors and tensors without dims."""

import math

import torch
from common import main
from topics import TopicTest, case, topic

torch.manual_seed(0)
x, y = torch.randn(4, 6), torch.randn(4, 6)
cube = torch.randn(2, 3, 4)
n = torch.arange(-12, 12).view(4, 6)
odd = torch.tensor([0.0, -0.0, 1.5, -2.5, 0.5, math.inf, -math.inf, math.nan, 1e-40, 3e38])
floats = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
integers = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


def of_each(dtypes, function, tensor):
    """The function of the tensor in each dtype."""
    return case(lambda *all: tuple(function(one) for one in all), *[tensor.to(dtype) for dtype in dtypes])


def each_pair(function, *tensors):
    return case(lambda *all: tuple(function(a, b) for a in all for b in all), *tensors)


kinds = [x[:, 0].to(dtype) for dtype in (torch.bool, torch.uint8, torch.int16, torch.int64, torch.bfloat16, torch.float16, torch.float32, torch.float64)]
scalars = [torch.tensor(2, dtype=dtype) for dtype in (torch.uint8, torch.int64, torch.float16, torch.float32, torch.float64)]

Promotion = topic("Promotion", {
    "sums of dtypes": each_pair(lambda a, b: a + b, *kinds),
    "products of dtypes": each_pair(lambda a, b: a * b, *kinds),
    "comparisons of dtypes": each_pair(lambda a, b: a < b, *kinds),
    "quotients of dtypes": each_pair(lambda a, b: a / (b + 3), *kinds[1:]),
    "tensors without dims": case(lambda *all: tuple(a * b for a in all[:8] for b in all[8:]), *kinds, *scalars),
    "numbers": of_each((*integers, *floats), lambda a: (a + 1, a * 2.5, a * True, 3 - a, 2.0 / (a + 20)), n),
    "numbers and bools": case(lambda b: (b + 1, b * 2.5, b + True, b | True), x > 0),
    "where": case(lambda m, a, b: (torch.where(m, a, b), torch.where(m, b, 1.5), torch.where(m, 1, a), torch.where(m, 1.0, 2)), x > 0, x, n),
    "cat": case(lambda a, b, c: torch.cat([a, b, c]), x, n, n.half()),
    "stack of bools and integers": case(lambda a, b: torch.stack([a > 0, b > 0]), x, n),
    "sums of integers are of 64 bits": of_each((*integers, torch.bool), lambda a: (a.sum(), a.prod(0), a.cumsum(1)), n),
    "means in a dtype": case(lambda a: (a.mean(dtype=torch.float32), a.sum(dtype=torch.float64), a.half().sum(dtype=torch.float32)), n.int() * 1.0),
    "integer division": of_each(integers, lambda a: (a / 3, a // 3, a % 5), n),
    "results of comparisons": case(lambda a, b: (a == b, a != b, a >= b, torch.isclose(a, b + 1e-9)), x, n),
    "conversions of floats": of_each(floats, lambda a: (a.to(torch.int32), a.bool(), a.to(torch.float16), a.to(torch.bfloat16), a.double()), x * 10),
    "conversions of integers": of_each(integers, lambda a: (a.to(torch.int8), a.to(torch.uint8), a.float(), a.half(), a.bool()), n * 9),
    "powers": case(lambda a, b: (a ** 2, b ** 2, 2 ** b, b ** 2.0, a.abs() ** b, b ** b.abs()), x, n),
    "clamp": case(lambda a: (a.clamp(0, 5), a.clamp(0.5), a.clamp(max=torch.tensor(3.5)), a.clamp(torch.tensor(1))), n),
    "arange": case(lambda: (torch.arange(5), torch.arange(0, 1, 0.25), torch.arange(5, dtype=torch.float16), torch.arange(6, 0, -2))),
    "full": case(lambda: (torch.full((2,), 3), torch.full((2,), 3.0), torch.full((2,), True), torch.ones(2, dtype=torch.int8))),
    "bf16 rounds once": of_each((torch.bfloat16, torch.float16), lambda a: (a * 3 + 1, torch.exp(a), torch.sigmoid(a) * a), x),
    "result type of lerp and addcmul": case(lambda a, b: (torch.lerp(a, b, 0.5), torch.addcmul(a, b, b)), x.half(), y.half()),
})

least, most = torch.iinfo(torch.int64).min, torch.iinfo(torch.int64).max
limits = torch.tensor([least, least + 1, -7, -1, 1, 2, 7, most - 1, most])
bytes_ = torch.arange(0, 256, 5).to(torch.uint8)
small = torch.tensor([-128, -127, -7, -1, 1, 3, 126, 127], dtype=torch.int8)
ints = torch.tensor([-9, -8, -7, -1, 1, 6, 7, 8, 9])

Integers = topic("Integers", {
    "wrap around": case(lambda l: (l + 1, l - 1, l * 3, -l, l.abs()), limits),
    "bytes wrap around": case(lambda b: (b + 250, b * 7, b - 9, -b, ~b), bytes_),
    "small ones wrap around": case(lambda s: (s + s, s * s, -s, s.abs(), s - 100), small),
    "floor division": case(lambda i: tuple(i // d for d in (2, -2, 3, -3)), ints),
    "floor division at the limits": case(lambda l, s: (l // -3, l // 2, l // least, l // l.flip(0), s // -3, s // -128, s // s.flip(0)), limits, small),
    "truncated division": case(lambda i: tuple(torch.div(i, d, rounding_mode="trunc") for d in (2, -2, 3, -3)), ints),
    "remainders": case(lambda i: tuple(f(i, d) for d in (2, -2, 3, -3) for f in (torch.remainder, torch.fmod)), ints),
    "floor division of tensors": case(lambda i: (i.view(-1, 1) // i, i.view(-1, 1) % i), ints),
    "division of bytes": case(lambda b: (b // 7, b % 7, b / 7), bytes_),
    "shifts": case(lambda i: (i << 2, i >> 1, i << torch.arange(9), i >> torch.arange(9)), ints),
    "shifts by more than the width": case(lambda s: (s << 8, s >> 8, s << 7, s >> 7, s << 100, s >> 100), small),
    "shifts by negative numbers": case(lambda s: (s << -1, s >> -1), small),
    "shifts of bytes": case(lambda b: (b << 1, b >> 1, b << 8, b >> 9), bytes_),
    "shifts of 32 bits": case(lambda i: (i << 30, i << 31, i >> 31), ints.int()),
    "named shifts": case(lambda i: (torch.bitwise_left_shift(i, 3), torch.bitwise_right_shift(i, 1), torch.bitwise_left_shift(2, i.abs())), ints),
    "shifts promote": case(lambda s, i: (s << i, i.int() >> s), small, ints[1:]),
    "shifts in place": case(lambda i: i.clone().__ilshift__(2).__irshift__(1), ints),
    "bits": case(lambda i, j: (i & j, i | j, i ^ j, ~i, i & 6, i | True), ints, ints.flip(0)),
    "bits of bools": case(lambda a, b: (a & b, a | b, a ^ b, ~a), x > 0, y > 0),
    "signs": case(lambda l: (l.sign(), l.sgn(), l < 0, torch.signbit(l)), limits),
    "minimum and maximum": case(lambda l: (l.min(), l.max(), l.argmin(), l.argmax(), torch.maximum(l, l.flip(0))), limits),
    "powers": case(lambda i: (i ** 0, i ** 3, i ** 17, torch.pow(3, i.abs())), ints),
    "large sums": case(lambda l: (l.sum(), l.cumsum(0), l.cumprod(0), l.prod()), limits),
    "as floats": case(lambda l: (l.double(), l.float(), l / 3), limits),
    "to bytes": case(lambda i: (i.to(torch.uint8), (i * 100).to(torch.int8), (i * 100000).to(torch.int16)), ints),
    "gcd": case(lambda i: (torch.gcd(i, i.flip(0) * 6), torch.lcm(i, i.flip(0) + 2)), ints),
    "gcd of bytes": case(lambda i: torch.gcd(i.to(torch.uint8), torch.tensor(12, dtype=torch.uint8)), ints),
    "gcd at the limits": case(lambda l: (torch.gcd(l[1:], l.flip(0)[:-1]), torch.gcd(l // 3, l // 6)), limits),
    "gcd of the most steps": case(
        torch.gcd, torch.tensor([7540113804746346429, 4660046610375530309, 0, 6]), torch.tensor([4660046610375530309, 7540113804746346429, 0, 0])
    ),
    "means": case(lambda i: (i.float().mean(), i.double().var()), ints),
    "comparison at the limits": case(lambda l: (l > most - 1, l == least, l >= l.flip(0)), limits),
    "clamp at the limits": case(lambda l: (l.clamp(least + 1, most - 1), l.clamp(-5, 5)), limits),
})

Floats = topic("Floats", {
    "rounding": case(lambda o: (o.round(), o.floor(), o.ceil(), o.trunc(), o.frac()), odd),
    "ties": case(lambda t: (t.round(), t.round(decimals=1)), torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5, 0.25, 0.35])),
    "remainders": case(lambda o: (o % 2, torch.fmod(o, 2), o // 2, o % -3, o // -0.7, o // o.flip(0), 3 // o), odd),
    "special values": case(lambda o: (o.isnan(), o.isinf(), o.isfinite(), o.sign(), o.signbit(), o.nan_to_num()), odd),
    "numbers beyond 64 bits": case(lambda o: (o * 2**63, o + 2**63, o - 2**63), odd[:5]),
    "minimum and maximum": case(lambda o: (o.amax(), o.amin(), o.max(), torch.fmax(o, o.flip(0)), torch.minimum(o, o.flip(0))), odd),
    "comparisons": case(lambda o: (o < o.flip(0), o == o, o != o, o >= 0), odd),
    "functions": case(lambda o: (o.exp(), o.sin(), o.abs().sqrt(), o.abs().log(), o.tanh(), o.sigmoid(), o.erf()), odd[:-2]),
    "powers": case(lambda o: (o ** 2, o ** 3, o ** 0.5, o ** -0.5, o ** -1, o ** 0, 2 ** o), odd[:8]),
    "divisions by zero": case(lambda o: (o / 0, 1 / o, 0 / o), odd),
    "clamp": case(lambda o: (o.clamp(-1, 1), o.clamp_min(0), torch.clamp(o, max=2)), odd),
    "powers of two and angles": case(lambda o, n: (torch.ldexp(o, n), torch.ldexp(n, n), o.angle(), n.angle()), odd[:8], torch.arange(-3, 5)),
    "copysign": case(lambda o: (torch.copysign(o, o.flip(0)), torch.copysign(torch.ones(10), o)), odd),
    "softmax of infinities": case(lambda o: (o.softmax(0), o.log_softmax(0)), torch.tensor([1.0, -math.inf, 3.0, -math.inf])),
    "logaddexp": case(lambda a, b: (torch.logaddexp(a, b), torch.logaddexp(a, torch.full_like(a, -math.inf))), x, y, gradients=True),
    "dist": case(lambda a, b: tuple(torch.dist(a, b, p) for p in (0, 0.5, 1, 2, 3, math.inf, -math.inf)), x, y),
    "dist of rows": case(lambda a, b: torch.dist(a, b[0]), x, y, gradients=True),
    "distances of rows": case(lambda a, b: tuple(torch.cdist(a, b[:3], p) for p in (0.5, 1.0, 1.5, 2.0, 3.0, math.inf)), x, y, gradients=True),
    "distances of equal rows": case(lambda a: (torch.cdist(a, a * 1, 1.5), torch.cdist(a, a[:0])), x, gradients=True),
    "distances of rows in batches": case(lambda c: torch.cdist(c, c[:1] + 1, 2.0, "donot_use_mm_for_euclid_dist"), cube, gradients=True),
    "to integers": case(lambda o: (o.long(), o.int(), o.short()), torch.tensor([0.9, -0.9, 1.5, -1.5, 100.7])),
    "accuracy of functions": case(lambda a: (a.exp(), a.sin(), a.tanh(), torch.erf(a), torch.log1p(a.abs()), a.sigmoid()), x * 3, reference=True),
    "accuracy in bf16": case(lambda a: (a.exp(), a.sin(), a.tanh(), torch.nn.functional.gelu(a)), x.bfloat16(), reference=True),
})


def sum_gradients(a):
    return a.sum(0), a.mean(), a.sum((0, 2), keepdim=True), a.square().sum(-1)


Reductions = topic("Reductions", {
    "sums": case(sum_gradients, cube, gradients=True),
    "over all dims orders": case(lambda c: (c.permute(2, 0, 1).sum(1), c.transpose(0, 2).mean(0)), cube, gradients=True),
    "products": case(lambda a: (a.prod(), a.prod(0), a.prod(1, keepdim=True)), x, gradients=True),
    "products with zeros": case(lambda a: a.prod(1), torch.tensor([[1.0, 0, 3], [0, 0, 2], [4, 5, 6]]), gradients=True),
    "minimum and maximum": case(lambda a: (a.max(0), a.min(1, keepdim=True), a.amax((0, 1)), a.amin(1)), x, gradients=True),
    "equal greatest": case(lambda a: (a.max(), a.amax(1), a.max(1).values), torch.tensor([[1.0, 3, 3], [2, 2, 2]]), gradients=True),
    "places": case(lambda a: (a.argmax(), a.argmin(1), a.argmax(0, keepdim=True)), x),
    "places of equal elements": case(lambda i: (i.argmax(), i.argmin(), i.argmax(1), i.max(1).indices), torch.tensor([[3, 3, 1], [2, 2, 2]])),
    "variance": case(lambda a: (a.var(), a.std(0), a.var(1, correction=0), torch.var_mean(a, 1)), x, gradients=True),
    "norms": case(lambda a: (a.norm(), a.norm(1, 1), torch.linalg.vector_norm(a, 3, 0), a.norm(math.inf, 0)), x, gradients=True),
    "any and all": case(lambda a: ((a > 0).any(), (a > 0).all(0), (a > 5).any(1, keepdim=True), a.bool().all()), x),
    "log sum exp": case(lambda a: (a.logsumexp(0), a.logsumexp((0, 1)), a.softmax(1), a.log_softmax(0)), x, gradients=True),
    "cumulative": case(lambda a: (a.cumsum(1), a.cumprod(0), a.logcumsumexp(1)), x, gradients=True, fallback="silent"),
    "cumulative extremes": case(lambda a: (a.cummax(1), a.cummin(0)), x, fallback="silent"),
    "counts": case(lambda a: ((a > 0).sum(), torch.count_nonzero(a > 0, 1)), x),
    "of bf16 add up in f32": case(lambda a: (a.sum(), a.mean(0), a.softmax(1)), torch.randn(64, 256).bfloat16(), reference=True),
    "long rows": case(lambda a: (a.sum(1), a.mean(), a.var(1)), torch.randn(3, 5000), reference=True),
    "over no dims": case(lambda a: (a.sum([]), a.sum(())), x),
    "of sizes of one": case(lambda a: (a.sum(1), a.max(1).values, a.var(1, correction=0)), torch.randn(5, 1)),
    "median": case(lambda a: (a.median(), a.median(1), a.median(0, keepdim=True), (a * 9).long().median()), torch.randperm(30).view(5, 6) / 7, gradients=True),
    "median with nan": case(lambda o: (o.median(), o.view(2, 5).median(1).values, o.nanmedian()), odd, fallback="silent"),
    "mode": case(lambda i: i.mode().values, n % 5, fallback="silent"),
    "trace": case(lambda a: a[:4, :4].trace(), x, gradients=True),
    "nan ignoring": case(lambda o: (o.nansum(), o.nanmean()), torch.tensor([1.0, math.nan, 3.0]), gradients=True),
    "einsum": case(lambda a, b: (torch.einsum("ij,kj->ik", a, b), torch.einsum("ij->j", a)), x, y, gradients=True),
})

mask = x > 0
Masks = topic("Masks", {
    "where": case(lambda m, a, b: torch.where(m, a, b), mask, x, y, gradients=True),
    "where broadcasts": case(lambda m, a: torch.where(m[:, :1], a[0], torch.tensor(2.0)), mask, x, gradients=True),
    "masked fill": case(lambda m, a: a.masked_fill(m, -1e9).softmax(1), mask, x, gradients=True),
    "select by a mask": case(lambda m, a: a[m], mask, x, fallback="silent"),
    "nonzero": case(lambda m: m.nonzero(), mask, fallback="silent"),
    "nonzero of a known count": case(lambda m: (torch.nonzero_static(m, size=5), torch.nonzero_static(m[0], size=9, fill_value=7)), mask),
    "masked select and sum": case(lambda m, a: a.masked_select(m).sum(), mask, x, fallback="silent"),
    "assignment": case(lambda m, a: (b := a.clone(), b.__setitem__(m, 0.0))[0], mask, x),
    "assignment of a tensor": case(lambda m, a, b: torch.where(m, a, 0) + b.masked_scatter(m, a), mask, x, y, fallback="silent"),
    "triangles": case(lambda a: (a.tril(), a.triu(1), torch.ones(3, 3, dtype=torch.bool).tril(-1)), x, gradients=True),
    "logic": case(lambda m, a: (m & (a < 1), m | ~m, m ^ (a > 0.5), torch.logical_not(a), m.logical_and(a)), mask, x),
    "mask without dims": case(lambda a: torch.where(torch.tensor(True), a, -a), x),
    "mask of integers": case(lambda i: torch.where(i % 2 == 0, i, -1), n),
    "isin": case(lambda i: torch.isin(i, torch.tensor([1, 3, 5])), n, fallback="silent"),
    "nan to num": case(lambda o: o.nan_to_num(1.0, 2.0, -2.0), odd, gradients=True),
    "one hot": case(lambda i: torch.nn.functional.one_hot(i.abs() % 5, 5), n, fallback="silent"),
    "one hot of unknown size": case(lambda i: torch.nn.functional.one_hot(i.abs() % 5), n, fallback="silent"),
})

empty = torch.empty(0, 3)
Shapes = topic("Shapes", {
    "broadcast rows and columns": case(lambda a, b: (a[:, :1] + b[:1], a[0] * b, a[:, :1] - a[:1]), x, y, gradients=True),
    "broadcast of ranks": case(lambda c, a: (c + a[:3, :4], c * a[0, :4], a[:3, :1] - c), cube, x, gradients=True),
    "broadcast of numbers": case(lambda a: (a + a.sum(), a.max() - a), x, gradients=True),
    "empty": case(lambda e: (e + 1, e.sum(), e.sum(0), e.t(), e.exp().mean(1)), empty),
    "empty joins": case(lambda e, a: (torch.cat([e, a[:, :3]]), torch.cat([torch.empty(0), a[0]]), torch.stack([e, e])), empty, x),
    "empty products": case(lambda e: (e @ torch.ones(3, 2), torch.ones(2, 0) @ e, e.prod(), e.t() @ e), empty),
    "empty logic": case(lambda e: ((e > 0).any(), (e > 0).all(), e.bool().sum()), empty),
    "empty gradients": case(lambda e: (e * 2).sum() + e.exp().mean(0).sum(), torch.empty(3, 0), gradients=True),
    "empty softmax": case(lambda e: (e.softmax(1), e.softmax(0), e.cumsum(0)), empty),
    "empty indices": case(lambda a: (a[torch.empty(0, dtype=torch.long)], a[1:1] * 2), x),
    "empty convolution": case(lambda e: torch.nn.functional.conv1d(e, torch.ones(2, 3, 2)), torch.empty(0, 3, 5)),
    "without dims": case(lambda s: (s + 1, s * s, s.sum(), s.max(), s.view(1), s.expand(3), s.exp()), torch.tensor(2.5), gradients=True),
    "without dims, of integers": case(lambda s: (s // 2, s % 3, s.float(), -s, s > 1, s.argmax()), torch.tensor(7)),
    "without dims, softmax and sort": case(lambda s: (s.softmax(0), s.sort(), s.cumsum(0), s.flip(0)), torch.tensor(2.5), fallback="silent"),
    "of numbers": case(lambda a: (torch.tensor(3.0) + a, torch.tensor([1, 2]) * a[0, :2], torch.scalar_tensor(2)), x),
    "index of an element": case(lambda a: (a[1, 2], a[1, 2] + a, a[-1][-1]), x, gradients=True),
    "high rank": case(lambda a: (a.view(2, 1, 2, 1, 3, 2).permute(5, 0, 2, 4, 1, 3) * 2).sum((0, 2)), x, gradients=True),
    "outer": case(lambda a: (torch.outer(a[0], a[1]), torch.meshgrid(a[0], a[1], indexing="ij")), x),
    "repeat and tile": case(lambda a: (a.repeat(2, 1, 2), a.tile(2), a.repeat_interleave(2, 1)), x, gradients=True),
    "flip and roll": case(lambda a: (a.flip(0), a.flip((0, 1)), a.roll(2, 1), a.rot90()), x, gradients=True),
})

z = torch.complex(x, y)
Complex = topic("Complex", {
    "arithmetic": case(lambda z: (z * z, z + 1, z.abs(), z.real, z.imag), z, fallback="silent"),
    "of parts": case(lambda a, b: torch.view_as_real(torch.complex(a, b).exp()) + 1, x, y, fallback="silent"),
    "conjugate": case(lambda z: (z.conj() * z).real, z, fallback="silent"),
    "fourier": case(lambda a: torch.fft.irfft(torch.fft.rfft(a * 2) * 3) + 1, x, fallback="silent"),
    "gradients": case(lambda a, b: torch.complex(a, b).abs() * 2, x, y, fallback="silent", gradients=True),
    "matrix product": case(lambda z: (z @ z.t()).abs() + 1, z, fallback="silent"),
})


class Rounding(TopicTest):
    def test_a_scaled_sum_of_a_product_is_rounded_once(self):
        def scaled(x, a):
            return torch.addmm(x, a, x, beta=3.4445)

        x, a = torch.randn(4, 5), torch.randn(4, 4)
        for dtype in (torch.bfloat16, torch.float16):
            narrow = x.to(dtype), a.to(dtype)
            exact = scaled(*(one.double() for one in narrow))
            error, eager = ((run(*narrow).double() - exact).abs().max() for run in (self.compiled(scaled), scaled))
            self.assertLessEqual(error, 1.1 * eager, dtype)


class ComplexIsRefused(TopicTest):
    def test_by_name(self):
        with self.assertRaisesRegex(Exception, "FE-Y02.*complex64"):
            self.compiled(lambda z: z * z)(z)


if __name__ == "__main__":
    main()
