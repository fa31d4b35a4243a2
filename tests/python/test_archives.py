# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Archives of torch.export (.pt2), read without PyTorch. make_archives.py made them."""

import pathlib
import random
import tempfile
import unittest

import ferrite
import numpy as np

folder = pathlib.Path(__file__).parent / "archives"


class ArchiveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.session = ferrite.Session(threads=1)

    def check(self, name):
        data = np.load(folder / f"{name}.npz")
        for kind in ("plain", "core"):
            with self.subTest(kind=kind):
                results = self.session.load(folder / f"{name}.{kind}.pt2").run(data["input"])
                expected = [data[f"output{k}"] for k in range(len(data.files) - 1)]
                self.assertEqual(len(results), len(expected))
                for result, one in zip(results, expected):
                    self.assertEqual(result.dtype, one.dtype)
                    np.testing.assert_allclose(result, one, rtol=1e-4, atol=1e-5)

    def test_parameters_buffers_and_constants(self):
        self.check("perceptron")

    def test_convolutions_with_channels_last(self):
        self.check("convolutions")

    def test_attention(self):
        self.check("attention")

    def test_signature(self):
        model = self.session.load(folder / "perceptron.plain.pt2")
        self.assertEqual([(port.name, port.dtype, port.dims) for port in model.inputs], [("x", "f32", (3, 6))])
        self.assertEqual([port.dtype for port in model.outputs], ["f32", "f32"])

    def test_random_numbers_are_those_of_the_seed(self):
        model = self.session.load(folder / "draws.pt2")
        ones = np.ones(2000, np.float32)
        first, again, other = (model.run(ones, np.array(seed)) for seed in (5, 5, 6))
        for one, same, different in zip(first, again, other):
            np.testing.assert_array_equal(one, same)
            self.assertFalse(np.array_equal(one, different))
        dropped, uniform, normal, integers = first
        self.assertFalse(np.array_equal(np.sort(uniform), np.sort(other[1])))
        self.assertAlmostEqual(np.mean(dropped == 0), 0.25, delta=0.05)
        np.testing.assert_allclose(dropped[dropped != 0], 1 / 0.75, rtol=1e-6)
        self.assertAlmostEqual(uniform.mean(), 0.5, delta=0.035)
        self.assertTrue(0 <= uniform.min() and uniform.max() < 1)
        self.assertAlmostEqual(normal.std(), 1, delta=0.08)
        np.testing.assert_array_equal(np.unique(integers), [3, 4, 5, 6])

    def test_symbolic_sizes_are_refused_with_a_cure(self):
        with self.assertRaises(ferrite.Error) as caught:
            self.session.load(folder / "dynamic.pt2")
        self.assertEqual(caught.exception.code, "FE-I53")
        self.assertIn("without dynamic_shapes", caught.exception.text)

    def test_damage_is_refused(self):
        whole = (folder / "perceptron.core.pt2").read_bytes()
        for contents in (b"", b"PK", whole[: len(whole) // 2], whole[:-40], whole.replace(b"model.json", b"nodel.json")):
            with self.subTest(bytes=len(contents)):
                with self.assertRaises(ferrite.Error) as caught:
                    self.session.load("model.pt2", contents)
                self.assertEqual(caught.exception.code, "FE-I51")

    def test_random_damage_never_crashes(self):
        whole = (folder / "perceptron.core.pt2").read_bytes()
        draw = random.Random(1)
        with tempfile.TemporaryDirectory() as scratch:
            for k in range(200):
                damaged = bytearray(whole)
                for _ in range(draw.randint(1, 6)):
                    damaged[draw.randrange(len(damaged))] = draw.randrange(256)
                path = pathlib.Path(scratch) / f"{k}.pt2"
                path.write_bytes(damaged)
                try:
                    self.session.load(path).run(np.zeros((3, 6), np.float32))
                except (ferrite.Error, ValueError):
                    pass
                path.unlink()


if __name__ == "__main__":
    unittest.main()
