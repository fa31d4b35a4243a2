#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Runs the fuzzers, one after the other, for so many seconds of processor time each; exit status 1 where one finds something.

Usage: fuzz.py [--build DIRECTORY] [--seconds N] [--work DIRECTORY] [--record FILE] [NAME...]

With --record, time and runs are added to those of FILE, so that a long run may be made of several: what has had its seconds
there is not run again. A finding stays in FILE until it is mended and taken out.
"""

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CORPUS = ROOT / "tests/fuzz/corpus"
CHUNK_SECONDS = 300  # after so much of a long run what was found so far is recorded
SYMBOLIZER = "/usr/lib/llvm-22/bin/llvm-symbolizer"
LIMITS = ["-timeout=20", "-rss_limit_mb=2048", "-print_final_stats=1"]
OPTIONS = {
    "ASAN_OPTIONS": f"strict_string_checks=1:detect_stack_use_after_return=1:external_symbolizer_path={SYMBOLIZER}",
    "UBSAN_OPTIONS": f"print_stacktrace=1:external_symbolizer_path={SYMBOLIZER}",
}


def processor_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(program: Path, seconds: float, work: Path) -> tuple[float, float, int, str]:
    """Processor time, time by the clock, runs, and the end of the output where something was found."""
    name = program.name.removeprefix("fuzz_")
    # New inputs go to the first folder, the committed corpus is only read.
    corpora = [work / "corpus"] + [folder for folder in [CORPUS / name] if folder.is_dir()]
    corpora[0].mkdir(parents=True, exist_ok=True)
    before, started = processor_seconds(), time.monotonic()
    words = [program, f"-max_total_time={max(int(seconds), 1)}", *LIMITS, f"-artifact_prefix={work}/", *corpora]
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, errors="replace",
                          env={**OPTIONS, **os.environ}, check=False)  # fmt: skip
    (work / "log").write_text(done.stderr)
    runs = re.search(r"number_of_executed_units:\s+(\d+)", done.stderr)
    finding = "" if done.returncode == 0 else "\n".join(done.stderr.splitlines()[-40:])
    return processor_seconds() - before, time.monotonic() - started, int(runs[1]) if runs else 0, finding


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/asan")
    parser.add_argument("--seconds", type=float, default=15)
    parser.add_argument("--work", type=Path, default=ROOT / "build/fuzz")
    parser.add_argument("--record", type=Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    programs = [p for p in sorted(arguments.build.glob("bin/fuzz_*")) if p.is_file() and os.access(p, os.X_OK)]
    programs = [p for p in programs if not arguments.names or p.name.removeprefix("fuzz_") in arguments.names]
    if not programs:
        print(f"{arguments.build}/bin has no such fuzz_* program")
        return 1
    status = 0
    for program in programs:
        name = program.name.removeprefix("fuzz_")
        spent, runs, finding = 0.0, 0, ""
        while True:
            table = json.loads(arguments.record.read_text()) if arguments.record and arguments.record.exists() else {}
            total = table.setdefault(name, {"processor_seconds": 0, "seconds": 0, "runs": 0, "findings": []})
            left = arguments.seconds - (total["processor_seconds"] if arguments.record else spent)
            # What is left of a second is not worth a start.
            if left < 1 or finding:
                break
            used, passed, ran, finding = run(program, min(left, CHUNK_SECONDS), arguments.work / name)
            spent, runs = spent + used, runs + ran
            if arguments.record:
                total["processor_seconds"] = round(total["processor_seconds"] + used)
                total["seconds"] = round(total.get("seconds", 0) + passed)
                total["runs"] += ran
                if finding:
                    total["findings"].append(next((line for line in finding.splitlines() if "SUMMARY" in line), "failed"))
                arguments.record.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")
        print(f"fuzz_{name}: {runs} runs in {spent:.0f} s" + (f"; {total['runs']} in all" if arguments.record else ""))
        if finding:
            status = 1
            print(finding)
            print(f"fuzz_{name}: failed; the input is in {arguments.work / name}")
    return status


if __name__ == "__main__":
    sys.exit(main())
