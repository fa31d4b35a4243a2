# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights: constants of programs with the option freeze, PyTorch's memory without it."""

import copy
import json
import pathlib

import ferrite.torch
import torch
from common import BackendTest, main
from torch import nn

MEGABYTE = 2**20


def resident():
    """Bytes of this process that are in memory."""
    status = pathlib.Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


class Freeze(BackendTest):
    def inputs(self, model, *args, **options):
        """The names of the inputs of the model's only program."""
        found = ferrite.torch.explain(model, *args, options=options)
        ((stream,),) = found.streams
        return [name for name, *_ in json.loads(stream)["inputs"]]

    def test_weights_and_buffers_are_constants(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)).eval()
        model[1].running_mean.uniform_()
        model[1].running_var.uniform_(1, 2)
        for form in (torch.contiguous_format, torch.channels_last):
            model = model.to(memory_format=form)
            x = torch.randn(2, 3, 8, 8).to(memory_format=form)
            with torch.no_grad(), self.subTest(form=form):
                self.check(model, x, freeze=True)
                self.assertEqual(len(self.inputs(model, x, freeze=True)), 1)
                self.assertEqual(len(self.inputs(model, x)), 9)

    def test_changed_weights_have_no_effect(self):
        model = nn.Linear(6, 6).eval()
        compiled = self.compiled(model, freeze=True)
        x = torch.randn(3, 6)
        with torch.no_grad():
            expected = model(x)
            compiled(x)
            model.weight.add_(1)
            torch.testing.assert_close(compiled(x), expected)
            # A new tensor is another weight.
            model.weight = nn.Parameter(torch.ones(6, 6))
            torch.testing.assert_close(compiled(x), model(x))

    def test_modules_of_one_class_keep_their_own_weights(self):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(3))).eval()
        expected = copy.deepcopy(model)
        for layer in model:
            layer.compile(backend="ferrite", options={"freeze": True, "fallback": "error"})
        x = torch.randn(2, 5)
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(model(x), expected(x))

    def test_sizes_may_change(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.GELU()).eval()
        compiled = torch.compile(model, backend="ferrite", dynamic=True, options={"freeze": True, "fallback": "error"})
        with torch.no_grad():
            for rows in (2, 3, 5):
                x = torch.randn(rows, 4)
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)

    def test_buffers_that_change_and_tables_stay_inputs(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(9, 4)
                self.register_buffer("count", torch.zeros(()))
                self.register_buffer("mask", torch.tensor([True, False, True, True]))

            def forward(self, k):
                self.count.add_(1)
                return self.table(k) * self.mask + self.count

        model = Counting().eval()
        compiled = self.compiled(model, freeze=True)
        k = torch.tensor([1, 8])
        with torch.no_grad():
            for count in (1, 2):
                torch.testing.assert_close(compiled(k), model.table(k) * model.mask + count)

    def test_training_is_not_frozen(self):
        self.check_training(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(3, 4), freeze=True)

    def test_without_it_no_weight_is_copied(self):
        model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(12))).eval()
        size = sum(one.nbytes for one in model.parameters())
        self.assertGreater(size, 190 * MEGABYTE)
        x = torch.randn(1, 2048)
        small = nn.Linear(8, 8).eval()
        with torch.no_grad():
            self.compiled(small)(torch.randn(1, 8))  # what the compiler itself needs is in memory before
            expected = model(x)
            places = [one.data_ptr() for one in model.parameters()]
            before = resident()
            compiled = self.compiled(model)
            for _ in range(3):
                actual = compiled(x)
            self.assertLess(resident() - before, size / 10)
        self.assertEqual([one.data_ptr() for one in model.parameters()], places)
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    main()
