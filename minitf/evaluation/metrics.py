"""Scores of translations: BLEU and chrF by sacrebleu, exact matches.

Every BLEU has sacrebleu's signature. Scores of different signatures cannot be compared: tokenization and case alone
change the score of one output by more than a point.

Source: section 6; Papineni et al. 2002 (BLEU); Post 2018 (sacrebleu); Popović 2015 (chrF).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minitf.errors import UserError

TOKENIZERS = ("13a", "intl", "char", "zh", "none")
"""sacrebleu's tokenizers that need no further package and no download."""


@dataclass(frozen=True)
class Score:
    """A score of sacrebleu, from 0 to 100, with the signature that comparable scores share."""

    score: float
    signature: str
    text: str
    result: Any = field(repr=False)
    """sacrebleu's own, with `precisions`, `bp`, `sys_len` and `ref_len` of a BLEU."""

    def __str__(self) -> str:
        return f"{self.text} {self.signature}"


def bleu(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    lowercase: bool = False,
    tokenize: str = "13a",
    force: bool = False,
) -> Score:
    """Compute corpus BLEU of detokenized text, one reference a line: brevity penalty · exp(mean of log precisions).

    tokenize: "13a" splits as the WMT scorer does; "none" is for text that is tokenized already.
    force:    suppress sacrebleu's warning that the lines look tokenized
    Raises:   UserError if the numbers of lines differ or are 0, or the tokenizer is unknown
    """
    from sacrebleu.metrics import BLEU  # deferred, in 0.1 s: most programs with this module score nothing

    check_lines(hypotheses, references)
    if tokenize not in TOKENIZERS:
        raise UserError(f"tokenize={tokenize!r} is unknown; choose one of {', '.join(TOKENIZERS)}")
    # force: no warning that lines end in a separate full stop; text for the tokenizer "none" is tokenized
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=force or tokenize == "none")
    result = metric.corpus_score(list(hypotheses), [list(references)])
    precisions = "/".join(f"{precision:.1f}" for precision in result.precisions)
    lengths = f"brevity penalty {result.bp:.3f}, {result.sys_len} tokens for {result.ref_len}"
    text = f"BLEU {result.score:.2f} ({precisions}, {lengths})"
    return Score(result.score, str(metric.get_signature()), text, result)


def chrf(hypotheses: Sequence[str], references: Sequence[str]) -> Score:
    """Compute corpus chrF, one reference a line: the F-score, recall counting twice, of character 1- to 6-grams.

    Less strict than BLEU about word forms, and free of tokenization.
    Raises: UserError if the numbers of lines differ or are 0
    """
    from sacrebleu.metrics import CHRF

    check_lines(hypotheses, references)
    metric = CHRF()
    result = metric.corpus_score(list(hypotheses), [list(references)])
    return Score(result.score, str(metric.get_signature()), f"chrF {result.score:.2f}", result)


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    """Compute the fraction of lines, 0 to 1, that equal their reference.

    Raises: UserError if the numbers of lines differ or are 0
    """
    check_lines(hypotheses, references)
    return sum(map(str.__eq__, hypotheses, references)) / len(references)


def check_lines(hypotheses: Sequence[str], references: Sequence[str]) -> None:
    """Raises: UserError if the numbers of lines differ or are 0; TypeError for a string, whose letters are no lines"""
    if isinstance(hypotheses, str) or isinstance(references, str):
        raise TypeError("hypotheses and references are sequences of lines, not single strings")
    if len(hypotheses) != len(references):
        raise UserError(
            f"there are {len(hypotheses)} translations but {len(references)} reference lines; "
            "give the reference of the same input, one line each"
        )
    if not references:
        raise UserError("there is no line to score; give at least one translation and its reference")
