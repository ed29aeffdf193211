"""The order of the backward pass: every node after all that use it

Without a tape, a result refers to the nodes it was computed from: `node.inputs` is a list of nodes. The backward pass
visits a node once, after all nodes that use it, because only then is its gradient complete. In the diamond

        a -> b -> d
          -> c ->          d.inputs == [b, c],  b.inputs == c.inputs == [a]

a comes after b and c: [d, b, c, a] or [d, c, b, a].

Shapes: output, a node -> a list of all nodes that it depends on, itself first
Source: `plan` in `autograd/engine.py`, which sorts by the order of creation; here, nodes have none
"""

from additions.course.expect import Wrong, true


def backward_order(output):
    """All nodes that `output` depends on, each once and after all that use it."""
    # solution
    finished = []  # inputs before the nodes that use them
    seen = set()
    stack = [(output, False)]
    while stack:
        node, is_done = stack.pop()
        if is_done:
            finished.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))  # once all its inputs are finished
            stack.extend((x, False) for x in node.inputs)
    return finished[::-1]
    # end


HINTS = (
    "Append a node to a list when all its inputs have been appended (depth-first, post-order), and reverse the list.",
    "Keep a set of the nodes that were seen: without it, a node that is used twice appears twice, and a chain of 60 "
    "diamonds takes 2^60 steps.",
    "A graph may be deeper than Python's limit of recursion (1000 calls): use a stack of (node, whether its inputs are "
    "done) instead of a recursive function.",
)


class _Node:
    def __init__(self, name, *inputs):
        self.name, self.inputs = name, list(inputs)

    def __repr__(self):
        return self.name


def _look_at(order, output, count):
    place = {node: k for k, node in enumerate(order)}
    true(len(place) == len(order), "a node appears twice; each is to be visited once, with its whole gradient")
    true(order and order[0] is output, "the output itself is not the first")
    true(len(order) == count, f"{len(order)} nodes for {count}; every node that the output depends on is needed")
    for node in order:
        for x in node.inputs:
            if place[x] < place[node]:
                raise Wrong(
                    f"the order {order[:8]} visits {x} before {node}, which uses it: the gradient of {x} is passed on "
                    "before it is complete"
                )


def check_diamond(answer):
    """a diamond"""
    a = _Node("a")
    b, c = _Node("b", a), _Node("c", a)
    d = _Node("d", b, c)
    _look_at(answer.backward_order(d), d, 4)


def check_long_and_short_way(answer):
    """a node that is used at the beginning and at the end"""
    for turn in (1, -1):
        a = _Node("a")
        c = _Node("c", _Node("b", a))
        d = _Node("d", *[a, c][::turn])
        _look_at(answer.backward_order(d), d, 4)


def check_deep(answer):
    """a graph of 20,000 nodes in a row"""
    node = _Node("0")
    for k in range(1, 20_000):
        node = _Node(str(k), node)
    try:
        order = answer.backward_order(node)
    except RecursionError:
        raise Wrong(
            "a graph of 20,000 nodes in a row exceeds Python's limit of recursion; keep a stack of your own"
        ) from None
    _look_at(order, node, 20_000)


def check_many_paths(answer):
    """25 diamonds in a row, with 2^25 paths"""
    node = _Node("0")
    for k in range(25):
        node = _Node(f"join {k}", _Node(f"left {k}", node), _Node(f"right {k}", node))
    _look_at(answer.backward_order(node), node, 76)
