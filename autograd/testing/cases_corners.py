"""Cases for what the random draws of the others meet too seldom: damage that a few of their examples may miss."""

from __future__ import annotations

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
