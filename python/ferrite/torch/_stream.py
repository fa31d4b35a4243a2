# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes nodes of an FX graph as a node stream, the form in which the plugin ferrite.torch reads programs.

plugins/torch/format/node_stream.h has the format.
"""

from __future__ import annotations

import ctypes
import dataclasses
import json
import math
import operator
import os
import pathlib
import types
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from ferrite.torch._regions import region_of

# dtype -> (DLPack's type code, bits)
dlpack_types = {
    torch.float64: (2, 64),
    torch.float32: (2, 32),
    torch.float16: (2, 16),
    torch.bfloat16: (4, 16),
    torch.int64: (0, 64),
    torch.int32: (0, 32),
    torch.int16: (0, 16),
    torch.int8: (0, 8),
    torch.uint8: (1, 8),
    torch.uint16: (1, 16),
    torch.uint32: (1, 32),
    torch.uint64: (1, 64),
    torch.bool: (6, 8),
}


class Sizes:
    """Values of the symbols of a graph whose sizes are symbolic."""

    def __init__(self, symbols: Mapping[Any, int]) -> None:
        self._symbols = dict(symbols)

    @staticmethod
    def bound(placeholders: Sequence[fx.Node], arguments: Sequence[Any]) -> Sizes:
        """The symbols that a call's arguments fix: those of sizes, and of the shapes of tensors."""
        symbols: dict[Any, int] = {}

        def bind(symbolic: Any, value: int) -> None:
            if isinstance(symbolic, torch.SymInt) and symbolic.node.expr.is_symbol:
                symbols[symbolic.node.expr] = value

        for node, argument in zip(placeholders, arguments, strict=True):
            value = node.meta.get("val")
            if isinstance(argument, torch.Tensor) and isinstance(value, torch.Tensor):
                for symbolic, size in zip(value.shape, argument.shape, strict=True):
                    bind(symbolic, size)
                for symbolic, size in zip(value.stride(), argument.stride(), strict=True):
                    bind(symbolic, size)
            elif isinstance(argument, int):
                bind(value, argument)
        return Sizes(symbols)

    def of(self, value: Any) -> Any:
        """A number for a symbolic number; others are returned as they are."""
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            number = value.node.expr.subs(self._symbols)
            if isinstance(value, torch.SymInt):
                return int(number)
            return float(number) if isinstance(value, torch.SymFloat) else bool(number)
        return value

    def all_of(self, values: Iterable[Any]) -> list[int]:
        return [int(self.of(value)) for value in values]


def memory_order(dims: Sequence[int], strides: Sequence[int]) -> list[int] | None:
    """The dims from the slowest to the fastest in memory; None where the tensor has gaps or overlaps."""
    order = sorted((k for k in range(len(dims)) if dims[k] != 1), key=lambda k: (-strides[k], k))
    expected = 1
    for k in reversed(order):
        if strides[k] != expected and 0 not in dims:
            return None
        expected *= dims[k]
    # Dims of size 1 have no place in memory: each stays before the dim that follows it.
    result: list[int] = []
    rest = list(order)
    for k in range(len(dims)):
        if dims[k] == 1:
            result.append(k)
        else:
            result.append(rest.pop(0))
    return result


def stored_order(order: list[int] | None) -> list[int] | None:
    """The order in which a program stores a tensor; None for row-major order, in which it stores tensors with
    gaps."""
    return None if order is None or order == list(range(len(order))) else order


def _row_major(dims: Sequence[int]) -> list[int]:
    strides = [1] * len(dims)
    for k in range(len(dims) - 1, 0, -1):
        strides[k - 1] = strides[k] * max(dims[k], 1)
    return strides


# These read a tensor's memory by addresses; a program has values, and their strides are the compiler's
# choice.
_strided = (
    torch.ops.aten.as_strided.default,
    torch.ops.aten.as_strided_copy.default,
    torch.ops.aten.as_strided_scatter.default,
    torch.ops.aten.resize.default,
)


def tensors_of(node: fx.Node) -> list[torch.Tensor]:
    """The results of a node that are tensors, as PyTorch predicts them."""
    value = node.meta.get("val")
    values = value if isinstance(value, (list, tuple)) else [value]
    return [one for one in values if isinstance(one, torch.Tensor)]


_numbers = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)


def is_symbolic(node: fx.Node) -> bool:
    """Whether a node computes sizes, which those of the arguments determine, not tensors."""
    return isinstance(node.meta.get("val"), _numbers) and not _depends_on_values(node)


def _depends_on_values(node: fx.Node) -> bool:
    """Whether a number that the node gives, or a size of its results, depends on the values of a tensor."""
    value = node.meta.get("val")
    return bool(free_unbacked_symbols([*tensors_of(node), *([value] if isinstance(value, _numbers) else [])]))


def why_not(node: fx.Node) -> str | None:
    """The reason why a node cannot be written at all; None if it can."""
    if node.target is operator.getitem:
        return None
    if not isinstance(node.target, torch._ops.OpOverload):
        return f"'{getattr(node.target, '__name__', node.target)}' is no overload of an operator"
    if not tensors_of(node):
        return "it gives no tensor"
    for other in [node, *node.all_input_nodes]:
        if _depends_on_values(other):
            return "a size or number depends on the values of a tensor"
        for tensor in tensors_of(other):
            if tensor.layout is not torch.strided:
                return f"a tensor of layout {tensor.layout}"
            if tensor.dtype not in dlpack_types:
                return f"a tensor of dtype {str(tensor.dtype).removeprefix('torch.')}"
            if tensor.device.type == "meta":
                return "a tensor of the device meta"
    if node.target in _strided:
        tensor = node.args[0].meta["val"]
        if not tensor.is_contiguous() or tensor.storage_offset() != 0:
            return "it addresses the memory of a tensor that is not stored row by row"
    return None


# The folders of packages whose lines are not the user's.
_not_users = tuple(
    f"{folder}{os.sep}" for folder in (pathlib.Path(torch.__file__).parent, pathlib.Path(__file__).parents[1])
)


def place_of(node: fx.Node) -> str:
    """The line of the model that made the node: "model.py:12"; "" if FX does not know it. A layer of torch.nn
    has the line that calls it."""
    innermost = users = ""
    for line in (node.meta.get("stack_trace") or "").splitlines():
        line = line.strip()
        if line.startswith('File "'):
            file, _, rest = line[6:].partition('"')
            number = rest.partition("line ")[2].partition(",")[0]
            innermost = f"{file}:{number}"
            if not file.startswith(_not_users):
                users = innermost
    return users or innermost


@dataclasses.dataclass
class Segment:
    """Nodes that one program computes: what it takes, what it gives, and its stream.

    inputs: the nodes whose tensors it takes, and the memory order of each (None: row-major).
    outputs: the nodes that it gives.
    """

    inputs: list[tuple[fx.Node, list[int] | None]]
    outputs: list[fx.Node]
    stream: bytes
    mutated: frozenset[fx.Node]  # the inputs whose memory the program changes
    # By the index of a node in the stream; shorter by the permutations that begin and end it.
    streamed: list[fx.Node]
    first: int  # index of the first of them
    output_types: list[tuple[Any, ...]]  # for _bridge.Program
    input_types: list[tuple[Any, ...]]  # (type code, bits, device type, device, dims) for compiling


class _Writer:
    def __init__(self, sizes: Sizes) -> None:
        self.sizes = sizes
        self.numbers: dict[fx.Node, int | list[int]] = {}
        self.count = 0
        self.nodes: list[list[Any]] = []
        self.fills_u64 = False  # whether numbers of the node are those of an unsigned tensor

    def number(self) -> int:
        self.count += 1
        return self.count - 1

    def type_of(self, tensor: torch.Tensor) -> list[Any]:
        return [str(tensor.dtype).removeprefix("torch."), self.sizes.all_of(tensor.shape)]

    def argument(self, value: Any) -> Any:
        if isinstance(value, fx.Node):
            known = self.numbers.get(value)
            if isinstance(known, int):
                return {"v": known}
            return self.argument(self.sizes.of(value.meta["val"]))
        value = self.sizes.of(value)
        if isinstance(value, int) and not -(2**63) <= value < 2**63 and not self.fills_u64:
            value = float(value)  # as PyTorch, which has i64 and f64 for numbers
        if value is None or isinstance(value, (bool, int, str)):
            return value
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            return {"f": "nan" if math.isnan(value) else "inf" if value > 0 else "-inf"}
        if isinstance(value, (list, tuple)):
            return [self.argument(element) for element in value]
        if isinstance(value, torch.dtype):
            return {"d": str(value).removeprefix("torch.")}
        return str(value)  # devices, layouts, memory formats

    def node(self, node: fx.Node) -> None:
        if node.target is operator.getitem:
            source = self.numbers[node.args[0]]
            assert isinstance(source, list)
            self.numbers[node] = source[node.args[1]]
            return
        if region := region_of(node):
            self.numbers[node] = region.write(self, node, place_of(node))
            return
        self.fills_u64 = any(one.dtype == torch.uint64 for one in tensors_of(node))
        args = [self.argument(value) for value in node.args]
        kwargs = {name: self.argument(value) for name, value in node.kwargs.items()}
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)):
            results = [self.type_of(one) if isinstance(one, torch.Tensor) else None for one in value]
            self.numbers[node] = [self.number() for _ in results]
        else:
            results = [self.type_of(value)]
            self.numbers[node] = self.number()
        self.nodes.append([str(node.target), node.name, place_of(node), args, kwargs, results])

    def literal(self, node: fx.Node, tensor: torch.Tensor) -> None:
        """A constant with the contents of the tensor."""
        order = memory_order(list(tensor.shape), list(tensor.stride()))
        stored = (tensor if order is None else tensor.permute(order)).detach().cpu().contiguous()
        type_ = self.type_of(stored)
        content = ctypes.string_at(stored.data_ptr(), stored.nbytes).hex()
        self.nodes.append(["ferrite:literal", node.name, "", [content], {}, [type_]])
        self.numbers[node] = self.number()
        if stored_order(order) is not None:
            self.numbers[node] = self.permuted(self.numbers[node], _inverse(order), type_, node.name)

    def permuted(self, number: int, order: list[int], type_: list[Any], name: str) -> int:
        dims = [type_[1][k] for k in order]
        self.nodes.append(["aten.permute.default", name, "", [{"v": number}, order], {}, [[type_[0], dims]]])
        return self.number()


def _inverse(order: Sequence[int]) -> list[int]:
    return sorted(range(len(order)), key=lambda k: order[k])


def _device(tensor: torch.Tensor) -> tuple[int, int]:
    if tensor.device.type == "cpu":
        return 1, 0
    return (10 if torch.version.hip else 2), tensor.device.index or 0


def is_tensor(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def write_segment(
    nodes: Sequence[fx.Node],
    outputs: Sequence[fx.Node],
    sizes: Sizes,
    mutated: Mapping[fx.Node, fx.Node] = types.MappingProxyType({}),
    in_memory_order: bool = True,
    frozen: Mapping[fx.Node, torch.Tensor] = types.MappingProxyType({}),
) -> Segment:
    """The stream of these nodes, in order. Values of other nodes that they use become inputs; `outputs` are
    among them.

    mutated: inputs whose memory holds the value of another node after the run, with that node.
    in_memory_order: ports have the order of dims that their tensors have in memory, so that the program may
        run.
    frozen: nodes whose tensors are constants of the program. Inputs are none of them.
    """
    writer = _Writer(sizes)
    inside = set(nodes)
    taken: dict[fx.Node, None] = {}
    for node in nodes:
        for used in node.all_input_nodes:
            if used not in inside and is_tensor(used):
                taken[used] = None
    for pair in mutated.items():
        taken.update((node, None) for node in pair if node not in inside)
    inputs: list[tuple[fx.Node, list[int] | None]] = []
    ports: list[list[Any]] = []
    input_types: list[tuple[Any, ...]] = []
    for node in taken:
        if node in frozen:
            continue
        tensor = node.meta["val"]
        type_ = writer.type_of(tensor)
        order = None
        if in_memory_order:
            order = stored_order(memory_order(type_[1], sizes.all_of(tensor.stride())))
        if order is not None:
            type_ = [type_[0], [type_[1][k] for k in order]]
        inputs.append((node, order))
        ports.append([node.name, *type_])
        writer.numbers[node] = writer.number()
        input_types.append((*dlpack_types[tensor.dtype], *_device(tensor), type_[1]))
    for node in taken:
        if node in frozen:
            writer.literal(node, frozen[node])
    for (node, order), port in zip(inputs, ports, strict=True):
        if order is not None:
            known = writer.numbers[node]
            assert isinstance(known, int)
            writer.numbers[node] = writer.permuted(known, _inverse(order), port[1:], node.name)
    first = len(writer.nodes)
    streamed = []
    for node in nodes:
        before = len(writer.nodes)
        writer.node(node)
        streamed.extend([node] * (len(writer.nodes) - before))
    for (node, order), port in zip(inputs, ports, strict=True):
        if node in mutated:
            number = writer.numbers[mutated[node]]
            assert isinstance(number, int)
            if order is not None:
                number = writer.permuted(number, order, writer.type_of(node.meta["val"]), node.name)
            port.append({"mutated_by": number})
    results: list[list[Any]] = []
    output_types: list[tuple[Any, ...]] = []
    for node in outputs:
        tensor = node.meta["val"]
        type_ = writer.type_of(tensor)
        number = writer.numbers[node]
        assert isinstance(number, int)
        strides = sizes.all_of(tensor.stride())
        order = memory_order(type_[1], strides) if in_memory_order else None
        seen = [*type_[1], *strides] if order is not None and strides != _row_major(type_[1]) else None
        dims, order = type_[1], stored_order(order)
        if order is not None:
            number = writer.permuted(number, order, type_, node.name)
            dims = [type_[1][k] for k in order]
        results.append([node.name, number])
        output_types.append((*dlpack_types[tensor.dtype], *_device(tensor), dims, seen))
    text = {"aten": 1, "inputs": ports, "nodes": writer.nodes, "outputs": results}
    return Segment(
        inputs,
        list(outputs),
        json.dumps(text, separators=(",", ":")).encode(),
        frozenset(mutated),
        streamed,
        first,
        output_types,
        input_types,
    )
