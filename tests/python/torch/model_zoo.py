# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Small models of several libraries with random weights and batches, and optimizers: what models.py runs."""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Sample:
    """A model with a batch. loss(output, *targets) is a number; None: the model is for inference only."""

    model: nn.Module
    args: tuple = ()
    kwargs: dict = dataclasses.field(default_factory=dict)
    loss: Callable | None = None
    targets: tuple = ()


def ids(limit, *shape):
    return torch.randint(0, limit, shape)


def classifier(model, *args, classes=10, of=lambda output: output):
    """A sample whose loss is the cross entropy of as many random labels as there are rows in the batch."""
    return Sample(model, args, loss=lambda output, labels: F.cross_entropy(of(output), labels),
                  targets=(ids(classes, len(args[0])),))


# --- torchvision


def vision(name, size=64):
    def make():
        import torchvision

        model = getattr(torchvision.models, name)(weights=None, num_classes=10)
        return classifier(model, torch.randn(2, 3, size, size))

    return make


def small_vit():
    from torchvision.models import VisionTransformer

    return classifier(VisionTransformer(32, 8, 2, 2, 32, 64, num_classes=10), torch.randn(2, 3, 32, 32))


def segmentation(name):
    def make():
        from torchvision.models import segmentation

        model = getattr(segmentation, name)(weights=None, weights_backbone=None, num_classes=5)
        return Sample(model, (torch.randn(2, 3, 64, 64),), targets=(ids(5, 2, 64, 64),),
                      loss=lambda output, labels: F.cross_entropy(output["out"], labels))

    return make


def detection(name, **sizes):
    def make():
        from torchvision.models import detection

        model = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=3, **sizes)
        return Sample(model, ([torch.rand(3, 96, 96)],))

    return make


def flow():
    from torchvision.models.optical_flow import raft_small

    first, second = torch.randn(2, 1, 3, 128, 128)
    return Sample(raft_small(weights=None), (first, second), {"num_flow_updates": 2})


def video():
    from torchvision.models.video import r3d_18

    return classifier(r3d_18(weights=None, num_classes=5), torch.randn(1, 3, 4, 32, 32), classes=5)


# --- transformers

VOCABULARY, LENGTH = 99, 16
BASE = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
        "num_attention_heads": 4}
TEXT = BASE | {"max_position_embeddings": 64}
GROUPED = TEXT | {"num_key_value_heads": 2}  # two query heads for each head of keys and values


def tokens(length=LENGTH):
    return ids(VOCABULARY, 2, length)


def transformer(name, config, batch, **settings):
    """Of the classes of these names. `batch` makes the keyword arguments of a call."""

    def make():
        import transformers

        model = getattr(transformers, name)(getattr(transformers, config)(**settings))
        return Sample(model, (), batch(), loss=lambda output: output.loss)

    return make


def generation():
    text = tokens()
    return {"input_ids": text, "labels": text.clone(), "use_cache": False}


def sentences():
    mask = torch.ones(2, LENGTH, dtype=torch.long)
    return {"input_ids": tokens(), "attention_mask": mask, "labels": ids(2, 2)}


def filled():
    return {"input_ids": tokens(), "labels": tokens()}


def translation():
    return {"input_ids": tokens(), "decoder_input_ids": tokens(), "labels": tokens(), "use_cache": False}


def speech():
    return {"input_features": torch.randn(2, 8, 32), "decoder_input_ids": tokens(8), "labels": tokens(8),
            "use_cache": False}


def wave():
    return {"input_values": torch.randn(2, 400), "labels": ids(2, 2)}


def picture():
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": ids(2, 2)}


def captions():
    return {"input_ids": tokens(8), "pixel_values": torch.randn(2, 3, 32, 32), "return_loss": True}


def decoding():
    """One token more, with keys and values in a cache of fixed size."""
    import transformers

    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**GROUPED))
    cache = transformers.StaticCache(config=model.config, max_cache_len=32)
    more = {"past_key_values": cache, "use_cache": True, "position_ids": torch.tensor([[4]])}
    return Sample(model, (), {"input_ids": ids(VOCABULARY, 1, 1), **more})


IMAGES = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
          "image_size": 32, "patch_size": 8}
SPECIAL = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
WHISPER = {"vocab_size": VOCABULARY, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
           "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
           "decoder_ffn_dim": 64, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 32,
           "decoder_start_token_id": 1}
WAVE = {"conv_dim": (16, 16), "conv_stride": (5, 2), "conv_kernel": (10, 3), "num_feat_extract_layers": 2,
        "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 4, "mask_time_prob": 0.0,
        "layerdrop": 0.0}
T5 = {"vocab_size": VOCABULARY, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4,
      "decoder_start_token_id": 0}
CLIP = {"text_config": TEXT | SPECIAL | {"max_position_embeddings": 32}, "vision_config": IMAGES,
        "projection_dim": 16}


# --- timm


def timm(name, size=64, **settings):
    def make():
        import timm

        model = timm.create_model(name, pretrained=False, num_classes=10, **settings)
        for parameter in model.parameters():
            if parameter.ndim > 1 and not parameter.any():  # a head of zeros would hide the rest
                nn.init.normal_(parameter, std=0.02)
        return classifier(model, torch.randn(2, 3, size, size))

    return make


# --- our own


class Recurrent(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.words = nn.Embedding(50, 16)
        self.cells = kind(16, 24, num_layers=2, batch_first=True, bidirectional=True)
        self.head = nn.Linear(48, 5)

    def forward(self, text):
        states, _ = self.cells(self.words(text))
        return self.head(states[:, -1])


class UNet(nn.Module):
    """Two halvings of the image, and two ways back: a transposed convolution and interpolations."""

    def __init__(self):
        super().__init__()

        def block(inputs, outputs):
            convolution = nn.Conv2d(inputs, outputs, 3, padding=1)
            return nn.Sequential(convolution, nn.GroupNorm(4, outputs), nn.SiLU())

        self.down = nn.ModuleList([block(3, 8), block(8, 16), block(16, 16)])
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.join = nn.ModuleList([block(16, 8), block(16, 8)])
        self.head = nn.Conv2d(8, 1, 1)

    def forward(self, image):
        full = self.down[0](image)
        half = self.down[1](F.max_pool2d(full, 2))
        quarter = self.down[2](F.avg_pool2d(half, 2))
        x = self.join[0](torch.cat([self.up(quarter), half[:, :8]], 1))
        smooth = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        x = smooth + F.interpolate(x, scale_factor=2, mode="nearest")
        return self.head(self.join[1](torch.cat([x, full], 1)))


class Recommender(nn.Module):
    """DLRM: sums of embeddings, and the products of each two of them."""

    def __init__(self, tables=4, width=8):
        super().__init__()
        self.tables = nn.ModuleList([nn.EmbeddingBag(100, width, mode="sum") for _ in range(tables)])
        self.dense = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, width), nn.ReLU())
        pairs = tables * (tables + 1) // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())

    def forward(self, numbers, indices, offsets):
        dense = self.dense(numbers)
        sums = [table(index, offset) for table, index, offset in zip(self.tables, indices, offsets)]
        features = torch.stack([dense, *sums], 1)
        products = features @ features.transpose(1, 2)
        row, column = torch.tril_indices(features.shape[1], features.shape[1], -1)
        return self.top(torch.cat([dense, products[:, row, column]], 1))


class Adversaries(nn.Module):
    """DCGAN: a generator, and the discriminator that judges its images."""

    def __init__(self):
        super().__init__()

        def up(inputs, outputs, *stride, last=False):
            return [nn.ConvTranspose2d(inputs, outputs, 4, *stride, bias=False),
                    *([nn.Tanh()] if last else [nn.BatchNorm2d(outputs), nn.ReLU(True)])]

        self.generator = nn.Sequential(*up(16, 32, 1, 0), *up(32, 16, 2, 1), *up(16, 3, 2, 1, last=True))
        self.discriminator = nn.Sequential(
            nn.Conv2d(3, 16, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, True),
            nn.Conv2d(16, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32), nn.LeakyReLU(0.2, True),
            nn.Conv2d(32, 1, 4), nn.Sigmoid(),
        )  # fmt: skip

    def forward(self, noise):
        return self.discriminator(self.generator(noise)).view(-1)


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(x).split(width, 2)
        heads = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(*heads, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(batch, length, width))


class NanoGPT(nn.Module):
    """The embedding and the head share their weight."""

    def __init__(self, vocabulary=65, width=32, length=32, layers=2, dropout=0.1):
        super().__init__()
        self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)

        def branch(*layers):
            return nn.Sequential(nn.LayerNorm(width), *layers, nn.Dropout(dropout))

        def mlp():
            return nn.Linear(width, 4 * width), nn.GELU("tanh"), nn.Linear(4 * width, width)

        self.attention = nn.ModuleList([branch(Attention(width, 4)) for _ in range(layers)])
        self.mlp = nn.ModuleList([branch(*mlp()) for _ in range(layers)])
        self.dropout = nn.Dropout(dropout)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.words.weight = self.head.weight

    def forward(self, text):
        x = self.dropout(self.words(text) + self.places(torch.arange(text.shape[1])))
        for attention, mlp in zip(self.attention, self.mlp):
            x = x + attention(x)
            x = x + mlp(x)
        return self.head(self.norm(x))


class Misc(nn.Module):
    """An einsum, a norm, cumulative sums, statistics, and functions of single elements."""

    def __init__(self):
        super().__init__()
        self.linear, self.slope = nn.Linear(8, 8), nn.PReLU()

    def forward(self, x):
        y = self.slope(self.linear(x))
        outer = torch.einsum("bi,bj->bij", y, y)
        outer = outer / outer.norm(dim=-1, keepdim=True).clamp_min(1e-6)
        sums = torch.cumsum(torch.sigmoid(outer), -1).sum((1, 2))
        return sums + F.softplus(x).std(-1) + F.elu(x).var(-1) + F.mish(x).amax(-1) + F.hardtanh(x).mean(-1)


def recommender():
    batch = (torch.randn(4, 13), [ids(100, 12) for _ in range(4)], [torch.arange(0, 12, 3) for _ in range(4)])
    return Sample(Recommender(), batch, loss=F.binary_cross_entropy, targets=(torch.rand(4, 1),))


def unet():
    return Sample(UNet(), (torch.randn(2, 3, 32, 32),), loss=F.binary_cross_entropy_with_logits,
                  targets=(torch.rand(2, 1, 32, 32),))


def adversaries():
    return Sample(Adversaries(), (torch.randn(2, 16, 1, 1),), loss=F.binary_cross_entropy,
                  targets=(torch.ones(2),))


def nano_gpt():
    return Sample(NanoGPT(), (ids(65, 2, 32),), targets=(ids(65, 2, 32),),
                  loss=lambda output, labels: F.cross_entropy(output.flatten(0, 1), labels.flatten()))


def misc():
    return Sample(Misc(), (torch.randn(4, 8),), loss=F.smooth_l1_loss, targets=(torch.randn(4),))


@dataclasses.dataclass
class Steps:
    """An optimizer of torch.optim, whose steps are compiled.

    settings: makes its arguments; eager: those that eager, which supports less, needs instead; shapes: of its
    parameters; rounds_to: the narrowest dtype in which it computes.
    """

    name: str
    settings: Callable[[], dict] = dict
    eager: dict = dataclasses.field(default_factory=dict)
    shapes: tuple = ((4, 5), (7,), (3, 3))
    rounds_to: torch.dtype = torch.float32

    def make(self, dtype, compiled):
        """The optimizer, and its parameters with gradients."""
        torch.manual_seed(0)
        parameters = [nn.Parameter(torch.randn(shape).to(dtype)) for shape in self.shapes]
        for one in parameters:
            one.grad = torch.randn(one.shape).to(dtype)
        settings = self.settings() | ({} if compiled else self.eager)
        return getattr(torch.optim, self.name)(parameters, **settings), parameters


MODELS = {
    **{f"tv.{name}": vision(name) for name in (
        "resnet18", "mobilenet_v3_small", "efficientnet_b0", "convnext_tiny", "swin_t", "densenet121",
        "shufflenet_v2_x1_0", "squeezenet1_1", "mnasnet0_5", "regnet_y_400mf", "vgg11_bn")},
    "tv.maxvit_t": vision("maxvit_t", 224),
    "tv.vit_b_16": small_vit,
    "tv.deeplabv3_mobilenet_v3_large": segmentation("deeplabv3_mobilenet_v3_large"),
    "tv.fcn_resnet50": segmentation("fcn_resnet50"),
    "tv.ssdlite320": detection("ssdlite320_mobilenet_v3_large"),
    "tv.fcos": detection("fcos_resnet50_fpn", min_size=96, max_size=96, score_thresh=0.01),
    "tv.fasterrcnn_mobilenet": detection("fasterrcnn_mobilenet_v3_large_320_fpn"),
    "tv.raft_small": flow,
    "tv.r3d_18": video,
    "hf.bert": transformer("BertForSequenceClassification", "BertConfig", sentences, **TEXT),
    "hf.bert_mlm": transformer("BertForMaskedLM", "BertConfig", filled, **TEXT),
    "hf.distilbert": transformer("DistilBertForSequenceClassification", "DistilBertConfig", sentences, dim=32,
                                 hidden_dim=64, vocab_size=VOCABULARY, n_layers=2, n_heads=4,
                                 max_position_embeddings=64),
    "hf.roberta": transformer("RobertaForSequenceClassification", "RobertaConfig", sentences, **TEXT),
    "hf.deberta_v2": transformer("DebertaV2ForSequenceClassification", "DebertaV2Config", sentences, **TEXT,
                                 relative_attention=True, pos_att_type=["p2c", "c2p"]),
    "hf.gpt2": transformer("GPT2LMHeadModel", "GPT2Config", generation, vocab_size=VOCABULARY, n_embd=32,
                           n_layer=2, n_head=4, n_positions=64),
    "hf.llama": transformer("LlamaForCausalLM", "LlamaConfig", generation, **GROUPED),
    "hf.llama_decode": decoding,
    "hf.qwen2": transformer("Qwen2ForCausalLM", "Qwen2Config", generation, **GROUPED),
    "hf.qwen3": transformer("Qwen3ForCausalLM", "Qwen3Config", generation, **GROUPED, head_dim=8),
    "hf.mistral": transformer("MistralForCausalLM", "MistralConfig", generation, **GROUPED, sliding_window=8),
    "hf.gemma2": transformer("Gemma2ForCausalLM", "Gemma2Config", generation, **GROUPED, head_dim=8),
    "hf.mixtral": transformer("MixtralForCausalLM", "MixtralConfig", generation, **GROUPED,
                              num_local_experts=4),
    "hf.mamba": transformer("MambaForCausalLM", "MambaConfig", generation, vocab_size=VOCABULARY,
                            hidden_size=32, num_hidden_layers=2, state_size=4),
    "hf.t5": transformer("T5ForConditionalGeneration", "T5Config", translation, **T5),
    "hf.whisper": transformer("WhisperForConditionalGeneration", "WhisperConfig", speech, **WHISPER,
                              **SPECIAL),
    "hf.clip": transformer("CLIPModel", "CLIPConfig", captions, **CLIP),
    "hf.vit": transformer("ViTForImageClassification", "ViTConfig", picture, **IMAGES),
    "hf.wav2vec2": transformer("Wav2Vec2ForSequenceClassification", "Wav2Vec2Config", wave, **BASE, **WAVE),
    **{f"timm.{name}": timm(name) for name in (
        "ghostnet_100", "poolformer_s12", "hrnet_w18_small", "nfnet_l0")},
    **{f"timm.{name}": timm(name, 224) for name in (
        "mixer_s32_224", "resmlp_12_224", "coatnet_0_rw_224", "levit_128")},
    **{f"timm.{name}": timm(name, 224, depth=2) for name in (
        "beit_base_patch16_224", "deit_tiny_patch16_224", "cait_xxs24_224", "xcit_tiny_12_p16_224")},
    "lstm": lambda: classifier(Recurrent(nn.LSTM), ids(50, 2, 6), classes=5),
    "gru": lambda: classifier(Recurrent(nn.GRU), ids(50, 2, 6), classes=5),
    "unet": unet,
    "dlrm": recommender,
    "dcgan": adversaries,
    "nanogpt": nano_gpt,
    "misc": misc,
    "opt.adamw": Steps("AdamW", lambda: {"lr": 1e-3, "foreach": True, "capturable": False}),
    "opt.adamw_capturable": Steps(
        "AdamW", lambda: {"lr": torch.tensor(1e-3), "foreach": True, "capturable": True},
        eager={"foreach": False, "capturable": False}),
    "opt.sgd_momentum": Steps("SGD", lambda: {"lr": 1e-2, "momentum": 0.9, "foreach": True}),
    "opt.rmsprop": Steps("RMSprop", lambda: {"foreach": True}),
    "opt.adagrad": Steps("Adagrad", lambda: {"foreach": True}),
    "opt.muon": Steps("Muon", shapes=((4, 5),), rounds_to=torch.bfloat16),
}  # fmt: skip
