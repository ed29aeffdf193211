"""Scores of translations: BLEU and chrF by sacrebleu, exact matches.

Every BLEU has sacrebleu's signature. Scores of different signatures cannot be compared: tokenization and case alone
change the score of one output by more than a point.

Source: section 6; Papineni et al. 2002 (BLEU); Post 2018 (sacrebleu); Popović 2015 (chrF).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from minitf.errors import UserError

TOKENIZERS = ("13a", "intl", "char", "zh", "none")
"""sacrebleu's tokenizers that need no further package and no download."""


def sacrebleu_metrics() -> Any:
    """Import sacrebleu's metrics, which take 0.1 s, when first needed: most programs with this module score nothing."""
    from sacrebleu import metrics

    return metrics


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
    """Version and settings of sacrebleu, which comparable scores share."""

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
    """Compute corpus BLEU of detokenized text, one reference a line.

    tokenize: "13a" splits as the WMT scorer does; "none" is for text that is tokenized already.
    force:    suppress sacrebleu's warning that the lines look tokenized
    Raises:   UserError if the numbers of lines differ or are 0, or the tokenizer is unknown
    """
    check_lines(hypotheses, references)
    if tokenize not in TOKENIZERS:
        raise UserError(f"tokenize={tokenize!r} is unknown; choose one of {', '.join(TOKENIZERS)}")
    # force: no warning that lines end in a separate full stop; text for the tokenizer "none" is tokenized
    metric = sacrebleu_metrics().BLEU(lowercase=lowercase, tokenize=tokenize, force=force or tokenize == "none")
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
    """Compute corpus chrF, one reference a line: less strict than BLEU about word forms, and free of tokenization.

    Raises: UserError if the numbers of lines differ or are 0
    """
    check_lines(hypotheses, references)
    metric = sacrebleu_metrics().CHRF()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return ChrfScore(score=result.score, signature=str(metric.get_signature()))


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compute the fraction of lines, 0 to 1, that equal their reference.

    Raises: UserError if the numbers of lines differ or are 0
    """
    check_lines(hypotheses, references)
    return sum(map(str.__eq__, hypotheses, references)) / len(references)


def check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises: UserError if the numbers of lines differ or are 0."""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("hypotheses and references are sequences of lines, not single strings")
    if len(hypotheses) != len(references):
        raise UserError(
            f"there are {len(hypotheses)} translations but {len(references)} reference lines; "
            "give the reference of the same input, one line each"
        )
    if not references:
        raise UserError("there is no line to score; give at least one translation and its reference")
