# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is the same for all providers over libraries of NVIDIA's devices, with a library and a driver that stand for the real ones in the
host's memory: what they ask the library to compute, against the interpreter, and what they say where something is missing or fails.
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from program import DEVICE, OK, UNSUPPORTED, Settings  # noqa: E402


class LibraryTests:
    """Tests for a class beside ProgramTest, which says what is the plugin's own."""

    kind = ""  # the provider; the plugin's id is "ferrite." and this
    fake = ""  # the library that stands for it, which says its version alone where the name ends in "_empty"
    small = ("", "")  # inputs and nodes of a small graph that it takes; its first node is from "the_node"
    large = ("", "")  # like it, of which it is worth to take a part
    part = ""  # a pattern of the candidate that takes the first statement of it alone
    search, launch = "", ""  # what the fake writes when it is asked how to compute it, and when it does
    functions = ("", "")  # the first function that an empty library lacks; what is said where a launch fails
    versions = ()  # one that is too old with its text, the one that the fake has, a later one that is taken
    ways = ("", "")  # what a launch says that is computed in the library's first way, in its second
    advice = ""

    def setUp(self):
        super().setUp()
        self.log = self.folder / "calls"
        self.manifest()

    def manifest(self, **config):
        config = {"library": f'"{Settings.fakes}/{self.fake}.so"', "driver": f'"{Settings.driver}"', "price": 0.0} | config
        settings = ", ".join(f"{key} = {value}" for key, value in config.items())
        (self.folder / "ferrite.toml").write_text(f"""schema = 0
enable = ["ferrite.cuda", "ferrite.{self.kind}"]
[pipeline]
device = "cuda:0"
[plugin."ferrite.cuda"]
config = {{ library = "{Settings.driver}" }}
[plugin."ferrite.{self.kind}"]
config = {{ {settings} }}
""")

    def graph(self, inputs, nodes):
        body = nodes.replace("\n", "\n  ")
        (self.folder / "g.fe").write_text(f'ferrite graph 0\ngraph @g({inputs}) -> (%y "y") {{\n  {body}\n}}\n')

    def run_it(self, *options, model="g.fe", **environment):
        self.log.unlink(missing_ok=True)
        return self.call("run", model, "--manifest", "ferrite.toml", "--seed", 5, "-o", "out", *options,
                         environment={"FAKE_LIBRARY_LOG": str(self.log)} | environment)  # fmt: skip

    def explain(self, *options, **environment):
        done = self.call("explain", "g.fe", "--manifest", "ferrite.toml", *(options or ["--all"]), environment=environment)
        self.assertEqual(done.returncode, OK, done.stderr)
        return done.stdout

    def values(self):
        values = np.load(self.folder / "out/output_0.npy")
        return ((values.astype(np.uint32) << 16).view(np.float32) if values.dtype == np.uint16 else values).astype(np.float64)

    def calls(self, function):
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if line.split()[0] == function]

    def compute(self, inputs, nodes, *options):
        """What the library makes of a graph that it takes all of is what the interpreter does. The ledger, and the first call."""
        self.graph(inputs, nodes)
        done = self.call("run", "g.fe", "--device", "interpreter", "--seed", 5, "-o", "out")
        self.assertEqual(done.returncode, OK, done.stderr)
        expected = self.values()
        done = self.run_it(*options)
        self.assertEqual(done.returncode, OK, done.stderr)
        tolerance = 2e-2 if "bf16" in inputs else 2e-3 if "f16" in inputs else 1e-5
        np.testing.assert_allclose(self.values(), expected, tolerance, tolerance * max(1.0, float(expected.std())))
        return self.explain(), (self.calls(self.launch) or [""])[0]

    def test_what_follows_and_has_no_code(self):
        self.graph(*self.large)
        self.assertRegex(self.explain(FAKE_LIBRARY_EPILOGUE="0"), rf"chosen .* <-  {self.part}: covers 1 of ")

    def test_the_price_decides(self):
        self.graph(*self.small)
        self.manifest(price=1e9)
        self.assertRegex(self.explain(), rf"refused \(cost\) .* <-  {self.part}")

    def test_workspaces(self):
        self.graph(*self.small)
        self.assertEqual(self.run_it(FAKE_LIBRARY_WORKSPACE="4096").returncode, OK)
        self.assertRegex(self.calls(self.launch)[0], "workspace 1")
        # More than the program may have: the one without is taken.
        for choices in (2, 1):
            self.manifest(choices=choices)
            self.assertEqual(self.run_it(FAKE_LIBRARY_WORKSPACE=str(16 << 20)).returncode, OK)
            self.assertRegex(self.calls(self.launch)[0], "workspace 0")

    def test_the_order_of_work(self):
        self.graph(*self.small)
        self.assertEqual(self.run_it().returncode, OK)
        self.assertRegex(self.calls(self.launch)[0], "stream 1")

    def test_packages(self):
        self.graph(*self.small)
        done = self.call("compile", "g.fe", "--manifest", "ferrite.toml", "-o", "g.fepkg")
        self.assertEqual(done.returncode, OK, done.stderr)
        for version in self.versions[1:]:
            done = self.run_it(model="g.fepkg", FAKE_LIBRARY_VERSION=version)
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertEqual(len(self.calls(self.launch)), 1)
        done = self.call("run", "g.fepkg", "--device", "cpu")
        self.assertNotEqual(done.returncode, OK)
        text = (self.folder / "ferrite.toml").read_text()
        without = text[: text.index(f'[plugin."ferrite.{self.kind}"]')].replace(f', "ferrite.{self.kind}"', "")
        (self.folder / "cuda.toml").write_text(without)
        done = self.call("run", "g.fepkg", "--manifest", "cuda.toml")
        self.assertRefused(done, "FE-K53", f"no enabled plugin has the library '{self.kind}'", UNSUPPORTED)
        self.manifest(library='"libmissing.so.13"')
        self.assertRefused(self.run_it(model="g.fepkg"), "FE-K53", r"'cuda' \(.*FE-P85 .*libmissing.so.13", UNSUPPORTED)

    def test_packages_name_a_way_of_one_version_and_generation(self):
        """The second way, as the first one's workspace is too large there. Elsewhere the library's first is taken, whose workspace fits."""
        self.graph(*self.small)
        here = {"FAKE_DRIVER_MAJOR": "8"}  # code for it runs on later ones
        done = self.call("compile", "g.fe", "--manifest", "ferrite.toml", "-o", "g.fepkg",
                         environment=here | {"FAKE_LIBRARY_WORKSPACE": str(16 << 20)})  # fmt: skip
        self.assertEqual(done.returncode, OK, done.stderr)
        first, second = self.ways
        for name, environment, way in [
            ("the same", here, second),
            ("another version", here | {"FAKE_LIBRARY_VERSION": self.versions[2]}, first),
            ("another generation", {"FAKE_DRIVER_MAJOR": "9"}, first),
            ("both", {"FAKE_DRIVER_MAJOR": "9", "FAKE_LIBRARY_VERSION": self.versions[2]}, first),
        ]:
            with self.subTest(name):
                done = self.run_it(model="g.fepkg", **environment)
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assertRegex(self.calls(self.launch)[0], way)

    def test_a_library_that_is_missing(self):
        self.graph(*self.small)
        self.manifest(library='"libmissing.so.13"')
        done = self.run_it()
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stderr, rf"FE-P85 ferrite.{self.kind}: libmissing.so.13: .*{self.advice}")
        self.assertRegex(self.explain(), rf"refused \(declined\) .* <-  {self.kind}: .*libmissing.so.13")

    def test_a_library_of_another_version(self):
        self.graph(*self.small)
        number, text = self.versions[0]
        done = self.run_it(FAKE_LIBRARY_VERSION=number)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stderr, rf"FE-P86 ferrite.{self.kind}: .* is version {text}.*{self.advice}")
        self.manifest(library=f'"{Settings.fakes}/{self.fake}_empty.so"')
        self.assertRegex(self.run_it().stderr, rf"FE-P86 ferrite.{self.kind}: .*has no function '{self.functions[0]}'")

    def test_no_driver(self):
        self.graph(*self.small)
        self.manifest(driver='"libmissing_driver.so.1"')
        done = self.run_it()
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(done.stderr, rf"FE-P85 ferrite.{self.kind}: libmissing_driver.so.1: .*install NVIDIA's driver")

    def test_another_device_than_the_target(self):
        self.graph(*self.small)
        self.assertRegex(self.explain(FAKE_DRIVER_MAJOR="10"), rf"chosen .* <-  {self.part}")
        done = self.call("compile", "g.fe", "--manifest", "ferrite.toml", "--target", "sm_80", "-o", "g.fepkg",
                         environment={"FAKE_LIBRARY_LOG": str(self.log)})  # fmt: skip
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertEqual(self.calls(self.search), [])

    def test_what_fails(self):
        self.graph(*self.small)
        done = self.run_it(FAKE_LIBRARY_FAIL=f"{self.launch}:1")
        self.assertRefused(done, f"ferrite.{self.kind}/failed", rf"the_node.*{self.functions[1]}", DEVICE)
        # Before there is code, it is a reason to go without.
        done = self.run_it(FAKE_LIBRARY_FAIL="create:1")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(self.explain(FAKE_LIBRARY_FAIL="create:1"), r"refused \(declined\) .*NOT_INITIALIZED")
