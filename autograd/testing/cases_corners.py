"""Cases for what the random draws of the others meet too seldom: damage that a few of their examples may miss."""

from __future__ import annotations

import numpy as np

import autograd as ag
from autograd.testing import draw
from autograd.testing.case import Example, register
from autograd.testing.cases_network import EINSUMS


@register("SwapAxes", "axes of one size")
def _(rng):
    """Whoever forgets to swap back gives a gradient of the right shape."""
    return Example(lambda x: ag.swapaxes(x, 0, -1), [draw.uniform(rng, (3, 2, 3))])


def _register_einsum(subscripts: str) -> None:
    """Axes of at least two elements: sums, diagonals and repetitions of one element hide mistakes."""

    @register("Einsum", subscripts)
    def einsum(rng):
        sizes = dict(zip("BCMKNTSVDHQ", rng.permutation([2, 3, 4] * 4).tolist(), strict=False))
        leading = [(2, 1), (3,)]
        shapes = [
            (*(leading[i] if "..." in term else ()), *[sizes[x] for x in term.replace("...", "")])
            for i, term in enumerate(subscripts.split("->")[0].split(","))
        ]
        return Example(lambda *arrays: ag.einsum(subscripts, *arrays), [draw.uniform(rng, shape) for shape in shapes])


for _subscripts in EINSUMS:
    _register_einsum(_subscripts)


@register("GetItem", "pairs of positions that repeat")
def _(rng):
    """Six pairs out of four: some element is picked twice, and its gradients must add up."""
    i, j = draw.indices(rng, (6,), 2, negative=True), draw.indices(rng, (6,), 2)
    return Example(
        lambda x: ag.getitem(x, (i, j)), [draw.uniform(rng, (2, 2))],
        lambda x: ag.sum(np.eye(2)[i] * ag.transpose(ag.matmul(x, np.eye(2)[:, j])), 1),
    )  # fmt: skip


@register("Take", "elements that repeat")
def _(rng):
    """Eight out of three numbers: rows of one element are added up by a kernel of their own."""
    where = draw.indices(rng, (8,), 3, negative=True)
    axis = [None, 0][rng.integers(2)]
    return Example(
        lambda x: ag.take(x, where, axis), [draw.uniform(rng, (3,))], lambda x: ag.matmul(np.eye(3)[where], x)
    )


@register("Take", "a table of indices, along any axis")
def _(rng):
    """All axes of different sizes: each must come back to its place."""
    axis = int(rng.integers(-3, 3))
    x = draw.uniform(rng, (2, 3, 4))
    where = draw.indices(rng, (2, 5), x.shape[axis], negative=True)
    one_hot = np.eye(x.shape[axis])[where]  # [2, 5, n]
    before, after = "abc"[: axis % 3], "abc"[axis % 3 + 1 :]
    subscripts = f"{before}n{after},ijn->{before}ij{after}"
    return Example(lambda x: ag.take(x, where, axis), [x], lambda x: ag.einsum(subscripts, x, one_hot))


@register("CrossEntropy", "each, logits overwritten, every second ignored")
def _(rng):
    """Rows of different weight, among them 0."""
    targets = draw.indices(rng, (4,), 3)
    targets[::2] = -100
    return Example(
        lambda x: ag.cross_entropy(x * 1, targets, label_smoothing=0.1, reduction="none", overwrite_logits=True),
        [draw.uniform(rng, (4, 3))],
        lambda x: ag.cross_entropy(x, targets, label_smoothing=0.1, reduction="none"),
    )
