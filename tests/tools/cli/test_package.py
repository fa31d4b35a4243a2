#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages: what runs from one computes what the model does.

Usage: test_package.py [--ferrite FILE] [--stubs DIRECTORY] [--plugins DIRECTORY] [--library FILE] [unittest options]
"""

import ctypes
import json
import platform
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from package_file import CODE, DESCRIPTION, GRAPH, PROGRAM, STORED, WEIGHTS, ZSTD, Fields, PackageCase, read, written  # noqa: E402
from program import BUILD, OK, PLUGINS, UNSUPPORTED, USAGE, Settings, main  # noqa: E402

RUNNING_SUM = """ferrite graph 0
graph @c(%x: f32[4,8]) -> (%y "y") {
  %y = test.running_sum(%x)
}
"""
# A product with two matrices side by side, which are made at load.
JOINED = """ferrite graph 0
graph @joined(%x: f32[16,256]) -> (%y "y") {
  %a = iota() {dtype = f32, shape = [256,256], axis = 0}
  %b = iota() {dtype = f32, shape = [256,256], axis = 1}
  %w = concat(%a, %b) {axis = 1}
  %y = matmul(%x, %w)
}
"""
AARCH64 = "triple=aarch64-linux-gnu cpu=cortex-a72"


class PackageTest(PackageCase):
    def test_a_package_computes_what_the_model_does(self):
        direct, _ = self.outputs("layers.fe")
        self.assertRegex(self.compiled().stdout, r"^layers\.fepkg: 8 nodes, .* kernels and 1 at load, compiled in .* ms, .* KiB\n$")
        (self.folder / "layers.fe").unlink()
        packaged, said = self.outputs("layers.fepkg")
        self.assertEqual(packaged, direct)
        self.assertRegex(said, r"(?m)^8 nodes, \d+ statements, \d+ kernels and 1 at load, nothing compiled, loaded in .* ms, run in ")
        again, said = self.outputs("layers.fepkg", "--recompile", "--threads", 1)
        self.assertEqual(again, direct)
        self.assertIn("compiled in", said)
        # Neither operators nor importers are needed.
        self.assertEqual(self.outputs("layers.fepkg", *self.bare())[0], direct)
        log = self.call("run", "layers.fepkg", "--log", "plugins,kernels").stderr
        self.assertRegex(log, r"the package was made with ferrite\.std 0\.1\.0, SHA-256 [0-9a-f]{64}\n")
        self.assertNotIn("cache", log)

    def test_what_only_init_needs_is_not_kept(self):
        (self.folder / "joined.fe").write_text(JOINED)
        done = self.call("compile", "joined.fe", "-o", "joined.fepkg")
        self.assertEqual(done.returncode, OK, done.stderr)
        (program,) = (section for section in read(self.folder / "joined.fepkg") if section.kind == PROGRAM)
        fields = Fields(program.unpacked()).found
        of_run, at_load = (field.value for field in fields if field.name == "arena")
        kept = [field.value for field in fields if field.name == "persistent bytes"]
        # The matrix as it is packed stays, both together do not.
        self.assertEqual((of_run, at_load), (0, 2 * 256 * 256 * 4))
        self.assertEqual(len(kept), 1)
        x = np.random.default_rng(5).integers(-4, 5, size=(16, 256)).astype(np.float32)
        np.save(self.folder / "x.npy", x)
        places = np.indices((256, 256)).astype(np.float32)
        for model in ("joined.fe", "joined.fepkg"):
            done = self.call("run", model, "-i", "x=x.npy", "-o", "out")
            self.assertEqual(done.returncode, OK, done.stderr)
            np.testing.assert_array_equal(np.load(self.folder / "out/output_0.npy"), x @ np.concatenate(places, axis=1))

    def test_a_package_as_a_model(self):
        self.compiled()
        bench = self.call("bench", "layers.fepkg", "--repeat", 1, "--json")
        self.assertRegex(bench.stdout, '"compile_ms":0.0,')
        imported = self.call("opt", "layers.fepkg", "--to", "import").stdout
        self.assertEqual(imported.count("matmul("), 2)
        self.assertIn("graph @layers(%x: f32[16,32])", imported)
        done = self.call("compile", "layers.fepkg", "-o", "again.fepkg")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual((self.folder / "again.fepkg").read_bytes(), self.package.read_bytes())
        self.assertRefused(self.call("run", "layers.fepkg", "--dim", "x:0=8"), "FE-C06", "16", USAGE)

    def test_the_same_bytes_every_time(self):
        self.compiled()
        other = self.folder / "other"
        other.mkdir()
        (self.folder / "layers.fe").rename(other / "layers.fe")
        done = self.call("compile", "other/layers.fe", "--dim", "n=16", "-o", "other/second.fepkg", "--compile-jobs", 1)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual((other / "second.fepkg").read_bytes(), self.package.read_bytes())
        self.assertEqual(sorted(file.name for file in other.iterdir()), ["layers.fe", "second.fepkg"])
        kinds = [(section.kind, section.codec) for section in read(self.package)]
        self.assertEqual(kinds, [(DESCRIPTION, ZSTD), (PROGRAM, ZSTD), (CODE, ZSTD), (GRAPH, ZSTD), (WEIGHTS, STORED)])
        # One weight; the graph and the program share it.
        self.assertEqual(len(read(self.package)[-1].contents), 32 * 32 * 4 + 32 * 4)

    def test_kernels_are_counted_alike(self):
        """A run's kernels, those that prepare constants, and how many differ: the same text wherever it stands."""
        words = ("layers.fe", "--dim", "n=16", "--no-fuse")
        figures = json.loads(self.call("bench", *words, "--repeat", 1, "--json").stdout)
        run, load, different = (figures[key] for key in ("kernels", "kernels_at_load", "unique_kernels"))
        self.assertGreater(load, 0)
        self.assertLess(different, run + load)
        text = f" {run} kernels and {load} at load, {different} different, "
        options = ("--no-fuse", "--cache", self.folder / "kept")
        self.assertIn(text + "compiled in", self.compiled(*options).stdout)
        self.assertIn(text + f"{different} from the cache, compiled in", self.compiled(*options).stdout)
        for done in (
            self.call("run", *words),
            self.call("run", "layers.fepkg"),
            self.call("bench", *words, "--repeat", 1),
            self.call("explain", "--all", *words),
            self.call("report", *words, "-o", "page.html", "--repeat", 1),
        ):
            self.assertIn(text, done.stdout, done.stderr)
        page = (self.folder / "page.html").read_text()
        self.assertIn(f"<b>{run}</b><span>kernels and {load} at load, {different} different</span>", page)

    def test_targets(self):
        direct, _ = self.outputs("layers.fe")
        self.compiled("--target", AARCH64)
        foreign = self.call("run", "layers.fepkg")
        if platform.machine() != "aarch64":
            self.assertRefused(foreign, "FE-K53", r"layers.fepkg: .*code for aarch64-linux-gnu.*--recompile", UNSUPPORTED)
        self.assertEqual(self.outputs("layers.fepkg", "--recompile")[0], direct)
        for target, reason in [
            ("no-such-cpu", "unknown cpu 'no-such-cpu'"),
            ("features=+nosuch", r"unknown feature '\+nosuch' for \w+; leave it out"),
            (AARCH64 + " features=+dotprod,-avx2", "unknown feature '-avx2' for aarch64"),
            ("triple=x86_64-linux-gnu features=+avx2,fma", r"feature 'fma' has no sign; write \+fma or -fma"),
            ("features=+help", "unknown feature"),
            ("triple=i686-linux-gnu", "'i686-.*linux-gnu' is no CPU .*x86_64 and aarch64"),
            ("triple=aarch64_be-linux-gnu", "'aarch64_be-.*linux-gnu' is no CPU"),
            ("triple=riscv64-linux-gnu", "'riscv64-.*linux-gnu' is no CPU"),
        ]:
            with self.subTest(target):
                done = self.compile("--target", target)
                self.assertRefused(done, "ferrite.cpu/target", f"--target {re.escape(target)}: device cpu: .*{reason}")
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.compiled("--target", AARCH64 + " features=+dotprod,-sve")
        if platform.machine() != "x86_64":
            return
        self.compiled("--target", "x86-64-v2")
        for packaged, expected in zip(self.outputs("layers.fepkg")[0], direct):
            packaged, expected = (np.frombuffer(file[128:], np.float32) for file in (packaged, expected))
            np.testing.assert_allclose(packaged, expected, 1e-5, 1e-6)
        # Instructions that few machines ever had.
        self.compiled("--target", "cpu=x86-64 features=+xop")
        self.assertRefused(self.call("run", "layers.fepkg"), "FE-K53", "no .*xop", UNSUPPORTED)

    def test_devices(self):
        self.compiled()
        self.assertRefused(self.call("run", "layers.fepkg", "--device", "interpreter"), "FE-K53", "interpreter", UNSUPPORTED)
        done = self.call("run", "layers.fepkg", "--device", "interpreter", "--recompile")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRefused(self.compile("--device", "interpreter"), "FE-K54", "interpreter", UNSUPPORTED)
        stub = ("--plugin", Settings.stubs / "acme.c.plugin.toml", "--device", "c")
        self.assertRefused(self.call("run", "layers.fepkg", *stub), "FE-K53", "the device is 'c'", UNSUPPORTED)
        direct, _ = self.outputs("layers.fe", *stub)
        self.compiled(*stub)
        self.assertEqual(self.outputs("layers.fepkg", *stub)[0], direct)

    def test_libraries(self):
        library = ("--plugin", Settings.stubs / "acme.gemm.plugin.toml")
        direct, _ = self.outputs("layers.fe", *library)
        self.compiled(*library)
        self.assertEqual(self.outputs("layers.fepkg", *library)[0], direct)
        self.assertRefused(self.call("run", "layers.fepkg"), "FE-K53", "no enabled plugin has the library 'acme.gemm'", UNSUPPORTED)
        # A target behind it runs.
        best = read(self.package)
        plain, _ = self.outputs("layers.fe")
        self.compiled()
        self.with_another_target(best)
        results, said = self.outputs("layers.fepkg", "--log", "plugins")
        self.assertEqual(results, plain)
        self.assertIn("nothing compiled, for cpu (", said)
        self.assertIn("of the package's targets, 'cpu' (", self.call("run", "layers.fepkg", "--log", "plugins").stderr)
        self.assertEqual(self.outputs("layers.fepkg", *library)[0], direct)
        # None does: each has its reason.
        self.compiled("--target", AARCH64)
        self.with_another_target(best)
        if platform.machine() != "aarch64":
            self.assertRefused(self.call("run", "layers.fepkg"), "FE-K53", "'acme.gemm' that it calls; for 'cpu' .*aarch64", UNSUPPORTED)

    def with_another_target(self, best):
        """Puts the program of another package before that of the package as it is."""
        after = [replace(section, target=1) for section in read(self.package) if section.kind in (PROGRAM, CODE)]
        self.assertEqual(read(self.package)[-1], best[-1])  # the weights
        self.package.write_bytes(written([*best[:3], *after, *best[3:]]))

    def test_explained(self):
        """A package keeps no ledger: what it is made of is compiled again, and gives that of the model."""
        self.compiled()
        told = [self.call("explain", *words, "--json") for words in (("layers.fe", "--dim", "n=16"), ("layers.fepkg",))]
        for done in told:
            self.assertEqual(done.returncode, OK, done.stderr)
        fusions = [[record for record in json.loads(done.stdout) if record["kind"] == "fusion"] for done in told]
        self.assertTrue(fusions[0])
        self.assertEqual(*fusions)

    def test_what_cannot_be_packaged(self):
        (self.folder / "sum.fe").write_text(RUNNING_SUM)
        words = ("compile", "sum.fe", "-o", "sum.fepkg", "--plugin", Settings.plugins / "c_kernel.so")
        self.assertRefused(self.call(*words), "FE-K54", "'.*' is a function in a plugin", UNSUPPORTED)
        self.assertRefused(self.call("compile", "layers.fe", "-o", "p.fepkg"), "FE-C05", "--dim n=N", USAGE)

    def test_packages_that_cannot_be_written(self):
        self.assertRefused(self.compile(name="none/layers.fepkg"), "FE-K55", "none/layers.fepkg: there is no folder 'none'; make it")
        self.package.mkdir()
        self.assertRefused(self.compile(), "FE-K55", "is no regular file")
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), ["layers.fe", "layers.fepkg", "x.npy"])
        self.assertRefused(self.compile(name="layers.out"), "FE-C01", r"ends in \.fepkg", USAGE)
        self.assertRefused(self.compile(name=".fepkg"), "FE-C01", r"ends in \.fepkg", USAGE)

    def test_embedding(self):
        """A package where ferrite.h loads a model."""
        if b"__asan_init" in Path(Settings.library).read_bytes():
            self.skipTest("a library with a sanitizer loads into programs that have it too")
        direct, _ = self.outputs("layers.fe")
        self.compiled()
        runtime = ctypes.CDLL(str(Settings.library))

        class Tensor(ctypes.Structure):
            _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                        ("dtype", ctypes.c_uint8 * 2), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]  # fmt: skip

        def tensor(array):
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            return Tensor(array.ctypes.data, (1, 0), array.ndim, (2, 32), 1, shape, None, 0)

        def check(status):
            self.assertEqual(status, 0)

        session, model = ctypes.c_void_p(), ctypes.c_void_p()
        check(runtime.ferrite_session_open(None, ctypes.byref(session)))
        check(runtime.ferrite_model_load(session, str(self.package).encode(), ctypes.byref(model)))
        arrays = [np.load(self.folder / "x.npy"), np.empty((16, 32), np.float32), np.empty(32, np.float32)]
        x, *results = [tensor(array) for array in arrays]
        pointers = (ctypes.POINTER(Tensor) * 2)(*map(ctypes.pointer, results))
        check(runtime.ferrite_run(model, (ctypes.POINTER(Tensor) * 1)(ctypes.pointer(x)), ctypes.c_uint64(1), pointers,
                                  ctypes.c_uint64(2)))  # fmt: skip
        for array, file in zip(arrays[1:], direct):
            self.assertEqual(array.tobytes(), file[128:])
        runtime.ferrite_model_free(model)
        self.package.write_bytes(self.package.read_bytes()[:-1])
        refused = runtime.ferrite_model_load(session, str(self.package).encode(), ctypes.byref(model))
        self.assertEqual(refused, 2)
        runtime.ferrite_session_close(session)


if __name__ == "__main__":
    main(__doc__, stubs=BUILD / "lib/ferrite/stubs", plugins=PLUGINS, library=BUILD / "lib/libferrite.so")
