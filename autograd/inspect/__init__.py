"""Tools to inspect a training step: pictures of the graph, profiles of time and memory.

draw(loss, "graph.svg", model.named_parameters())

with profile(model, optimizer=optimizer.step) as p:
    …a training step…
print(p)

with anomaly_mode():
    …raises an error at the line that produces the first NaN…
"""

from autograd.inspect.anomaly import AnomalyError, anomaly_mode
from autograd.inspect.graph import Graph, Node, draw, graph
from autograd.inspect.memory_profile import Memory, memory
from autograd.inspect.time_profile import Profile, profile

__all__ = [
    "AnomalyError",
    "Graph",
    "Memory",
    "Node",
    "Profile",
    "anomaly_mode",
    "draw",
    "graph",
    "memory",
    "profile",
]
