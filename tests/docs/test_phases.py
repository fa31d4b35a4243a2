#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The lists of stages and phases in headers and pages are those of core/ir/stages.h, in its order."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ROW = re.compile(r'^ *\{"(\w+)", Form::(\w+)(, Hook::yes)?\},', re.MULTILINE)


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def part(path: str, begin: str, end: str) -> str:
    """The text of a file between two texts, of which the first occurs once."""
    _, rest = text_of(path).split(begin)
    return rest.split(end, 1)[0]


def first_cells(table: str) -> list[str]:
    """The names in backquotes of the first column of a table."""
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    return [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]


class Phases(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        table = part("core/ir/stages.h", "stage_table[] = {", "};")
        rows = [(name, form, bool(hook)) for name, form, hook in ROW.findall(table)]
        if len(rows) != table.count("Form::"):
            raise AssertionError(f"{len(rows)} rows of the table of stages are understood, of {table.count('Form::')}")
        cls.stages = [name for name, _, _ in rows]
        cls.phases = [name for name, _, hook in rows if hook]
        cls.graph_phases = [name for name, form, hook in rows if hook and form == "graph"]

    def test_the_table(self):
        self.assertIn("lower", self.stages)
        self.assertNotIn("lower", self.phases)
        self.assertIn("pre_fusion", self.phases)
        self.assertNotIn("pre_fusion", self.graph_phases)

    def test_header_of_contributions(self):
        listed = part("sdk/include/ferrite/abi/contrib.h", "// One of pre_grad", "fe_string phase;")
        self.assertEqual(re.findall(r"\w+", "pre_grad" + listed), self.phases)

    def test_grammar_of_rules(self):
        listed = part("docs/text.md", "    phase       := ", "\n    match ")
        self.assertEqual(re.findall(r"\w+", listed), self.graph_phases)

    def test_page_about_passes(self):
        self.assertEqual(first_cells(part("docs/add-a-pass.md", "\n## Where passes run\n", "\n## ")), self.phases)

    def test_keys_of_manifests(self):
        listed = part("docs/manifest.md", '| `phase` | `"pre_grad"`', "| the library's |")
        self.assertEqual(["pre_grad", *re.findall(r'`"(\w+)"`', listed)], self.phases)

    def test_architecture(self):
        listed = first_cells(part("docs/architecture.md", "\n## The way of the data\n", "\n## "))
        self.assertEqual(listed, self.stages)


if __name__ == "__main__":
    unittest.main()
