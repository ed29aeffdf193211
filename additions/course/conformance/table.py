"""The table of a conformance check."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from additions.course.expect import Wrong

Outcome = Literal["right", "wrong", "not given"]


class NotGiven(Exception):  # noqa: N818 (nothing is wrong)
    """A property cannot be looked at; the message says what to give."""


@dataclass(frozen=True)
class Row:
    """One property. detail: what was found, or what to give."""

    name: str
    outcome: Outcome
    detail: str = ""


@dataclass
class Table:
    """The properties that were looked at; `print(table)` shows them."""

    rows: list[Row] = field(default_factory=list)

    @classmethod
    def of(cls, checks: dict[str, Callable[[], str]]) -> Table:
        """A row for each check, by name; the first row alone if it is wrong, as the others would mean nothing then."""
        table = cls()
        for name, check in checks.items():
            table.look(name, check)
            if table.rows[0].outcome == "wrong":
                break
        return table

    @property
    def is_right(self) -> bool:
        """Whether no property is wrong, and one at least is right."""
        outcomes = [row.outcome for row in self.rows]
        return "wrong" not in outcomes and "right" in outcomes

    def outcome(self, name: str) -> Outcome:
        """Return the outcome of the row of that name."""
        return next(row.outcome for row in self.rows if row.name == name)

    def look(self, name: str, check: Callable[[], str]) -> None:
        """Add a row: `check` returns what was found, or raises NotGiven or Wrong."""
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):  # of what was handed in
                warnings.simplefilter("ignore")
                row = Row(name, "right", check())
        except NotGiven as reason:
            row = Row(name, "not given", str(reason))
        except Wrong as reason:
            row = Row(name, "wrong", str(reason))
        except Exception as error:  # of what was handed in, of any kind
            text = " ".join(str(error).split())
            row = Row(name, "wrong", f"raises {type(error).__name__}: {text[:300]}")
        self.rows.append(row)

    def __str__(self) -> str:
        width = max((len(row.name) for row in self.rows), default=0)
        lines = []
        for row in self.rows:
            start = f"{row.name:{width}}  {row.outcome:9}  "
            lines.append(textwrap.fill(row.detail, 116, initial_indent=start, subsequent_indent=" " * len(start)))
            if not row.detail:
                lines[-1] = start.rstrip()
        return "\n".join([*lines, self.summary])

    @property
    def summary(self) -> str:
        """ "all right" or "3 wrong", and how many properties were not looked at."""
        count = [row.outcome for row in self.rows].count
        if count("wrong"):
            text = f"{count('wrong')} wrong"
        else:
            text = "all right" if count("right") else "nothing right"
        return text + (f", {count('not given')} not given" if count("not given") else "")
