#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compilations that are killed leave a cache from which later ones take whole kernels, and no files that pile up.

Usage: test_killed.py [--ferrite FILE] [unittest options]
"""

import os
import random
import subprocess
import sys
import time
import unittest
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import OK, ProgramTest, Settings, main  # noqa: E402

KILLS = 20
STEPS = ("exp", "abs", "sqrt", "tanh", "sin", "cos", "neg", "exp")


def model_of(columns):
    """Kernels for each step, which no other number of columns has."""
    lines = ["ferrite graph 0", f'graph @steps(%x: f32[40,{columns}]) -> (%y{len(STEPS) - 1} "last") {{']
    for k, step in enumerate(STEPS):
        before = f"%y{k - 1}" if k else "%x"
        lines += [f"  %s{k} = reduce_sum({before}) {{axes = [{k % 2}], keepdims = true}}", f"  %d{k} = div({before}, %s{k})", f"  %y{k} = {step}(%d{k})"]
    return "\n".join([*lines, "}", ""])


def result_of(y):
    for k, step in enumerate(STEPS):
        y = getattr(np, {"neg": "negative"}.get(step, step))(y / y.sum(k % 2, keepdims=True))
    return y


class KilledTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache"

    def words(self, columns):
        (self.folder / f"{columns}.fe").write_text(model_of(columns))
        np.save(self.folder / f"{columns}.npy", np.random.default_rng(columns).uniform(1, 2, (40, columns)).astype(np.float32))
        return ("run", f"{columns}.fe", "--no-fuse", "-i", f"x={columns}.npy", "-o", "out", "--cache", str(self.cache))

    def run_whole(self, columns):
        done = self.call(*self.words(columns))
        self.assertEqual((done.returncode, done.stderr), (OK, ""))
        x = np.load(self.folder / f"{columns}.npy").astype(np.float64)
        np.testing.assert_allclose(np.load(self.folder / "out/output_0.npy"), result_of(x), 1e-4)
        return done

    def parts(self):
        """Files that are no entries."""
        return [file for file in self.cache.iterdir() if file.suffix != ".kernel"]

    def test_killed_at_any_time(self):
        start = time.monotonic()
        self.run_whole(100)
        whole = time.monotonic() - start
        entries = len(list(self.cache.iterdir()))
        self.assertGreater(entries, len(STEPS))
        killed = 0
        for seed in range(KILLS):
            words = [str(Settings.ferrite), *self.words(101 + seed)]
            process = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(random.Random(seed).uniform(0, whole))
            killed += process.poll() is None
            process.kill()
            process.wait()
            verified = self.call("cache", "verify", "--cache", self.cache)
            self.assertEqual(verified.returncode, OK, verified.stdout)
        self.assertGreater(killed, KILLS // 2)
        # Some were killed while their kernels were written.
        self.assertGreater(len(list(self.cache.glob("*.kernel"))), entries)
        # At most one file for each processor that wrote.
        self.assertLessEqual(len(self.parts()), KILLS * (os.cpu_count() or 1))
        for columns in range(100, 101 + KILLS):
            self.run_whole(columns)
        self.assertIn(f"{entries} from the cache", self.run_whole(100).stdout)

    def test_what_is_left_is_removed(self):
        self.run_whole(100)
        left, fresh, foreign = (self.cache / name for name in ("0.kernel.12.0", "0.kernel.13.0", "libother.so.1.2"))
        for file in (left, fresh, foreign):
            file.write_bytes(b"half")
        os.utime(left, (0, 0))
        os.utime(foreign, (0, 0))
        self.run_whole(100)  # nothing is written
        self.assertTrue(left.exists())
        self.run_whole(101)
        self.assertEqual(sorted(self.parts()), [fresh, foreign])


if __name__ == "__main__":
    main(__doc__)
