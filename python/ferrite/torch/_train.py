# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A whole training step as one program."""

from __future__ import annotations

import ctypes
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ferrite._errors import Error
from ferrite.torch._backend import decompositions
from ferrite.torch._compile import GraphSettings, compile_graph, warn_once
from ferrite.torch._fork import lock_that_survives_forks
from ferrite.torch._mutation import changed_inputs
from ferrite.torch._options import Options
from ferrite.torch._step_graph import (
    Number,
    StepInputs,
    StepTracer,
    number_of,
    numbers_named,
    rate,
    sign_of,
)
from ferrite.torch._step_in_two import StepInTwo, hook_of, step_in_pytorch, trained_by
from ferrite.torch._step_state import ModelState, frozen, type_of

Tensor = torch.Tensor


def train_step(
    model: torch.nn.Module,
    loss: Callable[..., Tensor],
    optimizer: torch.optim.Optimizer,
    options: Mapping[str, Any] | None = None,
    *,
    clip_norm: float | None = None,
) -> Callable[..., Tensor]:
    """A function that takes a batch, runs forward pass, loss, backward pass and optimizer, and returns the
    loss.

    All of it is one program. It writes parameters, buffers and the optimizer's states where they are, and
    stores no gradient that only the optimizer reads: `parameter.grad` is None after a step. The first call
    runs in PyTorch, since an optimizer makes its states in its first step, and compiles. Learning rates may
    change at any time; other numbers of the optimizer become inputs of a program when they change for the
    first time. Settings of the optimizer, numbers of the batch, shapes, `requires_grad`, and what the
    model's modules hold in Python, such as their mode, may change too; a program is compiled for each
    combination.

    model: with all parameters of the optimizer when this is called. Models within DDP and FSDP are an Error
        (FE-Y01).
    loss: called as loss(model, *batch); returns a tensor of one element.
    optimizer: of torch.optim, or another whose step can be traced. Its state_dict() is valid after each step.
    options: as for torch.compile(backend="ferrite").
    clip_norm: the norm to which the gradients are scaled down if theirs is larger, as by clip_grad_norm_.

    A step that cannot be one graph runs as two from then on, of which the second is the optimizer, and a
    warning says so once; with the option fallback="error" it is an Error (FE-Y02). Such steps ask for values
    of tensors, change Python state of the model, or have constants that change more often than
    torch._dynamo.config.recompile_limit. Steps with hooks on gradients, modules or the optimizer run so, too,
    until the hooks are removed. Raises what the model raises. One thread at a time may call the function.
    """
    return _TrainStep(model, loss, optimizer, Options.of(options), clip_norm)


class _TrainStep:
    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[..., Tensor],
        optimizer: torch.optim.Optimizer,
        options: Options,
        clip_norm: float | None,
    ) -> None:
        self._model = model
        self._loss = loss
        self._optimizer = optimizer
        self._options = options
        self._clip_norm = clip_norm
        self._state = ModelState(model)
        for module in self._state.modules.values():
            if _reduces_gradients(module):
                raise Error(
                    "FE-Y01",
                    f"gradients of {type(module).__name__} are reduced in hooks, which are no part of a "
                    "graph; compile the model with torch.compile instead",
                    "train_step",
                )
        self._names = {id(one): name for name, one in self._state.parameters.items()}
        for group in optimizer.param_groups:
            for one in group["params"]:
                if id(one) not in self._names:
                    raise Error(
                        "FE-Y01",
                        f"the optimizer has a parameter of shape {list(one.shape)} that the model has not; "
                        "give a model that holds all of them",
                        "train_step",
                    )
        # The numbers that are inputs, by group of the optimizer, and where they are passed. Besides learning
        # rates, these are the entries of groups that have changed from one step to another.
        self._numbers: list[dict[Number, Tensor]] = []
        self._changing: set[str] = set()
        self._fixed: set[str] = set()  # with which as inputs, the step is no graph
        self._counters: list[Tensor] = []
        self._counted: dict[Tensor, Tensor] = (
            {}
        )  # parameter -> its element of a counter, which is its state "step"
        self._counter_of: dict[Tensor, int] = {}
        self._tracer = StepTracer(model, loss, optimizer, self._state, clip_norm, options)
        # The parameters for which the optimizer has made its states, by identity, and whether it makes any.
        self._stepped: dict[int, Tensor] = {}
        self._makes_states = False
        self._programs: dict[Any, dict[_Constants, _Program]] = {}
        self._in_two: StepInTwo | None = None
        self._has_hooks = False  # the reason why it is not None
        self._lock = lock_that_survives_forks()

    def __call__(self, *batch: Any) -> Tensor:
        with self._lock:
            if self._in_two is not None:
                if not self._has_hooks or self._hook():
                    return self._in_two.run(batch)
                self._in_two = None
            self._look()
            first = None
            trained = self._trained()
            if self._has_new(trained):
                first = step_in_pytorch(
                    self._model,
                    lambda *batch: self._loss(self._model, *batch),
                    self._optimizer,
                    self._optimizer.step,
                    self._clip_norm,
                    batch,
                )
                self._look()  # the step may have changed the model
                trained = self._trained()
                self._stepped = {id(one): one for one in trained}
                self._makes_states = bool(self._optimizer.state)
            leaves, structure = pytree.tree_flatten(batch)
            run = self._step_for(trained, leaves, structure)
            if first is not None:
                _release_free_memory()
                return first
            if run is not None:
                return run()
            assert self._in_two is not None
            return self._in_two.run(batch)

    def _has_new(self, trained: list[Tensor]) -> bool:
        """Whether the optimizer has made no states yet for some parameters; it may need none."""
        state = self._optimizer.state
        if self._makes_states and not state:
            self._stepped = {}
        new = {id(one): one for one in trained if id(one) not in self._stepped}
        if any(one not in state for one in new.values()):
            return True
        self._stepped.update(new)
        return False

    def _hook(self) -> str | None:
        return hook_of(self._state.modules, self._state.parameters, self._optimizer)

    def _trained(self) -> list[Tensor]:
        """The parameters that the optimizer changes."""
        return [one for one in trained_by(self._optimizer) if id(one) in self._names]

    def _look(self) -> None:
        """Notices what has changed in the model."""
        if not self._state.look():
            return
        self._names = {id(one): name for name, one in self._state.parameters.items()}
        if any(id(one) not in self._names for one in trained_by(self._optimizer)):
            warn_once(
                "ferrite: the model has other parameters than the optimizer, which does not train them; make "
                "another optimizer after load_state_dict(assign=True)"
            )

    def _step_for(
        self, trained: list[Tensor], leaves: Sequence[Any], structure: Any
    ) -> Callable[[], Tensor] | None:
        """The step with such a batch, as one program; None if it is no one graph."""
        self._count(trained)
        inputs, types, constants = self._inputs_and_key(trained, leaves, structure)
        programs = self._programs.setdefault(types, {})
        program = programs.get(constants)
        if program is None and programs and self._change(list(programs)[-1], constants):
            return self._step_for(trained, leaves, structure)
        try:
            hook = self._hook()
            self._has_hooks = hook is not None
            if hook is not None:
                raise ValueError(f"{hook} has hooks")
            if program is None:
                if len(programs) >= torch._dynamo.config.recompile_limit:
                    raise ValueError(self._endless(constants, list(programs)[-1], len(programs)))
                program = programs[constants] = self._compiled(inputs, leaves, structure)
        except Error:
            raise
        except Exception as error:  # of the tracer, about code that runs in PyTorch, or of the model
            if error is self._tracer.raised_by_loss:
                batch = pytree.tree_unflatten(leaves, structure)
                raised = self._tracer.raised_in_pytorch(inputs, batch)
                if raised is not None:
                    raise raised from None
            if self._changing and not self._has_hooks:  # the optimizer may need a number of Python
                self._fixed |= self._changing
                self._changing = set()
                return self._step_for(trained, leaves, structure)
            self._divide(error)
            return None
        return lambda: self._run(program, inputs)

    def _inputs_and_key(
        self, trained: list[Tensor], leaves: Sequence[Any], structure: Any
    ) -> tuple[StepInputs, Any, _Constants]:
        """The inputs of the step; their types; and the constants, in which programs with equal types
        differ."""
        inputs = self._inputs(trained, leaves)
        groups = self._optimizer.param_groups
        types = (
            structure,
            tuple(type_of(one) if isinstance(one, Tensor) else type(one) for one in leaves),
            inputs.trained,
            inputs.counter_of,
            tuple(map(tuple, inputs.states)),
            tuple(map(tuple, inputs.numbers)),
            tuple(len(group["params"]) for group in groups),
        )
        no_constants = [{"params", *(name for name, _ in numbers)} for numbers in inputs.numbers]
        constants = _Constants(
            tuple(frozen(one) for one in leaves if not isinstance(one, Tensor)),
            self._state.number,
            tuple(
                tuple((name, frozen(value)) for name, value in group.items() if name not in skipped)
                for group, skipped in zip(groups, no_constants, strict=True)
            ),
            tuple(
                tuple(sign_of(group, number) for number in numbers if number != rate)
                for group, numbers in zip(groups, inputs.numbers, strict=True)
            ),
        )
        return inputs, types, constants

    def _change(self, before: _Constants, now: _Constants) -> bool:
        """Makes numbers of the optimizer inputs if nothing else has changed since a program was compiled.
        Returns whether there are any."""
        if dataclasses.replace(before, groups=now.groups) != now:
            return False
        changed = {
            name
            for old, new in zip(before.groups, now.groups, strict=True)
            for name, _ in set(old) ^ set(new)
        }
        groups = self._optimizer.param_groups
        known = {name for name in changed if any(numbers_named(group, name) for group in groups)}
        if not changed or known != changed or changed & self._fixed:
            return False
        self._changing |= changed
        return True

    def _endless(self, constants: _Constants, before: _Constants, count: int) -> str:
        """Tells what changes from step to step."""
        text = f"after {count} programs for different constants, "
        for old, new in zip(before.batch, constants.batch, strict=True):
            if old != new:
                return f"{text}an argument of the loss changes from {old[-1]} to {new[-1]}; pass a tensor"
        if (name := self._state.difference(before.state)) is not None:
            return f"{text}'{name}' of the model changes again; make it a tensor"
        return (
            f"{text}the optimizer has other settings again; only numbers that it does not read in Python may "
            "change in each step"
        )

    def _compiled(self, inputs: StepInputs, leaves: Sequence[Any], structure: Any) -> _Program:
        places = [k for k, one in enumerate(leaves) if isinstance(one, Tensor)]

        def arguments(tensors: Sequence[Tensor]) -> Sequence[Any]:
            given = list(leaves)
            for place, tensor in zip(places, tensors, strict=True):
                given[place] = tensor
            return pytree.tree_unflatten(given, structure)

        graph, attributes, first_stage = self._tracer.trace(inputs, arguments, decompositions())
        placeholders = graph.graph.find_nodes(op="placeholder")
        changed = [placeholders.index(node) for node in changed_inputs(graph.graph)]
        run = compile_graph(graph, GraphSettings(self._options, "step", first_stage=first_stage))
        return _Program(run, changed, attributes)

    def _run(self, program: _Program, inputs: StepInputs) -> Tensor:
        tensors = inputs.tensors()
        changed = [tensors[k] for k in program.changed]
        with torch.no_grad():
            value, *attributes = program.run(tensors)
        # Autograd refuses gradients of graphs that read the old contents.
        torch.autograd.graph.increment_version(changed)
        for name, attribute in zip(program.attributes, attributes, strict=True):
            self._state.set(name, attribute)
        self._optimizer._opt_called = True  # what learning rate schedules look at
        return value

    def _inputs(self, trained: list[Tensor], leaves: Sequence[Any]) -> StepInputs:
        groups = self._optimizer.param_groups
        del self._numbers[len(groups) :]
        self._numbers += [{} for _ in groups[len(self._numbers) :]]
        numbers = []
        for group, kept in zip(groups, self._numbers, strict=True):
            wanted = [rate, *(one for name in sorted(self._changing) for one in numbers_named(group, name))]
            own = {}
            for number in wanted:
                value = number_of(group, number) if number[0] in group else 0.0
                if not isinstance(value, Tensor):
                    tensor = kept.get(number)
                    if tensor is None:
                        tensor = kept[number] = _number_on(group)
                    value = tensor.fill_(value)
                own[number] = value
            numbers.append(own)
        state = self._optimizer.state
        states = []
        for one in trained:
            own = state.get(one, {})
            counted = one in self._counted
            states.append(
                {
                    name: value
                    for name, value in own.items()
                    if isinstance(value, Tensor) and not (counted and name == "step")
                }
            )
        return StepInputs(
            parameters=dict(self._state.parameters),
            trained=tuple(self._names[id(one)] for one in trained),
            buffers=self._state.buffers,
            attributes=self._state.attributes,
            states=tuple(states),
            counters=tuple(self._counters),
            counter_of=tuple(self._counter_of.get(one, -1) for one in trained),
            numbers=tuple(numbers),
            batch=tuple(one for one in leaves if isinstance(one, Tensor)),
        )

    def _count(self, trained: list[Tensor]) -> None:
        """Makes the counters "step" of parameters with equal counts elements of one vector, which is one
        input of the program and one calculation for all of them. They are still tensors of their own for
        everybody else.
        """
        state = self._optimizer.state
        counters = {
            one: state[one]["step"] for one in trained if _is_counter(state.get(one, {}).get("step"))
        }
        if counters.keys() == self._counted.keys() and all(
            self._counted[one] is step for one, step in counters.items()
        ):
            return
        equal: dict[tuple[float, torch.dtype, torch.device], list[Tensor]] = {}
        for one, step in counters.items():
            equal.setdefault((step.item(), step.dtype, one.device), []).append(one)
        self._counters, self._counted, self._counter_of = [], {}, {}
        for number, ((count, dtype, device), parameters) in enumerate(equal.items()):
            vector = torch.full((len(parameters),), count, dtype=dtype, device=device)
            self._counters.append(vector)
            for one, step in zip(parameters, vector.unbind(), strict=True):
                state[one]["step"] = self._counted[one] = step
                self._counter_of[one] = number

    def _divide(self, error: Exception) -> None:
        """From now on, the step is two graphs."""
        text = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        if self._options.fallback == "error":
            raise Error(
                "FE-Y02", f"the training step cannot be one graph: {text}", "train_step", 1
            ) from error
        if self._options.fallback == "warn":
            warn_once(f"ferrite: the training step runs as two graphs, since it cannot be one: {text}")
        self._in_two = StepInTwo(
            self._model, self._loss, self._optimizer, self._options, self._clip_norm
        )


@dataclasses.dataclass(frozen=True)
class _Constants:
    """The numbers of the batch, the number of the model's state, the entries of the optimizer's groups, and
    the signs of those of their numbers that are inputs."""

    batch: tuple[Any, ...]
    state: int
    groups: tuple[Any, ...]
    signs: tuple[Any, ...]


class _Program:
    """run: of compile_graph. changed: the positions of the inputs that it changes. attributes: the names of
    its results but for the first one, which become attributes of the model."""

    def __init__(
        self, run: Callable[[list[Any]], Sequence[Any]], changed: list[int], attributes: list[str]
    ) -> None:
        self.run = run
        self.changed = changed
        self.attributes = attributes


def _number_on(group: Mapping[str, Any]) -> Tensor:
    """Where a number of a group is passed, beside its parameters; in f64, as a number of Python is."""
    return torch.zeros((), dtype=torch.float64, device=group["params"][0].device)


def _reduces_gradients(module: torch.nn.Module) -> bool:
    """Whether a module adds hooks that exchange gradients between processes: DDP and FSDP."""
    packages = ("torch.nn.parallel.distributed", "torch.distributed.fsdp")
    return any(base.__module__.startswith(packages) for base in type(module).__mro__)


def _release_free_memory() -> None:
    """Gives the system the memory that the step in PyTorch, tracing and compilation have freed; glibc would
    keep it, and the program's steps need other memory."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def _is_counter(value: Any) -> bool:
    return isinstance(value, Tensor) and value.dim() == 0 and value.is_floating_point()
