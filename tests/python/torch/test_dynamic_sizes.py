# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Symbolic sizes: one graph of Dynamo, a program for each combination of sizes."""

import torch
from common import BackendTest, main
from torch import nn


class DynamicSizes(BackendTest):
    def test_inference(self):
        model = nn.Sequential(nn.Linear(8, 8), nn.ReLU()).eval()
        compiled = torch.compile(model, backend="ferrite", dynamic=True, options={"fallback": "error"})
        with torch.no_grad():
            for rows in (2, 5, 3, 5, 9):
                x = torch.randn(rows, 8)
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)

    def test_sizes_in_arguments_and_results(self):
        def f(x):
            n = x.shape[0]
            return x.view(n // 2, 2, x.shape[1]).sum(1), n * 3, torch.arange(n)

        compiled = torch.compile(f, backend="ferrite", dynamic=True, options={"fallback": "error"})
        for rows in (4, 6, 8):
            x = torch.randn(rows, 3)
            self.compare(compiled(x), f(x))

    def test_training(self):
        model, other = nn.Linear(4, 4), nn.Linear(4, 4)
        other.load_state_dict(model.state_dict())
        compiled = torch.compile(other, backend="ferrite", dynamic=True, options={"fallback": "error"})
        for rows in (2, 3, 7):
            x = torch.randn(rows, 4)
            for one, run in ((model, model), (other, compiled)):
                one.zero_grad()
                run(x).square().sum().backward()
            torch.testing.assert_close(other.weight.grad, model.weight.grad, rtol=1e-4, atol=1e-5)

    def test_automatic(self):
        compiled = self.compiled(lambda x: (x * 2).mean(0))
        for rows in (2, 3, 4, 5):
            x = torch.randn(rows, 6)
            torch.testing.assert_close(compiled(x), (x * 2).mean(0))


if __name__ == "__main__":
    main()
