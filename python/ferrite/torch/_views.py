# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Results that share memory, or have gaps in memory: PyTorch makes them of tensors that a program gives.

A program gives tensors without gaps that share nothing. Eager's results may be views of one another or of an
argument, and callers may write to one and read the other; a node that runs in PyTorch may depend on the
strides of its inputs.
"""

from __future__ import annotations

import collections
import dataclasses
import operator
from collections.abc import Sequence, Set
from typing import Any

import torch
from torch import fx
from torch._C._dynamo.guards import _reinterpret_tensor  # a tensor over another's memory, without autograd

from ferrite.torch._stream import Sizes, memory_order


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor over the memory of `base`, as a function of base's tensor. Any thread may call it.

    offset: of its first element from that of the base, in bytes.
    base_dtype, base_strides: those of the base for which the rest holds.
    """

    base: fx.Node
    dtype: torch.dtype
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    base_dtype: torch.dtype
    base_strides: tuple[int, ...]
    __name__ = "ferrite_view"  # in code that torch.fx generates

    def __reduce__(self) -> tuple[Any, ...]:  # of the graph's nodes, calls need none
        return View, (None, *(getattr(self, field.name) for field in dataclasses.fields(self)[1:]))

    def __call__(self, base: torch.Tensor) -> torch.Tensor:
        if base.stride() != self.base_strides or base.dtype != self.base_dtype:  # PyTorch predicted others
            base = _copy(base, self.base_dtype, self.base_strides)
        if base.dtype == self.dtype:
            return _reinterpret_tensor(base, self.dims, self.strides, self.offset // self.dtype.itemsize)
        first = (base.storage_offset() * base.dtype.itemsize + self.offset) // self.dtype.itemsize
        empty = torch.empty(0, dtype=self.dtype, device=base.device)
        return empty.set_(base.untyped_storage(), first, self.dims, self.strides)


@dataclasses.dataclass(frozen=True)
class WithGaps:
    """A copy of the tensor that a program gives for `base`, with the gaps that eager's has. Any thread may
    call it."""

    base: fx.Node
    strides: tuple[int, ...]
    __name__ = "ferrite_with_gaps"

    def __reduce__(self) -> tuple[Any, ...]:
        return WithGaps, (None, self.strides)

    def __call__(self, tensor: torch.Tensor) -> torch.Tensor:
        return _copy(tensor, tensor.dtype, self.strides)


def _copy(tensor: torch.Tensor, dtype: torch.dtype, strides: Sequence[int]) -> torch.Tensor:
    return torch.empty_strided(tensor.shape, strides, dtype=dtype, device=tensor.device).copy_(tensor)


@dataclasses.dataclass(frozen=True)
class Results:
    """How the results of a segment are made.

    computed: those that the program gives, in the order of the results; after them, bases of views that are
        no results.
    gaps, views: those that PyTorch makes afterwards, in this order, of computed ones, or of tensors that the
        segment takes.
    """

    computed: list[fx.Node]
    gaps: dict[fx.Node, WithGaps]
    views: dict[fx.Node, View]


def divide(
    nodes: Set[fx.Node], results: Sequence[fx.Node], sizes: Sizes, changed: Set[fx.Node] = frozenset()
) -> Results:
    """Decides for each of the results of a segment with these nodes who makes it.

    changed: tensors whose memory gets other contents. No result is a view of them, since it has the old
        contents.
    """
    bases = {node: _base_of(node, nodes, changed) for node in results}
    sharing = collections.Counter(bases.values())
    views = {
        node: _view(node, base, sizes)
        for node, base in bases.items()
        if base is not node and (sharing[base] > 1 or base not in nodes or _order(node, sizes) is None)
    }
    own = [node for node in results if node not in views]
    computed = dict.fromkeys([*own, *(view.base for view in views.values())])
    gaps = {}
    for node in computed:
        if node in nodes and _order(node, sizes) is None:
            tensor = node.meta["val"]
            dims, strides = sizes.all_of(tensor.shape), sizes.all_of(tensor.stride())
            if not _overlaps(dims, strides):
                gaps[node] = WithGaps(node, tuple(strides))
    return Results([node for node in computed if node in nodes], gaps, views)


def _order(node: fx.Node, sizes: Sizes) -> list[int] | None:
    tensor = node.meta["val"]
    return memory_order(sizes.all_of(tensor.shape), sizes.all_of(tensor.stride()))


def _overlaps(dims: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements may lie at one place."""
    end = 0
    loops = [(stride, size) for stride, size in zip(strides, dims, strict=True) if size > 1]
    for stride, size in sorted(loops):
        if stride <= end:
            return True
        end += (size - 1) * stride
    return False


def _base_of(node: fx.Node, nodes: Set[fx.Node], changed: Set[fx.Node]) -> fx.Node:
    """The tensor whose memory a node's result shares: the first of a chain of views that starts within or
    before these nodes, after one that is changed."""
    while node in nodes and (source := _source_of_view(node)) is not None and source not in changed:
        node = source
    return node


def _source_of_view(node: fx.Node) -> fx.Node | None:
    """The node of which this one's result is a view; None if it has memory of its own. The operator's schema
    says so."""
    made = node.args[0] if node.target is operator.getitem else node
    if not isinstance(made, fx.Node) or not isinstance(made.target, torch._ops.OpOverload):
        return None
    schema = made.target._schema
    if not any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns):
        return None
    for k, parameter in enumerate(schema.arguments):
        if parameter.alias_info is None or parameter.alias_info.is_write:
            continue
        source = made.args[k] if k < len(made.args) else made.kwargs.get(parameter.name)
        # Some operators give a view where they can, and a copy where not.
        if not isinstance(source, fx.Node) or _storage(source) is None:
            continue
        if _storage(source) == _storage(node):
            return source
    return None


def _storage(node: fx.Node) -> Any:
    tensor = node.meta.get("val")
    return tensor.untyped_storage()._cdata if isinstance(tensor, torch.Tensor) else None


def _view(node: fx.Node, base: fx.Node, sizes: Sizes) -> View:
    tensor, whole = node.meta["val"], base.meta["val"]
    offset = sizes.of(tensor.storage_offset()) * tensor.dtype.itemsize
    return View(
        base,
        tensor.dtype,
        tuple(sizes.all_of(tensor.shape)),
        tuple(sizes.all_of(tensor.stride())),
        offset - sizes.of(whole.storage_offset()) * whole.dtype.itemsize,
        whole.dtype,
        tuple(sizes.all_of(whole.stride())),
    )
