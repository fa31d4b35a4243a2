#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins of released versions are built from their sources against today's SDK, loaded, and do what they did.

Usage: test_museum.py [--ferrite FILE] [--cc FILE] [--cxx FILE] [unittest options]
"""

import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from program import ROOT, ProgramTest, Settings, main  # noqa: E402

MUSEUM = Path(__file__).resolve().parent


def built(source: Path, folder: Path) -> Path:
    """The library of a plugin of one source file, built as ferrite_add_plugin does."""
    library = folder / f"{source.parent.name}_{source.suffix[1:]}.so"
    compiler = [Settings.cc, "-std=c11"] if source.suffix == ".c" else [Settings.cxx, "-std=c++20", "-fvisibility-inlines-hidden"]
    subprocess.run(
        [*compiler, "-O0", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra", "-Werror", f"-I{ROOT / 'sdk/include'}",
         f"-Wl,--version-script={ROOT / 'sdk/cmake/plugin.map'}", "-Wl,-z,defs", source, "-o", library], check=True)
    return library


class MuseumTest(ProgramTest):
    def setUp(self):
        super().setUp()
        np.save(self.folder / "x.npy", np.array([-1, 2, -3, 4], np.float32))

    def call(self, *words):
        done = super().call(*words)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def result(self, model, *options):
        self.call("run", model, "-i", "x=x.npy", "-o", "out", *options)
        return np.load(self.folder / "out" / "output_0.npy").tolist()

    def test_v0_1(self):
        version = MUSEUM / "v0.1"
        plugins = []
        for source in sorted(version.glob("plugin.c*")):
            plugins += ["--plugin", built(source, self.folder)]
        self.assertEqual(len(plugins), 4)
        for device in ("cpu", "interpreter"):
            with self.subTest(device=device):
                self.assertEqual(self.result(version / "model.fe", *plugins, "--device", device), [1.0, 4.0, 1.0, 6.0])
                self.assertEqual(self.result(version / "model.digit", *plugins, "--device", device), [-3.0, 6.0, -9.0, 12.0])
        graph = self.call("opt", version / "model.fe", "--to", "post_grad_pre", *plugins)
        self.assertIn('by "museum.twice_absolute"', graph)
        self.assertIn("museum.scale(%x)", graph)
        ledger = self.call("explain", "--all", version / "model.fe", *plugins)
        for name in ("museum.pass", "museum.loops", "museum.schedule"):
            self.assertIn(name, ledger)
        self.assertIn("cabinet:0  a cabinet", self.call("targets", *plugins))
        self.assertIn("museum.scale", self.call("ops", *plugins))


if __name__ == "__main__":
    main(__doc__, cc="cc", cxx="c++")
