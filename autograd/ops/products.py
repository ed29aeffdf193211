"""Matrix products, and Einstein's summation."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.backend import is_floating
from autograd.engine import Op, apply
from autograd.ops.arithmetic import multiply
from autograd.ops.shape import reshape, swapaxes
from autograd.tensor import Tensor, TensorLike, attach, tensors


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


def _transposed_matrices(x: Tensor) -> Tensor:
    if x.ndim < 2:
        raise ValueError(f"mT exchanges the last two axes, this Tensor has shape {x.shape}")
    return swapaxes(x, -1, -2)


attach(
    __matmul__=matmul,
    __rmatmul__=lambda x, other: matmul(other, x),
    mT=property(_transposed_matrices, doc="The last two axes exchanged."),
)


def dot(a: TensorLike, b: TensorLike) -> Tensor:
    """The sum of a times b over the last axis of a and the first of b; the product, if one of them is a number.

    Shapes: a [..., K], b [K] or [K, N] -> [...] or [..., N]
    Raises: ValueError for b of more than two axes, where NumPy's `dot` and `matmul` differ
    """
    a, b = tensors(a=a, b=b)
    if b.ndim > 2:
        raise ValueError(f"dot takes b of at most two axes, found shape {b.shape}; write matmul or einsum")
    return matmul(a, b) if a.ndim and b.ndim else multiply(a, b)


def outer(a: TensorLike, b: TensorLike) -> Tensor:
    """a_i · b_j, of both flattened.  Shapes: a [M], b [N] -> [M, N]"""
    return multiply(reshape(a, (-1, 1)), reshape(b, (1, -1)))


# ---- Einstein's summation ----


class Einsum(Op):
    """y[output] = Σ over all other labels of the product of the inputs

    Each gradient is an Einstein sum too: of g and the other inputs, onto the labels of this one.
    """

    broadcasts = True  # a label may have size 1 in one input and n in another

    @classmethod
    def places_read(cls, needs_gradient):
        """Each gradient reads the other inputs."""
        wanted = {i for i, needed in enumerate(needs_gradient) if needed}
        return frozenset([j + 1 for j in range(len(needs_gradient)) if wanted - {j}])

    @staticmethod
    def forward(xp, *arrays, inputs, output):
        return _contract(xp, inputs, output, arrays)

    @staticmethod
    def backward(xp, g, y, *arrays, inputs, output):
        def g_input(i):
            others = [j for j in range(len(arrays)) if j != i]
            labels, operands = [output, *[inputs[j] for j in others]], [g, *[arrays[j] for j in others]]
            wanted = ""
            for label, n in zip(inputs[i], arrays[i].shape, strict=True):
                if label in wanted:  # a diagonal: the gradient is 0 beside it
                    fresh = next(c for c in string.ascii_letters if c not in "".join([*inputs, *labels]))
                    labels, operands = [*labels, label + fresh], [*operands, xp.eye(n, dtype=g.dtype)]
                    label = fresh
                elif not any(label in each for each in labels):  # summed over: the gradient is constant along it
                    labels, operands = [*labels, label], [*operands, xp.ones(n, g.dtype)]
                wanted += label
            found = _contract(xp, labels, wanted, operands)
            return xp.broadcast_to(found, [max(n, m) for n, m in zip(found.shape, arrays[i].shape, strict=True)])

        return tuple([lambda i=i: g_input(i) for i in range(len(arrays))])


def _contract(xp: Any, inputs: Sequence[str], output: str, arrays: Sequence[Any]) -> Any:
    """numpy.einsum, with matrix products where two arrays or more allow them; halves are summed in float32."""
    dtype = xp.result_type(*[a.dtype for a in arrays])
    is_half = dtype.itemsize == 2 and is_floating(dtype)
    arrays = [a.astype(np.float32) for a in arrays] if is_half else arrays
    y = xp.einsum(f"{','.join(inputs)}->{output}", *arrays, optimize=len(arrays) > 1)
    return y.astype(dtype) if is_half else y


def einsum(subscripts: str, *operands: TensorLike) -> Tensor:
    """Sum of products over labelled axes: `einsum("bqd,bkd->bqk", q, k)`.

    All of NumPy's subscripts: without `->`, the output has the labels that occur once, in alphabetical order; `...`
    stands for broadcast axes (which are summed over if the output lacks them, as in PyTorch); a label twice in one
    operand takes its diagonal.

    Raises: TypeError for NumPy's other form (arrays and lists of labels in turn); ValueError for subscripts that do
    not fit the operands
    """
    if not isinstance(subscripts, str):
        raise TypeError(f"einsum needs its subscripts as one string first, found {type(subscripts).__name__}")
    shapes = [np.shape(x) for x in operands]
    inputs, output = _parse_subscripts(subscripts, [len(shape) for shape in shapes])
    _check_sizes(subscripts, inputs, shapes)
    return apply(Einsum, *operands, inputs=inputs, output=output)


def _parse_subscripts(subscripts: str, ndims: Sequence[int]) -> tuple[tuple[str, ...], str]:
    """The labels of each input and of the output, one letter an axis; `...` becomes letters not used otherwise."""
    left, arrow, output = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != len(ndims):
        raise ValueError(f"einsum {subscripts!r} names {len(terms)} operands, {len(ndims)} were given")
    widths = [  # the number of axes that `...` stands for
        ndim - len(term.replace("...", "", 1)) if "..." in term else 0 for term, ndim in zip(terms, ndims, strict=True)
    ]
    unused = [letter for letter in string.ascii_letters if letter not in subscripts]
    shared = "".join(unused[: max(widths)])  # labels of the broadcast axes, aligned at the right
    inputs = []
    for term, ndim, width in zip(terms, ndims, widths, strict=True):
        labels = term.replace("...", shared[len(shared) - width :], 1) if width >= 0 else term
        if len(labels) != ndim or not all(label in string.ascii_letters for label in labels):
            raise ValueError(f"einsum {subscripts!r}: {term!r} does not describe an operand of {ndim} axes")
        inputs.append(labels)
    every = "".join(inputs)
    if not arrow:
        return tuple(inputs), shared + "".join(x for x in sorted(set(every)) if every.count(x) == 1 and x not in shared)
    labels = output.replace("...", shared, 1)
    if len(set(labels)) != len(labels) or not set(labels) <= set(every):
        raise ValueError(
            f"einsum {subscripts!r}: each label of the output {output!r} must be one of an input, and once"
        )
    return tuple(inputs), labels


def _check_sizes(subscripts: str, inputs: Sequence[str], shapes: Sequence[tuple[int, ...]]) -> None:
    """Raises: ValueError where a label has two sizes, neither of them 1"""
    sizes: dict[str, int] = {}
    for label, n in zip("".join(inputs), sum(shapes, ()), strict=True):
        if sizes.setdefault(label, n) == 1:
            sizes[label] = n
        if n not in (1, sizes[label]):
            name = label if label in subscripts else "..."
            raise ValueError(f"einsum {subscripts!r}: label {name!r} has size {sizes[label]} and size {n}")
