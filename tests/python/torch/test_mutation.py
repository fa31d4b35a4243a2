# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs that a model changes are changed where they are."""

import copy
import json
import unittest

import torch
from common import BackendTest, main
from ferrite.torch import _compile
from torch import nn


class Cache(nn.Module):
    """Stores a row and reads all of them."""

    def __init__(self):
        super().__init__()
        self.register_buffer("rows", torch.zeros(2, 16, 8))
        self.register_buffer("count", torch.zeros((), dtype=torch.int64))

    def forward(self, row, position):
        self.rows[:, position] = row
        self.count.add_(1)
        return (self.rows * row[:, None]).sum(-1)


class Mutation(BackendTest):
    def check_changes(self, function, *args, **options):
        """Results and arguments after the call equal eager's; the arguments' memory stays. Returns the graphs."""
        expected_args = copy.deepcopy(args)
        pointers = [one.data_ptr() for one in args]
        graphs = []
        _compile.listeners.append(graphs.append)
        try:
            with torch.no_grad():
                for _ in range(2):
                    self.compare(self.compiled(function, **options)(*args), function(*expected_args))
                    self.compare(list(args), list(expected_args))
        finally:
            _compile.listeners.remove(graphs.append)
        self.assertEqual([one.data_ptr() for one in args], pointers)
        return graphs

    def assertNothingCopied(self, graphs):
        for graph in graphs:
            for program in graph.programs:
                records = [record for record in json.loads(program.ledger()) if record["kind"] == "memory"]
                self.assertEqual([record for record in records if "copied" in json.dumps(record)], [])

    def test_add(self):
        self.assertNothingCopied(self.check_changes(lambda x, y: (x.add_(y), y.exp())[1], torch.randn(3, 4), torch.randn(3, 4)))

    def test_the_changed_input_is_a_result(self):
        self.check_changes(lambda x: x.mul_(2), torch.randn(5))
        self.check_changes(lambda x: (x.mul_(2), x + 1), torch.randn(5))

    def test_old_contents_are_results(self):
        def function(x):
            old = x * 1
            x.zero_()
            return old

        self.check_changes(function, torch.randn(6))

    def test_two_inputs_are_exchanged(self):
        def function(x, y):
            kept = x + 0
            x.copy_(y)
            y.copy_(kept)
            return x - y

        self.check_changes(function, torch.randn(4), torch.randn(4))

    def test_only_changes(self):
        def function(x, y):
            x.add_(1)
            y.sub_(x)

        self.check_changes(function, torch.randn(4), torch.randn(4))

    def test_inputs_with_other_strides(self):
        base = torch.randn(6, 8)
        self.check_changes(lambda x: x.relu_().sum(), base[:, ::2])
        self.check_changes(lambda x: x.relu_().sum(), base.t())
        image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
        self.check_changes(lambda x: x.relu_().sum(), image)

    def test_inputs_that_overlap(self):
        base = torch.randn(8)
        expected = base.clone()

        def function(x, y):
            x.add_(1)
            y.mul_(2)
            return x.sum()

        with torch.no_grad():
            result = self.compiled(function)(base[:6], base[2:])
            torch.testing.assert_close(result, function(expected[:6], expected[2:]))
        torch.testing.assert_close(base, expected)

    def test_a_dtype_of_its_own(self):
        self.check_changes(lambda x, y: x.add_(y), torch.zeros(4, dtype=torch.float64), torch.randn(4))

    def test_nodes_that_run_in_pytorch(self):
        def function(x, y, z):
            kept = torch.logcumsumexp(y.sin(), 0)  # may run in PyTorch
            x.add_(kept.cos())
            z.add_(torch.unique(y).sum())
            return x.exp()

        self.check_changes(function, torch.randn(5), torch.randn(5), torch.randn(5), fallback="silent")

    def test_cache(self):
        model = Cache()
        expected, compiled = copy.deepcopy(model), self.compiled(model)
        pointer = model.rows.data_ptr()
        with torch.no_grad():
            for k in range(3):
                row, position = torch.randn(2, 8), torch.tensor(k)
                self.compare(compiled(row, position), expected(row, position))
        self.compare(dict(model.named_buffers())["rows"], expected.rows)
        self.assertEqual(model.count.item(), 3)
        self.assertEqual(model.rows.data_ptr(), pointer)

    def test_running_statistics(self):
        model = nn.Sequential(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        pointers = [one.data_ptr() for one in model.buffers()]
        self.check_training(model, torch.randn(3, 2, 6, 6))
        self.assertEqual([one.data_ptr() for one in model.buffers()], pointers)

    def test_optimizer(self):
        weights = [[nn.Parameter(torch.linspace(-1, 1, 6).view(2, 3)) for _ in range(2)] for _ in range(2)]
        for k, parameters in enumerate(weights):
            optimizer = torch.optim.AdamW(parameters, lr=torch.tensor(0.01))
            step = torch.compile(optimizer.step, backend="ferrite", options={"fallback": "silent"}) if k else optimizer.step
            for _ in range(4):
                pointers = [one.data_ptr() for one in parameters]
                for one in parameters:
                    one.grad = one.detach().sin()
                step()
                self.assertEqual([one.data_ptr() for one in parameters], pointers)
        torch.testing.assert_close(weights[1], weights[0])


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    main()
