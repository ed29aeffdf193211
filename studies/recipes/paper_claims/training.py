"""Section 5: time, schedule, warm-up, dropout, label smoothing."""

from __future__ import annotations

import math
from dataclasses import replace
from statistics import mean

import numpy as np

import autograd as ag
from additions.corpora.list_presets import SENTENCE_TOKENS, update_flops
from autograd import Tensor
from minitf import OptimizerConfig, Transformer
from minitf.config.model import BOS, EOS
from minitf.config.presets import PRESETS
from minitf.training.optim import learning_rate
from paper_claims.attention import SMALL
from paper_claims.claim import Figure, Rule, claim, exact, sampled
from paper_claims.runs import Study, compare, listed

P100_FLOPS = 9.5e12
"""Sustained single-precision operations a second of one P100. Source: footnote 5."""
P100_COUNT = 8


def paper_flops(hours: float) -> float:
    """Operations of a whole training run by the paper's method: time × number of GPUs × sustained rate of one.

    Source: section 6.1 and footnote 5; Table 2
    """
    return hours * 3600 * P100_COUNT * P100_FLOPS


# ---- 5.2 Hardware and schedule ---------------------------------------------------------------------------------------


@claim(
    "hours-base", "5.2", "Each training step took about 0.4 seconds; we trained for 100,000 steps or 12 hours.",
    Rule("100,000 · 0.4 s, divided by 12 hours", 0.9, 1.1), "Arithmetic.",
)  # fmt: skip
def hours_base(study: Study) -> Figure:
    return exact(100_000 * 0.4 / 3600 / 12)


@claim(
    "hours-big", "5.2", "Step time was 1.0 seconds; the big models were trained for 300,000 steps (3.5 days).",
    Rule("300,000 · 1.0 s, divided by 3.5 days", 0.9, 1.1), "Arithmetic.",
)  # fmt: skip
def hours_big(study: Study) -> Figure:
    return exact(300_000 / 86_400 / 3.5)


@claim(
    "step-time", "5.1, 5.2", "Batches of 25,000 source and 25,000 target tokens: each step took about 0.4 seconds.",
    Rule("the share of eight P100s' sustained rate that such a step needs", 0.1, 1),
)  # fmt: skip
def step_time(study: Study) -> Figure:
    """Operations of the matrix products of one update of the base model, by additions/corpora/list_presets.py, and
    footnote 5's 9.5 TFLOPS a GPU. Plausible if it is not above 1; the big model is beside it."""
    shares = {}
    for name, seconds in (("base", 0.4), ("big", 1.0)):
        model = replace(PRESETS[name].model, vocab_size=PRESETS[name].vocab_size)
        operations = update_flops(model, 25_000, 25_000, SENTENCE_TOKENS)
        shares[name] = operations / seconds / (P100_COUNT * P100_FLOPS)
    return exact(shares["base"], f"big: {shares['big']:.3f}")


# ---- 5.3 Optimizer ---------------------------------------------------------------------------------------------------


@claim(
    "schedule", "5.3",
    "Equation 3 corresponds to increasing the learning rate linearly for the first warmup_steps training steps, and "
    "decreasing it thereafter proportionally to the inverse square root of the step number.",
    Rule("the larger error of the exponents 1 and -1/2", 0, 1e-6),
)  # fmt: skip
def schedule(study: Study) -> Figure:
    """Slopes on a log scale of the rates of updates 1 to 4,000 and 4,000 to 100,000, d_model = 512."""

    def slope(steps: range) -> float:
        rates = [learning_rate(step, 512, OptimizerConfig()) for step in steps]
        return float(np.polyfit(np.log(steps), np.log(rates), 1)[0])

    rise, fall = slope(range(1, 4001)), slope(range(4000, 100_001, 500))
    return exact(max(abs(rise - 1), abs(fall + 0.5)), f"peak {learning_rate(4000, 512, OptimizerConfig()):.2e}")


compare(
    "warm-up", "5.3", "[We increase the learning rate linearly for the first warmup_steps training steps.]",
    Rule("with warm-up minus without, BLEU", lowest=0),
    {"with": "base", "without": "no-warm-up", "without, normalising first": "pre-no-warm-up"},
    "Without: the rate of equation 3 without its linear part, which is the same from update 150 on and at update 1 "
    "twelve times the peak. Beside it, the same with normalisation before each sub-layer (--model.norm pre).",
)  # fmt: skip


def _layer_gradients(norm: str, seed: int) -> list[float]:
    """The norm of the gradient of each decoder layer's second feed-forward matrix at the initial weights."""
    config = replace(SMALL, layers=6, norm=norm, d_model=64, d_ff=256, vocab_size=500)
    model, rng = Transformer(config, seed=seed), np.random.default_rng(seed)
    source, target = rng.integers(4, 500, (32, 20)), rng.integers(4, 500, (32, 20))
    logits = model(np.insert(source, 20, EOS, axis=1), np.insert(target, 0, BOS, axis=1))
    ag.cross_entropy(logits, np.insert(target, 20, EOS, axis=1)).backward()
    grads = [layer.feed_forward.down.weight.grad for layer in model.decoder.layers]
    return [float(np.linalg.norm(g.data)) for g in grads if g is not None]


@claim(
    "gradients-by-layer", "3.1, 5.3",
    "The output of each sub-layer is LayerNorm(x + Sublayer(x)) [which makes gradients near the output large and is "
    "why warm-up is needed: Xiong et al. 2020].",
    Rule("the gradient norm of the last decoder layer, divided by that of the first", lowest=1.5),
)  # fmt: skip
def gradients_by_layer(study: Study) -> Figure:
    """6 + 6 layers, d_model 64, initial weights, random tokens, ten seeds: the second matrix of each feed-forward
    network. Beside it, with normalisation before each sub-layer."""
    found = {norm: [_layer_gradients(norm, seed) for seed in range(10)] for norm in ("post", "pre")}
    rows = [f"{norm}: {listed([mean(layer) for layer in zip(*each, strict=True)], 4)}" for norm, each in found.items()]
    return sampled([each[-1] / each[0] for each in found["post"]], f"norms by layer, {'; '.join(rows)}")


# ---- 5.4 Regularization ----------------------------------------------------------------------------------------------


compare(
    "dropout", "5.4, 6.2, Table 3 (D)", "Dropout is very helpful in avoiding over-fitting.",
    Rule("dropout 0.1 minus none, BLEU", lowest=0), {"0.1": "few-dropout", "none": "few-base"},
    "Models trained on 2,000 pairs, some thirty times each; the base sees each of its 30,000 twice.",
    perplexity=True,
)  # fmt: skip


compare(
    "place-of-dropout", "5.4",
    "We apply dropout to the output of each sub-layer, before it is added to the sub-layer input and normalized, "
    "[and] to the sums of the embeddings and the positional encodings.",
    Rule("dropout there minus dropout elsewhere, BLEU", lowest=0),
    {"there": "few-dropout", "elsewhere": "few-dropout-elsewhere"},
    "As for dropout; elsewhere: 0.1 of attention weights and of the inner features of feed-forward networks.",
)  # fmt: skip


@claim(
    "smoothing-unsure", "5.4", "[With label smoothing] the model learns to be more unsure.",
    Rule("the probability of the right token that is best, less 1 - ε + ε/V", -1e-3, 1e-3),
)  # fmt: skip
def smoothing_unsure(study: Study) -> Figure:
    """The logits of ten tokens that minimise the loss with ε = 0.1, found by 3,000 steps of gradient descent."""
    logits, label = Tensor(np.zeros((1, 10)), requires_grad=True), np.array([4])
    for _ in range(3_000):
        logits.grad = None
        ag.cross_entropy(logits, label, label_smoothing=0.1).backward()
        assert logits.grad is not None
        logits.data -= 2 * logits.grad.data
    p = float(ag.softmax(logits, -1).data[0, 4])
    with ag.no_grad():
        loss = ag.cross_entropy(logits, label, label_smoothing=0.1).item()
    return exact(p - 0.91, f"{p:.4f}; the loss there is {loss:.4f}, without smoothing it would be {-math.log(p):.4f}")


@claim(
    "smoothing-perplexity", "5.4, Table 3 (D)", "[Label smoothing of 0.1] hurts perplexity.",
    Rule("the perplexity with smoothing, divided by that without", lowest=1),
)  # fmt: skip
def smoothing_perplexity(study: Study) -> Figure:
    """The base against one with ε = 0, on the validation text, after the last update."""
    some, none = study.perplexities("base"), study.perplexities("smoothing-0")
    ratios = [a / b for a, b in zip(some, none, strict=True)]
    return sampled(ratios, f"with: {listed(some, 3)}; without: {listed(none, 3)}")


compare(
    "smoothing-bleu", "5.4, Table 3 (D)", "[Label smoothing of 0.1] improves […] BLEU score.",
    Rule("with smoothing minus without, BLEU", lowest=0), {"with": "base", "without": "smoothing-0"},
    "The base against one with ε = 0.",
)  # fmt: skip
