"""`minitf export RUN FOLDER --format …`: write a run for CTranslate2, Marian or Hugging Face."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minitf.app.command_line import ArgumentParser
from minitf.system.messages import say
from minitf.system.process import uninterrupted

FORMATS = ("ctranslate2", "marian", "huggingface", "safetensors")


def main(argv: Sequence[str]) -> None:
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
