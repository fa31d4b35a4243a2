#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""libferrite_runtime.so runs a package with the results of the compiler's own library, and has no compiler in it.

Usage: test_package_runtime.py [--ferrite FILE] [--runner FILE] [--library FILE] [--models DIRECTORY] [unittest options]
"""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import BUILD, OK, ROOT, ProgramTest, Settings, main  # noqa: E402


class PackageRuntimeTest(ProgramTest):
    def test_magika(self):
        model = Settings.models / "magika/model.onnx"
        ids = np.random.default_rng(3).integers(0, 257, size=(1, 2048)).astype(np.int32)
        np.save(self.folder / "bytes.npy", ids)
        ids.tofile(self.folder / "bytes.bin")
        made = self.call("compile", model, "--dim", "unk__214=1", "-o", "magika.fepkg")
        self.assertEqual(made.returncode, OK, made.stderr)
        expected = self.call("run", model, "-i", "bytes=bytes.npy", "-o", "out")
        self.assertEqual(expected.returncode, OK, expected.stderr)
        done = self.call("magika.fepkg", "bytes.bin", ".", program=Settings.runner)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stdout, r"^\d+ kernels, compiled in 0\.0 ms\n$")
        self.assertRegex(done.stderr, r"^FE-X41 copy\.fepkg: this library compiles nothing, .*magika\.fepkg")
        (result,) = (self.folder / "out").glob("*.npy")
        scores = np.load(result)
        self.assertEqual((self.folder / "0.bin").read_bytes(), scores.tobytes())
        self.assertAlmostEqual(float(scores.sum()), 1.0, places=4)

    def test_models_are_for_the_compiler(self):
        (self.folder / "a.onnx").write_bytes(b"")
        done = self.call("a.onnx", "none", ".", program=Settings.runner)
        self.assertNotEqual(done.returncode, OK)
        self.assertRegex(done.stderr, r"^FE-X41 a\.onnx: this library runs packages and compiles nothing; ")

    def test_what_is_no_package(self):
        (self.folder / "a.fepkg").write_bytes(b"no package")
        done = self.call("a.fepkg", "none", ".", program=Settings.runner)
        self.assertRegex(done.stderr, r"^FE-K50 a\.fepkg: ")
        done = self.call("absent.fepkg", "none", ".", program=Settings.runner)
        self.assertRegex(done.stderr, r"^FE-I01 absent\.fepkg: ")

    def test_it_holds_no_compiler(self):
        symbols = subprocess.run(["nm", "-C", Settings.library], capture_output=True, text=True, check=True).stdout
        self.assertIn("ferrite::core::runtime::Executable::run", symbols)
        compiler = set(re.findall(r"ferrite::core::(schedule|rewrite|lower|graph::Graph|select|loop|link|observe)\b", symbols))
        self.assertEqual(compiler, set())


if __name__ == "__main__":
    main(__doc__, runner=BUILD / "bin/run_package", library=BUILD / "lib/libferrite_runtime.so", models=ROOT / "build/models")
