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
SECTIONS = ("Kernels", "Roofline", "Stages", "Fusion", "Memory", "Rules")
# Put behind the page, which has no script and allows none: what a reader of it would see, with everything unfolded.
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
    def setUp(self):
        super().setUp()
        self.browser = Settings.browser or next(filter(None, map(shutil.which, BROWSERS)), None)
        if not self.browser:
            self.fail(f"there is no {', '.join(BROWSERS)} here")
        (self.folder / "model.fe").write_text(MODEL)
        for words in (("targets", "--measure"), ("report", "model.fe", "-o", "page.html", "--repeat", 2)):
            done = self.call(*words, "--threads", 1, environment={"XDG_CACHE_HOME": str(self.folder / "home")})
            self.assertEqual(done.returncode, OK, done.stderr)

    def opened(self, page, width):
        """What the browser prints of the page, and says while it is open."""
        words = ["--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", f"--user-data-dir={self.folder}/profile",
                 "--hide-scrollbars", "--virtual-time-budget=2000", f"--window-size={width},900", "--dump-dom", (self.folder / page).as_uri()]  # fmt: skip
        return subprocess.run([self.browser, *words], capture_output=True, text=True, errors="replace", check=True, timeout=50)

    def test_two_widths(self):
        whole = (self.folder / "page.html").read_text()
        self.assertNotIn("<script", whole)
        self.assertRegex(whole, POLICY)
        (self.folder / "looked-at.html").write_text(POLICY.sub("", whole) + LOOK)
        for width in (1280, 480):
            with self.subTest(width=width):
                self.assertNotIn("CONSOLE", self.opened("page.html", width).stderr)
                done = self.opened("looked-at.html", width)
                self.assertNotIn("CONSOLE", done.stderr)
                said = json.loads(html.unescape(re.search("<output>(.*)</output>", done.stdout, re.DOTALL).group(1)))
                self.assertEqual(said["width"], width)
                self.assertEqual((said["needed"], said["wide"]), (width, []))
                self.assertEqual(said["sections"], list(SECTIONS))
                self.assertGreaterEqual(said["rows"], 2)
                self.assertEqual(len(said["figures"]), 2)
                self.assertEqual(said["small"], 0)


if __name__ == "__main__":
    main(__doc__, browser="")
