#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins of different making in one process: one in C on the ABI's headers alone, one built by clang with libc++, one with
another LLVM inside, beside the CPU backend, which has its own LLVM. Usage: test_side_by_side.py --prefix DIRECTORY
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from installed import ROOT, build, call

SOURCES = ROOT / "tests" / "plugins" / "side_by_side"
# What each library must have loaded, and must not export.
NEEDS = {"pure_c": [], "with_libcxx": ["libc++.so.1"], "with_llvm": ["libLLVM-14.so.1"]}
GRAPH = """ferrite graph 0
graph @all(%x: f32[4,1000]) -> (%y "y") {
  %0 = test.twice(%x) from "C"
  %1 = test.plus_width(%0) {bits = 77} from "LLVM"
  %y = test.thrice(%1) from "libc++"
}
"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=Path, required=True, help="where Ferrite is installed")
    prefix = parser.parse_args().prefix.resolve()
    failures = []
    with tempfile.TemporaryDirectory(prefix="ferrite-side-by-side-") as name:
        scratch = Path(name)
        build(SOURCES, scratch, prefix, "-DCMAKE_CXX_COMPILER=clang++-22", build_type="None")
        options: list[object] = []
        for library, needed in NEEDS.items():
            path = scratch / f"{library}.so"
            options += ["--plugin", path]
            dynamic = call("readelf", "--dynamic", path)
            failures += [f"{library} does not need {one}" for one in needed if f"[{one}]" not in dynamic]
            exported = call("nm", "--dynamic", "--defined-only", "--format=just-symbols", path).split()
            if exported != ["fe_plugin_entry_v0"]:
                failures.append(f"{library} exports {exported}")
        (scratch / "all.fe").write_text(GRAPH)
        x = np.random.default_rng(7).uniform(-1, 1, (4, 1000)).astype(np.float32)
        np.save(scratch / "x.npy", x)
        done = call(prefix / "bin" / "ferrite", "run", scratch / "all.fe", "-i", f"x={scratch / 'x.npy'}",
                    "-o", scratch / "out", "--threads", 2, *options)  # fmt: skip
        print(done.splitlines()[-1])
        result = np.load(scratch / "out" / "output_0.npy")
        expected = (2 * x + np.float32(77)) * np.float32(3)
        if not np.allclose(result, expected, rtol=1e-6):
            failures.append(f"the result differs by up to {np.max(np.abs(result - expected))}")
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
