#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The checker of the documentation finds what it is there to find."""

import tempfile
import unittest
from pathlib import Path

import check_docs


class Matching(unittest.TestCase):
    def test_left_out_lines_and_text(self):
        output = ["first", "time 12.5 ms", "third"]
        self.assertEqual(check_docs.mismatch(["first", "time … ms", "third"], output), "")
        self.assertEqual(check_docs.mismatch(["...", "third"], output), "")
        self.assertEqual(check_docs.mismatch(["first", "...", "third", "..."], output), "")
        self.assertNotEqual(check_docs.mismatch(["first", "third"], output), "")
        self.assertNotEqual(check_docs.mismatch(["third", "...", "first"], output), "")
        self.assertNotEqual(check_docs.mismatch(["first"], output), "")
        self.assertNotEqual(check_docs.mismatch(["time …", "..."], output), "")

    def test_text_is_no_expression(self):
        self.assertFalse(check_docs.line_matches("a.c", "abc"))
        self.assertTrue(check_docs.line_matches("a.c (…)", "a.c (d)"))


class Pages(unittest.TestCase):
    def faults(self, text: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "code.txt").write_text("one\n  two\n  three\n", encoding="utf-8")
            (root / "make.py").write_text('save("/tmp/made")\n', encoding="utf-8")
            (root / "page.md").write_text(text, encoding="utf-8")
            return [fault for _, fault in check_docs.faults_of(root / "page.md", root, root / "build", False)]

    def test_commands(self):
        self.assertEqual(self.faults("```console\n$ echo a\na\n$ echo b \\\n  c\nb c\n```\n"), [])
        self.assertEqual(self.faults("```console\n$ echo a >&2; exit 3\na\nexit status 3\n```\n"), [])
        self.assertIn("'b' is not in the output", self.faults("```console\n$ echo a\nb\n```\n")[0])
        self.assertTrue(self.faults("```console\n$ false\n```\n"))
        self.assertTrue(self.faults("```console\nno command\n```\n"))
        self.assertEqual(self.faults("```console\n$ build/torch/bin/python -c 'print(1)'\n2\n```\n"), [])  # not set up
        # A command that reads what a command left out would have made is left out, too.
        made = "```console\n$ build/torch/bin/python make.py\n```\n```console\n$ cat {}\n```\n"
        self.assertEqual(self.faults(made.format("/tmp/made/by-make.txt")), [])
        self.assertTrue(self.faults(made.format("/tmp/made-by-others.txt")))
        self.assertEqual(self.faults("<!-- not run: it never ends -->\n```console\n$ false\n```\n"), [])

    def test_excerpts(self):
        self.assertEqual(self.faults("<!-- file: code.txt -->\n```\ntwo\nthree\n```\n"), [])
        self.assertTrue(self.faults("<!-- file: code.txt -->\n```\none\nthree\n```\n"))
        self.assertTrue(self.faults("<!-- file: nothing.txt -->\n```\none\n```\n"))

    def test_links(self):
        self.assertEqual(self.faults("# A title\n[code](code.txt) [here](#a-title) [web](https://example.org)\n"), [])
        self.assertTrue(self.faults("[code](other.txt)\n"))
        self.assertTrue(self.faults("[here](#nowhere)\n"))
        self.assertTrue(self.faults("[a text of\ntwo lines](other.txt)\n"))
        self.assertTrue(self.faults("![a picture](other.svg)\n"))
        self.assertTrue(self.faults('<img src="other.svg">\n'))
        self.assertTrue(self.faults("[a name]: other.txt\n"))
        self.assertTrue(self.faults("[outside](../other.txt)\n"))
        self.assertTrue(self.faults("[outside](/etc/passwd)\n"))
        self.assertEqual(self.faults("[line](code.txt#L3)\n"), [])
        self.assertTrue(self.faults("[line](code.txt#L4)\n"))
        self.assertEqual(self.faults("`[code](other.txt)` and `code of\ntwo lines [x](other.txt)`\n"), [])
        self.assertEqual(self.faults("An odd ` alone.\n\n[code](code.txt)\n"), [])

    def test_width(self):
        self.assertTrue(self.faults("```\n" + "x" * 111 + "\n```\n"))

    def test_lengths(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)

            def faults(name: str, text: str) -> list[str]:
                (root / name).write_text(text, encoding="utf-8")
                return [fault for _, fault in check_docs.faults_of(root / name, root, root / "build", False)]

            self.assertEqual(faults("README.md", "a\n" * 150), [])
            self.assertIn("151 lines", faults("README.md", "a\n" * 151)[0])
            head = "| word | meaning |\n| --- | --- |\n| tile, block | parts |\n"
            self.assertEqual(faults("glossary.md", head + "| word of its own | one |\n" * 38), [])
            self.assertIn("41 words", faults("glossary.md", head + "| word of its own | one |\n" * 39)[0])

    def test_names(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "core").mkdir()
            (root / "core/steps.h").write_text("class Steps {\n  void run_all();\n};\n", encoding="utf-8")
            (root / "core/CMakeLists.txt").write_text("add_library(ferrite_core)\n", encoding="utf-8")
            (root / "docs").mkdir()
            page = root / "docs/architecture.md"

            def faults(text: str) -> list[str]:
                page.write_text(text, encoding="utf-8")
                return [fault for _, fault in check_docs.faults_of(page, root, root / "build", False)]

            known = "`run_all`, `Steps::run_all`, `ferrite_core`, `steps.h`"
            others = "`layout`, `B::c`, `a << B_`, `ferrite run MODEL`, `--only X_Y_Z`"
            self.assertEqual(faults(f"{known}, {others}\n"), [])
            self.assertEqual(faults("One.\n\n`run_each`\n"), ["the sources have no name run_each"])
            self.assertTrue(faults("`Pages::run_all`\n"))
            self.assertTrue(faults("`Steps::run_each`\n"))
            self.assertTrue(faults("`pages.h`\n"))
            page = root / "docs/other.md"
            self.assertEqual(faults("`run_each`\n"), [])


if __name__ == "__main__":
    unittest.main()
