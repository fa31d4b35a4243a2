# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of train_step share."""

import copy

import ferrite.torch
import torch
import torch.nn.functional as F
from common import BackendTest
from ferrite.torch import _compile
from torch import nn


def mse(model, x, target):
    return F.mse_loss(model(x), target)


def perceptron():
    return nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 4))


class Reports:
    """The graphs that are compiled meanwhile."""

    def __enter__(self):
        self.graphs = []
        _compile.listeners.append(self.graphs.append)
        return self.graphs

    def __exit__(self, *_):
        _compile.listeners.remove(self.graphs.append)


class StepTest(BackendTest):
    def step(self, model, loss, optimizer, fallback="error", **more):
        return ferrite.torch.train_step(model, loss, optimizer, options={"fallback": fallback}, **more)

    def eager_step(self, model, loss, optimizer, batch, clip=None):
        optimizer.zero_grad()
        value = loss(model, *batch)
        value.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return value.detach()

    def assertTrainedAlike(self, model, other):
        for (name, expected), actual in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-5, msg=lambda text, name=name: f"{name}: {text}")

    def check(self, model, make, loss, batches, clip=None, **more):
        """Losses, parameters and buffers of each step equal eager's. Returns the model, the optimizer and the graphs."""
        other = copy.deepcopy(model)
        optimizer, own = make(model.parameters()), make(other.parameters())
        with Reports() as graphs:
            step = self.step(other, loss, own, clip_norm=clip, **more)
            for batch in batches:
                expected = self.eager_step(model, loss, optimizer, batch, clip)
                torch.testing.assert_close(step(*batch), expected, rtol=1e-3, atol=1e-5)
                self.assertTrainedAlike(model, other)
        return other, own, graphs

    def batches(self, count=4, rows=8):
        return [(torch.randn(rows, 6), torch.randn(rows, 4)) for _ in range(count)]

    def assertOneProgram(self, graphs):
        (graph,) = graphs
        self.assertEqual((graph.kind, len(graph.programs), graph.unsupported), ("step", 1, []))
