#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Single PyTorch ops, forward and backward, beside eager mode and torch.compile: time of each and ratio.

Usage: torch_ops.py [--only TEXT] [--rounds N] [--threads N] [--seconds S] [--engines LIST] [--output FILE]

Run with an interpreter that has torch, and with build/release/python in PYTHONPATH. The sizes are those of ResNet-18,
ConvNeXt, BERT, nanoGPT and U-Net at training. Each case is one function; its backward pass gives the gradients of all
floats among its operands. Results and gradients of each engine are compared with eager mode in f64 first; then the
engines run in turns, and the least time of each counts. Exit status 1 where a result differs.
"""

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

import torch
import torch.nn.functional as F

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench")]

import figures  # noqa: E402

ENGINES = ("eager", "inductor", "ferrite")


@dataclass
class Case:
    name: str
    function: Callable
    shapes: list  # of the operands that get a gradient
    others: tuple = ()  # further operands
    scale: float = 1.0  # of the operands


def convolution(name, x, w, **options):
    return Case(name, lambda x, w: F.conv2d(x, w, **options), [x, w], scale=0.1)


def attention(name, batch, heads, tokens, width, causal=False, shared=None):
    kv = (batch, shared or heads, tokens, width)

    def run(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=shared is not None)

    return Case(name, run, [(batch, heads, tokens, width), kv, kv])


def masked_attention(name, batch, heads, tokens, width):
    mask = torch.zeros(batch, 1, 1, tokens)
    mask[:, :, :, tokens - tokens // 8 :] = -1e4
    return Case(name, lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m), [(batch, heads, tokens, width)] * 3, (mask,))


def batch_norm(x, w, b):
    return F.relu(F.batch_norm(x, None, None, w, b, training=True))


def cases():
    torch.manual_seed(0)
    yield convolution("conv 7x7 s2 3>64 @224", (8, 3, 224, 224), (64, 3, 7, 7), stride=2, padding=3)
    yield convolution("conv 3x3 64 @56", (8, 64, 56, 56), (64, 64, 3, 3), padding=1)
    yield convolution("conv 3x3 s2 64>128 @56", (8, 64, 56, 56), (128, 64, 3, 3), stride=2, padding=1)
    yield convolution("conv 1x1 s2 64>128 @56", (8, 64, 56, 56), (128, 64, 1, 1), stride=2)
    yield convolution("conv 3x3 256 @14", (8, 256, 14, 14), (256, 256, 3, 3), padding=1)
    yield convolution("conv 3x3 512 @7", (8, 512, 7, 7), (512, 512, 3, 3), padding=1)
    yield convolution("conv 1x1 256>64 @56", (8, 256, 56, 56), (64, 256, 1, 1))
    yield convolution("conv 7x7 depthwise 96 @56", (4, 96, 56, 56), (96, 1, 7, 7), padding=3, groups=96)
    yield convolution("conv 4x4 s4 3>96 @224", (4, 3, 224, 224), (96, 3, 4, 4), stride=4)
    yield convolution("conv 3x3 128>64 @64", (4, 128, 64, 64), (64, 128, 3, 3), padding=1)
    yield Case("conv transposed 2x2 s2 128>64 @32", lambda x, w: F.conv_transpose2d(x, w, stride=2), [(4, 128, 32, 32), (128, 64, 2, 2)], scale=0.1)
    yield Case("batch norm + relu 64 @56", batch_norm, [(8, 64, 56, 56), (64,), (64,)])
    yield Case("batch norm + relu 512 @7", batch_norm, [(8, 512, 7, 7), (512,), (512,)])
    yield Case("max pool 3x3 s2 64 @112", lambda x: F.max_pool2d(x, 3, 2, 1), [(8, 64, 112, 112)])
    yield Case("max pool 2x2 64 @128", lambda x: F.max_pool2d(x, 2), [(4, 64, 128, 128)])
    yield Case("layer norm 512 x 768", lambda x, w, b: F.layer_norm(x, (768,), w, b), [(4, 128, 768), (768,), (768,)])
    yield Case("layer norm 2048 x 384", lambda x, w, b: F.layer_norm(x, (384,), w, b), [(8, 256, 384), (384,), (384,)])
    yield Case("layer norm 12544 x 96", lambda x, w, b: F.layer_norm(x, (96,), w, b), [(4, 56, 56, 96), (96,), (96,)])
    yield Case("group norm 8 of 64 @64", lambda x, w, b: F.group_norm(x, 8, w, b), [(4, 64, 64, 64), (64,), (64,)])
    yield attention("attention 4x12x128x64", 4, 12, 128, 64)
    yield masked_attention("attention masked 4x12x128x64", 4, 12, 128, 64)
    yield attention("attention causal 8x6x256x64", 8, 6, 256, 64, causal=True)
    yield attention("attention causal 8x8x256x32", 8, 8, 256, 32, causal=True)
    yield attention("attention causal 2x6x1024x64", 2, 6, 1024, 64, causal=True)
    yield attention("attention 1x12x1024x64", 1, 12, 1024, 64)
    yield attention("attention grouped 2x12>4x256x64", 2, 12, 256, 64, causal=True, shared=4)
    tokens = torch.randint(0, 30522, (4, 128))
    yield Case("embedding 512 of 30522 x 768", lambda w, t: F.embedding(t, w), [(30522, 768)], (tokens,))
    characters = torch.randint(0, 65, (8, 256))
    yield Case("embedding 2048 of 65 x 384", lambda w, t: F.embedding(t, w), [(65, 384)], (characters,))
    for rows, classes in ((2048, 65), (1024, 5000), (512, 30522), (128, 1000)):
        target = torch.randint(0, classes, (rows,))
        yield Case(f"cross entropy {rows} x {classes}", F.cross_entropy, [(rows, classes)], (target,))
    yield Case("linear + gelu 512 x 768 > 3072", lambda x, w, b: F.gelu(F.linear(x, w, b)), [(512, 768), (3072, 768), (3072,)], scale=0.2)


class Engine:
    """One case in one engine: run() gives the results and the gradients."""

    def __init__(self, name, case, operands, gradient):
        torch._dynamo.reset()
        options = {"options": {"fallback": "error"}} if name == "ferrite" else {}
        self.function = case.function if name == "eager" else torch.compile(case.function, backend=name, dynamic=False, **options)
        self.operands = [x.clone().requires_grad_() for x in operands]
        self.others, self.gradient = case.others, gradient

    def run(self):
        out = self.function(*self.operands, *self.others)
        return out, torch.autograd.grad(out, self.operands, self.gradient)


def error(actual, exact):
    """The largest difference, in units of the largest element."""
    return ((actual.double() - exact).abs().max() / exact.abs().max().clamp(min=1e-30)).item()


def measured(case, options):
    operands = [torch.randn(s) * case.scale for s in case.shapes]
    with torch.no_grad():
        out = case.function(*operands, *case.others)
    gradient = torch.randn_like(out)
    wide = [x.double().requires_grad_() for x in operands]
    others = [x.double() if x.is_floating_point() else x for x in case.others]
    exact_out = case.function(*wide, *others)
    exact = [exact_out.detach(), *torch.autograd.grad(exact_out, wide, gradient.double())]
    engines = {}
    for name in options.engines:
        engines[name] = Engine(name, case, operands, gradient)
        out, gradients = engines[name].run()
        worst = max(error(a, e) for a, e in zip([out.detach(), *gradients], exact))
        if not worst < 1e-4:
            print(f"{case.name}: {name} differs by {worst:.1e} of the largest element")
            return None
    times = {name: float("inf") for name in engines}
    for _ in range(options.rounds):
        for name, engine in engines.items():
            end = time.perf_counter() + options.seconds
            while True:
                start = time.perf_counter()
                engine.run()
                stop = time.perf_counter()
                times[name] = min(times[name], stop - start)
                if stop > end:
                    break
    return {name: 1e3 * least for name, least in times.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="cases whose name has this text")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.05, help="of each engine in each round")
    parser.add_argument("--engines", type=lambda text: text.split(","), default=list(ENGINES))
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    if "ferrite" in options.engines:
        import ferrite.torch  # noqa: F401
    torch.set_num_threads(options.threads)
    print(f"{'ms':<36}" + "".join(f"{name:>10}" for name in options.engines) + "   ferrite / best other")
    results, failed = {}, False
    for case in cases():
        if options.only not in case.name:
            continue
        times = measured(case, options)
        if times is None:
            failed = True
            continue
        others = [t for name, t in times.items() if name != "ferrite"]
        ratio = times["ferrite"] / min(others) if others and "ferrite" in times else None
        results[case.name] = {**times, "ratio": ratio}
        print(f"{case.name:<36}" + "".join(f"{t:>10.2f}" for t in times.values()) + (f"{ratio:>10.2f}" if ratio else ""), flush=True)
    if options.output:
        report = {**figures.origin("bench/torch_ops.py"), "threads": options.threads, "torch": torch.__version__, "ms": results}
        options.output.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
