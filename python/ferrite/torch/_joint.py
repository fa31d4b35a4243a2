# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The joint graph of forward and backward pass: Ferrite runs its passes on the whole of it and divides it.

AOTAutograd calls the partitioner with the joint graph. All of the graph becomes one model of Ferrite, whose
parts are compiled from post_grad_pre on; the FX graphs that go back to AOTAutograd hold one call of a
compiled part each.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch._aot_autograd.descriptors import InputMutationAOTOutput, SavedForBackwardsAOTOutput
from torch._functorch.partitioners import (
    cleanup_recompute_tags,
    has_recomputable_ops,
    min_cut_rematerialization_partition,
    must_recompute,
)
from torch._guards import detect_fake_mode
from torch.utils.checkpoint import CheckpointPolicy

from ferrite._errors import Error
from ferrite.torch._boxed import Boxed, Eager, Finished, Part, compiled
from ferrite.torch._collectives import is_collective
from ferrite.torch._compile import GraphSettings, Report, _Compiler, listeners
from ferrite.torch._mutation import changed_and_read_backward, keep_old_contents, mutations_of
from ferrite.torch._narrow import narrow_places
from ferrite.torch._eager_random import detach_random, is_random
from ferrite.torch._random import replace_random
from ferrite.torch._regions import dtypes
from ferrite.torch._stream import (
    Segment,
    Sizes,
    dlpack_types,
    is_tensor,
    memory_order,
    stored_order,
    write_segment,
)
from ferrite.torch._views import View, WithGaps, divide

_transient, _held, _tangent = range(3)  # FERRITE_INPUT_*


def is_tangent(placeholder: fx.Node) -> bool:
    """Whether an input of a joint or backward graph is the gradient of a result."""
    return "tangents" in placeholder.target


class _Undivided(Exception):
    """The reason why PyTorch's partitioner divides the graph."""


def partitioner(settings: GraphSettings) -> Callable[..., tuple[fx.GraphModule, fx.GraphModule]]:
    """A `partition_fn` of AOTAutograd. Graphs that Ferrite cannot compile as a whole are divided by PyTorch's
    partitioner, and the passes of the joint hooks then run on each part."""
    options = settings.options

    def divide_joint(
        module: fx.GraphModule,
        inputs: Any,
        *,
        num_fwd_outputs: int,
        static_lifetime_input_indices: Sequence[int] | None = None,
    ) -> tuple[fx.GraphModule, fx.GraphModule]:
        module.graph.eliminate_dead_code()
        if not options.fallback_random:
            replace_random(module)
        narrow_places(module.graph)
        report = Report(settings.kind, sum(node.op == "call_function" for node in module.graph.nodes))
        try:
            parts = _Joint(
                module, settings, num_fwd_outputs, static_lifetime_input_indices or (), report
            ).divide()
        except _Undivided as reason:
            report.note = (
                f"divided by PyTorch's partitioner; passes of joint hooks run on each part: {reason}"
            )
            parts = None
        for listener in listeners:
            listener(report)
        if parts is not None:
            return parts
        keep_old_contents(module.graph, num_fwd_outputs)
        with torch._functorch.config.patch(activation_memory_budget=options.activation_memory_budget):
            return min_cut_rematerialization_partition(
                module,
                inputs,
                num_fwd_outputs=num_fwd_outputs,
                static_lifetime_input_indices=static_lifetime_input_indices,
            )

    return divide_joint


def compiled_part(module: fx.GraphModule) -> Boxed | None:
    """A graph that the partitioner made, as a function of one list; None for others."""
    calls = module.graph.find_nodes(op="call_module")
    if not calls:
        # The results of this part may be views of its arguments.
        made = any(isinstance(node.target, (View, WithGaps)) for node in module.graph.nodes)
        return Boxed(Eager.of(module)) if made else None
    if not isinstance(module.get_submodule(calls[0].target), Part):
        return None
    (call,) = calls
    part = module.get_submodule(call.target)
    positions = {node: k for k, node in enumerate(module.graph.find_nodes(op="placeholder"))}
    (output,) = module.graph.find_nodes(op="output")
    specs: list[Any] = []
    first: dict[fx.Node, int] = {}  # the position of each result
    repeated: list[tuple[int, int]] = []
    for k, value in enumerate(output.args[0]):
        if value in first:
            repeated.append((k, first[value]))
            specs.append(None)
        elif isinstance(value, fx.Node) and value.target is operator.getitem and value.args[0] is call:
            first[value] = k
            specs.append(part.outputs[value.args[1]])
        else:
            specs.append(positions.get(value))
    # The program gives its results in its own order, takes arguments only, and changes none.
    in_order = [node.args[1] for node in first] == list(range(len(part.outputs)))
    others = [
        value
        for value, spec in zip(output.args[0], specs, strict=True)
        if spec is None and value not in first
    ]
    if (
        not in_order
        or mutations_of(module.graph)
        or any(node not in positions for node in call.args)
        or any(value is not None for value in others)
    ):
        return Boxed(Eager.of(module), part.said)
    program = part.program([positions[node] for node in call.args], specs)
    if repeated:
        program = Finished(program, [], [(k, source, None) for k, source in repeated], len(specs))
    return Boxed(program, part.said)


def _reason_against(module: fx.GraphModule) -> str | None:
    """The reason why only PyTorch's partitioner can divide the graph; None if there is none."""
    copies = {one.copy for one in mutations_of(module.graph).values()}
    for node in module.graph.nodes:
        if is_collective(node):
            return f"node '{node.name}' ({node.target}) runs in PyTorch's process group"
        value = node.meta.get("val")
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) or (
            is_tensor(node)
            and any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))
        ):
            return "its sizes are symbolic"
        if node.op == "placeholder" and not is_tensor(node):
            return f"input '{node.name}' is no tensor"
        if node.meta.get("aot_runtime_epilogue_input_mutation") or node.meta.get(
            "saved_tensor_with_no_vc_check"
        ):
            return f"'{node.name}' is changed after the forward pass"
        tag = node.meta.get("partitioner_tag")
        if node in copies and tag != "must_be_in_backward":
            continue  # the forward pass ends with it
        if tag in ("must_be_in_forward", "must_be_in_backward") or (
            isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable
        ):
            return f"node '{node.name}' ({node.target}) has side effects"
    return None


def _saved_orders(graph: fx.Graph) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """The orders of the dims in which the backward pass gets values from the forward pass, by their dims.

    The inputs and results of convolutions have their channels last, as both passes compute them: stored row
    by row, each would be converted twice. On the CPU alone, since elsewhere this was not measured.
    """
    orders: dict[tuple[int, ...], tuple[int, ...]] = {}
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.convolution.default):
        for value in (node.meta["val"], node.args[0].meta["val"]):
            rank = value.dim()
            if rank >= 4 and value.device.type == "cpu" and value.shape[1] > 1:
                orders[tuple(value.shape)] = (0, *range(2, rank), 1)
    return list(orders.items())


class _Joint:
    """One joint graph, whose first `forward_count` outputs are those of the forward pass."""

    def __init__(
        self,
        module: fx.GraphModule,
        settings: GraphSettings,
        forward_count: int,
        held: Iterable[int],
        report: Report,
    ) -> None:
        if reason := _reason_against(module):
            raise _Undivided(reason)
        # A graph of its own: PyTorch's partitioner gets the other one if this fails.
        graph = fx.Graph()
        graph.output(graph.graph_copy(module.graph, {}))
        (output,) = module.graph.find_nodes(op="output")
        (copy,) = graph.find_nodes(op="output")
        copy.meta = dict(output.meta)
        detach_random(graph)
        self.module = fx.GraphModule(module, graph)
        if has_recomputable_ops(self.module):
            cleanup_recompute_tags(self.module, is_default_partition=False)
        self.graph = self.module.graph
        (self.output,) = self.graph.find_nodes(op="output")
        placeholders = self.graph.find_nodes(op="placeholder")
        self.tangents = [node for node in placeholders if is_tangent(node)]
        self.primals = [node for node in placeholders if not is_tangent(node)]
        self.held = {self.primals[k] for k in held} | set(self.graph.find_nodes(op="get_attr"))
        self.settings = settings
        self.options = settings.options
        self.forward_count = forward_count
        self.report = report
        self.sizes = Sizes({})
        self.compiler = _Compiler(self.module, self.sizes, settings, report)
        self.early: dict[fx.Node, None] = {}  # nodes that run in PyTorch before the forward part

    def divide(self) -> tuple[fx.GraphModule, fx.GraphModule]:
        unsupported = self.compiler.unsupported
        left = self.compiler.left
        if any(
            is_random(node) and node not in left for node in self.compiler.computing
        ):  # attention is tagged as random even without dropout
            self.compiler._survey()
        self._run_early([*unsupported, *left])
        try:
            forward, backward = self._partitioned()
        except Error as error:
            self._check(error)
            known = set(unsupported)
            self.compiler._survey()
            if not set(unsupported) - known:  # all could be imported
                raise _Undivided(str(error)) from error
            self._run_early([*unsupported, *left])
            forward, backward = self._partitioned()
        parts = self._modules(forward, backward)
        self.compiler._say()
        return parts

    def _check(self, error: Error) -> None:
        """Raises it if it must reach the user."""
        if not self.compiler._may_fall_back(error):
            raise error

    def _run_early(self, nodes: Iterable[fx.Node]) -> None:
        """Lets nodes run in PyTorch before the forward part, if they depend on nothing that Ferrite
        computes."""
        wanted = set(nodes)
        if self.compiler.unsupported and self.options.fallback == "error":
            raise _Undivided("it has nodes that Ferrite cannot compile")
        for node in self.graph.nodes:
            if node not in wanted and not (node.target is operator.getitem and node.args[0] in self.early):
                continue
            for used in node.all_input_nodes:
                if used in self.early or used.op == "get_attr" or used in self.primals:
                    continue
                if used.op != "call_function" or used.all_input_nodes:
                    reason = {**self.compiler.unsupported, **self.compiler.left}.get(node)
                    raise _Undivided(f"node '{node.name}' ({node.target}) runs in PyTorch: {reason}")
                self.early[used] = None
            self.early[node] = None

    def _partitioned(self) -> tuple[Any, Any]:
        """The models of both parts."""
        computing = [node for node in self.compiler.computing if node not in self.early]
        inside = set(computing)
        values = list(self.output.args[0])
        mutations = self.compiler.mutations
        contents = [one.value for one in mutations.values()]
        results = dict.fromkeys(
            value for value in [*values[: self.forward_count], *contents] if value in inside
        )
        self.shared = divide(inside, list(results), self.sizes, mutations.keys())
        forward = dict.fromkeys(self.shared.computed)
        backward = dict.fromkeys(
            value
            for value in values[self.forward_count :]
            if value is not None and value not in self.tangents
        )
        for value in backward:
            if value not in inside or value in forward:
                raise _Undivided(f"gradient '{value}' is an input or a result of the forward pass")
        self.segment = write_segment(computing, [*forward, *backward], self.sizes)
        kinds = bytes(
            _tangent if node in self.tangents else _held if node in self.held else _transient
            for node, _ in self.segment.inputs
        )
        saved, recomputed = [], []
        changed = changed_and_read_backward(self.graph, self.forward_count)
        for node in computing:
            if must_recompute(node):
                recomputed.append(node.name)
            elif node.meta.get("recompute") == CheckpointPolicy.MUST_SAVE or any(
                used in changed for used in node.all_input_nodes
            ):
                saved.append(node.name)
        model = self.compiler.session.load("graph.aten", self.segment.stream)._model
        return model.partition(
            len(forward),
            kinds,
            self.options.activation_memory_budget,
            saved,
            recomputed,
            _saved_orders(self.graph),
            True,  # autograd frees what it keeps for a backward pass with it
            self.settings.first_stage,
        )

    def _modules(self, forward: Any, backward: Any) -> tuple[fx.GraphModule, fx.GraphModule]:
        ports = _Ports(self.segment, self._device())
        values, descriptions = self.output.args[0], self.output.meta.get(
            "desc", [None] * len(self.output.args[0])
        )
        count = self.forward_count

        graph = fx.Graph()
        made = {node: graph.node_copy(node) for node in self.primals}
        made.update({node: graph.node_copy(node) for node in self.graph.find_nodes(op="get_attr")})
        for node in self.graph.nodes:
            if node in self.early:
                made[node] = graph.node_copy(node, lambda used: made[used])
        given = {node.name: copy for node, copy in made.items()}
        results = self._call("ferrite_forward", graph, forward, ports, given)
        made.update({node: results[node.name] for node in self.shared.computed})
        for node, take in (*self.shared.gaps.items(), *self.shared.views.items()):
            made[node] = graph.call_function(take, (made[take.base],))
            made[node].meta["val"] = node.meta["val"]
        known = {node.name: copy for node, copy in made.items()} | results
        taken = [name for name, _, _ in backward.inputs()]
        changed = {
            one.mutated_input for one in descriptions[:count] if isinstance(one, InputMutationAOTOutput)
        }
        for node in self.primals:
            if node.name in taken and (node.meta.get("desc") in changed or node in self.compiler.mutations):
                raise _Undivided(
                    f"input '{node.name}' is changed, and the backward pass would need it as it was"
                )
        tangents = {node.name for node in self.tangents}
        constants = {node.name: node for node in self.held if node.op == "get_attr"}
        saved = {name: known[name] for name in taken if name not in tangents and name not in constants}
        for one in self.compiler.mutations.values():
            graph.node_copy(one.copy, lambda used: made[used])
        graph.output(tuple([*fx.map_arg(values[:count], lambda used: made[used]), *saved.values()]))
        self._describe(
            graph, [*descriptions[:count], *(SavedForBackwardsAOTOutput(k) for k in range(len(saved)))]
        )
        held = {node.name for node in self.held}
        self.report.saved_bytes = sum(
            copy.meta["val"].nbytes for name, copy in saved.items() if name not in held
        )

        back = fx.Graph()
        given = {}
        for name, copy in saved.items():
            given[name] = back.placeholder(copy.name)
            given[name].meta = dict(copy.meta)
        inputs = {node: back.node_copy(node) for node in self.tangents}
        given.update({node.name: copy for node, copy in inputs.items()})
        given.update({name: back.node_copy(node) for name, node in constants.items() if name in taken})
        results = self._call("ferrite_backward", back, backward, ports, given)
        back.output(
            tuple(
                fx.map_arg(
                    values[count:], lambda used: inputs[used] if used in inputs else results[used.name]
                )
            )
        )
        self._describe(back, descriptions[count:])
        self.report.streams.append(self.segment.stream)
        self.report.programs += [part for part in (forward, backward) if part.outputs()]
        return fx.GraphModule(self.module, graph), fx.GraphModule(self.module, back)

    def _describe(self, graph: fx.Graph, descriptions: Iterable[Any]) -> None:
        (output,) = graph.find_nodes(op="output")
        output.meta["desc"] = list(descriptions)
        graph.lint()

    def _call(
        self, target: str, graph: fx.Graph, model: Any, ports: _Ports, given: dict[str, fx.Node]
    ) -> dict[str, fx.Node]:
        """Compiles a part and adds its call, as a module of this name, to the graph; gives the nodes of its
        results by name."""
        outputs = [name for name, _, _ in model.outputs()]
        if not outputs:
            return {}
        inputs = [name for name, _, _ in model.inputs()]
        try:
            made = compiled(
                model,
                [ports.input_type(name) for name in inputs],
                self.options,
                self.compiler.device,
                self.settings.keep,
            )
        except Error as error:
            self._check(error)
            raise _Undivided(str(error)) from error
        types = []
        for name, dtype, dims in model.outputs():
            ports.add_saved(name, dtype, dims)
            types.append(ports.output_type(name))
        donated = [k for k, name in enumerate(inputs) if name in ports.saved]
        part = Part(made, [ports.argument(name) for name in inputs], types, donated, self.compiler.said)
        self.module.add_module(target, part)
        call = graph.call_module(target, tuple(given[name] for name in inputs))
        call.meta["val"] = [ports.fake(name) for name in outputs]
        results = {}
        for k, name in enumerate(outputs):
            results[name] = graph.call_function(operator.getitem, (call, k))
            results[name].meta["val"] = call.meta["val"][k]
        return results

    def _device(self) -> torch.device:
        """That of values which the forward part keeps: of all tensors, a number on the CPU may be among
        them."""
        devices = [node.meta["val"].device for node in self.graph.nodes if is_tensor(node)]
        return next((device for device in devices if device.type != "cpu"), torch.device("cpu"))


class _Ports:
    """Types of the ports of both parts, by name."""

    def __init__(self, segment: Segment, device: torch.device) -> None:
        self.saved: set[str] = set()  # values that only the parts have
        self._device = device
        self._orders = {node.name: order for node, order in segment.inputs}
        self._inputs = {
            node.name: type_ for (node, _), type_ in zip(segment.inputs, segment.input_types, strict=True)
        }
        self._outputs = {
            node.name: type_ for node, type_ in zip(segment.outputs, segment.output_types, strict=True)
        }
        self._fakes = {
            node.name: node.meta["val"] for node in [*(node for node, _ in segment.inputs), *segment.outputs]
        }
        self._mode = detect_fake_mode([node.meta["val"] for node, _ in segment.inputs])
        for name, type_ in self._outputs.items():
            # The backward part may take a forward output as it lies in memory.
            tensor = self._fakes[name]
            self._orders[name] = stored_order(memory_order(list(tensor.shape), list(tensor.stride())))
            self._inputs[name] = type_[:5]

    def add_saved(self, name: str, dtype: str, dims: Sequence[int]) -> None:
        """A value that only the forward part has, with its dims in the order of its port."""
        if name in self._outputs:
            return
        self.saved.add(name)
        with self._mode:
            self._fakes[name] = torch.empty(dims, dtype=dtypes[dtype], device=self._device)
        number = self._device.index or 0
        kind = 1 if self._device.type == "cpu" else 10 if torch.version.hip else 2
        self._inputs[name] = (*dlpack_types[dtypes[dtype]], kind, number, list(dims))
        self._outputs[name] = (*self._inputs[name], None)
        self._orders[name] = None

    def input_type(self, name: str) -> tuple[Any, ...]:
        return self._inputs[name]

    def output_type(self, name: str) -> tuple[Any, ...]:
        return self._outputs[name]

    def argument(self, name: str) -> tuple[Any, ...]:
        """Of an input, as Part takes it."""
        return self._orders[name], *self._inputs[name][:2], self._fakes[name].dtype

    def fake(self, name: str) -> torch.Tensor:
        return self._fakes[name]
