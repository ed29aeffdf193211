"""What a person sees, and that nobody has to."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios

import pytest

from minitf.system.progress import Progress

RECORD = {"step": 1200, "loss": 1.23456, "perplexity": 3.4567, "target_tokens_per_s": 12345.6, "learning_rate": 0.00071}


def test_plain_lines_where_there_is_no_terminal(capsys):
    with Progress(2000, 0) as progress:
        progress.step()
        progress.update(RECORD, 75)
        progress.say("step 1,200: validation loss 1")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        "step 1,200  loss 1.235  ppl 3.46  12,346 tokens/s  lr 7.10e-04  1:15 left\nstep 1,200: validation loss 1\n"
    )


def test_a_progress_that_is_not_shown_prints_nothing(capsys):
    with Progress(2000, 0, shown=False) as progress:
        progress.step()
        progress.update(RECORD, 75)
        progress.say("step 1,200: validation loss 1")
    assert capsys.readouterr() == ("", "")


def test_a_bar_on_a_terminal():
    program = f"""
from minitf.system.progress import Progress
with Progress(4, 1) as progress:
    progress.step()
    progress.update({RECORD!r}, 75)
    progress.say("a line above")
    progress.step()
"""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 120, 0, 0))
    subprocess.run([sys.executable, "-c", program], stderr=theirs, check=True)
    os.close(theirs)
    seen = b""
    while True:
        try:
            data = os.read(ours, 4096)
        except OSError:
            break
        seen += data
    os.close(ours)
    assert b"3/4" in seen
    assert b"ppl 3.46" in seen
    assert b"a line above\r\n" in seen


TALKING = """
import os, sys
from minitf.system.messages import say
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


def test_a_listener_that_leaves():
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", TALKING], stdout=subprocess.PIPE, stderr=write, check=False
    )
    os.close(write)
    assert (done.returncode, done.stdout) == (0, b"done")
