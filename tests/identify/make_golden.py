#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes golden.json: what the magika package itself says about every file under samples/.

The tests do not need the package. To make the golden again, in an environment of its own:
    python3 -m venv build/venv-magika
    build/venv-magika/bin/pip install magika==1.0.3
    build/venv-magika/bin/python tests/identify/make_golden.py
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

from magika import Magika

HERE = Path(__file__).resolve().parent
PINNED = "1.0.3"


def main() -> int:
    if version("magika") != PINNED:
        print(f"make_golden.py: needs magika {PINNED}, found {version('magika')}", file=sys.stderr)
        return 2
    paths = sorted(path for path in (HERE / "samples").iterdir() if not path.name.startswith("."))
    entries = [
        {
            "path": path.relative_to(HERE).as_posix(),
            "label": str(result.output.label),
            "score": round(result.score, 6),
        }
        for path, result in zip(paths, Magika().identify_paths(paths), strict=True)
    ]
    # One entry a line, so that a changed label is one changed line.
    lines = ",\n".join("  " + json.dumps(entry) for entry in entries)
    (HERE / "golden.json").write_text(f"[\n{lines}\n]\n")
    labels = {entry["label"] for entry in entries}
    print(f"{len(entries)} files, {len(labels)} labels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
