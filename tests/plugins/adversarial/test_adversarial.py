#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Plugins that end the process, or do not let it end: exit status 70, plugin and callback by name; and the page of all cases.

Usage: test_adversarial.py [--ferrite FILE] [--plugins DIRECTORY] [unittest options]
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np

import faults_page

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from program import INTERNAL, OK, PLUGINS, USAGE, WRONG, ProgramTest, Settings, main  # noqa: E402

MODEL = """ferrite graph 0
graph @sum(%x: f32[4]) -> (%1 "y") {
  %0 = relu(%x) : f32[4] from "first"
  %1 = add(%0, %x) : f32[4] from "second"
}
"""


class AdversarialTest(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "sum.fe").write_text(MODEL)
        np.save(self.folder / "x.npy", np.array([-1, 2, -3, 4], np.float32))

    def call(self, *words, watchdog="0"):
        return super().call(*words, environment={"FERRITE_WATCHDOG": watchdog})

    def write_manifest(self, case, extra="", library=None):
        config = ", ".join(f'{key} = "{value}"' for key, value in case.get("config", {"mode": case.get("name")}).items())
        (self.folder / "ferrite.toml").write_text(
            'schema = 0\nenable = ["test.adversarial"]\n[pipeline]\nvalidate_rules = "off"\n[plugin."test.adversarial"]\n'
            f'library = "{library or self.library(case)}"\nconfig = {{ {config} }}\n{extra}')

    def library(self, case):
        return Settings.plugins / f"{case['plugin']}.so"

    def run_model(self, case, extra="", watchdog="1"):
        self.write_manifest(case, extra)
        return self.call("run", "sum.fe", "--manifest", "ferrite.toml", "-i", "x=x.npy", "-o", "out", watchdog=watchdog)

    def cases(self, check):
        found = [case for case in faults_page.read_cases()[1] if case["check"] == check]
        self.assertTrue(found)
        return found

    def test_ends_are_named(self):
        for case in self.cases("ends"):
            with self.subTest(case=case["name"]):
                done = self.run_model(case)
                self.assertEqual(done.returncode, INTERNAL, done.stderr)
                last = done.stderr.splitlines()[-1]
                self.assertTrue(last.startswith(f"ferrite: {case['code']} plugin 'test.adversarial', {case['callback']}: "), done.stderr)

    def test_what_is_not_seen(self):
        """A call that leaves no time for a word; what docs/plugin-faults.md sends to isolation."""
        for case in self.cases("silent"):
            with self.subTest(case=case["name"]):
                done = self.run_model(case)
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
                self.assertFalse((self.folder / "out").exists())

    def test_isolated_plugins_end_alone(self):
        """In a process of its own the same plugin is named just so, and where the manifest says so the compilation goes on."""
        apart = 'isolation = "process"\nprocess = { timeout_ms = 1000 }\n'
        for case in self.cases("ends") + self.cases("silent"):
            with self.subTest(case=case["name"]):
                done = self.run_model(case, apart, watchdog="0")
                self.assertNotIn(done.returncode, (OK, -6, -11), done.stderr)
                self.assertIn(case["isolated"], done.stderr)
                self.assertRegex(done.stderr, "'test.adversarial'|adversarial_misbehaves.so")
                done = self.run_model(case, apart + 'on_error = "skip"\n', watchdog="0")
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assertRight()

    def assertRight(self):
        np.testing.assert_array_equal(np.load(self.folder / "out" / "output_0.npy"), np.array([-1, 4, -3, 8], np.float32))

    def test_nothing_is_harmed_without_misbehaviour(self):
        case = {"plugin": "adversarial_misbehaves", "config": {"mode": "none", "in": "pass"}}
        done = self.run_model(case)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRight()

    def test_time_of_the_watchdog(self):
        case = {"plugin": "adversarial_misbehaves", "config": {"mode": "none", "in": "pass"}}
        for text in ("", "soon", "-1", "1s", "99999999999"):
            with self.subTest(text=text):
                done = self.run_model(case, watchdog=text)
                self.assertEqual(done.returncode, USAGE, done.stderr)
                self.assertIn("FE-C01", done.stderr)
                self.assertIn("FERRITE_WATCHDOG", done.stderr)
        self.assertEqual(self.run_model(case, watchdog="0").returncode, OK)

    def test_passes_that_take_too_long(self):
        for case in self.cases("limited"):
            limit = '[pass."test.adversarial.pass"]\ntimeout_ms = 100\n'
            done = self.run_model(case, limit, watchdog="0")
            self.assertNotEqual(done.returncode, OK)
            self.assertRegex(done.stderr, rf"^ferrite: FE-P10 .*'test.adversarial.pass'.*{case['code']}")
            done = self.run_model(case, 'on_error = "skip"\n' + limit, watchdog="0")
            self.assertEqual(done.returncode, OK, done.stderr)
            self.assertRight()

    def test_passes_that_compute_something_else(self):
        for case in self.cases("blamed"):
            self.write_manifest(case)
            done = self.call("run", "sum.fe", "--manifest", "ferrite.toml", "--check-passes", "--reproducers", ".")
            self.assertEqual(done.returncode, WRONG, done.stderr)
            self.assertRegex(done.stderr, f"{case['code']}.*'test.adversarial.pass'")

    def test_plugin_check_finds(self):
        descriptor = self.folder / "test.adversarial.plugin.toml"
        for case in self.cases("checked"):
            with self.subTest(case=case["name"]):
                (self.folder / "plugin.so").write_bytes(self.library(case).read_bytes())
                descriptor.write_text('schema = 0\nid = "test.adversarial"\nversion = "1.0.0"\nlibrary = "plugin.so"\n'
                                      'abi = "0.1"\n[config]\nmode = "string"\n')
                (self.folder / "ferrite.toml").write_text(
                    'schema = 0\nenable = ["test.adversarial"]\n[plugin."test.adversarial"]\n'
                    f'config = {{ mode = "{case["name"]}" }}\n')
                done = self.call("plugin", "check", "--json", "--manifest", "ferrite.toml", descriptor.name)
                self.assertEqual(done.returncode, WRONG, done.stderr)
                (plugin,) = json.loads(done.stdout)["plugins"]
                self.assertIn(case["code"], [check["code"] for check in plugin["checks"] if check["outcome"] == "failed"])

    def test_harmless_plugins(self):
        for case in self.cases("harmless"):
            with self.subTest(case=case["name"]):
                done = self.run_model(case, watchdog="0")
                self.assertEqual(done.returncode, OK, done.stderr)
                self.assertRight()

    def test_library_that_is_exchanged(self):
        for case in self.cases("locked"):
            library = self.folder / "plugin.so"
            library.write_bytes(self.library(case).read_bytes())
            self.write_manifest(case | {"config": {"mode": "none"}}, library=library)
            model = ("run", "sum.fe", "--manifest", "ferrite.toml", "-i", "x=x.npy", "-o", "out")
            self.assertEqual(self.call("plugin", "lock", "--manifest", "ferrite.toml").returncode, OK)
            self.assertEqual(self.call(*model).returncode, OK)
            self.assertRight()
            library.unlink()
            library.write_bytes((Settings.plugins / "hooks.so").read_bytes())
            done = self.call(*model)
            self.assertNotEqual(done.returncode, OK)
            self.assertRegex(done.stderr, f"^ferrite: {case['code']} .*plugin.so")

    def test_page(self):
        done = subprocess.run([sys.executable, Path(faults_page.__file__)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, OK, done.stdout)


if __name__ == "__main__":
    main(__doc__, plugins=PLUGINS)
