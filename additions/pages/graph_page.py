"""The graph that a Tensor was computed by as a picture: a page for any browser, or the output of a notebook's cell."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from additions.inspect import Graph, graph
from additions.inspect.graph import COLOURS, LEAF
from additions.pages.html import asset, dagre, html_page, to_json
from autograd.tensor import Tensor


def draw_graph(results: Tensor | Sequence[Tensor], path: str | Path, names: Mapping[str, Tensor] | None = None) -> None:
    """Write the graph of `results` as a page that loads nothing; `names` as for `additions.inspect.graph`."""
    Path(path).write_text(page_of(graph(results, names)), encoding="utf-8")


def page_of(made: Graph) -> str:
    """Return a graph as a page that loads nothing and draws a picture of it."""
    script = f'{_script()}drawBoxes(document.querySelector("svg"), JSON.parse(document.scripts[0].textContent));'
    title = f"A graph of {len(made.nodes):,} nodes"
    return html_page(title, '<svg id="picture"></svg>', style="", script=script, data={"graph": _picture(made)})


@dataclass(frozen=True)
class GraphFigure:
    """A graph that a notebook shows as a picture: `GraphFigure(graph(loss))` as the last line of a cell."""

    graph: Graph

    def _repr_html_(self) -> str:
        picture = to_json(_picture(self.graph))
        name = f"graph-{hashlib.sha256(picture.encode()).hexdigest()[:12]}"
        call = f'drawBoxes(document.getElementById("{name}"), {picture});'
        svg = f'<svg id="{name}" role="img" aria-label="A graph of {len(self.graph.nodes):,} nodes"></svg>'
        return f"{svg}<script>(() => {{\n{_script()}{call}}})();</script>"


def _picture(made: Graph) -> dict[str, Any]:
    """Return the arguments of `drawBoxes` in web/graph.js."""
    boxes = [
        {"title": node.title_lines, "lines": node.lines, "tooltip": node.tooltip, "colour": node.colour,
         "isLeaf": node.kind == LEAF}
        for node in made.nodes
    ]  # fmt: skip
    kinds = {node.kind for node in made.nodes}
    return {
        "nodes": boxes,
        "edges": [(source, target, count) for (source, target), count in Counter(made.edges).items()],
        "legend": {kind: colour for kind, colour in COLOURS.items() if kind in kinds},
    }


def _script() -> str:
    return dagre() + asset("graph.js")
