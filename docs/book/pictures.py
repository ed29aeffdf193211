"""Pictures of the book, drawn with matplotlib when a notebook shows them; to be made, they need no matplotlib.

Text has the colour of the page's text, so that a picture suits light and dark pages.
"""

from __future__ import annotations

import hashlib
import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from additions.inspect import Memory, graph
from additions.pages import GraphFigure
from autograd import Tensor

INK = "#010203"  # stands for the colour of the page's text
COLOURS = ["#4a8fd0", "#e0783a", "#4da664", "#c65b9d", "#9a86d8", "#b59b2b"]
SETTINGS = {
    "svg.fonttype": "none", "font.size": 10, "axes.spines.top": False, "axes.spines.right": False,
    "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK,
    "legend.frameon": False, "figure.constrained_layout.use": True,
}  # fmt: skip


@dataclass
class Picture:
    """What `draw` puts on a figure; as an SVG element of a page, once it is shown."""

    title: str
    draw: Callable[[Any], None]
    size: tuple[float, float] = (7.0, 3.0)  # inches

    def _repr_html_(self) -> str:
        import matplotlib
        from cycler import cycler
        from matplotlib.figure import Figure

        with matplotlib.rc_context({**SETTINGS, "axes.prop_cycle": cycler(color=COLOURS)}):
            figure = Figure(figsize=self.size)
            self.draw(figure)
            text = io.StringIO()
            figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
        svg = text.getvalue().replace(INK, "currentColor")
        # On a narrow screen a page scrolls the figure before its text of 10 points is too small to be read
        return in_page(svg.replace("<svg", f'<svg style="--least: {70 * self.size[0]:.0f}px"', 1), self.title)


@dataclass
class GraphPicture:
    """The graph of a result, as `additions.pages` draws it."""

    title: str
    result: Tensor
    names: Mapping[str, Tensor]

    def __post_init__(self) -> None:
        self.graph = graph(self.result, self.names)  # now: a backward pass frees the graph

    def _repr_html_(self) -> str:
        return figure(GraphFigure(self.graph)._repr_html_(), self.title)


def in_page(svg: str, title: str) -> str:
    """An SVG file as an element of a page, with ids of its own."""
    svg = svg[svg.index("<svg") :]
    own = "p" + hashlib.sha1(svg.encode()).hexdigest()[:8]
    svg = re.sub(r'\bid="', f'id="{own}-', svg)
    svg = re.sub(r'(href="#|url\(#)', rf"\g<1>{own}-", svg)
    svg = svg.replace("<svg", f'<svg role="img" aria-label="{escape(title)}"', 1)
    return figure(svg, title)


def figure(content: str, title: str) -> str:
    return f'<figure class="picture">{content}<figcaption>{escape(title)}</figcaption></figure>'


def lines(
    title: str, x: Sequence[float], curves: Mapping[str, Sequence[float]], labels: tuple[str, str], log: str = ""
) -> Picture:
    """Curves over x.  labels: of both axes; log: the axes with a logarithmic scale, "x", "y" or "xy"."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, y in curves.items():
            axes.plot(x, y, label=name)
        _finish(axes, labels, log, len(curves) > 1)

    return Picture(title, draw)


def memory_curve(title: str, **measured: Memory) -> Picture:
    """The memory in use after each change, as `additions.inspect.memory` recorded it."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for name, record in measured.items():
            kib = [moment.live_bytes / 1024 for moment in record.timeline]
            axes.step(range(len(kib)), kib, where="post", label=name.replace("_", " "))
        axes.set_ylim(bottom=0)
        _finish(axes, ("changes, in their order", "KiB in use"), "", len(measured) > 1)

    return Picture(title, draw)


def bars(title: str, values: Mapping[str, float], label: str) -> Picture:
    """A horizontal bar with its value for each name."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        bar = axes.barh(list(values), list(values.values()), color=COLOURS[0])
        axes.bar_label(bar, fmt="{:,.4g}", padding=3)
        axes.margins(x=0.12)
        axes.invert_yaxis()
        _finish(axes, (label, ""), "", False)

    return Picture(title, draw, (7.0, 0.6 + 0.32 * len(values)))


def heat_maps(
    title: str,
    matrices: Mapping[str, np.ndarray[Any, Any]],
    rows: Sequence[object] = (),
    columns: Sequence[object] = (),
    labels: tuple[str, str] = ("", ""),
) -> Picture:
    """Matrices side by side, all with one scale of colours; `rows` and `columns` name rows and columns."""

    def draw(figure: Any) -> None:
        top = max(float(np.abs(matrix).max()) for matrix in matrices.values())
        has_sign = any((matrix < 0).any() for matrix in matrices.values())
        colours = {"cmap": "RdBu_r" if has_sign else "Blues", "vmin": -top if has_sign else 0, "vmax": top}
        every = figure.subplots(1, len(matrices), squeeze=False)[0]
        for axes, (name, matrix) in zip(every, matrices.items(), strict=True):
            image = axes.imshow(matrix, aspect="auto", **colours)
            axes.set(title=name, xlabel=labels[1], ylabel=labels[0] if axes is every[0] else "")
            if len(columns):
                axes.set_xticks(
                    range(len(columns)), columns, rotation=90 if max(map(len, map(str, columns))) > 2 else 0
                )
            if len(rows):
                axes.set_yticks(range(len(rows)), rows if axes is every[0] else [""] * len(rows))
        figure.colorbar(image, ax=list(every), shrink=0.9)

    return Picture(title, draw, (7.4, 3.2))


def spans(title: str, rows: Mapping[str, Sequence[tuple[float, float, str]]], label: str) -> Picture:
    """Rows of (start, end, kind) on a common axis, a colour for each kind."""

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        kinds = list(dict.fromkeys(kind for each in rows.values() for _, _, kind in each))
        for y, each in enumerate(rows.values()):
            for start, end, kind in each:
                axes.barh(y, end - start, left=start, color=COLOURS[kinds.index(kind)], height=0.7)
        for kind in kinds:
            axes.barh(0, 0, color=COLOURS[kinds.index(kind)], label=kind)
        axes.set_yticks(range(len(rows)), list(rows))
        axes.invert_yaxis()
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.25), ncols=len(kinds))
        axes.set_xlabel(label)

    return Picture(title, draw, (7.2, 0.9 + 0.36 * len(rows)))


def tree(title: str, nodes: Sequence[tuple[str, int | None, bool]]) -> Picture:
    """A tree that grows to the right.  nodes: (label, position of the parent, whether it is kept), parents first"""
    depth: list[int] = []
    for _, parent, _ in nodes:
        depth.append(0 if parent is None else depth[parent] + 1)
    children: dict[int | None, list[int]] = {}
    for i, (_, parent, _) in enumerate(nodes):
        children.setdefault(parent, []).append(i)
    height: dict[int, float] = {}

    def place(i: int) -> None:
        for child in children.get(i, []):
            place(child)
        below = [height[child] for child in children.get(i, [])]
        height[i] = sum(below) / len(below) if below else sum(1 for each in height if not children.get(each))

    for root in children[None]:
        place(root)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.set_axis_off()
        for i, (label, parent, is_kept) in enumerate(nodes):
            colour = COLOURS[0] if is_kept else "#888888"
            if parent is not None:
                axes.plot([depth[parent], depth[i]], [height[parent], height[i]], color=colour, zorder=0, linewidth=1)
            style = {"boxstyle": "round", "facecolor": "#e8f1fa" if is_kept else "#eeeeee", "edgecolor": colour}
            axes.text(depth[i], height[i], label, ha="center", va="center", fontsize=10, bbox=style, color="#222222")
        axes.set(xlim=(-0.4, max(depth) + 0.4), ylim=(max(height.values()) + 0.6, -0.6))

    return Picture(title, draw, (1.0 + 1.2 * (max(depth) + 1), 0.6 + 0.36 * (max(height.values()) + 1)))


def _finish(axes: Any, labels: tuple[str, str], log: str, has_legend: bool) -> None:
    axes.set(xlabel=labels[0], ylabel=labels[1])
    if "x" in log:
        axes.set_xscale("log")
    if "y" in log:
        axes.set_yscale("log")
    if has_legend:
        axes.legend()
