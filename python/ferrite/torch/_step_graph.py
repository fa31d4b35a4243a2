# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Traces a training step to one functional graph of ATen operators.

The model's, the loss's and the optimizer's own Python code run once on fake tensors. All tensors that they
change are inputs of the graph, which ends with a node `copy_` for each of them.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._functorch._aot_autograd.functional_utils import from_fun, has_data_mutation, to_fun
from torch._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import get_proxy_mode, make_fx
from torch.overrides import TorchFunctionMode

from ferrite.torch._options import Options
from ferrite.torch._pre_grad import has_pre_grad_passes, with_pre_grad_passes

Tensor = torch.Tensor
State = dict[str, Any]
# The loss of parameters and buffers, by name, and a batch; and the tensors that are in the members' places
# afterwards.
_Value = Callable[[Mapping[str, Tensor], Sequence[Tensor]], tuple[Tensor, dict[str, Tensor]]]


@dataclasses.dataclass(frozen=True)
class StepInputs:
    """The tensors of a step, or what stands for them while it is traced.

    parameters: by name in the model. trained: the names of those that the optimizer changes.
    states: for each trained parameter, its tensors in the optimizer's state but for the counter "step".
    counters: the steps so far, as f32; one vector for all parameters of equal counts. counter_of: for each
        trained parameter the number of its vector, -1 if it has none.
    rates: the learning rate of each group of the optimizer.
    batch: the tensors among the arguments of the loss.
    """

    parameters: dict[str, Tensor]
    trained: tuple[str, ...]
    buffers: dict[str, Tensor]
    states: tuple[dict[str, Tensor], ...]
    counters: tuple[Tensor, ...]
    counter_of: tuple[int, ...]
    rates: tuple[Tensor, ...]
    batch: tuple[Tensor, ...]

    def tensors(self) -> list[Tensor]:
        """All of them, in the order of the graph's inputs."""
        states = [one for state in self.states for one in state.values()]
        return [
            *self.parameters.values(),
            *self.buffers.values(),
            *states,
            *self.counters,
            *self.rates,
            *self.batch,
        ]

    def with_tensors(self, tensors: Sequence[Tensor]) -> StepInputs:
        """The same with other tensors, in the order of tensors()."""
        rest = iter(tensors)

        def named(like: Mapping[str, Tensor]) -> dict[str, Tensor]:
            return {name: next(rest) for name in like}

        def listed(like: Sequence[Tensor]) -> tuple[Tensor, ...]:
            return tuple(next(rest) for _ in like)

        return dataclasses.replace(
            self,
            parameters=named(self.parameters),
            buffers=named(self.buffers),
            states=tuple(named(state) for state in self.states),
            counters=listed(self.counters),
            rates=listed(self.rates),
            batch=listed(self.batch),
        )


class _TensorsAsScalars(TorchFunctionMode):
    """Optimizers multiply by `alpha` or `value`, which PyTorch takes as numbers. Where these are tensors,
    learning rates or counters that are inputs of the graph, the multiplication is an operation of its own."""

    _sums = {Tensor.add: 1, Tensor.add_: 1, Tensor.sub: -1, Tensor.sub_: -1, torch.add: 1, torch.sub: -1}
    _products = {
        Tensor.addcdiv: torch.div, Tensor.addcdiv_: torch.div, torch.addcdiv: torch.div,
        Tensor.addcmul: torch.mul, Tensor.addcmul_: torch.mul, torch.addcmul: torch.mul,
    }  # fmt: skip
    _in_place = {Tensor.add_, Tensor.sub_, Tensor.addcdiv_, Tensor.addcmul_}

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
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


@contextlib.contextmanager
def _compiling() -> Iterator[None]:
    """Code that asks torch.compiler.is_compiling() hears that it is traced: optimizers then leave counters
    tensors. The Python dispatcher has forms of operators, such as batch norm's, that say what they change."""
    with mock.patch.object(torch.compiler, "_is_compiling_flag", True), enable_python_dispatcher():
        yield


def _keep_no_stack_traces() -> None:
    """From here on, nodes have no stack traces: only those of the forward pass need the model's source lines,
    and recording a trace takes as long as tracing its node."""
    mode = get_proxy_mode()
    if mode is not None:
        mode.tracer.record_stack_traces = False


@contextlib.contextmanager
def _with_members(model: torch.nn.Module, given: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The model with other parameters and buffers, by name. A member of several names is replaced under all of
    them. The dict that it gives is filled at the end: with what is in the places of the members then.

    ValueError if the model gives a parameter, or one of several names of a buffer, another tensor.
    """
    names = {one: name for name, one in [*model.named_parameters(), *model.named_buffers()]}
    places: list[tuple[dict[str, Any], str, Tensor]] = []
    for module in model.modules():
        for members in (module._parameters, module._buffers):
            places += [(members, key, one) for key, one in members.items() if one is not None and names[one] in given]
    used: dict[str, Tensor] = {}
    try:
        for members, key, one in places:
            members[key] = given[names[one]]
        yield used
        for members, key, one in places:
            name = names[one]
            now = members.get(key)
            is_parameter = isinstance(one, torch.nn.Parameter)
            if now is None or used.setdefault(name, now) is not now or (is_parameter and now is not given[name]):
                raise ValueError(f"the model replaces '{name}', which is a parameter or has several names")
    finally:
        for members, key, one in places:
            members[key] = one


@contextlib.contextmanager
def _replaced(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]], state: Any) -> Iterator[None]:
    """The optimizer with other groups and another state."""
    kept = optimizer.param_groups, optimizer.state
    optimizer.param_groups, optimizer.state = groups, state
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = kept


class StepTracer:
    """Traces steps of a model, a loss and an optimizer.

    loss: as of train_step. names: of the optimizer's parameters in the model, by the parameter.
    clip_norm: the largest norm of all gradients; None: any. options: whose passes of pre_grad run.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        loss: Callable[..., Tensor],
        optimizer: torch.optim.Optimizer,
        names: Mapping[Tensor, str],
        clip_norm: float | None,
        options: Options,
    ) -> None:
        self._model = model
        self._loss = loss
        self._optimizer = optimizer
        self._names = names
        self._clip_norm = clip_norm
        self._options = options

    def trace(
        self,
        inputs: StepInputs,
        arguments: Callable[[Sequence[Tensor]], Sequence[Any]],
        decompositions: Mapping[Any, Any],
    ) -> fx.GraphModule:
        """The step as a functional graph, whose one result is the loss.

        arguments: the loss's arguments, of the tensors of a batch. Raises what the code raises; ValueError
        where it does what no graph can do.
        """
        mode = FakeTensorMode(allow_non_fake_inputs=True)
        fakes = [mode.from_tensor(one.detach(), static_shapes=True) for one in inputs.tensors()]

        def value(members: Mapping[str, Tensor], batch: Sequence[Tensor]) -> tuple[Tensor, dict[str, Tensor]]:
            return self._value(members, arguments(batch))

        def traced_as(numbers: Mapping[str, Any]) -> fx.GraphModule:
            def step(*tensors: Tensor) -> tuple[Any]:
                # As AOTAutograd does: code that changes tensors becomes operators that make new ones.
                with FunctionalTensorMode():
                    functional = [to_fun(tensor) for tensor in tensors]
                    result = self._step(inputs.with_tensors(functional), value, numbers)
                for tensor, changed in zip(tensors, functional, strict=True):
                    if has_data_mutation(changed):
                        tensor.copy_(from_fun(changed))
                return (from_fun(result),)

            return make_fx(step, decomposition_table=dict(decompositions), record_stack_traces=True)(*fakes)

        with mode, _compiling():
            if has_pre_grad_passes(self._options, fakes):
                value = self._with_pre_grad_passes(inputs.with_tensors(fakes), value)
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
        return traced

    def _check_constant(self, constant: Any) -> None:
        if isinstance(constant, Tensor) and constant.requires_grad:
            raise ValueError("the loss uses a tensor with a gradient that is no parameter of the model")

    def _value(
        self, members: Mapping[str, Tensor], arguments: Sequence[Any]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss with these parameters and buffers, and what is in the members' places then."""
        with _with_members(self._model, members) as used:
            value = self._loss(self._model, *arguments)
        if not isinstance(value, Tensor) or value.numel() != 1:
            raise ValueError("the loss is no tensor of one element")
        return value, used

    def _with_pre_grad_passes(self, given: StepInputs, value: _Value) -> _Value:
        """`value` after the pipeline's passes of pre_grad."""
        names = [*given.parameters, *given.buffers]
        trained = set(given.trained)
        tensors = [
            one.detach().requires_grad_(name in trained)
            for name, one in [*given.parameters.items(), *given.buffers.items()]
        ]

        def forward(*tensors: Tensor) -> tuple[Tensor, ...]:
            members = dict(zip(names, tensors, strict=False))
            result, used = value(members, tensors[len(names) :])
            return result, *(used[name] for name in names)

        inputs = [*tensors, *given.batch]
        graph = with_pre_grad_passes(
            make_fx(forward, pre_dispatch=True, record_stack_traces=True)(*inputs), inputs, self._options
        )

        def rewritten(
            members: Mapping[str, Tensor], batch: Sequence[Tensor]
        ) -> tuple[Tensor, dict[str, Tensor]]:
            result, *used = fx.Interpreter(graph).run(*(members[name] for name in names), *batch)
            return result, dict(zip(names, used, strict=True))

        return rewritten

    def _step(self, given: StepInputs, value: _Value, numbers: Mapping[str, Any]) -> Tensor:
        """`numbers`: of all groups of the optimizer, instead of their own."""
        trained = set(given.trained)
        leaves = {
            name: one.detach().requires_grad_() if name in trained else one
            for name, one in given.parameters.items()
        }
        with torch.enable_grad():
            loss, used = value({**leaves, **given.buffers}, given.batch)
            _keep_no_stack_traces()
            gradients = torch.autograd.grad(
                loss.sum(), [leaves[name] for name in given.trained], allow_unused=True
            )
        with torch.no_grad():
            for name, buffer in given.buffers.items():
                if used[name] is not buffer:  # a module has put another tensor there
                    buffer.copy_(used[name])
            self._change(given, gradients, numbers)
        return loss.detach()

    def _change(
        self, given: StepInputs, gradients: Sequence[Tensor | None], numbers: Mapping[str, Any]
    ) -> None:
        """The optimizer's step."""
        parameters = [given.parameters[name] for name in given.trained]
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.detach()
        if self._clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(parameters, self._clip_norm, foreach=False)
        by_name = dict(zip(given.trained, parameters, strict=True))
        groups = []
        for group, rate in zip(self._optimizer.param_groups, given.rates, strict=True):
            own = [by_name[self._names[one]] for one in group["params"] if self._names[one] in by_name]
            # One parameter after the other: lists of tensors are for launching less, and a program launches
            # anyway.
            groups.append({**group, "params": own, "lr": rate, "foreach": False, "fused": False, **numbers})
        state: collections.defaultdict[Tensor, State] = collections.defaultdict(dict)
        originals = {name: self._optimizer.state[one] for one, name in self._names.items()}
        for name, parameter, own, counter in zip(
            given.trained, parameters, given.states, given.counter_of, strict=True
        ):
            state[parameter] = {**originals[name], **own}
            if counter >= 0:
                if parameter.grad is None:
                    raise ValueError(
                        f"the loss does not depend on '{name}' any more, so that its counter stops"
                    )
                # In f64, as Python's numbers are: 1 - beta**step loses digits in f32.
                state[parameter]["step"] = given.counters[counter][0].to(torch.float64)
        before = {parameter: dict(own) for parameter, own in state.items()}
        with _replaced(self._optimizer, groups, state), _TensorsAsScalars():
            type(self._optimizer).step(self._optimizer)
        for parameter in parameters:
            parameter.grad = None
            self._store(before[parameter], state[parameter], counted="step" in before[parameter])
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
