"""The log of a run as columns of numbers, read as it grows."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minitf.errors import UserError
from minitf.system.arithmetic import sum_left_to_right
from minitf.system.files import os_errors_explained, parse_json


@dataclass
class Series:
    """One quantity over the steps at which it was logged."""

    steps: array = field(default_factory=lambda: array("d"))
    values: array = field(default_factory=lambda: array("d"))  # NaN and infinity where the log says so

    def add(self, step: float, value: float) -> None:
        self.steps.append(step)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.steps)


class LogSeries:
    """Every number of a log by its name: `series["loss"]`, `series["valid_perplexity"]`, …"""

    def __init__(self, path: Path):
        self.path = path
        self.newest: dict[str, Any] = {}  # the newest value of each name, whatever it is
        self._series: dict[str, Series] = {}
        self._read = 0  # bytes
        self._lines = 0

    def __getitem__(self, name: str) -> Series:
        return self._series.get(name) or Series()

    def read_on(self) -> None:
        """Take in the lines that have been written since the last time.

        Raises: UserError for a log that cannot be read and for a line that is none of a log, with its number.
        """
        with os_errors_explained(f"read {self.path}"), open(self.path, "rb") as file:
            file.seek(self._read)
            lines = file.read()
        whole = lines[: lines.rfind(b"\n") + 1]  # a last line may be under way
        self._read += len(whole)
        for line in whole.split(b"\n")[:-1]:
            self._lines += 1
            try:
                self._take(parse_json(line))
            except ValueError as error:
                raise UserError(f"{self.path}, line {self._lines}: {error}") from error

    def _take(self, record: Any) -> None:
        step = as_number(record.get("step")) if isinstance(record, dict) else None
        if step is None:
            raise ValueError("it is not an object with a step")
        for name, value in record.items():
            self.newest[name] = value
            number = as_number(value)
            if number is not None:
                self._series.setdefault(name, Series()).add(step, number)


def as_number(value: Any) -> float | None:
    """A number of a log, in which "nan", "inf" and "-inf" stand for what JSON lacks; None for anything else."""
    if isinstance(value, str) and value not in ("nan", "inf", "-inf"):
        return None
    return float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else None


@dataclass(frozen=True)
class Thinned:
    """A curve of few points: the mean of each stretch of steps, and the least and greatest value in it."""

    steps: list[float]
    means: list[float]
    lows: list[float]
    highs: list[float]


def thinned(series: Series, most: int) -> Thinned:
    """At most `most` points, of equal numbers of values each; values that are not finite are left out."""
    pairs = [(s, v) for s, v in zip(series.steps, series.values, strict=True) if math.isfinite(v)]
    size = max(1, math.ceil(len(pairs) / most))
    groups = [pairs[i : i + size] for i in range(0, len(pairs), size)]
    return Thinned(
        steps=[group[-1][0] for group in groups],
        means=[mean([value for _, value in group]) for group in groups],
        lows=[min(value for _, value in group) for group in groups],
        highs=[max(value for _, value in group) for group in groups],
    )


def mean(values: Sequence[float]) -> float:
    return sum_left_to_right(values) / len(values)
