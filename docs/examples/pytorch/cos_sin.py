# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
import ferrite.torch
import torch


def fn(x):
    a = torch.cos(x)
    b = torch.sin(a)
    return b


compiled = torch.compile(fn, backend="ferrite")
x = torch.randn(10000)
print("largest difference:", float((compiled(x) - fn(x)).abs().max()))

found = ferrite.torch.explain(fn, x)
print(found)
found.save("/tmp/ferrite-docs-pytorch")
