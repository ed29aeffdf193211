"""Line charts as SVG: of memory over time, and of the report pages of training runs.

A chart in a page takes its colours from the page's style sheet, a chart in a file of its own from `STYLE`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 28
LOG_SPAN = 12  # ratio of the largest to the smallest value from which a scale may be logarithmic
CAPTION = 20  # height of the line above a chart in a file of its own
STYLE = """
svg { background: #ffffff; font: 11px sans-serif; }
.grid { stroke: #dddddd; } .axis { stroke: #888888; } .tick { fill: #555555; }
polyline { fill: none; stroke: #4a7fb5; } .band { fill: #cfe3f7; } circle { fill: #b5443a; }
"""


@dataclass(frozen=True)
class Curve:
    """A line through points, with the range of the values that each point stands for."""

    name: str
    colour: str  # class of the style sheet
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float]
    high: Sequence[float]
    has_dots: bool = False


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


def draw_chart(curves: Sequence[Curve], title: str, *, may_be_log: bool = False, from_zero: bool = False) -> str:
    """The chart as an <svg> element of a page; "" if no curve has a point.

    may_be_log: use a logarithmic scale if the values span more than a decade
    from_zero: the scale begins at zero
    """
    inside = _draw(curves, may_be_log, from_zero)
    head = f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">'
    return "\n".join([head, *inside, "</svg>"]) if inside else ""


def write_chart(path: str | Path, curves: Sequence[Curve], caption: str, *, x_unit: str, y_unit: str) -> None:
    """Write the chart to an SVG file, with scales from zero, ticks with units, and a caption above it."""
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT + CAPTION}" '
        f'viewBox="0 {-CAPTION} {WIDTH} {HEIGHT + CAPTION}">',
        f"<style>{STYLE}</style>",
        f'<text x="{LEFT}" y="0">{escape(caption)}</text>',
        *_draw(curves, False, True, x_unit, y_unit),
        "</svg>",
        "",
    ]
    Path(path).write_text("\n".join(lines), encoding="utf-8")


def _draw(curves: Sequence[Curve], may_be_log: bool, from_zero: bool, x_unit: str = "", y_unit: str = "") -> list[str]:
    curves = [curve for curve in curves if len(curve.x)]
    if not curves:
        return []
    x = Scale(0, max(curve.x[-1] for curve in curves) or 1.0, LEFT, WIDTH - RIGHT)
    y = value_scale(curves, may_be_log, from_zero)
    return [*_grid(x, y, x_unit, y_unit), *(_curve(curve, x, y) for curve in curves)]


def value_scale(curves: Sequence[Curve], may_be_log: bool, from_zero: bool) -> Scale:
    """A scale that holds all points; logarithmic if it may be and the values are positive and span enough."""
    low, high = min(min(curve.low) for curve in curves), max(max(curve.high) for curve in curves)
    if may_be_log and low > 0 and high / low >= LOG_SPAN:
        return Scale(low / 1.08, high * 1.08, HEIGHT - BOTTOM, TOP, is_log=True)
    low = 0.0 if from_zero else low
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(low if from_zero else low - room, high + room, HEIGHT - BOTTOM, TOP)


def _grid(x: Scale, y: Scale, x_unit: str, y_unit: str) -> list[str]:
    parts = []
    for value in ticks(y):
        height = y(value)
        parts.append(f'<path class="grid" d="M{LEFT},{height:.1f}H{WIDTH - RIGHT}"/>')
        label = short(value) + y_unit
        parts.append(f'<text class="tick" x="{LEFT - 7}" y="{height + 4:.1f}" text-anchor="end">{label}</text>')
    for value in ticks(x, 6):
        anchor = "end" if value > x.high * 0.97 else "middle"
        label = short(value) + x_unit
        parts.append(f'<text class="tick" x="{x(value):.1f}" y="{HEIGHT - 9}" text-anchor="{anchor}">{label}</text>')
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


# ---- Numbers -----------------------------------------------------------------------------------------------------


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
    """A number in few characters: 1200 -> "1,200", 25000 -> "25k", 0.0007 -> "7e-4", 2.50 -> "2.5"."""
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
