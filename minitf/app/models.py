"""`minitf pack` and `shortlist`: copy what a run needs, and estimate translations of its pieces."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from minitf.app.arguments import add_corpus
from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError
from minitf.system.process import say, uninterrupted

# ---- minitf pack RUN ----


def pack(argv: Sequence[str]) -> None:
    """Copy the files that a run needs."""
    parser = ArgumentParser(
        prog="minitf pack",
        description="Copy only what translation needs to a directory: configuration, vocabulary, and the weights to "
        "translate with, as one checkpoint. minitf translate uses the directory like a run.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--output", type=Path, metavar="PATH", help="directory to create (default: RUN-packed)")
    parser.add_argument(
        "--resumable",
        action="store_true",
        help="copy the files for minitf train --resume instead: the last checkpoints with optimizer state, the token "
        "ids of the texts, the held-out texts and the log",
    )
    parser.add_argument(
        "--precision",
        choices=("float32", "int8"),
        default="float32",
        help="int8: store matrices in 8 bits, a quarter of the size; minitf translate --precision int8 computes with "
        "these very numbers, and every other precision with nearly the same weights (default: float32)",
    )
    given = parser.parse_args(argv)
    if given.resumable and given.precision == "int8":
        raise UserError("--resumable and --precision int8 cannot be combined: training needs weights of full precision")
    with uninterrupted():  # deferred: `--help` and invalid flags need no NumPy
        from minitf.run.packing import pack_run
    print(pack_run(given.run, given.output, given.resumable, given.precision == "int8"))


# ---- minitf shortlist RUN SOURCE TARGET --output FILE ----


def shortlist(argv: Sequence[str]) -> None:
    """Estimate the lexical table from the given texts, and write it."""
    given = _shortlist_parser().parse_args(argv)
    if given.best < 1 or given.pairs < 1:
        raise UserError(f"--best {given.best} --pairs {given.pairs} give an empty table; choose 1 or more of each")
    with uninterrupted():  # deferred: `--help` and invalid flags need no NumPy
        from minitf.app.estimate_shortlist import write_shortlist
    count, pairs = write_shortlist(given)
    say(
        f"{given.output}: {count:,} translations from {pairs:,} pairs; translate with "
        f"--shortlist {quote(str(given.output))}"
    )


def _shortlist_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf shortlist",
        description="Estimate the translations of each piece of a run's vocabulary from the training texts (IBM model "
        "1), and write a lexical table in Marian's format. With it, minitf translate --shortlist FILE computes only "
        "the logits of likely pieces.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory, or a model of another program")
    add_corpus(parser)
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="table to write, such as lex.s2t")
    parser.add_argument("--best", type=int, default=100, metavar="N", help="translations per piece (default: 100)")
    parser.add_argument(
        "--pairs",
        type=int,
        default=100_000,
        metavar="N",
        help="maximum number of pairs to read, evenly spaced; 100,000 (the default) need about 1 to 2 GB of memory",
    )
    return parser
