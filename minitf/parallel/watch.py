"""Signs of life: each process sends some, and a coordinator ends the job when one dies, hangs or gives up.

The coordinator is the launcher, or under mpiexec a thread of rank 0.  It has one connection to each process.  When it
goes, or closes them, everyone ends at once: a process may be deep in a wait for another one, so nothing less will do.
What a run has saved is whole at any instant.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

BEAT_S = 0.5
START_S = 60.0
"""Python and NumPy may take so long to start, from a slow disk, on a machine with much to do."""

AT_WORK_S = 0.02
"""Seconds of processor time that tell work from a process that only says that it is alive."""

Message = dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """Why a job has ended; `reason` is None where the process has said so itself."""

    rank: int | None  # None: no single one
    reason: str | None
    status: int = 1


class Lines:
    """JSON objects, one a line, over a socket."""

    def __init__(self, connection: socket.socket):
        self.socket = connection
        self._rest = b""

    def send(self, message: Message) -> None:
        """Raises: OSError where the other end has gone, or has not read for long."""
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[Message] | None:
        """What has come; None at the end."""
        try:
            data = self.socket.recv(65536)
        except OSError:
            return None
        if not data:
            return None
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [json.loads(line) for line in lines]


# ---- The process -------------------------------------------------------------------------------------------------


class Pulse:
    """Tells the coordinator, from a thread of its own, that this process lives and whether it moves."""

    def __init__(self, rank: int, connection: socket.socket):
        self.rank = rank
        self._lines = Lines(connection)
        self._lock = threading.Lock()
        self._waits = 0
        self._leaving = False
        self._main = threading.main_thread().ident or 0
        for work in (self._send_beats, self._listen):
            threading.Thread(target=work, daemon=True).start()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside, standing still is not hanging."""
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1

    def fail(self, reason: str | None, status: int) -> None:
        """Ask the coordinator to end the job; it will end this process too."""
        self._send({"failed": reason, "status": status})

    def leave(self) -> None:
        """This process has nothing left to do but to wait for the others: the coordinator may go before it."""
        self._leaving = True

    def end(self) -> None:
        """Everyone has done their part: to go is no failure from now on."""
        self._leaving = True
        self._send({"done": True})

    def _send(self, message: Message) -> None:
        with self._lock, suppress(OSError):  # gone: `_listen` sees that, too
            self._lines.send(message)

    def _send_beats(self) -> None:
        while True:
            beat = {"cpu_s": time.process_time(), "waits": self._waits > 0, "at": self._place()}
            self._send(beat)
            time.sleep(BEAT_S)

    def _place(self) -> str:
        """Where the main thread is: `sync_folder (files.py, line 123)`."""
        frame = sys._current_frames().get(self._main)
        if frame is None:
            return "its end"
        code = frame.f_code
        return f"{code.co_name} ({os.path.basename(code.co_filename)}, line {frame.f_lineno})"

    def _listen(self) -> None:
        told = False
        while (messages := self._lines.receive()) is not None:
            told = told or any("over" in message for message in messages)
        self._lines.socket.close()
        if self._leaving and not told:
            return
        if not told and self.rank == 1:  # the coordinator lived in rank 0; one of those who are left says so
            with suppress(OSError):
                os.write(2, b"error: rank 0 has died; go on with --resume from the last checkpoint\n")
        os._exit(1)


# ---- The coordinator ---------------------------------------------------------------------------------------------


@dataclass
class _Sign:
    """The last that was heard of a process."""

    heard_s: float
    moved_s: float
    cpu_s: float = 0.0
    waits: bool = False
    at: str = "its start"
    has_spoken: bool = False
    done: bool = False
    done_s: float = 0.0


@dataclass
class Coordinator:
    """Reads what processes say of themselves, and finds the one that ends the job."""

    connections: Mapping[int, socket.socket]  # by rank
    timeout_s: float
    _signs: dict[int, _Sign] = field(default_factory=dict)

    def __post_init__(self) -> None:
        now = time.monotonic()
        self._lines = {rank: Lines(connection) for rank, connection in self.connections.items()}
        self._signs = {rank: _Sign(now, now) for rank in self.connections}
        self._selector = selectors.DefaultSelector()
        for rank, connection in self.connections.items():
            self._selector.register(connection, selectors.EVENT_READ, rank)
        self._last_look_s = now

    def listen(self, seconds: float) -> Failure | None:
        """Hear what comes within some time; a failure as soon as there is one."""
        for key, _ in self._selector.select(seconds):
            rank = key.data
            messages = self._lines[rank].receive()
            if messages is None:
                self._selector.unregister(key.fileobj)
                if not self._signs[rank].done:
                    return Failure(rank, "has died")
                continue
            for message in messages:
                if failure := self.hear(rank, message, time.monotonic()):
                    return failure
        return self.look(time.monotonic())

    def is_done(self, rank: int) -> bool:
        """Has this process done its part?"""
        return self._signs[rank].done

    def lingers(self, rank: int) -> Failure | None:
        """Has this process, which has not ended, done its part too long ago?"""
        sign = self._signs[rank]
        if not sign.done or time.monotonic() - sign.done_s <= self.timeout_s:
            return None
        return Failure(rank, f"has done its work, but has not ended for {self.timeout_s:g} seconds")

    @property
    def all_done(self) -> bool:
        """Has every process done its part?"""
        return all(sign.done for sign in self._signs.values())

    def hear(self, rank: int, message: Message, now: float) -> Failure | None:
        """Take note of a message."""
        sign = self._signs[rank]
        if not sign.has_spoken:
            sign.has_spoken, sign.moved_s = True, now
        sign.heard_s = now
        if "failed" in message:
            return Failure(rank, message["failed"], message["status"])
        if "done" in message:
            sign.done, sign.done_s = True, now
            return None
        if message["cpu_s"] - sign.cpu_s >= AT_WORK_S:
            sign.cpu_s, sign.moved_s = message["cpu_s"], now
        if message["waits"] and not sign.waits:
            sign.moved_s = now
        sign.waits, sign.at = message["waits"], message["at"]
        return None

    def look(self, now: float) -> Failure | None:
        """Is anyone silent, or standing still, for too long?"""
        if now - self._last_look_s > self.timeout_s / 2:  # it was us who were stopped: nobody could be heard
            for sign in self._signs.values():
                sign.heard_s = sign.moved_s = now
        self._last_look_s = now
        at_work = {rank: sign for rank, sign in self._signs.items() if not sign.done}
        for rank, sign in at_work.items():
            limit_s = self.timeout_s if sign.has_spoken else max(self.timeout_s, START_S)
            if now - sign.heard_s > limit_s:
                return Failure(rank, f"has not been heard of for {limit_s:g} seconds, when it was in {sign.at}")
        at_work = {rank: sign for rank, sign in at_work.items() if sign.has_spoken}
        for rank, sign in at_work.items():
            if not sign.waits and now - sign.moved_s > self.timeout_s:
                return Failure(rank, f"has stood still for {self.timeout_s:g} seconds in {sign.at}")
        if len(at_work) == len(self._signs) and all(now - sign.moved_s > self.timeout_s for sign in at_work.values()):
            places = ", ".join(f"rank {rank} in {sign.at}" for rank, sign in at_work.items())
            return Failure(None, f"all processes have waited for each other for {self.timeout_s:g} seconds: {places}")
        return None

    def close(self) -> None:
        """Let go of the connections."""
        self._selector.close()
        for connection in self.connections.values():
            connection.close()

    def end_job(self) -> None:
        """Tell everyone that it is over, which ends them."""
        for lines in self._lines.values():
            with suppress(OSError):
                lines.send({"over": True})
                lines.socket.shutdown(socket.SHUT_RDWR)


def in_words(failure: Failure, names: Mapping[int, str]) -> str:
    """`rank 2 (process 4711) has died`"""
    if failure.rank is None:
        return str(failure.reason)
    return f"rank {failure.rank} ({names.get(failure.rank, 'unknown')}) {failure.reason}"


def died(status: int) -> str:
    """What the exit status of a process says, as Popen gives it: negative for a signal."""
    if status >= 0:
        return f"ended with status {status} before its work was done"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = " (killed by the system where memory runs out, or by someone)" if -status == signal.SIGKILL else ""
    return f"was ended by {name}{hint}"
