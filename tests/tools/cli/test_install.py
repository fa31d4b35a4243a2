#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cmake --install` of a build that is not complete copies nothing, and says what to build.

Usage: test_install.py [--build FOLDER] [unittest options]
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import BUILD, ProgramTest, Settings, main  # noqa: E402

BUILT = re.compile(r'TYPE (?:EXECUTABLE|SHARED_LIBRARY|STATIC_LIBRARY|MODULE)\b[^)]*?FILES\s+((?:"[^"]+"\s*)+)')


class InstallTest(ProgramTest):
    def install(self, artefacts):
        """Runs the build's rules of installation, of which the check reads these lines instead of the build's."""
        rules = (Settings.build / "cmake_install.cmake").read_text()
        named = f'set(ferrite_build "{Settings.build}")'
        self.assertEqual(rules.count(named), 1)
        # It stands before everything that copies.
        self.assertNotRegex(rules[: rules.index(named)], r"file\(INSTALL|include\(")
        (self.folder / "rules.cmake").write_text(rules.replace(named, f'set(ferrite_build "{self.folder}")'))
        (self.folder / "installed.txt").write_text("\n".join(artefacts) + "\n")
        return self.call(f"-DCMAKE_INSTALL_PREFIX={self.folder / 'prefix'}", "-P", "rules.cmake", program="cmake")

    def test_what_is_missing_is_named_and_nothing_is_copied(self):
        there = self.folder / "there.so"
        there.write_text("")
        lines = [f"plugin_a {there}", f"plugin_b {self.folder}/b.so", f"ferrite {self.folder}/bin/fer rite"]
        done = self.install(lines)
        self.assertNotEqual(done.returncode, 0)
        said = " ".join(done.stderr.split())
        self.assertIn("nothing is installed, because the build is not complete", said)
        self.assertIn(f"{self.folder}/b.so", said)
        self.assertIn(f"{self.folder}/bin/fer rite", said)
        self.assertIn(f"cmake --build {self.folder} --target plugin_b ferrite", said)
        self.assertNotIn("there.so", said)
        self.assertFalse((self.folder / "prefix").exists())

    def test_all_that_is_installed_is_looked_for(self):
        looked_for = {line.split(" ", 1)[1] for line in (Settings.build / "installed.txt").read_text().splitlines()}
        installed = set()
        for rules in Settings.build.rglob("cmake_install.cmake"):
            text = rules.read_text()
            # Only what the top rules reach: other projects of the tests have rules of their own.
            if str(Settings.build / "tests") in str(rules) or "_deps" in rules.parts:
                continue
            for files in BUILT.findall(text):
                installed.update(re.findall(r'"([^"]+)"', files))
        installed = {file for file in installed if not file.endswith((".so.0", "/libferrite.so"))}  # links
        self.assertGreater(len(installed), 5)
        self.assertEqual(looked_for, installed)


if __name__ == "__main__":
    main(__doc__, build=BUILD)
