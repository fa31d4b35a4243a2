#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ferrite beside ONNX Runtime on the CPU: same models, same inputs, same number of threads, one run.

Usage: build/venv/bin/python bench/compare.py [--rounds N] [--threads N] [--limit RATIO] [--compile-limit MS]
       [ROW...]
Every round times both, in turns, so that a slow minute of the machine hits both alike; the figure of a round is its
median, that of a row the median of its rounds. Outputs are compared first: a wrong result is not timed. The table
goes to standard output, the figures to bench/results/cpu-compare.json. Exit status 1 when a result is wrong, a run
fails, a ratio is above --limit, or a compile time above --compile-limit.
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnxruntime

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "bench" / "models"))

import rows as table  # noqa: E402

TIMEOUT_SECONDS = 600.0


class Peer:
    """ONNX Runtime with a fixed number of threads."""

    def __init__(self, path: Path, inputs: table.Inputs, threads: int):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        start = time.perf_counter()
        self.session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        self.compile_ms = (time.perf_counter() - start) * 1e3
        self.inputs = inputs

    def run(self) -> list[np.ndarray]:
        return self.session.run(None, self.inputs)

    def times_ms(self, repeat: int) -> list[float]:
        for _ in range(2):
            self.run()
        times = []
        for _ in range(repeat):
            start = time.perf_counter()
            self.run()
            times.append((time.perf_counter() - start) * 1e3)
        return times


def bench_ferrite(arguments: argparse.Namespace, row: table.Row, bindings: list[str], repeat: int) -> dict:
    command = [arguments.ferrite, "bench", row.path(arguments.models), "--threads", arguments.threads,
               "--repeat", repeat, "--json", "--cache", "off", *bindings]  # fmt: skip
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"ferrite bench: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def check(arguments: argparse.Namespace, row: table.Row, peer: Peer, scratch: Path) -> None:
    results = table.run_ferrite(arguments.ferrite, row, arguments.models, arguments.threads, scratch, TIMEOUT_SECONDS)
    expected = peer.run()
    if len(results) != len(expected):
        raise RuntimeError(f"{len(results)} outputs, expected {len(expected)}")
    for (name, actual), reference in zip(results, expected, strict=True):
        close, text = table.difference(actual, reference)
        if not close:
            raise RuntimeError(f"wrong result: {name}: {text}")


def measure(arguments: argparse.Namespace, row: table.Row) -> dict:
    inputs = row.inputs()
    peer = Peer(row.path(arguments.models), inputs, arguments.threads)
    with tempfile.TemporaryDirectory(prefix="ferrite-compare-") as scratch:
        check(arguments, row, peer, Path(scratch))
        bindings = table.write_inputs(inputs, Path(scratch))
        # About a second of ONNX Runtime a round.
        repeat = int(min(200, max(5, 1000 / statistics.median(peer.times_ms(3)))))
        ours, theirs = [], []
        for number in range(arguments.rounds):
            # Who goes first alternates, so that neither always runs on the warmer machine.
            for turn in ("ours", "theirs") if number % 2 == 0 else ("theirs", "ours"):
                if turn == "ours":
                    ours.append(bench_ferrite(arguments, row, bindings, repeat))
                else:
                    theirs.append(peer.times_ms(repeat))
    median = statistics.median(figures["median_ms"] for figures in ours)
    peer_median = statistics.median(statistics.median(times) for times in theirs)
    return {
        "row": row.name,
        "median_ms": median,
        "min_ms": min(figures["min_ms"] for figures in ours),
        "peer_median_ms": peer_median,
        "peer_min_ms": min(min(times) for times in theirs),
        "ratio": median / peer_median,
        "compile_ms": max(figures["compile_ms"] for figures in ours),
        "init_ms": statistics.median(figures["init_ms"] for figures in ours),
        "peer_compile_ms": peer.compile_ms,
        "repeat": repeat,
        **{key: ours[0][key] for key in ("nodes", "statements", "kernels", "threads")},
    }


def cpu_name() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def commit() -> str:
    done = subprocess.run(
        ["git", "-C", ROOT, "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


HEADER = f"{'model':20} {'ferrite ms (min)':>20} {'onnxruntime ms (min)':>22} {'ratio':>6} {'compile':>8} {'kernels':>8}"


def line(figures: dict) -> str:
    ours = f"{figures['median_ms']:.2f} ({figures['min_ms']:.2f})"
    theirs = f"{figures['peer_median_ms']:.2f} ({figures['peer_min_ms']:.2f})"
    return (
        f"{figures['row']:20} {ours:>20} {theirs:>22} {figures['ratio']:6.2f} "
        f"{figures['compile_ms']:8.0f} {figures['kernels']:8d}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ferrite", type=Path, default=ROOT / "build/release/bin/ferrite")
    parser.add_argument("--models", type=Path, default=table.MODELS)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, help="exit status 1 when a ratio is above this")
    parser.add_argument("--compile-limit", type=float, help="exit status 1 when compile_ms is above this")
    parser.add_argument("--output", type=Path, default=ROOT / "bench/results/cpu-compare.json")
    parser.add_argument("rows", nargs="*", metavar="ROW")
    arguments = parser.parse_args()
    try:
        rows = table.select(arguments.rows)
    except ValueError as error:
        parser.error(str(error))

    results, failed = [], []
    print(HEADER)
    for row in rows:
        try:
            results.append(measure(arguments, row))
        except (RuntimeError, OSError, KeyError, ValueError, subprocess.TimeoutExpired) as error:
            failed.append({"row": row.name, "error": str(error)})
            print(f"{row.name:20} failed: {error}")
            continue
        print(line(results[-1]), flush=True)

    report = {
        "command": shlex.join(["bench/compare.py", *sys.argv[1:]]),
        "commit": commit(),
        "cpu": cpu_name(),
        "cores": os.cpu_count(),
        "onnxruntime": onnxruntime.__version__,
        "rounds": arguments.rounds,
        "rows": results,
        "failed": failed,
    }
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(json.dumps(report, indent=2) + "\n")
    slow = [figures["row"] for figures in results if arguments.limit and figures["ratio"] > arguments.limit]
    if slow:
        print(f"above {arguments.limit} times ONNX Runtime: {', '.join(slow)}")
    long = [
        figures["row"]
        for figures in results
        if arguments.compile_limit and figures["compile_ms"] > arguments.compile_limit
    ]
    if long:
        print(f"above {arguments.compile_limit} ms to compile: {', '.join(long)}")
    return 1 if failed or slow or long else 0


if __name__ == "__main__":
    sys.exit(main())
