"""Products of matrices, with as few and as large BLAS calls as the shapes allow."""

from __future__ import annotations

from typing import Any

from autograd.engine import Op, apply, unbroadcast
from autograd.tensor import Tensor


def _product(xp: Any, a: Any, b: Any) -> Any:
    """a @ b for arrays of two axes or more; a batch times one matrix is one product, not one a batch element.

    Shapes: a [..., M, K], b [..., K, N] -> [..., M, N]
    """
    if b.ndim == 2 and a.ndim > 2:
        rows = xp.matmul(a.reshape(-1, a.shape[-1]) if a.size else a.reshape(_flat(a)), b)
        return rows.reshape(*a.shape[:-1], b.shape[-1])
    return xp.matmul(a, b)


def _flat(a: Any) -> tuple[int, int]:
    """The shape of all rows of `a` as one matrix; spelled out, as -1 cannot be inferred for zero-size arrays."""
    count = 1
    for n in a.shape[:-1]:
        count *= n
    return count, a.shape[-1]


class Matmul(Op):
    """y = a b, with NumPy's rules: vectors gain an axis and lose it again, batch axes are broadcast

    Shapes: a [..., M, K], b [..., K, N] -> y [..., M, N]; a [K] is a row, b [K] a column
    Saves:  each factor only where the other one needs a gradient
    """

    def forward(self, a, b):
        xp = self.xp
        a, b = xp.asarray(a), xp.asarray(b)
        needs_a, needs_b = self.needs_gradient
        self.save(a if needs_b else None, b if needs_a else None)
        self.shapes = a.shape, b.shape
        if a.ndim < 2 or b.ndim != 2:
            return xp.matmul(a, b)
        return _product(xp, a, b)

    def backward(self, g_y):
        xp = self.xp
        a, b = self.saved
        needs_a, needs_b = self.needs_gradient
        a_shape, b_shape = self.shapes
        if len(b_shape) == 1:
            g_y = g_y[..., None]
        if len(a_shape) == 1:
            g_y = g_y[..., None, :]
        g_a = g_b = None
        if needs_a:
            columns = b[:, None] if len(b_shape) == 1 else b
            g_a = unbroadcast(_product(xp, g_y, columns.swapaxes(-1, -2)), _as_matrix(a_shape, 0)).reshape(a_shape)
        if needs_b:
            rows = a[None, :] if len(a_shape) == 1 else a
            if len(b_shape) <= 2 and rows.ndim > 2:  # one matrix met the whole batch: its gradient is one product
                g_b = rows.reshape(_flat(rows)).T @ g_y.reshape(_flat(g_y))
            else:
                g_b = unbroadcast(xp.matmul(rows.swapaxes(-1, -2), g_y), _as_matrix(b_shape, 1))
            g_b = g_b.reshape(b_shape)
        return g_a, g_b


def _as_matrix(shape: tuple[int, ...], vector_axis: int) -> tuple[int, ...]:
    """The shape with which a factor takes part: a vector on the left is a row (0), on the right a column (1)."""
    if len(shape) > 1:
        return shape
    return (1, *shape) if vector_axis == 0 else (*shape, 1)


def matmul(a: Any, b: Any) -> Tensor:
    """a @ b: the matrix product over the last two axes, batch axes broadcast; vectors as NumPy takes them."""
    return apply(Matmul, a, b)


class Linear(Op):
    """y = x Wᵀ + b

    Shapes: x [..., in], weight [out, in], bias [out] -> y [..., out]
    Saves:  x and weight, each only where the other one needs a gradient
    """

    def forward(self, x, weight, bias=None):
        xp = self.xp
        x = xp.asarray(x)
        needs_x, needs_weight = self.needs_gradient[:2]
        self.save(x if needs_weight else None, weight if needs_x else None)
        y = x.reshape(_flat(x)) @ weight.T  # [rows, in] @ [in, out]
        if bias is not None:
            y = y.__iadd__(bias) if xp.result_type(y, bias) == y.dtype else y + bias
        return y.reshape(*x.shape[:-1], weight.shape[0])

    def backward(self, g_y):
        x, weight = self.saved
        needs_x, needs_weight = self.needs_gradient[:2]
        g_rows = g_y.reshape(_flat(g_y))  # [rows, out]
        g_x = (g_rows @ weight).reshape(*g_y.shape[:-1], weight.shape[1]) if needs_x else None
        g_weight = g_rows.T @ x.reshape(_flat(x)) if needs_weight else None
        if len(self.needs_gradient) == 2:
            return g_x, g_weight
        return g_x, g_weight, g_rows.sum(axis=0) if self.needs_gradient[2] else None


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """x Wᵀ + b as one op: a fully connected layer, with the weight stored [out, in] as PyTorch does.

    Shapes: x [..., in], weight [out, in], bias [out] -> [..., out]
    """
    if bias is None:
        return apply(Linear, x, weight)
    return apply(Linear, x, weight, bias)
