"""Section 4: Table 1, by the layers and counts of studies/recipes/table_1.py."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import table_1
from compared_layers import Convolution, SeparableConvolution

import autograd as ag
from autograd import Tensor
from minitf.model.layers import FeedForward
from minitf.model.parameters import Initializer
from paper_claims.claim import Figure, Rule, claim, exact
from paper_claims.runs import Study, compare, listed

KINDS = {kind.name.partition(",")[0]: kind for kind in table_1.KINDS}
LAYERS = ("self-attention", "recurrent", "convolutional", "separable", "restricted")
ORDERS = {"self-attention": (2, 1), "recurrent": (1, 2), "convolutional": (1, 2), "separable": (1, 2)}
ORDERS["restricted"] = (1, 1)
FORMULAS = {"self-attention": "n² · d", "recurrent": "n · d²", "convolutional": "k · n · d²"}
FORMULAS |= {"separable": "k · n · d + n · d²", "restricted": "r · n · d"}


def _operations(layer: table_1.Layer, n: int, d: int) -> float:
    return table_1.cost(layer, n, d, 0).operations


def _register_complexity(name: str) -> None:
    n_order, d_order = ORDERS[name]

    @claim(
        f"complexity-{name}", "4, Table 1", f"The complexity per layer of a {name} layer is O({FORMULAS[name]}).",
        Rule("the larger error of the two exponents", 0, 0.1),
    )  # fmt: skip
    def complexity(study: Study) -> Figure:
        """Operations of a layer, forward and backward, counted by the profiler; slopes on a log scale, from 512 to
        1,024 positions of 64 features, and from 256 to 512 features at 64 positions."""
        make = KINDS[name].make
        in_n = table_1.exponent([512, 1024], [_operations(make(64), n, 64) for n in (512, 1024)])
        in_d = table_1.exponent([256, 512], [_operations(make(d), 64, d) for d in (256, 512)])
        return exact(max(abs(in_n - n_order), abs(in_d - d_order)), f"n^{in_n:.3f}, d^{in_d:.3f}")


for _name in LAYERS:
    _register_complexity(_name)


@claim(
    "sequential-operations", "4, Table 1",
    "A self-attention layer connects all positions with a constant number of sequentially executed operations, "
    "whereas a recurrent layer requires O(n) sequential operations.",
    Rule("the larger error of the exponents 0 and 1", 0, 0.1),
)  # fmt: skip
def sequential_operations(study: Study) -> Figure:
    """The longest chain of ops that use each other's results, with 64 and 128 positions, composed of plain ops."""
    lengths = [64, 128]
    steps = {name: [table_1.sequential_steps(KINDS[name], n) for n in lengths] for name in LAYERS[:2]}
    slopes = [table_1.exponent(lengths, each) for each in steps.values()]
    text = "; ".join(f"{name}: {each[0]} and {each[1]}" for name, each in steps.items())
    return exact(max(abs(slopes[0]), abs(slopes[1] - 1)), text)


def _path_lengths(name: str, lengths: Sequence[int]) -> list[int]:
    return [table_1.path_length(KINDS[name], n) for n in lengths]


@claim(
    "path-self-attention", "4, Table 1", "The maximum path length of self-attention is O(1).",
    Rule("layers until the last position depends on the first", 1, 1),
)  # fmt: skip
def path_self_attention(study: Study) -> Figure:
    """The number of layers after which the gradient of the last position by the first is not exactly zero, with 33, 65
    and 129 positions."""
    return exact(max(_path_lengths("self-attention", (33, 65, 129))))


@claim(
    "path-convolution", "4",
    "A single convolutional layer with kernel width k < n does not connect all pairs of input and output positions. "
    "Doing so requires a stack of O(n/k) convolutional layers in the case of contiguous kernels.",
    Rule("the exponent of n in the number of layers", 0.9, 1.1),
)  # fmt: skip
def path_convolution(study: Study) -> Figure:
    """As for path-self-attention, kernels of 3, with 33, 65 and 129 positions. A centred kernel reaches (k - 1) / 2
    positions a layer."""
    found = _path_lengths("convolutional", (33, 65, 129))
    return exact(table_1.exponent((33, 65, 129), found), f"layers: {listed(found, 0)}")


@claim(
    "path-restricted", "4",
    "Self-attention could be restricted to considering only a neighborhood of size r. This would increase the maximum "
    "path length to O(n/r).",
    Rule("the exponent of n in the number of layers", 0.9, 1.1),
)  # fmt: skip
def path_restricted(study: Study) -> Figure:
    """As for path-self-attention, r = 32, with 129, 257 and 513 positions."""
    found = _path_lengths("restricted", (129, 257, 513))
    return exact(table_1.exponent((129, 257, 513), found), f"layers: {listed(found, 0)}")


def _dilated(n: int, width: int) -> int:
    """Layers of causal convolutions, dilated by 1, k, k², …, until the last position depends on the first."""
    x = Tensor(np.random.default_rng(0).standard_normal((n, 1)), requires_grad=True)
    y, reach = x, 1
    for layers in range(1, n + 1):
        terms = [ag.pad(y, ((j * reach, 0), (0, 0)))[:n] * (j + 1.0) for j in range(width)]
        y, reach = sum(terms[1:], terms[0]), reach * width
        (g,) = ag.grad(y[n - 1].sum(), x, retain_graph=True)
        if g.data[0, 0] != 0:
            return layers
    return n


@claim(
    "path-dilated", "4, Table 1", "… or O(log_k(n)) in the case of dilated convolutions.",
    Rule("layers minus log_k(n) rounded up, the largest difference", 0, 0),
)  # fmt: skip
def path_dilated(study: Study) -> Figure:
    """Kernels of 2, 3 and 5, dilated by 1, k, k², …, with 27 to 1,000 positions."""
    cases = [(n, k) for k in (2, 3, 5) for n in (27, 100, 1000)]
    found = [_dilated(n, k) for n, k in cases]
    expected = [next(m for m in range(1, 20) if k**m >= n) for n, k in cases]
    return exact(max(abs(a - b) for a, b in zip(found, expected, strict=True)), f"layers: {listed(found, 0)}")


def _crossing_ratios(study: Study) -> dict[tuple[int, int], tuple[float, float]]:
    """Operations and seconds of self-attention divided by those of recurrence, by n and d, n ≤ d."""
    found = {}
    for d in (16, 32) if study.quick else (128, 512):
        for n in (d // 8, d // 4, d // 2, 3 * d // 4):
            one, other = (table_1.cost(KINDS[name].make(d), n, d, 0.2) for name in LAYERS[:2])
            found[n, d] = one.operations / other.operations, one.seconds / other.seconds
    return found


def _by_size(found: dict[tuple[int, int], tuple[float, float]], which: int) -> str:
    return ", ".join(f"n = {n}, d = {d}: {ratios[which]:.2f}" for (n, d), ratios in found.items())


@claim(
    "cheaper-than-recurrence", "4",
    "In terms of computational complexity, self-attention layers are faster than recurrent layers when the sequence "
    "length n is smaller than the representation dimensionality d.",
    Rule("the operations of self-attention, divided by those of recurrence, at most", highest=1),
)  # fmt: skip
def cheaper_than_recurrence(study: Study) -> Figure:
    """Layers without projections, as in the paper's table, n from an eighth to three quarters of d = 128 and 512,
    forward and backward."""
    found = _crossing_ratios(study)
    return exact(max(operations for operations, _ in found.values()), _by_size(found, 0))


@claim(
    "faster-than-recurrence", "4", "[… self-attention layers are faster than recurrent layers when n < d.]",
    Rule("the time of self-attention, divided by that of recurrence, at most", highest=1),
)  # fmt: skip
def faster_than_recurrence(study: Study) -> Figure:
    """As for cheaper-than-recurrence, in seconds of this machine's CPU: the least of several."""
    found = _crossing_ratios(study)
    return exact(max(seconds for _, seconds in found.values()), _by_size(found, 1))


def _plain_recurrence(d: int) -> table_1.Layer:
    """h_t = tanh(x_t + W h_{t-1}): one matrix, as in the paper's n · d²."""
    weight = Initializer(0).glorot_uniform(d, d)

    def layer(x: Tensor) -> Tensor:
        h, states = Tensor(np.zeros((1, d), x.dtype)), []
        for t in range(x.shape[1]):
            h = ag.tanh(x[:, t] + ag.linear(h, weight))
            states.append(h)
        return ag.stack(states, axis=1)

    return layer


@claim(
    "convolution-cost", "4", "Convolutional layers are generally more expensive than recurrent layers, by a factor "
    "of k.",
    Rule("the ratio of operations, divided by k", 0.9, 1.1),
)  # fmt: skip
def convolution_cost(study: Study) -> Figure:
    """Convolutions of width 5 against h_t = tanh(x_t + W h_{t-1}), d = 256, 32 positions, forward and backward."""
    n, d = 32, 256
    convolution, mask = Convolution(d, 5, Initializer(0)), np.ones((1, 1, 1, n), bool)
    cost = _operations(lambda x: convolution(x, mask), n, d)
    plain, gated = _operations(_plain_recurrence(d), n, d), _operations(KINDS["recurrent"].make(d), n, d)
    return exact(
        cost / plain / 5, f"{cost / plain:.2f} times; {cost / gated:.2f} times a gated unit's, of three matrices"
    )


@claim(
    "separable-as-attention", "4",
    "Even with k = n, the complexity of a separable convolution is equal to the combination of a self-attention layer "
    "and a point-wise feed-forward layer.",
    Rule("the exponent of n = d in the ratio of operations", -0.1, 0.1),
)  # fmt: skip
def separable_as_attention(study: Study) -> Figure:
    """A separable convolution over all n positions, against self-attention without projections and a feed-forward
    network with an inner width of d, with n = d = 64, 128 and 256."""
    ratios, sizes = [], (64, 128, 256)
    for n in sizes:
        separable, mask = SeparableConvolution(n, n, Initializer(0)), np.ones((1, 1, 1, n), bool)
        network, attention = FeedForward(n, n, "relu", 0.0, Initializer(0)), KINDS["self-attention"].make(n)
        both = _operations(lambda x, f=network, a=attention: f(a(x)), n, n)
        ratios.append(_operations(lambda x, s=separable, m=mask: s(x, m), n, n) / both)
    return exact(table_1.exponent(sizes, ratios), f"ratios: {listed(ratios)}")


_SUPERIOR = "Experiments show these models to be superior in quality [to those with recurrent or convolutional layers]."
_SHORTER = "The shorter the paths, the easier it is to learn long-range dependencies; "
_SHORTER += "restricted self-attention lengthens them."
for _variant, _what, _section, _sentence in (
    ("recurrent", "a gated recurrent unit", "abstract, 7", _SUPERIOR),
    ("convolutional", "convolutions of width 3", "abstract, 7", _SUPERIOR),
    ("separable", "separable convolutions of width 3", "abstract, 7", _SUPERIOR),
    ("restricted", "self-attention to 5 positions in encoder and decoder", "4", _SHORTER),
):
    compare(
        f"better-than-{_variant}", _section, _sentence,
        Rule(f"self-attention minus {_what}, BLEU", lowest=0), {"self-attention": "base", _variant: _variant},
        "The layer stands in place of the encoder's self-attention, with the same width, layers and updates.",
    )  # fmt: skip
