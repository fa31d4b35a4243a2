#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""./dev tells a wrong command line before it does anything.

Usage: test_dev_usage.py [unittest options]
"""

import subprocess
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
OK, FAILED, USAGE = 0, 1, 2


class DevUsageTest(unittest.TestCase):
    def call(self, *words):
        return subprocess.run([ROOT / "dev", *words], cwd=ROOT, capture_output=True, text=True, check=False)

    def test_help(self):
        expected = self.call("--help").stdout
        self.assertTrue(expected.startswith("Usage: ./dev COMMAND"))
        for command in ("demo", "test", "build", "setup"):
            with self.subTest(command=command):
                done = self.call(command, "--help")
                self.assertEqual((done.returncode, done.stdout), (OK, expected))

    def test_wrong_usage(self):
        for text, words in (("Usage", ()), ("unknown command 'foo'", ("foo",)), ("unknown preset 'foo'", ("build", "foo")),
                            ("'extra' is one more", ("build", "release", "extra")), ("'extra' is one more", ("setup", "asan", "extra")),
                            ("'extra' is one more", ("test", "--long", "extra")), ("no argument 'release'", ("test", "release")),
                            ("no option '--foo'", ("demo", "--foo"))):
            with self.subTest(words=words):
                done = self.call(*words)
                self.assertEqual((done.returncode, done.stdout), (USAGE, ""))
                self.assertIn(text, done.stderr)

    def test_missing_file(self):
        done = self.call("demo", "/nowhere/file")
        self.assertEqual((done.returncode, done.stderr), (FAILED, "dev: no such file: /nowhere/file\n"))


if __name__ == "__main__":
    unittest.main()
