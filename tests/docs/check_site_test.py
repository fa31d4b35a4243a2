#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The checker of the site finds what it is there to find."""

import tempfile
import unittest
from pathlib import Path

import check_site

HEADER = """// Runs a model on `inputs`,
// in order.
FERRITE_API int32_t ferrite_run(int x);

// Of a run.
typedef struct ferrite_stats {
  uint64_t size;
  double run_ms;  // of the last one
} ferrite_stats;
"""
PAGE = """<h2 id="ferrite_run"><code>ferrite_run</code></h2><pre>code</pre><p>Runs a model
on <code>inputs</code>, in order.</p><h2 id="ferrite_stats">ferrite_stats</h2><p>Of a run.</p><td>of the last one</td></article>"""


class Site(unittest.TestCase):
    def faults(self, body: str) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            site = Path(folder).resolve()
            (site / "other.html").write_text('<h2 id="a-title">A title</h2>', encoding="utf-8")
            (site / "style.css").write_text("", encoding="utf-8")
            (site / "page.html").write_text(body, encoding="utf-8")
            return list(check_site.page_faults(site / "page.html", site))

    def test_links(self):
        self.assertEqual(
            self.faults('<a href="other.html#a-title">a</a><a href="https://llvm.org/">b</a>'), []
        )
        self.assertTrue(self.faults('<a href="other.html#title">a</a>'))
        self.assertTrue(self.faults('<a class="x" href="nothing.html">a</a>'))
        self.assertTrue(self.faults('<a href="../outside.html">a</a>'))

    def test_assets(self):
        self.assertEqual(self.faults('<link rel="stylesheet" href="style.css">'), [])
        self.assertTrue(self.faults('<link rel="stylesheet" href="https://example.org/style.css">'))
        self.assertTrue(self.faults('<script src="//example.org/a.js"></script>'))
        self.assertTrue(self.faults('<img alt="a" src="picture.svg">'))

    def test_styles(self):
        with tempfile.TemporaryDirectory() as folder:
            style = Path(folder) / "style.css"
            style.write_text("a { background: url(picture.svg) }", encoding="utf-8")
            self.assertEqual(list(check_site.style_faults(style)), [])
            style.write_text('@import "https://example.org/font.css";', encoding="utf-8")
            self.assertTrue(list(check_site.style_faults(style)))

    def test_reference(self):
        self.assertEqual(list(check_site.api_faults(PAGE, HEADER)), [])
        for part in ("ferrite_run", "in order", "Of a run.", "of the last one"):
            with self.subTest(part):
                self.assertTrue(list(check_site.api_faults(PAGE.replace(part, ""), HEADER)))
        self.assertTrue(
            list(
                check_site.api_faults(
                    PAGE, HEADER.replace("// Of a run.\n", "").replace("  // of the last one", "")
                )
            )
        )
        self.assertTrue(list(check_site.api_faults(PAGE, "")))

    def test_navigation(self):
        config = Path(__file__).resolve().parents[2] / "docs/site/mkdocs.yml"
        settings = config.read_text(encoding="utf-8").split("\nnav:\n")[0]
        for pages, lacks in ((("index.md", "other.md"), False), (("index.md",), True)):
            with self.subTest(pages), tempfile.TemporaryDirectory() as folder:
                root = Path(folder)
                (root / "docs/site").mkdir(parents=True)
                for page in ("index.md", "other.md"):
                    (root / "docs" / page).write_text("# A page\n", encoding="utf-8")
                navigation = "".join(f"  - {page}\n" for page in pages)
                (root / "docs/site/mkdocs.yml").write_text(
                    f"{settings}\nnav:\n{navigation}", encoding="utf-8"
                )
                faults = check_site.build(root, root / "built")
                self.assertEqual(any("other.md" in fault for fault in faults), lacks, faults)
                self.assertEqual(bool(faults), lacks, faults)


if __name__ == "__main__":
    unittest.main()
