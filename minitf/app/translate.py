"""`minitf translate`, `translate.py`: translate or parse text with a trained run."""

from __future__ import annotations

import os
from collections.abc import Sequence

from minitf.app.command_line import build_parser, given_values
from minitf.config import TranslateConfig
from minitf.system.process import program, uninterrupted


def main(argv: Sequence[str]) -> None:
    """Translate according to the command line."""
    config = parse_translate_args(argv)
    if config.plain:
        os.environ["AUTOGRAD_PLAIN"] = "1"  # before autograd is imported
    with uninterrupted():  # deferred: `--help` and invalid flags need no NumPy
        from minitf.app.translate_text import translate_text
    translate_text(config)


def parse_translate_args(argv: Sequence[str]) -> TranslateConfig:
    """Parse the command line of `translate`.

    Raises: UserError for invalid arguments; SystemExit(0) after `--help` and `--version`.
    """
    name = program("translate")
    usage = f"{name} RUN [MORE ...] [flags]"
    parser = build_parser(
        TranslateConfig, usage, "Translate or parse text with a trained run, one line per input line.", name
    )
    return TranslateConfig(**given_values(parser, argv))
