"""Broadcasting: the gradient of what was repeated

In y = a + b with a [2, 3] and b [3], NumPy repeats b along the first axis: y[i, j] = a[i, j] + b[j]. The gradient of b
has the shape of b, and g is the gradient of y. An axis is repeated where the input lacks it (leading axes), or has the
size 1 and the output another size.

Shapes: g, of the output's shape; shape, of the input -> the gradient of the input, of `shape`
Source: `unbroadcast` in `autograd/backend.py`
"""

import numpy as np

from additions.course.expect import unchanged


def unbroadcast(g, shape):
    """The gradient of an input of `shape` that was repeated to the shape of g."""
    # solution
    lead = g.ndim - len(shape)
    g = g.sum(axis=tuple(range(lead)))
    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1)
    return g.sum(axis=repeated, keepdims=True)
    # end


HINTS = (
    "Two kinds of axes are summed over: the leading ones that `shape` lacks, which disappear, and those of size 1, "
    "which remain.",
    "There are g.ndim - len(shape) leading axes; sum over all of them at once: axis=tuple(range(lead)).",
    "For the axes of size 1, keepdims=True keeps them: g.sum(axis=repeated, keepdims=True).",
)

ONE = "the gradient of one repetition alone comes back instead of the sum over all"
MISTAKES = (
    (ONE, "g = g.sum(axis=tuple(range(lead)))", "g = g[(0,) * lead]"),
    (ONE, "return g.sum(axis=repeated, keepdims=True)",
     "return g[tuple(slice(1 if k in repeated else None) for k in range(g.ndim))]"),
    ("the last axes are summed over; NumPy aligns shapes at their ends, so the leading ones were added",
     "axis=tuple(range(lead))", "axis=tuple(range(g.ndim - lead, g.ndim))"),
    ("the axis of size 1 is missing: its sum needs keepdims=True", "keepdims=True", "keepdims=False"),
    ("summed over the wrong axis", "return g.sum(axis=repeated, keepdims=True)",
     "return g.sum(axis=0)[:, None] if g.shape == (3, 3) else g.sum(axis=repeated, keepdims=True)"),
)  # fmt: skip

G = np.arange(24.0).reshape(2, 3, 4) ** 2


def check_leading(answer):
    """leading axes: [4] in an output [2, 3, 4]"""
    before = G.copy()
    yield "g of shape (4,)", answer.unbroadcast(G, (4,))
    unchanged("g", before, G)


def check_axis_of_size_1(answer):
    """an axis of size 1: [2, 1, 4] in an output [2, 3, 4]"""
    yield "g of shape (2, 1, 4)", answer.unbroadcast(G, (2, 1, 4))


def check_both(answer):
    """both: [3, 1] in an output [2, 3, 4], and other shapes"""
    for shape in [(3, 1), (1, 1), (1, 4), (2, 3, 4), (), (1,), (1, 3, 1), (1, 1, 1)]:
        yield f"g of shape {shape}", answer.unbroadcast(G, shape)


def check_square(answer):
    """axes that happen to have one size: [3, 1] in an output [3, 3]"""
    yield "g of shape (3, 1)", answer.unbroadcast(np.arange(9.0).reshape(3, 3), (3, 1))
