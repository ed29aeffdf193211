"""Models between programs and machines: `minitf import`, `export`, `pack` and `shortlist`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError
from minitf.system.process import say, uninterrupted

# ---- minitf import SOURCE RUN ----


POSITIONS = {"marian": "sinusoidal-concatenated", "huggingface": "sinusoidal-halves"}


def import_model(argv: Sequence[str]) -> None:
    """Read the model, write the run, and print what it is."""
    parser = ArgumentParser(
        prog="minitf import",
        description="Make a run of a trained model of Marian (OPUS-MT), Hugging Face's Marian, fairseq or CTranslate2.",
    )
    parser.add_argument("source", metavar="SOURCE", help="folder or file of the model, or hf:OWNER/NAME of the Hub")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory to write; it must be new or empty")
    parser.add_argument(
        "--positions",
        choices=[*POSITIONS],
        help="how the positions of a model.npz are computed: as Marian does (the default), or as Hugging Face and "
        "CTranslate2 do when they read it",
    )
    given = parser.parse_args(argv)
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.app.model_files import import_run
    size, pieces = import_run(given.source, given.run, POSITIONS.get(given.positions))
    command = f"minitf translate {quote(str(given.run))}"
    say(f"{given.run}: {size:,} parameters, {pieces:,} pieces; translate with: {command}")


# ---- minitf export RUN FOLDER --format … ----


FORMATS = ("ctranslate2", "marian", "huggingface", "safetensors")


def export_model(argv: Sequence[str]) -> None:
    """Load the run's weights, and write them with the vocabulary in the form of the other program."""
    parser = ArgumentParser(prog="minitf export", description="Write a run in the format of another program.")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory, or a model of another program")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="folder to write; it must be new or empty")
    parser.add_argument("--format", choices=FORMATS, required=True, help="the program that is to read it")
    parser.add_argument(
        "--average", type=int, metavar="N", help="average this many last checkpoints; default: the run's"
    )
    given = parser.parse_args(argv)
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.app.model_files import export_run
    for note in export_run(given.run, given.folder, given.format, given.average):
        say(f"note: {note}")
    say(f"{given.folder}: written for {given.format}")


# ---- minitf pack RUN ----


def pack(argv: Sequence[str]) -> None:
    """Pack a run as the command line says."""
    parser = ArgumentParser(
        prog="minitf pack",
        description="Copy what a run needs to translate into a directory: configuration, vocabulary, and the weights "
        "that translate, as one checkpoint. The directory takes the place of the run in minitf translate.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory")
    parser.add_argument("--output", type=Path, metavar="PATH", help="directory to create; default: RUN-packed")
    parser.add_argument(
        "--resumable",
        action="store_true",
        help="copy what minitf train --resume needs instead: the last checkpoints with the optimizer's state, the "
        "token ids of the texts, the held-out texts and the log",
    )
    given = parser.parse_args(argv)
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.run.packing import pack_run
    print(pack_run(given.run, given.output, given.resumable))


# ---- minitf shortlist RUN SOURCE TARGET --output FILE ----


def shortlist(argv: Sequence[str]) -> None:
    """Estimate the table of the texts that the command line names, and write it."""
    given = _shortlist_parser().parse_args(argv)
    if given.best < 1 or given.pairs < 1:
        raise UserError(f"--best {given.best} --pairs {given.pairs} leave nothing to write; choose 1 or more of each")
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.app.model_files import write_shortlist
    count, pairs = write_shortlist(given)
    say(
        f"{given.output}: {count:,} translations from {pairs:,} pairs; translate with "
        f"--shortlist {quote(str(given.output))}"
    )


def _shortlist_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf shortlist",
        description="Estimate, from the text of training, how each piece of a run's vocabulary is translated (IBM "
        "model 1), and write a lexical table in Marian's form. minitf translate --shortlist FILE computes only the "
        "logits of likely pieces.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory, or a model of another program")
    parser.add_corpus()
    parser.add_argument("--output", type=Path, metavar="FILE", required=True, help="table to write, such as lex.s2t")
    parser.add_argument("--best", type=int, default=100, metavar="N", help="translations of a piece (default: 100)")
    parser.add_argument(
        "--pairs",
        type=int,
        default=100_000,
        metavar="N",
        help="read at most this many pairs, evenly spaced; 100,000 (the default) need some 1 to 2 GB of memory",
    )
    return parser
