#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""bench/tuning.py searches a model briefly and says how far costs are from that.

Usage: test_tuning.py --ferrite FILE
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
        [str(part) for part in (sys.executable, ROOT / "bench/tuning.py", *arguments)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, required=True)
    ferrite = parser.parse_args().ferrite
    short = ["--rounds", 2, "--run-seconds", 0.01, "magika-b1"]
    with tempfile.TemporaryDirectory(prefix="ferrite-bench-tuning-") as scratch:
        output = Path(scratch) / "tuning.json"
        for seconds in (3, 30):  # a machine that others use may measure nothing in the first
            done = run("--ferrite", ferrite, "--output", output, "--seconds", seconds, *short)
            assert done.returncode == 0, done.stdout + done.stderr
            row = json.loads(output.read_text())["rows"]["magika-b1"]
            if row["measured"] > 0:
                break
        assert 0 < row["measured"] <= row["kernels"] and row["changed"] <= row["measured"], row
        assert row["distance"] > 0 and 0 < row["off_min_ms"] <= row["off_ms"], row

        output.unlink()
        done = run("--ferrite", "/bin/false", "--output", output, "--seconds", 3, *short)
        assert done.returncode == 1 and "exit status 1" in done.stdout and not output.exists(), done

    for arguments, message in [
        (["no-such-model"], "no such model: no-such-model; known: magika-b1"),
        (["--rounds", "0", "magika-b1"], "are above 0"),
    ]:
        done = run(*arguments)
        assert done.returncode == 2 and message in done.stderr, done
    return 0


if __name__ == "__main__":
    sys.exit(main())
