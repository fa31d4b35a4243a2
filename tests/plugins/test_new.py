#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ferrite plugin new`: each kind's project builds against the installed tree alone and passes its own tests as it is made;
wrong names, kinds and folders are refused. Usage: test_new.py --prefix DIRECTORY [KIND...]
"""

import argparse
import re
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
            [ferrite, "plugin", "new", *words], capture_output=True, text=True, cwd=scratch, env=surroundings()
        )
        if done.returncode not in (2, 3) or code not in done.stderr or text not in done.stderr:
            failures.append(f"plugin new {' '.join(words)}: exit status {done.returncode}: {done.stderr}")
    # A program without its share folder has no templates.
    alone = scratch / "taken" / "bin"
    alone.mkdir()
    shutil.copy(ferrite, alone)
    done = subprocess.run(
        [alone / "ferrite", "plugin", "new", "op", "acme.x"], capture_output=True, text=True, cwd=scratch,
        env=surroundings() | {"LD_LIBRARY_PATH": str(ferrite.parents[1] / "lib")},
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
    if kind in RESULTS:
        words = ["--device", "acme_my_backend"] if kind == "backend" else []
        said = call(ferrite, "run", folder / "sample.fe", "--plugin", scratch / f"build-{kind}", *words, folder=scratch)
        if not re.search(RESULTS[kind], said):
            raise SystemExit(f"plugin new {kind}: the sample gives {said}, not {RESULTS[kind]}")
    return f"{kind}: made, built, {passed} tests passed in {clock.lap():.1f} s"


# What `ferrite run sample.fe` says of the project as it is made.
RESULTS = {
    "op": r"min 0, mean 1\.009",
    "pass": r"min 0\.1585.*, mean 1\.119",
    "rules": r"min -0\.7549.*, max 0\.7864",  # x / (1 + |x|) of -3.0814 and 3.6835, the ends of the input
    "provider": r"min 0, mean 0\.4688",
    "backend": r"mean 0\.02, max 0\.99993",  # each row of a softmax over 50 columns has the mean 1 / 50
}
OWN_PASS = """#include <ferrite/plugin.hpp>

using namespace ferrite;

static bool halve(Graph& graph) {
  bool changed = false;
  for (Node node : graph.nodes()) {
    if (node.op() != "add" || node.operand(0) != node.operand(1)) continue;
    graph.set_insertion(node);
    graph.replace_uses(node.result(), graph.make("mul", {node.operand(0), graph.scalar(node.result().dtype(), 2)}));
    graph.erase(node);
    changed = true;
  }
  return changed;
}

FERRITE_PLUGIN("acme.my_pass", "0.1.0", pass("pre_grad", "acme.my_pass.twice", halve))
"""
OWN_RULE = """rule acme.my_rules.twice at pre_grad {
  match { %r = add(%x, %x) }
  yield { %r = mul(%x, 2) }
}
"""
OWN_SAMPLE = """ferrite graph 0
graph @twice(%x: f32[7]) -> (%y "y") {
  %y = add(%x, %x)
}
"""


def own_project(kind: str, scratch: Path, prefix: Path) -> str:
    """The tests of a project whose sample is replaced by the user's own pass or rule, and nothing else."""
    clock = Clock()
    folder = scratch / f"acme.my_{kind}"
    (folder / "sample.fe").write_text(OWN_SAMPLE)
    source, text = {"pass": ("plugin.cpp", OWN_PASS), "rules": ("rules.fe", OWN_RULE)}[kind]
    (folder / source).write_text(text)
    build(folder, scratch / f"build-{kind}", prefix, build_type="None")
    return f"{kind} of one's own: {run_tests(scratch / f'build-{kind}')} tests passed in {clock.lap():.1f} s"


def two_of_rules(ferrite: Path, scratch: Path) -> list[str]:
    """What is wrong where two projects of rules are installed into one prefix: each keeps its own rules."""
    prefix, failures = scratch / "together", []
    for name in ("acme.first", "acme.second"):
        call(ferrite, "plugin", "new", "rules", name, folder=scratch)
        build(scratch / name, scratch / f"build-{name}", ferrite.parents[1], build_type="None")
        call("cmake", "--install", scratch / f"build-{name}", "--prefix", prefix, folder=scratch)
    for name in ("acme.first", "acme.second"):
        (descriptor,) = prefix.rglob(f"{name}.plugin.toml")
        said = call(ferrite, "explain", "--all", scratch / name / "sample.fe", "--plugin", descriptor, folder=scratch)
        if f"applied  {name}." not in said:
            failures.append(f"{name}, installed beside another project of rules, applies no rule of its own: {said}")
    return failures


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
            [ferrite, "run", model, "--cache", "off", *words], capture_output=True, text=True, env=env
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
        if "rules" in kinds:
            failures += two_of_rules(ferrite, scratch)
        for kind in sorted({"pass", "rules"} & set(kinds)):
            print(own_project(kind, scratch, prefix))
        if {"backend", "provider"} <= set(kinds):
            failures += beside_the_cpu(ferrite, scratch)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
