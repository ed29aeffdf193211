"""Pages and figures: training curves, attention weights, a training step, the graph of a result.

Start-up time: the public names are imported when first used, so that `minitf page --help` needs no NumPy.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from additions.pages.graph_page import GraphFigure as GraphFigure
    from additions.pages.graph_page import draw_graph as draw_graph
    from additions.pages.step import step_page as step_page

_MODULES = {
    "GraphFigure": "additions.pages.graph_page",
    "draw_graph": "additions.pages.graph_page",
    "step_page": "additions.pages.step",
}

__all__ = list(_MODULES)


if not TYPE_CHECKING:  # to a type checker, it would make every misspelt name right

    def __getattr__(name: str) -> Any:
        if name not in _MODULES:
            raise AttributeError(f"module 'additions.pages' has no attribute {name!r}")
        return getattr(import_module(_MODULES[name]), name)
