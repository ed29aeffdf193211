"""Lines on standard error, and durations."""

import fcntl
import io
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from minitf.system.progress import Progress, clock, duration


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (75.2, "1:15"), (59.7, "1:00"), (3600, "1:00:00"), (90061, "25:01:01"), (float("inf"), "?")],
)
def test_times(seconds, shown):
    assert clock(seconds) == shown


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (99, "99 s"), (100, "2 min"), (3_540, "59 min"), (3_599, "1 h 0 min"), (23_400, "6 h 30 min")],
)
def test_durations_in_words(seconds, text):
    assert duration(seconds) == text
    assert duration(100 * 3_600) == "4 d 4 h"
    assert duration(float("inf")) == "?"


RECORD = {"step": 1200, "loss": 1.23456, "perplexity": 3.4567, "target_tokens_per_s": 12345.6, "learning_rate": 0.00071}


def test_plain_lines_where_there_is_no_terminal(capsys):
    with Progress(2000, 0) as progress:
        progress.step()
        progress.update(RECORD, 75)
        progress.say("step 1,200: validation loss 1")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "step 1,200  loss 1.235  ppl 3.46  12,346 tokens/s  lr 7.1e-04  1:15 left\nstep 1,200: validation loss 1\n"
    )


def test_a_progress_that_is_not_shown_prints_nothing(capsys):
    with Progress(2000, 0, shown=False) as progress:
        progress.step()
        progress.update(RECORD, 75)
        progress.say("step 1,200: validation loss 1")
    assert capsys.readouterr() == ("", "")


def test_a_notebook_has_the_bar_of_a_terminal(monkeypatch):
    """The stream of Jupyter's kernel says that it is no terminal, but obeys carriage returns."""
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream", "encoding": "UTF-8"})()
    monkeypatch.setattr(sys, "stderr", stream)
    with Progress(2000, 1199) as progress:
        progress.step(remaining_s=75, means=RECORD)
    figures = "loss 1.235  ppl 3.46  12,346 tokens/s  lr 7.1e-04"
    assert stream.getvalue().startswith(f"\r1:15 left  60 %  1,200/2,000  {figures} |██")
    assert max(map(len, stream.getvalue().rstrip().split("\r"))) < 100


def seen_on_terminal(program, columns, rows=24):
    """What a program writes to a terminal of this size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    done = subprocess.Popen([sys.executable, "-c", program], stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:
            break
        seen += data
    os.close(ours)
    assert done.wait() == 0
    return seen.decode()


BAR = f"""
from minitf.system.progress import Progress
with Progress(4, 1) as progress:
    progress.step()
    progress.update({RECORD!r}, 75)
    progress.say("a line above")
    progress.bleu = 41.234
    progress.step(0.9)
    progress.update({RECORD!r}, 5025)
"""


def test_a_bar_on_a_terminal():
    seen = seen_on_terminal(BAR, 120)
    first = "1:15 left  50 %  2/4  loss 1.235  ppl 3.46  12,346 tokens/s  lr 7.1e-04"
    assert f"\r{first} |{'█' * 12}{' ' * 12}|" in seen
    assert "a line above\r\n" in seen
    last = seen.rstrip().rpartition("\r")[2]
    assert last.startswith("1:23:45 left  90 %  3/4  loss 1.235  ppl 3.46  BLEU 41.2  12,346 tokens/s  lr 7.1e-04 |")


@pytest.mark.parametrize("columns", [20, 33, 60, 79, 80, 100])
def test_nothing_on_a_terminal_is_cut_off(columns):
    """Every line fits, and every part of it is whole; the first parts stay longest."""
    seen = seen_on_terminal(BAR, columns)
    whole = {"1:15 left", "1:23:45 left", "50 %", "90 %", "25 %", "2/4", "3/4", "1/4", "loss 1.235", "ppl 3.46"}
    whole |= {"BLEU 41.2", "12,346 tokens/s", "lr 7.1e-04"}
    for line in seen.replace("\n", "\r").split("\r"):
        assert len(line) < columns
        rest = line.partition("|")[0].replace("a line above", "")
        for part in sorted(whole, key=len, reverse=True):
            rest = rest.replace(part, "")
        assert rest.strip() == "", line
        assert " ," not in line
    assert "1:23:45 left" in seen
    if columns >= 80:
        assert "12,346 tokens/s" in seen.rstrip().rpartition("\r")[2]


@pytest.mark.parametrize("size", [(0, 0), (0, 24), (10, 24)])
def test_a_terminal_without_a_usable_size_gets_lines(size):
    seen = seen_on_terminal(BAR, *size).replace("\r\n", "\n")
    assert "\r" not in seen
    assert seen.splitlines()[1:] == [
        "a line above",
        "step 1,200  loss 1.235  ppl 3.46  BLEU 41.2  12,346 tokens/s  lr 7.1e-04  1:23:45 left",
    ]


TALKING = """
import os, sys
from minitf.system.process import say
from minitf.system.progress import Progress
with Progress(3, 0) as progress:
    for i in range(3):
        progress.step()
        progress.say("x" * 100)
        say("x" * 100_000)
os.write(1, b"done")
"""


@pytest.mark.parametrize("where", ["2>&-", "2>/dev/full", "| cat"])
@pytest.mark.parametrize("buffering", ["", "PYTHONUNBUFFERED=1"])
def test_nobody_has_to_listen(where, buffering):
    """Closed, full: the work goes on to its end, and nothing comes among the output."""
    script = f'{buffering} "$0" -W error -c "$1" {where}'
    done = subprocess.run(["sh", "-c", script, sys.executable, TALKING], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"done")
