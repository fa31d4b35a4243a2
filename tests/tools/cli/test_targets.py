#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Packages of several targets: made without any of their devices, and what of them runs here.

Usage: test_targets.py [--ferrite FILE] [--stubs DIRECTORY] [unittest options]
"""

import platform
import re
import shutil
import struct
import subprocess
import sys
import unittest
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from package_file import CODE, DESCRIPTION, GRAPH, PROGRAM, STORED, WEIGHTS, Fields, PackageCase, Section, read, written  # noqa: E402
from program import BUILD, DEVICE, OK, UNSUPPORTED, USAGE, Settings, main  # noqa: E402

GPUS = {"cuda": "sm_90a", "hip": "gfx942", "level_zero": "spirv64"}
ALL = "x86-64-v2,x86-64-v4,sm_90a,gfx942,spirv64"
NOWHERE = {"cuda": "libcuda.so.1", "hip": "libamdhip64", "level_zero": "driver"}


def has_avx512():
    flags = Path("/proc/cpuinfo").read_text().split()
    return all(flag in flags for flag in ("avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"))


def needs(program):
    """The devices that a program names: pairs of a kind and a target."""
    at, result = 24, []
    for _ in range(struct.unpack_from("<Q", program, 16)[0]):
        texts = []
        for _ in range(2):
            (size,) = struct.unpack_from("<Q", program, at)
            texts.append(program[at + 8 : at + 8 + size].decode())
            at += 8 + size
        result.append(tuple(texts))
    return result


def tool(*names):
    for name in names:
        if found := shutil.which(name) or (Path("/usr/local/cuda/bin") / name if (Path("/usr/local/cuda/bin") / name).is_file() else None):
            return str(found)
    return None


@unittest.skipIf(platform.machine() != "x86_64", "the targets are levels of x86-64")
class TargetsTest(PackageCase):
    def programs(self):
        """The devices of each target, by its number."""
        return [needs(section.unpacked()) for section in read(self.package) if section.kind == PROGRAM]

    def made(self, targets=ALL, *options):
        return self.compiled("--target", targets, *options).stdout

    def test_five_targets_without_their_devices(self):
        direct, _ = self.outputs("layers.fe")
        said = self.made()
        programs = self.programs()
        # What a GPU does not take runs on the lesser CPU.
        self.assertEqual(sorted(programs), sorted([[("cpu", "x86-64-v2")], [("cpu", "x86-64-v4")]]
                                                  + [[(kind, target), ("cpu", "x86-64-v2")] for kind, target in GPUS.items()]))  # fmt: skip
        # The better CPU is estimated to be faster, and so stands first.
        self.assertLess(programs.index([("cpu", "x86-64-v4")]), programs.index([("cpu", "x86-64-v2")]))
        lines = said.splitlines()
        self.assertEqual([line.split(":")[0] for line in lines],
                         [", ".join(f"{kind} ({target})" for kind, target in program) for program in programs] + ["layers.fepkg"])  # fmt: skip
        self.assertRegex(lines[-1], r"^layers\.fepkg: 5 targets, .* KiB$")
        # Weights and graph are there once; so are the weights' elements.
        kinds = [section.kind for section in read(self.package)]
        self.assertEqual([kinds.count(kind) for kind in (DESCRIPTION, PROGRAM, CODE, GRAPH, WEIGHTS)], [1, 5, 5, 1, 1])
        self.assertEqual(len(read(self.package)[-1].contents), 32 * 32 * 4 + 32 * 4)

        for options in ((), ("--device", "cpu"), self.bare()):
            results, told = self.outputs("layers.fepkg", *options)
            self.assertIn(f"nothing compiled, for cpu (x86-64-v{4 if has_avx512() else 2}), loaded in", told)
            for packaged, expected in zip(results, direct):
                packaged, expected = (np.frombuffer(file[128:], np.float32) for file in (packaged, expected))
                np.testing.assert_allclose(packaged, expected, 1e-5, 1e-6)
        self.assertEqual(self.outputs("layers.fepkg", "--recompile")[0], direct)

    def test_the_same_bytes_every_time(self):
        self.made()
        first = self.package.read_bytes()
        self.made(ALL, "--compile-jobs", 1)
        self.assertEqual(self.package.read_bytes(), first)
        done = self.call("compile", "layers.fepkg", "--target", ALL, "-o", "again.fepkg")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual((self.folder / "again.fepkg").read_bytes(), first)

    def test_nothing_fits(self):
        """Every target is named with its reason, and nothing is loaded."""
        self.made("sm_90a,gfx942,spirv64", "--target", "triple=aarch64-linux-gnu")
        done = self.call("run", "layers.fepkg")
        self.assertRefused(done, "FE-K53", "--recompile compiles its graph anew", UNSUPPORTED)
        for kind, target in GPUS.items():
            self.assertRegex(done.stderr, rf"'{kind}' \({target}\): ferrite\.{kind}/driver device {kind}: .*{NOWHERE[kind]}")
        self.assertRegex(done.stderr, r"'cpu' \(triple=aarch64-linux-gnu\): it is code for aarch64-linux-gnu, this machine is x86_64")
        for device, reason in (("cpu", r"'cuda' \(sm_90a\): the device is 'cpu'"), ("interpreter", "the interpreter runs no code")):
            self.assertRefused(self.call("run", "layers.fepkg", "--device", device), "FE-K53", reason, UNSUPPORTED)

    def test_what_is_passed_over_is_logged(self):
        self.made("x86-64-v2", "--target", "triple=aarch64-linux-gnu features=+sve2")
        log = self.call("run", "layers.fepkg", "--log", "plugins").stderr
        first = self.programs()[0][0][1]
        if first != "x86-64-v2":
            self.assertIn(f"of the package's targets, 'cpu' ({first}): it is code for aarch64", log)

    def test_what_is_preferred_and_not_here_is_noted(self):
        """Once, in one line, where nobody chose the device and the log does not tell more."""
        self.made("x86-64-v2,sm_90a,gfx942")
        first = [program[0] for program in self.programs()]
        before = [f"{kind} ({target})" for kind, target in first[: first.index(("cpu", "x86-64-v2"))]]
        note = f"ferrite: note: not usable on this machine: {', '.join(before)}, which the package prefers; --log plugins gives the reasons\n"
        ran = self.call("run", "layers.fepkg")
        self.assertEqual(ran.returncode, OK, ran.stderr)
        if "for cpu (x86-64-v2)" in ran.stdout:
            self.assertEqual(ran.stderr, note if before else "")
        for options in (("--device", "cpu"), ("--recompile",)):
            self.assertEqual(self.call("run", "layers.fepkg", *options).stderr, "")
        self.assertNotIn("ferrite: note", self.call("run", "layers.fepkg", "--log", "plugins").stderr)
        # With one target there is nothing to prefer.
        self.made("x86-64-v2")
        self.assertEqual(self.call("run", "layers.fepkg").stderr, "")

    def test_names_of_targets(self):
        self.made("cpu:x86-64-v3", "--target", "cuda:sm_80 l2=1000000")
        host = ("cpu", "x86-64-v3")
        self.assertEqual(sorted(self.programs()), [[host], [("cuda", "sm_80 l2=1000000"), host]])
        # Without one that reaches the host's memory, this machine's stands behind it.
        self.made("sm_80")
        self.assertRegex(self.programs()[0][1][1], "^triple=x86_64-")
        for targets, reason in [
            ("sm_91", r"no enabled plugin compiles for 'sm_91': ferrite\.cpu/target device cpu: unknown cpu 'sm_91'.*; "
                      r"ferrite\.cuda/target device cuda: 'sm_91' is no architecture .*there are sm_80, .*sm_120"),
            ("x86-64-v2,,sm_80", "a target without a name"),
            ("x86-64-v2,cpu:x86-64-v2", "'cpu:x86-64-v2' is named twice"),
            (",".join(f"sm_{k}" for k in range(100, 140)), "40 targets; a package has at most 30"),
        ]:
            with self.subTest(targets):
                self.assertRefused(self.compile("--target", targets), "FE-D24", "--target.*" + reason, USAGE)
        # One kind alone says itself what is wrong.
        self.assertRefused(self.compile("--target", "cuda:sm_91"), "ferrite.cuda/target", "device cuda: 'sm_91' is no architecture")
        self.assertRefused(self.compile("--target", "sm_80", "--device", "cpu"), "ferrite.cpu/target", "unknown cpu 'sm_80'")
        self.assertRefused(self.compile("--target", "cuda:"), "ferrite.cuda/driver", NOWHERE["cuda"], DEVICE)
        self.assertRefused(self.compile("--target", "x86-64-v2,x86-64-v3", "--lock-decisions", "d.lock"), "FE-T47", "2 are named")
        # What a manifest disables stays so.
        (self.folder / "without.toml").write_text('schema = 0\nenable = ["ferrite.cuda"]\n[profile.none]\ndisable = ["ferrite.cuda"]\n')
        done = self.compile("--target", "sm_90a", "--manifest", "without.toml", "--profile", "none")
        self.assertRefused(done, "ferrite.cpu/target", "unknown cpu 'sm_90a'")

    def test_several_devices_of_one_target(self):
        """None of which is here."""
        self.made("sm_90a", "--device", "cuda:0,cuda:1,cpu")
        (program,) = self.programs()
        self.assertEqual(program[:2], [("cuda", "sm_90a")] * 2)
        self.assertEqual([kind for kind, _ in program], ["cuda", "cuda", "cpu"])
        done = self.call("run", "layers.fepkg")
        self.assertRefused(done, "FE-K53", rf"'cuda' \(sm_90a\): .*{NOWHERE['cuda']}", UNSUPPORTED)
        for devices, reason in (("cuda,cuda:0", "'cuda:0' is named twice"), ("cuda:x", "a kind and a number"),
                                ("cpu:0,cpu:1", "device cpu.*: 'cpu' has one device, number 0")):  # fmt: skip
            with self.subTest(devices):
                target = "x86-64-v2" if "cpu" in devices else "sm_90a"
                self.assertRefused(self.compile("--target", target, "--device", devices), "FE-D01", reason, USAGE)

    def test_several_kinds_with_one_name(self):
        """The stub takes any target."""
        stub = ("--plugin", Settings.stubs / "acme.c.plugin.toml")
        self.assertRefused(self.compile("--target", "x86-64-v2", *stub), "FE-D24", "write 'cpu:x86-64-v2' or 'c:x86-64-v2'", USAGE)

    def test_explained_without_its_device(self):
        """The compilation that a package has, of a model or of a package for other targets."""
        kernels = r"\d+ statements, \d+ kernels?[^,]*"
        for target in ("sm_90a", "gfx942", "spirv64", "x86-64-v2"):
            with self.subTest(target):
                said = re.search(kernels, self.made(target))
                for model in (("layers.fe", "--dim", "n=16"), ("layers.fepkg",)):
                    done = self.call("explain", "--all", *model, "--target", target)
                    self.assertEqual(done.returncode, OK, done.stderr)
                    self.assertEqual(re.search(kernels, done.stdout)[0], said[0])
                    self.assertIn("<-  llvm" if target == "x86-64-v2" else "<-  grid", done.stdout)
        for target, code, reason in [
            ("sm_91", "FE-D24", "--target sm_91: no enabled plugin compiles for 'sm_91'"),
            ("sm_90a,gfx942", "FE-D24", "2 targets; explain one at a time"),
        ]:
            with self.subTest(target):
                self.assertRefused(self.call("explain", "layers.fe", "--dim", "n=16", "--target", target), code, reason, USAGE)
        # One kind alone says itself what is wrong.
        done = self.call("explain", "layers.fe", "--dim", "n=16", "--target", "cuda:sm_91")
        self.assertRefused(done, "ferrite.cuda/target", "device cuda: 'sm_91' is no architecture")
        done = self.call("explain", "layers.fe", "--dim", "n=16", "--target", "cuda:")
        self.assertRefused(done, "ferrite.cuda/driver", NOWHERE["cuda"], DEVICE)
        # Where a device is named that is not here, the error says what needs none.
        for kind in GPUS:
            done = self.call("explain", "layers.fe", "--dim", "n=16", "--placement", "--device", f"{kind}:7")
            self.assertNotEqual(done.returncode, OK)
            self.assertRegex(done.stderr, r"; --target, as in --target sm_90a, explains what is compiled for a device that is not here\n$")
        for words in (("explain", "--device", "nothing"), ("run", "--device", "cpu:7")):
            done = self.call(*words, "layers.fe", "--dim", "n=16")
            self.assertRefused(done, "FE-D01", "device", USAGE)
            self.assertNotIn("--target", done.stderr)

    def test_kinds_that_are_not_here(self):
        """An unknown one is told from those that are known; of each of these why it is not here."""
        done = self.call("run", "layers.fe", "--dim", "n=16", "--device", "rocm")
        self.assertRefused(done, "FE-D01", "there is no such device; there are cpu, ", USAGE)
        here, _, absent = done.stderr.partition("; known, but not here: ")
        for kind, missing in NOWHERE.items():
            with self.subTest(kind):
                if f" {kind}," not in here:
                    self.assertRegex(absent, rf"\b{kind} \([^;]*({missing}|no device)")

    def test_hostile_programs(self):
        """Hashes are right; each program is looked at, whichever runs."""
        self.made("x86-64-v2,x86-64-v3")
        good = read(self.package)
        second = next(k for k, section in enumerate(good) if section.kind == PROGRAM and section.target == 1)
        program = good[second].unpacked()

        def refused(changed, reason):
            sections = list(good)
            sections[second] = replace(Section(PROGRAM, STORED, 1, changed, len(changed)))
            self.package.write_bytes(written(sections))
            self.assertRefused(self.call("run", "layers.fepkg"), "FE-K52", reason)

        refused(program[:-1], "cut short")
        fields = Fields(program).found
        dim = next(field for field in fields if field.name == "dim" and field.value == 16)
        refused(dim.changed(program, 8), "in no memory|different inputs or outputs")
        refused(program.replace(b"\1\0\0\0\0\0\0\0x", b"\1\0\0\0\0\0\0\0z", 1), "its programs have different inputs or outputs")
        # The code of a program that is not there, and a program without code.
        for left, reason in (((CODE, 1), "no section of kind 3"), ((CODE, 0), "no section of kind 3"), ((PROGRAM, 0), "no section of kind 2")):
            self.package.write_bytes(written([section for section in good if (section.kind, section.target) != left]))
            self.assertRefused(self.call("run", "layers.fepkg"), "FE-K52", reason)
        # What belongs to a target behind a gap is looked past.
        self.package.write_bytes(written([replace(s, target=7) if s.target == 1 else s for s in good]))
        self.assertEqual(self.call("run", "layers.fepkg").returncode, OK)
        # Altered code of a program that does not run is altered all the same.
        self.package.write_bytes(written(good))
        file = bytearray(self.package.read_bytes())
        section = next(k for k, s in enumerate(good) if s.kind == CODE and s.target == 1)
        (offset,) = struct.unpack_from("<Q", file, 88 + section * 104 + 16)
        file[offset] ^= 1
        self.package.write_bytes(file)
        self.assertRefused(self.call("run", "layers.fepkg"), "FE-K51", f"section {section} were changed")

    def test_code_of_each_target(self):
        """What vendors' tools make of it, where they are there."""
        self.made("sm_90a,gfx942,x86-64-v2")
        sections = {(section.kind, section.target): section for section in read(self.package)}
        by_kind = {needs(section.unpacked())[0][0]: section.target for section in sections.values() if section.kind == PROGRAM}
        code = {kind: sections[CODE, target].unpacked() for kind, target in by_kind.items()}
        ptx = re.findall(rb"//\n// Generated by LLVM.*?\n\}\s", code["cuda"], re.DOTALL)
        self.assertTrue(ptx)
        if ptxas := tool("ptxas"):
            (self.folder / "k.ptx").write_bytes(ptx[0])
            done = subprocess.run([ptxas, "-arch=sm_90a", "-o", "/dev/null", "k.ptx"], cwd=self.folder, capture_output=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        begin = code["hip"].index(b"\x7fELF")
        if objdump := tool("llvm-objdump-22", "llvm-objdump"):
            (self.folder / "k.o").write_bytes(code["hip"][begin:])
            done = subprocess.run([objdump, "-d", "k.o"], cwd=self.folder, capture_output=True, text=True, check=False)
            self.assertRegex(done.stdout, "s_endpgm", done.stderr)


if __name__ == "__main__":
    main(__doc__, stubs=BUILD / "lib/ferrite/stubs")
