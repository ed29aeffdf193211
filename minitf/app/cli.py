"""Command lines made from the fields of the configurations: one flag a field, its help, and errors in one sentence.

`max_steps` of `RunConfig` is `--max-steps`; `layers` of its `model` is `--model.layers`. Underscores may stand for
dashes. A value is what the preset says, unless a flag says otherwise; a resumed run keeps its own values.
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, Literal, NoReturn, get_args, get_origin

from minitf.config import DEFAULT_PRESET, PRESETS, RunConfig, TranslateConfig
from minitf.config.options import description, nearest, shown, without_none
from minitf.config.presets import NAMED
from minitf.errors import UserError
from minitf.storage.config_file import load_config
from minitf.storage.run_directory import CONFIG_NAME
from minitf.system.files import explained, os_errors_explained
from minitf.system.progress import say
from minitf.system.signals import TerminationInterrupt, exit_status, interrupting

SECTIONS = {"model": "Model", "optimizer": "Optimizer", "parsing": "Parsing (section 6.3), for --task parsing"}
PATHS_OF_INPUTS = (
    *("data_dir", "train", "valid", "test", "vocabulary"),
    *("parsing.trees", "parsing.valid_trees", "parsing.test_trees"),
)


@dataclass(frozen=True)
class Flag:
    """A field of a configuration as an argument."""

    field: Field[Any]
    path: tuple[str, ...]  # ("model", "layers")
    section: str

    @property
    def name(self) -> str:
        """`--model.layers`"""
        return "--" + ".".join(self.path).replace("_", "-")

    @property
    def dest(self) -> str:
        """`model.layers`"""
        return ".".join(self.path)

    def value_in(self, config: Any) -> Any:
        """What a configuration holds in this field."""
        for name in self.path:
            config = getattr(config, name)
        return config


def flags_of(config_class: type, path: tuple[str, ...] = ()) -> Iterator[Flag]:
    """The fields of a configuration and of those inside it, in order, except the hidden ones."""
    section = SECTIONS.get(path[-1], "") if path else "Run"
    for each in fields(config_class):
        if is_dataclass(each.type):
            assert isinstance(each.type, type)
            yield from flags_of(each.type, (*path, each.name))
        elif not each.metadata["hidden"]:
            section = each.metadata["section"] or section
            yield Flag(each, (*path, each.name), section)


# ---- Reading ----


def parse_train_args(argv: Sequence[str]) -> tuple[RunConfig, Path | None]:
    """The run that a command line asks for, and the folder to resume if it is to go on with one.

    Raises: UserError for anything that cannot be; SystemExit(0) after `--help` and `--version`.
    """
    parser = build_parser(
        RunConfig,
        "train.py [flags]",
        "Train a Transformer to translate. Without flags: a tiny model on a built-in corpus, in minutes.",
    )
    parser.group("Run").add_argument(
        "--resume",
        type=_converter(Path),
        metavar="RUN",
        help="go on with the run in this folder, from its last checkpoint; only values that do not change what is "
        f"learned may be given: {', '.join(changeable())}",
    )
    parser.group("Run").add_argument(
        "--list-presets", action=_ListPresets, nargs=0, help="print all presets, with their sizes and costs, and end"
    )
    given = _given(parser, argv)
    resume = given.pop("resume", None)
    given = {name: _absolute(value) if name in PATHS_OF_INPUTS else value for name, value in given.items()}
    if resume is not None:
        return _resumed(resume, given), resume
    return _changed(_preset(given.pop("preset", DEFAULT_PRESET)), given), None


def parse_translate_args(argv: Sequence[str]) -> TranslateConfig:
    """The translation that a command line asks for.

    Raises: UserError for anything that cannot be; SystemExit(0) after `--help` and `--version`.
    """
    parser = build_parser(
        TranslateConfig, "translate.py RUN [flags]", "Translate text with a trained run, a line for each line."
    )
    return TranslateConfig(**_given(parser, argv))


def run_command(main: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Run a command line and give its exit status.

    After `error: …` for a UserError, its own, which is 2 for nearly all; 130, 143 or 129 when stopped by SIGINT,
    SIGTERM or SIGHUP; 141 when the reader of its output has gone (`| head`).
    """
    _occupy_standard_descriptors()
    try:
        with interrupting():
            status = main(sys.argv[1:] if argv is None else argv)
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where a failure can still be told
    except UserError as error:
        say(f"error: {error}")
        return error.exit_status
    except MemoryError as error:
        say(f"error: not enough memory ({error}); choose a smaller --max-tokens-per-batch or a smaller model")
        return 2
    except KeyboardInterrupt as interrupt:
        say("terminated" if isinstance(interrupt, TerminationInterrupt) else "interrupted")
        return exit_status(interrupt)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains again as it ends
        return 141
    except OSError as error:
        if error.filename is None:
            raise
        say(f"error: {explained(f'use {error.filename}', error)}")  # a file that nothing above has a better word for
        return 2
    return status or 0


def _occupy_standard_descriptors() -> None:
    """Take the places of standard streams that were closed before we began (`2>&-`).

    The next file opened would get their numbers, and whatever a library writes to "standard error" would end up in it.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one


def changeable() -> list[str]:
    """The flags that a resumed run may be given with another value."""
    return [flag.name for flag in flags_of(RunConfig) if flag.field.metadata["may_change"]]


def _preset(name: str) -> RunConfig:
    if name not in NAMED:
        few = ", ".join(PRESETS)
        raise UserError(
            f"preset={name!r} is unknown{nearest(name, NAMED)}; choose {few}, or one that --list-presets names"
        )
    return NAMED[name].config


def _changed(config: RunConfig, given: dict[str, Any]) -> RunConfig:
    """The configuration with the given values; checks apply to the result as a whole."""
    own = {name: value for name, value in given.items() if "." not in name}
    for section in SECTIONS:
        inner = {name.partition(".")[2]: value for name, value in given.items() if name.startswith(section + ".")}
        own[section] = replace(getattr(config, section), **inner)
    return replace(config, **own)


def _resumed(folder: Path, given: dict[str, Any]) -> RunConfig:
    """The run's own configuration with the values that may change; `output` is where the run stands now."""
    with os_errors_explained(f"look into {folder}"):
        found = (folder / CONFIG_NAME).is_file()
    if not found:
        raise UserError(f"{folder} holds no run to resume: {CONFIG_NAME} is missing; check the path")
    saved: RunConfig = replace(load_config(folder / CONFIG_NAME), output=folder)
    for flag in flags_of(RunConfig):
        before = flag.value_in(saved)
        after = given.get(flag.dest, before)
        if not (_absolute(after) == _absolute(before) or flag.field.metadata["may_change"]):
            raise UserError(
                f"{flag.name} {shown(after)} differs from the run's {shown(before)}, which a resumed run must keep; "
                f"leave the flag out, or start another run with another --output"
            )
    return _changed(saved, {**given, "output": folder})


def _absolute(value: Any) -> Any:
    """Paths that a run can still find when it is resumed from another folder."""
    if isinstance(value, tuple):
        return tuple(map(_absolute, value))
    return value.absolute() if isinstance(value, Path) else value


def _given(parser: argparse.ArgumentParser, argv: Sequence[str]) -> dict[str, Any]:
    """The values on the command line by the name of their field, and only those.

    Raises: UserError for an unknown flag, naming the nearest valid ones, and for a word that belongs to no flag.
    """
    namespace, unknown = parser.parse_known_args(_with_dashes(argv))
    for word in unknown:
        if word.startswith("-") and word != "--":
            name = word.partition("=")[0]
            valid = [option for action in parser._actions for option in action.option_strings]
            inner = [option for option in valid if option.endswith("." + name.lstrip("-"))]  # --layers: --model.layers
            hint = f"; did you mean {inner[0]}?" if inner else nearest(name, valid)
            raise UserError(f"unknown flag {name}{hint or '; --help lists all'}")
    if unknown:
        raise UserError(f"{unknown[0]!r} belongs to no flag; --help lists all")
    return vars(namespace)


def _with_dashes(argv: Sequence[str]) -> list[str]:
    """`--max_steps=5` as `--max-steps=5`; what follows a lone `--` stays as it is."""
    words, rest = list(argv), []
    if "--" in words:
        words, rest = words[: words.index("--")], words[words.index("--") :]
    return [_flag_with_dashes(word) if word.startswith("--") else word for word in words] + rest


def _flag_with_dashes(word: str) -> str:
    name, equals, value = word.partition("=")
    return name.replace("_", "-") + equals + value


# ---- Building ----


class _Parser(argparse.ArgumentParser):
    """argparse with groups by name that leaves the reporting of errors to the caller."""

    def group(self, name: str) -> Any:
        """The group of that name, made where it is not there yet."""
        found = [group for group in self._action_groups if group.title == name]
        return found[0] if found else self.add_argument_group(name)

    def error(self, message: str) -> NoReturn:
        raise UserError(message.removeprefix("argument "))


class _Switch(argparse.Action):
    """`--share` is true, `--no-share` is false."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, option_string == self.option_strings[0])


class _ListPresets(argparse.Action):
    """Print all presets with their sizes and costs, and end."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from minitf.app.presets import list_presets

        print(list_presets())
        parser.exit()


class _Version(argparse.Action):
    """Print the version and end; it is looked up only then."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        from minitf.system.environment import project_version

        print(f"minitf {project_version()}")
        parser.exit()


def build_parser(config_class: type, usage: str, about: str) -> "_Parser":
    """A parser with a flag for every field, grouped by section; values that are not given stay out of its result."""
    parser = _Parser(
        prog=usage.split()[0],
        usage=usage,
        description=about,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,  # an abbreviation would change its meaning when a flag is added
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32),
    )
    for flag in flags_of(config_class):
        _add(parser.group(flag.section), flag, with_presets=config_class is RunConfig)
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and end")
    return parser


def _add(group: Any, flag: Flag, with_presets: bool) -> None:
    """One argument for one field."""
    kind, _ = without_none(flag.field.type)
    text = _help(flag, with_presets)
    if flag.field.metadata["positional"]:
        group.add_argument(flag.dest, type=_converter(kind), metavar=flag.dest.upper(), help=text)
    elif kind is bool:
        *section, last = flag.name.removeprefix("--").split(".")
        negated = "--" + ".".join([*section, "no-" + last])
        group.add_argument(flag.name, negated, dest=flag.dest, action=_Switch, nargs=0, help=text)
    elif get_origin(kind) is tuple:
        names = ("SOURCE", "TARGET")
        group.add_argument(
            flag.name, dest=flag.dest, type=_converter(Path), nargs=2, metavar=names, help=text, action=_Pair
        )
    else:
        metavar = _metavar(flag, kind)
        group.add_argument(flag.name, dest=flag.dest, type=_converter(flag.field.type), metavar=metavar, help=text)


class _Pair(argparse.Action):
    """Two paths as a tuple."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, tuple(values))


def _metavar(flag: Flag, kind: Any) -> str:
    if get_origin(kind) is Literal:
        return "{" + ",".join(get_args(kind)) + "}"
    if flag.path == ("preset",):
        return "{" + ",".join(PRESETS) + ",...}"
    return {int: "N", float: "X", Path: "PATH"}.get(kind, flag.path[-1].upper())


def _help(flag: Flag, with_presets: bool) -> str:
    """`width of … (tokens; section 3.1; default 512)`, or what every preset says where they differ."""
    metadata = flag.field.metadata
    notes = [metadata["unit"]]
    if metadata["source"]:
        notes.append(metadata["source"] if metadata["source"].startswith("Table") else f"section {metadata['source']}")
    if flag.path == ("preset",):
        notes.append(f"default {DEFAULT_PRESET}")
    elif with_presets:
        values = {name: shown(flag.value_in(preset), quote=False) for name, preset in PRESETS.items()}
        alike = len(set(values.values())) == 1
        listed = values[DEFAULT_PRESET] if alike else ", ".join(f"{name} {value}" for name, value in values.items())
        notes.append(f"default {listed}")
    elif flag.field.default is not MISSING and flag.field.type is not bool:
        notes.append(f"default {shown(flag.field.default, quote=False)}")
    text = f"{metadata['help']} ({'; '.join(note for note in notes if note)})" if any(notes) else metadata["help"]
    return text.replace("%", "%%")


def _converter(kind: Any) -> Callable[[str], Any]:
    """What turns a word of the command line into a value; `none` is None where that may be."""
    inner, optional = without_none(kind)

    def convert(word: str) -> Any:
        if optional and word == "none":
            return None
        try:
            if inner is Path and not word:
                raise ValueError("Path would take it for the current folder")
            if get_origin(inner) is Literal:
                return get_args(inner)[get_args(inner).index(word)]
            return inner(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{word!r} is not {description(kind)}") from None

    return convert
