"""Functions for the checks of exercises; each raises `Wrong`, which names the likely mistake."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from autograd import gradcheck
from autograd.gradcheck import GradcheckError, from_vjp

Array = np.ndarray


class Wrong(Exception):  # noqa: N818 (an answer is wrong, not the program)
    """An answer is wrong; the message says which mistake it looks like."""

    def __init__(self, message: str, what: str = "", found: Sequence[Any] = (), names: Sequence[str] = ()):
        """what, found: the results that are wrong, by which the mistake can be recognised; names: of what they are"""
        super().__init__(message)
        self.what, self.found, self.names = what, [np.asarray(each) for each in found], names
        self.picture, self.is_named = "", False

    def is_like(self, other: Wrong) -> bool:
        """Return whether two answers have given the same wrong results."""
        if not self.found or self.what != other.what or len(self.found) != len(other.found):
            return False
        return all(close(a, b, 1e-6) for a, b in zip(self.found, other.found, strict=True))

    def first_beside(self, right: Sequence[Array]) -> Wrong:
        """Return the first of several results that is wrong, with its name and a picture."""
        pairs = zip(self.names, self.found, right, strict=False)
        for name, found, expected in pairs:
            if not close(found, expected, 1e-6):
                first = Wrong(str(self), f"the gradient of {name}", [found])
                first.is_named = self.is_named
                first.picture = side_by_side(found, expected)
                return first
        return self


_results_alone = False


@contextmanager
def results_alone() -> Iterator[None]:
    """Context manager: `gradients` raises Wrong with the gradients, right or wrong, and does not look at them."""
    global _results_alone
    _results_alone = True
    try:
        yield
    finally:
        _results_alone = False


def gradients(
    function: Callable, vjp: Callable, *inputs: Any, mistakes: Mapping[str, Any] | None = None, note: str = ""
) -> None:
    """The hand-written gradient is that of the function, by `autograd.gradcheck`.

    mistakes: message: a function that returns True for an answer with that mistake, asked only of a wrong answer
    note: what to say beside an exception of vjp
    """
    names = list(inspect.signature(function).parameters)[: len(inputs)]
    y = np.asarray(function(*inputs))
    found = _called(vjp, y, inputs, names, note)
    if _results_alone:
        raise Wrong("", found=found, names=names)
    try:
        _check_shapes(found, inputs, names)
        gradcheck(from_vjp(function, vjp), list(inputs))
    except (GradcheckError, Wrong) as error:
        message = next((message for message, is_it in (mistakes or {}).items() if _holds(is_it)), None)
        for name in _without_g(found, _called(vjp, y, inputs, names, note, seed=1), names):
            message = message or f"the gradient of {name} does not depend on the incoming gradient, g"
        wrong = Wrong(message or _with_names(str(error), names), found=found, names=names)
        wrong.is_named = bool(message) or isinstance(error, Wrong)
        raise wrong from None


def _holds(is_it: Callable[[], Any]) -> bool:
    """Return whether an answer has a mistake; not if it has another that makes the comparison impossible."""
    try:
        with np.errstate(all="ignore"):
            return bool(is_it())
    except (TypeError, ValueError, IndexError):
        return False


def _called(
    vjp: Callable, y: Array, inputs: tuple[Any, ...], names: list[str], note: str, seed: int = 0
) -> Sequence[Any]:
    """Call vjp as gradcheck will: an error in it is then the student's, and shapes are named as the student does."""
    try:
        found = vjp(np.random.default_rng(seed).standard_normal(y.shape), *inputs)
    except Exception as error:
        shapes = [f"{name} {x.shape}" for name, x in zip(["g", *names], [y, *inputs], strict=True)]
        error.add_note(f"the shapes are {', '.join(shapes)}")
        if note:
            error.add_note(note)
        raise
    return found if isinstance(found, (tuple, list)) else (found,)


def _check_shapes(found: Sequence[Any], inputs: tuple[Any, ...], names: list[str]) -> None:
    if len(found) != len(inputs):
        raise Wrong(f"{len(found)} gradient(s) are returned, expected {len(inputs)}: of {', '.join(names)}")
    for name, g, x in zip(names, found, inputs, strict=True):
        if g is None:
            raise Wrong(f"the gradient of {name} is None: is `return` missing?")
        if np.shape(g) != x.shape:
            raise Wrong(f"the gradient of {name} has shape {np.shape(g)}, expected that of {name}, {x.shape}")


def _without_g(one: Sequence[Any], other: Sequence[Any], names: list[str]) -> list[str]:
    """Return the inputs whose gradient is the same for two incoming gradients, and not 0."""
    return [name for name, a, b in zip(names, one, other, strict=False) if np.array_equal(a, b) and np.any(a)]


def _with_names(message: str, names: list[str]) -> str:
    message = re.sub(r"\binput (\d+)(?![\w.])", lambda m: names[int(m[1])], message)
    return re.sub(r"\bthe input(?=[ \[:])", names[0], message, count=0) if len(names) == 1 else message


def equal(what: str, found: Any, expected: Any, tolerance: float = 1e-9) -> None:
    """`found` is `expected`, up to rounding."""
    if found is None:
        raise Wrong(f"{what} is None: is `return` missing?")
    if isinstance(found, dict | set):
        raise Wrong(f"{what} is a {type(found).__name__}, expected a list or an array")
    expected = np.asarray(expected)
    try:
        found = np.asarray(found)
    except ValueError:
        found = np.asarray(None)
    if close(found, expected, tolerance):
        return
    if found.dtype.kind not in "biufc":
        raise Wrong(f"{what} is of type {found.dtype}, expected numbers")
    if found.shape != expected.shape:
        raise Wrong(f"{what} has shape {found.shape}, expected {expected.shape}", what, [found])
    relation = "" if bool in (found.dtype, expected.dtype) else _relation(what, found, expected)
    wrong = Wrong(relation or f"{what} is wrong{_at_first_difference(found, expected, tolerance)}", what, [found])
    wrong.picture = "" if relation else side_by_side(found, expected)
    raise wrong


def _relation(what: str, found: Array, right: Array) -> str:
    """Describe what all wrong values have in common; "" if they have nothing."""
    if not np.isfinite(found).all() and np.isfinite(right).all():
        return f"{what} has values that are not finite: does exp overflow, or is 0 divided by 0?"
    if found.size < 2 or not np.isfinite(right).all():
        return ""
    if not found.any() and what.startswith("the gradient"):
        return f"{what} is 0: nothing passes back to it"
    if close(found, -right):
        return f"{what} has the wrong sign"
    apart = right != 0
    if apart.sum() > 1 and not found[~apart].any():
        ratio = found[apart] / right[apart]
        if np.ptp(ratio) < 1e-9 * abs(ratio).max():
            return f"{what} is {ratio.flat[0]:.6g} times the right one"
    if apart.sum() > 1 and abs(np.ptp(found - right)) < 1e-9 * abs(right).max():
        return f"{what} is {(found - right).flat[0]:.6g} more than the right one, everywhere"
    if found.ndim > 1 and found.shape[-1] == found.shape[-2] and close(found, right.swapaxes(-1, -2)):
        return f"{what} has its last two axes exchanged"
    for axis, size in enumerate(found.shape):
        for by in (1, -1):
            if size > 2 and close(found, np.roll(right, by, axis)):
                return f"{what} is the right one, moved by {abs(by)} along axis {axis}"
            if size > 2 and close(found, np.flip(right, axis)):
                return f"{what} is the right one, in reverse along axis {axis}"
    return ""


SHADES = " ·-+*#@"


def side_by_side(found: Array, right: Array) -> str:
    """Two matrices as characters, the larger the darker, and where they differ; "" for others than small matrices."""
    if found.size < 2 or found.size > 400 or found.shape[-1] > 24 or found.shape != right.shape:
        return ""
    found, right = (np.where(np.isfinite(a), a, np.nan).astype(float) for a in (found, right))
    rows = [a.reshape(-1, a.shape[-1]) for a in (found, right)]
    top = max(float(np.nanmax(np.abs(a), initial=0.0)) for a in rows) or 1.0

    def drawn(row: np.ndarray) -> str:
        return "".join(SHADES[min(int(abs(v) / top * len(SHADES)), len(SHADES) - 1)] if v == v else "?" for v in row)

    wide = max(found.shape[-1], 6) + 2
    lines = [f"    {'yours':{wide}}{'right':{wide}}differs"]
    for a, b in zip(*rows, strict=True):
        differs = "".join("x" if abs(p - q) > 1e-6 * top or p != p else "." for p, q in zip(a, b, strict=True))
        lines.append(f"    {drawn(a):{wide}}{drawn(b):{wide}}{differs}")
    return "\n\n" + "\n".join(lines[:21])


def told(what: str, found: Any, expected: Any, mistakes: Mapping[str, Any]) -> None:
    """`found` is `expected`; else, the mistake is the one whose result it is.

    mistakes: message: the result of an answer with that mistake
    """
    try:
        equal(what, found, expected)
    except Wrong as wrong:
        for message, result in mistakes.items():
            if found is not None and close(np.asarray(found), np.asarray(result)):
                raise Wrong(f"{what}: {message}", what, wrong.found) from None
        raise


def predicted(what: str, found: Any, measured: float, tolerance: float) -> None:
    """The learner's prediction is what an experiment gives, within a relative tolerance."""
    true(isinstance(found, int | float | np.number), f"{what}: the prediction is {found!r}, expected a number")
    if not abs(found - measured) <= tolerance * abs(measured):
        raise Wrong(f"{what}: you predict {found:.7g}, the experiment gives {measured:.7g}", what, [found])


def close(found: Array, expected: Array, tolerance: float = 1e-9) -> bool:
    """Return whether two arrays have one shape and the same values, up to rounding."""
    if found.shape != expected.shape or found.dtype.kind not in "biufc":
        return False
    if found.dtype == bool or expected.dtype == bool:
        return found.dtype == expected.dtype and bool((found == expected).all())
    return bool(np.allclose(found, expected, rtol=tolerance, atol=min(tolerance, 1e-9), equal_nan=True))


def _at_first_difference(found: Array, expected: Array, tolerance: float) -> str:
    if not found.ndim:
        return f": it is {found:.10g}, expected {expected:.10g}"
    if found.dtype == bool or expected.dtype == bool:
        if found.dtype != expected.dtype:
            return f": its type is {found.dtype}, expected {expected.dtype}"
        place = np.argwhere(found != expected)[0]
    else:
        with np.errstate(invalid="ignore"):
            place = np.argwhere(~(abs(found - expected) <= tolerance * (1 + abs(expected))))[0]
    at = tuple(place.tolist())
    number = (lambda a: str(a)) if found.dtype == bool else (lambda a: f"{a:.10g}")
    return f" at [{', '.join(map(str, at))}]: it is {number(found[at])}, expected {number(expected[at])}"


def true(condition: Any, message: str) -> None:
    """Raises: Wrong with the message unless the condition holds"""
    if not condition:
        raise Wrong(message)


def unchanged(what: str, before: Array, after: Array) -> None:
    """An argument has the values that it had."""
    true(np.array_equal(before, after), f"the function changes {what} in place; let it work on a copy")


def raises(kind: type[Exception], call: Callable[[], Any], message: str) -> None:
    """The call raises an exception of that kind."""
    try:
        call()
    except kind:
        return
    raise Wrong(message)
