"""`--devices cpu:4`, `--devices 8`: start the processes of a job on this host, watch over them, end them together."""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from minitf.errors import UserError
from minitf.parallel.shared import rounds_of
from minitf.parallel.watch import Coordinator, Failure, died, in_words
from minitf.system.progress import say
from minitf.system.signals import SIGNALS

WORKER = "MINITF_WORKER"
"""The variable of the environment that tells a process which one of a job it is."""

PATIENCE_S = 0.2  # between two looks at processes that say nothing


@dataclass(frozen=True)
class Place:
    """Which process of a job one is, and the descriptors that it shares with the others."""

    rank: int
    size: int
    memory: int
    arrive: list[int]  # pipes to write to, one a round of the barrier
    await_: list[int]  # pipes to read from
    control: int  # socket to the launcher
    launcher: int  # its process

    @property
    def descriptors(self) -> list[int]:
        """What the process inherits."""
        return [self.memory, *self.arrive, *self.await_, self.control]


def place_of_this_process() -> Place | None:
    """What the launcher has told this process; None where there is none."""
    told = os.environ.pop(WORKER, None)  # not for processes that this one may start
    return None if told is None else Place(**json.loads(told))


def die_with(launcher: int) -> None:
    """Have the kernel end this process when the launcher goes, however it goes (Linux)."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != launcher:  # it has gone already
            os._exit(1)


class Launcher:
    """The parent of the processes of a job."""

    def __init__(self, program: Path, argv: Sequence[str], size: int, timeout_s: float):
        self.size = size
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self.asked = 0  # signals that have been passed on
        places, controls = _places(size)
        words = [*(f"-W{option}" for option in sys.warnoptions), str(program), *argv]
        try:
            for place in places:
                self.workers[place.rank] = _start(words, place)
        except BaseException:
            self.kill()
            raise
        finally:
            for descriptor in {each for place in places for each in place.descriptors}:
                os.close(descriptor)
        self.coordinator = Coordinator(controls, timeout_s)

    def run(self) -> int:
        """Wait for the end; gives the exit status of rank 0, or of the one that failed."""
        previous = {each: signal.signal(each, self._pass_on) for each in _handled()}
        try:
            failure = self._watch() or self._ended_by_a_signal()
            if failure is None:
                return self.workers[0].wait()
            if failure.reason is not None:
                say(f"error: {in_words(failure, self.names)}")
            return failure.status
        finally:
            self.kill()
            self.coordinator.close()
            for each, handler in previous.items():
                signal.signal(each, handler)

    @property
    def names(self) -> dict[int, str]:
        return {rank: f"process {worker.pid}" for rank, worker in self.workers.items()}

    def kill(self) -> None:
        """End every process that is left, and see it gone."""
        for worker in self.workers.values():
            worker.kill()  # does nothing to one that has ended
        for worker in self.workers.values():
            worker.wait()

    def _watch(self) -> Failure | None:
        while True:
            heard = self.coordinator.listen(PATIENCE_S)
            if heard is not None and heard.rank is not None and heard.reason == "has died":
                heard = self._end_of(heard.rank)
            failure = heard or self._look()
            if failure is not None:
                return failure
            if self.asked > 2:
                return Failure(0, None, 128 + signal.SIGINT)
            if all(worker.poll() is not None for worker in self.workers.values()):
                return None

    def _look(self) -> Failure | None:
        """A process that has gone and not said that it was done, one that a signal has ended first of all; or that has
        said it, and does not go."""
        there = [rank for rank, worker in self.workers.items() if worker.poll() is None]
        gone = [rank for rank in self.workers if rank not in there and not self.coordinator.is_done(rank)]
        gone.sort(key=lambda rank: self.workers[rank].returncode > 0)
        if gone:
            return self._end_of(gone[0])
        return next(filter(None, map(self.coordinator.lingers, there)), None)

    def _ended_by_a_signal(self) -> Failure | None:
        """All have gone, their work done: but a signal may have ended one before it could end by itself."""
        ended = {rank: worker.wait() for rank, worker in self.workers.items()}
        return next((Failure(rank, died(status)) for rank, status in ended.items() if status < 0), None)

    def _end_of(self, rank: int) -> Failure | None:
        """How a process ended whose connection has; its last words may still be on their way."""
        try:
            status = self.workers[rank].wait(timeout=5)
        except subprocess.TimeoutExpired:
            return Failure(rank, "has closed its connection, but has not ended")
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            last = self.coordinator.listen(0.01)
            if last is not None and last.reason != "has died":
                return last
        return None if self.coordinator.is_done(rank) else Failure(rank, died(status), max(status, 1))

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """Rank 0 finishes its step and saves, and the others with it; the third time, everything ends at once."""
        self.asked += 1
        with suppress(ProcessLookupError):
            self.workers[0].send_signal(number)


def launch(program: Path, argv: Sequence[str], size: int, timeout_s: float) -> int:
    """Run `python program argv` as `size` processes that train as one; gives the exit status.

    Raises: UserError where the system does not let so many start.
    """
    try:
        launcher = Launcher(program, argv, size, timeout_s)
    except OSError as error:
        raise UserError(
            f"cannot start {size} processes: {error.strerror or error}; choose fewer --devices, or raise the limits "
            "of ulimit -n and ulimit -u"
        ) from error
    return launcher.run()


def _places(size: int) -> tuple[list[Place], dict[int, socket.socket]]:
    """What each process gets, and the launcher's ends of the connections."""
    memory = _new_memory()
    pipes = [[os.pipe() for _ in range(size)] for _ in rounds_of(size)]  # (to read, to write) of each rank and round
    controls: dict[int, socket.socket] = {}
    places = []
    for rank in range(size):
        controls[rank], theirs = socket.socketpair()
        controls[rank].settimeout(1.0)
        places.append(
            Place(
                rank=rank,
                size=size,
                memory=memory,
                arrive=[ends[(rank + reach) % size][1] for reach, ends in zip(rounds_of(size), pipes, strict=True)],
                await_=[ends[rank][0] for ends in pipes],
                control=theirs.detach(),
                launcher=os.getpid(),
            )
        )
    return places, controls


def _new_memory() -> int:
    """A descriptor of memory without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("minitf")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _start(words: Sequence[str], place: Place) -> subprocess.Popen[bytes]:
    environment = {**os.environ, WORKER: json.dumps(asdict(place))}
    # each process divides the cores by itself; a library that takes all of them at its import is in the others' way
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    return subprocess.Popen(
        [sys.executable, *words],
        env=environment,
        pass_fds=place.descriptors,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C comes to the launcher alone, which passes it on to rank 0
    )


def _handled() -> list[signal.Signals]:
    return [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
