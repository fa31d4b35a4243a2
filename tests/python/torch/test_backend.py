# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch.compile(model, backend="ferrite"): inference of small models, options, views, weights, threads."""

import copy
import json
import os
import pathlib
import tempfile
import threading
import unittest
import unittest.mock

import ferrite
import ferrite.torch
import torch
import torch.nn.functional as F
from common import BackendTest, main
from ferrite.torch import _options
from torch import nn

MEGABYTE = 2**20


def resident():
    """Bytes of this process that are in memory."""
    status = pathlib.Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS"))


class Backend(BackendTest):
    def test_is_listed(self):
        self.assertIn("ferrite", torch._dynamo.list_backends())

    def test_one_kernel_for_cos_of_sin(self):
        def f(x):
            return torch.cos(torch.sin(x))

        x = torch.randn(1000)
        self.check(f, x)
        found = ferrite.torch.explain(f, x)
        self.assertEqual([program["kernels"] for program in found.graphs[0]["programs"]], [1])
        self.assertEqual(found.graphs[0]["unsupported"], [])

    def test_multi_layer_perceptron(self):
        model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 5)).eval()
        with torch.no_grad():
            self.check(model, torch.randn(7, 20))

    def test_convolutions(self):
        model = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, stride=2, groups=4),
            nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10)).eval()
        with torch.no_grad():
            self.check(model, torch.randn(2, 3, 24, 24))
            self.check(model, torch.randn(2, 3, 24, 24).to(memory_format=torch.channels_last))

    def test_attention(self):
        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.qkv = nn.Linear(32, 96)

            def forward(self, x):
                q, k, v = self.qkv(x).view(2, 10, 3, 4, 8).permute(2, 0, 3, 1, 4).unbind(0)
                return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 10, 32)

        with torch.no_grad():
            self.check(Attention().eval(), torch.randn(2, 10, 32))

    def test_results_have_the_strides_of_eager(self):
        def f(x):
            return x.transpose(0, 1) + 1, (x * 2).permute(2, 0, 1)

        x = torch.randn(2, 3, 4)
        for actual, expected in zip(self.compiled(f)(x), f(x)):
            self.assertEqual(actual.stride(), expected.stride())
        conv = nn.Conv2d(3, 8, 3).eval().to(memory_format=torch.channels_last)
        image = torch.randn(1, 3, 9, 9).to(memory_format=torch.channels_last)
        with torch.no_grad():
            self.assertEqual(self.compiled(conv)(image).stride(), conv(image).stride())

    def test_views_of_inputs_stay_views(self):
        def f(x):
            return x.view(6), x[1:], x + 1

        x = torch.randn(2, 3)
        viewed, sliced, _ = self.compiled(f)(x)
        x.add_(5)
        torch.testing.assert_close(viewed, x.view(6))
        torch.testing.assert_close(sliced, x[1:])

    def test_in_place_changes_reach_the_caller(self):
        def f(x, y):
            x.add_(y)
            y[0].mul_(2)
            return x * y

        x, y = torch.randn(3, 4), torch.randn(3, 4)
        expected_x, expected_y = x.clone(), y.clone()
        expected = f(expected_x, expected_y)
        actual = self.compiled(f)(x, y)
        torch.testing.assert_close(actual, expected)
        torch.testing.assert_close(x, expected_x)
        torch.testing.assert_close(y, expected_y)

    def test_weights_are_not_copied(self):
        linear = nn.Linear(64, 64).eval()
        compiled = self.compiled(linear)
        x = torch.randn(2, 64)
        with torch.no_grad():
            before = compiled(x)
            linear.weight.add_(1)
            torch.testing.assert_close(compiled(x), linear(x), rtol=1e-4, atol=1e-4)
        self.assertGreater((before - linear(x)).abs().max().item(), 1e-3)

    def test_the_same_tensor_twice(self):
        def f(x):
            y = x + 1
            return y, y, x

        x = torch.randn(3)
        self.check(f, x)

    def test_no_tensors_to_compute(self):
        self.check(lambda x: (x, 3), torch.randn(2))

    def test_empty_tensors(self):
        self.check(lambda x: (x * 2, x.sum(), torch.cat([x, x])), torch.randn(0, 3))

    def test_numbers_and_none_among_the_results(self):
        def f(x):
            return x * 2, None, 5

        self.check(f, torch.randn(4))

    def test_dtypes(self):
        for dtype in (torch.float64, torch.float16, torch.bfloat16):
            with self.subTest(dtype=dtype):
                torch._dynamo.reset()
                x = torch.randn(16, 16, dtype=dtype)
                exact = (x.double() @ x.double()).relu()
                f = lambda x: (x @ x).relu()
                self.assertNoWorse(self.compiled(f)(x), f(x), exact)

    def test_autocast(self):
        model = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 8)).eval()
        x = torch.randn(4, 32)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            expected, actual = model(x), self.compiled(model)(x)
        self.assertEqual(actual.dtype, expected.dtype)
        torch.testing.assert_close(actual, expected, rtol=3e-2, atol=3e-2)

    def test_a_graph_break_costs_only_itself(self):
        def f(x):
            y = torch.sin(x)
            torch._dynamo.graph_break()
            return torch.cos(y)

        self.check(f, torch.randn(5))

    def test_other_shapes_and_dtypes_compile_again(self):
        compiled = self.compiled(lambda x: x.sum(-1) * 2)
        for x in (torch.randn(2, 3), torch.randn(4, 5), torch.randn(4, 5, dtype=torch.float64), torch.arange(6).view(2, 3)):
            torch.testing.assert_close(compiled(x), x.sum(-1) * 2)

    def test_gradients_and_layouts_may_change_between_calls(self):
        conv = nn.Sequential(nn.Conv2d(2, 4, 3), nn.ReLU())
        compiled = self.compiled(conv)
        x = torch.randn(1, 2, 6, 6)
        by_channels = x.to(memory_format=torch.channels_last)
        trained = x.clone().requires_grad_()
        for given in (x, by_channels, x.transpose(2, 3), trained, by_channels, x.double()):
            conv.to(given.dtype)
            with self.subTest(strides=given.stride(), dtype=given.dtype, gradient=given.requires_grad):
                with torch.set_grad_enabled(given.requires_grad):
                    actual, expected = compiled(given), conv(given)
                torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
                self.assertEqual(actual.stride(), expected.stride())
                if given.requires_grad:
                    (gradient,) = torch.autograd.grad(actual.sum(), given)
                    torch.testing.assert_close(gradient, torch.autograd.grad(expected.sum(), given)[0], rtol=1e-4, atol=1e-5)

    def test_threads(self):
        model = nn.Sequential(nn.Linear(16, 16), nn.Tanh()).eval()
        compiled = self.compiled(model)
        with torch.no_grad():
            compiled(torch.randn(4, 16))
        wrong = []

        def work(seed):
            generator = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for _ in range(20):
                    x = torch.randn(4, 16, generator=generator)
                    if not torch.allclose(compiled(x), model(x), rtol=1e-4, atol=1e-5):
                        wrong.append(seed)

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_options_are_checked(self):
        for options, text in (
            ({"fallbak": "error"}, "did you mean 'fallback'"),
            ({"fallback": "eror"}, "did you mean 'error'"),
            ({"threads": -1}, "give a number from 0 to 4096"),
            ({"threads": 1000000}, "give a number from 0 to 4096"),
            ({1: 2}, "the backend has no option '1'"),
            ({"device": 0}, "option 'device' is 0; give the name of a device"),
            ({"manifest": ["a.toml"]}, "option 'manifest' is ['a.toml']; give the path"),
            ({"plugins": [3]}, "option 'plugins' is [3]; give a list of paths"),
            ({"profile": True}, "option 'profile' is True; give the name"),
            ({"tune": True}, "option 'tune' is True; give the seconds"),
            ({"pytorch_kernels": 0}, "option 'pytorch_kernels' is 0; it may be True or False"),
            ({"freeze": "yes"}, "option 'freeze' is 'yes'; it may be True or False"),
        ):
            with self.subTest(options=options):
                torch._dynamo.reset()
                with self.assertRaises(Exception) as caught:
                    torch.compile(lambda x: x + 1, backend="ferrite", options=options)(torch.randn(2))
                self.assertIn(text, str(caught.exception))
                self.assertIn("FE-Y01", str(caught.exception))

    def test_modes_are_refused_with_what_to_use(self):
        x = torch.randn(2)
        torch.testing.assert_close(torch.compile(lambda x: x + 1, backend="ferrite", mode="default")(x), x + 1)
        for mode, cure in (("max-autotune", "options={'tune': 30}"), ("reduce-overhead", "leave it out")):
            torch._dynamo.reset()
            with self.assertRaises(ferrite.Error) as caught:
                torch.compile(lambda x: x + 1, backend="ferrite", mode=mode)(x)
            self.assertEqual(caught.exception.code, "FE-Y01")
            self.assertIn(cure, caught.exception.text)

    def test_tuned(self):
        x = torch.randn(64, 64)
        # The store of measurements is off with the cache of kernels.
        with tempfile.TemporaryDirectory() as folder, unittest.mock.patch.dict(os.environ, FERRITE_CACHE=folder):
            self.check(lambda x: torch.softmax(x, -1), x, tune=10)  # ends when all candidates are measured
            self.assertTrue(list(pathlib.Path(folder).rglob("decisions/*")))
        with self.assertRaises(ferrite.Error) as caught:
            self.compiled(lambda x: x + 1, tune="slowly")(x)
        self.assertEqual(caught.exception.code, "FE-M03")
        self.assertIn("'tune' is 'slowly'", caught.exception.text)

    def test_precision_of_products(self):
        """PyTorch's setting says whether a session may round to tf32, and Dynamo compiles again where it changes."""
        given = []
        session = _options.Session

        def opened(*arguments, **named):
            given.append(named["tf32"])
            return session(*arguments, **named)

        before = torch.get_float32_matmul_precision()
        try:
            with unittest.mock.patch.object(_options, "Session", opened), unittest.mock.patch.dict(_options._sessions, clear=True):
                function = self.compiled(lambda x: x @ x)
                for precision in ("highest", "high", "medium", "highest"):
                    torch.set_float32_matmul_precision(precision)
                    x = torch.randn(8, 8)
                    torch.testing.assert_close(function(x), x @ x)
        finally:
            torch.set_float32_matmul_precision(before)
        self.assertEqual(given, [False, True])

    def test_the_interpreter_as_device(self):
        self.check(lambda x: torch.softmax(x, -1), torch.randn(3, 5), device="interpreter")


class Weights(BackendTest):
    """Constants of programs with the option freeze, PyTorch's memory without it."""

    def inputs(self, model, *args, **options):
        """The names of the inputs of the model's only program."""
        found = ferrite.torch.explain(model, *args, options=options)
        ((stream,),) = found.streams
        return [name for name, *_ in json.loads(stream)["inputs"]]

    def test_weights_and_buffers_are_constants(self):
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 5)).eval()
        model[1].running_mean.uniform_()
        model[1].running_var.uniform_(1, 2)
        for form in (torch.contiguous_format, torch.channels_last):
            model = model.to(memory_format=form)
            x = torch.randn(2, 3, 8, 8).to(memory_format=form)
            with torch.no_grad(), self.subTest(form=form):
                self.check(model, x, freeze=True)
                self.assertEqual(len(self.inputs(model, x, freeze=True)), 1)
                self.assertEqual(len(self.inputs(model, x)), 9)

    def test_changed_weights_have_no_effect(self):
        model = nn.Linear(6, 6).eval()
        compiled = self.compiled(model, freeze=True)
        x = torch.randn(3, 6)
        with torch.no_grad():
            expected = model(x)
            compiled(x)
            model.weight.add_(1)
            torch.testing.assert_close(compiled(x), expected)
            # A new tensor is another weight.
            model.weight = nn.Parameter(torch.ones(6, 6))
            torch.testing.assert_close(compiled(x), model(x))

    def test_modules_of_one_class_keep_their_own_weights(self):
        model = nn.Sequential(*(nn.Sequential(nn.Linear(5, 5), nn.Tanh()) for _ in range(3))).eval()
        expected = copy.deepcopy(model)
        for layer in model:
            layer.compile(backend="ferrite", options={"freeze": True, "fallback": "error"})
        x = torch.randn(2, 5)
        with torch.no_grad():
            for _ in range(2):
                torch.testing.assert_close(model(x), expected(x))

    def test_sizes_may_change(self):
        model = nn.Sequential(nn.Linear(4, 4), nn.GELU()).eval()
        compiled = torch.compile(model, backend="ferrite", dynamic=True, options={"freeze": True, "fallback": "error"})
        with torch.no_grad():
            for rows in (2, 3, 5):
                x = torch.randn(rows, 4)
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)

    def test_buffers_that_change_and_tables_stay_inputs(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = nn.Embedding(9, 4)
                self.register_buffer("count", torch.zeros(()))
                self.register_buffer("mask", torch.tensor([True, False, True, True]))

            def forward(self, k):
                self.count.add_(1)
                return self.table(k) * self.mask + self.count

        model = Counting().eval()
        compiled = self.compiled(model, freeze=True)
        k = torch.tensor([1, 8])
        with torch.no_grad():
            for count in (1, 2):
                torch.testing.assert_close(compiled(k), model.table(k) * model.mask + count)

    def test_training_is_not_frozen(self):
        self.check_training(nn.Sequential(nn.Linear(4, 4), nn.Tanh()), torch.randn(3, 4), freeze=True)

    def test_without_it_no_weight_is_copied(self):
        model = nn.Sequential(*(nn.Linear(2048, 2048, bias=False) for _ in range(12))).eval()
        size = sum(one.nbytes for one in model.parameters())
        self.assertGreater(size, 190 * MEGABYTE)
        x = torch.randn(1, 2048)
        small = nn.Linear(8, 8).eval()
        with torch.no_grad():
            self.compiled(small)(torch.randn(1, 8))  # what the compiler itself needs is in memory before
            expected = model(x)
            places = [one.data_ptr() for one in model.parameters()]
            before = resident()
            compiled = self.compiled(model)
            for _ in range(3):
                actual = compiled(x)
            self.assertLess(resident() - before, size / 10)
        self.assertEqual([one.data_ptr() for one in model.parameters()], places)
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    main()
