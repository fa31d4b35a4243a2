# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Passes of pre_grad, on a model's graph before AOTAutograd differentiates it."""

from __future__ import annotations

import json
import operator
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch.fx.experimental.proxy_tensor import make_fx

from ferrite._errors import Error
from ferrite.torch._compile import Report, device_type_of, listeners, survey
from ferrite.torch._options import Options, session_for
from ferrite.torch._eager_random import is_random
from ferrite.torch._regions import Region
from ferrite.torch._stream import Sizes, is_tensor, why_not, write_segment

aten = torch.ops.aten

# They change statistics, which their schemas do not say.
_changing = {
    aten.batch_norm.default,
    aten.instance_norm.default,
    aten.cudnn_batch_norm.default,
    aten.native_batch_norm.default,
}


def with_pre_grad_passes(
    module: fx.GraphModule, inputs: Sequence[Any], options: Options
) -> tuple[fx.GraphModule, str]:
    """The module after the pipeline's passes at pre_grad: each region that they changed is one operator, for
    which Ferrite compiles the ops that the passes left.

    The second result is the stage from which the graphs that AOTAutograd makes of it are compiled: "pre_grad"
    where the passes could not run, else "decompose_early". A graph that is not differentiated is returned as
    it is: these passes run when it is compiled."""
    tensors = [*inputs, *module.parameters()]
    differentiated = any(isinstance(one, torch.Tensor) and one.requires_grad for one in tensors)
    if not torch.is_grad_enabled() or not differentiated:
        return module, "pre_grad"
    if not has_passes("pre_grad", options, tensors):
        return module, "decompose_early"
    session = session_for(options, device_type_of(one for one in tensors if isinstance(one, torch.Tensor)))
    report = Report("pre_grad", sum(node.op == "call_function" for node in module.graph.nodes))
    first_stage = "decompose_early"
    if reason := _reason_against(module, inputs):
        report.note = f"passes of pre_grad run on the graphs after differentiation instead: {reason}"
        first_stage = "pre_grad"
    else:
        traced = _traced(module, inputs)
        changes = [change for nodes in _intervals(traced.graph) for change in _changes(session, nodes)]
        for change in changes:
            _replace(traced, change)
        if changes:
            traced.graph.eliminate_dead_code()
            traced.recompile()
            module = traced
            report.note = "; ".join(
                f"{', '.join(one['passes'])} replaced {', '.join(one['nodes'])}" for one in changes
            )
    for listener in listeners:
        listener(report)
    return module, first_stage


def has_passes(hook: str, options: Options, tensors: Iterable[Any]) -> bool:
    """Whether the pipeline for these tensors has passes of plugins at a hook."""
    session = session_for(options, device_type_of(one for one in tensors if isinstance(one, torch.Tensor)))
    passes = [line.split("\t") for line in session._session.passes(hook).splitlines()]
    return any(plugin != "ferrite.passes" for _, plugin in passes)  # constants are folded later, too


def _reason_against(module: fx.GraphModule, inputs: Sequence[Any]) -> str | None:
    for node in module.graph.nodes:
        if isinstance(node.target, torch._ops.HigherOrderOperator):
            return f"the graph has the operator '{node.target}', which holds a graph of its own"
        if node.target is torch.amp.autocast_mode._enter_autocast:
            return "autocast decides its dtypes later"
    if torch._C._is_any_autocast_enabled():
        return "autocast decides its dtypes later"
    for one in inputs:
        if not isinstance(one, torch.Tensor) or any(isinstance(size, torch.SymInt) for size in one.shape):
            return "its sizes are symbolic"
    return None


def _traced(module: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """The module in operators of ATen, before autograd and with composite operators whole."""

    def run(*arguments: Any) -> Any:
        with fx.traceback.preserve_node_meta():
            return fx.Interpreter(module).run(*arguments)

    mode = detect_fake_mode(inputs)
    with mode:
        fakes = [mode.from_tensor(one, static_shapes=True) for one in inputs]
        traced = make_fx(run, pre_dispatch=True)(*fakes)
    places = (graph.find_nodes(op="placeholder") for graph in (module.graph, traced.graph))
    for known, node in zip(*places, strict=True):
        node.meta = {**known.meta, **node.meta}
    traced.meta = dict(module.meta)
    return traced


def _intervals(graph: fx.Graph) -> list[list[fx.Node]]:
    """Nodes that Ferrite may rewrite. Between two intervals a node changes a tensor or a mode of PyTorch."""
    intervals: list[list[fx.Node]] = [[]]
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        is_overload = isinstance(node.target, torch._ops.OpOverload)
        is_opaque = not is_overload or node.target._schema.is_mutable
        if node.target in _changing or (is_opaque and node.target is not operator.getitem):
            intervals.append([])
        elif not why_not(node) and not is_random(node):
            intervals[-1].append(node)
    return [nodes for nodes in intervals if nodes]


def _changes(session: Any, nodes: Sequence[fx.Node]) -> list[dict[str, Any]]:
    """The changes that the passes make in these nodes, as changed_regions() gives them."""
    unsupported = survey(session, nodes, Sizes({}))
    nodes = [
        node
        for node in nodes
        if node not in unsupported
        and not (node.target is operator.getitem and node.args[0] in unsupported)
    ]
    if not nodes:
        return []
    named = [node for node in nodes if is_tensor(node)]
    inside = set(nodes)
    real = [k for k, node in enumerate(named) if any(user not in inside for user in node.users)]
    segment = write_segment(nodes, named, Sizes({}), in_memory_order=False)
    model = session.load("graph.aten", segment.stream)._model
    return json.loads(model.changed_regions("pre_grad", real))


def _replace(module: fx.GraphModule, change: dict[str, Any]) -> None:
    """Puts one node in the place of a region."""
    graph = module.graph
    by_name = {node.name: node for node in graph.nodes}
    replaced = {by_name[name] for name in change["nodes"]}
    replaced |= {user for node in replaced for user in node.users if user.target is operator.getitem}
    order = {node: k for k, node in enumerate(graph.nodes)}
    results = [by_name[name] for name, _ in change["outputs"]]
    taken = [by_name[name] for name in change["inputs"]]
    inputs = list(dict.fromkeys(_inputs_of(sorted(replaced, key=order.__getitem__), taken)))
    users = {user for node in results for user in node.users if user not in replaced}
    last = max(inputs, key=order.__getitem__)
    if users and order[last] >= min(order[user] for user in users):
        raise Error(
            "FE-G59",
            f"pass '{', '.join(change['passes'])}' makes one region of {', '.join(change['nodes'])}, and a "
            "node between them needs a result of it that others of them do not follow; run the pass at "
            "joint_pre or later",
            results[0].name,
            1,
        )
    original = fx.Graph()
    made = {node: original.placeholder(node.name) for node in inputs}
    for node in sorted(replaced, key=order.__getitem__):
        made[node] = original.node_copy(node, lambda used: made[used])
    original.output(tuple(made[node] for node in results))
    examples = [node.meta["val"] for node in inputs]
    with detect_fake_mode(examples):
        region = Region(change, [node.name for node in inputs], fx.GraphModule(module, original), examples)
    with graph.inserting_after(last):
        call = graph.call_function(torch.ops.ferrite.region.default, (region.key, inputs))
    kept = ("stack_trace", "nn_module_stack", "custom")
    call.meta = {key: value for key, value in results[-1].meta.items() if key in kept}
    call.meta["val"] = [node.meta["val"] for node in results]
    for k, node in reversed(list(enumerate(results))):
        with graph.inserting_after(call):
            result = graph.call_function(operator.getitem, (call, k))
        result.meta["val"] = node.meta["val"]
        node.replace_all_uses_with(result, delete_user_cb=lambda user: user not in replaced)
    for node in sorted(replaced, key=order.__getitem__, reverse=True):
        graph.erase_node(node)


def _inputs_of(nodes: Iterable[fx.Node], others: Iterable[fx.Node]) -> Iterable[fx.Node]:
    nodes = list(nodes)
    for node in nodes:
        yield from (used for used in node.all_input_nodes if used not in nodes)
    yield from others
