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
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from minitf.errors import UserError
from minitf.system.failures import drop_output, explanation

__all__ = ["Say", "printable", "say", "set_up_device", "shell_command", "uninterrupted"]

# ---- Running a command ----


def run_command(main: Callable[[Sequence[str]], int | None], argv: Sequence[str] | None = None) -> int:
    """Call `main` with the command line and return the exit status of the process.

    A UserError is printed as `error: …` and gives its own status, which is 2 for nearly all. SIGINT, SIGTERM and SIGHUP
    give 130, 143 and 129; an output whose reader has closed it (`| head`) gives 141.
    """
    if sys.stdout is None:  # Python would drop every line without a word
        say("error: standard output is closed; open it, or send it to a file")
        return UserError.exit_status
    _allow_any_character()
    try:
        with interrupting():
            try:
                status = main(sys.argv[1:] if argv is None else argv)
            finally:
                if not isinstance(sys.exception(), Exception):
                    sys.stdout.flush()  # here, where a failure can still be reported; also after --help
    except KeyboardInterrupt as interrupt:
        say("terminated" if isinstance(interrupt, TerminationInterrupt) else "interrupted")
        return exit_status(interrupt)
    except BrokenPipeError:
        drop_output()
        return 141
    except Exception as error:
        if (told := explanation(error)) is None:
            raise
        say(f"error: {told}")
        return error.exit_status if isinstance(error, UserError) else UserError.exit_status
    return status or 0


def _allow_any_character() -> None:
    """Print characters that a terminal's encoding lacks, such as α in ASCII, as escape sequences."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def program(command: str) -> str:
    """Return how usage texts call a command: `translate.py` if a script was started, else `minitf translate`."""
    return shell_command(command).removeprefix("python ")


def shell_command(command: str) -> str:
    """Return what to type for a command: `python translate.py` if a script was started, else `minitf translate`."""
    is_script = Path(sys.argv[0]).name in ("train.py", "translate.py")
    return f"python {command}.py" if is_script else f"minitf {command}"


# ---- Messages ----
#
# On standard error, which need not be open.

Say = Callable[[str], None]
"""Print a line for the user."""


def say(text: str) -> None:
    """Print a line on standard error; do nothing if it is closed or its reader has gone."""
    put(f"{coloured(printable(text))}\n")


def say_warnings(text: str) -> None:
    """Print a line if it is a warning: `say` of a quiet command."""
    if text.startswith("warning:"):
        say(text)


COLOURS = {"error:": 31, "warning:": 33}  # red, yellow: SGR codes of terminals


def coloured(text: str) -> str:
    """Colour the first word of errors and warnings, on a terminal that has colours, unless NO_COLOR is set."""
    word = text.partition(" ")[0]
    if word not in COLOURS or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return text
    if sys.stderr is None or not sys.stderr.isatty():
        return text
    return f"\x1b[{COLOURS[word]}m{word}\x1b[0m{text[len(word) :]}"


def put(text: str) -> None:
    """Write a text to standard error; do nothing if it is closed or its reader has gone."""
    if sys.stderr is None:  # closed from the start
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


def silent(text: str) -> None:
    """Print nothing: `say` of a non-zero rank."""


# ---- Signals ----

SIGNALS = tuple([getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)])
"""The signals that stop a command; Windows lacks the last."""
Handler = Callable[[int, FrameType | None], None]


class TerminationInterrupt(KeyboardInterrupt):
    """SIGTERM or SIGHUP, handled by all code that handles the KeyboardInterrupt of Ctrl-C."""

    def __init__(self, number: int):
        super().__init__(signal.Signals(number).name)
        self.number = number


def exit_status(interrupt: KeyboardInterrupt) -> int:
    """128 + the signal's number, as shells report a process that was ended by a signal: 130, 143 or 129."""
    return 128 + (interrupt.number if isinstance(interrupt, TerminationInterrupt) else signal.SIGINT)


@contextmanager
def interrupting() -> Iterator[None]:
    """Context manager in which all three signals raise a KeyboardInterrupt, so that partial files are removed."""
    previous = _handle(_interrupt)
    try:
        yield
    finally:
        _restore(previous)


class _Deferral:
    """Nesting depth of `uninterrupted`, and the signal that arrived inside it."""

    depth = 0
    pending: int | None = None


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Context manager that defers interrupts to its end.

    Imports need it: an extension module turns a KeyboardInterrupt during its import into a traceback and an
    ImportError, and from callbacks of the import system and of ctypes Python can only print it. The commands of
    `minitf.app` import everything that their work needs inside one such block.
    """
    if threading.current_thread() is not threading.main_thread():  # signals interrupt the main thread only
        yield
        return
    _Deferral.depth += 1
    try:
        yield
    finally:
        _Deferral.depth -= 1
        if _Deferral.pending is not None and not _Deferral.depth:
            number, _Deferral.pending = _Deferral.pending, None
            _interrupt(number, None)


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
            _interrupt(number, frame)
            return
        self.received = signal.Signals(number)
        if self._tells:
            _write(f"\n{self.received.name}: finishing this step and saving; repeat to stop immediately\n")


def _interrupt(number: int, frame: FrameType | None) -> None:
    if _Deferral.depth:
        _Deferral.pending = number
        return
    raise KeyboardInterrupt if number == signal.SIGINT else TerminationInterrupt(number)


def _handle(handler: Handler) -> dict[signal.Signals, Any]:
    """Install a handler; return the previous ones. Signals that our parent ignores (`nohup`, `&`) stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        return {}  # only the main thread may install handlers
    handled = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
    return {each: signal.signal(each, handler) for each in handled}


def _restore(previous: dict[signal.Signals, Any]) -> None:
    for each, handler in previous.items():
        signal.signal(each, handler)


def _write(text: str) -> None:
    """Print from a handler, which may have interrupted a `print`: Python's buffered files are not reentrant."""
    if sys.stderr is not None:
        with suppress(OSError, ValueError):  # closed, or its reader has gone
            os.write(sys.stderr.fileno(), text.encode())


# ---- Device ----


def set_up_device(
    threads: int | None,
    device: str = "cpu",
    precision: str = "float32",
    kernels: str = "numpy",
    *,
    plain: bool = False,
) -> None:
    """Set the precision of `device` and, on a CPU, the number of threads (None: one a core) and the kernels.

    plain: check the device alone; the plain core has no settings

    Raises: UserError if this installation lacks the device or the kernels, or the device has no such precision or
    kernels.
    """
    # deferred: `--help` needs no NumPy
    from autograd.devices import get_backend

    # NumPy's warnings of overflow: non-finite losses, gradients and weights are looked for and reported by training
    warnings.filterwarnings("ignore", category=RuntimeWarning, message=".* encountered in ")
    try:
        plain_backend = get_backend(device)
    except ValueError as error:
        raise UserError(f"{error}; choose --device cpu or another --precision") from None
    if plain:
        return
    from autograd.fast import available_cores, keep_freed_memory, set_kernels, set_precision, set_threads

    on_cpu = plain_backend.kind == "cpu"
    try:
        if not on_cpu:
            set_precision(precision, plain_backend)
    except ValueError as error:
        raise UserError(f"{error}; choose --device cpu or another --precision") from None
    if on_cpu:
        count = threads or available_cores()
        try:
            with uninterrupted():  # it looks for the BLAS library through ctypes
                set_kernels(kernels)
                set_precision(precision)
                set_threads(count)
        except ValueError as error:
            raise UserError(str(error)) from None
        except (RuntimeError, MemoryError) as error:
            why = str(error) or "not enough memory"
            raise UserError(f"cannot start {count:,} threads ({why}); choose fewer --threads") from None
    elif kernels != "numpy":
        raise UserError(f"kernels={kernels} are for a CPU, but device={device} has its own kernels; omit --kernels")
    keep_freed_memory()
