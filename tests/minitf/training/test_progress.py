"""Lines on standard error, and durations."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from minitf.system.process import clock
from minitf.training.state import Progress
from tests.helpers.runs import Child


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0, "0:00"), (75.2, "1:15"), (59.7, "1:00"), (3600, "1:00:00"), (90061, "25:01:01"), (float("inf"), "?")],
)
def test_times(seconds, shown):
    assert clock(seconds) == shown


RECORD = {"step": 1200, "loss": 1.23456, "perplexity": 3.4567, "target_tokens_per_s": 12345.6, "learning_rate": 0.00071}


def test_plain_lines_where_there_is_no_terminal(capsys):
    with Progress(2000, 0) as progress:
        progress.step(0, 75, RECORD)
        progress.update(RECORD, 75)
        progress.say("step 1,200: validation loss 1")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "step 1,200  loss 1.235  ppl 3.46  12,346 tokens/s  lr 7.1e-04  1:15 left\nstep 1,200: validation loss 1\n"
    )


def seen_on_terminal(columns, rows=24):
    """What a process that draws a line writes to a terminal of this size."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def work():
        os.dup2(theirs, 2)
        sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
        with Progress(4, 1) as progress:
            progress.step(0.5, 75, RECORD)
            progress.update(RECORD, 75)
            progress.say("a line in its place")
            progress.bleu = 41.234
            progress._drawn_at_s = 0
            progress.step(0.9, 5025, RECORD)
        return 0

    child = Child(work)
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:
            break
        seen += data
    os.close(ours)
    assert child.wait() == 0, child.said()
    return seen.decode()


@pytest.mark.parametrize("columns", [0, 20, 120])
def test_a_line_on_a_terminal_is_drawn_again_and_fits(columns):
    seen = seen_on_terminal(columns)
    width = (columns or 80) - 1
    first = "1:15 left  50 %  2/4  loss 1.235  ppl 3.46  12,346 tokens/s  lr 7.1e-04"[:width]
    last = "1:23:45 left  90 %  3/4  loss 1.235  ppl 3.46  BLEU 41.2  12,346 tokens/s  lr 7.1e-04"[:width]
    assert seen == f"\r{first}\r{' ' * len(first)}\ra line in its place\r\n\r{last}\r\n"


TALKING = """
import os, sys
from minitf.system.process import say
from minitf.training.state import Progress
with Progress(3, 0) as progress:
    for i in range(3):
        progress.step(0, 1, dict.fromkeys(["loss", "perplexity", "target_tokens_per_s", "learning_rate"], 1.0))
        progress.say("x" * 100)
        say("x" * 100_000)
os.write(1, b"done")
"""


@pytest.mark.parametrize(
    ("where", "buffering"), [("2>&-", ""), ("2>/dev/full", "PYTHONUNBUFFERED=1"), ("| cat", "PYTHONUNBUFFERED=1")]
)
def test_nobody_has_to_listen(where, buffering):
    """Closed, full: the work goes on to its end, and nothing comes among the output."""
    script = f'{buffering} "$0" -W error -c "$1" {where}'
    done = subprocess.run(["sh", "-c", script, sys.executable, TALKING], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"done")
