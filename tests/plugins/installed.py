# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""An installed Ferrite and what is built against it: commands, CMake projects, their tests. For the tests beside this file."""

import os
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def surroundings() -> dict[str, str]:
    """The environment without what it says of plugins, and without compiler flags of whoever runs the tests."""
    return {key: value for key, value in os.environ.items() if not key.startswith("FERRITE_")}


def call(*command: object, folder: Path = Path("/")) -> str:
    """The standard output of a command, which must succeed. Runs away from the source tree, so that nothing is found there."""
    words = [str(word) for word in command]
    done = subprocess.run(
        words, capture_output=True, text=True, check=False, env=surroundings(), cwd=folder
    )
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(words)}\nexit status {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def build(source: Path, folder: Path, prefix: Path, *options: str, build_type: str = "Release") -> None:
    """Configures and builds a project against the installed tree."""
    call("cmake", "-S", source, "-B", folder, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={prefix}",
         f"-DCMAKE_BUILD_TYPE={build_type}", *options)  # fmt: skip
    call("cmake", "--build", folder, "-j", "2")


def run_tests(folder: Path) -> int:
    """How many tests of a built project passed; all must, and there must be some."""
    text = call("ctest", "--test-dir", folder, "--output-on-failure", "--no-tests=error", "-j", "2")
    return text.count("   Passed ")


class Clock:
    """Seconds since the last lap."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def lap(self) -> float:
        now = time.monotonic()
        seconds, self._last = now - self._last, now
        return seconds
