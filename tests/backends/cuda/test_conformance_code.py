#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ptxas takes the code of the kernels of the conformance list, for several architectures.

Usage: test_conformance_code.py [--ferrite FILE] [--driver FILE] [--all] [--output FILE]
What is computed is no matter: the driver is one that only writes down the code that it is given. --all: every case, not one in ten,
and every kernel, not a hundred for each architecture.
--output: registers and spills of each kernel, as JSON.
"""

import argparse
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2])]

from program import BUILD  # noqa: E402
from test_cuda import ptxas  # noqa: E402

ARCHITECTURES = {"sm_80": 8, "sm_90a": 9, "sm_100a": 10}  # and the first number of a device

SAMPLED = 100


def codes(options, folder, major):
    """The code that the driver of such a device is given for the list."""
    plugin = BUILD / "lib/ferrite/plugins/ferrite.cuda.plugin.toml"
    manifest = folder / "manifest.toml"
    manifest.write_text(f'schema = 0\nenable = ["ferrite.cuda"]\n[plugin."ferrite.cuda"]\nconfig = {{ library = "{options.driver}" }}\n')
    modules = folder / "modules"
    modules.mkdir()
    environment = os.environ | {"FAKE_DRIVER_MODULES": str(modules), "FAKE_DRIVER_MAJOR": str(major), "FERRITE_CACHE": "off"}
    words = [options.ferrite, "plugin", "check", plugin, "--manifest", manifest, "--level", "L3", *(["--all"] if options.all else [])]
    subprocess.run([str(word) for word in words], env=environment, capture_output=True, check=False)
    made = sorted(modules.glob("*.ptx"))
    return made if options.all else made[:: max(1, len(made) // SAMPLED)]


def assemble(tool, architecture, module):
    """Registers and bytes of spills, or what ptxas says against it."""
    done = subprocess.run([tool, f"-arch={architecture}", "-v", "-o", os.devnull, module], capture_output=True, text=True, check=False)
    if done.returncode:
        return done.stderr.strip()
    registers = max(map(int, re.findall(r"Used (\d+) registers", done.stderr)))
    return {"registers": registers, "spills": sum(map(int, re.findall(r"(\d+) bytes spill stores", done.stderr)))}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=BUILD / "bin/ferrite")
    parser.add_argument("--driver", type=Path, default=BUILD / "lib/ferrite/test_drivers/libfake_driver.so")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    tool = ptxas()
    if not tool:
        print("there is no ptxas here")
        return 77
    result, wrong = {}, 0
    for architecture, major in ARCHITECTURES.items():
        with tempfile.TemporaryDirectory(prefix="ferrite-ptx-") as scratch, concurrent.futures.ThreadPoolExecutor() as pool:
            modules = codes(options, Path(scratch), major)
            said = dict(zip([module.stem for module in modules],
                            pool.map(lambda module: assemble(tool, architecture, module), modules)))  # fmt: skip
        refused = {name: text for name, text in said.items() if isinstance(text, str)}
        spilling = [name for name, each in said.items() if name not in refused and each["spills"] > 0]
        for name, text in refused.items():
            print(f"{architecture}: {name}: {text}")
        print(f"{architecture}: {len(said)} kernels, {len(refused)} refused, {len(spilling)} spill")
        wrong += len(refused) + (not said)
        result[architecture] = said
    if options.output:
        options.output.write_text(json.dumps(result, indent=1, sort_keys=True) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
