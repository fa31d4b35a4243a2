# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is the same for all plugins of devices that run grids, without a device: what they ask of a driver that records its calls, and what
they say where it fails.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import DEVICE, OK, UNSUPPORTED, WRONG, Settings  # noqa: E402

MODEL = """ferrite graph 0
graph @g(%x: f32[64,256], %y: f32[64,256]) -> (%r "r", %s "s") {
  %a = add(%x, %y) from "the_sum"
  %r = exp(%a) from "the_exp"
  %s = reduce_sum(%r) {axes = [1]} from "rows"
}
"""
GATHER = """ferrite graph 0
graph @g(%x: f32[8,4], %i: i64[3]) -> (%r "r") {
  %r = gather(%x, %i) {axis = 0}
}
"""
# Vectors of which some do not exist, as all their elements lie outside.
PAD = """ferrite graph 0
graph @g(%x: f32[8,64]) -> (%r "r") {
  %v = literal f32[] {2}
  %r = pad(%x, %v) {low = [1, 0], high = [1, 0], mode = "constant"}
}
"""
# A kernel of each kind: by vectors, by points, by blocks with a reduction of several states, serial, scatters with and without order.
KINDS = """ferrite graph 0
graph @g(%x: f32[32,1000], %h: f16[32,1000], %b: bf16[8,33], %i: i64[4,1000], %u: f32[4,1000], %w: bf16[2,33], %j: i64[2,33], %n: i64[5])
    -> (%soft "soft", %arg "arg", %total "total", %sum "sum", %most "most", %last "last", %columns "columns", %shifted "shifted", %p "p") {
  %soft = softmax(%x) {axis = 1}
  %arg = argmax(%h) {axis = 1, keepdims = false}
  %total = cumsum(%x) {axis = 0}
  %sum = scatter_elements(%x, %i, %u) {axis = 0, reduction = "add"}
  %most = scatter_elements(%b, %j, %w) {axis = 0, reduction = "max"}
  %last = scatter_elements(%b, %j, %w) {axis = 0}
  %columns = reduce_sum(%x) {axes = [0]}
  %shifted = shift_left(%n, %n)
  %x2 = transpose(%x) {perm = [1, 0]}
  %p = matmul(%x, %x2)
}
"""
# Short rows, rows of which runs are merged, and such of which few elements are kept.
SORTS = """ferrite graph 0
graph @g(%x: f32[3,150], %y: bf16[700,2], %z: f32[2,1000], %n: i64[203])
    -> (%v0 "v0", %i0 "i0", %v1 "v1", %i1 "i1", %v2 "v2", %i2 "i2", %v3 "v3", %i3 "i3", %v4 "v4", %i4 "i4") {
  %v0, %i0 = sort(%x)
  %v1, %i1 = sort(%y) {axis = 0, descending = true}
  %v2, %i2 = topk(%z) {k = 3}
  %v3, %i3 = topk(%z) {k = 70, largest = false}
  %v4, %i4 = sort(%n)
}
"""
# Of each distribution several blocks of threads, the last one with a rest; numbers that are read beside what they are given as; one alone.
DRAWS = """ferrite graph 0
graph @g(%seed: u64[2]) -> (%b "b", %u "u", %n "n", %scaled "scaled", %most "most", %one "one") {
  %b = random_bits(%seed) {shape = [7, 331]}
  %u = random_uniform(%seed) {shape = [7, 331]}
  %n = random_normal(%seed) {shape = [7, 331]}
  %scaled = mul(%u, %n)
  %most = reduce_max(%u) {axes = [1], keepdims = false}
  %one = random_bits(%seed) {shape = []}
}
"""


def types(numbers):
    """A graph with arithmetic, casts, reductions, products, gathers and scatters of each of the types, and of bool."""
    inputs = ["%c: bool[8,300]", "%i: i64[8,300]", "%k: i64[5]"]
    nodes = {"any": "reduce_any(%c) {axes = [1]}", "xor": "logical_xor(%c, %c)", "taken": "gather(%c, %k) {axis = 0}"}
    for t in numbers:
        inputs += [f"%x_{t}: {t}[8,300]", f"%y_{t}: {t}[8,300]", f"%z_{t}: {t}[300,8]"]
        x, y = f"%x_{t}", f"%y_{t}"
        nodes |= {f"{op}_{t}": f"{op}({x}, {y})" for op in ("add", "mul", "div", "mod", "pow", "maximum", "eq")}
        nodes |= {f"to_{to}_{t}": f"cast({x}) {{dtype = {to}}}" for to in (*numbers, "bool", "f16", "bf16") if to != t}
        nodes |= {f"{op}_{t}": f"{op}({x}) {{{axis}}}" for op, axis in (("reduce_sum", "axes = [1]"), ("reduce_max", "axes = [0]"),
                                                                        ("argmin", "axis = 1"), ("cumsum", "axis = 1"))}  # fmt: skip
        nodes |= {f"{how}_{t}": f'scatter_elements({x}, %i, {y}) {{axis = 0, reduction = "{how}"}}' for how in ("add", "min", "mul")}
        nodes |= {f"where_{t}": f"where(%c, {x}, {y})", f"gather_{t}": f"gather({x}, %k) {{axis = 1}}", f"matmul_{t}": f"matmul({x}, %z_{t})"}
    lines = "".join(f"  %{name} = {node}\n" for name, node in nodes.items())
    results = ", ".join(f'%{name} "{name}"' for name in nodes)
    return f"ferrite graph 0\ngraph @g({', '.join(inputs)}) -> ({results}) {{\n{lines}}}\n"


def loss(rows, depth, columns):
    """A linear layer with cross entropy, both directions."""
    return f"""ferrite graph 0
graph @g(%x: bf16[{rows},{depth}], %w: bf16[{columns},{depth}], %target: i64[{rows},1]) -> (%r "r", %dx "dx", %dw "dw", %db "db") {{
  %one = literal f32[] {{1}}
  %wt = transpose(%w) {{perm = [1, 0]}}
  %product = matmul(%x, %wt)
  %logits = cast(%product) {{dtype = f32}}
  %logp = log_softmax(%logits) {{axis = 1}}
  %chosen = gather_elements(%logp, %target) {{axis = 1}}
  %r = reduce_sum(%chosen) {{axes = [0, 1], keepdims = false}}
  %update = expand(%one) {{shape = [{rows}, 1]}}
  %zeros = full() {{dtype = f32, shape = [{rows}, {columns}]}}
  %dlogp = scatter_elements(%zeros, %target, %update) {{axis = 1, reduction = "add"}}
  %dsum = reduce_sum(%dlogp) {{axes = [1], keepdims = true}}
  %p = exp(%logp)
  %scaled = mul(%p, %dsum)
  %wide = sub(%dlogp, %scaled)
  %dlogits = cast(%wide) {{dtype = bf16}}
  %dx = matmul(%dlogits, %w)
  %dlogits_t = transpose(%dlogits) {{perm = [1, 0]}}
  %dw = matmul(%dlogits_t, %x)
  %db = reduce_sum(%dlogits) {{axes = [0], keepdims = false}}
}}
"""


class GridTests:
    """Tests for a class beside ProgramTest, which says what is the plugin's own."""

    kind = ""  # of the device; the plugin's id is "ferrite." and this
    functions = {}  # the driver's names of load, unload, alloc, free, to_device, to_host, launch and init
    errors = {}  # its names of out_of_memory, fault and image
    library = ""  # the pattern of what is said where there is none

    def setUp(self):
        super().setUp()
        self.log = self.folder / "calls"
        self.manifest(Settings.driver)
        self.write("g.fe", MODEL)

    def manifest(self, library, enable=True):
        enabled = f'enable = ["ferrite.{self.kind}"]' if enable else ""
        self.write("manifest.toml", f"""schema = 0
{enabled}
[pipeline]
device = "{self.kind}:0"
[plugin."ferrite.{self.kind}"]
config = {{ library = "{library}" }}
""")

    def write(self, name, text):
        (self.folder / name).write_text(text)

    def run_on(self, model="g.fe", *options, **environment):
        self.log.unlink(missing_ok=True)
        return self.call("run", model, "--manifest", "manifest.toml", *options,
                         environment={"FAKE_DRIVER_LOG": str(self.log)} | environment)  # fmt: skip

    def modules_of(self, name, text, **environment):
        """Paths of the code of all the graph's kernels, none of which is compiled for another device."""
        folder = self.folder / f"modules-{name}"
        folder.mkdir()
        self.write(f"{name}.fe", text)
        done = self.run_on(f"{name}.fe", FAKE_DRIVER_MODULES=str(folder), **environment)
        self.assertEqual(done.returncode, OK, done.stderr)
        modules = sorted(folder.iterdir())
        kernels, different = re.search(r"(\d+) kernels?(?:, (\d+) different)?", done.stdout).groups()
        self.assertEqual(len(modules), int(different or kernels))
        return modules

    def calls(self, function):
        name = self.functions[function]
        return [line.split()[1:] for line in self.log.read_text().splitlines() if line.split()[0] == name]

    def assertRefusedHere(self, done, name, pattern, status=DEVICE):
        self.assertRefused(done, f"ferrite.{self.kind}/{name}", pattern, status)

    def assertNothingIsLoaded(self):
        self.assertTrue(self.calls("init"))
        self.assertFalse(self.calls("load") + self.calls("alloc"))

    def assertPackagesFit(self, targets, devices):
        """Nothing is asked of a driver while the package is made; by architecture: what the fake driver is told to be."""
        made = self.call("compile", "g.fe", "--target", targets, "-o", "g.fepkg", environment={"FAKE_DRIVER_LOG": str(self.log)})
        self.assertEqual(made.returncode, OK, made.stderr)
        self.assertFalse(self.log.exists())
        for architecture, device in devices.items():
            done = self.run_on("g.fepkg", **device)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertRegex(done.stdout, rf"nothing compiled, for {self.kind} \({architecture}\), cpu \(x86-64-v2\), loaded in")
            self.assertTrue(self.calls("load"))

    def assertPackageUnfit(self, targets, name, **device):
        """Of code for each target it is said why `name` does not take it."""
        made = self.call("compile", "g.fe", "--target", ",".join(targets), "-o", "g.fepkg")
        self.assertEqual(made.returncode, OK, made.stderr)
        why = [rf"'{self.kind}' \({target}\): it is code for {target}, the device is {name}" for target in targets]
        self.assertRefused(self.run_on("g.fepkg", **device), "FE-K53", "; for ".join(why) + "; --recompile", UNSUPPORTED)

    def test_the_whole_way(self):
        done = self.run_on()
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(len(self.calls("load")), len(self.calls("unload")))
        self.assertEqual(len(self.calls("alloc")), len(self.calls("free")))
        launches = self.calls("launch")
        self.assertEqual(len(launches), 1)
        entry, _, grid, _, block, _, shared, *_ = launches[0]
        self.assertRegex(entry, "^k_[0-9a-f]{32}$")
        self.assertEqual((int(grid), int(shared)), (64, 0))  # a block a row, whose shared memory is the module's
        self.assertIn(int(block), (32, 64, 128, 256))
        # The two inputs, and both results; no index can be wrong.
        self.assertEqual(sorted(int(c[0]) for c in self.calls("to_device")), [65536, 65536])
        self.assertEqual(sorted(int(c[0]) for c in self.calls("to_host")), [256, 65536])

    def test_errors_are_read_once_a_run(self):
        self.write("k.fe", KINDS)
        self.assertEqual(self.run_on("k.fe").returncode, OK)
        self.assertGreater(len(self.calls("launch")), 8)
        outputs = 9
        self.assertEqual(len(self.calls("to_host")), outputs + 1)

    def test_draws_are_made_by_the_device(self):
        modules = self.modules_of("draws", DRAWS)
        self.assertEqual(len(modules), len(self.calls("launch")))
        self.assertEqual([int(c[0]) for c in self.calls("to_device")], [16])  # the seed alone

    def test_what_is_needed_no_more_makes_room(self):
        square, steps = 4 * 256 * 256, 6
        body = "".join(f"  %m{k + 1} = matmul(%m{k}, %m{k})\n" for k in range(steps))
        self.write("chain.fe", f"ferrite graph 0\ngraph @g(%m0: f32[256,256]) -> (%m{steps} \"r\") {{\n{body}}}\n")
        self.assertEqual(self.run_on("chain.fe").returncode, OK)
        # Two at a time; the rest is words of what indices were wrong.
        self.assertEqual(max(int(c[0]) for c in self.calls("alloc")), 2 * square)

    def test_a_device_that_is_named_needs_no_enabling(self):
        self.manifest(Settings.driver, enable=False)
        self.assertEqual(self.run_on().returncode, OK)
        self.assertEqual(self.run_on("g.fe", "--device", f"{self.kind},cpu").returncode, OK)
        self.assertEqual(len(self.calls("launch")), 1)
        # What is not named is not opened, and what is disabled stays so.
        self.assertEqual(self.run_on("g.fe", "--device", "cpu").returncode, OK)
        self.assertFalse(self.log.exists())
        self.write("base.toml", f'schema = 0\nenable = ["ferrite.{self.kind}"]\n')
        self.write("manifest.toml", f'schema = 0\nextends = "base.toml"\ndisable = ["ferrite.{self.kind}"]\n')
        self.assertRefused(self.run_on("g.fe", "--device", self.kind), "FE-D01", "there is no such device", 2)

    def test_no_driver(self):
        self.manifest("libno-such-driver.so.1")
        self.assertRefusedHere(self.run_on(), "driver", f"device {self.kind}:0: .*libno-such-driver.so.1.*{self.library}"
                               ".*; here are cpu:0, interpreter")
        targets = self.call("targets", "--manifest", "manifest.toml")
        self.assertEqual(targets.returncode, OK)
        self.assertIn("libno-such-driver.so.1", targets.stdout)

    def test_a_driver_without_a_function(self):
        self.manifest("libm.so.6")
        self.assertRefusedHere(self.run_on(), "driver", f"has no function '{self.functions['init']}'.*{self.library}")

    def test_a_driver_that_does_not_start(self):
        done = self.run_on(FAKE_DRIVER_FAIL=self.functions["init"] + ":1")
        self.assertRefusedHere(done, "driver", "does not start")

    def test_no_device(self):
        self.assertRefused(self.run_on(FAKE_DRIVER_DEVICES="0"), "FE-D01",
                           f"'{self.kind}' has no device here; here are cpu:0, interpreter", 2)
        self.assertRefused(self.run_on("g.fe", "--device", f"{self.kind}x:0"), "FE-D01", f"did you mean '{self.kind}'", 2)
        self.assertRefused(self.run_on("g.fe", "--device", f"{self.kind}:1"), "FE-D01", "one device, number 0", 2)

    def test_out_of_memory(self):
        alloc = self.functions["alloc"]
        done = self.run_on(FAKE_DRIVER_FAIL=f"{alloc}:1,{alloc}:2")
        self.assertRefused(done, "FE-D03", f"{self.kind}:0: no memory for", DEVICE)
        # What the pool keeps is given back first.
        done = self.run_on(FAKE_DRIVER_FAIL=f"{alloc}:1")
        self.assertEqual((done.returncode, len(self.calls("trim"))), (OK, 1), done.stderr)
        self.assertRefused(self.run_on(FAKE_DRIVER_MEMORY="1000"), "FE-D03", f"{self.kind}:0: no memory for", DEVICE)

    def test_faults_name_the_node(self):
        done = self.run_on(FAKE_DRIVER_FAIL=self.functions["launch"] + ":1")
        self.assertRefusedHere(done, "device", f"the_sum, the_exp, rows: .*{self.errors['fault']}")
        done = self.run_on(FAKE_DRIVER_FAIL=self.functions["to_host"] + ":1")
        self.assertRefusedHere(done, "device", "a copy from the device failed")

    def test_a_lost_device(self):
        done = self.run_on(FAKE_DRIVER_LOSE=self.functions["launch"] + ":1")
        self.assertRefused(done, "FE-D06", f"the_sum, the_exp, rows: .*{self.errors['fault']}.*{self.kind}:0 is lost", DEVICE)
        # One of several is found with the log's help.
        self.write("k.fe", KINDS)
        done = self.run_on("k.fe", FAKE_DRIVER_LOSE=self.functions["launch"] + ":3")
        self.assertRefused(done, "FE-D06", r"among \d+ launches that were not waited for: .* \| .*'--log launches'", DEVICE)
        done = self.run_on("k.fe", "--log", "launches", FAKE_DRIVER_LOSE=self.functions["launch"] + ":3")
        self.assertIn("[launches]", done.stderr)
        self.assertNotIn("one of", done.stderr)

    def test_runs_are_recorded(self):
        done = self.call("bench", "g.fe", "--manifest", "manifest.toml", "--repeat", "5", "--on-device",
                         environment={"FAKE_DRIVER_LOG": str(self.log)})  # fmt: skip
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(len(self.calls("record")), 1)
        self.assertGreaterEqual(len(self.calls("replay")), 5)
        done = self.call("explain", "--all", "g.fe", "--manifest", "manifest.toml")
        self.assertRegex(done.stdout, rf"record: 1 recorded\n +recorded +<- +{self.kind}:0")
        done = self.call("explain", "--all", "g.fe", "--manifest", "manifest.toml", "--without", "record")
        self.assertNotRegex(done.stdout, r"(?m)^record:")

    def check_streams(self, **environment):
        self.log.unlink(missing_ok=True)
        plugin = Settings.ferrite.parents[1] / f"lib/ferrite/plugins/ferrite.{self.kind}.plugin.toml"
        return self.call("plugin", "check", plugin, "--level", "L3", "--only", "*: streams", "--only", "*: launch graphs",
                         "--manifest", "manifest.toml", environment={"FAKE_DRIVER_LOG": str(self.log)} | environment)  # fmt: skip

    def test_streams_are_checked(self):
        done = self.check_streams()
        self.assertEqual(done.returncode, OK, done.stdout)
        self.assertRegex(done.stdout, "(?s)passed .*: streams\n.*passed .*: launch graphs\n")
        self.assertTrue(self.calls("wait"))
        done = self.check_streams(FAKE_DRIVER_WAITS="0")
        self.assertEqual(done.returncode, WRONG, done.stdout)
        self.assertRegex(done.stdout, "failed .*: streams: FE-P52 .*an event that it waits for")

    def test_code_that_the_driver_does_not_take(self):
        done = self.run_on(FAKE_DRIVER_FAIL=self.functions["load"] + ":1")
        self.assertRefusedHere(done, "link", f"does not take k_[0-9a-f]{{32}}: {self.errors['image']}")
