#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The arithmetic and the texts of bench/kernels/run and bench/onednn.py, on figures made up."""

import importlib.machinery
import importlib.util
import sys
import unittest
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parents[2]


def load(path: Path):
    """A script as a module, whatever its name."""
    loader = importlib.machinery.SourceFileLoader(path.stem, str(path))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(path.stem, loader))
    sys.modules[path.stem] = module
    loader.exec_module(module)
    return module


kernels = load(ROOT / "bench/kernels/run")
onednn = load(ROOT / "bench/onednn.py")


def kernel(milliseconds: float, by: str, *launches: str) -> str:
    """A kernel as `ferrite report` shows it."""
    listed = "\n".join(launches)
    return (f'<tr class="first"><td class="n">1</td><td class="n">{milliseconds} ms</td><td></td><td class="name">{launches[0]}</td>'
            f"</tr>\n<tr>made by {by}" + (f"<summary>Its launches</summary><pre>{listed}</pre>" if len(launches) > 1 else ""))  # fmt: skip


class KernelRows(unittest.TestCase):
    def test_a_product(self):
        entry = {"name": "sgemm_512/threads:2/iterations:60/manual_time", "ms": 3, "floor_ms": 2, "best_ms": 2, "best_floor_ms": 1.5}
        row = kernels.read_row(entry)
        self.assertEqual((row["row"], row["threads"], row["goal"], row["of_floor"]), ("sgemm_512", 2, 0.8, 0.75))

    def test_a_copy_with_the_store_that_its_code_has(self):
        entry = {"name": "copy/threads:2/iterations:9/manual_time", "ms": 3, "floor_ms": 3, "best_ms": 2.0, "best_floor_ms": 2.0,
                 "streaming_ms": 2, "best_streaming_ms": 1.0}  # fmt: skip
        for streams, share in ((False, 1.0), (True, 0.5)):
            kernels.streams = lambda name, answer=streams: answer
            self.assertEqual(kernels.read_row(entry)["of_floor"], share)

    def test_what_could_not_be_timed(self):
        row = kernels.read_row({"name": "exp_in_cache/manual_time", "error_message": "the floors need AVX-512"})
        self.assertEqual((row["error"], row["threads"], row["goal"]), ("the floors need AVX-512", 1, 0.85))
        self.assertIn("| exp in cache | 1 | the floors need AVX-512 |", kernels.markdown({"cpu": "a", "cores": 2, "rows": [row]}))


class WhoWins(unittest.TestCase):
    def test_parts_of_a_group_are_compared_with_the_whole(self):
        without = onednn.read_report(kernel(4.0, "llvm", "a, b", "c, d") + kernel(1.0, "llvm", "e") + "</tbody>")
        wherever = onednn.read_report(kernel(1.5, "onednn.matmul", "a") + kernel(0.4, "llvm", "b") + kernel(2.5, "onednn.conv.bias", "c, d")
                                      + kernel(1.0, "llvm", "e") + "</tbody>")  # fmt: skip
        ways = {"without": without, "by cost": wherever[:2], "wherever": wherever}
        row = onednn.compared(SimpleNamespace(name="model"), [ways])
        self.assertEqual(row["faster"], {"product": {"onednn": 1, "of": 1}, "convolution": {"onednn": 0, "of": 1}})
        self.assertEqual(row["launches"], {"all": 3, "offered": 2, "chosen by cost": 1})
        self.assertEqual(row["ms"], {"without": 5.0, "by cost": 1.9, "wherever": 5.4})


if __name__ == "__main__":
    unittest.main()
