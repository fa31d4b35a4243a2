#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes the models of rows.py that PyTorch defines as ONNX, into build/models/exported/.

Usage: export.py [--output DIRECTORY] [NAME...]   (default: every model that is not there yet)

Weights are random, from one seed. Shapes are those of the row's inputs and fixed, operator set 17. Run with an
interpreter that has the packages of bench/requirements.txt; `bench/run` does.
"""

import argparse
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch

import rows as table

SEED = 1
OPSET = 17


class Outputs(torch.nn.Module):
    """A model of the transformers library as a function of tensors, in the order of the row's inputs."""

    def __init__(self, model: torch.nn.Module, names: tuple[str, ...], output: str):
        super().__init__()
        self.model, self.names, self.output = model, names, output

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return getattr(self.model(**dict(zip(self.names, inputs, strict=True))), self.output)


def vision(name: str):
    def make(attention: str) -> torch.nn.Module:
        import torchvision

        model = getattr(torchvision.models, name)(weights=None)
        norms = [module for module in model.modules() if isinstance(module, torch.nn.BatchNorm2d)]
        if norms:
            # With the statistics of real activations, as a trained network has, values neither vanish nor explode.
            for norm in norms:
                norm.momentum = None
            with torch.no_grad():
                model.train()(torch.rand(8, 3, 224, 224) * 2 - 1)
        if name == "vit_b_16":  # its head starts as zeros, which would make every output equal
            torch.nn.init.normal_(model.heads.head.weight, std=0.02)
        return model

    return make


def transformer(kind: str, names: tuple[str, ...], output: str, **options):
    def make(attention: str) -> torch.nn.Module:
        import transformers

        config_class, model_class = {
            "bert": (transformers.BertConfig, transformers.BertModel),
            "gpt2": (transformers.GPT2Config, transformers.GPT2LMHeadModel),
        }[kind]
        config = config_class(attn_implementation=attention, **options)
        return Outputs(model_class(config), names, output)

    return make


def minilm(attention: str) -> torch.nn.Module:
    import transformers

    folder = table.MODELS / "minilm"
    model = transformers.BertModel.from_pretrained(folder, attn_implementation=attention, add_pooling_layer=False)
    return Outputs(model, ENCODER_INPUTS, "last_hidden_state")


class Bf16(torch.nn.Module):
    """A model whose weights and values are bf16, from and to f32."""

    def __init__(self, model: torch.nn.Module):
        super().__init__()
        self.model = model.to(torch.bfloat16)

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.model(*(each.bfloat16() if each.is_floating_point() else each for each in inputs)).float()


ENCODER_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
# The names are those of the files under exported/; MiniLM is the same model as minilm.py writes.
MODULES = {
    "resnet50": vision("resnet50"),
    "mobilenet-v3": vision("mobilenet_v3_large"),
    "convnext-tiny": vision("convnext_tiny"),
    "vit-b16": vision("vit_b_16"),
    "bert-base": transformer("bert", ENCODER_INPUTS, "last_hidden_state"),
    "gpt2": transformer("gpt2", ("input_ids", "attention_mask"), "logits", use_cache=False),
    "minilm": minilm,
}


def module(name: str, attention: str) -> torch.nn.Module:
    """The model in evaluation mode; every call gives the same weights. `attention` is how transformers computes it."""
    torch.manual_seed(SEED)
    known = name.removesuffix("-bf16")
    made = MODULES[known](attention).eval()
    return Bf16(made) if known != name else made


def tensors(inputs: table.Inputs) -> tuple[torch.Tensor, ...]:
    return tuple(torch.from_numpy(np.ascontiguousarray(array)) for array in inputs.values())


def export(row: table.Row, path: Path) -> None:
    # The fast path of PyTorch's attention is one operation that has no form in ONNX.
    torch.backends.mha.set_fastpath_enabled(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module(row.module, "eager"), tensors(row.inputs()), str(partial), dynamo=False,
                          opset_version=OPSET, input_names=list(row.inputs()), output_names=["output"])  # fmt: skip
    os.replace(partial, path)
    print(f"{path}: {path.stat().st_size} bytes", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=table.MODELS, help="the folder that holds exported/")
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows of rows.py")
    arguments = parser.parse_args()
    rows = [row for row in table.select(arguments.names) if row.exported]
    for row in rows:
        path = row.path(arguments.output)
        if arguments.names or not path.is_file():
            export(row, path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
