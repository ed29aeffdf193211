"""`minitf bleu OUTPUT REFERENCE`: BLEU in seven definitions, with signatures and confidence intervals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError
from minitf.system.process import uninterrupted


def main(argv: Sequence[str]) -> None:
    """Read two files and print the card."""
    given = _parser().parse_args(argv)
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.data.text import read_lines
        from minitf.evaluation.bleu_card import bleu_card, looks_tokenized, render
    if given.resamples < 1:
        raise UserError(f"--resamples {given.resamples} gives no interval; choose 1 or more, such as 1000")
    hypotheses, references = list(read_lines(given.hypotheses)), list(read_lines(given.references))
    figures = bleu_card(hypotheses, references, given.language, given.resamples)
    if given.json:
        print(json.dumps(list(map(asdict, figures)), indent=2))
    else:
        print(render(figures, looks_tokenized(references)))


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf bleu", description="Score translations: every BLEU, with its signature and confidence interval."
    )
    parser.add_argument("hypotheses", type=Path, metavar="OUTPUT", help="translations, a line for each line")
    parser.add_argument("references", type=Path, metavar="REFERENCE", help="reference translations")
    parser.add_argument(
        "--language",
        choices=("de", "en", "fr"),
        default="de",
        help="language of both files, for the tokenization of the paper's figure (default: de)",
    )
    parser.add_argument(
        "--resamples", type=int, default=1000, metavar="N", help="number of bootstrap samples (default: 1000)"
    )
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    return parser
