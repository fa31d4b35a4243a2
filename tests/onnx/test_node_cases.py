#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Every node test of Debian's libonnx-testdata: as many pass as did before, none fails but drawings of random numbers, and what is skipped says why.

Usage: test_node_cases.py [--ferrite FILE] [--data DIR] [--json FILE]
"""

import argparse
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# What passes now of the 932 cases of libonnx-testdata 1.12. More may; fewer is a regression.
LEAST_PASSED = 689
CASES = 932
# How messages say which node it is: by its name, else by its number and what it makes.
NODE = r"node ('.+'|\d+) \(\S+, opset \d+(, makes '.+')?\)"
# A reason to skip a case, by code: the text that it must have besides. Any other code is a failure.
REASONS = {
    "FE-I19": r"ONNX type \d+",  # an element type
    "FE-I20": rf"not supported: \S+ in opset \d+ \(\d+ nodes?, .*{NODE}",
    "FE-I21": rf"not supported: \S+ in opset \d+ \(\d+ nodes?, .*{NODE}; opsets \d+ to \d+ are supported",
    "FE-I22": rf"{NODE}: input \d+ \(\w+\) '.*' must be known when the model is imported",
    "FE-I24": rf"{NODE}|'.+' is no tensor; sequences",
    "FE-I26": NODE,
    "FE-C21": r"tensors of|in another file",
    "FE-C24": r"model\.onnx declares input '.+' with the shape \[[\d,-]*\], the tensor here has \[[\d,]*\]",
}
# Cases whose own data and model disagree. The reason is for these alone: elsewhere it would hide a wrong signature.
CONTRADICTIONS = {
    f"test_castlike_{types}{form}"
    for types in ("BFLOAT16_to_FLOAT", "FLOAT_to_BFLOAT16")
    for form in ("", "_expanded")
}
# Cases whose data are one drawing of random numbers, which no other generator gives.
DRAWN = {f"test_bernoulli{form}_expanded" for form in ("", "_double", "_seed")}


def faults(report):
    cases = report["cases"]
    counts = Counter(case["result"] for case in cases)
    if len(cases) != CASES:
        yield f"{len(cases)} cases instead of {CASES}"
    if report["passed"] < LEAST_PASSED:
        yield f"{report['passed']} passed, at least {LEAST_PASSED} did before"
    if (report["passed"], report["skipped"]) != (counts["pass"], counts["unsupported"]):
        yield f"the totals are not those of the cases: {dict(counts)}"
    for case in cases:
        name, result, text = case["name"], case["result"], case["text"]
        if result == "unsupported":
            code = text.split(" ")[0]
            if code not in REASONS:
                yield f"{name}: skipped with '{code}', which is no reason to skip: {text}"
            elif not re.search(REASONS[code], text):
                yield f"{name}: skipped without naming an op, a version or a feature: {text}"
            elif code == "FE-C24" and Path(name).name not in CONTRADICTIONS:
                yield f"{name}: skipped as a contradiction: {text}"
        elif result != "pass" and not (result == "wrong" and Path(name).name in DRAWN):
            yield f"{name}: {result}: {text}"
    if report["failed"] > len(DRAWN):
        yield f"{report['failed']} failed"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--data", type=Path, default=Path("/usr/share/libonnx-testdata/data/node"))
    parser.add_argument("--json", type=Path, default=ROOT / "build/release/onnx_node_tests.json")
    arguments = parser.parse_args()
    arguments.json.unlink(missing_ok=True)
    done = subprocess.run(
        [arguments.ferrite, "onnx-test", arguments.data, "--json", arguments.json], stdout=subprocess.DEVNULL
    )
    report = json.loads(arguments.json.read_text())
    found = list(faults(report))
    if done.returncode != int(report["failed"] > 0):
        found.append(f"exit status {done.returncode}")
    print("\n".join(found))
    print(f"{report['passed']} passed, {report['failed']} failed, {report['skipped']} skipped")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
