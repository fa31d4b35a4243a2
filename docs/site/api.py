# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The API reference: one Markdown page for each public header, made from its declarations and comments.

`pages(root)` gives the pages by their path in the site. libclang says where each declaration begins and ends;
comments are read from the lines: those directly above a declaration, and one at the end of its last line.
Private members and namespaces called `detail` are left out.
"""

import html
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from clang.cindex import AccessSpecifier, Cursor, CursorKind, Index

INCLUDE = "sdk/include"
# A header of another project.
EXEMPT = {"ferrite/dlpack.h"}
ABI = "ferrite/abi/"
EMBEDDING = ("ferrite/ferrite.h", "ferrite/ferrite.hpp")

SCOPES = {CursorKind.NAMESPACE, CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL}
RECORDS = {
    CursorKind.STRUCT_DECL,
    CursorKind.CLASS_DECL,
    CursorKind.UNION_DECL,
    CursorKind.CLASS_TEMPLATE,
    CursorKind.CLASS_TEMPLATE_PARTIAL_SPECIALIZATION,
}
FUNCTIONS = {
    CursorKind.FUNCTION_DECL,
    CursorKind.FUNCTION_TEMPLATE,
    CursorKind.CXX_METHOD,
    CursorKind.CONSTRUCTOR,
    CursorKind.CONVERSION_FUNCTION,
}
OTHERS = {
    CursorKind.TYPEDEF_DECL,
    CursorKind.TYPE_ALIAS_DECL,
    CursorKind.TYPE_ALIAS_TEMPLATE_DECL,
    CursorKind.VAR_DECL,
    CursorKind.CONCEPT_DECL,
    CursorKind.FRIEND_DECL,
}
MACRO = re.compile(r"^#define (\w+)(?:\([^)]*\))?[ \t]+(.*)$")
TRAILING = re.compile(r"(?<!:)//[/!]?<? ?(.*)$")


@dataclass
class Entry:
    """A declaration with its comment; a record or an enum has entries of its own."""

    kind: str  # record, enum, function, field, constant, other
    name: str
    line: int
    code: str
    comment: str
    members: list["Entry"] = field(default_factory=list)


@dataclass
class Header:
    """A header: its path below sdk/include, its lines, what it says of itself, what it declares."""

    name: str
    lines: list[str]
    about: str
    entries: list[Entry] = field(default_factory=list)

    @property
    def page(self) -> str:
        return "api/" + self.name.removeprefix("ferrite/") + ".md"


def headers(root: Path) -> list[Header]:
    """The public headers without what they declare: the embedding API, the ABI, then the rest."""
    found = []
    folder = root / INCLUDE
    for path in sorted((folder / "ferrite").rglob("*.h*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix not in (".h", ".hpp") or name in EXEMPT:
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        first = 1 if lines and "SPDX" in lines[0] else 0
        last = first
        while last < len(lines) and lines[last].startswith("//"):
            last += 1
        found.append(
            Header(name, lines, markdown([line[2:].removeprefix("/") for line in lines[first:last]]))
        )
    order = {name: place for place, name in enumerate(EMBEDDING)}
    return sorted(
        found, key=lambda header: (order.get(header.name, 2 + (not header.name.startswith(ABI))), header.name)
    )


# --- comments -----------------------------------------------------------------------------------------------


def escaped(text: str) -> str:
    """Text outside of code in Markdown: no character in it begins a tag, an emphasis or a link."""
    parts = re.split(r"(`[^`]*`)", text)
    for place in range(0, len(parts), 2):
        parts[place] = re.sub(r"([*_\[\]|\\])", r"\\\1", html.escape(parts[place], quote=False))
    return "".join(parts)


def markdown(lines: list[str]) -> str:
    """The lines of a comment, without slashes, as Markdown: paragraphs, lists, and indented lines as code."""
    out: list[str] = []
    state = "blank"
    for line in lines:
        text = line.strip()
        indent = len(line) - len(line.lstrip())
        if not text:
            if state == "code":
                out.append("```")
            out.append("")
            state = "blank"
        elif state == "code" and indent >= 3:
            out.append(line[3:].rstrip())
        elif state == "blank" and indent >= 3:
            out += ["```cpp", line[3:].rstrip()]
            state = "code"
        else:
            if state == "code":
                out += ["```", ""]
            if item := re.match(r"[-*] (.*)", text):
                out += ([] if state in ("blank", "list") else [""]) + ["- " + escaped(item[1])]
                state = "list"
            elif state == "list" and indent >= 2:
                out.append("    " + escaped(text))
            else:
                out += ([""] if state == "list" else []) + [escaped(text)]
                state = "text"
    if state == "code":
        out.append("```")
    return "\n".join(out).strip("\n")


def comment_lines_above(lines: list[str], first: int) -> list[str]:
    """The comment directly above a line, which counts from 1; each line without its slashes."""
    indent = len(lines[first - 1]) - len(lines[first - 1].lstrip())
    start = first - 1
    while start > 0:
        line = lines[start - 1]
        if not line.lstrip().startswith("//") or len(line) - len(line.lstrip()) != indent:
            break
        start -= 1
    return [re.sub(r"^\s*//[/!]?", "", line) for line in lines[start : first - 1] if "SPDX" not in line]


def comment_lines_after(lines: list[str], last: int) -> list[str]:
    """The comment at the end of a line and its continuation, which stands below it in the same column."""
    line = lines[last - 1]
    found = TRAILING.search(line)
    if not found or not line[: found.start()].strip():
        return []
    column, comment = found.start(), [" " + found[1]]
    for below in lines[last:]:
        if not below.strip().startswith("//") or len(below) - len(below.lstrip()) != column:
            break
        comment.append(re.sub(r"^\s*//[/!]?<?", "", below))
    return comment


def comment_of(lines: list[str], first: int, last: int) -> str:
    return markdown(comment_lines_above(lines, first) + comment_lines_after(lines, last))


# --- declarations -------------------------------------------------------------------------------------------


def parsed(root: Path, names: list[str]) -> Cursor:
    """Headers as one translation unit."""
    includes = subprocess.run(["g++", "-print-file-name=include"], capture_output=True, text=True, check=True)
    text = "".join(f'#include "{name}"\n' for name in names)
    unit = Index.create().parse(
        "headers.cpp",
        args=["-std=c++20", f"-I{root / INCLUDE}", "-isystem", includes.stdout.strip()],
        unsaved_files=[("headers.cpp", text)],
    )
    errors = [str(found) for found in unit.diagnostics if found.severity >= 3]
    if errors:
        raise RuntimeError("the headers do not compile:\n" + "\n".join(errors[:10]))
    return unit.cursor


def declaration(cursor: Cursor, lines: list[str]) -> str:
    """The text of a declaration without its body, its initialisers of a constructor and its comments."""
    start, end = cursor.extent.start, cursor.extent.end
    body = [child.extent.start for child in cursor.get_children() if child.kind == CursorKind.COMPOUND_STMT]
    if cursor.kind in FUNCTIONS and body:
        end = body[-1]
    part = lines[start.line - 1 : end.line]
    part[-1] = part[-1][: end.column - 1]
    # From the start of the line: `typedef`, `inline`, a template's head.
    part = [re.sub(r"(?<!:)//.*$", "", line).rstrip() for line in part]
    shift = len(part[0]) - len(part[0].lstrip())
    text = "\n".join(
        line[shift:] if not line[:shift].strip() else line.lstrip() for line in part if line.strip()
    )
    if cursor.kind in RECORDS:
        text = text.split("{", 1)[0]
    if cursor.kind in FUNCTIONS:
        text = without_initialisers(text)
    if text.startswith("FERRITE_API "):
        text = re.sub(r"\n {12}", "\n", text.removeprefix("FERRITE_API "))
    text = text.strip().rstrip(";").strip()
    return text.removeprefix("typedef ") if cursor.kind in RECORDS else text


def without_initialisers(text: str) -> str:
    """A constructor up to the colon after its parameters; of `= default` and the like nothing is cut."""
    depth = 0
    for place, character in enumerate(text):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == ":" and depth == 0 and ":" not in (text[place - 1], text[place + 1 : place + 2]):
            return text[:place].rstrip()
    return text


def is_public(cursor: Cursor) -> bool:
    return cursor.access_specifier not in (AccessSpecifier.PRIVATE, AccessSpecifier.PROTECTED)


def is_friend_class(cursor: Cursor) -> bool:
    return cursor.kind == CursorKind.FRIEND_DECL and not any(
        c.kind in FUNCTIONS for c in cursor.get_children()
    )


def entry_of(cursor: Cursor, lines: list[str]) -> Entry | None:
    kind = cursor.kind
    if kind in RECORDS:
        group = "record"
    elif kind == CursorKind.ENUM_DECL:
        group = "enum"
    elif kind in FUNCTIONS:
        group = "function"
    elif kind == CursorKind.FIELD_DECL:
        group = "field"
    elif kind == CursorKind.ENUM_CONSTANT_DECL:
        group = "constant"
    elif kind in OTHERS and not is_friend_class(cursor):
        group = "other"
    else:
        return None
    first, last = cursor.extent.start.line, cursor.extent.end.line
    if group in ("record", "enum"):
        comment = markdown(comment_lines_above(lines, first))
    else:
        comment = comment_of(lines, first, last)
    name = cursor.spelling
    if kind == CursorKind.FRIEND_DECL:
        name = next((child.spelling for child in cursor.get_children()), "friend")
    entry = Entry(group, name, first, declaration(cursor, lines), comment)
    if group == "record":
        for child in filter(is_public, cursor.get_children()):
            if member := entry_of(child, lines):
                # Of `int a, b;` the last declaration has all the text.
                if (
                    entry.members
                    and entry.members[-1].line == member.line
                    and member.code.startswith(entry.members[-1].code)
                ):
                    entry.members.pop()
                entry.members.append(member)
    elif group == "enum":
        entry.members = [member for child in cursor.get_children() if (member := entry_of(child, lines))]
    return entry


def collect(cursor: Cursor, by_file: dict[str, Header]) -> None:
    """Puts the declarations below a cursor into the headers that they stand in."""
    for child in cursor.get_children():
        file = child.location.file
        header = by_file.get(file.name) if file else None
        if header is None:
            continue
        if child.kind in SCOPES:
            if child.spelling != "detail" and not (
                child.kind == CursorKind.NAMESPACE and child.is_anonymous()
            ):
                collect(child, by_file)
            continue
        if (
            child.kind in FUNCTIONS
            and "::" in header.lines[child.extent.start.line - 1].split("(")[0].split(" ")[-1]
        ):
            continue  # defines a member that is declared elsewhere
        if entry := entry_of(child, header.lines):
            header.entries.append(entry)


def macros(header: Header) -> list[Entry]:
    """The macros with a value, of which each is a constant."""
    found = []
    for number, line in enumerate(header.lines, 1):
        macro = MACRO.match(line)
        if not macro or macro[2].startswith("__attribute__") or macro[2].endswith("\\"):
            continue
        code = re.sub(r"\s*//.*$", "", line.removeprefix("#define "))
        found.append(Entry("macro", macro[1], number, code, ""))
    return found


def with_declarations(root: Path) -> list[Header]:
    found = headers(root)
    by_file = {str(root / INCLUDE / header.name): header for header in found}
    # The embedding API and the headers of plugins have structs of the same names, so no file includes both.
    for group in (EMBEDDING, [header.name for header in found if header.name not in EMBEDDING]):
        collect(parsed(root, list(group)), by_file)
    for header in found:
        tags = {entry.name for entry in header.entries if entry.kind in ("record", "enum") and entry.members}
        kept = []
        for entry in header.entries:
            if entry.kind == "other" and entry.name in tags:
                continue  # `typedef struct x {...} x;`
            if entry.kind == "record" and not entry.members and entry.name in tags:
                continue  # declared before it is defined
            if entry.kind == "other" and (known := next((e for e in kept if e.name == entry.name), None)):
                known.code = entry.code  # `typedef struct x x;`
                continue
            kept.append(entry)
        header.entries = sorted(kept + macros(header), key=lambda entry: entry.line)
    return found


# --- pages --------------------------------------------------------------------------------------------------


def code_block(code: str) -> str:
    return f"```cpp\n{code}\n```\n"


def cell(text: str) -> str:
    """Text in a cell of a table: one line; its paragraphs and items are separated by breaks."""
    text = re.sub(r"\n\n+(- )?", "<br>", text)
    return re.sub(r"\s*\n- ", "<br>", text).replace("\n", " ")


def code_cell(code: str) -> str:
    """Code in a cell, where a vertical bar would end it; it may break between words."""
    return (
        "<code>"
        + html.escape(" ".join(code.split())).replace("|", "&#124;").replace("*", "&#42;")
        + "</code>"
    )


def table(title: str, entries: list[Entry]) -> str:
    rows = [f"| {code_cell(entry.code)} | {cell(entry.comment)} |" for entry in entries]
    return "\n".join([f"| {title} | meaning |", "| --- | --- |", *rows]) + "\n"


class Page:
    """The Markdown of one header."""

    def __init__(self, header: Header):
        self.header = header
        self.anchors: set[str] = set()
        self.parts: list[str] = []

    def heading(self, level: int, name: str, anchor: str) -> None:
        if anchor in self.anchors:
            return
        self.anchors.add(anchor)
        self.parts.append(f"{'#' * level} `{name}` {{#{anchor}}}\n")

    def text(self, comment: str) -> None:
        if comment:
            self.parts.append(comment + "\n")

    def record(self, entry: Entry, level: int, scope: str) -> None:
        self.heading(level, entry.name, scope + entry.name)
        if (
            not all(member.kind == "field" for member in entry.members)
            or "template" in entry.code
            or not entry.members
        ):
            self.parts.append(code_block(entry.code))
        self.text(entry.comment)
        self.members(entry.members, level, scope + entry.name + ".")

    def members(self, members: list[Entry], level: int, scope: str) -> None:
        """Fields in tables; functions as code with their comments, those without one together."""
        place = 0
        while place < len(members):
            run = [members[place]]
            kind = run[0].kind
            if kind in ("record", "enum"):
                if kind == "record":
                    self.record(run[0], level + 1, scope)
                else:
                    self.enum(run[0], level + 1, scope)
            elif kind == "field":
                run = same(members, place, lambda entry: entry.kind == "field")
                self.parts.append(table("field", run))
            else:
                run = (
                    same(
                        members,
                        place,
                        lambda entry: entry.kind in ("function", "other") and not entry.comment,
                    )
                    or run
                )
                self.parts.append(code_block("\n".join(entry.code + ";" for entry in run)))
                self.text(run[0].comment)
            place += len(run)

    def enum(self, entry: Entry, level: int, scope: str) -> None:
        self.heading(level, entry.name or "constants", scope + (entry.name or f"constants-{entry.line}"))
        self.text(entry.comment)
        self.parts.append(table("value", entry.members))

    def macros(self, run: list[Entry]) -> None:
        """Macros that stand together, under the comment above the first one."""
        lines = self.header.lines
        for entry in run:
            entry.comment = markdown(comment_lines_after(lines, entry.line))
        for entry in run:
            self.parts.append(f'<span id="{entry.name}"></span>\n') if entry is run[0] else None
        self.text(markdown(comment_lines_above(lines, run[0].line)))
        self.parts.append(table("constant", run))

    def entries(self) -> None:
        entries, place = self.header.entries, 0
        while place < len(entries):
            entry = entries[place]
            run = [entry]
            if entry.kind == "macro":
                run = same(entries, place, lambda other: other.kind == "macro")
                run = [other for k, other in enumerate(run) if other.line - entry.line == k] or [entry]
                self.macros(run)
            elif entry.kind == "record":
                self.record(entry, 2, "")
            elif entry.kind == "enum":
                self.enum(entry, 2, "")
            else:
                self.heading(2, entry.name, entry.name)
                self.parts.append(code_block(entry.code + ";"))
                self.text(entry.comment)
            place += len(run)


def same(entries: list[Entry], start: int, holds) -> list[Entry]:
    """The entries from a place on for which something holds."""
    end = start
    while end < len(entries) and holds(entries[end]):
        end += 1
    return entries[start:end]


def linked(text: str, page: str, targets: dict[str, str]) -> str:
    """The text with links from names of the C interfaces to where they are explained; code blocks stay."""
    depth = page.count("/")

    def link(match: re.Match) -> str:
        name = match[0].strip("`").replace("\\_", "_")
        target = targets.get(name.removesuffix("()"))
        if not target or target.startswith(page + "#"):
            return match[0]
        return f"[`{name}`]({'../' * depth}{target})"

    fenced, out = False, []
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        if not fenced and not line.startswith(("#", "```", "<")):
            line = re.sub(
                r"`?\b(?:fe|ferrite|FE)(?:\\?_\w+)+(?:\\_\w+)*(?:\(\))?`?(?![^<]*</code>)", link, line
            )
        out.append(line)
    return "\n".join(out)


def group_of(name: str) -> str:
    """The group of the reference that a header belongs to."""
    return "Embedding" if name in EMBEDDING else "Plugin ABI" if name.startswith(ABI) else "Plugins in C++"


def overview(found: list[Header]) -> str:
    """The page that lists all others."""
    parts = [
        "# API reference\n",
        "These pages are made from the headers in `sdk/include`. The text is that of their comments.\n",
    ]
    plugins = (
        "[Add an op](../add-an-op.md), [Add a pass](../add-a-pass.md), [Add a backend](../add-a-backend.md)"
    )
    groups = {
        "Embedding": "Programs that load and run models: [Embedding](../embedding.md).",
        "Plugin ABI": "The C interface of plugins: [The plugin ABI](../abi.md).",
        "Plugins in C++": f"The C++ headers over the ABI, which most plugins use: {plugins}.",
    }
    for title, about in groups.items():
        rows = []
        for header in filter(lambda header: group_of(header.name) == title, found):
            first = re.split(r"(?<=\.)\s", header.about.split("\n\n")[0].replace("\n", " "))[0]
            rows.append(f"| [`{header.name}`]({header.page.removeprefix('api/')}) | {first} |")
        parts += [
            f"## {title}\n",
            about + "\n",
            "\n".join(["| header | content |", "| --- | --- |", *rows]) + "\n",
        ]
    return "\n".join(parts)


def pages(root: Path) -> dict[str, str]:
    """Markdown by path in the site, for all public headers and an overview."""
    found = with_declarations(root)
    written = {}
    targets: dict[str, str] = {}
    for header in found:
        page = Page(header)
        source = "../" * (header.page.count("/") + 1) + f"{INCLUDE}/{header.name}"
        page.parts = [
            f"# {header.name}\n",
            header.about + "\n",
            f"Source: [`{INCLUDE}/{header.name}`]({source})\n",
        ]
        page.entries()
        written[header.page] = page
        for anchor in page.anchors:
            targets.setdefault(anchor, f"{header.page}#{anchor}")
    result = {name: linked("\n".join(page.parts), name, targets) for name, page in written.items()}
    result["api/index.md"] = overview(found)
    return result


if __name__ == "__main__":
    for path, text in pages(Path(__file__).resolve().parents[2]).items():
        print(f"=== {path}\n{text}")
