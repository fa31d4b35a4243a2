# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs of a graph whose memory it changes.

A functional graph ends with a node `copy_(input, value)` for each of them. Where a program computes the value
and nothing reads the old contents later, the program writes it there itself: no second tensor is allocated,
and nothing is copied.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import torch
from torch import fx
from torch.utils.checkpoint import CheckpointPolicy

from ferrite.torch._partition import Part
from ferrite.torch._stream import memory_order


@dataclasses.dataclass(frozen=True)
class Mutation:
    """The last node that changes an input, and the value that the input's memory then holds."""

    copy: fx.Node
    value: fx.Node


def _same_type(one: fx.Node, other: fx.Node) -> bool:
    first, second = one.meta.get("val"), other.meta.get("val")
    return (
        isinstance(first, torch.Tensor)
        and isinstance(second, torch.Tensor)
        and first.dtype == second.dtype
        and first.shape == second.shape
        and first.device == second.device
    )


def _can_be_written(node: fx.Node) -> bool:
    """Whether a program can write the tensor's memory: on a device, it has to be without gaps."""
    tensor = node.meta["val"]
    return tensor.device.type == "cpu" or memory_order(list(tensor.shape), list(tensor.stride())) is not None


def mutations_of(graph: fx.Graph) -> dict[fx.Node, Mutation]:
    """By input, the changes that a program may make. Other nodes `copy_` stay nodes that run in PyTorch."""
    found: dict[fx.Node, Mutation] = {}
    several: set[fx.Node] = set()
    for node in graph.nodes:
        if node.op != "call_function" or node.target is not torch.ops.aten.copy_.default:
            continue
        target, value = node.args[:2]
        if not isinstance(value, fx.Node) or target.op != "placeholder":
            continue
        if target in found:
            several.add(target)
        if (
            value.op != "get_attr"
            and value is not target
            and _same_type(target, value)
            and _can_be_written(target)
        ):
            found[target] = Mutation(node, value)
    # A copy that something other than the output reads is no last one.
    return {
        target: one
        for target, one in found.items()
        if target not in several and all(user.op == "output" for user in one.copy.users)
    }


def changed_inputs(graph: fx.Graph) -> list[fx.Node]:
    """The inputs that a node `copy_` changes, in the order of the graph's inputs."""
    copies = graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default)
    targets = {node.args[0] for node in copies}
    return [node for node in graph.find_nodes(op="placeholder") if node in targets]


def changed_and_read_backward(graph: fx.Graph, forward_count: int) -> list[fx.Node]:
    """The inputs of a joint graph that its forward pass changes, and from whose old contents gradients are
    computed."""
    changed = changed_inputs(graph)
    if not changed:
        return []
    (output,) = graph.find_nodes(op="output")
    needed = {value for value in output.args[0][forward_count:] if isinstance(value, fx.Node)}
    for node in reversed(graph.nodes):
        if node in needed:
            needed.update(node.all_input_nodes)
    return [node for node in changed if node in needed]


def keep_old_contents(graph: fx.Graph, forward_count: int) -> None:
    """Lets a joint graph read inputs that it changes from copies, which no partitioner recomputes: PyTorch's
    would save the input itself for the backward pass, which then finds the new contents."""
    placeholders = graph.find_nodes(op="placeholder")
    for node in changed_and_read_backward(graph, forward_count):
        readers = [
            user
            for user in node.users
            if user.op != "output" and user.target is not torch.ops.aten.copy_.default
        ]
        with graph.inserting_after(placeholders[-1]):
            copy = graph.call_function(torch.ops.aten.clone.default, (node,))
        copy.meta = {"val": node.meta["val"], "recompute": CheckpointPolicy.MUST_SAVE}
        for reader in readers:
            reader.replace_input_with(node, copy)


def mutated_in(
    parts: Sequence[Part], mutations: Mapping[fx.Node, Mutation]
) -> dict[int, dict[fx.Node, fx.Node]]:
    """For a graph that is divided: by number of a part, the inputs that it changes, with the nodes that it
    computes for them. These are changes after which nothing reads the input but the nodes of that part."""
    part_of = {node: number for number, part in enumerate(parts) for node in part.nodes}
    result: dict[int, dict[fx.Node, fx.Node]] = {}
    for target, one in mutations.items():
        number = part_of.get(one.value)
        if number is None or not parts[number].compiled:
            continue
        readers = [user for user in target.users if user is not one.copy and user.op != "output"]
        # A node that runs in PyTorch may give a view of the input, which is read later.
        if all(
            user in part_of and parts[part_of[user]].compiled and part_of[user] <= number for user in readers
        ):
            result.setdefault(number, {})[target] = one.value
    return result
