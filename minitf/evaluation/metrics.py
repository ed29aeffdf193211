"""How good translations are: perplexity, BLEU and chrF through sacrebleu, exact matches.

Every BLEU carries sacrebleu's signature. Scores of different signatures cannot be compared: tokenization and case
alone move one output by more than a point.

Source: section 6; Papineni et al. 2002 (BLEU); Post 2018 (sacrebleu); Popović 2015 (chrF).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from minitf.errors import UserError
from minitf.system.signals import uninterrupted

TOKENIZERS = ("13a", "intl", "char", "zh", "none")
"""sacrebleu's tokenizers that need no further package and no download."""


@dataclass(frozen=True)
class BleuScore:
    """Corpus BLEU: brevity_penalty · exp(mean of log precisions)."""

    score: float
    """0 to 100."""
    precisions: tuple[float, ...]
    """Clipped 1- to 4-gram precisions, each 0 to 100."""
    brevity_penalty: float
    hypothesis_length: int
    """Tokens, after sacrebleu's tokenization."""
    reference_length: int
    signature: str
    """Everything that another run needs to give a comparable number."""

    def __str__(self) -> str:
        precisions = "/".join(f"{precision:.1f}" for precision in self.precisions)
        return (
            f"BLEU {self.score:.2f} ({precisions}, brevity penalty {self.brevity_penalty:.3f}, "
            f"{self.hypothesis_length} tokens for {self.reference_length}) {self.signature}"
        )


@dataclass(frozen=True)
class ChrfScore:
    """Corpus chrF: the F-score, recall counting twice, of character 1- to 6-grams."""

    score: float
    """0 to 100."""
    signature: str

    def __str__(self) -> str:
        return f"chrF {self.score:.2f} {self.signature}"


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    force: bool = False,
) -> BleuScore:
    """Corpus BLEU of detokenized text, one reference a line.

    tokenize: "13a" splits as the WMT scorer does; "none" is for text that has been tokenized already.
    force:    no warning that the lines look tokenized, for a caller that tells it itself
    Raises:   UserError where the numbers of lines differ, there are none, or the tokenizer is not known
    """
    check_lines(hypotheses, references)
    if tokenize not in TOKENIZERS:
        raise UserError(f"tokenize={tokenize!r} is not known; choose one of {', '.join(TOKENIZERS)}")
    with uninterrupted():
        from sacrebleu.metrics.bleu import BLEU  # heavy to import, and needed only here

    # force: no warning that lines end in a separate full stop; whoever asks for "none" has tokenized text.
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=force or tokenize == "none")
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return BleuScore(
        score=result.score,
        precisions=tuple(result.precisions),
        brevity_penalty=result.bp,
        hypothesis_length=result.sys_len,
        reference_length=result.ref_len,
        signature=str(metric.get_signature()),
    )


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> ChrfScore:
    """Corpus chrF, one reference a line: less strict than BLEU about word forms, and free of tokenization.

    Raises: UserError where the numbers of lines differ or there are none
    """
    check_lines(hypotheses, references)
    with uninterrupted():
        from sacrebleu.metrics.chrf import CHRF

    metric = CHRF()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return ChrfScore(score=result.score, signature=str(metric.get_signature()))


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """The share of lines, 0 to 1, that equal their reference character by character.

    Raises: UserError where the numbers of lines differ or there are none
    """
    check_lines(hypotheses, references)
    return sum(map(str.__eq__, hypotheses, references)) / len(references)


def perplexity(nll_sum: float, tokens: int) -> float:
    """exp(nll_sum / tokens), of the negative log-likelihood without label smoothing, in nats.

    tokens counts what was predicted: the subwords of the target and the end of each sentence, no padding. It is a
    perplexity per subword, so only values of one vocabulary can be compared. Infinite where it exceeds all floats.
    """
    if tokens < 1:
        raise ValueError(f"tokens={tokens}: perplexity is an average over at least one target token")
    try:
        return math.exp(nll_sum / tokens)
    except OverflowError:
        return math.inf


def check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises: UserError where the numbers of lines differ or there are none."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("hypotheses and references are sequences of lines, not single strings")
    if len(hypotheses) != len(references):
        raise UserError(
            f"there are {len(hypotheses)} translations but {len(references)} reference lines; "
            "give the reference of the same input, one line each"
        )
    if not references:
        raise UserError("there is no line to score; give at least one translation and its reference")
