"""The same module with the methods of other classes: how fast parts come into the places of plain ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitf.model.layers import Module

__all__ = ["recast", "with_classes"]


def recast(module: Module, cls: type[Module]) -> Any:
    """The same module, parameters and parts included, with the methods of another class."""
    new = object.__new__(cls)
    vars(new).update(vars(module))
    return new


def with_classes(module: Module, choose: Callable[[type[Module]], Any], done: dict[int, Module] | None = None) -> Any:
    """The same module, its parts included, with the methods of the classes that `choose` gives for theirs.

    done: the parts so far, by id: one that is used twice stays one
    """
    done = {} if done is None else done
    if id(module) not in done:
        new = done[id(module)] = recast(module, choose(type(module)))
        for name, value in vars(new).items():
            setattr(new, name, _with_classes(value, choose, done))
    return done[id(module)]


def _with_classes(value: Any, choose: Callable[[type[Module]], Any], done: dict[int, Module]) -> Any:
    if isinstance(value, Module):
        return with_classes(value, choose, done)
    if isinstance(value, dict):
        return {key: _with_classes(item, choose, done) for key, item in value.items()}
    return type(value)([_with_classes(item, choose, done) for item in value]) if type(value) in (list, tuple) else value
