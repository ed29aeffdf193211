"""Settings and presets of tasks other than translation, which additions bring (minitf/run/tasks.py has the tasks).

An addition registers a module without NumPy as an entry point of the group `minitf.settings`, by the name of the task:

    OPTIONS    the dataclass of its settings, whose flags begin with `--NAME.`
    ABOUT      the heading of these flags
    presets()  its presets, by name

They are looked up where a configuration or a command line names something that the house does not have.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib.metadata import entry_points
from typing import Any

from minitf.errors import UserError

TRANSLATION = "translation"
"""The task of the house."""


@cache
def registered_tasks() -> dict[str, Any]:
    """Return the modules of the settings of all tasks that are installed, by name."""
    found = {}
    for entry in entry_points(group="minitf.settings"):
        with suppress(ModuleNotFoundError):  # the folder of the addition is gone
            found[entry.name] = entry.load()
    return found


def settings_of(task: str) -> Any:
    """Return the module of the settings of a task.  Raises: UserError for one that is not installed"""
    if task not in [*registered_tasks()]:  # a file may give it any type, and not all can be looked up
        raise UserError(
            f"task={task!r} is unknown; choose {', '.join((TRANSLATION, *registered_tasks()))}, or install the "
            "addition that has it"
        )
    return registered_tasks()[task]


def presets_of_tasks() -> dict[str, Any]:
    """Return the presets of all tasks."""
    return {name: preset for module in registered_tasks().values() for name, preset in module.presets().items()}
