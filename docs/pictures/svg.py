# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A picture as SVG, in colours for a light and for a dark page.

A picture has its own background, so that it can be read on a page of either colour whatever the browser asks for.
"""

import argparse
import sys
from html import escape
from pathlib import Path

FONT = "-apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
# Class -> (property, light, dark).
COLOURS = {
    "page": ("fill", "#ffffff", "#0d1117"),
    "frame": ("stroke", "#d0d7de", "#30363d"),
    "ink": ("fill", "#1f2328", "#e6edf3"),
    "faint": ("fill", "#59636e", "#9198a1"),
    "line": ("stroke", "#818b98", "#7d8590"),
    "head": ("fill", "#818b98", "#7d8590"),
    "grid": ("stroke", "#e4e8ec", "#21262d"),
    "core": ("fill", "#ddf0ff", "#12304f"),
    "core-edge": ("stroke", "#218bff", "#388bfd"),
    "plugin": ("fill", "#fff1d6", "#3b2a08"),
    "plugin-edge": ("stroke", "#bf8700", "#bb8009"),
    "file": ("fill", "#f6f8fa", "#161b22"),
    "first": ("fill", "#0969da", "#58a6ff"),
    "second": ("fill", "#bc4c00", "#f0883e"),
    "third": ("fill", "#8250df", "#bc8cff"),
    "ours": ("stroke", "#1a7f37", "#3fb950"),
    "ours-ink": ("fill", "#1a7f37", "#3fb950"),
}


def number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


class Picture:
    """Shapes over a background of width x height; `title` is what a screen reader says."""

    def __init__(self, width: int, height: int, title: str):
        self.width, self.height, self.title = width, height, title
        self.shapes: list[str] = []

    def box(self, x: float, y: float, width: float, height: float, classes: str, radius: float = 6):
        self.shapes.append(f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" height="{number(height)}" '
                           f'rx="{number(radius)}" class="{classes}"/>')  # fmt: skip

    def text(self, x: float, y: float, words: str, classes: str = "ink", anchor: str = "middle", size: float = 13, bold: bool = False):
        weight = ' font-weight="600"' if bold else ""
        self.shapes.append(f'<text x="{number(x)}" y="{number(y)}" class="{classes}" text-anchor="{anchor}" '
                           f'font-size="{number(size)}"{weight}>{escape(words)}</text>')  # fmt: skip

    def line(self, x1: float, y1: float, x2: float, y2: float, classes: str = "line", more: str = ""):
        self.shapes.append(f'<line x1="{number(x1)}" y1="{number(y1)}" x2="{number(x2)}" y2="{number(y2)}" class="{classes}"{more}/>')

    def arrow(self, x1: float, y1: float, x2: float, y2: float):
        """Along a row or a column."""
        dx, dy = (x2 > x1) - (x2 < x1), (y2 > y1) - (y2 < y1)
        self.line(x1, y1, x2 - 5 * dx, y2 - 5 * dy, more=' stroke-width="1.5"')
        left, right = (x2 - 7 * dx + 4 * dy, y2 - 7 * dy + 4 * dx), (x2 - 7 * dx - 4 * dy, y2 - 7 * dy - 4 * dx)
        self.polygon([(x2, y2), left, right], "head")

    def polygon(self, points: list[tuple[float, float]], classes: str):
        at = " ".join(f"{number(x)},{number(y)}" for x, y in points)
        self.shapes.append(f'<polygon points="{at}" class="{classes}"/>')

    def circle(self, x: float, y: float, radius: float, classes: str):
        self.shapes.append(f'<circle cx="{number(x)}" cy="{number(y)}" r="{number(radius)}" class="{classes}"/>')

    def svg(self) -> str:
        used = " ".join(self.shapes)
        known = {name: colour for name, colour in COLOURS.items() if name in ("page", "frame") or name in used}
        light = "".join(f".{name}{{{what}:{value}}}" for name, (what, value, _) in known.items())
        dark = "".join(f".{name}{{{what}:{value}}}" for name, (what, _, value) in known.items())
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
            f'viewBox="0 0 {self.width} {self.height}" role="img" font-family="{FONT}">',
            f"<title>{escape(self.title)}</title>",
            f"<style>{light}",
            f"@media (prefers-color-scheme: dark){{{dark}}}</style>",
            f'<rect x="0.5" y="0.5" width="{self.width - 1}" height="{self.height - 1}" rx="8" class="page frame"/>',
            *self.shapes,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"


def written(path: Path, text: str, check: bool) -> bool:
    """Whether the file has this text; without `check` it is written then."""
    same = path.is_file() and path.read_text(encoding="utf-8") == text
    if not same and not check:
        path.write_text(text, encoding="utf-8")
        print(f"wrote {path.name}")
    return same or not check


def main(description: str, path: Path, picture: Picture) -> int:
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--check", action="store_true", help="write nothing; exit status 1 where the file differs")
    if written(path, picture.svg(), parser.parse_args().check):
        return 0
    print(f"{path} is not what {path.with_suffix('.py').name} draws; run it", file=sys.stderr)
    return 1
