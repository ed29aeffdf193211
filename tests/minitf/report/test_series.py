"""Reading the log as columns, and thinning them."""

import json
import math

import numpy as np
import pytest

from minitf.errors import UserError
from minitf.report.series import MOST_POINTS, LogSeries, Series, as_number, curve_of


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
    for content in ("{}\n", "[]\n", "3\n", "nonsense\n", '{"step": "x"}\n', "\n"):
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
