"""`minitf import` and `export`: models of other programs as runs, and runs as models of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from minitf.app.command_line import ArgumentParser
from minitf.system.process import say

# ---- minitf import SOURCE RUN ----


POSITIONS = {"marian": "sinusoidal-concatenated", "huggingface": "sinusoidal-halves"}


def import_model(argv: Sequence[str]) -> None:
    """Import a model as a run, and print its size."""
    parser = ArgumentParser(
        prog="minitf import",
        description="Import a trained model of Marian (OPUS-MT), Hugging Face's Marian, fairseq or CTranslate2 as a "
        "run.",
    )
    parser.add_argument("source", metavar="SOURCE", help="directory or file of the model, or hf:OWNER/NAME on the Hub")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory to create; must be new or empty")
    parser.add_argument(
        "--positions",
        choices=[*POSITIONS],
        help="positional encodings for a model.npz: as in Marian (default), or as in Hugging Face and CTranslate2, "
        "which read the same file differently",
    )
    given = parser.parse_args(argv)
    from additions.interchange.conversion import import_run  # deferred: `--help` and invalid flags need no NumPy

    size, pieces = import_run(given.source, given.run, POSITIONS.get(given.positions))
    command = f"minitf translate {quote(str(given.run))}"
    say(f"{given.run}: {size:,} parameters, {pieces:,} pieces; translate with: {command}")


# ---- minitf export RUN FOLDER --format … ----


FORMATS = ("ctranslate2", "marian", "huggingface", "safetensors")


def export_model(argv: Sequence[str]) -> None:
    """Export a run's weights and vocabulary in the format of another program."""
    parser = ArgumentParser(prog="minitf export", description="Export a run in the format of another program.")
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory, or a model of another program")
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="directory to create; must be new or empty")
    parser.add_argument(
        "--format", choices=FORMATS, required=True, help="format of the program that will read the model"
    )
    parser.add_argument(
        "--average", type=int, metavar="N", help="number of last checkpoints to average (default: the run's)"
    )
    given = parser.parse_args(argv)
    from additions.interchange.conversion import export_run  # deferred: `--help` and invalid flags need no NumPy

    for note in export_run(given.run, given.folder, given.format, given.average):
        say(f"note: {note}")
    say(f"{given.folder}: written for {given.format}")
