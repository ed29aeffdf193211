"""A claim of the paper, the figure that tests it, and the rule that turns the figure into a verdict.

The rule is a range, stated with the claim: the claim holds where the whole interval of the figure lies in the range, it
does not where the whole interval lies outside, and between the two this scale cannot tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean, stdev
from typing import Any

from minitf.errors import UserError

HOLDS, DOES_NOT, UNDECIDED = "holds", "does not hold", "not at this scale"
STUDENT = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""The 97.5 % points of Student's t with 1, 2, … degrees of freedom."""


@dataclass(frozen=True)
class Figure:
    """What was measured, with its 95 % interval; low = high = value where nothing was sampled."""

    value: float
    low: float
    high: float
    text: str
    """Further figures, for the reader; the verdict does not depend on them."""


def exact(value: float, text: str = "") -> Figure:
    """A figure without chance."""
    return Figure(float(value), float(value), float(value), text)


def sampled(values: Sequence[float], text: str = "") -> Figure:
    """The mean of independent values with its 95 % interval by Student's t; without bounds if there is one value."""
    center = mean(values)
    if len(values) < 2:
        return Figure(center, -math.inf, math.inf, text)
    factor = STUDENT[min(len(values) - 2, len(STUDENT) - 1)]
    half = factor * stdev(values) / math.sqrt(len(values))
    return Figure(center, center - half, center + half, text)


@dataclass(frozen=True)
class Rule:
    """The claim holds if `what` lies between `lowest` and `highest`."""

    what: str
    lowest: float = -math.inf
    highest: float = math.inf

    def verdict(self, figure: Figure) -> str:
        if self.lowest <= figure.low and figure.high <= self.highest:
            return HOLDS
        if figure.high < self.lowest or figure.low > self.highest:
            return DOES_NOT
        return UNDECIDED

    def __str__(self) -> str:
        if self.lowest == self.highest:
            return f"{self.what} = {self.lowest:g}"
        if math.isinf(self.highest):
            return f"{self.what} ≥ {self.lowest:g}"
        if math.isinf(self.lowest):
            return f"{self.what} ≤ {self.highest:g}"
        return f"{self.what} from {self.lowest:g} to {self.highest:g}"


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper and what is done to test it."""

    name: str
    section: str
    sentence: str
    done: str
    rule: Rule
    measure: Callable[[Any], Figure]
    """Given the `Study`: sizes, seeds and trained models."""


CLAIMS: dict[str, Claim] = {}
"""All claims by name, in the order of the paper's sections."""


def claim(
    name: str, section: str, sentence: str, rule: Rule, done: str | None = None
) -> Callable[[Callable[[Any], Figure]], Any]:
    """Register a function of a `Study` as the test of a sentence; `done`, or its docstring, says what is done."""

    def register(measure: Callable[[Any], Figure]) -> Callable[[Any], Figure]:
        if name in CLAIMS:
            raise ValueError(f"there are two claims {name!r}")
        what = " ".join((done or measure.__doc__ or "").split())
        CLAIMS[name] = Claim(name, section, sentence, what, rule, measure)
        return measure

    return register


def chosen(names: Sequence[str]) -> list[Claim]:
    """The claims of these names, all without any.  Raises: UserError for an unknown name"""
    if unknown := [name for name in names if name not in CLAIMS]:
        raise UserError(f"there is no claim {unknown[0]!r}; --list prints their names")
    return [CLAIMS[name] for name in names or CLAIMS]
