"""`minitf translate`, `translate.py`: translate or parse text with a trained run."""

from __future__ import annotations

from collections.abc import Sequence

from minitf.app.command_line import parse_translate_args
from minitf.system.process import uninterrupted


def main(argv: Sequence[str]) -> None:
    """Translate as the command line says."""
    config = parse_translate_args(argv)
    with uninterrupted():  # deferred: `--help` and a wrong flag need no NumPy
        from minitf.app.translate_text import translate_text
    translate_text(config)
