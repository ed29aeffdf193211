"""Common parts of the checks of steps: the learner's files as modules, the table of checks, and comparison."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from minitf.learn.expect import Wrong, close, equal, true
from minitf.learn.path.steps import FILES, Step

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


def compare(
    results: Callable[[Any], Iterator[tuple[str, Any]]],
    theirs: Any,
    ours: Any,
    variants: Callable[[], Iterator[tuple[str, Any]]],
) -> None:
    """Compare results one by one.  Raises: Wrong with the mistake that gives the first wrong one

    results: yields named results of theirs, ours, or a variant of ours
    variants: mistakes, each with what gives its results
    """
    for (what, found), (_, right) in zip(results(theirs), results(ours), strict=True):
        if right is None:
            true(found is None, f"{what} is an array; there is none, so return None")
            continue
        if found is None:
            raise Wrong(f"{what} is None: is `return` missing, or a gradient that there is?")
        if close(np.asarray(found), np.asarray(right)):
            continue
        name = _name_of(what, found, right, results, variants)
        raise Wrong(f"{what}: {name}" if name else described(what, found, np.asarray(right)))


def _name_of(
    what: str, found: Any, right: Any, results: Callable[[Any], Iterator[tuple[str, Any]]], variants: Any
) -> str:
    """The mistake that gives the same wrong result, "" if none does."""
    for message, variant in variants():
        with suppress(Exception):  # a mistake may make the other results impossible
            for other, result in results(variant):
                if other != what or close(np.asarray(result), np.asarray(right)):  # the mistake does not show here
                    continue
                if close(np.asarray(found), np.asarray(result), 1e-6):
                    return message
    return ""


def described(what: str, found: Any, right: np.ndarray) -> str:
    """Describe the error of a result whose mistake has no name."""
    try:
        equal(what, found, right)
    except Wrong as wrong:
        return f"{wrong}{wrong.picture}"
    return ""
