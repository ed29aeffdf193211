"""Boxes and arrows as an SVG picture."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from autograd.inspect.layout import Point, layout

FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
TITLE_PX, TEXT_PX = 13, 11
CHARACTER = 0.602  # width of a character in this font, over its size
LINE_PX = 15
PADDING = 8
MARGIN = 20
LONGEST_TITLE = 26  # characters; a longer title is broken at a dot


@dataclass(frozen=True)
class Box:
    """A box of the picture: a title in bold, lines of text, and a tooltip."""

    title: str
    lines: Sequence[str]
    tooltip: str
    colour: str
    rounded: bool = False

    @property
    def title_lines(self) -> list[str]:
        lines = [""]
        for part in self.title.replace(".", ".\n").split("\n"):
            if lines[-1] and len(lines[-1]) + len(part) > LONGEST_TITLE:
                lines.append("")
            lines[-1] += part
        return lines

    @property
    def size(self) -> tuple[float, float]:
        """Width and height that the text needs."""
        title = self.title_lines
        characters = max(
            max(map(len, title)) * TITLE_PX * CHARACTER,
            max(map(len, self.lines), default=0) * TEXT_PX * CHARACTER,
        )
        return characters + 2 * PADDING, (len(title) + len(self.lines)) * LINE_PX + PADDING


def draw_boxes(boxes: Sequence[Box], edges: Sequence[tuple[int, int]], legend: Mapping[str, str]) -> str:
    """The picture as SVG text.

    edges: pairs of box numbers, from a lower number to a higher one; several between two boxes are one arrow
    legend: colours by name
    """
    places = layout([box.size for box in boxes], edges)
    counts = Counter(edges)
    key, key_width = _legend(legend)
    top = 2 * MARGIN + TEXT_PX
    width = max(places.width, key_width) + 2 * MARGIN
    height = places.height + top + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" font-size="{TEXT_PX}">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z" fill="#777"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<g transform="translate({MARGIN},{MARGIN})">{key}</g>',
            f'<g transform="translate({MARGIN},{top})">',
            *(_arrow(route, counts[edge]) for edge, route in places.routes.items()),
            *map(_box, boxes, places.corners),
            "</g>",
            "</svg>",
            "",
        ]
    )


def _box(box: Box, corner: Point) -> str:
    (x, y), (width, height), title = corner, box.size, box.title_lines
    parts = [
        f'<g class="node"><title>{escape(box.tooltip)}</title>',
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'rx="{min(height / 2, 12) if box.rounded else 5:.1f}" fill="{box.colour}" stroke="#888"/>',
    ]
    baseline = y + PADDING / 2 + LINE_PX - 4
    for i, line in enumerate([*title, *box.lines]):
        style = f'font-weight="bold" font-size="{TITLE_PX}"' if i < len(title) else 'fill="#444"'
        parts.append(
            f'<text x="{x + width / 2:.1f}" y="{baseline + i * LINE_PX:.1f}" text-anchor="middle" {style}>'
            f"{escape(line)}</text>"
        )
    return "".join([*parts, "</g>"])


def _arrow(route: Sequence[Point], count: int) -> str:
    """A curve between rows, a vertical line beside the boxes of a row; a count above 1 stands at the tip."""
    (x, y), *others = route
    path = [f"M{x:.1f},{y:.1f}"]
    for to_x, to_y in others:
        middle = (y + to_y) / 2
        path.append(f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
    times = f'<text x="{x + 5:.1f}" y="{y - 8:.1f}" fill="#777">×{count}</text>' if count > 1 else ""
    return f'<path d="{" ".join(path)}" fill="none" stroke="#777" marker-end="url(#tip)"/>{times}'


def _legend(colours: Mapping[str, str]) -> tuple[str, float]:
    """Names and colours in a row, and the width of the row."""
    parts, x = [], 0.0
    for name, colour in colours.items():
        parts.append(
            f'<rect x="{x:.1f}" y="0" width="12" height="12" fill="{colour}" stroke="#888"/>'
            f'<text x="{x + 17:.1f}" y="10">{name}</text>'
        )
        x += 17 + len(name) * TEXT_PX * CHARACTER + 18
    return "".join(parts), x
