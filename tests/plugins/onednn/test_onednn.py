#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The provider over oneDNN: what it computes against the interpreter, and what it says where the library is none that it can use.

Usage: test_onednn.py [--ferrite FILE] [--plugins DIRECTORY] [--fakes DIRECTORY] [unittest options]
"""

import ctypes
import re
import sys
import unittest
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2])]

from program import BUILD, OK, UNSUPPORTED, ProgramTest, Settings, main  # noqa: E402

try:
    ctypes.CDLL("libdnnl.so.2")
    INSTALLED = True
except OSError:
    INSTALLED = False

# Name, inputs, constants, results, nodes, and the candidate that takes them.
CASES = [
    ("product", "%x: f32[37,48]", "%w: f32[48,80]", "%y = matmul(%x, %w)", "onednn.matmul"),
    ("product of one row", "%x: f32[1,48]", "%w: f32[48,256]", "%y = matmul(%x, %w)", "onednn.matmul"),
    ("weights the other way round", "%x: f32[64,48]", "%w: f32[80,48]",
     "%t = transpose(%w) {perm = [1, 0]}\n%y = matmul(%x, %t)", "onednn.matmul"),
    ("bias, residual and gelu", "%x: f32[2,70,48], %r: f32[2,70,80]", "%w: f32[48,80], %b: f32[80]",
     "%m = matmul(%x, %w)\n%a = add(%m, %b)\n%s = add(%a, %r)\n%y = gelu(%s)", "onednn.matmul.bias.sum.act"),
    ("heads", "%x: f32[2,6,33,16], %w: f32[2,6,16,40]", "", "%y = matmul(%x, %w)", "onednn.matmul"),
    ("sigmoid", "%x: f32[40,48]", "%w: f32[48,64]", "%m = matmul(%x, %w)\n%y = sigmoid(%m)", "onednn.matmul.act"),
    ("bf16", "%x: bf16[64,48]", "%w: bf16[48,64]", "%y = matmul(%x, %w)", "onednn.matmul"),
    ("pointwise", "%x: f32[2,24,9,10], %r: f32[2,40,9,10]", "%w: f32[40,24,1,1], %b: f32[40]",
     "%c = conv(%x, %w, %b)\n%s = add(%c, %r)\n%y = relu(%s)", "onednn.matmul.sum.act"),
    ("window", "%x: f32[1,24,13,11], %r: f32[1,40,7,6]", "%w: f32[40,24,3,3], %b: f32[40]",
     "%c = conv(%x, %w, %b) {pads_low = [1, 1], pads_high = [1, 1], strides = [2, 2]}\n%s = add(%c, %r)\n%y = relu(%s)",
     "onednn.conv.bias.sum.act"),
    ("dilated window", "%x: f32[3,8,15,14]", "%w: f32[16,8,3,2]",
     "%y = conv(%x, %w) {pads_low = [2, 0], pads_high = [1, 1], dilations = [2, 1]}", "onednn.conv"),
    ("images in colour", "%x: f32[1,3,31,33]", "%w: f32[24,3,7,7], %b: f32[24]",
     "%c = conv(%x, %w, %b) {pads_low = [3, 3], pads_high = [3, 3], strides = [2, 2]}\n%y = relu(%c)", "onednn.conv.bias.act"),
    ("one row", "%x: f32[2,16,50]", "%w: f32[24,16,5]", "%y = conv(%x, %w) {pads_low = [2], pads_high = [2]}", "onednn.conv"),
    ("channel by channel", "%x: f32[2,20,14,9]", "%w: f32[20,1,3,3], %b: f32[20]",
     "%c = conv(%x, %w, %b) {groups = 20, pads_low = [1, 1], pads_high = [1, 1]}\n%y = relu(%c)", "onednn.conv.bias.act"),
]  # fmt: skip

COMPUTED = """ferrite graph 0
graph @g(%x: f32[64,256], %q: i8[256,192], %s: f32[192], %i: i32[64,256], %n: i8[256,192]) -> (%y "y", %z "z") {
  %d = cast(%q) {dtype = f32} from "scale"
  %w = mul(%d, %s) from "scale"
  %y = matmul(%x, %w) from "taken"
  %o = cast(%n) {dtype = i32} from "widen"
  %two = literal i32[] {2}
  %p = mul(%o, %two) from "widen"
  %z = matmul(%i, %p) from "others"
}
"""
SMALL = 'ferrite graph 0\ngraph @g(%x: f32[37,48], %w: f32[48,80]) -> (%y "y") {\n  %y = matmul(%x, %w)\n}\n'


class OneDnnTest(ProgramTest):
    def manifest(self, **config):
        settings = ", ".join(f"{key} = {value}" for key, value in config.items())
        (self.folder / "ferrite.toml").write_text(
            'schema = 0\nenable = ["ferrite.onednn"]\n' + f'[plugin."ferrite.onednn"]\nconfig = {{ {settings} }}\n'
        )

    def graph(self, inputs, constants, nodes):
        """Writes it, with the constants as weights in a file; what is not a constant is an input."""
        generator = np.random.default_rng(11)
        text, at, data = "", 0, b""
        for name, dtype, dims in re.findall(r"%(\w+): (\w+)\[([\d,]+)\]", constants):
            values = (generator.normal(size=[int(d) for d in dims.split(",")]) / 4).astype(np.float32)
            raw = values.tobytes()
            if dtype == "bf16":
                raw = (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
            text += f'  #{name} = weight("weights.bin", {at}, {len(raw)}) : {dtype}[{dims}]\n'
            data += raw + bytes(-len(raw) % 64)
            at = len(data)
        (self.folder / "weights.bin").write_bytes(data)
        for name in re.findall(r"%(\w+):", constants):
            nodes = re.sub(rf"%{name}\b", f"#{name}", nodes)
        body = nodes.replace("\n", "\n  ")
        (self.folder / "g.fe").write_text(f'ferrite graph 0\ngraph @g({inputs}) -> (%y "y") {{\n{text}  {body}\n}}\n')

    def result(self, *options):
        done = self.call("run", "g.fe", "--seed", 5, "-o", "out", *options)
        self.assertEqual(done.returncode, OK, done.stderr)
        values = np.load(self.folder / "out/output_0.npy")
        return (values.astype(np.uint32) << 16).view(np.float32) if values.dtype == np.uint16 else values

    def small(self, **config):
        (self.folder / "g.fe").write_text(SMALL)
        self.manifest(**config)
        return self.call("run", "g.fe", "--manifest", "ferrite.toml", "-o", "out")

    def test_a_library_that_is_missing(self):
        done = self.small(library='"libmissing_dnnl.so.2"')
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stderr, r"FE-P85 ferrite.onednn: libmissing_dnnl.so.2: .*Install libdnnl")

    def test_a_library_of_another_version(self):
        for name, pattern in [
            ("newer", r"FE-P86 ferrite.onednn: .* is version 3.1.0, and 2.6 or a later 2 is needed"),
            ("older", r"FE-P86 ferrite.onednn: .* is version 2.5.0"),
            ("empty", r"FE-P86 ferrite.onednn: the library has no function 'dnnl_engine_create'"),
        ]:
            with self.subTest(name):
                done = self.small(library=f'"{Settings.fakes}/fake_dnnl_{name}.so"')
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assertRegex(done.stderr, pattern)

    @unittest.skipUnless(INSTALLED, "libdnnl.so.2 is not installed")
    def test_what_it_computes(self):
        for name, inputs, constants, nodes, candidate in CASES:
            with self.subTest(name):
                if "bf16" in inputs and "avx512bw" not in Path("/proc/cpuinfo").read_text():
                    self.skipTest("oneDNN multiplies bf16 on machines with AVX-512 only")
                self.graph(inputs, constants, nodes)
                expected = self.result("--device", "interpreter")
                self.manifest(price=0.0)
                explained = self.call("explain", "--all", "g.fe", "--manifest", "ferrite.toml").stdout
                self.assertRegex(explained, rf"chosen .* <-  {re.escape(candidate)}: covers")
                tolerance = 2e-2 if "bf16" in inputs else 2e-5
                for threads in (1, 2, 3):
                    np.testing.assert_allclose(self.result("--manifest", "ferrite.toml", "--threads", threads), expected, tolerance, tolerance)

    @unittest.skipUnless(INSTALLED, "libdnnl.so.2 is not installed")
    def test_nan_stays(self):
        for nodes in ("%m = matmul(%x, %w)\n%y = relu(%m)", "%m = matmul(%x, %w)\n%y = gelu(%m)"):
            self.graph("%x: f32[40,48]", "%w: f32[48,64]", nodes)
            self.manifest(price=0.0)
            values = np.ones((40, 48), np.float32)
            values[3, 5] = np.nan
            np.save(self.folder / "x.npy", values)
            nans = np.isnan(self.result("--manifest", "ferrite.toml", "-i", "x=x.npy"))
            self.assertTrue(nans[3].all())
            self.assertEqual(nans.sum(), 64)

    @unittest.skipUnless(INSTALLED, "libdnnl.so.2 is not installed")
    def test_nan_stays_in_windows(self):
        for channels, act in ((1, "sigmoid"), (1, "relu"), (1, "silu"), (1, "tanh"), (8, "sigmoid"), (8, "gelu")):
            with self.subTest(channels=channels, act=act):
                self.graph("%x: f32[1,3,9,11]", f"%w: f32[{channels},3,3,3]",
                           f"%z = conv(%x, %w) {{pads_low = [1, 1], pads_high = [1, 1]}}\n%y = {act}(%z)")  # fmt: skip
                self.manifest(price=0.0)
                values = np.ones((1, 3, 9, 11), np.float32)
                values[0, 1, 4, 5] = np.nan
                np.save(self.folder / "x.npy", values)
                nans = np.isnan(self.result("--manifest", "ferrite.toml", "-i", "x=x.npy"))
                self.assertEqual(nans.sum(), 9 * channels)

    @unittest.skipUnless(INSTALLED, "libdnnl.so.2 is not installed")
    def test_packages_hold_what_it_made(self):
        self.graph("%x: f32[40,48], %i: f32[1,24,13,11]", "%w: f32[48,64], %k: f32[40,24,3,3]", "%y = matmul(%x, %w)\n%z = conv(%i, %k)")
        text = (self.folder / "g.fe").read_text().replace('(%y "y")', '(%y "y", %z "z")')
        (self.folder / "g.fe").write_text(text)
        expected = [self.result(), np.load(self.folder / "out/output_1.npy")]
        self.manifest(price=0.0)
        done = self.call("compile", "g.fe", "--manifest", "ferrite.toml", "-o", "g.fepkg")
        self.assertEqual(done.returncode, OK, done.stderr)
        done = self.call("run", "g.fepkg", "--manifest", "ferrite.toml", "--seed", 5, "-o", "out")
        self.assertEqual(done.returncode, OK, done.stderr)
        for index, values in enumerate(expected):
            np.testing.assert_allclose(np.load(self.folder / f"out/output_{index}.npy"), values, 2e-5, 2e-5)
        self.assertRefused(self.call("run", "g.fepkg"), "FE-K53", "no enabled plugin has the library 'onednn'", UNSUPPORTED)

    @unittest.skipUnless(INSTALLED, "libdnnl.so.2 is not installed")
    def test_the_price_decides(self):
        self.graph("%x: f32[37,48]", "%w: f32[48,80]", "%y = matmul(%x, %w)")
        self.manifest(price=1e9)
        self.assertRegex(self.call("explain", "--all", "g.fe", "--manifest", "ferrite.toml").stdout, r"refused \(cost\) .* <-  onednn.matmul")

    @unittest.skipUnless(INSTALLED, "libdnnl.so.2 is not installed")
    def test_operands_are_computed_where_that_costs_less(self):
        """Of two products whose operands are computed oneDNN may have one; the other is of integers, which it does not take."""
        (self.folder / "g.fe").write_text(COMPUTED)
        expected = self.result("--device", "interpreter")
        for price, chosen in ((0.0, True), (1e9, False)):
            self.manifest(price=price)
            explained = self.call("explain", "--all", "g.fe", "--manifest", "ferrite.toml").stdout
            self.assertNotIn("switched off", explained)
            self.assertEqual(bool(re.search(r"chosen .*taken.* <-  onednn.matmul: covers", explained)), chosen, explained)
            self.assertRegex(explained, r"refused \(cost\)  scale, scale  <-  taken: it is stored for onednn.matmul: "
                             r"\S+ us with the map, \S+ us where it is computed"
                             if chosen else r"fused  scale, scale  <-  taken")  # fmt: skip
            self.assertRegex(explained, r"fused  widen, widen  <-  others")
            np.testing.assert_allclose(self.result("--manifest", "ferrite.toml"), expected, 2e-5, 2e-5)

    @unittest.skipUnless(INSTALLED, "libdnnl.so.2 is not installed")
    def test_plugin_check(self):
        sample = Path(__file__).resolve().parent / "sample.fe"
        done = self.call("plugin", "check", Settings.plugins / "ferrite.onednn.plugin.toml", "--level", "L1", "--level", "L2",
                         "--level", "L3", "--sample", sample)  # fmt: skip
        self.assertEqual(done.returncode, OK, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"L2 passed   provider onednn: damaged kernels: [1-9]")
        self.assertRegex(done.stdout, r"L3 passed   provider onednn: programs: [1-9]\d* parts of [1-9]")


if __name__ == "__main__":
    main(__doc__, plugins=BUILD / "lib/ferrite/plugins", fakes=BUILD / "lib/ferrite/fakes")
