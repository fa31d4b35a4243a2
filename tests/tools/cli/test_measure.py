#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ferrite targets --measure`, and the estimates and decisions that are made of what it keeps.

Usage: test_measure.py [--ferrite FILE] [unittest options]
"""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import OK, USAGE, ProgramTest, main  # noqa: E402

PLUS_ONE = """ferrite graph 0
graph @plus(%x: f32[250000000]) -> (%y "y") {
  %one = literal f32[] {1}
  %y = add(%x, %one) from "Add"
}
"""
PRODUCT = """ferrite graph 0
graph @product(%a: f32[100,100], %b: f32[100,100]) -> (%y "y") {
  %y = matmul(%a, %b) from "Product"
}
"""
# One row of a large table: what is moved is that row, not the table.
ROW = """ferrite graph 0
graph @row(%x: f32[100000,100], %i: i64[1]) -> (%y "y") {
  %y = gather(%x, %i) {axis = 0} from "Row"
}
"""
# What is decided by the numbers of a target: a sum with few results, and a map whose operands lie across each other.
DIVIDED = """ferrite graph 0
graph @divided(%x: f32[8,300000]) -> (%y "y") {
  %y = reduce_sum(%x) {axes = [1], keepdims = false} from "Sum"
}
"""
ACROSS = """ferrite graph 0
graph @across(%x: f32[1024,512], %y: f32[512,1024]) -> (%a "a", %b "b", %r "r") {
  %a = neg(%x) from "A"
  %b = neg(%y) from "B"
  %t = transpose(%b) {perm = [1, 0]}
  %r = add(%a, %t) from "R"
}
"""
# Tables with estimates.
TABLES = ["kernel", "statement"]
MODELS = {"plus": PLUS_ONE, "product": PRODUCT, "row": ROW}


class WithHome(ProgramTest):
    def setUp(self):
        super().setUp()
        self.home = self.folder / "home"


class BusyMachineTest(WithHome):
    def test_a_busy_machine(self):
        """Two processes on each processor that never rest."""
        busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2 * len(os.sched_getaffinity(0)))]
        try:
            done = self.call("targets", "--measure", environment={"XDG_CACHE_HOME": str(self.home)})
        finally:
            for process in busy:
                process.kill()
                process.wait()
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stderr, r"ferrite: warning: FE-T48 cpu:0: something else kept the machine busy at \d+ of \d+ measurements: "
                                      r"threads waited for a processor for up to [1-9]\d* % of the time, .*measure again when nothing else runs")  # fmt: skip
        self.assertEqual(len(list((self.home / "ferrite/targets").iterdir())), 1)


class MeasureTest(WithHome):
    def setUp(self):
        super().setUp()
        for name, text in MODELS.items():
            (self.folder / f"{name}.fe").write_text(text)

    def estimates(self):
        """By model, in microseconds."""
        for table in TABLES:
            (self.folder / f"metric_{table}.csv").unlink(missing_ok=True)
        environment = {"FERRITE_METRICS": ",".join(TABLES), "XDG_CACHE_HOME": str(self.home)}
        for name in MODELS:
            done = self.call("explain", f"{name}.fe", "--threads", 1, environment=environment)
            self.assertEqual(done.returncode, OK, done.stderr)
        by_model = []
        for table in TABLES:
            with (self.folder / f"metric_{table}.csv").open(newline="") as file:
                by_model.append({row["model"].removesuffix(".fe"): row["estimate_us"] for row in csv.DictReader(file)})
        # Each of these models is one statement, and one kernel.
        self.assertEqual(*by_model)
        return by_model[0]

    def test_what_is_measured_becomes_estimates(self):
        unknown = {"plus": "unknown", "product": "unknown", "row": "unknown"}
        self.assertEqual(self.estimates(), unknown)

        words = ("targets", "--measure", "--threads", 1)
        done = self.call(*words, environment={"XDG_CACHE_HOME": str(self.home)})
        self.assertEqual(done.returncode, OK, done.stderr)
        (file,) = (self.home / "ferrite/peaks").iterdir()
        self.assertIn(str(file), done.stdout)
        (numbers,) = (self.home / "ferrite/targets").iterdir()
        self.assertIn(str(numbers), done.stdout)
        measured = json.loads(numbers.read_text())
        self.assertEqual(measured["workers"], len(os.sched_getaffinity(0)))  # of the machine, not of --threads
        for name in ("uncoalesced", "bandwidth", "operations"):
            self.assertGreaterEqual(measured[name], 1)
        for name in ("launch_ns", "join_ns"):  # not on a machine whose processors are busy otherwise
            self.assertEqual(measured.get(name, 1).bit_count(), 1)
        self.assertEqual("join_ns" in measured, "launch_ns" in measured and measured["workers"] > 1)
        if measured["workers"] == 1:
            self.assertIn("launch_ns", measured)
        self.check_decisions(numbers)
        peaks = json.loads(file.read_text())
        self.assertGreater(peaks["operations_per_second"], 1e8)
        rates = [rate for _, rate in peaks["bandwidth"]]
        self.assertEqual(rates, sorted(rates, reverse=True))
        self.assertGreater(rates[-1], 1e8)
        for estimate in self.estimates().values():
            self.assertGreater(float(estimate), 0)

        peaks |= {"operations_per_second": 1e9, "bandwidth": [[1000, 4e9], [10**6, 2e9]]}
        file.write_text(json.dumps(peaks))
        # Bytes over the bandwidth of their size, or operations: 2 x 100^3. The row and the result, and where it is.
        expected = {"plus": "1000000.002", "product": "2000.000", "row": "0.202"}
        self.assertEqual(self.estimates(), expected)

        for damaged in ("", "{", "[]", "{}", '{"operations_per_second": 0, "bandwidth": [[1, 1]]}',
                        '{"operations_per_second": 1, "bandwidth": []}', '{"operations_per_second": 1, "bandwidth": [[1]]}',
                        '{"operations_per_second": 1, "bandwidth": [[1, -1]]}'):  # fmt: skip
            file.write_text(damaged)
            self.assertEqual(self.estimates(), unknown, damaged)
        self.check_warning("report", "plus.fe", "-o", "plus.html", "--threads", 1, file=file)
        numbers.write_text('{"workers": 0}')
        self.check_warning("explain", "plus.fe", file=numbers)

    def check_warning(self, *words, file):
        done = self.call(*words, environment={"XDG_CACHE_HOME": str(self.home)})
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stderr, rf"ferrite: warning: FE-T46 {file}: it was not written by `ferrite targets --measure`")

    def home_call(self, *words):
        done = self.call(*words, environment={"XDG_CACHE_HOME": str(self.home)})
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def kernels(self, model, *words):
        out = self.home_call("bench", model, "--repeat", 1, "--json", *words)
        return json.loads(out)["kernels"]

    def check_decisions(self, file):
        (self.folder / "divided.fe").write_text(DIVIDED)
        (self.folder / "across.fe").write_text(ACROSS)

        def counts(**numbers):
            file.write_text(json.dumps(numbers))
            return self.kernels("divided.fe"), self.kernels("across.fe")

        self.assertEqual(counts(), (1, 3))
        self.assertEqual(counts(uncoalesced=1), (1, 1))
        self.assertEqual(counts(workers=16), (2, 3))
        # With more bandwidth, the launch that a split adds is worth more elements; how many threads run decides nothing.
        self.assertEqual(counts(workers=16, bandwidth=10**12), (1, 3))
        self.assertEqual(counts(workers=16, bandwidth=10**12, launch_ns=256), (2, 3))
        self.assertEqual(counts(workers=16, bandwidth=10**9), (2, 3))
        self.assertEqual(self.kernels("divided.fe", "--threads", 1), 2)

        listing = self.home_call("targets")
        self.assertRegex(listing, r"workers +16 +(B +)?measured ")
        self.assertRegex(listing, r"pages +512 +(B +)?default ")
        self.assertRegex(listing, r"line_bytes +64 +(B +)?stated ")
        self.assertRegex(listing, r"activations +channels_last +(B +)?stated ")
        self.assertRegex(listing, r"products +any +(B +)?default ")

        # A lock has the numbers, and its kernels are the same where others hold.
        self.home_call("run", "divided.fe", "--lock-decisions", "divided.lock")
        lock = (self.folder / "divided.lock").read_text()
        self.assertIn("workers = 16\n", lock)
        self.assertEqual(counts(), (1, 3))
        self.assertEqual(self.kernels("divided.fe", "--decisions", "divided.lock"), 2)
        environment = {"XDG_CACHE_HOME": str(self.home)}
        for wrong, code in ((lock.replace("workers = 16", "workers = 0"), "FE-M17"),
                            (lock.replace('"channels_last"', '"channels_first"'), "FE-M03"),
                            (lock.replace('products = "any"', 'products = "none"'), "FE-M03"),
                            (lock + '[[target]]\ndevice = "cpu"\n', "FE-M08")):  # fmt: skip
            (self.folder / "wrong.lock").write_text(wrong)
            done = self.call("run", "divided.fe", "--decisions", "wrong.lock", environment=environment)
            self.assertRefused(done, code, "wrong.lock")
        file.unlink()

    def test_what_cannot_be_measured(self):
        self.assertRefused(self.call("targets", "--measure", "--device", "interpreter"), "FE-C01", "no peaks", USAGE)
        self.assertRefused(self.call("targets", "--measure", "--device", "none"), "FE-D01", "none", USAGE)


if __name__ == "__main__":
    main(__doc__)
