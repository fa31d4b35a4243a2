# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Training steps that PyTorch runs: a step in eager mode, and a step of two compiled graphs."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.nn.modules.module import _global_backward_hooks, _global_backward_pre_hooks
from torch.optim.optimizer import _global_optimizer_post_hooks, _global_optimizer_pre_hooks

from ferrite._errors import Error
from ferrite.torch._backend import backend
from ferrite.torch._options import Options

Tensor = torch.Tensor

_before = operator.attrgetter("_backward_hooks")
_after = operator.attrgetter("_post_accumulate_grad_hooks")


def trained_by(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """The parameters that an optimizer changes if they have gradients."""
    return [one for group in optimizer.param_groups for one in group["params"] if one.requires_grad]


def step_in_pytorch(
    model: torch.nn.Module,
    loss: Callable[..., Tensor],
    optimizer: torch.optim.Optimizer,
    update: Callable[[], Any],
    clip_norm: float | None,
    batch: Sequence[Any],
) -> Tensor:
    """One step, whose backward pass is autograd's, so that all hooks run.

    loss: takes the batch alone. update: the optimizer's step. Gradients of parameters that the optimizer has
    not are as before.
    """
    others = {one: one.grad for one in model.parameters()}
    optimizer.zero_grad(set_to_none=True)
    value = loss(*batch)
    if not isinstance(value, Tensor) or value.numel() != 1:
        raise Error(
            "FE-Y01",
            f"the loss is {_described(value)}; return a tensor of one element, as the mean is",
            "train_step",
        )
    value.backward()
    if clip_norm is not None:
        torch.nn.utils.clip_grad_norm_(trained_by(optimizer), clip_norm)
    update()
    for one, gradient in others.items():
        one.grad = gradient
    optimizer.zero_grad(set_to_none=True)
    return value.detach()


def _described(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return f"a {type(value).__name__}"


def hook_of(
    modules: Mapping[str, torch.nn.Module], parameters: Mapping[str, Tensor], optimizer: torch.optim.Optimizer
) -> str | None:
    """The name of something with hooks that no graph has; None if nothing has any."""
    if any(map(_before, parameters.values())) or any(map(_after, parameters.values())):
        name = next(name for name, one in parameters.items() if _before(one) or _after(one))
        return f"'{name}' of the model"
    if _global_backward_hooks or _global_backward_pre_hooks:
        return "modules"
    for name, module in modules.items():
        if module._backward_hooks or module._backward_pre_hooks:
            return f"'{name}' of the model" if name else "the model"
    if (
        optimizer._optimizer_step_pre_hooks
        or optimizer._optimizer_step_post_hooks
        or _global_optimizer_pre_hooks
        or _global_optimizer_post_hooks
    ):
        return "the optimizer"
    return None


class StepInTwo:
    """A step of which forward pass, loss and backward pass are one graph. The optimizer is a second one,
    since PyTorch divides there. Dynamo notices what changes in the model. The arguments are train_step's."""

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[..., Tensor],
        optimizer: torch.optim.Optimizer,
        options: Options,
        clip_norm: float | None,
    ) -> None:
        self._model = model
        self._loss = loss
        self._optimizer = optimizer
        self._options = dataclasses.asdict(options)
        self._clip_norm = clip_norm
        self._trained: list[Tensor] = []
        self._step: Callable[..., Tensor] | None = None
        self._parts: tuple[Callable[..., Tensor], Callable[[], Any]] | None = None

    # Steps of several models share what Dynamo keeps for their code, and it expects their hooks to be equal
    # unless it is told otherwise.
    def run(self, batch: Sequence[Any]) -> Tensor:
        """One step. With hooks, autograd runs the backward pass, and with it the hooks."""
        modules, parameters = dict(self._model.named_modules()), dict(self._model.named_parameters())
        if hook_of(modules, parameters, self._optimizer):
            return self._with_hooks(batch)
        trained = trained_by(self._optimizer)
        if self._step is None or list(map(id, trained)) != list(map(id, self._trained)):
            self._trained = trained
            self._step = self._compiled(self._of(trained))
        with torch._dynamo.config.patch(trace_autograd_ops=True, skip_nnmodule_hook_guards=False):
            return self._step(*batch)

    def _compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(function, backend=backend, options=self._options, dynamic=False)

    def _of(self, parameters: list[Tensor]) -> Callable[..., Tensor]:
        loss, model, optimizer, clip_norm = self._loss, self._model, self._optimizer, self._clip_norm

        def step(*batch: Any) -> Tensor:
            value = loss(model, *batch)
            gradients = torch.autograd.grad(value, parameters, allow_unused=True)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            if clip_norm is not None:
                torch.nn.utils.clip_grad_norm_(parameters, clip_norm)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            return value.detach()

        return step

    def _with_hooks(self, batch: Sequence[Any]) -> Tensor:
        if self._parts is None:
            loss, model, optimizer = self._loss, self._model, self._optimizer
            self._parts = (
                self._compiled(lambda *batch: loss(model, *batch)),
                self._compiled(lambda: optimizer.step()),
            )
        forward, update = self._parts
        with torch._dynamo.config.patch(skip_nnmodule_hook_guards=False):
            return step_in_pytorch(self._model, forward, self._optimizer, update, self._clip_norm, batch)
