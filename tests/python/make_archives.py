# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes tests/python/archives: programs of torch.export with an input and the outputs of eager PyTorch.

Usage: PYTHON make_archives.py, in the environment of `./dev setup torch`. test_archives.py reads them without PyTorch.
"""

import copy
import pathlib

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

folder = pathlib.Path(__file__).parent / "archives"


class Perceptron(nn.Module):
    """A tied weight, a buffer, a constant, two results."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 6)
        self.register_buffer("shift", torch.arange(6.0))
        self.constant = torch.tensor([2.0, -1.0, 0.5, 1.0, 3.0, 0.0])

    def forward(self, x):
        y = F.gelu(self.linear(x) + self.shift * self.constant)
        return {"y": F.layer_norm(y, (6,)), "sum": x.sum(-1)}


class Convolutions(nn.Module):
    """Weights stored with the channels last."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2),
                                    nn.Conv2d(4, 6, 3, groups=2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.5))
        self.to(memory_format=torch.channels_last)

    def forward(self, image):
        return self.layers(image)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(9, 8)
        self.qkv = nn.Linear(8, 24)

    def forward(self, tokens):
        x = self.embedding(tokens)
        q, k, v = self.qkv(x).view(1, 5, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return torch.softmax(y.transpose(1, 2).reshape(1, 5, 8) + x, -1)


class Draws(nn.Module):
    """Random numbers of a seed that is an input."""

    def forward(self, x, seed):
        return F.dropout(x, 0.25, training=True), torch.rand(2000), torch.randn(2000), torch.randint(3, 7, (2000,))


class Writes(nn.Module):
    """Whole tensors are written in place, and what shares their memory is read: `to`, `contiguous`, `reshape`, dropout."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Dropout(0.5, inplace=True), nn.Hardswish(inplace=True))

    def forward(self, x):
        y = self.layers(x)
        same, wide, whole = y.to(torch.float32), y.to(torch.float64), y.contiguous()
        turned, flat, copied, dropped = y.t().contiguous(), y.reshape(12), y.t().reshape(12), F.dropout(y, 0.5, False)
        y.add_(1).mul_(2)
        half = (x * 1e-3).half()
        half.mul_(torch.full((4,), 1e5))  # no number of f16
        whole_numbers = (x * 10).long()
        whole_numbers.bitwise_and_(3).floor_divide_(2)
        positive = x > 0
        positive &= x < 1
        x = x.clone().unsqueeze_(0).transpose_(1, 2)
        return y, same, wide, whole, turned, flat, copied, dropped, half, whole_numbers, positive, x.gt_(0)


class Views(nn.Module):
    """Views are written and their base is read; a base is written and its views are read."""

    def forward(self, x):
        y = x.clone()
        rows, column = y[1:3], y[:, 2]
        rows[0].fill_(5)
        y[::2, 1:3] += 10
        first, second = y.chunk(2, 1)
        second.neg_()
        first.t()[1].copy_(torch.arange(4.0, dtype=torch.float64))
        y.diagonal().mul_(3)
        y.unbind(0)[3].zero_()
        y.permute(1, 0)[0].add_(100)
        y.narrow(0, -1, 1).sub_(1)
        y.view(2, 8)[0, 7] = -7
        y.view(torch.int32)[2, 0] = 0
        torch.as_strided(y, (2,), (5,), 1).add_(0.5)
        y.unfold(1, 2, 2).mul_(2)
        y[torch.tensor([3, 1]), torch.tensor([0, 1])] = 9.0
        wide = y[0].expand(3, 4)
        y.masked_fill_(y > 90, 1.5)
        return y, rows, column, first, second, wide


class Inputs(nn.Module):
    """Inputs and buffers are written, by norms in training, too. Two buffers share their memory."""

    def __init__(self):
        super().__init__()
        base = torch.arange(6.0)
        self.register_buffer("low", base[:3])
        self.register_buffer("high", base[3:])
        self.register_buffer("count", torch.tensor(1))
        self.norm = nn.BatchNorm1d(3)

    def forward(self, x, y):
        part = x[1:]
        self.count.add_(1)
        normed = self.norm(x)
        before = x.clone()
        x.copy_(y)
        y.copy_(before)
        x[0].add_(self.low)
        return x, part, x.t(), x + y + self.high, normed, self.count, self.norm.running_mean * 1


class Graphs(nn.Module):
    """Graphs within graphs: no_grad, autocast, a condition."""

    def forward(self, x):
        y = x * 2
        with torch.no_grad():
            z = y.add_(1) * x
        with torch.autocast("cpu", torch.bfloat16):
            low = x @ x.t()
            joined = torch.cat([low, low.float()])
            with torch.autocast("cpu", enabled=False):
                high = x @ x.t()
        chosen = torch.cond(x.sum() > 0, lambda a: (a * 1).relu_(), lambda a: a - 1, (x,))
        return y, z, low.float(), joined, high, chosen


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True, proj_size=2)
        self.gru = nn.GRU(3, 2, bias=False)
        self.plain = nn.RNN(3, 2, nonlinearity="relu")
        self.cell = nn.GRUCell(3, 2)

    def forward(self, x):
        sequence, (hidden, cell) = self.lstm(x)
        return sequence, hidden, cell, *self.gru(x), *self.plain(x), self.cell(x[0])


class Overlapping(nn.Module):
    def forward(self, x):
        return x[:1].expand(3, 3).add_(1)


class Shared(nn.Module):
    """A buffer is written of which another one has some elements."""

    def __init__(self):
        super().__init__()
        self.register_buffer("all", torch.arange(3.0))
        self.register_buffer("part", self.all[1:])

    def forward(self, x):
        self.part.add_(1)
        return x + self.all


def without_traces(program):
    """Traces name files of the machine that made them."""
    for node in program.graph.nodes:
        for key in ("stack_trace", "from_node", "nn_module_stack", "source_fn_stack"):
            node.meta.pop(key, None)


def main():
    torch.manual_seed(0)
    for name, model, example in (
        ("perceptron", Perceptron(), torch.randn(3, 6)),
        ("convolutions", Convolutions(), torch.randn(1, 2, 10, 10)),
        ("attention", Attention(), torch.randint(0, 9, (1, 5))),
    ):
        program = torch.export.export(model.eval(), (example,))
        result = model(example)
        results = list(result.values()) if isinstance(result, dict) else [result]
        arrays = {f"output{k}": value.detach().numpy() for k, value in enumerate(results)}
        np.savez(folder / f"{name}.npz", input=example.numpy(), **arrays)
        for kind, one in (("plain", program), ("core", program.run_decompositions())):
            without_traces(one)
            torch.export.save(one, folder / f"{name}.{kind}.pt2")
    x = torch.randn(4, 4)
    for name, model, examples in (
        ("writes", Writes().eval(), (torch.randn(3, 4),)),
        ("views", Views(), (x,)),
        ("inputs", Inputs(), (torch.randn(4, 3), torch.randn(4, 3))),
        ("graphs", Graphs(), (torch.randn(3, 4),)),
        ("recurrent", Recurrent().eval(), (torch.randn(2, 3, 3),)),
        ("overlapping", Overlapping(), (torch.randn(3, 3),)),
        ("shared", Shared(), (torch.randn(3),)),
    ):
        # Exporting may run the model's own writes, as the run does.
        given = [one.clone() for one in examples]
        program = torch.export.export(copy.deepcopy(model), examples)
        without_traces(program)
        torch.export.save(program, folder / f"{name}.pt2")
        if name in ("overlapping", "shared"):  # they are refused
            continue
        after = [one.clone() for one in given]
        with torch.no_grad():
            results = torch.utils._pytree.tree_leaves(model(*after))
        arrays = {f"output{k}": value.numpy() for k, value in enumerate(results)}
        arrays |= {f"after{k}": value.numpy() for k, value in enumerate(after)}
        np.savez(folder / f"{name}.npz", **{f"input{k}": value.numpy() for k, value in enumerate(given)}, **arrays)
    dynamic = torch.export.export(Perceptron().eval(), (torch.randn(3, 6),), dynamic_shapes=({0: torch.export.Dim("n")},))
    draws = torch.export.export(Draws(), (torch.ones(2000), torch.tensor(1)))
    without_traces(draws)
    torch.export.save(draws, folder / "draws.pt2")
    without_traces(dynamic)
    torch.export.save(dynamic, folder / "dynamic.pt2")


if __name__ == "__main__":
    main()
