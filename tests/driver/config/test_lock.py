#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lock files, profiles, safe mode and the order of passes on the command line.

Usage: test_lock.py [--ferrite FILE] [--plugins DIRECTORY] [unittest options]
"""

import hashlib
import re
import shutil
import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from program import BAD_INPUT, OK, PLUGINS, ROOT, USAGE, ProgramTest, Settings, main  # noqa: E402

DESCRIPTOR = """schema = 0
id = "test.hooks"
version = "1.0.0"
library = "hooks.so"
abi = "0.1"
rules = ["silu.fe"]
provides = ["hooks"]

[config]
forbid = "integers"
force = "integers"
split = { type = "boolean", default = false, doc = "whether groups are split" }
"""
RULES = """ferrite rules 0
rule test.silu at post_grad_pre {
  match { %s = sigmoid(%x) once   %r = mul(%x, %s) }
  yield { %r = silu(%x) }
}
"""
MANIFEST = """schema = 0
search = ["plugins"]
enable = ["test.hooks"]

[profile.more]
enable = ["test.twice"]
[profile.more.plugin."test.twice"]
library = "twice.so"
"""


class LockTest(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.folder / "plugins").mkdir()
        self.library = self.folder / "plugins/hooks.so"
        shutil.copy(Settings.plugins / "hooks.so", self.library)
        self.descriptor = self.folder / "plugins/test.hooks.plugin.toml"
        self.descriptor.write_text(DESCRIPTOR)
        self.rules = self.folder / "plugins/silu.fe"
        self.rules.write_text(RULES)
        self.manifest = self.folder / "ferrite.toml"
        self.manifest.write_text(MANIFEST)
        self.lock = self.folder / "ferrite.lock"

    def plugin(self, *words):
        return self.call("plugin", *words)

    def list(self, *options):
        return self.plugin("list", "--manifest", self.manifest, *options)

    def locked(self, manifest=MANIFEST):
        """The lock file of a manifest without profiles, or of another one."""
        self.manifest.write_text(manifest.split("\n[profile")[0] + "\n" if manifest is MANIFEST else manifest)
        done = self.plugin("lock", "--manifest", self.manifest)
        self.assertEqual(done.returncode, OK, done.stderr)
        return tomllib.loads(self.lock.read_text())

    def test_names_and_hashes_every_file(self):
        plugins = {one["id"]: one for one in self.locked()["plugin"]}
        self.assertEqual(set(plugins), {"ferrite.cpu", "ferrite.onnx", "ferrite.passes", "ferrite.std", "ferrite.torch", "test.hooks"})
        hooks = plugins["test.hooks"]
        self.assertEqual((hooks["version"], hooks["library"]), ("1.0.0", "plugins/hooks.so"))
        self.assertEqual(hooks["library_sha256"], hashlib.sha256(self.library.read_bytes()).hexdigest())
        self.assertEqual(hooks["descriptor_sha256"], hashlib.sha256(DESCRIPTOR.encode()).hexdigest())
        self.assertEqual(hooks["rules"], [{"path": "plugins/silu.fe", "sha256": hashlib.sha256(RULES.encode()).hexdigest()}])
        self.assertEqual(plugins["ferrite.std"]["library"], "built-in:ferrite_std.so")
        before = self.lock.read_bytes()
        self.locked()
        self.assertEqual(self.lock.read_bytes(), before)

    def test_what_is_locked_loads(self):
        self.locked()
        done = self.list("--why")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn(f"locked by: {self.lock}", done.stdout)
        self.assertRegex(done.stdout, r"locked: SHA-256 [0-9a-f]{64}")
        self.assertEqual(self.plugin("lock", "--check", "--manifest", self.manifest).returncode, OK)
        done = self.call("opt", ROOT / "docs/examples/tutorial.fe", "--to", "post_grad", "--manifest", self.manifest)
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_changed_files(self):
        changes = {
            self.library: lambda: self.library.write_bytes(self.library.read_bytes() + b"\0"),
            self.rules: lambda: self.rules.write_text(RULES + "# more\n"),
            self.descriptor: lambda: self.descriptor.write_text(DESCRIPTOR + "# more\n"),
        }
        for path, change in changes.items():
            with self.subTest(path=path.name):
                before = path.read_bytes()
                self.locked()
                change()
                self.assertRefused(self.list(), "FE-M23", re.escape(str(path)))
                check = self.plugin("lock", "--check", "--manifest", self.manifest)
                self.assertRefused(check, "FE-M24", "of 'test.hooks' is another one")
                path.write_bytes(before)
                self.assertEqual(self.list().returncode, OK)

    def test_skipped_where_it_is_changed(self):
        self.locked('schema = 0\nsearch = ["plugins"]\nenable = ["test.hooks"]\n[plugin."test.hooks"]\non_error = "skip"\n')
        self.library.write_bytes(self.library.read_bytes() + b"\0")
        done = self.list()
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("test.hooks: skipped", done.stdout)

    def test_isolated_plugins(self):
        """The child that loads the library compares, too."""
        library = self.folder / "throws.so"
        shutil.copy(Settings.plugins / "throws.so", library)
        self.locked('schema = 0\nenable = ["test.throws"]\n[plugin."test.throws"]\nlibrary = "throws.so"\nisolation = "process"\n')
        done = self.list("--why")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertIn("in a process of its own", done.stdout)
        library.write_bytes(library.read_bytes() + b"\0")
        self.assertRefused(self.list(), "FE-M23", re.escape(str(library)))

    def test_plugins_that_are_not_locked(self):
        self.locked()
        shutil.copy(Settings.plugins / "pure_c.so", self.folder / "pure_c.so")
        self.manifest.write_text('schema = 0\nenable = ["test.pure_c"]\n[plugin."test.pure_c"]\nlibrary = "pure_c.so"\n')
        self.assertRefused(self.list(), "FE-M24", "'test.pure_c'.*not locked.*ferrite plugin lock")
        self.assertEqual(self.list("--plugin", self.library).returncode, BAD_INPUT)
        # What the command line names is not the manifest's.
        self.manifest.write_text("schema = 0\n")
        done = self.list("--plugin", self.folder / "pure_c.so")
        self.assertEqual(done.returncode, OK, done.stderr)

    def test_moved_library(self):
        self.locked()
        shutil.copytree(self.folder / "plugins", self.folder / "others")
        self.manifest.write_text('schema = 0\nsearch = ["others"]\nenable = ["test.hooks"]\n')
        self.assertRefused(self.list(), "FE-M24", "'test.hooks' has other files than the lock says: others/hooks.so")

    def test_holds_every_profile(self):
        shutil.copy(Settings.plugins / "pure_c.so", self.folder / "twice.so")
        manifest = MANIFEST.replace("test.twice", "test.pure_c")
        ids = [one["id"] for one in self.locked(manifest)["plugin"]]
        self.assertIn("test.pure_c", ids)
        self.assertEqual(self.list("--profile", "more").returncode, OK)
        self.assertRefused(self.list("--profile", "moer"), "FE-M19", "did you mean 'more'")

    def test_plugin_that_stands_there_twice(self):
        """The hashes of one of them would count, and a reader sees the other."""
        self.locked()
        text = self.lock.read_text()
        entry = text[text.index("[[plugin]]") :].split("\n[[plugin]]")[0]
        self.lock.write_text(text + "\n" + re.sub("[0-9a-f]{64}", "0" * 64, entry))
        line = text.count("\n") + 3
        self.assertRefused(self.list(), "FE-M08", rf"ferrite\.lock:{line}:.*locked twice, at .*ferrite\.lock:")

    def test_bad_lock_files(self):
        self.locked()
        text = self.lock.read_text()
        cases = {
            "schema = 0\nplugins = []\n": ("FE-M02", "2:1.*did you mean 'plugin'"),
            "schema = 7\n": ("FE-M04", "1:10"),
            "schema = 0\n[[plugin]]\n": ("FE-M03", r"2:\d+.*'id'"),
            re.sub(r'library_sha256 = "[0-9a-f]', 'library_sha256 = "X', text, count=1): ("FE-M03", "64 hexadecimal"),
            re.sub(r"library_sha256 = .*", "", text, count=1): ("FE-M03", "stand together"),
            "[[[": ("FE-M01", "1:"),
        }
        for bad, (code, pattern) in cases.items():
            with self.subTest(text=bad[:40]):
                self.lock.write_text(bad)
                self.assertRefused(self.list(), code, re.escape(str(self.lock)) + ":.*" + pattern)

    def test_usage(self):
        self.assertRefused(self.plugin("lock"), "FE-C01", "--manifest", USAGE)
        self.assertRefused(self.plugin("lock", "--manifest", self.manifest, "--profile", "more"), "FE-C01", "--profile", USAGE)
        self.assertRefused(self.plugin("lock", "--check", "--manifest", self.manifest), "FE-M0[56]|FE-M14", "ferrite|twice")
        self.assertRefused(self.plugin("schema", "manifst"), "FE-C01", "did you mean 'manifest'", USAGE)
        self.assertRefused(self.plugin("order", "post_gard"), "FE-C04", "did you mean 'post_grad'", USAGE)

    def test_safe_mode(self):
        self.manifest.write_text("this is no TOML")
        self.assertRefused(self.list(), "FE-M01", "ferrite.toml:1:")
        done = self.list("--safe-mode", "--plugin", self.folder / "none.so")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertNotIn("test.hooks", done.stdout)

    def test_why(self):
        self.manifest.write_text(MANIFEST)
        done = self.list("--why")
        self.assertEqual(done.returncode, OK, done.stderr)
        for text in ("searched, in this order:", f"  {self.folder}/plugins", "profiles: more", "provides: hooks",
                     "split = false: whether groups are split", "test.silu", "passes: test.hooks", f"why: {self.manifest}:3:11"):  # fmt: skip
            self.assertIn(text, done.stdout)

    def test_order(self):
        self.manifest.write_text(MANIFEST + '[pass."test.hooks.post_grad"]\nafter = ["passes.cse"]\n')
        done = self.plugin("order", "post_grad", "--manifest", self.manifest)
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertRegex(
            done.stdout,
            r"\d+ test.hooks.post_grad \(test.hooks\)\n +after passes.cse: 'test.hooks.post_grad' says after = "
            r'"passes.cse", ' + re.escape(str(self.manifest)) + r":\d+:10\n",
        )
        self.assertNotIn("pre_grad", done.stdout)
        whole = self.plugin("order", "--manifest", self.manifest)
        self.assertIn("pre_grad:\n", whole.stdout)

    def test_order_of_a_cycle(self):
        self.manifest.write_text(MANIFEST + '[pass."test.hooks.pre_grad"]\nafter = ["test.hooks.a_late"]\n')
        done = self.plugin("order", "--manifest", self.manifest)
        edge = r"test.hooks.a_late -> test.hooks.pre_grad \('test.hooks.pre_grad' says after = .*ferrite.toml:\d+:10\)"
        self.assertRefused(done, "FE-M10", edge)


if __name__ == "__main__":
    main(__doc__, plugins=PLUGINS)
