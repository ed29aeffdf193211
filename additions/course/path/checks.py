"""Common parts of the checks of steps: the learner's files as modules, the table of checks, and comparison."""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from additions.course.expect import Array, Wrong, close, equal, true
from additions.course.judge import NAMING_S, TooLong
from additions.course.path.steps import FILES, Step

Check = Callable[["Work"], None]
CHECKS: dict[str, list[Check]] = {}
"""The checks of each step by its name."""


def of(step: str) -> Callable[[Check], Check]:
    """Decorator: a check of a step; its docstring is what the verdict calls it."""

    def enter(check: Check) -> Check:
        CHECKS.setdefault(step, []).append(check)
        return check

    return enter


class Work:
    """The learner's files as modules: `work.engine.apply`."""

    engine: Any
    ops: Any
    model: Any
    train: Any
    search: Any

    def __init__(self, folder: Path, step: Step):
        """Run the files up to the one of the step."""
        self.step = step
        self.texts: dict[str, str] = {}
        for name in FILES[: FILES.index(step.file) + 1]:
            path = folder / f"{name}.py"
            if path.exists():
                self.texts[str(path)] = path.read_text(encoding="utf-8-sig")

    def run(self) -> None:
        """Run the files, each as the module of its name, which later ones import."""
        for path, text in self.texts.items():
            name = Path(path).stem
            module = sys.modules[name] = ModuleType(name)
            module.__file__ = path
            exec(compile(text, path, "exec", dont_inherit=True), vars(module))
            setattr(self, name, Names(name, module))


class Names:
    """The names of one of the learner's files."""

    def __init__(self, file: str, module: ModuleType):
        self._file, self.module = file, module

    def __getattr__(self, name: str) -> Any:
        if name not in vars(self.module):
            raise Wrong(f"{self._file}.py has no {name}; was it renamed? The step that gave it has its signature")
        return vars(self.module)[name]


# ---- Comparing with ours, and naming what differs ------------------------------------------------------------------


Variants = Callable[[], Iterable[tuple[str, Any]]]
"""Mistakes, each with what has it."""


def compare(
    results: Callable[[Any], Iterator[tuple[str, Any]]],
    theirs: Any,
    ours: Any,
    variants: Variants,
    by_rule: Variants = tuple,
) -> None:
    """Compare results one by one.  Raises: Wrong with the mistake that gives the first wrong one

    results: yields named results of theirs, ours, or a variant of ours
    variants: known mistakes; by_rule: mistakes that a rule makes, which the message adds to the numbers
    """
    expected = [*results(ours)]
    for k, ((what, found), (_, right)) in enumerate(zip(results(theirs), expected, strict=True)):
        if right is None:
            true(found is None, f"{what} is an array; there is none, so return None")
            continue
        if found is None:
            raise Wrong(f"{what} is None: is `return` missing, or a gradient that there is?")
        found, right = np.asarray(found), np.asarray(right)
        if close(found, right):
            continue
        if name := _name_of(found, expected[: k + 1], results, variants):
            raise Wrong(f"{what}: {name}")
        numbers = described(what, found, right)
        says_much = found.shape == right.shape and np.isfinite(found).all() and found.any()
        name = _name_of(found, expected[: k + 1], results, by_rule) if says_much else ""
        raise Wrong(f"{what}: {name}\n{numbers}" if name else numbers)


def _name_of(
    found: Array,
    expected: Sequence[tuple[str, Any]],
    results: Callable[[Any], Iterator[tuple[str, Any]]],
    variants: Variants,
) -> str:
    """The mistake that gives the right results and at last the same wrong one, "" if none does, or none in time."""
    until = time.process_time() + NAMING_S
    with suppress(TooLong), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for message, variant in variants():
            if time.process_time() > until:
                break
            with suppress(Exception):  # a mistake may make the other results impossible
                for k, ((_, result), (_, right)) in enumerate(zip(results(variant), expected, strict=False)):
                    is_last, is_right = k + 1 == len(expected), _same(result, right)
                    if is_last and not is_right and close(found, np.asarray(result), 1e-6):
                        return message
                    if is_last or not is_right:
                        break
    return ""


def _same(a: Any, b: Any) -> bool:
    return a is b if a is None or b is None else close(np.asarray(a), np.asarray(b))


def described(what: str, found: Array, right: Array) -> str:
    """Describe the error of a result whose mistake has no name."""
    try:
        equal(what, found, right)
    except Wrong as wrong:
        return f"{wrong}{wrong.picture}"
    return ""
