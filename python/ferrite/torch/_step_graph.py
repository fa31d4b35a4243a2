# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces a training step to one functional graph of ATen operators.

The model's, the loss's and the optimizer's own Python code run once on fake tensors. All tensors that they
change are inputs of the graph, which ends with a node `copy_` for each of them.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import operator
import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from unittest import mock

import torch
import torch.utils.checkpoint
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo.convert_frame import compile_lock
from torch._functorch._aot_autograd.functional_utils import from_fun, has_data_mutation, to_fun
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ferrite.torch._options import Options
from ferrite.torch._pre_grad import has_passes, with_pre_grad_passes
from ferrite.torch._step_state import ModelState

Tensor = torch.Tensor
State = dict[str, Any]
Number = tuple[str, int]
_Key = TypeVar("_Key")
# The loss of parameters, buffers and attributes, by name, and a batch; and the tensors that are in their
# places afterwards.
_Value = Callable[[Mapping[str, Tensor], Sequence[Tensor]], tuple[Tensor, dict[str, Tensor]]]


@dataclasses.dataclass(frozen=True)
class StepInputs:
    """The tensors of a step, or what stands for them while it is traced.

    parameters: by name in the model. trained: the names of those that the optimizer changes.
    attributes: other tensors of the model's modules, by name.
    states: for each trained parameter, its tensors in the optimizer's state but for the counter "step".
    counters: the steps so far, as f32; one vector for all parameters of equal counts. counter_of: for each
        trained parameter the number of its vector, -1 if it has none.
    numbers: for each group of the optimizer, its numbers that change: by name and place in a tuple, -1 for a
        number that is alone.
    batch: the tensors among the arguments of the loss.
    """

    parameters: dict[str, Tensor]
    trained: tuple[str, ...]
    buffers: dict[str, Tensor]
    attributes: dict[str, Tensor]
    states: tuple[dict[str, Tensor], ...]
    counters: tuple[Tensor, ...]
    counter_of: tuple[int, ...]
    numbers: tuple[dict[Number, Tensor], ...]
    batch: tuple[Tensor, ...]

    def tensors(self) -> list[Tensor]:
        """All of them, in the order of the graph's inputs."""
        states = [one for state in self.states for one in state.values()]
        numbers = [one for group in self.numbers for one in group.values()]
        return [
            *self.parameters.values(),
            *self.buffers.values(),
            *self.attributes.values(),
            *states,
            *self.counters,
            *numbers,
            *self.batch,
        ]

    def with_tensors(self, tensors: Sequence[Tensor]) -> StepInputs:
        """The same with other tensors, in the order of tensors()."""
        rest = iter(tensors)

        def named(like: Mapping[_Key, Tensor]) -> dict[_Key, Tensor]:
            return {name: next(rest) for name in like}

        def listed(like: Sequence[Tensor]) -> tuple[Tensor, ...]:
            return tuple(next(rest) for _ in like)

        return dataclasses.replace(
            self,
            parameters=named(self.parameters),
            buffers=named(self.buffers),
            attributes=named(self.attributes),
            states=tuple(named(state) for state in self.states),
            counters=listed(self.counters),
            numbers=tuple(named(group) for group in self.numbers),
            batch=listed(self.batch),
        )


# The learning rate. Its sign may change without another graph; those of other numbers are constants.
rate: Number = ("lr", -1)


def numbers_named(group: Mapping[str, Any], name: str) -> list[Number]:
    """The numbers of a group's entry that may be inputs; none if it is no number of Python and no tuple of
    them."""
    value = group.get(name)
    if isinstance(value, float):
        return [(name, -1)]
    if isinstance(value, tuple) and all(isinstance(one, float) for one in value):
        return [(name, place) for place in range(len(value))]
    return []


def number_of(group: Mapping[str, Any], number: Number) -> Any:
    name, place = number
    return group[name] if place < 0 else group[name][place]


def sign_of(group: Mapping[str, Any], number: Number) -> int:
    """0 for zero and for what is no number."""
    value = number_of(group, number)
    return int(value > 0) - int(value < 0)


def _replaced_numbers(group: Mapping[str, Any], numbers: Mapping[Number, Tensor]) -> dict[str, Any]:
    """The group with tensors in the places of these numbers."""
    result = dict(group)
    for (name, place), tensor in numbers.items():
        if place < 0:
            result[name] = tensor
        else:
            result[name] = (*result[name][:place], tensor, *result[name][place + 1 :])
    return result


class _TensorsAsScalars(TorchFunctionMode):
    """Optimizers multiply by `alpha` or `value`, which PyTorch takes as numbers. Where these are tensors,
    numbers or counters that are inputs of the graph, the multiplication is an operation of its own.

    signs: of numbers, by the identities of their tensors, for optimizers that ask for them. They are the same
    in all steps of the graph.
    """

    _sums = {Tensor.add: 1, Tensor.add_: 1, Tensor.sub: -1, Tensor.sub_: -1, torch.add: 1, torch.sub: -1}
    _products = {
        Tensor.addcdiv: torch.div, Tensor.addcdiv_: torch.div, torch.addcdiv: torch.div,
        Tensor.addcmul: torch.mul, Tensor.addcmul_: torch.mul, torch.addcmul: torch.mul,
    }  # fmt: skip
    _tests = {
        torch._C.TensorBase.__eq__: operator.eq, Tensor.ne: operator.ne, Tensor.lt: operator.lt,
        Tensor.le: operator.le, Tensor.gt: operator.gt, Tensor.ge: operator.ge,
    }  # fmt: skip
    _in_place = {Tensor.add_, Tensor.sub_, Tensor.addcdiv_, Tensor.addcmul_}

    def __init__(self, signs: Mapping[int, int]) -> None:
        super().__init__()
        self._signs = signs

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if function in self._tests and id(args[0]) in self._signs and args[1] == 0:
            return self._tests[function](self._signs[id(args[0])], 0)
        factor = kwargs.get("alpha", kwargs.get("value"))
        if not isinstance(factor, Tensor) or function not in {**self._sums, **self._products}:
            return function(*args, **kwargs)
        if function in self._sums:
            base, term = args
            factor = factor if self._sums[function] > 0 else -factor
        else:
            base, one, other = args
            term = self._products[function](one, other)
        return (base.add_ if function in self._in_place else base.add)(term * factor)


class _PlainCheckpoint:
    """Stands for the autograd function of reentrant checkpoints, whose backward pass runs the code again."""

    @staticmethod
    def apply(function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        # As the function does, it gives no gradients where no argument takes one.
        needs_gradient = any(isinstance(one, Tensor) and one.requires_grad for one in args)
        with torch.set_grad_enabled(needs_gradient and torch.is_grad_enabled()):
            return function(*args)


def _plain_checkpoint(*_: Any, **__: Any) -> Iterator[None]:
    """Stands for what runs before and after the code of other checkpoints."""
    yield


@contextlib.contextmanager
def _without_checkpoints() -> Iterator[None]:
    """torch.utils.checkpoint calls its function, and no more: the compiler decides what a program keeps."""
    module = torch.utils.checkpoint
    generator = "_checkpoint_without_reentrant_generator"  # newer PyTorch has it with the suffix _impl
    stand_ins: dict[str, Any] = {
        name: _plain_checkpoint for name in vars(module) if name.startswith(generator)
    }
    with mock.patch.multiple(module, CheckpointFunction=_PlainCheckpoint, **stand_ins):
        yield


class _NoOtherChanges(TorchDispatchMode):
    """The model changes none of the real tensors that it reads while it is traced."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        schema = getattr(function, "_schema", None)
        if schema is not None and schema.is_mutable:
            given = dict(zip((one.name for one in schema.arguments), args, strict=False)) | (kwargs or {})
            changed = [given.get(one.name) for one in schema.arguments if one.is_write]
            if any(type(one) in (Tensor, torch.nn.Parameter) for one in pytree.tree_leaves(changed)):
                raise ValueError("it changes a tensor that is no parameter, buffer or attribute of the model")
        return function(*args, **(kwargs or {}))


@contextlib.contextmanager
def _drawing_nothing() -> Iterator[None]:
    """Raises ValueError if numbers were drawn from the generators of Python or NumPy, which then are as
    before: each step has others."""
    numpy = sys.modules.get("numpy")
    before = random.getstate(), numpy and numpy.random.get_state()
    try:
        yield
        of_numpy = numpy and repr(numpy.random.get_state()) != repr(before[1])
        if of_numpy or random.getstate() != before[0]:
            raise ValueError("it draws random numbers of Python or NumPy; use those of PyTorch")
    finally:
        random.setstate(before[0])
        if numpy:
            numpy.random.set_state(before[1])


def _check_memory(inputs: StepInputs) -> None:
    """Raises ValueError for an attribute that is a part of another input: a program may change one before it
    reads the other."""
    attributes = {name: one.untyped_storage() for name, one in inputs.attributes.items()}
    others = dataclasses.replace(inputs, attributes={}, batch=()).tensors()
    pointers = [one.untyped_storage().data_ptr() for one in others] if attributes else []
    pointers += [one.data_ptr() for one in attributes.values()]
    for name, storage in attributes.items():
        if storage.nbytes() and pointers.count(storage.data_ptr()) > 1:
            raise ValueError(f"'{name}' of the model shares its memory with another tensor")


@contextlib.contextmanager
def _without_onednn() -> Iterator[None]:
    """A recurrent layer is cells then, and no call of a library that keeps its values in one of its own.

    torch.backends.mkldnn.flags() would set precisions as well, and warn where there is no Intel GPU.
    """
    before = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(before)


@contextlib.contextmanager
def _compiling() -> Iterator[None]:
    """Code that asks torch.compiler.is_compiling() hears that it is traced: optimizers then leave counters
    tensors. The Python dispatcher has forms of operators, such as batch norm's, that say what they change."""
    with (
        mock.patch.object(torch.compiler, "_is_compiling_flag", True),
        enable_python_dispatcher(),
        _without_onednn(),
    ):
        yield


def _keep_no_stack_traces() -> None:
    """From here on, nodes have no stack traces: only those of the forward pass need the model's source lines,
    and recording a trace takes as long as tracing its node."""
    mode = get_proxy_mode()
    if mode is not None:
        mode.tracer.record_stack_traces = False


@contextlib.contextmanager
def _replaced(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]], state: Any) -> Iterator[None]:
    """The optimizer with other groups and another state."""
    kept = optimizer.param_groups, optimizer.state
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = kept


def _fake(tensor: Tensor, mode: FakeTensorMode) -> Tensor:
    """Stands for an input of the graph. The fake tensor of a number remembers its value, which must not
    become a constant of the graph."""
    result = mode.from_tensor(tensor.detach(), static_shapes=True)
    result.item_memo = None
    return result


class StepTracer:
    """Traces steps of a model, a loss and an optimizer.

    state: of the model. loss: as of train_step. clip_norm: the largest norm of all gradients; None: any.
    options: whose passes of pre_grad run.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[..., Tensor],
        optimizer: torch.optim.Optimizer,
        state: ModelState,
        clip_norm: float | None,
        options: Options,
    ) -> None:
        self._model = model
        self._loss = loss
        self._optimizer = optimizer
        self._state = state
        self._clip_norm = clip_norm
        self._options = options
        self.raised_by_loss: Exception | None = None  # while it was traced last

    def trace(
        self,
        inputs: StepInputs,
        arguments: Callable[[Sequence[Tensor]], Sequence[Any]],
        decompositions: Mapping[Any, Any],
    ) -> tuple[fx.GraphModule, list[str], str]:
        """The step as a functional graph; the names of its results but for the first one, the loss: they
        become attributes of the model; and the stage from which it is compiled, as of with_pre_grad_passes().

        arguments: the loss's arguments, of the tensors of a batch. Raises what the code raises; ValueError
        where it does what no graph can do.
        """
        _check_memory(inputs)
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        fakes = [_fake(one, mode) for one in inputs.tensors()]
        written: list[str] = []

        def value(members: Mapping[str, Tensor], batch: Sequence[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            return self._value(members, arguments(batch))

        def traced_as(settings: Mapping[str, Any]) -> fx.GraphModule:
            def step(*tensors: Tensor) -> tuple[Any, ...]:
                # As AOTAutograd does: code that changes tensors becomes operators that make new ones.
                with FunctionalTensorMode():
                    functional = [to_fun(tensor) for tensor in tensors]
                    loss, attributes = self._step(inputs.with_tensors(functional), value, settings)
                for tensor, changed in zip(tensors, functional, strict=True):
                    if has_data_mutation(changed):
                        tensor.copy_(from_fun(changed))
                written[:] = attributes
                return from_fun(loss), *map(from_fun, attributes.values())

            return make_fx(step, decomposition_table=dict(decompositions), record_stack_traces=True)(*fakes)

        self.raised_by_loss = None
        # PyTorch's tracer and what _compiling() sets are the process's; Dynamo traces under this lock, too.
        with compile_lock, mode, _compiling():
            first_stage = "decompose_early"
            if has_passes("pre_grad", self._options, fakes):
                value, first_stage = self._with_pre_grad_passes(inputs.with_tensors(fakes), value)
            try:
                traced = traced_as({})
            except DataDependentOutputException:
                if not all("capturable" in group for group in self._optimizer.param_groups):
                    raise
                # The form for CUDA graphs asks for no values.
                traced = traced_as({"capturable": True})
            for node in reversed(traced.graph.nodes):
                if node.op == "get_attr":
                    constant = getattr(traced, node.target)
                    self._check_constant(constant)
                    if "val" not in node.meta:
                        node.meta["val"] = mode.from_tensor(constant, static_shapes=True)
                elif isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "profiler":
                    traced.graph.erase_node(node)  # the beginning or the end of a named range
        traced.graph.eliminate_dead_code()
        traced.recompile()
        return traced, written, first_stage

    def _check_constant(self, constant: Any) -> None:
        if isinstance(constant, Tensor) and constant.requires_grad:
            raise ValueError("the loss uses a tensor with a gradient that is no parameter of the model")

    def _value(
        self, members: Mapping[str, Tensor], arguments: Sequence[Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss with these members and attributes, and what is in their places then."""
        with (
            _drawing_nothing(),
            self._state.replaced(members) as used,
            _NoOtherChanges(),
            _without_checkpoints(),
        ):
            try:
                value = self._loss(self._model, *arguments)
            except Exception as error:
                self.raised_by_loss = error
                raise
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ValueError("the loss is no tensor of one element")
        return value, used

    def raised_in_pytorch(self, inputs: StepInputs, arguments: Sequence[Any]) -> Exception | None:
        """The exception that the loss raises in PyTorch, which no tracer has caused. The model and all
        generators of random numbers are as before."""
        changeable = {**inputs.buffers, **inputs.attributes}
        members = {**inputs.parameters, **{name: one.clone() for name, one in changeable.items()}}
        devices = {one.device.index for one in inputs.tensors() if one.device.type == "cuda"}
        raised = None
        with (
            contextlib.suppress(ValueError),  # it changes state or draws numbers, which is no matter here
            torch.random.fork_rng(devices),
            _drawing_nothing(),
            self._state.replaced(members),
        ):
            try:
                self._loss(self._model, *arguments)
            except Exception as error:
                raised = error
        return raised

    def _with_pre_grad_passes(self, given: StepInputs, value: _Value) -> tuple[_Value, str]:
        """`value` after the pipeline's passes of pre_grad, and the stage as of with_pre_grad_passes()."""
        members = {**given.parameters, **given.buffers, **given.attributes}
        trained = set(given.trained)
        tensors = [
            one.detach().requires_grad_(name in trained)
            for name, one in members.items()
        ]
        results: list[str] = []

        def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
            result, used = value(dict(zip(members, tensors, strict=False)), tensors[len(members) :])
            results[:] = used
            return result, *used.values()

        inputs = [*tensors, *given.batch]
        graph, first_stage = with_pre_grad_passes(
            make_fx(forward, pre_dispatch=True, record_stack_traces=True)(*inputs), inputs, self._options
        )

        def rewritten(
            given: Mapping[str, Tensor], batch: Sequence[Tensor]
        ) -> tuple[Tensor, dict[str, Tensor]]:
            result, *used = fx.Interpreter(graph).run(*(given[name] for name in members), *batch)
            return result, dict(zip(results, used, strict=True))

        return rewritten, first_stage

    def _step(
        self, given: StepInputs, value: _Value, settings: Mapping[str, Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss, and the tensors that become attributes. settings: of all groups of the optimizer, instead
        of their own."""
        trained = set(given.trained)
        leaves = {
            name: one.detach().requires_grad_() if name in trained else one
            for name, one in given.parameters.items()
        }
        with torch.enable_grad():
            loss, used = value({**leaves, **given.buffers, **given.attributes}, given.batch)
            _keep_no_stack_traces()
            changed = [leaves[name] for name in given.trained]
            gradients = torch.autograd.grad(loss.sum(), changed, allow_unused=True) if changed else ()
        with torch.no_grad():
            for name, buffer in given.buffers.items():
                if used[name] is not buffer:  # a module has put another tensor there
                    buffer.copy_(used[name])
            self._change(given, gradients, settings)
        members = {**given.parameters, **given.buffers}
        return loss.detach(), {name: one.detach() for name, one in used.items() if name not in members}

    def _change(
        self, given: StepInputs, gradients: Sequence[Tensor | None], settings: Mapping[str, Any]
    ) -> None:
        """The optimizer's step."""
        parameters = [given.parameters[name] for name in given.trained]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.detach()
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self._clip_norm, foreach=False)
        names = {one: name for name, one in self._state.parameters.items()}
        by_name = dict(zip(given.trained, parameters, strict=True))
        groups = []
        signs = {}
        for group, changing in zip(self._optimizer.param_groups, given.numbers, strict=True):
            own = [by_name[names[one]] for one in group["params"] if names.get(one) in by_name]
            for number, tensor in changing.items():
                if number != rate:
                    signs[id(tensor)] = sign_of(group, number)
            # One parameter after the other: lists of tensors are for launching less, and a program launches
            # anyway.
            groups.append(
                {
                    **_replaced_numbers(group, changing),
                    "params": own,
                    "foreach": False,
                    "fused": False,
                    **settings,
                }
            )
        state: collections.defaultdict[Tensor, State] = collections.defaultdict(dict)
        for name, parameter, own, counter in zip(
            given.trained, parameters, given.states, given.counter_of, strict=True
        ):
            original = self._optimizer.state.get(self._state.parameters[name])
            if original is not None:
                state[parameter] = {**original, **own}
            if counter >= 0:
                if parameter.grad is None:
                    raise ValueError(
                        f"the loss does not depend on '{name}' any more, so that its counter stops"
                    )
                # In f64, as Python's numbers are: 1 - beta**step loses digits in f32.
                state[parameter]["step"] = given.counters[counter][0].to(torch.float64)
        before = {parameter: dict(own) for parameter, own in state.items()}
        with _replaced(self._optimizer, groups, state), _TensorsAsScalars(signs):
            type(self._optimizer).step(self._optimizer)
        for parameter in parameters:
            parameter.grad = None
            old = before.get(parameter, {})
            self._store(old, state.get(parameter, {}), counted="step" in old)
        for number, counter in enumerate(given.counters):
            first = parameters[given.counter_of.index(number)]
            counter.copy_(state[first]["step"].to(counter.dtype).expand_as(counter))

    def _store(self, before: State, after: State, counted: bool) -> None:
        """States that the optimizer has replaced are written to the tensors that it had."""
        if before.keys() != after.keys():
            raise ValueError("the optimizer adds to its state after the first step")
        for name, old in before.items():
            new = after[name]
            if isinstance(old, Tensor) and isinstance(new, Tensor):
                if new is not old and not (counted and name == "step"):
                    old.copy_(new)
            elif new is not old and new != old:
                raise ValueError(f"the optimizer changes '{name}' of its state, which is no tensor")
