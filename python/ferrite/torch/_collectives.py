# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Collectives of torch.distributed in a graph: which nodes they are, and when they run.

A node such as `_c10d_functional.all_reduce` starts a transfer between processes, and `wait_tensor` waits for
its result. PyTorch's process group runs both, between segments. Nodes between the two are computed during
the transfer.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import fx

_namespaces = {"_c10d_functional", "_c10d_functional_autograd", "c10d_functional", "_dtensor"}


def _operator_of(node: fx.Node) -> torch._ops.OpOverload | None:
    """The operator that a node calls, also where AOTAutograd wrapped it since it writes to an argument."""
    target = node.target
    if isinstance(target, torch._ops.HigherOrderOperator) and node.args:
        target = node.args[0]
    return target if isinstance(target, torch._ops.OpOverload) else None


def is_collective(node: fx.Node) -> bool:
    """Whether a node starts a collective, or waits for the result of one."""
    target = _operator_of(node)
    return target is not None and target.namespace in _namespaces


def _is_wait(node: fx.Node) -> bool:
    target = _operator_of(node)
    return target is not None and is_collective(node) and "::wait_tensor" in target._schema.name


def _changes_argument(node: fx.Node) -> bool:
    """Whether a collective changes a tensor of the graph, or a wait ends such a change."""
    makers = map(_made_by, node.all_input_nodes) if _is_wait(node) else [node]
    return any(
        isinstance(maker.target, torch._ops.OpOverload) and maker.target._schema.is_mutable
        for maker in makers
    )


def _made_by(node: fx.Node) -> fx.Node:
    """The node that computes this one: another one for an element of its results."""
    return node.all_input_nodes[0] if node.target is operator.getitem else node


def stretches(nodes: Iterable[fx.Node], is_ordered: Callable[[fx.Node], bool]) -> list[list[fx.Node]]:
    """Divides the nodes of a graph into stretches that run one after another. Each collective and each wait
    is a stretch of its own; a graph without them is one stretch.

    - Collectives keep the order of the graph: it is the same in all processes, which would otherwise wait for
      each other.
    - A collective starts as soon as its inputs are there. Nodes that it does not need are computed later.
    - A wait runs when the next collective, or the rest of the graph, cannot go on without it. All nodes that
      can be computed before it are.

    is_ordered: whether a node keeps its place among all nodes for which this holds.
    """
    result: list[list[fx.Node]] = []
    rest: list[fx.Node] = []
    for node in nodes:
        if is_collective(node) and _changes_argument(node):
            # Nodes before it may read the old contents, and nodes after it the new ones.
            result += [*_stretches(rest, is_ordered), [node]]
            rest = []
        else:
            rest.append(node)
    return [*result, *_stretches(rest, is_ordered)]


def _stretches(nodes: Sequence[fx.Node], is_ordered: Callable[[fx.Node], bool]) -> list[list[fx.Node]]:
    if not any(is_collective(node) for node in nodes):
        return [list(nodes)] if nodes else []
    before = _predecessors(nodes, is_ordered)
    events = _events(nodes, before)
    position = {event: k for k, event in enumerate(events)}
    # The next wait from each position on.
    pauses = [len(events)]
    for k in reversed(range(len(events))):
        pauses.append(k if _is_wait(events[k]) else pauses[-1])
    pauses.reverse()
    # The first event that needs a node: the node runs before it.
    latest = dict.fromkeys(nodes, len(events))
    for node in reversed(nodes):
        for other in before[node]:
            latest[other] = min(latest[other], position.get(node, latest[node]))
    # The events that are over when a node's inputs are there are the first `ready[node]` ones.
    ready: dict[fx.Node, int] = {}
    between: list[list[fx.Node]] = [[] for _ in range(len(events) + 1)]  # before each event, and at the end
    alone = [[event] for event in events]
    for node in nodes:
        source = _made_by(node) if _made_by(node) in latest else node
        if source in position:
            ready[node] = position[source] + 1
            if node is not source:
                alone[position[source]].append(node)
        else:
            ready[node] = max((ready[other] for other in before[node]), default=0)
            between[min(latest[source], pauses[ready[source]])].append(node)
    result = [between[0]]
    for event, later in zip(alone, between[1:], strict=True):
        result += [event, later]
    return [stretch for stretch in result if stretch]


def _predecessors(
    nodes: Sequence[fx.Node], is_ordered: Callable[[fx.Node], bool]
) -> dict[fx.Node, list[fx.Node]]:
    """For each node the ones among `nodes` that have to run before it."""
    before: dict[fx.Node, list[fx.Node]] = {}
    waits: dict[fx.Node, fx.Node] = {}
    last_ordered: list[fx.Node] = []
    for node in nodes:
        used = node.all_input_nodes
        # Code may wait, and then read the tensor for which it waited instead of the wait's result.
        found = [*used, *(waits[other] for other in used if other in waits)]
        if is_ordered(node):
            found += last_ordered
            last_ordered = [node]
        before[node] = [other for other in found if other in before]
        if _is_wait(node):
            waits.update(dict.fromkeys(used, node))
    return before


def _events(nodes: Sequence[fx.Node], before: dict[fx.Node, list[fx.Node]]) -> list[fx.Node]:
    """The collectives and waits in the order in which they run. Waits between the same two collectives have
    the order in which their results are read."""
    starts = [node for node in nodes if is_collective(node) and not _is_wait(node)]
    number = {node: k for k, node in enumerate(starts)}
    first_start = dict.fromkeys(nodes, len(starts))  # that needs the node
    for node in reversed(nodes):
        for other in before[node]:
            first_start[other] = min(first_start[other], number.get(node, first_start[node]))
    read: dict[fx.Node, None] = {}
    for node in nodes:
        if node.target is not operator.getitem:
            read.update(dict.fromkeys(map(_made_by, before[node])))
    waits: list[list[fx.Node]] = [[] for _ in range(len(starts) + 1)]  # before each start, and at the end
    for node in dict.fromkeys([*read, *nodes]):
        if _is_wait(node):
            waits[first_start[node]].append(node)
    events = list(waits[0])
    for start, later in zip(starts, waits[1:], strict=True):
        events += [start, *later]
    return events
