# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random nodes of a joint graph: PyTorch makes the numbers before the forward part, whose inputs they become.

A random node usually reads a tensor for its shape only. Such a node is given an uninitialised tensor of the
same shape and strides instead, and depends on nothing that Ferrite computes. PyTorch's generator gives the
same numbers either way.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

_of_shape = {
    getattr(packet, overload)
    for packet in (aten.rand_like, aten.randn_like, aten.randint_like, aten.bernoulli)
    for overload in packet.overloads()
    if overload in ("default", "low_dtype", "p")
} - {aten.bernoulli.default}  # whose probabilities are the tensor's values


def is_random(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def detach_random(graph: fx.Graph) -> None:
    """Changes the graph so that its random nodes depend on as little as possible."""
    for node in list(graph.nodes):
        if node.target in _of_shape:
            with graph.inserting_before(node):
                node.replace_input_with(node.args[0], _uninitialised(graph, node.args[0]))
            if node.target is aten.bernoulli.p:
                _keep_as_bool(graph, node)
        elif node.target is aten.native_dropout.default and node.args[1] != 0 and node.args[2] is not False:
            _divide_dropout(graph, node)


def _added(graph: fx.Graph, target: Any, args: tuple[Any, ...], **kwargs: Any) -> fx.Node:
    node = graph.call_function(target, args, kwargs)
    values, named = fx.map_arg((args, kwargs), lambda used: used.meta["val"])
    fakes = (value for value in values if isinstance(value, torch._subclasses.FakeTensor))
    fake = next((value.fake_mode for value in fakes), None)
    if fake is None:
        fake = torch._guards.detect_fake_mode([other.meta.get("val") for other in graph.nodes])
    with fake:
        node.meta["val"] = target(*values, **named)
    return node


def _uninitialised(graph: fx.Graph, like: fx.Node) -> fx.Node:
    tensor = like.meta["val"]
    dims, strides = list(tensor.shape), list(tensor.stride())
    return _added(
        graph, aten.empty_strided.default, (dims, strides), dtype=tensor.dtype, device=tensor.device
    )


def _keep_as_bool(graph: fx.Graph, node: fx.Node) -> None:
    """Zeros and ones are kept for the backward part as bools: a byte each."""
    users = list(node.users)
    with graph.inserting_after(node):
        mask = _added(graph, aten.ne.Scalar, (node, 0))
    with graph.inserting_after(mask):
        number = _added(graph, aten._to_copy.default, (mask,), dtype=node.meta["val"].dtype)
    for user in users:
        user.replace_input_with(node, number)


def _divide_dropout(graph: fx.Graph, node: fx.Node) -> None:
    """The mask comes from a dropout of another tensor; the product is the graph's own."""
    x, p, train = node.args
    with graph.inserting_before(node):
        dropout = _added(graph, node.target, (_uninitialised(graph, x), p, train))
        mask = _added(graph, operator.getitem, (dropout, 1))
        kept = _added(graph, aten.mul.Tensor, (x, mask))
        scaled = _added(graph, aten.mul.Tensor, (kept, 0.0 if p == 1 else 1 / (1 - p)))
    for user in list(node.users):
        user.replace_all_uses_with(mask if user.args[1] == 1 else scaled)
        graph.erase_node(user)
    graph.erase_node(node)
