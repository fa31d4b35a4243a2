#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The HIP plugin without a device: what it asks of a runtime library that records its calls, what it says where that fails, and its code
for some architectures, which LLVM's tools take apart.

Usage: test_hip.py [--ferrite FILE] [--driver FILE] [unittest options]
"""

import functools
import re
import subprocess
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

from grid_tests import DRAWS, GATHER, KINDS, MODEL, PAD, SORTS, GridTests, types  # noqa: E402
from program import BUILD, OK, UNSUPPORTED, ProgramTest, Settings, main  # noqa: E402

WAVES = {"gfx942": 64, "gfx1100": 32, "gfx1201": 32}
# A block of several waves, which wait for each other.
ROWS = """ferrite graph 0
graph @g(%x: f32[2048,4096]) -> (%r "r") {
  %r = reduce_sum(%x) {axes = [1]}
}
"""
MAP = """ferrite graph 0
graph @g(%x: f32[64,256], %h: f16[64,256]) -> (%r "r", %t "t") {
  %r = exp(%x)
  %t = tanh(%h)
}
"""
# An element of each row, which a thread keeps, is picked by indices into a dim of size 1, which are checked.
SINGLE = """ferrite graph 0
graph @g(%x: i8[7], %i: i64[7,1], %j: i64[7]) -> (%r "r") {
  %y = gather(%x, %i) {axis = 0}
  %r = gather(%y, %j) {axis = 1}
}
"""
# Two products of each type that a matrix instruction may have, of whole tiles and of others.
PRODUCTS = """ferrite graph 0
graph @g(%x: {t}[128,64], %y: {t}[64,192], %z: {t}[72,40], %w: {t}[56,40]) -> (%r "r", %s "s") {{
  %r = matmul(%x, %y)
  %t = transpose(%w) {{perm = [1, 0]}}
  %s = matmul(%z, %t)
}}
"""
# What begins the names of the instructions by which an architecture multiplies matrices of each type.
MATRICES = {
    "gfx90a": {"f16": "v_mfma_f32_16x16x16f16", "bf16": "v_mfma_f32_16x16x16bf16_1k", "f32": "v_mfma_f32_16x16x4f32",
               "f64": "v_mfma_f64_16x16x4f64"},
    "gfx942": {"f16": "v_mfma_f32_16x16x16_f16", "bf16": "v_mfma_f32_16x16x16_bf16", "f32": "v_mfma_f32_16x16x4_f32",
               "f64": "v_mfma_f64_16x16x4_f64"},
    "gfx1100": {"f16": "v_wmma_f32_16x16x16_f16", "bf16": "v_wmma_f32_16x16x16_bf16"},
    "gfx1201": {"f16": "v_wmma_f32_16x16x16_f16", "bf16": "v_wmma_f32_16x16x16_bf16"},
    "gfx1030": {},
}  # fmt: skip


def tool(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


class Code:
    """What a code object says of its kernel, and its instructions."""

    def __init__(self, path):
        self.path = path

    @functools.cached_property
    def notes(self):
        return tool("llvm-readelf-22", "--notes", self.path)

    @functools.cached_property
    def instructions(self):
        return re.findall(r"^\t(\w+)", tool("llvm-objdump-22", "--disassemble", self.path), re.MULTILINE)

    def number(self, key):
        return int(re.search(rf"\.{key}: +(\d+)$", self.notes, re.MULTILINE).group(1))

    def count(self, beginning):
        return sum(name.startswith(beginning) for name in self.instructions)

    def has(self, beginning):
        return self.count(beginning) > 0


class HipTest(GridTests, ProgramTest):
    kind = "hip"
    functions = {"init": "hipInit", "load": "hipModuleLoadDataEx", "unload": "hipModuleUnload", "alloc": "hipMallocFromPoolAsync", "free": "hipFreeAsync",
                 "to_device": "hipMemcpyHtoDAsync", "to_host": "hipMemcpyDtoHAsync", "launch": "hipModuleLaunchKernel",
                 "record": "hipGraphInstantiate", "replay": "hipGraphLaunch", "trim": "hipMemPoolTrimTo", "wait": "hipStreamWaitEvent"}  # fmt: skip
    errors = {"fault": "hipErrorIllegalAddress", "image": "hipErrorInvalidImage"}
    library = "install AMD's HIP runtime 5.0 or later"

    def codes_of(self, name, text, architecture):
        modules = self.modules_of(f"{name}-{architecture}", text, FAKE_DRIVER_ARCHITECTURE=architecture)
        return [Code(module) for module in modules]

    def assertStaysInRegisters(self, codes):
        for code in codes:
            self.assertEqual(code.number("private_segment_fixed_size"), 0)
            self.assertEqual(code.number("vgpr_spill_count"), 0)
            for memory_or_call in ("scratch_", "flat_", "s_swappc"):
                self.assertFalse(code.has(memory_or_call), code.instructions)

    def test_a_runtime_that_is_too_old(self):
        done = self.run_on(FAKE_DRIVER_VERSION="40321300")
        self.assertRefusedHere(done, "driver", "has version 4.3, which is too old; install AMD's HIP runtime")

    def test_the_newest_library_is_looked_for_first(self):
        self.manifest("")
        done = self.run_on()
        if done.returncode != OK:  # there is one where the test runs, with or without a device
            self.assertRegex(done.stderr, "libamdhip64.so.7: .*libamdhip64.so.6: .*libamdhip64.so.5: |'hip' has no device here")

    def test_properties_as_before_version_6(self):
        self.manifest(Settings.driver.with_name("libfake_hip_5.so"))
        for architecture in ("gfx90a:sramecc+:xnack-", "gfx1201"):
            done = self.run_on(FAKE_DRIVER_ARCHITECTURE=architecture)
            self.assertEqual(done.returncode, OK, done.stderr)
            # Such a version has no pools.
            calls = [line.split()[0] for line in self.log.read_text().splitlines()]
            self.assertEqual(calls.count("hipMalloc"), calls.count("hipFree"))
            self.assertGreater(calls.count("hipMalloc"), 0)
        # Nor does it record.
        done = self.check_streams()
        self.assertEqual(done.returncode, OK, done.stdout)
        self.assertRegex(done.stdout, "skipped .*: launch graphs: the driver records nothing")
        self.assertRefusedHere(self.run_on(FAKE_DRIVER_ARCHITECTURE=""), "device", "architecture '', which is no gfx name")

    def test_targets_say_what_the_device_is(self):
        done = self.call("targets", "--manifest", "manifest.toml", environment={"FAKE_DRIVER_ARCHITECTURE": "gfx942:sramecc+"})
        workers, bandwidth = 4 * 304, 5324  # of its memory, in GB a second
        self.assertRegex(done.stdout, rf"(?s)hip:0 .*workers +{workers} .*bandwidth +{bandwidth / workers:.1f} GB/s ")

    def test_an_unknown_architecture(self):
        done = self.run_on(FAKE_DRIVER_ARCHITECTURE="gfx803")
        self.assertRefusedHere(done, "target", "'gfx803' is no architecture.*there are gfx90a", 3)

    def test_code_of_another_architecture(self):
        made = self.call("compile", "g.fe", "--manifest", "manifest.toml", "-o", "g.fepkg")
        self.assertEqual(made.returncode, OK, made.stderr)
        self.assertEqual(self.run_on("g.fepkg").returncode, OK)
        done = self.run_on("g.fepkg", FAKE_DRIVER_ARCHITECTURE="gfx90a")
        self.assertRefused(done, "FE-K5[0-9]", "it is code for gfx942, the device is a gfx90a", UNSUPPORTED)
        self.assertNothingIsLoaded()

    def test_a_package_that_was_made_without_a_device(self):
        """The program whose architecture is the device's runs, whatever stands before it."""
        self.assertPackagesFit("sm_90a,gfx1100,gfx942,x86-64-v2",
                               {"gfx1100": {"FAKE_DRIVER_ARCHITECTURE": "gfx1100"},
                                "gfx942": {"FAKE_DRIVER_ARCHITECTURE": "gfx942:sramecc+:xnack-"}})  # fmt: skip
        self.assertPackageUnfit(["gfx1100", "gfx942"], "a gfx90a", FAKE_DRIVER_ARCHITECTURE="gfx90a")
        self.assertNothingIsLoaded()

    def test_linking_needs_no_place_on_disk(self):
        self.assertEqual(self.run_on(TMPDIR=str(self.folder / "no")).returncode, OK)

    def test_listings_are_assembly(self):
        done = self.run_on("g.fe", "--log", "output_code")
        self.assertRegex(done.stderr, r"(?s); .*the_exp.*define amdgpu_kernel void .*\.amdhsa_kernel k_")

    def test_what_the_loader_reads(self):
        for architecture, wave in WAVES.items():
            for code in self.codes_of("g", MODEL, architecture):
                self.assertIn(f"amdgcn-amd-amdhsa--{architecture}\n", code.notes)
                self.assertEqual(code.number("wavefront_size"), wave)
                self.assertEqual(code.number("max_flat_workgroup_size"), wave)
                # Two inputs, two results, the place for errors: an address each, and nothing that is hidden.
                self.assertEqual(re.findall(r"\.value_kind: +(\w+)", code.notes), ["global_buffer"] * 5)
                self.assertEqual(re.findall(r"\.address_space: +(\w+)", code.notes), ["global"] * 5)
                self.assertEqual(re.findall(r"\.offset: +(\d+)", code.notes), ["0", "8", "16", "24", "32"])
                self.assertEqual(re.findall(r"\.size: +(\d+)", code.notes), ["8"] * 5)
                self.assertEqual(code.number("kernarg_segment_size"), 40)

    def test_simple_kernels_stay_in_registers(self):
        for architecture in WAVES:
            for name, text in [("map", MAP), ("rows", ROWS), ("gather", GATHER), ("pad", PAD), ("draws", DRAWS)]:
                self.assertStaysInRegisters(self.codes_of(name, text, architecture))

    def test_kernels_of_each_kind(self):
        for architecture in WAVES:
            codes = self.codes_of("kinds", KINDS, architecture)
            self.assertStaysInRegisters(codes)
            # Of sums that several threads add to, each addition is one instruction; words of narrow elements are exchanged. Each
            # kernel of a scatter exchanges once more, where the first index that is out of range is reported.
            exchanges = [code for code in codes if code.has("global_atomic_")]
            combined = [[code.count(f"global_atomic_{how}") for how in ("add_f32", "cmpswap")] for code in exchanges]
            self.assertEqual(sorted(combined), [[0, 1], [0, 2], [1, 1]])

    def test_a_single_element_by_an_index_from_data_stays_in_a_register(self):
        """In memory of the block, LLVM would look up the launch's size for it, by the pointer to the dispatch."""
        for architecture in WAVES:
            for code in self.codes_of("single", SINGLE, architecture):
                self.assertEqual(code.number("group_segment_fixed_size"), 0)
                self.assertEqual(code.number("private_segment_fixed_size"), 0)
                descriptor = tool("llvm-objdump-22", "--disassemble-all", "--section=.rodata", code.path)
                self.assertRegex(descriptor, r"\.amdhsa_user_sgpr_dispatch_ptr 0")

    def test_sorts(self):
        for architecture in WAVES:
            self.assertStaysInRegisters(self.codes_of("sorts", SORTS, architecture))

    def test_maps_move_vectors(self):
        for architecture, wide in [("gfx942", "global_load_dwordx4"), ("gfx1100", "global_load_b128"), ("gfx1201", "global_load_b128")]:
            self.assertTrue(any(code.has(wide) for code in self.codes_of("map", MAP, architecture)))

    def test_blocks_reduce_by_waves_and_in_shared_memory(self):
        for architecture, wave in WAVES.items():
            (code,) = self.codes_of("rows", ROWS, architecture)
            self.assertEqual(code.number("group_segment_fixed_size"), 256 // wave * 4)
            self.assertGreaterEqual(code.instructions.count("ds_bpermute_b32"), wave.bit_length() - 1)
            # A barrier before the waves' sums are written and one behind it, where nothing that was written before is on its way.
            barriers, on_its_way = 0, False
            for name in code.instructions:
                if name in ("s_barrier", "s_barrier_signal"):
                    self.assertFalse(on_its_way)
                    barriers += 1
                elif name.startswith(("ds_write", "ds_store", "ds_read", "ds_load")):
                    on_its_way = True
                elif name == "s_waitcnt" or (name.startswith("s_wait_") and name.endswith("dscnt")):
                    on_its_way = False
            self.assertEqual(barriers, 2)

    def test_products_take_matrix_instructions(self):
        for architecture, names in MATRICES.items():
            for dtype in ("f16", "bf16", "f32", "f64"):
                with self.subTest(architecture=architecture, dtype=dtype):
                    codes = self.codes_of(f"products-{dtype}", PRODUCTS.format(t=dtype), architecture)
                    self.assertStaysInRegisters(codes)
                    self.assertEqual(len(codes), 2)
                    for code in codes:
                        matrices = {name for name in code.instructions if name.startswith(("v_mfma", "v_wmma"))}
                        self.assertEqual(len(matrices), 1 if dtype in names else 0, matrices)
                        self.assertTrue(all(name.startswith(names[dtype]) for name in matrices), matrices)

    def test_all_types_are_taken(self):
        for architecture in WAVES:
            self.assertGreater(len(self.codes_of("types", types(["f64", "i64", "i8", "f8e4m3"]), architecture)), 8)


if __name__ == "__main__":
    main(__doc__, driver=BUILD / "lib/ferrite/test_drivers/libfake_hip.so")
