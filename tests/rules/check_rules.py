#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The include and name rules of the repository, as checks on its text.

Usage: check_rules.py [--root DIRECTORY]
Prints one line a violation, `file:line: what and why`, then the lines of each backend; exit status 1 when there is any violation.

  includes   nothing under plugins/, passes/, backends/, sdk/, python/, examples/ includes a header of core/, runtime/, driver/
             or tools/; these and sdk/ include no header of LLVM and their CMake files do not name it; a backend includes no header of
             another one, but for those that backends share, and none of a plugin
  layers     includes point down: base (core/support), runtime, core, driver, tools; and in the shared emitter: target,
             analysis and ir, nest and gemm, cpu and gpu, provider, where cpu and gpu do not include each other; and no folders
             of these, of backends/, sdk/, plugins/, passes/ and python/ include each other in a circle
  columns    a line of C, C++, CMake or shell, and of Python under python/, has at most 110 columns, one of other Python 160,
             but for raw strings and tables of C++
  prose      no sentence of a comment of the product, or of a docstring, begins with `What` unless it is a question: the noun
             is named
  size       no folder has more than 25 files of code, and no file more than 600 lines without a reason
  ops        no string literal in core/, runtime/ or driver/ equals the name of an op that plugins/std registers, apart from the keywords
             of the text forms in the files that read and write them, and the names of the scheduler's features
  vendors    a vendor's words, and names of its architectures, stand only in the folders of its own backend or provider,
             in tests/, bench/, docs/ and the README
  lines      a backend has at most 1,500 lines of .cpp and .h beside the shared emitter
  text       licence line first, a guard in headers, no marks of unfinished work, no paths or hosts of one
             machine, nothing about how the text came to be
"""

import argparse
import io
import posixpath
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

CPP_SUFFIXES = {".c", ".cpp", ".h", ".hpp", ".def"}
LICENSED_SUFFIXES = CPP_SUFFIXES | {".py", ".cmake", ".sh"}
# Test data and verbatim texts are not ours to judge.
EXEMPT = ("tests/identify/samples/", "tests/identify/golden.json", "tests/fuzz/corpus/", "LICENSE", "tests/rules/")

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')
LLVM_HEADER = re.compile(r"^(?:llvm|llvm-c|lld|clang|clang-c|mlir)/")
CORE_FREE = ("plugins/", "passes/", "backends/", "sdk/", "python/", "examples/")
COMPILER = ("core/", "runtime/", "driver/", "tools/")
LLVM_FREE = COMPILER + ("sdk/",)

SHARED = {"llvm", "gpu_runtime"}  # what backends share, under backends/
MOST_LINES_OF_A_BACKEND = 1500

# Comments, raw strings, strings and characters of C++, in the order in which they are tried.
CPP_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<delimiter>[^\s()\\]{0,16})\(.*?\)(?P=delimiter)"'
    r'|"(?P<text>(?:\\.|[^"\\\n])*)"|' + r"'(?:\\[^'\n]{1,8}|[^'\\\n])'",
    re.DOTALL,
)
REGISTERED = re.compile(r'\bop_def\(\s*"([^"]+)"')
TABLED = re.compile(r'\{\s*"([a-z][\w.]*)",\s*Prim::')
# Words of the text forms (docs/text.md) that are also names of ops, and where they may stand.
TEXT_KEYWORDS = {"div", "mod", "min", "max", "cast", "bitcast", "where", "constant"}
# The one table of the loop text's keywords (statement kinds, store modes, index modes), every word of which is text, and that
# of the names of the scheduler's features.
NAME_TABLES = ("core/ir/text/loop_keywords.h", "core/schedule/features.h")
TEXT_FILES = re.compile(r"^core/(?:ir/text/|ir/lexer/|[\w/]*(?:parse|print|text|read|write)\w*\.)")

# Whole words, after identifiers are taken apart at underscores and at capitals; plus the folders that may use them. x86 and amx are
# not among them: processors' instructions are no vendor's, and the shared emitter uses the AMX registers and the fence of x86 where a backend's
# table says that there are some.
NVIDIA = ("backends/nvidia/", "backends/cuda/", "plugins/cublaslt/", "plugins/cudnn/", "plugins/cuda_library/")
AMD = ("backends/amd/", "backends/hip/", "plugins/hipblas/", "plugins/miopen/")
INTEL = ("backends/intel/", "backends/level_zero/", "backends/spirv/")
VENDORS = [
    ({"cuda", "nvidia", "nvptx", "nvvm", "ptx", "ptxas", "cublas", "cublaslt", "cudnn", "nccl", "cutlass"}, NVIDIA),
    ({"amd", "radeon", "rocm", "amdgpu", "amdgcn", "mfma", "hip", "hsa", "hipblas", "miopen", "rccl"}, AMD),
    ({"wmma"}, NVIDIA + AMD),  # either has instructions of that name
    ({"intel", "levelzero", "level zero", "ze loader", "spirv", "opencl", "sycl", "oneapi", "pocl"}, INTEL),
    ({"onednn", "dnnl", "mkl", "openblas", "blis", "sleef", "libmvec"}, ("plugins/onednn/", "plugins/blas/")),
]  # fmt: skip
# The package for Python names devices as PyTorch does.
VENDOR_FREE_TO_USE = ("tests/", "bench/", "docs/", "python/ferrite/", "README.md", "dev", "backends/CMakeLists.txt",
                      "plugins/CMakeLists.txt")  # fmt: skip
# Names of architectures. In C and C++ prose may have one as an example, as help and comments say what a target may be.
ARCHITECTURES = [
    (re.compile(r"(?<![a-z0-9])sm_?\d{2,3}[a-z]?(?![a-z0-9])", re.I), NVIDIA),
    (re.compile(r"(?<![a-z0-9])gfx\d+[a-z]?(?![a-z0-9])", re.I), AMD),
]
WORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+\d*|[A-Z]+\d*")

PUBLIC_HOSTS = (
    "apache.org", "arxiv.org", "debian.org", "dmlc.github.io", "doi.org", "example.com", "example.org", "github.com",
    "ieee.org", "json-schema.org", "llvm.org", "onnx.ai", "onnxruntime.ai", "python.org", "pypi.org", "w3.org",
    "wikipedia.org",
)  # fmt: skip
TEXT_RULES = [
    (re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b"), "a mark of unfinished work: finish it or say what holds"),
    (re.compile(r"(?<![\w.$}*-])/(?:root|home|work|Users)/\w"), "a path of one machine"),
    (re.compile(r"\bissues? #?\d+\b|\b(?:this|last|next|previous|earlier|later) session\b|\bworkplace\b", re.I),
     "how the text came to be: say what holds instead"),
    (re.compile(r"\bAI\b"), "how the text came to be: say what holds instead"),
]  # fmt: skip
HEADER_GUARD = re.compile(r"^#pragma once$|^#ifndef (\w+)\n#define \1$", re.MULTILINE)
URL_HOST = re.compile(r"\bhttps?://([\w.-]+)")

Violation = tuple[str, int, str]


class Tree:
    """The text files of a repository: tracked ones and new ones that are not ignored."""

    def __init__(self, root: Path):
        listed = subprocess.run(
            ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        self.texts: dict[str, str] = {}
        for name in sorted(set(filter(None, listed.stdout.split("\0")))):
            path = root / name
            if name.startswith(EXEMPT) or path.is_symlink() or not path.is_file():
                continue
            data = path.read_bytes()
            if b"\0" not in data[:8192]:
                self.texts[name] = data.decode("utf-8", "replace")

    def under(self, prefixes: tuple[str, ...], suffixes: set[str] | None = None) -> Iterator[tuple[str, str]]:
        for name, text in self.texts.items():
            if name.startswith(prefixes) and (suffixes is None or Path(name).suffix in suffixes):
                yield name, text


def line_of(text: str, offset: int) -> int:
    return text.count("\n", 0, offset) + 1


def include_rules(tree: Tree) -> Iterator[Violation]:
    headers = {name for name, _ in tree.under(COMPILER) if Path(name).suffix in {".h", ".hpp", ".def"}}
    for name, text in tree.under(CORE_FREE + LLVM_FREE, CPP_SUFFIXES):
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            header = match[1]
            plain = header.lstrip("./")
            beside = (Path(name).parent / header).as_posix()
            under = any(f"{room}{plain}" in headers for room in COMPILER) and beside not in tree.texts
            if name.startswith(CORE_FREE) and (plain.startswith(COMPILER) or under):
                yield name, number, f"includes {header}, a header of the compiler: use what sdk/ offers"
            if name.startswith(LLVM_FREE) and LLVM_HEADER.match(header):
                yield name, number, f"includes {header}: only backend plugins use LLVM"
    for name, text in tree.under(LLVM_FREE):
        if Path(name).name == "CMakeLists.txt" or name.endswith(".cmake"):
            for number, line in enumerate(text.splitlines(), 1):
                if re.search(r"\bLLVM(?!-exception)", line.split("#", 1)[0]):
                    yield name, number, "names LLVM: only backend plugins link it"


# From the bottom up: whatever lies further down may be included. The longest prefix counts.
LAYERS = {"core/support/": 0, "runtime/": 1, "core/": 2, "driver/": 3, "tools/": 4}
LAYER_NAMES = ("base", "runtime", "core", "driver", "tools")


def layer_of(name: str) -> int | None:
    prefixes = [prefix for prefix in LAYERS if name.startswith(prefix)]
    return LAYERS[max(prefixes, key=len)] if prefixes else None


def layer_rule(tree: Tree) -> Iterator[Violation]:
    reached: dict[str, dict[str, tuple[str, int]]] = {}  # by folder: the folders that it includes, and where
    for name, text in tree.under(COMPILER, CPP_SUFFIXES):
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match or match[1] not in tree.texts or layer_of(match[1]) is None:
                continue
            if layer_of(match[1]) > layer_of(name):
                yield name, number, (f"includes {match[1]}: {LAYER_NAMES[layer_of(name)]} lies below "
                                     f"{LAYER_NAMES[layer_of(match[1])]}")
            folder, other = (posixpath.dirname(path) for path in (name, match[1]))
            if folder != other:
                reached.setdefault(folder, {}).setdefault(other, (name, number))
    yield from circles(reached)


# The folders of the shared emitter, from the bottom up. Its public headers, under include/, declare parts of every layer.
EMITTER = "backends/llvm/"
EMITTER_LAYERS = {"target": 0, "analysis": 1, "ir": 1, "nest": 2, "gemm": 2, "cpu": 3, "gpu": 3, "provider": 4}
# What builds on the headers of sdk/.
OUTER = ("backends/", "sdk/", "plugins/", "passes/", "python/")
# Folders that count as part of another one. plugin.hpp, the header that plugins include, gathers the headers of detail/, and these
# build on the other public headers beside it. No public path may change, so here files, not folders, form no circle.
UNITS = {"sdk/include/ferrite/detail": "sdk/include/ferrite"}


def outer_layer_rule(tree: Tree) -> Iterator[Violation]:
    """The layers of the shared emitter, and the circles of everything that builds on sdk/."""
    outer = list(tree.under(OUTER, CPP_SUFFIXES))
    public = {name.split("/include/", 1)[1]: name for name, _ in outer if "/include/" in name}
    reached: dict[str, dict[str, tuple[str, int]]] = {}
    inside: dict[str, dict[str, tuple[str, int]]] = {}  # by file of a unit: the files that it includes, and where
    for name, text in outer:
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            # Beside the file, or from a folder above it: a plugin includes its headers from its own folder or from plugins/.
            above = [posixpath.normpath(posixpath.join(folder, match[1])) for folder in map(str, PurePosixPath(name).parents)]
            header = next((path for path in (*above, public.get(match[1])) if path in tree.texts), None)
            if header is None:
                continue
            own, other = (emitter_folder(path) for path in (name, header))
            if own in EMITTER_LAYERS and other in EMITTER_LAYERS:
                if EMITTER_LAYERS[other] > EMITTER_LAYERS[own]:
                    yield name, number, f"includes {header}: {own} lies below {other} in the emitter"
                elif {own, other} == {"cpu", "gpu"}:
                    yield name, number, f"includes {header}: what {own} and {other} share lies below both"
            folder, target = (UNITS.get(posixpath.dirname(path), posixpath.dirname(path)) for path in (name, header))
            if folder != target:
                reached.setdefault(folder, {}).setdefault(target, (name, number))
            elif folder in UNITS.values():
                inside.setdefault(name, {}).setdefault(header, (name, number))
    yield from circles(reached)
    yield from circles(inside, "files")


def emitter_folder(name: str) -> str | None:
    """The folder of the shared emitter that a file lies in: "gemm" of backends/llvm/gemm/plan.h."""
    parts = name.removeprefix(EMITTER).split("/")
    return parts[0] if name.startswith(EMITTER) and len(parts) > 1 else None


def circles(reached: dict[str, dict[str, tuple[str, int]]], of: str = "folders") -> Iterator[Violation]:
    """One violation for each circle, at an include that closes it."""
    done: set[str] = set()

    def walk(folder: str, path: list[str]) -> Iterator[Violation]:
        for other, (name, number) in sorted(reached.get(folder, {}).items()):
            if other in path:
                around = " -> ".join([*path[path.index(other):], other])
                yield name, number, f"closes a circle of {of}: {around}"
            elif other not in done:
                yield from walk(other, [*path, other])
        done.add(folder)

    for folder in sorted(reached):
        if folder not in done:
            yield from walk(folder, [folder])


LIBRARY_LAYERS = {"ferrite_base": 0, "ferrite_runtime": 1, "ferrite_capi": 1, "libferrite_runtime": 1, "ferrite_core": 2,
                  "ferrite_driver": 3, "libferrite": 3, "ferrite_tools": 4, "ferrite_cli": 4}  # fmt: skip
LINKS = re.compile(r"\b(?:target_link_libraries|ferrite_embedding_library)\(\s*(\w+)([^)]*)\)")
ALIAS = re.compile(r"\badd_library\(\s*([\w:]+)\s+ALIAS\s+(\w+)\s*\)")
# The function names an alias: ferrite_embedding_library(libferrite ferrite ...) that of Ferrite::ferrite.
EMBEDDING = re.compile(r"\bferrite_embedding_library\(\s*(\w+)\s+(\w+)")


def link_rule(tree: Tree) -> Iterator[Violation]:
    builds = [(name, text) for name, text in tree.under(COMPILER) if Path(name).name == "CMakeLists.txt"]
    aliases = {alias: library for _, text in builds for alias, library in ALIAS.findall(text)}
    aliases |= {f"Ferrite::{alias}": library for _, text in builds for library, alias in EMBEDDING.findall(text)}
    for name, text in builds:
        for match in LINKS.finditer(text):
            own = LIBRARY_LAYERS.get(match[1])
            for library in (aliases.get(word, word) for word in re.findall(r"[\w:]+", match[2])):
                if own is not None and LIBRARY_LAYERS.get(library, -1) > own:
                    yield name, line_of(text, match.start()), f"{match[1]} links {library}, which lies above it"


MOST_COLUMNS, MOST_COLUMNS_OF_PYTHON = 110, 160
UNFORMATTED = re.compile(r"^ *// clang-format off.*?^ *// clang-format on", re.DOTALL | re.MULTILINE)
# Generated, with an operator a line.
WIDE = {"plugins/onnx/format/schemas.def"}


def most_columns(name: str, text: str) -> int | None:
    """The columns of a line of code; None for other texts."""
    path = Path(name)
    if path.suffix == ".py":
        return MOST_COLUMNS if name.startswith("python/") else MOST_COLUMNS_OF_PYTHON
    is_cmake = path.name == "CMakeLists.txt" or path.name.endswith((".cmake", ".cmake.in"))
    is_shell = re.match(r"#!.*\b(?:ba)?sh$", text.split("\n", 1)[0]) is not None
    return MOST_COLUMNS if path.suffix in CPP_SUFFIXES or is_cmake or is_shell else None


def free_lines(text: str) -> set[int]:
    """The lines of C++ that nobody can wrap, or that are read as a table: raw strings, and what clang-format leaves alone."""
    spans = [match.span() for match in CPP_TOKEN.finditer(text) if match[0].startswith("R")]
    spans += [match.span() for match in UNFORMATTED.finditer(text)]
    return {line for begin, end in spans for line in range(line_of(text, begin), line_of(text, end) + 1)}


def column_rule(tree: Tree) -> Iterator[Violation]:
    for name, text in tree.texts.items():
        most = most_columns(name, text)
        if most is None or name in WIDE:
            continue
        long = [number for number, line in enumerate(text.splitlines(), 1) if len(line) > most]
        free = free_lines(text) if long and Path(name).suffix in CPP_SUFFIXES else set()
        for number in long:
            if number not in free:
                yield name, number, f"the line has more than {most} columns: wrap it"


PRODUCT = COMPILER + ("sdk/", "passes/", "plugins/", "backends/", "python/")
# Up to the end of its sentence, or of the paragraph.
WHAT = re.compile(r"(?<!:)\bWhat\b(?!:)(?:[^.?!:;]|[.:](?!\s|$))*(?P<end>.?)", re.DOTALL)
HASH_COMMENT = re.compile(r"(?<!\S)#.*")


def comments_of(name: str, text: str) -> Iterator[tuple[int, str]]:
    """The comments of a file, and docstrings, each with its line; lines of `//` that follow each other are one."""
    path = Path(name)
    if path.suffix in CPP_SUFFIXES:
        spans = [match.span() for match in CPP_TOKEN.finditer(text) if match[0].startswith(("//", "/*"))]
    elif path.suffix == ".py":
        spans = python_prose(text)
    elif path.name == "CMakeLists.txt" or path.name.endswith((".cmake", ".cmake.in")):
        spans = [match.span() for match in HASH_COMMENT.finditer(text)]
    else:
        return
    begun: int | None = None
    for k, (begin, end) in enumerate(spans):
        begun = begin if begun is None else begun
        follows = k + 1 < len(spans) and not text[end : spans[k + 1][0]].strip(" \n") and "\n\n" not in text[end : spans[k + 1][0]]
        if not follows:
            yield line_of(text, begun), re.sub(r"(?m)^\s*(?://[/!]?<?|#)", "", text[begun:end])
            begun = None


def python_prose(text: str) -> list[tuple[int, int]]:
    """The comments of a Python file, and the strings that are statements."""
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    spans: list[tuple[int, int]] = []
    fresh = True  # whether a statement begins here
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type == tokenize.STRING and fresh):
            begin, end = (starts[line - 1] + column for line, column in (token.start, token.end))
            spans.append((begin, end))
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            fresh = token.type in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING)
    return spans


def prose_rule(tree: Tree) -> Iterator[Violation]:
    for name, text in tree.under(PRODUCT):
        for line, comment in comments_of(name, text):
            for match in WHAT.finditer(comment):
                if match["end"] != "?":
                    yield name, line + comment.count("\n", 0, match.start()), "a sentence begins with 'What': name the noun"
        if Path(name).suffix in CPP_SUFFIXES:  # texts that users read
            for literal in CPP_TOKEN.finditer(text):
                if literal[0].startswith('"') and (match := WHAT.search(literal[0])) and match["end"] != "?":
                    yield name, line_of(text, literal.start()), "a text begins a sentence with 'What': name the noun"
    for name, text in tree.texts.items():
        if name.startswith("docs/") and name.endswith(".md"):
            for number, line in enumerate(text.splitlines(), 1):
                if match := re.search(r"(?:^|[.:] )What\b", line):
                    if "?" not in line[match.start() :]:
                        yield name, number, "a sentence begins with 'What': name the noun"


MOST_FILES, MOST_LINES = 25, 600
CODE_SUFFIXES = CPP_SUFFIXES | {".py"}
# Longer files, and why they are not taken apart.
LONGER = {
    "sdk/include/ferrite/errors.def": "one table",
    "sdk/include/ferrite/index/pool.hpp": "one class, inline",
    "sdk/include/ferrite/index/simplify.hpp": "the rules of one canonical form",
    "plugins/onnx/format/schemas.def": "generated",
}


def size_rule(tree: Tree) -> Iterator[Violation]:
    counts: dict[str, int] = {}
    for name, text in tree.texts.items():
        if Path(name).suffix not in CODE_SUFFIXES:
            continue
        folder = posixpath.dirname(name)
        counts[folder] = counts.get(folder, 0) + 1
        lines = text.count("\n")
        if lines > MOST_LINES and name not in LONGER:
            yield name, lines, f"has {lines} lines, and a file has at most {MOST_LINES}: take it apart by subject"
    for folder, count in sorted(counts.items()):
        if count > MOST_FILES:
            yield folder, 1, f"holds {count} files of code, and a folder holds at most {MOST_FILES}"


def backend_of(name: str) -> str | None:
    """The backend that a file belongs to: "cuda" of backends/cuda/target.cpp."""
    parts = name.split("/")
    return parts[1] if parts[0] == "backends" and len(parts) > 2 else None


def backend_include_rule(tree: Tree) -> Iterator[Violation]:
    headers = [name for name, _ in tree.under(("backends/", "plugins/", "sdk/")) if Path(name).suffix in {".h", ".hpp", ".def"}]
    for name, text in tree.under(("backends/",), CPP_SUFFIXES):
        own = SHARED | {backend_of(name)} - {None}
        for number, line in enumerate(text.splitlines(), 1):
            match = INCLUDE.match(line)
            if not match:
                continue
            # Whichever folders are searched: what ends like it, unless a header that may be included does, too.
            plain = posixpath.normpath(match[1]).lstrip("./")
            found = {header for header in headers if f"/{header}".endswith(f"/{plain}")}
            if found and not any(header.startswith("sdk/") or backend_of(header) in own for header in found):
                yield name, number, f"includes {match[1]}, a header of {' or '.join(sorted(map(home_of, found)))}: backends stand alone"


def home_of(name: str) -> str:
    return "/".join(name.split("/")[:2])


def lines_of_backends(tree: Tree) -> dict[str, int]:
    """Of .cpp and .h files, by backend, without the code that they share."""
    lines: dict[str, int] = {}
    for name, text in tree.under(("backends/",), {".cpp", ".h"}):
        backend = backend_of(name)
        if backend and backend not in SHARED:
            lines[backend] = lines.get(backend, 0) + text.count("\n")
    return lines


def line_rule(tree: Tree) -> Iterator[Violation]:
    for backend, lines in lines_of_backends(tree).items():
        if lines > MOST_LINES_OF_A_BACKEND:
            yield f"backends/{backend}", 1, f"it has {lines} lines, and a backend has at most {MOST_LINES_OF_A_BACKEND}"


def op_names(tree: Tree) -> set[str]:
    names = set()
    for _, text in tree.under(("plugins/std/",), CPP_SUFFIXES):
        names.update(REGISTERED.findall(text))
        names.update(TABLED.findall(text))
    return names


def op_name_rule(tree: Tree) -> Iterator[Violation]:
    names = op_names(tree)
    for name, text in tree.under(("core/", "runtime/", "driver/"), CPP_SUFFIXES):
        for match in CPP_TOKEN.finditer(text):
            literal = match["text"]
            if literal not in names or name in NAME_TABLES or (literal in TEXT_KEYWORDS and TEXT_FILES.match(name)):
                continue
            yield name, line_of(text, match.start()), f'the literal "{literal}" is the name of an op: core knows no op'


def without_prose(text: str) -> str:
    """The same lines of C++ without comments and without literals of several words."""

    def blank(match: re.Match) -> str:
        is_literal = match[0][0] in "R\"'"
        return match[0] if is_literal and not re.search(r"\s", match[0]) else "\n" * match[0].count("\n")

    return CPP_TOKEN.sub(blank, text)


OVERLOAD = re.compile(r'"aten\.[^"]*"')  # PyTorch names some of its operators after a vendor's library


def vendor_rule(tree: Tree) -> Iterator[Violation]:
    for name, text in tree.texts.items():
        if name.startswith(VENDOR_FREE_TO_USE):
            continue
        banned = set().union(*(words for words, folders in VENDORS if not name.startswith(folders)))
        for number, line in enumerate(text.splitlines(), 1):
            line = OVERLOAD.sub('""', line)
            words = [word.lower() for word in WORD.findall(line)]
            seen = set(words) | {f"{a} {b}" for a, b in zip(words, words[1:], strict=False)}
            # A prefix such as kDL hides where a word starts; these are no part of an English word, as Intel is of intelligible.
            seen |= {word for word in banned - {"intel"} if (len(word) >= 5 or word in {"cuda", "rocm", "nvvm"}) and word in line.lower()}
            for word in sorted(seen & banned):
                yield name, number, f"'{word}' belongs to one vendor's own backend or provider"
        code = without_prose(text) if Path(name).suffix in CPP_SUFFIXES else text
        for pattern, folders in ARCHITECTURES:
            for match in [] if name.startswith(folders) else pattern.finditer(code):
                yield name, line_of(code, match.start()), f"'{match[0]}' belongs to one vendor's own backend or provider"


def text_rules(tree: Tree) -> Iterator[Violation]:
    for name, text in tree.texts.items():
        path = Path(name)
        lines = text.splitlines()
        script = text.startswith("#!")
        if path.suffix in LICENSED_SUFFIXES or path.name == "CMakeLists.txt" or script:
            if not any("SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception" in line for line in lines[:2]):
                yield name, 1, "the licence line is missing: SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception"
        if path.suffix in {".h", ".hpp"} and not HEADER_GUARD.search(text):
            yield name, 1, "#pragma once is missing (or, in a C header, an include guard)"
        for number, line in enumerate(lines, 1):
            for pattern, why in TEXT_RULES:
                match = pattern.search(line)
                if match:
                    yield name, number, f"'{match[0]}' is {why}"
            for host in URL_HOST.findall(line):
                if not any(host == public or host.endswith("." + public) for public in PUBLIC_HOSTS):
                    yield name, number, f"'{host}' is not among the public hosts that the text may refer to"


RULES = (include_rules, layer_rule, outer_layer_rule, link_rule, column_rule, prose_rule, size_rule, backend_include_rule,
         op_name_rule, vendor_rule, line_rule, text_rules)  # fmt: skip


def violations(tree: Tree) -> list[Violation]:
    return sorted(found for rule in RULES for found in rule(tree))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    tree = Tree(parser.parse_args().root)
    found = violations(tree)
    for name, line, message in found:
        print(f"{name}:{line}: {message}")
    print("lines of backends: " + ", ".join(f"{backend} {lines}" for backend, lines in sorted(lines_of_backends(tree).items())))
    print(f"{len(found)} violations")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
