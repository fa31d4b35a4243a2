#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Placement on several devices: who takes what, what is told of it, and what happens where a provider fails.

Usage: test_placement.py [--ferrite FILE] [--stubs DIRECTORY] [unittest options]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
MODEL = """ferrite graph 0
graph @mixed(%x: f32[4,24], %y: f32[4,24]) -> (%out "out", %total "total") {
  %sum = add(%x, %y) from "sum"
  %clip = relu(%sum) from "clip"
  %total = reduce_sum(%clip) {axes = [1], keepdims = true} from "total"
  %centre = sub(%clip, %total) from "centre"
  %out = mul(%centre, %sum) from "scale"
}
"""
CAPABILITIES = """schema = 0
[target."acme.c 1".statement]
map = ["f32"]
[target."acme.c 1".primitive]
add = ["f32"]
sub = ["f32"]
mul = ["f32"]
max = ["f32"]
"""
BAD_INPUT, DEVICE = 3, 5


class Settings:
    ferrite = ROOT / "build/release/bin/ferrite"
    stubs = ROOT / "build/release/lib/ferrite/stubs"


class PlacementTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ferrite-placement-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)
        for file in Settings.stubs.glob("*.plugin.toml"):
            (self.folder / file.name).write_text(file.read_text())
        for file in Settings.stubs.glob("*.so"):
            (self.folder / file.name).symlink_to(file)
        (self.folder / "mixed.fe").write_text(MODEL)
        generator = np.random.default_rng(7)
        self.x, self.y = (generator.normal(size=(4, 24)).astype(np.float32) for _ in range(2))
        np.save(self.folder / "x.npy", self.x)
        np.save(self.folder / "y.npy", self.y)

    def call(self, command, *options, plugins=("acme.c",), device="c,cpu", **environment):
        words = [str(Settings.ferrite), command, str(self.folder / "mixed.fe"), "--device", device]
        for plugin in plugins:
            words += ["--plugin", str(self.folder / f"{plugin}.plugin.toml")]
        for name in "xy":
            words += ["-i", f"{name}={self.folder / name}.npy"]
        words += map(str, options)
        return subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=50, env={**os.environ, **environment}
        )

    def right(self, *options, **how):
        done = self.call("run", "-o", self.folder / "out", *options, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        total = self.x + self.y
        clipped = np.maximum(total, 0)
        row = clipped.sum(axis=1, keepdims=True)
        for index, expected in enumerate([(clipped - row) * total, row]):
            np.testing.assert_allclose(np.load(self.folder / f"out/output_{index}.npy"), expected, 1e-4, 1e-4)

    def explained(self, *patterns, options=(), **how):
        done = self.call("explain", *options, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        for pattern in patterns:
            self.assertRegex(done.stdout, "(?m)" + pattern)
        return done.stdout

    def refused(self, done, code, pattern, status=BAD_INPUT):
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^ferrite: " + code + r" ")
        self.assertRegex(done.stderr, pattern)

    def test_everything_that_a_device_takes(self):
        self.right()
        text = self.explained(r"placed  .* <-  c$")
        self.assertNotRegex(text, r"<-  cpu$")

    def test_what_was_measured_decides(self):
        (self.folder / "acme.c.capabilities.toml").write_text(CAPABILITIES)
        self.right("--no-fuse")
        self.explained(r"placed .* <-  c$", r"placed .* <-  cpu$", r"refused .* <-  c: reduce of f32", options=["--no-fuse"])

    def test_a_measurement_of_another_target_says_nothing(self):
        (self.folder / "acme.c.capabilities.toml").write_text(CAPABILITIES.replace("acme.c 1", "acme.c 0"))
        self.assertNotRegex(self.explained(r"placed  .* <-  c$"), "refused")

    def test_bad_capability_files(self):
        for text, code, pattern in [
            (CAPABILITIES.replace("map", "mop"), "FE-S21", r"capabilities.toml:3:1: .*'mop'; did you mean 'map'"),
            (CAPABILITIES.replace("sub", "sup"), "FE-S21", r"capabilities.toml:6:1: .*'sup'; did you mean 'sub'"),
            (CAPABILITIES.replace('["f32"]', '["f23"]'), "FE-S21", r"toml:3:8: .*'f23'; did you mean 'f32'"),
            (CAPABILITIES.replace(".statement]", ".statements]"), "FE-M02", r"statements"),
            ("schema = 9\n", "FE-M04", r"toml:1:"),
            ("schema = \n", "FE-M01", r"toml:1:"),
        ]:
            with self.subTest(text):
                (self.folder / "acme.c.capabilities.toml").write_text(text)
                self.refused(self.call("run", "-o", self.folder / "out"), code, pattern)

    def test_what_does_not_compile_goes_to_the_next_device(self):
        self.right(PATH="/nonexistent")
        self.explained(r"refused .* <-  c: .*acme.c/compiler .*'cc' cannot be run", r"placed .* <-  cpu$", PATH="/nonexistent")

    def test_the_last_device_has_no_next_one(self):
        done = self.call("run", "-o", self.folder / "out", device="c", PATH="/nonexistent")
        self.refused(done, "acme.c/compiler", "cannot be run")

    def with_accelerator(self, settings=""):
        manifest = self.folder / "ferrite.toml"
        manifest.write_text(
            'schema = 0\nextends = "default"\nsearch = ["."]\nenable = ["acme.npu", "acme.npu.runtime"]\n'
            f'[plugin."acme.npu"]\n{settings}\n'
        )
        return {"plugins": (), "device": "npu,cpu", "options": ["--manifest", manifest]}

    def claims(self, *patterns, settings=""):
        how = self.with_accelerator(settings)
        text = self.explained(*patterns, **how)
        self.right(*how.pop("options"), **how)
        return text

    def test_regions_that_a_provider_takes(self):
        text = self.claims(r"claim: 2 taken$", r"taken  .*sum.* and 1 more  <-  elementwise of acme.npu: on npu",
                           r"transfers: copies between memories")  # fmt: skip
        self.assertNotIn("refused", text.partition("fusion:")[0])

    def test_a_region_that_is_not_convex(self):
        self.claims(r"claim: 1 refused, cycle; 2 taken$", r"refused \(cycle\) .* <-  everything of acme.npu",
                    settings="greedy = true")  # fmt: skip

    def test_regions_that_overlap(self):
        model = self.folder / "mixed.fe"
        model.write_text(MODEL.replace("sub(%clip, %total)", "sub(%clip, %sum)"))
        how = self.with_accelerator("greedy = true\nmost = 1")
        self.explained(r"claim: 4 refused, overlap; 1 taken$", r"taken .* <-  everything of acme.npu", **how)

    def test_a_region_that_does_not_compile(self):
        self.claims(r"claim: 1 refused, compile; 1 taken$", r"refused \(compile\) .*: acme.npu/refused 'mul' is not compiled",
                    settings='refuses = "mul"')  # fmt: skip

    def test_a_compiler_in_its_own_process(self):
        self.claims(r"claim: 2 taken$", settings='isolation = "process"')

    def test_bad_lists_of_devices(self):
        how = self.with_accelerator()
        how["device"] = "npu"
        done = self.call("run", *how.pop("options"), "-o", self.folder / "out", **how)
        self.refused(done, "FE-D20", "'npu' compiles no loops", status=DEVICE)
        self.refused(self.call("run", "-o", self.folder / "out", device="c,"), "FE-D01", "none is named", status=2)
        self.refused(self.call("run", "-o", self.folder / "out", device="c,cqu"), "FE-D01", "did you mean 'cpu'", status=2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=Settings.ferrite)
    parser.add_argument("--stubs", type=Path, default=Settings.stubs)
    arguments, rest = parser.parse_known_args()
    Settings.ferrite, Settings.stubs = arguments.ferrite, arguments.stubs
    unittest.main(argv=[sys.argv[0], *rest])
