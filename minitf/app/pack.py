"""`minitf pack`: copy only what translation needs of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from minitf.app.command_line import ArgumentParser


def main(argv: Sequence[str]) -> None:
    """Write the directory."""
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
    from minitf.run.packing import pack_run  # deferred: `--help` and invalid flags need no NumPy

    place = given.output or given.run.absolute().with_name(f"{given.run.absolute().name}-packed")
    pack_run(given.run, place, given.precision == "int8")
    size = sum(path.stat().st_size for path in place.rglob("*") if path.is_file())
    print(f"{place}: {size / 1e6:,.1f} MB\nuse it with:\n    minitf translate {quote(str(place))}")
