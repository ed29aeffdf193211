"""The process of a command: exit status, messages, signals that stop it, and its device.

Signals: SIGINT (Ctrl-C), SIGTERM (`kill`, batch systems) and SIGHUP (a closed terminal).
"""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from minitf.errors import UserError, shortened
from minitf.system.files import explained

__all__ = ["Say", "clock", "printable", "put", "say", "set_up_device", "shell_command"]

# ---- Running a command ----


def run_command(main: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Call `main` with the command line and return the exit status of the process.

    A UserError is printed as `error: …` and gives its own status, which is 2 for nearly all. SIGINT, SIGTERM and SIGHUP
    raise KeyboardInterrupt, so that partial files are removed, and give 130, 143 and 129; an output whose reader has
    closed it (`| head`) gives 141.
    """
    for name, mode in (("stdout", "r"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed from the start: results are refused, messages go nowhere
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 (until the process ends)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # characters that a terminal's encoding lacks are escaped: α in ASCII
            stream.reconfigure(errors="backslashreplace")
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt(number)

    previous = _handle(interrupt)
    try:
        try:
            return main(sys.argv[1:] if argv is None else argv) or 0
        finally:
            if not isinstance(sys.exception(), Exception):
                sys.stdout.flush()  # here, where a failure can still be reported; also after --help
    except BrokenPipeError:
        drop_output()
        return 141
    except (KeyboardInterrupt, Exception) as error:
        if received or isinstance(error, KeyboardInterrupt):  # the import of an extension turns it into an ImportError
            status = exit_status(error) if isinstance(error, KeyboardInterrupt) else 128 + received[-1]
            say("interrupted" if status == 128 + signal.SIGINT else "terminated")
            return status
        if (sentence := explanation(error)) is None:
            raise
        say(f"error: {sentence}")
        return error.exit_status if isinstance(error, UserError) else UserError.exit_status
    finally:
        _restore(previous)


def explanation(error: Exception) -> str | None:
    """Return what to tell the user; None for an error of this program, which ends it with a traceback."""
    if isinstance(error, UserError):
        return str(error)
    if isinstance(error, ModuleNotFoundError):
        name = (error.name or "").partition(".")[0]
        missing = f"the package {name} is not installed for {sys.executable}; activate the environment that has it, or "
        return (
            None if name in ("", "autograd", "minitf") else f"{missing}run `pip install .` in the project's directory"
        )
    if isinstance(error, MemoryError):
        less = "close other programs; a smaller --max-tokens-per-batch, --beam or model needs less"
        return f"not enough memory{f' ({error})' if str(error) else ''}; {less}"
    if not isinstance(error, OSError):
        return None
    if error.filename is None:  # errors of files have names
        drop_output()
    return explained(
        "write to standard output" if error.filename is None else f"use {shortened(str(error.filename))}", error
    )


def drop_output() -> None:
    """Send what standard output still holds nowhere: Python would complain again as it ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def shell_command(command: str) -> str:
    """Return what to type for a command: `python translate.py` if a script was started, else `minitf translate`."""
    is_script = Path(sys.argv[0]).name in ("train.py", "translate.py")
    return f"python {command}.py" if is_script else f"minitf {command}"


# ---- Messages, on standard error ----

Say = Callable[[str], None]
"""Print a line for the user."""


def say(text: str) -> None:
    """Print a line on standard error; do nothing if it is closed or its reader has gone."""
    put(f"{printable(text)}\n")


def say_warnings(text: str) -> None:
    """Print a line if it is a warning: `say` of a quiet command."""
    if text.startswith("warning:"):
        say(text)


def silent(text: str) -> None:
    """Print nothing: `say` of a non-zero rank."""


def put(text: str) -> None:
    """Write a text to standard error; do nothing if it is closed or its reader has gone."""
    if sys.stderr is None:  # closed from the start, outside of a command
        return
    try:
        sys.stderr.write(text)
        sys.stderr.flush()
    except (OSError, ValueError):
        with suppress(OSError, ValueError):  # the rest of the buffer must not fail again when the process ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stderr.fileno())


CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if chr(code) not in "\n\t"}


def printable(text: str) -> str:
    """Spell out control characters: text of a file must not move the cursor of a terminal, or rename its window."""
    return text.translate(CONTROLS)


def clock(seconds: float) -> str:
    """Format a duration: 75.2 -> "1:15"; with hours from one hour on; "?" for infinity."""
    if seconds == float("inf"):
        return "?"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


# ---- Signals ----

SIGNALS = tuple([getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)])
"""The signals that stop a command; Windows lacks the last."""
Handler = Callable[[int, FrameType | None], None]


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """128 + the signal's number, as shells report a process that was ended by a signal: 130, 143 or 129."""
    return 128 + int(interrupt.args[0] if interrupt.args else signal.SIGINT)


class StopRequest:
    """Context manager in which the first signal only sets `received`, and the second one interrupts at once."""

    def __init__(self, shared: bool = False, tells: bool = True) -> None:
        """
        shared: all ranks stop at the same step, the one at which `agree` sets the signal
        tells: print what the signal does
        """
        self.received: signal.Signals | None = None
        self._shared, self._tells = shared, tells
        self._agreed = 0
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopRequest:
        self._previous = _handle(self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        _restore(self._previous)

    def __bool__(self) -> bool:
        return bool(self._agreed) if self._shared else self.received is not None

    def agree(self, numbers: Iterable[int]) -> None:
        """Stop for the first signal in `numbers`, those that the ranks have received; 0: none."""
        self._agreed = next(filter(None, [self._agreed, *numbers]), 0)

    @property
    def exit_status(self) -> int:
        """128 + the signal's number; 0 if none was received."""
        number = self._agreed if self._shared else self.received
        return 128 + number if number else 0

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            raise KeyboardInterrupt(number)
        self.received = signal.Signals(number)
        if self._tells and sys.stderr is not None:
            # Not `print`, which the signal may have interrupted: Python's buffered files are not reentrant
            text = f"\n{self.received.name}: finishing this step and saving; repeat to stop immediately\n"
            with suppress(OSError, ValueError):  # closed, or its reader has gone
                os.write(sys.stderr.fileno(), text.encode())


def _handle(handler: Handler) -> dict[signal.Signals, Any]:
    """Install a handler; return the previous ones. Signals that our parent ignores (`nohup`, `&`) stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        return {}  # only the main thread may install handlers
    handled = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    return {each: signal.signal(each, handler) for each in handled}


def _restore(previous: dict[signal.Signals, Any]) -> None:
    for each, handler in previous.items():
        signal.signal(each, handler)


# ---- Device ----


def set_up_device(
    threads: int | None, device: str = "cpu", precision: str = "float32", kernels: str = "numpy", *, plain: bool = False
) -> None:
    """Set the precision of `device` and, on a CPU, the number of threads (None: one a core) and the kernels.

    plain: check the device alone; the plain core has no settings

    Raises: UserError if this installation lacks the device or the kernels, or the device has no such precision or
    kernels.
    """
    # deferred: `--help` needs no NumPy, and a plain run no fast implementation
    from autograd.backend import get_backend

    # NumPy's warnings of overflow: non-finite losses, gradients and weights are looked for and reported by training
    warnings.filterwarnings("ignore", category=RuntimeWarning, message=".* encountered in ")
    try:
        backend = get_backend(device)
    except ValueError as error:
        raise UserError(f"{error}; choose --device cpu") from None
    if plain:
        return
    from autograd import fast

    try:
        if backend.kind != "cpu" and kernels != "numpy":
            raise ValueError(f"kernels={kernels} are for a CPU, but device={device} has its own kernels")
        fast.set_precision(precision, backend)
        if backend.kind == "cpu":
            fast.set_kernels(kernels)
            fast.set_threads(threads or fast.available_cores())
    except ValueError as error:
        raise UserError(f"{error}; choose another --device, --precision or --kernels") from None
    except (RuntimeError, MemoryError) as error:
        why = str(error) or "not enough memory"
        raise UserError(
            f"cannot start {threads or fast.available_cores():,} threads ({why}); choose fewer --threads"
        ) from None
    fast.keep_freed_memory()
