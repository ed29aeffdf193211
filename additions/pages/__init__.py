"""Pages and figures: training curves, attention weights, a training step, the graph of a result."""

from additions.pages.graph_page import GraphFigure, draw_graph

__all__ = ["GraphFigure", "draw_graph"]
