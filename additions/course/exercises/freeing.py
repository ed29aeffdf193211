"""Freeing: release what a node keeps as soon as its backward pass is over

A node keeps arrays of the forward pass in `node.saved` until its backward pass needs them. They are most of the memory
of a training step, so each node's are released right after its own backward pass, not at the end:

    node.saved = ()
    node.freed = True

unless `retain_graph` asks to keep them for another pass. A second backward pass through a freed node cannot work, and
must say so with a RuntimeError before it computes anything, instead of giving zeros.

Shapes: nodes in the order of the backward pass, g -> the gradient after the last node: g = node.backward(g) for each
Source: `run_backward` in `autograd/engine.py`
"""

from additions.course.expect import Wrong, raises, true


def run_backward(nodes, g, retain_graph=False):
    """Pass g through all nodes, and free what they keep."""
    # solution
    for node in nodes:
        if node.freed:
            raise RuntimeError("backward a second time: the first call freed the saved arrays; use retain_graph=True")
    for node in nodes:
        g = node.backward(g)
        if not retain_graph:
            node.saved, node.freed = (), True
    return g
    # end


HINTS = (
    "One loop over the nodes computes g = node.backward(g). Where in this loop can node.saved be released?",
    "Release after node.backward(g), which reads node.saved, and before the next node: node.saved, node.freed = (), "
    "True.",
    "Look for a freed node in a loop of its own, before the first node.backward: otherwise half of a pass is done "
    "when the error is raised.",
)


class _Node:
    """y = factor · x, with what it keeps; notes what is alive while it runs."""

    def __init__(self, factor, log, everyone):
        self.saved, self.freed, self.ran = (factor,), False, False
        self.log, self.everyone = log, everyone
        everyone.append(self)

    def backward(self, g):
        if self.ran and not self.saved:
            raise Wrong(
                "a node runs a second time, with its arrays freed: look at node.freed, and raise a RuntimeError"
            )
        self.ran = True
        if not self.saved:
            raise Wrong("a node's arrays are freed before its backward pass, which needs them")
        self.log.append(sum(bool(node.saved) for node in self.everyone))
        return g * self.saved[0]


def _nodes(*factors):
    log, everyone = [], []
    return [_Node(factor, log, everyone) for factor in factors], log


def check_gradient(answer):
    """the gradient: 2 · 3 · 5"""
    yield "g", answer.run_backward(_nodes(2.0, 3.0, 5.0)[0], 1.0)


def check_freed(answer):
    """what is alive while each node runs"""
    nodes, log = _nodes(2.0, 3.0, 5.0)
    answer.run_backward(nodes, 1.0)
    true(
        not any(node.saved for node in nodes), "saved arrays are still alive after the backward pass: nothing is freed"
    )
    true(all(node.freed for node in nodes), "node.freed is not set: a second pass cannot know that nothing is saved")
    true(
        log == [3, 2, 1],
        f"{', '.join(map(str, log))} nodes' arrays were alive while the three nodes ran, expected 3, 2, 1: free each "
        "right after its own backward pass, else the peak of memory is that of the whole graph",
    )


def check_twice(answer):
    """a second backward pass"""
    nodes, log = _nodes(2.0, 3.0)
    answer.run_backward(nodes, 1.0)
    raises(
        RuntimeError,
        lambda: answer.run_backward(nodes, 1.0),
        "a second backward pass through freed nodes raises no RuntimeError",
    )
    fresh, log = _nodes(7.0)
    raises(RuntimeError, lambda: answer.run_backward(fresh + nodes, 1.0), "a freed node goes unnoticed")
    true(
        not log and not fresh[0].freed,
        "the error comes after some nodes have run and are freed: look at all nodes before the first backward",
    )


def check_retain(answer):
    """retain_graph=True"""
    nodes, _ = _nodes(2.0, 3.0)
    yield "g", answer.run_backward(nodes, 1.0, retain_graph=True)
    true(all(node.saved for node in nodes), "retain_graph=True keeps the saved arrays, and they were freed")
    true(not any(node.freed for node in nodes), "retain_graph=True frees nothing, but node.freed is True")
    yield "g of the second pass", answer.run_backward(nodes, 1.0)
