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
        message = str(wrong)
    found = np.asarray(found)
    if found.shape != right.shape or found.dtype.kind not in "iuf":
        return message
    if not np.isfinite(found).all() and np.isfinite(right).all():
        return f"{what} has values that are not finite: does exp overflow, or is 0 divided by 0?"
    if not found.any() and what.startswith("the gradient"):
        return f"{what} is 0: nothing passes back to it"
    if close(found, -right):
        return f"{what} has the wrong sign"
    apart = right != 0
    if (
        apart.any()
        and not found[~apart].any()
        and np.ptp(ratio := found[apart] / right[apart]) < 1e-9 * abs(ratio).max()
    ):
        return f"{what} is {ratio.flat[0]:.6g} times the right one"
    return f"{message}\n\n{side_by_side(found, right)}"


SHADES = " ·-+*#@"


def side_by_side(found: np.ndarray, right: np.ndarray) -> str:
    """Two matrices as characters, the larger the darker, and where they differ; "" for others than small matrices."""
    if not found.ndim or found.size > 400 or found.shape[-1] > 24:
        return ""
    rows = [a.reshape(-1, a.shape[-1]) for a in (found, right)]
    top = max(float(np.nanmax(np.abs(a))) for a in rows) or 1.0

    def drawn(row: np.ndarray) -> str:
        return "".join(SHADES[min(int(abs(v) / top * len(SHADES)), len(SHADES) - 1)] if v == v else "?" for v in row)

    wide = max(found.shape[-1], 6) + 2
    lines = [f"    {'yours':{wide}}{'right':{wide}}differs"]
    for a, b in zip(*rows, strict=True):
        differs = "".join("x" if abs(p - q) > 1e-6 * top or p != p else "." for p, q in zip(a, b, strict=True))
        lines.append(f"    {drawn(a):{wide}}{drawn(b):{wide}}{differs}")
    return "\n".join(lines[:21])
