"""A graph as a picture: a box an op or leaf, an arrow a value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from html import escape

from autograd.inspect.graph import LEAF, Graph, Node
from autograd.inspect.layout import Point, layout

FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
TITLE_PX, TEXT_PX = 13, 11
CHARACTER = 0.602  # width of a character in this font, over its size
LINE_PX = 15
PADDING = 8
MARGIN = 20
LONGEST_NAME = 26  # characters; a longer name is broken at a dot

COLOURS = {
    LEAF: "#fdf3d0",
    "products": "#cfe3f7",
    "attention": "#f9d5bb",
    "nn": "#d5ecd0",
    "activations": "#e3f3c8",
    "loss": "#f5c6cb",
    "elementwise": "#e6dcf2",
    "choose": "#e6dcf2",
    "reduce": "#d3eeee",
    "index": "#eeeeee",
    "shape": "#eeeeee",
    "other": "#ffffff",
}


def draw_graph(graph: Graph) -> str:
    """The whole picture as SVG text, with its legend."""
    texts = [_texts(node) for node in graph.nodes]
    sizes = [_size(text) for text in texts]
    places = layout(sizes, graph.edges)
    counts = Counter(graph.edges)
    legend, legend_width = _legend(graph)
    top = 2 * MARGIN + TEXT_PX
    arrows = [_arrow(way, counts[edge]) for edge, way in places.routes.items()]
    boxes = [
        _box(node, text, corner, size)
        for node, text, corner, size in zip(graph.nodes, texts, places.corners, sizes, strict=True)
    ]
    width = max(places.width, legend_width) + 2 * MARGIN
    height = places.height + top + MARGIN
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{FONT}" font-size="{TEXT_PX}">',
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7.5" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0,0.5 L8,4 L0,7.5 z" fill="#777"/></marker></defs>',
            '<rect width="100%" height="100%" fill="#ffffff"/>',
            f'<g transform="translate({MARGIN},{MARGIN})">{legend}</g>',
            f'<g transform="translate({MARGIN},{top})">',
            *arrows,
            *boxes,
            "</g>",
            "</svg>",
            "",
        ]
    )


def _texts(node: Node) -> tuple[list[str], list[str]]:
    """The lines of the title, and those below it."""
    return _broken(node.title), node.lines


def _broken(name: str) -> list[str]:
    """A dotted name in lines of some length."""
    lines = [""]
    for part in name.replace(".", ".\n").split("\n"):
        if lines[-1] and len(lines[-1]) + len(part) > LONGEST_NAME:
            lines.append("")
        lines[-1] += part
    return lines


def _size(texts: tuple[Sequence[str], Sequence[str]]) -> tuple[float, float]:
    """Width and height of a box that holds the lines."""
    title, lines = texts
    widest = max(
        max(len(line) for line in title) * TITLE_PX * CHARACTER,
        max([len(line) for line in lines], default=0) * TEXT_PX * CHARACTER,
    )
    return widest + 2 * PADDING, (len(title) + len(lines)) * LINE_PX + PADDING


def _box(node: Node, texts: tuple[Sequence[str], Sequence[str]], corner: Point, size: tuple[float, float]) -> str:
    x, y = corner
    width, height = size
    title, lines = texts
    radius = height / 2 if node.kind == LEAF else 5
    hint = f"{node.where[0]}:{node.where[1]}" if node.where else node.title
    parts = [
        f'<g class="node"><title>{escape(hint)}</title>',
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{min(radius, 12):.1f}" '
        f'fill="{COLOURS.get(node.kind, COLOURS["other"])}" stroke="#888"/>',
    ]
    baseline = y + PADDING / 2 + LINE_PX - 4
    for i, line in enumerate([*title, *lines]):
        style = f'font-weight="bold" font-size="{TITLE_PX}"' if i < len(title) else 'fill="#444"'
        parts.append(
            f'<text x="{x + width / 2:.1f}" y="{baseline + i * LINE_PX:.1f}" text-anchor="middle" {style}>'
            f"{escape(line)}</text>"
        )
    return "".join([*parts, "</g>"])


def _arrow(way: Sequence[Point], count: int) -> str:
    """A curve between rows, straight down beside the boxes of a row; the number at its tip where it counts twice."""
    (x, y), *others = way
    path = [f"M{x:.1f},{y:.1f}"]
    for to_x, to_y in others:
        middle = (y + to_y) / 2
        path.append(f"C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}")
        x, y = to_x, to_y
    times = f'<text x="{x + 5:.1f}" y="{y - 8:.1f}" fill="#777">×{count}</text>' if count > 1 else ""
    return f'<path d="{" ".join(path)}" fill="none" stroke="#777" marker-end="url(#tip)"/>{times}'


def _legend(graph: Graph) -> tuple[str, float]:
    """The colours that occur, in a row; and the row's width."""
    parts, x = [], 0.0
    present = {node.kind for node in graph.nodes}
    for kind, colour in COLOURS.items():
        if kind in present:
            parts.append(
                f'<rect x="{x:.1f}" y="0" width="12" height="12" fill="{colour}" stroke="#888"/>'
                f'<text x="{x + 17:.1f}" y="10">{kind}</text>'
            )
            x += 17 + len(kind) * TEXT_PX * CHARACTER + 18
    return "".join(parts), x
