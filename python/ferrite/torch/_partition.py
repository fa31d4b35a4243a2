# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Divides a graph into segments that Ferrite compiles and nodes that run in PyTorch. Linear in the graph's
size."""

from __future__ import annotations

import collections
import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Mapping

import torch
from torch import fx

from ferrite.torch._collectives import stretches


_few_bytes = 1 << 10  # of values that are not worth a look at all their users


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


def partition(
    nodes: Iterable[fx.Node], unsupported: Mapping[fx.Node, str], bytes_of: Callable[[fx.Node], int]
) -> list[Part]:
    """The parts in an order in which each finds its inputs computed."""
    computing = [node for node in nodes if node.op == "call_function"]
    divided = stretches(computing, lambda node: node in unsupported and _is_ordered(node))
    changed = _changed(computing[0].graph.nodes) if computing else set()
    return [part for stretch in divided for part in _parts(stretch, unsupported, changed, bytes_of)]


def _parts(
    nodes: Iterable[fx.Node],
    unsupported: Mapping[fx.Node, str],
    changed: set[fx.Node],
    bytes_of: Callable[[fx.Node], int],
) -> list[Part]:
    """The parts of a stretch.

    The level of a node is the number of changes between PyTorch and Ferrite on the longest way to it within
    the stretch. All compiled nodes of a level are one segment, but for those that are better computed later.
    """
    level: dict[fx.Node, int] = {}
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
            if source in unsupported:
                others.setdefault(level[node], []).append(node)
            continue
        if node in unsupported:
            level[node] = max((level_of(other) for other in used), default=-1)
            if _is_ordered(node):
                level[node] = ordered_level = max(ordered_level, level[node])
            others.setdefault(level[node], []).append(node)
        else:
            level[node] = max((level_of(other) + is_outside(other) for other in used), default=0)
    segments: dict[int, list[fx.Node]] = {}
    level |= _later(level, unsupported, changed, bytes_of)
    for node in level:
        if not is_outside(node):
            segments.setdefault(level[node], []).append(node)
    parts: list[Part] = []
    for number in range(-1, max([*segments, *others, -1]) + 1):
        if number in segments:
            parts.append(Part(True, segments[number]))
        parts.extend(Part(False, [node]) for node in others.get(number, []))
    return parts


def _later(
    level: Mapping[fx.Node, int],
    unsupported: Mapping[fx.Node, str],
    changed: set[fx.Node],
    bytes_of: Callable[[fx.Node], int],
) -> dict[fx.Node, int]:
    """New levels for compiled nodes whose results only later segments use. Values that a backward pass
    computes again are an example: computed where they are used, they need no memory between segments. Nodes
    that depend on each other move together, and only if that keeps no more bytes between the segments. Nodes
    that read or write values in `changed` stay where they are."""
    made: dict[fx.Node, int] = {}
    results: dict[fx.Node, list[fx.Node]] = {}  # of nodes with several
    levels: dict[int, list[fx.Node]] = {}
    for node in level:
        if node.target is operator.getitem:
            results.setdefault(node.all_input_nodes[0], []).append(node)
        elif node not in unsupported:
            levels.setdefault(level[node], []).append(node)
    # From the last level on, so that the levels of users in others are known.
    for number in sorted(levels, reverse=True):
        latest: dict[fx.Node, int] = {}
        for node in reversed(levels[number]):
            if _is_ordered(node) or not changed.isdisjoint([node, *node.all_input_nodes]):
                continue
            own = results.get(node, [])
            users = [user for one in (node, *own) for user in one.users if user not in own]
            if not users or any(user not in level for user in users):
                continue
            last = min(latest.get(user, made.get(user, level[user])) for user in users)
            if last > number:
                latest.update(dict.fromkeys([node, *own], last))
        for group in _connected(latest):
            if _keeps_less(group, latest, collections.ChainMap(made, level), bytes_of):
                made.update((node, latest[node]) for node in group)
    return made


def _keeps_less(
    group: list[fx.Node],
    latest: Mapping[fx.Node, int],
    level: Mapping[fx.Node, int],
    bytes_of: Callable[[fx.Node], int],
) -> bool:
    """Whether moving a group to its later levels keeps no more bytes, counted once for each level that they
    live: its operands may then live longer, and its results need not live before."""
    moved = set(group)
    needed: dict[fx.Node, int] = {}  # operands, and the last level that then uses them
    for node in group:
        for used in node.all_input_nodes:
            if used not in moved:
                needed[used] = max(needed.get(used, -1), latest[node])
    kept = 0.0
    for used, last in needed.items():
        if bytes_of(used) > _few_bytes:
            until = max(level.get(user, math.inf) for user in used.users)
            kept += bytes_of(used) * max(0, last - until)
    return kept <= sum(
        bytes_of(node) * (latest[node] - level[node])
        for node in group
        if any(user not in moved for user in node.users)
    )


def _connected(nodes: Iterable[fx.Node]) -> list[list[fx.Node]]:
    """The nodes by groups of those that depend on each other."""
    found: dict[fx.Node, list[fx.Node]] = {node: [node] for node in nodes}
    for node in found:
        for used in node.all_input_nodes:
            if used not in found or found[used] is found[node]:
                continue
            small, large = sorted((found[node], found[used]), key=len)
            large.extend(small)
            found.update(dict.fromkeys(small, large))
    return list({id(group): group for group in found.values()}.values())


def _changed(nodes: Iterable[fx.Node]) -> set[fx.Node]:
    """The values that nodes change in place, and those nodes."""
    changing = {
        node
        for node in nodes
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
    }
    return changing.union(*(node.all_input_nodes for node in changing))


def outputs_of(
    nodes: list[fx.Node], is_tensor: Callable[[fx.Node], bool], also: Iterable[fx.Node] = ()
) -> list[fx.Node]:
    """The nodes that others, or the graph's output, use; uses by the nodes `also` do not count."""
    inside = {*nodes, *also}
    return [node for node in nodes if is_tensor(node) and any(user not in inside for user in node.users)]
