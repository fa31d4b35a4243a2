#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What fifty enabled plugins cost at start-up: the wall time of `ferrite plugin order` with them and without.

Usage: startup.py [--build DIRECTORY] [--rounds N] [--limit MS]
The two are run in turns, N times each; medians and their difference are printed. --limit fails where the difference is
larger. The plugins are those of bench/startup, the target startup_plugins.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COUNT = 50


def milliseconds(command: list[str]) -> tuple[float, str]:
    """How long a command takes, and what it prints."""
    start = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return (time.perf_counter() - start) * 1000, done.stdout


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=Path, default=ROOT / "build/release")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--limit", type=float, help="milliseconds")
    options = parser.parse_args()
    build = options.build.resolve()
    with tempfile.TemporaryDirectory(prefix="ferrite-startup-") as scratch:
        manifest = Path(scratch) / "ferrite.toml"
        ids = ", ".join(f'"bench.startup_{k}"' for k in range(1, COUNT + 1))
        manifest.write_text(f'schema = 0\nsearch = ["{build}/lib/ferrite/startup_plugins"]\nenable = [{ids}]\n')
        without = [str(build / "bin/ferrite"), "plugin", "order"]
        commands = {"without": without, f"with {COUNT}": [*without, "--manifest", str(manifest)]}
        times: dict[str, list[float]] = {name: [] for name in commands}
        for turn in range(options.rounds + 1):
            for name, command in commands.items():
                taken, printed = milliseconds(command)
                found = printed.count("(bench.startup_")
                if found != (COUNT if command is not without else 0):
                    print(f"{name}: {found} of the plugins have their pass")
                    return 1
                if turn > 0:  # the first reads files into memory
                    times[name].append(taken)
    medians = {name: statistics.median(values) for name, values in times.items()}
    for name, median in medians.items():
        print(f"{name + ' plugins':<20} {median:7.2f} ms")
    plain, loaded = medians.values()
    print(f"{'difference':<20} {loaded - plain:7.2f} ms, median of {options.rounds}")
    if options.limit is not None and loaded - plain > options.limit:
        print(f"more than {options.limit} ms")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
