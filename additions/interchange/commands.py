"""`minitf import`, `export` and `pack`: models of other programs as runs, and runs for other programs and places."""

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


# ---- minitf pack RUN ----


def pack(argv: Sequence[str]) -> None:
    """Copy what translation needs of a run to a directory, and print its size."""
    parser = ArgumentParser(
        prog="minitf pack",
        description="Copy only what translation needs to a directory: configuration, vocabulary, and the weights to "
        "translate with, as one checkpoint. minitf translate uses the directory like a run. To resume a run elsewhere, "
        "copy its whole directory.",
    )
    parser.add_argument("run", type=Path, metavar="RUN", help="run directory, or a model of another program")
    parser.add_argument("--output", type=Path, metavar="PATH", help="directory to create (default: RUN-packed)")
    parser.add_argument(
        "--precision",
        choices=("float32", "int8"),
        default="float32",
        help="int8: store matrices in 8 bits, a quarter of the size; minitf translate --precision int8 computes with "
        "these very numbers, and every other precision with nearly the same weights (default: float32)",
    )
    given = parser.parse_args(argv)
    from additions.interchange.packing import pack_run  # deferred: `--help` and invalid flags need no NumPy

    place = given.output or given.run.absolute().with_name(f"{given.run.absolute().name}-packed")
    pack_run(given.run, place, given.precision == "int8")
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(f"{place}: {size / 1e6:,.1f} MB\nuse it with:\n    minitf translate {quote(str(place))}")
