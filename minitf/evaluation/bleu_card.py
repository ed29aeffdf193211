"""The BLEU card: one output, every figure that people call its BLEU, and which may be compared with which.

    minitf bleu output.de reference.de
    minitf bleu output.de reference.de --language de --json

One and the same output can differ by two points between these. So each figure stands beside its signature and beside
the interval in which the score of a like test text would lie 95 times of 100.

Source: section 6; Post 2018 (signatures); Koehn 2004 (bootstrap)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minitf.system.signals import uninterrupted

if TYPE_CHECKING:
    import numpy as np

RESAMPLES = 1000
SEED = 12345


@dataclass(frozen=True)
class Figure:
    """One line of the card."""

    name: str
    score: float
    """0 to 100."""
    low: float
    high: float
    """95 % interval of the bootstrap."""
    precisions: tuple[float, ...]
    brevity_penalty: float
    signature: str
    for_text: str
    """What the two files must hold for the figure to mean what its name says."""


@dataclass(frozen=True)
class _Way:
    name: str
    for_text: str
    tokenize: str
    lowercase: bool = False
    prepare: Callable[[str], str] | None = None
    note: str = ""  # what `prepare` does, for the signature


def bleu_card(
    hypotheses: Sequence[str], references: Sequence[str], language: str = "de", resamples: int = RESAMPLES
) -> list[Figure]:
    """Every BLEU of an output against one reference a line.

    language: of the target, for the tokenization of the paper's figure
    Raises: UserError where the numbers of lines differ or there are none
    """
    from minitf.evaluation.metrics import check_lines

    check_lines(hypotheses, references)
    return [_figure(way, hypotheses, references, resamples) for way in _ways(language)]


def looks_tokenized(lines: Sequence[str]) -> bool:
    """Do most of the sentences that end in a full stop have a space before it?"""
    ended = [line.rstrip() for line in lines if line.rstrip().endswith(".")]
    return sum(line.endswith(" .") for line in ended) > len(ended) / 2


def _ways(language: str) -> list[_Way]:
    from minitf.evaluation.moses import replace_unicode_punctuation, split_compounds, tokenizer

    tokenize = tokenizer(language)

    def as_in_the_paper(line: str) -> str:
        return split_compounds(tokenize(replace_unicode_punctuation(line)))

    plain, tokenized = "plain text", "tokenized text"
    return [
        _Way("sacreBLEU 13a, cased", plain, "13a"),
        _Way("sacreBLEU 13a, lower case", plain, "13a", lowercase=True),
        _Way("sacreBLEU intl, cased", plain, "intl"),
        _Way("sacreBLEU intl, lower case", plain, "intl", lowercase=True),
        _Way("tokenized, cased", tokenized, "none"),
        _Way("tokenized, lower case", tokenized, "none", lowercase=True),
        _Way("the paper's, cased", plain, "none", prepare=as_in_the_paper, note=f"moses-{language}+compounds"),
    ]


def _figure(way: _Way, hypotheses: Sequence[str], references: Sequence[str], resamples: int) -> Figure:
    from minitf.evaluation.metrics import bleu

    if way.prepare is not None:
        hypotheses, references = list(map(way.prepare, hypotheses)), list(map(way.prepare, references))
    # force: the card says itself what the files look like, once
    whole = bleu(hypotheses, references, lowercase=way.lowercase, tokenize=way.tokenize, force=True)
    low, high = bootstrap_interval(hypotheses, references, way.lowercase, way.tokenize, resamples)
    signature = whole.signature.replace("tok:none", f"tok:{way.note}") if way.note else whole.signature
    return Figure(way.name, whole.score, low, high, whole.precisions, whole.brevity_penalty, signature, way.for_text)


# ---- Bootstrap ---------------------------------------------------------------------------------------------------


def bootstrap_interval(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool, tokenize: str, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """The 2.5th and the 97.5th percentile of the BLEU of `resamples` texts of as many lines, drawn with replacement.

    Source: Koehn 2004, "Statistical significance tests for machine translation evaluation"
    """
    import numpy as np

    with uninterrupted():
        from sacrebleu.metrics.bleu import BLEU

    statistics = line_statistics(hypotheses, references, lowercase, tokenize)  # [lines, 10]
    rng = np.random.default_rng(SEED)
    scores = np.empty(resamples)
    for i in range(resamples):
        total = statistics[rng.integers(len(statistics), size=len(statistics))].sum(axis=0).tolist()
        scores[i] = BLEU.compute_bleu(total[:4], total[4:8], total[8], total[9], smooth_method="exp").score
    low, high = np.percentile(scores, [2.5, 97.5])
    return float(low), float(high)


def line_statistics(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool, tokenize: str) -> np.ndarray:
    """What a corpus's BLEU is made of, line by line: right n-grams, n-grams, tokens of both sides.

    Shapes: -> int [lines, 4 + 4 + 1 + 1]
    """
    import numpy as np

    with uninterrupted():
        from sacrebleu.metrics.bleu import BLEU

    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        found = metric.corpus_score([hypothesis], [[reference]])
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])
    return np.array(rows, dtype=np.int64)


# ---- The command -------------------------------------------------------------------------------------------------


def render(figures: Sequence[Figure], tokenized: bool) -> str:
    """The card as a table, and what may be compared."""
    width = max(len(figure.name) for figure in figures)
    lines = [f"{'':{width}}   BLEU      95 %            1- to 4-grams               BP     signature"]
    for figure in figures:
        precisions = "/".join(f"{precision:.1f}" for precision in figure.precisions)
        mark = " " if (figure.for_text == "tokenized text") == tokenized else "*"
        lines.append(
            f"{figure.name:{width}} {mark}{figure.score:6.2f}  {figure.low:6.2f} - {figure.high:6.2f}   {precisions:22}"
            f"  {figure.brevity_penalty:.3f}  {figure.signature}"
        )
    kind, other = ("tokenized", "plain") if tokenized else ("plain", "tokenized")
    return "\n".join(
        [
            *lines,
            "",
            f"* is meant for {other} text; these files look {kind}.",
            "Compare a figure only with figures of the same signature: sacreBLEU's with sacreBLEU's of that tokenizer "
            "and case, tokenized ones with multi-bleu's on the same tokens, the paper's with the paper's.",
        ]
    )
