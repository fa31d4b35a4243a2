#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What goes wrong with one engine of bench/run is said in its row, and the others are measured all the same."""

import sys
import unittest
from pathlib import Path

sys.path[:0] = [str(Path(__file__).resolve().parents[2] / folder) for folder in ("bench", "bench/models")]

import engines  # noqa: E402
import numpy as np  # noqa: E402
import rows as table  # noqa: E402

ROW = table.ROWS[0]


class Fake:
    """An engine that takes `ms`, or breaks in the round given."""

    def __init__(self, ms: float, outputs: list[np.ndarray], breaks: int | None = None):
        self.ms, self.outputs, self.breaks = ms, outputs, breaks
        self.version, self.figures, self.repeats, self.closed = "1", {"compile_ms": 3.0}, [], False

    def time(self, repeat: int, deadline: engines.Deadline) -> tuple[float, float]:
        deadline.left()
        if len(self.repeats) == self.breaks:
            raise RuntimeError("it broke")
        self.repeats.append(repeat)
        return self.ms, self.ms / 2

    def close(self) -> None:
        self.closed = True


class Scripted(engines.Peer):
    """A peer whose process runs the program text given instead of peers.py."""

    def __init__(self, program: str):
        self.start([sys.executable, "-c", program])


def measure(timeout: float = 60, rounds: int = 3, **made: Fake | Exception) -> dict:
    def start(engine):
        if isinstance(engine, Exception):
            raise engine
        return engine

    makers = {name: lambda scratch, deadline, engine=engine: start(engine) for name, engine in made.items()}
    return engines.measure(ROW, makers, rounds, 0.1, timeout)


ONES, TWOS = [np.ones(4, np.float32)], [np.full(4, 2, np.float32)]


class Rows(unittest.TestCase):
    def test_all_engines_run_as_often_as_the_first_needs(self):
        first, ours = Fake(10, ONES), Fake(5, ONES)
        row, versions = measure(onnxruntime=first, ferrite=ours)
        self.assertEqual(row["repeat"], 10)
        self.assertEqual((first.repeats, ours.repeats), ([3, 10, 10, 10], [10, 10, 10]))
        self.assertEqual(row["engines"]["ferrite"], {"median_ms": 5, "min_ms": 2.5, "compile_ms": 3.0})
        self.assertEqual(versions, {"onnxruntime": "1", "ferrite": "1"})
        self.assertTrue(first.closed and ours.closed)

    def test_a_wrong_result_is_not_timed(self):
        ours = Fake(5, TWOS)
        row, _ = measure(onnxruntime=Fake(10, ONES), ferrite=ours)
        self.assertIn("wrong result: output 0: 4 of 4 elements off", row["engines"]["ferrite"]["error"])
        self.assertEqual((ours.repeats, ours.closed), ([], True))
        self.assertEqual(row["engines"]["onnxruntime"]["median_ms"], 10)
        self.assertIn("2 outputs, expected 1", engines.difference(ONES + TWOS, ONES, False))

    def test_what_does_not_start_or_breaks_is_named(self):
        row, _ = measure(onnxruntime=RuntimeError("no start"), openvino=Fake(4, ONES, breaks=2), ferrite=Fake(2, ONES))
        self.assertEqual(row["engines"]["onnxruntime"], {"error": "no start"})
        self.assertEqual(row["engines"]["openvino"], {"error": "it broke"})
        self.assertEqual(row["engines"]["ferrite"]["median_ms"], 2)

    def test_a_row_out_of_time_ends(self):
        row, versions = measure(timeout=1e-9, ferrite=Fake(2, ONES))
        self.assertEqual(row["engines"]["ferrite"], {"error": "not done after 1e-09 s"})
        self.assertEqual(versions, {})


class Processes(unittest.TestCase):
    def expect(self, program: str, message: str, seconds: float = 30) -> None:
        peer = Scripted(program)
        with self.assertRaisesRegex(RuntimeError, message):
            peer.time(3, engines.Deadline(seconds))
        peer.close()
        self.assertIsNotNone(peer.process.returncode)

    def test_an_answer(self):
        peer = Scripted("print('{\"median_ms\": ' + input() + ', \"min_ms\": 1}'); input()")
        self.assertEqual(peer.time(7, engines.Deadline(30)), (7, 1))
        peer.close()

    def test_one_that_dies_is_quoted(self):
        self.expect("import sys; sys.exit('no such thing')", "exit status 1: no such thing")

    def test_one_that_hangs_is_ended(self):
        self.expect("import time; time.sleep(50)", "not done after 0.3 s", 0.3)


if __name__ == "__main__":
    unittest.main()
