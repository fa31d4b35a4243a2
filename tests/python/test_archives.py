# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Archives of torch.export (.pt2), read without PyTorch. make_archives.py made them."""

import io
import json
import pathlib
import random
import tempfile
import unittest
import zipfile

import ferrite
import numpy as np

folder = pathlib.Path(__file__).parent / "archives"


def edited(name, edit):
    """The bytes of an archive after a change of its program, `edit(model)`."""
    made = io.BytesIO()
    with zipfile.ZipFile(folder / f"{name}.pt2") as old, zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as new:
        for entry in old.infolist():
            contents = old.read(entry)
            if entry.filename.endswith("models/model.json"):
                model = json.loads(contents)
                edit(model)
                contents = json.dumps(model)
            new.writestr(entry.filename, contents)
    return made.getvalue()


def nodes_of(model, target):
    """The nodes of the outermost graph that call an overload."""
    return [one for one in model["graph_module"]["graph"]["nodes"] if one["target"] == f"torch.ops.{target}"]


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

    def inputs_of(self, name):
        data = np.load(folder / f"{name}.npz")
        return [data[f"input{k}"].copy() for k in range(sum(one.startswith("input") for one in data.files))]

    def check_eager(self, name, rtol=1e-4):
        """Results and the contents of the inputs after the run equal those of eager PyTorch."""
        data, inputs = np.load(folder / f"{name}.npz"), self.inputs_of(name)
        results = self.session.load(folder / f"{name}.pt2").run(*inputs)
        expected = [data[f"output{k}"] for k in range(sum(one.startswith("output") for one in data.files))]
        self.assertEqual(len(results), len(expected))
        for k, (result, one) in enumerate(zip(results, expected)):
            with self.subTest(output=k):
                self.assertEqual(result.dtype, one.dtype)
                np.testing.assert_allclose(result, one, rtol=rtol, atol=1e-5)
        for k, after in enumerate(inputs):
            with self.subTest(input=k):
                np.testing.assert_array_equal(after, data[f"after{k}"])

    def test_whole_tensors_are_written_in_place(self):
        self.check_eager("writes")

    def test_views_and_their_bases_see_writes(self):
        self.check_eager("views")

    def test_inputs_and_buffers_are_written(self):
        self.check_eager("inputs")

    def test_graphs_in_graphs(self):
        self.check_eager("graphs", rtol=1e-2)  # bf16

    def test_recurrent_layers(self):
        self.check_eager("recurrent")

    def refused(self, name, code, *words, inputs, edit=lambda model: None):
        with self.assertRaises(ferrite.Error) as caught:
            self.session.load("model.pt2", edited(name, edit)).run(*inputs)
        self.assertEqual(caught.exception.code, code, caught.exception.text)
        for word in words:
            self.assertIn(word, caught.exception.text)

    def test_writes_to_overlapping_elements_are_refused(self):
        words = "node 'add_'", "aten.add_.Tensor", "overlap", "run_decompositions()"
        self.refused("overlapping", "FE-I53", *words, inputs=[np.zeros((3, 3), np.float32)])

    def test_writes_to_a_part_of_a_shared_buffer_are_refused(self):
        self.refused("shared", "FE-I53", "'part', which shares memory with 'all'", inputs=[np.zeros(3, np.float32)])

    def test_an_overload_that_is_missing_is_named_with_a_cure(self):
        def rename(model):
            nodes_of(model, "aten.add_.Tensor")[0]["target"] = "torch.ops.aten.unknown_.Tensor"

        words = "aten.unknown_.Tensor", "the first is node 'add_'", "run_decompositions()"
        self.refused("writes", "FE-I50", *words, inputs=self.inputs_of("writes"), edit=rename)

    def test_a_higher_order_operator_that_is_missing_is_named(self):
        def rename(model):
            nodes_of(model, "higher_order.cond")[0]["target"] = "torch.ops.higher_order.unknown"

        self.refused("graphs", "FE-I50", "higher_order.unknown", "node 'cond'", inputs=[], edit=rename)

    def test_damaged_calls_are_refused(self):
        def too_few(model):
            nodes_of(model, "higher_order.wrap_with_set_grad_enabled")[0]["inputs"].pop()

        def no_strides(model):
            model["graph_module"]["graph"]["tensor_values"]["x"]["strides"].pop()

        def no_self(model):
            nodes_of(model, "aten.slice.Tensor")[0]["inputs"].reverse()

        def bad_dims(model):
            nodes_of(model, "aten.permute.default")[0]["inputs"][1]["arg"] = {"as_ints": [1, 1]}

        self.refused("graphs", "FE-I51", "number of arguments", inputs=[], edit=too_few)
        self.refused("views", "FE-I51", "strides", inputs=[], edit=no_strides)
        self.refused("views", "FE-I53", "first argument", inputs=[], edit=no_self)
        self.refused("views", "FE-I53", "aten.permute.default", inputs=[], edit=bad_dims)

    def test_random_edits_never_crash(self):
        draw = random.Random(2)
        values = (None, -1, 0, 3, 1 << 62, "x", True, [], {"as_int": -1})

        def places_in(value, found):
            items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
            for key, inner in items:
                found.append((value, key))
                places_in(inner, found)
            return found

        def damage(model):
            for _ in range(draw.randint(1, 3)):
                container, key = draw.choice(places_in(model["graph_module"]["graph"], []))
                container[key] = draw.choice(values)

        for name in ("views", "graphs", "inputs") * 30:
            try:
                self.session.load("model.pt2", edited(name, damage)).run(*self.inputs_of(name))
            except (ferrite.Error, ValueError):
                pass

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
