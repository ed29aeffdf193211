"""Tasks other than translation, which additions register: `additions.parsing.task` is the module of one.

A task is a module with

    check(config)                            refuses inputs that cannot be used, before the run's directory exists
    make_texts(config, data_path)            writes the aligned texts of the run; returns their paths by split
    learn_vocabulary(config, train, path, say)
    score(run, say)                          scores the test set at the end
    line_translator(translator)              translates lines: `translate_stream`, `score`, `warning`
"""

from __future__ import annotations

from typing import Any

from minitf.system.environment import load


def task_of(name: str) -> Any | None:
    """Return the module of a task; None for translation.  Raises: UserError if its addition is not installed"""
    if name == "translation":
        return None
    return load("minitf.tasks", name, f"task={name}", f"additions.{name}")
