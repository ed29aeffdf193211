"""Tools to inspect a training step: its graph as data, profiles of time and memory.

graph(loss, model.named_parameters())

with profile(model, optimizer=optimizer.step) as p:
    …a training step…
print(p)
"""

from additions.inspect.graph import Graph, Node, graph
from additions.inspect.memory_profile import Memory, memory
from additions.inspect.time_profile import Profile, profile

__all__ = [
    "Graph",
    "Memory",
    "Node",
    "Profile",
    "graph",
    "memory",
    "profile",
]
