#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How models scale with threads: Ferrite beside its peers with 1, 2, 4, ... threads, interleaved in one run.

Usage: threads.py [--ferrite FILE] [--peers NAME,...] [--threads N,...] [--rounds N] [--at-once N] [--output FILE] [ROW...]
Every peer runs in this interpreter, which has the packages of bench/requirements.txt that it needs; models that PyTorch
defines are exported with it. With --at-once the peers of all rows compile before anything is timed, N at a time on all
cores, and wait for their turn: their compile_ms are then those of a loaded machine. Without names of models ResNet-50 and
BERT base are measured, in f32 and bf16. The table goes to standard output and all figures to --output, which is
bench/results/cpu-threads.json. Exit status 1 when anything failed.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench/models")]

import engines  # noqa: E402
import figures  # noqa: E402
import rows as table  # noqa: E402


USUAL = ["resnet50", "bert-base-1x128", "bert-base-1x128-bf16", "resnet50-bf16"]  # where none are named


def matrix_units() -> list[str]:
    """Which of the processor's the system shows."""
    flags = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("flags")), "")
    return [flag for flag in flags.split() if flag.startswith("amx")]


def make(row: table.Row, engine: str, arguments: argparse.Namespace, threads: int, early: dict):
    def started(scratch: Path, deadline: engines.Deadline):
        if engine == figures.FERRITE:
            return engines.Ferrite(arguments.ferrite, row, threads, scratch, deadline)
        if waiting := early.get((row.name, engine, threads)):
            return pinned(waiting.result())
        return engines.Peer(engine, Path(sys.executable), row, threads, scratch, deadline)

    return started


def pinned(peer: engines.Peer) -> engines.Peer:
    """The peer with all its threads on the processors that this process has now."""
    for thread in os.listdir(f"/proc/{peer.process.pid}/task"):
        os.sched_setaffinity(int(thread), os.sched_getaffinity(0))
    return peer


def start_early(rows: list[table.Row], peers: list[str], counts: list[int], at_once: int, timeout: float, scratch: Path) -> dict:
    """Peers of all rows and numbers of threads, compiled; futures, which hold what failed too."""

    def start(row: table.Row, name: str, threads: int) -> engines.Peer:
        own = scratch / f"{row.name}-{name}-{threads}"
        own.mkdir()
        return engines.Peer(name, Path(sys.executable), row, threads, own, engines.Deadline(timeout))

    with ThreadPoolExecutor(at_once) as pool:
        return {(row.name, name, threads): pool.submit(start, row, name, threads)
                for row in rows for threads in counts for name in peers if has(row, name)}  # fmt: skip


def has(row: table.Row, engine: str) -> bool:
    return engine in (figures.FERRITE, "torch") or not row.bf16


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--peers", default="onnxruntime,torch", metavar="NAME,...")
    parser.add_argument("--threads", default="1,2,4,8,16", metavar="N,...")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="how long an engine runs in a round, about; 1")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds after which a row is given up; 300")
    parser.add_argument("--at-once", type=int, default=0, metavar="N", help="peers that compile at a time before anything is timed")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/cpu-threads.json")
    table.add_argument(parser)
    arguments = parser.parse_args()
    peers = arguments.peers.split(",")
    rows = table.chosen(parser, arguments.rows or USUAL)
    missing = [row.name for row in rows if row.exported and not row.path().is_file()]
    if missing:
        subprocess.run([sys.executable, str(ROOT / "bench/models/export.py"), *missing], check=True)

    every = sorted(os.sched_getaffinity(0))
    report = {**figures.origin("bench/threads.py"), "amx": matrix_units(), "rows": []}
    counts = [int(count) for count in arguments.threads.split(",")]
    scratch = tempfile.TemporaryDirectory(prefix="ferrite-threads-", ignore_cleanup_errors=True)
    early = {}
    if arguments.at_once > 0:
        early = start_early(rows, peers, counts, arguments.at_once, arguments.timeout, Path(scratch.name))
    failed = False
    titles = [figures.TITLES[name] for name in [figures.FERRITE, *peers]]
    print("| model | threads | " + " | ".join(f"{title}, ms" for title in titles) + " |")
    print("| --- | ---: |" + " ---: |" * len(titles), flush=True)
    for row in rows:
        for threads in counts:
            os.sched_setaffinity(0, every[:threads])
            measured, versions = engines.measure(
                row,
                {name: make(row, name, arguments, threads, early) for name in [*peers, figures.FERRITE] if has(row, name)},
                arguments.rounds,
                arguments.seconds,
                arguments.timeout,
            )
            report["rows"].append({"threads": threads, **measured})
            report["versions"] = report.get("versions", {}) | versions
            cells = []
            for name in [figures.FERRITE, *peers]:
                entry = measured["engines"].get(name)
                if entry is None:  # it has no such type
                    cells.append("")
                    continue
                failed = failed or "error" in entry
                cells.append(entry["error"].splitlines()[0] if "error" in entry else f"{entry['median_ms']:.2f}")
            print(f"| {row.name} | {threads} | " + " | ".join(cells) + " |", flush=True)
            arguments.output.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
