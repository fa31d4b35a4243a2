#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The spelling checker finds what it is there to find."""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

import check_spelling


class Spelling(unittest.TestCase):
    def faults(self, page: str, words: str = "softmax\n", other: str | None = None) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "docs/site").mkdir(parents=True)
            (root / "README.md").write_text("The softmax of a row.\n", encoding="utf-8")
            (root / "docs/page.md").write_text(page, encoding="utf-8")
            (root / "docs/site/words.txt").write_text(words, encoding="utf-8")
            if other:
                (root / other).parent.mkdir(parents=True)
                (root / other).write_text("The kernel recieves.\n", encoding="utf-8")
            output, arguments = io.StringIO(), sys.argv
            sys.argv = ["check_spelling.py", "--root", folder]
            try:
                with contextlib.redirect_stdout(output):
                    status = check_spelling.main()
            finally:
                sys.argv = arguments
            lines = output.getvalue().splitlines()
            self.assertEqual(status, 1 if lines else 0)
            return lines

    def test_a_clean_page(self):
        self.assertEqual(
            self.faults(
                "# A colour\n\nSoftmax's rows are normalised; the softmaxes' are not.\n",
                "softmax\nsoftmaxes\n",
            ),
            [],
        )

    def test_misspellings(self):
        found = self.faults("The kernel\nrecieves a bufer.\n")
        self.assertEqual(len(found), 2)
        self.assertTrue(found[0].startswith("docs/page.md:2: 'recieves'"))
        self.assertTrue(found[1].startswith("docs/page.md:2: 'bufer'"))
        self.assertEqual(len(self.faults("A color and a [misspeling](page.md#misspeling).\n")), 2)

    def test_pages_outside_of_docs(self):
        for page in (
            "sdk/templates/op/README.md", "sdk/examples/README.md", "examples/train_gpt/README.md", "tests/museum/README.md"
        ):  # fmt: skip
            with self.subTest(page):
                self.assertEqual(len(self.faults("A page.\n", other=page)), 1)

    def test_lines_after_code(self):
        self.assertTrue(
            self.faults("```\nrecieves\n```\n\n`a\nb` and\nrecieves\n")[0].startswith("docs/page.md:7:")
        )

    def test_code_is_left_out(self):
        self.assertEqual(
            self.faults("`recieves` <!-- recieves --> [a link](recieves.md) recieve_all recieves2\n"), []
        )
        self.assertEqual(self.faults("```console\n$ recieves\n```\n"), [])

    def test_case(self):
        self.assertEqual(self.faults("Softmax\n"), [])
        self.assertEqual(self.faults("A cuDNN\n", "cuDNN\nsoftmax\n"), [])
        self.assertTrue(self.faults("A cudnn and a cuDNN\n", "cuDNN\nsoftmax\n"))

    def test_the_list(self):
        self.assertIn("'argmax' stands after 'softmax'", self.faults("The argmax\n", "softmax\nargmax\n")[0])
        self.assertIn("no page has the word 'argmax'", self.faults("A page\n", "argmax\nsoftmax\n")[0])
        self.assertIn("the dictionary has the word 'page'", self.faults("A page\n", "page\nsoftmax\n")[0])


if __name__ == "__main__":
    unittest.main()
