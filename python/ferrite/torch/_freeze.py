# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Graphs of inference whose weights are constants of their programs."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence, Set
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import BufferAOTInput, ParamAOTInput, PlainAOTInput

from ferrite.torch._compile import GraphSettings, compile_graph
from ferrite.torch._fork import lock_that_survives_forks
from ferrite.torch._mutation import mutations_of
from ferrite.torch._options import Options


def weights_of(module: fx.GraphModule) -> frozenset[int]:
    """The positions of parameters and buffers of modules among the inputs of Dynamo's graph."""
    return frozenset(
        position
        for position, node in enumerate(module.graph.find_nodes(op="placeholder"))
        if node.meta.get("tensor_dict", {}).get("_dynamo_static_input_type") == "unguarded"
    )


def compile_frozen(
    module: fx.GraphModule, options: Options, weights: Set[int]
) -> Callable[[list[Any]], Sequence[Any]]:
    """A function of the arguments of a graph that computes no gradients. weights: of weights_of()."""
    changed = mutations_of(module.graph)
    positions = [
        position
        for position, node in enumerate(module.graph.find_nodes(op="placeholder"))
        if node not in changed and _is_weight(node, weights) and not _is_only_gathered(node)
    ]
    if not positions:
        return compile_graph(module, GraphSettings(options, "inference"))
    return _Frozen(module, options, positions)


def _is_weight(node: fx.Node, weights: Set[int]) -> bool:
    origin = node.meta.get("desc")
    return isinstance(origin, (ParamAOTInput, BufferAOTInput)) or (
        isinstance(origin, PlainAOTInput) and origin.idx in weights
    )


def _is_only_gathered(node: fx.Node) -> bool:
    """Whether the node is a table, often a large one, that no program could store in a better way."""
    return all(user.target is torch.ops.aten.embedding.default for user in node.users)


class _Frozen:
    """A graph whose arguments at some positions are constants. Any thread may call it.

    Dynamo may run the graph for several modules of one class, so that it is compiled once for each set of
    weights that a call brings.
    """

    def __init__(self, module: fx.GraphModule, options: Options, positions: Sequence[int]) -> None:
        self._module = module
        self._options = options
        self._positions = positions
        self._programs: list[tuple[list[torch.Tensor], Callable[[list[Any]], Sequence[Any]]]] = []
        self._lock = lock_that_survives_forks()
        self._boxed_call = True

    def _find(self, weights: Sequence[torch.Tensor]) -> Callable[[list[Any]], Sequence[Any]] | None:
        for known, program in self._programs:
            if all(map(operator.is_, known, weights)):
                return program
        return None

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        weights = [arguments[position] for position in self._positions]
        program = self._find(weights)
        if program is None:
            with self._lock:
                program = self._find(weights)
                if program is None:
                    placeholders = self._module.graph.find_nodes(op="placeholder")
                    frozen = {
                        placeholders[position]: weight
                        for position, weight in zip(self._positions, weights, strict=True)
                    }
                    settings = GraphSettings(self._options, "inference", frozen=frozen)
                    program = compile_graph(self._module, settings)
                    self._programs.append((weights, program))
        return program(arguments)
