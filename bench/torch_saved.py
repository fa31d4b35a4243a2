#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The bytes that the forward pass keeps for the backward pass: Ferrite's partition of the joint graph beside PyTorch's.

Usage: bench/torch_saved.py [ROW...]
Run it with a Python that has torch, torchvision and transformers, and the package `ferrite` on its path. Both partitioners
get the joint graph that AOTAutograd makes with Ferrite's decompositions; parameters and buffers count nothing, for they
are in memory in any case. Prints the table of docs/performance.md. Exit status 1 where Ferrite does not divide the graph.
"""

import argparse
import sys
from collections.abc import Callable

import ferrite.torch
import torch
import torchvision
import transformers
from ferrite.torch._backend import decompositions
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.partitioners import min_cut_rematerialization_partition

Made = tuple[nn.Module, tuple[torch.Tensor, ...]]


def gpt() -> Made:
    config = transformers.GPT2Config(
        n_embd=256, n_head=8, n_layer=1, attn_pdrop=0.0, resid_pdrop=0.0, attn_implementation="sdpa"
    )
    block = transformers.models.gpt2.modeling_gpt2.GPT2Block(config, layer_idx=0)
    return block, (torch.randn(4, 128, 256),)


def bert() -> Made:
    config = transformers.BertConfig(
        hidden_size=256, num_attention_heads=8, intermediate_size=1024, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, attn_implementation="sdpa",
    )  # fmt: skip
    return transformers.models.bert.modeling_bert.BertLayer(config), (torch.randn(4, 128, 256),)


def vision(name: str) -> Callable[[], Made]:
    return lambda: (getattr(torchvision.models, name)(weights=None, num_classes=10), (torch.randn(2, 3, 64, 64),))


ROWS: dict[str, Callable[[], Made]] = {
    "block of GPT-2, 4 x 128 tokens, width 256": gpt,
    "layer of BERT, 4 x 128 tokens, width 256": bert,
    "ResNet-18, 2 images of 64 x 64": vision("resnet18"),
    "ConvNeXt-T, 2 images of 64 x 64": vision("convnext_tiny"),
}


def by_ferrite(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> int | None:
    explanation = ferrite.torch.explain(model, *inputs)
    joint = [graph for graph in explanation.graphs if graph["kind"] == "joint"]
    if not joint or any(graph["saved_bytes"] is None for graph in joint):
        print(explanation, file=sys.stderr)
        return None
    return sum(graph["saved_bytes"] for graph in joint)


def by_pytorch(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> int:
    kept = 0

    def partition(module, arguments, *, num_fwd_outputs, static_lifetime_input_indices=None):
        nonlocal kept
        forward, backward = min_cut_rematerialization_partition(
            module, arguments, num_fwd_outputs=num_fwd_outputs, static_lifetime_input_indices=static_lifetime_input_indices
        )
        places = forward.graph.find_nodes(op="placeholder")
        held = {places[k] for k in static_lifetime_input_indices or ()}
        (output,) = forward.graph.find_nodes(op="output")
        kept += sum(node.meta["val"].nbytes for node in output.args[0][num_fwd_outputs:] if node not in held)
        return forward, backward

    torch._dynamo.reset()
    backend = aot_autograd(
        fw_compiler=lambda graph, _: graph, bw_compiler=lambda graph, _: graph,
        decompositions=decompositions(), partition_fn=partition,
    )  # fmt: skip
    torch.compile(model, backend=backend)(*inputs)
    return kept


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="ROW", help="a part of a row's name; without any, all rows")
    chosen = parser.parse_args().rows
    failed = False
    print("| block or model, f32 | Ferrite, MB | PyTorch's partitioner, MB |\n| --- | ---: | ---: |")
    for row, make in ROWS.items():
        if chosen and not any(name in row for name in chosen):
            continue
        torch.manual_seed(1)
        model, inputs = make()
        model.train()
        ours = by_ferrite(model, inputs)
        failed |= ours is None
        print(f"| {row} | {'' if ours is None else f'{ours / 1e6:.1f}'} | {by_pytorch(model, inputs) / 1e6:.1f} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
