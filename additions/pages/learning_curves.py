"""The learning curves of a run: its log as series of numbers, read while it grows, and line charts of them as SVG.

A chart takes its colours from the style sheet of the page.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from additions.pages.run_log import parsed_lines
from minitf.system.environment import sum_left_to_right
from minitf.system.files import parse_json

WIDTH, HEIGHT = 640, 250  # of a chart, in its own units
LEFT, RIGHT, TOP, BOTTOM = 84, 12, 12, 28
LOG_SPAN = 12  # ratio of the largest to the smallest value from which a scale may be logarithmic
MOST_POINTS = 400  # of a curve: more than one per two pixels cannot be seen
MOST_GROUPS = 2**14  # of a series: an even number
MOST_NAMES = 256  # of quantities in a log
LARGEST = 2**63  # of a whole number; a larger one is not a count
LARGEST_DRAWN = 1e300  # the distance of two such values is finite
DOTTED_POINTS = 60  # up to this number, each point of a curve gets a dot


# ---- The log ----------------------------------------------------------------------------------------------------


@dataclass
class Series:
    """The values of one quantity and the steps at which it was logged, in at most MOST_GROUPS groups of neighbours.

    size: number of values of a group, 1 at first. Of each group, the last step, and mean and range of the values are
    kept; they may be NaN or infinite if all are.
    """

    steps: array = field(default_factory=lambda: array("d"))
    values: array = field(default_factory=lambda: array("d"))
    low: array = field(default_factory=lambda: array("d"))
    high: array = field(default_factory=lambda: array("d"))
    size: int = 1
    count: int = 0  # of all values
    total: float = 0.0
    last: float = math.nan

    def add(self, step: float, value: float) -> None:
        """Add a value; when the series is full, neighbouring groups are merged."""
        if self.count % self.size == 0:
            if len(self.steps) == MOST_GROUPS:
                self._halve()
            for kept, number in ((self.steps, step), (self.values, value), (self.low, value), (self.high, value)):
                kept.append(number)
        else:
            self._join(-1, step, value, value, value, weight=1 / (self.count % self.size + 1))
        self.count, self.total, self.last = self.count + 1, self.total + value, value

    def _halve(self) -> None:
        """Make each two groups one."""
        for i in range(0, len(self.steps), 2):
            self._join(i, self.steps[i + 1], self.values[i + 1], self.low[i + 1], self.high[i + 1], weight=0.5)
        for each in (self.steps, self.values, self.low, self.high):
            del each[1::2]
        self.size *= 2

    def _join(self, i: int, step: float, value: float, low: float, high: float, weight: float) -> None:
        """Add values to group i; `weight`: their share of it."""
        self.steps[i] = step
        if not math.isfinite(self.values[i]):
            self.values[i], self.low[i], self.high[i] = value, low, high
        elif math.isfinite(value):
            self.values[i] += weight * (value - self.values[i])
            self.low[i], self.high[i] = min(self.low[i], low), max(self.high[i], high)

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
        for _, end in parsed_lines(self.path, self._take, self._read, self._lines + 1):
            self._read, self._lines = end, self._lines + 1

    def _take(self, line: bytes) -> None:
        record = parse_json(line)
        step = as_number(record.get("step")) if isinstance(record, dict) else None
        if step is None or not 0 <= step <= LARGEST or step % 1:
            raise ValueError("the line is not an object with a step, a whole number")
        self.newest.update(record)
        if len(self.newest) > MOST_NAMES:
            raise ValueError(f"the log has more than {MOST_NAMES} names of values, which no run has; remove the line")
        for name, value in record.items():
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


# ---- Charts ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Curve:
    """A line through points, with the range of the values that each point stands for.

    group: number of values of a point
    """

    name: str
    colour: str  # class of the style sheet
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    has_dots: bool = False
    group: int = 1


def curve_of(series: Series, name: str, colour: str, most_points: int = MOST_POINTS) -> Curve:
    """The curve of a series through the means of groups of equally many values, without those that cannot be drawn."""
    found = zip(series.steps, series.values, series.low, series.high, strict=True)
    drawn = [each for each in found if all(abs(number) <= LARGEST_DRAWN for number in each)]
    size = max(1, math.ceil(len(drawn) / most_points))
    groups = [list(zip(*drawn[i : i + size], strict=True)) for i in range(0, len(drawn), size)]
    return Curve(
        name,
        colour,
        x=[steps[-1] for steps, *_ in groups],
        y=[sum_left_to_right(means) / len(means) for _, means, *_ in groups],
        low=[min(low) for *_, low, _ in groups],
        high=[max(high) for *_, high in groups],
        has_dots=len(groups) <= DOTTED_POINTS,
        group=size * series.size,
    )


@dataclass(frozen=True)
class Scale:
    """Map from values to pixels."""

    low: float
    high: float
    start: float  # pixels at `low`
    end: float  # pixels at `high`
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(min(max(value, self.low), self.high))
        share = (value - low) / (high - low)
        return self.start + share * (self.end - self.start)


def draw_chart(
    curves: Sequence[Curve],
    title: str,
    unit: str = "",
    *,
    may_be_log: bool = False,
    from_zero: bool = False,
    ends: tuple[float, float] = (-math.inf, math.inf),
) -> str:
    """Return the chart as an <svg> element of a page; "" if no curve has a point.

    unit: of the values, beside their axis; the other axis has steps
    may_be_log: use a logarithmic scale if the values span more than a decade
    from_zero: the scale begins at zero
    ends: the least and greatest possible value; the scale does not extend beyond them
    """
    curves = [curve for curve in curves if len(curve.x)]
    if not curves:
        return ""
    x = Scale(0, max(max(curve.x) for curve in curves) or 1.0, LEFT, WIDTH - RIGHT)
    y = value_scale(curves, may_be_log, from_zero, ends)
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, *_grid(x, y, unit), *(_curve(curve, x, y) for curve in curves), "</svg>"])


def value_scale(curves: Sequence[Curve], may_be_log: bool, from_zero: bool, ends: tuple[float, float]) -> Scale:
    """Return a scale that holds all points; logarithmic if it may be and the values are positive and span enough."""
    low, high = min(min(curve.low) for curve in curves), max(max(curve.high) for curve in curves)
    if may_be_log and low > 0 and high / low >= LOG_SPAN:
        return Scale(low / 1.08, high * 1.08, HEIGHT - BOTTOM, TOP, is_log=True)
    from_zero = from_zero and low >= 0
    low = 0.0 if from_zero else low
    room = 0.05 * (high - low) or 0.05 * abs(high)
    if room < 1 / LARGEST_DRAWN:  # the unit of its ticks might be zero
        room = 1.0
    least, greatest = min(ends[0], low), max(ends[1], high)  # a log may hold what no score can be
    bottom, top = low if from_zero else max(low - room, least), min(high + room, greatest)
    return Scale(bottom, top, HEIGHT - BOTTOM, TOP)


def _grid(x: Scale, y: Scale, unit: str) -> list[str]:
    middle = (TOP + HEIGHT - BOTTOM) / 2
    names = [f'transform="translate(11,{middle}) rotate(-90)" text-anchor="middle">{escape(unit)}']
    names += [f'x="{LEFT - 16}" y="{HEIGHT - 9}" text-anchor="end">step']
    parts = [f'<text class="tick" {name}</text>' for name in names]
    for value in ticks(y):
        height = y(value)
        parts.append(f'<path class="grid" d="M{LEFT},{height:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 7}" y="{height + 4:.1f}" text-anchor="end">{short(value)}</text>')
    for value in ticks(x, 6):
        anchor = "end" if value > x.high * 0.97 else "middle"
        place = f'x="{x(value):.1f}" y="{HEIGHT - 9}" text-anchor="{anchor}"'
        parts.append(f'<text class="tick" {place}>{short(value)}</text>')
    return [*parts, f'<path class="axis" d="M{LEFT},{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']


def _curve(curve: Curve, x: Scale, y: Scale) -> str:
    def points(values: Sequence[float]) -> list[str]:
        return [f"{x(a):.1f},{y(b):.1f}" for a, b in zip(curve.x, values, strict=True)]

    parts = [f'<g class="curve {curve.colour}">']
    if list(curve.low) != list(curve.high):
        parts.append(f'<polygon class="band" points="{" ".join([*points(curve.high), *points(curve.low)[::-1]])}"/>')
    parts.append(f'<polyline points="{" ".join(points(curve.y))}"/>')
    if curve.has_dots:
        places = [point.split(",") for point in points(curve.y)]
        parts += [f'<circle cx="{a}" cy="{b}" r="{3 if len(places) > 1 else 5}"/>' for a, b in places]
    return "".join([*parts, "</g>"])


def ticks(scale: Scale, about: int = 5) -> list[float]:
    """About `about` round numbers within a scale."""
    if scale.is_log:
        return log_ticks(scale.low, scale.high)
    rough = (scale.high - scale.low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    first = math.ceil(scale.low / step - 1e-9)
    count = math.floor(scale.high / step + 1e-9) - first + 1
    return [(first + i) * step for i in range(count)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … between two numbers; fewer per decade over many decades."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low <= 1e3 else (1, 5) if high / low <= 1e4 else (1,)
    return [value for decade in decades for factor in factors if low <= (value := factor * 10.0**decade) <= high]


def short(value: float) -> str:
    """Return a number in few characters: 1200 -> "1,200", 25000 -> "25k", 0.0007 -> "7e-4", 2.50 -> "2.5"."""
    size = abs(value)
    if size >= 10_000:
        for limit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
            if limit <= size < 1000 * limit:
                return f"{value / limit:.4g}{sign}"
        return f"{value:.2g}"
    if size >= 1000:
        return f"{value:,.0f}"
    if 0 < size < 0.001:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:.4g}"
