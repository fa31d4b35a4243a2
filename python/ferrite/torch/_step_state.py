# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The state of a model that a traced training step depends on.

The tracer reads parameters, buffers and tensors that are plain attributes of modules as inputs of its graph.
All other Python state of the modules, such as numbers and settings, becomes a part of the graph; a step is
traced again where it is another one.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import enum
import itertools
import operator
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeGuard

import torch

Tensor = torch.Tensor

# The attributes that each module has: its members, hooks and settings.
_own = frozenset(vars(torch.nn.Module())) - {"training"}
_plain = (bool, int, float, complex, str, bytes, type(None), enum.Enum, torch.dtype, torch.device)
_containers = (list, dict, set, deque)
# Containers with more elements, or within more containers, count by their identity.
_longest = 1000
_deepest = 8


class StateError(ValueError):
    """A step that changes the state of its model, but for tensors, is no graph."""

    def __init__(self, name: str) -> None:
        super().__init__(f"it changes '{name}' of the model")


class Same:
    """Equal to the same object alone."""

    def __init__(self, one: Any) -> None:
        self._one = one

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and other._one is self._one

    def __hash__(self) -> int:
        return id(self._one)


def type_of(one: Tensor) -> tuple[Any, ...]:
    return one.dtype, one.device, one.shape, one.stride()


_nothing: Mapping[int, Any] = {}
_missing = object()


def frozen(value: Any, stand_ins: Mapping[int, Any] = _nothing, depth: int = 0) -> Any:
    """Stands for a value in a key: its type and itself for numbers and settings, its elements for
    containers of them, and its identity for all others.

    stand_ins: objects by the identities of what stands for them. depth: of the containers that hold it.
    """
    if isinstance(value, _plain):
        return type(value), value
    if isinstance(value, weakref.ref):
        return type(value), frozen(value(), stand_ins, depth)
    if depth < _deepest and (isinstance(value, tuple) or _is_watched(value)):
        elements = value.items() if isinstance(value, dict) else value
        return type(value), *(frozen(one, stand_ins, depth + 1) for one in elements)
    return Same(stand_ins.get(id(value), value))


def _is_watched(value: Any) -> bool:
    return isinstance(value, _containers) and len(value) <= _longest


def _is_input(value: Any) -> TypeGuard[Tensor]:
    """Whether an attribute of a module is an input of the graph. Results of an earlier step are, although
    they have a graph; leaves that take gradients are not."""
    return (
        type(value) is Tensor
        and value.layout == torch.strided
        and (value.grad_fn is not None or not value.requires_grad)
    )


def _hooks_of(module: torch.nn.Module) -> list[tuple[str, Mapping[int, Any]]]:
    """The hooks that run with a module, by their numbers, which no others have."""
    return [
        ("_forward_hooks", module._forward_hooks),
        ("_forward_pre_hooks", module._forward_pre_hooks),
        ("_backward_hooks", module._backward_hooks),
        ("_backward_pre_hooks", module._backward_pre_hooks),
    ]


@dataclasses.dataclass(frozen=True)
class _Place:
    """Where a tensor is an attribute of a module. name: of the input that it is. type: None if it is that of
    another attribute, a parameter or a buffer."""

    attributes: dict[str, Any]
    key: str
    name: str
    type: tuple[Any, ...] | None


class ModelState:
    """The modules of a model, and all of their state but for the contents of tensors.

    modules, parameters, buffers: by their first names. attributes: tensors that are no members of
    their modules, by name. number: equal for states from which the same graph is traced.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._numbers: dict[Any, int] = {}
        self._collect()

    def look(self) -> bool:
        """Brings all of it up to date. Returns whether there were changes but for contents of tensors."""
        if self._is_the_same():
            return False
        self._collect()
        return True

    def difference(self, number: int) -> str | None:
        """The name of what an earlier state has otherwise."""
        keys = {known: dict(key) for key, known in self._numbers.items()}
        before, now = keys[number], keys[self.number]
        return next((name for name in {**before, **now} if before.get(name) != now.get(name)), None)

    def set(self, name: str, value: Tensor) -> None:
        """Gives a module an attribute."""
        path, _, attribute = name.rpartition(".")
        vars(self._model.get_submodule(path))[attribute] = value

    def _collect(self) -> None:
        named = dict(self._model.named_modules())
        self.modules = named
        self.parameters = dict(self._model.named_parameters())
        self.buffers = dict(self._model.named_buffers())
        self.attributes: dict[str, Tensor] = {}
        self._places: list[_Place] = []
        self._watched: dict[int, tuple[str, Any]] = {}  # containers with their names, by identity
        self._getters: list[tuple[Callable[[Any], Any], dict[str, Any]]] = []
        members = {**self.parameters, **self.buffers}
        key: dict[str, Any] = {name: type_of(one) for name, one in members.items()}
        first = {id(one): name for name, one in members.items()}
        for path, module in named.items():
            attributes = module.__dict__
            names = []
            for name, value in attributes.items():
                if name in _own:
                    continue
                full = f"{path}.{name}" if path else name
                if _is_input(value):
                    key[full] = self._add_input(full, attributes, name, value, first)
                else:
                    names.append(name)
                    key[full] = frozen(value)
                    self._watch(full, value)
            if names:
                self._getters.append((operator.itemgetter(*names, names[0]), attributes))
            key.update({f"{path}.{kind}": tuple(hooks) for kind, hooks in _hooks_of(module) if hooks})
        self.number = self._numbers.setdefault(tuple(key.items()), len(self._numbers))
        self._note()

    def _add_input(
        self, full: str, attributes: dict[str, Any], name: str, value: Tensor, first: dict[int, str]
    ) -> Any:
        """Notes a tensor that is an attribute; gives what stands for it in the key. first: the first names of
        tensors by their identities."""
        if known := first.get(id(value)):
            self._places.append(_Place(attributes, name, known, None))
            return known
        first[id(value)] = full
        self.attributes[full] = value.detach()
        self._places.append(_Place(attributes, name, full, type_of(value)))
        return type_of(value)

    def _watch(self, name: str, value: Any) -> None:
        """Notes the containers that a value is or has, whose elements may change."""
        if id(value) in self._watched or not (isinstance(value, tuple) or _is_watched(value)):
            return
        if not isinstance(value, tuple):
            self._watched[id(value)] = name, value
        for one in value.values() if isinstance(value, dict) else value:
            self._watch(name, one)

    def _note(self) -> None:
        """Notes what _is_the_same() compares."""
        containers = [one for _, one in self._watched.values()]
        modules = self.modules.values()
        members = [one for each in modules for one in (each._parameters, each._buffers, each._modules)]
        self._sized = [*map(vars, modules), *members, *containers]
        self._views: list[Iterable[Any]] = [one.values() for one in members]
        for one in containers:
            self._views += [one.keys(), one.values()] if isinstance(one, dict) else [one]
        self._hooks = [hooks for module in modules for _, hooks in _hooks_of(module)]
        self._noted = self._elements(), self._counts()

    def _elements(self) -> list[Any]:
        """The objects that make up the state."""
        parts = [get(attributes) for get, attributes in self._getters]
        return [*itertools.chain.from_iterable(parts), *itertools.chain.from_iterable(self._views)]

    def _counts(self) -> tuple[list[int], list[int], list[torch.dtype]]:
        """The sizes of what has the objects, the numbers of hooks, and dtypes, which change in place."""
        dtypes = [one.dtype for one in self.parameters.values()]
        return list(map(len, self._sized)), list(itertools.chain.from_iterable(self._hooks)), dtypes

    def _is_the_same(self) -> bool:
        """Whether nothing changed. It compares identities, since it runs before each step."""
        elements, counts = self._noted
        try:
            if self._counts() != counts or not all(map(operator.is_, self._elements(), elements)):
                return False
        except KeyError:  # an attribute is no longer there
            return False
        tensors: dict[str, Tensor] = {**self.parameters, **self.buffers} if self._places else {}
        for place in self._places:
            value = place.attributes.get(place.key)
            if place.type is None:
                if value is not tensors[place.name]:
                    return False
            elif not _is_input(value) or type_of(value) != place.type:
                return False
            else:
                tensors[place.name] = value
                self.attributes[place.name] = value.detach()
        return True

    @contextlib.contextmanager
    def replaced(self, given: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
        """The model with other parameters, buffers and attributes, by name. One of several names is replaced
        under all of them.

        At the end the model is as it was. The dict that it gives is filled then: with what was in their
        places, and with tensors that became attributes. StateError if the model's state changed otherwise.
        """
        originals: dict[str, Tensor] = {**self.parameters, **self.buffers}
        names = {id(one): name for name, one in originals.items()}
        members = [
            (store, key, one)
            for module in self.modules.values()
            for store in (module._parameters, module._buffers)
            for key, one in store.items()
            if one is not None
        ]
        for place in self._places:
            originals.setdefault(place.name, place.attributes[place.key])
        before = [(path, one.__dict__, dict(one.__dict__)) for path, one in self.modules.items()]
        contents = [(name, one, copy.copy(one)) for name, one in self._watched.values()]
        used: dict[str, Tensor] = {}
        try:
            for store, key, one in members:
                store[key] = given[names[id(one)]]
            for place in self._places:
                place.attributes[place.key] = given[place.name]
            yield used
            for store, key, one in members:
                name = names[id(one)]
                now = store.get(key)
                is_parameter = isinstance(one, torch.nn.Parameter)
                if now is None or used.setdefault(name, now) is not now:
                    raise StateError(name)
                if is_parameter and now is not given[name]:
                    raise StateError(name)
            stand_ins = {id(given[name]): one for name, one in originals.items()}
            for path, attributes, old in before:
                used.update(_new_tensors(path, old, attributes, stand_ins))
            for name, one, old in contents:
                if frozen(one, stand_ins) != frozen(old):
                    raise StateError(name)
        finally:
            for store, key, one in members:
                store[key] = one
            for _, attributes, old in before:
                _restore_attributes(attributes, old)
            for _, one, old in contents:
                _restore_elements(one, old)


def _new_tensors(
    path: str, old: Mapping[str, Any], attributes: Mapping[str, Any], stand_ins: Mapping[int, Any]
) -> dict[str, Tensor]:
    """The tensors that a module has got as attributes, by name. StateError if other attributes changed."""
    found = {}
    for name in {**old, **attributes}:
        was, now = old.get(name, _missing), attributes.get(name, _missing)
        if name in _own or now is was or stand_ins.get(id(now)) is was:
            continue
        full = f"{path}.{name}" if path else name
        if isinstance(now, Tensor) and id(now) not in stand_ins:
            found[full] = now
        elif frozen(now, stand_ins) != frozen(was):
            raise StateError(full)
    return found


def _restore_attributes(attributes: dict[str, Any], old: Mapping[str, Any]) -> None:
    for name in attributes.keys() - old.keys():
        del attributes[name]
    for name, value in old.items():
        if attributes.get(name, _missing) is not value:
            attributes[name] = value


def _restore_elements(container: Any, old: Any) -> None:
    if len(container) == len(old) and all(map(operator.is_, container, old)):
        if not isinstance(old, dict) or all(map(operator.is_, container.values(), old.values())):
            return
    container.clear()
    if isinstance(container, (dict, set)):
        container.update(old)
    else:
        container.extend(old)
