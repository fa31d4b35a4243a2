#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""ptxas takes the code of the kernels of the conformance list, for several architectures.

Usage: test_conformance_code.py [--ferrite FILE] [--driver FILE] [--all] [--only NAME]... [--output FILE]
What is computed is no matter: the driver is one that only writes down the code that it is given. --all: every case, not one in ten,
and every kernel, not twenty-five for each architecture. --only: of all, the cases of this statement or primitive.
--output: counts, the kernels that spill and those with the most registers, as JSON; written anew behind each architecture.
"""

import argparse
import concurrent.futures
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(Path(__file__).resolve().parent), str(ROOT / "tests"), str(ROOT / "bench")]

import figures  # noqa: E402
from program import BUILD  # noqa: E402
from test_cuda import ptxas  # noqa: E402

ARCHITECTURES = {"sm_80": 8, "sm_90a": 9, "sm_100a": 10}  # and the first number of a device

SAMPLED = 25
TOGETHER = 50  # of ptxas, which takes longer to start than for most kernels


def names():
    """The list's: kinds of statement, then primitives."""
    primitives = (ROOT / "sdk/include/ferrite/prims.def").read_text()
    return ["map", "reduce", "contract", "scatter", "serial", *re.findall(r"^FE_PRIM\((\w+),", primitives, re.MULTILINE)]


def codes(options, folder, major, name):
    """The code that the driver of such a device is given for the list, or for its cases of one name."""
    plugin = BUILD / "lib/ferrite/plugins/ferrite.cuda.plugin.toml"
    manifest = folder / "manifest.toml"
    manifest.write_text(f'schema = 0\nenable = ["ferrite.cuda"]\n[plugin."ferrite.cuda"]\nconfig = {{ library = "{options.driver}" }}\n')
    modules = folder / "modules"
    modules.mkdir()
    environment = os.environ | {"FAKE_DRIVER_MODULES": str(modules), "FAKE_DRIVER_MAJOR": str(major), "FERRITE_CACHE": "off"}
    words = [options.ferrite, "plugin", "check", plugin, "--manifest", manifest, "--level", "L3"]
    words += ["--all", "--only", f"*: {name}"] if name else []
    subprocess.run([str(word) for word in words], env=environment, capture_output=True, check=False)
    made = sorted(modules.glob("*.ptx"))
    return made if name else made[:: max(1, len(made) // SAMPLED)]


def assemble(tool, architecture, modules):
    """By kernel: registers and bytes of spills, or what ptxas says against it."""
    done = subprocess.run([tool, f"-arch={architecture}", "-v", "-o", os.devnull, *modules], capture_output=True, text=True, check=False)
    if done.returncode and len(modules) == 1:
        return {modules[0].stem: done.stderr.strip()}
    if done.returncode:
        return {name: said for module in modules for name, said in assemble(tool, architecture, [module]).items()}
    said = {}
    for part in done.stderr.split("Compiling entry function '")[1:]:
        (spills,), (registers,) = re.findall(r"(\d+) bytes spill stores", part), re.findall(r"Used (\d+) registers", part)
        said[part[: part.index("'")]] = {"registers": int(registers), "spills": int(spills)}
    missing = [module.stem for module in modules if module.stem not in said]
    return said | dict.fromkeys(missing, "ptxas says nothing of it")


def kernels_of(options, tool, architecture, major, name):
    """What ptxas says of each kernel of a name, which is empty for a sample of all."""
    with tempfile.TemporaryDirectory(prefix="ferrite-ptx-") as scratch:
        modules = codes(options, Path(scratch), major, name)
        said = {}
        for first in range(0, len(modules), TOGETHER):
            said |= assemble(tool, architecture, modules[first : first + TOGETHER])
    return said


def summary(parts):
    """Of an architecture, by what was said of the kernels of each name. A kernel may be in several: it counts once, for the first."""
    named = {}
    for name, said in parts.items():
        for kernel, each in said.items():
            named.setdefault(kernel, {"of": name, "kernel": kernel, **each} if isinstance(each, dict) else each)
    taken = [each for each in named.values() if isinstance(each, dict)]
    most = max((each["registers"] for each in taken), default=0)
    return {
        "kernels": len(named),
        "refused": len(named) - len(taken),
        "spilling": sorted((each for each in taken if each["spills"]), key=lambda each: -each["spills"]),
        "most_registers": [each for each in taken if each["registers"] == most],
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=BUILD / "bin/ferrite")
    parser.add_argument("--driver", type=Path, default=BUILD / "lib/ferrite/test_drivers/libfake_driver.so")
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--only", action="append", choices=names(), metavar="NAME")
    parser.add_argument("--output", type=Path)
    options = parser.parse_args()
    tool = ptxas()
    if not tool:
        print("there is no ptxas here")
        return 77
    parts = options.only or (names() if options.all else [""])
    # The same wherever the programs lie.
    command = ["tests/backends/cuda/test_conformance_code.py", *(["--all"] if options.all else [])]
    command += [f"--only {name}" for name in options.only or []]
    version = re.search(r"release ([\d.]+)", subprocess.run([tool, "--version"], capture_output=True, text=True, check=False).stdout)
    record = {**figures.origin(command[0]), "command": " ".join(command), "ptxas": version[1] if version else "", "names": len(parts)}
    record["architectures"] = {}
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for architecture, major in ARCHITECTURES.items():
            one = itertools.repeat
            said = dict(zip(parts, pool.map(kernels_of, one(options), one(tool), one(architecture), one(major), parts)))  # fmt: skip
            for name, kernels in said.items():
                for kernel, each in kernels.items():
                    if isinstance(each, str):
                        print(f"{architecture}: {name} {kernel}: {each}")
                if not kernels:
                    print(f"{architecture}: {name}: no kernels")
                wrong += not kernels
            made = record["architectures"][architecture] = summary(said)
            print(f"{architecture}: {made['kernels']} kernels, {made['refused']} refused, {len(made['spilling'])} spill")
            wrong += made["refused"]
            if options.output:
                options.output.parent.mkdir(parents=True, exist_ok=True)
                options.output.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
