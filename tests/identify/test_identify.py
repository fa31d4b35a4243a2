#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""examples/identify gives every sample the label that the magika package gives it (golden.json).

Usage: test_identify.py [--program FILE] [--models DIRECTORY]
A result line is the path as given, the label and the probability, separated by tabs or by two or more spaces.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SCORE_TOLERANCE = 2e-3


def parse_lines(text: str, paths: set[str]) -> dict[str, tuple[str, float]]:
    results = {}
    for line in text.splitlines():
        fields = re.split(r"\t+|\s{2,}", line.strip())
        if len(fields) == 3 and fields[0] in paths:
            percent = fields[2].endswith("%")
            results[fields[0]] = (fields[1], float(fields[2].rstrip("% ")) * (0.01 if percent else 1.0))
    return results


def differences(golden: list[dict], results: dict[str, tuple[str, float]]) -> list[str]:
    found = []
    for entry in golden:
        if entry["path"] not in results:
            found.append(f"{entry['path']}: no result line")
            continue
        label, score = results[entry["path"]]
        if label != entry["label"]:
            found.append(f"{entry['path']}: label {label}, expected {entry['label']}")
        if abs(score - entry["score"]) > SCORE_TOLERANCE:
            found.append(f"{entry['path']}: score {score}, expected {entry['score']}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--program", type=Path, default=ROOT / "build/release/bin/identify")
    parser.add_argument("--models", type=Path, default=ROOT / "build/models")
    arguments = parser.parse_args()
    model = arguments.models.resolve() / "magika"
    golden = json.loads((HERE / "golden.json").read_text())
    committed = {f"samples/{path.name}" for path in (HERE / "samples").iterdir() if not path.name.startswith(".")}
    paths = [entry["path"] for entry in golden]
    if committed != set(paths):
        print(f"golden.json and samples/ differ: {sorted(committed ^ set(paths))}; run make_golden.py", file=sys.stderr)
        return 1
    command = [arguments.program.resolve(), "--model", model / "model.onnx", "--config", model / "config.min.json"]
    done = subprocess.run([*command, *paths], cwd=HERE, capture_output=True, text=True, check=False)
    found = differences(golden, parse_lines(done.stdout, set(paths)))
    if done.returncode != 0:
        found.append(f"exit status {done.returncode}")
    if found:
        print("\n".join(found), "--- standard output", done.stdout, "--- standard error", done.stderr, sep="\n")
        return 1
    print(f"{len(golden)} files, {len({entry['label'] for entry in golden})} labels: all as the package gives them")
    return 0


if __name__ == "__main__":
    sys.exit(main())
