# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The backend of torch.compile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

from ferrite.torch._compile import compile_graph
from ferrite.torch._options import Options

aten = torch.ops.aten


@functools.cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """Core ATen's table, without operators that stay whole, so that rules written for ONNX models match them here."""
    table = dict(torch._decomp.core_aten_decompositions().items())
    # PyTorch's own decomposition of this one computes no logsumexp, and gradients are then wrong.
    whole = [aten._scaled_dot_product_flash_attention_for_cpu.default]
    for name in ("silu", "silu_backward", "gelu_backward", "hardswish", "mish", "softplus", "hardsigmoid", "leaky_relu",
                 "elu", "addcmul", "addcdiv", "native_layer_norm_backward", "native_group_norm_backward"):
        packet = getattr(aten, name)
        whole += [getattr(packet, overload) for overload in packet.overloads() if overload == "default"]
    for overload in whole:
        table.pop(overload, None)
    return table


def backend(module: fx.GraphModule, example_inputs: list[Any], options: Mapping[str, Any] | None = None, mode: str | None = None) -> Callable[..., Any]:
    """Compiles a graph of torch.compile. `options`: see `Options`."""
    chosen = Options.of(options)

    def compiler(kind: str) -> Callable[[fx.GraphModule, list[Any]], Callable[..., Any]]:
        return lambda graph, _: compile_graph(graph, chosen, kind)

    return aot_autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        decompositions=decompositions(),
        partition_fn=min_cut_rematerialization_partition,
        keep_inference_input_mutations=True,  # of all graphs: programs write inputs that the model changes in place
    )(module, example_inputs)
