# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The prims of PyTorch, each called by its own name."""

import math

import torch
from common import BackendTest, main
from ferrite.torch._compile import GraphSettings, compile_graph
from ferrite.torch._options import Options
from torch.fx.experimental.proxy_tensor import make_fx

prims = torch.ops.prims
infinity, nan = math.inf, math.nan

ANY_FLOAT = torch.tensor([-infinity, -40.0, -7.5, -2.0, -1.0, -0.5, -1e-3, -0.0, 0.0, 1e-3, 0.3, 0.5, 1.0, 1.5, 2.5, 7.9, 8.1, 30.0, infinity, nan])
FINITE = ANY_FLOAT[1:-2]
POSITIVE = torch.tensor([1e-6, 1e-2, 0.3, 1.0, 1.9, 2.1, 3.7, 7.9, 8.1, 20.0, 60.0])
WITHIN_ONE = torch.tensor([-1.0, -0.999, -0.75, -0.2, -1e-4, 0.0, 1e-3, 0.4, 0.6, 0.99999, 1.0])
SMALL = torch.linspace(-3, 3, 13)
INTEGERS = torch.tensor([-7, -3, -1, 0, 1, 2, 5, 9, 1 << 40])
OTHERS = torch.tensor([3, -2, 4, 5, -1, 7, 2, -9, 6])
BOOLS, OTHER_BOOLS = torch.tensor([True, True, False, False]), torch.tensor([True, False, True, False])


def every(*names):
    """A function of the same arguments for each of these prims, which returns the results in one list."""

    def function(*arguments):
        return [getattr(prims, name)(*arguments) for name in names]

    return function


class Prims(BackendTest):
    def check_all(self, names, *arguments):
        names = names.split()
        expected = every(*names)(*arguments)
        actual = self.compiled(every(*names))(*arguments)
        for name, one, other in zip(names, actual, expected, strict=True):
            with self.subTest(prim=name):
                self.compare(one, other)

    def test_of_one_float(self):
        self.check_all(
            "abs ceil floor round trunc neg sign isfinite exp2 erf erfc tanh atan asinh cbrt bessel_i0e bessel_i1e",
            ANY_FLOAT,
        )
        self.check_all("cos sin tan spherical_bessel_j0 digamma erf_inv acosh log log2 log10 log1p sqrt rsqrt acos atanh", FINITE)
        self.check_all("reciprocal expm1 exp lgamma erfcx", torch.tensor([-8.5, -2.25, -0.5, 0.1, 0.9, 1.0, 2.0, 2.1, 30.0, 1e4, infinity, nan]))
        self.check_all("acos asin atanh erf_inv erfc", WITHIN_ONE)
        self.check_all("sinh cosh expm1 bessel_i0 bessel_i1 bessel_j0 bessel_j1", torch.cat((SMALL, SMALL * 4, SMALL * 13)))
        self.check_all("lgamma digamma log acosh", POSITIVE)
        self.check_all("ndtri", torch.tensor([0.0, 1e-30, 1e-8, 1e-3, 0.2, 0.4, 0.5, 0.7, 0.999, 1.0, 1.5]))

    def test_of_two_positive_floats(self):
        x, y = torch.meshgrid(POSITIVE, POSITIVE, indexing="ij")
        self.check_all("igamma igammac zeta", x.reshape(-1), y.reshape(-1))
        self.check_all("gcd", INTEGERS, OTHERS)

    def test_of_one_integer_or_bool(self):
        self.check_all("abs ceil floor round trunc neg sign isfinite bitwise_not", INTEGERS)
        self.check_all("bitwise_not isfinite", BOOLS)

    def test_of_two_floats(self):
        x, y = torch.meshgrid(ANY_FLOAT, torch.tensor([-infinity, -2.0, -0.5, 0.0, 0.5, 3.0, nan]), indexing="ij")
        x, y = x.contiguous(), y.contiguous()
        self.check_all("add sub mul div eq ne lt le gt ge maximum minimum fmax fmin atan2 hypot pow nextafter", x, y)
        self.check_all("fmod remainder", x[1:-2, 1:3].contiguous(), y[1:-2, 1:3].contiguous())

    def test_of_two_integers_or_bools(self):
        self.check_all("add sub mul div fmod remainder eq ne lt le gt ge maximum minimum fmax fmin", INTEGERS, OTHERS)
        self.check_all("bitwise_and bitwise_or bitwise_xor", INTEGERS, OTHERS)
        self.check_all("shift_left shift_right_arithmetic pow", INTEGERS[:-1], OTHERS[:-1].abs())
        self.check_all("bitwise_and bitwise_or bitwise_xor eq ne maximum minimum", BOOLS, OTHER_BOOLS)

    def test_numbers_of_rank_0(self):
        self.check_all("add mul maximum lt", SMALL, 2.0)

    def test_special_values_of_floats(self):
        self.check_all("frexp", torch.tensor([0.0, -0.0, 1.0, -3.7, 1e-40, -1e-45, 3e38, infinity, nan]))
        self.check_all("frexp", torch.tensor([0.0, 1.0, -3.7, 1e-310, 1e300, -infinity], dtype=torch.float64))
        tiny = torch.tensor([0.0, 1e-45, -1e-45, 1.0, 3.4028235e38, -1.0])
        self.check_all("nextafter", tiny, torch.tensor([1.0, 0.0, 0.0, 2.0, infinity, -2.0]))

    def test_where(self):
        self.check(lambda p, a, b: prims.where(p, a, b), SMALL > 0, SMALL, -SMALL)
        self.check(lambda p, a, b: prims.where(p, a, b), INTEGERS > 0, INTEGERS, OTHERS)

    def test_views(self):
        def run(x):
            return [
                prims.transpose(x, [2, 0, 1]),
                prims.squeeze(prims.reshape(x, [2, 1, 12]), [1]),
                prims.split_dim(x, 2, 2),
                prims.collapse(x, 0, 1),
                prims.collapse_view(x, 1, 2),
                prims.broadcast_in_dim(x, [5, 2, 3, 4], [1, 2, 3]),
                prims.rev(x, [0, 2]),
                prims.cat([x, x + 1], 1),
                prims.as_strided(x, [3, 2], [4, 1], 1),
                prims.as_strided_scatter(x, x[0, :2, :2] * 2, [2, 2], [12, 1], 0),
                prims.view_of(x),
                prims.clone(x),
                prims.convert_element_type(x, torch.int64),
            ]

        # torch.compile takes no prim whose result is a view of its argument.
        for x in (torch.randn(2, 3, 4), torch.arange(24).reshape(2, 3, 4)):
            graph = make_fx(run, tracing_mode="fake")(x)
            settings = GraphSettings(Options.of({"fallback": "error"}), "inference")
            self.compare(compile_graph(graph, settings)([x]), run(x))

    def test_reductions(self):
        def run(x):
            return [prims.sum(x, [0, 2]), prims.prod(x, [1]), prims.amax(x, [0]), prims.amin(x, [1, 2])]

        self.check(run, torch.randn(2, 3, 4))
        self.check(run, torch.arange(24).reshape(2, 3, 4))
        self.check(lambda x: prims.var(x, [1], 1.0), torch.randn(3, 5))

    def test_the_exclusive_or_of_elements(self):
        x = torch.arange(35).reshape(5, 7) * 12345
        expected = x[0]
        for row in x[1:]:
            expected = expected ^ row
        self.compare(self.compiled(lambda x: prims.xor_sum(x, [0]))(x), expected)
        total = expected[0]
        for one in expected[1:]:
            total = total ^ one
        self.compare(self.compiled(lambda x: prims.xor_sum(x, [0, 1]))(x), total)

    def test_creation(self):
        kind = {"dtype": torch.float32, "device": torch.device("cpu"), "requires_grad": False}

        def run(x):
            return [
                x + prims.iota(6, start=2, step=3, **{**kind, "dtype": torch.int64}),
                prims.full([2, 3], 7, **kind),
                prims.full_like(x, 2.0, **kind),
                prims.scalar_tensor(3.0, dtype=torch.float32, device=torch.device("cpu")),
                prims.fill(x, 4.0),
                prims.empty_strided([2, 3], [3, 1], **kind).shape,
                prims.empty_permuted([2, 3], [0, 1], **kind).shape,
            ]

        self.check(run, torch.randn(6))


if __name__ == "__main__":
    main()
