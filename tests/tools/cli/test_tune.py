#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Candidates that are measured, kept, and taken again: by the store, by a decisions lock, and whatever becomes of either.

Usage: test_tune.py [--ferrite FILE] [--stubs DIRECTORY] [unittest options]
"""

import csv
import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
import tomllib
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import BAD_INPUT, BUILD, OK, UNSUPPORTED, USAGE, ProgramTest, Settings, main  # noqa: E402

MODEL = """ferrite graph 0
graph @small(%x: f32[48,64]) -> (%y "y") {
  #w0 = weight("w.bin", 0, 20480) : f32[64,80]
  %e = exp(%x) from "e"
  %row = reduce_sum(%e) {axes = [1], keepdims = true} from "row"
  %soft = div(%e, %row) from "soft"
  %product = matmul(%soft, #w0) from "product"
  %y = relu(%product) from "relu"
}
"""
# Sizes that are no multiples of vectors.
KINDS = """ferrite graph 0
graph @kinds(%x: f32[37,53], %h: f16[29,45], %image: f32[1,5,19,23], %k: f32[7,5,3,3], %i: i32[41,67]) -> (
    %best "best", %top "top", %norm "norm", %sum16 "sum16", %conv "conv", %pool "pool", %transposed "transposed",
    %counts "counts", %total "total", %products "products") {
  %best = argmax(%x) {axis = 1} from "best"
  %top = reduce_max(%x) {axes = [0], keepdims = false} from "top"
  %norm = softmax(%x) {axis = 1} from "norm"
  %t16 = tanh(%h) from "t16"
  %sum16 = reduce_sum(%t16) {axes = [1], keepdims = false} from "sum16"
  %conv = conv(%image, %k) {pads_low = [1,1], pads_high = [1,1]} from "conv"
  %pool = max_pool(%image) {kernel = [3,3], strides = [2,2]} from "pool"
  %transposed = transpose(%x) {perm = [1, 0]} from "transposed"
  %counts = reduce_sum(%i) {axes = [0], keepdims = false} from "counts"
  %s = sigmoid(%x) from "s"
  %total = reduce_sum(%s) {axes = [0, 1], keepdims = false} from "total"
  %products = matmul(%x, %transposed) from "products"
}
"""
# Rows of products: one kernel, or three where products are apart.
ROWS = """ferrite graph 0
graph @rows(%q: f32[2,3,197,24], %k: f32[2,3,24,197], %v: f32[2,3,197,40]) -> (%r "r") {
  %s = matmul(%q, %k)
  %p = softmax(%s) {axis = 3}
  %r = matmul(%p, %v)
}
"""
LONG = 20  # seconds, of which the small model needs few


class TuneTest(ProgramTest):
    def setUp(self):
        super().setUp()
        generator = np.random.default_rng(5)
        self.x = generator.normal(size=(48, 64)).astype(np.float32)
        self.w = generator.normal(size=(64, 80)).astype(np.float32)
        self.w.tofile(self.folder / "w.bin")
        np.save(self.folder / "x.npy", self.x)
        (self.folder / "small.fe").write_text(MODEL)
        e = np.exp(self.x)
        self.expected = np.maximum(e / e.sum(1, keepdims=True) @ self.w, 0)

    def command(self, command, *options, cache="cache", **how):
        """`ferrite COMMAND` on the model with a store of its own."""
        return self.call(command, "small.fe", "-i", "x=x.npy", "--threads", 1, "--cache", cache, *options, **how)

    def right(self, *options, **how):
        done = self.command("run", "-o", "out", *options, **how)
        self.assertEqual(done.returncode, OK, done.stderr)
        y = np.load(self.folder / "out/output_0.npy")
        np.testing.assert_allclose(y, self.expected, 1e-4, 1e-5)
        return done, y

    def records(self, *options):
        """What the ledger has of candidates."""
        done = self.command("explain", "--json", *options)
        self.assertEqual(done.returncode, OK, done.stderr)
        return [record for record in json.loads(done.stdout) if record["kind"] in ("candidate", "select")]

    def chosen(self, *options):
        return {(record["object"], record["category"]) for record in self.records(*options) if record["outcome"] == "chosen"}

    def store(self):
        return sorted((self.folder / "cache/decisions").glob("*.decision"))

    def lock(self, name="small.decisions.lock"):
        return tomllib.loads((self.folder / name).read_text())

    def write_lock(self, *options, name="small.decisions.lock"):
        self.right("--lock-decisions", name, *options)
        return (self.folder / name).read_text()

    def test_measured_then_stored(self):
        done, _ = self.right("--tune", LONG)
        self.assertEqual(done.stderr, "")  # a bar is for terminals
        self.assertEqual(len(self.store()), 2)
        self.assertEqual(self.store()[0].parent.stat().st_mode & 0o077, 0)
        for tune in ((), ("--tune", "cached"), ("--tune", LONG)):
            records = self.records(*tune)
            self.assertEqual({record["category"] for record in records}, {"stored"}, tune)
        self.assertEqual({by for _, by in self.chosen("--tune", "off")}, {""})
        self.right("--tune", "cached")

    def test_all_candidates_are_in_the_ledger(self):
        records = self.records("--tune", LONG)
        for record in records:
            self.assertIn(record["outcome"], ("measured", "chosen"))
            self.assertGreater(record["score"], 0)
        measured = [record["object"] for record in records if record["outcome"] == "measured"]
        self.assertGreater(len(measured), 6)
        self.assertIn("llvm.packed", measured)
        self.assertTrue(any(re.fullmatch(r"llvm\.packed\.\d+x\d+", name) for name in measured), measured)
        for name, by in self.chosen():
            self.assertIn(name, measured)
            self.assertEqual(by, "stored")

    def test_other_threads_and_other_devices_decide_for_themselves(self):
        self.right("--tune", LONG)
        done = self.call("explain", "small.fe", "--json", "--cache", "cache", "--threads", 3)
        chosen = [r for r in json.loads(done.stdout) if r["kind"] == "candidate" and r["outcome"] == "chosen"]
        self.assertEqual({record["category"] for record in chosen}, {""})

    def test_nothing_is_kept_without_a_cache(self):
        done = self.call("run", "small.fe", "--threads", 1, "--cache", "off", "--tune", LONG)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertFalse((self.folder / "cache").exists())

    def test_the_budget_is_kept(self):
        records = self.records("--tune", "0.000001")
        unmeasured = [record for record in records if record["outcome"] == "unmeasured"]
        self.assertEqual([record["category"] for record in unmeasured], ["budget"] * len(unmeasured))
        self.assertEqual(len(unmeasured), 2)
        self.assertEqual([record for record in records if record["outcome"] == "measured"], [])
        self.assertEqual({by for _, by in self.chosen()}, {""})
        self.assertEqual(self.store(), [])

    def test_damaged_decisions_are_set_aside(self):
        self.right("--tune", LONG)
        good = [path.read_bytes() for path in self.store()]
        damages = [
            lambda text: b"",
            lambda text: text[: len(text) // 2],
            lambda text: text.replace(b"llvm", b"mvll", 1),
            lambda text: b"\0" * len(text),
            lambda text: text + b" ",
            lambda text: b"x" * 100_000,
        ]
        for number, damage in enumerate(damages):
            paths = self.store() or [path.with_suffix("") for path in sorted((self.folder / "cache/decisions").glob("*.damaged"))]
            for path, text in zip(paths, good):
                path.write_bytes(damage(text))
            done, _ = self.right()
            self.assertEqual(len(re.findall(r"ferrite: warning: FE-T40 .*decided anew", done.stderr)), 2, (number, done.stderr))
            self.assertEqual(self.store(), [])
            self.assertEqual(len(list((self.folder / "cache/decisions").glob("*.damaged"))), 2)
            self.assertEqual(self.right()[0].stderr, "")
        # One that is another kernel's is none either.
        paths = [path.with_suffix("") for path in sorted((self.folder / "cache/decisions").glob("*.damaged"))]
        for path, text in zip(paths, reversed(good)):
            path.write_bytes(text)
        self.assertRegex(self.right()[0].stderr, "FE-T40 .*another kernel's")

    def test_a_folder_that_is_not_to_be_trusted(self):
        self.right("--tune", LONG)
        folder = self.folder / "cache/decisions"
        folder.chmod(0o777)
        done, _ = self.right()
        self.assertRegex(done.stderr, "warning: FE-T41 .*others may write to it")
        self.assertEqual({by for _, by in self.chosen()}, {""})

    def test_a_store_that_cannot_be_written(self):
        (self.folder / "cache").mkdir(mode=0o700)
        (self.folder / "cache/decisions").write_text("no folder")
        done, _ = self.right("--tune", 1)
        self.assertRegex(done.stderr, "warning: FE-T41 ")

    def test_replay_is_deterministic(self):
        first = self.write_lock("--tune", LONG)
        self.assertIn('by = "measured"', first)
        listing = [self.command("opt", "--decisions", "small.decisions.lock", cache="off").stdout for _ in range(2)]
        self.assertEqual(*listing)
        outputs, locks = [], []
        for name in "ab":
            _, y = self.right("--decisions", "small.decisions.lock", "--lock-decisions", name, cache="off")
            outputs.append(y.tobytes())
            locks.append((self.folder / name).read_text())
        self.assertEqual(*outputs)
        self.assertEqual(*locks)
        self.assertEqual(first.replace('"measured"', '"locked"'), locks[0])
        # Neither the store nor a budget has a say.
        self.assertEqual({by for _, by in self.chosen("--decisions", "small.decisions.lock", "--tune", 5)}, {"locked"})

    def test_equal_compilations_write_equal_locks(self):
        self.assertEqual(self.write_lock("--tune", "off", name="a"), self.write_lock("--tune", "off", name="b"))

    def forced(self, model):
        """Results of a model: as costs pick, then with another candidate of each kernel, until each of all kernels had its turn."""
        words = (model, "--threads", 1, "--cache", "cache", "--seed", 3)

        def run(*options):
            done = self.call("run", *words, "-o", "out", *options)
            self.assertEqual(done.returncode, OK, done.stderr)
            count = len(json.loads((self.folder / "out/outputs.json").read_text()))
            return [np.load(self.folder / f"out/output_{k}.npy") for k in range(count)]

        usual = run("--tune", "off", "--lock-decisions", "off.lock")
        done = self.call("explain", *words, "--json", "--tune", LONG)
        candidates = {}
        for record in json.loads(done.stdout):
            if record["kind"] == "candidate" and record["outcome"] != "chosen":
                self.assertEqual(record["outcome"], "measured", record)
                candidates.setdefault(record["text"].split(":")[0], []).append(record["object"])
        results = []
        for turn in range(max(map(len, candidates.values()))):
            parts = re.split(r"(?=\[\[kernel\]\])", (self.folder / "off.lock").read_text())
            for k, part in enumerate(parts):
                names = candidates.get(next(iter(re.findall("k_[0-9a-f]{32}", part)), ""), [])
                if names:
                    parts[k] = re.sub('candidate = ".*"', f'candidate = "{names[turn % len(names)]}"', part)
            (self.folder / "forced.lock").write_text("".join(parts))
            results.append(run("--decisions", "forced.lock", "--lock-decisions", "taken.lock"))
            taken = re.findall('candidate = .*', (self.folder / "taken.lock").read_text())
            self.assertEqual(taken, re.findall('candidate = .*', "".join(parts)))
        return usual, results, candidates

    def test_every_candidate_gives_the_same_result(self):
        """Whatever is forced computes the same, within what the order of sums changes."""
        usual, results, candidates = self.forced("small.fe")
        self.assertGreater(max(map(len, candidates.values())), 6)
        for (y,) in results:
            np.testing.assert_allclose(y, usual[0], 1e-4, 1e-5)

    def test_every_candidate_of_every_kind_of_kernel(self):
        (self.folder / "kinds.fe").write_text(KINDS)
        usual, results, candidates = self.forced("kinds.fe")
        self.assertGreater(len(candidates), 8)
        self.assertIn("llvm.rematerialised", {name for names in candidates.values() for name in names})
        for number, outputs in enumerate(results):
            for name, (y, expected) in enumerate(zip(outputs, usual)):
                loose = (2e-3, 2e-3) if y.dtype == np.float16 else (1e-4, 1e-5)
                np.testing.assert_allclose(y, expected, *loose, err_msg=f"turn {number}, output {name}")

    def test_locks_that_do_not_fit(self):
        text = self.write_lock("--tune", "off")

        def refused(changed, code, pattern):
            (self.folder / "bad.lock").write_text(changed)
            self.assertRefused(self.command("run", "--decisions", "bad.lock"), code, pattern)

        refused(text.replace('"llvm.packed"', '"llvm.gone"'), "FE-T42", "'llvm.gone' of provider 'cpu' .*write the lock anew")
        refused(text.replace('provider = "cpu"', 'provider = "acme"'), "FE-T42", "provider 'acme'")
        first = text.index("[[kernel]]")
        second = text.index("[[kernel]]", first + 1)
        refused(text[:second], "FE-T43", r"has no entry for kernel k_[0-9a-f]{32}.*write the lock anew")
        other = text + "\n" + text[second:].replace("k_", "k_0")
        refused(other, "FE-T43", "has no kernel k_0")
        refused(text + "\n" + text[second:], "FE-M08", "decided twice")
        refused("schema = 0\n[[kernel", "FE-M01", "bad.lock")
        refused(text.replace("candidate", "candidat"), "FE-M02", "did you mean 'candidate'")
        refused("schema = 7\n", "FE-M04", "schema")
        self.assertRefused(self.command("run", "--decisions", "none.lock"), "FE-M14", "none.lock")

    def test_locks_have_choices(self):
        text = self.write_lock("--tune", "off")
        target, = self.lock()["target"]
        self.assertEqual((target["activations"], target["products"]), ("channels_last", "any"))
        # Locks of versions that did not have them: the target's own hold.
        (self.folder / "old.lock").write_text(re.sub("(activations|products) = .*\n", "", text))
        self.assertNotIn("products =", (self.folder / "old.lock").read_text())
        self.right("--decisions", "old.lock", "--lock-decisions", "new.lock")
        self.assertEqual(self.lock("new.lock")["target"], [target])
        # What a lock says holds: apart, products are other kernels than the one that this lock knows.
        (self.folder / "rows.fe").write_text(ROWS)
        words = ("run", "rows.fe", "--threads", 1, "--cache", "off")
        self.assertEqual(self.call(*words, "--lock-decisions", "rows.lock").returncode, OK)
        self.assertEqual(self.call(*words, "--decisions", "rows.lock").returncode, OK)
        self.assertEqual(len(self.lock("rows.lock")["kernel"]), 1)
        text = (self.folder / "rows.lock").read_text()
        (self.folder / "apart.lock").write_text(text.replace('products = "any"', 'products = "apart"'))
        self.assertRefused(self.call(*words, "--decisions", "apart.lock"), "FE-T43", "has no entry for kernel")

    def test_a_lock_that_cannot_be_written(self):
        self.assertRefused(self.command("run", "--lock-decisions", "small.fe/x.lock"), "FE-C10", "small.fe/x.lock")

    def seen_on_terminal(self, columns, *words):
        """What `ferrite WORDS` sends to a terminal of so many columns, and its exit status."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([str(Settings.ferrite), *map(str, words)], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=its,
                              env=os.environ | {"FERRITE_CACHE": "off"}) as program:  # fmt: skip
            os.close(its)
            seen = b""
            try:
                while part := os.read(ours, 1 << 16):
                    seen += part
            except OSError:  # how a terminal says that its last writer is gone
                pass
        os.close(ours)
        return seen.decode(), program.returncode

    def test_bar_on_a_terminal(self):
        words = ("run", "small.fe", "-i", "x=x.npy", "--threads", 1, "--tune", LONG)
        seen, status = self.seen_on_terminal(100, *words, "--cache", "bar")
        self.assertEqual(status, OK, seen)
        before, *lines = seen.split("\r\033[K")
        self.assertEqual(before, "")
        bars = [re.fullmatch(rf"measuring candidates \[(#*)(\.*)\] (\d+) of (\d+) kernels, \d+ of {LONG} s", line) for line in lines]
        bars = [bar for bar in bars if bar]
        self.assertGreaterEqual(len(bars), 2, seen)
        for bar in bars:
            self.assertEqual(len(bar[1] + bar[2]), 20)
            self.assertEqual(len(bar[1]), int(bar[3]) * 20 // int(bar[4]))
        self.assertEqual([int(bar[3]) for bar in bars], sorted(int(bar[3]) for bar in bars))
        self.assertEqual(lines[-1], "")  # the line is taken back
        # A line that is longer than the terminal would wrap, and stay.
        narrow, status = self.seen_on_terminal(30, *words, "--cache", "narrow")
        self.assertEqual(status, OK, narrow)
        self.assertIn("measuring", narrow)
        self.assertLess(max(map(len, narrow.split("\r\033[K"))), 30)

    def test_words_that_are_no_way_to_tune(self):
        for word in ("on", "-1", "0", "nan", "1s"):
            self.assertRefused(self.command("run", f"--tune={word}"), "FE-C01", "--tune", status=USAGE)
        manifest = self.folder / "ferrite.toml"
        manifest.write_text('schema = 0\n[pipeline]\ntune = "fast"\n')
        self.assertRefused(self.command("run", "--manifest", "ferrite.toml"), "FE-M03", "ferrite.toml:3:8.*'fast'")
        manifest.write_text(f'schema = 0\n[pipeline]\ntune = "{LONG}"\n')
        self.right("--manifest", "ferrite.toml")
        self.assertEqual(len(self.store()), 2)

    def test_other_machines_and_packages(self):
        words = ("compile", "-o", "small.fepkg", "--target", "triple=aarch64-unknown-linux-gnu")
        done = self.call(*words, "small.fe", "--tune", 1)
        self.assertRefused(done, "FE-T44", "--decisions", status=UNSUPPORTED)
        done = self.call("compile", "small.fe", "-o", "small.fepkg", "--tune", LONG, "--cache", "cache", "--threads", 1)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(len(self.store()), 2)
        self.assertRefused(self.call("run", "small.fepkg", "--tune", 1), "FE-T45", "--recompile")
        self.assertEqual(self.call("run", "small.fepkg", "--tune", 1, "--recompile").returncode, OK)

    def test_metrics(self):
        environment = {"FERRITE_METRICS": "selection", "FERRITE_METRICS_DIR": "metrics"}
        self.right("--tune", LONG, environment=environment)
        with open(self.folder / "metrics/metric_selection.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["by"] for row in rows], ["measured"] * 2)
        for row in rows:
            self.assertGreater(float(row["measured_us"]), 0)
            self.assertGreater(float(row["usual_measured_us"]), 0)
            self.assertGreater(float(row["cost_us"]), 0)
            self.assertGreater(int(row["candidates"]), 1)

    def library(self, *options):
        plugin = Settings.stubs / "acme.gemm.plugin.toml"
        return ("--plugin", plugin, *options)

    def test_libraries_compete(self):
        """A library that takes the product and leaves what follows is measured with the rest, and either choice is right."""
        measured = [r for r in self.records(*self.library("--tune", LONG)) if r["outcome"] == "measured"]
        self.assertTrue(any(record["object"].startswith("gemm") for record in measured), measured)
        _, tuned = self.right(*self.library())
        self.write_lock(*self.library("--tune", "off"))
        lock = self.lock()
        self.assertEqual([each["provider"] for each in lock["library"]], ["acme.gemm"])
        _, by_library = self.right(*self.library("--decisions", "small.decisions.lock"))
        # The same without the library: its kernel is the code generator's then.
        self.write_lock("--tune", "off", name="alone.lock")
        _, alone = self.right(*self.library("--decisions", "alone.lock"))
        self.assertEqual({by for _, by in self.chosen(*self.library("--decisions", "alone.lock"))}, {"locked"})
        for result in (tuned, alone):
            np.testing.assert_allclose(result, by_library, 1e-4, 1e-5)
        self.assertRefused(self.command("run", "--decisions", "small.decisions.lock"), "FE-T4[23]", "write the lock anew")


if __name__ == "__main__":
    main(__doc__, stubs=BUILD / "lib/ferrite/stubs")
