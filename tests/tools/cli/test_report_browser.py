#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page of `ferrite report` in a browser: nothing wrong on its console, every section to be seen, and nothing wider than the window.

Usage: test_report_browser.py [--ferrite FILE] [--browser FILE] [unittest options]
Without --browser it is a headless Chromium of the PATH; where there is none the tests fail.
"""

import html
import json
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path
from typing import ClassVar

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import OK, ProgramTest, Settings, main  # noqa: E402

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chromium-headless-shell", "chrome")
# Several kernels with long names, a reduction over rows, what is refused, and buffers that live between kernels.
MODEL = """ferrite graph 0
graph @layers(%x: f32[64,48], %w: f32[48,48], %v: f32[48,512]) -> (%y "y", %sum "sum") {
  %a = matmul(%x, %w) from "/encoder/layer.0/attention/self/query/a_name_that_does_not_fit_into_any_column/MatMul"
  %g = gelu(%a) from "Gelu"
  %t = transpose(%g) {perm = [1, 0]} from "Transpose"
  %s = matmul(%t, %g) from "Scores"
  %p = softmax(%s) {axis = 1} from "Softmax"
  %y = matmul(%p, %v) from "Output"
  %sum = reduce_sum(%y) {axes = [0], keepdims = false} from "Sum"
}
"""
SECTIONS = ("Kernels", "Roofline", "Graph", "Stages", "Fusion", "Memory", "Rules")
# Put after the page's own script, without the policy that allows no other: what a reader sees, with everything unfolded.
LOOK = """<script>
addEventListener("load", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const width = document.documentElement.clientWidth;
  const scrolls = (e) => e && e !== document.body &&
    (["auto", "scroll"].includes(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  const wide = [...document.body.querySelectorAll("*")].filter(
    (e) => e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement) && !e.closest("svg"));
  const ink = (e) => {  // how wide its text is: 0 where the browser has no font
    const range = document.createRange();
    range.selectNodeContents(e);
    return range.getBoundingClientRect().width;
  };
  const said = {
    width, needed: document.documentElement.scrollWidth, wide: wide.map((e) => e.outerHTML.slice(0, 200)),
    sections: [...document.querySelectorAll("h2")].filter((e) => ink(e) > 0).map((e) => e.textContent),
    rows: document.querySelectorAll("#kernels ~ div tbody tr.first, #kernels tbody tr.first").length,
    figures: [...document.querySelectorAll("svg")].map((e) => e.getBoundingClientRect().width),
    small: [...document.querySelectorAll("td, p, summary, pre")].filter((e) => parseFloat(getComputedStyle(e).fontSize) < 11).length,
  };
  const out = document.createElement("output");
  out.textContent = JSON.stringify(said);
  document.body.append(out);
});
</script>"""
POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy"[^>]*>')


class BrowserTest(ProgramTest):
    pages: ClassVar[list] = []  # of MODEL

    def setUp(self):
        super().setUp()
        self.browser = Settings.browser or next(filter(None, map(shutil.which, BROWSERS)), None)
        if not self.browser:
            self.fail(f"there is no {', '.join(BROWSERS)} here")
        (self.folder / "model.fe").write_text(MODEL)
        if not self.pages:  # measured once for all tests
            for words in (("targets", "--measure"), ("report", "model.fe", "-o", "page.html", "--repeat", 2)):
                done = self.call(*words, "--threads", 1, environment={"XDG_CACHE_HOME": str(self.folder / "home")})
                self.assertEqual(done.returncode, OK, done.stderr)
            self.pages.append((self.folder / "page.html").read_text())
        (self.folder / "page.html").write_text(self.pages[0])

    def opened(self, page, width):
        """What the browser prints of the page, and says while it is open."""
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={self.folder}/profile",
                 "--hide-scrollbars", "--virtual-time-budget=2000", f"--window-size={width},900", "--dump-dom", (self.folder / page).as_uri()]  # fmt: skip
        return subprocess.run([self.browser, *words], capture_output=True, text=True, errors="replace", check=True)

    def test_two_widths(self):
        whole = (self.folder / "page.html").read_text()
        self.assertRegex(whole, POLICY)
        (self.folder / "looked-at.html").write_text(POLICY.sub("", whole) + LOOK)
        for width in (1280, 420):
            with self.subTest(width=width):
                self.assertNotIn("CONSOLE", self.opened("page.html", width).stderr)
                done = self.opened("looked-at.html", width)
                self.assertNotIn("CONSOLE", done.stderr)
                said = json.loads(html.unescape(re.search("<output>(.*)</output>", done.stdout, re.DOTALL).group(1)))
                self.assertEqual(said["width"], width)
                self.assertEqual((said["needed"], said["wide"]), (width, []))
                self.assertEqual(said["sections"], list(SECTIONS))
                self.assertGreaterEqual(said["rows"], 2)
                self.assertEqual(len(said["figures"]), 5)
                self.assertEqual(said["small"], 0)

    def asked(self, script):
        """What a script finds on the page, once the page's own script has run."""
        whole = (self.folder / "page.html").read_text()
        wait = "<script>addEventListener('load', () => { const found = (() => {" + script + "})(); const out = document.createElement('output');"
        (self.folder / "asked.html").write_text(
            POLICY.sub("", whole) + wait + "out.textContent = JSON.stringify(found); document.body.append(out); });</script>")
        done = self.opened("asked.html", 1280)
        self.assertNotIn("CONSOLE", done.stderr)
        return json.loads(html.unescape(re.search("<output>(.*)</output>", done.stdout, re.DOTALL).group(1)))

    def test_the_table_sorts(self):
        """By a click on a heading, or its button with the keyboard: largest figures first, words from a to z, then the other way."""
        found = self.asked("""
            const table = document.querySelector("table.sorts"), heads = [...table.tHead.rows[0].cells];
            const column = (k) => [...table.tBodies].map((body) => body.rows[0].cells[k].dataset.value ?? body.rows[0].cells[k].textContent);
            const names = heads.map((head) => head.textContent), result = {names, at_first: column(1)};
            for (const name of ["kind", "floor"]) {
              const k = names.indexOf(name), button = heads[k].querySelector("button");
              button.focus();
              result.focused = document.activeElement === button;
              for (const turn of [1, 2]) {
                button.click();
                result[name + turn] = [heads[k].getAttribute("aria-sort"), column(k)];
              }
            }
            return result;""")
        self.assertIn("quartiles", found["names"])
        self.assertTrue(found["focused"])
        times = [float(value) for value in found["at_first"]]
        self.assertEqual(times, sorted(times, reverse=True))
        kinds = found["kind1"][1]
        self.assertEqual(found["kind1"], ["ascending", sorted(kinds)])
        self.assertEqual(found["kind2"], ["descending", sorted(kinds, reverse=True)])
        floors = [float(value) for value in found["floor1"][1]]
        self.assertEqual((found["floor1"][0], floors), ("descending", sorted(floors, reverse=True)))
        self.assertEqual([float(value) for value in found["floor2"][1]], sorted(floors))

    def test_the_table_folds_after_twenty_rows(self):
        # Sums of different lengths, so that no two are one kernel.
        rows = [f"  %r{k} = reduce_sum(%x{k}) {{axes = [0], keepdims = false}} from \"sum{k}\"" for k in range(24)]
        inputs, outputs = (", ".join(text.format(k=k, n=64 + k) for k in range(24)) for text in ("%x{k}: f32[{n},8]", '%r{k} "r{k}"'))
        (self.folder / "many.fe").write_text("\n".join(["ferrite graph 0", f"graph @many({inputs}) -> ({outputs}) {{", *rows, "}\n"]))
        done = self.call("report", "many.fe", "-o", "page.html", "--repeat", 2, "--threads", 1)
        self.assertEqual(done.returncode, OK, done.stderr)
        found = self.asked("""
            const table = document.querySelector("table.sorts");
            const seen = () => [...table.tBodies].filter((body) => body.offsetParent !== null).length;
            const button = [...document.querySelectorAll(".tools button")].find((b) => b.textContent.includes("kernels"));
            const result = {all: table.tBodies.length, folded: seen(), text: button?.textContent};
            button?.click();
            return {...result, unfolded: seen(), expanded: button?.getAttribute("aria-expanded")};""")
        self.assertEqual((found["all"], found["folded"], found["unfolded"]), (24, 20, 24))
        self.assertEqual((found["text"], found["expanded"]), ("Show all 24 kernels", "true"))

    def test_pictures_zoom_and_unfold(self):
        found = self.asked("""
            const svg = document.querySelector("details[open] svg.graph"), frame = svg.parentElement;
            const press = (text) => [...frame.previousElementSibling.children].find((b) => b.textContent.startsWith(text)).click();
            const before = svg.getBoundingClientRect().width;
            press("Larger");
            const larger = svg.getBoundingClientRect().width;
            press("100 %");
            return {before, larger, after: svg.getBoundingClientRect().width, focusable: frame.tabIndex};""")
        self.assertAlmostEqual(found["larger"] / found["before"], 1.25, delta=0.02)
        self.assertEqual((found["after"], found["focusable"]), (found["before"], 0))


if __name__ == "__main__":
    main(__doc__, browser="")
