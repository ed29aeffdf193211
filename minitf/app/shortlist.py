"""`minitf shortlist RUN SOURCE TARGET --output FILE`: a lexical table for `translate --shortlist`."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import quote

from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError
from minitf.system.messages import say
from minitf.system.process import uninterrupted

PAIRS_AT_A_TIME = 10_000
LEAST = 1e-4
"""Less probable translations are not written: a quarter of the file, and of no use to the trained model of Multi30k."""


def main(argv: Sequence[str]) -> None:
    """Estimate the table of the texts that the command line names, and write it."""
    given = _parser().parse_args(argv)
    if given.best < 1 or given.pairs < 1:
        raise UserError(f"--best {given.best} --pairs {given.pairs} leave nothing to write; choose 1 or more of each")
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.data.lexical_table import model_1
        from minitf.data.sentences import Sentences
        from minitf.data.text import read_pairs
        from minitf.translation.loading import vocabulary_of

    vocabulary = vocabulary_of(given.run)
    count = sum(1 for _ in read_pairs(given.source, given.target, given.errors))
    step = -(-count // given.pairs)

    def encoded() -> Iterator[tuple[Sentences, Sentences]]:
        pairs = itertools.islice(read_pairs(given.source, given.target, given.errors), 0, None, step)
        while chunk := list(itertools.islice(pairs, PAIRS_AT_A_TIME)):
            source, target = zip(*chunk, strict=True)
            yield (
                Sentences.from_lists(vocabulary.source.encode(source)),
                Sentences.from_lists(vocabulary.target.encode(target)),
            )

    table = model_1(encoded()).best(given.best, LEAST)
    table.write(given.output, vocabulary)
    say(
        f"{given.output}: {len(table.source):,} translations from {-(-count // step):,} pairs; translate with "
        f"--shortlist {quote(str(given.output))}"
    )


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf shortlist",
        description="Estimate how each piece of a run's vocabulary is translated (IBM model 1) and write a lexical "
        "table in Marian's form. minitf translate --shortlist FILE computes only the logits of likely pieces.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory, or a model of another program")
    parser.add_argument("source", type=Path, metavar="SOURCE", help="text, a sentence a line: that of training")
    parser.add_argument("target", type=Path, metavar="TARGET", help="its translation, line by line")
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="table to write, such as lex.s2t")
    parser.add_argument("--best", type=int, default=100, metavar="N", help="translations of a piece (default: 100)")
    parser.add_argument(
        "--pairs",
        type=int,
        default=100_000,
        metavar="N",
        help="read at most this many pairs, evenly spaced; 100,000 (the default) need some 1 to 2 GB of memory",
    )
    parser.add_argument("--errors", choices=("strict", "replace"), default="strict", help="bytes that are not UTF-8")
    return parser
