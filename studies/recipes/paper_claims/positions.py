"""Sections 3.4 and 3.5: embeddings, shared weights, positional encodings."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import numpy as np

from autograd import Tensor
from minitf.config.presets import PRESETS
from minitf.data.text import read_pairs
from minitf.model.parameters import Initializer
from minitf.model.transformer import Encoder, Transformer, sinusoids
from paper_claims.attention import SMALL
from paper_claims.claim import Figure, Rule, claim, exact, sampled
from paper_claims.runs import SHORT, Study, compare, labelled, minus

BINS = {"13 to 15": (13, 15), "16 to 18": (16, 18), "19 and more": (19, 10**6)}
"""Tokens of the longer side with the end token: longer than any in the training of `short-…`, which have SHORT."""


# ---- 3.4 Embeddings --------------------------------------------------------------------------------------------------


@claim(
    "sharing-parameters", "3.4",
    "We share the same weight matrix between the two embedding layers and the pre-softmax linear transformation.",
    Rule("the share of parameters that sharing saves in the base model", lowest=0.25),
)  # fmt: skip
def sharing_parameters(study: Study) -> Figure:
    """Counted from the configuration, with 37,000 subwords."""
    base = replace(PRESETS["base"].model, vocab_size=PRESETS["base"].vocab_size)
    outlines = (Transformer(replace(base, share_embeddings=kind), seed=None) for kind in ("all", "none"))
    shared, apart = (outline.parameter_count() for outline in outlines)
    return exact(1 - shared / apart, f"{shared:,} parameters instead of {apart:,}")


compare(
    "sharing-quality", "3.4", "We share the same weight matrix […].",
    Rule("shared minus separate matrices, BLEU", lowest=-0.5), {"shared": "base", "separate": "unshared"},
    "The paper does not say what sharing does to quality; here the question is whether it costs any.",
)  # fmt: skip


# ---- 3.5 Positions ---------------------------------------------------------------------------------------------------


@claim(
    "order-blind", "3.5",
    "Since our model contains no recurrence and no convolution, in order for the model to make use of the order of the "
    "sequence, we must inject some information about the position of the tokens.",
    Rule("the largest difference of outputs when inputs change places", 0, 1e-12),
)  # fmt: skip
def order_blind(study: Study) -> Figure:
    """An encoder without positions, in float64: the outputs of a sentence in another order are the same in that
    order."""
    encoder, mask = Encoder(SMALL, Initializer(0, np.float64)), np.ones((1, 1, 1, 20), bool)
    x, order = np.random.default_rng(0).standard_normal((1, 20, 32)), np.random.default_rng(1).permutation(20)
    y, moved = encoder(Tensor(x), mask).data, encoder(Tensor(x[:, order]), mask).data
    return exact(np.abs(y[:, order] - moved).max())


@claim(
    "wavelengths", "3.5", "The wavelengths form a geometric progression from 2π to 10000 · 2π.",
    Rule("the longest wavelength, divided by 10000 · 2π", 0.95, 1.05),
)  # fmt: skip
def wavelengths(study: Study) -> Figure:
    """The angles by which positions 0 and 1 of the table differ, d_model = 512. The progression would reach 10000 · 2π
    one dimension later."""
    row = sinusoids(2, 512)[1]
    waves = 2 * math.pi / np.arctan2(row[0::2], row[1::2])
    ratios = waves[1:] / waves[:-1]
    text = f"from {waves[0] / (2 * math.pi):.6f} to {waves[-1] / (2 * math.pi):,.1f} times 2π; "
    return exact(waves[-1] / (20000 * math.pi), f"{text}ratios of neighbours differ by {np.ptp(ratios):.1e}")


@claim(
    "relative-positions", "3.5", "For any fixed offset k, PE(pos+k) can be represented as a linear function of "
    "PE(pos).",
    Rule("the largest error of the best linear function", highest=1e-9),
)  # fmt: skip
def relative_positions(study: Study) -> Figure:
    """Least squares over 20,000 positions for offsets of 1, 7, 50 and 500, d_model = 64, float64: the function is
    fitted to the even positions, and its error is that on the odd ones."""
    table, errors, stop = sinusoids(20_500, 64), {}, 20_000
    for k in (1, 7, 50, 500):
        fitted, *_ = np.linalg.lstsq(table[:stop:2], table[k : stop + k : 2], rcond=None)
        errors[k] = np.abs(table[1:stop:2] @ fitted - table[1 + k : stop + k : 2]).max()
    return exact(max(errors.values()), ", ".join(f"k = {k}: {error:.1e}" for k, error in errors.items()))


compare(
    "learned-positions", "3.5, Table 3 (E)",
    "We also experimented with using learned positional embeddings instead, and found that the two versions produced "
    "nearly identical results.",
    Rule("sinusoidal minus learned, BLEU", -1, 1), {"sinusoidal": "base", "learned": "learned"},
    "The paper's difference is 0.1.",
)  # fmt: skip


@cache
def by_length(study: Study, variant: str) -> dict[str, list[float]]:
    """BLEU of each seed by the length of pairs: as long as those of the training, and longer ones, of its left-out
    pairs and the held-out texts."""
    vocabulary = study.translator(variant, study.seeds[0]).vocabulary
    pairs = [pair for split in ("test", "valid", "train") for pair in read_pairs(*study.texts[split])]
    sides = [vocabulary.encode([line for line, _ in pairs]), vocabulary.encode([line for _, line in pairs])]
    lengths = [1 + max(len(source), len(target)) for source, target in zip(*sides, strict=True)]
    held_out = len(list(read_pairs(*study.texts["test"])))
    bins = {f"up to {SHORT}": [i for i in range(held_out) if lengths[i] <= SHORT]}
    for name, (low, high) in BINS.items():
        bins[name] = [i for i, length in enumerate(lengths) if low <= length <= high][: 40 if study.quick else 400]
    found: dict[str, list[float]] = {}
    for name, chosen in bins.items():
        sources, references = ([pairs[i][side] for i in chosen] for side in (0, 1))
        outputs = [study.translator(variant, seed).translate(sources) for seed in study.seeds] if chosen else []
        found[name] = [study.bleu(output, references) for output in outputs] or [0.0 for _ in study.seeds]
    return found


@claim(
    "extrapolation", "3.5",
    "We chose the sinusoidal version because it may allow the model to extrapolate to sequence lengths longer than the "
    "ones encountered during training.",
    Rule("sinusoidal minus learned on pairs of 13 to 15 tokens, BLEU", lowest=0),
)  # fmt: skip
def extrapolation(study: Study) -> Figure:
    """Models trained on pairs of at most 12 tokens translate longer ones."""
    fixed, learned = by_length(study, "short-sinusoidal"), by_length(study, "short-learned")
    text = f"BLEU by tokens, sinusoidal: {labelled(fixed, 1)}. Learned: {labelled(learned, 1)}"
    return sampled(minus(fixed["13 to 15"], learned["13 to 15"]), text)


@claim(
    "extrapolation-quality", "3.5", "[… it may allow the model to extrapolate to longer sequences.]",
    Rule("BLEU on pairs of 13 to 15 tokens, divided by that on pairs of up to 12", lowest=0.9),
)  # fmt: skip
def extrapolation_quality(study: Study) -> Figure:
    """As for extrapolation, sinusoids: how much of the quality is left just beyond the longest sentence trained on."""
    found = by_length(study, "short-sinusoidal")
    inside, beyond = found[f"up to {SHORT}"], found["13 to 15"]
    return sampled([b / max(a, 1e-9) for a, b in zip(inside, beyond, strict=True)], labelled(found, 1))
