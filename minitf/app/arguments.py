"""Arguments that print something, arguments that several commands have, and the help of a configuration's fields."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field
from operator import attrgetter
from pathlib import Path
from typing import Any

from minitf.config import DEFAULT_PRESET, PRESETS
from minitf.config.options import none_is_absent, shown
from minitf.system.environment import VERSION
from minitf.system.process import uninterrupted

ALL = "--help-all"
REQUIRED = "the following arguments are required: "
"""Beginning of argparse's message."""


class Print(argparse.Action):
    """Print the result of the function `const`, and exit."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        print(self.const())
        parser.exit()


class BriefHelp(argparse.Action):
    """Print the help of the arguments named in `const` and how to see the help of all arguments; exit."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        for action in parser._actions:
            if action.dest not in self.const:
                action.help = argparse.SUPPRESS
        parser.epilog = f"These are the most common flags; {parser.prog} {ALL} lists all."
        parser.print_help()
        parser.exit()


def version() -> str:
    """Return the version as printed: `minitf 0.1.0`"""
    return f"minitf {VERSION}"


def list_presets() -> str:
    """Return the table of `--list-presets`."""
    with uninterrupted():  # deferred: needs NumPy
        from minitf.app.preset_table import list_presets
    return list_presets()


def help_of(dest: str, field: Field[Any], *, with_presets: bool) -> str:
    """Format the help, `width of … (tokens; section 3.1; default 512)`, with each preset's default if they differ."""
    metadata = field.metadata
    source = metadata["source"]
    notes = [metadata["unit"], f"section {source}" if source and not source.startswith("Table") else source]
    if dest == "preset":
        notes.append(f"default {DEFAULT_PRESET}")
    elif with_presets:
        values = {name: shown(attrgetter(dest)(preset), quote=False) for name, preset in PRESETS.items()}
        alike = len(set(values.values())) == 1
        listed = values[DEFAULT_PRESET] if alike else ", ".join(f"{name} {value}" for name, value in values.items())
        notes.append(f"default {listed}")
    elif field.default is None and not none_is_absent(field.type):
        notes.append("default: the run's")
    elif field.default not in (MISSING, ()) and field.type is not bool:
        notes.append(f"default {shown(field.default, quote=False)}")
    text = f"{metadata['help']} ({'; '.join(filter(None, notes))})" if any(notes) else metadata["help"]
    return text.replace("%", "%%")


def required(parser: Any, names: str) -> str:
    """Return the message for missing arguments, with their descriptions: `required: SOURCE (source text, …) and …`"""
    parser.describe()
    missing = [each for each in parser._actions if each.nargs != "*" and each.metavar in names.split(", ")]
    what = " and ".join(f"{each.metavar} ({each.help})" for each in missing) or names
    return f"required: {what}; {parser.prog} --help describes all arguments"


def add_corpus(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a corpus: SOURCE, TARGET and --errors."""
    parser.add_argument(
        "source", type=Path, metavar="SOURCE", help="source text, one sentence per line, such as mine.en"
    )
    parser.add_argument("target", type=Path, metavar="TARGET", help="its translation, line by line, such as mine.de")
    parser.add_argument(
        "--errors", choices=("strict", "replace"), default="strict", help="handling of bytes that are not UTF-8"
    )


def add_options_of(parser: argparse.ArgumentParser, function: Callable[..., Any], helps: dict[str, str]) -> None:
    """Add an integer option with its default for each argument of a function."""
    for name, parameter in inspect.signature(function).parameters.items():
        text = f"{helps[name]} (default {parameter.default})"
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=parameter.default, metavar="N", help=text)
