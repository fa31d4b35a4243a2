#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Where the time of a build goes, from the log that Ninja keeps.

Usage: build_times.py [BUILD-FOLDER] [--top N] [--markdown]

Prints the seconds of each target and of the N slowest steps. A step's time is that of its process: divide the sum by the number of
parallel jobs for the time of the whole. Steps that ccache answered take next to nothing: for figures of a cold build, build with
CCACHE_DISABLE=1 in a fresh folder. With --markdown the targets are a table for docs/contribute/build.md.
"""

import argparse
import re
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OBJECT = re.compile(r"(?P<folder>.*)/CMakeFiles/(?P<target>[^/]+)\.dir/(?P<source>.+)\.(?:o|gch)$")


def steps(log: Path) -> dict[str, float]:
    """Seconds of the last run of each step, by its output; a step with several outputs counts once."""
    newest: dict[tuple[str, str, str], str] = {}
    for line in log.read_text().splitlines()[1:]:
        start, end, _, output, command = line.split("\t")
        newest[output] = (start, end, command)
    seconds, seen = {}, set()
    for output, (start, end, command) in newest.items():
        if (start, end, command) not in seen:
            seen.add((start, end, command))
            seconds[output] = (int(end) - int(start)) / 1000
    return seconds


def name_of(output: str) -> tuple[str, str]:
    """The target of a step and its source, or what it makes."""
    match = OBJECT.fullmatch(output)
    if not match:
        return "linking", Path(output).name
    source = match["source"].replace("cmake_pch.hxx", "precompiled header")
    return match["target"], f"{match['folder']}/{source}" if match["folder"] else source


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", nargs="?", type=Path, default=ROOT / "build/release", help="the folder of a preset's build")
    parser.add_argument("--top", type=int, default=15, metavar="N", help="how many of the slowest steps are listed")
    parser.add_argument("--markdown", action="store_true", help="the targets as a table")
    options = parser.parse_args()
    log = options.build / ".ninja_log"
    if not log.is_file():
        parser.error(f"{log} is not there; build the preset first")
    seconds = steps(log)
    targets: dict[str, list[float]] = defaultdict(list)
    for output, time in seconds.items():
        targets[name_of(output)[0]].append(time)
    rows = sorted(targets.items(), key=lambda item: -sum(item[1]))
    total = sum(seconds.values())
    if options.markdown:
        print("| target | steps | seconds | share |\n| --- | ---: | ---: | ---: |")
        for target, times in rows[: options.top]:
            print(f"| `{target}` | {len(times)} | {sum(times):.0f} | {100 * sum(times) / total:.0f} % |")
        return
    print(f"{len(seconds)} steps, {total:.0f} s of processes")
    for target, times in rows:
        print(f"  {sum(times):7.1f} s  {len(times):4} steps  {target}")
    print("slowest steps")
    for output, time in sorted(seconds.items(), key=lambda item: -item[1])[: options.top]:
        print(f"  {time:7.1f} s  {name_of(output)[1]}")


if __name__ == "__main__":
    main()
