#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every figure with a decimal point that a listing shows has a unit after it.

Usage: test_units.py [--ferrite FILE] [unittest options]
"""

import html
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import OK, ProgramTest, main  # noqa: E402

MODEL = """ferrite graph 0
graph @layers(%x: f32[640,48], %w: f32[48,48]) -> (%y "y", %sum "sum") {
  %a = matmul(%x, %w) from "MatMul"
  %g = gelu(%a) from "Gelu"
  %y = softmax(%g) {axis = 1} from "Softmax"
  %sum = reduce_sum(%y) {axes = [0], keepdims = false} from "Sum"
}
"""
UNIT = r"( to [\d.]+)? ?(ns|us|ms|s|B|KiB|MiB|GiB|GB/s|GFLOP/s|%|k|M|G|k points|M points)\b|( to [\d.]+)? ?%"
FIGURE = re.compile(r"(?<![\w.\-/])\d+\.\d+(?![\w.]*\.\d)(?!\d)")
# What is no measure: versions, and the values of a model's results.
NO_MEASURE = re.compile(r"ferrite \d\S*|plugin ABI \d\S*|(min|mean|max) -?[\d.e+-]+(?=[,\n])")


class UnitsTest(ProgramTest):
    def check(self, text):
        text = NO_MEASURE.sub("", text)
        for figure in FIGURE.finditer(text):
            if not re.match(UNIT, text[figure.end() :]):
                self.fail(f"no unit: {text[max(0, figure.start() - 60) : figure.end() + 30]!r}")
        return len(FIGURE.findall(text))

    def test_listings(self):
        (self.folder / "model.fe").write_text(MODEL)
        for words, least in (
            (("explain", "model.fe"), 8),
            (("explain", "model.fe", "--all"), 20),
            (("bench", "model.fe", "--repeat", 3), 6),
            (("run", "model.fe"), 2),
            (("compile", "model.fe", "-o", "m.fepkg"), 2),
            (("bench", "m.fepkg", "--repeat", 3), 6),
        ):
            with self.subTest(words=words):
                done = self.call(*words)
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assertGreaterEqual(self.check(done.stdout), least, done.stdout)

    def test_numbers_of_targets(self):
        """Their units are beside them, those of rates with a prefix."""
        done = self.call("targets")
        for name, unit in {"local_bytes": "B", "launch_ns": "ns", "bandwidth": "GB/s", "operations": "Gop/s"}.items():
            self.assertRegex(done.stdout, rf"(?m)^ +{name} +[\d.]+ {unit} ")

    def test_the_report(self):
        (self.folder / "model.fe").write_text(MODEL)
        done = self.call("report", "model.fe", "-o", "page.html", "--repeat", 2)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.check(done.stdout)
        page = (self.folder / "page.html").read_text()
        # Cells whose heading is the unit, and texts of the program and its code, are none of these.
        page = re.sub(r'(?s)<style>.*?</style>|<script>.*?</script>|<pre>.*?</pre>|<td[^>]*data-label="G[^>]*>.*?</td>', "", page)
        self.assertGreaterEqual(self.check(html.unescape(re.sub("<[^>]*>", "\n", page))), 10)


if __name__ == "__main__":
    main(__doc__)
