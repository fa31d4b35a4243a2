#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Mistakes of plugins' authors, each with the code that it has to give.

Usage: test_misuse.py [--ferrite FILE] [--plugins DIRECTORY] [unittest options]
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from program import PLUGINS, ProgramTest, Settings, main  # noqa: E402

RELU = 'ferrite graph 0\ngraph @g(%x: f32[4]) -> (%0 "y") {\n  %0 = relu(%x) : f32[4]\n}\n'


class MisuseTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.manifest = self.folder / "ferrite.toml"

    def run_with(self, mode, *words):
        """A command with the plugin in one of its modes."""
        self.manifest.write_text(
            'schema = 0\nenable = ["test.misuse"]\n[plugin."test.misuse"]\n'
            f'library = "{Settings.plugins / "misuse.so"}"\nconfig = {{ mode = "{mode}" }}\n'
        )
        return self.call(*words, "--manifest", self.manifest)

    def refused(self, done, code, pattern="."):
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stderr, r"(?m)^ferrite: FE-[A-Z]\d\d ")
        self.assertIn(code, done.stderr)
        self.assertRegex(done.stderr, pattern)

    def model(self, text):
        path = self.folder / "model.fe"
        path.write_text(text)
        return path

    def test_passes(self):
        cases = {
            "attribute": "FE-G30", "kind": "FE-G31", "contents": "FE-G33", "absent": "FE-G34",
            "memory": "FE-P22", "decline": "FE-P20", "view": "FE-P23", "capture": "FE-R20", "evaluate": "FE-G26",
        }  # fmt: skip
        for mode, code in cases.items():
            with self.subTest(mode=mode):
                done = self.run_with(mode, "opt", self.model(RELU), "--to", "pre_grad")
                self.refused(done, code, "FE-P10 pre_grad: .*test.misuse")

    def test_loading(self):
        for mode, code in {"create": "FE-P06", "phase": "FE-M09", "roots": "FE-R22"}.items():
            with self.subTest(mode=mode):
                self.refused(self.run_with(mode, "plugin", "list"), code, f"^ferrite: {code} .*misuse")

    def test_ops(self):
        cases = {
            "greedy": "FE-G32", "untyped": "FE-P24", "unlowered": "FE-G25", "miscounted": "FE-P25", "silent": "FE-K10", "shrinks": "FE-G35",
        }  # fmt: skip
        for op, code in cases.items():
            with self.subTest(op=op):
                text = f'ferrite graph 0\ngraph @g(%x: f32[4]) -> (%0 "y") {{\n  %0 = test.{op}(%x)\n}}\n'
                self.refused(self.run_with("", "opt", self.model(text), "--to", "lower"), code, op)

    def test_importers(self):
        path = self.folder / "model.silent"
        path.write_text("closed")
        self.refused(self.run_with("", "run", path), "FE-I03", "model.silent")
        path.write_text("open")
        self.refused(self.run_with("", "run", path), "FE-I04", "model.silent")
        self.refused(self.run_with("", "ops"), "FE-I05")

    def test_a_number_that_is_none_of_the_dtype(self):
        """A rule that is refused where its number does not fit is noted, and the rest goes on."""
        rules = self.folder / "half.fe"
        rules.write_text("ferrite rules 0\nrule test.half at pre_grad {\n  match { %r = neg(%x) }\n"
                         "  yield { %r = mul(%x, -0.5) }\n}\n")  # fmt: skip
        descriptor = self.folder / "test.half.plugin.toml"
        descriptor.write_text('schema = 0\nid = "test.half"\nversion = "1.0"\nrules = ["half.fe"]\n')
        model = self.model('ferrite graph 0\ngraph @g(%x: i32[4]) -> (%0 "y") {\n  %0 = neg(%x) : i32[4]\n}\n')
        done = self.run_with("", "explain", "--all", model, "--plugin", descriptor, "--validate-rules", "off")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"refused \(literal\)  test.half .*FE-R19")


if __name__ == "__main__":
    main(__doc__, plugins=PLUGINS)
