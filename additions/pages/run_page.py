"""report.html: the state and the curves of a training run, from its log; renewed during training."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass
from html import escape
from types import TracebackType
from typing import Any, Self

from additions.pages.learning_curves import Curve, LogSeries, Series, curve_of, draw_chart, short
from additions.pages.page import page, write_page
from minitf.config import RunConfig
from minitf.config.options import shown
from minitf.errors import UserError, shortened
from minitf.storage.run_directory import RunDirectory
from minitf.system.process import clock

REFRESH_S = 10
"""Time between reloads of the page of a running run in a browser."""
SILENT_S = 120.0
"""Shortest time without a new page after which a running run is shown as silent."""
SHARE = 0.005  # largest share of the time of a run that is spent on its page
SOONEST_S = 2.0  # shortest time between two writes
RUNNING, FINISHED, STOPPED, FAILED = "training", "finished", "stopped", "failed"


@dataclass(frozen=True)
class Chart:
    """One chart of the page."""

    title: str
    curves: list[Curve]
    unit: str  # of the vertical axis
    about: str = ""
    may_be_log: bool = False
    from_zero: bool = False
    ends: tuple[float, float] = (-math.inf, math.inf)


def run_page(
    log: LogSeries, config: RunConfig, name: str, status: str, *, note: str = "", parameters: int | None = None
) -> str:
    """Return the page as HTML.

    status: RUNNING, FINISHED, STOPPED or FAILED; note: details of the status; parameters: of the model, if known
    """
    charts = [chart for chart in charts_of(log) if any(len(curve.x) for curve in chart.curves)]
    body = "\n".join(
        [
            _header(log, config, name, status, note),
            f'<div class="tiles">{"".join(tiles(log, parameters))}</div>',
            '<main class="charts">',
            *(_card(chart, number) for number, chart in enumerate(charts)),
            "</main>",
            _settings(config),
        ]
    )
    reload = f'<noscript><meta http-equiv="refresh" content="{REFRESH_S}"></noscript>' if status == RUNNING else ""
    data = {
        "charts": [[_points(curve) for curve in chart.curves] for chart in charts],
        "times": {"refresh_s": REFRESH_S, "silent_s": _silent_s(log)},
    }
    return page("run", f"{name} · training", "run.js", body=body, head=reload, data=data)


def charts_of(log: LogSeries) -> list[Chart]:
    """Return the charts of the page, the most important first."""

    def training_and_validation(name: str) -> list[Curve]:
        return [curve_of(log[name], "training", "train"), curve_of(log[f"valid_{name}"], "validation", "valid")]

    bleu = [curve_of(log["valid_bleu"], "validation", "valid"), curve_of(log["bleu"], "test", "test")]
    rate = curve_of(log["learning_rate"], "learning rate", "rate")
    speed = curve_of(log["target_tokens_per_s"], "target tokens/s", "speed")
    norm = curve_of(log["gradient_norm"], "gradient norm", "norm")
    perplexity = training_and_validation("perplexity")
    return [
        Chart("Loss", training_and_validation("loss"), "nats per token", "label smoothing in training only"),
        Chart("Perplexity", perplexity, "per subword", "without label smoothing", may_be_log=True),
        Chart("BLEU", bleu, "BLEU", "higher is better", ends=(0, 100)),
        Chart("Learning rate", [rate], "rate", "of the Adam optimizer", from_zero=True),
        Chart("Speed", [speed], "target tokens per second", from_zero=True),
        Chart("Gradient norm", [norm], "norm", "of the mean loss per token", may_be_log=True),
    ]


LONGEST_S = 1e12  # of a run; a log from elsewhere may hold any number


def _silent_s(log: LogSeries) -> float:
    """Time without a new page after which the run is shown as silent: several times its longest recent pause."""
    times = log["elapsed_s"]
    elapsed = [seconds for seconds in times.values[-20:] if 0 <= seconds < LONGEST_S]
    pauses = [(after - before) / times.size for before, after in itertools.pairwise(elapsed)]
    return max(SILENT_S, 5 * max(pauses, default=0.0))


# ---- Parts -------------------------------------------------------------------------------------------------------


def _header(log: LogSeries, config: RunConfig, name: str, status: str, note: str) -> str:
    step = int(log.number("step"))
    now = time.time()
    updated = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    share = 1.0 if status == FINISHED else _share(log, config)
    of_all = (
        f"{math.floor(100 * share)} %, step {step:,} of {'at most ' if config.max_minutes else ''}{config.max_steps:,}"
    )
    left = f", {remaining}" if status == RUNNING and (remaining := _remaining(log, config)) else ""
    epoch = f", epoch {int(log.number('epoch')) + 1}" if "epoch" in log.newest else ""
    return (
        f'<header><h1>{escape(name)}</h1><span class="pill {status}" id="status">{status}</span>'
        f'<span class="soft">{of_all}{epoch}{left}</span>'
        f'<time class="soft push" id="updated" datetime="{now:.0f}">{updated}</time>'
        '<button type="button" id="theme" class="no-print">Theme: auto</button></header>'
        f'<progress max="1" value="{share:.4g}" aria-label="share done"></progress>'
        + (f'<p class="note">{escape(note)}</p>' if note else "")
        + '<p class="problem" id="problem" role="alert" hidden></p>'
    )


def _share(log: LogSeries, config: RunConfig) -> float:
    """Return the share that is done, of the steps or of the minutes, whichever is larger."""
    of_minutes = log.number("elapsed_s") / (60 * config.max_minutes) if config.max_minutes else 0.0
    return min(1.0, max(log.number("step") / config.max_steps, of_minutes))


def _remaining(log: LogSeries, config: RunConfig) -> str:
    """Return the remaining time at the speed so far, or until the limit of minutes."""
    step, elapsed_s = log.number("step"), log.number("elapsed_s")
    if not step or not elapsed_s:
        return ""
    left_s = (config.max_steps - step) * elapsed_s / step
    if config.max_minutes is not None:
        left_s = min(left_s, config.max_minutes * 60 - elapsed_s)
    return f"about {clock(max(0.0, left_s))} left"


def tiles(log: LogSeries, parameters: int | None) -> Iterator[str]:
    """Yield the latest figures, in large print."""
    newest = log.newest
    yield _tile("training loss", _newest(log["loss"], 4), "")
    for name, choose, digits in (("perplexity", min, ".4g"), ("BLEU", max, ".2f")):
        best, step = _best(log[f"valid_{name.lower()}"], choose)
        if step:
            yield _tile(f"best validation {name}", f"{best:{digits}}", f"at step {step:,.0f}")
    if len(log["bleu"]):
        yield _tile(
            "test BLEU", f"{log['bleu'].last:.2f}", shortened(str(newest.get("signature", "")).replace("|", " "))
        )
    yield _tile("target tokens per second", _newest(log["target_tokens_per_s"], 4), "")
    yield _tile("learning rate", _newest(log["learning_rate"], 3), "")
    if "elapsed_s" in newest:
        tokens = f"{short(log['target_tokens'].total)} target tokens"
        yield _tile("training time", clock(log.number("elapsed_s")), tokens)
    if parameters is not None:
        yield _tile("parameters", short(parameters), f"{parameters:,}")
    if skipped := log.number("skipped_updates"):
        yield _tile("skipped updates", f"{skipped:,.0f}", "loss or gradient was not finite", "bad")


def _tile(name: str, value: str, more: str, kind: str = "") -> str:
    return (
        f'<div class="tile {kind}"><span>{escape(name)}</span><b>{escape(value)}</b><small>{escape(more)}</small></div>'
    )


def _newest(series: Series, digits: int) -> str:
    if not len(series):
        return "–"
    value = series.last
    return f"{value:,.0f}" if value >= 1000 else f"{value:.{digits}g}"


def _best(series: Series, choose: Any) -> tuple[float, float]:
    """(value, step) of the best finite value, the least with `min`; (0, 0) if there is none."""
    values = series.low if choose is min else series.high
    finite = [(v, s) for v, s in zip(values, series.steps, strict=True) if math.isfinite(v)]
    return choose(finite, key=lambda pair: pair[0]) if finite else (0.0, 0.0)


def _card(chart: Chart, number: int) -> str:
    picture = draw_chart(
        chart.curves, chart.title, chart.unit, may_be_log=chart.may_be_log, from_zero=chart.from_zero, ends=chart.ends
    )
    present = [curve for curve in chart.curves if curve.x]
    legend = "".join(f'<span class="key {curve.colour}">{escape(curve.name)}</span>' for curve in present)
    group = max((curve.group for curve in present), default=1)
    means = f"a point is the mean of up to {group:,} values, the band their range" if group > 1 else ""
    about = "; ".join(filter(None, (chart.about, means)))
    return (
        f'<section class="card chart" data-chart="{number}" tabindex="0" aria-label="{escape(chart.title)}">'
        f'<h2>{escape(chart.title)}</h2><span class="soft about">{escape(about)}</span>'
        f'<span class="legend">{legend if len(chart.curves) > 1 else ""}</span>{picture}'
        '<output class="reading"></output></section>'
    )


def _points(curve: Curve) -> dict[str, Any]:
    """Numbers of a curve that the page's script reads out under the pointer."""
    return {"name": curve.name, "steps": curve.x, "values": [float(f"{v:.5g}") for v in curve.y]}


def _settings(config: RunConfig) -> str:
    rows = "".join(f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>" for name, value in _flat(config, ""))
    return f'<details class="card"><summary>Settings</summary><table>{rows}</table></details>'


def _flat(config: Any, prefix: str) -> Iterator[tuple[str, str]]:
    for each in fields(config):
        value = getattr(config, each.name)
        if is_dataclass(value):
            yield from _flat(value, f"{prefix}{each.name}.")
        else:
            yield f"{prefix}{each.name}", shown(value, quote=False)


# ---- During training ---------------------------------------------------------------------------------------------


class RunReport:
    """Context manager of a run's page: call `refresh` during training and `end` at its end.

    parameters: number of parameters of the model
    writes: whether this process writes the page; only rank 0 does
    The page shows the log, which is truncated to the checkpoint when a run resumes, and is written atomically.
    """

    def __init__(self, directory: RunDirectory, config: RunConfig, *, parameters: int, writes: bool = True):
        self.directory, self.config, self.parameters, self.writes = directory, config, parameters, writes
        self._log = LogSeries(directory.log_path)
        self._not_before = 0.0
        self._ended = False

    def refresh(self) -> None:
        """Write the page unless it was written a moment ago.  Raises: UserError if the file cannot be written."""
        if time.perf_counter() >= self._not_before:
            self._write(RUNNING)

    def end(self, status: str, note: str = "") -> None:
        """Write the page with its final status."""
        self._ended = True
        self._write(status, note)

    def _write(self, status: str, note: str = "") -> None:
        if not self.writes:
            return
        start = time.perf_counter()
        self._log.read_on()
        name = str(self.directory.path)
        text = run_page(self._log, self.config, name, status, note=note, parameters=self.parameters)
        write_page(self.directory.report_path, text)
        now = time.perf_counter()
        self._not_before = now + max(SOONEST_S, (now - start) / SHARE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None or self._ended:
            return
        with suppress(UserError):  # report the error that ended the block
            if isinstance(error, KeyboardInterrupt):
                self.end(STOPPED, "interrupted")
            else:
                self.end(FAILED, str(error))
