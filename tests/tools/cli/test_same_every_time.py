#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The same input and the same plugins give the same lock file, the same decisions and the same kernels, byte for byte,
however many are compiled at a time.

Usage: test_same_every_time.py [--ferrite FILE] [--runs N] [unittest options]
Each model is compiled N times (20) with 1 and with 2 jobs in turns. Compared are the ledger without the times of passes,
the kernels, and what the provider shows of its code: LLVM IR and assembly. The lock file of a manifest is written N times.
"""

import difflib
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from package_file import MODEL, numbers  # noqa: E402
from program import ROOT, ProgramTest, Settings, main  # noqa: E402

THREADS = 2
# Equal kernels that are shared, an epilogue, a constant that is packed, several kernels for the jobs to share.
LAYERS = MODEL.replace("f32[$n,32]", "f32[16,32]").replace("  symbol $n in [1, 64]\n", "")
CONVOLUTION = """ferrite graph 0
graph @convolution(%x: f32[1,3,12,12]) -> (%y "y") {
  #w = data f32[4,3,3,3] {WEIGHT}
  %c = conv(%x, #w) from "Conv"
  %r = relu(%c) from "Relu"
  %y = transpose(%r) {perm = [0, 2, 3, 1]} from "Transpose"
}
"""
MANIFEST = """schema = 0
enable = ["acme.three", "acme.one"]
search = ["."]
[profile.other]
enable = ["acme.two"]
"""
DESCRIPTOR = """schema = 0
id = "{name}"
version = "1.0.0"
rules = ["{name}.fe", "{name}_more.fe"]
"""
RULE = """ferrite rules 0
rule {name} at pre_grad {{
  match {{ %s = relu(%x)  %r = relu(%s) }}
  yield {{ %r = relu(%x) }}
}}
"""


def differences(first, second):
    return "\n".join(list(difflib.unified_diff(first.splitlines(), second.splitlines(), lineterm="", n=1))[:20])


class SameEveryTimeTest(ProgramTest):
    def compile(self, model, jobs):
        """(ledger without times, kernels and code)"""
        done = self.call("explain", model, "--json", "--threads", THREADS, "--compile-jobs", jobs, "--log", "kernels,output_code")
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        ledger = json.loads(done.stdout)
        for record in ledger:
            if record["kind"] == "pass":
                del record["score"]
        return json.dumps(ledger, indent=1), done.stderr

    def check(self, model):
        ledger, code = self.compile(model, 1)
        self.assertIn("ferrite kernel 0", code)
        self.assertIn("define", code)
        for run in range(1, Settings.runs):
            jobs = 1 + run % 2
            again_ledger, again_code = self.compile(model, jobs)
            for what, before, after in (("ledger", ledger, again_ledger), ("code", code, again_code)):
                if before != after:
                    self.fail(f"run {run} with {jobs} jobs gives another {what}:\n{differences(before, after)}")

    def check_text(self, text, weights, biases=0):
        model = self.folder / "model.fe"
        model.write_text(text.replace("WEIGHT", numbers(weights)).replace("BIAS", numbers(biases)))
        self.check(model)

    def test_the_lock_file(self):
        names = ["acme.one", "acme.two", "acme.three"]
        for name in names:
            (self.folder / f"{name}.plugin.toml").write_text(DESCRIPTOR.format(name=name))
            for file, rule in ((name, f"{name}.rule"), (f"{name}_more", f"{name}.more")):
                (self.folder / f"{file}.fe").write_text(RULE.format(name=rule))
        manifest = self.folder / "ferrite.toml"
        manifest.write_text(MANIFEST)
        lock = manifest.with_suffix(".lock")
        first = None
        for run in range(Settings.runs):
            lock.unlink(missing_ok=True)
            # What is enabled from elsewhere is no part of the manifest.
            done = self.call("plugin", "lock", "--manifest", manifest, environment={"FERRITE_PLUGIN_PATH": ""})
            self.assertEqual(done.returncode, 0, done.stderr)
            text = lock.read_text()
            first = first or text
            if text != first:
                self.fail(f"run {run} gives another lock file:\n{differences(first, text)}")
        for name in names:
            self.assertEqual(first.count(f'id = "{name}"'), 1, first)

    def test_the_tutorial(self):
        self.check(ROOT / "docs/examples/tutorial.fe")

    def test_layers(self):
        self.check_text(LAYERS, 32 * 32, 32)

    def test_convolution(self):
        self.check_text(CONVOLUTION, 4 * 3 * 3 * 3)


if __name__ == "__main__":
    main(__doc__, runs=20)
