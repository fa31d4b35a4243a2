# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Forward and backward pass through torch.compile."""

import copy

import torch
import torch.nn.functional as F
from common import BackendTest, main
from torch import nn


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
