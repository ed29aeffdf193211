"""How many floating-point operations an op takes, forward and backward, from shapes alone.

One multiplication with the addition that follows it counts as two.  Matrix products, linear layers and attention's
products are exact.  Everything else is counted by the element, with each addition, multiplication, division,
comparison, root, exponential or other function of one number as one operation; moving elements costs none.  The sums
that undo broadcasting and add up gradients of several uses are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from autograd.engine import Op

Shape = tuple[int, ...]
Cost = tuple[float, float]  # forward, backward
Count = Callable[[Any, Sequence[Shape], Sequence[Shape]], Cost]  # (op, shapes of inputs, shapes of outputs)


def flops(op: Op, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Cost:
    """Operations of the forward pass that `op` has run, and of its backward pass (0 if it will have none).

    An op that is not in the table counts one an output element in each direction.
    """
    forward, backward = COUNTS.get(type(op).__name__, _each(1, 1))(op, inputs, outputs)
    return float(forward), float(backward) if any(op.needs_gradient) else 0.0


def _each(forward: float, backward: float) -> Count:
    """So many an output element; backward, for each input that needs a gradient."""

    def count(op: Op, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Cost:
        n = math.prod(outputs[0])
        return forward * n, backward * n * sum(op.needs_gradient)

    return count


def _each_input(forward: float, backward: float) -> Count:
    """So many an element of the first input: what is summed or normalised."""

    def count(op: Op, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Cost:
        n = math.prod(inputs[0])
        return forward * n, backward * n

    return count


def _matmul(op: Op, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Cost:
    """2 · M · N · K forward, and as many for each gradient: g_a = g_y bᵀ, g_b = aᵀ g_y."""
    product = 2 * math.prod(outputs[0]) * inputs[0][-1]
    return product, product * sum(op.needs_gradient)


def _linear(op: Op, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Cost:
    """2 · rows · in · out forward, and as many for the gradients of x and of the weight; rows · out for the bias."""
    product, bias = 2 * math.prod(inputs[0]) * inputs[1][0], math.prod(outputs[0])
    has_bias = len(inputs) > 2
    wanted = op.needs_gradient
    return product + bias * has_bias, product * sum(wanted[:2]) + (bias if has_bias and wanted[2] else 0)


def _einsum(op: Any, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Cost:
    """The product of all labels' sizes, times the number of operands: a sum term by term, in no clever order."""
    sizes: dict[str, int] = {}
    for labels, shape in zip(op.inputs, inputs, strict=True):
        for label, size in zip(labels, shape, strict=True):
            sizes[label] = max(size, sizes.get(label, 1))
    terms = math.prod(sizes.values()) * len(inputs)
    return terms, terms * sum(op.needs_gradient)


def _attention(op: Op, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Cost:
    """Of n = B · H · T · S scores: 2 n K for q kᵀ and 2 n M for p v forward; twice that backward, for four gradients.

    Scale and softmax take 6 n (scale, maximum, difference, exponential, sum, division), their gradient 4 n (product,
    sum, difference, product) and 1 n for the scale; dropout 2 n and, with what it computes again, 4 n.
    """
    k, m = inputs[0][-1], outputs[0][-1]
    n = math.prod(outputs[0][:-1]) * inputs[1][-2]
    dropped = getattr(op, "keep_scale", 1.0) != 1.0
    return 2 * n * (k + m) + (8 if dropped else 6) * n, 4 * n * (k + m) + (9 if dropped else 5) * n


def _free(op: Op, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Cost:
    """Moves elements, computes nothing."""
    return 0, 0


def _scatter(op: Op, inputs: Sequence[Shape], outputs: Sequence[Shape]) -> Cost:
    """Picks elements; backward, one addition an element picked."""
    return 0, math.prod(outputs[0])


COUNTS: dict[str, Count] = {
    # products
    "Matmul": _matmul,
    "Linear": _linear,
    "Einsum": _einsum,
    "ScaledDotProductAttention": _attention,
    # one operation or a few an element
    "Add": _each(1, 0),
    "Subtract": _each(1, 0.5),  # a sign for one of the two
    "Multiply": _each(1, 1),
    "Divide": _each(1, 2),
    "Negative": _each(1, 1),
    "Square": _each(1, 2),
    "Exp": _each(1, 1),
    "Log": _each(1, 1),
    "Sqrt": _each(1, 2),
    "Reciprocal": _each(1, 3),
    "Power": _each(1, 4),
    "Abs": _each(1, 1),
    "Clip": _each(2, 1),
    "Maximum": _each(1, 2),
    "Minimum": _each(1, 2),
    "Where": _each(0, 1),
    "MaskedFill": _each(0, 1),
    # activations: y and, for the last three, the slope are computed forward
    "Relu": _each(1, 1),
    "Tanh": _each(1, 3),
    "Sigmoid": _each(5, 3),
    "Silu": _each(10, 1),
    "Gelu": _each(64, 1),  # a polynomial of 26 terms
    "GeluTanh": _each(20, 1),
    # reductions, by element of what is reduced
    "Sum": _each_input(1, 0),
    "Mean": _each_input(1, 0),
    "Max": _each_input(1, 3),
    "Min": _each_input(1, 3),
    "Var": _each_input(4, 2),
    "LogSumExp": _each_input(4, 3),
    "Softmax": _each_input(5, 4),  # maximum, difference, exponential, sum, division
    "LogSoftmax": _each_input(5, 4),
    "CrossEntropy": _each_input(7, 1),  # the softmax and the gradient are computed forward, backward scales it
    # normalisation and dropout, by element of x
    "Dropout": _each_input(2, 2),
    "LayerNorm": _each_input(7, 11),  # mean 1, difference 1, variance 2, division 1, weight 1, bias 1
    "DropoutAddLayerNorm": _each_input(10, 13),
    # lookups and shapes
    "Embedding": _each(1, 1),  # times √d_model; backward, one addition an element
    "GetItem": _scatter,
    "Take": _scatter,
    "AsType": _free,
    "BroadcastTo": _free,
    "Concatenate": _free,
    "ExpandDims": _free,
    "Pad": _free,
    "Reshape": _free,
    "Split": _free,
    "Squeeze": _free,
    "Stack": _free,
    "SwapAxes": _free,
    "Transpose": _free,
}
