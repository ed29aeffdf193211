"""report.html as text, and in a browser."""

import json
import socket
import time
from dataclasses import replace
from pathlib import Path

import pytest

from additions.pages.learning_curves import LogSeries
from additions.pages.page import write_page
from additions.pages.run_page import FAILED, FINISHED, RUNNING, run_page
from additions.pages.tests.pages import CONFIG, Scripts, records
from minitf.errors import UserError


@pytest.fixture
def log_of(tmp_path):
    """What a log with these records reads as."""

    def make(*lines):
        path = tmp_path / "log.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
        log = LogSeries(path)
        log.read_on()
        return log

    return make


@pytest.fixture
def log(log_of):
    return log_of(*records(600))


# ---- The text ----------------------------------------------------------------------------------------------------


def test_the_newest_figures_are_there(log):
    text = run_page(log, CONFIG, "runs/x", RUNNING, parameters=1_516_544)
    for figure in (
        "step 600 of 1,000",
        "epoch 3",
        "about 13:20 left",
        "4.167",
        "at step 600",
        "30.00",
        "5,600",
        "20:00",
        "1,516,544",
    ):
        assert figure in text, figure
    assert text.count("<polyline") == 8  # loss, perplexity (two each), validation BLEU, rate, speed, gradient norm
    assert "27k target tokens" in text


def test_the_progress_is_that_of_steps_or_of_minutes_whichever_is_larger(log):
    for minutes, value, text in (
        (None, "0.6", "60 %, step 600 of 1,000"),
        (25.0, "0.8", "80 %, step 600 of at most 1,000"),
        (90.0, "0.6", "60 %, step 600 of at most 1,000"),
        (5.0, "1", "100 %, step 600"),
    ):
        page = run_page(log, replace(CONFIG, max_minutes=minutes), "x", RUNNING)
        assert f'<progress max="1" value="{value}"' in page
        assert text in page
    assert '<progress max="1" value="1"' in run_page(log, CONFIG, "x", FINISHED)


def test_a_run_under_way_looks_for_news_and_one_that_ended_does_not(log):
    assert 'http-equiv="refresh"' in run_page(log, CONFIG, "x", RUNNING)
    for status in (FINISHED, FAILED):
        text = run_page(log, CONFIG, "x", status, note="because")
        assert 'http-equiv="refresh"' not in text
        assert f">{status}</span>" in text
        assert "because" in text


def test_what_is_not_known_yet_is_left_out(log_of):
    text = run_page(log_of(), CONFIG, "x", RUNNING)
    assert "step 0 of 1,000" in text
    assert "<svg" not in text
    assert "<section" not in text
    first = run_page(log_of(next(records(20))), CONFIG, "x", RUNNING)
    assert first.count("<svg") == first.count("<section") == 5  # no BLEU
    assert first.count(">step</text>") == 5
    assert ">nats per token</text>" in first


def test_figures_that_are_no_numbers(log_of):
    record = {**next(records(20)), "loss": "nan", "perplexity": "inf", "gradient_norm": "nan", "skipped_updates": 3}
    text = run_page(log_of(record, {"step": 20, "valid_loss": "nan", "valid_perplexity": "inf"}), CONFIG, "x", FAILED)
    assert "best validation" not in text
    assert "skipped updates" in text
    assert ">nan<" in text


def test_the_test_score_has_its_signature(log_of):
    log = log_of(*records(100), {"step": 100, "bleu": 36.7253, "exact_match": 0.1, "signature": "nrefs:1|tok:13a"})
    text = run_page(log, CONFIG, "x", FINISHED)
    assert "36.73" in text
    assert "nrefs:1 tok:13a" in text


@pytest.mark.heavy
def test_a_page_has_a_size_that_no_log_exceeds(log_of):
    text = run_page(log_of(*records(150_000)), CONFIG, "x", FINISHED)  # 7,500 lines of training
    assert len(text) < 250_000
    assert "; a point is the mean of up to 19 values, the band their range" in text
    numbers = ("loss", "perplexity", "valid_loss", "valid_perplexity", "valid_bleu", "bleu", "learning_rate")
    for step, value, signature in ((1, -1e300, "x" * 60_000), (2**63, 1.7e308, "y"), (3, -1.7e308, "z")):
        falling = [{"step": i, **dict.fromkeys(numbers, value / i)} for i in range(2**63, 0, -(2**54))]
        end = {"step": step, **dict.fromkeys(numbers, value), "signature": signature}
        assert len(run_page(log_of(*falling, end), CONFIG, "x", FINISHED)) < 250_000


def test_hostile_names_stay_text(log_of):
    log = log_of(*records(20), {"step": 20, "bleu": 1, "signature": "<script>1</script>"})
    hostile = replace(CONFIG, output=Path("<img src=x>"))
    found = Scripts(run_page(log, hostile, "runs/<script>&'\"", FAILED, note="</p><b>"))
    harmless = Scripts(run_page(log, CONFIG, "runs/x", FAILED, note="note"))
    assert found.tags == harmless.tags
    assert "style=" not in run_page(log, CONFIG, "x", RUNNING)  # the page's policy forbids it


# ---- In a browser ------------------------------------------------------------------------------------------------


@pytest.fixture
def opened(chromium, log, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(run_page(log, CONFIG, "runs/x", FINISHED), encoding="utf-8")
    chromium.complaints()
    chromium.requests()
    chromium.prefer("light")
    chromium.open(path, 1400, 1200)
    yield chromium
    assert chromium.complaints() == []
    assert [each for each in chromium.requests() if each not in (path.as_uri(), "data:,")] == []


READINGS = "return [...document.querySelectorAll('.reading')].map((each) => each.textContent)"


@pytest.mark.look
def test_pointing_at_a_curve_reads_all_of_them(opened, screenshots):
    assert opened.run(READINGS) == [""] * 6
    light = opened.screenshot(screenshots / "report.png")
    opened.hover('[data-chart="0"] svg')  # its middle
    readings = opened.run(READINGS)
    step, rest = readings[0].removeprefix("step ").split(": ")
    assert int(step) == pytest.approx(600 * (320 - 84) / (640 - 84 - 12), abs=3)
    assert rest.startswith(f"training {8 * 260**-0.2:.4g} (step 260), validation ")
    assert f"training {3000 / 260:.4g} (step 260), validation {2500 / 300:.4g} (step 300)" in readings[1]
    assert "validation 15 (step 300)" in readings[2]
    assert "0.001 (step 260)" in readings[3]
    assert "5,260" in readings[4]
    assert opened.run("return document.querySelectorAll('.cursor').length") == 6
    opened.hover("h1")
    assert opened.run(READINGS) == [""] * 6
    opened.prefer("dark")
    assert opened.screenshot(screenshots / "report-dark.png") != light


def test_the_keyboard_reads_too(opened):
    opened.run("document.querySelector('[data-chart=\"1\"]').focus()")
    opened.press("End")
    assert opened.run(READINGS)[1] == "step 600: training 5, validation 4.167"
    opened.press("Left")
    assert opened.run(READINGS)[1].startswith("step 588: ")
    opened.press("Tab")
    assert opened.run(READINGS)[1] == ""


def test_the_theme_outlives_a_reload(opened):
    dark = "getComputedStyle(document.body).backgroundColor === 'rgb(21, 23, 27)'"
    assert not opened.run(f"return {dark}")
    opened.click("#theme")
    opened.click("#theme")
    opened.wait_for(dark)
    opened.run("location.reload()")
    opened.wait_for(f"document.readyState === 'complete' && {dark}")
    assert opened.run("return document.getElementById('theme').textContent") == "Theme: dark"


def test_a_page_of_a_run_under_way_renews_itself(chromium, log_of, tmp_path, monkeypatch):
    monkeypatch.setattr("additions.pages.run_page.REFRESH_S", 2)  # longer than a busy machine takes to load it
    path = tmp_path / "report.html"
    path.write_text(run_page(log_of(*records(100)), CONFIG, "x", RUNNING), encoding="utf-8")
    chromium.open(path)
    assert "step 100 of" in chromium.run("return document.querySelector('header').textContent")
    path.write_text(run_page(log_of(*records(200)), CONFIG, "x", FINISHED), encoding="utf-8")
    chromium.wait_for("document.querySelector('header')?.textContent.includes('step 200 of')")
    assert chromium.run("return document.getElementById('status').textContent") == "finished"


def test_a_run_that_went_silent_is_told(chromium, log, tmp_path, monkeypatch):
    path = tmp_path / "report.html"
    for age, status in ((60, "training"), (900, "silent")):
        then = time.time() - age
        with monkeypatch.context() as patch:
            patch.setattr(time, "time", lambda then=then: then)
            path.write_text(run_page(log, CONFIG, "x", RUNNING), encoding="utf-8")
        chromium.open(path)
        chromium.wait_for("document.getElementById('updated').textContent.includes(' ago')")
        assert chromium.run("return document.getElementById('status').textContent") == status
        assert chromium.run("return document.getElementById('problem').hidden") == (status == "training")


BEACONS = (
    "</script><script>document.title = 'gone'</script><img src=x onerror=\"document.title='gone'\">"
    "<svg onload=alert(1)></svg><iframe src='data:text/html,<script>1</script>'></iframe>\u2028\u202e\0"
    "<img src='http://127.0.0.1:9/beacon'><link rel=stylesheet href='http://127.0.0.1:9/beacon.css'>"
    "<meta http-equiv=refresh content='0;url=http://127.0.0.1:9/'>]]>-->"
)


def test_hostile_text_is_shown_and_does_nothing(chromium, log_of, tmp_path):
    """In every place that text of a run's folder comes to: names, paths, the note, keys and values of the log."""
    about = {"step": 20, "bleu": 1.0, "signature": BEACONS, BEACONS: BEACONS, "exact_match": 0.1}
    hostile = replace(CONFIG, output=Path(BEACONS.replace("\0", "")), init=Path("<script>document.title = 1</script>"))
    path = tmp_path / "report.html"
    write_page(path, run_page(log_of(*records(20), about), hostile, BEACONS, FAILED, note=BEACONS))
    chromium.complaints()
    chromium.requests()
    chromium.open(path, 1400, 1200)
    assert chromium.run("return document.title") not in ("gone", "1")
    assert chromium.run("return document.querySelectorAll('img, iframe').length") == 0
    assert [each for each in chromium.requests() if each not in (path.as_uri(), "data:,")] == []
    assert chromium.complaints() == []  # not even an attempt that the page's policy had to stop


def test_the_policy_stops_what_markup_would_do(chromium, log_of, tmp_path):
    """Were a text to come through as markup, it could still neither run nor ask for anything."""
    path, page = tmp_path / "report.html", run_page(log_of(*records(20)), CONFIG, "runs/x", FINISHED)
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        markup = BEACONS.replace("http://127.0.0.1:9/", url).replace("<meta", "<b")  # no policy stops that
        write_page(path, page.replace("</main>", f"{markup}</main>", 1))
        assert f"{url}beacon" in path.read_text("utf-8")
        chromium.open(path, 1400, 1200)
        assert chromium.run("return document.title") != "gone"
        chromium.complaints()
        with pytest.raises(BlockingIOError):  # nobody has asked
            server.accept()


def test_a_log_from_elsewhere_may_hold_any_values(log_of):
    for status in [RUNNING, FINISHED]:
        for value in ["0.5", "nan", "inf", 1e308, None, [], True, -1]:
            for name in ["epoch", "elapsed_s", "step", "skipped_updates", "bleu", "signature", "loss"]:
                record = {"step": 3, "epoch": 0, "elapsed_s": 2.0, "loss": 1.0}
                config = replace(CONFIG, max_minutes=1.0)
                try:
                    log = log_of(record, {**record, name: value})
                except UserError:
                    assert name == "step"
                else:
                    assert "<header>" in run_page(log, config, "run", status)
