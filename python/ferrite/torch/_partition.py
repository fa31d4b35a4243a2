# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Divides a graph into segments that Ferrite compiles and nodes that run in PyTorch. Linear in the graph's
size."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import fx

from ferrite.torch._collectives import stretches


@dataclasses.dataclass
class Part:
    """Either nodes of a segment, or one node that runs in PyTorch."""

    compiled: bool
    nodes: list[fx.Node]


def _is_ordered(node: fx.Node) -> bool:
    """Whether a node runs in the order of the model among its kind: it draws random numbers, or has an
    effect."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return False
    return torch.Tag.nondeterministic_seeded in node.target.tags or not node.target._schema.returns


def partition(nodes: Iterable[fx.Node], unsupported: Mapping[fx.Node, str]) -> list[Part]:
    """The parts in an order in which each finds its inputs computed."""
    computing = [node for node in nodes if node.op == "call_function"]
    divided = stretches(computing, lambda node: node in unsupported and _is_ordered(node))
    return [part for stretch in divided for part in _parts(stretch, unsupported)]


def _parts(nodes: Iterable[fx.Node], unsupported: Mapping[fx.Node, str]) -> list[Part]:
    """The parts of a stretch.

    The level of a node is the number of changes between PyTorch and Ferrite on the longest way to it within
    the stretch. All compiled nodes of a level are one segment.
    """
    level: dict[fx.Node, int] = {}
    segments: dict[int, list[fx.Node]] = {}
    others: dict[int, list[fx.Node]] = {}
    ordered_level = -1

    def level_of(node: fx.Node) -> int:
        """-1 for what is there before the stretch begins."""
        return level.get(node, -1)

    def is_outside(node: fx.Node) -> bool:
        """Whether no segment of the stretch computes it."""
        if node.target is operator.getitem:
            node = node.all_input_nodes[0]
        return node in unsupported or node not in level

    for node in nodes:
        used = node.all_input_nodes
        if node.target is operator.getitem:
            # With the node whose result it takes.
            (source,) = used
            level[node] = level_of(source)
            side = others if source in unsupported else segments
            side.setdefault(level[node], []).append(node)
            continue
        if node in unsupported:
            level[node] = max((level_of(other) for other in used), default=-1)
            if _is_ordered(node):
                level[node] = ordered_level = max(ordered_level, level[node])
            others.setdefault(level[node], []).append(node)
        else:
            level[node] = max((level_of(other) + is_outside(other) for other in used), default=0)
            segments.setdefault(level[node], []).append(node)
    parts: list[Part] = []
    for number in range(-1, max([*segments, *others, -1]) + 1):
        if number in segments:
            parts.append(Part(True, segments[number]))
        parts.extend(Part(False, [node]) for node in others.get(number, []))
    return parts


def outputs_of(
    nodes: list[fx.Node], is_tensor: Callable[[fx.Node], bool], also: Iterable[fx.Node] = ()
) -> list[fx.Node]:
    """The nodes that others, or the graph's output, use; uses by the nodes `also` do not count."""
    inside = {*nodes, *also}
    return [node for node in nodes if is_tensor(node) and any(user not in inside for user in node.users)]
