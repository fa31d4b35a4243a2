#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tests see the build's own home folder, caches and measurements, whatever the user's shell has.

Usage: test_environment.py [--build FOLDER] [--ferrite FILE] SeenTest|GivenTest [unittest options]; run by ctest
"""

import json
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import BUILD, OK, ProgramTest, Settings, main  # noqa: E402


class SeenTest(ProgramTest):
    """What a test sees."""

    def test_folders_are_the_builds(self):
        for name in ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME"):
            self.assertTrue(Path(os.environ[name]).is_relative_to(Settings.build), f"{name}={os.environ[name]}")
        (Path(os.environ["HOME"]) / "seen").write_text("")
        # The cache's setting is that of all tests in Python; FERRITE_JOBS is of ./dev, not of the programs that it builds.
        settings = {name for name in os.environ if name.startswith("FERRITE_")} - {"FERRITE_JOBS"}
        self.assertEqual(settings, {"FERRITE_CACHE"})

    def test_numbers_are_those_of_the_provider(self):
        done = self.call("targets")
        self.assertEqual(done.returncode, OK, done.stderr)
        self.assertNotIn("measured", done.stdout)


class GivenTest(ProgramTest):
    def test_what_the_user_has_is_not_seen(self):
        given = {name: value for name, value in os.environ.items() if not name.startswith("FERRITE_")}
        home = self.folder / "home"
        home.mkdir()
        cache = self.folder / "cache"
        # Numbers that somebody measured, of whatever device.
        for name in ("targets", "peaks"):
            (cache / "ferrite" / name).mkdir(parents=True)
            for file in ("a.json", "b.json"):
                (cache / "ferrite" / name / file).write_text(json.dumps({"device": "cpu", "workers": 3, "launch_ns": 1}))
        home.chmod(0o500)
        given |= {"HOME": str(home), "XDG_CACHE_HOME": str(cache), "XDG_CONFIG_HOME": "/proc/none",
                  "FERRITE_LOG": "no-channel", "FERRITE_CACHE": "/proc/none", "FERRITE_METRICS": "no-table",
                  "FERRITE_METRICS_DIR": "/proc/none", "FERRITE_PLUGIN_PATH": "/proc/none", "FERRITE_WATCHDOG": "0",
                  "FERRITE_JOBS": "2"}  # fmt: skip
        done = subprocess.run(["ctest", "--test-dir", Settings.build, "-R", "^environment_seen$", "--output-on-failure",
                               "--no-tests=error"], env=given, capture_output=True, text=True, check=False)  # fmt: skip
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    main(__doc__, build=BUILD)
