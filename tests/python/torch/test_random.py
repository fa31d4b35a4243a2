# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers in compiled graphs: distributions, seeds, the same mask in both directions."""

import math
import pathlib
import tempfile
import unittest

import ferrite.torch
import torch
import torch.nn.functional as F
from common import BackendTest, main
from torch import nn


COUNT = 20000


class Draws(nn.Module):
    """Distributions, each with its mean and its deviation."""

    moments = {
        "rand": (0.5, 12**-0.5),
        "rand f16": (0.5, 12**-0.5),
        "randn": (0, 1),
        "uniform_": (2, 6 * 12**-0.5),
        "normal_": (3, 2),
        "normal": (3, 2),
        "log_normal_": (math.exp(0.5 + 0.02), math.exp(0.5 + 0.02) * math.expm1(0.04) ** 0.5),
        "exponential_": (0.5, 0.5),
        "geometric_": (4, 12**0.5),
        "bernoulli": (0.3, 0.21**0.5),
        "bernoulli_": (0.6, 0.24**0.5),
        "randint": (5, 2**0.5),
        "randint_like": (3, 2),
        "randperm": ((COUNT - 1) / 2, COUNT * 12**-0.5),
        "multinomial": (1.25, 1.1875**0.5),
        "dropout": (1, (1 / 0.75 - 1) ** 0.5),
    }

    def forward(self, zeros, weights):
        return {
            "rand": torch.rand(COUNT),
            "rand f16": torch.rand(COUNT, dtype=torch.float16),
            "randn": torch.randn_like(zeros),
            "uniform_": torch.empty(COUNT).uniform_(-1, 5),
            "normal_": torch.empty(COUNT).normal_(3, 2),
            "normal": torch.normal(zeros + 3, zeros + 2),
            "log_normal_": torch.empty(COUNT).log_normal_(0.5, 0.2),
            "exponential_": torch.empty(COUNT).exponential_(2),
            "geometric_": torch.empty(COUNT).geometric_(0.25),
            "bernoulli": torch.bernoulli(zeros + 0.3),
            "bernoulli_": torch.empty(COUNT).bernoulli_(0.6),
            "randint": torch.randint(3, 8, (COUNT,)),
            "randint_like": torch.randint_like(zeros, 7),
            "randperm": torch.randperm(COUNT),
            "multinomial": torch.multinomial(weights, COUNT, replacement=True),
            "dropout": F.dropout(zeros + 1, 0.25, training=True),
            "cauchy_": torch.empty(COUNT).cauchy_(2, 3),
            "few": torch.multinomial(weights.expand(5000, 4), 2),
        }


class Archives(unittest.TestCase):
    def test_distributions_of_an_archive(self):
        arguments = (torch.zeros(COUNT), torch.tensor([1.0, 2.0, 0.0, 1.0]))
        program = torch.export.export(Draws(), arguments).run_decompositions()
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "draws.pt2"
            torch.export.save(program, path)
            model = ferrite.Session(threads=1).load(path)
            results = [torch.from_numpy(one) for one in model.run(*(argument.numpy() for argument in arguments))]
        found = dict(zip(Draws()(*arguments), results, strict=True))
        for name, (mean, deviation) in Draws.moments.items():
            with self.subTest(name):
                x = found[name].double()
                self.assertAlmostEqual(x.mean().item(), mean, delta=5 * deviation / COUNT**0.5)
                self.assertAlmostEqual(x.std().item(), deviation, delta=0.05 * deviation)
        self.assertEqual(found["randperm"].unique().numel(), COUNT)
        self.assertEqual(found["randint"].unique().tolist(), [3, 4, 5, 6, 7])
        self.assertEqual(found["geometric_"].min().item(), 1)
        # The quartiles of a distribution without moments.
        quartiles = found["cauchy_"].double().quantile(torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64))
        torch.testing.assert_close(quartiles, torch.tensor([-1.0, 2.0, 5.0], dtype=torch.float64), atol=0.25, rtol=0)
        few = found["few"]
        self.assertFalse((few == 2).any() or (few[:, 0] == few[:, 1]).any())
        self.assertAlmostEqual((few[:, 0] == 1).double().mean().item(), 0.5, delta=0.04)


class Random(BackendTest):
    def compiled(self, model, **options):
        return super().compiled(model, fallback_random=False, **options)

    def test_a_seed_gives_the_same_numbers_again(self):
        run = self.compiled(lambda x: x + torch.rand(5) * torch.randn(3, 5))
        x = torch.zeros(5)
        torch.manual_seed(4)
        first, second = run(x), run(x)
        self.assertFalse(torch.equal(first, second))
        torch.manual_seed(4)
        self.assertTrue(torch.equal(run(x), first))
        self.assertTrue(torch.equal(run(x), second))

    def test_two_nodes_draw_different_numbers(self):
        one, other = self.compiled(lambda x: (torch.rand_like(x), torch.rand_like(x)))(torch.zeros(100))
        self.assertFalse(torch.equal(one, other))

    def test_they_fuse(self):
        found = ferrite.torch.explain(lambda x: F.dropout(x.sin(), 0.5) + 1, torch.randn(64, 64))
        (graph,) = found.graphs
        self.assertEqual(graph["unsupported"], [])
        self.assertEqual([program["kernels"] for program in graph["programs"]], [2])  # the seed is a kernel of its own

    def test_distributions(self):
        count = 40000

        def moments(draw, mean, deviation, low, high, dtype=torch.float32):
            torch._dynamo.reset()
            x = self.compiled(lambda like: draw(like))(torch.zeros(count))
            self.assertEqual(x.dtype, dtype)
            self.assertEqual(x.shape, (count,))
            x = x.double()
            self.assertAlmostEqual(x.mean().item(), mean, delta=5 * deviation / count**0.5)
            self.assertAlmostEqual(x.std().item(), deviation, delta=0.03 * deviation)
            self.assertGreaterEqual(x.min().item(), low)
            self.assertLess(x.max().item(), high)

        infinite = float("inf")
        cases = {
            "rand": (lambda like: torch.rand(count), 0.5, 12**-0.5, 0, 1),
            "rand_like": (torch.rand_like, 0.5, 12**-0.5, 0, 1),
            "rand bf16": (lambda like: torch.rand(count, dtype=torch.bfloat16), 0.5, 12**-0.5, 0, 1, torch.bfloat16),
            "rand f16": (lambda like: torch.rand(count, dtype=torch.float16), 0.5, 12**-0.5, 0, 1, torch.float16),
            "randn": (lambda like: torch.randn(count), 0, 1, -infinite, infinite),
            "normal": (lambda like: torch.normal(like + 3, 2.0), 3, 2, -infinite, infinite),
            "normal of tensors": (lambda like: torch.normal(like + 3, like + 2), 3, 2, -infinite, infinite),
            "normal_": (lambda like: torch.empty(count).normal_(3, 2), 3, 2, -infinite, infinite),
            "uniform_": (lambda like: torch.empty(count).uniform_(-1, 5), 2, 6 * 12**-0.5, -1, 5),
            "exponential_": (lambda like: torch.empty(count).exponential_(2), 0.5, 0.5, 1e-9, infinite),
            "normal of numbers": (lambda like: torch.normal(3.0, 2.0, (count,)), 3, 2, -infinite, infinite),
            "log_normal_": (lambda like: torch.empty(count).log_normal_(1, 0.25), 2.8046, 0.7123, 0, infinite),
            "cauchy_": (lambda like: torch.empty(count).cauchy_(2, 3).sub(2).div(3).atan(), 0, 3.14159 / 12**0.5, -1.5708, 1.5708),
            "geometric_": (lambda like: torch.empty(count).geometric_(0.25), 4, 12**0.5, 1, infinite),
            "bernoulli_": (lambda like: torch.empty(count).bernoulli_(0.3), 0.3, 0.21**0.5, 0, 1.1),
            "bernoulli": (lambda like: torch.bernoulli(like + 0.3), 0.3, 0.21**0.5, 0, 1.1),
            "randint": (lambda like: torch.randint(3, 7, (count,)), 4.5, 1.25**0.5, 3, 7, torch.int64),
            "randint i32": (lambda like: torch.randint(5, (count,), dtype=torch.int32), 2, 2**0.5, 0, 5, torch.int32),
            "randint_like": (lambda like: torch.randint_like(like, 7), 3, 2, 0, 7),
            "dropout": (lambda like: F.dropout(like + 1, 0.25), 1, (1 / 0.75 - 1) ** 0.5, 0, 1.34),
        }
        for name, case in cases.items():
            with self.subTest(name):
                moments(*case)

    def test_gumbel_softmax_is_finite(self):
        y = self.compiled(lambda x: F.gumbel_softmax(x, hard=True))(torch.zeros(1000, 3))
        self.assertTrue(torch.equal(y.sum(-1), torch.ones(1000)))

    def test_dropout_of_0_and_1(self):
        x = torch.randn(50, requires_grad=True)
        self.assertTrue(torch.equal(self.compiled(lambda x: F.dropout(x, 0.0))(x), x))
        torch._dynamo.reset()
        y = self.compiled(lambda x: F.dropout(x, 1.0))(x)
        y.sum().backward()
        self.assertEqual(y.abs().max().item(), 0)
        self.assertEqual(x.grad.abs().max().item(), 0)

    def test_both_directions_drop_the_same(self):
        for make in (lambda: nn.Dropout(0.4), lambda: nn.Dropout2d(0.4), lambda: nn.Sequential(nn.Dropout(0.3), nn.Dropout(0.3))):
            torch._dynamo.reset()
            x = torch.rand(4, 8, 6, 6) + 0.5
            x.requires_grad_()
            y = self.compiled(make())(x)
            (gradient,) = torch.autograd.grad(y.sum(), x)
            self.assertTrue(0.1 < (y == 0).double().mean() < 0.9)
            torch.testing.assert_close(gradient, (y / x).detach())

    def test_attention_with_dropout(self):
        q = torch.randn(2, 4, 16, 8, requires_grad=True)

        def attend(q):
            return F.scaled_dot_product_attention(q, q, torch.eye(16, 8).expand(2, 4, 16, 8), dropout_p=0.5)

        y = self.compiled(attend)(q)
        y.sum().backward()
        self.assertTrue(torch.isfinite(q.grad).all())
        self.assertGreater((y == 0).sum().item(), 50)

    def test_checkpoints_compute_the_same_again(self):
        block = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 8))
        x = torch.randn(64, 8, requires_grad=True)

        def run(x):
            return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)

        torch.manual_seed(1)
        y = self.compiled(run, fallback="silent")(x)
        weight = torch.autograd.grad(y.square().sum(), block[2].weight)[0]
        # y = w h + b: with the mask of the forward pass, h is known from y where w can be inverted.
        h = torch.linalg.solve(block[2].weight.double(), (y - block[2].bias).double().T).T
        torch.testing.assert_close(weight, (2 * y.double().T @ h).float(), rtol=2e-3, atol=2e-3)

    def test_outside_of_a_program_the_numbers_are_the_same(self):
        seed = torch.tensor([123456789, -987654321])
        for op, arguments in (
            (torch.ops.ferrite.random_uniform, ([7, 9],)),
            (torch.ops.ferrite.random_normal, ([7, 9],)),
            (torch.ops.ferrite.random_integers, (-4, 1000, [7, 9])),
        ):
            torch._dynamo.reset()
            inside = self.compiled(lambda seed, op=op, arguments=arguments: op(seed, *arguments))(seed)
            torch.testing.assert_close(inside, op(seed, *arguments), rtol=0, atol=0)

    def test_generators_and_f64_are_pytorchs(self):
        def run(x):
            return x + torch.rand(5, dtype=torch.float64)

        torch.manual_seed(3)
        expected = run(torch.zeros(5))
        torch.manual_seed(3)
        self.compare(self.compiled(run, fallback="silent")(torch.zeros(5)), expected)

    def test_the_option(self):
        with self.assertRaises(Exception) as raised:
            torch.compile(lambda x: x + 1, backend="ferrite", options={"fallback_random": "yes"})(torch.randn(2))
        self.assertIn("FE-Y01", str(raised.exception))


if __name__ == "__main__":
    main()
