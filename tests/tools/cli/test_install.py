#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`cmake --install` of a component that is not complete, not known or of no use in the prefix copies nothing, and says what to do.

Usage: test_install.py [--build FOLDER] [unittest options]
"""

import re
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from program import BUILD, ProgramTest, Settings, main  # noqa: E402

BUILT = re.compile(r'TYPE (?:EXECUTABLE|SHARED_LIBRARY|STATIC_LIBRARY|MODULE)\b[^)]*?FILES\s+((?:"[^"]+"\s*)+)')


class InstallTest(ProgramTest):
    def install(self, artefacts, *options):
        """Runs the build's rules of installation, of which the check reads these lines instead of the build's."""
        rules = (Settings.build / "cmake_install.cmake").read_text()
        named = f'set(ferrite_build "{Settings.build}")'
        self.assertEqual(rules.count(named), 1)
        # It stands before everything that copies.
        self.assertNotRegex(rules[: rules.index(named)], r"file\(INSTALL|include\(")
        (self.folder / "rules.cmake").write_text(rules.replace(named, f'set(ferrite_build "{self.folder}")'))
        (self.folder / "installed.txt").write_text("\n".join(artefacts) + "\n")
        shutil.copy(Settings.build / "components.txt", self.folder)
        return self.call(f"-DCMAKE_INSTALL_PREFIX={self.folder / 'prefix'}", *options, "-P", "rules.cmake", program="cmake")

    def lines(self, *there):
        """A build of these targets, of two components; files of those that are there."""
        for target in there:
            (self.folder / target).write_text("")
        return [f"{component} {target} {self.folder / target}"
                for component, target in (("compiler", "fer"), ("compiler", "lib"), ("cuda", "driver"), ("cuda", "blas"))]

    def test_what_is_missing_is_named_and_nothing_is_copied(self):
        for there, missing in ((("lib", "driver", "blas"), "fer"), (("fer", "lib", "driver"), "blas"), (("driver", "blas"), "fer lib")):
            with self.subTest(there):
                for file in self.folder.iterdir():
                    file.unlink()
                done = self.install(self.lines(*there))
                self.assertNotEqual(done.returncode, 0)
                said = " ".join(done.stderr.split())
                self.assertIn("nothing is installed, because the build is not complete", said)
                self.assertIn(f"cmake --build {self.folder} --target {missing}", said)
                for target in missing.split():
                    self.assertIn(str(self.folder / target), said)
                self.assertFalse((self.folder / "prefix").exists())

    def test_a_component_that_is_not_built_is_left_out(self):
        done = self.install(self.lines("fer", "lib"))
        self.assertNotIn("nothing is installed", done.stderr)
        self.assertIn("Not built, so not installed: component cuda", done.stdout)

    def test_a_component_that_is_not_known_is_refused(self):
        done = self.install(self.lines("fer", "lib"), "-DCMAKE_INSTALL_COMPONENT=compilers")
        self.assertNotEqual(done.returncode, 0)
        said = " ".join(done.stderr.split())
        self.assertIn("there is no component 'compilers'", said)
        names = re.search(r"the components are (.+?) Call Stack", said)[1].split(", ")
        self.assertTrue({"compiler", "docs", "runtime", "sdk"} <= set(names), names)
        self.assertNotIn("Unspecified", names)
        self.assertFalse((self.folder / "prefix").exists())

    def test_a_component_needs_another_one(self):
        for component, part, needed, file in (
            ("compiler", "ferrite/plugins/a.so", "runtime", "libferrite_runtime.so"),
            ("level_zero", "ferrite/plugins/a.so", "runtime", "libferrite_runtime.so"),
            ("emitter", "a.a", "sdk", "cmake/Ferrite/FerriteConfig.cmake"),
        ):
            with self.subTest(component):
                artefacts = [f"{component} part {self.folder / part}"]
                done = self.install(artefacts, f"-DCMAKE_INSTALL_COMPONENT={component}")
                self.assertNotEqual(done.returncode, 0)
                said = " ".join(done.stderr.split())
                self.assertIn(f"component '{component}' needs component '{needed}'", said)
                command = f"cmake --install {self.folder} --component {needed} --prefix {self.folder / 'prefix'}"
                self.assertIn(command, said)
                self.assertFalse((self.folder / "prefix").exists())
                library = next(Path(part[1]) for part in re.finditer(r"no (\S+)\)", said))
                self.assertTrue(library.is_relative_to(self.folder / "prefix") and library.match(file), library)
                # Once it is there, the check goes on to the component's own parts.
                library.parent.mkdir(parents=True)
                library.touch()
                done = self.install(artefacts, f"-DCMAKE_INSTALL_COMPONENT={component}")
                self.assertIn("the build is not complete", " ".join(done.stderr.split()))
                shutil.rmtree(self.folder / "prefix")

    def test_all_that_is_installed_is_looked_for(self):
        looked_for = {line.split(" ", 2)[2] for line in (Settings.build / "installed.txt").read_text().splitlines()}
        installed = set()
        for rules in Settings.build.rglob("cmake_install.cmake"):
            text = rules.read_text()
            # Only what the top rules reach: other projects of the tests have rules of their own.
            if str(Settings.build / "tests") in str(rules) or "_deps" in rules.parts:
                continue
            for files in BUILT.findall(text):
                installed.update(re.findall(r'"([^"]+)"', files))
        installed = {file for file in installed if not file.endswith((".so.0", "/libferrite.so", "/libferrite_runtime.so"))}  # links
        self.assertGreater(len(installed), 5)
        self.assertEqual(looked_for, installed)


if __name__ == "__main__":
    main(__doc__, build=BUILD)
