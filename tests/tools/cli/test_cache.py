#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Kernels that are kept from one process to the next: found again, and never used where they are not what was kept.

Usage: test_cache.py [--ferrite FILE] [--stubs DIRECTORY] [unittest options]
"""

import ctypes
import ctypes.util
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import sys
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import BUILD, OK, ProgramTest, Settings, main  # noqa: E402

MODEL = """ferrite graph 0
graph @small(%x: f32[64,48]) -> (%row "row", %soft "soft") {
  %e = exp(%x) from "e"
  %row = reduce_sum(%e) {axes = [1], keepdims = true} from "row"
  %soft = div(%e, %row) from "soft"
}
"""


# An entry: the checksum of what follows it, magic, version and whether it is listed, the key, then numbers. Offsets of these.
CHECKSUM_BYTES, TASKS, GRAIN, WORKSPACE, LISTING_BYTES, BLOB_BYTES = 32, 112, 120, 128, 160, 168
DEVICE_BYTES, CANDIDATE_BYTES, NODES_BYTES = 176, 184, 192
HEAD_BYTES = 200


class Hash128(ctypes.Structure):
    _fields_ = [("low", ctypes.c_uint64), ("high", ctypes.c_uint64)]


XXHASH = ctypes.CDLL(ctypes.util.find_library("xxhash") or "libxxhash.so.0")
XXHASH.XXH3_128bits.restype = Hash128
XXHASH.XXH3_128bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]


def forged(entry, numbers=None, code=None):
    """An entry with other numbers or other code, and the checksum of what it is now: as anybody could write it."""
    changed = bytearray(entry)
    for offset, value in (numbers or {}).items():
        struct.pack_into("<q", changed, offset, value)
    if code is not None:
        changed[code_at(entry) :] = code
        struct.pack_into("<Q", changed, BLOB_BYTES, len(code))
    body = bytes(changed[CHECKSUM_BYTES:])
    checksum = XXHASH.XXH3_128bits(body, len(body))
    return f"{checksum.high:016x}{checksum.low:016x}".encode() + body


def code_at(entry):
    """Behind the head, what is said to people, and the listing."""
    return HEAD_BYTES + sum(struct.unpack_from("<Q", entry, field)[0] for field in (DEVICE_BYTES, CANDIDATE_BYTES, NODES_BYTES, LISTING_BYTES))


def code_of(entry):
    assert code_at(entry) + struct.unpack_from("<Q", entry, BLOB_BYTES)[0] == len(entry)
    return entry[code_at(entry) :]


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
        self.assertIn(f"{kernels} from the cache", self.counts().stdout)
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
                self.assertIn("not usable", self.call("cache", "list", "--cache", self.cache).stdout)
                figures = self.bench()
                self.assertEqual(figures["cache_misses"], 1)
                self.assertRegex(next(iter(figures["cache_faults"])), reason)
                # It was replaced.
                self.assertEqual(self.bench()["cache_misses"], 0)
                self.assertEqual(first.read_bytes(), whole)
                self.counts()

    def test_forged_numbers(self):
        self.counts()
        first = self.kept()[0]
        whole = first.read_bytes()
        self.assertEqual(forged(whole), whole)
        forgeries = {
            "-5 tasks": {TASKS: -5, GRAIN: 0},
            "a grain of -1": {GRAIN: -1},
            "-64 bytes of workspace": {WORKSPACE: -64},
            f"{1 << 62} bytes of workspace": {WORKSPACE: 1 << 62},
        }
        for reason, numbers in forgeries.items():
            with self.subTest(reason):
                first.write_bytes(forged(whole, numbers))
                self.assertRefused(self.call("cache", "verify", "--cache", self.cache), "FE-K31", "1 of ")
                self.compiled_anew(first, whole, reason)

    def compiled_anew(self, entry, whole, reason, *options):
        """The entry is of no use, for this reason, and is what it was once it was asked for."""
        figures = self.bench(*options)
        self.assertEqual((figures["cache_misses"], figures["cache_hits"]), (1, len(self.kept()) - 1))
        (fault,) = figures["cache_faults"]
        self.assertRegex(fault, f"{entry.name}: .*{reason}")
        self.assertEqual(entry.read_bytes(), whole)
        self.counts(*options)

    def test_numbers_of_another_kernel(self):
        """No number of these is wrong in itself: the kernel says that it cannot have so many tasks, or its code that it has others."""
        self.counts()
        for entry in self.kept():
            whole = entry.read_bytes()
            tasks, grain, workspace = struct.unpack_from("<qqq", whole, TASKS)
            code = f"its code has {tasks}, {grain} and {workspace}"
            forgeries = {f"said to have 0 tasks, and has [0-9]+ points": {TASKS: 0}}
            forgeries |= {f"said to have {many} tasks, and has [0-9]+ points": {TASKS: many} for many in (1 << 40, 1 << 62)}
            forgeries |= {f"said to have {other} tasks, .*{code}": {TASKS: other} for other in (tasks + 1, 48)}
            forgeries |= {f"a grain of {other} .*{code}": {GRAIN: other} for other in (grain + 1, 1 << 62)}
            forgeries |= {f"and {other} bytes of workspace; {code}": {WORKSPACE: other} for other in (workspace + 64, 1 << 39)}
            for reason, changed in forgeries.items():
                with self.subTest(entry=entry.name, reason=reason):
                    entry.write_bytes(forged(whole, changed))
                    # Neither the kernel nor its code is looked at.
                    self.assertEqual(self.call("cache", "verify", "--cache", self.cache).returncode, OK)
                    self.compiled_anew(entry, whole, reason)

    def test_numbers_of_another_kernel_in_a_package(self):
        """What is made for elsewhere is tried here where it can be, and the numbers come with the code."""
        self.counts()
        words = ("compile", "small.fe", "--no-fuse", "--cache", self.cache, "-o")
        self.assertEqual(self.call(*words, "good.fepkg").returncode, OK)
        for entry in self.kept():
            whole = entry.read_bytes()
            entry.write_bytes(forged(whole, {WORKSPACE: 1 << 39}))
            self.assertEqual(self.call(*words, "other.fepkg").returncode, OK)
            self.assertEqual(entry.read_bytes(), whole)
            good, other = ((self.folder / f"{name}.fepkg").read_bytes() for name in ("good", "other"))
            self.assertEqual(good, other)

    def test_numbers_where_the_code_says_none(self):
        """A runtime of another maker need not ask its code: what cannot be is seen then, by the kernel."""
        words = ("--plugin", Settings.stubs / "acme.c.plugin.toml", "--device", "c")
        self.counts(*words)
        entry = self.kept()[0]
        whole = entry.read_bytes()
        for tasks in (0, 1 << 40, 1 << 62):
            entry.write_bytes(forged(whole, {TASKS: tasks}))
            self.compiled_anew(entry, whole, f"said to have {tasks} tasks, and has [0-9]+ points", *words)

    def test_forged_code_that_is_none(self):
        self.counts()
        wholes = {path: path.read_bytes() for path in self.kept()}
        first, whole = next(iter(wholes.items()))
        code = code_of(whole)
        bent = bytearray(code)
        for k in range(0x18, len(bent), 5):
            bent[k] ^= 0x5A
        forgeries = {"garbage": b"\xff" * len(code), "half": code[: len(code) // 2], "bent": bytes(bent), "empty": b"",
                     "another kernel's": code_of(list(wholes.values())[1])}  # fmt: skip
        for name, forgery in forgeries.items():
            with self.subTest(name):
                first.write_bytes(forged(whole, code=forgery))
                figures = self.bench()
                self.assertEqual((figures["cache_misses"], figures["cache_hits"]), (1, len(wholes) - 1))
                (fault,) = figures["cache_faults"]
                self.assertRegex(fault, f"{first.name}: its code cannot be loaded: ")
                self.assertEqual(first.read_bytes(), whole)
                self.counts()
        # All of them, and what else knows of the kernels.
        for path, entry in wholes.items():
            path.write_bytes(forged(entry, code=b"\xff" * 100))
        self.counts("--log", "kernels", environment={"FERRITE_METRICS": "cache,kernel"})
        rows = (self.folder / "metric_cache.csv").read_text().splitlines()
        self.assertIn(f"small.fe,miss,the stored code could not be used,{len(wholes)}", rows)
        self.assertIn("small.fe,hit,,0", rows)
        self.assertEqual(sum(",fault," in row for row in rows), len(wholes))
        self.assertEqual(len((self.folder / "metric_kernel.csv").read_text().splitlines()), len(wholes) + 1)
        self.assertEqual({path: path.read_bytes() for path in self.kept()}, wholes)

    def test_forged_code_in_a_folder_that_cannot_be_written(self):
        self.counts()
        first = self.kept()[0]
        forgery = forged(first.read_bytes(), code=b"\xff" * 100)
        first.write_bytes(forgery)
        limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))}
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        words = [Settings.ferrite, "bench", "small.fe", "--no-fuse", "-i", "x=x.npy", "--repeat", "1", "--json", "--cache",
                 self.cache]  # fmt: skip
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False, timeout=30,
                              restore_signals=False, **limit)  # fmt: skip
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(json.loads(done.stdout)["cache_misses"], 1)
        self.assertEqual(first.read_bytes(), forgery)

    def test_a_file_that_others_may_write_to(self):
        self.counts()
        first = self.kept()[0]
        self.assertEqual(first.stat().st_mode & 0o022, 0)
        for mode in (0o662, 0o626):
            first.chmod(mode)
            self.assertIn("others may write to it", self.call("cache", "verify", "--cache", self.cache).stdout)
            figures = self.bench()
            self.assertEqual(figures["cache_misses"], 1)
            self.assertRegex(next(iter(figures["cache_faults"])), "others may write to it")
            self.assertEqual((first.stat().st_mode & 0o022, self.bench()["cache_misses"]), (0, 0))

    def test_files_are_ones_own_whatever_the_umask(self):
        before = os.umask(0)
        self.addCleanup(os.umask, before)
        self.counts()
        self.assertEqual({path.stat().st_mode & 0o022 for path in [self.cache, *self.kept()]}, {0})
        self.assertEqual(self.bench()["cache_misses"], 0)

    @unittest.skipIf(os.geteuid() != 0, "only root can give files away")
    def test_what_belongs_to_somebody_else(self):
        self.counts()
        first = self.kept()[0]
        os.chown(first, 65534, -1)
        figures = self.bench()
        self.assertEqual(figures["cache_misses"], 1)
        self.assertRegex(next(iter(figures["cache_faults"])), "it belongs to another user")
        self.assertEqual(first.stat().st_uid, 0)
        os.chown(self.cache, 65534, -1)
        figures = self.bench()
        self.assertEqual((figures["cache_hits"], figures["cache_misses"]), (0, 0))
        self.assertRegex(next(iter(figures["cache_bypasses"])), "it belongs to another user")

    def test_a_pipe_in_an_entrys_place(self):
        self.counts()
        first = self.kept()[0]
        first.unlink()
        os.mkfifo(first)
        figures = self.bench()
        self.assertEqual(figures["cache_misses"], 1)
        self.assertRegex(next(iter(figures["cache_faults"])), "it is no regular file")

    def test_a_link_in_an_entrys_place(self):
        self.counts()
        first = self.kept()[0]
        elsewhere = self.folder / "elsewhere"
        for contents in (b"somebody's", first.read_bytes()):
            elsewhere.write_bytes(contents)
            first.unlink()
            first.symlink_to(elsewhere)
            verified = self.call("cache", "verify", "--cache", self.cache)
            self.assertRefused(verified, "FE-K31", "1 of")
            self.assertIn("it is a link", verified.stdout)
            figures = self.bench()
            self.assertEqual(figures["cache_misses"], 1)
            self.assertRegex(next(iter(figures["cache_faults"])), "it is a link")
            self.assertFalse(first.is_symlink())
            self.assertEqual(elsewhere.read_bytes(), contents)

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
        self.assertRegex(self.call("cache", "list", "--cache", self.cache).stdout, "(?m)^the folder is not used: others may write to it$")
        self.assertRefused(self.call("cache", "verify", "--cache", self.cache), "FE-K32", "it is not used: others may write to it")

    def test_a_folder_that_is_none(self):
        self.cache.write_text("a file")
        self.counts()
        self.assertRegex(next(iter(self.bench()["cache_bypasses"])), "it is no folder")

    def test_nothing_can_be_written(self):
        figures = self.bench(place="/proc/ferrite-cache")
        self.assertRegex(next(iter(figures["cache_faults"])), "/proc/ferrite-cache: ")
        # A file may have so many bytes.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        words = [Settings.ferrite, "bench", "small.fe", "-i", "x=x.npy", "--repeat", "1", "--json", "--cache", self.cache]
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, check=False, timeout=30, restore_signals=False,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)))  # fmt: skip
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(next(iter(json.loads(done.stdout)["cache_faults"])), "files may not be so large here; raise the limit")
        self.assertEqual(list(self.cache.iterdir()), [])

    def mounted(self, script, *words):
        """`ferrite WORDS --cache` behind what a shell does of the folder $0, with mounts of its own: the machine's stay as they are."""
        unshare = ["unshare", "--user", "--map-root-user", "--mount"]
        if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("no namespaces of mounts can be made here")
        words = [self.cache, Settings.ferrite, *words, "--cache", self.cache]
        return self.call(*unshare[1:], "sh", "-c", f'{script} && exec "$@"', *words, program=unshare[0])

    def test_a_full_disk(self):
        """The folder takes names, and nothing in them."""
        self.cache.mkdir(mode=0o700)
        full = 'mount -t tmpfs -o size=4k,mode=700 none "$0" && head -c 4096 /dev/zero > "$0/filler"'
        done = self.mounted(full, "bench", "small.fe", "--no-fuse", "-i", "x=x.npy", "--repeat", 1, "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        figures = json.loads(done.stdout)
        self.assertRegex(next(iter(figures["cache_faults"])), "no space is left on the disk; make room")
        self.assertEqual(sum(figures["cache_faults"].values()), figures["cache_misses"])
        done = self.mounted(full, "cache", "list")
        self.assertEqual((done.returncode, done.stderr), (OK, ""))

    def test_a_folder_that_can_only_be_read(self):
        """What is in it is used; what is not is compiled, and not kept."""
        self.counts()
        before = {file: file.read_bytes() for file in self.cache.iterdir()}
        (self.folder / "other.fe").write_text(MODEL.replace("exp(", "tanh("))
        read_only = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"'
        for model, hits in {"small.fe": len(before), "other.fe": 0}.items():
            done = self.mounted(read_only, "bench", model, "--no-fuse", "-i", "x=x.npy", "--repeat", 1, "--json")
            self.assertEqual(done.returncode, OK, done.stderr)
            figures = json.loads(done.stdout)
            faults = figures["cache_faults"]
            self.assertEqual(bool(faults), model == "other.fe", faults)
            self.assertGreaterEqual(figures["cache_hits"], hits)
            for why in faults:
                self.assertRegex(why, "the file system is read-only; give another path")
        self.assertEqual({file: file.read_bytes() for file in self.cache.iterdir()}, before)
        for command in ("list", "verify"):
            self.assertEqual(self.mounted(read_only, "cache", command).returncode, OK)
        self.assertRefused(self.mounted(read_only, "cache", "clear"), "FE-K30", "it cannot be removed: the file system is read-only")

    def test_several_processes(self):
        with ThreadPoolExecutor(4) as pool:
            figures = list(pool.map(lambda _: self.bench(), range(8)))
        self.assertEqual(len(figures), 8)
        self.assertEqual(self.call("cache", "verify", "--cache", self.cache).returncode, OK)
        self.assertEqual([file for file in self.cache.iterdir() if file.suffix != ".kernel"], [])
        self.assertEqual(self.bench()["cache_misses"], 0)

    def test_listings_of_kept_kernels(self):
        self.counts()
        first = self.counts("--log", "output_code", environment={"FERRITE_METRICS": "cache"}).stderr
        self.assertIn(",miss,it was kept without its listing,", (self.folder / "metric_cache.csv").read_text())
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

    def listed(self):
        done = self.call("cache", "list", "--cache", self.cache)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout.splitlines()

    def test_what_the_list_says(self):
        self.counts()
        hours, days = self.kept()[:2]
        for file, seconds in ((hours, 2 * 3600 + 60), (days, 86400 + 60)):
            os.utime(file, (time.time() - seconds,) * 2)
        head, *lines, total = self.listed()
        self.assertRegex(head, "^used +made +size +device +candidate +nodes of the model$")
        self.assertRegex(total, f"^{len(lines)} kernels, ")
        # Those that were used last come first; each says what it was made of, and for what.
        self.assertRegex(lines[0], r"^just now +(just now)? +[\d.]+ KiB  cpu +\w+ ")
        # Where the file system says when a file was made, using it changes nothing of that.
        self.assertRegex(lines[-2], r"^2 hours ago +(just now)? +[\d.]+ KiB")
        self.assertRegex(lines[-1], r"^1 day ago +(just now)? +[\d.]+ KiB")
        self.assertEqual({line.split()[-1] for line in lines} & {"e", "row", "soft"}, {"e", "row", "soft"})

    def test_what_the_list_says_of_entries_that_are_none(self):
        self.counts()
        first, second, *_ = self.kept()
        whole = first.read_bytes()
        # Names are somebody's: a terminal obeys what it is sent.
        nodes = struct.unpack_from("<Q", whole, NODES_BYTES)[0]
        at = code_at(whole) - struct.unpack_from("<Q", whole, LISTING_BYTES)[0] - nodes
        first.write_bytes(forged(forged(whole, {NODES_BYTES: nodes + 4})[:at] + b"\x1b[2J" + whole[at:]))
        self.assertIn("\\x1b[2J", "\n".join(self.listed()))
        for field in (DEVICE_BYTES, CANDIDATE_BYTES, NODES_BYTES):
            for size in (2**63 - 1, -1, len(whole)):
                first.write_bytes(forged(whole, {field: size}))
                self.assertIn(f"not usable: {first.name}: it is cut short", "\n".join(self.listed()))
        first.write_bytes(forged(whole + b"more"))
        self.assertIn("it is longer than it says", "\n".join(self.listed()))
        self.assertRegex(self.listed()[-1], "^1 is not usable, and made anew when it is wanted; ferrite cache verify --remove takes it away")
        second.write_bytes(b"")
        self.assertRegex(self.listed()[-1], "^2 are not usable")
        self.assertEqual(self.bench()["cache_misses"], 2)
        self.assertRegex(self.listed()[-1], "kernels, ")

    def test_list_and_clear(self):
        for command in ("list", "clear", "verify"):
            done = self.call("cache", command, "--cache", self.cache)
            self.assertRefused(done, "FE-K30", "cache: No such file or directory; correct its path")
            done = self.call("cache", command, environment={"FERRITE_CACHE": str(self.cache)})
            self.assertEqual((done.returncode, done.stdout[:10]), (OK, "0 kernels:"), done.stderr)
        self.assertFalse(self.cache.exists())
        self.counts()
        kernels = len(self.kept())
        self.assertRegex(self.call("cache", "list", "--cache", self.cache).stdout, f"(?m)^{kernels} kernels, .* [KM]iB, in ")
        old = self.kept()[0]
        os.utime(old, (0, 0))
        self.assertRegex(self.call("cache", "clear", "--days", 30, "--cache", self.cache).stdout, "^removed 1 kernel, ")
        self.assertFalse(old.exists())
        self.kept()[0].write_bytes(b"")
        done = self.call("cache", "verify", "--remove", "--cache", self.cache)
        self.assertEqual((done.returncode, len(self.kept())), (OK, kernels - 2))
        left, at_work = (self.cache / f"0.kernel.{process}.0" for process in (12, 13))
        for part in (left, at_work):
            part.write_bytes(b"half")
        os.utime(left, (0, 0))
        done = self.call("cache", "clear", "--cache", self.cache)
        self.assertEqual(done.returncode, OK)
        self.assertRegex(done.stdout, "(?m)^removed 1 file that was not written to its end, ")
        self.assertEqual(self.kept(), [])
        self.assertEqual((left.exists(), at_work.exists()), (False, True))
        self.assertEqual(self.call("cache", "list", "--cache", "off").stdout, "the cache is off\n")
        (self.folder / "file").write_text("")
        self.assertRefused(self.call("cache", "list", "--cache", "file"), "FE-K30", "file")


if __name__ == "__main__":
    main(__doc__, stubs=BUILD / "lib/ferrite/stubs")
