"""Cases of autograd/ops/products.py."""

from __future__ import annotations

from collections.abc import Sequence

import autograd as ag
from tests.cases import draw
from tests.cases.checks import Example, register, torch

# ---- Matrix products ----

_MATMUL_SHAPES = {
    "matrices": ("MK", "KN"),
    "batch and matrix": ("BMK", "KN"),
    "matrix and batch": ("MK", "BKN"),
    "batches": ("BMK", "BKN"),
    "batches, broadcast": ("B1MK", "CKN"),
    "batches of size 1": ("1MK", "BKN"),
    "vectors": ("K", "K"),
    "vector and matrix": ("K", "KN"),
    "matrix and vector": ("MK", "K"),
    "batch and vector": ("BMK", "K"),
    "vector and batch": ("K", "BKN"),
}
_LABELS = "BCMKNTSVDHQ"


def _torch_matmul(a, b):
    return torch.matmul(a, b)


def _matmul(name: str, left: str, right: str) -> None:
    @register("Matmul", name)
    def matmul(rng):
        drawn = rng.choice(5, len(_LABELS), p=[0.05, 0.2, 0.25, 0.25, 0.25]).tolist()
        sizes = {"1": 1, **dict(zip(_LABELS, drawn, strict=True))}
        arrays = [draw.uniform(rng, tuple([sizes[x] for x in term])) for term in (left, right)]
        return Example(ag.matmul, arrays, torch=_torch_matmul)


for _name, (_left, _right) in _MATMUL_SHAPES.items():
    _matmul(_name, _left, _right)


@register("Matmul", "a matrix with itself")
def _(rng):
    return Example(lambda x: x @ x + x.T @ x, [draw.uniform(rng, (3, 3))], torch=lambda x: x @ x + x.T @ x)


@register("Matmul", "oracle: einsum")
def _(rng):
    return Example(
        ag.matmul, [draw.uniform(rng, (2, 3, 4)), draw.uniform(rng, (2, 4, 2))],
        lambda a, b: ag.sum(a[:, :, :, None] * b[:, None, :, :], 2), _torch_matmul,
    )  # fmt: skip


# ---- A fully connected layer ----


def _torch_linear(*tensors):
    return torch.nn.functional.linear(*tensors)


@register("Linear", "with bias")
def _(rng):
    x = (*draw.shape(rng, max_ndim=3, min_side=0), int(rng.integers(1, 5)))
    out = int(rng.integers(1, 5))
    arrays = [draw.uniform(rng, x), draw.uniform(rng, (out, x[-1])), draw.uniform(rng, (out,))]
    return Example(ag.linear, arrays, lambda x, weight, bias: x @ weight.T + bias, _torch_linear)


@register("Linear", "without bias")
def _(rng):
    x = (*draw.shape(rng, max_ndim=3, min_side=0), int(rng.integers(1, 5)))
    arrays = [draw.uniform(rng, x), draw.uniform(rng, (int(rng.integers(1, 5)), x[-1]))]
    return Example(ag.linear, arrays, lambda x, weight: x @ weight.T, _torch_linear)


@register("Linear", "weight used twice")
def _(rng):
    arrays = [draw.uniform(rng, (2, 3)), draw.uniform(rng, (3, 3)), draw.uniform(rng, (3,))]
    return Example(
        lambda x, w, b: ag.linear(ag.tanh(ag.linear(x, w, b)), w, b), arrays,
        torch=lambda x, w, b: _torch_linear(torch.tanh(_torch_linear(x, w, b)), w, b),
    )  # fmt: skip


def _linear_relu(name: str, with_bias: bool) -> None:
    @register("LinearRelu", name)
    def linear_relu(rng):
        arrays = [draw.uniform(rng, shape) for shape in ((2, 3, 3), (4, 3), (4,))[: 2 + with_bias]]
        return Example(
            lambda x, *parameters: ag.fast.linear_relu(x, *parameters), arrays,
            lambda x, *parameters: ag.relu(ag.linear(x, *parameters)),
            lambda x, *parameters: torch.relu(_torch_linear(x, *parameters)),
        )  # fmt: skip


_linear_relu("with bias", True)
_linear_relu("no bias", False)


@register("Linear", "no rows")
def _(rng):
    arrays = [draw.uniform(rng, (0, 3)), draw.uniform(rng, (2, 3)), draw.uniform(rng, (2,))]
    return Example(ag.linear, arrays, torch=_torch_linear)


# ---- Several layers as one product, divided into heads ----


def _linear_heads(name: str, widths: Sequence[int], leading: Sequence[int], with_bias: bool) -> None:
    @register("LinearHeads", name)
    def linear_heads(rng):
        count, heads = len(widths), 2
        parameters = [draw.uniform(rng, (heads * width, 3)) for width in widths]
        if with_bias:
            parameters += [draw.uniform(rng, (heads * width,)) for width in widths]

        def fused(x, *parameters):
            return ag.fast.linear_heads(x, parameters[:count], parameters[count:], heads=heads)

        def one_by_one(x, *parameters):
            found = [ag.linear(x, *pair) for pair in _pairs(parameters, count)]
            return tuple([y.reshape(*y.shape[:-1], heads, y.shape[-1] // heads).swapaxes(-2, -3) for y in found])

        def in_torch(x, *parameters):
            found = [_torch_linear(x, *pair) for pair in _pairs(parameters, count)]
            return tuple([y.unflatten(-1, (heads, -1)).transpose(-2, -3) for y in found])

        return Example(fused, [draw.uniform(rng, (*leading, 3)), *parameters], one_by_one, in_torch)


def _pairs(parameters: Sequence, count: int) -> list[tuple]:
    """Each weight with its bias, if there are any."""
    return [tuple(parameters[i::count]) for i in range(count)]


_linear_heads("queries, keys and values", (2, 2, 3), (2, 4), True)
_linear_heads("no bias, one sentence", (2, 1), (3,), False)
_linear_heads("one weight", (3,), (1, 2, 2), True)


@register("LinearHeads", "attended to, one of them twice")
def _(rng):
    arrays = [draw.uniform(rng, shape) for shape in ((2, 3, 4), (4, 4), (4, 4), (2, 4))]

    def attend(x, w_k, w_v, w_q):
        k, v = ag.fast.linear_heads(x, [w_k, w_v], heads=2)
        q = ag.linear(x, ag.concatenate([w_q, w_q])).reshape(2, 3, 2, 2).swapaxes(1, 2)
        return ag.scaled_dot_product_attention(q, k, v) + ag.scaled_dot_product_attention(k, k, q)

    return Example(attend, arrays)


# ---- Einstein's summation ----

_EINSUMS = [
    "BHTK,BHSK->BHTS",
    "MK,NK",
    "K,K->",
    "MN->NM",
    "MN->",
    "MM->M",
    "MMK,K->MK",
    "MK,KN,NT->MT",
    "...MK,...KN->...MN",
]


def _einsum(rng: draw.Rng, subscripts: str, sides: Sequence[int]) -> Example:
    """`sides` are the sizes of the labels, in the order of _LABELS; `...` stands for axes that broadcast."""
    sizes = dict(zip(_LABELS, sides, strict=False))
    leading = [(2, 1), (3,)]
    shapes = [
        (*(leading[i % 2] if "..." in term else ()), *[sizes[x] for x in term.replace("...", "")])
        for i, term in enumerate(subscripts.split("->")[0].split(","))
    ]
    return Example(
        lambda *arrays: ag.einsum(subscripts, *arrays), [draw.uniform(rng, shape) for shape in shapes],
        torch=lambda *arrays: torch.einsum(subscripts, *arrays),
    )  # fmt: skip


def _einsum_of(subscripts: str) -> None:
    """Axes of at least two elements: sums, diagonals and repetitions of one element hide mistakes."""

    @register("Einsum", subscripts)
    def einsum(rng):
        return _einsum(rng, subscripts, rng.permutation([2, 3, 4] * 4).tolist())


for _subscripts in _EINSUMS:
    _einsum_of(_subscripts)


@register("Einsum", "random subscripts")
def _(rng):
    """Any labels in any order, repeated, summed over in one operand alone, or missing."""
    terms = ["".join(rng.choice(list("BCMK"), rng.integers(0, 4))) for _ in range(rng.integers(1, 4))]
    labels = sorted(set("".join(terms)))
    output = "".join(rng.permutation(labels)[: rng.integers(0, len(labels) + 1)])
    dots = ["..." if rng.random() < 0.3 else "" for _ in terms]
    inputs = ",".join(dot + term for dot, term in zip(dots, terms, strict=True))
    return _einsum(rng, f"{inputs}->{'...' if any(dots) else ''}{output}", rng.integers(1, 4, 4).tolist())


@register("Einsum", "axes of size 1 against others")
def _(rng):
    return Example(
        lambda a, b: ag.einsum("ij,ij->i", a, b), [draw.uniform(rng, (3, 1)), draw.uniform(rng, (3, 4))],
        lambda a, b: ag.sum(a * b, 1),
    )  # fmt: skip
