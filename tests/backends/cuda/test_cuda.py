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

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[1])]

from grid_tests import GATHER, KINDS, MODEL, PAD, GridTests, types  # noqa: E402
from program import BUILD, OK, ProgramTest, main  # noqa: E402


def ptxas():
    found = shutil.which("ptxas") or "/usr/local/cuda/bin/ptxas"
    return found if Path(found).is_file() else None


class CudaTest(GridTests, ProgramTest):
    kind = "cuda"
    functions = {"init": "cuInit", "load": "cuModuleLoadDataEx", "unload": "cuModuleUnload", "alloc": "cuMemAlloc", "free": "cuMemFree",
                 "to_device": "cuMemcpyHtoDAsync", "to_host": "cuMemcpyDtoHAsync", "launch": "cuLaunchKernel"}  # fmt: skip
    errors = {"fault": "ILLEGAL_ADDRESS", "image": "CUDA_ERROR_INVALID_IMAGE"}
    library = "install NVIDIA's driver for CUDA 12.0 or later"

    def test_a_driver_that_is_too_old(self):
        self.assertRefusedHere(self.run_on(FAKE_DRIVER_VERSION="11080"), "driver", "for CUDA 11.8, which is too old; install")

    def test_an_architecture_that_is_too_old(self):
        self.assertRefused(self.run_on(FAKE_DRIVER_MAJOR="7"), "ferrite.cuda/target", "sm_70.*there are sm_80")

    def test_code_of_another_architecture(self):
        made = self.call("compile", "g.fe", "--manifest", "manifest.toml", "-o", "g.fepkg")
        self.assertEqual(made.returncode, OK, made.stderr)
        self.assertEqual(self.run_on("g.fepkg").returncode, OK)
        done = self.run_on("g.fepkg", FAKE_DRIVER_MAJOR="8")
        self.assertRefused(done, "FE-K5[0-9]", "it is code for sm_90a, the device is an sm_80", 4)

    def test_all_types_are_taken(self):
        self.assertGreater(len(self.modules_of("types", types(["f64", "i64", "i8"]))), 8)

    @unittest.skipIf(ptxas() is None, "there is no ptxas here")
    def test_ptxas_takes_the_code(self):
        graphs = {"model": MODEL, "gather": GATHER, "pad": PAD, "kinds": KINDS}
        made = [module for name, text in graphs.items() for module in self.modules_of(name, text)]
        self.assertGreater(len(made), 8)
        for module in made:
            done = subprocess.run([ptxas(), "-arch=sm_90a", "-v", "-o", os.devnull, module], capture_output=True,
                                  text=True, check=False)  # fmt: skip
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stderr, "0 bytes spill stores", module.name)
            self.assertLess(int(re.search(r"Used (\d+) registers", done.stderr).group(1)), 128)


if __name__ == "__main__":
    main(__doc__, driver=BUILD / "lib/ferrite/test_drivers/libfake_driver.so")
