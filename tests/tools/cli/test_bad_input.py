#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Wrong command lines, tensors, sizes, devices and files: an exit status, a code and a place, and nothing crashes.

Usage: test_bad_input.py [--ferrite FILE] [--plugin FILE] [unittest options]
"""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from program import (
    BAD_INPUT, DEVICE, INTERNAL, OK, PLUGINS, UNSUPPORTED, USAGE, WRONG, ProgramTest, Settings, main,
)  # noqa: E402

# Of a dim with a name, in two inputs, and a fixed one.
SUM = """ferrite graph 0
graph @sum(%x: f32[$n,3], %y: f32[$n,3]) -> (%0 "sum") {
  symbol $n in [0, 4611686018427387904]
  %0 = add(%x, %y) from "Sum"
}
"""
FIXED = """ferrite graph 0
graph @fixed(%x: f32[2,3]) -> (%2 "y") {
  %0 = relu(%x) from "first"
  %1 = softmax(%0) {axis = 1} from "second"
  %2 = exp(%1) from "third"
}
"""
SCATTER = """ferrite graph 0
graph @scatter(%i: i64[2,1], %u: f32[2,1]) -> (%0 "r") {
  %zero = full() {dtype = f32, shape = [2, 5]}
  %0 = scatter_elements(%zero, %i, %u) {axis = 1} from "Put"
}
"""
SUM_OF_SCATTER = """ferrite graph 0
graph @sum_of_scatter(%i: i64[2,1], %u: f32[2,1]) -> (%1 "r") {
  %zero = full() {dtype = f32, shape = [2, 5]}
  %0 = scatter_elements(%zero, %i, %u) {axis = 1, reduction = "add"} from "Put"
  %1 = reduce_sum(%0) {axes = [1]} from "Sum"
}
"""
# The gradient of cross entropy with respect to the logits, whose sum along the columns is of equal numbers.
CROSS_ENTROPY = """ferrite graph 0
graph @cross_entropy(%p: f32[2,5], %i: i64[2,1]) -> (%dlogits "dlogits") {
  %minus = literal f32[] {-0.5}
  %update = expand(%minus) {shape = [2, 1]}
  %zero = full() {dtype = f32, shape = [2, 5]}
  %dlogp = scatter_elements(%zero, %i, %update) {axis = 1, reduction = "add"} from "Put"
  %dsum = reduce_sum(%dlogp) {axes = [1], keepdims = true} from "Sum"
  %scaled = mul(%p, %dsum)
  %dlogits = sub(%dlogp, %scaled) from "Gradient"
}
"""
GATHER = """ferrite graph 0
graph @pick(%x: f32[3,5], %i: i64[2]) -> (%0 "y") {
  %0 = gather(%x, %i) {axis = 1} from "Pick"
}
"""
FAILS = """ferrite graph 0
graph @fails(%x: f32[4]) -> (%0 "y") {
  %0 = test.fails(%x) from "Failing"
}
"""


class BadInputTest(ProgramTest):
    def setUp(self):
        super().setUp()
        for name, text in (("sum", SUM), ("fixed", FIXED), ("gather", GATHER), ("scatter", SCATTER),
                           ("sum_of_scatter", SUM_OF_SCATTER), ("cross_entropy", CROSS_ENTROPY), ("fails", FAILS)):
            (self.folder / f"{name}.fe").write_text(text)

    def call(self, *words, environment=None, **more):
        # An address sanitizer would end the program where there is not so much memory, instead of saying so to it.
        sanitizer = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "") + ":allocator_may_return_null=1"}
        return super().call(*words, environment=sanitizer | (environment or {}), **more)

    def refused(self, status, code, place, text, *words, **more):
        """One line that begins with the code and the place, and holds the text, both as they stand."""
        done = self.call(*words, **more)
        self.assertEqual(done.returncode, status, f"{words}: {done.stderr}")
        lines = [line for line in done.stderr.splitlines() if line.startswith("ferrite: ")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith(f"ferrite: {code} {place}: " if place else f"ferrite: {code} "), lines[0])
        self.assertIn(text, lines[0])

    def accepted(self, *words):
        done = self.call(*words)
        self.assertEqual(done.returncode, OK, f"{words}: {done.stderr}")
        return done

    def array(self, value, name="array.npy", **more):
        np.save(self.folder / name, value, **more)
        return name

    def pipe(self):
        """Opening it to read would wait for a writer."""
        if not (self.folder / "pipe").exists():
            os.mkfifo(self.folder / "pipe")
        return "pipe"


class Usage(BadInputTest):
    def test_commands(self):
        for text, words in (("the commands are: run, compile, bench", ()), ("there is no command 'ferrite rnu'", ("rnu",)),
                            ("did you mean 'run'?", ("rnu",)), ("'ferrite plugin COMMAND'; the commands are: list", ("plugin",)),
                            ("there is no command 'ferrite plugin foo'; there are: list", ("plugin", "foo")),
                            ("there is no option '--foo'", ("--foo",)), ("there is no option '--foo'", ("run", "--foo")),
                            ("--foo", ("run", "fixed.fe", "--foo")), ("MODEL is missing: write 'ferrite run MODEL'", ("run",)),
                            ("DIR is missing", ("onnx-test",)), ("extra", ("run", "fixed.fe", "extra"))):
            with self.subTest(words=words):
                self.refused(USAGE, "FE-C01", "", text, *words)

    def test_numbers(self):
        for option, values in (("--seed", ("-1", "99999999999999999999", "1.5", "x", "")),
                               ("--threads", ("-1", "4097", "99999999999999999999", "2x"))):
            for value in values:
                with self.subTest(option=option, value=value):
                    self.refused(USAGE, "FE-C01", option, "", "run", "fixed.fe", option, value)
        self.refused(USAGE, "FE-C01", "--repeat", "", "bench", "fixed.fe", "--repeat", "0")

    def test_empty_values(self):
        for option in ("--manifest", "--plugin", "--device", "--log", "--output"):
            with self.subTest(option=option):
                self.refused(USAGE, "FE-C01", option, "the value is empty", "run", "fixed.fe", option, "")

    def test_more_threads_than_processors(self):
        processors = len(os.sched_getaffinity(0))
        said = self.accepted("bench", "fixed.fe", "--repeat", "1", "--threads", str(processors + 3)).stderr
        self.assertRegex(said, rf"^ferrite: warning: FE-X40 {processors + 3} threads are asked for, and this process may use "
                               rf"{processors} processors?: they take turns, .*; ask for {processors} at most, or leave the number out\n$")
        self.assertEqual(self.accepted("run", "fixed.fe", "--threads", str(processors)).stderr, "")

    def test_features(self):
        self.refused(USAGE, "FE-C01", "--without", "did you mean 'split'?", "run", "fixed.fe", "--without", "spilt")
        self.refused(USAGE, "FE-C01", "--without", "there are inline, cut_loops", "run", "fixed.fe", "--without", "split,zzz")
        self.accepted("run", "--without", "split,layout", "fixed.fe")

    def test_version(self):
        self.assertEqual(self.accepted("--version").stdout, self.accepted("version").stdout)

    def test_log_channels(self):
        self.refused(USAGE, "FE-C03", "--log", "graph, loops", "run", "fixed.fe", "--log", "graph,foo")
        self.refused(USAGE, "FE-C03", "FERRITE_LOG", "'foo'", "run", "fixed.fe", environment={"FERRITE_LOG": "foo"})

    def test_stages_and_passes(self):
        for option in ("--from", "--to"):
            self.refused(USAGE, "FE-C04", "", "the stages are import", "opt", "fixed.fe", option, "foo")
        self.refused(USAGE, "FE-D01", "", "'cpu:0' is named twice", "run", "fixed.fe", "--device", "cpu,cpu:0")
        self.refused(USAGE, "FE-C07", "", "foo", "opt", "fixed.fe", "--pass", "foo")
        self.refused(USAGE, "FE-C07", "", "did you mean 'passes.cse'", "opt", "fixed.fe", "--pass", "passes.cs")

    def test_nodes(self):
        self.refused(USAGE, "FE-C08", "--why-not", "did you mean 'first'?", "explain", "fixed.fe", "--why-not", "frist", "third")


class Inputs(BadInputTest):
    def refused_input(self, status, code, place, text, name, value):
        self.refused(status, code, place, text, "run", "fixed.fe", "-i", f"{name}={self.array(value)}")

    def test_names(self):
        good = np.zeros((2, 3), np.float32)
        self.refused_input(USAGE, "FE-C02", "-i z=array.npy", "no input 'z'", "z", good)
        self.refused(USAGE, "FE-C02", "-i x=array.npy", "twice", "run", "fixed.fe", "-i", "x=array.npy", "-i", "x=array.npy")
        self.refused(USAGE, "FE-C02", "-i array.npy", "NAME=FILE.npy", "run", "fixed.fe", "-i", "array.npy")
        self.refused(USAGE, "FE-C02", "-i x=", "the file is missing", "run", "fixed.fe", "-i", "x=")

    def test_dtypes(self):
        for dtype in (np.int64, np.float64, np.float16, np.uint32, np.bool_):
            with self.subTest(dtype=dtype):
                self.refused_input(BAD_INPUT, "FE-X02", "-i x=array.npy", "has dtype f32", "x", np.zeros((2, 3), dtype))

    def test_ranks(self):
        for shape in ((), (6,), (2, 3, 1)):
            with self.subTest(shape=shape):
                self.refused_input(BAD_INPUT, "FE-X03", "fixed.fe", "rank 2", "x", np.zeros(shape, np.float32))

    def test_shapes(self):
        for shape in ((3, 2), (2, 4), (0, 3)):
            with self.subTest(shape=shape):
                self.refused_input(BAD_INPUT, "FE-X04", "fixed.fe", "shape [2,3]", "x", np.zeros(shape, np.float32))
        x, y = self.array(np.zeros((2, 3), np.float32), "x.npy"), self.array(np.zeros((5, 3), np.float32), "y.npy")
        self.refused(BAD_INPUT, "FE-X04", "input 'y'", "dim 'n' is 5", "run", "sum.fe", "-i", f"x={x}", "-i", f"y={y}")

    def test_paths(self):
        (self.folder / "closed.npy").touch(mode=0)
        for path, text in (("none.npy", "there is no such file"), (".", "it is a folder"), (self.pipe(), "no regular file"),
                           ("/dev/zero", "no regular file")):
            with self.subTest(path=path):
                self.refused(BAD_INPUT, "FE-C10", path, text, "run", "fixed.fe", "-i", f"x={path}")
        if os.geteuid() != 0:
            self.refused(BAD_INPUT, "FE-C10", "closed.npy", "permission denied; correct the rights", "run", "fixed.fe", "-i", "x=closed.npy")

    def refused_file(self, status, code, text, data):
        (self.folder / "bad.npy").write_bytes(data)
        self.refused(status, code, "bad.npy", text, "run", "fixed.fe", "-i", "x=bad.npy")

    def test_damaged_files(self):
        whole = (self.folder / self.array(np.zeros((2, 3), np.float32))).read_bytes()
        for text, data in (("no .npy file", b""), ("no .npy file", b"no array"), ("no .npy file", b"PK\x03\x04" + bytes(60)),
                           ("needs 24 bytes of elements", whole[:-1]), ("needs 24 bytes of elements", whole + b"\0"),
                           ("within its header", whole[:40]), ("version 9", whole[:6] + b"\x09" + whole[7:]),
                           ("header is malformed", whole.replace(b"'shape'", b"'shepa'")),
                           ("header is malformed", whole.replace(b"(2, 3)", b"(-2,3)")),
                           ("too large", whole.replace(b"(2, 3), }" + b" " * 40, b"(9223372036854775807, 9223372036854775807), }"))):
            with self.subTest(text=text, size=len(data)):
                self.refused_file(BAD_INPUT, "FE-C11", text, data)

    def test_types_of_elements(self):
        records = np.zeros((2, 3), [("a", "<f4"), ("b", "<i4")])
        for text, value in ((">f4", np.zeros((2, 3), ">f4")), ("|O", np.full((2, 3), None)), ("<U3", np.full((2, 3), "abc")),
                            ("'a'", records), ("<M8", np.zeros((2, 3), "<M8[s]"))):
            with self.subTest(text=text):
                self.refused_input(UNSUPPORTED, "FE-C12", "array.npy", text, "x", value)

    def test_versions_and_orders(self):
        value = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
        expected = None
        for version in ((1, 0), (2, 0), (3, 0)):
            for order in "CF":
                with (self.folder / "array.npy").open("wb") as file:
                    np.lib.format.write_array(file, np.array(value, order=order), version=version)
                self.accepted("run", "fixed.fe", "-i", "x=array.npy", "-o", "out")
                result = np.load(self.folder / "out/output_0.npy")
                expected = result if expected is None else expected
                np.testing.assert_array_equal(result, expected)

    def test_indices_out_of_range(self):
        x, i = self.array(np.zeros((3, 5), np.float32), "x.npy"), self.array(np.array([1, 5]), "i.npy")
        words = ("run", "gather.fe", "-i", f"x={x}", "-i", f"i={i}")
        self.refused(BAD_INPUT, "FE-X10", "Pick", "out of range", *words)
        done = self.call(*words, "--device", "interpreter")
        self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
        self.assertRegex(done.stderr, r"^ferrite: FE-X21 .*Pick")

    def test_too_many_results(self):
        count = 4097  # one more than a node may have
        names = ", ".join(f"%r{k}" for k in range(count))
        sizes = ", ".join(["0"] * count)
        (self.folder / "split.fe").write_text("ferrite graph 0\ngraph @g(%x: f32[0]) -> (%r0 \"r\") {\n"
                                              f"  {names} = split(%x) {{sizes = [{sizes}]}}\n}}\n")  # fmt: skip
        self.refused(BAD_INPUT, "FE-G90", "", "op 'split': the shape rule of 'split' (plugin 'ferrite.std') gave more than 4096 results", "run", "split.fe")

    def test_index_of_a_scatter_upon_a_constant(self):
        for model in ("scatter.fe", "sum_of_scatter.fe", "cross_entropy.fe"):
            for number, status in ((-5, 0), (4, 0), (5, BAD_INPUT), (-6, BAD_INPUT)):
                with self.subTest(model=model, number=number):
                    i = self.array(np.array([[1], [number]]), "i.npy")
                    done = self.call("run", model, "-i", f"i={i}")
                    self.assertEqual(done.returncode, status, done.stderr)
                    if status:
                        self.assertRegex(done.stderr, r"^ferrite: FE-X10 .*Put")


class Sizes(BadInputTest):
    def refused_size(self, code, place, text, *words, status=USAGE):
        self.refused(status, code, place, text, "run", "sum.fe", *words)

    def test_open(self):
        self.refused_size("FE-C05", "", "give --dim n=N")
        self.refused_size("FE-C05", "--dim m=3", "open are: n", "--dim", "m=3")

    def test_malformed(self):
        for size in ("n", "n=", "n=-1", "n=x", "n=1.5", "n=99999999999999999999", "="):
            with self.subTest(size=size):
                self.refused_size("FE-C06", f"--dim {size}", "NAME=N", "--dim", size)

    def test_contradictions(self):
        self.refused_size("FE-C06", "--dim n=2", "1 already by --dim n=1", "--dim", "n=1", "--dim", "n=2")
        self.refused_size("FE-C06", "--dim n=5", "3 already by --dim x:0=3", "--dim", "x:0=3", "--dim", "n=5")
        self.refused_size("FE-C06", "--dim y:0=5", "3 already by --dim x:0=3", "--dim", "x:0=3", "--dim", "y:0=5")
        self.refused_size("FE-C06", "--dim x:1=5", "3 in the model", "--dim", "x:1=5", "--dim", "n=2")
        file = f"x={self.array(np.zeros((2, 3), np.float32))}"
        for size in ("n=5", "x:0=5", "y:0=5"):
            with self.subTest(size=size):
                self.refused_size("FE-C06", f"--dim {size}", "2 in the file of input 'x'", "-i", file, "--dim", size)
        self.accepted("run", "sum.fe", "-i", file, "--dim", "n=2", "--dim", "x:0=2", "--dim", "y:1=3")

    def test_contradictions_of_dims_without_a_name(self):
        inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, 3])]
        outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "open", inputs, outputs)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (self.folder / "open.onnx").write_bytes(model.SerializeToString())
        self.refused(USAGE, "FE-C05", "", "--dim x:0=N", "run", "open.onnx")
        self.refused(USAGE, "FE-C06", "--dim x:0=2", "1 already", "run", "open.onnx", "--dim", "x:0=1", "--dim", "x:0=2")
        file = f"x={self.array(np.zeros((2, 3), np.float32))}"
        self.refused(USAGE, "FE-C06", "--dim x:0=5", "2 in the file", "run", "open.onnx", "-i", file, "--dim", "x:0=5")
        self.accepted("run", "open.onnx", "-i", file, "--dim", "x:0=2")

    def test_too_large(self):
        self.refused_size("FE-X36", "input 'x'", "bytes", "--dim", f"n={1 << 56}", status=DEVICE)
        self.refused_size("FE-X32", "input 'x'", "too large", "--dim", f"n={1 << 62}", status=BAD_INPUT)


class Devices(BadInputTest):
    def test_names(self):
        for name, text in (("foo", "there are cpu, "), ("cpuu", "did you mean 'cpu'?"), ("cpu:7", "number 0"),
                           ("cpu:-1", "'cpu:0'"), ("cpu:", "'cpu:0'"), ("cpu:0x", "'cpu:0'"), (":0", "no such device"),
                           ("cpu:99999999999999999999", "number 0"), ("interpreter:9", "write 'interpreter'")):
            with self.subTest(name=name):
                self.refused(USAGE, "FE-D01", f"device {name}", text, "run", "fixed.fe", "--device", name)
        self.refused(USAGE, "FE-D01", "device interpreter", "runs alone", "run", "fixed.fe", "--device", "interpreter,cpu")
        self.refused(USAGE, "FE-D01", "device foo", "cpu", "opt", "fixed.fe", "--to", "lower", "--device", "foo")
        for name in ("cpu", "cpu:0", "interpreter"):
            self.accepted("run", "fixed.fe", "--device", name)

    def test_name_in_a_manifest(self):
        (self.folder / "ferrite.toml").write_text('schema = 0\n[pipeline]\ndevice = "foo"\n')
        self.refused(USAGE, "FE-D01", "ferrite.toml:3:10", "cpu", "run", "fixed.fe", "--manifest", "ferrite.toml")
        for name in ("", "cpu:x", "cpu:", ":0", "cpu,", "cpu:0:1"):
            with self.subTest(name=name):
                (self.folder / "ferrite.toml").write_text(f'schema = 0\n[pipeline]\ndevice = "{name}"\n')
                self.refused(BAD_INPUT, "FE-M17", "ferrite.toml:3:10",
                             "names no device", "run", "fixed.fe", "--manifest", "ferrite.toml")

    def test_failing_devices(self):
        words = ("run", "fixed.fe", "--no-fuse", "--plugin", Settings.plugin, "--device")
        self.refused(USAGE, "FE-D01", "device faulty:8", "numbers 0 to 7", *words, "faulty:8")
        for number, code, place in ((0, "FE-D05", "device faulty:0"), (1, "FE-D05", "device faulty:1"), (2, "FE-D02", "fixed.fe"),
                                    (3, "FE-D03", "device faulty:3"), (4, "FE-D04", ""), ("5,cpu", "FE-D21", ""),
                                    ("6,cpu", "FE-D22", "device faulty:6")):
            with self.subTest(number=number):
                self.refused(DEVICE, code, place, "", *words, f"faulty:{number}")
        self.assertIn("FE-D05", self.accepted("targets", "--plugin", Settings.plugin).stdout)
        # What cannot be recorded is launched.
        done = self.accepted("bench", *words[1:], "faulty:7,cpu")
        self.assertRegex(done.stderr, r"warning: FE-D23 .*could not be recorded")

    def test_failing_provider(self):
        for mode, code, status in (("declines", "FE-K20", UNSUPPORTED), ("layout", "FE-K21", INTERNAL),
                                   ("silent", "FE-K22", DEVICE), ("nothing", "FE-S20", BAD_INPUT),
                                   ("worthless", "FE-S22", INTERNAL), ("claims", "FE-S23", DEVICE)):
            with self.subTest(mode=mode):
                (self.folder / "ferrite.toml").write_text(
                    'schema = 0\nenable = ["test.faulty"]\n[plugin."test.faulty"]\n'
                    f'library = "{Settings.plugin}"\nconfig = {{ provider = "{mode}" }}\n')
                self.refused(status, code, "", "", "run", "fixed.fe", "--device", "faulty:4", "--manifest", "ferrite.toml")

    def test_failing_kernel(self):
        words = ("run", "fails.fe", "--plugin", Settings.plugin)
        self.refused(DEVICE, "FE-X11", "failing_kernel", "", *words)
        done = self.call(*words, "--device", "interpreter")
        self.assertEqual(done.returncode, DEVICE, done.stderr)
        self.assertRegex(done.stderr, r"^ferrite: FE-X23 .*Failing.*failing_kernel")

    def test_failing_fusion_passes(self):
        for name, code in (("pair", "FE-S01"), ("statement", "FE-S01"), ("group", "FE-S02"), ("cut", "FE-S02")):
            with self.subTest(name=name):
                (self.folder / "ferrite.toml").write_text(
                    'schema = 0\nenable = ["test.faulty"]\n[plugin."test.faulty"]\n'
                    f'library = "{Settings.plugin}"\nconfig = {{ pass = "{name}" }}\n')
                done = self.call("run", "fixed.fe", "--manifest", "ferrite.toml")
                self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
                self.assertRegex(done.stderr, rf"^ferrite: FE-P10 .*'test\.faulty\.{name}'.*: {code} ")


class Files(BadInputTest):
    def test_models(self):
        for path, text in (("none.fe", "No such file"), (".", "it is a folder"), (self.pipe(), "no regular file"),
                           ("/dev/zero", "no regular file")):
            with self.subTest(path=path):
                self.refused(BAD_INPUT, "FE-I01", path, text, "run", path)
        self.refused(BAD_INPUT, "FE-I01", "MODEL", "", "run", "")
        (self.folder / "model.foo").write_text("something")
        self.refused(UNSUPPORTED, "FE-I02", "model.foo", ".fe", "run", "model.foo")

    def test_names_that_steer_a_terminal(self):
        for name, shown in (("a\x1b[31m.fe", r"a\x1b[31m.fe"), ("b\x9b31m.fe", r"b\xc2\x9b31m.fe"), ("schön.fe", "schön.fe")):
            with self.subTest(name=name):
                self.refused(BAD_INPUT, "FE-I01", shown, "No such file", "run", name)

    def test_plugins(self):
        for path in (self.pipe(), "/dev/zero", "none.so"):
            with self.subTest(path=path):
                self.refused(BAD_INPUT, "FE-M06", f"--plugin {path}", "", "run", "fixed.fe", "--plugin", path)

    def test_manifests(self):
        self.refused(BAD_INPUT, "FE-M14", self.pipe(), "no regular file", "run", "fixed.fe", "--manifest", "pipe")

    def test_outputs(self):
        (self.folder / "file").touch()
        for path, why in (("file", "'file' is no folder"), ("file/below", "'file' is no folder"),
                          ("/proc/nowhere", "there is no such file or folder; correct the path")):  # fmt: skip
            with self.subTest(path=path):
                self.refused(BAD_INPUT, "FE-C10", path, "the folder cannot be made: " + why, "run", "fixed.fe", "-o", path)
        for path, why in (("none/below/t.json", "there is no folder 'none'; make it, or correct the path"), (".", "this is a folder"),
                          ("file/t.json", "'file' is no folder"), ("/dev/full", "no space is left on the disk; make room"),
                          ("n" * 300, "the name is too long")):  # fmt: skip
            with self.subTest(path=path):
                self.refused(BAD_INPUT, "FE-C10", path, "cannot be written: " + why, "run", "fixed.fe", "--trace", path)
        (self.folder / "taken/output_0.npy").mkdir(parents=True)
        self.refused(BAD_INPUT, "FE-C10", "taken/output_0.npy", "cannot be written: this is a folder; give the name of a file",
                     "run", "fixed.fe", "-o", "taken")  # fmt: skip
        path = self.pipe()
        self.refused(BAD_INPUT, "FE-C10", path, "no regular file", "run", "fixed.fe", "--lock-decisions", path)
        self.assertTrue((self.folder / path).is_fifo())
        self.refused(BAD_INPUT, "FE-C10", "none/x.lock", "there is no folder 'none'; make it", "run", "fixed.fe", "--lock-decisions", "none/x.lock")
        self.assertFalse((self.folder / "none").exists())

    def test_output_through_a_link(self):
        (self.folder / "link.lock").symlink_to("sub/real.lock")
        (self.folder / "sub").mkdir()
        for there in (False, True):
            self.assertEqual((self.folder / "sub/real.lock").exists(), there)
            self.assertEqual(self.call("run", "fixed.fe", "--lock-decisions", "link.lock").returncode, OK)
            self.assertTrue((self.folder / "link.lock").is_symlink())
            self.assertIn("ferrite", (self.folder / "sub/real.lock").read_text())
        (self.folder / "round.lock").symlink_to("round.lock")
        self.refused(BAD_INPUT, "FE-C10", "round.lock", "links lead nowhere", "run", "fixed.fe", "--lock-decisions", "round.lock")

    def test_full_standard_output(self):
        for words in (("ops",), ("bench", "fixed.fe", "--json", "--repeat", "1"), ("run", "fixed.fe"), ("--help",), ("version",),
                      ("explain", "fixed.fe", "--json"), ("opt", "fixed.fe", "--to", "fuse")):
            with self.subTest(words=words), open("/dev/full", "w", encoding="ascii") as full:
                self.refused(BAD_INPUT, "FE-C10", "standard output", "cannot be written: no space is left on the disk; make room", *words, stdout=full)

    def test_folder_that_is_gone(self):
        gone = self.folder / "gone"
        gone.mkdir()
        script = f'cd "{gone}" && rmdir "{gone}" && exec "{Settings.ferrite}" run "{self.folder}/fixed.fe" --plugin none.so'
        done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, BAD_INPUT, done.stderr)
        self.assertIn("FE-M06", done.stderr)


class OnnxTests(BadInputTest):
    def case(self, name, input_bytes):
        """A test of Relu on f32[2]; no data set where input_bytes is None."""
        folder = self.folder / "cases" / name
        folder.mkdir(parents=True)
        info = [helper.make_tensor_value_info(value, TensorProto.FLOAT, [2]) for value in "xy"]
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], name, info[:1], info[1:])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        (folder / "model.onnx").write_bytes(model.SerializeToString())
        if input_bytes is None:
            return
        data = folder / "test_data_set_0"
        data.mkdir()
        if input_bytes != b"":
            (data / "input_0.pb").write_bytes(input_bytes)
        (data / "output_0.pb").write_bytes(numpy_helper.from_array(np.zeros(2, np.float32)).SerializeToString())

    def test_cases(self):
        strings = helper.make_tensor("x", TensorProto.STRING, [2], [b"a", b"b"]).SerializeToString()
        wide = numpy_helper.from_array(np.zeros(2, np.float64)).SerializeToString()
        good = numpy_helper.from_array(np.zeros(2, np.float32)).SerializeToString()
        expected = {"good": ("pass", ""), "damaged": ("error", "FE-C20"), "strings": ("unsupported", "FE-C21"),
                    "no_data": ("unsupported", "FE-C22"), "no_input": ("error", "FE-X01"), "wide": ("error", "FE-X02")}
        for name, data in (("good", good), ("damaged", good[:-1]), ("strings", strings), ("no_data", None), ("no_input", b""),
                           ("wide", wide)):
            self.case(name, data)
        done = self.call("onnx-test", "cases", "--json", "report.json")
        self.assertEqual(done.returncode, WRONG, done.stderr)
        report = json.loads((self.folder / "report.json").read_text())
        found = {entry["name"]: (entry["result"], re.findall(r"FE-...|$", entry["text"])[0]) for entry in report["cases"]}
        self.assertEqual(found, expected)
        self.assertEqual((report["passed"], report["failed"], report["skipped"]), (1, 3, 2))

    def test_folders(self):
        (self.folder / "empty").mkdir()
        self.refused(BAD_INPUT, "FE-C10", "none", "no such folder", "onnx-test", "none")
        self.refused(BAD_INPUT, "FE-C23", "", "model.onnx", "onnx-test", "empty")
        self.case("good", None)
        self.refused(BAD_INPUT, "FE-C23", "", "filter", "onnx-test", "cases", "--filter", "foo*")
        self.refused(BAD_INPUT, "FE-C10", "none/report.json", "", "onnx-test", "cases", "--json", "none/report.json")


if __name__ == "__main__":
    main(__doc__, plugin=PLUGINS / "faulty.so")
