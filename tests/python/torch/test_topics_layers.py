# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutions, pooling, attention, norms and their buffers."""

import copy

import torch
import torch.nn.functional as F
from common import main
from torch import nn
from topics import TopicTest, case, topic

torch.manual_seed(0)
line, image, volume = torch.randn(2, 4, 11), torch.randn(2, 4, 9, 8), torch.randn(1, 4, 5, 6, 5)
last = image.to(memory_format=torch.channels_last)
extreme = image.masked_fill(image < 0.5, -torch.inf).masked_fill(image > 1.5, torch.nan)


def conv(x, *kernel, out=6, groups=1, bias=True, **options):
    """A convolution of a tensor with weights of their own."""
    function = (F.conv1d, F.conv2d, F.conv3d)[len(kernel) - 1]
    weight, offset = torch.randn(out, x.shape[1] // groups, *kernel), torch.randn(out) if bias else None
    return case(lambda a, w, b: function(a, w, b, groups=groups, **options), x, weight, offset, gradients=True)


def transposed(x, *kernel, out=6, groups=1, **options):
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[len(kernel) - 1]
    weight = torch.randn(x.shape[1], out // groups, *kernel)
    return case(lambda a, w, b: function(a, w, b, groups=groups, **options), x, weight, torch.randn(out), gradients=True)


Convolutions = topic("Convolutions", {
    "line": conv(line, 3),
    "line with padding": conv(line, 3, padding=1, stride=2),
    "line dilated": conv(line, 3, dilation=2, padding=2),
    "line by groups": conv(line, 3, groups=2, bias=False),
    "line of one channel each": conv(line, 3, out=4, groups=4),
    "image": conv(image, 3, 3),
    "image with strides": conv(image, 3, 2, stride=(2, 1), padding=(1, 0)),
    "image dilated": conv(image, 3, 3, dilation=2, padding=2),
    "image by groups": conv(image, 3, 3, groups=2, padding=1),
    "image of one channel each": conv(image, 3, 3, out=8, groups=4, padding=1),
    "image by points": conv(image, 1, 1, bias=False),
    "image in channels last": conv(last, 3, 3, padding=1),
    "image in channels last, of one channel each": conv(last, 3, 3, out=4, groups=4),
    "image with same padding": conv(image, 3, 4, padding="same"),
    "image without a batch": case(lambda a, w: F.conv2d(a, w), image[0], torch.randn(3, 4, 2, 2), gradients=True),
    "volume": conv(volume, 2, 3, 2, padding=1),
    "volume by groups": conv(volume, 2, 2, 2, groups=2, stride=2),
    "line transposed": transposed(line, 3, stride=2),
    "line transposed by groups": transposed(line, 4, stride=3, padding=1, output_padding=2, groups=2),
    "image transposed": transposed(image, 3, 3, stride=2, padding=1, output_padding=1),
    "image transposed and dilated": transposed(image, 3, 2, dilation=2),
    "image transposed by groups": transposed(image, 2, 2, stride=2, groups=2),
    "volume transposed": transposed(volume, 2, 2, 2, stride=2),
    "image of bf16": case(lambda a, w: F.conv2d(a, w, padding=1), image.bfloat16(), torch.randn(5, 4, 3, 3).bfloat16(), reference=True),
    "image of f64": case(lambda a, w: F.conv2d(a, w, padding=1), image.double(), torch.randn(5, 4, 3, 3).double(), gradients=True),
    "a chain": case(lambda a, v, w: F.conv2d(F.relu(F.conv2d(a, v, padding=1)), w, stride=2), image, torch.randn(6, 4, 3, 3),
        torch.randn(3, 6, 3, 3), gradients=True),
})

Pooling = topic("Pooling", {
    "greatest of lines": case(lambda a: F.max_pool1d(a, 3, 2), line, gradients=True),
    "greatest": case(lambda a: F.max_pool2d(a, 2), image, gradients=True),
    "greatest with padding": case(lambda a: F.max_pool2d(a, 3, 2, 1), image, gradients=True),
    "greatest dilated": case(lambda a: F.max_pool2d(a, 2, 1, dilation=2), image, gradients=True),
    "greatest rounded up": case(lambda a: F.max_pool2d(a, 2, 2, ceil_mode=True), image, gradients=True),
    "greatest with places": case(lambda a: F.max_pool2d(a, 2, return_indices=True), image),
    "greatest with places and padding": case(lambda a: F.max_pool2d(a, 3, 2, 1, return_indices=True), image),
    "greatest with places, dilated and rounded up": case(lambda a: F.max_pool2d(a, 3, 2, 1, dilation=2, ceil_mode=True, return_indices=True), image),
    "greatest with places among equal ones": case(lambda a: F.max_pool2d(a, 3, 1, 1, return_indices=True), image.round()),
    "greatest with places among the least and NaN": case(lambda a: F.max_pool2d(a, 3, 2, 1, return_indices=True), extreme),
    "greatest with places of integers": case(lambda a: F.max_pool2d(a, 3, 2, 1, return_indices=True), (image * 3).long()),
    "greatest with places of large windows": case(lambda a: F.max_pool2d(a, (9, 5), 1, (4, 2), return_indices=True), image),
    "greatest with places of volumes": case(lambda a: F.max_pool3d(a, 3, 2, 1, return_indices=True), volume),
    "greatest of overlapping windows": case(lambda a: F.max_pool2d(a, 3, 1), image, gradients=True),
    "greatest of volumes": case(lambda a: F.max_pool3d(a, 2), volume, gradients=True),
    "greatest in channels last": case(lambda a: F.max_pool2d(a, 2), last, gradients=True),
    "average of lines": case(lambda a: F.avg_pool1d(a, 3, 2, 1), line, gradients=True),
    "average": case(lambda a: F.avg_pool2d(a, 3, 2), image, gradients=True),
    "average with padding": case(lambda a: F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), image, gradients=True),
    "average rounded up": case(lambda a: F.avg_pool2d(a, 3, 2, 1, ceil_mode=True), image, gradients=True),
    "average by a divisor": case(lambda a: F.avg_pool2d(a, 2, divisor_override=3), image, gradients=True),
    "average of integers": case(lambda a: (F.avg_pool2d(a, 2), F.avg_pool2d(a, 3, 2, 1), F.avg_pool2d(a, 2, divisor_override=3)), (image * 50).long()),
    "average of volumes": case(lambda a: F.avg_pool3d(a, 2, 1), volume, gradients=True),
    "adaptive average": case(lambda a: (F.adaptive_avg_pool2d(a, (4, 3)), F.adaptive_avg_pool2d(a, 1)), image, gradients=True),
    "adaptive average of lines": case(lambda a: F.adaptive_avg_pool1d(a, 4), line, gradients=True),
    "adaptive greatest": case(lambda a: F.adaptive_max_pool2d(a, (4, 3)), image, gradients=True),
    "norm of windows": case(lambda a: F.lp_pool2d(a.abs() + 1, 2, 2), image, gradients=True),
    "back to places": case(lambda a: F.max_unpool2d(*F.max_pool2d(a, 2, return_indices=True), 2, output_size=(9, 8)), image, fallback="silent"),
    "nearest": case(lambda a: F.interpolate(a, scale_factor=2), image, gradients=True),
    "bilinear": case(lambda a: (F.interpolate(a, (5, 11), mode="bilinear"), F.interpolate(a, (12, 4), mode="bilinear",
        align_corners=True)), image, gradients=True),
    "shuffled pixels": case(lambda a: (F.pixel_shuffle(a, 2), F.pixel_unshuffle(a[..., :8, :], 2)), image, gradients=True),
    "of bf16": case(lambda a: (F.avg_pool2d(a, 2), F.max_pool2d(a, 3)), image.bfloat16(), reference=True),
})

q, k, v = torch.randn(3, 2, 4, 6, 8)
bias, keep = torch.randn(6, 6), torch.rand(2, 1, 6, 6) > 0.3
Attention = topic("Attention", {
    "plain": case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q, k, v, gradients=True),
    "causal": case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), q, k, v, gradients=True),
    "scaled": case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=0.3), q, k, v, gradients=True),
    "with a bias": case(lambda q, k, v, b: F.scaled_dot_product_attention(q, k, v, b), q, k, v, bias, gradients=True),
    "with a mask": case(lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m | torch.eye(6, dtype=torch.bool)), q, k, v, keep, gradients=True),
    "of large scores in bf16": case(F.scaled_dot_product_attention, *((8 * one).bfloat16() for one in (q, k)), v.bfloat16(), gradients=True),
    "of other lengths": case(lambda q, k, v: F.scaled_dot_product_attention(q[:, :, :3], k, v), q, k, v, gradients=True),
    "grouped": case(lambda q, k, v: F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True), q, k, v, gradients=True),
    "of transposed heads": case(lambda q, k, v: F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v))).transpose(1, 2), q,
        k, v, gradients=True),
    "of three dims": case(lambda q, k, v: F.scaled_dot_product_attention(q[0], k[0], v[0]), q, k, v, gradients=True),
    "of bf16": case(lambda q, k, v: F.scaled_dot_product_attention(q, k, v), q.bfloat16(), k.bfloat16(), v.bfloat16(), reference=True),
    "written out": case(lambda q, k, v: ((q @ k.transpose(-1, -2)) / 8 ** 0.5).softmax(-1) @ v, q, k, v, gradients=True),
    "written out with a mask": case(lambda q, k, v: (q @ k.mT).masked_fill(~torch.ones(6, 6, dtype=torch.bool).tril(),
        float("-inf")).softmax(-1) @ v, q, k, v, gradients=True),
    "one step with a cache": case(lambda q, k, v: F.scaled_dot_product_attention(q[:, :, -1:], torch.cat([k, k[:, :, -1:]], 2),
        torch.cat([v, v[:, :, :1]], 2)), q, k, v),
    "rotated": case(lambda q, k, v: F.scaled_dot_product_attention(*(torch.cat([-t[..., 4:], t[..., :4]], -1) * 0.5 + t for t in (q, k)),
        v), q, k, v, gradients=True),
    "einsum": case(lambda q, k, v: torch.einsum("bhij,bhjd->bhid", torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1), v), q, k, v, gradients=True),
})

scale, offset = torch.randn(4), torch.randn(4)
Norms = topic("Norms", {
    "layer": case(lambda a: F.layer_norm(a, (8,)), image, gradients=True),
    "layer of two dims": case(lambda a, w, b: F.layer_norm(a, (9, 8), w, b), image, torch.randn(9, 8), torch.randn(9, 8), gradients=True),
    "group": case(lambda a, w, b: F.group_norm(a, 2, w, b), image, scale, offset, gradients=True),
    "instance": case(lambda a: F.instance_norm(a), image, gradients=True),
    "root mean square": case(lambda a, w: F.rms_norm(a, (8,), w), image, torch.randn(8), gradients=True),
    "batch, in training": case(lambda a, w, b: F.batch_norm(a, None, None, w, b, True), image, scale, offset, gradients=True),
    "batch, of known statistics": case(lambda a, w, b: F.batch_norm(a, torch.full((4,), 0.1), torch.full((4,), 1.5), w, b), image, scale,
        offset, gradients=True),
    "local response": case(lambda a: F.local_response_norm(a, 3), image, gradients=True),
    "normalised": case(lambda a: (F.normalize(a), F.cosine_similarity(a[0], a[1])), image, gradients=True),
    "of weights": case(lambda v, g: torch._weight_norm(v, g, 0), torch.randn(6, 4, 3), torch.randn(6, 1, 1), gradients=True),
    "of weights, last dim": case(lambda v, g: torch._weight_norm(v, g, 2), torch.randn(6, 4, 3), torch.randn(1, 1, 3),
        gradients=True),
    "of weights of one dim": case(lambda v, g: torch._weight_norm(v, g, 0), torch.randn(5), torch.randn(5), gradients=True),
    "layer of bf16": case(lambda a: F.layer_norm(a, (8,)), image.bfloat16(), reference=True),
    "layer in channels last": case(lambda a: F.layer_norm(a.permute(0, 2, 3, 1), (4,)), last, gradients=True),
    "group in channels last": case(lambda a, w, b: F.group_norm(a, 2, w, b), last, scale, offset, gradients=True),
})


class Counter(nn.Module):
    """A buffer of numbers and one of an integer, which each call changes."""

    def __init__(self):
        super().__init__()
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.zeros(4))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        self.calls += 1
        self.mean.mul_(0.9).add_(x.detach().mean(0), alpha=0.1)
        return self.linear(x - self.mean) * self.calls


class Buffers(TopicTest):
    def check_module(self, model, *batches, tolerance=(1e-4, 1e-5), **options):
        """Results, gradients and buffers of several steps in training, and one after it."""
        other = copy.deepcopy(model)
        compiled = self.compiled(other, **options)
        for batch in (*batches, None):
            if batch is None:
                model.eval(), other.eval()
                batch = batches[0]
            results = []
            for one, run in ((model, model), (other, compiled)):
                one.zero_grad()
                results.append(run(batch))
                results[-1].square().mean().backward()
            pairs = [results, *zip(model.buffers(), other.buffers()), *((a.grad, b.grad) for a, b in zip(model.parameters(), other.parameters()))]
            for expected, actual in pairs:
                torch.testing.assert_close(actual, expected, rtol=tolerance[0], atol=tolerance[1])

    def test_batch_norm(self):
        self.check_module(nn.BatchNorm2d(4), image, image * 2 + 1, image - 3)

    def test_batch_norm_of_lines(self):
        self.check_module(nn.BatchNorm1d(4), line, line * 2)

    def test_batch_norm_of_rows(self):
        self.check_module(nn.BatchNorm1d(6), torch.randn(5, 6), torch.randn(5, 6))

    def test_batch_norm_of_volumes(self):
        self.check_module(nn.BatchNorm3d(4), volume, volume * 2)

    def test_batch_norm_without_weights(self):
        self.check_module(nn.Sequential(nn.Conv2d(4, 3, 1), nn.BatchNorm2d(3, affine=False)), image, image + 1)

    def test_batch_norm_without_statistics(self):
        self.check_module(nn.BatchNorm2d(4, track_running_stats=False), image, image + 1)

    def test_batch_norm_with_a_cumulative_mean(self):
        self.check_module(nn.BatchNorm2d(4, momentum=None), image, image + 1, image * 3, fallback="silent")

    def test_batch_norm_in_channels_last(self):
        self.check_module(nn.BatchNorm2d(4), last, last + 1)

    def test_batch_norm_of_bf16(self):
        self.check_module(nn.BatchNorm2d(4).bfloat16(), image.bfloat16(), image.bfloat16() + 1, tolerance=(4e-2, 4e-2))

    def test_batch_norm_of_f16(self):
        self.check_module(nn.BatchNorm2d(4).half(), image.half(), tolerance=(1e-2, 1e-2))

    def test_batch_norm_of_bf16_with_weights_of_f32(self):
        self.check_module(nn.BatchNorm2d(4), image.bfloat16(), image.bfloat16() + 1, tolerance=(4e-2, 4e-2))

    def test_batch_norm_in_autocast(self):
        model = nn.Sequential(nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
        with torch.autocast("cpu", torch.bfloat16):
            self.check_module(model, image, image + 1, tolerance=(6e-2, 6e-2))

    def test_instance_norm_with_statistics(self):
        self.check_module(nn.InstanceNorm2d(4, affine=True, track_running_stats=True), image, image + 1, fallback="silent")

    def test_counters(self):
        self.check_module(Counter(), torch.randn(3, 4), torch.randn(3, 4), torch.randn(3, 4))

    def test_buffers_that_are_replaced(self):
        class Last(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("last", torch.zeros(4))
                self.weight = nn.Parameter(torch.ones(4))

            def forward(self, x):
                y = x * self.weight + self.last
                self.last = y.detach()[0]
                return y

        self.check_module(Last(), torch.randn(3, 4), torch.randn(3, 4))


if __name__ == "__main__":
    main()
