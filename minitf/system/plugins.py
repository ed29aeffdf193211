"""Parts that are installed beside this package and register themselves, by entry points of pyproject.toml.

Groups:
    minitf.commands   name of the command -> function(argv)
    minitf.corpora    public: module with find(name, folder, say), the texts of a public corpus (run/start.py)
    minitf.formats    modules with is_foreign(path), read_foreign(path), vocabulary_of(bytes, name): models of other
                      programs
    minitf.tasks      value of RunConfig.task -> module that prepares, scores and translates for it (run/tasks.py)
    minitf.settings   value of RunConfig.task -> module of its settings and presets (config/task_settings.py)
    minitf.reports    class that `minitf train` tells of its progress (app/train.py)
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

from minitf.errors import UserError

HOW_TO_INSTALL = "run `pip install .` in the folder of this project's source"


@cache
def registered(group: str) -> dict[str, Any]:
    """Return the entry points of a group by name; importing importlib.metadata takes 30 ms, so only when asked."""
    from importlib.metadata import entry_points

    return {entry.name: entry for entry in entry_points(group=group)}


def is_installed(module: str) -> bool:
    """Return whether a module, such as additions.course, is there, without importing it."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # nor is its package
        return False


def load(group: str, name: str, what: str, addition: str) -> Any:
    """Import what is registered under a name.

    what: names it in the error, such as "minitf learn"
    Raises: UserError if `addition`, which has it, is not installed
    """
    found = load_or_none(group, name)
    if found is None:
        raise UserError(f"{what} is in {addition}, which is not installed; {HOW_TO_INSTALL}")
    return found


def load_or_none(group: str, name: str) -> Any | None:
    """Import what is registered under a name; None if nothing is, or its folder is gone."""
    entry = registered(group).get(name)
    if entry is None:
        return None
    try:
        return entry.load()
    except ModuleNotFoundError as error:
        if error.name is None or not f"{entry.module}.".startswith(f"{error.name}."):
            raise  # a package that the addition needs
        return None
