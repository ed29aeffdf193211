"""The page of a run while it trains, is stopped, killed, resumed and fails."""

import json
import os
import re
import signal
import time

import pytest

from additions.pages import run_page
from additions.pages.commands import report as program
from additions.pages.run_page import RunReport
from additions.pages.tests.pages import CONFIG, records
from minitf.storage.run_directory import RunDirectory
from minitf.system.process import run_command
from minitf.training.optim import batch_loss
from minitf.training.state import RunLog
from tests.helpers.patching import patch_everywhere
from tests.helpers.runs import call, start_or_resume

pytestmark = pytest.mark.heavy


def status_of(run):
    return re.search(r'id="status">(\w+)<', (run / "report.html").read_text(encoding="utf-8"))[1]


def steps_of(run):
    text = (run / "report.html").read_text(encoding="utf-8")
    charts = json.loads(re.search(r'id="charts">(.*?)</script>', text)[1])
    return charts[0][0]["steps"], charts[0][1]["steps"]


def test_a_run_leaves_its_page_finished(ground):
    run = ground.new()
    assert call([*ground.flags, "--output", str(run)]) == 0
    assert status_of(run) == "finished"
    assert steps_of(run) == ([1, 3, 6, 9, 12, 13], [4, 8, 12, 13])
    assert "test BLEU" in (run / "report.html").read_text(encoding="utf-8")


def test_a_killed_and_resumed_run_shows_what_the_log_has(ground):
    run = ground.new()

    def work():
        real = RunLog.append

        def append(log, record):
            real(log, record)
            if record["step"] == 9:
                os.kill(os.getpid(), signal.SIGKILL)

        RunLog.append = append
        run_page.SOONEST_S, run_page.SHARE = 0.0, float("inf")
        return call(start_or_resume(run, ground.flags))

    assert ground.child(work) == -signal.SIGKILL
    assert status_of(run) == "training"
    assert steps_of(run) == ([1, 3, 6], [4, 8][:1])
    (run / ".report.html.01234567.partial").write_bytes(b"half a pa")
    assert ground.child(lambda: call(start_or_resume(run, ground.flags))) == 0
    assert status_of(run) == "finished"
    assert steps_of(run) == ([1, 3, 6, 9, 12, 13], [4, 8, 12, 13])
    assert not list(run.glob(".*.partial"))


def test_a_run_that_fails_says_why(ground, monkeypatch):
    run = ground.new()
    patch_everywhere(monkeypatch, batch_loss, lambda *given: tuple(each * float("nan") for each in batch_loss(*given)))
    assert call([*ground.flags, "--output", str(run)]) == 1
    assert status_of(run) == "failed"
    assert "training diverged: step 1 has loss" in (run / "report.html").read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_one_clear_error(ground, capfd):
    run = ground.new()
    assert call([*ground.flags, "--output", str(run), "--max-steps", "6"]) == 0
    (run / "report.html").unlink()
    (run / "report.html").mkdir()
    capfd.readouterr()
    assert call(["--resume", str(run), "--max-steps", "13"]) == 2
    last = capfd.readouterr().err.splitlines()[-1]
    assert last.startswith(f"error: cannot write {run / 'report.html'}: it is a directory")
    (run / "report.html").rmdir()
    ground.finish(run)


def test_a_stopped_run_says_how_to_go_on(ground, monkeypatch):
    run = ground.new()
    monkeypatch.setattr("minitf.training.loop.validate", lambda *_: os.kill(os.getpid(), signal.SIGINT))
    assert call([*ground.flags, "--output", str(run)]) == 130
    assert status_of(run) == "stopped"
    assert f"minitf train --resume {run}" in (run / "report.html").read_text(encoding="utf-8")


def test_the_page_takes_a_small_share_of_the_time(tmp_path, monkeypatch):
    now = [100.0]
    written = []
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])

    def write(path, text):
        written.append(now[0])
        now[0] += 0.04  # what a write takes

    monkeypatch.setattr(run_page, "write_page", write)
    with RunDirectory.create(tmp_path, CONFIG) as directory, RunLog(directory.log_path) as log:
        report = RunReport(directory, CONFIG, parameters=7)
        start = now[0]
        for record in records(1000):
            now[0] += 1.0
            log.append(record)
            report.refresh()
        assert 5 <= len(written) <= 8  # in a minute
        assert 0.04 * len(written) / (now[0] - start) < 0.006
        report.end("finished")
        assert written[-1] == now[0] - 0.04  # whenever the one before was


def test_a_process_without_the_log_writes_no_page(tmp_path):
    with RunDirectory.create(tmp_path, CONFIG) as directory:
        RunReport(directory, CONFIG, parameters=7, writes=False).end("finished")
    assert not directory.report_path.exists()


# ---- minitf report -------------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path):
    with RunDirectory.create(tmp_path / "run", CONFIG) as directory, RunLog(directory.log_path) as log:
        for record in records(200):
            log.append(record)
    return directory


def test_the_page_can_be_made_anew(run, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    assert run_command(program, [str(run.path)]) == 0
    assert capfd.readouterr().out == "report.html\n"
    assert status_of(tmp_path) == "stopped"
    with RunDirectory.resume(run.path, CONFIG):
        assert run_command(program, [str(run.path), "--output", "report.html"]) == 0
        assert status_of(tmp_path) == "training"
    with RunLog(run.log_path) as log:
        log.append({"step": 200, "bleu": 20.0})
    assert run_command(program, [str(run.path)]) == 0
    assert status_of(tmp_path) == "finished"
    assert not run.report_path.exists()


def test_what_is_no_run_is_refused(tmp_path, run, capfd):
    assert run_command(program, [str(tmp_path / "nothing")]) == 2
    assert "is not a directory" in capfd.readouterr().err
    run.log_path.unlink()
    assert run_command(program, [str(run.path)]) == 2
    assert capfd.readouterr().err.startswith(f"error: {run.path} has no log")
