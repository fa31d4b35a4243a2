# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ferrite.torch.export: packages of PyTorch models, run without PyTorch."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import ferrite
import ferrite.torch
import numpy as np
import torch
from common import main
from torch import nn


class Attends(nn.Module):
    """Keyword arguments, several results, a buffer."""

    def __init__(self):
        super().__init__()
        self.project = nn.Linear(16, 48)
        self.register_buffer("scale", torch.tensor(0.5))

    def forward(self, x, *, bias):
        q, k, v = self.project(x).chunk(3, -1)
        scores = torch.softmax(q @ k.transpose(-1, -2) * self.scale + bias, -1)
        return scores @ v, scores.sum(-1)


class Residual(nn.Module):
    """A block of a convolutional network with everything in place."""

    def __init__(self, activation):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), activation(inplace=True))
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8))
        self.gate = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1), nn.Hardsigmoid(inplace=True))
        self.last = nn.Sequential(nn.Dropout(0.3, inplace=True), nn.Linear(8, 5))

    def forward(self, x):
        y = self.first(x)
        z = self.second(y)
        z *= self.gate(z)
        z += y
        return self.last(torch.relu_(z).mean((2, 3)))


class ShiftedWindows(nn.Module):
    """Attention within windows that are shifted, with a mask that slices are written to."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(6, 18)

    def forward(self, x):
        size, shift = 4, 2
        mask = x.new_zeros((8, 8))
        regions = (slice(0, -size), slice(-size, -shift), slice(-shift, None))
        for number, (rows, columns) in enumerate((a, b) for a in regions for b in regions):
            mask[rows, columns] = number
        windows = mask.view(2, 4, 2, 4).permute(0, 2, 1, 3).reshape(4, 16)
        apart = windows.unsqueeze(1) - windows.unsqueeze(2)
        apart = apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)
        x = torch.roll(x, (-shift, -shift), (0, 1)).view(2, 4, 2, 4, 6).permute(0, 2, 1, 3, 4).reshape(4, 16, 6)
        q, k, v = self.qkv(x).chunk(3, -1)
        return nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=apart)


class Decoder(nn.Module):
    """One step with a cache: two inputs are written at a place, and one is counted on."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(8)
        self.project = nn.Linear(8, 24)
        self.register_buffer("frequencies", 1 / 10 ** torch.arange(0, 1, 0.25), persistent=False)

    def forward(self, x, keys, values, place):
        with torch.no_grad():
            angles = place.to(torch.float32) * self.frequencies.to(device=x.device, dtype=torch.float32)
        with torch.autocast("cpu", enabled=False):
            turn = torch.cat((angles.cos(), angles.sin()))
        q, k, v = self.project(self.norm(x)).split(8, -1)
        keys.index_copy_(1, place, k * turn)
        values[:, 2].copy_(v[:, 0])
        place.add_(1)
        hot = nn.functional.one_hot(place, 6).to(x.dtype)
        scores = torch.einsum("bqd,bkd->bqk", q * turn, keys) - 10 * hot
        return nn.functional.log_softmax(scores, -1) @ values, keys.mT


class Tagger(nn.Module):
    """A bidirectional LSTM, a GRU and a loss."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(11, 6, padding_idx=0)
        self.lstm = nn.LSTM(6, 5, 2, bidirectional=True, batch_first=True)
        self.gru = nn.GRU(10, 4, batch_first=True)

    def forward(self, tokens):
        y, _ = self.lstm(self.embedding(tokens))
        scores, last = self.gru(y)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), tokens.flatten() % 4, label_smoothing=0.1)
        return scores, last, loss, torch.nn.functional.kl_div(scores.log_softmax(-1), scores.softmax(-1), reduction="sum")


class Composed(nn.Module):
    """Operators that PyTorch composes of others, and that plain export leaves whole."""

    def forward(self, x, p, labels, image):
        f, t = nn.functional, x.roll(1, 0)
        sign = torch.where(t > 0, 1.0, -1.0)
        return (
            *(f.selu(x), f.celu(x, 0.5), f.glu(x), f.logsigmoid(x), f.rrelu(x), f.relu6(3 * x), x.square(), x.frac()),
            *(x.rad2deg().deg2rad(), x.sinc(), x.heaviside(p), x.float_power(2), torch.isclose(x, x + 1e-9), x.sgn()),
            *(f.alpha_dropout(x), f.dropout2d(image[None], training=False), torch.special.expit(x), torch.special.round(x, decimals=1)),
            *(torch.multiply(x, t), torch.divide(x, p), torch.subtract(x, 1), torch.clip(x, -1, 1), torch.greater_equal(x, t)),
            *(f.kl_div(x.log_softmax(1), p, reduction="sum"), f.poisson_nll_loss(x, p, full=True), f.soft_margin_loss(x, sign)),
            *(f.hinge_embedding_loss(x, sign, reduction="none"), f.margin_ranking_loss(x[0], t[0], sign[0], 0.1)),
            *(f.cosine_embedding_loss(x, t, sign[:, 0]), f.triplet_margin_loss(x, t, p, swap=True), f.nll_loss(x, labels)),
            *(f.cross_entropy(x, labels, torch.rand_like(p[0]) * 0 + 2, label_smoothing=0.2), f.cross_entropy(x, p.softmax(1))),
            *(f.cosine_similarity(x, t), f.pairwise_distance(x, t), torch.cdist(x, t), f.pdist(x)),
            *(torch.einsum("ij,kj->ik", x, t), torch.outer(x[0], x[1]), torch.inner(x, t), torch.tensordot(x, t, ([0], [0]))),
            *(torch.linalg.multi_dot([x, t.T, x]), f.bilinear(x, t, image), torch.linalg.vecdot(x, t), torch.trace(x)),
            *(torch.linalg.cross(x[:, :3], t[:, :3]), torch.linalg.norm(x), torch.linalg.matrix_norm(image)),
            *(f.affine_grid(image[:, :2, :3], [3, 1, 2, 4], False), f.grid_sample(image[None], p[:, :2].view(1, 3, 1, 2), align_corners=False)),
            *(torch.diff(x, n=2), torch.diff(x, prepend=t), torch.rot90(x, 3), x.flipud(), x.fliplr(), image.mT, x.T, x.H),
            *(torch.hstack([x, t]), torch.vstack([x[0], t[0]]), torch.dstack([x, t]), torch.column_stack([x[0], t[0]])),
            *(torch.meshgrid(x[0], x[1, :2], indexing="xy")), *torch.broadcast_tensors(x, x[:1]), torch.concat([x, t]),
            *(*x.hsplit(2), *image.dsplit([1]), x.ravel(), torch.atleast_3d(x), x.reshape_as(x.mT), x.moveaxis(0, 1), x.swapdims(0, 1)),
            *(torch.take_along_dim(x, x.argsort(1), 1), f.one_hot(labels, 5), x.sum_to_size(1, 4), x.nanmean(0), x.broadcast_to(2, 3, 4)),
            *(x.repeat_interleave(labels + 1, 0, output_size=6), f.unfold(image[None], 2, padding=1, stride=2), torch.max(x, t)),
            f.max_unpool2d(*f.max_pool2d(image, 2, return_indices=True), 2),
            f.embedding_bag(labels.view(1, 3), x, mode="max"),
        )


class Export(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(3)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def compare(self, results, expected):
        self.assertEqual(len(results), len(expected))
        for one, other in zip(results, expected, strict=True):
            np.testing.assert_allclose(one, other.detach().numpy(), rtol=1e-5, atol=1e-6)

    def test_a_package_gives_the_models_results(self):
        model, x, bias = Attends().eval(), torch.randn(2, 8, 16), torch.randn(8, 8)
        path = self.folder / "attends.fepkg"
        ferrite.torch.export(model, (x,), path, kwargs={"bias": bias})
        package = ferrite.Package(path)
        self.assertEqual(len(package.inputs), 2)
        self.compare(package.run(x, bias), model(x, bias=bias))

    def test_it_runs_without_pytorch(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
        x = torch.randn(2, 3, 12, 12)
        ferrite.torch.export(model, (x,), self.folder / "model.fepkg")
        np.save(self.folder / "x.npy", x.numpy())
        code = (
            "import sys, ferrite, numpy as np\n"
            "result, = ferrite.Package('model.fepkg').run(np.load('x.npy'))\n"
            "assert 'torch' not in sys.modules\n"
            "np.save('y.npy', result)\n"
        )
        python = pathlib.Path(ferrite.__file__).parents[1]
        subprocess.run([sys.executable, "-c", code], cwd=self.folder, env={**os.environ, "PYTHONPATH": str(python)}, check=True)
        self.compare([np.load(self.folder / "y.npy")], [model(x)])

    def test_targets(self):
        model, x = nn.Linear(4, 4).eval(), torch.randn(2, 4)
        path = self.folder / "linear.fepkg"
        ferrite.torch.export(model, (x,), path, targets=["x86-64-v3"])
        self.compare(ferrite.Package(path).run(x), [model(x)])
        with self.assertRaises(ferrite.Error) as raised:
            ferrite.torch.export(model, (x,), path, targets=["no-such-target"])
        self.assertEqual(raised.exception.code, "ferrite.cpu/target")

    def test_operators_that_ferrite_lacks_are_named(self):
        class Inverse(nn.Module):
            def forward(self, x):
                return torch.linalg.inv(x)

        with self.assertRaises(ferrite.Error) as raised:
            ferrite.torch.export(Inverse(), (torch.eye(3),), self.folder / "none.fepkg")
        self.assertEqual(raised.exception.code, "FE-I50")
        self.assertIn("linalg_inv", str(raised.exception))
        self.assertFalse((self.folder / "none.fepkg").exists())

    def check_archive(self, model, *inputs):
        """A program as plain torch.export writes it gives eager's results, and leaves eager's contents in the inputs."""
        path = self.folder / "model.pt2"
        torch.export.save(torch.export.export(model, tuple(one.clone() for one in inputs)), path)
        eager, given = [one.clone() for one in inputs], [one.clone() for one in inputs]
        with torch.no_grad():
            expected = model(*eager)
        results = ferrite.Session().load(path).run(*given)
        self.compare(results, expected if isinstance(expected, tuple) else [expected])
        self.compare([one.numpy() for one in given], eager)

    def test_programs_of_plain_export(self):
        tokens, state = torch.randint(0, 11, (2, 7)), torch.zeros(2, 6, 8)
        models = {
            "relu": (Residual(nn.ReLU).eval(), torch.randn(2, 3, 8, 8)),
            "hardswish": (Residual(nn.Hardswish).eval(), torch.randn(2, 3, 8, 8)),
            "silu": (Residual(nn.SiLU).eval(), torch.randn(2, 3, 8, 8)),
            "windows": (ShiftedWindows(), torch.randn(8, 8, 6)),
            "decoder": (Decoder(), torch.randn(2, 1, 8), state, state.clone(), torch.tensor([3])),
            "tagger": (Tagger().eval(), tokens),
            "transformer": (nn.Transformer(8, 2, 1, 1, 16, batch_first=True).eval(), torch.randn(2, 5, 8), torch.randn(2, 4, 8)),
        }
        if torch.__version__.startswith("2.11."):
            del models["tagger"]  # its programs have states of recurrent layers with a wrong number of dimensions
        for name, (model, *inputs) in models.items():
            with self.subTest(model=name):
                self.check_archive(model, *inputs)

    def test_writes_that_no_graph_expresses_are_refused(self):
        class Writes(nn.Module):
            def __init__(self, write):
                super().__init__()
                self.write = write

            def forward(self, x):
                return self.write(x * 1)

        cases = {
            "another size": ("FE-I53", lambda x: x.resize_(2, 6)),
            "overlap in memory": ("FE-I53", lambda x: x[:1].expand(3, 4).mul_(2)),
            "share memory": ("FE-I53", lambda x: torch.einsum("ij->ji", x).add_(1)),
            "aten.add.out": ("FE-I50", lambda x: torch.add(x, 1, out=torch.empty(3, 4))),
            "aten.set_.source_Tensor": ("FE-I50", lambda x: x.set_(x * 2)),
        }
        path = self.folder / "model.pt2"
        for words, (code, write) in cases.items():
            with self.subTest(words=words):
                torch.export.save(torch.export.export(Writes(write), (torch.zeros(3, 4),)), path)
                with self.assertRaises(ferrite.Error) as raised:
                    ferrite.Session().load(path).run(torch.zeros(3, 4))
                self.assertEqual(raised.exception.code, code)
                self.assertIn(words, str(raised.exception))
                self.assertIn("test_export.py:", str(raised.exception))

    def test_operators_that_plain_export_leaves_whole(self):
        self.check_archive(Composed().eval(), torch.randn(3, 4), torch.rand(3, 4) + 0.1, torch.tensor([0, 2, 1]), torch.randn(3, 4, 4))

    def test_graphs_of_explain_can_be_saved(self):
        model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.randn(2, 4)
        found = ferrite.torch.explain(model, x)
        files = found.save(self.folder)
        self.assertEqual(len(files), sum(len(streams) for streams in found.streams))
        self.assertGreater(len(files), 0)
        for file in files:
            loaded = ferrite.Session().load(file)
            self.assertGreater(len(loaded.outputs), 0)


if __name__ == "__main__":
    main()
