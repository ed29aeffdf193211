"""The log as series of numbers, thinned to curves, and line charts of them."""

import itertools
import json
import math
import re
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest

from additions.pages.learning_curves import (
    BOTTOM,
    HEIGHT,
    LEFT,
    MOST_POINTS,
    RIGHT,
    TOP,
    WIDTH,
    Curve,
    LogSeries,
    Scale,
    Series,
    as_number,
    curve_of,
    draw_chart,
    short,
    ticks,
)
from minitf.errors import UserError


def test_a_log_is_read_as_it_grows(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 1, "loss": 3.5, "note": "x"}\n{"step": 2, "lo', encoding="utf-8")
    log = LogSeries(path)
    log.read_on()
    assert (list(log["loss"].steps), list(log["loss"].values)) == ([1], [3.5])
    assert len(log["note"]) == len(log["nothing"]) == 0
    with open(path, "a", encoding="utf-8") as file:
        file.write('ss": "nan"}\n{"step": 4, "valid_loss": 2}\n')
    log.read_on()
    log.read_on()
    assert list(log["loss"].steps) == [1, 2]
    assert math.isnan(log["loss"].values[1])
    assert (list(log["valid_loss"].steps), list(log["valid_loss"].values)) == ([4], [2])
    assert log.newest == {"step": 4, "loss": "nan", "note": "x", "valid_loss": 2}


def test_a_log_that_cannot_be_read(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*No such file"):
        LogSeries(tmp_path / "log.jsonl").read_on()
    for content in (
        "{}\n",
        "[]\n",
        "3\n",
        "nonsense\n",
        '{"step": "x"}\n',
        '{"step": 1.5}\n',
        '{"step": 1e300}\n',
        "\n",
    ):
        (tmp_path / "log.jsonl").write_text(content, encoding="utf-8")
        with pytest.raises(UserError, match=r"log\.jsonl.*line 1"):
            LogSeries(tmp_path / "log.jsonl").read_on()


@pytest.mark.parametrize(
    ("value", "number"),
    [(3, 3.0), (0.5, 0.5), ("inf", math.inf), ("-inf", -math.inf), ("12", None), (True, None), (None, None)],
)
def test_what_is_a_number(value, number):
    assert as_number(value) == number


def test_few_points_stay_as_they_are():
    series = Series()
    for step in range(1, 6):
        series.add(step, [1.0, math.nan, 3.0, math.inf, 5.0][step - 1])
    curve = curve_of(series, "loss", "train", 10)
    assert curve.x == [1, 3, 5]
    assert curve.y == curve.low == curve.high == [1, 3, 5]
    assert curve.has_dots


def test_many_points_become_means_with_their_extremes():
    series = Series()
    values = np.random.default_rng(0).standard_normal(1003)
    for step, value in enumerate(values, start=1):
        series.add(step, value)
    curve = curve_of(series, "loss", "train", 100)
    assert len(curve.x) <= 100
    assert curve.x[-1] == 1003
    assert not curve.has_dots
    size = 11
    for i, (mean, low, high) in enumerate(zip(curve.y, curve.low, curve.high, strict=True)):
        some = values[i * size : (i + 1) * size]
        assert (mean, low, high) == (pytest.approx(some.mean()), some.min(), some.max())


def test_a_series_longer_than_is_kept_has_means_and_exact_extremes(monkeypatch):
    monkeypatch.setattr("additions.pages.learning_curves.MOST_GROUPS", 8)
    values = np.random.default_rng(1).standard_normal(43)
    values[[5, 17]] = math.nan, math.inf
    series = Series()
    for step, value in enumerate(values, start=1):
        series.add(step, value)
    assert (series.size, series.count, series.last) == (8, 43, values[-1])
    assert list(series.steps) == [8, 16, 24, 32, 40, 43]
    for i, end in enumerate(series.steps):
        some = values[8 * i : int(end)]
        some = some[np.isfinite(some)]
        assert (series.low[i], series.high[i]) == (some.min(), some.max())
        assert series.low[i] < series.values[i] < series.high[i]
        if len(some) in (8, 3):  # else the halves of a group weigh the same
            assert series.values[i] == pytest.approx(some.mean())
    assert curve_of(series, "loss", "train").group == 8


@pytest.mark.heavy
def test_what_is_kept_of_a_log_is_bounded(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(f'{{"step": {step}, "loss": {step % 7}}}\n' for step in range(1, 40_001)))
    log = LogSeries(path)
    log.read_on()
    assert len(log["loss"]) == 10_000
    assert log["loss"].total == sum(step % 7 for step in range(1, 40_001))
    assert (log["loss"].steps[-1], log["loss"].last) == (40_000, 40_000 % 7)
    with open(path, "a") as file:
        file.write(json.dumps({"step": 1, **{f"name {i}": 0 for i in range(300)}}) + "\n")
    with pytest.raises(UserError, match=r"line 40001: the log has more than 256 names of values, which no run has"):
        log.read_on()


def test_a_long_run_has_no_more_points_than_can_be_seen():
    series = Series()
    for step in range(1, 4 * MOST_POINTS + 1):
        series.add(step, 1 + step % 2)
    curve = curve_of(series, "loss", "train")
    assert len(curve.x) == MOST_POINTS
    assert (set(curve.y), set(curve.low), set(curve.high)) == ({1.5}, {1}, {2})


def test_a_line_that_is_not_ours_names_its_place(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"step": 1}) + "\n", encoding="utf-8")
    log = LogSeries(path)
    log.read_on()
    with open(path, "a", encoding="utf-8") as file:
        file.write("nonsense\n")
    with pytest.raises(UserError, match="line 2"):
        log.read_on()


# ---- Charts ----


def curve(*values, every=1, has_dots=False):
    steps = [every * i for i in range(1, len(values) + 1)]
    return Curve("a", "train", x=steps, y=values, low=values, high=values, has_dots=has_dots)


def points(text):
    return [tuple(map(float, pair.split(","))) for pair in text.split()]


def lines(svg):
    return [points(each.get("points")) for each in ElementTree.fromstring(svg).iter("polyline")]


def test_a_curve_is_where_its_values_are():
    svg = draw_chart([curve(0, 5, 10, has_dots=True)], "title", from_zero=True)
    (line,) = lines(svg)
    right, floor = WIDTH - RIGHT, HEIGHT - BOTTOM
    assert [x for x, _ in line] == pytest.approx([LEFT + (right - LEFT) * step / 3 for step in (1, 2, 3)], abs=0.1)
    top = floor - (floor - TOP) * 10 / 10.5
    assert [y for _, y in line] == pytest.approx([floor, (floor + top) / 2, top], abs=0.1)
    assert len(list(ElementTree.fromstring(svg).iter("circle"))) == 3


def test_everything_stays_inside():
    for values in (
        [1],
        [0],
        [-3, -3],
        [-1, 2],
        [1e-9, 1e12],
        [1e-300],
        [1.5e-322],
        [0, 5e-324],
        [-1e-310, 1e-310],
        [-1e300, 1e300],
        [3] * 5000,
    ):
        for options in ({}, {"may_be_log": True}, {"from_zero": True}, {"ends": (0, 100)}):
            forward = curve(*values, every=7)
            for drawn in (forward, replace(forward, x=forward.x[::-1])):
                for x, y in itertools.chain.from_iterable(lines(draw_chart([drawn], "title", **options))):
                    assert LEFT <= x <= WIDTH - RIGHT
                    assert TOP - 0.05 <= y <= HEIGHT - BOTTOM + 0.05


def test_a_scale_of_scores_ends_where_scores_end():
    (line,) = lines(draw_chart([curve(40, 100)], "title", ends=(0, 100)))
    assert line[1][1] == pytest.approx(TOP, abs=0.05)
    assert line[0][1] < HEIGHT - BOTTOM
    (line,) = lines(draw_chart([curve(0, 40)], "title", ends=(0, 100)))
    assert line[0][1] == pytest.approx(HEIGHT - BOTTOM, abs=0.05)
    assert line[1][1] > TOP


def test_nothing_to_draw():
    assert draw_chart([curve(), curve()], "title") == ""


def test_a_wide_span_is_logarithmic_where_it_may_be():
    curves = [curve(1, 10, 100, 1000)]
    (log,) = lines(draw_chart(curves, "title", may_be_log=True))
    steps = [before[1] - after[1] for before, after in itertools.pairwise(log)]
    assert steps == pytest.approx([steps[0]] * 3, abs=0.2)
    (linear,) = lines(draw_chart(curves, "title"))
    assert linear[1][1] - linear[0][1] != pytest.approx(linear[2][1] - linear[1][1], abs=1)


def test_the_range_of_the_values_is_a_band():
    flat = Curve("a", "train", x=[1, 2, 3], y=[1.5] * 3, low=[1] * 3, high=[2] * 3)
    svg = draw_chart([flat], "title")
    (band,) = ElementTree.fromstring(svg).iter("polygon")
    heights = {y for _, y in points(band.get("points"))}
    assert len(heights) == 2
    assert min(heights) < lines(svg)[0][0][1] < max(heights)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0, 10, [0, 2, 4, 6, 8, 10]),
        (0.3, 1.01, [0.4, 0.6, 0.8, 1.0]),
        (-1, 1, [-1, -0.5, 0, 0.5, 1]),
        (0, 2799, [0, 1000, 2000]),
        (35, 38.6, [35, 36, 37, 38]),
    ],
)
def test_ticks_are_round_numbers_inside(low, high, expected):
    assert ticks(Scale(low, high, 0, 1)) == pytest.approx(expected)


def test_ticks_of_a_logarithmic_scale():
    assert ticks(Scale(1.5, 120, 0, 1, is_log=True)) == pytest.approx([2, 5, 10, 20, 50, 100])
    assert ticks(Scale(4.5, 8000, 0, 1, is_log=True)) == pytest.approx([5, 10, 50, 100, 500, 1000, 5000])
    assert ticks(Scale(1, 1e6, 0, 1, is_log=True)) == pytest.approx([10.0**i for i in range(7)])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (2.5, "2.5"), (1200, "1,200"), (25_000, "25k"), (1.5e6, "1.5M"), (3e9, "3G"), (0.0005, "5e-4"),
        (-0.00025, "-2.5e-4"), (0.0015, "0.0015"), (36.7253, "36.73"), (-12_000, "-12k"), (1e15, "1e+15"),
    ],
)  # fmt: skip
def test_short_numbers(value, text):
    assert short(value) == text


def test_names_are_text():
    svg = draw_chart([curve(1, 2)], '<b>"&')
    assert ElementTree.fromstring(svg).get("aria-label") == '<b>"&'
    assert not re.search("style=", svg)  # the page's policy forbids it
