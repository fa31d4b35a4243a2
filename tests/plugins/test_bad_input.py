#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Bad manifests and bad plugins on the command line: an exit status, a code and a place; a skipped pass leaves no trace.

Usage: test_bad_input.py [--ferrite FILE] [--plugins DIRECTORY] [unittest options]
"""

import json
import re
import shlex
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from program import BAD_INPUT, INTERNAL, OK, PLUGINS, UNSUPPORTED, USAGE, WRONG, ProgramTest, Settings, main  # noqa: E402

MODEL = """ferrite graph 0
graph @sum(%x: f32[4]) -> (%1 "y") {
  %0 = relu(%x) : f32[4] from "first"
  %1 = add(%0, %x) : f32[4] from "second"
}
"""


class BadPluginTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.model = self.folder / "sum.fe"
        self.model.write_text(MODEL)
        self.manifest = self.folder / "ferrite.toml"
        np.save(self.folder / "x.npy", np.array([-1, 2, -3, 4], np.float32))

    def call(self, command, *options, **settings):
        return super().call(command, self.model, *options, **settings)

    def call_alone(self, *words):
        return super().call(*words)

    def assertWarns(self, done, pattern):
        """One line, which the user sees without asking."""
        warnings = [line for line in done.stderr.splitlines() if "warning" in line]
        self.assertEqual(len(warnings), 1, done.stderr)
        self.assertRegex(warnings[0], "^ferrite: warning: " + pattern)

    def run_model(self, *options):
        return self.call("run", "-i", f"x={self.folder / 'x.npy'}", "-o", self.folder / "out", *options)

    def with_manifest(self, text):
        self.manifest.write_text(text)
        return self.run_model("--manifest", self.manifest)

    def enabling(self, plugin, extra="", library=None):
        """A manifest that enables a test plugin, by its library."""
        path = library or Settings.plugins / f"{plugin}.so"
        return f'schema = 0\nenable = ["test.{plugin}"]\n[plugin."test.{plugin}"]\nlibrary = "{path}"\n{extra}'

    def at(self, place):
        return re.escape(f"{self.manifest}:{place}:")

    def test_manifest_syntax(self):
        self.assertRefused(self.with_manifest("schema = 0\nenable = [\n"), "FE-M01", re.escape(str(self.manifest)) + r":\d+:\d+:")

    def test_unknown_key_with_suggestion(self):
        self.assertRefused(self.with_manifest('schema = 0\nenabel = ["ferrite.std"]\n'), "FE-M02", self.at("2:1") + ".*'enabel'.*'enable'")

    def test_wrong_type(self):
        self.assertRefused(self.with_manifest("schema = 0\nenable = 3\n"), "FE-M03", self.at("2:10"))

    def test_newer_schema(self):
        self.assertRefused(self.with_manifest("schema = 9\n"), "FE-M04", self.at("1:10"))

    def test_unknown_plugin_with_suggestion(self):
        self.assertRefused(self.with_manifest('schema = 0\nenable = ["ferrite.sdt"]\n'), "FE-M05", self.at("2:11") + ".*ferrite.std")

    def test_many_unknown_plugins(self):
        # As many as a manifest has room for: what is said of the first one does not take longer with each of the others.
        ids = [f"a{k:05}" for k in range(100_000)]
        text = "schema = 0\nenable = [\n" + ",\n".join(f'"{each}"' for each in ids) + "]\n"
        self.assertRefused(self.with_manifest(text), "FE-M05", self.at("3:1") + ".*'a00000'")
        self.assertRefused(self.with_manifest(text.replace('"a99999"', '"a00000"')), "FE-M08", self.at("100002:1") + ".*:3:1")

    def test_empty_search_path(self):
        self.assertRefused(self.with_manifest('schema = 0\nsearch = [""]\n'), "FE-M03", self.at("2:11") + ".*empty path")

    def test_platform_of_which_only_the_beginning_is_there(self):
        (self.folder / "abs.rules").write_text("")
        descriptor = self.folder / "acme.abs.plugin.toml"
        text = 'schema = 0\nid = "acme.abs"\nversion = "1.0.0"\nrules = ["abs.rules"]\nplatform = "linux-x86"\n'
        descriptor.write_text(text)
        says = re.escape(f"{descriptor}:5:12:") + ".*did you mean 'linux-x86_64'"
        self.assertRefused(self.run_model("--plugin", descriptor), "FE-M03", says)

    def test_missing_manifest(self):
        self.assertRefused(self.run_model("--manifest", self.folder / "none.toml"), "FE-M14", "none.toml")

    def test_missing_library(self):
        done = self.with_manifest(self.enabling("gone", library=self.folder / "gone.so"))
        self.assertRefused(done, "FE-M06", self.at("4:11") + ".*gone.so")

    def test_library_that_is_none(self):
        (self.folder / "text.so").write_text("not a library")
        self.assertRefused(self.run_model("--plugin", self.folder / "text.so"), "FE-P02", "text.so")

    def test_library_that_is_cut_short(self):
        cut = self.folder / "cut.so"
        cut.write_bytes((Settings.plugins / "hooks.so").read_bytes()[:3000])
        self.assertRefused(self.run_model("--plugin", cut), "FE-P40", "cut.so")
        done = self.with_manifest(self.enabling("hooks", 'on_error = "skip"\n', library=cut))
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_rule_file_given_twice(self):
        (self.folder / "rules.fe").write_text("")
        descriptor = self.folder / "acme.twice.plugin.toml"
        text = 'schema = 0\nid = "acme.twice"\nversion = "1.0.0"\nrules = ["rules.fe", "rules.fe"]\n'
        descriptor.write_text(text)
        self.assertRefused(self.run_model("--plugin", descriptor), "FE-M08", re.escape(f"{descriptor}:4:22:"))

    def test_library_without_entry(self):
        self.assertRefused(self.run_model("--plugin", Settings.plugins / "no_entry.so"), "FE-P03", "no_entry.so.*fe_plugin_entry_v0")
        # Where a manifest names the library, the place is there.
        self.assertRefused(self.with_manifest(self.enabling("no_entry")), "FE-P03", self.at("4:11") + ".*no_entry.so")

    def test_other_abi(self):
        for name in ("wrong_major", "wrong_minor"):
            self.assertRefused(self.run_model("--plugin", Settings.plugins / f"{name}.so"), "FE-P04", f"{name}.so.*rebuild it")

    def test_malformed_tables(self):
        for name in ("short_table", "null_slot", "null_array"):
            self.assertRefused(self.run_model("--plugin", Settings.plugins / f"{name}.so"), "FE-P07", f"test.{name}|{name}.so")

    def test_id_that_the_binary_denies(self):
        text = self.enabling("wrong", library=Settings.plugins / "hooks.so")
        self.assertRefused(self.with_manifest(text), "FE-P05", "hooks.so.*test.hooks.*test.wrong")

    def test_two_plugins_define_one_op(self):
        done = self.run_model("--plugin", Settings.plugins / "duplicate_op.so")
        self.assertRefused(done, "FE-G21", "test.duplicate_op.*relu.*ferrite.std|test.duplicate_op.*ferrite.std.*relu")

    def test_passes_in_a_cycle(self):
        self.assertRefused(self.run_model("--plugin", Settings.plugins / "cycle.so"), "FE-M10", "test.cycle.a -> test.cycle.b")

    def test_unknown_device(self):
        done = self.with_manifest('schema = 0\n[pipeline]\ndevice = "cpy"\n')
        self.assertRefused(done, "FE-D01", self.at("3:10") + ".*did you mean 'cpu'", USAGE)

    def test_rule_set_up_as_a_pass(self):
        (self.folder / "acme.abs.plugin.toml").write_text('schema = 0\nid = "acme.abs"\nversion = "1.0.0"\nrules = ["abs.fe"]\n')
        (self.folder / "abs.fe").write_text(
            "rule acme.twice at pre_grad {\n  match { %a = abs(%x) once  %r = abs(%a) }\n  yield { %r = abs(%x) }\n}\n"
        )
        text = 'schema = 0\nenable = ["acme.abs"]\nsearch = ["."]\n'
        done = self.with_manifest(text + '[pass."acme.twice"]\nenabled = false\n')
        self.assertRefused(done, "FE-M11", self.at("4:1") + r'.*it is a rule: write \[rule."acme.twice"\]')
        done = self.with_manifest(text + '[rule."passes.cse"]\nexpect = ">=1"\n')
        self.assertRefused(done, "FE-M11", self.at("4:1") + r'.*it is a pass: write \[pass."passes.cse"\]')

    def test_unknown_pass(self):
        done = self.with_manifest('schema = 0\n[pass."passes.ces"]\nenabled = false\n')
        self.assertRefused(done, "FE-M11", re.escape(str(self.manifest)) + r":\d+:\d+:.*passes.cse")

    def test_pass_that_throws(self):
        done = self.run_model("--plugin", Settings.plugins / "throws.so")
        self.assertRefused(done, "FE-P10", "pre_grad.*'test.throws.pass'.*'test.throws'.*thrown on purpose", INTERNAL)

    def test_pass_that_corrupts(self):
        for mode in ("erase", "order", "type", "stale"):
            with self.subTest(mode=mode):
                done = self.with_manifest(self.enabling("corrupts", f'config = {{ mode = "{mode}" }}\n'))
                self.assertIn(done.returncode, (BAD_INPUT, INTERNAL), done.stderr)
                self.assertRegex(done.stderr, r"(?m)^ferrite: FE-P10 .*'test.corrupts.pass'.*'test.corrupts'.*FE-G")
                if mode == "order":  # no edit is refused; what they add up to is
                    self.assertIn("FE-P11 the graph that it left is invalid", done.stderr)

    def test_lowering_that_misuses_the_recorder(self):
        for mode in ("range", "open", "mixed", "throw", "unwritten"):
            with self.subTest(mode=mode):
                done = self.with_manifest(self.enabling("bad_lowering", f'config = {{ mode = "{mode}" }}\n'))
                self.assertIn(done.returncode, (BAD_INPUT, INTERNAL), done.stderr)
                self.assertRegex(done.stderr, r"(?m)^ferrite: FE-[KP]\d\d .*relu")
                self.assertIn("first", done.stderr)

    def test_skipped_pass_leaves_no_trace(self):
        """Nothing of a failed pass is left where the manifest says to go on: the same graph, the right result."""
        plain = self.call("opt", "--to", "pre_grad")
        self.assertEqual(plain.returncode, OK, plain.stderr)
        for plugin, mode in [("throws", ""), *(("corrupts", mode) for mode in ("erase", "order", "type", "stale"))]:
            with self.subTest(plugin=plugin, mode=mode):
                config = f'on_error = "skip"\nconfig = {{ mode = "{mode}" }}\n' if mode else 'on_error = "skip"\n'
                done = self.with_manifest(self.enabling(plugin, config))
                self.assertEqual(done.returncode, OK, done.stderr)
                result = np.load(self.folder / "out" / "output_0.npy")
                np.testing.assert_array_equal(result, np.array([-1, 4, -3, 8], np.float32))
                graph = self.call("opt", "--to", "pre_grad", "--manifest", self.manifest)
                self.assertEqual(graph.stdout, plain.stdout)
                ledger = self.call("explain", "--all", "--manifest", self.manifest)
                self.assertRegex(ledger.stdout, rf"failed  test\.{plugin}\.pass")

    def test_isolated_plugin_that_aborts(self):
        """The program lives, and says whose fault it was; the next one compiles without the pass."""
        extra = 'isolation = "process"\nconfig = { mode = "abort" }\n'
        text = self.enabling("isolated", extra)
        pattern = "'test.isolated.pass' of plugin 'test.isolated'.*FE-P27 .*signal 6"
        self.assertRefused(self.with_manifest(text), "FE-P10", pattern, INTERNAL)
        plain = self.call("opt", "--to", "pre_grad")
        done = self.with_manifest(text + 'on_error = "skip"\n')
        self.assertEqual(done.returncode, OK)
        self.assertWarns(done, r"pass 'test\.isolated\.pass' of plugin 'test\.isolated' failed and was undone: FE-P27 .*skipped")
        result = np.load(self.folder / "out" / "output_0.npy")
        np.testing.assert_array_equal(result, np.array([-1, 4, -3, 8], np.float32))
        graph = self.call("opt", "--to", "pre_grad", "--manifest", self.manifest)
        self.assertEqual(graph.stdout, plain.stdout)

    def test_plugin_that_cannot_be_isolated(self):
        done = self.with_manifest(self.enabling("c_kernel", 'isolation = "process"\n'))
        self.assertRefused(done, "FE-P30", self.at("5:13") + ".*c_kernel.so.*in-process", UNSUPPORTED)

    def test_limits_of_a_process_that_there_is_not(self):
        done = self.with_manifest(self.enabling("hooks", "process = { starts = 1 }\n"))
        self.assertRefused(done, "FE-M03", self.at("5:11") + ".*isolation")

    def test_skipped_plugin(self):
        text = self.enabling("duplicate_op", 'on_error = "skip"\n')
        done = self.with_manifest(text)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertWarns(done, r"test\.duplicate_op skipped: FE-G21 ")
        # Once: where the log shows it, nowhere else. What is printed for programs stays what it is.
        logged = self.run_model("--manifest", self.manifest, "--log", "plugins")
        self.assertRegex(logged.stderr, r"(?m)^\[plugins\] test\.duplicate_op skipped: FE-G21 ")
        self.assertNotIn("warning:", logged.stderr)
        listed = self.call("explain", "--json", "--manifest", self.manifest)
        json.loads(listed.stdout)
        cut = self.folder / "cut.so"
        cut.write_bytes((Settings.plugins / "hooks.so").read_bytes()[:2000])
        self.assertWarns(self.with_manifest(self.enabling("hooks", 'on_error = "skip"\n', library=cut)), "test.hooks skipped: FE-P40 ")

    def test_rules_that_nobody_tried(self):
        (self.folder / "far.txt").write_text(
            "ferrite rules 0\nrule test.far at post_grad_pre {\n  match { %r = exp(%x) }\n"
            "  where { rank(%x) == 12 }\n  yield { %r = exp2(%x) }\n}\n"
        )
        descriptor = self.folder / "test.far.plugin.toml"
        descriptor.write_text('schema = 0\nid = "test.far"\nversion = "1.0.0"\nrules = ["far.txt"]\n')
        done = self.run_model("--plugin", descriptor)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertWarns(done, r"plugin 'test\.far' has rules that no sample reaches, applied untested: test\.far; ")
        self.assertNotIn("warning:", self.run_model("--plugin", descriptor, "--validate-rules", "off").stderr)

    def test_commands_that_show_a_wrong_rule(self):
        """The command that is printed loads the plugin again: by a profile, in folders whose names a shell takes apart."""
        home = self.folder / "it's a cache"
        folder = self.folder / "my rules"
        folder.mkdir()
        (folder / "wrong.txt").write_text(
            "ferrite rules 0\nrule test.wrong at pre_grad {\n  match { %r = add(%x, %y) }\n  yield { %r = sub(%x, %y) }\n}\n"
        )
        (folder / "test.wrong.plugin.toml").write_text('schema = 0\nid = "test.wrong"\nversion = "1.0.0"\nrules = ["wrong.txt"]\n')
        manifest = folder / "p.toml"
        manifest.write_text('schema = 0\nsearch = ["."]\n[profile.wrong]\nenable = ["test.wrong"]\n')
        enable = ("--manifest", manifest, "--profile", "wrong")
        for code, options in (("FE-R30", enable), ("FE-R31", (*enable, "--validate-rules", "off", "--check-passes"))):
            done = self.call("opt", "--to", "pre_grad", *options, environment={"XDG_CACHE_HOME": str(home)})
            self.assertRefused(done, code, "'test.wrong'", WRONG)
            command = shlex.split(re.search(r"(?m)shows it: ferrite (.*)$", done.stderr).group(1))
            again = self.call_alone(*command)
            self.assertRefused(again, "FE-R31", "'test.wrong'", WRONG)
        manifest.write_text(manifest.read_text() + '[plugin."test.wrong"]\non_error = "skip"\n')
        done = self.call("opt", "--to", "pre_grad", *enable)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertWarns(done, r"rules of test\.wrong disabled: FE-R30 .*wrong\.txt:2:6: rule 'test\.wrong' .* is .*, was .* shows it: ferrite opt ")


if __name__ == "__main__":
    main(__doc__, plugins=PLUGINS)
