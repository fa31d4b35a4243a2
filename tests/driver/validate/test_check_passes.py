#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""--check-passes on real models: a planted wrong rule and a planted wrong pass are named, with a graph of at most 6 nodes
whose command shows the same again; the standard passes are not blamed.

Usage: test_check_passes.py --ferrite FILE --plugins DIRECTORY [--models DIRECTORY] MODEL-CASE...
MODEL is minilm or rec, CASE is rule, once, pass or clean. once: the rule looks at each node once, which would apply a wrong
one without an error; it is refused where rules are tried, and "plugin check" names it.
"""

import argparse
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MOST_NODES = 6
SWAPPED_SUB = ROOT / "tests/plugins/swapped_sub"
BLAMED_RULE = "rule 'test.swapped_sub' of plugin 'test.swapped_sub'"
MODELS = {
    "minilm": ["minilm/minilm.onnx", "--dim", "batch=1", "--dim", "sequence=128"],
    "rec": ["rapidocr/rec.onnx", "--dim", "p2o.DynamicDimension.0=1", "--dim", "x:2=48"]
    + ["--dim", "p2o.DynamicDimension.1=320"],
}


def ferrite(program: Path, *arguments: str, with_output: bool = False) -> tuple[int, str]:
    """Exit status and standard error; standard output before it where asked for."""
    command = [str(program), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, (done.stdout if with_output else "") + done.stderr


def planted_faults(arguments: argparse.Namespace, model: list[str], loads: list[str], blamed: str, scratch: str) -> list[str]:
    """What is wrong with the verdict on a model with a planted plugin, which the options `loads` load; `blamed` is how its
    message begins."""
    check = ["--validate-rules", "off", "--check-passes", "--reproducers", scratch]
    status, text = ferrite(arguments.ferrite, "opt", *model, "--to", "pre_grad", *loads, *check)
    print(text.strip())
    if status != 1 or blamed not in text:
        return [f"exit status {status}, expected 1 and '{blamed}': {text}"]
    shown = re.search(r"A graph of (\d+) nodes? shows it: ferrite (.*)$", text.strip())
    if not shown:
        return [f"no graph and no command in: {text}"]
    if int(shown.group(1)) > MOST_NODES:
        return [f"the graph has {shown.group(1)} nodes, at most {MOST_NODES} were expected"]
    status, again = ferrite(arguments.ferrite, *shlex.split(shown.group(2)), "--reproducers", scratch)
    return [] if status == 1 and blamed in again else [f"the command gives exit status {status}: {again}"]


def once_faults(arguments: argparse.Namespace, model: list[str], scratch: str) -> list[str]:
    """What is wrong with the verdicts on the planted rule in mode "once"."""
    manifest = Path(scratch) / "once.toml"
    manifest.write_text(
        f'schema = 0\nsearch = ["{SWAPPED_SUB}"]\nenable = ["test.swapped_sub"]\n'
        '[pass."test.swapped_sub/swapped_sub.txt"]\nmode = "once"\n',
        encoding="utf-8",
    )
    loads = ["--manifest", str(manifest)]
    found = planted_faults(arguments, model, loads, BLAMED_RULE, scratch)
    status, text = ferrite(arguments.ferrite, "opt", *model, "--to", "pre_grad", *loads)
    if status != 1 or f"{BLAMED_RULE} is wrong" not in text or "FE-R30" not in text:
        found.append(f"exit status {status}, expected 1 and FE-R30: {text}")
    descriptor = str(SWAPPED_SUB / "test.swapped_sub.plugin.toml")
    for options in ([], loads):
        status, text = ferrite(arguments.ferrite, "plugin", "check", descriptor, *options, with_output=True)
        if status != 1 or "rule test.swapped_sub (pre_grad): FE-P49" not in text or "FE-P53" in text:
            found.append(f"plugin check: exit status {status}, expected 1 and FE-P49: {text[-500:]}")
    return found


def faults(arguments: argparse.Namespace, case: str) -> list[str]:
    name, kind = case.split("-")
    model = [str(arguments.models / MODELS[name][0]), *MODELS[name][1:]]
    if not Path(model[0]).is_file():
        return [f"{model[0]} is not there; ./dev setup fetches the models"]
    with tempfile.TemporaryDirectory(prefix="ferrite-check-") as scratch:
        if kind == "rule":
            plugin = SWAPPED_SUB / "test.swapped_sub.plugin.toml"
            return planted_faults(arguments, model, ["--plugin", str(plugin)], BLAMED_RULE, scratch)
        if kind == "once":
            return once_faults(arguments, model, scratch)
        if kind == "pass":
            plugin = arguments.plugins / "wrong_pass.so"
            blamed = "FE-R32 pass 'test.divide_by_multiplying' of plugin 'test.wrong_pass'"
            return planted_faults(arguments, model, ["--plugin", str(plugin)], blamed, scratch)
        status, text = ferrite(arguments.ferrite, "opt", *model, "--to", "pre_lower", "--check-passes")
        print(text.strip())
        counts = re.search(r"checked (\d+) passes and (\d+) applications of rules: no difference in (\d+) places", text)
        if status != 0 or not counts or int(counts.group(3)) == 0 or "suspected" in text:
            return [f"exit status {status}, expected 0, no difference and nothing suspected: {text}"]
    return []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, required=True)
    parser.add_argument("--plugins", type=Path, required=True)
    parser.add_argument("--models", type=Path, default=ROOT / "build" / "models")
    parser.add_argument("cases", nargs="+")
    arguments = parser.parse_args()
    found = [f"{case}: {fault}" for case in arguments.cases for fault in faults(arguments, case)]
    for fault in found:
        print(fault, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
