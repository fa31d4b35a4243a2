#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ops of models that plugins read: by name, by an alias, by an import handler; the right values are numpy's.

Usage: test_plugin_ops.py [--ferrite FILE] [--plugins DIRECTORY] [unittest options]
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from models import ModelTest  # noqa: E402
from program import BAD_INPUT, BUILD, INTERNAL, OK, UNSUPPORTED, Settings, main  # noqa: E402

X = np.linspace(-2, 3, 6, dtype=np.float32).reshape(2, 3)


class PluginOps(ModelTest):
    def node(self, op, inputs=("x",), outputs=("y",), domain="com.test", **attributes):
        """A model of one node."""
        node = helper.make_node(op, list(inputs), list(outputs), name="it", domain=domain, **attributes)
        ports = {name: [2, 3] for name in inputs if name}
        return self.save([node], ports, dict.fromkeys(outputs), domains=("com.test", "test"), versions=self.versions)

    versions = {}

    def plugin(self):
        return ("--plugin", Settings.plugins / "readers.so")

    def values(self, count=1, **inputs):
        return self.results(*self.plugin(), count=count, **(inputs or {"x": X}))

    def refused(self, code, pattern, status=BAD_INPUT, **inputs):
        self.assertRefused(self.run_saved(*self.plugin(), **(inputs or {"x": X})), code, pattern, status)


class ByDefinition(PluginOps):
    """Nodes as ops of a definition: by name and by alias alike."""

    def test_by_name_and_by_alias(self):
        for op, domain in (("affine", "test"), ("Affine", "com.test")):
            with self.subTest(op=op):
                self.node(op, domain=domain, scale=2.5)
                np.testing.assert_array_equal(self.values()[0], X * np.float32(2.5))
                self.node(op, ("x", "b"), domain=domain, scale=0.5, negate=1, times=3)
                np.testing.assert_array_equal(self.values(x=X, b=X * 4)[0], X * np.float32(-1.5) + X * 4)

    def test_an_alias_of_another_plugins_op(self):
        self.node("Gelu")
        from math import erf

        wanted = [v * (1 + erf(v / 2**0.5)) / 2 for v in X.astype(np.float64).ravel()]
        np.testing.assert_allclose(self.values()[0].ravel(), wanted, rtol=1e-5, atol=1e-6)

    def test_element_types(self):
        node = helper.make_node("Affine", ["x"], ["y"], domain="com.test", scale=1.0, dtype=TensorProto.DOUBLE)
        self.save([node], {"x": [2, 3]}, {})
        model = onnx.load(self.folder / "model.onnx")
        model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.DOUBLE, None))
        (self.folder / "model.onnx").write_bytes(model.SerializeToString())
        (found,) = self.values()
        self.assertEqual(found.dtype, np.float64)
        np.testing.assert_array_equal(found, X)

    def test_absent_and_variadic_operands(self):
        self.node("Affine", ("x", ""), scale=1.0)
        np.testing.assert_array_equal(self.values()[0], X)
        for count in (1, 2, 4):
            names = [f"x{k}" for k in range(count)]
            self.node("Sum", names)
            given = {name: X + k for k, name in enumerate(names)}
            np.testing.assert_array_equal(self.values(**given)[0], sum(given.values()))

    def test_several_results(self):
        self.node("Both", outputs=("y", "z"))
        y, z = self.values(count=2)
        np.testing.assert_array_equal(y, -X)
        np.testing.assert_array_equal(z, np.abs(X))
        self.node("Both", outputs=("y",))
        np.testing.assert_array_equal(self.values()[0], -X)

    def test_what_does_not_fit(self):
        place = r"node 'it' \(com.test.Affine, opset 1\): "
        for attributes, pattern in (
            ({}, "needs attribute 'scale'"),
            ({"scale": 1.0, "negat": 1}, "no attribute 'negat'; did you mean 'negate'"),
            ({"scale": 1.0, "negate": 2}, "'negate' is 2, .* takes 0 or 1"),
            ({"scale": "a"}, "'scale' is a string, .* takes a float"),
            ({"scale": 1.0, "times": 1.5}, "'times' is a float, .* takes an integer"),
            ({"scale": 1.0, "sizes": [1.5]}, "'sizes' is .*floats.* takes .*integers"),
            ({"scale": 1.0, "dtype": TensorProto.STRING}, "'dtype' is 8, .* no element type"),
            ({"scale": 1.0, "label": numpy_helper.from_array(X)}, "'label' is a tensor"),
        ):
            with self.subTest(pattern=pattern):
                self.node("Affine", **attributes)
                self.refused("FE-I23", place + ".*" + pattern)
        self.node("Affine", ("x", "b", "c"), scale=1.0)
        self.refused("FE-I23", place + r"the node has 3 inputs, and op 'test.affine' takes 1 to 2 operands \(x, bias\?\)", x=X, b=X, c=X)
        self.node("Affine", ("", "b"), scale=1.0)
        self.refused("FE-I23", place + r"input 0 \('x'\) is missing", b=X)
        self.node("Sum", ("x", "", "b"))
        self.refused("FE-I23", r"input 1 \('others'\) is missing", x=X, b=X)
        self.node("Affine", outputs=("y", "z"), scale=1.0)
        self.refused("FE-I23", place + "the node has 2 outputs, and op 'test.affine' gives 1")
        body = helper.make_graph([], "body", [], [])
        self.node("Affine", scale=1.0, body=body)
        self.refused("FE-I24", place + "attribute 'body' is of a type that plugins are not given", UNSUPPORTED)

    def test_unknown_ops_are_suggested(self):
        self.node("Affin")
        self.refused("FE-I20", "com.test.Affin .*did you mean 'com.test.Affine'", UNSUPPORTED)

    def test_not_without_the_plugin(self):
        self.node("Affine", scale=1.0)
        done = self.run_saved(x=X)
        self.assertRefused(done, "FE-I20", 'com.test.Affine in opset 1 .*alias "onnx:com.test::Affine"', UNSUPPORTED)


class ByHandler(PluginOps):
    def test_versions(self):
        for version, factor in ((1, 2), (2, 2), (4, 3)):
            self.versions = {"com.test": version}
            self.node("Times")
            np.testing.assert_array_equal(self.values()[0], X * factor)
        for version in (3, 5):
            self.versions = {"com.test": version}
            self.node("Times")
            self.refused("FE-I21", rf"com.test.Times in opset {version} .*plugins read versions 1 to 2, 4\)", UNSUPPORTED)

    def save_table(self, **attributes):
        shift = numpy_helper.from_array(np.full([2, 3], 4, np.float32), "shift")
        doubled = helper.make_node("Add", ["shift", "shift"], ["s"])
        node = helper.make_node("Table", ["x", "s"], ["y", "z"], name="it", domain="com.test", **attributes)
        self.save([doubled, node], {"x": [2, 3]}, {"y": None, "z": None}, initializers=[shift])

    def test_several_nodes_tensors_and_constants(self):
        values = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.save_table(values=numpy_helper.from_array(values), factor=0.5)
        y, z = self.values(count=2)
        np.testing.assert_array_equal(z, values + 8)
        np.testing.assert_array_equal(y, X + (values + 8) / 2)
        self.save_table()
        self.refused("test.readers/values", "node 'it'.*attribute 'values' is missing")
        node = helper.make_node("Table", ["x", "x"], ["y"], name="it", domain="com.test", values=numpy_helper.from_array(values))
        self.save([node], {"x": [2, 3]}, {"y": None})
        self.refused("test.readers/shift", "node 'it'.*input 1 must be a constant")

    def test_before_the_importers_own(self):
        for alpha, wanted in ((7.0, X * 100), (2.0, np.where(X < 0, 2 * np.expm1(X / 2), X))):
            self.save([helper.make_node("Celu", ["x"], ["y"], alpha=alpha)], {"x": [2, 3]}, {"y": None})
            np.testing.assert_allclose(self.values()[0], wanted, rtol=1e-6, atol=1e-6)

    def test_before_the_models_functions(self):
        body = [helper.make_node("Neg", ["a"], ["b"])]
        inner = helper.make_function("custom", "Inner", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
        calls = [helper.make_node("Inner", ["x"], ["y"], domain="custom")]
        self.save(calls, {"x": [2, 3]}, {"y": None}, domains=("custom",), functions=[inner])
        np.testing.assert_array_equal(self.values()[0], X * 10)
        np.testing.assert_array_equal(self.results(x=X)[0], -X)

    def test_what_the_handler_ignores(self):
        self.node("Times", x=1)
        self.refused("FE-I44", "node 'it'.*plugin 'test.readers': attribute 'x' is ignored; those that are looked at: none")
        self.node("Times", ("x", "b"))
        self.refused("FE-I44", "node 'it'.*plugin 'test.readers': input 1 of the node's 2 is ignored", x=X, b=X)
        self.node("Times", ("x", ""))
        np.testing.assert_array_equal(self.values()[0], X * 2)
        self.save_table(values=numpy_helper.from_array(X), facto=0.5)
        self.refused("FE-I44", "attribute 'facto' is ignored; those that are looked at: 'values', 'factor'")
        self.save_table(values=numpy_helper.from_array(X), more=numpy_helper.from_array(X))
        self.refused("FE-I44", "attribute 'more' is ignored")

    def test_attributes_of_other_types(self):
        self.save_table(values=numpy_helper.from_array(X), factor=2)
        self.refused("FE-I23", "node 'it'.*plugin 'test.readers': attribute 'factor' is an integer, and a float is wanted")
        self.node("Failing")
        self.refused("FE-I23", "node 'it'.*plugin 'test.readers': attribute 'how' is missing")

    def test_only_a_decline_declines(self):
        """Another reader, a function of the model, is there; the handler's failure is the error all the same."""
        for how, code, pattern, status in (
            ("no op", "FE-G13", "nosuch", UNSUPPORTED),
            ("no attribute", "FE-G15", "strange", BAD_INPUT),
            ("shapes", "FE-G60", "", BAD_INPUT),
            ("exception", "FE-P21", "boom", INTERNAL),
            ("status", "test.readers/unsupported", "not a decline", UNSUPPORTED),
        ):
            with self.subTest(how=how):
                body = [helper.make_node("Neg", ["a"], ["b"])]
                function = helper.make_function("com.test", "Failing", ["a"], ["b"], body, [helper.make_opsetid("", 17)], ["how"])
                call = helper.make_node("Failing", ["x"], ["y"], name="it", domain="com.test", how=how)
                self.save([call], {"x": [2, 3]}, {"y": None}, domains=("com.test",), functions=[function])
                self.refused(code, "node 'it' .*: the import handler of plugin 'test.readers': .*" + pattern, status)

    def test_wrong_ones(self):
        self.node("Never")
        self.refused("FE-I41", "node 'it'.*plugin 'test.readers' declines it: .*never for anything", UNSUPPORTED)
        for op, pattern in (("Nothing", "'test.readers' gave nothing for result 0"), ("TooMany", "2 results for a node that has 1"),
                            ("Input", "'test.readers' added an input or output")):  # fmt: skip
            self.node(op)
            self.refused("FE-I42", "node 'it'.*" + pattern)

    def test_not_in_a_process_of_its_own(self):
        manifest = self.folder / "pipeline.toml"
        manifest.write_text('schema = 0\n[plugin."test.readers"]\nisolation = "process"\n')
        done = self.call("ops", "--onnx", "--manifest", manifest, *self.plugin())
        self.assertRefused(done, "FE-P30", r":3:13: .*readers\.so: it contributes an import handler, which", UNSUPPORTED)


class Descriptors(PluginOps):
    def descriptor(self, name, *lines):
        path = self.folder / f"{name}.plugin.toml"
        path.write_text(f'schema = 0\nid = "{name}"\nversion = "1.0.0"\n' + "\n".join(lines) + "\n")
        return "--plugin", path

    def test_a_descriptor_alone(self):
        """No library: an op of the standard plugin by another name."""
        self.node("Turned", domain="com.other")
        done = self.descriptor("acme.names", 'aliases = ["onnx:com.other::Turned = neg"]')
        self.save([helper.make_node("Turned", ["x"], ["y"], domain="com.other")], {"x": [2, 3]}, {"y": None}, domains=("com.other",))
        np.testing.assert_array_equal(self.results(*done, x=X)[0], -X)

    def test_refused(self):
        for line, code, pattern in (
            ('aliases = ["com.other::Turned = neg"]', "FE-M03", ":4:12: .*is no alias"),
            ('aliases = ["onnx:a:b = neg"]', "FE-M03", "is no alias"),
            ('aliases = ["onxx:com.other::Turned = neg"]', "FE-P96", ":4:12: .*format 'onxx', which no enabled importer reads; did you mean 'onnx'"),
            ('aliases = ["onnx:com.other::Turned = negg"]', "FE-P95", ":4:12: .*'negg', which no enabled plugin.*did you mean"),
            ('aliases = ["onnx:com.other::Turned"]', "FE-P95", "does not say which op.*defines none"),
            ('aliases = ["onnx:a::B = neg", "onnx:a::B = abs"]', "FE-P08", ":4:31: .*'onnx:a::B' is an alias of plugin 'acme.names' already"),
        ):  # fmt: skip
            with self.subTest(line=line):
                self.assertRefused(self.call("ops", *self.descriptor("acme.names", line)), code, pattern)

    def test_a_format_to_come(self):
        done = self.call("ops", *self.descriptor("acme.names", 'aliases = ["torch:acme::turned = neg"]'))
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_two_plugins_with_one_alias(self):
        both = [*self.descriptor("acme.a", 'aliases = ["onnx:a::B = neg"]'), *self.descriptor("acme.b", 'aliases = ["onnx:a::B = abs"]')]
        self.assertRefused(self.call("ops", *both), "FE-P08", "'onnx:a::B' is an alias of plugin 'acme.a' already")


class Listing(PluginOps):
    def test_who_brings_what(self):
        done = self.call("ops", "--onnx", "--json", *self.plugin())
        self.assertEqual(done.returncode, OK, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(list(report), ["importers"])
        (importer,) = report["importers"]
        lines = {(e["op"], e["versions"]): e["by"] for e in importer["coverage"]}
        self.assertEqual(lines["Relu", "6-28"], "built in, ferrite.onnx")
        self.assertEqual(lines["com.test.Affine", "any"], "alias of test.readers: test.affine")
        self.assertEqual(lines["com.test.Times", "1 to 2"], "import handler of test.readers")
        self.assertEqual(lines["com.test.Times", "4"], "import handler of test.readers")
        self.assertEqual(lines["test.affine", "any"], "op of test.readers")
        self.assertEqual([e["by"] for e in importer["coverage"] if e["op"] == "Celu"],
                         ["import handler of test.readers", "built in, ferrite.onnx"])  # fmt: skip
        self.assertEqual([e["when"] for e in importer["coverage"] if e["op"] == "Celu"], ["", "where no handler reads the node"])
        self.assertEqual({e["when"] for e in importer["coverage"] if e["op"] == "com.test.Times"}, {""})
        descriptor = self.folder / "acme.names.plugin.toml"
        descriptor.write_text('schema = 0\nid = "acme.names"\nversion = "1.0.0"\naliases = ["onnx:Relu = neg"]\n')
        done = self.call("ops", "--onnx", "--plugin", descriptor)
        self.assertRegex(done.stdout, r"Relu +any +alias of acme.names: neg\n  Relu +6-28 +built in, ferrite.onnx \(never asked\)")


if __name__ == "__main__":
    main(__doc__, plugins=BUILD / "lib/ferrite/reader_plugins")
