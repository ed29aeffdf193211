"""Fields of configurations, with their documentation and bounds.

A configuration is a frozen dataclass whose fields are made by `option`. Its types may be bool, int, float, str, Path,
Literal of strings, a pair of paths, a tuple of one type (`tuple[int, ...]`), another configuration, and any of these
`| None`. The fields alone determine `check_fields` for `__post_init__`, `to_plain` and `from_plain` for JSON
(options.py), and the flags of `app.command_line`.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import MISSING, field
from typing import Any

REQUIRED = MISSING
"""Default of a required option."""

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
    unit: str = "",
    source: str = "",
    section: str = "",
    may_change: bool = False,
    may_move: bool = False,
    hidden: bool = False,
    positional: bool = False,
    limit: float = math.inf,
    **bounds: float,
) -> Any:
    """Make a field of a configuration.

    unit: what the number counts; source: section of the paper; section: heading in `--help`, also for the fields that
    follow; may_change: a resumed run may be given another value; may_move: a resumed run may be given another path to
    the same content; hidden: no flag, the program fills it; positional: an argument without a flag; bounds: at_least,
    above, at_most and below, of a number; limit: beyond which a number is a mistake, and would take all
    memory or never end.
    """
    assert bounds.keys() <= BOUNDS.keys()
    texts = {"help": help, "unit": unit, "source": source, "section": section}
    switches = {"may_change": may_change, "may_move": may_move, "hidden": hidden, "positional": positional}
    return field(default=default, metadata={**texts, **switches, "bounds": bounds, "limit": limit})


def default_of(config_class: type) -> Any:
    """Make a field that holds another configuration, by default one with default values."""
    return field(default_factory=config_class, metadata={"help": "", "section": ""})
