# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rows of bench/gpu that are whole models: those of bench/models/export.py in f16, exported on the device."""

import sys
import warnings
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parent / "models"))

import export  # noqa: E402

OPSET = 17


def tokens(batch, length):
    """Ids within BERT's vocabulary, all of which count, of one kind."""
    shape = (batch, length)
    return [torch.randint(0, 30522, shape, device="cuda"), torch.ones(shape, dtype=torch.int64, device="cuda"),
            torch.zeros(shape, dtype=torch.int64, device="cuda")]  # fmt: skip


def images(batch):
    return [torch.rand(batch, 3, 224, 224, device="cuda", dtype=torch.float16) * 2 - 1]


class Model:
    """`make`: the inputs of a batch, in the order of `inputs`. Compared and timed at the same size."""

    scale = 1
    gradients = ()
    tolerance = 1e-2  # of the largest result

    def __init__(self, module, inputs, make):
        self.module, self.inputs, self.make = module, dict.fromkeys(inputs), make

    @staticmethod
    def run(function, tensors):
        return [function(*tensors)]

    def tensors(self, _scale=1):
        torch.manual_seed(0)
        return self.make()

    def made(self, attention):
        return export.module(self.module, attention).half().cuda()

    @staticmethod
    def function(module, convert=lambda tensor: tensor):
        def run(*tensors):
            with torch.no_grad():
                return module(*map(convert, tensors))

        return run

    def peer(self):
        """The function that is timed, with the library's fused attention."""
        return self.function(self.made("sdpa"))

    def reference(self, _peer):
        """The same weights in f32."""
        return self.function(self.made("eager").float(), lambda each: each.float() if each.is_floating_point() else each)

    def write(self, folder, _scale=1):
        path = folder / "model.onnx"
        if not path.is_file():
            torch.backends.mha.set_fastpath_enabled(False)
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(self.made("eager"), tuple(self.tensors()), str(path), dynamo=False, opset_version=OPSET,
                                  input_names=list(self.inputs), output_names=["output"])  # fmt: skip
        return path


ROWS = {
    "bert-base-f16-32x512": Model("bert-base", export.ENCODER_INPUTS, lambda: tokens(32, 512)),
    "bert-base-f16-1x128": Model("bert-base", export.ENCODER_INPUTS, lambda: tokens(1, 128)),
    "resnet50-f16-b128": Model("resnet50", ("image",), lambda: images(128)),
}
