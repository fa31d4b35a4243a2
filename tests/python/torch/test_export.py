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
