#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How compilation grows with the graph: pairs that are tried, distinct kernels, processor time. No wall-clock times.

Usage: test_scale.py [--ferrite FILE] [unittest options]
"""

import csv
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "bench"))

import scale  # noqa: E402
from program import OK, ProgramTest, main  # noqa: E402

SMALL, LARGE = 1000, 4000
# From 1,000 to 4,000 nodes n log n is 4.8 times and a square is 16. Graphs of random operations, whose kernels nearly all differ,
# come to 4; caches that other processes take away add up to a quarter.
MOST_GROWTH = 6
# Loops over small graphs take other sums: pairs a node may differ by this share, and not more.
SLACK = 1.1
# Of a stage, from an eighth of the nodes to all: n log n is 10 times, and to fall out of the caches doubles it; a square is 64. Of
# parts each is a kernel of its own: there are fewer, for code generation takes longest.
STAGE_NODES = {"layers": 40000, "wide": 40000, "steps": 40000, "parts": 6000}
STAGE_RATIO, MOST_STAGE_GROWTH, LEAST_STAGE_MS = 8, 32, 40
# What else runs on the machine takes caches away, and only ever makes a compilation longer: the least of so many counts.
TRIES = 3


class ScaleTest(ProgramTest):
    def compiled(self, text):
        """What `bench` and the table of fusions say about the cold compilation of a graph on one thread."""
        model = self.folder / "graph.fe"
        model.write_text(text)
        table = self.folder / "metric_fusion.csv"
        table.unlink(missing_ok=True)
        before = scale.processor_seconds()
        done = self.call("bench", model, "--json", "--repeat", "1", "--threads", "1", "--compile-jobs", "1",
                         environment={"FERRITE_METRICS": "fusion", "FERRITE_METRICS_DIR": str(self.folder)})  # fmt: skip
        self.assertEqual(done.returncode, OK, done.stderr)
        with table.open(newline="") as lines:
            tried = sum(int(row["pairs"]) for row in csv.DictReader(lines) if row["outcome"] == "tried")
        return {**json.loads(done.stdout), "tried": tried, "cpu_s": scale.processor_seconds() - before}

    def test_pairs_and_time_grow_with_the_nodes(self):
        for shape in scale.SHAPES:
            with self.subTest(shape):
                texts = [scale.text_of(shape, nodes) for nodes in (SMALL, LARGE)]
                few, many = map(self.compiled, texts)
                self.assertGreater(few["tried"], 0)
                self.assertLessEqual(many["tried"] / many["nodes"], SLACK * few["tried"] / few["nodes"])
                least = [few["cpu_s"], many["cpu_s"]]
                for _ in range(TRIES - 1):
                    if least[1] < MOST_GROWTH * least[0]:
                        break
                    least = [min(seconds, self.compiled(text)["cpu_s"]) for seconds, text in zip(least, texts)]
                self.assertLess(least[1], MOST_GROWTH * least[0])

    def stages(self, text):
        """Milliseconds of each stage of the cold compilation of a graph, code generation left out."""
        model, trace = self.folder / "graph.fe", self.folder / "trace.json"
        model.write_text(text)
        done = self.call("bench", model, "--repeat", "1", "--threads", "1", "--cache", "off", "--trace", trace)
        self.assertEqual(done.returncode, OK, done.stderr)
        stages = {}
        events = json.loads(trace.read_text())
        for event in events["traceEvents"] if isinstance(events, dict) else events:
            if event.get("cat") in ("stage", "pass") and event["name"] != "emit":
                stages[event["name"]] = stages.get(event["name"], 0) + event["dur"] / 1000
        return stages

    def test_no_stage_grows_with_the_square(self):
        for shape, most in STAGE_NODES.items():
            with self.subTest(shape):
                texts = [scale.text_of(shape, nodes) for nodes in (most // STAGE_RATIO, most)]
                least = [self.stages(text) for text in texts]
                grown = lambda: {name: (least[0][name], ms) for name, ms in least[1].items()  # noqa: E731
                                 if ms > LEAST_STAGE_MS and ms > MOST_STAGE_GROWTH * least[0][name]}  # fmt: skip
                for _ in range(TRIES - 1):
                    if not grown():
                        break
                    least = [{name: min(ms, again[name]) for name, ms in seen.items()}
                             for seen, again in zip(least, map(self.stages, texts))]  # fmt: skip
                self.assertEqual(grown(), {})

    def test_equal_layers_have_the_kernels_of_one(self):
        one, two, twelve = (self.compiled(scale.layers_text(count)) for count in (1, 2, 12))
        self.assertGreaterEqual(twelve["kernels"], two["kernels"] + 10)
        self.assertEqual(twelve["unique_kernels"], two["unique_kernels"])
        # Where two layers meet there may be a kernel of both.
        self.assertLessEqual(twelve["unique_kernels"], one["unique_kernels"] + 1)

    def test_a_warm_start_of_twelve_layers_compiles_nothing(self):
        (self.folder / "graph.fe").write_text(scale.layers_text(12))
        found = []
        for _ in range(2):
            done = self.call("bench", "graph.fe", "--json", "--repeat", "1", "--cache", self.folder / "cache")
            self.assertEqual(done.returncode, OK, done.stderr)
            found.append(json.loads(done.stdout))
        cold, warm = found
        self.assertEqual((cold["cache_hits"], warm["cache_misses"]), (0, 0))
        self.assertEqual(warm["cache_hits"], cold["cache_misses"])
        self.assertGreaterEqual(warm["cache_hits"], warm["unique_kernels"])


if __name__ == "__main__":
    main(__doc__)
