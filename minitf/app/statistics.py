"""`minitf statistics SOURCE TARGET`: what to know of a corpus before training on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minitf.app.command_line import ArgumentParser
from minitf.corpora.statistics import corpus_statistics, refuse_leaks, render
from minitf.system.files import require_regular


def main(argv: Sequence[str]) -> None:
    """Print the statistics of the corpus that the command line names."""
    parser = ArgumentParser(
        prog="minitf statistics",
        description="Print lengths, distinct words, faults such as empty sides and repeated pairs, and the preset and "
        "the size of vocabulary that suit the corpus.",
    )
    parser.add_argument("source", type=Path, metavar="SOURCE", help="text, a sentence a line")
    parser.add_argument("target", type=Path, metavar="TARGET", help="its translation, line by line")
    parser.add_argument(
        "--held-out",
        type=Path,
        nargs=2,
        action="append",
        default=[],
        metavar=("SOURCE", "TARGET"),
        help="validation or test text: end with status 2 if one of its sources is in the corpus; may be given twice",
    )
    parser.add_argument(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="bytes that are not UTF-8",
    )
    given = parser.parse_args(argv)
    if given.held_out:
        require_regular(given.source)  # it is read again
    print(render(corpus_statistics(given.source, given.target, given.errors)))
    for source, _ in given.held_out:
        refuse_leaks(given.source, source, given.errors)
