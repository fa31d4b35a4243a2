#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Placement on several devices: who takes what, what is told of it, and what happens where a provider fails.

Usage: test_placement.py [--ferrite FILE] [--stubs DIRECTORY] [unittest options]
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parent)]

from program import BUILD, DEVICE, USAGE, ProgramTest, Settings, main  # noqa: E402

import tables  # noqa: E402

MODEL = """ferrite graph 0
graph @mixed(%x: f32[4,24], %y: f32[4,24]) -> (%out "out", %total "total") {
  %sum = add(%x, %y) from "sum"
  %clip = relu(%sum) from "clip"
  %total = reduce_sum(%clip) {axes = [1], keepdims = true} from "total"
  %centre = sub(%clip, %total) from "centre"
  %out = mul(%centre, %sum) from "scale"
}
"""
# Reductions were declined, and so was division.
CAPABILITIES = """schema = 0
target = "TARGET"
provider = "c"
plugin = "acme.c 1.0.0"
[passed]
map = ["f32"]
[declined]
reduce = ["f32"]
div = ["f32"]
"""


class PlacementTest(ProgramTest):
    def setUp(self):
        super().setUp()
        for file in Settings.stubs.glob("*.plugin.toml"):
            (self.folder / file.name).write_text(file.read_text())
        for file in Settings.stubs.glob("*.so"):
            (self.folder / file.name).symlink_to(file)
        (self.folder / "mixed.fe").write_text(MODEL)
        generator = np.random.default_rng(7)
        self.x, self.y = (generator.normal(size=(4, 24)).astype(np.float32) for _ in range(2))
        np.save(self.folder / "x.npy", self.x)
        np.save(self.folder / "y.npy", self.y)

    def compiled(self, command, *options, plugins=("acme.c",), device="c,cpu", **environment):
        """`ferrite COMMAND` on the model and its inputs."""
        words = [command, "mixed.fe", "--device", device]
        for plugin in plugins:
            words += ["--plugin", f"{plugin}.plugin.toml"]
        for name in "xy":
            words += ["-i", f"{name}={name}.npy"]
        return self.call(*words, *options, environment=environment)

    def measured(self, change=lambda text: text):
        """Puts a table of what the backend takes where it is looked for."""
        log = self.compiled("run", "-o", self.folder / "out", FERRITE_LOG="plugins").stderr
        place = tables.place_of(log, "c")
        self.assertEqual(place.parent.resolve(), self.folder.resolve())
        tables.write(place, change(CAPABILITIES))

    def right(self, *options, **how):
        done = self.compiled("run", "-o", self.folder / "out", *options, **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        total = self.x + self.y
        clipped = np.maximum(total, 0)
        row = clipped.sum(axis=1, keepdims=True)
        for index, expected in enumerate([(clipped - row) * total, row]):
            np.testing.assert_allclose(np.load(self.folder / f"out/output_{index}.npy"), expected, 1e-4, 1e-4)

    def explained(self, *patterns, options=(), **how):
        done = self.compiled("explain", *options, *(() if {"--placement", "--why-not"} & set(options) else ("--all",)), **how)
        self.assertEqual(done.returncode, 0, done.stderr)
        for pattern in patterns:
            self.assertRegex(done.stdout, "(?m)" + pattern)
        return done.stdout

    def test_everything_that_a_device_takes(self):
        self.right()
        text = self.explained(r"placed  .* <-  c$")
        self.assertNotRegex(text, r"<-  cpu$")

    def test_what_was_measured_decides(self):
        self.measured()
        self.right("--no-fuse")
        self.explained(r"placed .* <-  c$", r"placed .* <-  cpu$", r"refused .* <-  c: reduce of f32", options=["--no-fuse"])

    def test_what_runs_elsewhere_is_not_fused(self):
        """Kernels are placed whole: with the reduction in it, or inlined into it, the first device would have none."""
        one_kernel = r"^kernels: 1 on c:0, 0 on cpu:0, "
        self.explained(one_kernel, options=["--placement"])
        self.measured()
        self.right()
        self.explained(r"^kernels: 2 on c:0, 1 on cpu:0, ", r"^  runs  total  <-  cpu:0", options=["--placement"])
        self.explained(r"^fusion: refused \(device\)  clip  <-  total: one runs on c:0, the other on cpu:0 ",
                       options=["--why-not", "clip", "total"])  # fmt: skip

    def test_explain_placement(self):
        """What runs where in the end, why it is not on the devices before, and each copy with its bytes and direction."""
        options = ["--placement", "--no-fuse", "--without", "inline"]
        text = self.explained(r"^kernels: 5 on c:0, 0 on cpu:0, 0 copies of 0 bytes in a run, 0 copies of 0 bytes at load$",
                              r"^placement: 5 runs$", r"^  runs  total  <-  c:0: by c as c", options=options)  # fmt: skip
        self.assertNotRegex(text, "refused|placed|fusion|transfer")
        self.measured()
        self.explained(r"^kernels: 4 on c:0, 1 on cpu:0, ",
                       r"^  runs  total  <-  cpu:0: by cpu as .*; c: reduce of f32 was declined when the target was measured$",
                       options=options)  # fmt: skip
        for table in self.folder.glob("*.capabilities.toml"):
            table.unlink()
        self.measured(lambda text: text.replace("[declined]", "[failed]"))
        self.explained(r"^  runs  total  <-  cpu:0: .*; c: reduce of f32 failed when the target was measured$", options=options)
        for table in self.folder.glob("*.capabilities.toml"):
            table.unlink()
        self.explained(r"^  runs  total  <-  cpu:0: .*; c: it was not compiled: acme.c/compiler .*'cc' cannot be run", options=options,
                       PATH="/nonexistent")  # fmt: skip
        self.explained(r"\Aplacement: all runs on cpu:0, the only device$", options=options, device="cpu", plugins=())
        self.explained(r"\Aplacement: all runs in the interpreter$", options=options, device="interpreter", plugins=())
        done = self.compiled("explain", "--placement", "--layouts")
        self.assertRefused(done, "FE-C01", "excludes", USAGE)

    def test_explain_transfers(self):
        how = self.with_accelerator()
        how["options"] += ["--placement"]
        text = self.explained(r"^  runs  .*total.*  <-  cpu:0: by cpu as .*; npu: it compiles no loops", r"  <-  npu:0: claimed by acme.npu as elementwise$",
                              r"^claim: 2 taken$", r"^  to device  input 'x'  <-  npu:0  \[384 B\]$", r"^  from device  of sum, clip  <-  npu:0  \[384 B\]$",
                              r"^  to device  of total, centre  <-  npu:0  \[384 B\]$", **how)  # fmt: skip
        how["options"] += ["--json"]
        records = json.loads(self.compiled("explain", *how.pop("options"), **how).stdout)
        self.assertEqual({record["kind"] for record in records}, {"claim", "placement", "transfer"})
        copies = [record["score"] for record in records if record["kind"] == "transfer"]
        self.assertRegex(text, rf"(?m), {len(copies)} copies of .* in a run, 0 copies of 0 bytes at load$")
        self.assertTrue(all(bytes in (4 * 24 * 4, 4 * 4) for bytes in copies), copies)

    def test_plugin_check_writes_what_placement_reads(self):
        place = tables.place_of(self.compiled("run", "-o", "out", FERRITE_LOG="plugins").stderr, "c")
        words = [Settings.ferrite, "plugin", "check", "acme.c.plugin.toml", "--level", "L3", "--capabilities", "."]
        # The table grows name by name; the first one is enough.
        check = subprocess.Popen(words, cwd=self.folder, stdout=subprocess.DEVNULL, start_new_session=True)
        while not list(self.folder.glob("*" + tables.SUFFIX)) and check.poll() is None:
            time.sleep(0.05)
        os.killpg(check.pid, signal.SIGKILL)
        check.wait()
        self.assertEqual([table.name for table in self.folder.glob("*" + tables.SUFFIX)], [place.name])

    def test_plugin_check_tries_what_a_library_takes(self):
        # L0 would miss the symbols of a sanitizer that the program brings.
        words = [Settings.ferrite, "plugin", "check", "--level", "L2", "--level", "L3", Settings.stubs / "acme.gemm.plugin.toml"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        for check in ("larger structs", "full sinks", "damaged kernels", "two threads"):
            self.assertRegex(done.stdout, rf"L2 passed   provider acme.gemm: {check}: [1-9]")
        self.assertRegex(done.stdout, r"L3 passed   provider acme.gemm: programs: [1-9]\d* parts of [1-9]\d* graphs")

    def test_bad_capability_files(self):
        for old, new, code, pattern in [
            ("map", "mop", "FE-P54", r"capabilities.toml:6:1: .*'mop'; did you mean 'mod'"),
            ("div", "dif", "FE-P54", r"capabilities.toml:9:1: .*'dif'; did you mean 'div'"),
            ('["f32"]', '["f23"]', "FE-P54", r"toml:\d+:8: .*did you mean 'f32'"),
            ("[passed]", "[passd]", "FE-P54", r"toml:5:2: .*'passd'; did you mean 'passed'"),
            ("schema = 0", "schema = 9", "FE-P54", r"toml:1:10: .*later version"),
            ('"TARGET"', '"0000"', "FE-P54", r"toml:2:10: .*of target '0000', not of '[0-9a-f]{32}'"),
            ('provider = "c"', 'provider = "d"', "FE-P54", r"toml:3:12: .*of provider 'd', not of 'c'"),
            ("acme.c 1.0.0", "acme.c 2.0.0", "FE-P54", r"toml:4:10: .*not of 'acme.c 1.0.0'"),
            ("schema = 0", "schema = ", "FE-M01", r"toml:1:"),
        ]:
            with self.subTest(new):
                self.measured(lambda text, old=old, new=new: text.replace(old, new))
                done = self.compiled("run", "-o", self.folder / "out")
                for table in self.folder.glob("*.capabilities.toml"):
                    table.unlink()
                self.assertRefused(done, code, pattern)

    def test_why_a_library_declines(self):
        self.explained(r"refused .* <-  acme.gemm: .*it is no product with a constant", plugins=("acme.gemm",), device="cpu")

    def with_workspace(self, plugin, size):
        manifest = self.folder / "ferrite.toml"
        manifest.write_text(f'schema = 0\nextends = "default"\nsearch = ["."]\nenable = ["{plugin}"]\n'
                            f'[plugin."{plugin}".config]\nworkspace = {size}\n')  # fmt: skip
        return {"options": ["--manifest", manifest, "--threads", "2"], "plugins": ()}

    def test_a_candidate_that_says_a_workspace_that_is_too_large(self):
        how = self.with_workspace("acme.c", 4096)
        self.explained(r"candidate: \d+ chosen$", r"chosen .* <-  c.roomy", device="c", **how)
        plan = self.compiled("opt", *how["options"], "--to", "emit", device="c", plugins=()).stdout
        self.assertRegex(plan, r"(?m)^  workspace offset \d+ bytes 4096 workers 2 groups 0 to ")
        # The limit is a few KiB of results, and 1 MiB for each of two workers. Op by op three results live where the row is subtracted.
        how = self.with_workspace("acme.c", 1 << 22)
        text = self.explained(r"refused \(memory\) .* <-  c.roomy: with its workspace of 4194304 bytes for each of 2 workers "
                              r"the plan has 8388608 bytes, op by op it is 1152", r"chosen .* <-  c: ", device="c", **how)  # fmt: skip
        roomy = [line for line in self.kernels(text) if "c.roomy" in line]
        self.assertEqual(text.count("refused (memory)"), len(roomy))
        plan = self.compiled("opt", *how["options"], "--to", "emit", device="c", plugins=()).stdout
        self.assertLessEqual(self.plan_bytes(plan), 3 * 4 * 24 * 4)
        self.right(*how.pop("options"), device="c", **how)

    def plan_bytes(self, listing):
        """What the memory plan of `opt --to emit` takes."""
        return int(re.search(r"(?m)^plan (\d+) bytes", listing).group(1))

    def kernels(self, text):
        """Those that `explain` says were compiled."""
        return [line for line in text.partition("kernel:")[2].splitlines() if line.startswith("  compiled ")]

    def test_workspaces_lie_apart_where_one_place_is_too_much(self):
        # Three large results live where the product is made, which then has no workspace, nor has a place for all through the whole run
        # room beside them.
        (self.folder / "mixed.fe").write_text("""ferrite graph 0
graph @two(%x: f32[4,24], %y: f32[512,512]) -> (%out "out", %total "total") {
  %a = reduce_sum(%x) {axes = [1]} from "a"
  %out = exp(%a) from "out"
  %b = exp(%y) from "b"
  %t = transpose(%b) {perm = [1, 0]}
  %c = mul(%b, %t) from "c"
  %total = reduce_max(%c) {axes = [0, 1]} from "total"
}
""")
        np.save(self.folder / "y.npy", np.zeros((512, 512), np.float32))
        how = self.with_workspace("acme.c", (1 << 20) + 4096)
        done = self.compiled("opt", *how["options"], "--no-fuse", "--without", "inline,in_place", "--to", "emit", device="c",
                             plugins=())  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stderr)
        places = [line.split() for line in done.stdout.splitlines() if line.startswith("  workspace ")]
        self.assertGreater(len(places), 1)
        self.assertTrue(all(place[8] == place[10] for place in places), places)

    def with_layer(self, size, *config):
        """A product by a constant, which a library takes that wants a workspace of this size, and a map beside it."""
        (self.folder / "mixed.fe").write_text("""ferrite graph 0
graph @layers(%x: f32[8,64], %y: f32[4,24]) -> (%top "top", %out "out") {
  #w = weight("w.bin", 0, 16384) : f32[64,64]
  %p = matmul(%x, #w) from "layer"
  %top = relu(%p)
  %out = exp(%y)
}
""")
        generator = np.random.default_rng(5)
        x, w = (generator.normal(size=shape).astype(np.float32) for shape in ((8, 64), (64, 64)))
        w.tofile(self.folder / "w.bin")
        np.save(self.folder / "x.npy", x)
        how = self.with_workspace("acme.gemm", size)
        manifest = self.folder / "ferrite.toml"
        manifest.write_text(manifest.read_text() + "".join(f"{line}\n" for line in ("price = 0.001", *config)))
        return {"device": "cpu", **how}, np.maximum(x @ w, 0)

    def test_a_library_that_wants_a_workspace_that_is_too_large(self):
        for size, outcome in ((1 << 16, r"chosen .*layer.* <-  gemm"),
                              (1 << 22, r"refused \(unfit\) .*layer.* <-  gemm.*it needs 4194304 bytes of workspace")):  # fmt: skip
            how, _ = self.with_layer(size)
            self.explained(outcome, **how)

    def test_a_library_whose_code_wants_a_larger_workspace_than_it_said(self):
        """Only the plan shows it: the library is chosen, its code dropped, and the code generator has the product."""
        for size, taken in ((1 << 16, True), (1 << 22, False)):
            with self.subTest(size):
                how, expected = self.with_layer(size, "silent = true")
                text = self.explained(r"chosen .*layer.* <-  gemm", **how)
                self.assertEqual(text.count("refused (memory)"), 0 if taken else 1)
                if not taken:
                    # The product is all that lives between kernels, op by op too.
                    self.assertRegex(text, r"(?m)^  refused \(memory\)  layer.*  <-  gemm: with its workspace of 4194304 bytes for each of "
                                           r"2 workers the plan has 8390656 bytes, op by op it is 2048")  # fmt: skip
                    self.assertRegex(text, r"refused \(unfit\) .*layer.* <-  acme.gemm: its code is refused: its workspace")
                options = how.pop("options")
                plan = self.compiled("opt", *options, "--to", "emit", **how).stdout
                self.assertEqual("bytes 65536 workers 2" in plan, taken)
                # Op by op, 1 MiB for each worker, 1 KiB, and 64 bytes for the buffer.
                self.assertLessEqual(self.plan_bytes(plan), 2048 + (2 << 20) + 1024 + 64)
                done = self.compiled("run", "-o", self.folder / "out", *options, **how)
                self.assertEqual(done.returncode, 0, done.stderr)
                np.testing.assert_allclose(np.load(self.folder / "out/output_0.npy"), expected, 1e-4, 1e-4)

    def test_an_operand_is_stored_for_a_library_only_where_that_pays(self):
        """The library takes products by constants in f32, and none with a computed operand: of the two products only the first."""
        (self.folder / "mixed.fe").write_text("""ferrite graph 0
graph @two(%x: f16[64,256], %y: f16[64,256], %v: f32[256,32]) -> (%top "top", %other "other") {
  #w = weight("w.bin", 0, 65536) : f32[256,64]
  %a = cast(%x) {dtype = f32}
  %b = relu(%a) from "first operand"
  %top = matmul(%b, #w) from "first"
  %c = cast(%y) {dtype = f32}
  %d = relu(%c) from "second operand"
  %other = matmul(%d, %v) from "second"
}
""")
        generator = np.random.default_rng(5)
        w, x, y = (generator.normal(size=size).astype(np.float32) for size in ((256, 64), (64, 256), (64, 256)))
        w.tofile(self.folder / "w.bin")
        np.save(self.folder / "x.npy", x.astype(np.float16))
        np.save(self.folder / "y.npy", y.astype(np.float16))
        manifest = self.folder / "ferrite.toml"
        for price, chosen in ((0.001, True), (1e9, False)):
            manifest.write_text('schema = 0\nextends = "default"\nsearch = ["."]\nenable = ["acme.gemm"]\n'
                                f'[plugin."acme.gemm".config]\nprice = {price}\n')  # fmt: skip
            how = {"options": ["--manifest", manifest], "plugins": (), "device": "cpu"}
            text = self.explained(r"fused .*second operand  <-  second", **how)
            self.assertNotIn("switched off", text)
            self.assertIn(f"statements, {3 if chosen else 2} kernels", text)
            if chosen:
                self.assertRegex(text, r"(?m)refused \(cost\) .*first operand  <-  first: it is stored for gemm: "
                                       r"\S+ us with the map, \S+ us where it is computed")  # fmt: skip
                self.assertRegex(text, r"(?m)chosen .*first  <-  gemm")
            else:
                self.assertRegex(text, r"(?m)fused .*first operand  <-  first")
            done = self.compiled("run", "-o", self.folder / "out", *how.pop("options"), **how)
            self.assertEqual(done.returncode, 0, done.stderr)
            expected = np.maximum(x.astype(np.float16).astype(np.float32), 0) @ w
            np.testing.assert_allclose(np.load(self.folder / "out/output_0.npy"), expected, 1e-4, 1e-4)

    def test_what_does_not_compile_goes_to_the_next_device(self):
        self.right(PATH="/nonexistent")
        self.explained(r"refused .* <-  c: .*acme.c/compiler .*'cc' cannot be run", r"placed .* <-  cpu$", PATH="/nonexistent")

    def test_the_last_device_has_no_next_one(self):
        done = self.compiled("run", "-o", self.folder / "out", device="c", PATH="/nonexistent")
        self.assertRefused(done, "acme.c/compiler", "cannot be run")

    def with_accelerator(self, settings=""):
        manifest = self.folder / "ferrite.toml"
        manifest.write_text(
            'schema = 0\nextends = "default"\nsearch = ["."]\nenable = ["acme.npu", "acme.npu.runtime"]\n'
            f'[plugin."acme.npu"]\n{settings}\n'
        )
        return {"plugins": (), "device": "npu,cpu", "options": ["--manifest", manifest]}

    def claims(self, *patterns, settings=""):
        how = self.with_accelerator(settings)
        text = self.explained(*patterns, **how)
        self.right(*how.pop("options"), **how)
        return text

    def test_regions_that_a_provider_takes(self):
        text = self.claims(r"claim: 2 taken$", r"taken  .*sum.* and 1 more  <-  elementwise of acme.npu: on npu",
                           r"transfers: copies between memories")  # fmt: skip
        self.assertNotIn("refused", text.partition("fusion:")[0])

    def test_a_region_that_is_not_convex(self):
        self.claims(r"claim: 1 refused, cycle; 2 taken$", r"refused \(cycle\) .* <-  everything of acme.npu",
                    settings="config.greedy = true")  # fmt: skip

    def test_regions_that_overlap(self):
        model = self.folder / "mixed.fe"
        model.write_text(MODEL.replace("sub(%clip, %total)", "sub(%clip, %sum)"))
        how = self.with_accelerator("config.greedy = true\nconfig.most = 1")
        self.explained(r"claim: 4 refused, overlap; 1 taken$", r"taken .* <-  everything of acme.npu", **how)

    def test_a_region_that_does_not_compile(self):
        self.claims(r"claim: 1 refused, compile; 1 taken$", r"refused \(compile\) .*: acme.npu/refused 'mul' is not compiled",
                    settings='config.refuses = "mul"')  # fmt: skip

    def test_a_compiler_in_its_own_process(self):
        self.claims(r"claim: 2 taken$", settings='isolation = "process"')

    def test_bad_lists_of_devices(self):
        how = self.with_accelerator()
        how["device"] = "npu"
        manifest = how.pop("options")
        (self.folder / "bare.toml").write_text('schema = 0\nextends = "none"\nsearch = ["."]\nenable = ["ferrite.std", "acme.npu", "acme.npu.runtime"]\n')
        done = self.compiled("run", "--manifest", "bare.toml", "-o", self.folder / "out", **how)
        self.assertRefused(done, "FE-D20", "'npu' compiles no loops.*no enabled plugin has a device", status=DEVICE)
        # With the default manifest there is one.
        self.right(*manifest, **how)
        self.assertRefused(self.compiled("run", "-o", self.folder / "out", device="c,"), "FE-D01", "none is named", status=USAGE)
        self.assertRefused(self.compiled("run", "-o", self.folder / "out", device="c,cqu"), "FE-D01", "did you mean 'cpu'", status=USAGE)


if __name__ == "__main__":
    main(__doc__, stubs=BUILD / "lib/ferrite/stubs")
