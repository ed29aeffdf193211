"""The log of a run as series of numbers, read while it grows, and their curves."""

from __future__ import annotations

import math
from array import array
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from autograd.inspect.chart import Curve
from minitf.errors import UserError
from minitf.system.environment import sum_left_to_right
from minitf.system.files import open_regular, os_errors_explained, parse_json

MOST_POINTS = 400  # of a curve: more than one per two pixels cannot be seen
LARGEST = 2**63  # of a whole number; a larger one is not a count
DOTTED_POINTS = 60  # up to this number, each point of a curve gets a dot


@dataclass
class Series:
    """The values of one quantity and the steps at which it was logged."""

    steps: array = field(default_factory=lambda: array("d"))
    values: array = field(default_factory=lambda: array("d"))  # may be NaN or infinite

    def add(self, step: float, value: float) -> None:
        self.steps.append(step)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.steps)


class LogSeries:
    """All numbers of a log by name: `log["loss"]`, `log["valid_perplexity"]`, …"""

    def __init__(self, path: Path):
        self.path = path
        self.newest: dict[str, Any] = {}  # the latest value of each name, of any type
        self._series: dict[str, Series] = {}
        self._read = 0  # bytes
        self._lines = 0

    def __getitem__(self, name: str) -> Series:
        return self._series.get(name) or Series()

    def number(self, name: str) -> float:
        """The latest value of a name; 0 where it is missing or not a finite number, as in a log from elsewhere."""
        found = as_number(self.newest.get(name))
        return found if found is not None and math.isfinite(found) else 0.0

    def read_on(self) -> None:
        """Read the lines that were written since the last call.

        Raises: UserError for a log that cannot be read and for an invalid line, with its number.
        """
        with os_errors_explained(f"read {self.path}"), open_regular(self.path) as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]  # the last line may be incomplete
        self._read += len(whole)
        for line in whole.split(b"\n")[:-1]:
            self._lines += 1
            try:
                self._take(parse_json(line))
            except ValueError as error:
                raise UserError(f"{self.path}, line {self._lines}: {error}") from error

    def _take(self, record: Any) -> None:
        step = as_number(record.get("step")) if isinstance(record, dict) else None
        if step is None or not 0 <= step < math.inf:
            raise ValueError("the line is not an object with a step")
        for name, value in record.items():
            self.newest[name] = value
            number = as_number(value)
            if number is not None:
                self._series.setdefault(name, Series()).add(step, number)


def as_number(value: Any) -> float | None:
    """A number of a log, in which "nan", "inf" and "-inf" stand for the numbers that JSON lacks; None for others."""
    if isinstance(value, str) and value not in ("nan", "inf", "-inf"):
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    return None if isinstance(value, int) and abs(value) > LARGEST else float(value)


def curve_of(series: Series, name: str, colour: str, most_points: int = MOST_POINTS) -> Curve:
    """The curve of a series through the means of groups of equally many values, without values that are not finite."""
    pairs = [(s, v) for s, v in zip(series.steps, series.values, strict=True) if math.isfinite(v)]
    size = max(1, math.ceil(len(pairs) / most_points))
    groups = [pairs[i : i + size] for i in range(0, len(pairs), size)]
    values = [[value for _, value in group] for group in groups]
    return Curve(
        name,
        colour,
        x=[group[-1][0] for group in groups],
        y=[sum_left_to_right(group) / len(group) for group in values],
        low=[min(group) for group in values],
        high=[max(group) for group in values],
        has_dots=len(groups) <= DOTTED_POINTS,
    )
