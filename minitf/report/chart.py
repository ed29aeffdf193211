"""Curves over the steps of a run as SVG: colours come from the page's style sheet, sizes from the view box."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from minitf.report.series import Series, Thinned, thinned

WIDTH, HEIGHT = 640, 250
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 12, 28
MOST_POINTS = 400  # of a curve: more than one for two pixels cannot be seen
FEW_POINTS = 60  # each gets a dot
LOG_SPAN = 12  # greatest over least value from which a scale is logarithmic, where it may be


@dataclass(frozen=True)
class Curve:
    """One line of a chart."""

    name: str
    series: Series
    colour: str  # a class of the style sheet


@dataclass(frozen=True)
class Scale:
    """From values to pixels."""

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
    """The chart as an <svg> element; "" where no curve has a point.

    may_be_log: where the values span more than a decade, equal factors take equal room
    from_zero: the scale begins at zero
    """
    drawn = [(curve, thinned(curve.series, MOST_POINTS)) for curve in curves]
    drawn = [(curve, points) for curve, points in drawn if points.steps]
    if not drawn:
        return ""
    x = Scale(0, max(1.0, *(points.steps[-1] for _, points in drawn)), LEFT, WIDTH - RIGHT)
    y = value_scale([points for _, points in drawn], may_be_log, from_zero)
    return "\n".join(
        [
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(title)}">',
            *_grid(x, y),
            *(_curve(curve, points, x, y) for curve, points in drawn),
            "</svg>",
        ]
    )


def value_scale(curves: Sequence[Thinned], may_be_log: bool, from_zero: bool) -> Scale:
    """A scale that holds all points; a curve that begins far above all the rest does not flatten it."""
    lows, highs = [min(points.lows) for points in curves], [max(points.highs) for points in curves]
    low, high = min(lows), max(highs)
    is_log = may_be_log and low > 0 and high / low >= LOG_SPAN
    if is_log:
        return Scale(low / 1.08, high * 1.08, HEIGHT - BOTTOM, TOP, is_log=True)
    low = 0.0 if from_zero else low
    room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
    return Scale(low if from_zero else low - room, high + room, HEIGHT - BOTTOM, TOP)


def _grid(x: Scale, y: Scale) -> list[str]:
    parts = []
    for value in ticks(y):
        height = y(value)
        parts.append(f'<path class="grid" d="M{LEFT},{height:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(f'<text class="tick" x="{LEFT - 7}" y="{height + 4:.1f}" text-anchor="end">{short(value)}</text>')
    for value in ticks(x, 6):
        end = value > x.high * 0.97
        parts.append(
            f'<text class="tick" x="{x(value):.1f}" y="{HEIGHT - 9}" text-anchor="{"end" if end else "middle"}">'
            f"{short(value)}</text>"
        )
    return [*parts, f'<path class="axis" d="M{LEFT},{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>']


def _curve(curve: Curve, points: Thinned, x: Scale, y: Scale) -> str:
    places = [(x(step), y(value)) for step, value in zip(points.steps, points.means, strict=True)]
    parts = [f'<g class="curve {curve.colour}">']
    if points.lows != points.highs:
        above = [f"{x(s):.1f},{y(v):.1f}" for s, v in zip(points.steps, points.highs, strict=True)]
        below = [f"{x(s):.1f},{y(v):.1f}" for s, v in zip(points.steps, points.lows, strict=True)]
        parts.append(f'<polygon class="band" points="{" ".join([*above, *reversed(below)])}"/>')
    parts.append(f'<polyline points="{" ".join(f"{a:.1f},{b:.1f}" for a, b in places)}"/>')
    if len(places) <= FEW_POINTS:
        parts += [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="{3 if len(places) > 1 else 5}"/>' for a, b in places]
    return "".join([*parts, "</g>"])


# ---- Numbers -----------------------------------------------------------------------------------------------------


def ticks(scale: Scale, about: int = 5) -> list[float]:
    """Round numbers inside a scale, `about` so many."""
    if scale.is_log:
        return log_ticks(scale.low, scale.high)
    rough = (scale.high - scale.low) / about
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if unit * factor >= rough * 0.999)
    first = math.ceil(scale.low / step - 1e-9)
    count = math.floor(scale.high / step + 1e-9) - first + 1
    return [(first + i) * step for i in range(count)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … between two numbers; fewer in each decade where they are far apart."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    factors = (1, 2, 5) if high / low <= 1e3 else (1, 5) if high / low <= 1e4 else (1,)
    return [value for decade in decades for factor in factors if low <= (value := factor * 10.0**decade) <= high]


def short(value: float) -> str:
    """A number in few characters: 1200 -> "1,200", 25000 -> "25k", 0.0007 -> "7e-4", 2.50 -> "2.5"."""
    size = abs(value)
    if size >= 10_000:
        for limit, sign in ((1e12, ""), (1e9, "G"), (1e6, "M"), (1e3, "k")):
            if limit <= size < 1000 * limit and sign:
                return f"{value / limit:.4g}{sign}"
        return f"{value:.2g}"
    if size >= 1000:
        return f"{value:,.0f}"
    if 0 < size < 0.001:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:.4g}"
