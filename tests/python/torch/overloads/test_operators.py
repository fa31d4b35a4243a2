# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A part of PyTorch's operator samples, which operators.py runs all of, and its own comparisons."""

import pathlib
import subprocess
import sys
import unittest

import torch
from common import main
from operator_checks import differs, distribution_differs


class Comparisons(unittest.TestCase):
    def test_values(self):
        ones = torch.ones(3)
        self.assertEqual(differs(ones * (1 + 1e-6), ones, torch.float32), "")
        for other in (ones * 1.01, ones.double(), torch.ones(4), torch.tensor([1, 1, torch.nan]), 1.0):
            self.assertNotEqual(differs(other, ones, torch.float32), "")

    def test_what_eager_computes_badly_is_judged_by_f64(self):
        exact = torch.tensor([1e-3], dtype=torch.float64)
        eager = torch.tensor([1.5e-3])
        self.assertEqual(differs(torch.tensor([1.0e-3]), eager, torch.float32, lambda: exact), "")
        self.assertNotEqual(differs(torch.tensor([3.0e-3]), eager, torch.float32, lambda: exact), "")

    def test_distributions(self):
        ones = torch.ones(40)
        same = {
            "uniform": (lambda: torch.rand(40) * 1.0000001, lambda: torch.rand(2, 40)[1]),
            "dropout": (lambda: torch.dropout(ones, 0.5, True), lambda: torch.bernoulli(ones / 2) * 2.00001),
            "permutation": (lambda: torch.randperm(9), lambda: torch.rand(9).argsort()),
        }
        for name, pair in same.items():
            with self.subTest(name):
                self.assertEqual(distribution_differs(*pair, torch.float32), "")
        other = {
            "wider": (lambda: torch.rand(40) * 1.1, lambda: torch.rand(40)),
            "another shape": (lambda: torch.randn(40), lambda: torch.rand(40)),
            "equal elements": (lambda: torch.rand(1).expand(40), lambda: torch.rand(40)),
            "constant": (lambda: torch.ones(5) / 2, lambda: torch.rand(5)),
            "other range": (lambda: torch.randint(3, 6, (20,)), lambda: torch.randint(3, 7, (20,))),
        }
        for name, pair in other.items():
            with self.subTest(name):
                self.assertNotEqual(distribution_differs(*pair, torch.float32), "")


class Samples(unittest.TestCase):
    def test_a_part(self):
        """In a process of its own, as operators.py changes PyTorch's samples."""
        command = [sys.executable, str(pathlib.Path(__file__).with_name("operators.py")), "--part", "3/20", "--dtypes", "float32,int64,bool"]
        self.assertEqual(subprocess.run(command, check=False).returncode, 0)


if __name__ == "__main__":
    main()
