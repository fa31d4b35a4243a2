#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The spelling of the documentation, in British English, by hunspell.

Usage: check_spelling.py [--root DIRECTORY] [--words FILE] [PAGE...]
Prints one line a violation; exit status 1 when there is any. Without PAGE, all pages of docs/, examples/
and sdk/, the museum's and README.md are read.

Code, addresses of links, comments and tags are left out, and so are words with a digit or an underscore. The
project's own words are in docs/site/words.txt, one a line: a lower-case word is known in any case, another one
only as it stands. The list is sorted, and each of its words is used by a page and unknown to the dictionary.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

DICTIONARY = "en_GB"
PAGES = ("README.md", "docs/**/*.md", "examples/**/*.md", "sdk/**/*.md", "tests/museum/*.md")
FENCE = re.compile(r"^\s*(`{3,}|~{3,})")
LEFT_OUT = re.compile(
    r"<!--.*?-->|`[^`]*`|\]\([^)]*\)|\{#[^}]*\}|<[^>]*>|https?://\S+|\S*[\d_/\\@]\S*", re.DOTALL
)
WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*")


def words_of(text: str) -> list[tuple[int, str]]:
    """The words of a page, each with its line."""
    lines, fenced = [], False
    for line in text.splitlines():
        fence = bool(FENCE.match(line))
        lines.append("" if fenced or fence or line.startswith("    ") else line)
        fenced ^= fence
    # A comment or code may go over several lines, of which none is lost.
    plain = LEFT_OUT.sub(lambda match: " " + "\n" * match[0].count("\n"), "\n".join(lines))
    return [
        (number, word[0].replace("’", "'"))
        for number, line in enumerate(plain.splitlines(), 1)
        for word in WORD.finditer(line)
    ]


def unknown_to_dictionary(words: set[str]) -> set[str]:
    done = subprocess.run(
        ["hunspell", "-d", DICTIONARY, "-i", "utf-8", "-l"],
        input="\n".join(sorted(words)) + "\n",
        capture_output=True,
        text=True,
        check=True,
    )
    if done.stderr:
        sys.exit(f"hunspell: {done.stderr.strip()}")
    return set(done.stdout.split())


def stem(word: str) -> str:
    return word.removesuffix("'s").removesuffix("s'") if "'" in word else word


def is_known(word: str, known: set[str]) -> bool:
    return word in known or word.lower() in known or stem(word) in known or stem(word).lower() in known


def list_faults(entries: list[str], used: set[str], unknown: set[str]) -> list[str]:
    """What is wrong with the list of words."""
    faults = [
        f"'{b}' stands after '{a}'"
        for a, b in zip(entries, entries[1:], strict=False)
        if b.lower() <= a.lower()
    ]
    plain = {stem(word) for word in used} | used
    plain |= {word.lower() for word in plain}
    for word in entries:
        if word not in plain:
            faults.append(f"no page has the word '{word}'")
        elif word not in unknown:
            faults.append(f"the dictionary has the word '{word}'")
    return faults


def main() -> int:
    here = Path(__file__).resolve().parents[2]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=here)
    parser.add_argument("--words", type=Path, default=Path("docs/site/words.txt"))
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE")
    options = parser.parse_args()
    root = options.root.resolve()
    pages = options.pages or sorted(p.relative_to(root) for pattern in PAGES for p in root.glob(pattern))
    entries = (root / options.words).read_text(encoding="utf-8").split()
    found = [
        (page, line, word)
        for page in pages
        for line, word in words_of((root / page).read_text(encoding="utf-8"))
    ]
    used = {word for _, _, word in found}
    unknown = unknown_to_dictionary(used | {stem(word) for word in used} | set(entries))
    known = set(entries)
    faults = []
    for page, line, word in found:
        if word in unknown and stem(word) in unknown and not is_known(word, known):
            faults.append(
                f"{page}:{line}: '{word}' is not in the dictionary; is it a term for {options.words}?"
            )
    if not options.pages:
        faults += [f"{options.words}: {fault}" for fault in list_faults(entries, used, unknown)]
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
