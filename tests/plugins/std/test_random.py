#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Random numbers: the bits of Philox4x32-10, the same on each device and however ops are fused.

Usage: test_random.py [--ferrite FILE] [unittest options]
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import OK, ProgramTest, main  # noqa: E402

MASK = 0xFFFFFFFF
# Of the authors' Random123 1.14, kat_vectors: counter, key, what they give.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((MASK,) * 4, (MASK,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ((0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0), (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
]


def philox(counter, key):
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32) ^ c[1] ^ k[0], b & MASK, (a >> 32) ^ c[3] ^ k[1], a & MASK]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return tuple(c)


def blocks(seed, stream, count):
    split = lambda word: (word & MASK, word >> 32)  # noqa: E731
    return [philox((*split(block), *split(stream)), split(seed)) for block in range(count)]


class RandomTest(ProgramTest):
    def results(self, seed, nodes, outputs, *options):
        """The arrays that the graph of the nodes gives, for the seed and the stream."""
        results = ", ".join(f'%{name} "{name}"' for name in outputs)
        (self.folder / "r.fe").write_text(f"ferrite graph 0\ngraph @r(%seed: u64[2]) -> ({results}) {{\n{nodes}}}\n")
        np.save(self.folder / "seed.npy", np.array(seed, np.uint64))
        done = self.call("run", "r.fe", "-i", "seed=seed.npy", "-o", "out", *options)
        self.assertEqual(done.returncode, OK, done.stderr)
        return [np.load(self.folder / f"out/output_{k}.npy") for k in range(len(outputs))]

    def test_the_reference_knows_what_is_known(self):
        for counter, key, words in KNOWN:
            self.assertEqual(philox(counter, key), words)

    def test_bits(self):
        for seed in [(0, 0), (0x299F31D0A4093822, 0x0370734413198A2E), (2**64 - 1, 7)]:
            (bits,) = self.results(seed, "  %b = random_bits(%seed) {shape = [3, 7, 5]}\n", ["b"])
            self.assertEqual((bits.dtype, bits.shape), (np.uint32, (3, 7, 5)))
            expected = np.array(blocks(*seed, 27), np.uint32).reshape(-1)[: bits.size]
            np.testing.assert_array_equal(bits.reshape(-1), expected)

    def test_the_same_however_it_is_computed(self):
        nodes = """  %u = random_uniform(%seed) {shape = [40, 31]}
  %n = random_normal(%seed) {shape = [40, 31]}
  %b = random_bits(%seed) {shape = [40, 31]}
  %p = mul(%u, %n)
  %s = reduce_max(%u) {axes = [1], keepdims = false}
"""
        seed = (5, 11)
        names = ["u", "n", "b", "p", "s"]
        given = [self.results(seed, nodes, names, *options) for options in ((), ("--device", "interpreter"), ("--without", "fuse"))]
        words = np.array(blocks(*seed, 1240), np.uint64)
        uniform = ((words[:310].reshape(-1) >> 8) * 2.0**-24).reshape(40, 31)
        first, second = (words[:, :2] >> 8).T * 2.0**-24
        normal = (np.sqrt(-2 * np.log(first + 2.0**-24)) * np.cos(2 * np.pi * second)).reshape(40, 31)
        for u, n, b, p, s in given:
            np.testing.assert_array_equal(u, uniform.astype(np.float32))
            np.testing.assert_allclose(n, normal, rtol=1e-5, atol=1e-5)
            np.testing.assert_array_equal(b.reshape(-1), words[:310].astype(np.uint32).reshape(-1))
            np.testing.assert_allclose(p, u * n, rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(s, u.max(1))

    def test_distribution(self):
        nodes = "  %u = random_uniform(%seed) {shape = [200000]}\n  %n = random_normal(%seed) {shape = [200000]}\n"
        u, n = self.results((1, 2), nodes, ["u", "n"])
        self.assertTrue(((u >= 0) & (u < 1)).all())
        self.assertTrue(np.isfinite(n).all())
        for values, mean, deviation in [(u, 0.5, 12**-0.5), (n, 0, 1)]:
            self.assertLess(abs(values.mean() - mean), 0.01)
            self.assertLess(abs(values.std() - deviation), 0.01)
        self.assertLess(abs(np.corrcoef(n[:-1], n[1:])[0, 1]), 0.01)

    def test_a_seed_of_another_type(self):
        for inputs, code in [("%seed: i64[2]", "FE-G61"), ("%seed: u64[3]", "FE-G74")]:
            (self.folder / "r.fe").write_text(
                f'ferrite graph 0\ngraph @r({inputs}) -> (%b "b") {{\n  %b = random_bits(%seed) {{shape = [4]}}\n}}\n')  # fmt: skip
            self.assertRefused(self.call("run", "r.fe"), code, "random_bits")


if __name__ == "__main__":
    main(__doc__)
