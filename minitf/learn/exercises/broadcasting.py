"""Broadcasting: sum the gradient over what was repeated

In y = a + b with a [2, 3] and b [3], NumPy repeats b along the first axis. Each repetition contributes to the gradient,
so the gradient of b is the sum over all of them:

    g_b[j] = Σ_i g_y[i, j]

An axis is repeated where the input lacks it (leading axes), or has the size 1 and the output another size.

Shapes: g, of the output's shape; shape, of the input -> g summed to `shape`
Source: `unbroadcast` in `autograd/engine.py`
"""

import numpy as np

from minitf.learn.expect import equal, unchanged


def unbroadcast(g, shape):
    """Sum `g` over the axes along which an array of `shape` was repeated."""
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

G = np.arange(24.0).reshape(2, 3, 4) ** 2


def check_leading(answer):
    """leading axes: [4] in an output [2, 3, 4]"""
    before = G.copy()
    mistakes = {
        "the gradient of one repetition alone comes back instead of the sum over all": G[0, 0],
        "a mean over the repetitions where a sum is meant": G.mean(axis=(0, 1)),
        "the last axes are summed over; NumPy aligns shapes at their ends, so the leading ones were added": (
            G.sum(axis=(1, 2))
        ),
        "one leading axis is summed over, there are two": G.sum(axis=0),
    }
    equal("g of shape (4,)", answer.unbroadcast(G, (4,)), G.sum(axis=(0, 1)), mistakes)
    unchanged("g", before, G)


def check_axis_of_size_1(answer):
    """an axis of size 1: [2, 1, 4] in an output [2, 3, 4]"""
    right = G.sum(axis=1, keepdims=True)
    mistakes = {
        "the axis of size 1 is missing: its sum needs keepdims=True": G.sum(axis=1),
        "the gradient of one repetition alone comes back instead of the sum over all": G[:, :1],
        "a mean over the repetitions where a sum is meant": G.mean(axis=1, keepdims=True),
        "the gradient is returned as it came; axes of size 1 were repeated, too": G,
    }
    equal("g of shape (2, 1, 4)", answer.unbroadcast(G, (2, 1, 4)), right, mistakes)


def check_both(answer):
    """both: [3, 1] in an output [2, 3, 4], and other shapes"""
    for shape in [(3, 1), (1, 1), (1, 4), (2, 3, 4), (), (1,), (1, 3, 1), (1, 1, 1)]:
        wide = (1,) * (3 - len(shape)) + shape
        axes = tuple(k for k in range(3) if wide[k] == 1)
        equal(f"g of shape {shape}", answer.unbroadcast(G, shape), G.sum(axis=axes, keepdims=True).reshape(shape))


def check_square(answer):
    """axes that happen to have one size: [3, 1] in an output [3, 3]"""
    g = np.arange(9.0).reshape(3, 3)
    right, other = g.sum(axis=1, keepdims=True), g.sum(axis=0)[:, None]
    equal("g of shape (3, 1)", answer.unbroadcast(g, (3, 1)), right, {"summed over the wrong axis": other})
