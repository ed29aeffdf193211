"""Fields of configurations: their documentation and bounds, their validation, and their conversion to JSON.

A configuration is a frozen dataclass whose fields are made by `option`. Its types may be bool, int, float, str, Path,
Literal of strings, a pair of paths, a tuple of one type (`tuple[int, ...]`), another configuration, and any of these
`| None`. The fields alone determine `check_fields` for `__post_init__`, `to_plain` and `from_plain` for JSON, and the
flags of `app.command_line`.
"""

import json
import math
import operator
from collections.abc import Callable
from dataclasses import MISSING, asdict, field, fields, is_dataclass
from functools import partial
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from minitf.errors import UserError, nearest, shortened

__all__ = ["check_fields", "hidden", "option", "shown", "to_plain"]

Config = TypeVar("Config")

BOUNDS: dict[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "at_least": (">=", operator.ge),
    "above": (">", operator.gt),
    "at_most": ("<=", operator.le),
    "below": ("<", operator.lt),
}


def option(
    default: Any,
    help: str,
    *,
    section: str = "",
    may_change: bool = False,
    hidden: bool = False,
    positional: bool = False,
    **bounds: float,
) -> Any:
    """Make a field of a configuration.

    section: heading in `--help`, also for the fields that follow; may_change: a resumed run may be given another value;
    hidden: no flag of its own, a preset, the program or `--set` sets it; positional: an argument without a flag;
    bounds: at_least, above, at_most and below, of a number.
    """
    assert bounds.keys() <= BOUNDS.keys()
    switches = {"may_change": may_change, "hidden": hidden, "positional": positional}
    return field(default=default, metadata={"help": help, "section": section, **switches, "bounds": bounds})


hidden = partial(option, hidden=True)


# ---- Validation ----


def of_type(kind: type[Config], value: Any, name: str) -> Config:
    """Return a value of a type.  Raises: TypeError for any other"""
    if not isinstance(value, kind):
        raise TypeError(f"{name}={shown(value)} is of type {type(value).__name__}, not {kind.__name__}")
    return value


def check_fields(config: Any) -> None:
    """Check the type and bounds of every field.

    Raises: UserError that names the field, its value and the valid ones: `dropout=1.5; choose a number >= 0 and < 1`.
    """
    for each in fields(config):
        value = getattr(config, each.name)
        bounds = each.metadata.get("bounds", {})
        fitting = fits(value, each.type)
        if not fitting or not (value is None or all(BOUNDS[name][1](value, bounds[name]) for name in bounds)):
            raise UserError(f"{each.name}={shown(value)}; choose {description(each.type, bounds)}")


def fits(value: Any, kind: Any) -> bool:
    """Return whether a value is of a field's type.

    An int is a float, a bool is neither; floats must be finite and ints fit in 64 bits.
    """
    parts = get_args(kind)
    if get_origin(kind) is Literal:
        return isinstance(value, str) and value in parts
    if is_union(kind):
        return any(fits(value, part) for part in parts)
    if get_origin(kind) is tuple:
        kinds = of_items(kind, len(value)) if isinstance(value, tuple) else ()
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(fits, value, kinds))
    if kind is float:
        return fits(value, int) or (isinstance(value, float) and math.isfinite(value))
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63
    return isinstance(value, kind)


def of_items(kind: Any, count: int) -> tuple[Any, ...]:
    """Return the types of the items of a tuple: (`tuple[int, ...]`, 3) -> (int, int, int)."""
    parts = get_args(kind)
    return parts[:1] * count if parts[-1] is ... else parts


def is_union(kind: Any) -> bool:
    """Return whether a type is `A | B`, which Python 3.11 represents as Union[A, B] for some A."""
    return get_origin(kind) in (Union, UnionType)


def without_none(kind: Any) -> tuple[Any, bool]:
    """(`int | None`) -> (int, True); (int) -> (int, False)."""
    if not is_union(kind):
        return kind, False
    (rest,) = [part for part in get_args(kind) if part is not NoneType]
    return rest, True


def description(kind: Any, bounds: dict[str, float] | None = None) -> str:
    """Describe a type and its bounds in words: `a whole number >= 1, or none`."""
    kind, takes_none = without_none(kind)
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", Path: "a path"}
    if get_origin(kind) is Literal:
        text = "one of " + ", ".join(get_args(kind))
    elif get_origin(kind) is tuple:
        items = {int: "whole numbers", Path: "paths"}
        text = items[get_args(kind)[0]] if get_args(kind)[-1] is ... else "two paths"
    else:
        text = names.get(kind, f"a {getattr(kind, '__name__', kind)}")
    if bounds:
        text += " " + " and ".join(f"{BOUNDS[name][0]} {bound}" for name, bound in bounds.items())
    return f"{text}, or none" if takes_none else text


def shown(value: Any, quote: bool = True) -> str:
    """Format a value as the command line writes it; quote: put text in quotation marks."""
    if value is None:
        return "none"
    if isinstance(value, tuple):
        return " ".join(map(shown, value))
    if isinstance(value, bool):
        return str(value).lower()
    return shortened(repr(value) if quote and isinstance(value, str) else str(value))


# ---- JSON ----


def to_plain(value: Any) -> dict[str, Any]:
    """Convert a configuration to dicts, lists, strings, numbers, booleans and None."""
    return json.loads(json.dumps(asdict(value), default=str))  # of a path


def from_plain(config_class: type[Config], plain: Any, place: str = "") -> Config:
    """Convert the result of `to_plain` back to a configuration; missing keys get their defaults.

    Raises: UserError for an unknown key, with the valid ones, and for invalid values.
    """
    if not isinstance(plain, dict):
        raise UserError(f"{place or 'a configuration'} is {shown(plain)}, not an object of names and values")
    valid = {each.name: each for each in fields(config_class)}  # type: ignore[arg-type]
    for key in plain:
        if key not in valid:
            where = f" in {place}" if place else ""
            raise UserError(
                f"unknown key {shown(key)}{where}{nearest(key, valid)}; the valid keys are {', '.join(valid)}"
            )
    for name, each in valid.items():
        if each.default is MISSING and each.default_factory is MISSING and name not in plain:
            raise UserError(f"the key {name!r} is missing{f' in {place}' if place else ''}")
    values = {key: _value_from_plain(valid[key].type, value, key) for key, value in plain.items()}
    return config_class(**values)


def _value_from_plain(kind: Any, value: Any, name: str) -> Any:
    """Restore the types that JSON lacks: paths, pairs and nested configurations; `check_fields` checks the rest."""
    kind, optional = without_none(kind)
    if value is None and optional:
        return None
    if is_dataclass(kind) and isinstance(kind, type):
        return from_plain(kind, value, name)
    if get_origin(kind) is tuple and isinstance(value, list):
        kinds = of_items(kind, len(value))
        if len(kinds) == len(value):
            return tuple(_value_from_plain(part, each, name) for part, each in zip(kinds, value, strict=True))
    if kind is Path and isinstance(value, str):
        return Path(value)
    return value
