# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A rule of a plugin on a PyTorch model."""

import ferrite.torch
import torch


def score(x):
    return torch.log(torch.sigmoid(x)) * 2


options = {"plugins": ["docs/examples/pytorch/log_sigmoid/acme.log_sigmoid.plugin.toml"]}
x = torch.tensor([1.0, -200.0])
print("eager:", score(x).tolist())
print("with the rule:", torch.compile(score, backend="ferrite", options=options)(x).tolist())
ferrite.torch.explain(score, x).save("/tmp/ferrite-docs-log-sigmoid")
