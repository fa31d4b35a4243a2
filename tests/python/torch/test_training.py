# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward and backward pass through torch.compile."""

import copy

import torch
import torch.nn.functional as F
from common import BackendTest, main
from torch import nn
from torch._inductor.utils import fresh_cache


class Training(BackendTest):
    def test_multi_layer_perceptron(self):
        self.check_training(nn.Sequential(nn.Linear(10, 32), nn.GELU(), nn.Linear(32, 4)), torch.randn(8, 10))

    def test_convolution_and_batch_norm(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                              nn.Conv2d(8, 8, 3, groups=2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(8, 3))
        self.check_training(model, torch.randn(4, 3, 18, 18), lr=0.01)

    def test_layer_and_group_norm(self):
        model = nn.Sequential(nn.Conv1d(6, 8, 3), nn.GroupNorm(4, 8), nn.SiLU(), nn.Flatten(), nn.LayerNorm(64), nn.Linear(64, 2))
        self.check_training(model, torch.randn(3, 6, 10))

    def test_embedding_and_cross_entropy(self):
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(11, 8)
                self.out = nn.Linear(8, 11)

            def forward(self, tokens, targets):
                return F.cross_entropy(self.out(self.embedding(tokens)).view(-1, 11), targets.view(-1))

        self.check_training(Model(), torch.randint(0, 11, (2, 5)), torch.randint(0, 11, (2, 5)))

    def test_attention(self):
        class Block(nn.Module):
            def __init__(self):
                super().__init__()
                self.norm = nn.LayerNorm(16)
                self.qkv = nn.Linear(16, 48)
                self.out = nn.Linear(16, 16)

            def forward(self, x):
                q, k, v = self.qkv(self.norm(x)).view(2, 6, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
                return x + self.out(y.transpose(1, 2).reshape(2, 6, 16))

        self.check_training(Block(), torch.randn(2, 6, 16))

    def gradients(self, f, operands, gradient):
        operands = [x.clone().requires_grad_() for x in operands]
        return torch.autograd.grad(f(*operands), operands, gradient.to(operands[0].dtype))

    def check_gradients(self, f, *operands):
        """The gradients of all operands are no farther from f64 than eager's."""
        gradient = torch.randn_like(f(*operands))
        torch._dynamo.reset()
        actual = self.gradients(self.compiled(f), operands, gradient)
        expected = self.gradients(f, operands, gradient)
        exact = self.gradients(f, [x.double() for x in operands], gradient)
        for a, b, c in zip(actual, expected, exact):
            self.assertEqual((a.dtype, a.shape), (b.dtype, b.shape))
            self.assertNoWorse(a, b, c)

    def test_gradients_of_attention(self):
        queries, keys = torch.randn(2, 4, 150, 24), torch.randn(2, 4, 201, 24)
        values, square = torch.randn(2, 4, 201, 24), torch.randn(2, 4, 150, 24)
        shared = torch.randn(2, 2, 150, 24)
        added, hidden = torch.randn(2, 1, 1, 201), torch.rand(150, 201) < 0.7
        attend = F.scaled_dot_product_attention
        cases = {
            "plain": (lambda q, k, v: attend(q, k, v), queries, keys, values),
            "scaled": (lambda q, k, v: attend(q, k, v, scale=0.3), queries, keys, values),
            "causal": (lambda q, k, v: attend(q, k, v, is_causal=True), queries, square, square),
            "added": (lambda q, k, v: attend(q, k, v, attn_mask=added.to(q.dtype)), queries, keys, values),
            "hidden": (lambda q, k, v: attend(q, k, v, attn_mask=hidden), queries, keys, values),
            "grouped": (lambda q, k, v: attend(q, k, v, is_causal=True, enable_gqa=True), queries, shared, shared),
        }
        for name, (f, *operands) in cases.items():
            with self.subTest(name=name):
                self.check_gradients(f, *operands)
        for name in ("plain", "causal"):
            f, *operands = cases[name]
            with self.subTest(name=f"{name} bf16"):
                self.check_gradients(f, *(x.bfloat16() for x in operands))

    def test_gradients_of_convolutions(self):
        for kernel, stride, padding, dilation, groups, size in (
            (3, 1, 1, 1, 1, 17), (3, 2, 1, 1, 1, 18), (7, 2, 3, 1, 1, 24), (5, 3, 1, 1, 2, 21), (1, 2, 0, 1, 1, 16),
            (4, 4, 0, 1, 1, 20), (3, 1, 2, 2, 4, 15), (2, 2, 0, 1, 1, 19),
        ):  # fmt: skip
            options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
            with self.subTest(kernel=kernel, **options):
                x, w = torch.randn(3, 8, size, size + 4), torch.randn(12, 8 // groups, kernel, kernel)
                self.check_gradients(lambda x, w: F.conv2d(x, w, **options), x, w)
                w = torch.randn(8, 12 // groups, kernel, kernel)
                self.check_gradients(lambda x, w: F.conv_transpose2d(x, w, **options), x, w)

    def test_tied_weights(self):
        class Tied(nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = nn.Embedding(7, 6)
                self.head = nn.Linear(6, 7, bias=False)
                self.head.weight = self.embedding.weight

            def forward(self, tokens):
                return self.head(self.embedding(tokens).tanh())

        self.check_training(Tied(), torch.randint(0, 7, (3, 4)))

    def test_a_second_backward_pass_of_graphs_that_are_kept(self):
        def layers(x, w):
            for _ in range(3):
                x = (x @ w).tanh()
            return x @ w

        def gradients(run):
            x, w = (torch.randn(8, 8, generator=torch.Generator().manual_seed(seed)).requires_grad_() for seed in (0, 1))
            y = run(x, w).sum()
            first = torch.autograd.grad(y, (x, w), retain_graph=True)
            return [*first, *torch.autograd.grad(y, (x, w))]

        counters = torch._dynamo.utils.counters["aot_autograd"]
        with fresh_cache(), torch._functorch.config.patch(enable_autograd_cache=True):
            for found in ("autograd_cache_saved", "autograd_cache_hit"):
                torch._dynamo.reset()
                before = counters[found]
                self.assertClose(gradients(self.compiled(layers)), gradients(layers))
                self.assertEqual(counters[found], before + 1)

    def test_gradients_of_inputs(self):
        def f(x, y):
            return (x.exp() * y.sigmoid()).sum(0).square().sum()

        x, y = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
        expected = torch.autograd.grad(f(x, y), [x, y])
        actual = torch.autograd.grad(self.compiled(f)(x, y), [x, y])
        torch.testing.assert_close(actual, expected)

    def test_dropout_is_consistent_between_forward_and_backward(self):
        def f(x):
            return F.dropout(x, 0.5, training=True)

        x = torch.ones(1000, requires_grad=True)
        y = self.compiled(f, fallback="silent")(x)
        y.sum().backward()
        torch.testing.assert_close(x.grad, y.detach())
        self.assertTrue(300 < (y == 0).sum().item() < 700)

    def test_optimizers(self):
        for make in (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9), lambda p: torch.optim.AdamW(p, lr=0.01)):
            torch._dynamo.reset()
            weights = [[nn.Parameter(torch.linspace(-1, 1, 6).view(2, 3))] for _ in range(2)]
            for k, parameters in enumerate(weights):
                optimizer = make(parameters)
                step = torch.compile(optimizer.step, backend="ferrite", options={"fallback": "silent"}) if k else optimizer.step
                for _ in range(3):
                    parameters[0].grad = parameters[0].detach().sin()
                    step()
            torch.testing.assert_close(weights[1][0], weights[0][0])


if __name__ == "__main__":
    main()
