"""A mutant: the source text of one function with one exact replacement, which applies inside a `with` block.

The replacement is compiled within the whole text of its module, and replaces the function's code object.  So every
reference to the function, imported or inherited under any name, runs the damaged code, with the module's own `super()`,
closures and globals.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from autograd.engine import Op


class StaleMutantError(Exception):
    """The code has changed, and the text that a mutant replaces no longer exists."""


@dataclass(frozen=True)
class Mutant:
    """One deliberate error.

    place: "module:function", or "module:Class.method"; with `attribute`, "module:Class.attribute"
    damage: the error in a few words
    old, new: a text that occurs in the function exactly once, and its replacement
    near: what to check first, if not the op or layer of that name: ops, layers, files of tests, or "exact zeros"
    attribute: True to replace the value of a class attribute: `old` and `new` are values
    """

    place: str
    damage: str
    old: Any
    new: Any
    near: tuple[str, ...] = ()
    attribute: bool = False

    @property
    def module(self) -> str:
        return self.place.split(":")[0]

    @property
    def name(self) -> str:
        """The function's name, with that of its class."""
        return self.place.split(":")[1]

    def __str__(self) -> str:
        return f"{self.place}: {self.damage}"


@contextmanager
def damaged(mutant: Mutant) -> Iterator[None]:
    """Context manager: damage the code inside the block, and restore it.

    Raises: StaleMutantError if the text to replace does not occur exactly once
    """
    with _exchanged_attribute(mutant) if mutant.attribute else _exchanged_code(mutant):
        _forget_what_is_kept(Op)
        try:
            yield
        finally:
            _forget_what_is_kept(Op)


def _forget_what_is_kept(op: type[Op]) -> None:
    """Forget what the engine has noted of this op and its subclasses: the inputs that their backward passes read."""
    getattr(op, "_keeps", {}).clear()
    for subclass in op.__subclasses__():
        _forget_what_is_kept(subclass)


@contextmanager
def _exchanged_attribute(mutant: Mutant) -> Iterator[None]:
    *path, last = mutant.name.split(".")
    owner = _member(mutant, path)
    if vars(owner).get(last) != mutant.old:
        raise StaleMutantError(f"{mutant}: its value is {vars(owner).get(last)!r}, expected {mutant.old!r}")
    setattr(owner, last, mutant.new)
    try:
        yield
    finally:
        setattr(owner, last, mutant.old)


@contextmanager
def _exchanged_code(mutant: Mutant) -> Iterator[None]:
    function = function_of(mutant)
    whole, code = function.__code__, _damaged_code(mutant, function)
    function.__code__ = code
    try:
        yield
    finally:
        function.__code__ = whole


def _member(mutant: Mutant, path: list[str]) -> Any:
    """What `path` leads to in the mutant's module, as it stands there: properties and static methods themselves."""
    found: Any = import_module(mutant.module)
    for name in path:
        if name not in vars(found):
            raise StaleMutantError(f"{mutant}: there is no {name!r} in {found}; is it inherited, renamed or gone?")
        found = vars(found)[name]
    return found


def function_of(mutant: Mutant) -> FunctionType:
    """Return the function that a mutant damages.  Raises: StaleMutantError if there is none"""
    found = _member(mutant, mutant.name.split("."))
    if isinstance(found, property):
        found = found.fget
    if isinstance(found, (staticmethod, classmethod)):
        found = found.__func__
    found = inspect.unwrap(found)
    if not isinstance(found, FunctionType):
        raise StaleMutantError(f"{mutant}: {found!r} is not a function")
    return found


def _damaged_code(mutant: Mutant, function: FunctionType) -> CodeType:
    """The code of `function` after the replacement in the text of its module."""
    path = Path(inspect.getfile(function))
    lines, first = inspect.getsourcelines(function)
    text = "".join(lines)
    times = text.count(mutant.old)
    if times != 1 or mutant.old == mutant.new:
        raise StaleMutantError(f"{mutant}: the text {mutant.old!r} occurs {times} times in it, must occur once")
    module = path.read_text(encoding="utf-8").splitlines(keepends=True)
    module[first - 1 : first - 1 + len(lines)] = [text.replace(mutant.old, mutant.new)]
    compiled = compile("".join(module), str(path), "exec", dont_inherit=True)
    original = function.__code__
    for code in _all_code(compiled):
        if (code.co_qualname, code.co_firstlineno) == (original.co_qualname, original.co_firstlineno):
            if (code.co_code, code.co_consts, code.co_names) == (
                original.co_code, original.co_consts, original.co_names,
            ):  # fmt: skip
                raise StaleMutantError(f"{mutant}: the replacement changes nothing that runs")
            return code
    raise StaleMutantError(f"{mutant}: the module's text on disk is not the one that was imported")


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)
