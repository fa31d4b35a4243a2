# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ferrite as a backend of torch.compile.

    model = torch.compile(model, backend="ferrite")
    model = torch.compile(
        model, backend="ferrite", options={"manifest": "pipeline.toml", "fallback": "error"}
    )

Forward and backward pass are compiled; what Ferrite cannot do runs in PyTorch. The options are those of
`Options`.
"""

from ferrite.torch._backend import backend
from ferrite.torch._export import export
from ferrite.torch._explain import Explanation, explain
from ferrite.torch._options import Options
from ferrite.torch._train import train_step

__all__ = ["Explanation", "Options", "backend", "explain", "export", "train_step"]
