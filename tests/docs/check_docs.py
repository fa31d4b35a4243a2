#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Pages of the documentation against the program, the sources and each other.

Usage: check_docs.py [--root DIRECTORY] [--build DIRECTORY] [--bless] PAGE...
Prints one line a violation; exit status 1 when there is any.

  console blocks   Each `$ command` is run in the root with bash; what follows it is its output, standard error included.
                   A line `...` stands for any lines, `…` within a line for any text. A command that fails says so
                   in a last line, `exit status N`. `build/release` in a command is the build directory given.
                   A comment `<!-- not run: REASON -->` before the block exempts it. Commands that use the
                   environment with PyTorch are left out, with a line, where it is missing, and so are the commands
                   after them that name a path under /tmp which those, or the scripts that they run, name.
  file excerpts    A block after `<!-- file: PATH -->` is the file, or lines of it that follow each other; less
                   indent is allowed.
  links            A link to a file of the repository names one that is there, and a heading or a line that it has. Links
                   whose text goes over two lines, pictures and HTML count, too.
  width            No line of a block is longer than 110 columns.
  length           README.md has at most 150 lines, and glossary.md at most 40 words; a row may have several.
  coverage         command-line.md names what --help names, numerics.md the bounds that the tests hold the vector
                   math to.
  names            In the pages that guide through the code, a name of C++ in backquotes occurs in the sources (as a
                   word; `A::b` also as that text, or in a file that declares A), and so does the name of a file.
                   A name has 6 characters or more and a capital or an underscore. CMakeLists.txt are sources, too.

--bless prints what each command gave instead, for writing a page.
"""

import argparse
import functools
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

LONGEST_LINE = 110
LONGEST_README, LONGEST_GLOSSARY = 150, 40
TIMEOUT_SECONDS = 250.0  # of a command, on a busy machine
PYTORCH = "build/torch/bin/python"  # the interpreter of the environment with PyTorch
FENCE = re.compile(r"^(`{3,})\s*(\w*)\s*$")
COMMENT = re.compile(r"^<!--\s*(file|not run):\s*(.*?)\s*-->$")
LINK = re.compile(r"""\[[^\]]*\]\(([^)\s]+)\)|^\[[^\]]+\]:\s+(\S+)|<(?:a|img)\s[^>]*(?:href|src)="([^"]+)\"""", re.MULTILINE)
TEMPORARY = re.compile(r"/tmp/[\w./-]*\w")
CODE = re.compile(r"(`+)(?:(?!\1).)+?\1", re.DOTALL)

GUIDES = ("docs/contribute/read-the-code.md", "docs/architecture.md")  # the pages whose names of C++ are checked
SOURCES = ("core", "python", "runtime", "driver", "tools", "sdk", "plugins", "passes", "backends", "tests")
SUFFIXES = (".h", ".hpp", ".cpp", ".c", ".def", ".py")
NAME = re.compile(r"(?=[\w:]{6})\w*[A-Z_]\w*(?:::\w+)*|(?=[\w:]{6})\w+(?:::\w+)+")
FILE = re.compile(r"[\w-]+\.(?:hpp|cpp|h|c|def)")


@dataclass
class Block:
    """A fenced block: the line of its fence, its language, what the comment before it says, its lines."""

    line: int
    language: str
    note: tuple[str, str] | None
    lines: list[str]


@dataclass
class Command:
    """A command of a console block and the output that the page gives for it."""

    line: int
    text: str
    expected: list[str]


def blocks_of(text: str) -> list[Block]:
    """The fenced blocks of a page."""
    blocks, opened, note = [], None, None
    for number, line in enumerate(text.splitlines(), 1):
        fence = FENCE.match(line)
        if opened is not None:
            if fence and not fence[2]:
                blocks.append(opened)
                opened = note = None
            else:
                opened.lines.append(line)
        elif fence:
            opened = Block(number, fence[2], note, [])
        elif comment := COMMENT.match(line):
            note = (comment[1], comment[2])
        elif line.strip():
            note = None
    return blocks


def commands_of(block: Block) -> list[Command]:
    """The commands of a console block; a line that ends in a backslash goes on."""
    commands: list[Command] = []
    continued = False
    for number, line in enumerate(block.lines, block.line + 1):
        if continued:
            commands[-1].text += "\n" + line
        elif line.startswith("$ "):
            commands.append(Command(number, line[2:], []))
        elif commands:
            commands[-1].expected.append(line)
        continued = bool(commands) and line.endswith("\\") and not commands[-1].expected
    return commands


def line_matches(pattern: str, line: str) -> bool:
    """Whether a line is what the page shows, `…` being any text."""
    expression = ".*".join(re.escape(part) for part in pattern.rstrip().split("…"))
    return re.fullmatch(expression, line.rstrip()) is not None


def mismatch(expected: list[str], actual: list[str]) -> str:
    """Empty where lines are what the page shows, `...` being any lines; else what is wrong."""
    reachable = {0}  # how many lines of the output may be used up
    for pattern in expected:
        if pattern == "...":
            reachable = set(range(min(reachable), len(actual) + 1))
        else:
            reachable = {k + 1 for k in reachable if k < len(actual) and line_matches(pattern, actual[k])}
        if not reachable:
            return f"'{pattern}' is not in the output, or not in this place"
    return "" if len(actual) in reachable else "the output has more lines than the page"


def run(command: str, root: Path, build: Path) -> list[str]:
    """The lines that a command gives, with a last one where it fails."""
    built = str(build.relative_to(root)) if build.is_relative_to(root) else str(build)
    text = command.replace("build/release", built)
    done = subprocess.run(
        ["bash", "-c", text],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    lines = done.stdout.decode("utf-8", errors="replace").replace(built, "build/release").splitlines()
    if done.returncode != 0:
        lines.append(f"exit status {done.returncode}")
    return lines


def paths_made_by(command: str, root: Path) -> set[str]:
    """The paths under /tmp in a command and in the scripts of the repository that it runs."""
    scripts = [root / word for word in command.split() if word.endswith(".py") and (root / word).is_file()]
    return set(TEMPORARY.findall("\n".join([command, *(script.read_text(encoding="utf-8") for script in scripts)])))


def console_faults(block: Block, root: Path, build: Path, show: bool, absent: set[str]) -> list[tuple[int, str]]:
    """absent: the paths that commands would have made which are left out; those of this block are added."""
    faults = []
    commands = commands_of(block)
    if not commands:
        return [(block.line, "a console block without a line '$ command'")]
    for command in commands:
        if PYTORCH in command.text and not (root / PYTORCH).exists():
            print(f"not run, since `./dev setup torch` made no environment: {command.text}")
            absent |= paths_made_by(command.text, root)
            continue
        if any(path == made or path.startswith(made + "/") for path in TEMPORARY.findall(command.text) for made in absent):
            print(f"not run, since it reads a file of a command that was not run: {command.text}")
            continue
        try:
            actual = run(command.text, root, build)
        except subprocess.TimeoutExpired:
            faults.append((command.line, f"'{command.text}' takes longer than {TIMEOUT_SECONDS:.0f} s"))
            continue
        if show:
            print(f"$ {command.text}", *actual, sep="\n")
        elif fault := mismatch(command.expected, actual):
            faults.append((command.line, f"'{command.text}': {fault}"))
            faults += [(command.line, "  | " + line) for line in actual[:40]]
    return faults


def dedented(lines: list[str]) -> list[str]:
    """Lines without the indent that they share."""
    shared = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return [line[shared:].rstrip() for line in lines]


def excerpt_faults(block: Block, root: Path) -> list[tuple[int, str]]:
    path = block.note[1]
    if not (root / path).is_file():
        return [(block.line, f"there is no file {path}")]
    source = (root / path).read_text(encoding="utf-8").splitlines()
    wanted = dedented(block.lines)
    for start in range(len(source) - len(wanted) + 1):
        if dedented(source[start : start + len(wanted)]) == wanted:
            return []
    return [(block.line, f"the block is not part of {path}")]


def headings_of(text: str) -> set[str]:
    """The anchors of a page's headings."""
    anchors, fenced = set(), False
    for line in text.splitlines():
        fenced ^= bool(FENCE.match(line))
        if not fenced and line.startswith("#"):
            title = re.sub(r"[^\w\- ]", "", line.lstrip("#").strip().lower())
            anchors.add(title.replace(" ", "-"))
    return anchors


def without_code(text: str) -> str:
    """The same lines without fenced blocks and code in lines."""
    lines, fenced = [], False
    for line in text.splitlines():
        fence = bool(FENCE.match(line))
        lines.append("" if fenced or fence else line)
        fenced ^= fence
    # Code in a line ends with its paragraph at the latest.
    paragraphs = re.split(r"(\n\s*\n)", "\n".join(lines))
    return "".join(CODE.sub(lambda code: "`" + "\n" * code[0].count("\n"), part) for part in paragraphs)


def link_fault(page: Path, root: Path, target: str) -> str | None:
    """What is wrong with a link of a page."""
    path, _, anchor = target.partition("#")
    file = (page.parent / path).resolve() if path else page
    if path.startswith("/") or not file.is_relative_to(root):
        return f"the link {target} leads out of the repository"
    if not file.exists():
        return f"the link {target} leads to nothing"
    if not anchor:
        return None
    if file.suffix == ".md":
        known = anchor in headings_of(file.read_text(encoding="utf-8"))
        return None if known else f"{file.name} has no heading '{anchor}'"
    line = re.fullmatch(r"L(\d+)", anchor)
    if line and file.is_file() and int(line[1]) <= len(file.read_bytes().splitlines()):
        return None
    return f"{file.name} has no place '{anchor}'"


def link_faults(page: Path, root: Path, text: str) -> list[tuple[int, str]]:
    faults = []
    plain = without_code(text)
    for link in LINK.finditer(plain):
        target = link[1] or link[2] or link[3]
        if re.match(r"\w+://|mailto:", target):
            continue
        if fault := link_fault(page, root, target):
            faults.append((plain.count("\n", 0, link.end()) + 1, fault))
    return faults


def help_of(ferrite: Path, command: list[str]) -> str:
    return subprocess.run([ferrite, *command, "--help"], capture_output=True, text=True, check=True).stdout


def command_line_faults(text: str, ferrite: Path) -> list[str]:
    """Commands, options, stages and channels of --help that the page lacks, and options that only the page has."""
    sections: dict[str, str] = {}
    title = ""
    for line in text.splitlines():
        if line.startswith("## "):
            title = line[3:].replace("`", "")
        sections[title] = sections.get(title, "") + line + "\n"
    shared = sections.get("Options of several commands", "")
    faults, known = [], {"--help"}
    pending = [[]]
    while pending:
        command = pending.pop()
        page_part = sections.get(" ".join(["ferrite", *command]), "") if command else text
        help_text = help_of(ferrite, command)
        if command and not page_part:
            faults.append(f"there is no section '## `ferrite {' '.join(command)}`'")
            continue
        pending += [[*command, name] for name in listed(help_text, "Subcommands:")]
        for line in help_text.split("\nOptions:\n", 1)[-1].split("\n\n")[0].splitlines():
            for option in re.findall(r"--?[a-z][a-z-]*", line.strip().split(" ")[0]):
                known.add(option)
                if command and option not in ("-h", "--help") and f"`{option}" not in page_part + shared:
                    faults.append(f"{' '.join(command)}: {option} is not named")
        if stages := re.search(r"Stages, in their order:\n\s+(.*)", help_text):
            faults += [f"the stage {name} is not named" for name in stages[1].split() if f"`{name}`" not in text]
        if channels := re.search(r"a comma-separated list of (.*?) \(also", help_text):
            faults += [f"the channel {name} is not named" for name in channels[1].split(", ") if f"`{name}`" not in text]
    used = set(re.findall(r"`(--?[a-z][a-z-]*)", text))
    return faults + [f"no command has the option {option}" for option in sorted(used - known)]


def glossary_words(text: str) -> list[str]:
    """The words of the first column of the page's table."""
    rows = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")]
    return [word for row in rows if row not in ("word", "---") for word in row.split(", ")]


def listed(help_text: str, title: str) -> list[str]:
    """The first words of the lines under a title."""
    if title not in help_text:
        return []
    part = help_text.split(title + "\n", 1)[1].split("\n\n")[0]
    return [line.split()[0] for line in part.splitlines() if line.strip()]


def numerics_faults(text: str, root: Path) -> list[str]:
    """Rows of the table of bounds that differ from those of the vector math."""
    source = (root / "backends/llvm/include/ferrite/emitter/vector_math.h").read_text(encoding="utf-8")
    rows = re.findall(r'MathAccuracy\{"(\w+)", ([\d.]+), ([\d.]+)\}', source)
    return [f"there is no row '| {f} | {a} | {b} |'" for f, a, b in rows if f"| {f} | {a} | {b} |" not in text]


class Code:
    """The words of the sources, and the names of their files."""

    def __init__(self, root: Path):
        found = (path for folder in SOURCES for path in sorted((root / folder).rglob("*")))
        self.files = [path for path in found if path.suffix in SUFFIXES or path.name == "CMakeLists.txt"]
        self.names = {path.name for path in self.files}
        self.texts = [path.read_text(encoding="utf-8", errors="replace") for path in self.files]
        self.words = set(re.findall(r"\w+", "\n".join(self.texts)))

    def has(self, name: str) -> bool:
        """Whether a name or a qualified name occurs."""
        parts = name.split("::")
        if not self.words.issuperset(parts):
            return False
        if len(parts) == 1 or any(name in text for text in self.texts):
            return True
        declared = re.compile(rf"\b(?:class|struct|namespace|enum)\s+{parts[-2]}\b")
        member = re.compile(rf"\b{parts[-1]}\b")
        return any(declared.search(text) and member.search(text) for text in self.texts)


@functools.cache
def code_of(root: Path) -> Code:
    return Code(root)


def name_faults(text: str, root: Path) -> list[tuple[int, str]]:
    """Names of C++ and of files in backquotes that the sources do not have."""
    code = code_of(root)
    faults = []
    for number, line in enumerate(text.splitlines(), 1):
        for name in re.findall(r"`([^`]+)`", line):
            if FILE.fullmatch(name) and name not in code.names:
                faults.append((number, f"no file of the sources is called {name}"))
            elif NAME.fullmatch(name) and not code.has(name):
                faults.append((number, f"the sources have no name {name}"))
    return faults


def faults_of(page: Path, root: Path, build: Path, show: bool) -> list[tuple[int, str]]:
    """What is wrong with a page, each with its line."""
    text = page.read_text(encoding="utf-8")
    faults = link_faults(page.resolve(), root.resolve(), text)
    for folder in set(re.findall(r"/tmp/ferrite-docs-\w+", text)):  # what the examples of an earlier run left there
        shutil.rmtree(folder, ignore_errors=True)
    absent: set[str] = set()
    for block in blocks_of(text):
        for number, line in enumerate(block.lines, block.line + 1):
            if len(line) > LONGEST_LINE:
                faults.append((number, f"the line has {len(line)} columns, more than {LONGEST_LINE}"))
        if block.note and block.note[0] == "file":
            faults += excerpt_faults(block, root)
        elif block.language == "console" and not block.note:
            faults += console_faults(block, root, build, show, absent)
    if str(page.relative_to(root)) in GUIDES:
        faults += name_faults(text, root)
    coverage = []
    if page.name == "command-line.md":
        coverage = command_line_faults(text, build / "bin" / "ferrite")
    elif page.name == "numerics.md":
        coverage = numerics_faults(text, root)
    elif page.name == "README.md" and text.count("\n") > LONGEST_README:
        coverage = [f"the page has {text.count(chr(10))} lines, more than {LONGEST_README}"]
    elif page.name == "glossary.md" and len(words := glossary_words(text)) > LONGEST_GLOSSARY:
        coverage = [f"the page has {len(words)} words, more than {LONGEST_GLOSSARY}"]
    return faults + [(1, fault) for fault in coverage]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    here = Path(__file__).resolve().parents[2]
    parser.add_argument("--root", type=Path, default=here)
    parser.add_argument("--build", type=Path, default=here / "build" / "release")
    parser.add_argument("--bless", action="store_true", help="print what the commands give")
    parser.add_argument("pages", nargs="+", type=Path, metavar="PAGE")
    options = parser.parse_args()
    root, build = options.root.resolve(), options.build.resolve()
    count = 0
    for page in options.pages:
        for line, fault in faults_of(root / page, root, build, options.bless):
            print(f"{page}:{line}: {fault}")
            count += 1
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
