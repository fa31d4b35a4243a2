# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiles an FX graph of ATen nodes to a function of a list of tensors."""

from __future__ import annotations

import collections
import dataclasses
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ferrite._errors import Error
from ferrite.torch._boxed import (
    Boxed,
    BypassAOTAutogradCache,
    Compiled,
    Eager,
    Finished,
    SegmentCall,
    compiled,
    warn_once,
)
from ferrite.torch._collectives import is_collective
from ferrite.torch._fork import lock_that_survives_forks
from ferrite.torch._mutation import mutated_in, mutations_of
from ferrite.torch._options import Options, session_for
from ferrite.torch._partition import Part, outputs_of, partition
from ferrite.torch._random import replace_random, seeds_op
from ferrite.torch._stream import (
    Segment,
    Sizes,
    is_symbolic,
    is_tensor,
    place_of,
    why_not,
    write_segment,
)
from ferrite.torch._views import divide


@dataclasses.dataclass
class Report:
    """The account of one graph."""

    kind: str  # "joint", "forward", "backward", "inference" or "step"
    nodes: int = 0
    programs: list[Any] = dataclasses.field(default_factory=list)  # _bridge.Model
    streams: list[bytes] = dataclasses.field(default_factory=list)  # of the programs
    # Node, overload, reason.
    unsupported: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)
    left: list[tuple[str, str, str]] = dataclasses.field(default_factory=list)  # to PyTorch, by choice
    saved_bytes: int | None = None  # of a joint graph: what its forward part keeps for the backward part
    note: str = ""


Listener = Callable[[Report], None]
listeners: list[Listener] = []


@dataclasses.dataclass(frozen=True)
class GraphSettings:
    """How a graph is compiled."""

    options: Options
    kind: str  # as of Report
    keep: bool = False  # AOTAutograd may keep the function for other processes
    # Arguments that are constants of the programs, which do not read them.
    frozen: Mapping[fx.Node, torch.Tensor] = dataclasses.field(default_factory=dict)
    first_stage: str = "pre_grad"  # as of with_pre_grad_passes()


def compile_graph(module: fx.GraphModule, settings: GraphSettings) -> Boxed:
    """A function of the graph's arguments in one list, which it empties. Graphs with symbolic sizes are
    compiled once for each combination of sizes that a call brings."""
    if settings.kind in ("inference", "step") and not settings.options.fallback_random:
        replace_random(module)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    if any(isinstance(node.meta.get("val"), (torch.SymInt, torch.SymFloat)) for node in placeholders) or any(
        is_tensor(node) and any(isinstance(size, torch.SymInt) for size in node.meta["val"].shape)
        for node in placeholders
    ):
        # With symbolic sizes it is not kept.
        return Boxed(_SizedGraph(module, placeholders, dataclasses.replace(settings, keep=False)))
    return _compile_sized(module, Sizes({}), settings)


class _SizedGraph:
    """A graph with symbolic sizes. Any thread may call it."""

    def __init__(
        self,
        module: fx.GraphModule,
        placeholders: list[fx.Node],
        settings: GraphSettings,
    ) -> None:
        self._module = module
        self._placeholders = placeholders
        self._settings = settings
        self._programs: dict[tuple[Any, ...], Callable[[list[Any]], Sequence[Any]]] = {}
        self._lock = lock_that_survives_forks()

    def __reduce__(self) -> tuple[Any, ...]:
        raise BypassAOTAutogradCache("its sizes are symbolic")

    def __call__(self, arguments: list[Any]) -> Sequence[Any]:
        key = tuple(
            (*one.shape, *one.stride()) if isinstance(one, torch.Tensor) else one for one in arguments
        )
        program = self._programs.get(key)
        if program is None:
            with self._lock:
                program = self._programs.get(key)
                if program is None:
                    sizes = Sizes.bound(self._placeholders, arguments)
                    program = _compile_sized(self._module, sizes, self._settings)
                    self._programs[key] = program
        return program(arguments)


def _compile_sized(module: fx.GraphModule, sizes: Sizes, settings: GraphSettings) -> Boxed:
    graph = module.graph
    report = Report(settings.kind, sum(node.op == "call_function" for node in graph.nodes))
    compiler = _Compiler(module, sizes, settings, report)
    run = compiler.run()
    for listener in listeners:
        listener(report)
    return Boxed(run, compiler.said)


def device_type_of(tensors: Iterable[torch.Tensor]) -> str:
    """The device on which a graph of these tensors runs. Numbers on the CPU may be among those of another
    device."""
    for tensor in tensors:
        if tensor.device.type != "cpu":
            return "hip" if tensor.device.type == "cuda" and torch.version.hip else tensor.device.type
    return "cpu"


def survey(session: Any, nodes: Sequence[fx.Node], sizes: Sizes) -> dict[fx.Node, str]:
    """The nodes that the importer refuses, with its reasons."""
    segment = write_segment(nodes, [], sizes)
    model = session.load("graph.aten", segment.stream)
    refused = {}
    for line in model._model.unsupported().splitlines():
        index, _, code, reason = line.split("\t", 3)
        refused[segment.streamed[int(index) - segment.first]] = f"{code}: {reason}"
    return refused


def _why_left(node: fx.Node, options: Options) -> str | None:
    """Why a node runs in PyTorch by choice: it is no fallback. None: Ferrite compiles it."""
    if node.target is seeds_op:
        return "it draws from PyTorch's generator"
    if is_collective(node):
        return "PyTorch's process group runs it"
    value = node.args[0].meta.get("val") if node.args and isinstance(node.args[0], fx.Node) else None
    if not isinstance(value, torch.Tensor) or value.device.type != "cuda":
        return None
    if not options.pytorch_kernels:
        return None
    if node.target is torch.ops.aten.convolution_backward.default:
        return "gradients of convolutions are faster in PyTorch's library for this device"
    name = str(node.target)
    if name.startswith("aten._scaled_dot_product_cudnn"):
        return "it names PyTorch's library for this device"
    if name.startswith("aten._scaled_dot_product_") and (
        name.endswith("_backward.default") or _keeps_log_sum(node)
    ):
        return "attention with a gradient is faster in PyTorch's library for this device"
    return None


def _keeps_log_sum(attention: fx.Node) -> bool:
    """Whether the second result is used: what the gradient takes."""
    return any(
        user.target is operator.getitem and user.args[1] == 1 and user.users for user in attention.users
    )


class _Compiler:
    def __init__(
        self,
        module: fx.GraphModule,
        sizes: Sizes,
        settings: GraphSettings,
        report: Report,
    ) -> None:
        self.module = module
        self.settings = settings
        self.sizes = sizes
        self.options = settings.options
        self.report = report
        self.mutations = mutations_of(module.graph)
        self.copies = {one.copy for one in self.mutations.values()}
        self.computing = [
            node
            for node in module.graph.nodes
            if node.op == "call_function" and node not in self.copies and not is_symbolic(node)
        ]
        self.left = {node: reason for node in self.computing if (reason := _why_left(node, self.options))}
        self.unsupported = {
            node: reason for node in self.computing if node not in self.left and (reason := why_not(node))
        }
        report.left += [(node.name, str(node.target), reason) for node, reason in self.left.items()]
        (self.output,) = (node for node in module.graph.nodes if node.op == "output")
        values = (node.meta.get("val") for node in module.graph.nodes)
        self.device = device_type_of(value for value in values if isinstance(value, torch.Tensor))
        self.session = session_for(self.options, self.device)
        self.said: list[str] = []  # warnings

    def run(self) -> Callable[[list[Any]], Sequence[Any]]:
        if not self.computing:
            return Eager.of(self.module)
        if not self.unsupported and not self.left:
            try:
                return self._whole()
            except Error as error:
                self._survey()
                if not self.unsupported:  # all could be imported: compiling failed
                    if not self._may_fall_back(error):
                        raise
                    self._give_up(self.computing, error)
        else:
            self._survey()
        self._say()
        return self._divided()

    def _may_fall_back(self, error: Error) -> bool:
        # Errors of a plugin or its passes, and of a device that the options name, are not for PyTorch to
        # hide.
        never = ("FE-P", "FE-M", *(("FE-D",) if self.options.device else ()))
        may_hide = error.status in (1, 2, 3) and not error.code.startswith(never)
        return self.options.fallback != "error" and may_hide

    def _give_up(self, nodes: Sequence[fx.Node], error: Error) -> None:
        for node in nodes:
            if node.target is not operator.getitem:
                self.unsupported[node] = str(error)

    def _survey(self) -> None:
        """Finds the nodes that the importer refuses."""
        outside = {**self.unsupported, **self.left}
        candidates = [
            node
            for node in self.computing
            if node not in outside and not (node.target is operator.getitem and node.args[0] in outside)
        ]
        if candidates:
            self.unsupported.update(survey(self.session, candidates, self.sizes))

    def _say(self) -> None:
        if not self.unsupported:
            return
        for node, reason in self.unsupported.items():
            self.report.unsupported.append((node.name, str(node.target), reason))
        counts = collections.Counter(str(node.target) for node in self.unsupported)
        text = ", ".join(
            f"{name} ({count} nodes)" if count > 1 else name for name, count in counts.most_common(12)
        )
        if len(counts) > 12:
            text += f" and {len(counts) - 12} more"
        if self.options.fallback == "error":
            first, reason = next(iter(self.unsupported.items()))
            raise Error(
                "FE-Y02",
                f"Ferrite cannot compile {text}; the first, node '{first.name}': {reason}. "
                "Use fallback='warn' to run these nodes in PyTorch, or add an import handler "
                "(docs/pytorch.md)",
                place_of(first) or first.name,
                1,
            )
        if self.options.fallback == "warn":
            self._warn(
                f"ferrite: these nodes of the {self.report.kind} graph run in PyTorch: {text}. "
                "ferrite.torch.explain(model, *args) gives the reasons"
            )

    def _warn(self, text: str) -> None:
        self.said.append(text)
        warn_once(text)

    def _compiled(self, segment: Segment) -> Compiled:
        model = self.session.load("graph.aten", segment.stream)._model
        if self.report.kind != "inference":
            # Passes of the joint hooks run on what a gradient is computed in.
            forward_count = 0 if self.report.kind == "backward" else len(segment.outputs)
            model = model.joint(forward_count, self.settings.first_stage)
        made = compiled(model, segment.input_types, self.options, self.device, self.settings.keep)
        self.report.programs.append(model)
        self.report.streams.append(segment.stream)
        return made

    def _program(
        self, segment: Segment, model: Compiled, sources: dict[fx.Node, Any], outputs: Sequence[Any]
    ) -> Any:
        inputs = [
            (sources[node], order, *types[:2], node.meta["val"].dtype, node in segment.mutated)
            for (node, order), types in zip(segment.inputs, segment.input_types, strict=True)
        ]
        return model.program(inputs, outputs)

    def _sources(self) -> dict[fx.Node, Any]:
        """The argument, or the constant, of each node that a segment may take."""
        sources: dict[fx.Node, Any] = {}
        position = 0
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                sources[node] = position
                position += 1
            elif node.op == "get_attr":
                with unset_fake_temporarily():
                    sources[node] = operator.attrgetter(node.target)(self.module).detach()
        return sources

    def _results(self) -> list[Any]:
        """The results of the graph; an input for the node that changes it."""
        changed = {one.copy: node for node, one in self.mutations.items()}
        return [
            changed.get(value, value) if isinstance(value, fx.Node) else value
            for value in self.output.args[0]
        ]

    def _whole(self) -> Callable[[list[Any]], Sequence[Any]]:
        """All of the graph as one program."""
        sources = self._sources()
        given = self._results()
        inside = set(self.computing)
        mutated = {node: one.value for node, one in self.mutations.items()}
        nodes = dict.fromkeys(value for value in given if isinstance(value, fx.Node))
        made = divide(inside, [node for node in nodes if node in inside], self.sizes, mutated.keys())
        if not made.computed and not mutated:
            return Eager.of(self.module)  # views of arguments
        segment = write_segment(
            self.computing, made.computed, self.sizes, mutated, frozen=self.settings.frozen
        )
        model = self._compiled(segment)
        computed = dict(zip(segment.outputs, segment.output_types, strict=True))
        bases = dict.fromkeys(view.base for view in made.views.values())
        values = [*given, *(base for base in bases if base not in nodes)]
        places: dict[fx.Node, int] = {}
        for k, value in enumerate(values):
            if isinstance(value, fx.Node) and value not in made.views:
                places.setdefault(value, k)
        outputs: list[Any] = [None] * len(values)  # of the program
        constants: list[tuple[int, Any]] = []
        later: list[tuple[int, int, Callable[[torch.Tensor], torch.Tensor] | None]] = [
            (places[node], places[node], with_gaps) for node, with_gaps in made.gaps.items()
        ]
        for k, value in enumerate(values):
            if not isinstance(value, fx.Node):
                constants.append((k, value))
            elif places.get(value) != k:  # a view, or a tensor that is given twice
                view = made.views.get(value)
                later.append((k, places[view.base if view else value], view))
            elif value in computed:
                outputs[k] = computed[value]
            elif value.op == "placeholder":
                outputs[k] = sources[value]
            else:
                constants.append(
                    (k, sources[value] if value.op == "get_attr" else self.sizes.of(value.meta["val"]))
                )
        constants = [(k, constant) for k, constant in constants if constant is not None]
        program = self._program(segment, model, sources, outputs)
        if not constants and not later:
            return program
        return Finished(program, constants, later, len(given))

    def _divided(self) -> Callable[[list[Any]], Sequence[Any]]:
        graph = fx.Graph()
        made: dict[fx.Node, fx.Node] = {}
        for node in self.module.graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                made[node] = graph.node_copy(node)
            elif node.op == "call_function" and is_symbolic(node):
                made[node] = (
                    graph.node_copy(node, lambda used: made[used])
                    if all(used in made for used in node.all_input_nodes)
                    else self.sizes.of(node.meta["val"])
                )
        tensors = [
            node
            for node in self.module.graph.nodes
            if node not in self.copies and not (node.op == "call_function" and is_symbolic(node))
        ]
        parts = partition(tensors, {**self.unsupported, **self.left}, self._bytes_of)
        mutated = mutated_in(parts, self.mutations)
        changed = {node for of_part in mutated.values() for node in of_part}
        written: set[fx.Node] = set()
        for number, part in enumerate(parts):
            if part.compiled:
                written |= self._add_segment(graph, part, made, mutated.get(number, {}), changed)
            else:
                for node in part.nodes:
                    made[node] = graph.node_copy(node, lambda used: made[used])
        for node, one in self.mutations.items():
            if node not in written:
                graph.node_copy(one.copy, lambda used: made[used])
        graph.output(fx.map_arg(self._results(), lambda used: made[used]))
        graph.lint()
        return Eager.of(fx.GraphModule(self.module, graph))

    def _bytes_of(self, node: fx.Node) -> int:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return 0
        return math.prod(self.sizes.all_of(value.shape)) * value.dtype.itemsize

    def _add_segment(
        self,
        graph: fx.Graph,
        part: Part,
        made: dict[fx.Node, fx.Node],
        mutated: Mapping[fx.Node, fx.Node],
        changed: Set[fx.Node],
    ) -> Set[fx.Node]:
        """Returns the inputs that the segment changes: those of `mutated`, none if it runs in PyTorch.

        changed: the inputs that any segment changes.
        """
        # If compiling a part has failed, PyTorch may have made views of what it reads, with the old contents.
        mutated = {
            node: value
            for node, value in mutated.items()
            if not any(user in self.unsupported for user in node.users)
        }
        outputs = outputs_of(part.nodes, is_tensor, [self.mutations[node].copy for node in mutated])
        results = divide(set(part.nodes), outputs, self.sizes, changed)
        if (results.computed or mutated) and not self._add_program(
            graph, part, results.computed, made, mutated
        ):
            return frozenset()
        for node, take in (*results.gaps.items(), *results.views.items()):
            made[node] = graph.call_function(take, (made[take.base],))
        return mutated.keys()

    def _add_program(
        self,
        graph: fx.Graph,
        part: Part,
        outputs: Sequence[fx.Node],
        made: dict[fx.Node, fx.Node],
        mutated: Mapping[fx.Node, fx.Node],
    ) -> bool:
        """Whether the part could be compiled; if not, its nodes run in PyTorch."""
        segment = write_segment(part.nodes, outputs, self.sizes, mutated, frozen=self.settings.frozen)
        try:
            model = self._compiled(segment)
        except Error as error:
            if not self._may_fall_back(error):
                raise
            self._give_up(part.nodes, error)
            if self.options.fallback == "warn":
                self._warn(
                    f"ferrite: {len(part.nodes)} nodes run in PyTorch, as compiling them failed: {error}"
                )
            for node in part.nodes:
                made[node] = graph.node_copy(node, lambda used: made[used])
            return False
        sources = {node: k for k, (node, _) in enumerate(segment.inputs)}
        program = self._program(segment, model, sources, segment.output_types)
        called = graph.call_function(SegmentCall(program), tuple(made[node] for node, _ in segment.inputs))
        for k, node in enumerate(segment.outputs):
            made[node] = graph.call_function(operator.getitem, (called, k))
        return True
