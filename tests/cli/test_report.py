#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `ferrite report`: whole, self-contained, and safe whatever a model's names are.

Usage: test_report.py [--ferrite FILE] [unittest options]
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import OK, USAGE, ProgramTest, main  # noqa: E402

HOSTILE = [
    "<script>alert(1)</script>",
    "\\\" onmouseover=\\\"alert(2)",
    "</title></style></pre><img src=x>",
    "&lt;b&gt; & 'quoted'",
]
MODEL = f"""ferrite graph 0
graph @hostile(%x: f32[64,48], %w: f32[48,48]) -> (%y "y", %sum "sum") {{
  %root = literal f32[] {{1.4142135}}
  %one = literal f32[] {{1}}
  %half = literal f32[] {{0.5}}
  %a = matmul(%x, %w) from "{HOSTILE[0]}"
  %q = div(%a, %root) from "{HOSTILE[1]}"
  %e = erf(%q) from "Erf"
  %s = add(%e, %one) from "Add"
  %p = mul(%a, %s) from "Mul"
  %g = mul(%p, %half) from "{HOSTILE[3]}"
  %t = transpose(%g) {{perm = [1, 0]}} from "Transpose"
  %y = matmul(%t, %g) from "{HOSTILE[2]}"
  %sum = reduce_sum(%g) {{axes = [0], keepdims = false}} from "Sum"
}}
"""
EMPTY_TAGS = {"meta", "img", "br", "link"}
TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "b", "nav", "a", "div", "span", "i", "table", "thead",
        "tbody", "tr", "th", "td", "details", "summary", "pre", "code", "figure", "svg", "text", "line", "rect", "circle"}  # fmt: skip


class Page(HTMLParser):
    """Tags that are open, all that were seen, and the text by the tag that it is in."""

    def __init__(self):
        super().__init__()
        self.open, self.tags, self.attributes, self.texts, self.rows = [], set(), [], [], 0

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]
        if tag not in EMPTY_TAGS:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += [(tag, *attribute) for attribute in attrs]

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing, behind line {self.getpos()}"

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, *tags):
        return "\n".join(data for tag, data in self.texts if not tags or tag in tags)


class ReportTest(ProgramTest):
    def report(self, model, *options):
        (self.folder / "model.fe").write_bytes(model if isinstance(model, bytes) else model.encode())
        cache = {"XDG_CACHE_HOME": str(self.folder / "nothing-measured")}
        done = self.call("report", "model.fe", "-o", "page.html", "--repeat", 2, *options, environment=cache)
        self.assertEqual(done.returncode, OK, done.stderr)
        text = (self.folder / "page.html").read_text(encoding="utf-8")  # fails where it is no UTF-8
        page = Page()
        page.feed(text)
        page.close()
        self.assertEqual(page.open, [])
        self.assertLessEqual(page.tags, TAGS)
        for tag, name, value in page.attributes:
            self.assertFalse(name.startswith("on"), (tag, name, value))
            self.assertNotIn(name, ("src", "srcset", "data", "action"))
            if name == "href":
                self.assertTrue(value.startswith("#"), value)
        self.assertNotRegex(page.text("style"), r"@import|url\(")
        targets = {value for _, name, value in page.attributes if name == "id"}
        self.assertEqual({value[1:] for _, name, value in page.attributes if name == "href"}, targets)
        return page

    def test_a_page_with_hostile_names(self):
        page = self.report(MODEL)
        cells = page.text("td", "pre")
        for name in HOSTILE:
            self.assertIn(name.replace('\\"', '"'), cells)
        for part in ("reduce", "contract", "unknown", "passes.recognise_gelu", "fused", "refused", "post_fusion", "link"):
            self.assertIn(part, cells)
        self.assertIn("+1 gelu", cells)
        shares = [float(share) for share in re.findall(r"(?m)^([\d.]+) %$", page.text("td"))]
        self.assertAlmostEqual(sum(shares), 100, delta=1)
        self.assertIn("what it computes, and its code", page.text("summary"))
        self.assertRegex(page.text("pre"), "ferrite kernel 0")
        self.assertRegex(page.text("pre"), "define ")  # the code of a kernel
        self.assertIn("ferrite targets --measure", page.text("code"))
        self.assertIn("rect", page.tags)  # of the memory plan
        self.assertRegex(page.text("title"), r"launches \d+ to \d+")

    def test_names_that_are_no_text(self):
        page = self.report(b'ferrite graph 0\ngraph @m(%x: f32[4]) -> (%y "y") {\n  %y = exp(%x) from "a\xff\x01\xc3"\n}\n')
        self.assertIn("a\ufffd\ufffd\ufffd", page.text("td"))

    def test_without_fusion_and_without_kernels(self):
        self.assertIn("fusion is off", self.report(MODEL, "--no-fuse").text("p"))
        page = self.report('ferrite graph 0\ngraph @m(%x: f32[4]) -> (%x "y") {\n}\n')
        self.assertIn("Nothing lives between kernels", page.text("p"))

    def test_the_interpreter_has_no_kernels(self):
        (self.folder / "model.fe").write_text(MODEL)
        done = self.call("report", "model.fe", "--device", "interpreter")
        self.assertRefused(done, "FE-C01", "--device", USAGE)

    def test_a_page_that_cannot_be_written(self):
        (self.folder / "model.fe").write_text(MODEL)
        self.assertRefused(self.call("report", "model.fe", "-o", "no/page.html", "--repeat", 1), "FE-C10", "no/page.html")
        self.assertFalse(re.findall("page", " ".join(path.name for path in self.folder.iterdir())))


if __name__ == "__main__":
    main(__doc__)
