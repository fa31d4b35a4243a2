# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/torch_models.py: what counts as a wrong result, geometric means, the table, and a small row from end to end."""

import sys
import unittest
from pathlib import Path

import torch
from torch import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "bench"))

import torch_models as bench  # noqa: E402
import torch_rows as table  # noqa: E402


def small() -> tuple[nn.Module, table.Tensors]:
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return table.WithLoss(model, nn.functional.mse_loss), (torch.randn(4, 8), torch.randn(4, 4))


def row(kind: str, **times: float) -> dict:
    return {"row": "a", "kind": kind, "engines": {name: {"median_ms": time} for name, time in times.items()}}


class TorchModels(unittest.TestCase):
    def test_results_are_compared_by_norm(self):
        value = torch.linspace(-1, 1, 100)
        near, far = value * (1 + 1e-4), value + 0.1
        self.assertIsNone(bench.difference({"outputs": [near]}, {"outputs": [value]}))
        self.assertIn("outputs", bench.difference({"outputs": [far]}, {"outputs": [value]}))
        self.assertIn("gradients", bench.difference({"gradients": [value, far]}, {"gradients": [value, value]}))
        self.assertIn("another type", bench.difference({"outputs": [value.double()]}, {"outputs": [value]}))
        self.assertIn("not finite", bench.difference({"losses": [value / 0]}, {"losses": [value]}))
        self.assertIsNone(bench.difference({"gradients": [torch.zeros(3), value]}, {"gradients": [torch.full((3,), 1e-9), value]}))

    def test_means_are_by_kind_and_peer(self):
        rows = [row("step", ferrite=1, eager=2, inductor=1), row("step", ferrite=1, eager=8), row("inference", ferrite=2, eager=1)]
        found = bench.means(rows)
        self.assertEqual(found["step"]["eager"]["median_ms"], {"mean": 4.0, "rows": 2, "least": 2.0})
        self.assertEqual(found["step"]["inductor"]["median_ms"], {"mean": 1.0, "rows": 1, "least": 1.0})
        self.assertEqual(found["inference"]["eager"]["median_ms"]["mean"], 0.5)
        self.assertIn("step, eager / Ferrite, geometric means of 2 rows: time 4.00 (least 2.00)", bench.means_text(rows))

    def test_the_table_has_a_line_for_each_engine(self):
        measured = row("step", ferrite=10, eager=25)
        measured["engines"]["inductor"] = {"error": "no"}
        lines = bench.lines_of(measured)
        self.assertEqual(len(lines), 3)
        self.assertIn("2.50", lines[1])
        self.assertIn("failed", lines[2])

    def test_every_kind_of_row_is_compared_and_timed(self):
        for kind in (table.BACKWARD, table.STEP):
            entries = bench.measure_times(["ferrite", "eager"], table.Row("small", kind, small), 1, 0.01)
            for name in ("ferrite", "eager"):
                self.assertNotIn("error", entries[name])
                self.assertGreater(entries[name]["median_ms"], 0)
        self.assertGreater(bench.measure_call("ferrite", table.Row("small", table.STEP, small))["first_s"], 0)


if __name__ == "__main__":
    unittest.main()
