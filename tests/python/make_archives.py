# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes tests/python/archives: programs of torch.export with an input and the outputs of eager PyTorch.

Usage: PYTHON make_archives.py, in the environment of `./dev setup torch`. test_archives.py reads them without PyTorch.
"""

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
    dynamic = torch.export.export(Perceptron().eval(), (torch.randn(3, 6),), dynamic_shapes=({0: torch.export.Dim("n")},))
    draws = torch.export.export(Draws(), (torch.ones(2000), torch.tensor(1)))
    without_traces(draws)
    torch.export.save(draws, folder / "draws.pt2")
    without_traces(dynamic)
    torch.export.save(dynamic, folder / "dynamic.pt2")


if __name__ == "__main__":
    main()
