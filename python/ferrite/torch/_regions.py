# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Regions of a model that passes at pre_grad have replaced by ops of Ferrite, as one operator of PyTorch.

`torch.ops.ferrite.region` computes a region. Ferrite compiles the ops that the passes left. A pass promises
that they equal the nodes that it replaced, so these give the region's gradient, and compute it where it runs
in PyTorch.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

# Names of Ferrite's dtypes.
dtypes = {
    "f64": torch.float64,
    "f32": torch.float32,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "i64": torch.int64,
    "i32": torch.int32,
    "i16": torch.int16,
    "i8": torch.int8,
    "u8": torch.uint8,
    "u16": torch.uint16,
    "u32": torch.uint32,
    "u64": torch.uint64,
    "bool": torch.bool,
}
_dtype_attribute = 4  # FE_ATTR_DTYPE
_regions: dict[str, Region] = {}
_numbers = itertools.count()


class Region:
    """change: an element of the JSON of changed_regions(). inputs: names of the operator's inputs. original:
    the replaced nodes, as a function of the inputs. examples: fake inputs. Any thread may use it once it is
    made."""

    def __init__(
        self,
        change: dict[str, Any],
        inputs: Sequence[str],
        original: fx.GraphModule,
        examples: Sequence[torch.Tensor],
    ) -> None:
        self.key = f"{'+'.join(change['passes'])}#{next(_numbers)}"
        self._change = change
        self._inputs = [inputs.index(name) for name in change["inputs"]]
        self._original = original
        self._results = original(*examples)
        self._gradient = self._differentiated(examples)
        _regions[self.key] = self

    def _differentiated(self, examples: Sequence[torch.Tensor]) -> fx.GraphModule | None:
        """(*inputs, *gradients of results) -> gradients of the inputs, both of those only that have one."""

        def results_of(tensors: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            inputs = [tensor.detach().requires_grad_(tensor.is_floating_point()) for tensor in tensors]
            return inputs, [result for result in self._original(*inputs)]

        with torch.enable_grad():
            inputs, results = results_of(examples)
        self._active_inputs = [k for k, tensor in enumerate(inputs) if tensor.requires_grad]
        self._active_results = [k for k, tensor in enumerate(results) if tensor.requires_grad]
        if not self._active_results:
            return None

        def gradients(*tensors: torch.Tensor) -> Any:
            with torch.enable_grad():
                inputs, results = results_of(tensors[: len(examples)])
                return torch.autograd.grad(
                    [results[k] for k in self._active_results],
                    [inputs[k] for k in self._active_inputs],
                    tensors[len(examples) :],
                    allow_unused=True,
                )

        zeros = [torch.zeros_like(self._results[k]) for k in self._active_results]
        return make_fx(gradients)(*examples, *zeros)

    def fake(self) -> list[torch.Tensor]:
        return [
            torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device=one.device)
            for one in self._results
        ]

    def run(self, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """In PyTorch."""
        # Results of operators are no views of inputs.
        return [result.clone() for result in self._original(*inputs)]

    def gradients(
        self, inputs: Sequence[torch.Tensor], given: Sequence[torch.Tensor | None]
    ) -> list[torch.Tensor | None]:
        found: list[torch.Tensor | None] = [None] * len(inputs)
        if self._gradient is None:
            return found
        wanted = []
        for k in self._active_results:
            like = self._results[k]
            gradient = given[k]
            if gradient is None:
                gradient = torch.zeros(like.shape, dtype=like.dtype, device=like.device)
            wanted.append(gradient)
        for k, gradient in zip(self._active_inputs, self._gradient(*inputs, *wanted), strict=True):
            found[k] = gradient
        return found

    def write(self, writer: Any, node: fx.Node, place: str) -> list[int]:
        """Adds the region's ops to a node stream; gives the numbers of the results."""
        known = [writer.numbers[node.args[1][k]] for k in self._inputs]

        def add(target: str, args: list[Any], kwargs: dict[str, Any], types: list[Any]) -> None:
            writer.nodes.append([target, node.name, place, args, kwargs, types])
            known.extend(writer.number() for _ in types)

        for dtype, dims, content in self._change["constants"]:
            add("ferrite:literal", [content], {}, [[str(dtypes[dtype]).removeprefix("torch."), dims]])
        outputs = zip(self._change["outputs"], node.meta["val"], strict=True)
        types = {number: writer.type_of(value) for (_, number), value in outputs}
        for op, operands, attributes, count in self._change["ops"]:
            args = [None if number is None else {"v": known[number]} for number in operands]
            kwargs = {name: [kind, _attribute(kind, value)] for name, (kind, value) in attributes.items()}
            first = len(known)
            add(f"ferrite:{op}", args, kwargs, [types.get(first + k) for k in range(count)])
        return [known[number] for _, number in self._change["outputs"]]


def _attribute(kind: int, value: Any) -> Any:
    return {"d": str(dtypes[value]).removeprefix("torch.")} if kind == _dtype_attribute else value


def region_of(node: fx.Node) -> Region | None:
    """The region that a node computes; None for other nodes."""
    return _regions[node.args[0]] if node.target is torch.ops.ferrite.region.default else None


@torch.library.custom_op("ferrite::region", mutates_args=(), schema="(str key, Tensor[] inputs) -> Tensor[]")
def _region(key: str, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return _regions[key].run(inputs)


@_region.register_fake
def _(key: str, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return _regions[key].fake()


def _setup_context(ctx: Any, inputs: tuple[str, Sequence[torch.Tensor]], output: Any) -> None:
    ctx.key, tensors = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx: Any, gradients: Sequence[torch.Tensor | None]) -> tuple[None, list[torch.Tensor | None]]:
    return None, _regions[ctx.key].gradients(ctx.saved_tensors, gradients)


_region.register_autograd(_backward, setup_context=_setup_context)
