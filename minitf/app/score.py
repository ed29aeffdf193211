"""`minitf bleu`: score translations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minitf.app.command_line import ArgumentParser
from minitf.data.text import read_lines
from minitf.evaluation.metrics import TOKENIZERS, bleu, chrf, exact_match


def main(argv: Sequence[str]) -> None:
    """Read the two files and print their scores."""
    given = score_parser().parse_args(argv)
    hypotheses, references = list(read_lines(given.hypotheses)), list(read_lines(given.references))
    print(bleu(hypotheses, references, lowercase=given.lowercase, tokenize=given.tokenize))
    print(chrf(hypotheses, references))
    print(f"exact match {100 * exact_match(hypotheses, references):.1f} % of {len(references):,} lines")


def score_parser() -> ArgumentParser:
    """Return the argument parser of `minitf bleu`."""
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
    return parser
