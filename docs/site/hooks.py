# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Hooks of MkDocs that add to the site whatever is no page of docs/.

README         is the first page
sources        A file or folder of the repository that a page links to becomes a page of its own, so that the
               site has no link out of itself. A public header's is its page of the API reference.
API reference  is made from the headers by api.py
"""

import posixpath
import re
import sys
from html import escape
from pathlib import Path

from mkdocs.structure.files import File
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import BashSessionLexer, TextLexer, get_lexer_for_filename
from pygments.util import ClassNotFound

sys.path.insert(0, str(Path(__file__).resolve().parent))

import api  # noqa: E402

# In console blocks only `$` begins a command: `%` begins lines of graphs.
BashSessionLexer._ps1rgx = re.compile(r"^(\$ )(.*\n?)")
# The theme takes this from another host, for pages that are opened from a disk; worker.js replaces it.
WORKER = re.compile(r'(?<=src=")https:[^"]*/iframe-worker/[^"]*(?=")')

ROOT = Path(__file__).resolve().parents[2]
# A link, or code, which may look like a link. What begins first counts: the text of a link may be code.
LINK = re.compile(r"(\[(?:[^\[\]]|\[[^\]]*\])*\]\()([^)\s]+)(\))|`[^`]*`")
FENCE = re.compile(r"^\s*```")
LARGEST_SOURCE = 200_000
SOURCE_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title} - Ferrite</title><link rel="stylesheet" href="{up}site/source.css"></head>
<body><header><a href="{up}index.html">Ferrite</a> / {crumbs}</header>
<main>{body}</main></body></html>
"""
SOURCE_STYLE = """body { margin: 0; font: 14px/1.5 system-ui, sans-serif; background: #fff; color: #222 }
header { padding: 0.7em 1em; border-bottom: 1px solid #ddd }
main { padding: 0 1em; overflow-x: auto }
a { color: #a3401c }
td { padding: 0.15em 1.5em 0.15em 0; vertical-align: top }
pre, code { font-family: ui-monospace, monospace; font-size: 13px; line-height: 1.45 }
.source a { text-decoration: none }
.source .linenos { color: #999 }
:target { background: #fff3c4 }
"""
DARK_STYLE = """body { background: #1e2129; color: #ddd }
header { border-color: #444 }
a { color: #f0956c }
:target { background: #4a4020 }
"""

# The links of pages to what becomes a page of its own, by the target's path in the repository.
_sources: dict[str, str] = {}


def in_repository(page: str, target: str) -> str:
    """The path in the repository that a link of a page, named by its path in the site, leads to."""
    folder = "" if page == "index.md" else posixpath.join("docs", posixpath.dirname(page))
    return posixpath.normpath(posixpath.join(folder, target))


def page_for(path: str) -> str | None:
    """The page of the site that shows a path of the repository; nothing where it has none."""
    if path == "README.md":
        return "index.md"
    if path.startswith(api.INCLUDE + "/ferrite/") and path.endswith((".h", ".hpp")) and "dlpack" not in path:
        return "api/" + path.removeprefix(api.INCLUDE + "/ferrite/") + ".md"
    inside = path.removeprefix("docs/") if path.startswith("docs/") else None
    if inside and inside.endswith((".md", ".svg")):
        return inside
    if path == api.INCLUDE + "/ferrite/abi":
        return "api/index.md"
    return None


def converted(markdown: str, page: str) -> str:
    """A page with its links as they are on the site. Sources that are linked are noted down."""

    def link(match: re.Match) -> str:
        if match[2] is None:
            return match[0]
        target, hash_mark, anchor = match[2].partition("#")
        if not target or re.match(r"\w+:", target):
            return match[0]
        path = in_repository(page, target)
        file = ROOT / path
        # A page of the reference links to the header that it was made from.
        is_own_header = page.startswith("api/") and path.startswith(api.INCLUDE)
        place = None if is_own_header else page_for(path)
        if place is None and file.exists():
            place = source_page(path)
            _sources[path] = place
        if place is None:
            return match[0]
        back = posixpath.relpath(place, posixpath.dirname(page) or ".")
        return f"{match[1]}{back}{hash_mark}{anchor}{match[3]}"

    fenced, lines = False, []
    for line in markdown.split("\n"):
        fenced ^= bool(FENCE.match(line))
        lines.append(line if fenced else LINK.sub(link, line))
    return "\n".join(lines)


# --- sources ------------------------------------------------------------------------------------------------


def source_page(path: str) -> str:
    # MkDocs leaves out what begins with a dot.
    name = re.sub(r"(^|/)\.", r"\1dot-", path)
    return f"source/{name}/index.html" if (ROOT / path).is_dir() else f"source/{name}.html"


def members(folder: str) -> list[Path]:
    return sorted(
        (path for path in (ROOT / folder).iterdir() if not path.name.startswith((".", "__"))),
        key=lambda path: (path.is_file(), path.name),
    )


def about(path: Path) -> str:
    """The first sentence that a source says of itself."""
    if path.is_dir() or path.suffix not in {".h", ".hpp", ".c", ".cpp", ".py", ".def", ".txt"}:
        return ""
    with path.open(encoding="utf-8", errors="replace") as file:
        lines = [next(file, "").strip() for _ in range(4)]
    for line in lines:
        words = re.sub(r'^(//[/!]?|#|""")\s*', "", line)
        if (
            words != line
            and words
            and "SPDX" not in words
            and not words.startswith(("!", "pragma", "include", "ifndef"))
        ):
            return words.removesuffix('"""')
    return ""


def rendered_source(path: str, known: dict[str, str]) -> str:
    """The page of a file or folder of the repository."""
    place = source_page(path)
    up = "../" * place.count("/")
    parts = path.split("/")
    crumbs = []
    for count in range(1, len(parts) + 1):
        ancestor = "/".join(parts[:count])
        href = posixpath.relpath(known[ancestor], posixpath.dirname(place)) if ancestor in known else ""
        crumbs.append(
            f'<a href="{href}">{escape(parts[count - 1])}</a>'
            if href and count < len(parts)
            else escape(parts[count - 1])
        )
    file = ROOT / path
    if file.is_dir():
        rows = []
        for member in members(path):
            name = member.name + ("/" if member.is_dir() else "")
            target = known.get(f"{path}/{member.name}")
            shown = (
                f'<a href="{posixpath.relpath(target, posixpath.dirname(place))}">{escape(name)}</a>'
                if target
                else escape(name)
            )
            rows.append(f"<tr><td><code>{shown}</code></td><td>{escape(about(member))}</td></tr>")
        body = f"<table>{''.join(rows)}</table>"
    else:
        text = file.read_text(encoding="utf-8", errors="replace")
        try:
            lexer = get_lexer_for_filename(file.name)
        except ClassNotFound:
            lexer = TextLexer()
        form = HtmlFormatter(linenos="inline", lineanchors="L", anchorlinenos=True, cssclass="source")
        body = highlight(text, lexer if len(text) < LARGEST_SOURCE else TextLexer(), form)
    return SOURCE_PAGE.format(title=escape(path), up=up, crumbs=" / ".join(crumbs), body=body)


def is_text(path: Path) -> bool:
    with path.open("rb") as file:
        return b"\0" not in file.read(4096)


def with_members(sources: dict[str, str]) -> dict[str, str]:
    """The sources and the files of folders among them."""
    found = dict(sources)
    for path in sources:
        if (ROOT / path).is_dir():
            for member in members(path):
                inside = f"{path}/{member.name}"
                if member.is_file() and member.stat().st_size < LARGEST_SOURCE and is_text(member):
                    found[inside] = source_page(inside)
    return found


# --- hooks --------------------------------------------------------------------------------------------------


def on_files(files, config):
    pages = {
        file.src_uri: Path(file.abs_src_path).read_text(encoding="utf-8")
        for file in files.documentation_pages()
    }
    pages["index.md"] = (ROOT / "README.md").read_text(encoding="utf-8")
    pages |= api.pages(ROOT)
    _sources.clear()
    for name, text in pages.items():
        text = converted(text, name)
        if name == "index.md" or name.startswith("api/"):
            files.append(File.generated(config, name, content=text))
    known = with_members(_sources)
    for path, place in known.items():
        files.append(File.generated(config, place, content=rendered_source(path, known)))
    light = HtmlFormatter(style="default").get_style_defs(".source")
    dark = HtmlFormatter(style="github-dark").get_style_defs(".source")
    style = f"{light}{SOURCE_STYLE}\n@media (prefers-color-scheme: dark) {{\n{dark}{DARK_STYLE}\n}}\n"
    files.append(File.generated(config, "site/source.css", content=style))
    return files


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri == "index.md" or page.file.src_uri.startswith("api/"):
        return markdown  # converted when it was made
    return converted(markdown, page.file.src_uri)


def on_config(config):
    """Puts the pages of the API reference into the navigation."""
    groups: dict[str, list] = {}
    for header in api.headers(ROOT):
        page = {header.name.removeprefix("ferrite/"): header.page}
        groups.setdefault(api.group_of(header.name), []).append(page)
    reference = ["api/index.md", *({title: pages} for title, pages in groups.items())]
    for section in config["nav"]:
        for entries in section.values():
            for entry in entries:
                if isinstance(entry, dict) and entry.get("API reference") == "api/":
                    entry["API reference"] = reference
    return config


def on_post_page(output, page, config):
    return WORKER.sub("../" * page.url.count("/") + "site/worker.js", output)


def on_post_template(output_content, template_name, config):
    return WORKER.sub("site/worker.js", output_content)
