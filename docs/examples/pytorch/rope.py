# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A custom operator that a plugin reads. The argument is the plugin."""

import sys

import ferrite.torch
import torch
from torch import Tensor


@torch.library.custom_op("acme::fused_rope", mutates_args=())
def fused_rope(x: Tensor, cos: Tensor, sin: Tensor, *, interleaved: bool = False) -> Tensor:
    first, second = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


@fused_rope.register_fake
def _(x, cos, sin, *, interleaved=False):
    return torch.empty_like(x)


def fn(x, cos, sin):
    return fused_rope(x * 2, cos, sin, interleaved=True) + x


angles = torch.outer(torch.arange(16.0), 0.5 ** torch.arange(8))
inputs = torch.randn(4, 16, 16), angles.cos(), angles.sin()
print(ferrite.torch.explain(fn, *inputs))
options = {"plugins": sys.argv[1:], "fallback": "error"}
print(ferrite.torch.explain(fn, *inputs, options=options))
compiled = torch.compile(fn, backend="ferrite", options=options)
print("largest difference:", float((compiled(*inputs) - fn(*inputs)).abs().max()))
