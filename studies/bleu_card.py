"""The BLEU card: every score that is commonly called the BLEU of an output, and which of them may be compared.

    python -m studies.bleu_card output.de reference.de --language de

One output can differ by two points between definitions, so each score stands beside its signature and its 95 %
bootstrap confidence interval.

Source: section 6; Post 2018 (signatures); Koehn 2004 (bootstrap)
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sacrebleu.metrics import BLEU

from minitf.data.text import read_lines
from minitf.evaluation.metrics import bleu, check_lines

RESAMPLES = 1000
SEED = 12345


@dataclass(frozen=True)
class Figure:
    """One score of the card."""

    name: str
    score: float
    """0 to 100."""
    low: float
    high: float
    """95 % bootstrap confidence interval."""
    precisions: tuple[float, ...]
    brevity_penalty: float
    signature: str
    for_text: str
    """The text that the files must hold for the score to mean what its name says."""


@dataclass(frozen=True)
class _Definition:
    name: str
    for_text: str
    tokenize: str
    lowercase: bool = False
    prepare: Callable[[str], str] | None = None
    note: str = ""  # what `prepare` does, for the signature


def bleu_card(
    hypotheses: Sequence[str], references: Sequence[str], language: str = "de", resamples: int = RESAMPLES
) -> list[Figure]:
    """Compute every BLEU of an output against one reference a line.

    language: of the target, for the tokenization of the paper's score
    Raises: UserError if the numbers of lines differ or are 0
    """
    check_lines(hypotheses, references)
    return [_figure(each, hypotheses, references, resamples) for each in _definitions(language)]


def looks_tokenized(lines: Sequence[str]) -> bool:
    """Return whether most sentences that end in a full stop have a space before it."""
    ended = [line.rstrip() for line in lines if line.rstrip().endswith(".")]
    return sum(line.endswith(" .") for line in ended) > len(ended) / 2


def _definitions(language: str) -> list[_Definition]:
    tokenize = tokenizer(language)

    def as_in_the_paper(line: str) -> str:
        return split_compounds(tokenize(replace_unicode_punctuation(line)))

    kinds = (("sacreBLEU 13a", "plain text", "13a"), ("sacreBLEU intl", "plain text", "intl"))
    return [
        *(
            _Definition(f"{name}, {'lower case' if lowercase else 'cased'}", for_text, tokenize, lowercase)
            for name, for_text, tokenize in (*kinds, ("tokenized", "tokenized text", "none"))
            for lowercase in (False, True)
        ),
        _Definition(
            "the paper's, cased", "plain text", "none", prepare=as_in_the_paper, note=f"moses-{language}+compounds"
        ),
    ]


def _figure(definition: _Definition, hypotheses: Sequence[str], references: Sequence[str], resamples: int) -> Figure:
    d = definition
    if d.prepare is not None:
        hypotheses, references = list(map(d.prepare, hypotheses)), list(map(d.prepare, references))
    # force: the card itself says whether the files look tokenized, once
    whole = bleu(hypotheses, references, lowercase=d.lowercase, tokenize=d.tokenize, force=True)
    low, high = bootstrap_interval(hypotheses, references, d.lowercase, d.tokenize, resamples)
    signature = whole.signature.replace("tok:none", f"tok:{d.note}") if d.note else whole.signature
    return Figure(
        d.name, whole.score, low, high, tuple(whole.result.precisions), whole.result.bp, signature, d.for_text
    )


# ---- Bootstrap ---------------------------------------------------------------------------------------------------


def bootstrap_interval(
    hypotheses: Sequence[str], references: Sequence[str], lowercase: bool, tokenize: str, resamples: int = RESAMPLES
) -> tuple[float, float]:
    """Return the 2.5th and the 97.5th percentile of BLEU over `resamples` texts drawn with replacement.

    Source: Koehn 2004, "Statistical significance tests for machine translation evaluation"
    """
    compute_bleu = BLEU.compute_bleu
    statistics = line_statistics(hypotheses, references, lowercase, tokenize)  # [lines, 10]
    rng = np.random.default_rng(SEED)
    scores = np.empty(resamples)
    for i in range(resamples):
        total = statistics[rng.integers(len(statistics), size=len(statistics))].sum(axis=0).tolist()
        scores[i] = compute_bleu(total[:4], total[4:8], total[8], total[9], smooth_method="exp").score
    low, high = np.percentile(scores, [2.5, 97.5])
    return float(low), float(high)


def line_statistics(hypotheses: Sequence[str], references: Sequence[str], lowercase: bool, tokenize: str) -> np.ndarray:
    """Count, for each line, what corpus BLEU is made of: matching n-grams, n-grams, and tokens of both sides.

    Shapes: -> int [lines, 4 + 4 + 1 + 1]
    """
    metric = BLEU(lowercase=lowercase, tokenize=tokenize, force=True)
    rows = []
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        found = metric.corpus_score([hypothesis], [[reference]])
        rows.append([*found.counts, *found.totals, found.sys_len, found.ref_len])
    return np.array(rows, dtype=np.int64)


# ---- Text --------------------------------------------------------------------------------------------------------


def render(figures: Sequence[Figure], tokenized: bool) -> str:
    """Format the card as a table, with a note on what may be compared."""
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
            "Compare only scores with the same signature: sacreBLEU's with sacreBLEU's of that tokenizer and case, "
            "tokenized ones with multi-bleu's on the same tokens, the paper's with the paper's.",
        ]
    )


# ---- Tokenization of the paper -----------------------------------------------------------------------------------


LANGUAGES = ("de", "en", "fr")


def tokenizer(language: str) -> Callable[[str], str]:
    """Return a function that sets punctuation apart from words and escapes what Moses escapes."""
    if language not in LANGUAGES:
        raise ValueError(f"language={language!r} is unknown; choose one of {', '.join(LANGUAGES)}")
    from sacremoses import MosesTokenizer  # which takes half a second

    moses = MosesTokenizer(lang=language)
    return lambda line: moses.tokenize(line, return_str=True)


def replace_unicode_punctuation(line: str) -> str:
    """Replace full-width and typographic signs by ASCII, as Moses' replace-unicode-punctuation.perl does."""
    from sacremoses import MosesPunctNormalizer

    return MosesPunctNormalizer().replace_unicode_punct(line)


def split_compounds(line: str) -> str:
    """`Karl-Marx-Allee` -> `Karl ##AT##-##AT## Marx ##AT##-##AT## Allee`, as the paper's BLEU does on both sides."""
    return re.sub(r"(\S)-(\S)", r"\1 ##AT##-##AT## \2", line)


def main() -> None:
    """Read the two files and print all BLEU scores."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("hypotheses", type=Path, metavar="OUTPUT", help="translations, one per line")
    parser.add_argument("references", type=Path, metavar="REFERENCE", help="reference translations")
    parser.add_argument(
        "--language", choices=("de", "en", "fr"), default="de", help="of both files, for the paper's tokenization"
    )
    parser.add_argument("--resamples", type=int, default=1000, metavar="N", help="number of bootstrap samples")
    given = parser.parse_args()
    hypotheses, references = list(read_lines(given.hypotheses)), list(read_lines(given.references))
    figures = bleu_card(hypotheses, references, given.language, given.resamples)
    print(render(figures, looks_tokenized(references)))


if __name__ == "__main__":
    main()
