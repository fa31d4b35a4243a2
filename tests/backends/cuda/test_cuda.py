#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The CUDA plugin without a device: what it asks of a driver that records its calls, what it says where the driver fails, and its code,
which ptxas takes where there is one.

Usage: test_cuda.py [--ferrite FILE] [--driver FILE] [unittest options]
"""

import os
import re
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import BUILD, DEVICE, OK, ProgramTest, Settings, main  # noqa: E402

MODEL = """ferrite graph 0
graph @g(%x: f32[64,256], %y: f32[64,256]) -> (%r "r", %s "s") {
  %a = add(%x, %y) from "the_sum"
  %r = exp(%a) from "the_exp"
  %s = reduce_sum(%r) {axes = [1]} from "rows"
}
"""
GATHER = """ferrite graph 0
graph @g(%x: f32[8,4], %i: i64[3]) -> (%r "r") {
  %r = gather(%x, %i) {axis = 0}
}
"""
# A kernel of each kind: by vectors, by points, by blocks with a reduction of several states, serial, scatters with and without order.
KINDS = """ferrite graph 0
graph @g(%x: f32[32,1000], %h: f16[32,1000], %b: bf16[7,33], %i: i64[4,1000], %u: f32[4,1000], %w: bf16[2,33], %j: i64[2,33], %n: i64[5])
    -> (%soft "soft", %arg "arg", %total "total", %sum "sum", %most "most", %columns "columns", %shifted "shifted", %p "p") {
  %soft = softmax(%x) {axis = 1}
  %arg = argmax(%h) {axis = 1, keepdims = false}
  %total = cumsum(%x) {axis = 0}
  %sum = scatter_elements(%x, %i, %u) {axis = 0, reduction = "add"}
  %most = scatter_elements(%b, %j, %w) {axis = 0, reduction = "max"}
  %columns = reduce_sum(%x) {axes = [0]}
  %shifted = shift_left(%n, %n)
  %x2 = transpose(%x) {perm = [1, 0]}
  %p = matmul(%x, %x2)
}
"""


def ptxas():
    found = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    return found if Path(found).is_file() else None


class CudaTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.log = self.folder / "calls"
        self.write("manifest.toml", f"""schema = 0
enable = ["ferrite.cuda"]
[pipeline]
device = "cuda:0"
[plugin."ferrite.cuda"]
config = {{ library = "{Settings.driver}" }}
""")
        self.write("g.fe", MODEL)

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def run_on(self, model="g.fe", *options, **environment):
        self.log.unlink(missing_ok=True)
        return self.call("run", model, "--manifest", "manifest.toml", *options,
                         environment={"FAKE_DRIVER_LOG": str(self.log)} | environment)  # fmt: skip

    def calls(self, name):
        return [line.split()[1:] for line in self.log.read_text().splitlines() if line.split()[0] == name]

    def test_the_whole_way(self):
        done = self.run_on()
        self.assertEqual(done.returncode, OK, done.stderr)
        names = [line.split()[0] for line in self.log.read_text().splitlines()]
        self.assertEqual(names.count("cuModuleLoadDataEx"), names.count("cuModuleUnload"))
        self.assertEqual(names.count("cuMemAlloc"), names.count("cuMemFree"))
        launches = self.calls("cuLaunchKernel")
        self.assertEqual(len(launches), 1)
        entry, _, grid, _, block, _, shared = launches[0]
        self.assertRegex(entry, "^k_[0-9a-f]{32}$")
        self.assertEqual((int(grid), int(shared)), (64, 0))  # a block a row, whose shared memory is the module's
        self.assertIn(int(block), (32, 64, 128, 256))
        # The two inputs, and both results; no index can be wrong.
        self.assertEqual(sorted(int(c[0]) for c in self.calls("cuMemcpyHtoDAsync")), [65536, 65536])
        self.assertEqual(sorted(int(c[0]) for c in self.calls("cuMemcpyDtoHAsync")), [256, 65536])

    def test_errors_are_read_once_a_run(self):
        self.write("k.fe", KINDS)
        self.assertEqual(self.run_on("k.fe").returncode, OK)
        self.assertGreater(len(self.calls("cuLaunchKernel")), 8)
        outputs = 8
        self.assertEqual(len(self.calls("cuMemcpyDtoHAsync")), outputs + 1)

    def test_what_is_needed_no_more_makes_room(self):
        square, steps = 4 * 256 * 256, 6
        body = "".join(f"  %m{k + 1} = matmul(%m{k}, %m{k})\n" for k in range(steps))
        self.write("chain.fe", f"ferrite graph 0\ngraph @g(%m0: f32[256,256]) -> (%m{steps} \"r\") {{\n{body}}}\n")
        self.assertEqual(self.run_on("chain.fe").returncode, OK)
        # Two at a time; the rest is words of what indices were wrong.
        self.assertEqual(max(int(c[0]) for c in self.calls("cuMemAlloc")), 2 * square)

    def test_no_driver(self):
        manifest = (self.folder / "manifest.toml").read_text()
        self.write("manifest.toml", manifest.replace(str(Settings.driver), "libno-such-driver.so.1"))
        self.assertRefused(self.run_on(), "ferrite.cuda/driver", "libno-such-driver.so.1.*no NVIDIA driver", DEVICE)
        targets = self.call("targets", "--manifest", "manifest.toml")
        self.assertEqual(targets.returncode, OK)
        self.assertIn("libno-such-driver.so.1", targets.stdout)

    def test_drivers_that_do_not_do(self):
        for pattern, environment in [
            ("for CUDA 11.8; 12.0 or later", {"FAKE_DRIVER_VERSION": "11080"}),
            ("the driver does not start", {"FAKE_DRIVER_FAIL": "cuInit:1"}),
        ]:
            self.assertRefused(self.run_on(**environment), "ferrite.cuda/driver", pattern, DEVICE)

    def test_no_device(self):
        self.assertRefused(self.run_on(FAKE_DRIVER_DEVICES="0"), "FE-D01", "'cuda' has no device here", 2)
        self.assertRefused(self.run_on("g.fe", "--device", "cuda:1"), "FE-D01", "one device, number 0", 2)

    def test_an_architecture_that_is_too_old(self):
        self.assertRefused(self.run_on(FAKE_DRIVER_MAJOR="7"), "ferrite.cuda/target", "sm_70.*there are sm_80")

    def test_out_of_memory(self):
        self.assertRefused(self.run_on(FAKE_DRIVER_FAIL="cuMemAlloc:1"), "FE-D03", "cuda:0: no memory for", DEVICE)
        self.assertRefused(self.run_on(FAKE_DRIVER_MEMORY="1000"), "FE-D03", "cuda:0: no memory for", DEVICE)

    def test_faults_name_the_node(self):
        done = self.run_on(FAKE_DRIVER_FAIL="cuLaunchKernel:1")
        self.assertRefused(done, "ferrite.cuda/device", "the_sum, the_exp, rows: .*ILLEGAL_ADDRESS", DEVICE)
        done = self.run_on(FAKE_DRIVER_FAIL="cuMemcpyDtoHAsync:1")
        self.assertRefused(done, "ferrite.cuda/device", "a copy from the device failed", DEVICE)

    def test_code_that_the_driver_does_not_take(self):
        done = self.run_on(FAKE_DRIVER_FAIL="cuModuleLoadDataEx:1")
        self.assertRefused(done, "ferrite.cuda/link", "does not take k_[0-9a-f]{32}: CUDA_ERROR_INVALID_IMAGE", DEVICE)

    def test_code_of_another_architecture(self):
        made = self.call("compile", "g.fe", "--manifest", "manifest.toml", "-o", "g.fepkg")
        self.assertEqual(made.returncode, OK, made.stderr)
        self.assertEqual(self.run_on("g.fepkg").returncode, OK)
        done = self.run_on("g.fepkg", FAKE_DRIVER_MAJOR="8")
        self.assertRefused(done, "FE-K5[0-9]", "it is code for sm_90a, the device is an sm_80", 4)

    @unittest.skipIf(ptxas() is None, "there is no ptxas here")
    def test_ptxas_takes_the_code(self):
        modules = self.folder / "modules"
        modules.mkdir()
        for name, text in [("g.fe", MODEL), ("gather.fe", GATHER), ("k.fe", KINDS)]:
            self.write(name, text)
            done = self.run_on(name, FAKE_DRIVER_MODULES=str(modules))
            self.assertEqual(done.returncode, OK, done.stderr)
        made = sorted(modules.iterdir())
        self.assertGreater(len(made), 8)
        for module in made:
            done = subprocess.run([ptxas(), "-arch=sm_90a", "-v", "-o", os.devnull, module], capture_output=True,
                                  text=True, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, "0 bytes spill stores", module.name)
            self.assertLess(int(re.search(r"Used (\d+) registers", done.stderr).group(1)), 128)


if __name__ == "__main__":
    main(__doc__, driver=BUILD / "lib/ferrite/test_drivers/libfake_driver.so")
