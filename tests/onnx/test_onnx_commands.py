#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ferrite onnx-test` and `ferrite ops`: which cases run, with how many threads, what is counted, what is listed.

Usage: test_onnx_commands.py [--ferrite FILE] [unittest options]
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, defs, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from program import BAD_INPUT, OK, ProgramTest, Settings, main  # noqa: E402


class OnnxTest(ProgramTest):
    def case(self, name, declared=(2, 3), given=(2, 3)):
        """A test of Relu, whose model declares one shape and whose data have another."""
        folder = self.folder / "cases" / name
        data = folder / "test_data_set_0"
        data.mkdir(parents=True)
        info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, list(declared)) for n in ("x", "y")]
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "case", info[:1], info[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        x = np.linspace(-1, 1, int(np.prod(given)), dtype=np.float32).reshape(given)
        for file, value in (("input_0", x), ("output_0", np.maximum(x, 0))):
            (data / f"{file}.pb").write_bytes(numpy_helper.from_array(value, "x").SerializeToString())
        return folder

    def run_cases(self, *arguments):
        report = self.folder / "report.json"
        done = self.call("onnx-test", "--json", report, *arguments)
        return done, json.loads(report.read_text()) if report.exists() else None

    def test_data_that_contradict_their_model(self):
        self.case("fine")
        for name, given in (("rank", (6,)), ("size", (2, 4))):
            self.case(name, given=given)
        done, report = self.run_cases(self.folder / "cases")
        self.assertEqual(done.returncode, OK, done.stdout)
        results = {case["name"]: case for case in report["cases"]}
        self.assertEqual(results["fine"]["result"], "pass")
        for name in ("rank", "size"):
            self.assertEqual(results[name]["result"], "unsupported")
            self.assertRegex(results[name]["text"], r"^FE-C24 .*input_0\.pb: .*'x'.*\[2,3\]")

    def test_a_folder_given_twice_counts_once(self):
        cases = self.case("one").parent
        self.case("two")
        os.symlink(cases / "one", self.folder / "link")
        done, report = self.run_cases(cases, cases, cases / "one", f"{cases}/../cases/two", self.folder / "link")
        self.assertEqual(done.returncode, OK, done.stdout)
        self.assertEqual((report["passed"], len(report["cases"])), (2, 2))

    def test_a_file_is_no_folder(self):
        file = self.case("one") / "model.onnx"
        done, _ = self.run_cases(file)
        self.assertEqual(done.returncode, BAD_INPUT)
        self.assertRegex(done.stderr, r"FE-C10 .*model\.onnx: this is a file; give the folder")
        done, _ = self.run_cases(self.folder / "nowhere")
        self.assertEqual(done.returncode, BAD_INPUT)
        self.assertRegex(done.stderr, r"FE-C10 .*nowhere: there is no such folder")

    def test_threads(self):
        """What the processes of the cases are called with."""
        for k in range(4):
            self.case(f"case_{k}")
        manifest = self.folder / "three.toml"
        manifest.write_text("schema = 0\n[pipeline]\nthreads = 3\n")

        def threads(*arguments):
            command = [str(Settings.ferrite), "onnx-test", str(self.folder / "cases"), *map(str, arguments)]
            with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
                words = []
                while process.poll() is None and "onnx-case" not in words:
                    for child in children.read_text().split():
                        try:
                            words = Path(f"/proc/{child}/cmdline").read_text().split("\0")
                        except OSError:
                            continue  # it has ended
            self.assertIn("onnx-case", words)
            return words[words.index("--threads") + 1] if "--threads" in words else None

        self.assertEqual(threads(), "1")
        self.assertEqual(threads("--threads", 0), "0")
        self.assertEqual(threads("--threads", 2, "--manifest", manifest), "2")
        self.assertEqual(threads("--threads", 0, "--manifest", manifest), "0")
        self.assertIsNone(threads("--manifest", manifest))


class Ops(ProgramTest):
    def test_lists_all_of_onnx(self):
        done = self.call("ops", "--json")
        self.assertEqual(done.returncode, OK, done.stderr)
        importer = next(i for i in json.loads(done.stdout)["importers"] if "onnx" in i["id"])
        states = {entry["op"]: entry["state"] for entry in importer["coverage"]}
        schemas = {f"{s.domain}.{s.name}".lstrip(".") for s in defs.get_all_schemas_with_history() if s.since_version <= 17}
        self.assertEqual(schemas - states.keys(), set())
        self.assertEqual(set(states.values()), {"supported", "missing"})
        self.assertEqual(states["Relu"], "supported")
        for name in ("Loop", "StringNormalizer", "ai.onnx.ml.TreeEnsembleRegressor"):
            self.assertEqual(states[name], "missing")

    def test_counts_what_is_missing(self):
        last = self.call("ops", "--onnx").stdout.splitlines()[-1]
        supported, _, total, *rest = last.split()
        self.assertEqual(rest, ["ops", "supported"])
        self.assertLess(int(supported), int(total))


if __name__ == "__main__":
    main(__doc__)
