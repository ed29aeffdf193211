"""Section 6: averaging, search, Tables 2 and 3."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from minitf.config.presets import PRESETS
from minitf.decoding import search
from minitf.decoding.search import BeamSearchConfig
from minitf.model.transformer import Transformer
from paper_claims.claim import Figure, Rule, claim, exact, sampled
from paper_claims.runs import Study, compare, labelled, minus
from paper_claims.training import paper_flops

# ---- 6.1 Machine translation -----------------------------------------------------------------------------------------


def _by(study: Study, setting: str, values: Sequence[Any]) -> dict[Any, list[float]]:
    """The BLEU of the test text of each seed of the base, by one setting of its translation."""
    return {value: study.test_bleu("base", **{setting: value}) for value in values}


def _register_average(checkpoints: int, sentence: str, done: str) -> None:
    rule = Rule(f"the mean of {checkpoints} minus the last one, BLEU", lowest=0)

    @claim(f"average-{checkpoints}", "6.1", sentence, rule, done)
    def average(study: Study) -> Figure:
        found = _by(study, "average", (1, 5, 20))
        return sampled(minus(found[checkpoints], found[1]), f"BLEU by checkpoints: {labelled(found)}")


_register_average(
    5, "For the base models, we used a single model obtained by averaging the last 5 checkpoints.",
    "Checkpoints of the base, 10 updates apart: a twelfth of the training; the paper's 50 minutes are a fourteenth of "
    "its 12 hours.",
)  # fmt: skip
_register_average(
    20, "For the big models, we averaged the last 20 checkpoints.",
    "As for average-5: the last third of the training, where the paper's 20 are a twenty-fifth.",
)  # fmt: skip


@claim(
    "beam", "6.1", "We used beam search with a beam size of 4 and length penalty α = 0.6.",
    Rule("a beam of 4 minus greedy search, BLEU", lowest=0),
)  # fmt: skip
def beam(study: Study) -> Figure:
    """The base's translations of the test text."""
    found = _by(study, "beam", (1, 2, 4, 8))
    return sampled(minus(found[4], found[1]), f"BLEU by beam: {labelled(found)}")


@claim(
    "length-penalty", "6.1", "[We used a] length penalty α = 0.6.",
    Rule("α = 0.6 minus the better of 0 and 1, BLEU", lowest=0),
)  # fmt: skip
def length_penalty(study: Study) -> Figure:
    """The base's translations of the test text with a beam of 4; the paper chose α on its development set."""
    found = _by(study, "alpha", (0.0, 0.3, 0.6, 1.0, 2.0))
    better = [max(pair) for pair in zip(found[0.0], found[1.0], strict=True)]
    return sampled(minus(found[0.6], better), f"BLEU by α: {labelled(found)}")


def _changed(study: Study, change: dict[str, Any], code: Any = None) -> Figure:
    """The number of translations of the test text that another search changes, over all seeds."""
    sources, _ = study.test_text()
    changed = total = 0
    for seed in study.seeds:
        translator = study.translator("base", seed)
        usual, known = translator.search, translator.translate(sources)
        translator.search = replace(usual, **change)
        with code or nullcontext():
            other = translator.translate(sources)
        translator.search = usual
        changed += sum(a != b for a, b in zip(known, other, strict=True))
        total += len(sources)
    return exact(changed, f"of {total:,}")


@claim(
    "early-termination", "6.1", "[We] terminate early when possible.",
    Rule("translations of the test text that it changes", 0, 0),
)  # fmt: skip
def early_termination(study: Study) -> Figure:
    """The base's translations with and without ending a search when no better hypothesis is possible."""
    return _changed(study, {}, patch.object(search, "_is_done", lambda beams, config, step: beams.max_length <= step))


@claim(
    "maximum-length", "6.1", "We set the maximum output length during inference to input length + 50.",
    Rule("translations of the test text that a limit of input length + 300 changes", 0, 0),
)  # fmt: skip
def maximum_length(study: Study) -> Figure:
    """The base's translations with both limits."""
    assert BeamSearchConfig().max_extra_length == 50
    return _changed(study, {"max_extra_length": 300})


# ---- Table 2 ---------------------------------------------------------------------------------------------------------


def _register_cost(model: str, figure: str, hours: float, published: float, done: str) -> None:
    sentence = "Training cost: training time × number of GPUs × sustained single-precision capacity of each GPU. "
    sentence += f"{model.capitalize()}: {figure}."
    rule = Rule("computed cost, divided by the paper's", 0.95, 1.05)

    @claim(f"cost-{model}", "6.1, Table 2", sentence, rule, done)
    def cost(study: Study) -> Figure:
        found = paper_flops(hours)
        return exact(found / published, f"{found:.2e}; the paper: {published:.1e}")


_register_cost("base", "3.3 · 10¹⁸", 12, 3.3e18, "12 hours × 8 × 9.5 TFLOPS.")
_register_cost("big", "2.3 · 10¹⁹", 84, 2.3e19, "3.5 days × 8 × 9.5 TFLOPS.")


@claim(
    "quarter-of-cost", "6.1",
    "Our big model […] outperform[s] all of the previously published single models, at less than 1/4 the training "
    "cost of the previous state-of-the-art model.",
    Rule("the big model's cost, divided by that of the best earlier single model", highest=0.25),
)  # fmt: skip
def quarter_of_cost(study: Study) -> Figure:
    """Table 2, English-French: 2.3 · 10¹⁹ against 1.2 · 10²⁰ of MoE, the best single model with 40.56 BLEU."""
    return exact(2.3e19 / 1.2e20)


@claim(
    "over-2-bleu", "abstract, 6.1",
    "28.4 BLEU on English-to-German, improving over the existing best results, including ensembles, by over 2 BLEU.",
    Rule("the difference to the best row of Table 2, BLEU", lowest=2),
)  # fmt: skip
def over_2_bleu(study: Study) -> Figure:
    """Table 2: 26.36 of the ConvS2S ensemble."""
    return exact(28.4 - 26.36)


# ---- Table 3 ---------------------------------------------------------------------------------------------------------


def parameter_count(preset: str, **changes: int) -> int:
    model = replace(PRESETS[preset].model, vocab_size=PRESETS[preset].vocab_size, **changes)
    return Transformer(model, seed=None).parameter_count()


def _register_parameters(model: str, published: int, done: str) -> None:
    sentence = f"The {model} model has {published} · 10⁶ parameters."
    rule = Rule(f"millions counted less {published}", -0.5, 0.5)

    @claim(f"parameters-{model}", "Table 3", sentence, rule, done)
    def parameters(study: Study) -> Figure:
        count = parameter_count(model)
        return exact(count / 1e6 - published, f"{count:,} with 37,000 subwords")


_register_parameters(
    "base", 65,
    "Counted from the configuration, with one shared matrix of about 37,000 subwords (5.1). It would take 41,000.",
)  # fmt: skip
_register_parameters(
    "big", 213, "As for parameters-base. It would take 35,800 subwords: no vocabulary gives both figures."
)  # fmt: skip


@claim(
    "parameters-differences", "Table 3", "[Parameters of rows (B) and (C): 58, 60, 36, 50, 80, 28, 168, 53, 90 "
    "millions.]",
    Rule("the largest error of a difference to the base, millions", 0, 1),
)  # fmt: skip
def parameters_differences(study: Study) -> Figure:
    """Differences of layers, keys and inner widths do not depend on the vocabulary; those of d_model do and are left
    out. Both figures of a difference are rounded."""
    rows: dict[float, dict[str, int]] = {58: {"d_k": 16}, 60: {"d_k": 32}, 36: {"layers": 2}, 50: {"layers": 4}}
    rows |= {80: {"layers": 8}, 53: {"d_ff": 1024}, 90: {"d_ff": 4096}}
    own = {
        published: (parameter_count("base", **row) - parameter_count("base")) / 1e6 for published, row in rows.items()
    }
    text = "; ".join(f"{row}: {own[m]:+.2f}, the paper {m - 65:+.0f}" for m, row in rows.items())
    return exact(max(abs(own[m] - (m - 65)) for m in rows), text.replace("{", "").replace("}", "").replace("'", ""))


compare(
    "key-size", "6.2, Table 3 (B)", "Reducing the attention key size d_k hurts model quality.",
    Rule("d_k = 16 minus d_k = 4, BLEU", lowest=0), {"16": "base", "4": "d-k-4"},
    "A quarter of the base's, as 16 is of the paper's 64; values keep their width.",
)  # fmt: skip


compare(
    "more-than-dot-products", "6.2, Table 3 (B)",
    "A more sophisticated compatibility function than dot product may be beneficial.",
    Rule("additive minus scaled dot-product attention, BLEU", lowest=0),
    {"additive": "additive", "scaled": "base", "unscaled": "dot"},
    "The base with additive attention everywhere; unscaled dot products are beside it. All have d_k = 16.",
)  # fmt: skip


compare(
    "bigger-is-better", "6.2, Table 3 (C)", "As expected, bigger models are better.",
    Rule("d_model 64 minus d_model 32, BLEU", lowest=0), {"64": "base", "32": "half-width"},
    "The base against one of half its widths, d_ff included.",
)  # fmt: skip
