#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The CUDA plugin without a device: what it asks of a driver that records its calls, what it says where the driver fails, and its code,
which ptxas takes where there is one.

Usage: test_cuda.py [--ferrite FILE] [--driver FILE] [unittest options]
"""

import csv
import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

from grid_tests import DRAWS, GATHER, KINDS, MODEL, PAD, SORTS, GridTests, loss, types  # noqa: E402
from program import BUILD, DEVICE, OK, UNSUPPORTED, ProgramTest, main  # noqa: E402

# A kernel each.
SINE = """ferrite graph 0
graph @g(%x: f32[64,256], %y: f32[7,33]) -> (%r "r", %s "s") {
  %r = exp(%x) from "the_exp"
  %s = sin(%y) from "the_sine"
}
"""
# Two launches in a row.
TWICE = """ferrite graph 0
graph @g(%x: f32[64,64]) -> (%s "s") {
  %r = matmul(%x, %x)
  %s = matmul(%r, %x)
}
"""


def ptxas():
    """Of a toolkit, or of the package that the tests require."""
    packaged = sorted(Path(sys.prefix).glob("lib/python*/site-packages/nvidia/cu*/bin/ptxas"))
    places = [shutil.which("ptxas"), "/usr/local/cuda/bin/ptxas", *packaged]
    return next((str(place) for place in places if place and Path(place).is_file()), None)


CONVOLUTION = """ferrite graph 0
graph @g(%x: f16[16,{channels},{size},{size}], %w: f16[{results},{channels},{window},{window}]) -> (%r "r") {{
  %c = conv(%x, %w) {{pads_low = [{pad}, {pad}], pads_high = [{pad}, {pad}], strides = [{step}, {step}]}}
  %r = relu(%c)
}}
"""


def attention(rows=2048, columns=2048, depth=64, dtype="f16", scores="%m = mul(%s, %c)", more=""):
    """Attention, op by op. `scores`: the statement that makes %m from the scores %s; `more`: further inputs, for that statement."""
    return f"""ferrite graph 0
graph @g(%q: {dtype}[4,16,{rows},{depth}], %k: {dtype}[4,16,{columns},{depth}], %v: {dtype}[4,16,{columns},{depth}]{more}) -> (%r "r") {{
  %t = transpose(%k) {{perm = [0, 1, 3, 2]}}
  %s = matmul(%q, %t)
  %c = literal {dtype}[] {{0.125}}
  {scores}
  %p = softmax(%m) {{axis = 3}}
  %r = matmul(%p, %v)
}}
"""


# As exporters write it: heads split off and put first, a scale that divides, a mask of padding, heads put together again.
HEADS = """ferrite graph 0
graph @g(%q: bf16[2,384,768], %k: bf16[2,384,768], %v: bf16[2,384,768], %mask: bf16[2,1,1,384]) -> (%r "r") {
  %q4 = reshape(%q) {shape = [2,384,12,64]}
  %k4 = reshape(%k) {shape = [2,384,12,64]}
  %v4 = reshape(%v) {shape = [2,384,12,64]}
  %qh = transpose(%q4) {perm = [0,2,1,3]}
  %kh = transpose(%k4) {perm = [0,2,3,1]}
  %vh = transpose(%v4) {perm = [0,2,1,3]}
  %s = matmul(%qh, %kh)
  %c = literal bf16[] {8}
  %d = div(%s, %c)
  %m = add(%d, %mask)
  %p = softmax(%m) {axis = 3}
  %o = matmul(%p, %vh)
  %ot = transpose(%o) {perm = [0,2,1,3]}
  %r = reshape(%ot) {shape = [2,384,768]}
}
"""


# The first half of a layer of a transformer: the heads are views of what projections make.
LAYER = """ferrite graph 0
graph @block(%x: f16[2,128,256], %wq: f16[256,256], %wk: f16[256,256], %wv: f16[256,256], %wo: f16[256,256],
             %b: f16[256], %g: f16[256], %mask: f16[2,1,1,128]) -> (%r "r") {
  %n = layer_norm(%x, %g, %b) {axis = 2, epsilon = 0x1p-17}
  %q0 = matmul(%n, %wq)
  %q1 = add(%q0, %b)
  %k0 = matmul(%n, %wk)
  %k1 = add(%k0, %b)
  %v0 = matmul(%n, %wv)
  %v1 = add(%v0, %b)
  %q4 = reshape(%q1) {shape = [2,128,4,64]}
  %k4 = reshape(%k1) {shape = [2,128,4,64]}
  %v4 = reshape(%v1) {shape = [2,128,4,64]}
  %qh = transpose(%q4) {perm = [0,2,1,3]}
  %kh = transpose(%k4) {perm = [0,2,3,1]}
  %vh = transpose(%v4) {perm = [0,2,1,3]}
  %s = matmul(%qh, %kh)
  %c = literal f16[] {0.125}
  %d = mul(%s, %c)
  %m = add(%d, %mask)
  %p = softmax(%m) {axis = 3}
  %o = matmul(%p, %vh)
  %ot = transpose(%o) {perm = [0,2,1,3]}
  %of = reshape(%ot) {shape = [2,128,256]}
  %y = matmul(%of, %wo)
  %r = add(%y, %x)
}
"""


class CudaTest(GridTests, ProgramTest):
    kind = "cuda"
    functions = {"init": "cuInit", "load": "cuModuleLoadDataEx", "unload": "cuModuleUnload", "alloc": "cuMemAllocFromPoolAsync", "free": "cuMemFreeAsync",
                 "to_device": "cuMemcpyHtoDAsync", "to_host": "cuMemcpyDtoHAsync", "launch": "cuLaunchKernelEx", "record": "cuGraphInstantiate",
                 "replay": "cuGraphLaunch", "trim": "cuMemPoolTrimTo", "wait": "cuStreamWaitEvent", "link": "cuLinkCreate",
                 "add_code": "cuLinkAddData", "compile": "cuLinkComplete", "end_link": "cuLinkDestroy"}  # fmt: skip
    errors = {"fault": "ILLEGAL_ADDRESS", "image": "CUDA_ERROR_INVALID_IMAGE"}
    library = "install NVIDIA's driver for CUDA 12.0 or later"

    def test_a_driver_that_is_too_old(self):
        self.assertRefusedHere(self.run_on(FAKE_DRIVER_VERSION="11080"), "driver", "for CUDA 11.8, which is too old; install")

    def test_code_is_compiled_apart_from_loading(self):
        self.assertEqual(self.run_on().returncode, OK)
        made = self.calls("compile")
        self.assertTrue(made)
        self.assertEqual(len(made), len(self.calls("load")))
        self.assertEqual(len(made), len(self.calls("end_link")))
        for function in ("add_code", "compile"):
            done = self.run_on(FAKE_DRIVER_FAIL=self.functions[function] + ":1")
            self.assertRefusedHere(done, "link", f"does not take k_[0-9a-f]{{32}}: {self.errors['image']}")
            self.assertEqual(len(self.calls("link")), len(self.calls("end_link")))

    def test_an_architecture_that_is_too_old(self):
        self.assertRefused(self.run_on(FAKE_DRIVER_MAJOR="7"), "ferrite.cuda/target", "sm_70.*there are sm_80")

    def test_code_of_another_architecture(self):
        made = self.call("compile", "g.fe", "--manifest", "manifest.toml", "-o", "g.fepkg")
        self.assertEqual(made.returncode, OK, made.stderr)
        self.assertEqual(self.run_on("g.fepkg").returncode, OK)
        done = self.run_on("g.fepkg", FAKE_DRIVER_MAJOR="8")
        self.assertRefused(done, "FE-K5[0-9]", "it is code for sm_90a, the device is an sm_80", 4)

    def test_a_package_that_was_made_without_a_device(self):
        """The first program whose architecture is the device's runs."""
        self.assertPackagesFit("sm_90a,sm_80,x86-64-v2", {"sm_90a": {"FAKE_DRIVER_MAJOR": "9"}, "sm_80": {"FAKE_DRIVER_MAJOR": "8"}})
        self.assertPackageUnfit(["sm_90a", "sm_100a"], "an sm_80", FAKE_DRIVER_MAJOR="8")
        self.assertNothingIsLoaded()

    def test_code_of_an_architecture_without_a_letter(self):
        """A later device of the generation runs it, and gets it where it is compiled for; code with a letter is of one architecture."""
        for target in ("sm_100", "sm_100a"):
            made = self.call("compile", "g.fe", "--target", f"{target},x86-64-v2", "-o", f"{target}.fepkg")
            self.assertEqual(made.returncode, OK, made.stderr)
        for minor in ("0", "3"):
            done = self.run_on("sm_100.fepkg", FAKE_DRIVER_MAJOR="10", FAKE_DRIVER_MINOR=minor)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertRegex(done.stdout, r"nothing compiled, for cuda \(sm_100\), cpu \(x86-64-v2\), loaded in")
            self.assertTrue(self.calls("load"))
        for package, major, minor, reason in [
            ("sm_100", "9", "0", "it is code for sm_100, the device is an sm_90a"),
            ("sm_100", "12", "0", "it is code for sm_100, whose blocks may have 227 KiB of shared memory; on the device, an sm_120, they have 99"),
            ("sm_100a", "10", "3", "it is code for sm_100a, the device is an sm_100"),
        ]:
            done = self.run_on(f"{package}.fepkg", FAKE_DRIVER_MAJOR=major, FAKE_DRIVER_MINOR=minor)
            self.assertRefused(done, "FE-K5[0-9]", reason, UNSUPPORTED)
        for module in self.modules_of("kinds", KINDS, FAKE_DRIVER_MAJOR="10", FAKE_DRIVER_MINOR="3"):
            self.assertRegex(module.read_text(), r"(?m)^\.target sm_100$")
            if ptxas():
                self.assertAssembles(module, 128, "sm_100")

    def test_what_code_takes(self):
        tables = self.folder / "tables"
        done = self.run_on(FERRITE_METRICS="kernel", FERRITE_METRICS_DIR=str(tables))
        self.assertEqual(done.returncode, OK, done.stderr)
        (row,) = csv.DictReader((tables / "metric_kernel.csv").read_text().splitlines())
        self.assertEqual((row["registers"], row["spills"]), ("42", "0"))  # as the driver says of what it made of the PTX

    def test_a_faulty_kernel(self):
        self.write("sine.fe", SINE)
        plugin = BUILD / "lib/ferrite/test_plugins/faulty_cuda.so"
        done = self.run_on("sine.fe", "--plugin", str(plugin))
        self.assertRefused(done, "FE-D06", r"ILLEGAL_ADDRESS.*among 2 launches .*: the_exp \| the_sine; '--log launches'", DEVICE)
        done = self.run_on("sine.fe", "--plugin", str(plugin), "--log", "launches")
        self.assertRefused(done, "FE-D06", "the_sine: work on the device failed: CUDA_ERROR_ILLEGAL_ADDRESS", DEVICE)

    def test_all_types_are_taken(self):
        self.assertGreater(len(self.modules_of("types", types(["f64", "i64", "i8", "f8e4m3"]))), 8)

    def test_bits_of_nan_are_those_of_the_host(self):
        """The conversions give a NaN of the device's own; what is only moved is not converted."""
        for dtype in ("bf16", "f16"):
            for op, is_computed in (("mul(%x, %x)", True), ("transpose(%x) {perm = [0]}", False)):
                graph = f"""ferrite graph 0
graph @g(%x: {dtype}[512]) -> (%r "r") {{
  %y = {op}
  %r = bitcast(%y) {{dtype = i16}}
}}
"""
                [module] = self.modules_of(f"{dtype}-{is_computed}", graph)
                self.assertEqual("setp.nan." in module.read_text(), is_computed)

    def product(self, name, dtype, rows, depth, columns, **environment):
        """The code of a product, and its launch: blocks, and bytes of shared memory that are asked for."""
        [module] = self.modules_of(name, f'''ferrite graph 0
graph @g(%x: {dtype}[{rows},{depth}], %y: {dtype}[{depth},{columns}]) -> (%r "r") {{
  %r = matmul(%x, %y)
}}
''', **environment)
        [launch] = self.calls("launch")
        return module.read_text(), int(launch[2]), int(launch[6])

    def test_products_are_copied_while_others_are_made(self):
        code, _, shared = self.product("large", "bf16", 2048, 2048, 2048)
        self.assertGreater(shared, 48 << 10)
        loop = re.search(r"^\$L__BB0_(\d+):.*?bra[^\n]*\$L__BB0_\1;", code, re.M | re.S).group(0)
        for instruction in ("cp.async.cg.shared.global", "cp.async.commit_group", "cp.async.wait_group", "mma.sync.aligned.m16n8k16",
                            "ldmatrix.sync.aligned.m8n8.x4.shared.b16", "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"):  # fmt: skip
            self.assertIn(instruction, loop)
        self.assertEqual(loop.count("bar.sync") + loop.count("barrier.sync"), 1)
        self.assertNotRegex(loop, r"ld\.global|st\.shared")
        # Of single elements there are no copies.
        odd, _, _ = self.product("odd", "bf16", 201, 203, 205)
        self.assertNotIn("cp.async.c", odd)

    def test_blocks_share_the_depth_of_few_tiles(self):
        code, blocks, _ = self.product("deep", "f16", 64, 8192, 64)
        size = int(re.search(r"\.reqnctapercluster (\d+)", code).group(1))
        self.assertGreater(size, 1)
        self.assertEqual(blocks % size, 0)
        self.assertIn("ld.shared::cluster", code)
        self.assertNotIn("cluster", self.product("older", "f16", 64, 8192, 64, FAKE_DRIVER_MAJOR="8")[0])

    def test_launches_overlap(self):
        self.write("twice.fe", TWICE)
        for has_it, environment in ((True, {}), (False, {"FAKE_DRIVER_MAJOR": "8"}), (False, {"FAKE_DRIVER_VERSION": "12020"})):
            done = self.run_on("twice.fe", **environment)
            self.assertEqual(done.returncode, OK, done.stderr)
            # A run's first launch follows what is not known; the second one follows a launch of the run.
            self.assertEqual(["overlaps" in launch for launch in self.calls("launch")], [False, has_it], environment)

    def test_kernels_wait_before_they_touch_memory(self):
        modules = self.modules_of("kinds", KINDS) + self.modules_of("sorts", SORTS)
        self.assertGreater(len(modules), 12)
        for module in modules:
            entry, _, body = module.read_text().partition("griddepcontrol.wait;")
            self.assertTrue(body, module)
            self.assertNotRegex(entry, r"\b(ld|st)\.(global|shared)|atom\.|red\.|cp\.async|bra|@%p", module)

    def test_scatters_that_combine_are_done_at_once(self):
        for dtype, reduction, instruction in (("f32", "add", r"(atom|red)\.\S*add\.f32"), ("f16", "add", r"red\.\S*add\.noftz\.f16x2"),
                                              ("bf16", "add", r"red\.\S*add\.noftz\.bf16x2"), ("i64", "min", r"(atom|red)\.\S*min\.s64"),
                                              ("f32", "max", r"atom\.\S*cas\.b32"), ("f64", "min", r"atom\.\S*cas\.b64"),
                                              ("i8", "max", r"atom\.\S*cas\.b32"), ("f16", "min", r"atom\.\S*cas\.b32"),
                                              ("f8e4m3", "min", r"atom\.\S*cas\.b32")):  # fmt: skip
            name = f"{dtype}-{reduction}"
            modules = self.modules_of(name, f'''ferrite graph 0
graph @g(%x: {dtype}[70000], %i: i64[65536], %u: {dtype}[65536]) -> (%r "r") {{
  %r = scatter_elements(%x, %i, %u) {{axis = 0, reduction = "{reduction}"}}
}}
''')
            self.assertTrue(any(re.search(instruction, module.read_text()) for module in modules), name)
            self.assertTrue(any(int(launch[2]) * int(launch[4]) == 65536 for launch in self.calls("launch")), name)

    def test_scatters_that_replace_are_done_at_once(self):
        modules = self.modules_of("replaced", '''ferrite graph 0
graph @g(%x: bf16[70000], %i: i64[65536], %u: bf16[65536]) -> (%r "r") {
  %r = scatter_elements(%x, %i, %u) {axis = 0}
}
''')
        self.assertTrue(any(re.search(r"(atom|red)\.\S*max\.s32", module.read_text()) for module in modules))
        self.assertTrue(any(int(launch[2]) * int(launch[4]) == 65536 for launch in self.calls("launch")))
        self.assertEqual(len(self.calls("launch")), 4)

    def test_operands_of_8_bits_are_multiplied_as_what_they_are_cast_to(self):
        [module] = self.modules_of("narrow", '''ferrite graph 0
graph @g(%x: f16[64,1024], %y: f8e4m3[1024,256]) -> (%r "r") {
  %w = cast(%y) {dtype = f16}
  %r = matmul(%x, %w)
}
''')
        self.assertIn("mma.sync.aligned.m16n8k16", module.read_text())

    @unittest.skipIf(ptxas() is None, "there is no ptxas here")
    def test_no_product_spills(self):
        sizes = {"large": ("bf16", 4096, 4096, 4096), "uneven": ("f16", 1000, 1000, 1000), "floats": ("f32", 2048, 2048, 2048),
                 "doubles": ("f64", 1024, 1024, 1024), "few": ("f16", 64, 4096, 96)}  # fmt: skip
        for name, size in sizes.items():
            code, _, _ = self.product(name, *size)
            self.write("code.ptx", code)
            self.assertAssembles(self.folder / "code.ptx", 256)

    @unittest.skipIf(ptxas() is None, "there is no ptxas here")
    def test_no_convolution_spills(self):
        # The first one of a network, whose elements come one by one, and a later one, whose channels are copied 8 at a time.
        graphs = {"first": CONVOLUTION.format(channels=3, size=224, results=64, window=7, pad=3, step=2),
                  "later": CONVOLUTION.format(channels=128, size=28, results=128, window=3, pad=1, step=1)}  # fmt: skip
        for name, graph in graphs.items():
            made = [module for module in self.modules_of(name, graph) if "mma.sync" in module.read_text()]
            self.assertEqual(len(made), 1, name)
            self.assertAssembles(made[0], 256)
            copies = made[0].read_text().count("cp.async.cg.shared.global")
            (self.assertGreater if name == "later" else self.assertEqual)(copies, 0, name)

    def test_cross_entropy(self):
        """Rows of the logits begin with lines, and are read once for their statistics; the gradient, which is summed by blocks of columns,
        takes their place, and all products copy 16 bytes at a time."""
        modules = [module.read_text() for module in self.modules_of("loss", loss(2048, 64, 16411))]
        launches = [(int(launch[2]), int(launch[4])) for launch in self.calls("launch")]
        parts, columns_of_block, threads, whole_chunks = 64, 64, 64, 4
        self.assertIn((parts * -(-16411 // columns_of_block), threads), launches)
        [statistics] = [module for module in modules if "shfl.sync" in module and "ld.global.v4" in module]
        self.assertEqual(statistics.count("ld.global.v4"), whole_chunks)
        products = [module for module in modules if "mma.sync" in module]
        self.assertEqual(len(products), 3)
        for module in products:
            self.assertIn("cp.async.cg.shared.global", module)
            self.assertNotIn("cp.async.ca.shared.global", module)
        padded = 16448
        explained = self.call("explain", "--all", "loss.fe", "--manifest", "manifest.toml")
        self.assertRegex(explained.stdout, "memory: 1 in place")
        layouts = self.call("explain", "loss.fe", "--manifest", "manifest.toml", "--layouts")
        self.assertEqual(layouts.stdout.count(f"[16411, 1] -> [{padded}, 1]"), 2)

    def test_attention_is_one_kernel(self):
        causal = "%d = mul(%s, %c)\n  %below = literal f16[] {-inf}\n  %m = where(%seen, %d, %below)"
        one = {"plain": attention(), "bf16": attention(dtype="bf16"), "wide": attention(depth=128), "odd": attention(100, 77, 40),
               "heads": HEADS, "causal": attention(scores=causal, more=", %seen: bool[1,1,2048,2048]")}  # fmt: skip
        several = {"f32": attention(64, 64, dtype="f32"), "long": attention(64, 64, 136), "few": attention(1, 64),
                   "narrow": attention(64, 64, 36)}  # fmt: skip
        for name, text in one.items():
            modules = self.modules_of(name, text)
            made = [module for module in modules if "ex2.approx" in module.read_text()]
            self.assertEqual(len(made), 1, name)
            # Heads are put together again by a kernel more.
            self.assertEqual(len(modules), 2 if name == "heads" else 1, name)
            if ptxas():
                # With a mask for each score, ptxas spills eight registers.
                self.assertAssembles(made[0], 256, spills=32 if name == "causal" else 0)
        for name, text in several.items():
            self.assertGreater(len(self.modules_of(name, text)), 1, name)

    def test_attention_in_a_layer(self):
        modules = self.folder / "modules-layer"
        modules.mkdir()
        self.write("layer.fe", LAYER)
        done = self.run_on("layer.fe", FAKE_DRIVER_MODULES=str(modules))
        self.assertEqual(done.returncode, OK, done.stderr)
        made = [module for module in modules.iterdir() if "ex2.approx" in module.read_text()]
        self.assertEqual(len(made), 1)
        self.assertEqual(made[0].read_text().count("cp.async.wait_group"), 1)

    def assertAssembles(self, module, registers, architecture="sm_90a", spills=0):
        done = subprocess.run([ptxas(), f"-arch={architecture}", "-v", "-o", os.devnull, module], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertLessEqual(int(re.search(r"(\d+) bytes spill stores", done.stderr).group(1)), spills, module.name)
        self.assertLess(int(re.search(r"Used (\d+) registers", done.stderr).group(1)), registers)

    @unittest.skipIf(ptxas() is None, "there is no ptxas here")
    def test_ptxas_takes_the_code(self):
        graphs = {"model": MODEL, "gather": GATHER, "pad": PAD, "kinds": KINDS, "sorts": SORTS, "draws": DRAWS}
        made = [module for name, text in graphs.items() for module in self.modules_of(name, text)]
        self.assertGreater(len(made), 8)
        for module in made:
            self.assertAssembles(module, 128)


if __name__ == "__main__":
    main(__doc__, driver=BUILD / "lib/ferrite/test_drivers/libfake_driver.so")
