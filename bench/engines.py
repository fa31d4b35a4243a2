# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ferrite and its peers as bench/run sees them: each compiles a row's model, hands back its results, then times runs.

An engine has `outputs`, a list of arrays; `figures`, what it is known to have needed; `version`; `time(repeat,
deadline)`, the (median, minimum) of so many runs; `close()`. What goes wrong is a RuntimeError that says it.
"""

import json
import os
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

import figures
import rows as table

ROOT = Path(__file__).resolve().parents[1]
QUOTED_LINES = 6


class Deadline:
    """A moment by which a row has to be done."""

    def __init__(self, seconds: float):
        self.seconds = seconds
        self.end = time.monotonic() + seconds

    def left(self) -> float:
        left = self.end - time.monotonic()
        if left <= 0:
            raise RuntimeError(f"not done after {self.seconds:g} s")
        return left


def last_lines(text: str) -> str:
    return "\n".join(line for line in text.strip().splitlines()[-QUOTED_LINES:])


class Ferrite:
    """The program, started anew for each round; its kernels come from a cache that only this row has."""

    def __init__(self, program: Path, row: table.Row, threads: int, scratch: Path, deadline: Deadline):
        self.command = [str(program), "bench", str(row.path()), "--threads", str(threads), "--json",
                        *table.write_inputs(row.inputs(), scratch)]  # fmt: skip
        self.cache = str(scratch / "cache")
        self.rounds: list[dict] = []
        self.cold_ms: list[float] = []
        try:
            named = table.run_ferrite(
                program, row, table.MODELS, threads, scratch, deadline.left(), ("--cache", self.cache)
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"not done after {deadline.seconds:g} s") from error
        self.outputs = [array for _, array in named]
        done = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
        self.version = done.stdout.split()[1] if done.returncode == 0 else ""

    def bench(self, deadline: Deadline, *options: str) -> dict:
        try:
            done = subprocess.run(
                [*self.command, *options], capture_output=True, text=True, timeout=deadline.left(), check=False
            )
        except subprocess.TimeoutExpired as error:
            raise RuntimeError(f"not done after {deadline.seconds:g} s") from error
        if done.returncode != 0:
            raise RuntimeError(f"ferrite bench: exit status {done.returncode}: {last_lines(done.stderr)}")
        return json.loads(done.stdout)

    def time(self, repeat: int, deadline: Deadline) -> tuple[float, float]:
        self.cold_ms.append(self.bench(deadline, "--cache", "off", "--repeat", "1")["compile_ms"])
        self.rounds.append(self.bench(deadline, "--cache", self.cache, "--repeat", str(repeat)))
        return self.rounds[-1]["median_ms"], self.rounds[-1]["min_ms"]

    @property
    def figures(self) -> dict:
        last = self.rounds[-1]
        middle = lambda values: sorted(values)[len(values) // 2]  # noqa: E731
        return {
            "compile_ms": middle(self.cold_ms),
            "warm_compile_ms": middle([round["compile_ms"] for round in self.rounds]),
            "init_ms": middle([round["init_ms"] for round in self.rounds]),
            "warm_cache_misses": last["cache_misses"],
            **{key: last[key] for key in ("nodes", "statements", "kernels", "unique_kernels", "threads")},
        }

    def close(self) -> None:
        pass


class Peer:
    """A peers.py of its own, which waits between the rounds."""

    def __init__(self, name: str, interpreter: Path, row: table.Row, threads: int, scratch: Path, deadline: Deadline):
        inputs, outputs = scratch / "inputs.npz", scratch / f"{name}.npz"
        if not inputs.is_file():
            np.savez(inputs, **row.inputs())
        self.start(
            [str(interpreter), str(ROOT / "bench/peers.py"), name, "--row", row.name, "--model", str(row.path()),
             "--inputs", str(inputs), "--outputs", str(outputs), "--threads", str(threads)]
        )  # fmt: skip
        try:
            first = self.answer(deadline)
            self.version = first.pop("version")
            self.figures = first
            with np.load(outputs) as stored:
                self.outputs = [stored[f"arr_{index}"] for index in range(len(stored.files))]
        except BaseException:
            self.close()
            raise

    def start(self, command: list[str]) -> None:
        self.log = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True, start_new_session=True
        )

    def answer(self, deadline: Deadline) -> dict:
        timer = threading.Timer(deadline.left(), self.kill)
        timer.start()
        line = self.process.stdout.readline()
        timer.cancel()
        if line:
            return json.loads(line)
        deadline.left()
        status = self.process.wait()
        self.log.seek(0)
        raise RuntimeError(f"exit status {status}: {last_lines(self.log.read())}")

    def time(self, repeat: int, deadline: Deadline) -> tuple[float, float]:
        try:
            print(repeat, file=self.process.stdin, flush=True)
        except BrokenPipeError:
            pass  # answer() says why it is gone
        figures_of_round = self.answer(deadline)
        return figures_of_round["median_ms"], figures_of_round["min_ms"]

    def kill(self) -> None:
        """The process and what it started: compilers, workers."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        self.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self.log):
            try:
                stream.close()
            except BrokenPipeError:
                pass


def difference(actual: list[np.ndarray], expected: list[np.ndarray], bf16: bool) -> str | None:
    """What makes the results wrong; None if they are within the tolerance."""
    if len(actual) != len(expected):
        return f"wrong result: {len(actual)} outputs, expected {len(expected)}"
    for index, (array, reference) in enumerate(zip(actual, expected, strict=True)):
        close, text = table.difference(array, reference, bf16)
        if not close:
            return f"wrong result: output {index}: {text}"
    return None


def measure(row: table.Row, makers: dict, rounds: int, seconds: float, timeout: float) -> tuple[dict, dict]:
    """A row of the report, and the version of each engine that ran. `makers`: name -> function(scratch, deadline).

    The results of the first engine that has any are what the others' are held to. Every round times all of them, each
    `seconds` long by the first one's speed; who begins moves on by one with every round, so that nobody always runs on
    the warmer machine.
    """
    deadline = Deadline(timeout)
    running, failed, times = {}, {}, {}

    def fail(name: str, error: Exception) -> None:
        failed[name] = {"error": str(error).strip().replace(f"{ROOT}/", "")}
        if name in running:
            running.pop(name).close()

    with tempfile.TemporaryDirectory(prefix="ferrite-bench-", ignore_cleanup_errors=True) as scratch:
        try:
            for name, make in makers.items():
                try:
                    running[name] = make(Path(scratch), deadline)
                except (RuntimeError, OSError, ValueError, KeyError) as error:
                    fail(name, error)
            reference = next(iter(running), None)
            for name in [name for name in running if name != reference]:
                if (wrong := difference(running[name].outputs, running[reference].outputs, row.bf16)) is not None:
                    fail(name, RuntimeError(f"{wrong} (of {figures.TITLES[reference]})"))
            repeat = None
            for number in range(rounds):
                order = list(running)
                turn = number % len(order) if order else 0
                for name in order[turn:] + order[:turn]:
                    try:
                        if repeat is None:
                            repeat = int(min(200, max(5, seconds * 1000 / running[name].time(3, deadline)[0])))
                        times.setdefault(name, []).append(running[name].time(repeat, deadline))
                    except (RuntimeError, OSError, ValueError, KeyError) as error:
                        fail(name, error)
            measured = {name: {**figures.over_rounds(times[name]), **running[name].figures} for name in running}
            versions = {name: engine.version for name, engine in running.items()}
        finally:
            for engine in running.values():
                engine.close()
    entries = {**measured, **failed}
    return {"row": row.name, "repeat": repeat, "engines": {name: entries[name] for name in makers}}, versions
