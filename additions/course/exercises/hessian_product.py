"""The Hessian of cross-entropy times a vector

The loss of a row x of logits with target t is ln Σ exp(x_j) - x_t, and its gradient p - 1_t with p = softmax(x). The
Hessian is the derivative of the gradient by x, in which the target no longer occurs. H is symmetric [V, V]. With 37,000
words it takes 5 GB a row in float32; its product with a vector takes no more than a softmax. The loss of several rows
is the sum of theirs, so each row of v meets the Hessian of its own row of logits.

Shapes: logits [N, V], v [N, V] -> H v [N, V]
Source: `autograd.hvp`, which computes such products for any function
"""

import tracemalloc

import numpy as np

from additions.course.expect import Wrong, true


def hessian_product(logits, v):
    """H v, row by row, without H."""
    # solution
    e = np.exp(logits - logits.max(axis=-1, keepdims=True))
    p = e / e.sum(axis=-1, keepdims=True)
    return p * (v - (p * v).sum(axis=-1, keepdims=True))
    # end


HINTS = (
    "(H v)_i = Σ_j p_i (δ_ij - p_j) v_j. The first part is p_i v_i; in the second, p_i does not depend on j and comes "
    "out of the sum.",
    "p is the softmax of each row, with the row's largest element subtracted before exp; no target is needed.",
    "H v = p * (v - (p * v).sum(axis=-1, keepdims=True)): v minus its mean under p. It is the backward pass of softmax "
    "with v in the place of the incoming gradient, because H is symmetric.",
)

MISTAKES = (
    ("v is weighed with its plain mean where its mean under p is meant: Σ_j p_j v_j", "(p * v).sum(", "v.mean("),
    ("this is the gradient of the loss, with v as the target; it is to be differentiated once more",
     "p * (v - (p * v).sum(axis=-1, keepdims=True))", "p - v"),
)  # fmt: skip

RNG = np.random.default_rng(0)


def check_values(answer):
    """the product with a random vector"""
    yield "H v", answer.hessian_product(RNG.standard_normal((3, 5)), RNG.standard_normal((3, 5)))


def check_constant(answer):
    """a constant v: the loss does not change when a number is added to all logits"""
    yield "H v of v = (2, 2, 2)", answer.hessian_product(np.array([[1.0, 0.0, -2.0]]), np.full((1, 3), 2.0))


def check_large(answer):
    """large logits: x = [1000, 1001]"""
    found = np.asarray(answer.hessian_product(np.array([[1000.0, 1001.0]]), np.array([[1.0, 3.0]])))
    true(np.isfinite(found).all(), "exp overflows: subtract the largest element of the row first")
    yield "H v", found


def check_memory(answer):
    """one row of 2,000 classes: H would have 4,000,000 elements"""
    logits, v = RNG.standard_normal((2, 1, 2000))
    tracemalloc.start()
    try:
        found = answer.hessian_product(logits, v)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    if peak > 2000 * 2000 * 4:
        raise Wrong(
            f"{peak / 1e6:.0f} MB for a row of 2,000 classes: H itself is computed; its product with v needs arrays of "
            "the shape of v only"
        )
    yield "H v", found
