# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The models of bench/torch_models.py: modules of PyTorch with inputs, for inference and for training.

Weights and inputs are random, from one seed. Nothing random is left in a training step (no dropout, no stochastic
depth), so that the results of engines can be compared.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

import export
import rows as onnx_rows

sys.path.append(str(onnx_rows.ROOT / "examples/train_gpt"))

from gpt import Gpt, token_loss  # noqa: E402

SEED = 1
INFERENCE, BACKWARD, STEP = "inference", "backward", "step"

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Row:
    """make: the module and its inputs. kind: INFERENCE, a call without gradients; BACKWARD, forward and backward pass
    of a module that returns the loss; STEP, these and AdamW."""

    name: str
    kind: str
    make: Callable[[], tuple[nn.Module, Tensors]]

    def made(self) -> tuple[nn.Module, Tensors]:
        torch.manual_seed(SEED)
        module, inputs = self.make()
        return module.train(self.kind != INFERENCE), inputs


class WithLoss(nn.Module):
    """A model and its loss, as a function of inputs and target."""

    def __init__(self, model: nn.Module, loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]):
        super().__init__()
        self.model, self.loss = model, loss

    def forward(self, inputs: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return self.loss(self.model(inputs), target)


def convolutions(inputs: int, outputs: int) -> nn.Sequential:
    parts = []
    for channels in (inputs, outputs):
        parts += [nn.Conv2d(channels, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*parts)


class UNet(nn.Module):
    """Three levels down and up again, with the results of the way down beside those of the way up."""

    def __init__(self, width: int, classes: int):
        super().__init__()
        self.down = nn.ModuleList([convolutions(3, width), convolutions(width, 2 * width), convolutions(2 * width, 4 * width)])
        self.middle = convolutions(4 * width, 8 * width)
        self.widen = nn.ModuleList([nn.ConvTranspose2d(2 * k * width, k * width, 2, stride=2) for k in (4, 2, 1)])
        self.up = nn.ModuleList([convolutions(2 * k * width, k * width) for k in (4, 2, 1)])
        self.head = nn.Conv2d(width, classes, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for part in self.down:
            x = part(x)
            kept.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for widen, part in zip(self.widen, self.up, strict=True):
            x = part(torch.cat([kept.pop(), widen(x)], dim=1))
        return self.head(x)


def exported(row: str) -> Callable[[], tuple[nn.Module, Tensors]]:
    """A model of bench/run, with its inputs."""

    def make() -> tuple[nn.Module, Tensors]:
        (found,) = onnx_rows.select([row])
        return export.module(found.module, "sdpa"), export.tensors(found.inputs())

    return make


def llama() -> tuple[nn.Module, Tensors]:
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=768, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=12,
        num_key_value_heads=4, attn_implementation="sdpa", use_cache=False,
    )  # fmt: skip
    model = export.Outputs(transformers.LlamaForCausalLM(config), ("input_ids",), "logits")
    return model, (torch.randint(0, 32000, (1, 128)),)


def classifier(name: str, batch: int, **options) -> Callable[[], tuple[nn.Module, Tensors]]:
    def make() -> tuple[nn.Module, Tensors]:
        import torchvision

        model = getattr(torchvision.models, name)(weights=None, **options)
        return WithLoss(model, F.cross_entropy), (torch.randn(batch, 3, 224, 224), torch.randint(0, 1000, (batch,)))

    return make


def bert() -> tuple[nn.Module, Tensors]:
    import transformers

    config = transformers.BertConfig(
        num_hidden_layers=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="sdpa"
    )
    model = transformers.BertForSequenceClassification(config)
    names = ("input_ids", "labels")
    return export.Outputs(model, names, "loss"), (torch.randint(0, 30522, (8, 128)), torch.randint(0, 2, (8,)))


def nanogpt() -> tuple[nn.Module, Tensors]:
    tokens = torch.randint(0, 5000, (8, 257))
    model = Gpt(vocabulary=5000, width=384, heads=6, layers=6, length=256)
    return WithLoss(model, token_loss), (tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous())


def unet() -> tuple[nn.Module, Tensors]:
    return WithLoss(UNet(32, 4), F.cross_entropy), (torch.randn(4, 3, 128, 128), torch.randint(0, 4, (4, 128, 128)))


def mlp() -> tuple[nn.Module, Tensors]:
    layers = [layer for _ in range(6) for layer in (nn.Linear(2048, 2048), nn.GELU())]
    return WithLoss(nn.Sequential(*layers), F.mse_loss), (torch.randn(64, 2048), torch.randn(64, 2048))


TRAINED = {
    "resnet18": classifier("resnet18", 16),
    "convnext-tiny": classifier("convnext_tiny", 4, stochastic_depth_prob=0.0),
    "bert-4-layers": bert,
    "nanogpt": nanogpt,
    "unet": unet,
    "mlp": mlp,
}
ROWS = [
    Row("resnet50", INFERENCE, exported("resnet50")),
    Row("mobilenet-v3", INFERENCE, exported("mobilenet-v3")),
    Row("convnext-tiny", INFERENCE, exported("convnext-tiny")),
    Row("vit-b16", INFERENCE, exported("vit-b16")),
    Row("bert-base-1x128", INFERENCE, exported("bert-base-1x128")),
    Row("gpt2-1x128", INFERENCE, exported("gpt2-1x128")),
    Row("llama-6-layers-1x128", INFERENCE, llama),
    *(Row(f"{name}-{kind}", kind, make) for name, make in TRAINED.items() for kind in (BACKWARD, STEP)),
]
