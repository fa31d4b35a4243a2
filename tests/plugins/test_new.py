#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ferrite plugin new`: each kind's project builds against the installed tree alone and passes its own tests as it is made;
wrong names, kinds and folders are refused. Usage: test_new.py --prefix DIRECTORY [KIND...]
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from installed import Clock, build, call, run_tests, surroundings

KINDS = ("rules", "pass", "op", "backend", "importer", "provider")


def refusals(ferrite: Path, scratch: Path) -> list[str]:
    """What is wrong with the answers to wrong requests."""
    (scratch / "taken").mkdir()
    cases = {
        ("FE-C01", "did you mean 'rules'?"): ("rule", "acme.x"),
        ("FE-C01", "NAME is missing: write 'ferrite plugin new NAME'"): ("rules",),
        ("FE-C26", "'nodot' is no name"): ("op", "nodot"),
        ("FE-C26", "'acme.9x' is no name"): ("op", "acme.9x"),
        ("FE-C26", "'ferrite.std' is the name of a built-in plugin"): ("op", "ferrite.std"),
        ("FE-C26", "'acme./x' is no name"): ("op", "acme./x"),
        ("FE-C27", "it is there already"): ("op", "acme.x", "--output", "taken"),
        ("FE-C10", "the folder cannot be made"): ("op", "acme.x", "--output", "/proc/nothing/x"),
    }
    failures = []
    for (code, text), words in cases.items():
        done = subprocess.run(
            [ferrite, "plugin", "new", *words], capture_output=True, text=True, cwd=scratch, env=surroundings(), timeout=20
        )
        if done.returncode not in (2, 3) or code not in done.stderr or text not in done.stderr:
            failures.append(f"plugin new {' '.join(words)}: exit status {done.returncode}: {done.stderr}")
    # A program without its share folder has no templates.
    alone = scratch / "taken" / "bin"
    alone.mkdir()
    shutil.copy(ferrite, alone)
    done = subprocess.run(
        [alone / "ferrite", "plugin", "new", "op", "acme.x"], capture_output=True, text=True, cwd=scratch,
        env=surroundings() | {"LD_LIBRARY_PATH": str(ferrite.parents[1] / "lib")}, timeout=20,
    )  # fmt: skip
    if done.returncode != 3 or "FE-C25" not in done.stderr:
        failures.append(f"without templates: exit status {done.returncode}: {done.stderr}")
    shutil.rmtree(alone)
    if list(scratch.iterdir()) != [scratch / "taken"] or list((scratch / "taken").iterdir()):
        failures.append("a refused request left something behind")
    return failures


def project(kind: str, ferrite: Path, scratch: Path, prefix: Path) -> str:
    """Makes, builds and tests one; says how long it took."""
    clock = Clock()
    name = f"acme.my_{kind}"
    folder = scratch / name
    listing = call(ferrite, "plugin", "new", kind, name, folder=scratch)
    for file in folder.rglob("*"):
        if file.is_file():
            text = file.read_text()
            if str(file.relative_to(scratch)) not in listing:
                raise SystemExit(f"plugin new {kind}: {file} is not listed")
            if "@ID@" in text or "@TARGET@" in text or "SPDX" in text:
                raise SystemExit(f"plugin new {kind}: {file} has something of the template left")
    build(folder, scratch / f"build-{kind}", prefix, build_type="None")
    passed = run_tests(scratch / f"build-{kind}")
    return f"{kind}: made, built, {passed} tests passed in {clock.lap():.1f} s"


WEIGHTED = """ferrite graph 0
graph @weighted(%x: f32[64,64]) -> (%y "y") {
  %w = full() {dtype = f32, shape = [64,64], value = 0.5}
  %m = matmul(%x, %w)
  %y = relu(%m)
}
"""
MASK = """ferrite graph 0
graph @mask(%m: i64[1,16]) -> (%y "y") {
  %f = cast(%m) {dtype = f32}
  %one = literal f32[] {1}
  %s = sub(%one, %f)
  %y = relu(%s)
}
"""
# For a C compiler: it writes what is no object.
NO_COMPILER = """#!/bin/sh
for word; do last=$word; done
echo nothing > "$last"
"""


def beside_the_cpu(ferrite: Path, scratch: Path) -> list[str]:
    """What is wrong where the provider and the backend decline, or fail, and the CPU's own code generator does the rest."""
    weighted, mask = scratch / "weighted.fe", scratch / "mask.fe"
    weighted.write_text(WEIGHTED)
    mask.write_text(MASK)
    tools = scratch / "tools"
    tools.mkdir()
    (tools / "cc").write_text(NO_COMPILER)
    (tools / "cc").chmod(0o755)
    broken = surroundings() | {"PATH": f"{tools}:{surroundings()['PATH']}"}

    def run(model: Path, *words: str, env: dict[str, str]) -> str:
        done = subprocess.run(
            [ferrite, "run", model, "--cache", "off", *words], capture_output=True, text=True, env=env, timeout=50
        )
        return next((line for line in done.stdout.splitlines() if line.startswith("output")), done.stderr)

    failures = []
    for isolation in ("in-process", "process"):
        (scratch / f"{isolation}.toml").write_text(
            f'schema = 0\nsearch = ["build-provider"]\nenable = ["acme.my_provider"]\n'
            f'[plugin."acme.my_provider"]\non_error = "skip"\nisolation = "{isolation}"\n'
        )
    for model, words, env in (
        (weighted, ["--plugin", str(scratch / "build-provider")], surroundings()),
        (weighted, ["--manifest", str(scratch / "in-process.toml")], broken),
        (weighted, ["--manifest", str(scratch / "process.toml")], broken),
        (mask, ["--plugin", str(scratch / "build-backend"), "--device", "acme_my_backend,cpu"], surroundings()),
    ):
        expected, given = run(model, env=surroundings()), run(model, *words, env=env)
        if not expected.startswith("output") or given != expected:
            failures.append(f"{model.name} {' '.join(words)}: {given} where {expected} was expected")
    return failures


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--prefix", type=Path, required=True, help="where Ferrite is installed")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help="those whose projects are built; all of them")
    arguments = parser.parse_args()
    prefix, kinds = arguments.prefix.resolve(), arguments.kinds or KINDS
    ferrite = prefix / "bin" / "ferrite"
    with tempfile.TemporaryDirectory(prefix="ferrite-plugin-new-") as name:
        scratch = Path(name)
        failures = refusals(ferrite, scratch)
        with ThreadPoolExecutor(2) as pool:
            for line in pool.map(lambda kind: project(kind, ferrite, scratch, prefix), kinds):
                print(line)
        if {"backend", "provider"} <= set(kinds):
            failures += beside_the_cpu(ferrite, scratch)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
