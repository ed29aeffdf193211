"""Arguments that several commands have."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable
from typing import Any

from minitf.system.environment import VERSION

__all__ = ["add_options_of"]


def version() -> str:
    """Return the version as printed: `minitf 0.2.0`"""
    return f"minitf {VERSION}"


def add_options_of(parser: argparse.ArgumentParser, function: Callable[..., Any], helps: dict[str, str]) -> None:
    """Add an integer option with its default for each argument of a function."""
    for name, parameter in inspect.signature(function).parameters.items():
        text = f"{helps[name]} (default {parameter.default})"
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=parameter.default, metavar="N", help=text)
