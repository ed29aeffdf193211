"""Sections 3.1 to 3.3: stacks, attention, heads, feed-forward networks."""

from __future__ import annotations

import timeit
import tracemalloc
from collections.abc import Callable
from statistics import mean
from typing import Any

import numpy as np
import table_1
from compared_layers import Convolution

import autograd as ag
from autograd import Tensor
from minitf import Adam, OptimizerConfig, Transformer, TransformerConfig
from minitf.model.layers import FeedForward, Linear, Module
from minitf.model.parameters import Initializer
from minitf.model.transformer import EncoderLayer, MultiHeadAttention, sinusoids
from paper_claims.claim import Figure, Rule, claim, exact, sampled
from paper_claims.runs import Study, compare, labelled, minus
from studies.ops import additive_attention

SMALL = TransformerConfig(vocab_size=50, layers=2, d_model=32, heads=4, d_ff=64, dropout=0.0)


def _normal(rng: np.random.Generator, *shape: int, grad: bool = False, dtype: Any = np.float64) -> Tensor:
    return Tensor(rng.standard_normal(shape).astype(dtype), requires_grad=grad)


# ---- 3.1 Stacks ------------------------------------------------------------------------------------------------------


@claim(
    "causal-decoder", "3.1", "The predictions for position i can depend only on the known outputs at positions less "
    "than i.",
    Rule("the largest change of a prediction when later outputs change", 0, 0),
)  # fmt: skip
def causal_decoder(study: Study) -> Figure:
    """All target tokens from a position on are replaced, at every position of three models' 12; logits before it are
    compared."""
    worst = 0.0
    for seed in range(3):
        model, rng = Transformer(SMALL, seed=seed, dtype=np.float64), np.random.default_rng(seed)
        source, target = rng.integers(4, 50, (2, 9)), rng.integers(4, 50, (2, 12))
        with ag.no_grad():
            known = model(source, target).data
            for i in range(1, 12):
                other = target.copy()
                other[:, i:] = rng.integers(4, 50, other[:, i:].shape)
                worst = max(worst, np.abs(model(source, other).data[:, :i] - known[:, :i]).max())
    return exact(worst, "float64")


# ---- 3.2.1 Scaled dot-product attention ------------------------------------------------------------------------------


@claim(
    "variance-of-dot-products", "3.2.1, footnote 4", "q · k has mean 0 and variance d_k.",
    Rule("the variance divided by d_k", 0.97, 1.03),
)  # fmt: skip
def variance_of_dot_products(study: Study) -> Figure:
    """Products of standard normal vectors of 1 to 1,024 components, 20,000 pairs a size, in ten draws; the mean over
    the sizes."""
    sizes, pairs = (1, 4, 16, 64, 256, 1024), 1_000 if study.quick else 20_000
    ratios, means = [], []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        products = [(rng.standard_normal((pairs, d)) * rng.standard_normal((pairs, d))).sum(axis=1) for d in sizes]
        ratios.append([p.var() / d for d, p in zip(sizes, products, strict=True)])
        means.append([p.mean() / np.sqrt(d) for d, p in zip(sizes, products, strict=True)])
    by_size = ", ".join(f"{d}: {d * r:,.2f}" for d, r in zip(sizes, np.mean(ratios, axis=0), strict=True))
    return sampled([mean(r) for r in ratios], f"variance by d_k: {by_size}; mean / √d_k: {np.mean(means):+.4f}")


def _slopes(rng: np.random.Generator, d_k: int, keys: int, scale: float) -> float:
    """The median over queries of the norm of softmax's derivative by its scores."""
    q, k = rng.standard_normal((400, d_k)), rng.standard_normal((400, keys, d_k))
    scores = scale * np.einsum("ad,akd->ak", q, k)
    p = np.exp(scores - scores.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    jacobian = p[:, :, None] * np.eye(keys) - p[:, :, None] * p[:, None, :]
    return float(np.median(np.linalg.norm(jacobian, axis=(1, 2))))


@claim(
    "softmax-gradient", "3.2.1",
    "For large d_k, the dot products grow large, pushing the softmax function into regions where it has extremely "
    "small gradients. To counteract this effect, we scale the dot products by 1/√d_k.",
    Rule("the gradient without the scale, divided by that with it, at d_k = 512", highest=0.1),
)  # fmt: skip
def softmax_gradient(study: Study) -> Figure:
    """The median norm of softmax's derivative by its 32 scores, over 400 normal queries and their keys, ten draws."""
    sizes = (1, 512) if study.quick else (1, 4, 16, 64, 128, 256, 512)
    found = {d: [[_slopes(np.random.default_rng(s), d, 32, c) for c in (1, d**-0.5)] for s in range(10)] for d in sizes}
    table = "; ".join(
        f"{d}: {np.mean(rows, axis=0)[0]:.2g} and {np.mean(rows, axis=0)[1]:.2g}" for d, rows in found.items()
    )
    return sampled([a / b for a, b in found[512]], f"by d_k, without and with the scale: {table}")


def _attention_costs(d_k: int, n: int) -> dict[str, tuple[float, float, int]]:
    """Seconds, operations and bytes of additive and dot-product attention, forward and backward, 8 heads."""
    rng, costs = np.random.default_rng(0), {}
    q, k, v = (_normal(rng, 1, 8, n, d_k, grad=True, dtype=np.float32) for _ in range(3))
    w, g = _normal(rng, 8, d_k, grad=True, dtype=np.float32), np.ones((1, 8, n, d_k), np.float32)
    for name, call in {
        "additive": lambda: additive_attention(q, k, v, w),
        "dot-product": lambda: ag.scaled_dot_product_attention(q, k, v),
    }.items():

        def step(call: Callable[[], Tensor] = call) -> None:
            call().backward(g)

        costs[name] = min(timeit.repeat(step, number=1, repeat=7)), table_1.operations_of(step), _peak_bytes(step)
    return costs


def _peak_bytes(call: Callable[[], object]) -> int:
    """The most bytes allocated at once, what ops use for themselves included."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def _ratios(n: int, d_k: int) -> tuple[list[float], str]:
    costs = _attention_costs(d_k, n)
    one, other = costs["additive"], costs["dot-product"]
    text = f"n = {n}, d_k = {d_k}: {1000 * one[0]:.1f} and {1000 * other[0]:.1f} ms, {one[1]:.2e} and {other[1]:.2e} "
    text += f"operations, {one[2] / 2**20:.1f} and {other[2] / 2**20:.1f} MiB"
    return [a / b for a, b in zip(one, other, strict=True)], text


def _register_cost(name: str, sentence: str, rule: Rule, which: int, done: str) -> None:
    @claim(name, "3.2.1", sentence, rule, done)
    def ratio(study: Study) -> Figure:
        ratios, text = _ratios(64 if study.quick else 256, 64)
        return exact(ratios[which], text)


_OF = "of additive attention, divided by {} of dot-product attention"
_register_cost(
    "additive-complexity", "The two [additive and dot-product attention] are similar in theoretical complexity.",
    Rule(f"the operations {_OF.format('those')}", 0.5, 2), 1,
    "Both ops forward and backward, 8 heads, operations counted by the profiler.",
)  # fmt: skip
_register_cost(
    "dot-product-faster", "Dot-product attention is much faster in practice.",
    Rule(f"the time {_OF.format('that')}", lowest=2), 0,
    "As for additive-complexity; the least of seven times.",
)  # fmt: skip
_register_cost(
    "dot-product-smaller", "Dot-product attention is [much] more space-efficient in practice.",
    Rule(f"the peak bytes {_OF.format('those')}", lowest=2), 2,
    "As for additive-complexity. Both are fused ops: what plain ops would keep, they compute again.",
)  # fmt: skip


@claim(
    "dot-product-smaller-plain", "3.2.1", "[The same, without fused ops.]",
    Rule("the peak bytes of additive attention, divided by those of dot-product attention", lowest=2),
)  # fmt: skip
def dot_product_smaller_plain(study: Study) -> Figure:
    """As for dot-product-smaller, both composed of plain ops, as in the paper's time."""
    n, rng = 64 if study.quick else 256, np.random.default_rng(0)
    q, k = (_normal(rng, 1, 8, n, 64, grad=True, dtype=np.float32) for _ in range(2))
    one, other, g = q.reshape(1, 8, n, 1, 64), k.reshape(1, 8, 1, n, 64), np.ones(k.shape, np.float32)
    additive = _peak_bytes(lambda: (ag.softmax(ag.tanh(one + other).sum(axis=-1), -1) @ k).backward(g))
    dot = _peak_bytes(lambda: (ag.softmax(q @ k.swapaxes(-1, -2), -1) @ k).backward(g))
    return exact(additive / dot, f"{additive / 2**20:.1f} and {dot / 2**20:.1f} MiB")


compare(
    "additive-small-keys", "3.2.1", "For small values of d_k the two mechanisms perform similarly.",
    Rule("additive minus unscaled dot-product attention, BLEU", -2, 2),
    {"additive": "narrow-additive", "dot product": "narrow-dot"},
    "Models of one head with d_k = 4.",
)  # fmt: skip


compare(
    "additive-large-keys", "3.2.1",
    "Additive attention outperforms dot product attention without scaling for larger values of d_k.",
    Rule("additive minus unscaled dot-product attention, BLEU", lowest=0),
    {"additive": "wide-additive", "dot product": "wide-dot", "scaled dot product": "wide-scaled"},
    "Models of one head with d_k = 128.",
)  # fmt: skip


compare(
    "scale-helps", "3.2.1", "To counteract this effect, we scale the dot products by 1/√d_k.",
    Rule("scaled minus unscaled dot products, BLEU", lowest=0),
    {"scaled": "wide-scaled", "unscaled": "wide-dot"},
    "Models of one head with d_k = 128.",
)  # fmt: skip


# ---- 3.2.2 Multi-head attention --------------------------------------------------------------------------------------


@claim(
    "cost-of-heads", "3.2.2",
    "Due to the reduced dimension of each head, the total computational cost is similar to that of single-head "
    "attention with full dimensionality.",
    Rule("the operations of 8 heads, divided by those of one", 0.9, 1.1),
)  # fmt: skip
def cost_of_heads(study: Study) -> Figure:
    """Self-attention with its projections, d = 512, 64 positions, forward and backward, operations counted by the
    profiler; the least of ten times beside them."""
    operations, seconds = {}, {}
    d, n = (64, 16) if study.quick else (512, 64)
    for heads in (1, 8):
        attention = MultiHeadAttention(d, heads, init=Initializer(0))
        x = _normal(np.random.default_rng(0), 1, n, d, grad=True, dtype=np.float32)

        def step(attention: MultiHeadAttention = attention, x: Tensor = x) -> None:
            attention(x, x, x).backward(np.ones(x.shape, np.float32))

        operations[heads], seconds[heads] = table_1.operations_of(step), min(timeit.repeat(step, number=1, repeat=10))
    return exact(operations[8] / operations[1], f"time: {seconds[8] / seconds[1]:.2f} of that of one head")


class _Neighbours(Module):
    """Attention that is to read the tokens before and after each position, then a matrix for each of the two."""

    def __init__(self, heads: int, seed: int):
        init, d, vocabulary = Initializer(seed), 32, 10
        self.tokens = init.normal(vocabulary, d)
        self.positions = sinusoids(16, d).astype(np.float32)
        self.attention = MultiHeadAttention(d, heads, init=init)
        self.before, self.after = Linear(d, vocabulary, init), Linear(d, vocabulary, init)

    def __call__(self, tokens: np.ndarray) -> tuple[Tensor, Tensor]:
        x = 32**0.5 * ag.embedding(tokens, self.tokens) + self.positions[: tokens.shape[1]]
        y = self.attention(x, x, x)
        return self.before(y), self.after(y)


def _neighbours_found(heads: int, seed: int, updates: int) -> float:
    """The share of positions at which both neighbours are named rightly after training."""
    model, rng = _Neighbours(heads, seed), np.random.default_rng(seed)
    optimizer = Adam(model.named_parameters(), OptimizerConfig())
    for update in range(updates + 1):
        tokens = rng.integers(0, 10, (500 if update == updates else 64, 12))
        before, after = model(tokens)
        labels = tokens[:, :-2], tokens[:, 2:]
        if update == updates:
            found = [y.data[:, 1:-1].argmax(-1) == label for y, label in zip((before, after), labels, strict=True)]
            return float((found[0] & found[1]).mean())
        loss = ag.cross_entropy(before[:, 1:-1], labels[0]) + ag.cross_entropy(after[:, 1:-1], labels[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step(0.003)
    raise AssertionError


@claim(
    "averaging", "3.2.2",
    "Multi-head attention allows the model to jointly attend to information at different positions. With a single "
    "attention head, averaging inhibits this.",
    Rule("positions with both neighbours named, eight heads minus one", lowest=0.1),
)  # fmt: skip
def averaging(study: Study) -> Figure:
    """One attention sub-layer of d = 32 learns to name the token before and the token after each position of random
    sequences, in 600 updates; accuracy on 5,000 positions."""
    updates = 10 if study.quick else 600
    found = {heads: [_neighbours_found(heads, seed, updates) for seed in study.seeds] for heads in (1, 2, 8)}
    return sampled(minus(found[8], found[1]), f"by heads: {labelled(found, 3)}")


compare(
    "one-head", "6.2, Table 3 (A)", "Single-head attention is worse than the best setting [by 0.9 BLEU].",
    Rule("four heads minus one, BLEU", lowest=0), {"base": "base", "heads-1": "heads-1"},
    "d_k = 64 / heads, as in the paper's rows (A).",
)  # fmt: skip


compare(
    "heads-between", "6.2, Table 3 (A)", "[Between four and sixteen heads, BLEU differs by 0.3 at most.]",
    Rule("four heads minus eight, BLEU", -1, 1), {"base": "base", "heads-8": "heads-8", "heads-2": "heads-2"},
    "As for one-head; two heads are beside it.",
)  # fmt: skip


compare(
    "too-many-heads", "6.2, Table 3 (A)", "Quality also drops off with too many heads.",
    Rule("four heads minus sixteen, BLEU", lowest=0), {"base": "base", "heads-16": "heads-16"},
    "Sixteen heads have d_k = 4 here.",
)  # fmt: skip


# ---- 3.2.3, 3.3 ------------------------------------------------------------------------------------------------------


@claim(
    "encoder-attends-to-all", "3.2.3",
    "Each position in the encoder can attend to all positions in the previous layer of the encoder.",
    Rule("the share of pairs of positions with a gradient that is not zero", 1, 1),
)  # fmt: skip
def encoder_attends_to_all(study: Study) -> Figure:
    """The gradient of each of 40 outputs of one encoder layer with respect to each input."""
    layer, seen = EncoderLayer(SMALL, Initializer(0, np.float64)), 0
    for i in range(40):
        x = _normal(np.random.default_rng(0), 1, 40, 32, grad=True)
        layer(x, np.ones((1, 1, 1, 40), bool))[0, i].backward(np.random.default_rng(1).standard_normal(32))
        assert x.grad is not None
        seen += int((x.grad.data[0] != 0).any(axis=1).sum())
    return exact(seen / 1600)


@claim(
    "position-wise", "3.3",
    "The feed-forward network is applied to each position separately and identically; another way of describing this "
    "is as two convolutions with kernel size 1.",
    Rule("the largest difference", 0, 1e-12),
)  # fmt: skip
def position_wise(study: Study) -> Figure:
    """The network against itself on the positions in another order, and against two convolutions of width 1, in
    float64."""
    network, x = (
        FeedForward(32, 64, "relu", 0.0, Initializer(0, np.float64)),
        _normal(np.random.default_rng(0), 1, 20, 32),
    )
    order = np.random.default_rng(1).permutation(20)
    y = network(x).data
    moved = np.abs(network(Tensor(x.data[:, order])).data - y[:, order]).max()
    first, last = network.up, network.down
    convolutions = [Convolution(1, 1, Initializer(0, np.float64)) for _ in range(2)]
    for convolution, linear in zip(convolutions, (first, last), strict=True):
        convolution.output = linear
    mask = np.ones((1, 1, 1, 20), bool)
    convolved = convolutions[1](ag.relu(convolutions[0](x, mask)), mask).data
    return exact(max(moved, np.abs(convolved - y).max()))
