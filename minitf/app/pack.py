"""`minitf pack RUN`: copy what a run needs to translate, or to be resumed, into a directory of its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from minitf.app.command_line import ArgumentParser
from minitf.system.process import uninterrupted


def main(argv: Sequence[str]) -> None:
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
        from minitf.app.pack_run import pack_run
    print(pack_run(given.run, given.output, given.resumable))
