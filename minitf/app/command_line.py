"""Command lines generated from configurations: one flag per field, with its help, default and checks.

`max_steps` of `RunConfig` is `--max-steps`; `layers` of its `model` is `--model.layers`. Underscores may be used for
dashes. Values without a flag come from the preset; a resumed run keeps its own values.

Not tyro: it prints errors as boxes of several lines, writes `--no-model.x` for `--model.no-x`, shows the default of one
preset instead of each, and adds four packages to a plain install.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from minitf.app.arguments import version
from minitf.config import DEFAULT_PRESET, PRESETS, RunConfig
from minitf.config.options import description, shown, without_none
from minitf.config.removed import REMOVED_FLAGS
from minitf.config.tasks import settings_of
from minitf.errors import UserError, nearest, shortened

__all__ = ["ArgumentParser"]

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

    @property
    def value_is_of_house(self) -> bool:
        """Whether every preset has a value of the flag, which those of a task of an addition have not."""
        return self.dest.rpartition(".")[0] in ("", *SECTIONS)

    def value_in(self, config: Any) -> Any:
        """Return the value of this field in a configuration; its default, for a field of a task of other runs."""
        section, _, name = self.dest.rpartition(".")
        if not self.value_is_of_house:
            return getattr(config.task_options, name) if config.task == section else self.field.default
        return attrgetter(self.dest)(config)

    def help(self, with_presets: bool) -> str:
        """Format the help, `width of … (tokens; section 3.1; default 512)`, with presets' defaults if they differ."""
        metadata, default = self.field.metadata, self.field.default
        source = metadata["source"]
        notes = [metadata["unit"], f"section {source}" if source and not source.startswith("Table") else source]
        about, listed = metadata["help"], ""
        if self.dest == "preset":
            notes.append(f"default {DEFAULT_PRESET}")
        elif with_presets:
            values = {name: shown(self.value_in(preset), quote=False) for name, preset in PRESETS.items()}
            alike = len(set(values.values())) == 1
            listed = values[DEFAULT_PRESET] if alike else ", ".join(f"{name} {value}" for name, value in values.items())
        elif default not in (MISSING, (), None) and self.field.type is not bool:
            listed = shown(default, quote=False)
        if default is None and listed in ("", "none"):  # the help says what that means
            about = about.replace("none: ", "default: ")
        elif listed:
            notes.append(f"default {listed}")
        text = f"{about} ({'; '.join(filter(None, notes))})" if any(notes) else about
        return text.replace("%", "%%")


def flags_of(config_class: type, tasks: Sequence[str] = ()) -> Iterator[Flag]:
    """Yield the fields of a configuration and of those inside it, in order, except the hidden ones.

    tasks: names of tasks of additions, whose settings have flags, too
    """
    yield from _flags_inside(config_class, "", "Run")
    for task in tasks:
        yield from _flags_inside(settings_of(task).OPTIONS, task, settings_of(task).ABOUT)


def _flags_inside(config_class: type, inside: str, section: str) -> Iterator[Flag]:
    for each in fields(config_class):
        if is_dataclass(each.type):
            assert isinstance(each.type, type)
            yield from _flags_inside(each.type, each.name, SECTIONS[each.name])
        elif not each.metadata["hidden"]:
            section = each.metadata["section"] or section
            yield Flag(each, f"{inside}.{each.name}".lstrip("."), section)


# ---- Reading ----


def given_values(parser: ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    """Return the values on the command line, and only those, by the name of their field.

    Raises: UserError for an unknown flag, naming the nearest valid ones, and for an unexpected argument.
    """
    end = list(argv).index("--") if "--" in argv else len(argv)
    dashed = [re.sub("^--[^=]*", lambda flag: flag[0].replace("_", "-"), word) for word in argv[:end]]
    namespace, unknown = parser.parse_known_args([*dashed, *argv[end:]])
    for word in unknown:
        if word.startswith("-") and word != "--":
            name = word.partition("=")[0]
            if name in REMOVED_FLAGS:
                raise UserError(f"{name} was removed; {REMOVED_FLAGS[name]}")
            valid = [option for action in parser._actions for option in action.option_strings]
            inner = [option for option in valid if option.endswith("." + name.lstrip("-"))]  # --layers: --model.layers
            hint = f"; did you mean {inner[0]}?" if inner else nearest(name, valid)
            raise UserError(f"unknown flag {shortened(name)}{hint or '; --help lists all flags'}")
    values = {name: tuple(value) if isinstance(value, list) else value for name, value in vars(namespace).items()}
    rest = next((action for action in parser._actions if action.nargs == "*"), None)
    if rest is not None and (words := [word for word in unknown if word != "--"]):  # RUN --beam 2 MORE
        try:  # argparse itself takes the positional arguments of one place
            more = [parser._get_value(rest, word) for word in words]
        except argparse.ArgumentError as error:
            parser.error(str(error))
        values[rest.dest] = (*values.get(rest.dest, ()), *more)
    elif unknown:
        raise UserError(f"unexpected argument {shown(unknown[0])}; --help lists all flags")
    return values


def changed(config: RunConfig, given: dict[str, Any]) -> RunConfig:
    """Replace values of a configuration, given by the names of their flags; checks apply to the result as a whole.

    Raises: UserError for a setting of a task that is not that of the configuration
    """
    own = {name: value for name, value in given.items() if "." not in name}
    task = own.get("task", config.task)
    inner: dict[str, dict[str, Any]] = {}
    for name, value in given.items():
        if "." in name:
            section, _, field = name.partition(".")
            if section not in (*SECTIONS, task):
                raise UserError(f"--{name.replace('_', '-')} is of {section}, but the run learns {task}; give a preset "
                                f"of {section}, or omit the flag")  # fmt: skip
            inner.setdefault(section, {})[field] = value
    for section, values in inner.items():
        place = section if section in SECTIONS else "task_options"
        own[place] = replace(own.get(place) or getattr(config, place), **values)
    return replace(config, **own)


def absolute(value: Any) -> Any:
    """Make paths absolute, so that a run resumed from another working directory still finds them."""
    if isinstance(value, tuple):
        return tuple(map(absolute, value))
    return value.absolute() if isinstance(value, Path) else value


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

    def _print_message(self, message: str, file: Any = None) -> None:
        if message:  # argparse would take no notice of a full disk
            (file or sys.stderr).write(message)

    def error(self, message: str) -> NoReturn:
        if message.startswith(REQUIRED):
            names = message.removeprefix(REQUIRED)
            missing = [each for each in self._actions if each.nargs != "*" and each.metavar in names.split(", ")]
            what = " and ".join(f"{each.metavar} ({each.help})" for each in missing) or names
            raise UserError(f"required: {what}; {self.prog} --help describes all arguments")
        raise UserError(shortened(message.removeprefix("argument "), most=1000))


class _Switch(argparse.Action):
    """Store True for `--share`, False for `--no-share`."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, option_string == self.option_strings[0])


def build_parser(
    config_class: type, usage: str, about: str, prog: str | None = None, tasks: Sequence[str] = ()
) -> ArgumentParser:
    """Build a parser with a flag for every field, grouped by section; its result contains only the given values.

    tasks: see `flags_of`
    """
    parser = ArgumentParser(
        prog=prog,
        usage=usage,
        description=about,
        argument_default=argparse.SUPPRESS,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32),
    )
    for flag in flags_of(config_class, tasks):
        names, options = _argument(flag)
        text = flag.help(with_presets=config_class is RunConfig and flag.value_is_of_house)
        parser.group(flag.section).add_argument(*names, help=text, **options)
    parser.add_argument("--version", action="version", version=version(), help="print the version")
    return parser


def _argument(flag: Flag) -> tuple[list[str], dict[str, Any]]:
    """Return the names and the options of the argument of a field."""
    kind, _ = without_none(flag.field.type)
    name = flag.field.name
    if flag.field.metadata["positional"]:
        if get_origin(kind) is tuple:
            return [flag.dest], {"type": converter(get_args(kind)[0]), "metavar": name.upper(), "nargs": "*"}
        return [flag.dest], {"type": converter(kind), "metavar": name.upper()}
    if kind is bool:
        negated = flag.name.removesuffix(name.replace("_", "-")) + "no-" + name.replace("_", "-")
        return [flag.name, negated], {"dest": flag.dest, "action": _Switch, "nargs": 0}
    if get_origin(kind) is tuple:
        metavar: Any = ("SOURCE", "TARGET")
        return [flag.name], {"dest": flag.dest, "type": converter(Path), "nargs": 2, "metavar": metavar}
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
            if get_origin(inner) is Literal:
                return get_args(inner)[get_args(inner).index(word)]
            return inner(word)
        except (ValueError, OverflowError):
            raise argparse.ArgumentTypeError(f"{shown(word)} is not {description(kind)}") from None

    return convert
