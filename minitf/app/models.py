"""`minitf pack`: copy what a run needs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minitf.app.command_line import ArgumentParser
from minitf.errors import UserError
from minitf.system.process import uninterrupted


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
