# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend of torch.compile."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch._functorch.config
import torch._guards
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.exc import ShortenTraceback
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from ferrite._errors import Error
from ferrite.torch._boxed import Boxed, warn_once
from ferrite.torch._cache import is_used, keeping, kept
from ferrite.torch._compile import GraphSettings, compile_graph, device_type_of
from ferrite.torch._freeze import compile_frozen, weights_of
from ferrite.torch._joint import compiled_part, is_tangent, partitioner
from ferrite.torch._options import Options, check_mode
from ferrite.torch._pre_grad import with_pre_grad_passes
from ferrite.torch._stream import is_tensor

aten = torch.ops.aten


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Core ATen's table, without operators that stay whole, so that rules written for ONNX models match them
    here."""
    table = dict(torch._decomp.core_aten_decompositions().items())
    # PyTorch's own decomposition of the first computes no logsumexp, and gradients are then wrong; that of
    # select_scatter forgets the strides, and that of the batch norm's gradient takes statistics that are
    # rounded to the input's dtype.
    whole = [aten._scaled_dot_product_flash_attention_for_cpu.default]
    for name in ("silu", "silu_backward", "gelu_backward", "hardswish", "mish", "softplus", "hardsigmoid",
                 "leaky_relu", "elu", "addcmul", "addcdiv", "native_layer_norm_backward",
                 "native_group_norm_backward", "native_batch_norm_backward", "select_scatter"):  # fmt: skip
        packet = getattr(aten, name)
        whole += [getattr(packet, overload) for overload in packet.overloads() if overload == "default"]
    for overload in whole:
        table.pop(overload, None)
    # The table's own form is wrong for weights of one dim in PyTorch 2.11, and there is none of the gradient.
    table[aten._weight_norm_interface.default] = _weight_norm
    table[aten._weight_norm_interface_backward.default] = _weight_norm_backward
    return table


def _weight_norm(
    direction: torch.Tensor, length: torch.Tensor, dim: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """direction * (length / norms), and the norms as _weight_norm_backward() takes them."""
    others = [k for k in range(direction.dim()) if k != dim % direction.dim()]
    exact = torch.float32 if length.dtype in (torch.bfloat16, torch.float16) else length.dtype
    if others:
        norms = torch.linalg.vector_norm(direction, 2, others, keepdim=True, dtype=exact)
    else:  # no dims would be all dims
        norms = direction.abs().to(exact)
    return direction * (length / norms.to(length.dtype)), norms


def _weight_norm_backward(
    gradient: torch.Tensor, direction: torch.Tensor, length: torch.Tensor, norms: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The gradients of the direction and of the length of a weight that is `direction * (length / norms)`.

    norms: of the direction over all dims but `dim`, of the length's shape; of bf16 and f16 they are f32.
    """
    others = [k for k in range(direction.dim()) if k != dim % direction.dim()]
    norms = norms.to(length.dtype)
    along = gradient * direction
    if others:  # no dims would be all dims
        along = along.sum(others, keepdim=True)
    return length / norms * (gradient - direction * (along / (norms * norms))), along / norms


class CompileError(Error, ShortenTraceback):
    """The Error of a compilation, of a class that Dynamo hands to the caller as it is."""

    def __init__(self, error: Error) -> None:
        ShortenTraceback.__init__(self, str(error), first_useful_frame=None)
        self.code, self.text, self.where, self.status = error.code, error.text, error.where, error.status


def _allow_second_backward() -> None:
    """States that the graph being compiled overwrites no saved tensor: PyTorch would take a list that nobody
    has filled in for the opposite, and refuse `retain_graph=True`. It fills it in when the first backward
    pass compiles its graph, but not where both graphs are compiled before the first call."""
    context = torch._guards.TracingContext.try_get()
    if context is not None and context.fw_metadata is not None:
        context.fw_metadata.bw_donated_idxs = []


def _in_pytorch(module: fx.GraphModule, options: Options) -> Callable[..., Any]:
    """The graph as it is, since a program would read an input without the signs that PyTorch gives it."""
    text = "an input is the imaginary part of a conjugate, which has its signs in a flag; call resolve_neg()"
    if options.fallback == "error":
        raise Error("FE-Y02", f"{text} before the model", "torch.compile", 1)
    if options.fallback == "warn":
        warn_once(f"ferrite: a graph runs in PyTorch: {text} before it")
    return module.forward


def backend(
    module: fx.GraphModule,
    example_inputs: list[Any],
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compiles a graph of torch.compile. `options`: see `Options`. Raises Error."""

    def compiler(kind: str) -> Any:
        def compile_(graph: fx.GraphModule, _: list[Any]) -> Boxed:
            _allow_second_backward()
            settings = GraphSettings(chosen, kind, keep, first_stage=first_stage)
            made = compiled_part(graph) or compile_graph(graph, settings)
            if kind != "backward":
                return made
            placeholders = graph.graph.find_nodes(op="placeholder")
            return made.with_plain_gradients(
                [k for k, node in enumerate(placeholders) if is_tangent(node) and is_tensor(node)]
            )

        return keeping(compile_) if keep else compile_

    try:
        check_mode(mode)
        chosen = Options.of(options)
        weights = weights_of(module) if chosen.freeze else frozenset()
        given = module
        module, first_stage = with_pre_grad_passes(given, example_inputs, chosen)
        tensors = [one for one in (*example_inputs, *module.parameters()) if isinstance(one, torch.Tensor)]
        if any(one.is_neg() for one in tensors):  # Dynamo compiles again for tensors without it
            return _in_pytorch(given, chosen)
        device = device_type_of(tensors)
        # Regions that passes of pre_grad have changed are named by numbers of this process, and frozen
        # weights are this process's. _allow_second_backward() does not reach the metadata of subclasses.
        keep = (
            module is given
            and not chosen.freeze
            and is_used(chosen, device)
            and not any(map(is_traceable_wrapper_subclass, tensors))
        )
        with contextlib.ExitStack() as settings:
            # AOTAutograd would refuse to run a backward pass twice, see also _allow_second_backward().
            # Programs that overwrite what is kept for them get copies where it may.
            settings.enter_context(torch._functorch.config.patch(donated_buffer=False))
            if keep:
                settings.enter_context(kept(chosen, device))
            return aot_autograd(
                fw_compiler=compiler("forward"),
                bw_compiler=compiler("backward"),
                inference_compiler=(
                    (lambda graph, _: compile_frozen(graph, chosen, weights))
                    if chosen.freeze
                    else compiler("inference")
                ),
                decompositions=decompositions(),
                partition_fn=partitioner(GraphSettings(chosen, "joint", keep, first_stage=first_stage)),
                # Of all graphs: programs write inputs that the model changes in place.
                keep_inference_input_mutations=True,
            )(module, example_inputs)
    except Error as error:
        raise CompileError(error) from error
