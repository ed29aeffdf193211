"""Look inside: the graph as a picture, time and memory of a training step, the first NaN.

draw(loss, "graph.svg", model.named_parameters())

with profile(model, optimizer=optimizer.step) as p:
    …a training step…
print(p)

with anomaly_mode():
    …raises at the line where the first NaN comes up…
"""

from autograd.inspect.anomaly import AnomalyError, anomaly_mode
from autograd.inspect.graph import Graph, Node, draw, graph
from autograd.inspect.memory import Memory, memory
from autograd.inspect.profiling import Profile, profile

__all__ = ["AnomalyError", "Graph", "Memory", "Node", "Profile", "anomaly_mode", "draw", "graph", "memory", "profile"]
