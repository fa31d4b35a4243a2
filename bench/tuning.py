#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far costs are from measuring: each model with `--tune off` and after a long search, in turns.

Usage: bench/tuning.py [--ferrite FILE] [--seconds N] [--threads N] [--rounds N] [--run-seconds N]
                       [--output FILE] [ROW...]

A row is searched once for --seconds; then both ways run in turns, in processes of their own, and their results are compared.
`distance` is the median over the rounds of off / searched, by each round's least time: 1.03 means that a search makes the model
3 % faster. `changed` counts the kernels for which measuring chose otherwise than costs. Rows whose model is not there are left out.
All of it goes to standard output and bench/results/tuning.json. Exit status 1 where a row failed, or results differ.
"""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/models")]

import figures  # noqa: E402
import rows as table  # noqa: E402

OFF, SEARCHED = "off", "cached"


class Row:
    """One model with a store of its own."""

    def __init__(self, arguments: argparse.Namespace, row: table.Row, scratch: Path):
        self.arguments, self.row, self.scratch = arguments, row, scratch
        self.words = [str(arguments.ferrite), "bench", str(row.path()), "--threads", str(arguments.threads), "--json",
                      "--cache", str(scratch / "cache"), *table.write_inputs(row.inputs(), scratch)]  # fmt: skip

    def bench(self, tune: str, runs: int, **environment: str) -> dict:
        done = subprocess.run([*self.words, "--tune", tune, "--repeat", str(runs)], capture_output=True, text=True,
                              check=False, env=os.environ | environment)  # fmt: skip
        if done.returncode != 0:
            raise RuntimeError(f"ferrite bench: exit status {done.returncode}: {done.stderr.strip()}")
        return json.loads(done.stdout)

    def search(self) -> dict:
        """Searches; how long that took, and what it chose."""
        start = time.monotonic()
        self.bench(f"{self.arguments.seconds:g}", 1)
        seconds = time.monotonic() - start
        self.bench(SEARCHED, 1, FERRITE_METRICS="selection", FERRITE_METRICS_DIR=str(self.scratch))
        with open(self.scratch / "metric_selection.csv", newline="") as file:
            chosen = list(csv.DictReader(file))
        measured = [row for row in chosen if row["by"] == "stored"]
        changed = [row for row in measured if row["candidate"] != row["usual_candidate"]]
        gains = sorted((float(row["usual_measured_us"]) / float(row["measured_us"]) for row in changed), reverse=True)
        return {
            "search_s": round(seconds, 1),
            "kernels": len(chosen),
            "measured": len(measured),
            "changed": len(changed),
            "largest_gain": round(gains[0], 3) if gains else 1.0,
        }

    def compare(self) -> None:
        results = [
            table.run_ferrite(self.arguments.ferrite, self.row, table.MODELS, self.arguments.threads, self.scratch, 600,
                              ("--cache", str(self.scratch / "cache"), "--tune", tune))
            for tune in (OFF, SEARCHED)
        ]  # fmt: skip
        for (name, off), (_, searched) in zip(*results):
            same, text = table.difference(searched, off)
            if not same:
                raise RuntimeError(f"output '{name}' differs: {text}")

    def measure(self) -> dict:
        result = self.search()
        self.compare()
        repeat = self.arguments.run_seconds * 1000 / self.bench(OFF, 5)["min_ms"]
        runs = max(10, min(1000, round(repeat)))
        rounds = []
        for number in range(self.arguments.rounds):
            # Who comes first takes turns too.
            order = (OFF, SEARCHED) if number % 2 == 0 else (SEARCHED, OFF)
            rounds.append({tune: self.bench(tune, runs) for tune in order})
        for tune in (OFF, SEARCHED):
            key = "off" if tune == OFF else "searched"
            result[f"{key}_ms"] = round(statistics.median(each[tune]["median_ms"] for each in rounds), 3)
            result[f"{key}_min_ms"] = round(min(each[tune]["min_ms"] for each in rounds), 3)
        ratios = [each[OFF]["min_ms"] / each[SEARCHED]["min_ms"] for each in rounds]
        result["distance"] = round(statistics.median(ratios), 3)
        return result


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--seconds", type=float, default=60.0, help="of the search of each row; 60")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--run-seconds", type=float, default=1.0, help="how long each way runs in a round, about; 1")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/tuning.json")
    table.add_argument(parser)
    arguments = parser.parse_args()
    wanted = table.chosen(parser, arguments.rows)
    if arguments.seconds <= 0 or arguments.run_seconds <= 0 or min(arguments.threads, arguments.rounds) < 1:
        parser.error("--seconds, --run-seconds, --threads and --rounds are above 0")

    results, failed = {}, []
    print(f"{'row':<22}{'off ms':>9}{'searched':>10}{'distance':>10}{'kernels':>9}{'changed':>9}{'search s':>10}")
    for row in wanted:
        if not row.path().is_file():
            print(f"{row.name:<22}  {row.path().relative_to(ROOT)} is not there; bench/run fetches or exports it")
            continue
        with tempfile.TemporaryDirectory(prefix="ferrite-tuning-") as scratch:
            try:
                found = results[row.name] = Row(arguments, row, Path(scratch)).measure()
            except RuntimeError as error:
                failed.append(row.name)
                print(f"{row.name:<22}  {error}", flush=True)
                continue
        print(f"{row.name:<22}{found['off_min_ms']:>9.3f}{found['searched_min_ms']:>10.3f}{found['distance']:>10.3f}"
              f"{found['kernels']:>9}{found['changed']:>9}{found['search_s']:>10.1f}", flush=True)  # fmt: skip
    distances = [found["distance"] for found in results.values()]
    if distances:
        print(f"geometric mean of the distances: {figures.geometric_mean(distances):.3f}")
    report = {
        **figures.origin("bench/tuning.py"),
        "threads": arguments.threads,
        "seconds": arguments.seconds,
        "rounds": arguments.rounds,
        "run_seconds": arguments.run_seconds,
        "geometric_mean": round(figures.geometric_mean(distances), 3) if distances else None,
        "rows": results,
    }
    if distances:
        arguments.output.parent.mkdir(parents=True, exist_ok=True)
        arguments.output.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
