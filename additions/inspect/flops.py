"""Floating-point operations of ops by shapes alone, for profiles.

One multiplication with the addition that follows it counts as two.  Matrix products, linear layers and attention's
products are exact.  Everything else is counted per element: an addition, multiplication, division, comparison, root,
exponential or other function of one number is one operation; moving elements costs none.  The sums that undo
broadcasting and that add up the gradients of several uses are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

Shapes = Sequence[tuple[int, ...]]
Cost = tuple[float, float]  # operations forward, backward

PER_OUTPUT: dict[str, Cost] = {  # for each element of the first output; backward, for each gradient
    "Abs": (1, 1), "Add": (1, 0), "AddRows": (0, 0), "AsType": (0, 0), "BroadcastTo": (0, 0), "Clip": (2, 1),
    "Clone": (0, 0), "Concatenate": (0, 0), "Cos": (1, 2), "CumSum": (1, 1), "Divide": (1, 2), "Embedding": (0, 1),
    "Erf": (90, 4), "Exp": (1, 1), "Expm1": (1, 2), "Gelu": (61, 64), "GeluTanh": (10, 20), "GetItem": (0, 1),
    "Log": (1, 1), "Log1p": (1, 2), "Maximum": (1, 2), "Minimum": (1, 2), "Multiply": (1, 1), "Negative": (1, 1),
    "Pad": (0, 0), "Power": (1, 4), "Reciprocal": (1, 3), "Relu": (1, 1), "Remainder": (1, 1), "Reshape": (0, 0),
    "ScaledEmbedding": (1, 1), "Sigmoid": (5, 3), "Sign": (1, 0), "Silu": (6, 10), "Sin": (1, 2), "Softplus": (6, 6),
    "Split": (0, 0), "Sqrt": (1, 2), "Square": (1, 2), "Subtract": (1, 0.5), "SwapAxes": (0, 0),
    "TakeAlongAxis": (0, 1), "Tanh": (1, 3), "Transpose": (0, 0), "Where": (0, 1),
}  # fmt: skip
PER_INPUT: dict[str, Cost] = {  # for each element of the first input: what is summed or normalised
    "CrossEntropy": (7, 8), "Dropout": (2, 2), "DropoutAddLayerNorm": (10, 13), "LayerNorm": (7, 11),
    "LogSoftmax": (5, 4), "LogSumExp": (4, 6), "Max": (1, 3), "Mean": (1, 0), "Min": (1, 3), "Prod": (1, 4),
    "Softmax": (5, 4), "Std": (4, 5), "Sum": (1, 0), "Var": (4, 4),
}  # fmt: skip


def operations(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """Operations forward and backward of a call; of an op of your own, 1 per output and per gradient."""
    name, n = type(op).__name__, math.prod(outputs[0])
    if name in PER_INPUT:
        forward, backward = PER_INPUT[name]
        n = math.prod(inputs[0])
        return forward * n, backward * n * any(op.needs_gradient)
    if name in PRODUCTS:
        return PRODUCTS[name](op, inputs, outputs)
    if hasattr(op, "flops"):  # an op of your own may count itself
        return op.flops(inputs, outputs)
    forward, backward = PER_OUTPUT.get(name, (1, 1))
    return forward * n, backward * n * sum(op.needs_gradient)


# ---- Products ----


def linear(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """2 · rows · in · out forward, and as many for each of two gradients; rows · out for the bias."""
    product, bias = 2 * math.prod(inputs[0]) * inputs[1][0], math.prod(outputs[0]) * (len(inputs[2]) > 0)
    needs = op.needs_gradient
    return product + bias, product * sum(needs[:2]) + bias * needs[2]


def linear_relu(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """Those of a linear layer, and rows · out for ReLU."""
    forward, backward = linear(op, inputs, outputs)
    n = math.prod(outputs[0])
    return forward + n, backward + n * any(op.needs_gradient)


def linear_heads(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """Those of the linear layers one by one."""
    count, rows = op.parameters["count"], math.prod(inputs[0][:-1])
    products = 2 * rows * sum(shape[0] for shape in inputs[1 : 1 + count]) * inputs[0][-1]
    biases = sum(map(math.prod, outputs)) if len(inputs) > 1 + count else 0
    needs_x, needs_weights, needs_biases = (
        any(op.needs_gradient[part]) for part in (slice(1), slice(1, 1 + count), slice(1 + count, None))
    )
    return products + biases, products * (needs_x + needs_weights) + biases * needs_biases


def linear_cross_entropy(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """2 · N · V · D of each product: the logits, and a gradient each of x and weight; 7 · N · V of the softmax.

    Gradients count as backward, where they are scaled, although the forward pass computes them; with reduction
    "none", the backward pass computes logits and softmax again.
    """
    allowed, (n, d) = op.parameters["allowed"], inputs[0]
    v = inputs[1][0] if allowed is None else len(allowed)
    product, bias = 2 * n * v * d, n * v * (len(inputs[2]) > 0)
    logits = product + bias + 7 * n * v
    if not any(op.needs_gradient):
        return logits, 0
    gradients = product * sum(op.needs_gradient[:2]) + n * v * op.needs_gradient[2]
    again = n * v + logits if op.parameters["reduction"] == "none" else sum(map(math.prod, inputs))
    return logits, gradients + again


def attention(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """Count for n = B · H · T · S scores: 2 n K for q kᵀ and 2 n M for p v forward, twice that for four gradients.

    Scale and softmax take 6 n (scale, maximum, difference, exponential, sum, division), their gradient 4 n
    (product, sum, difference, product) and 1 n for the scale; dropout 2 n and, with what is computed again, 4 n.
    """
    k, m = inputs[0][-1], outputs[0][-1]
    n = math.prod(outputs[0][:-1]) * inputs[1][-2]
    forward, backward = (6, 5) if op.parameters.get("drop") is None else (8, 9)
    return n * (2 * (k + m) + forward), n * (4 * (k + m) + backward) if any(op.needs_gradient) else 0


def matmul(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """2 · M · N · K forward, and as many for each gradient: g_a = g_y bᵀ, g_b = aᵀ g_y."""
    product = 2 * math.prod(outputs[0]) * inputs[0][-1]
    return product, product * sum(op.needs_gradient)


def einsum(op: Any, inputs: Shapes, outputs: Shapes) -> Cost:
    """The product of all labels' sizes times the number of operands: the sum term by term, in no clever order."""
    sizes: dict[str, int] = {}
    for label, n in zip("".join(op.parameters["inputs"]), sum(inputs, ()), strict=True):
        sizes[label] = max(n, sizes.get(label, 1))
    terms = math.prod(sizes.values()) * len(inputs)
    return terms, terms * sum(op.needs_gradient)


PRODUCTS = {
    "Einsum": einsum, "Linear": linear, "LinearCrossEntropy": linear_cross_entropy, "LinearHeads": linear_heads,
    "LinearRelu": linear_relu, "Matmul": matmul, "ScaledDotProductAttention": attention,
}  # fmt: skip
