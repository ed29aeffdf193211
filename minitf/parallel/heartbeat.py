"""Failure detection: every rank sends heartbeats; the coordinator aborts the job when a rank exits, hangs or raises.

The coordinator is the launcher of `--devices`, or under mpiexec a thread of rank 0, with one connection to each rank.
When it exits or closes them, every rank exits at once: a rank may be blocked in a collective operation, so nothing less
would reach it.  The files of a run are complete at any instant.
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
from dataclasses import dataclass
from typing import Any

from minitf.system.files import parse_json_object

INTERVAL_S = 0.5
START_S = 60.0
"""Limit for the first heartbeat: Python and NumPy may take that long to start from a slow disk on a busy machine."""

ABORT_S = 10.0
"""Limit for the coordinator to abort the job of a rank that has failed."""

PROGRESS_CPU_S = 0.02
"""CPU time from which a rank counts as making progress; sending heartbeats alone takes less."""

LONGEST_MESSAGE = 1 << 20
LOST_CONNECTION = "exited unexpectedly"

Message = dict[str, Any]


@dataclass(frozen=True)
class Failure:
    """Why the job was aborted.  `reason` is None if the failed rank printed the error itself."""

    rank: int | None  # None: no single rank
    reason: str | None
    status: int = 1


class MessageSocket:
    """Sends and receives JSON objects, one a line, over a socket."""

    def __init__(self, connection: socket.socket):
        self.socket = connection
        self._incomplete_line = b""

    def send(self, message: Message) -> None:
        """Raises: OSError if the other end is closed, or has not read for long."""
        self.socket.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[Message] | None:
        """Return the messages that have arrived, or None if the connection is closed or brings something else."""
        try:
            data = self.socket.recv(65536)
        except OSError:
            return None
        *lines, self._incomplete_line = (self._incomplete_line + data).split(b"\n")
        if not data or len(self._incomplete_line) > LONGEST_MESSAGE:
            return None
        try:
            return [parse_json_object(line) for line in lines]
        except ValueError:
            return None


# ---- The rank ----------------------------------------------------------------------------------------------------


class Heartbeat:
    """Sends this rank's heartbeats from a thread of its own, and exits when the coordinator aborts the job."""

    def __init__(self, rank: int, connection: socket.socket):
        self.rank = rank
        self._messages = MessageSocket(connection)
        self._lock = threading.Lock()
        self._waits = 0
        self._may_lose_coordinator = False
        self._main_thread = threading.main_thread().ident or 0
        self._receiver = threading.Thread(target=self._receive, daemon=True)
        for thread in (threading.Thread(target=self._send_heartbeats, daemon=True), self._receiver):
            thread.start()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Context manager: this rank waits for others, which does not count as a hang."""
        self._waits += 1
        try:
            yield
        finally:
            self._waits -= 1

    def fail(self, reason: str | None, status: int) -> None:
        """Ask the coordinator to abort the job, which ends this process too.

        With a reason, wait for that: mpiexec kills all ranks when one exits, and the coordinator, a thread of rank 0,
        would not print the reason any more.
        """
        self._send({"failed": reason, "status": status})
        if reason is not None:
            self._receiver.join(ABORT_S)

    def prepare_exit(self) -> None:
        """Declare that this rank only waits for the others from now on, and that the coordinator may exit first."""
        self._may_lose_coordinator = True

    def finish(self) -> None:
        """Report that the work is done: exiting is not a failure from now on."""
        self._may_lose_coordinator = True
        self._send({"done": True})

    def _send(self, message: Message) -> None:
        with self._lock, suppress(OSError):  # a closed connection ends this process in `_receive`
            self._messages.send(message)

    def _send_heartbeats(self) -> None:
        while True:
            self._send({"cpu_s": time.process_time(), "waiting": self._waits > 0, "location": self._location()})
            time.sleep(INTERVAL_S)

    def _location(self) -> str:
        """Describe what the main thread executes: `sync_folder (files.py, line 123)`."""
        frame = sys._current_frames().get(self._main_thread)
        if frame is None:
            return "its exit"
        code = frame.f_code
        return f"{code.co_name} ({os.path.basename(code.co_filename)}, line {frame.f_lineno})"

    def _receive(self) -> None:
        is_aborted = False
        while (messages := self._messages.receive()) is not None:
            is_aborted = is_aborted or any("abort" in message for message in messages)
        self._messages.socket.close()
        if self._may_lose_coordinator and not is_aborted:
            return
        if not is_aborted and self.rank == 1:  # the coordinator was a thread of rank 0; one rank reports it for all
            with suppress(OSError):
                os.write(2, b"error: rank 0 exited unexpectedly; continue from the last checkpoint with --resume\n")
        os._exit(1)


# ---- The coordinator ---------------------------------------------------------------------------------------------


@dataclass
class _RankStatus:
    """Most recent heartbeat of a rank, by the coordinator's clock."""

    heard_s: float
    progress_s: float  # when the rank last computed, or began to wait for others
    cpu_s: float = 0.0  # at that time
    waiting: bool = False
    location: str = "its start"
    has_started: bool = False
    done_s: float | None = None  # when its work was done


class Coordinator:
    """Heartbeat monitor: read the ranks' heartbeats and report the first failed rank."""

    def __init__(self, connections: Mapping[int, socket.socket], timeout_s: float):
        """
        connections: by rank
        """
        now = time.monotonic()
        self.timeout_s = timeout_s
        self._messages = {rank: MessageSocket(connection) for rank, connection in connections.items()}
        self._ranks = {rank: _RankStatus(now, now) for rank in connections}
        self._selector = selectors.DefaultSelector()
        for rank, connection in connections.items():
            self._selector.register(connection, selectors.EVENT_READ, rank)
        self._last_check_s = now

    def listen(self, seconds: float) -> Failure | None:
        """Receive heartbeats for up to `seconds`; return a failure as soon as there is one."""
        for key, _ in self._selector.select(seconds):
            rank = key.data
            messages = self._messages[rank].receive()
            if messages is None:
                self._selector.unregister(key.fileobj)
                if not self.is_done(rank):
                    return Failure(rank, LOST_CONNECTION)
                continue
            for message in messages:
                try:
                    failure = self.handle(rank, message, time.monotonic())
                except (KeyError, TypeError):
                    failure = Failure(rank, f"sent a message that this version does not know: {str(message)[:80]}")
                if failure:
                    return failure
        return self.check(time.monotonic())

    def is_done(self, rank: int) -> bool:
        """True if the rank has reported that its work is done."""
        return self._ranks[rank].done_s is not None

    @property
    def all_done(self) -> bool:
        """Return whether all ranks have finished their work."""
        return all(map(self.is_done, self._ranks))

    def check_exit(self, rank: int) -> Failure | None:
        """Return a failure if the rank, which is still running, finished its work more than the timeout ago."""
        done_s = self._ranks[rank].done_s
        if done_s is None or time.monotonic() - done_s <= self.timeout_s:
            return None
        return Failure(rank, f"finished its work, but did not exit within {self.timeout_s:g} seconds")

    def handle(self, rank: int, message: Message, now: float) -> Failure | None:
        """Process one message of a rank."""
        status = self._ranks[rank]
        if not status.has_started:
            status.has_started, status.progress_s = True, now
        status.heard_s = now
        if "failed" in message:
            return Failure(rank, message["failed"], message["status"])
        if "done" in message:
            status.done_s = now
            return None
        if message["cpu_s"] - status.cpu_s >= PROGRESS_CPU_S:
            status.cpu_s, status.progress_s = message["cpu_s"], now
        if message["waiting"] and not status.waiting:
            status.progress_s = now
        status.waiting, status.location = message["waiting"], message["location"]
        return None

    def check(self, now: float) -> Failure | None:
        """Return a failure if a rank has sent no heartbeat, or made no progress, for longer than the timeout."""
        if now - self._last_check_s > self.timeout_s / 2:  # this process itself was stopped, and could not listen
            for status in self._ranks.values():
                status.heard_s = status.progress_s = now
        self._last_check_s = now
        working = {rank: status for rank, status in self._ranks.items() if status.done_s is None}
        for rank, status in working.items():
            limit_s = self.timeout_s if status.has_started else max(self.timeout_s, START_S)
            if now - status.heard_s > limit_s:
                return Failure(rank, f"sent no heartbeat for {limit_s:g} seconds; it was in {status.location}")
        idle = {
            rank: status
            for rank, status in working.items()
            if status.has_started and now - status.progress_s > self.timeout_s
        }
        for rank, status in idle.items():
            if not status.waiting:
                stopped = f"made no progress for {self.timeout_s:g} seconds in {status.location}"
                return Failure(rank, f"{stopped}; if it is only slow, increase --rank-timeout")
        if len(idle) == len(self._ranks):
            places = ", ".join(f"rank {rank} in {status.location}" for rank, status in idle.items())
            return Failure(None, f"deadlock: all ranks waited for each other for {self.timeout_s:g} seconds: {places}")
        return None

    def close(self) -> None:
        """Close the connections."""
        self._selector.close()
        for messages in self._messages.values():
            messages.socket.close()

    def abort(self, but: int | None = None) -> None:
        """Abort the job: every rank exits, except for `but`, whose process must outlive the message to the others."""
        for messages in (each for rank, each in self._messages.items() if rank != but):
            with suppress(OSError):
                messages.send({"abort": True})
                messages.socket.shutdown(socket.SHUT_RDWR)


def describe(failure: Failure, names: Mapping[int, str]) -> str:
    """`rank 2 (process 4711) exited unexpectedly`"""
    if failure.rank is None:
        return str(failure.reason)
    return f"rank {failure.rank} ({names.get(failure.rank, 'unknown')}) {failure.reason}"


def describe_exit(status: int) -> str:
    """Describe the exit status of a process, as Popen returns it: negative if a signal ended the process."""
    if status >= 0:
        return f"exited with status {status} before its work was done"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    hint = " (by the system because memory ran out, or by a user)" if -status == signal.SIGKILL else ""
    return f"was killed by {name}{hint}"
