"""Models between programs and machines: `minitf import`, `export`, `pack` and `shortlist`."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import replace
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
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory to write; it must not hold a run yet")
    parser.add_argument(
        "--positions",
        choices=[*POSITIONS],
        help="how the positions of a model.npz are computed: as Marian does (the default), or as Hugging Face and "
        "CTranslate2 do when they read it",
    )
    given = parser.parse_args(argv)
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.config.run import decisive_values
        from minitf.interchange.formats import is_foreign, read_foreign
        from minitf.interchange.huggingface import PREFIX, downloaded
        from minitf.storage.checkpoint_store import CheckpointStore
        from minitf.storage.checkpoints import with_prefix
        from minitf.storage.run_directory import RunDirectory
    if RunDirectory(given.run).config_path.exists():
        raise UserError(f"{given.run} already holds a run; give another directory")
    path = downloaded(given.source) if given.source.startswith(PREFIX) else Path(given.source)
    if not is_foreign(path) and RunDirectory(path).checkpoints_path.is_dir():
        raise UserError(f"{path} is a run already; translate with: minitf translate {quote(str(path))}")
    config, vocabulary, weights = read_foreign(path, POSITIONS.get(given.positions))
    with RunDirectory.create(given.run, replace(config, output=given.run.absolute())) as run:
        vocabulary.save(run.path / vocabulary.file_name)
        origin = {"run": secrets.token_hex(16), "config": decisive_values(config)}
        store = CheckpointStore(run.checkpoints_path, keep=1, origin=origin)
        store.save(
            0,
            with_prefix("model.", weights),
            {"imported": str(path.absolute()), "vocabulary": vocabulary.fingerprint()},
        )
    size = sum(array.size for array in weights.values())
    command = f"minitf translate {quote(str(given.run))}"
    say(f"{given.run}: {size:,} parameters, {len(vocabulary):,} pieces; translate with: {command}")


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
        from minitf.interchange.formats import write_foreign
        from minitf.interchange.outgoing import LearnedModel
        from minitf.translation.loading import load_learned
    learned = load_learned(
        given.run, average=given.average, own_files=True, warn=lambda message: say(f"warning: {message}")
    )
    notes = write_foreign(LearnedModel(learned.config, learned.vocabulary, learned.weights), given.folder, given.format)
    for note in notes:
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


PAIRS_AT_A_TIME = 10_000
LEAST = 1e-4
"""Less probable translations are not written: a quarter of the file, and of no use to the trained model of Multi30k."""


def shortlist(argv: Sequence[str]) -> None:
    """Estimate the table of the texts that the command line names, and write it."""
    given = _shortlist_parser().parse_args(argv)
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


def _shortlist_parser() -> ArgumentParser:
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
