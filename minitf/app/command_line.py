"""Command lines generated from configurations: one flag per field, with its help, default and checks.

`max_steps` of `RunConfig` is `--max-steps`; `layers` of its `model` is `--model.layers`. Fields without a flag are set
by `--set FIELD=VALUE`. Values that are not given come from the preset; a resumed run keeps its own values.

Not tyro: it prints errors as boxes of several lines and adds four packages to a plain install.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import Field, dataclass, fields, is_dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from minitf.config import PRESETS, RunConfig
from minitf.config.options import description, shown, without_none
from minitf.config.removed import REMOVED_FLAGS
from minitf.errors import UserError, nearest, shortened
from minitf.system.environment import VERSION

__all__ = ["ArgumentParser", "add_options_of"]

SECTIONS = {"model": "Model", "optimizer": "Optimizer"}


@dataclass(frozen=True)
class Flag:
    """A configuration field as a command-line argument."""

    field: Field[Any]
    dest: str  # "model.layers"
    section: str

    @property
    def name(self) -> str:
        """Return the flag: `--model.layers`"""
        return "--" + self.dest.replace("_", "-")

    def help(self, defaults: Any) -> str:
        """Format the help with the default value: that of the configuration `defaults`."""
        default, text = attrgetter(self.dest)(defaults), self.field.metadata["help"].replace("%", "%%")
        if default is None:  # the help says what that means
            return text.replace("none: ", "default: ")
        if isinstance(default, bool) or default == () or self.field.metadata["positional"]:
            return text
        return f"{text} (default {default})"


def flags_of(config_class: type, hidden: bool = False, inside: str = "", section: str = "Run") -> Iterator[Flag]:
    """Yield the fields of a configuration and of those inside it, in order.

    hidden: yield the fields that have no flag of their own instead of those that have one
    """
    for each in fields(config_class):
        if is_dataclass(each.type):
            assert isinstance(each.type, type)
            yield from flags_of(each.type, hidden, each.name, SECTIONS[each.name])
        else:
            section = each.metadata["section"] or section
            if each.metadata["hidden"] == hidden:
                yield Flag(each, f"{inside}.{each.name}".lstrip("."), section)


# ---- Reading ----


def given_values(parser: ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    """Return the values on the command line, and only those, by the name of their field."""
    given = vars(parser.parse_args(argv))
    return {name: tuple(value) if isinstance(value, list) else value for name, value in given.items()}


# ---- Building ----

REQUIRED = "the following arguments are required: "
"""Beginning of argparse's message."""


class ArgumentParser(argparse.ArgumentParser):
    """argparse with groups by name, without abbreviations, whose errors are UserErrors of one sentence."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)  # an abbreviation changes its meaning when a flag is added

    def group(self, name: str) -> Any:
        """Return the group of that name; create it if it does not exist."""
        found = [group for group in self._action_groups if group.title == name]
        return found[0] if found else self.add_argument_group(name)

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Raises: UserError for an unknown flag, naming the nearest valid ones, and for an unexpected argument"""
        found, unknown = self.parse_known_args(args, namespace)
        for word in unknown:
            if word.startswith("-") and word != "--":
                name = word.partition("=")[0]
                if name in REMOVED_FLAGS:
                    raise UserError(f"{name} was removed; {REMOVED_FLAGS[name]}")
                if (field := name[2:].replace("-", "_")) in {flag.dest for flag in flags_of(RunConfig, hidden=True)}:
                    raise UserError(f"{name} has no flag of its own; use minitf train --set {field}=VALUE")
                valid = [option for action in self._actions for option in action.option_strings]
                inner = [option for option in valid if option.endswith("." + name.lstrip("-"))]  # --layers
                hint = f"; did you mean {inner[0]}?" if inner else nearest(name, valid)
                raise UserError(f"unknown flag {shortened(name)}{hint or '; --help lists all flags'}")
            raise UserError(f"unexpected argument {shown(word)}; --help lists all flags")
        return found

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:  # argparse would take no notice of a full disk
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        if message.startswith(REQUIRED):
            names = message.removeprefix(REQUIRED)
            missing = [each for each in self._actions if each.nargs != "*" and each.metavar in names.split(", ")]
            told = [f"{each.metavar} ({each.help or ', '.join(each.choices or ())})" for each in missing]
            raise UserError(f"required: {' and '.join(told) or names}; {self.prog} --help describes all arguments")
        two = "2 arguments: SOURCE TARGET, which minitf split makes of one text with tabs"
        raise UserError(shortened(message.removeprefix("argument ").replace("2 arguments", two), most=1000))


def build_parser(config_class: type, usage: str, about: str, prog: str, defaults: Any) -> ArgumentParser:
    """Build a parser with a flag for every field, grouped by section; its result contains only the given values.

    defaults: the configuration whose values the help shows
    """
    parser = ArgumentParser(
        prog=prog,
        usage=usage,
        description=about,
        argument_default=argparse.SUPPRESS,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32),
    )
    for flag in flags_of(config_class):
        names, options = _argument(flag)
        parser.group(flag.section).add_argument(*names, help=flag.help(defaults), **options)
    parser.add_argument("--version", action="version", version=f"minitf {VERSION}", help="print the version")
    return parser


def _argument(flag: Flag) -> tuple[list[str], dict[str, Any]]:
    """Return the names and the options of the argument of a field."""
    kind, _ = without_none(flag.field.type)
    name = flag.field.name
    if flag.field.metadata["positional"]:
        return [flag.dest], {"type": converter(kind), "metavar": name.upper()}
    if kind is bool:
        return [flag.name], {"dest": flag.dest, "action": argparse.BooleanOptionalAction}
    if get_origin(kind) is tuple:
        return [flag.name], {"dest": flag.dest, "type": converter(Path), "nargs": 2, "metavar": ("SOURCE", "TARGET")}
    if get_origin(kind) is Literal or name == "preset":
        metavar = "{" + ",".join(get_args(kind) or (*PRESETS, "...")) + "}"
    else:
        metavar = {int: "N", float: "X", Path: "PATH"}.get(kind, name.upper())
    return [flag.name], {"dest": flag.dest, "type": converter(flag.field.type), "metavar": metavar}


def converter(kind: Any) -> Callable[[str], Any]:
    """Return the function that converts a word of the command line; `none` becomes None if the type allows it."""
    inner, takes_none = without_none(kind)

    def convert(word: str) -> Any:
        if takes_none and word == "none":
            return None
        try:
            if inner is Path and not word:
                raise ValueError("Path would read it as the current directory")
            if inner is bool:
                return {"true": True, "false": False}[word]
            if get_origin(inner) is Literal:
                return get_args(inner)[get_args(inner).index(word)]
            return inner(word)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise argparse.ArgumentTypeError(f"{shown(word)} is not {description(kind)}") from None

    return convert


# ---- Arguments that several commands have ----


def add_options_of(parser: argparse.ArgumentParser, function: Callable[..., Any], helps: dict[str, str]) -> None:
    """Add an integer option with its default for each argument of a function."""
    for name, parameter in inspect.signature(function).parameters.items():
        text = f"{helps[name]} (default {parameter.default})"
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=parameter.default, metavar="N", help=text)
