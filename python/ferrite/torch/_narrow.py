# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Places of elements in the narrowest integers that hold them, where the backward pass may need them.

PyTorch counts places in i64: those of the greatest elements of a pool take four times the memory of the f16
values that were chosen. Each place is narrowed and widened again right after it was found. Whichever
partitioner divides the graph keeps the narrow one, and kernels convert as they load and store.
"""

from __future__ import annotations

import math
import operator
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten
_widths = (torch.int8, torch.int16, torch.int32)
# Operators whose second result holds places, by the dims among whose elements they count: that of the
# argument `dim`, or so many of the last ones.
_along_dim = (
    aten.max.dim,
    aten.min.dim,
    aten.median.dim,
    aten.nanmedian.dim,
    aten.mode.default,
    aten.kthvalue.default,
    aten.topk.default,
    aten.sort.default,
    aten.sort.stable,
    aten.cummax.default,
    aten.cummin.default,
)
_along_last = {
    aten.max_pool2d_with_indices.default: 2,
    aten.max_pool3d_with_indices.default: 3,
    aten.adaptive_max_pool2d.default: 2,
    aten.adaptive_max_pool3d.default: 3,
}


def narrow_places(graph: fx.Graph) -> None:
    """Narrows the places of a joint graph; its results stay i64."""
    for node in list(graph.nodes):
        dtype = _narrow_type(node)
        places = [user for user in node.users if user.target is operator.getitem and user.args[1] == 1]
        for place in places if dtype is not None else ():
            users = [user for user in place.users if user.op != "output"]
            if not users:
                continue
            with graph.inserting_after(place):
                narrow = _converted(graph, place, dtype)
            with graph.inserting_after(narrow):
                wide = _converted(graph, narrow, place.meta["val"].dtype)
            for user in users:
                user.replace_input_with(place, wide)


def _converted(graph: fx.Graph, node: fx.Node, dtype: torch.dtype) -> fx.Node:
    convert = torch.ops.prims.convert_element_type.default
    result = graph.call_function(convert, (node, dtype))
    result.meta = {**node.meta, "val": convert(node.meta["val"], dtype)}
    result.meta.pop("tensor_meta", None)
    return result


def _narrow_type(node: fx.Node) -> torch.dtype | None:
    """The dtype that holds the places that a node gives; None where it gives none, or i64 is needed."""
    if node.target in _along_last:
        x = _argument(node, "self").meta["val"]
        sizes = x.shape[-_along_last[node.target] :]
    elif node.target in _along_dim:
        x = _argument(node, "self").meta["val"]
        sizes = x.shape[_argument(node, "dim") :][:1] if x.dim() else ()
    else:
        return None
    if not all(isinstance(size, int) for size in sizes):
        return None
    return next((one for one in _widths if math.prod(sizes) - 1 <= torch.iinfo(one).max), None)


def _argument(node: fx.Node, name: str) -> Any:
    for k, argument in enumerate(node.target._schema.arguments):
        if argument.name == name:
            return node.args[k] if k < len(node.args) else node.kwargs.get(name, argument.default_value)
    raise KeyError(name)
