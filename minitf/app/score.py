"""`minitf bleu`: score translations."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

from minitf.app.command_line import ArgumentParser
from minitf.data.text import read_lines
from minitf.evaluation.metrics import TOKENIZERS, bleu, chrf, exact_match


def main(argv: Sequence[str]) -> None:
    """Read the two files and print their scores."""
    parser = ArgumentParser(
        prog="minitf bleu",
        description="Score translations with BLEU and chrF of sacreBLEU. Only scores of one signature can be compared.",
    )
    parser.add_argument("hypotheses", type=Path, metavar="OUTPUT", help="translations, one per line")
    parser.add_argument("references", type=Path, metavar="REFERENCE", help="reference translations")
    parser.add_argument(
        "--tokenize", choices=TOKENIZERS, default="13a", help="tokenizer of sacreBLEU (default: %(default)s)"
    )
    parser.add_argument("--lowercase", action="store_true", help="ignore case")
    given = parser.parse_args(argv)
    hypotheses, references = list(read_lines(given.hypotheses)), list(read_lines(given.references))
    print_scores(hypotheses, references, sys.stdout, lowercase=given.lowercase, tokenize=given.tokenize)


def print_scores(hypotheses: list[str], references: list[str], file: TextIO, **options: Any) -> None:
    """Print BLEU with its signature, chrF, and exact matches.  options: of `bleu`"""
    print(bleu(hypotheses, references, **options), file=file)
    print(chrf(hypotheses, references), file=file)
    print(f"exact match {100 * exact_match(hypotheses, references):.1f} % of {len(references):,} lines", file=file)
