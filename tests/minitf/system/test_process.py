"""One signal asks, two insist; what the parent ignores stays ignored."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest

from minitf.errors import UserError
from minitf.system.process import SIGNALS, StopRequest, exit_status, run_command, say, set_up_device

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}


def send(number):
    os.kill(os.getpid(), number)
    for _ in range(1000):  # the handler runs between two of these
        pass


@pytest.fixture(autouse=True)
def handlers():
    """Whatever a test does, the next one finds these."""
    before = {each: signal.getsignal(each) for each in SIGNALS}
    yield
    after = {each: signal.getsignal(each) for each in SIGNALS}
    for each, handler in before.items():
        signal.signal(each, handler)
    assert after == before


@pytest.mark.parametrize("number", SIGNALS)
def test_the_first_signal_asks_and_the_second_interrupts(number, capfd):
    with StopRequest() as stop:
        assert not stop
        assert stop.exit_status == 0
        send(number)
        assert stop
        assert stop.received == number
        assert stop.exit_status == STATUS[number]
        with pytest.raises(KeyboardInterrupt) as caught:
            send(signal.SIGTERM)
    assert exit_status(caught.value) == 143
    assert capfd.readouterr().err == (f"\n{number.name}: finishing this step and saving; repeat to stop immediately\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_the_status_of_a_command(number, capsys):
    assert run_command(lambda argv: send(number), []) == STATUS[number]
    assert capsys.readouterr().err == ("interrupted\n" if number == signal.SIGINT else "terminated\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_an_import_that_makes_another_error_of_an_interrupt_is_interrupted(number, capsys):
    """As C extensions do."""

    def main(argv):
        try:
            send(number)
        except KeyboardInterrupt:
            raise ImportError("initialization failed") from None

    assert run_command(main, []) == STATUS[number]
    assert capsys.readouterr().err == ("interrupted\n" if number == signal.SIGINT else "terminated\n")


@pytest.mark.parametrize("number", SIGNALS)
def test_what_the_parent_ignores_stays_ignored(number):
    """As with nohup, and with SIGINT for what a shell runs in the background."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with StopRequest() as stop:
            send(number)
            assert not stop
        assert signal.getsignal(number) == signal.SIG_IGN
    finally:
        signal.signal(number, before)


EARLY = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler if sys.argv[1] == "heard" else signal.SIG_IGN)
from minitf.__main__ import without_traceback
without_traceback()
os.kill(os.getpid(), signal.SIGINT)
print("went on")
"""


def test_before_there_is_anything_to_tidy_up_an_interrupt_ends_the_process_without_words():
    for what, status, said in (("heard", -signal.SIGINT, b""), ("ignored", 0, b"went on\n")):
        done = subprocess.run([sys.executable, "-c", EARLY, what], capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (status, said, b"")


@pytest.mark.parametrize("closing", ["2>&-", "2>/dev/full"])
def test_without_anyone_to_tell(closing):
    program = """
import os, signal
from minitf.system.process import StopRequest
with StopRequest() as stop:
    os.kill(os.getpid(), signal.SIGTERM)
raise SystemExit(stop.exit_status)
"""
    done = subprocess.run(["sh", "-c", f'"$0" -c "$1" {closing}', sys.executable, program], check=False)
    assert done.returncode == 143


def test_control_characters_are_spelled_out(capsys):
    say("a\x1b]0;title\x07\x9b31m\tb\nc\x00")
    assert capsys.readouterr().err == "a\\x1b]0;title\\x07\\x9b31m\tb\nc\\x00\n"


def test_a_device_that_is_not_there():
    for device in ("cuda", "cuda:3"):
        with pytest.raises(UserError, match=f"device '{device}' .*; choose --device cpu"):
            set_up_device(1, device)


def test_kernels_that_the_device_does_not_have(monkeypatch):
    with pytest.raises(UserError, match="choose 'numpy' or 'numba'"):
        set_up_device(1, kernels="fast")
    device = SimpleNamespace(kind="cuda", set_precision=lambda precision: None)
    monkeypatch.setattr("autograd.backend.get_backend", lambda name: device)
    with pytest.raises(UserError, match="kernels=numba are for a CPU, but device=cuda has its own kernels"):
        set_up_device(1, "cuda", kernels="numba")
