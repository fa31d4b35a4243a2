#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The Level Zero plugin with a driver that computes on the CPU, by PoCL: results beside the interpreter's, what the driver is asked, what is
said where it fails, and the code, which spirv-val takes.

Usage: test_level_zero.py [--ferrite FILE] [--driver FILE] [--models FOLDER] [unittest options]
"""

import re
import sys
import tempfile
import unittest
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TESTS), str(TESTS / "backends"), str(TESTS / "plugins/stubs")]

from grid_tests import DRAWS, KINDS, SORTS, loss  # noqa: E402
from program import BAD_INPUT, BUILD, DEVICE, OK, ROOT, UNSUPPORTED, ProgramTest, Settings, main  # noqa: E402

import tables  # noqa: E402

MODEL = """ferrite graph 0
graph @g(%x: f32[64,256], %y: f32[64,256]) -> (%r "r", %s "s") {
  %a = add(%x, %y) from "the_sum"
  %r = exp(%a) from "the_exp"
  %s = reduce_sum(%r) {axes = [1]} from "rows"
}
"""
GATHER = """ferrite graph 0
graph @g(%x: f32[8,4], %i: i64[3]) -> (%r "r") {
  %r = gather(%x, %i) {axis = 0} from "the_gather"
}
"""
DOUBLE = """ferrite graph 0
graph @g(%x: f64[8,4]) -> (%r "r") {
  %r = exp(%x)
}
"""
MIXED = """ferrite graph 0
graph @g(%x: f32[8,4]) -> (%r "r") {
  %a = add(%x, %x) from "first"
  %d = cast(%a) {dtype = f64} from "wide"
  %e = sin(%d) from "sine"
  %n = cast(%e) {dtype = f32} from "narrow"
  %m = mul(%n, %n) from "square"
  %r = exp(%m) from "last"
}
"""
CAPABILITIES = """schema = 0
target = "TARGET"
provider = "level_zero"
plugin = "ferrite.level_zero 0.1.0"
[failed]
exp = ["f32"]
"""
# Elements of each type, in vectors and under masks, some of which have no memory behind them.
TYPES = """ferrite graph 0
graph @g(%x: f32[7,64], %h: f16[7,64], %b: bf16[7,64], %n: i8[7,64], %l: i64[7,64], %c: bool[7,64])
    -> (%most "most", %math "math", %halves "halves", %brains "brains", %bytes "bytes", %longs "longs", %chosen "chosen",
        %padded "padded", %transposed "transposed", %any "any", %wide "wide") {
  %t = tanh(%x)
  %most = maximum(%x, %t)
  %e = erf(%x)
  %s = sin(%e)
  %math = pow(%s, %t)
  %h1 = mul(%h, %h)
  %halves = floor(%h1)
  %brains = add(%b, %b)
  %bytes = add(%n, %n)
  %l1 = add(%l, %l)
  %longs = mul(%l1, %l)
  %chosen = where(%c, %x, %t)
  %v = literal f32[] {2}
  %padded = pad(%x, %v) {low = [1, 3], high = [2, 0], mode = "constant"}
  %transposed = transpose(%h) {perm = [1, 0]}
  %any = reduce_any(%c) {axes = [1]}
  %wide = cast(%n) {dtype = f32}
}
"""
# Rows, depth and columns: whole tiles, parts of them, and too few for any.
PRODUCTS = [(64, 64, 64), (130, 70, 50), (9, 33, 9), (33, 7, 3), (1, 40, 17)]


# Operands of products that are computed where they are read: along the columns, the depth and the rows, and transposed.
OPERANDS = """ferrite graph 0
graph @g(%x: f16[16,512], %q: i8[512,72], %s: f16[72], %z: i8[72], %a: f32[64,250], %c: f32[250], %v: f32[250,40], %t: u8[72,512], %sr: f16[72],
    %u: u8[72]) -> (%y "y", %o "o", %p "p") {
  %w = dequantize_linear(%q, %s, %z) {axis = 1}
  %y = matmul(%x, %w)
  %b = mul(%a, %c)
  %o = matmul(%b, %v)
  %d = dequantize_linear(%t, %sr, %u) {axis = 0}
  %e = transpose(%d) {perm = [1, 0]}
  %p = matmul(%x, %e)
}
"""


def products():
    graph = "\n".join(f'  %r{k} = matmul(%x{k}, %y{k})' for k in range(len(PRODUCTS)))
    inputs = ", ".join(f"%x{k}: f32[{m},{d}], %y{k}: f32[{d},{n}]" for k, (m, d, n) in enumerate(PRODUCTS))
    return (f"ferrite graph 0\ngraph @g({inputs}, %b: bf16[40,32], %c: bf16[32,24]) -> "
            + "(" + ", ".join(f'%r{k} "r{k}"' for k in range(len(PRODUCTS))) + ', %s "s") {\n' + graph
            + "\n  %s = matmul(%b, %c)\n}\n")  # fmt: skip


# What is made, and what ends it.
PAIRS = [("zeContextCreate", "zeContextDestroy"), ("zeCommandListCreateImmediate", "zeCommandListDestroy"),
         ("zeEventPoolCreate", "zeEventPoolDestroy"), ("zeEventCreate", "zeEventDestroy"), ("zeModuleCreate", "zeModuleDestroy"),
         ("zeKernelCreate", "zeKernelDestroy"), ("zeMemAllocDevice", "zeMemFree")]  # fmt: skip
OUT_OF_HOST_MEMORY = "0x70000002"  # an error that the device survives

# How far results may be off, to the largest of them.
RESULTS = {"f64": 1e-12, "f32": 1e-4, "f16": 1e-2, "bf16": 1e-2}


class OnPocl(ProgramTest):
    @classmethod
    def setUpClass(cls):
        kept = tempfile.TemporaryDirectory(prefix="ferrite-pocl-")
        cls.addClassCleanup(kept.cleanup)
        cls.environment = {"ZE_ENABLE_ALT_DRIVERS": str(Settings.driver), "POCL_CACHE_DIR": kept.name}

    def setUp(self):
        super().setUp()
        self.log = self.folder / "calls"
        self.write("manifest.toml", 'schema = 0\nenable = ["ferrite.level_zero"]\n[pipeline]\ndevice = "level_zero:0"\n')
        self.write("g.fe", MODEL)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def run_on(self, model="g.fe", *options, **environment):
        self.log.unlink(missing_ok=True)
        return self.call("run", model, "--manifest", "manifest.toml", *options,
                         environment=self.environment | {"POCL_DRIVER_LOG": str(self.log)} | environment)  # fmt: skip

    def calls(self, name):
        return [line.split()[1:] for line in self.log.read_text().splitlines() if line.split()[0] == name]

    def assertAllEnded(self, at_least=0):
        """Whatever was made; of each kind that many."""
        lines = [line.split()[0] for line in self.log.read_text().splitlines() if " failed" not in line]
        for made, ended in PAIRS:
            self.assertEqual(lines.count(made), lines.count(ended), made)
            self.assertGreaterEqual(lines.count(made), at_least, made)

    def assertNothingIsLoaded(self):
        self.assertTrue(self.calls("zeInit"))
        self.assertFalse(self.calls("zeModuleCreate") + self.calls("zeMemAllocDevice"))

    def assertSameResults(self, model, *options, same_bits=(), **environment):
        """What the device computes, beside what the interpreter does; of the results that `same_bits` names all bits. The driver takes no
        module that spirv-val refuses."""
        results_folder = Path(tempfile.mkdtemp(dir=self.folder))
        done = self.run_on(model, *options, "-o", results_folder / "device", **environment)
        self.assertEqual(done.returncode, OK, done.stderr)
        expected = self.call("run", model, *options, "--device", "interpreter", "-o", results_folder / "expected")
        self.assertEqual(expected.returncode, OK, expected.stderr)
        results = sorted((results_folder / "expected").glob("*.npy"))
        self.assertTrue(results)
        outputs = re.findall(r"^output \d+ '(.*?)' (\w+)\[", done.stdout, re.M)
        for (name, dtype), path in zip(outputs, sorted(results, key=lambda p: int(p.stem.split("_")[1])), strict=True):
            a, b = np.load(results_folder / "device" / path.name), np.load(path)
            if name in same_bits:
                self.assertEqual((a.dtype, a.shape, a.tobytes()), (b.dtype, b.shape, b.tobytes()), f"{model} {name}")
                continue
            if dtype == "bf16":
                a, b = ((x.astype(np.uint32) << 16).view(np.float32) for x in (a, b))
            if dtype in RESULTS:
                a, b = a.astype(np.float64), b.astype(np.float64)
                np.testing.assert_array_equal(np.isnan(a), np.isnan(b), f"{model} {path.stem}")
                most = np.nanmax(np.abs(b), initial=1)
                worst = np.nanmax(np.abs(a - b), initial=0)
                self.assertLessEqual(worst, RESULTS[dtype] * most, f"{model} {path.stem}")
            else:
                np.testing.assert_array_equal(a, b, f"{model} {path.stem}")
        self.assertTrue(self.calls("zeModuleCreate"), "everything went to another device")


class LevelZeroKindsTest(OnPocl):
    """A kernel of each kind, and of each type."""

    def test_a_kernel_of_each_kind(self):
        self.write("k.fe", KINDS)
        self.assertSameResults("k.fe")

    def test_types(self):
        self.write("t.fe", TYPES)
        self.assertSameResults("t.fe")

    def test_scatters_that_replace_leave_the_last_update(self):
        self.write("s.fe", """ferrite graph 0
graph @g(%x: f32[512,9], %i: i64[5000,1], %u: f32[5000,9], %y: f16[301,5], %j: i64[5000,4], %v: f16[5000,4]) -> (%r "r", %s "s") {
  %r = scatter_nd(%x, %i, %u) from "the_rows"
  %s = scatter_elements(%y, %j, %v) {axis = 0}
}
""")
        random = np.random.default_rng(0)
        rows = random.integers(-512, 500, (5000, 1))
        np.save(self.folder / "i.npy", rows)
        np.save(self.folder / "j.npy", random.integers(-301, 301, (5000, 4)))
        indices = ("-i", "i=i.npy", "-i", "j=j.npy")
        self.assertSameResults("s.fe", *indices)
        self.assertEqual(len(self.calls("zeCommandListAppendLaunchKernel")), 8)  # of each, the base that is copied, and three
        explained = self.call("explain", "--all", "s.fe", "--manifest", "manifest.toml", environment=self.environment)
        self.assertRegex(explained.stdout, "parts: 2 parallel")
        # An index that is out of range is found, also where a later update takes its place.
        rows[7] = 512
        np.save(self.folder / "i.npy", rows)
        self.assertRefused(self.run_on("s.fe", *indices), "FE-X10", "the_rows", BAD_INPUT)


class LevelZeroKernelsTest(OnPocl):
    """What PoCL compiles many kernels for."""

    def test_sorts(self):
        self.write("s.fe", SORTS)
        self.assertSameResults("s.fe")

    def test_draws(self):
        """The bits of an element are the same on each device, and so are the numbers of [0, 1) that are made of them; those of the
        normal distribution are as near as its functions are."""
        self.write("draws.fe", DRAWS)
        for seed in ((0, 0), (0x299F31D0A4093822, 0x0370734413198A2E), (2**64 - 1, 7)):
            np.save(self.folder / "seed.npy", np.array(seed, np.uint64))
            self.assertSameResults("draws.fe", "-i", "seed=seed.npy", same_bits={"b", "u", "most", "one"})
        explained = self.call("explain", "draws.fe", "--manifest", "manifest.toml", "--placement", environment=self.environment)
        for op in ("random_bits", "random_uniform", "random_normal"):
            self.assertRegex(explained.stdout, rf"(?m)^  runs  {op}\b.*  <-  level_zero:0: by level_zero as ")

    def test_floats_of_8_bits(self):
        kinds = ("f8e4m3", "f8e5m2", "f8e4m3fnuz", "f8e5m2fnuz")
        inputs = ", ".join(f"%{k}: {k}[9,33], %t_{k}: {k}[33,7]" for k in kinds)
        nodes = {f"{k}_{to}": f"cast(%{k}) {{dtype = {to}}}" for k in kinds for to in (*kinds, "f32", "f16", "bf16", "i8") if to != k}
        nodes |= {f"to_{k}": f"cast(%x) {{dtype = {k}}}" for k in kinds}
        nodes |= {f"product_{k}": f"matmul(%{k}, %t_{k})" for k in kinds}
        body = "".join(f"  %{name} = {node}\n" for name, node in nodes.items())
        results = ", ".join(f'%{name} "{name}"' for name in nodes)
        self.write("f.fe", f"ferrite graph 0\ngraph @g({inputs}, %x: f32[9,333]) -> ({results}) {{\n{body}}}\n")
        self.assertSameResults("f.fe")

    def test_products(self):
        self.write("p.fe", products())
        self.assertSameResults("p.fe")

    def test_computed_operands(self):
        self.write("o.fe", OPERANDS)
        self.assertSameResults("o.fe")
        explained = self.call("explain", "--all", "o.fe", "--manifest", "manifest.toml", environment=self.environment)
        self.assertRegex(explained.stdout, "kernel: 3 compiled")

    def test_cross_entropy(self):
        self.write("loss.fe", loss(128, 32, 1003))
        self.assertSameResults("loss.fe")
        explained = self.call("explain", "--all", "loss.fe", "--manifest", "manifest.toml", environment=self.environment)
        self.assertRegex(explained.stdout, "memory: 1 in place")
        self.assertRegex(explained.stdout, r"\[1003, 1\] -> \[1024, 1\]")

    def test_magika(self):
        model = Settings.models / "magika/model.onnx"
        self.assertTrue(model.is_file(), "fetch it: ./dev setup")
        self.assertSameResults(model, "--dim", "unk__214=2")

    def test_work_that_is_done_late_is_waited_for(self):
        self.write("k.fe", KINDS)
        self.assertSameResults("k.fe", POCL_DRIVER_LATE="1")

    def test_all_ends_whatever_fails(self):
        self.assertEqual(self.run_on(POCL_DRIVER_LATE="1").returncode, OK)
        waits = len(self.calls("zeEventHostSynchronize"))
        made = ["zeContextCreate", "zeCommandListCreateImmediate", "zeEventPoolCreate", "zeEventCreate", "zeKernelCreate"]
        for call in [f"{name}:1" for name in made] + [f"zeEventHostSynchronize:{k + 1}" for k in range(waits)]:
            with self.subTest(call):
                self.run_on(POCL_DRIVER_FAIL=call, POCL_DRIVER_ERROR=OUT_OF_HOST_MEMORY, POCL_DRIVER_LATE="1")
                self.assertAllEnded()


class LevelZeroTest(OnPocl):
    def test_the_whole_way(self):
        self.assertSameResults("g.fe")
        self.assertAllEnded(at_least=1)
        launches = self.calls("zeCommandListAppendLaunchKernel")
        self.assertEqual(len(launches), 1)
        self.assertRegex(launches[0][0], "^k_[0-9a-f]{32}$")
        self.assertEqual(launches[0][1:5], ["64", "1", "1", "of"])  # a group a row
        copies = sorted((bytes_, to) for bytes_, _, to in self.calls("zeCommandListAppendMemoryCopy"))
        self.assertEqual(copies, [("256", "unknown"), ("65536", "device"), ("65536", "device"), ("65536", "unknown")])

    def test_a_wrong_index_is_reported(self):
        self.write("gather.fe", GATHER)
        np.save(self.folder / "i.npy", np.array([1, 9, 2], np.int64))
        self.assertRefused(self.run_on("gather.fe", "-i", "i=i.npy"), "FE-X10", "the_gather", BAD_INPUT)
        np.save(self.folder / "i.npy", np.array([1, 7, -8], np.int64))
        self.assertEqual(self.run_on("gather.fe", "-i", "i=i.npy").returncode, OK)

    def test_no_loader_and_no_driver(self):
        with (self.folder / "manifest.toml").open("a") as manifest:
            manifest.write('[plugin."ferrite.level_zero"]\nconfig = { library = "libno-such-loader.so.1" }\n')
        self.assertRefused(self.run_on(), "ferrite.level_zero/driver", "libno-such-loader.so.1.*no Level Zero here", DEVICE)
        self.setUp()
        for fault, pattern in [
            ({"ZE_ENABLE_ALT_DRIVERS": "libno-such-driver.so"}, "no driver that starts"),
            ({"POCL_DRIVER_FAIL": "zeInit:1"}, "Level Zero does not start: the device is lost"),
        ]:
            self.assertRefused(self.run_on(**fault), "ferrite.level_zero/driver", pattern, DEVICE)

    def test_a_loader_that_is_too_old(self):
        """Without one of the functions, or with a driver that has an older version; nothing was called before."""
        with (self.folder / "manifest.toml").open("a") as manifest:
            manifest.write('[plugin."ferrite.level_zero"]\nconfig = { library = "libm.so.6" }\n')
        self.assertRefused(self.run_on(), "ferrite.level_zero/driver", "has no function 'zeInit'; install a newer one, of version 1.3", DEVICE)
        self.assertFalse(self.log.exists())
        self.setUp()
        done = self.run_on(POCL_DRIVER_FAIL="zeInit:1", POCL_DRIVER_ERROR="0x78000002")
        self.assertRefused(done, "ferrite.level_zero/driver", "Level Zero does not start: the version is not supported", DEVICE)
        self.assertEqual({line.split()[0] for line in self.log.read_text().splitlines()}, {"zeInit"})

    def test_no_device(self):
        self.assertRefused(self.run_on(POCL_DRIVER_DEVICES="0"), "FE-D01", "'level_zero' has no device here", 2)

    def test_a_device_that_does_not_do(self):
        done = self.run_on(POCL_DRIVER_FLAGS="2")
        self.assertRefused(done, "ferrite.level_zero/device", "does not do: needed are SPIR-V 1.2", DEVICE)

    def test_without_double_precision_the_host_takes_it(self):
        self.write("d.fe", DOUBLE)
        self.assertSameResults("d.fe")
        done = self.run_on("d.fe", POCL_DRIVER_FLAGS="5")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(self.calls("zeModuleCreate"), [])
        made = self.call("compile", "d.fe", "--manifest", "manifest.toml", "-o", "d.fepkg", environment=self.environment)
        self.assertEqual(made.returncode, OK, made.stderr)
        done = self.run_on("d.fepkg", POCL_DRIVER_FLAGS="5")
        self.assertRefused(done, "FE-K5[0-9]", "code for a device with f64, this one has none", UNSUPPORTED)
        self.assertNothingIsLoaded()
        # What is made for any device leaves it to the host, too.
        made = self.call("compile", "d.fe", "--target", "spirv64", "-o", "d.fepkg")
        self.assertEqual(made.returncode, OK, made.stderr)
        for flags in ("5", "7"):
            done = self.run_on("d.fepkg", POCL_DRIVER_FLAGS=flags)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertEqual(self.calls("zeModuleCreate"), [])

    def test_what_is_not_taken_runs_on_the_host(self):
        """Beside what is, with copies between: element types that the device has not, and kernels that failed when it was measured."""
        self.write("m.fe", MIXED)
        apart = ("--no-fuse", "--without", "inline")
        self.assertSameResults("m.fe", *apart, POCL_DRIVER_FLAGS="5")
        explain = ("explain", "m.fe", "--manifest", "manifest.toml", *apart, "--placement")
        done = self.call(*explain, environment=self.environment | {"POCL_DRIVER_FLAGS": "5"})
        self.assertRegex(done.stdout, r"(?m)^  runs  wide  <-  cpu:0: by cpu as .*; level_zero: .* of f64 is not declared$", done.stderr)
        self.assertRegex(done.stdout, r"(?m)^  runs  first  <-  level_zero:0: by level_zero as ")
        self.assertRegex(done.stdout, r"(?m)^  from device  of first  <-  level_zero:0  \[128 B\]$")
        self.assertRegex(done.stdout, r"(?m)^  to device  of narrow  <-  level_zero:0  \[128 B\]$")
        # A plugin of its own folder, where the table is looked for.
        for file in (BUILD / "lib/ferrite/plugins").glob("*level_zero*"):
            (self.folder / file.name).symlink_to(file)
        self.write("manifest.toml", 'schema = 0\nenable = ["ferrite.level_zero"]\nsearch = ["."]\n[pipeline]\ndevice = "level_zero:0"\n')
        place = tables.place_of(self.run_on("m.fe", "--log", "plugins").stderr, "level_zero")
        self.assertEqual(place.parent.resolve(), self.folder.resolve())
        tables.write(place, CAPABILITIES)
        self.assertSameResults("m.fe", *apart)
        done = self.call(*explain, environment=self.environment)
        self.assertRegex(done.stdout, r"(?m)^  runs  last  <-  cpu:0: .*; level_zero: exp of f32 failed when the target was measured$", done.stderr)

    def test_out_of_memory(self):
        for fault in ({"POCL_DRIVER_FAIL": "zeMemAllocDevice:1"}, {"POCL_DRIVER_MEMORY": "1000"}):
            self.assertRefused(self.run_on(**fault), "FE-D03", "level_zero:0: no memory for", DEVICE)

    def test_faults_say_what_failed(self):
        for function, pattern in [
            ("zeCommandListAppendLaunchKernel:1", "the_sum, the_exp, rows: .*launching a kernel failed: the host has too little memory"),
            ("zeKernelSetArgumentValue:2", "the_sum, the_exp, rows: .*giving a kernel its arguments failed"),
            ("zeCommandListAppendMemoryCopy:1", "a copy to the device failed: the host has too little memory"),
            ("zeEventHostSynchronize:2", "work on the device failed: the host has too little memory"),
            ("zeContextCreate:1", "opening the device's context failed"),
        ]:
            with self.subTest(function):
                done = self.run_on(POCL_DRIVER_FAIL=function, POCL_DRIVER_ERROR=OUT_OF_HOST_MEMORY)
                self.assertRefused(done, "ferrite.level_zero/memory", pattern, DEVICE)
                self.assertNotIn("is lost", done.stderr)
        done = self.run_on(POCL_DRIVER_FAIL="zeDeviceGet:1")
        self.assertRefused(done, "ferrite.level_zero/device", "counting the devices failed", DEVICE)

    def test_a_lost_device(self):
        lost = "the device is lost, it hung or was reset.*; the device level_zero:0 is lost, and does nothing any more"
        for call, pattern in [
            ("zeCommandListAppendLaunchKernel:1", "the_sum, the_exp, rows: .*launching a kernel failed: "),
            ("zeKernelSetArgumentValue:2", "the_sum, the_exp, rows: .*giving a kernel its arguments failed: "),
            ("zeCommandListAppendMemoryCopy:1", "a copy to the device failed: "),
            ("zeContextCreate:1", "opening the device's context failed: "),
            ("zeModuleCreate:1", "does not take k_[0-9a-f]{32}: "),
        ]:
            with self.subTest(call):
                self.assertRefused(self.run_on(POCL_DRIVER_LOSE=call), "FE-D06", pattern + lost, DEVICE)
                self.assertAllEnded()
        # It is, though the driver does not say it again.
        done = self.run_on(POCL_DRIVER_FAIL="zeCommandListAppendLaunchKernel:1")
        self.assertRefused(done, "FE-D06", "the_sum, the_exp, rows: .*launching a kernel failed: " + lost, DEVICE)

    def test_a_wait_for_a_lost_device_names_the_node(self):
        self.assertEqual(self.run_on().returncode, OK)
        names = [line.split()[0] for line in self.log.read_text().splitlines()]
        waits = names[: names.index("zeCommandListAppendLaunchKernel")].count("zeEventHostSynchronize")
        for late in ("0", "1"):
            done = self.run_on(POCL_DRIVER_LOSE=f"zeEventHostSynchronize:{waits + 1}", POCL_DRIVER_LATE=late)
            self.assertRefused(done, "FE-D06", "the_sum, the_exp, rows: .*work on the device failed: the device is lost", DEVICE)
            self.assertAllEnded()

    def test_code_that_the_driver_does_not_take(self):
        for fault, pattern in [
            ({"POCL_DRIVER_FAIL": "zeModuleCreate:1", "POCL_DRIVER_ERROR": OUT_OF_HOST_MEMORY},
             "does not take k_[0-9a-f]{32}: the host has too little memory"),
            ({"POCL_DRIVER_FAIL": "zeKernelCreate:1", "POCL_DRIVER_ERROR": OUT_OF_HOST_MEMORY},
             "does not take k_[0-9a-f]{32}: the host has too little memory"),
            ({"POCL_DRIVER_TRANSLATOR": "false"}, "the code is not taken.*\n.*llvm-spirv-15 does not take the module"),
        ]:
            self.assertRefused(self.run_on(**fault), "ferrite.level_zero/link", pattern, DEVICE)

    def test_a_package_that_was_made_without_a_device(self):
        made = self.call("compile", "g.fe", "--target", "x86-64-v2,x86-64-v4,sm_90a,gfx942,spirv64", "-o", "g.fepkg")
        self.assertEqual(made.returncode, OK, made.stderr)
        on_cpu = self.call("run", "g.fepkg", "--device", "cpu", "-o", "cpu")
        self.assertRegex(on_cpu.stdout, r"nothing compiled, for cpu \(x86-64-v[24]\), ", on_cpu.stderr)
        done = self.run_on("g.fepkg", "-o", "device")
        self.assertRegex(done.stdout, r"nothing compiled, for level_zero \(spirv64\), cpu \(x86-64-v2\), ", done.stderr)
        self.assertTrue(self.calls("zeModuleCreate"))
        for number in range(2):
            expected, result = (np.load(self.folder / f"{where}/output_{number}.npy") for where in ("cpu", "device"))
            np.testing.assert_allclose(result, expected, 1e-4, 1e-4)
        # Without the driver the CPU's program is taken, where no device is asked for.
        self.assertIn("for cpu (", self.call("run", "g.fepkg").stdout)
        done = self.call("run", "g.fepkg", "--device", "level_zero")
        self.assertRefused(done, "ferrite.level_zero/driver", "device level_zero", DEVICE)

    def test_code_for_another_device(self):
        """It is refused before anything is loaded."""
        made = self.call("compile", "g.fe", "--target", "spirv64 local=1048576", "-o", "g.fepkg")
        self.assertEqual(made.returncode, OK, made.stderr)
        done = self.run_on("g.fepkg")
        self.assertRefused(done, "FE-K53", "it is code for groups of 1048576 bytes of local memory, the device has [0-9]+; ", UNSUPPORTED)
        self.assertNothingIsLoaded()

    def test_targets(self):
        for target, pattern in [
            ("spirv64 unit=3", "unknown key 'unit'.*known: units, lanes"),
            ("gen9", "'gen9' is no architecture.*there is spirv64"),
            ("l2=10", "names no architecture; write 'spirv64'"),
        ]:
            done = self.call("compile", "g.fe", "--manifest", "manifest.toml", "--target", target, "-o", "g.fepkg",
                             environment=self.environment)  # fmt: skip
            self.assertRefused(done, "ferrite.level_zero/target", pattern)


if __name__ == "__main__":
    main(__doc__, driver=BUILD / "lib/ferrite/test_drivers/libpocl_driver.so", models=ROOT / "build/models")
