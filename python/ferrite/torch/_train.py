# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A whole training step in two graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from ferrite.torch._backend import backend


def train_step(
    model: torch.nn.Module,
    loss: Callable[..., torch.Tensor],
    optimizer: torch.optim.Optimizer,
    options: Mapping[str, Any] | None = None,
) -> Callable[..., torch.Tensor]:
    """A function that takes a batch, runs forward pass, loss, backward pass and optimizer, and returns the loss.

    Forward pass, loss and backward pass are one graph, so nothing is saved between them that can be computed within;
    the optimizer is a second one, since PyTorch divides graphs there.

    loss: called as loss(model, *batch); returns a tensor of one element.
    optimizer: over parameters of the model. Give a learning rate that changes as a tensor: a number is a constant of the
        graph.
    options: as for torch.compile(backend="ferrite").

    The gradients of the last step are left in `parameter.grad`, as a loop of PyTorch leaves them. Raises what the model
    raises.
    """
    parameters = [one for group in optimizer.param_groups for one in group["params"] if one.requires_grad]

    def step(*batch: Any) -> torch.Tensor:
        value = loss(model, *batch)
        for parameter, gradient in zip(parameters, torch.autograd.grad(value, parameters), strict=True):
            parameter.grad = gradient
        optimizer.step()
        return value.detach()

    compiled = torch.compile(step, backend=backend, options=dict(options or {}), dynamic=False)

    def run(*batch: Any) -> torch.Tensor:
        with torch._dynamo.config.patch(trace_autograd_ops=True):
            return compiled(*batch)

    return run
