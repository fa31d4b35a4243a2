# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What the tests of the PyTorch backend share."""

import copy
import os
import tempfile
import unittest
import warnings

import torch

torch.set_num_threads(2)
_caches = tempfile.TemporaryDirectory(prefix="ferrite-tests-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _caches.name  # no test finds graphs of earlier runs


class BackendTest(unittest.TestCase):
    def setUp(self):
        torch._dynamo.reset()
        torch.manual_seed(0)

    def compiled(self, model, fallback="error", fallback_random=True, **options):
        """With the random numbers of eager mode, unless a test says otherwise."""
        chosen = {"fallback": fallback, "fallback_random": fallback_random, **options}
        return torch.compile(model, backend="ferrite", options=chosen)

    def assertClose(self, actual, expected, exact=None):
        """Equal to eager within what rounding allows: against f64 where that is given."""
        torch.testing.assert_close(actual, expected, rtol=2e-4, atol=2e-5) if exact is None else self.assertNoWorse(actual, expected, exact)

    def assertNoWorse(self, actual, expected, exact):
        """The error against f64 is at most four times eager's, and a few units in the last place."""
        eager = (expected.double() - exact).abs()
        own = (actual.double() - exact).abs()
        slack = 4 * eager.max() + 8 * torch.finfo(actual.dtype).eps * exact.abs().clamp(min=1e-3).max()
        self.assertLessEqual(own.max().item(), slack.item())

    def check(self, function, *args, **options):
        """Forward only: the function's results equal eager's."""
        expected = function(*copy.deepcopy(args))
        actual = self.compiled(function, **options)(*args)
        self.compare(actual, expected)

    def compare(self, actual, expected):
        if isinstance(expected, (list, tuple)):
            self.assertEqual(len(actual), len(expected))
            for a, e in zip(actual, expected):
                self.compare(a, e)
        elif isinstance(expected, torch.Tensor):
            self.assertEqual(actual.dtype, expected.dtype)
            self.assertEqual(actual.shape, expected.shape)
            torch.testing.assert_close(actual, expected, rtol=2e-4, atol=2e-5, equal_nan=True)
        else:
            self.assertEqual(actual, expected)

    def check_training(self, model, *args, steps=2, lr=0.1, **options):
        """Gradients and parameters of a few steps of SGD equal eager's."""
        other = copy.deepcopy(model)
        compiled = self.compiled(other, **options)
        for parameters, run in ((model, model), (other, compiled)):
            optimizer = torch.optim.SGD(parameters.parameters(), lr=lr)
            for _ in range(steps):
                optimizer.zero_grad()
                run(*args).square().mean().backward()
                optimizer.step()
        for (name, expected), actual in zip(model.named_parameters(), other.parameters()):
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4, msg=lambda text: f"{name}: {text}")
            torch.testing.assert_close(actual.grad, expected.grad, rtol=1e-3, atol=1e-4, msg=lambda text: f"{name}: {text}")
        for (name, expected), actual in zip(model.named_buffers(), other.buffers()):
            torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4, msg=lambda text: f"{name}: {text}")


def main():
    warnings.simplefilter("error", category=UserWarning)
    warnings.filterwarnings("ignore", message=".*lr_scheduler.*|.*TF32.*|.*functools.partial.*")
    unittest.main()
