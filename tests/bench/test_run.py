#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/run measures a model beside ONNX Runtime, and names what it cannot run.

Usage: test_run.py --ferrite FILE
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def run(*arguments: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [str(part) for part in (sys.executable, ROOT / "bench/run", *arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, required=True)
    ferrite = parser.parse_args().ferrite
    short = ["--peers", "onnxruntime", "--rounds", 2, "--seconds", 0.01, "magika-b1"]
    with tempfile.TemporaryDirectory(prefix="ferrite-bench-run-") as scratch:
        output = Path(scratch) / "figures.json"
        done = run("--ferrite", ferrite, "--output", output, *short)
        assert done.returncode == 0, done.stdout + done.stderr
        report = json.loads(output.read_text())
        (row,) = report["rows"]
        assert row["row"] == "magika-b1" and list(row["engines"]) == ["onnxruntime", "ferrite"], row
        ours = row["engines"]["ferrite"]
        assert 0 < ours["min_ms"] <= ours["median_ms"] and ours["kernels"] > 0, ours
        assert ours["init_ms"] > 0, ours  # its weights are packed
        assert ours["warm_cache_misses"] == 0 and ours["warm_compile_ms"] < ours["compile_ms"], ours
        assert report["geometric_means"]["best"]["rows"] == 1, report["geometric_means"]
        assert "| magika-b1 " in done.stdout, done.stdout

        done = run("--ferrite", "/bin/false", "--output", output, *short)
        assert done.returncode == 1 and "magika-b1: Ferrite failed: ferrite run: exit status 1" in done.stdout, done
        assert json.loads(output.read_text())["rows"][0]["engines"]["onnxruntime"]["median_ms"] > 0

    for arguments, message in [
        (["no-such-model"], "no such model: no-such-model; known: magika-b1"),
        (["--peers", "glow"], "no such peer: glow; known: onnxruntime, openvino, torch"),
        (["--rounds", "0", "magika-b1"], "are above 0"),
        (["--write-pages", "magika-b1"], "--write-pages writes tables of bench/results"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2 and message in done.stderr, done
    return 0


if __name__ == "__main__":
    sys.exit(main())
