#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is seen of compilations and runs: traces and metric tables.

Usage: test_observe.py [--ferrite FILE] [unittest options]
"""

import csv
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import OK, USAGE, ProgramTest, main  # noqa: E402

# Two equal layers, which are one kernel, and a reduction over columns.
MODEL = """ferrite graph 0
graph @small(%x: f32[64,48], %w: f32[48,48]) -> (%y "y", %sum "sum") {
  %a = matmul(%x, %w) from "First, \\"quoted\\""
  %b = relu(%a) from "Relu"
  %c = matmul(%b, %w) from "<script>alert(1)</script>"
  %y = relu(%c) from "Relu2"
  %sum = reduce_sum(%x) {axes = [0], keepdims = false} from "Sum"
}
"""
PLUS_ONE = """ferrite graph 0
graph @plus(%x: f32[250000000]) -> (%y "y") {
  %one = literal f32[] {1}
  %y = add(%x, %one) from "Add"
}
"""
SCATTER = """ferrite graph 0
graph @scatter(%x: f32[1000], %i: i64[10], %u: f32[10]) -> (%y "y") {
  %y = scatter_elements(%x, %i, %u) {reduction = "add"} from "Scatter"
}
"""
STAGES = ["pre_grad", "post_grad", "pre_lower", "lower", "inline", "fuse", "post_fusion", "schedule", "select", "emit", "load", "plan", "link"]

WORK = """ferrite graph 0
graph @g(%x: f32[1,16,56,56], %w: f32[32,16,3,3], %a: bf16[256,512], %b: bf16[512,256], %q: i8[256,512], %s: f32[],
         %f: f32[512,256], %y: f32[1,16,56,56]) -> (%p "p", %n "n", %m "m", %h "h") {
  %p = conv(%x, %w) {pads_low = [1, 1], pads_high = [1, 1]} from "padded"
  %n = matmul(%a, %b) from "narrow"
  %m = max_pool(%y) {kernel = [3, 3], pads_low = [1, 1], pads_high = [1, 1]} from "max"
  %d = cast(%q) {dtype = f32}
  %e = mul(%d, %s)
  %h = matmul(%e, %f) from "dequantised"
}
"""


class ObserveTest(ProgramTest):
    def setUp(self):
        super().setUp()
        for name, text in {"small": MODEL, "plus": PLUS_ONE, "scatter": SCATTER}.items():
            (self.folder / f"{name}.fe").write_text(text)

    def metrics(self, tables, *words, **environment):
        done = self.call(*words, environment={"FERRITE_METRICS": tables, **environment})
        self.assertEqual(done.returncode, OK, done.stderr)
        return done

    def rows(self, table, folder="."):
        with (self.folder / folder / f"metric_{table}.csv").open(newline="") as file:
            return list(csv.DictReader(file))


class TraceTest(ObserveTest):
    def trace(self, *words):
        done = self.call("run", "small.fe", "--trace", "out.json", "--threads", 2, *words)
        self.assertEqual(done.returncode, OK, done.stderr)
        return json.loads((self.folder / "out.json").read_text())["traceEvents"]

    def test_every_kernel_of_a_run_is_a_span(self):
        self.metrics("kernel", "run", "small.fe")
        launches = {row["kernel"]: int(row["launches"]) for row in self.rows("kernel")}
        spans = [event for event in self.trace() if event["ph"] == "X"]
        seen = [span["args"] for span in spans if span["cat"] == "kernel"]
        self.assertGreaterEqual(len(seen), 3)
        for kernel, count in launches.items():
            self.assertEqual(sum(each["kernel"] == kernel for each in seen), count, kernel)
        self.assertEqual(sum(launches.values()), len(seen))
        self.assertEqual([each["step"] for each in seen], list(range(len(seen))))
        names = ",".join(each["provenance"] for each in seen)
        for node in ("First", '"quoted"', "<script>", "Sum"):
            self.assertIn(node, names)
        self.assertIn(64 * 48 * 4 + 48 * 4, [each["bytes"] for each in seen])
        for each in seen:
            self.assertEqual(each["thread"], 0)

    def test_perfetto_can_read_it(self):
        """The JSON of trace events, as Perfetto's and the Trace Event Format's documentation define them."""
        self.trace("--compile-jobs", 2)
        whole = json.loads((self.folder / "out.json").read_text(encoding="utf-8"), parse_constant=self.fail)
        self.assertEqual((sorted(whole), whole["displayTimeUnit"]), (["displayTimeUnit", "traceEvents"], "ms"))
        names, threads = {}, set()
        for event in whole["traceEvents"]:
            self.assertEqual((type(event["pid"]), type(event["tid"])), (int, int), event)
            self.assertTrue(event["name"] and isinstance(event["name"], str), event)
            self.assertIsInstance(event["args"], dict)
            if event["ph"] == "M":
                self.assertIsInstance(event["args"]["name"], str)
                names[event["name"], event["pid"], event["tid"]] = event["args"]["name"]
                continue
            self.assertEqual(event["ph"], "X")
            self.assertTrue(event["cat"])
            for time in (event["ts"], event["dur"]):
                self.assertIsInstance(time, (int, float))
                self.assertGreaterEqual(time, 0)
            threads.add((event["pid"], event["tid"]))
        self.assertEqual({pid for pid, _ in threads}, {1})
        self.assertEqual(names.pop(("process_name", 1, 0)), "ferrite")
        self.assertEqual(set(names), {("thread_name", *thread) for thread in threads})
        self.assertEqual(len(set(names.values())), len(threads))
        self.assertEqual(names["thread_name", 1, 0], "main")

    def test_spans_nest(self):
        spans = [event for event in self.trace() if event["ph"] == "X"]
        stages = [span["name"] for span in spans if span["cat"] == "stage"]
        self.assertEqual([stage for stage in stages if stage in STAGES], STAGES)
        self.assertIn("open plugins", [span["name"] for span in spans])
        self.assertTrue([span for span in spans if span["cat"] == "pass"])
        slack = 0.002  # microseconds: times are rounded
        for thread in {span["tid"] for span in spans}:
            open_ends = []
            mine = [span for span in spans if span["tid"] == thread]
            for span in sorted(mine, key=lambda each: (each["ts"], -each["dur"])):
                start, end = span["ts"], span["ts"] + span["dur"]
                self.assertGreaterEqual(start, 0)
                while open_ends and open_ends[-1] <= start + slack:
                    open_ends.pop()
                if open_ends:
                    self.assertLessEqual(end, open_ends[-1] + slack, span)
                open_ends.append(end)
        for outer, inner in (("run", "kernel"), ("stage", "pass")):
            around = [(s["ts"] - slack, s["ts"] + s["dur"] + slack) for s in spans if s["cat"] == outer]
            for span in spans:
                if span["cat"] == inner:
                    self.assertTrue([1 for a, b in around if a <= span["ts"] and span["ts"] + span["dur"] <= b], span)

    def test_the_interpreter_has_one_span_of_its_run(self):
        spans = self.trace("--device", "interpreter")
        self.assertEqual([span["name"] for span in spans if span.get("cat") in ("run", "kernel")], ["run"])

    def test_a_file_that_cannot_be_written(self):
        self.assertRefused(self.call("run", "small.fe", "--trace", "no/out.json"), "FE-C10", "no/out.json")

    def test_nothing_is_written_unasked(self):
        before = sorted(self.folder.iterdir())
        self.assertEqual(self.call("run", "small.fe", environment={"FERRITE_METRICS": ""}).returncode, OK)
        self.assertEqual(sorted(self.folder.iterdir()), before)


class MetricsTest(ObserveTest):
    def test_an_unknown_table(self):
        done = self.call("run", "small.fe", environment={"FERRITE_METRICS": "graph,kernels"})
        self.assertRefused(done, "FE-C09", r"'kernels'.*graph, fusion, statement, kernel, cache.*'kernel'", USAGE)
        self.assertEqual(list(self.folder.glob("metric_*")), [])

    def test_sizes_by_stage(self):
        self.metrics("graph", "explain", "small.fe")
        self.assertEqual([path.name for path in self.folder.glob("metric_*")], ["metric_graph.csv"])
        rows = self.rows("graph")
        self.assertEqual(list(rows[0])[0], "model")
        self.assertEqual({row["model"] for row in rows}, {"small.fe"})
        self.assertEqual([row["stage"] for row in rows if row["stage"] in STAGES], STAGES)
        stages = {row["stage"]: row for row in rows}
        self.assertEqual(stages["pre_grad"]["nodes_before"], "5")
        self.assertEqual(stages["lower"]["statements_after"], rows[0]["statements"])
        # Two relus went into what stands before them.
        self.assertEqual((stages["schedule"]["groups_after"], rows[0]["kernels"]), ("3", "3"))
        self.assertEqual((rows[0]["statements"], rows[0]["nodes_before_fusion"]), ("5", "5"))

    def test_fusions(self):
        self.metrics("fusion", "explain", "small.fe")
        rows = self.rows("fusion")
        pairs = {(row["outcome"], row["category"]): int(row["pairs"]) for row in rows}
        tried = pairs.pop(("tried", ""))
        self.assertEqual(sum(pairs.values()), tried)
        self.assertEqual(pairs[("fused", "")], 2)
        self.assertTrue([category for outcome, category in pairs if outcome == "refused" and category])

    def test_statements(self):
        """What fusion begins with: two relus are apart yet, and move what they read and write."""
        self.metrics("statement,graph", "explain", "small.fe")
        rows = self.rows("statement")
        self.assertEqual(str(len(rows)), self.rows("graph")[0]["nodes_before_fusion"])
        self.assertEqual([row["category"] for row in rows].count("contract"), 2)
        relu = next(row for row in rows if row["provenance"] == "Relu")
        self.assertEqual((relu["category"], relu["size_hints"], relu["reduced_sizes"]), ("map", "64x48", ""))
        self.assertEqual((relu["operations"], relu["argument_bytes"], relu["moved_bytes"]),
                         (str(64 * 48), str(2 * 64 * 48 * 4), str(2 * 64 * 48 * 4)))  # fmt: skip
        (self.folder / "nothing.fe").write_text(
            'ferrite graph 0\ngraph @nothing(%x: f32[0,8]) -> (%y "y") {\n  %y = exp(%x)\n}\n')
        (self.folder / "metric_statement.csv").unlink()
        self.metrics("statement", "explain", "nothing.fe")
        self.assertEqual(self.rows("statement"), [])

    def test_kernels(self):
        self.metrics("kernel", "explain", "small.fe")
        rows = self.rows("kernel")
        (contract,) = [row for row in rows if row["category"] == "contract"]
        self.assertEqual(contract["launches"], "2")
        self.assertEqual((contract["size_hints"], contract["reduced_sizes"]), ("64x48", "48"))
        # The product, its sum, and relu's maximum.
        self.assertEqual(int(contract["operations"]), 2 * 64 * 48 * 48 + 64 * 48)
        total = next(row for row in rows if row["category"] == "reduce")
        self.assertEqual((total["reduction_hint"], total["loads"], total["stores"]), ("outer", "1", "1"))
        self.assertEqual((total["provenance"], total["loops"], total["atomics"]), ("Sum", "2", "0"))
        self.assertEqual(int(total["argument_bytes"]), 64 * 48 * 4 + 48 * 4)
        text = (self.folder / total["text"]).read_text()
        self.assertRegex(text, "^ferrite kernel 0\n")
        self.assertIn("reduce", text)
        self.assertEqual(self.call("opt", total["text"], "--to", "emit").returncode, OK)
        self.assertEqual({(row["registers"], row["shared_memory_bytes"]) for row in rows}, {("unknown", "0")})
        self.assertEqual(total["spills"], "0")

    def test_spills(self):
        # All exponentials are needed when the last of them is there, more than any machine has registers for.
        lines = [f"  %m{k} = mul(%x, %c{k})\n  %e{k} = exp(%m{k})" for k in range(48)]
        lines += [f"  %s{k} = add(%{'e0' if k == 1 else f's{k - 1}'}, %e{k})" for k in range(1, 48)]
        lines += [f"  %d{k} = sub(%s47, %e{k})\n  %p{k} = mul(%{'s47' if k == 0 else f'p{k - 1}'}, %d{k})" for k in range(48)]
        constants = [f"  %c{k} = literal f32[] {{{k / 64 + 0.5}}}" for k in range(48)]
        text = ["ferrite graph 0", 'graph @many(%x: f32[4096]) -> (%p47 "p") {', *constants, *lines, "}\n"]
        (self.folder / "many.fe").write_text("\n".join(text))
        for folder in ("cold", "warm"):
            self.metrics("kernel", "explain", "many.fe", "--cache", "kept", FERRITE_METRICS_DIR=folder)
        spills = [int(row["spills"]) for row in self.rows("kernel", "cold")]
        self.assertGreater(max(spills), 0)
        self.assertEqual([int(row["spills"]) for row in self.rows("kernel", "warm")], spills)

    def test_the_memory_plan(self):
        (self.folder / "rows.fe").write_text("""ferrite graph 0
graph @rows(%x: f32[64,48]) -> (%y "y") {
  %e = exp(%x)
  %t = reduce_sum(%e) {axes = [1], keepdims = true}
  %y = div(%e, %t)
}
""")
        for threads in (1, 2):
            words = ("explain", "rows.fe", "--threads", threads)
            self.metrics("graph,kernel", *words, FERRITE_METRICS_DIR=f"of{threads}")
            row = self.rows("graph", f"of{threads}")[0]
            listing = self.call("opt", "rows.fe", "--threads", threads, "--to", "emit").stdout
            self.assertIn(f"\nplan {row['peak_bytes']} bytes {{\n", listing)
            workspaces = [int(kernel["workspace_bytes"]) for kernel in self.rows("kernel", f"of{threads}")]
            self.assertGreater(max(workspaces), 0)
            self.assertEqual(int(row["workspace_bytes"]), max(workspaces) * threads)
            self.assertIn(f" bytes {max(workspaces)} workers {threads} groups ", listing)
            # The exponentials and their sums.
            self.assertEqual(int(row["op_by_op_bytes"]), (64 * 48 + 64) * 4)

    def test_argument_bytes_without_running(self):
        self.metrics("kernel", "explain", "plus.fe")
        (row,) = self.rows("kernel")
        # The 1 is an argument too.
        self.assertEqual((row["argument_bytes"], row["argument_size"]), ("2000000004", "2.0 GB"))
        self.assertEqual((row["category"], row["size_hints"], row["reduction_hint"]), ("map", "250000000", ""))
        self.assertEqual(row["operations"], "250000000")

    def test_operations_are_those_that_have_to_be_done(self):
        (self.folder / "work.fe").write_text(WORK)
        self.metrics("kernel", "explain", "work.fe")
        work = {row["provenance"]: int(row["operations"]) for row in self.rows("kernel")}
        # Two for each product: of a padded convolution without its masks; of bf16 with a cast for each element and result; of an
        # operand that is dequantised with a cast and a product for each of its elements.
        self.assertEqual(work["padded"], 2 * 32 * 56 * 56 * 16 * 9)
        self.assertEqual(work["narrow"], 2 * 256 * 512 * 256 + 2 * 256 * 512 + 256 * 256)
        self.assertEqual(work["cast, mul, dequantised"], 2 * 256 * 512 * 256 + 2 * 256 * 512)
        self.assertEqual(work["max"], 16 * 56 * 56 * 9)

    def test_operations_of_a_winograd_convolution(self):
        """Blocks of 2 x 2 results: 16 products and sums of each channel in place of 36, 32 and 24 additions on the way in and out."""
        (self.folder / "weights.bin").write_bytes(bytes(k * 7 % 64 for k in range(64 * 48 * 9 * 4)))
        (self.folder / "conv.fe").write_text("""ferrite graph 0
graph @conv(%x: f32[2,3,15,13]) -> (%m "m") {
  #i = weight("weights.bin", 0, 576) : f32[48,3,1,1]
  #w = weight("weights.bin", 0, 110592) : f32[64,48,3,3]
  %y = conv(%x, #i)
  %c = conv(%y, #w) {pads_low = [1, 1], pads_high = [1, 1]} from "many"
  %r = relu(%c) from "relu"
  %m = reduce_max(%r) {axes = [2]}
}
""")
        self.metrics("kernel", "explain", "conv.fe")
        (found,) = [row for row in self.rows("kernel") if row["candidate"].endswith(".winograd")]
        blocks = 2 * 8 * 7
        self.assertEqual(int(found["operations"]), blocks * (2 * 16 * 48 * 64 + 32 * 48 + 24 * 64))

    def test_atomic_adds_and_what_is_changed_in_place(self):
        self.metrics("kernel", "explain", "scatter.fe")
        (row,) = [row for row in self.rows("kernel") if row["atomics"] != "0"]
        self.assertEqual((row["atomics"], row["category"]), ("1", "scatter"))
        # The indices, the updates, and the result twice: it is read and written.
        self.assertEqual(int(row["argument_bytes"]), 10 * 8 + 10 * 4 + 2 * 1000 * 4)

    def test_the_cache(self):
        words = ("explain", "small.fe", "--cache")
        kernels = 0
        for folder, place in (("off", "off"), ("cold", "kept"), ("warm", "kept")):
            self.metrics("cache", *words, place, FERRITE_METRICS_DIR=folder)
            rows = {row["outcome"]: row for row in self.rows("cache", folder)}
            kernels = kernels or int(rows["bypass"]["kernels"])
            counts = (int(rows["hit"]["kernels"]), int(rows["miss"]["kernels"]))
            self.assertEqual(counts, {"off": (0, 0), "cold": (0, kernels), "warm": (kernels, 0)}[folder])
            if folder == "off":
                self.assertEqual(rows["bypass"]["reason"], "the cache is off")

    def test_models_stand_one_after_the_other(self):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda _: self.metrics("fusion,cache", "explain", "small.fe"), range(6)))
        self.metrics("fusion,cache", "explain", "plus.fe")
        lines = (self.folder / "metric_cache.csv").read_text().splitlines()
        self.assertEqual([line for line in lines if line.startswith("model,")], lines[:1])
        rows = self.rows("cache")
        self.assertEqual(sum(row["model"] == "small.fe" and row["outcome"] == "hit" for row in rows), 6)
        self.assertEqual(rows[-1]["model"], "plus.fe")

    def test_files_that_cannot_be_written(self):
        (self.folder / "metric_graph.csv").write_text("model,other\n")
        done = self.call("explain", "small.fe", environment={"FERRITE_METRICS": "graph"})
        self.assertRefused(done, "FE-C10", "metric_graph.csv.*other columns")
        for table in ("graph", "kernel"):
            place = {"FERRITE_METRICS": table, "FERRITE_METRICS_DIR": "/proc/ferrite"}
            self.assertRefused(self.call("explain", "small.fe", environment=place), "FE-C10", "/proc/ferrite")


if __name__ == "__main__":
    main(__doc__)
