"""Matrix products, by as few and as large BLAS calls as the shapes allow."""

from __future__ import annotations

import math
import string
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from autograd.backend import backend_of
from autograd.engine import Op, apply, unbroadcast
from autograd.ops.arguments import tensors
from autograd.tensor import Tensor, TensorLike


def _flat(a: Any) -> tuple[int, int]:
    """The shape of `a` as one matrix of all its rows; NumPy cannot infer -1 for arrays of size 0."""
    return math.prod(a.shape[:-1]), a.shape[-1]


def _for_blas(xp: Any, a: Any) -> Any:
    """`a`, copied if its elements share memory, as in the gradient of a sum: BLAS cannot read that."""
    return xp.ascontiguousarray(a) if 0 in a.strides else a


class Matmul(Op):
    """y = a b, with NumPy's rules: vectors gain an axis and lose it again, batch axes are broadcast

    Shapes: a [..., M, K], b [..., K, N] -> y [..., M, N]; a [K] is a row, b [K] a column
    Saves:  each factor only if the other one needs a gradient
    """

    def forward(self, a, b):
        xp = self.xp
        a, b = xp.asarray(a), xp.asarray(b)
        needs_a, needs_b = self.needs_gradient
        self.save(a if needs_b else None, b if needs_a else None)
        self.shapes = a.shape, b.shape
        try:
            if a.ndim > 2 and 0 < b.ndim <= 2:  # a batch times one matrix: one large product, not one per batch element
                return xp.matmul(a.reshape(_flat(a)), b).reshape(*a.shape[:-1], *b.shape[1:])
            return xp.matmul(a, b)
        except ValueError:
            raise ValueError(_mismatch(a.shape, b.shape)) from None

    def flops(self, inputs, outputs):
        """2 · M · N · K forward, and as many for each gradient: g_a = g_y bᵀ, g_b = aᵀ g_y."""
        product = 2 * math.prod(outputs[0]) * inputs[0][-1]
        return product, product * sum(self.needs_gradient)

    def backward(self, g_y):
        a, b = self.saved
        needs_a, needs_b = self.needs_gradient
        a_shape, b_shape = self.shapes
        if len(a_shape) == 1:
            g_y = g_y[..., None, :] if len(b_shape) > 1 else g_y[None]
        if len(b_shape) == 1:
            g_y = g_y[..., None]
        g_y = _for_blas(self.xp, g_y)  # [..., M, N]
        g_a = g_b = None
        if needs_a:
            g_a = self._g_a(g_y, b[:, None] if b.ndim == 1 else b, a_shape)
        if needs_b:
            g_b = self._g_b(g_y, a[None] if a.ndim == 1 else a, b_shape)
        return g_a, g_b

    def _g_a(self, g_y, b, shape):
        """Σ over the batch axes that a lacks of g_y bᵀ.  Shapes: g_y [..., M, N], b [..., K, N] -> shape"""
        xp = self.xp
        if b.ndim == 2:
            return xp.matmul(g_y.reshape(_flat(g_y)), b.T).reshape(shape)
        if len(shape) <= 2:  # a has no batch axis: one product over batch and columns together
            g_rows = _rows_first(xp, g_y)  # [M, ... N]
            b_rows = _rows_first(xp, b)  # [K, ... N]
            return (g_rows @ b_rows.T).reshape(shape)
        return unbroadcast(xp.matmul(g_y, b.swapaxes(-1, -2)), shape)

    def _g_b(self, g_y, a, shape):
        """Σ over the batch axes that b lacks of aᵀ g_y.  Shapes: g_y [..., M, N], a [..., M, K] -> shape"""
        if len(shape) <= 2:  # b has no batch axis: one product over batch and rows together
            return (a.reshape(_flat(a)).T @ g_y.reshape(_flat(g_y))).reshape(shape)
        return unbroadcast(self.xp.matmul(a.swapaxes(-1, -2), g_y), shape)


def _mismatch(a: tuple[int, ...], b: tuple[int, ...]) -> str:
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


def _rows_first(xp: Any, a: Any) -> Any:
    """The matrices of a batch side by side.  Shapes: a [..., M, N] -> [M, ... · N]"""
    rows = a.shape[-2]
    return xp.moveaxis(a, -2, 0).reshape(rows, math.prod(a.shape[:-2]) * a.shape[-1])


def matmul(a: TensorLike, b: TensorLike) -> Tensor:
    """a @ b: the matrix product over the last two axes, batch axes broadcast; vectors as NumPy takes them.

    Raises: ValueError for shapes that do not fit, and for 0-d operands
    """
    return apply(Matmul, a, b)


class Linear(Op):
    """y = x Wᵀ + b, or max(x Wᵀ + b, 0)

    Shapes: x [..., in], weight [out, in], bias [out] -> y [..., out]
    Saves:  x and weight, each only if the other one needs a gradient; y after ReLU, which the next layer saves anyway
    """

    def forward(self, x, weight, bias=None, *, relu=False, reduced=None, dtype=None):
        check_linear_shapes(getattr(x, "shape", ()), weight.shape, None if bias is None else bias.shape)
        self.relu, self.dtype, weight = relu, weight.dtype, weight if reduced is None else reduced
        needs_x, needs_weight = self.needs_gradient[:2]
        y = self.backend.linear(x.reshape(_flat(x)), weight, bias, relu, dtype)  # [rows, in] @ [in, out]
        y = y.reshape(*x.shape[:-1], weight.shape[0])
        self.save(x if needs_weight else None, weight if needs_x else None, *([y] if relu else ()))
        return y

    def flops(self, inputs, outputs):
        """2 · rows · in · out forward, as many for each of two gradients; rows · out for the bias and for ReLU."""
        product = 2 * math.prod(inputs[0]) * inputs[1][0]
        bias = math.prod(outputs[0]) if len(inputs) > 2 else 0
        relu = math.prod(outputs[0]) if self.relu else 0
        needs = self.needs_gradient
        return product + bias + relu, product * sum(needs[:2]) + bias * needs[-1] + relu * any(needs)

    def backward(self, g_y):
        x, weight, *after_relu = self.saved
        needs_x, needs_weight = self.needs_gradient[:2]
        g_bias, g_rows = None, _for_blas(self.xp, g_y.reshape(_flat(g_y)))  # [rows, out]
        for y in after_relu:  # one or none
            if self.needs_gradient[2:] == (True,):
                g_rows, g_bias = self.backend.relu_backward_sum(g_rows, y.reshape(_flat(y)))
            else:
                g_rows = self.backend.relu_backward(g_rows, y.reshape(_flat(y)))
        factor = x if weight is None else weight
        if factor is not None and factor.dtype != g_rows.dtype and factor.dtype.name == "bfloat16":  # y was float32
            g_rows = g_rows.astype(factor.dtype, copy=False)
        g_x = g_weight = None
        if needs_x:
            g_x = self.backend.product(g_rows, weight).reshape(*g_y.shape[:-1], weight.shape[1])
        with_bias = g_bias is None and self.needs_gradient[2:] == (True,)
        if needs_weight:
            found = self.backend.weight_gradient(g_rows, x.reshape(_flat(x)), self.dtype, with_bias)
            g_weight, g_bias = found if with_bias else (found[0], g_bias)
        elif with_bias:
            g_bias = self.backend.sum_rows(g_rows)
        return (g_x, g_weight) if len(self.needs_gradient) == 2 else (g_x, g_weight, g_bias)


def check_linear_shapes(x: tuple[int, ...], weight: tuple[int, ...], bias: tuple[int, ...] | None) -> None:
    if len(weight) != 2:
        raise ValueError(f"linear needs a weight of two axes, [out, in]; found shape {weight}")
    if not x or x[-1] != weight[1]:
        raise ValueError(
            f"linear: x of shape {x} does not end in the {weight[1]} inputs of the weight [out, in] {weight}"
        )
    if bias is not None and bias != weight[:1]:
        raise ValueError(f"linear: bias has shape {bias}, the weight [out, in] {weight} asks for {weight[:1]}")


def linear(
    x: TensorLike,
    weight: TensorLike,
    bias: TensorLike | None = None,
    *,
    relu: bool = False,
    dtype: DTypeLike | None = None,
) -> Tensor:
    """x Wᵀ + b as one op: a fully connected layer, with the weight stored [out, in] as PyTorch does.

    With `relu`, the result is max(x Wᵀ + b, 0).

    In mixed precision, x is bfloat16 and the weight float32: the product uses a bfloat16 copy of the weight, whose
    gradient is float32.  `dtype` is that of the result, by default that of x: logits in float32 are sums that are not
    rounded.

    Shapes: x [..., in], weight [out, in], bias [out] -> [..., out]
    Raises: ValueError for shapes that do not fit
    """
    inputs = (x, weight) if bias is None else (x, weight, bias)
    reduced = reduced_weight(x, weight)
    y = apply(Linear, *inputs, relu=relu, reduced=reduced, dtype=None if dtype is None else np.dtype(dtype))
    note_reduced(y, weight, reduced)
    return y


def note_reduced(y: Tensor, weight: Any, reduced: Any) -> None:
    """Have the backward pass of y refuse a copy of the weight that the optimizer has written into since."""
    if reduced is not None and y.op is not None:
        y.op._versions = (*y.op._versions, (weight.version, weight.version[0]))


def reduced_weight(x: Any, weight: Any) -> Any:
    """The copy of the weight in the lower precision of x; None if both have the same precision."""
    dtype = getattr(x, "dtype", None)
    if not isinstance(weight, Tensor) or dtype is None or weight.dtype == dtype or dtype.name != "bfloat16":
        return None
    return weight.reduced_to(dtype)


class LinearHeads(Op):
    """y_i = x W_iᵀ + b_i for several i, as one product, each divided into heads

    Consumers may compute the gradients of the outputs where they are needed side by side: see `gradient_place`.

    Shapes: x [..., T, D], weight_i [H K_i, D], bias_i [H K_i] -> y_i [..., H, T, K_i]
    Saves:  x if a weight needs a gradient, and the weights if x does
    """

    def forward(self, x, *parameters, heads, count, reduced):
        weights, biases = parameters[:count], parameters[count:]
        self.heads, self.widths, self.dtype = heads, [len(w) for w in weights], weights[0].dtype
        self.leading, self.count = x.shape[:-1], count
        weight = self.backend.stacked(weights if reduced is None else reduced)  # [H Σ K_i, D]
        needs_weights = any(self.needs_gradient[1 : 1 + count])
        self.save(x if needs_weights else None, weight if self.needs_gradient[0] else None)
        y = self.backend.linear(x.reshape(_flat(x)), weight, self.backend.stacked(biases) if biases else None)
        self.g_y: Any = None  # the memory of all gradients, [rows, H Σ K_i]
        self.places: list[Any] = [None] * count  # views of it that were given to consumers
        return tuple([self._heads(y, i) for i in range(count)])

    def _heads(self, y, i):
        """Output i as a view of y.  Shapes: y [rows, H Σ K_i] -> [..., H, T, K_i]"""
        start, width = sum(self.widths[:i]), self.widths[i]
        columns = y[:, start : start + width]
        return columns.reshape(*self.leading, self.heads, width // self.heads).swapaxes(-2, -3)

    def gradient_place(self, i):
        """Memory for the gradient of output i, to one consumer a backward pass; None to the next."""
        if self.freed or self.places[i] is not None:
            return None
        if self.g_y is None:
            self.g_y = self.xp.empty((math.prod(self.leading), sum(self.widths)), self.output_specs[0][1])
        self.places[i] = self._heads(self.g_y, i)
        return self.places[i]

    def flops(self, inputs, outputs):
        """As those of the linear layers one by one."""
        products = 2 * math.prod(self.leading) * sum(self.widths) * inputs[0][-1]
        biases = sum(map(math.prod, outputs)) if len(inputs) > 1 + self.count else 0
        needs_x, needs_weights, needs_biases = (
            any(self.needs_gradient[part]) for part in (slice(1), slice(1, 1 + self.count), slice(1 + self.count, None))
        )
        return products + biases, products * (needs_x + needs_weights) + biases * needs_biases

    def backward(self, *g_ys):
        x, weight = self.saved
        places, g_rows = self.places, self.g_y
        if g_rows is None:
            g_rows = self.xp.empty((math.prod(self.leading), sum(self.widths)), g_ys[0].dtype)
        for i, g_y in enumerate(g_ys):
            if g_y is not places[i]:
                self._heads(g_rows, i)[...] = g_y
        self.g_y, self.places = None, [None] * self.count
        g_x = g_weights = g_biases = None
        if weight is not None:
            g_x = self.backend.product(g_rows, weight).reshape(*self.leading, weight.shape[1])
        with_biases = any(self.needs_gradient[1 + self.count :])
        if x is not None:
            rows = x.reshape(_flat(x))
            g_weights, g_biases = self.backend.weight_gradient(g_rows, rows, self.dtype, with_biases)
        elif with_biases:
            g_biases = self.backend.sum_rows(g_rows)
        parts: list[Any] = []
        for g in (g_weights, g_biases):
            parts += [None] * self.count if g is None else self.backend.parted(g, self.widths)
        needs = self.needs_gradient[1:]  # without biases, half as many as parts
        return g_x, *[part if needed else None for part, needed in zip(parts, needs, strict=False)]


def gradient_place(edge: Any) -> Any:
    """Memory for a gradient that goes along an edge of the graph, if the op there offers it."""
    op, i = edge if isinstance(edge, tuple) else (edge, 0)
    return op.gradient_place(i) if isinstance(op, LinearHeads) else None


def linear_heads(
    x: TensorLike, weights: Sequence[Tensor], biases: Sequence[Tensor] = (), *, heads: int
) -> tuple[Tensor, ...]:
    """x W_iᵀ + b_i for several weights, as one product, each divided into heads (section 3.2.2).

    Weights that lie side by side in memory, as `Module.place_side_by_side` places them, are one matrix without a copy.

    Shapes: x [..., T, D], weight_i [H K_i, D], bias_i [H K_i] -> y_i [..., H, T, K_i]
    Raises: ValueError for shapes that do not fit
    """
    (x,) = tensors(x=x)
    if x.ndim < 2 or not weights or len(biases) not in (0, len(weights)):
        raise ValueError(
            f"linear_heads needs x [..., T, D], and a bias for each weight or none; found x of shape {x.shape}, "
            f"{len(weights)} weights and {len(biases)} biases"
        )
    for i, weight in enumerate(weights):
        check_linear_shapes(x.shape, weight.shape, biases[i].shape if biases else None)
        if weight.shape[0] % heads:
            raise ValueError(f"a weight of shape {weight.shape} cannot be divided into {heads} heads")
    reduced = reduced_weights(x, weights)
    ys: Any = apply(LinearHeads, x, *weights, *biases, heads=heads, count=len(weights), reduced=reduced)
    for weight in weights:
        note_reduced(ys[0], weight, reduced)
    return ys


def reduced_weights(x: Any, weights: Sequence[Any]) -> list[Any] | None:
    """As `reduced_weight`, of several; new copies lie side by side in memory."""
    dtype = x.dtype
    if all(weight.dtype == dtype for weight in weights) or dtype.name != "bfloat16":
        return None
    if any(weight.reduced is None for weight in weights):
        copies = backend_of([x.data]).side_by_side([weight.reduced_to(dtype) for weight in weights])
        for weight, copy in zip(weights, copies, strict=True):
            weight.keep_reduced(copy)
        return copies
    return [weight.reduced for weight in weights]


# ---- Einstein's summation ----


class Einsum(Op):
    """y[output] = Σ over all other labels of the product of the inputs

    Each gradient is an Einstein sum too: of g_y and the other inputs, onto the labels of this one.

    Saves:  each input only if another one needs a gradient
    """

    broadcasts = True  # a label may have size 1 in one input and n in another

    def forward(self, *arrays, inputs, output):
        self.inputs, self.output = inputs, output
        self.shapes = [a.shape for a in arrays]
        wanted = [i for i, needed in enumerate(self.needs_gradient) if needed]
        self.save(*[a if any(i != j for i in wanted) else None for j, a in enumerate(arrays)])
        return _contract(self.xp, inputs, output, arrays)

    def flops(self, inputs, outputs):
        """The product of all labels' sizes times the number of operands: the sum term by term, in no clever order."""
        sizes: dict[str, int] = {}
        for label, n in zip("".join(self.inputs), sum(inputs, ()), strict=True):
            sizes[label] = max(n, sizes.get(label, 1))
        terms = math.prod(sizes.values()) * len(inputs)
        return terms, terms * sum(self.needs_gradient)

    def backward(self, g_y):
        arrays = self.saved
        return tuple([self._g_input(g_y, arrays, i) if n else None for i, n in enumerate(self.needs_gradient)])

    def _g_input(self, g_y, arrays, i):
        xp = self.xp
        others = [j for j in range(len(arrays)) if j != i]
        labels = "".join(dict.fromkeys(self.inputs[i]))  # each once: "ii" asks for the gradient of a diagonal
        known = set(self.output).union(*[self.inputs[j] for j in others])
        reached = "".join([label for label in labels if label in known])
        g = _contract(
            xp, (self.output, *[self.inputs[j] for j in others]), reached, (g_y, *[arrays[j] for j in others])
        )
        # along labels of this input alone, which are summed over, the gradient is constant
        g = xp.expand_dims(g, [axis for axis, label in enumerate(labels) if label not in known])
        sizes = dict(zip(self.inputs[i], self.shapes[i], strict=True))
        g = xp.broadcast_to(g, [sizes[label] if n == 1 else n for label, n in zip(labels, g.shape, strict=True)])
        if len(labels) == len(self.inputs[i]):
            return g
        g_x = xp.zeros(self.shapes[i], g_y.dtype)
        xp.einsum(f"{self.inputs[i]}->{labels}", g_x)[...] = unbroadcast(g, tuple([sizes[label] for label in labels]))
        return g_x


def _contract(xp: Any, inputs: Sequence[str], output: str, arrays: Sequence[Any]) -> Any:
    """numpy.einsum, with matrix products where two arrays or more allow them."""
    return xp.einsum(f"{','.join(inputs)}->{output}", *arrays, optimize=len(arrays) > 1)


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
