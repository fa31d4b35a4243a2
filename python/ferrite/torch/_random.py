# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers of compiled graphs: pure functions of seeds, so that they fuse and can be computed again.

PyTorch's generator is a state: each draw changes it, so a node that draws cannot be fused, and its result
must be kept for the backward pass. Here one node of a graph draws a seed for each random node, from PyTorch's
generator of the device; everything else is Philox4x32-10 of a seed (ops random_uniform, random_normal and
random_bits of ferrite.std). torch.manual_seed therefore makes results reproducible, but they are not the
numbers of eager mode.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode

from ferrite.torch._options import Options, session_for

aten = torch.ops.aten

_library = torch.library.Library("ferrite", "FRAGMENT")
_library.define(
    "random_seeds(int count, *, Device device) -> Tensor", tags=(torch.Tag.nondeterministic_seeded,)
)
# A seed is two integers, i64[2]. Uniform numbers are f32 of [0, 1), of 24 bits; normal ones are f32 of the
# standard normal distribution; integers are i64 of [low, high).
_library.define("random_uniform(Tensor seed, SymInt[] size) -> Tensor")
_library.define("random_normal(Tensor seed, SymInt[] size) -> Tensor")
_library.define("random_integers(Tensor seed, int low, int high, SymInt[] size) -> Tensor")

seeds_op = torch.ops.ferrite.random_seeds.default
_uniform = torch.ops.ferrite.random_uniform.default
_normal = torch.ops.ferrite.random_normal.default
_integers = torch.ops.ferrite.random_integers.default


def _seeds(count: int, *, device: torch.device) -> torch.Tensor:
    limits = torch.iinfo(torch.int64)
    return torch.randint(limits.min, limits.max, (count, 2), device=device)


def _numbers(target: Any, dtype: torch.dtype) -> Callable[..., torch.Tensor]:
    """The op outside of a compiled graph: a program of this one node, so that the numbers are the same."""

    def run(seed: torch.Tensor, *arguments: Any) -> torch.Tensor:
        *others, size = arguments
        size = [int(dim) for dim in size]
        stream = {
            "aten": 1,
            "inputs": [["seed", "int64", [2]]],
            "nodes": [
                [
                    str(target),
                    "numbers",
                    "",
                    [{"v": 0}, *others, size],
                    {},
                    [[str(dtype).removeprefix("torch."), size]],
                ]
            ],
            "outputs": [["numbers", 1]],
        }
        model = session_for(Options(), "cpu").load("random.aten", json.dumps(stream).encode())
        (result,) = model.run_dlpack(seed.cpu())
        return torch.from_dlpack(result).to(seed.device)

    return run


def _empty(dtype: torch.dtype) -> Callable[..., torch.Tensor]:
    return lambda seed, *arguments: torch.empty(arguments[-1], dtype=dtype, device=seed.device)


_library.impl("random_seeds", _seeds, "CompositeExplicitAutograd")
_library.impl(
    "random_seeds",
    lambda count, *, device: torch.empty(count, 2, dtype=torch.int64, device=device),
    "Meta",
)
for _name, _target, _dtype in (
    ("random_uniform", _uniform, torch.float32),
    ("random_normal", _normal, torch.float32),
    ("random_integers", _integers, torch.int64),
):
    _library.impl(_name, _numbers(_target, _dtype), "CompositeExplicitAutograd")
    _library.impl(_name, _empty(_dtype), "Meta")


class _Replacement:
    """Builds what stands for one node."""

    def __init__(self, node: fx.Node, seed: fx.Node, fake_mode: Any) -> None:
        self.node = node
        self.graph = node.graph
        self.seed = seed
        self.fake_mode = fake_mode
        result = node.meta["val"]
        self.result = result[0] if isinstance(result, (list, tuple)) else result
        self.size = list(self.result.shape)

    def call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        made = self.graph.call_function(target, args, kwargs)
        meta = self.node.meta.items()
        made.meta.update({name: value for name, value in meta if name not in ("val", "tensor_meta")})
        with self.fake_mode:
            fake_args, fake_kwargs = fx.map_arg((args, kwargs), lambda used: used.meta["val"])
            made.meta["val"] = target(*fake_args, **fake_kwargs)
        return made

    def cast(self, value: fx.Node, dtype: torch.dtype) -> fx.Node:
        if value.meta["val"].dtype == dtype:
            return value
        return self.call(aten._to_copy.default, value, dtype=dtype)

    def uniform(self) -> fx.Node:
        return self.call(_uniform, self.seed, self.size)

    def normal(self) -> fx.Node:
        return self.call(_normal, self.seed, self.size)

    def chosen(self, probability: Any) -> fx.Node:
        """True with this probability, a number or a tensor."""
        compare = aten.lt.Tensor if isinstance(probability, fx.Node) else aten.lt.Scalar
        return self.call(compare, self.uniform(), probability)


def _rand(r: _Replacement) -> fx.Node:
    """24 bits would round up to 1 in a narrower float: as many bits as it has are kept."""
    value = r.uniform()
    if r.result.dtype != torch.float32:
        steps = 2.0 / torch.finfo(r.result.dtype).eps
        whole = r.call(aten.floor.default, r.call(aten.mul.Tensor, value, steps))
        value = r.call(aten.mul.Tensor, whole, 1 / steps)
    return r.cast(value, r.result.dtype)


def _randn(r: _Replacement) -> fx.Node:
    return r.cast(r.normal(), r.result.dtype)


def _randint(r: _Replacement) -> fx.Node:
    arguments = r.node.args
    kind = str(r.node.target)
    if kind.startswith("aten.randint_like"):
        arguments = arguments[1:]
    has_low = kind in ("aten.randint.low", "aten.randint_like.low_dtype")
    low, high = arguments[:2] if has_low else (0, arguments[0])
    return r.cast(r.call(_integers, r.seed, low, high, r.size), r.result.dtype)


def _bernoulli(r: _Replacement) -> fx.Node:
    probability = r.node.args[1] if len(r.node.args) > 1 else r.node.args[0]
    return r.cast(r.chosen(probability), r.result.dtype)


def _scaled(r: _Replacement, value: fx.Node, factor: Any, offset: Any) -> fx.Node:
    """value * factor + offset, each a number or a tensor."""
    value = r.call(aten.mul.Tensor, value, factor)
    return r.cast(r.call(aten.add.Tensor, value, offset), r.result.dtype)


def _normal_of(mean: int, deviation: int) -> Callable[[_Replacement], fx.Node]:
    """`mean` and `deviation`: the places of these arguments."""

    def build(r: _Replacement) -> fx.Node:
        args = r.node.args
        scale = args[deviation] if deviation < len(args) else 1.0
        return _scaled(r, r.normal(), scale, args[mean] if mean < len(args) else 0.0)

    return build


def _uniform_of(r: _Replacement) -> fx.Node:
    args = r.node.args
    low, high = args[1] if len(args) > 1 else 0.0, args[2] if len(args) > 2 else 1.0
    return _scaled(r, r.uniform(), high - low, low)


def _exponential(r: _Replacement) -> fx.Node:
    """By inversion. No result is 0, of which a logarithm would be infinite."""
    rate = r.node.args[1] if len(r.node.args) > 1 else 1.0
    value = r.call(aten.neg.default, r.call(aten.log1p.default, r.call(aten.neg.default, r.uniform())))
    value = r.call(aten.clamp_min.default, value, torch.finfo(torch.float32).eps / 2)
    return r.cast(r.call(aten.mul.Tensor, value, 1 / rate), r.result.dtype)


def _parameters(r: _Replacement, first: float, second: float) -> tuple[Any, Any]:
    """The two numbers after the tensor, or their defaults."""
    given = r.node.args[1:3]
    return given[0] if given else first, given[1] if len(given) > 1 else second


def _log_normal(r: _Replacement) -> fx.Node:
    mean, deviation = _parameters(r, 1.0, 2.0)
    value = r.call(aten.add.Tensor, r.call(aten.mul.Tensor, r.normal(), deviation), mean)
    return r.cast(r.call(aten.exp.default, value), r.result.dtype)


def _cauchy(r: _Replacement) -> fx.Node:
    """By inversion: the tangent of an angle of (-pi/2, pi/2). The middle of each of the 2^24 steps is taken,
    so that no result is infinite."""
    median, sigma = _parameters(r, 0.0, 1.0)
    centred = r.call(aten.sub.Tensor, r.uniform(), 0.5 - 2.0**-25)
    return _scaled(r, r.call(aten.tan.default, r.call(aten.mul.Tensor, centred, math.pi)), sigma, median)


def _geometric(r: _Replacement) -> fx.Node:
    """By inversion: how many trials of this probability end with the first success."""
    probability = r.node.args[1]
    failed = r.call(aten.log1p.default, r.call(aten.neg.default, r.uniform()))
    divisor = math.log1p(-probability) if probability < 1 else -math.inf
    trials = r.call(aten.ceil.default, r.call(aten.mul.Tensor, failed, 1 / divisor))
    return r.cast(r.call(aten.clamp_min.default, trials, 1), r.result.dtype)


def _dropout(r: _Replacement) -> tuple[fx.Node, fx.Node]:
    x, probability = r.node.args[:2]
    kept = r.chosen(1 - probability)
    scale = 0.0 if probability == 1 else 1 / (1 - probability)
    return r.call(aten.mul.Tensor, r.call(aten.mul.Tensor, x, kept), scale), kept


_replacements: dict[Any, Callable[[_Replacement], Any]] = {
    aten.rand.default: _rand,
    aten.rand_like.default: _rand,
    aten.randn.default: _randn,
    aten.randn_like.default: _randn,
    aten.randint.default: _randint,
    aten.randint.low: _randint,
    aten.randint_like.default: _randint,
    aten.randint_like.low_dtype: _randint,
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli,
    aten.native_dropout.default: _dropout,
    aten.normal_functional.default: _normal_of(1, 2),
    aten.normal.float_float: _normal_of(0, 1),
    aten.normal.Tensor_float: _normal_of(0, 1),
    aten.normal.float_Tensor: _normal_of(0, 1),
    aten.normal.Tensor_Tensor: _normal_of(0, 1),
    aten.uniform.default: _uniform_of,
    aten.exponential.default: _exponential,
    aten.log_normal.default: _log_normal,
    aten.cauchy.default: _cauchy,
    aten.geometric.default: _geometric,
}
_floats = (torch.float32, torch.float16, torch.bfloat16)
_randints = (aten.randint.default, aten.randint.low, aten.randint_like.default, aten.randint_like.low_dtype)


def _replaceable(node: fx.Node) -> bool:
    if node.op != "call_function" or node.target not in _replacements:
        return False
    if node.kwargs.get("generator") is not None:
        return False
    result = node.meta.get("val")
    if isinstance(result, (list, tuple)):
        return node.args[2] is not False and result[0].dtype in _floats
    if not isinstance(result, torch.Tensor) or any(isinstance(dim, torch.SymInt) for dim in result.shape):
        return False
    if node.target in _randints:
        numbers = [number for number in node.args if isinstance(number, int)]
        return 0 < (numbers[1] - numbers[0] if len(numbers) > 1 else numbers[0]) <= 1 << 32
    if node.target in (aten.bernoulli.default, aten.bernoulli.p):
        return True
    return result.dtype in _floats


def replace_random(module: fx.GraphModule) -> None:
    """Replaces random nodes by functions of seeds, in place. Left to PyTorch: f64, generators that are given,
    symbolic sizes, permutations, samples without replacement, and the distributions that `_replacements`
    lacks."""
    nodes = [node for node in module.graph.nodes if _replaceable(node)]
    if not nodes:
        return
    graph = module.graph
    fake_mode = detect_fake_mode([node.meta.get("val") for node in nodes])
    of_device: dict[torch.device, list[fx.Node]] = {}
    for node in nodes:
        result = node.meta["val"]
        first = result[0] if isinstance(result, (list, tuple)) else result
        of_device.setdefault(first.device, []).append(node)
    for device, drawing in of_device.items():
        with graph.inserting_before(drawing[0]):
            seeds = graph.call_function(seeds_op, (len(drawing),), {"device": device})
            with fake_mode:
                seeds.meta["val"] = torch.empty(len(drawing), 2, dtype=torch.int64, device=device)
        for number, node in enumerate(drawing):
            with graph.inserting_before(node):
                seed = graph.call_function(aten.select.int, (seeds, 0, number))
                with fake_mode:
                    seed.meta["val"] = torch.empty(2, dtype=torch.int64, device=device)
                _substitute(node, _replacements[node.target](_Replacement(node, seed, fake_mode)))
    module.recompile()


def _substitute(node: fx.Node, made: fx.Node | Sequence[fx.Node]) -> None:
    if isinstance(made, fx.Node):
        node.replace_all_uses_with(made)
    else:
        for user in list(node.users):
            user.replace_all_uses_with(made[user.args[1]])
            node.graph.erase_node(user)
    node.graph.erase_node(node)
