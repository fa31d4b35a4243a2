#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`ferrite plugin check` finds what is wrong in plugins that are wrong in one way each.

Usage: test_plugin_check.py [--ferrite FILE] [--plugins DIRECTORY] [--builtin DIRECTORY] [unittest options]
"""

import json
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from program import BAD_INPUT, BUILD, OK, PLUGINS, USAGE, WRONG, ProgramTest, Settings, main  # noqa: E402



class PluginCheckTest(ProgramTest):
    def check(self, *words):
        return self.call("plugin", "check", *words)

    def findings(self, *words, status=WRONG):
        """The checks by level and name."""
        done = self.check("--json", *words)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        (plugin,) = json.loads(done.stdout)["plugins"]
        for outcome in ("passed", "failed", "skipped"):
            self.assertEqual(plugin[outcome], sum(c["outcome"] == outcome for c in plugin["checks"]))
        return {f"{c['level']} {c['name']}": c for c in plugin["checks"]}

    def plugin(self, name):
        return Settings.plugins / f"{name}.so"

    @property
    def plain(self):
        """A plugin with nothing wrong: an op and rules."""
        return Settings.plugins.parent / "pure_c.so"

    def assertFails(self, checks, name, code, pattern="."):
        self.assertIn(name, checks)
        self.assertEqual((checks[name]["outcome"], checks[name]["code"]), ("failed", code), checks[name])
        self.assertRegex(checks[name]["text"], pattern)

    def test_exports_and_stack(self):
        checks = self.findings("--level", "L0", self.plugin("leaky"))
        self.assertFails(checks, "L0 exports", "FE-P41", "1 symbol .*helper_that_leaks")
        self.assertFails(checks, "L0 stack and code", "FE-P43", "executable stack")
        self.assertFails(checks, "L0 symbols", "FE-P42", "function_that_is_missing")
        self.assertEqual(checks["L0 dependencies"]["outcome"], "passed")

    def test_libraries_that_are_missing(self):
        library = self.folder / "fickle.so"
        library.write_bytes(self.plugin("fickle").read_bytes().replace(b"libc.so.6\0", b"libq.so.6\0"))
        checks = self.findings("--level", "L0", library)
        self.assertFails(checks, "L0 dependencies", "FE-P42", "libq.so.6 => not found")

    def test_files_that_are_no_libraries(self):
        broken = self.folder / "broken.so"
        for content in (b"", b"no library", self.plugin("leaky").read_bytes()[:700]):
            broken.write_bytes(content)
            checks = self.findings("--level", "L0", broken)
            self.assertFails(checks, "L0 shared library", "FE-P40")
            self.assertEqual(checks["L0 exports"]["outcome"], "skipped")

    def test_descriptor_that_disagrees(self):
        shutil.copy(self.plugin("unsound"), self.folder / "unsound.so")
        descriptor = self.folder / "check.unsound.plugin.toml"
        text = 'schema = 0\nid = "check.unsound"\nversion = "1.0.1"\nlibrary = "unsound.so"\nabi = "0.1"\n'
        descriptor.write_text(text)
        checks = self.findings("--level", "L1", descriptor)
        failed = [c for c in checks.values() if c["outcome"] == "failed"]
        self.assertTrue(failed)
        self.assertRegex(failed[0]["text"], r"1\.0\.1")
        descriptor.rename(self.folder / "check.other.plugin.toml")
        checks = self.findings("--level", "L0", self.folder / "check.other.plugin.toml")
        self.assertFails(checks, "L0 descriptor", "FE-P44", "check.unsound.plugin.toml")

    def test_instances_that_differ(self):
        checks = self.findings("--level", "L1", self.plugin("fickle"))
        self.assertFails(checks, "L1 second instance", "FE-P45", "check.fickle")
        self.assertFails(checks, "L1 destroy and create again", "FE-P45")
        self.assertFails(checks, "L1 prints nothing", "FE-P45", "standard output")

    def test_structs_calls_and_threads(self):
        checks = self.findings("--level", "L2", self.plugin("rigid"))
        self.assertFails(checks, "L2 ops: larger structs", "FE-P46", "check.rigid.*stride")
        self.assertFails(checks, "L2 ops: refused host calls", "FE-P47", "check.rigid")
        self.assertFails(checks, "L2 ops: two threads", "FE-P48", "check.shared")

    def test_passes_that_are_wrong(self):
        # With this seed, sampled graphs subtract different values; with about half of the seeds none does.
        checks = self.findings("--level", "L3", "--seed", "14", self.plugin("unsound"))
        name = "L3 pass check.unsound.{} (pre_grad): {}"
        self.assertFails(checks, name.format("swap", "numerics"), "FE-P49", "changes what .* computes")
        self.assertFails(checks, name.format("grow", "settles"), "FE-P50", "still changes it")
        self.assertFails(checks, name.format("sometimes", "repeatable"), "FE-P50", "two results")
        self.assertFails(checks, "L3 rule check.unsound.abs (pre_grad)", "FE-P49", "changes what a graph computes")
        self.assertFails(checks, "L3 ops: lowering and decomposition agree", "FE-P51", "check.twice")
        self.assertEqual(checks[name.format("swap", "valid")]["outcome"], "passed")
        self.assertEqual(checks[name.format("grow", "numerics")]["outcome"], "passed")

    def test_passes_that_end_the_process(self):
        checks = self.findings("--level", "L2", "--timeout", "5", self.plugin("fatal"))
        name = "L2 pass check.fatal.{} (pre_grad): {}"
        for what in ("larger structs", "refused host calls", "two threads"):
            self.assertFails(checks, name.format("fault", what), "FE-P53", "died: Segmentation fault")
            self.assertFails(checks, name.format("leave", what), "FE-P53", "exit status 3")
            self.assertFails(checks, name.format("end", what), "FE-P53", "ended with exit status 0 before")
            self.assertFails(checks, name.format("hand_over", what), "FE-P53", "exit status 4")
            self.assertFails(checks, name.format("scribble", what), "FE-P53", "was written .* to descriptor 3")
            self.assertFails(checks, name.format("hang", what), "FE-P53", "not done after 5 s")
        self.assertEqual(checks["L2 create: larger structs"]["outcome"], "passed")
        # What a pass started ends with its level, however that ends.
        left = [f for f in Path("/proc").glob("[0-9]*/cmdline") if b"check-fatal-left-behind" in self.bytes_of(f)]
        self.assertEqual(left, [])

    @staticmethod
    def bytes_of(file):
        try:
            return file.read_bytes()
        except OSError:  # the process is gone
            return b""

    def test_backend_that_computes_nothing(self):
        table = self.folder / "poor.toml"
        checks = self.findings("--level", "L3", "--capabilities", table, self.plugin("poor_backend"))
        self.assertFails(checks, "L3 backend poor: device", "FE-P52", "differs each time")
        self.assertFails(checks, "L3 backend poor: memory", "FE-P52", "not aligned to 64")
        self.assertFails(checks, "L3 backend poor: streams", "FE-P52", "the same native handle")
        self.assertFails(checks, "L3 backend poor: launch graphs", "FE-P52", "runs before it is replayed")
        self.assertFails(checks, "L3 backend poor: add", "FE-P52", "the interpreter gives")
        self.assertEqual(checks["L3 backend poor: contract"]["outcome"], "skipped")
        self.assertRegex(checks["L3 backend poor: contract"]["text"],
                         "declined: no provider of device 'poor' takes this kernel: provider 'poor': nothing is proposed")
        written = tomllib.loads(table.read_text())
        self.assertEqual((written["provider"], written["plugin"]), ("poor", "check.poor_backend 1.0.0"))
        self.assertIn("f32", written["failed"]["add"])
        self.assertIn("f32", written["declined"]["contract"])
        self.assertEqual(written["passed"], {})

    def test_backend_that_writes_beside_its_buffers(self):
        """On a device with memory of its own, where no page ends with them."""
        only = [word for name in ("abs", "exp", "sqrt") for word in ("--only", f"backend overrun: {name}")]
        checks = self.findings("--level", "L3", "--all", *only, self.plugin("overrun"))
        name, said = "L3 backend overrun: {}", "^{} f32, .*: memory of overrun:0 outside of every buffer was written, first "
        for prim, place in (
            ("abs", "0 bytes after the end of output 0"),
            ("exp", ".*4 bytes before output 0"),
            ("sqrt", "0 bytes after the end of a workspace"),
        ):
            self.assertFails(checks, name.format(prim), "FE-P52", said.format(prim) + place)

    def test_providers_of_regions_and_of_libraries(self):
        stubs = Settings.builtin.parent / "stubs"
        checks = self.findings("--level", "L3", stubs / "acme.npu.plugin.toml", "--plugin",
                               stubs / "acme.npu.runtime.plugin.toml", status=OK)  # fmt: skip
        self.assertEqual(checks["L3 provider acme.npu: programs"]["outcome"], "passed")
        self.assertEqual(checks["L3 provider acme.npu: device"]["outcome"], "passed")
        # The memory is another plugin's.
        self.assertFalse([name for name in checks if name.endswith(": memory")], checks)
        checks = self.findings("--level", "L3", stubs / "acme.npu.plugin.toml", status=OK)
        self.assertRegex(checks["L3 provider acme.npu: programs"]["text"], "no runtime 'npu' is loaded")

    def test_plugin_that_does_not_load(self):
        checks = self.findings(Settings.plugins.parent / "wrong_major.so")
        self.assertFails(checks, "L1 load and create", "FE-P04")
        for level in ("L2", "L3"):
            self.assertEqual(checks[f"{level} all"]["outcome"], "skipped")
        checks = self.findings("--level", "L0", Settings.plugins.parent / "no_entry.so")
        self.assertFails(checks, "L0 exports", "FE-P41", "does not export")

    def test_report_and_badge(self):
        done = self.check("--level", "L0", "--level", "L1", Settings.builtin / "ferrite.passes.plugin.toml")
        self.assertEqual(done.returncode, OK, done.stdout)
        self.assertRegex(done.stdout, r"(?m)^  L0 passed   exports$")
        self.assertRegex(done.stdout, r"(?m)^L0 L1: \d+ checks passed$")

    def test_checks_by_name(self):
        every = self.findings("--level", "L0", self.plain, status=OK)
        picked = self.findings("--level", "L0", "--only", "sym*", "--only", "exports", self.plain, status=OK)
        self.assertEqual(set(picked), {"L0 symbols", "L0 exports"})
        self.assertEqual({name: every[name] for name in picked}, picked)
        done = self.check("--only", "nothing*", self.plain)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--only nothing*", done.stderr)
        done = self.check("--level", "L0", "--only", "exports", "--only", "nothing*", self.plain)
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("--only nothing*", done.stderr)
        done = self.check("--only", "exports", "--capabilities", self.folder, self.plain)
        self.assertEqual(done.returncode, USAGE, done.stderr)

    def test_checks_by_name_say_what_keeps_them_from_being_done(self):
        text = self.folder / "text.so"
        text.write_text("no library")
        checks = self.findings("--only", "rule *", text)
        self.assertEqual(checks["L1 load and create"]["outcome"], "failed")
        self.assertEqual(checks["L3 all"]["outcome"], "skipped")
        self.assertNotIn("L0 exports", checks)

    def test_checks_by_name_go_on_behind_a_death(self):
        checks = self.findings("--level", "L2", "--only", "*fatal.fault *", self.plugin("fatal"))
        name = "L2 pass check.fatal.fault (pre_grad): {}"
        self.assertGreaterEqual(len(checks), 3)
        for what in ("larger structs", "refused host calls", "two threads"):
            self.assertFails(checks, name.format(what), "FE-P53", "died: Segmentation fault")

    def test_folder_of_plugins(self):
        done = self.check("--json", "--level", "L0", Settings.builtin)
        self.assertEqual(done.returncode, OK, done.stdout)
        self.assertGreaterEqual(len(json.loads(done.stdout)["plugins"]), 4)

    def test_measuring_what_is_no_backend(self):
        table = self.folder / "none.toml"
        checks = self.findings("--level", "L3", "--capabilities", table, self.plain, status=OK)
        self.assertEqual(checks["L3 capabilities"]["outcome"], "skipped")
        self.assertFalse(table.exists())

    def test_capabilities_that_cannot_be_written(self):
        """Said once and at the start, and not for each kernel."""
        for path in ("/dev/full", self.folder / "nowhere" / "table.toml"):
            done = self.check("--level", "L3", "--capabilities", path, self.plugin("poor_backend"))
            self.assertRefused(done, "FE-P54", f"--capabilities {path}: ")
        kept = self.folder / "kept.toml"
        kept.write_text("kept\n")
        self.check("--level", "L0", "--capabilities", kept, self.plugin("poor_backend"))
        self.assertEqual(kept.read_text(), "kept\n")

    def test_lines_as_they_come(self):
        """Whoever waits sees what is done; the limit is for each check, not for all of them."""
        program = [Settings.ferrite, "plugin", "check", "--level", "L2", "--timeout", "2", self.plugin("fatal")]
        with subprocess.Popen(program, stdout=subprocess.PIPE, text=True) as running:
            self.assertIn("fatal.so", running.stdout.readline())
            begun = time.monotonic()
            running.stdout.readline()
            first = time.monotonic() - begun
            running.stdout.read()
        self.assertLess(first, (time.monotonic() - begun) / 2)

    def test_samples_that_cannot_be_imported(self):
        sample = self.folder / "models" / "broken.fe"
        sample.parent.mkdir()
        sample.write_text("ferrite graph 0\ngraph @g(%x: f32[4]) -> (%0 \"y\") {\n")
        checks = self.findings("--sample", sample, self.plain)
        self.assertFails(checks, "L3 sample models/broken.fe", "FE-G02", "broken.fe:3:1")
        sample.write_text("ferrite graph 0\ngraph @g(%x: f32[4]) -> (%0 \"y\") {\n  %0 = relu(%x) : f32[4]\n}\n")
        checks = self.findings("--level", "L3", "--sample", sample, self.plain, status=OK)
        self.assertEqual(checks["L3 sample models/broken.fe"]["text"], "1 node")
        for level in ("L0", "L1", "L3"):
            for missing in ("nope.fe", self.folder):
                done = self.check("--level", level, "--sample", missing, self.plain)
                self.assertRefused(done, "FE-I01", f"--sample {missing}: ")

    def test_usage(self):
        for words, status, code in (
            (("nothing.so",), BAD_INPUT, "FE-M06"),
            ((self.folder,), BAD_INPUT, "FE-M05"),
            ((), USAGE, "FE-C01"),
            (("--level", "L4", self.plugin("leaky")), USAGE, "FE-C01"),
            (("--safe-mode", self.plugin("leaky")), USAGE, "FE-C01"),
            (("--timeout", "0", self.plugin("leaky")), USAGE, "FE-C01"),
        ):
            done = self.check(*words)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertRegex(done.stderr, rf"^ferrite: {code} ")


if __name__ == "__main__":
    main(__doc__, plugins=PLUGINS / "check", builtin=BUILD / "lib/ferrite/plugins")
