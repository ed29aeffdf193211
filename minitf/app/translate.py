"""`minitf translate`, `translate.py`: translate or parse text with a trained run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from minitf.app.command_line import build_parser, given_values
from minitf.config import TranslateConfig
from minitf.system.process import shell_command


def main(argv: Sequence[str]) -> None:
    """Translate according to the command line."""
    config = parse_translate_args(argv)
    if config.plain:
        os.environ["AUTOGRAD_PLAIN"] = "1"  # before autograd is imported
    from minitf.app.translate_text import translate_text  # deferred: `--help` and invalid flags need no NumPy

    translate_text(config)


def parse_translate_args(argv: Sequence[str]) -> TranslateConfig:
    """Parse the command line of `translate`.

    Raises: UserError for invalid arguments; SystemExit(0) after `--help` and `--version`.
    """
    name = shell_command("translate")
    usage = f"{name} RUN [MORE ...] [flags]"
    about = "Translate or parse text with a trained run, one line per input line."
    parser = build_parser(TranslateConfig, usage, about, name, TranslateConfig(run=Path()))
    return TranslateConfig(**given_values(parser, argv))
