"""Matrix products."""

from __future__ import annotations

import numpy as np

from autograd.engine import Op, apply
from autograd.tensor import Tensor, TensorLike, attach


class Matmul(Op):
    """y = a b, with NumPy's rules: vectors gain an axis and lose it again, batch axes are broadcast

    Shapes: a [..., M, K], b [..., K, N] -> y [..., M, N]; a [K] is a row, b [K] a column
    """

    broadcasts = True  # over the batch axes
    reads = ("b", "a")

    @staticmethod
    def forward(xp, a, b):
        try:
            return xp.matmul(a, b)
        except ValueError:
            raise ValueError(mismatch(np.shape(a), np.shape(b))) from None

    @staticmethod
    def backward(xp, g, y, a, b):
        row, column = a.ndim == 1, b.ndim == 1
        g = g[..., None] if column else g
        g = g[..., None, :] if row else g  # [..., M, N]

        def g_a():
            b_matrix = b[:, None] if column else b
            return g @ b_matrix.swapaxes(-1, -2)  # [..., M, N] @ [..., N, K]

        def g_b():
            a_matrix = a[None] if row else a
            g_matrix = a_matrix.swapaxes(-1, -2) @ g  # [..., K, M] @ [..., M, N]
            return g_matrix[..., 0] if column else g_matrix

        return g_a, g_b


def mismatch(a: tuple[int, ...], b: tuple[int, ...]) -> str:
    """State why arrays of these shapes have no matrix product."""
    if not a or not b:
        return f"matmul of shapes {a} and {b}: a scalar has no matrix product; multiply with *"
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        axis = "last axis but one" if len(b) > 1 else "only axis"
        return (
            f"matmul of shapes {a} and {b}: the last axis of the first, {a[-1]}, must equal the {axis} of the second, "
            f"{inner}; transpose one of the two, or reshape it"
        )
    return (
        f"matmul of shapes {a} and {b}: the batch axes {a[:-2]} and {b[:-2]} cannot be broadcast; make them equal or 1"
    )


def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """a @ b: the matrix product over the last two axes, batch axes broadcast; vectors as NumPy takes them.

    Raises: ValueError for shapes that do not fit, and for 0-d operands
    """
    return apply(Matmul, a, b)


attach(__matmul__=matmul, __rmatmul__=lambda x, other: matmul(other, x))
