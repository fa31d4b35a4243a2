#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that are kept from one process to the next: found again, and never used where they are not what was kept.

Usage: test_cache.py [--ferrite FILE] [--stubs DIRECTORY] [unittest options]
"""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import BUILD, OK, ProgramTest, Settings, main  # noqa: E402

MODEL = """ferrite graph 0
graph @small(%x: f32[64,48]) -> (%row "row", %soft "soft") {
  %e = exp(%x) from "e"
  %row = reduce_sum(%e) {axes = [1], keepdims = true} from "row"
  %soft = div(%e, %row) from "soft"
}
"""


class CacheTest(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "small.fe").write_text(MODEL)
        self.x = np.random.default_rng(3).normal(size=(64, 48)).astype(np.float32)
        np.save(self.folder / "x.npy", self.x)
        self.cache = self.folder / "cache"

    def counts(self, *options, place=None, **how):
        """What `ferrite bench` counts; its results were compared with NumPy's."""
        words = ("small.fe", "--no-fuse", "-i", "x=x.npy", "--cache", place or self.cache, *options)
        ran = self.call("run", *words, "-o", "out", **how)
        self.assertEqual(ran.returncode, OK, ran.stderr)
        e = np.exp(self.x)
        for index, expected in enumerate([e.sum(1, keepdims=True), e / e.sum(1, keepdims=True)]):
            np.testing.assert_allclose(np.load(self.folder / f"out/output_{index}.npy"), expected, 1e-5)
        return ran

    def bench(self, *options, place=None, **how):
        done = self.call("bench", "small.fe", "--no-fuse", "-i", "x=x.npy", "--repeat", 1, "--json", "--cache",
                         place or self.cache, *options, **how)  # fmt: skip
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads(done.stdout)

    def kept(self):
        return sorted(self.cache.glob("*.kernel"))

    def test_kernels_are_found_again(self):
        self.counts()
        kernels = len(self.kept())
        self.assertGreaterEqual(kernels, 3)
        self.assertEqual(self.cache.stat().st_mode & 0o077, 0)
        self.assertIn(f"{kernels} of them from the cache", self.counts().stdout)
        figures = self.bench()
        self.assertEqual((figures["cache_hits"], figures["cache_misses"], figures["cache_bypasses"]), (kernels, 0, {}))

    def test_off(self):
        figures = self.bench(place="off")
        self.assertEqual((figures["cache_hits"], figures["cache_misses"]), (0, 0))
        self.assertEqual(list(figures["cache_bypasses"]), ["the cache is off"])
        self.bench(place="off")
        self.assertFalse(self.cache.exists())

    def test_a_manifest_and_the_environment_name_it(self):
        (self.folder / "ferrite.toml").write_text('schema = 0\n[pipeline]\ncache = "kept"\n')
        words = ("run", "small.fe", "-i", "x=x.npy", "-o", "out")
        self.assertEqual(self.call(*words, "--manifest", "ferrite.toml").returncode, OK)
        self.assertTrue(list((self.folder / "kept").glob("*.kernel")))
        place = self.folder / "other"
        self.assertEqual(self.call(*words, environment={"FERRITE_CACHE": str(place)}).returncode, OK)
        self.assertTrue(list(place.glob("*.kernel")))
        home = {"FERRITE_CACHE": "on", "XDG_CACHE_HOME": str(self.folder / "home")}
        self.assertEqual(self.call(*words, environment=home).returncode, OK)
        self.assertTrue(list((self.folder / "home/ferrite/kernels").glob("*.kernel")))

    def test_damaged_entries(self):
        self.counts()
        first, second, *others = self.kept()
        whole = first.read_bytes()
        damages = {
            "it is cut short": whole[:50],
            "longer than it says": whole + b"x",
            "contents were changed": whole[:-1] + bytes([whole[-1] ^ 1]),
            "another kernel's": second.read_bytes(),
            "no entry of this cache": b"\0" * len(whole),
        }
        for reason, damaged in damages.items():
            with self.subTest(reason):
                first.write_bytes(damaged)
                done = self.call("cache", "verify", "--cache", self.cache)
                self.assertRefused(done, "FE-K31", f"1 of {len(others) + 2} kernels")
                self.assertIn(reason, done.stdout)
                self.assertIn("damaged", self.call("cache", "list", "--cache", self.cache).stdout)
                figures = self.bench()
                self.assertEqual(figures["cache_misses"], 1)
                self.assertRegex(next(iter(figures["cache_faults"])), reason)
                # It was replaced.
                self.assertEqual(self.bench()["cache_misses"], 0)
                self.assertEqual(first.read_bytes(), whole)
                self.counts()

    def test_an_empty_file_and_a_folder_in_an_entrys_place(self):
        self.counts()
        first, second, *_ = self.kept()
        first.write_bytes(b"")
        second.unlink()
        second.mkdir()
        self.counts()
        self.assertEqual(self.bench()["cache_misses"], 1)

    def test_a_folder_that_others_may_write_to(self):
        self.counts()
        self.cache.chmod(0o777)
        figures = self.bench()
        self.assertEqual((figures["cache_hits"], figures["cache_misses"]), (0, 0))
        self.assertRegex(next(iter(figures["cache_bypasses"])), "others may write to it")

    def test_a_folder_that_is_none(self):
        self.cache.write_text("a file")
        self.counts()
        self.assertRegex(next(iter(self.bench()["cache_bypasses"])), "it is no folder")

    def test_nothing_can_be_written(self):
        figures = self.bench(place="/proc/ferrite-cache")
        self.assertRegex(next(iter(figures["cache_faults"])), "/proc/ferrite-cache: ")
        # As a full disk: a file may have so many bytes.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        words = [Settings.ferrite, "bench", "small.fe", "-i", "x=x.npy", "--repeat", "1", "--json", "--cache", self.cache]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False, timeout=30, restore_signals=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))  # fmt: skip
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(next(iter(json.loads(done.stdout)["cache_faults"])), "cannot be written")
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_several_processes(self):
        with ThreadPoolExecutor(4) as pool:
            figures = list(pool.map(lambda _: self.bench(), range(8)))
        self.assertEqual(len(figures), 8)
        self.assertEqual(self.call("cache", "verify", "--cache", self.cache).returncode, OK)
        self.assertEqual([file for file in self.cache.iterdir() if file.suffix != ".kernel"], [])
        self.assertEqual(self.bench()["cache_misses"], 0)

    def test_listings_of_kept_kernels(self):
        self.counts()
        first = self.counts("--log", "output_code").stderr
        self.assertIn("define", first)
        self.assertEqual(self.bench()["cache_misses"], 0)
        self.assertEqual(self.counts("--log", "output_code").stderr, first)

    def test_another_plugin_is_another_key(self):
        for file in ("acme.c.plugin.toml", "acme_c.so"):
            shutil.copy(Settings.stubs / file, self.folder)
        words = ("--plugin", "acme.c.plugin.toml", "--device", "c")
        self.assertGreater(self.bench(*words)["cache_misses"], 0)
        self.assertEqual(self.bench(*words)["cache_misses"], 0)
        with (self.folder / "acme_c.so").open("ab") as library:
            library.write(b"another build")
        self.assertEqual(self.bench(*words)["cache_hits"], 0)

    def test_list_and_clear(self):
        self.assertRegex(self.call("cache", "list", "--cache", self.cache).stdout, "^0 kernels")
        self.counts()
        kernels = len(self.kept())
        self.assertRegex(self.call("cache", "list", "--cache", self.cache).stdout, f"(?m)^{kernels} kernels, .* MiB, in ")
        old = self.kept()[0]
        os.utime(old, (0, 0))
        self.assertRegex(self.call("cache", "clear", "--days", 30, "--cache", self.cache).stdout, "^removed 1 kernels")
        self.assertFalse(old.exists())
        self.kept()[0].write_bytes(b"")
        done = self.call("cache", "verify", "--remove", "--cache", self.cache)
        self.assertEqual((done.returncode, len(self.kept())), (OK, kernels - 2))
        self.assertEqual(self.call("cache", "clear", "--cache", self.cache).returncode, OK)
        self.assertEqual(self.kept(), [])
        self.assertEqual(self.call("cache", "list", "--cache", "off").stdout, "the cache is off\n")
        (self.folder / "file").write_text("")
        self.assertRefused(self.call("cache", "list", "--cache", "file"), "FE-K30", "file")


if __name__ == "__main__":
    main(__doc__, stubs=BUILD / "lib/ferrite/stubs")
