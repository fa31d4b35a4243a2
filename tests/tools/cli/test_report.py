#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `ferrite report`: whole, self-contained, and safe whatever a model's names are.

Usage: test_report.py [--ferrite FILE] [unittest options]
"""

import base64
import hashlib
import html
import json
import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

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
# A product twice, which its operations bound, and a negation, which its bytes do.
TWO_FLOORS = """ferrite graph 0
graph @floors(%a: f32[100,100], %b: f32[100,100], %c: f32[100,100], %d: f32[100,100], %u: f32[500000]) -> (%p "p", %q "q", %n "n") {
  %p = matmul(%a, %b) from "first product"
  %q = matmul(%c, %d) from "second product"
  %n = neg(%u) from "negation"
}
"""
PEAKS = {"operations_per_second": 1e9, "bandwidth": [[1000, 4e9], [10**6, 2e9]]}
# Exponentials that the last launch reads again, their sums, and what is made of these before.
PLANNED = """ferrite graph 0
graph @planned(%x: f32[16,1024]) -> (%y "y") {
  %a = exp(%x) from "a"
  %b = reduce_sum(%a) {axes = [0], keepdims = false} from "b"
  %c = sqrt(%b) from "c"
  %y = div(%a, %c) from "y"
}
"""
SECONDS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1}
EMPTY_TAGS = {"meta", "img", "br", "link"}
TAGS = {"html", "head", "meta", "title", "style", "body", "h1", "h2", "p", "b", "nav", "a", "div", "span", "i", "table", "thead",
        "tbody", "tr", "th", "td", "details", "summary", "pre", "code", "figure", "svg", "text", "line", "rect", "circle", "path", "g", "script"}  # fmt: skip


class Page(HTMLParser):
    """Its text, tags that are open, all that were seen, and the text by the tag that it is in."""

    def __init__(self, source):
        super().__init__()
        self.source = source
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
        assert self.open and self.open.pop() == tag, f"</{tag}> closes nothing, after line {self.getpos()}"

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def text(self, *tags):
        return "\n".join(data for tag, data in self.texts if not tags or tag in tags)


def seconds_of(text):
    number, unit = text.split()
    return float(number) * SECONDS[unit]


class Report(ProgramTest):
    def report(self, model, *options):
        (self.folder / "model.fe").write_bytes(model if isinstance(model, bytes) else model.encode())
        cache = {"XDG_CACHE_HOME": str(self.folder / "home")}
        done = self.call("report", "model.fe", "-o", "page.html", "--repeat", 2, *options, environment=cache)
        self.assertEqual(done.returncode, OK, done.stderr)
        text = (self.folder / "page.html").read_text(encoding="utf-8")  # fails where it is no UTF-8
        page = Page(text)
        page.feed(text)
        page.close()
        self.assertEqual(page.open, [])
        self.assertLessEqual(page.tags, TAGS)
        for tag, name, value in page.attributes:
            self.assertFalse(name.startswith("on"), (tag, name, value))
            self.assertNotIn(name, ("src", "srcset", "data", "action"))
            if name == "href":
                self.assertTrue(value.startswith("#"), value)
        self.assertNotRegex(page.text("style", "script"), r"@import|url\(|fetch|XMLHttp|import\(|eval|innerHTML|https?:")
        # One script, which the page's policy allows by its hash.
        scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
        self.assertEqual((len(scripts), text.count("<script")), (1, 1))
        digest = base64.b64encode(hashlib.sha256(scripts[0].encode()).digest()).decode()
        self.assertIn(f"script-src 'sha256-{digest}'", text)
        targets = {value for _, name, value in page.attributes if name == "id"}
        self.assertEqual({value[1:] for _, name, value in page.attributes if name == "href"}, targets)
        return page


class ReportTest(Report):
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
        self.assertIn("nodes, loops and code", page.text("summary"))
        self.assertRegex(page.text("pre"), "ferrite kernel 0")
        self.assertRegex(page.text("pre"), "define ")  # the code of a kernel
        self.assertIn("ferrite targets --measure", page.text("code"))
        self.assertIn("rect", page.tags)  # of the memory plan
        self.assertRegex(page.text("title"), r"launches \d+ to \d+")
        # What a run's compilation takes, and beside it what this page's does.
        self.assertRegex(page.text("span"), r"compiled, \d+ kernels? from the cache; [\d.]+ \S+ with the texts and listings of this page")

    def test_names_that_are_no_text(self):
        page = self.report(b'ferrite graph 0\ngraph @m(%x: f32[4]) -> (%y "y") {\n  %y = exp(%x) from "a\xff\x01\xc3"\n}\n')
        self.assertIn("a\ufffd\ufffd\ufffd", page.text("td"))

    def test_without_fusion_and_without_kernels(self):
        self.assertIn("fusion is off", self.report(MODEL, "--no-fuse").text("p"))
        page = self.report('ferrite graph 0\ngraph @m(%x: f32[4]) -> (%x "y") {\n}\n')
        self.assertIn("No buffer lives between kernels", page.text("p"))

    def test_the_memory_plan(self):
        """A rectangle for each buffer of the plan: its bytes high, on its offset, from its first launch to the end of its last."""
        apart = ("--no-fuse", "--without", "inline,in_place", "--threads", 1)
        source = self.report(PLANNED, *apart).source
        done = self.call("opt", "model.fe", *apart, "--to", "emit")
        self.assertEqual(done.returncode, OK, done.stderr)
        arena = int(re.search(r"(?m)^plan (\d+) bytes", done.stdout).group(1))
        lives = re.findall(r"(?m)^  @\d+ offset (\d+) bytes (\d+) groups (\d+) to (\d+)$", done.stdout)
        plan = [tuple(map(int, life)) for life in lives]
        self.assertEqual([life[1:] for life in plan], [(65536, 0, 3), (4096, 1, 2), (4096, 2, 3)])
        self.assertEqual(arena, 65536 + 2 * 4096)

        picture = source[source.index('aria-label="Memory plan') :]
        axes = re.findall(r'<line class="axis" x1="([\d.]+)" y1="([\d.]+)" x2="([\d.]+)" y2="([\d.]+)"', picture)
        left, bottom, right, _ = map(float, axes[0])
        top, launches = float(axes[-1][1]), 4
        drawn = [tuple(map(float, shape)) for shape in re.findall(
            r'<rect class="buffer" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', picture)]  # fmt: skip
        self.assertEqual(len(drawn), len(plan))
        for (offset, size, first, last), (x, y, width, height) in zip(plan, drawn):
            step, byte = (right - left) / launches, (bottom - top) / arena
            expected = (left + first * step, bottom - (offset + size) * byte, (last + 1 - first) * step, size * byte)
            for value, wanted in zip((x, y, width, height), expected):
                self.assertAlmostEqual(value, wanted, delta=0.2)  # each is rounded to a tenth

    def test_pictures_by_stage(self):
        """Boxes for nodes at import and after the passes, and for kernels with the operations that they hold."""
        page = self.report(MODEL, "--threads", 1)
        pictures = re.findall(r'<details class="picture".*?</details>', page.source, re.DOTALL)
        self.assertEqual([re.search("<summary>(.*?)</summary>", picture).group(1) for picture in pictures][0], "Graph at import: 9 nodes")
        self.assertIn("Graph after the passes: ", pictures[1])
        self.assertIn(">gelu</text>", pictures[1])
        self.assertNotIn(">gelu</text>", pictures[0])
        kernels = re.findall(r'<a href="#kernel-(\d+)">(.*?)</a>', pictures[2], re.DOTALL)
        self.assertEqual(len(kernels), int(re.search(r"Schedule: (\d+) kernel", pictures[2]).group(1)))
        (fused,) = [text for _, text in kernels if ">gelu</text>" in text]
        self.assertIn(">matmul</text>", fused)
        # Boxes of one picture do not touch, and lie within it.
        for picture in pictures:
            width, height = map(float, re.search(r'viewBox="0 0 (\d+) (\d+)"', picture).groups())
            boxes = [tuple(map(float, box)) for box in re.findall(
                r'<rect class="box[^"]*" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="([\d.]+)"', picture)]  # fmt: skip
            self.assertGreater(len(boxes), 1)
            for k, (x, y, w, h) in enumerate(boxes):
                self.assertLessEqual((x + w <= width, y + h <= height), (True, True))
                for a, b, c, d in boxes[:k]:
                    self.assertTrue(x + w < a or a + c < x or y + h < b or b + d < y, ((x, y, w, h), (a, b, c, d)))

    def test_names_are_joined_one_way(self):
        page = self.report(MODEL, "--threads", 1)
        for cell in re.findall(r'<td class="name"[^>]*>(.*?)</td>', page.source):
            self.assertNotRegex(html.unescape(cell), r",(?! )")

    def test_the_interpreter_has_no_kernels(self):
        (self.folder / "model.fe").write_text(MODEL)
        done = self.call("report", "model.fe", "--device", "interpreter")
        self.assertRefused(done, "FE-C01", "--device", USAGE)

    def test_a_page_that_cannot_be_written(self):
        (self.folder / "model.fe").write_text(MODEL)
        self.assertRefused(self.call("report", "model.fe", "-o", "no/page.html", "--repeat", 1), "FE-C10", "no/page.html")
        self.assertFalse(re.findall("page", " ".join(path.name for path in self.folder.iterdir())))


class RooflineTest(Report):
    def test_shares_of_the_roofline(self):
        """The floors are known by hand, so each share follows from the time beside it."""
        done = self.call("targets", "--measure", "--threads", 1, environment={"XDG_CACHE_HOME": str(self.folder / "home")})
        self.assertEqual(done.returncode, OK, done.stderr)
        (peaks,) = (self.folder / "home/ferrite/peaks").iterdir()
        peaks.write_text(json.dumps(PEAKS))
        shutil.rmtree(self.folder / "home/ferrite/targets")  # what decides about kernels is as it is stated
        page = self.report(TWO_FLOORS, "--threads", 1)
        rows = {}
        for row in re.findall(r'<tr class="first">(.*?)</tr>', page.source):
            cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall("<td[^>]*>(.*?)</td>", row)]
            rows[cells[4]] = cells
        self.assertEqual(set(rows), {"first product and 1 like it", "negation"})
        total, least = 0, 0
        # Launches; operations, bytes and seconds of all of them.
        for name, launches, operations, moved, floor, bound in (
            ("first product and 1 like it", 2, 2 * 2 * 100**3, 2 * 3 * 100**2 * 4, 4e-3, "operations"),
            ("negation", 1, 500000, 2 * 500000 * 4, 2e-3, "memory"),
        ):
            with self.subTest(name):
                _, time, quartiles, _, _, _, count, bytes_rate, operations_rate, printed_floor, share, by = rows[name]
                seconds = seconds_of(time)
                low, high = quartiles.split(" to ")
                low, high = seconds_of(low if " " in low else low + " " + high.split()[1]), seconds_of(high)
                self.assertTrue(0 < low <= seconds <= high, quartiles)
                self.assertEqual((int(count), printed_floor, by), (launches, f"{floor * 1e3:.2f} ms", bound))
                # The time has three digits.
                for printed, exact, step in ((share.removesuffix(" %"), 100 * floor / seconds, 1),
                                             (bytes_rate, moved / seconds * 1e-9, 0.1),
                                             (operations_rate, operations / seconds * 1e-9, 0.1)):  # fmt: skip
                    self.assertAlmostEqual(float(printed), exact, delta=0.006 * exact + step / 2)
                total, least = total + seconds, least + floor
        (together,) = re.findall(r"<b>(\d+) %</b><span>of the roofline, all kernels together", page.source)
        self.assertAlmostEqual(float(together), 100 * least / total, delta=0.006 * 100 * least / total + 1)
        self.assertEqual(page.source.count('<circle class="point"'), 2)


if __name__ == "__main__":
    main(__doc__)
