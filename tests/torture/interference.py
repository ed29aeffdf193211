"""Operations on files that a run does not survive: `interfere` puts a deed in the place of one of them."""

from __future__ import annotations

import io
import itertools
import math
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any

from minitf.storage import run_directory
from minitf.system import files
from tests.helpers.runs import Ground, call, check, start_or_resume

OPERATIONS = ("open", "fsync", "chmod", "rename", "replace", "unlink", "mkdir", "rmdir")
"""The functions of `os` that change files, beside the methods of the files that `atomic_write` and a log open."""

Deed = Callable[[Callable[..., Any], Sequence[Any], dict[str, Any]], Any]


def interfere(at: int, deed: Deed, for_good: bool = False) -> Iterator[int]:
    """Call `deed` in place of file operation number `at`, counted from 1; for_good: of all later ones, too.

    Return an iterator whose next value is the number of the next operation.
    """
    with suppress(ModuleNotFoundError):
        run_page = import_module("additions.pages.run_page")
        run_page.SOONEST_S, run_page.SHARE = 0.0, math.inf  # else the number of operations would depend on time
    numbers = itertools.count(1)

    def wrapped(function: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **options: Any) -> Any:
            number = next(numbers)
            if number == at or (for_good and number > at):
                return deed(function, arguments, options)
            return function(*arguments, **options)

        act.__name__ = function.__name__
        return act

    for name in OPERATIONS:
        function = getattr(os, name)
        setattr(os, name, act := wrapped(function))
        if function in os.supports_dir_fd:  # else `shutil.rmtree` would take it for one that knows no open folders
            os.supports_dir_fd.add(act)

    class Raw(io.FileIO):
        write = wrapped(io.FileIO.write)
        truncate = wrapped(io.FileIO.truncate)

    def counted_open(path: Any, mode: str, buffering: int = -1, **text: Any) -> Any:
        if "opener" in text:  # to read, by os.open
            return open(path, mode, buffering, **text)
        raw = wrapped(Raw)(path, mode.replace("b", ""))
        if buffering == 0:
            return raw
        return io.TextIOWrapper(io.BufferedWriter(raw), **text) if text else io.BufferedWriter(raw)

    for module in (files, run_directory):
        module.open = counted_open  # type: ignore[attr-defined]
    return numbers


def count_operations(ground: Ground) -> int:
    """Return the number of file operations of a whole run."""
    run, place = ground.new(), ground.folder / "operations"

    def work() -> int:
        numbers = interfere(0, die)
        status = call(start_or_resume(run, ground.flags))
        place.write_text(str(next(numbers) - 1))
        return status

    check(ground.child(work) == 0, f"counting operations failed: {ground.said}")
    ground.compare(run)
    return int(place.read_text())


def die(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> None:
    """SIGKILL, before the operation."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_halfway(function: Callable[..., Any], arguments: Sequence[Any], options: dict[str, Any]) -> None:
    """SIGKILL after the first half of a write, before any other operation."""
    if function.__name__ == "write":
        *before, data = arguments
        function(*before, bytes(data)[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def kill_and_resume(ground: Ground, number: int, deed: Deed = die) -> None:
    """Kill a run at one operation; resume it.  Raises: LostError"""

    def work() -> int:
        interfere(number, deed)
        return call(start_or_resume(run, ground.flags))

    run = ground.new()
    status = ground.child(work)
    check(status == -signal.SIGKILL, f"it ended with {status} before it was killed: {ground.said}")
    ground.finish(run)
