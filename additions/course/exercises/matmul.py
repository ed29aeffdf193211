"""Matrix product: its backward pass

    y = a b        y[i, k] = Σ_j a[i, j] b[j, k]

`a` may have leading batch axes that b lacks; the one matrix b is then used in every product of the batch.

Shapes: a [..., n, m], b [m, k] or [..., m, k] with the same leading axes, g [..., n, k] -> g_a like a, g_b like b
"""

import numpy as np

from additions.course.expect import gradients


def matmul(a, b):
    """y = a b."""
    return a @ b


def matmul_vjp(g, a, b):
    """(g_a, g_b)."""
    # solution
    g_a = g @ b.swapaxes(-1, -2)
    g_b = a.swapaxes(-1, -2) @ g
    if b.ndim < a.ndim:  # one matrix for the whole batch
        g_b = g_b.sum(axis=tuple(range(a.ndim - b.ndim)))
    return g_a, g_b
    # end


HINTS = (
    "Derive by shapes: g_a has to be [n, m], from g [n, k] and b [m, k]. There is one way.",
    "In a batch, b.T would reverse all axes; b.swapaxes(-1, -2) exchanges the last two.",
    "Where b has no batch axes, aᵀ g has: sum g_b over them.",
)

MISTAKES = (
    ("the gradient of b is that of each product of the batch; b is used in all of them, so their gradients are summed "
     "over the batch axes that b lacks", "if b.ndim < a.ndim:", "if False:"),
)  # fmt: skip

RNG = np.random.default_rng(0)


def check_matrices(answer):
    """gradients of two matrices [2, 3] [3, 4]"""
    gradients(matmul, answer.matmul_vjp, RNG.standard_normal((2, 3)), RNG.standard_normal((3, 4)))


def check_square(answer):
    """gradients of two square matrices"""
    gradients(matmul, answer.matmul_vjp, RNG.standard_normal((3, 3)), RNG.standard_normal((3, 3)))


def check_batch(answer):
    """gradients of a batch [2, 3, 2, 4] [2, 3, 4, 3]"""
    note = "in a batch, .T reverses all axes; .swapaxes(-1, -2) exchanges the last two"
    inputs = RNG.standard_normal((2, 3, 2, 4)), RNG.standard_normal((2, 3, 4, 3))
    gradients(matmul, answer.matmul_vjp, *inputs, note=note)


def check_shared_matrix(answer):
    """gradients of a batch [2, 5, 3] times one matrix [3, 4]"""
    gradients(matmul, answer.matmul_vjp, RNG.standard_normal((2, 5, 3)), RNG.standard_normal((3, 4)))
