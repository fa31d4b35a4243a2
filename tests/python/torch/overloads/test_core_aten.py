# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Overloads of ATen that the models and the topics of the other tests lack."""

import math

import torch
from common import BackendTest, main
from ferrite import Error, Session

aten = torch.ops.aten
special = torch.special
infinity = math.inf

POSITIVE = torch.tensor([1e-6, 1e-2, 0.3, 1.0, 1.9, 2.1, 3.7, 7.9, 8.1, 20.0, 60.0])
SMALL = torch.linspace(-3, 3, 13)


class CoreAten(BackendTest):
    def test_distances_of_pairs(self):
        def run(x):
            return [torch.pdist(x, p) for p in (0.0, 1.0, 2.0, 3.0, infinity)]

        eager = torch.randn(6, 4, requires_grad=True)
        own = eager.detach().clone().requires_grad_()
        expected, actual = run(eager), self.compiled(run)(own)
        self.compare([one.detach() for one in actual], [one.detach() for one in expected])
        for results in (expected, actual):
            sum(one.square().sum() for one in results).backward()
        self.compare(own.grad, eager.grad)
        self.check(torch.pdist, torch.randn(300, 3))

    def test_modes(self):
        for x in (torch.randint(0, 4, (5, 30)), torch.randint(0, 9, (40,)).float(), torch.randn(3, 1)):
            run = self.compiled(lambda x: torch.mode(x, 0))
            values, places = run(x)
            self.compare(values, torch.mode(x, 0).values)
            self.compare(x.gather(0, places.unsqueeze(0)).squeeze(0), values)

    def test_medians_of_numbers(self):
        x = torch.tensor([[1.0, math.nan, 3.0, 2.0, -5.0], [math.nan, 4.0, -1.0, math.nan, math.nan], [math.nan] * 5])
        self.check(lambda x: [torch.nanmedian(x), torch.nanmedian(x, 1).values, *torch.nanmedian(x[:2], 1)], x)

    def test_running_extremes(self):
        x = torch.tensor([[1.0, 3.0, 3.0, 2.0, math.nan, 9.0, math.nan], [4.0, 4.0, -1.0, 5.0, -infinity, infinity, 0.0]])
        self.check(lambda x: [*torch.cummax(x, 1), *torch.cummin(x, 1), *torch.cummax(x, 0)], x)
        self.check(lambda x: [*torch.cummax(x, 0), *torch.cummin(x, 0)], torch.randint(0, 5, (37, 2)))

    def test_col2im(self):
        for size, kernel, options in (
            ((5, 6), (2, 3), {}),
            ((7, 8), (3, 2), {"padding": (1, 0), "stride": (2, 1)}),
            ((9, 9), 2, {"dilation": 3, "padding": 1, "stride": 2}),
        ):
            with self.subTest(size=size):
                columns = torch.nn.functional.unfold(torch.randn(2, 3, *size), kernel, **options)
                self.check(lambda c, s=size, k=kernel, o=options: torch.nn.functional.fold(c, s, k, **o), columns)

    def test_regions_of_interest(self):
        try:
            from torchvision.ops import roi_align
        except ImportError:
            self.skipTest("torchvision is not installed")
        image = torch.randn(2, 3, 12, 17)
        regions = torch.tensor([[0, 1.5, 2.0, 9.0, 8.0], [1, -6.0, 3.0, 4.0, 30.0], [0, 5.0, 5.0, 5.2, 5.1], [1, 20.0, 20.0, 25.0, 29.0]])
        for aligned in (False, True):
            self.check(lambda x, r, a=aligned: roi_align(x, r, (3, 4), 0.7, 2, a), image, regions)

    def test_resize(self):
        self.check(lambda x: [aten.resize(x, [2, 2]), aten.resize(x, [6])], torch.randn(2, 3))

    def test_special_functions(self):
        self.check(
            lambda x: [special.modified_bessel_k0(x), special.modified_bessel_k1(x), special.scaled_modified_bessel_k0(x),
                       special.scaled_modified_bessel_k1(x), torch.polygamma(1, x)],
            POSITIVE,
        )  # fmt: skip
        self.check(
            lambda x: [special.modified_bessel_i0(x), special.modified_bessel_i1(x), special.i0e(x), special.i1e(x),
                       special.erfcx(-x.abs() / 8), torch.polygamma(1, x + 0.25)],
            torch.cat((SMALL, SMALL * 10)),
        )  # fmt: skip

    def test_bessel_functions_against_f64(self):
        def run(x):
            return [special.bessel_j0(x), special.bessel_j1(x), special.bessel_y0(x), special.bessel_y1(x)]

        x = torch.linspace(0.1, 60, 77)
        for one, other in zip(self.compiled(run)(x), run(x.double()), strict=True):
            torch.testing.assert_close(one, other.float(), rtol=1e-5, atol=2e-6)

    def test_f64_is_computed_to_its_precision(self):
        x = torch.linspace(-30, 30, 301, dtype=torch.float64) + 0.0123
        near = torch.linspace(-0.9999, 0.9999, 101, dtype=torch.float64)

        def run(x, near):
            y = x.abs()
            return [torch.erfc(x), special.erfcx(x / 4), torch.lgamma(x), torch.digamma(x), torch.i0(x), special.i0e(x), special.i1(x),
                    special.i1e(x), special.modified_bessel_k0(y), special.modified_bessel_k1(y), torch.erfinv(near), special.ndtri(near.abs())]  # fmt: skip

        for one, other in zip(self.compiled(run)(x, near), run(x, near), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)

    def test_incomplete_gamma_functions_and_zeta(self):
        torch.manual_seed(0)
        a = torch.cat([torch.rand(300, dtype=torch.float64) * most for most in (1, 30, 200, 1e5)])
        x = a * torch.exp(torch.randn(len(a), dtype=torch.float64) * 3 / a.clamp(min=1).sqrt())
        edges = torch.cartesian_prod(*[torch.tensor([-1, 0, 1, 70, infinity, math.nan], dtype=torch.float64)] * 2).unbind(1)
        for a, x in ((a, x), edges):
            for function in (special.gammainc, special.gammaincc):
                # PyTorch's own asymptotic series is this far from the exact value.
                torch.testing.assert_close(self.compiled(function)(a, x), function(a, x), rtol=1e-8, atol=1e-9, equal_nan=True)
        s = torch.rand(500, dtype=torch.float64) * 12 - 1
        q = torch.rand(500, dtype=torch.float64) * 30 + 1e-3
        odd = [[1, 2], [2, 0], [2, -1], [3, -2.5], [2.5, -2.5], [3, -20.5], [0.5, 1], [math.nan, 1], [2, math.nan], [2, infinity]]
        odd = torch.tensor(odd, dtype=torch.float64)
        for s, q in ((s, q), odd.unbind(1)):
            torch.testing.assert_close(self.compiled(special.zeta)(s, q), special.zeta(s, q), rtol=1e-12, atol=0, equal_nan=True)
        torch.testing.assert_close(
            self.compiled(lambda q: [torch.polygamma(n, q) for n in (0, 1, 2, 5)])(q[q > 0]),
            [torch.polygamma(n, q[q > 0]) for n in (0, 1, 2, 5)], rtol=1e-9, atol=1e-9, equal_nan=True)  # fmt: skip

    def test_what_no_graph_expresses_is_refused_by_name(self):
        def refusal(overload):
            stream = (
                '{"aten": 1, "inputs": [["x", "float32", [2]]], "nodes": [["%s", "n", "", [{"v": 0}], {}, '
                '[["float32", [2]]]]], "outputs": [["y", 1]]}' % overload
            )
            with self.assertRaises(Error) as raised:
                Session(threads=1).load("x.aten", stream.encode()).run(torch.ones(2))
            return str(raised.exception)

        self.assertIn("complex numbers are not supported", refusal("aten._fft_r2c.default"))
        self.assertIn("depend on the values", refusal("aten.nonzero.default"))
        self.assertIn("writes into its argument", refusal("aten.resize_.default"))
        self.assertIn("export the program without dynamic_shapes", refusal("aten.sym_size.int"))


if __name__ == "__main__":
    main()
