# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A second process finds compiled graphs in AOTAutograd's cache: it imports and compiles nothing."""

import collections
import multiprocessing
import os
import pathlib
import shutil
import tempfile
import unittest
import warnings

import ferrite._session
import ferrite.torch
import torch
import torch._dynamo
import torch._functorch._aot_autograd.autograd_cache
import torch._inductor.codecache

# Each test forks from this process, which compiles nothing itself.
processes = multiprocessing.get_context("fork")


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = torch.nn.Conv2d(3, 8, 3, padding=1)
        self.norm = torch.nn.BatchNorm2d(8)
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        x = torch.relu(self.norm(self.convolution(x)))
        return self.linear(torch.nn.functional.dropout(x.mean((2, 3)), 0.25, self.training))


def network(train):
    torch.manual_seed(1)
    return Network().train(train), torch.randn(2, 3, 6, 6)


def inference(options):
    model, x = network(False)
    with torch.no_grad():
        return [torch.compile(model, backend="ferrite", options=options)(x)]


def training(options):
    model, x = network(True)
    compiled = torch.compile(model, backend="ferrite", options=options)
    torch.manual_seed(2)
    losses = []
    for _ in range(2):
        losses.append(compiled(x).square().mean())
        losses[-1].backward()
    return [*losses, *(one.grad for one in model.parameters()), *model.buffers()]


def views(options):
    """Results that share memory, that are arguments or constants, and an input that the function changes."""

    def function(x, y):
        y.mul_(2)
        z = torch.sin(x)
        return z, z.t(), x, z[1:], torch.tensor([1.0, 2.0]) + y.sum(), 3, x.view(-1)

    x, y = torch.arange(12.0).view(3, 4), torch.ones(2)
    with torch.no_grad():
        results = torch.compile(function, backend="ferrite", options=options)(x, y)
    assert results[2] is x and results[1].data_ptr() == results[0].data_ptr() and results[5] == 3
    assert results[6].data_ptr() == x.data_ptr()
    return [*(one for one in results if isinstance(one, torch.Tensor)), y]


def in_pytorch(options):
    """A graph in which a node runs in PyTorch, between two programs, with a gradient."""
    x = torch.linspace(0, 1, 8, requires_grad=True)

    def function(x):
        return torch.fft.rfft(torch.sin(x)).abs() * 2

    result = torch.compile(function, backend="ferrite", options=options)(x)
    result.sum().backward()
    return [result, x.grad]


def symbolic(options):
    def function(x):
        return torch.cos(x) + x.shape[0]

    with torch.no_grad():
        return [torch.compile(function, backend="ferrite", options=options, dynamic=True)(torch.ones(n)) for n in (3, 5)]


CASES = {one.__name__: one for one in (inference, training, views, in_pytorch, symbolic)}


def run(cases, options, results):
    """In a process of its own: gives for each case what was counted, and its results."""
    torch.set_num_threads(1)
    loads = collections.Counter()
    load = ferrite._session.Session.load

    def counted(session, path, contents=None):
        loads[pathlib.Path(path).suffix] += 1
        return load(session, path, contents)

    ferrite._session.Session.load = counted
    told = {}
    for name in cases:
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        loads.clear()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            tensors = [one.detach().numpy().copy() for one in CASES[name](options)]
        counts = {key.removeprefix("autograd_cache_"): count for key, count in torch._dynamo.utils.counters["aot_autograd"].items()}
        said = [str(one.message) for one in caught if "ferrite" in str(one.message)]
        told[name] = {"counts": counts, "loads": dict(loads), "results": tensors, "said": said}
    results.put(told)


class AcrossProcesses(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="ferrite-cache-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(cls.folder)
        os.environ["FERRITE_CACHE"] = str(cls.folder / "kernels")
        cls.first = cls.told(*CASES)

    @classmethod
    def told(cls, *cases, pipeline="", **options):
        manifest = cls.folder / "pipeline.toml"
        manifest.write_text('schema = 0\nextends = "default"\n' + pipeline)
        results = processes.Queue()
        process = processes.Process(target=run, args=(cases, {"manifest": str(manifest), **options}, results))
        process.start()
        told = results.get(timeout=120)
        process.join()
        return told

    def assert_same(self, actual, expected):
        for one, other in zip(actual, expected, strict=True):
            self.assertEqual(one.tobytes(), other.tobytes())

    def test_a_second_process_compiles_nothing(self):
        second = self.told(*CASES)
        for name, cold in self.first.items():
            with self.subTest(name):
                warm = second[name]
                self.assert_same(warm["results"], cold["results"])
                self.assertEqual(warm["said"], cold["said"])
                self.assertNotIn("hit", cold["counts"])
                self.assertIn(".aten", cold["loads"])
                if name == "symbolic":
                    self.assertGreaterEqual(cold["counts"]["bypass"], 1)
                    self.assertNotIn("hit", warm["counts"])
                else:
                    self.assertEqual(cold["counts"]["saved"], 1)
                    self.assertEqual(warm["counts"]["hit"], 1)
                    self.assertEqual(list(warm["loads"]), [".fepkg"])
        self.assertTrue(second["in_pytorch"]["said"])

    def test_other_options_and_manifests_miss(self):
        for other in ({"fallback_random": True}, {"pipeline": "[pipeline]\nfuse = false\n"}):
            with self.subTest(other):
                told = self.told("inference", **other)["inference"]
                self.assertNotIn("hit", told["counts"])
                self.assertEqual(told["counts"]["saved"], 1)

    def test_damaged_entries_are_compiled_anew(self):
        begin = b"FEPKG\r\n\x1a"
        damaged = 0
        for entry in (self.folder / "aotautograd").rglob("*"):
            contents = bytearray(entry.read_bytes()) if entry.is_file() else b""
            if contents.count(begin) == 2:  # of a training graph; the backward program is not stored twice
                whole = bytes(contents)
                contents[contents.index(begin) + 300] ^= 1
                entry.write_bytes(contents)
                self.addCleanup(entry.write_bytes, whole)
                damaged += 1
        self.assertGreaterEqual(damaged, 1)
        anew = self.told("training")["training"]
        self.assert_same(anew["results"], self.first["training"]["results"])
        self.assertEqual(anew["said"], [])
        self.assertNotIn("hit", anew["counts"])
        self.assertEqual(anew["counts"]["saved"], 1)


if __name__ == "__main__":
    unittest.main()
