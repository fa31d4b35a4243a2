#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The provider over cuBLASLt, with a library and a driver that stand for the real ones.

Usage: test_cublaslt.py [--ferrite FILE] [--plugins DIRECTORY] [--fakes DIRECTORY] [--driver FILE] [unittest options]
"""

import re
import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

from library_tests import LibraryTests  # noqa: E402
from program import BUILD, OK, ProgramTest, main  # noqa: E402

# Name, inputs, nodes, the candidate that takes all of them, and what the library is asked, as a pattern.
CASES = [
    ("f32", "%x: f32[37,48], %w: f32[48,80]", "%y = matmul(%x, %w)", "cublaslt.matmul",
     "m 80 n 37 k 48 types 0 0 transposed 0 0 epilogue 1 .* alpha 1 beta 0 batches 1"),
    ("f64", "%x: f64[5,48], %w: f64[48,8]", "%y = matmul(%x, %w)", "cublaslt.matmul", "types 1 1 "),
    ("f16", "%x: f16[37,48], %w: f16[48,80]", "%y = matmul(%x, %w)", "cublaslt.matmul", "types 2 2 "),
    ("bf16", "%x: bf16[37,48], %w: bf16[48,80]", "%y = matmul(%x, %w)", "cublaslt.matmul", "types 14 14 "),
    ("weights the other way round", "%x: bf16[64,48], %w: bf16[80,48]",
     "%t = transpose(%w) {perm = [1, 0]}\n%y = matmul(%x, %t)", "cublaslt.matmul", "m 80 n 64 k 48 .* transposed 1 0"),
    ("both the other way round", "%x: f32[48,64], %w: f32[80,48]",
     "%s = transpose(%x) {perm = [1, 0]}\n%t = transpose(%w) {perm = [1, 0]}\n%y = matmul(%s, %t)", "cublaslt.matmul",
     "transposed 1 1"),
    ("a row", "%x: bf16[1,48], %w: bf16[48,256]", "%y = matmul(%x, %w)", "cublaslt.matmul", "m 256 n 1 k 48"),
    ("a column", "%w: bf16[256,48], %x: bf16[48,1]", "%y = matmul(%w, %x)", "cublaslt.matmul", "(m 256 n 1|m 1 n 256) k 48"),
    ("heads", "%x: f16[2,6,33,16], %w: f16[2,6,16,40]", "%y = matmul(%x, %w)", "cublaslt.matmul", "batches 12 "),
    ("heads that are not side by side", "%x: f32[2,33,6,16], %w: f32[2,40,6,16]",
     "%s = transpose(%x) {perm = [0, 2, 1, 3]}\n%t = transpose(%w) {perm = [0, 2, 3, 1]}\n%y = matmul(%s, %t)", "cublaslt.matmul",
     "batches 6 "),
    ("a batch of one operand", "%x: f32[3,9,16], %w: f32[16,40]", "%y = matmul(%x, %w)", "cublaslt.matmul", "n 27 .*batches 1 "),
    ("batches of two dims that are repeated", "%x: f32[2,1,9,16], %w: f32[3,16,8]", "%y = matmul(%x, %w)", "cublaslt.matmul",
     "batches [23] "),
    ("bias", "%x: f32[37,48], %w: f32[48,80], %b: f32[80]", "%m = matmul(%x, %w)\n%y = add(%m, %b)", "cublaslt.matmul.bias",
     "epilogue 4 bias 0"),
    ("bias and relu", "%x: bf16[2,37,48], %w: bf16[48,80], %b: bf16[80]", "%m = matmul(%x, %w)\n%s = add(%b, %m)\n%y = relu(%s)",
     "cublaslt.matmul.bias.act", "epilogue 6 bias 14"),
    ("the approximate gelu", "%x: f16[37,48], %w: f16[48,80], %b: f16[80]",
     '%m = matmul(%x, %w)\n%s = add(%m, %b)\n%y = gelu(%s) {approximate = "tanh"}', "cublaslt.matmul.bias.act", "epilogue 36 bias 2"),
    ("gelu alone", "%x: f32[37,48], %w: f32[48,80]", '%m = matmul(%x, %w)\n%y = gelu(%m) {approximate = "tanh"}',
     "cublaslt.matmul.act", "epilogue 32 bias -1"),
    ("residual", "%x: bf16[2,37,48], %w: bf16[48,80], %b: bf16[80], %r: bf16[2,37,80]",
     "%m = matmul(%x, %w)\n%s = add(%m, %b)\n%y = add(%r, %s)", "cublaslt.matmul.bias.sum", "epilogue 4 .* beta 1"),
    ("gemm", "%x: f32[37,48], %w: f32[80,48], %b: f32[80]", "%y = gemm(%x, %w, %b) {trans_b = true}", "cublaslt.matmul.bias",
     "transposed 1 0 epilogue 4"),
    ("a convolution of points", "%x: f32[2,9,10,24], %w: f32[40,24,1,1]",
     "%t = transpose(%x) {perm = [0, 3, 1, 2]}\n%y = conv(%t, %w)", "cublaslt.matmul", "k 24"),
]  # fmt: skip


class CublasLtTest(LibraryTests, ProgramTest):
    kind, fake = "cublaslt", "fake_lt"
    small = ("%x: f32[37,48], %w: f32[48,80], %b: f32[80]", '%m = matmul(%x, %w) from "the_node"\n%y = add(%m, %b)')
    large = ("%x: f32[1024,1024], %w: f32[1024,1024], %b: f32[1024]", "%m = matmul(%x, %w)\n%y = add(%m, %b)")
    part = "cublaslt.matmul"
    search, launch = "search", "multiply"
    functions = ("cublasLtCreate", r"the product gives CUBLAS_STATUS_EXECUTION_FAILED \(13\)")
    versions = (("110300", "11.3.0"), "130100", "130200")
    ways = ("algorithm 1 ", "algorithm 2 ")
    advice = "install cuBLAS of CUDA 12 or 13"

    def test_what_it_asks_for(self):
        for name, inputs, nodes, candidate, pattern in CASES:
            with self.subTest(name):
                ledger, call = self.compute(inputs, nodes)
                self.assertRegex(ledger, rf"chosen .* <-  {re.escape(candidate)}: covers (\d) of \1 ")
                self.assertRegex(call, pattern)

    def test_padded_rows(self):
        """What lives between two products has rows that begin with lines."""
        ledger, _ = self.compute("%x: bf16[64,48], %w: bf16[48,1003], %v: bf16[1003,40]", "%m = matmul(%x, %w)\n%y = matmul(%m, %v)")
        self.assertRegex(self.explain("--layouts"), r"padded .* strides \[1003, 1\] -> \[1024, 1\]")
        self.assertEqual(len(re.findall(r"chosen .* <-  cublaslt.matmul: covers 1 of 1 ", ledger)), 2)
        self.assertEqual(len(self.calls("multiply")), 2)

    def test_parts(self):
        """Dims that fill no vectors of 16 bytes, in rows that begin at some: the library has no fast algorithm for the whole."""
        self.manifest(price=1e-9)
        ledger, _ = self.compute(
            "%x: bf16[64,2048], %w: bf16[1531,2048], %b: bf16[1531], %v: bf16[1531,40], %c: bf16[40]",
            "%t = transpose(%w) {perm = [1, 0]}\n%m = matmul(%x, %t)\n%s = add(%m, %b)\n%p = matmul(%s, %v)\n"
            "%q = add(%p, %c)\n%y = relu(%q)")  # fmt: skip
        self.assertRegex(ledger, r"chosen .* <-  cublaslt.matmul.bias.parts: covers (\d) of \1 ")
        self.assertRegex(ledger, r"refused \(cost\) .* <-  cublaslt.matmul.bias: covers")
        self.assertRegex(ledger, r"chosen .* <-  cublaslt.matmul.bias.act.parts: covers (\d) of \1 ")
        patterns = ("m 3 n 64 k 2048 .* epilogue 4 .* beta 0 ", "m 1528 n 64 k 2048 .* epilogue 4 .* beta 0 ",
                    "m 40 n 64 k 3 .* epilogue 1 .* beta 0 ", "m 40 n 64 k 1528 .* epilogue 6 .* beta 1 ")  # fmt: skip
        calls = self.calls("multiply")
        self.assertEqual(len(calls), len(patterns))
        for call, pattern in zip(calls, patterns):
            self.assertRegex(call, pattern)

    def test_parts_of_columns_and_depth(self):
        inputs = "%x: f16[1027,256], %w: f16[1027,256]"
        nodes = """%a = slice(%x) {starts = [0, 0], sizes = [1027, 251], strides = [1, 1]}
%t = transpose(%a) {perm = [1, 0]}
%b = slice(%w) {starts = [0, 8], sizes = [1027, 248], strides = [1, 1]}
%m = matmul(%t, %b)
%y = relu(%m)"""
        self.graph(inputs, nodes)
        lock = self.folder / "g.lock"
        self.assertEqual(self.run_it("--lock-decisions", lock).returncode, OK)
        whole = 'candidate = "cublaslt.matmul.act"'
        self.assertIn(whole, lock.read_text())
        lock.write_text(lock.read_text().replace(whole, 'candidate = "cublaslt.matmul.act.parts"'))
        self.compute(inputs, nodes, "--decisions", lock)  # so small a product is cheaper as a whole
        patterns = ("m 248 n 3 k 1027 .* epilogue 2 .* beta 0 ", "m 248 n 248 k 3 .* epilogue 1 .* beta 0 ",
                    "m 248 n 248 k 1024 .* epilogue 2 .* beta 1 ")  # fmt: skip
        calls = self.calls("multiply")
        self.assertEqual(len(calls), len(patterns))
        for call, pattern in zip(calls, patterns):
            self.assertRegex(call, pattern)

    def test_what_has_no_parts(self):
        """Rows that begin anywhere, f32, a residual or few products beside the rest of the depth."""
        self.manifest(price=1e-9)
        for inputs, nodes in [
            ("%x: bf16[64,2048], %w: bf16[2048,1003]", "%y = matmul(%x, %w)"),
            ("%x: f32[64,2048], %w: f32[2048,1003]", "%y = matmul(%x, %w)"),
            ("%x: bf16[1027,64], %w: bf16[1027,1024], %r: bf16[64,1024]",
             "%t = transpose(%x) {perm = [1, 0]}\n%m = matmul(%t, %w)\n%y = add(%m, %r)"),
            ("%x: bf16[515,64], %w: bf16[515,1024]", "%t = transpose(%x) {perm = [1, 0]}\n%y = matmul(%t, %w)"),
        ]:  # fmt: skip
            with self.subTest(inputs):
                self.graph(inputs, nodes)
                self.assertNotIn(".parts", self.explain())

    def test_what_it_leaves(self):
        for name, inputs, nodes, part in [
            ("the gelu of erf", "%x: bf16[1024,1024], %w: bf16[1024,1024], %b: bf16[1024]",
             "%m = matmul(%x, %w)\n%s = add(%m, %b)\n%y = gelu(%s)", "cublaslt.matmul: covers 1 of 2"),
            ("a bias by rows", "%x: f32[1024,1024], %w: f32[1024,1024], %b: f32[1024,1]", "%m = matmul(%x, %w)\n%y = add(%m, %b)",
             "cublaslt.matmul: covers 1 of 2"),
            ("sums behind an activation", "%x: f32[1024,1024], %w: f32[1024,1024], %r: f32[1024,1024]",
             "%m = matmul(%x, %w)\n%s = relu(%m)\n%y = add(%s, %r)", "cublaslt.matmul.act: covers 2 of 3"),
            ("a factor", "%x: f16[1024,1024], %w: f16[1024,1024]", "%m = matmul(%x, %w)\n%c = literal f16[] {0.125}\n%y = mul(%m, %c)",
             "cublaslt.matmul: covers 1 of 2"),
            ("a second residual", "%x: f32[1024,1024], %w: f32[1024,1024], %r: f32[1024,1024], %s: f32[1024,1024]",
             "%m = matmul(%x, %w)\n%a = add(%m, %r)\n%y = add(%a, %s)", "cublaslt.matmul.sum: covers 2 of 3"),
        ]:  # fmt: skip
            with self.subTest(name):
                self.graph(inputs, nodes)
                self.assertRegex(self.explain(), rf"chosen .* <-  {part} ")

    def test_what_it_declines(self):
        for name, inputs, nodes, reason in [
            ("integers", "%x: i32[37,48], %w: i32[48,80]", "%y = matmul(%x, %w)", "cuBLASLt multiplies no i32"),
            ("a window", "%x: f32[1,8,9,9], %w: f32[8,8,3,3]", "%y = conv(%x, %w)", "it is a convolution"),
        ]:  # fmt: skip
            with self.subTest(name):
                self.graph(inputs, nodes)
                self.assertRegex(self.explain(), rf"refused \(declined\) .* <-  cublaslt: .*{reason}")

    def test_tf32_is_asked_for(self):
        self.graph(*self.small)
        self.assertEqual(self.run_it().returncode, OK)
        self.assertRegex(self.calls("describe")[0], "compute 68 scale 0")
        self.manifest(tf32="true")
        self.assertRegex(self.explain(), "cublaslt.matmul.tf32.bias")
        self.assertEqual(self.run_it().returncode, OK)
        self.assertRegex(self.calls("describe")[0], "compute 77 scale 0")
        manifest = self.folder / "ferrite.toml"
        self.manifest()
        manifest.write_text(manifest.read_text().replace("[pipeline]", "[pipeline]\ntf32 = true"))
        self.assertRegex(self.explain(), "cublaslt.matmul.tf32.bias")

    def test_algorithms(self):
        self.graph("%x: f32[512,512], %w: f32[512,512]", "%y = matmul(%x, %w)")
        explained = self.explain(FAKE_LIBRARY_WORKSPACE="4096")
        self.assertRegex(explained, r"chosen .* <-  cublaslt.matmul: covers")
        self.assertRegex(explained, r"refused \(cost\) .* <-  cublaslt.matmul#2: covers")
        self.manifest(choices=1)
        self.assertNotIn("matmul#2", self.explain())

    def test_tuning_chooses_among_algorithms(self):
        self.graph("%x: f32[64,64], %w: f32[64,64]", "%y = matmul(%x, %w)")
        done = self.run_it("--tune", "1")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual({re.search(r"algorithm (\d)", line).group(1) for line in self.calls("multiply")}, {"1", "2"})

    def test_another_version_searches_again(self):
        self.graph(*self.small)
        done = self.call("compile", "g.fe", "--manifest", "ferrite.toml", "-o", "g.fepkg")
        self.assertEqual(done.returncode, OK, done.stderr)
        for version, searches in zip(self.versions[1:], (0, 1)):
            self.assertEqual(self.run_it(model="g.fepkg", FAKE_LIBRARY_VERSION=version).returncode, OK)
            self.assertEqual(len(self.calls("search")), searches)


if __name__ == "__main__":
    main(__doc__, plugins=BUILD / "lib/ferrite/plugins", fakes=BUILD / "lib/ferrite/fakes",
         driver=BUILD / "lib/ferrite/test_drivers/libfake_driver.so")  # fmt: skip
