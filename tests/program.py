# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The program under test, for tests of the command line: its place, a scratch folder for each test, calls of it."""

import argparse
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/release"
PLUGINS = BUILD / "lib/ferrite/test_plugins"
OK, WRONG, USAGE, BAD_INPUT, UNSUPPORTED, DEVICE, INTERNAL = 0, 1, 2, 3, 4, 5, 70  # exit statuses


class Settings:
    """Where the program is, and what else main() gets."""

    ferrite = BUILD / "bin/ferrite"


class ProgramTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="ferrite-test-")
        self.addCleanup(scratch.cleanup)
        self.folder = Path(scratch.name)

    def call(self, *words, program=None, environment=None, stdout=subprocess.PIPE):
        """The finished process of `ferrite WORDS`, or of another program, in the scratch folder. A program that hangs is stopped
        by the test's limit in ctest, which knows of sanitizers; a limit here fails on a busy machine."""
        return subprocess.run([str(program or Settings.ferrite), *map(str, words)], cwd=self.folder, stdout=stdout,
                              stderr=subprocess.PIPE, text=True, errors="replace", check=False,
                              env=os.environ | {"FERRITE_CACHE": "off"} | (environment or {}))  # fmt: skip

    def assertRefused(self, done, code, pattern, status=BAD_INPUT):
        """The exit status, an error with this code, and the pattern in what is said."""
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertRegex(done.stderr, r"(?m)^ferrite: " + code + r" ")
        self.assertRegex(done.stderr, pattern)


def main(doc, **settings):
    """Runs the script's tests. Each setting is an option, of its default's type, and a name in Settings; paths are made absolute."""
    parser = argparse.ArgumentParser(description=doc.splitlines()[0])
    for name, default in {"ferrite": Settings.ferrite, **settings}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default)
    arguments, rest = parser.parse_known_args()
    for name, value in vars(arguments).items():
        setattr(Settings, name, value.resolve() if isinstance(value, Path) else value)
    unittest.main(module="__main__", argv=[sys.argv[0], *rest])
