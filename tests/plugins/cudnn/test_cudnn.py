#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The provider over cuDNN, with a library and a driver that stand for the real ones.

Usage: test_cudnn.py [--ferrite FILE] [--plugins DIRECTORY] [--fakes DIRECTORY] [--driver FILE] [unittest options]
"""

import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

import numpy as np  # noqa: E402
from library_tests import LibraryTests  # noqa: E402
from program import BUILD, ProgramTest, main  # noqa: E402

PADS = "{pads_low = [1, 1], pads_high = [1, 1]}"
# Name, inputs, nodes, the candidate that takes all of them, and what the library is asked, as a pattern.
CASES = [
    ("a window", "%x: f32[2,6,9,10], %w: f32[8,6,3,3]", f"%y = conv(%x, %w) {PADS}", "cudnn.conv",
     "types 0 x 2 6 9 10 w 8 6 3 3 y 2 8 9 10 order 54 9 3 1 strides 1 1 dilations 1 1 low 1 1 high 1 1$"),
    ("strides, dilations, uneven padding", "%x: f32[1,3,15,14], %w: f32[4,3,3,2]",
     "%y = conv(%x, %w) {pads_low = [2, 0], pads_high = [1, 1], strides = [2, 3], dilations = [2, 1]}", "cudnn.conv",
     "strides 2 3 dilations 2 1 low 2 0"),
    ("no padding", "%x: f16[2,4,9,9], %w: f16[8,4,3,3]", "%y = conv(%x, %w)", "cudnn.conv", "types 2 .*low 0 0 high 0 0$"),
    ("channels innermost", "%x: bf16[2,9,10,8], %w: bf16[8,8,3,3]",
     f"%t = transpose(%x) {{perm = [0, 3, 1, 2]}}\n%y = conv(%t, %w) {PADS}", "cudnn.conv",
     "types 9 x 2 8 9 10"),
    ("bias and relu", "%x: f32[2,4,9,9], %w: f32[8,4,3,3], %b: f32[8]", f"%c = conv(%x, %w, %b) {PADS}\n%y = relu(%c)",
     "cudnn.conv.bias.act", "high 1 1 mode 0 mode 100$"),
    ("residual", "%x: f32[2,4,9,9], %w: f32[8,4,3,3], %b: f32[8], %r: f32[2,8,9,9]",
     f"%c = conv(%x, %w, %b) {PADS}\n%s = add(%c, %r)\n%y = relu(%s)", "cudnn.conv.bias.sum.act", "mode 0 mode 0 mode 100$"),
    ("gelu", "%x: f32[1,4,9,9], %w: f32[8,4,3,3]", f"%c = conv(%x, %w) {PADS}\n%y = gelu(%c)", "cudnn.conv.act", "mode 104$"),
    ("silu", "%x: f32[1,4,9,9], %w: f32[8,4,3,3]", f"%c = conv(%x, %w) {PADS}\n%y = silu(%c)", "cudnn.conv.act", "mode 106$"),
    ("channel by channel", "%x: f32[2,6,9,10], %w: f32[6,1,3,3], %b: f32[6]",
     "%y = conv(%x, %w, %b) {groups = 6, pads_low = [1, 1], pads_high = [1, 1]}", "cudnn.conv.bias", "x 2 6 9 10 w 6 1 3 3"),
    ("groups", "%x: f32[2,6,9,10], %w: f32[8,3,3,3], %b: f32[8]",
     "%y = conv(%x, %w, %b) {groups = 2, pads_low = [1, 1], pads_high = [1, 1]}", "cudnn.conv.bias", "x 2 6 9 10 w 8 3 3 3"),
    ("points with strides", "%x: f32[2,8,10,11], %w: f32[4,8,1,1]", "%y = conv(%x, %w) {strides = [2, 2]}", "cudnn.conv",
     "x 2 8 10 11 w 4 8 1 1 y 2 4 5 6 .* strides 2 2 dilations 1 1 low 0 0 high 0 0$"),
    ("one row", "%x: f32[2,6,50], %w: f32[8,6,5]", "%y = conv(%x, %w) {pads_low = [2], pads_high = [2]}", "cudnn.conv", "w 8 6 1 5"),
]  # fmt: skip


class CuDnnTest(LibraryTests, ProgramTest):
    kind, fake = "cudnn", "fake_dnn"
    small = ("%x: f32[2,4,9,9], %w: f32[8,4,3,3], %r: f32[2,8,9,9]", f'%c = conv(%x, %w) {PADS} from "the_node"\n%y = add(%c, %r)')
    large = ("%x: f32[8,64,56,56], %w: f32[64,64,3,3], %r: f32[8,64,56,56]", f"%c = conv(%x, %w) {PADS}\n%y = add(%c, %r)")
    part = "cudnn.conv"
    search, launch = "search", "execute"
    functions = ("cudnnCreate", r"the convolution gives CUDNN_STATUS_EXECUTION_FAILED \(5000\)")
    versions = (("80900", "8.9.0"), "91900", "92000")
    ways = ("engine 0 ", "engine 1 ")
    advice = "install cuDNN 9"

    def test_what_it_asks_for(self):
        for name, inputs, nodes, candidate, pattern in CASES:
            with self.subTest(name):
                ledger, call = self.compute(inputs, nodes)
                self.assertRegex(ledger, rf"chosen .* <-  {candidate}: covers (\d) of \1 ")
                self.assertRegex(call, pattern)

    def test_constants_are_packed(self):
        dims = [16, 8, 3, 2]
        values = np.random.default_rng(3).normal(size=dims).astype(np.float16)
        (self.folder / "weights.bin").write_bytes(values.tobytes())
        self.graph(
            "%x: f16[2,9,10,8], %b: f16[16]",
            f'#w = weight("weights.bin", 0, {values.nbytes}) : f16[16,8,3,2]\n%t = transpose(%x) {{perm = [0, 3, 1, 2]}}\n'
            f"%c = conv(%t, #w, %b) {PADS}\n%y = relu(%c)")  # fmt: skip
        self.assertRegex(self.explain(), r"(?s)chosen .* <-  cudnn.conv.bias.act: covers.*packing: .* packing for .*conv")
        self.assertEqual(self.run_it().returncode, 0)
        self.assertRegex(self.calls("execute")[0], "w 16 8 3 2 .* order 48 1 16 8")

    def test_windows_cost_less_than_with_the_code_generator(self):
        self.manifest(price=1.0)
        for size, channels, results, window, step in ((28, 128, 128, 3, 1), (14, 256, 256, 3, 1), (7, 512, 512, 3, 1), (56, 256, 512, 1, 2)):
            with self.subTest(size):
                pads = ", ".join(f"{side} = [{window // 2}, {window // 2}]" for side in ("pads_low", "pads_high"))
                weights = bytes(results * channels * window * window * 2)
                (self.folder / "weights.bin").write_bytes(weights)
                self.graph(f"%x: f16[128,{size},{size},{channels}], %b: f16[{results}]",
                           f'#w = weight("weights.bin", 0, {len(weights)}) : f16[{results},{channels},{window},{window}]\n'
                           f"%t = transpose(%x) {{perm = [0, 3, 1, 2]}}\n%c = conv(%t, #w, %b) {{{pads}, strides = [{step}, {step}]}}\n"
                           "%y = transpose(%c) {perm = [0, 2, 3, 1]}")  # fmt: skip
                self.assertRegex(self.explain(), r"chosen .* <-  cudnn.conv.bias: covers (\d) of \1 ")

    def test_what_it_declines(self):
        for name, inputs, nodes, reason in [
            ("f64", "%x: f64[1,4,9,9], %w: f64[8,4,3,3]", "%y = conv(%x, %w)", "cuDNN multiplies no f64"),
            ("a product", "%x: f32[8,9], %w: f32[9,8]", "%y = matmul(%x, %w)", "it is a product"),
            ("three dims", "%x: f32[1,4,5,5,5], %w: f32[8,4,3,3,3]", "%y = conv(%x, %w)", "no window of one or two dims"),
        ]:  # fmt: skip
            with self.subTest(name):
                self.graph(inputs, nodes)
                self.assertRegex(self.explain(), rf"refused \(declined\) .* <-  cudnn: .*{reason}")

    def test_what_has_no_engine_is_said(self):
        self.graph(*self.small)
        nothing = r"no engine for a convolution of f32, images 2x4x9x9, weights 8x4x3x3, results 2x8x9x9"
        done = self.run_it("--log", "plugins", FAKE_LIBRARY_EPILOGUE="0")
        self.assertRegex(done.stderr, nothing + ", a sum")
        compiles = self.explain(FAKE_LIBRARY_ENGINES="1", FAKE_LIBRARY_WAY="0")
        self.assertRegex(compiles, nothing + "; of those that it names there are 2 that compile their code")

    def test_what_is_better_alone(self):
        self.graph("%x: f16[8,64,56,56], %w: f16[64,64,3,3]", f"%c = conv(%x, %w) {PADS}\n%y = relu(%c)")
        self.assertRegex(self.explain(), "chosen .* <-  cudnn.conv: covers 1 of 2")

    def test_results_that_round_more(self):
        tensor_cores, narrow_sums, winograd = 0, 2, 5
        for note, tf32, engine in ((tensor_cores, "false", 1), (tensor_cores, "true", 0), (narrow_sums, "true", 1),
                                   (winograd, "false", 1)):  # fmt: skip
            with self.subTest(note=note, tf32=tf32):
                self.graph(*self.small)
                self.manifest(tf32=tf32)
                self.assertEqual(self.run_it(FAKE_LIBRARY_NOTE=str(note)).returncode, 0)
                self.assertRegex(self.calls("execute")[0], f"engine {engine} ")
        self.assertEqual(self.run_it(FAKE_LIBRARY_WAY="0").returncode, 0)
        self.assertRegex(self.calls("execute")[0], "engine 1 ")


if __name__ == "__main__":
    main(__doc__, plugins=BUILD / "lib/ferrite/plugins", fakes=BUILD / "lib/ferrite/fakes",
         driver=BUILD / "lib/ferrite/test_drivers/libfake_driver.so")  # fmt: skip
