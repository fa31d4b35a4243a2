#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is no package, or another than was written, is refused, and crashes nothing.

Usage: test_hostile_package.py [--ferrite FILE] [--each N] [HostileFileTest|HostileProgramTest] [unittest options]
  --each N   the numbers of a program that are altered, of each name
"""

import random
import struct
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from package_file import (  # noqa: E402
    CODE, ENTRY, GRAPH, HEADER, MAGIC, PROGRAM, STORED, VERSION, WEIGHTS, Fields, PackageCase, Section, read, written,
)  # fmt: skip
from program import BAD_INPUT, DEVICE, OK, UNSUPPORTED, Settings, main  # noqa: E402

NEEDS = ("tasks", "grain", "workspace")  # that the code says too
REMARKS = ("registers", "spills", "checked argument", "checked size")  # that nothing reads but reports and messages


class HostileFileTest(PackageCase):
    def refused(self, contents, code, pattern="", status=BAD_INPUT, command="run"):
        self.package.write_bytes(contents)
        self.assertRefused(self.call(command, "layers.fepkg", *self.bare()), code, "layers.fepkg: .*" + pattern, status)

    def test_no_packages(self):
        for contents in (b"", b"ferrite graph 0\n", bytes(1000), MAGIC):
            self.refused(contents, "FE-K50")
        self.package.unlink()
        self.assertRefused(self.call("run", "layers.fepkg"), "FE-I01", "layers.fepkg")
        self.compiled()
        sections = read(self.package)
        for version in (VERSION - 1, VERSION + 1):
            reason = f"version {version}, this program reads version {VERSION}; make it again with `ferrite compile`"
            self.refused(written(sections, version=version), "FE-K50", reason, UNSUPPORTED)

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
            (replace(first, offset=0), "follow the one before"),
            (replace(first, offset=2**64 - 64), "follow the one before"),
            (replace(first, size=2**64 - 1), "follow the one before"),
            (replace(first, size=whole), "follow the one before"),
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
        self.refused(written([first, replace(others[0], offset=448), *others[1:]]), "FE-K52", "follow the one before")
        for kind in range(1, 6):
            left = [section for section in good if section.kind != kind]
            if kind == GRAPH:
                self.package.write_bytes(written(left))
                self.assertRefused(self.call("run", "layers.fepkg", "--recompile"), "FE-K52", "no section of kind 4")
            else:
                self.refused(written(left), "FE-K52", f"no section of kind {kind}")
        self.refused(written([replace(section, target=3) for section in good]), "FE-K52", "no section")
        self.refused(written(good, behind=bytes(64)), "FE-K52", "after its last section")
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


class HostileProgramTest(PackageCase):
    """Hashes are right, and the program is not the one that was written."""

    def setUp(self):
        super().setUp()
        self.direct, _ = self.outputs("layers.fe")
        self.compiled()
        self.sections = read(self.package)
        self.program = self.sections[1].unpacked()
        self.fields = Fields(self.program).found
        self.chance = random.Random(3)

    def some(self, fields):
        """As many of each name as `--each` says."""
        by_name = {}
        for field in fields:
            by_name.setdefault(field.name, []).append(field)
        return [field for same in by_name.values() for field in self.chance.sample(same, min(len(same), Settings.each))]

    def run_changed(self, field, value):
        """`ferrite run` with another number there; a crash, a fault that nobody names or no end fails the test."""
        program = field.changed(self.program, value)
        bent = Section(PROGRAM, STORED, self.sections[1].target, program, len(program))
        self.package.write_bytes(written([self.sections[0], bent, *self.sections[2:]]))
        done = self.call("run", "layers.fepkg", "-i", "x=x.npy", "-o", "out")
        if done.returncode != OK:
            self.assertRegex(done.stderr, "^ferrite: (FE-(K5[23]|D0[23]|C[0-9]{2}|X(02|04|10))|ferrite.cpu/link) ")
            self.assertNotIn("crash", done.stderr)
        return done

    def test_numbers_of_kernels(self):
        """What a kernel's code says that its launches need counts."""
        fields = [field for field in self.fields if field.name in NEEDS]
        self.assertGreaterEqual(len(fields), 3 * 3)
        for field in self.some(fields):
            for value in {0, 1, field.value + 1, 1000, 1 << 39, 1 << 40, 1 << 62, -1} - {field.value}:
                with self.subTest(field=field, value=value):
                    self.assertRefused(self.run_changed(field, value), "FE-K52", "is said to have .*")
        for field in self.some(field for field in self.fields if field.name in REMARKS):
            self.assertEqual(self.run_changed(field, 1 << 62).returncode, OK)
            self.assertEqual((self.folder / "out/output_0.npy").read_bytes(), self.direct[0])

    def test_other_numbers(self):
        """They may name the wrong memory, and never what is not there."""
        fields = [field for field in self.fields if field.name not in NEEDS + REMARKS]
        for name in ("arena", "persistent bytes", "constant size", "dim", "place number", "place offset", "place size"):
            self.assertIn(name, {field.name for field in fields})
        refusals = 0
        for field in self.some(fields):
            largest = (1 << field.bits - 1) - 1
            for value in {0, 1, field.value + 1, field.value + 64, 1 << 39, largest} - {field.value}:
                if value <= largest:
                    with self.subTest(field=field, value=value):
                        refusals += self.run_changed(field, value).returncode != OK
        self.assertGreater(refusals, 30)

    def test_arguments(self):
        """Arguments that are there, and not what the kernel's code takes."""
        size = next(field for field in self.fields if field.name == "place size" and field.value > 64)
        self.assertRefused(self.run_changed(size, 64), "FE-K52", "has 64 bytes, and its code reaches")
        offset = next(field for field in self.fields if field.name == "place offset" and field.value > 0)
        self.assertRefused(self.run_changed(offset, offset.value - 1), "FE-K52", "where no buffer can begin")
        for field in self.fields:
            if field.name == "arena":
                self.assertRefused(self.run_changed(field, 1 << 40), "FE-D03", "no memory for", DEVICE)


if __name__ == "__main__":
    main(__doc__, each=1)
