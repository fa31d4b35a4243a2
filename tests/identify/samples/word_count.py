#!/usr/bin/env python3
"""Counts words in the files given and prints the most common ones."""

import argparse
import collections
import re
from pathlib import Path

WORD = re.compile(r"[a-z']+")


def count(paths):
    words = collections.Counter()
    for path in paths:
        words.update(WORD.findall(path.read_text(encoding="utf-8").lower()))
    return words


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--top", type=int, default=10)
    arguments = parser.parse_args()
    for word, number in count(arguments.paths).most_common(arguments.top):
        print(f"{number:8d}  {word}")


if __name__ == "__main__":
    main()
