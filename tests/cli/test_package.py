#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages: what runs from one computes what the model does, and what is no package, or another than was written, is refused.

Usage: test_package.py [--ferrite FILE] [--stubs DIRECTORY] [--plugins DIRECTORY] [--library FILE] [unittest options]
"""

import ctypes
import ctypes.util
import hashlib
import json
import platform
import random
import re
import struct
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import BAD_INPUT, BUILD, DEVICE, OK, PLUGINS, UNSUPPORTED, USAGE, ProgramTest, Settings, main  # noqa: E402

# Kernels that are shared, an epilogue, a constant that is packed, one that is read twice, an open dim.
MODEL = """ferrite graph 0
graph @layers(%x: f32[$n,32]) -> (%p "p", %t "t") {
  symbol $n in [1, 64]
  #w = data f32[32,32] {WEIGHT}
  #b = data f32[32] {BIAS}
  %m = matmul(%x, #w) from "First"
  %n = add(%m, #b) from "Bias"
  %r = relu(%n) from "Relu"
  %o = matmul(%r, #w) from "Second"
  %q = add(%o, #b) from "Bias_1"
  %s = relu(%q) from "Relu_1"
  %p = softmax(%s) {axis = 1} from "Softmax"
  %t = reduce_sum(%o) {axes = [0], keepdims = false} from "Sum"
}
"""
RUNNING_SUM = """ferrite graph 0
graph @c(%x: f32[4,8]) -> (%y "y") {
  %y = test.running_sum(%x)
}
"""
BARE = 'schema = 0\nextends = "none"\nenable = ["ferrite.cpu"]\n[pipeline]\ndevice = "cpu"\n'
AARCH64 = "triple=aarch64-linux-gnu cpu=cortex-a72"
DESCRIPTION, PROGRAM, CODE, GRAPH, WEIGHTS = range(1, 6)
STORED, ZSTD = range(2)
HEADER, ENTRY = struct.Struct("<8sIIQ64s"), struct.Struct("<IIIIQQQ64s")
MAGIC = b"FEPKG\r\n\x1a"

zstd = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
zstd.ZSTD_decompress.restype = ctypes.c_size_t


def numbers(count):
    return ", ".join(str((k * 37 % 64 - 32) / 64) for k in range(count))


def digest(contents):
    return hashlib.sha256(contents).hexdigest().encode()


@dataclass
class Section:
    """A section as its table says, with what may be wrong on purpose."""

    kind: int
    codec: int
    target: int
    contents: bytes  # as they lie in the file
    raw: int  # bytes
    reserved: int = 0
    offset: int | None = None  # None: where it belongs
    size: int | None = None

    def unpacked(self):
        if self.codec == STORED:
            return self.contents
        result = ctypes.create_string_buffer(self.raw + 1)
        size = zstd.ZSTD_decompress(result, ctypes.c_size_t(self.raw), self.contents, ctypes.c_size_t(len(self.contents)))
        assert size == self.raw
        return result.raw[:size]


def read(path):
    """The sections of a package, read as docs/packages.md says."""
    file = path.read_bytes()
    magic, version, count, size, head = HEADER.unpack_from(file)
    table = file[HEADER.size : HEADER.size + count * ENTRY.size]
    assert (magic, version, size, head) == (MAGIC, 0, len(file), digest(file[:24] + table))
    sections = []
    for kind, codec, target, reserved, offset, size, raw, hashed in ENTRY.iter_unpack(table):
        contents = file[offset : offset + size]
        assert hashed == digest(contents) and offset % 64 == 0
        sections.append(Section(kind, codec, target, contents, raw, reserved))
    return sections


def written(sections, behind=b"", version=0):
    """The file of these sections, hashes right."""
    table, body = b"", b""
    end = HEADER.size + len(sections) * ENTRY.size
    for section in sections:
        padding = -(end + len(body)) % 64
        body += bytes(padding)
        offset = end + len(body) if section.offset is None else section.offset
        size = len(section.contents) if section.size is None else section.size
        table += ENTRY.pack(section.kind, section.codec, section.target, section.reserved, offset, size, section.raw,
                            digest(section.contents))  # fmt: skip
        body += section.contents
    body += behind
    head = HEADER.pack(MAGIC, version, len(sections), end + len(body), b"")[:24]
    return head + digest(head + table) + table + body


@dataclass
class Field:
    """A number of a program, and where it lies."""

    name: str
    offset: int
    form: str  # of struct
    value: int

    @property
    def bits(self):
        return struct.calcsize(self.form) * 8

    def changed(self, program, value):
        """The program with another number there, as far as it has bits for it."""
        value &= (1 << self.bits) - 1
        size = self.bits // 8
        return program[: self.offset] + value.to_bytes(size, "little") + program[self.offset + size :]


class Fields:
    """The numbers of a program, read as docs/packages.md says."""

    def __init__(self, program):
        self.program, self.at, self.found = program, 0, []
        for name in ("nodes", "statements"):
            self.number(name)
        self.list(self.text, self.text)
        for _ in range(2):
            self.list(self.text, lambda: self.number("type", "<H"), lambda: self.list(lambda: self.number("dim")))
        self.list(lambda: self.number("arena"))
        self.list(lambda: self.number("persistent device", "<I"), lambda: self.number("persistent bytes"))
        self.list(lambda: self.number("constant offset"), lambda: self.number("constant size"))
        names = ("tasks", "grain", "workspace", "registers", "spills", "code offset", "code size")
        self.list(*[self.text] * 4, lambda: self.number("device", "<I"), *[lambda name=name: self.number(name) for name in names])
        for _ in range(2):
            whose = [lambda name=name: self.number(name, "<I") for name in ("launched kernel", "copy device", "copy")]
            self.list(*whose, self.text, self.places)
        self.places()
        assert self.at == len(program)

    def number(self, name, form="<q"):
        (value,) = struct.unpack_from(form, self.program, self.at)
        self.found.append(Field(name, self.at, form, value))
        self.at += struct.calcsize(form)
        return value

    def text(self):
        self.at += 8 + struct.unpack_from("<Q", self.program, self.at)[0]

    def list(self, *parts):
        for _ in range(self.number("count")):
            for part in parts:
                part()

    def places(self):
        forms = {"kind": "<B", "device": "<I", "number": "<I", "offset": "<q", "size": "<q"}
        self.list(*[lambda name=name, form=form: self.number(f"place {name}", form) for name, form in forms.items()])


def number_fields(program):
    return Fields(program).found


class PackageTest(ProgramTest):
    def setUp(self):
        super().setUp()
        text = MODEL.replace("WEIGHT", numbers(32 * 32)).replace("BIAS", numbers(32))
        (self.folder / "layers.fe").write_text(text)
        np.save(self.folder / "x.npy", np.random.default_rng(5).normal(size=(16, 32)).astype(np.float32))
        self.package = self.folder / "layers.fepkg"

    def compile(self, *options, name="layers.fepkg", **how):
        return self.call("compile", "layers.fe", "--dim", "n=16", "-o", name, *options, **how)

    def compiled(self, *options):
        done = self.compile(*options)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done

    def outputs(self, model, *options):
        """The bytes of the outputs, and what was printed."""
        done = self.call("run", model, "-i", "x=x.npy", "-o", "out", *options)
        self.assertEqual(done.returncode, OK, done.stderr)
        return [(self.folder / f"out/output_{k}.npy").read_bytes() for k in range(2)], done.stdout

    def bare(self):
        """The options of a pipeline that runs packages and nothing else."""
        (self.folder / "bare.toml").write_text(BARE)
        return "--manifest", "bare.toml"

    def test_a_package_computes_what_the_model_does(self):
        direct, _ = self.outputs("layers.fe")
        self.assertRegex(self.compiled().stdout, r"^layers\.fepkg: 8 nodes, .* kernels and 1 at load, compiled in .* ms, .* MiB\n$")
        (self.folder / "layers.fe").unlink()
        packaged, said = self.outputs("layers.fepkg")
        self.assertEqual(packaged, direct)
        self.assertRegex(said, r"(?m)^8 nodes, \d+ statements, \d+ kernels and 1 at load, nothing compiled, loaded in .* ms, run in ")
        again, said = self.outputs("layers.fepkg", "--recompile", "--threads", 1)
        self.assertEqual(again, direct)
        self.assertIn("compiled in", said)
        # Neither operators nor importers are needed.
        self.assertEqual(self.outputs("layers.fepkg", *self.bare())[0], direct)
        log = self.call("run", "layers.fepkg", "--log", "plugins,kernels").stderr
        self.assertRegex(log, r"the package was made with ferrite\.std 0\.1\.0, SHA-256 [0-9a-f]{64}\n")
        self.assertNotIn("cache", log)

    def test_a_package_as_a_model(self):
        self.compiled()
        bench = self.call("bench", "layers.fepkg", "--repeat", 1, "--json")
        self.assertRegex(bench.stdout, '"compile_ms":0.0,')
        imported = self.call("opt", "layers.fepkg", "--to", "import").stdout
        self.assertEqual(imported.count("matmul("), 2)
        self.assertIn("graph @layers(%x: f32[16,32])", imported)
        done = self.call("compile", "layers.fepkg", "-o", "again.fepkg")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual((self.folder / "again.fepkg").read_bytes(), self.package.read_bytes())
        self.assertRefused(self.call("run", "layers.fepkg", "--dim", "x:0=8"), "FE-C06", "16", USAGE)

    def test_the_same_bytes_every_time(self):
        self.compiled()
        other = self.folder / "other"
        other.mkdir()
        (self.folder / "layers.fe").rename(other / "layers.fe")
        done = self.call("compile", "other/layers.fe", "--dim", "n=16", "-o", "other/second.fepkg", "--compile-jobs", 1)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual((other / "second.fepkg").read_bytes(), self.package.read_bytes())
        self.assertEqual(sorted(file.name for file in other.iterdir()), ["layers.fe", "second.fepkg"])
        kinds = [(section.kind, section.codec) for section in read(self.package)]
        self.assertEqual(kinds, [(DESCRIPTION, ZSTD), (PROGRAM, ZSTD), (CODE, ZSTD), (GRAPH, ZSTD), (WEIGHTS, STORED)])
        # One weight; the graph and the program share it.
        self.assertEqual(len(read(self.package)[-1].contents), 32 * 32 * 4 + 32 * 4)

    def test_kernels_are_counted_alike(self):
        """A run's kernels, those that prepare constants, and how many differ: the same text wherever it stands."""
        words = ("layers.fe", "--dim", "n=16", "--no-fuse")
        figures = json.loads(self.call("bench", *words, "--repeat", 1, "--json").stdout)
        run, load, different = (figures[key] for key in ("kernels", "kernels_at_load", "unique_kernels"))
        self.assertGreater(load, 0)
        self.assertLess(different, run + load)
        text = f" {run} kernels and {load} at load, {different} different, "
        options = ("--no-fuse", "--cache", self.folder / "kept")
        self.assertIn(text + "compiled in", self.compiled(*options).stdout)
        self.assertIn(text + f"{different} from the cache, compiled in", self.compiled(*options).stdout)
        for done in (
            self.call("run", *words),
            self.call("run", "layers.fepkg"),
            self.call("bench", *words, "--repeat", 1),
            self.call("explain", *words),
            self.call("report", *words, "-o", "page.html", "--repeat", 1),
        ):
            self.assertIn(text, done.stdout, done.stderr)
        page = (self.folder / "page.html").read_text()
        self.assertIn(f"<b>{run}</b><span>kernels and {load} at load, {different} different</span>", page)

    def test_targets(self):
        direct, _ = self.outputs("layers.fe")
        self.compiled("--target", AARCH64)
        foreign = self.call("run", "layers.fepkg")
        if platform.machine() != "aarch64":
            self.assertRefused(foreign, "FE-K53", r"layers.fepkg: .*code for aarch64-linux-gnu.*--recompile", UNSUPPORTED)
        self.assertEqual(self.outputs("layers.fepkg", "--recompile")[0], direct)
        for target, reason in [
            ("no-such-cpu", "unknown cpu 'no-such-cpu'"),
            ("features=+nosuch", r"unknown feature '\+nosuch' for \w+; leave it out"),
            (AARCH64 + " features=+dotprod,-avx2", "unknown feature '-avx2' for aarch64"),
            ("triple=x86_64-linux-gnu features=+avx2,fma", r"feature 'fma' has no sign; write \+fma or -fma"),
            ("features=+help", "unknown feature"),
            ("triple=i686-linux-gnu", "'i686-.*linux-gnu' is no CPU .*x86_64 and aarch64"),
            ("triple=aarch64_be-linux-gnu", "'aarch64_be-.*linux-gnu' is no CPU"),
            ("triple=riscv64-linux-gnu", "'riscv64-.*linux-gnu' is no CPU"),
        ]:
            with self.subTest(target):
                done = self.compile("--target", target)
                self.assertRefused(done, "ferrite.cpu/target", f"--target {re.escape(target)}: device cpu: .*{reason}")
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.compiled("--target", AARCH64 + " features=+dotprod,-sve")
        if platform.machine() != "x86_64":
            return
        self.compiled("--target", "x86-64-v2")
        for packaged, expected in zip(self.outputs("layers.fepkg")[0], direct):
            packaged, expected = (np.frombuffer(file[128:], np.float32) for file in (packaged, expected))
            np.testing.assert_allclose(packaged, expected, 1e-5, 1e-6)
        # Instructions that few machines ever had.
        self.compiled("--target", "cpu=x86-64 features=+xop")
        self.assertRefused(self.call("run", "layers.fepkg"), "FE-K53", "no .*xop", UNSUPPORTED)

    def test_devices(self):
        self.compiled()
        self.assertRefused(self.call("run", "layers.fepkg", "--device", "interpreter"), "FE-K53", "interpreter", UNSUPPORTED)
        done = self.call("run", "layers.fepkg", "--device", "interpreter", "--recompile")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRefused(self.compile("--device", "interpreter"), "FE-K54", "interpreter", UNSUPPORTED)
        stub = ("--plugin", Settings.stubs / "acme.c.plugin.toml", "--device", "c")
        self.assertRefused(self.call("run", "layers.fepkg", *stub), "FE-K53", "the device is 'c'", UNSUPPORTED)
        direct, _ = self.outputs("layers.fe", *stub)
        self.compiled(*stub)
        self.assertEqual(self.outputs("layers.fepkg", *stub)[0], direct)

    def test_libraries(self):
        library = ("--plugin", Settings.stubs / "acme.gemm.plugin.toml")
        direct, _ = self.outputs("layers.fe", *library)
        self.compiled(*library)
        self.assertEqual(self.outputs("layers.fepkg", *library)[0], direct)
        self.assertRefused(self.call("run", "layers.fepkg"), "FE-K53", "the library 'acme.gemm'", UNSUPPORTED)

    def test_explained(self):
        """A package keeps no ledger: what it is made of is compiled again, and gives that of the model."""
        self.compiled()
        told = [self.call("explain", *words, "--json") for words in (("layers.fe", "--dim", "n=16"), ("layers.fepkg",))]
        for done in told:
            self.assertEqual(done.returncode, OK, done.stderr)
        fusions = [[record for record in json.loads(done.stdout) if record["kind"] == "fusion"] for done in told]
        self.assertTrue(fusions[0])
        self.assertEqual(*fusions)

    def test_what_cannot_be_packaged(self):
        (self.folder / "sum.fe").write_text(RUNNING_SUM)
        words = ("compile", "sum.fe", "-o", "sum.fepkg", "--plugin", Settings.plugins / "c_kernel.so")
        self.assertRefused(self.call(*words), "FE-K54", "'.*' is a function in a plugin", UNSUPPORTED)
        self.assertRefused(self.call("compile", "layers.fe", "-o", "p.fepkg"), "FE-C05", "--dim n=N", USAGE)

    def test_packages_that_cannot_be_written(self):
        self.assertRefused(self.compile(name="none/layers.fepkg"), "FE-K55", "none/layers.fepkg: no file can be made: is the folder there")
        self.package.mkdir()
        self.assertRefused(self.compile(), "FE-K55", "is no regular file")
        self.assertEqual(sorted(file.name for file in self.folder.iterdir()), ["layers.fe", "layers.fepkg", "x.npy"])
        self.assertRefused(self.compile(name="layers.out"), "FE-C01", r"ends in \.fepkg", USAGE)
        self.assertRefused(self.compile(name=".fepkg"), "FE-C01", r"ends in \.fepkg", USAGE)

    def refused(self, contents, code, pattern="", status=BAD_INPUT, command="run"):
        self.package.write_bytes(contents)
        self.assertRefused(self.call(command, "layers.fepkg", *self.bare()), code, "layers.fepkg: .*" + pattern, status)

    def test_no_packages(self):
        for contents in (b"", b"ferrite graph 0\n", bytes(1000), MAGIC):
            self.refused(contents, "FE-K50")
        self.package.unlink()
        self.assertRefused(self.call("run", "layers.fepkg"), "FE-I01", "layers.fepkg")
        self.compiled()
        self.refused(written(read(self.package), version=1), "FE-K50", "version 1", UNSUPPORTED)

    def test_cut_and_altered(self):
        self.compiled()
        file = self.package.read_bytes()
        sections = read(self.package)
        borders, ends = {0, 8, 24, HEADER.size}, []
        for number in range(len(sections)):
            place = HEADER.size + number * ENTRY.size
            offset, size = struct.unpack_from("<QQ", file, place + 16)
            borders |= {place, place + ENTRY.size, offset, offset + size}
            ends.append((offset, offset + size))
        for border in sorted(borders):
            if border < len(file):
                self.refused(file[:border], "FE-K5[01]")
        self.refused(file[:-1], "FE-K51", "bytes, and has")
        self.refused(file + b"x", "FE-K51", "bytes, and has")
        fields = [0, 8, 12, 16, 24, 87] + [HEADER.size + at for at in (0, 4, 8, 12, 16, 24, 32, 40, 103)]
        inside = [place for first, end in ends for place in (first, (first + end) // 2, end - 1)]
        padding = [end for _, end in ends[:-1] if end % 64]
        for place in fields + inside + padding:
            with self.subTest(place):
                changed = file[:place] + bytes([file[place] ^ 0x10]) + file[place + 1 :]
                self.refused(changed, "FE-K5[01]", status=UNSUPPORTED if place == 8 else BAD_INPUT)

    def test_hostile_tables(self):
        self.compiled()
        good = read(self.package)
        self.package.write_bytes(written(good))
        self.assertEqual(self.call("run", "layers.fepkg").returncode, OK)
        first, *others = good
        whole = len(written(good))
        for wrong, reason in [
            (replace(first, kind=9), "no kind"),
            (replace(first, codec=2), "no kind"),
            (replace(first, reserved=1), "no kind"),
            (replace(first, offset=0), "behind the one before"),
            (replace(first, offset=2**64 - 64), "behind the one before"),
            (replace(first, size=2**64 - 1), "behind the one before"),
            (replace(first, size=whole), "behind the one before"),
            (replace(first, raw=2**40), "take more than"),
            (replace(first, raw=2**64 - 1), "take more than"),
            (replace(first, raw=first.raw + 1), "does not decompress"),
            (replace(first, codec=STORED), "two sizes"),
            (replace(first, contents=b"no zstd frame"), "does not decompress"),
            (replace(first, contents=first.contents[:-1]), "does not decompress"),
        ]:
            with self.subTest(reason, section=wrong):
                self.refused(written([wrong, *others]), "FE-K52", reason)
        self.refused(written([*good, replace(first)]), "FE-K52", "twice")
        self.refused(written([first, replace(others[0], offset=448), *others[1:]]), "FE-K52", "behind the one before")
        for kind in range(1, 6):
            left = [section for section in good if section.kind != kind]
            if kind == GRAPH:
                self.package.write_bytes(written(left))
                self.assertRefused(self.call("run", "layers.fepkg", "--recompile"), "FE-K52", "no section of kind 4")
            else:
                self.refused(written(left), "FE-K52", f"no section of kind {kind}")
        self.refused(written([replace(section, target=3) for section in good]), "FE-K52", "no section")
        self.refused(written(good, behind=bytes(64)), "FE-K52", "behind its last section")
        # A mebibyte of zeros in a few bytes: the size that the frame says is the section's, and the contents are refused.
        block = (128 << 10) << 3 | 2  # repeated, not the last
        frame = struct.pack("<IBQ", 0xFD2FB528, 0xE0, 1 << 20) + (block.to_bytes(3, "little") + b"\0") * 7
        frame += (block | 1).to_bytes(3, "little") + b"\0"
        bomb = replace(others[0], contents=frame, raw=1 << 20)
        self.refused(written([first, bomb, *others[1:]]), "FE-K52", "program")
        self.refused(written([first, replace(bomb, raw=100), *others[1:]]), "FE-K52", "does not decompress")

    def test_hostile_contents(self):
        """Hashes are right, so the contents are read; nothing of them is run."""
        self.compiled()
        good = read(self.package)
        chance = random.Random(11)
        refusals = 0
        for number, section in enumerate(good):
            if section.kind in (CODE, WEIGHTS):
                continue
            raw = section.unpacked()
            changes = [raw[: len(raw) // 2], raw + b"x", b""]
            for _ in range(12):
                place = chance.randrange(len(raw))
                changes.append(raw[:place] + bytes([chance.randrange(256)]) + raw[place + 1 :])
            for changed in changes:
                bent = Section(section.kind, STORED, section.target, changed, len(changed))
                self.package.write_bytes(written([*good[:number], bent, *good[number + 1 :]]))
                done = self.call("opt", "layers.fepkg", "--to", "import")
                self.assertIn(done.returncode, (OK, BAD_INPUT, UNSUPPORTED), done.stderr)
                if done.returncode != OK:
                    self.assertRegex(done.stderr, "^ferrite: FE-[A-Z][0-9]{2} ")
                    refusals += 1
        self.assertGreater(refusals, 9)

    def run_bent(self, good, program, *options):
        """`ferrite run` of the package with this program; a crash, a fault that nobody names or no end fails the test."""
        bent = Section(PROGRAM, STORED, good[1].target, program, len(program))
        self.package.write_bytes(written([good[0], bent, *good[2:]]))
        done = self.call("run", "layers.fepkg", "-i", "x=x.npy", "-o", "out", *options, timeout=60)
        if done.returncode != OK:
            self.assertRegex(done.stderr, "^ferrite: (FE-(K5[23]|D0[23]|C[0-9]{2}|X(02|04|10))|ferrite.cpu/link) ")
            self.assertNotIn("crash", done.stderr)
        return done

    def test_hostile_numbers_of_kernels(self):
        """What a kernel's code says that its launches need counts."""
        direct, _ = self.outputs("layers.fe")
        self.compiled()
        good = read(self.package)
        program = good[1].unpacked()
        fields = [field for field in number_fields(program) if field.name in ("tasks", "grain", "workspace")]
        self.assertGreaterEqual(len(fields), 3 * 3)
        for field in fields:
            for value in {0, 1, field.value + 1, 1000, 1 << 39, 1 << 40, 1 << 62, -1} - {field.value}:
                with self.subTest(field=field, value=value):
                    done = self.run_bent(good, field.changed(program, value))
                    self.assertRefused(done, "FE-K52", "is said to have .*")
        for field in number_fields(program):
            if field.name in ("registers", "spills"):
                self.assertEqual(self.run_bent(good, field.changed(program, 1 << 62)).returncode, OK)
                self.assertEqual((self.folder / "out/output_0.npy").read_bytes(), direct[0])

    def test_hostile_programs(self):
        """Any other number of a program: it may name the wrong memory, and never what is not there."""
        self.compiled()
        good = read(self.package)
        program = good[1].unpacked()
        fields = list(number_fields(program))
        for name in ("arena", "persistent bytes", "constant size", "dim", "place number", "place offset", "place size"):
            self.assertIn(name, {field.name for field in fields})
        chance = random.Random(3)
        refusals = 0
        by_name = {}
        for field in fields:
            if field.name not in ("tasks", "grain", "workspace", "registers", "spills"):
                by_name.setdefault(field.name, []).append(field)
        for same in by_name.values():
            for field in chance.sample(same, min(len(same), 3)):
                largest = (1 << field.bits - 1) - 1
                for value in {0, 1, field.value + 1, field.value + 64, 1 << 39, largest} - {field.value}:
                    if value <= largest:
                        with self.subTest(field=field, value=value):
                            refusals += self.run_bent(good, field.changed(program, value)).returncode != OK
        self.assertGreater(refusals, 30)

    def test_hostile_arguments(self):
        """Arguments that are there, and not what the kernel's code takes."""
        self.compiled()
        good = read(self.package)
        program = good[1].unpacked()
        fields = list(number_fields(program))
        sizes = [field for field in fields if field.name == "place size" and field.value > 64]
        self.assertRefused(self.run_bent(good, sizes[0].changed(program, 64)), "FE-K52", "has 64 bytes, and its code reaches")
        offsets = [field for field in fields if field.name == "place offset" and field.value > 0]
        self.assertRefused(self.run_bent(good, offsets[0].changed(program, offsets[0].value - 1)), "FE-K52", "where no buffer begins")
        for field in fields:
            if field.name == "arena":
                self.assertRefused(self.run_bent(good, field.changed(program, 1 << 40)), "FE-D03", "no memory for", DEVICE)

    def test_hostile_weights(self):
        """A graph whose weights are not in the package reads no file either."""
        self.compiled()
        good = read(self.package)
        graph = good[3].unpacked()
        self.assertEqual(graph.count(b"kept"), 2)
        for changed in (graph.replace(b"kept", b"x.np"), None):
            sections = list(good)
            if changed is None:
                sections[4] = replace(good[4], contents=b"", raw=0)
            else:
                sections[3] = Section(GRAPH, STORED, good[3].target, changed, len(changed))
            self.package.write_bytes(written(sections))
            code, reason = ("FE-K52", "weights that are not there") if changed is None else ("FE-P34", "not among those")
            self.assertRefused(self.call("run", "layers.fepkg", "--recompile"), code, reason)

    def test_another_graph(self):
        """Inputs are given as the program has them."""
        self.compiled()
        good = read(self.package)
        done = self.call("compile", "layers.fe", "--dim", "n=8", "-o", "other.fepkg")
        self.assertEqual(done.returncode, OK, done.stderr)
        good[3] = read(self.folder / "other.fepkg")[3]
        self.package.write_bytes(written(good))
        self.assertRefused(self.call("run", "layers.fepkg", "--recompile"), "FE-K52", "other inputs")

    def test_embedding(self):
        """A package where ferrite.h loads a model."""
        if b"__asan_init" in Path(Settings.library).read_bytes():
            self.skipTest("a library with a sanitizer loads into programs that have it too")
        direct, _ = self.outputs("layers.fe")
        self.compiled()
        runtime = ctypes.CDLL(str(Settings.library))

        class Tensor(ctypes.Structure):
            _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
                        ("dtype", ctypes.c_uint8 * 2), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                        ("strides", ctypes.c_void_p), ("byte_offset", ctypes.c_uint64)]  # fmt: skip

        def tensor(array):
            shape = (ctypes.c_int64 * array.ndim)(*array.shape)
            return Tensor(array.ctypes.data, (1, 0), array.ndim, (2, 32), 1, shape, None, 0)

        def check(status):
            self.assertEqual(status, 0)

        session, model = ctypes.c_void_p(), ctypes.c_void_p()
        check(runtime.ferrite_session_open(None, ctypes.byref(session)))
        check(runtime.ferrite_model_load(session, str(self.package).encode(), ctypes.byref(model)))
        arrays = [np.load(self.folder / "x.npy"), np.empty((16, 32), np.float32), np.empty(32, np.float32)]
        x, *results = [tensor(array) for array in arrays]
        pointers = (ctypes.POINTER(Tensor) * 2)(*map(ctypes.pointer, results))
        check(runtime.ferrite_run(model, (ctypes.POINTER(Tensor) * 1)(ctypes.pointer(x)), ctypes.c_uint64(1), pointers,
                                  ctypes.c_uint64(2)))  # fmt: skip
        for array, file in zip(arrays[1:], direct):
            self.assertEqual(array.tobytes(), file[128:])
        runtime.ferrite_model_free(model)
        self.package.write_bytes(self.package.read_bytes()[:-1])
        refused = runtime.ferrite_model_load(session, str(self.package).encode(), ctypes.byref(model))
        self.assertEqual(refused, 2)
        runtime.ferrite_session_close(session)


if __name__ == "__main__":
    main(__doc__, stubs=BUILD / "lib/ferrite/stubs", plugins=PLUGINS, library=BUILD / "lib/libferrite.so")
