#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The site of the documentation: it builds without warnings, needs no other host and has no dead link.

Usage: check_site.py [--root DIRECTORY] [--site DIRECTORY]
Prints one line a violation; exit status 1 when there is any. With --site, a site that was built before is
checked.

  build     MkDocs with `strict` takes a warning for an error: pages that the navigation lacks, links,
            anchors.
  assets    No page takes a style, a script, a font or a picture from another host.
  links     Each link of a page leads to a file of the site, and to an anchor that it has.
  API       Each function and each struct of ferrite.h has a heading and its comment, each field its comment.
"""

import argparse
import html
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from urllib.parse import unquote

HEADER = "sdk/include/ferrite/ferrite.h"
LINK = re.compile(r"""<a\s[^>]*?href=["']?([^"'\s>]+)""")
ASSET = re.compile(r"""<(?:link\s[^>]*?href|(?:script|img|iframe|source)\s[^>]*?src)=["']?([^"'\s>]+)""")
ANCHOR = re.compile(r"""\s(?:id|name)=["']?([^"'\s>]+)""")
STYLE_URL = re.compile(r"""(?:url\(|@import\s+)["']?(https?:|//)[^)"']*""")
# In the README, by what the site shows of them.
PICTURES = ("pictures/way.svg", "pictures/speed.svg")


def build(root: Path, site: Path) -> list[str]:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--config-file",
            "docs/site/mkdocs.yml",
            "--site-dir",
            site,
        ],
        cwd=root,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    # `strict` counts the warnings that are printed: with --quiet it finds none.
    lines = [line for line in done.stdout.splitlines() if line.strip() and not line.startswith("INFO")]
    return [f"mkdocs: {line}" for line in lines] if done.returncode else []


@cache
def anchors_of(file: Path) -> set[str]:
    return {html.unescape(name) for name in ANCHOR.findall(file.read_text(encoding="utf-8"))}


def page_faults(page: Path, site: Path) -> Iterator[str]:
    text = page.read_text(encoding="utf-8")
    for asset in ASSET.findall(text):
        if re.match(r"(?:\w+:)?//", asset):
            yield f"'{asset}' is of another host"
        elif (
            not asset.startswith("data:")
            and not (page.parent / unquote(asset.split("#")[0].split("?")[0])).exists()
        ):
            yield f"the asset '{asset}' is not there"
    for link in LINK.findall(text):
        target, _, anchor = html.unescape(link).partition("#")
        if re.match(r"\w+:", target):
            continue
        file = (page.parent / unquote(target)).resolve() if target else page
        if file.is_dir():
            file /= "index.html"
        if not file.is_relative_to(site) or not file.exists():
            yield f"the link '{link}' leads to nothing"
        elif anchor and file.suffix == ".html" and unquote(anchor) not in anchors_of(file):
            yield f"the link '{link}': the page has no such anchor"


def style_faults(style: Path) -> Iterator[str]:
    for match in STYLE_URL.finditer(style.read_text(encoding="utf-8")):
        yield f"'{match[0]}' is of another host"


def site_faults(site: Path) -> Iterator[str]:
    for page in sorted(site.rglob("*.html")):
        name = page.relative_to(site).as_posix()
        # Its links begin at the root of a server.
        if name != "404.html":
            yield from (f"{name}: {fault}" for fault in page_faults(page, site))
    for style in sorted(site.rglob("*.css")):
        yield from (f"{style.relative_to(site)}: {fault}" for fault in style_faults(style))
    first = (site / "index.html").read_text(encoding="utf-8")
    yield from (f"index.html: it does not show {name}" for name in PICTURES if f'src="{name}"' not in first)


def plain(text: str) -> str:
    """The letters and digits of a text, apart from any markup."""
    return re.sub(r"[^A-Za-z0-9]+", " ", html.unescape(re.sub(r"<[^>]+>", " ", text))).strip()


def declared(header: str) -> dict[str, list[str]]:
    """Functions and structs of a C header, with the lines of the comments that belong to each."""
    found: dict[str, list[str]] = {}
    above: list[str] = []
    struct = None
    for line in header.splitlines():
        comment = re.search(r"//\s?(.*)$", line)
        code = line[: comment.start()].strip() if comment else line.strip()
        name = re.match(r"(?:FERRITE_API\b.*?\b(\w+)\(|typedef struct (\w+))", code)
        if struct:
            found[struct] += [comment[1]] if comment else []
            struct = None if code.startswith("}") else struct
        elif name:
            found[name[1] or name[2]] = above + ([comment[1]] if comment else [])
            struct = name[2] if code.endswith("{") else None
        above = [*above, comment[1]] if comment and not code else []
    return found


def section(page: str, name: str) -> str | None:
    """A page from the heading of a name to the next heading."""
    found = re.search(rf'<h2[^>]*id="{name}".*?</h2>(.*?)(?=<h2|</article>)', page, re.DOTALL)
    return found[1] if found else None


def api_faults(page: str, header: str) -> Iterator[str]:
    """Functions and structs of a header that its page lacks, with their comments."""
    names = declared(header)
    if not names:
        yield f"{HEADER}: it declares nothing"
    for name, comments in names.items():
        text = section(page, name)
        if text is None:
            yield f"{HEADER}: the reference has no {name}"
            continue
        words = plain(text)
        if not comments:
            yield f"{HEADER}: {name} has no comment"
        for comment in comments:
            if plain(comment) not in words:
                yield f"{HEADER}: the reference lacks of {name}: {comment}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parents[2])
    parser.add_argument("--site", type=Path)
    options = parser.parse_args()
    root = options.root.resolve()
    with tempfile.TemporaryDirectory() as folder:
        site = (options.site or Path(folder) / "site").resolve()
        faults = [] if options.site else build(root, site)
        if not faults:
            faults = list(site_faults(site))
            page = (site / "api/ferrite.h.html").read_text(encoding="utf-8")
            faults += api_faults(page, (root / HEADER).read_text(encoding="utf-8"))
    for fault in faults:
        print(fault)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
