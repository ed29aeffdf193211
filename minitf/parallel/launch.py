"""The launcher of `--devices`: start the ranks of a job on this host, wait for them, and end them together."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import FrameType

from autograd.devices import device_count, get_backend
from minitf.config.devices import parse_devices
from minitf.errors import UserError
from minitf.parallel.heartbeat import LOST_CONNECTION, Coordinator, Failure, describe, describe_exit
from minitf.parallel.shared_memory import barrier_distances
from minitf.system.environment import WORKER_VARIABLE, announced_rank
from minitf.system.portable import has_process_groups
from minitf.system.process import SIGNALS, say

POLL_S = 0.2


@dataclass(frozen=True)
class WorkerSpec:
    """The data that the launcher passes to a rank: its place in the job, and the descriptors that it inherits."""

    rank: int
    size: int
    memory: int
    signal_pipes: list[int]  # to write to, one per round of the barrier
    wait_pipes: list[int]  # to read from
    control: int  # socket to the launcher
    launcher: int  # process id

    @property
    def descriptors(self) -> list[int]:
        return [self.memory, *self.signal_pipes, *self.wait_pipes, self.control]

    @classmethod
    def of_this_process(cls) -> WorkerSpec | None:
        """Read what the launcher passed to this process; None if no launcher started it."""
        text = os.environ.pop(WORKER_VARIABLE, None)  # processes that this one starts are not ranks
        if text is None:
            return None
        try:
            spec = cls(**json.loads(text))
            for descriptor in spec.descriptors:
                os.fstat(descriptor)
        except (ValueError, TypeError, AttributeError, OSError, RecursionError, OverflowError):
            raise UserError(f"{WORKER_VARIABLE} was not set by the launcher; remove it from the environment") from None
        return spec


def launch_devices(command: Sequence[str], devices: str, timeout_s: float) -> int:
    """Run `python *command` as one process per device of `--devices`; return the exit status of the job.

    Raises: UserError under mpiexec, which has started the processes already, and if there are fewer GPUs.
    """
    if announced_rank() is not None:
        raise UserError(
            f"devices={devices!r} starts processes, and mpiexec has started this one already; choose --devices "
            "none, or leave mpiexec out"
        )
    if not has_process_groups():
        raise UserError(
            f"devices={devices!r} starts processes that share memory and descriptors, which {platform.system()} does "
            "not have; choose --devices none, or train under Linux (on Windows: in WSL)"
        )
    kind, size = parse_devices(devices)
    if kind == "cuda":
        _require_gpus(size)
    return launch(command, size, timeout_s)


def launch(command: Sequence[str], size: int, timeout_s: float) -> int:
    """Run `python *command` as the `size` ranks of a job; return the exit status of rank 0 or of the failed rank.

    Raises: UserError if the system cannot start as many processes.
    """
    try:
        launcher = Launcher(command, size, timeout_s)
    except OSError as error:
        raise UserError(
            f"cannot start {size} processes: {error.strerror or error}; choose fewer --devices, or raise the limits "
            "of ulimit -n and ulimit -u"
        ) from error
    return launcher.run()


class Launcher:
    """The parent process of the ranks of a job, and their coordinator."""

    def __init__(self, command: Sequence[str], size: int, timeout_s: float):
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self.signals_received = 0
        specs, controls = _worker_specs(size)
        try:
            for spec in specs:
                self.workers[spec.rank] = _start(command, spec)
        except BaseException:
            self.kill()
            raise
        finally:
            for descriptor in {each for spec in specs for each in spec.descriptors}:
                os.close(descriptor)
        self.coordinator = Coordinator(controls, timeout_s)

    def run(self) -> int:
        """Wait for all ranks; return the exit status of rank 0, or of the rank that failed."""
        handled = [each for each in SIGNALS if signal.getsignal(each) != signal.SIG_IGN]
        previous = {each: signal.signal(each, self._forward) for each in handled}
        try:
            failure = self._wait() or self._killed_after_work()
            if failure is None:
                return self.workers[0].wait()
            if failure.reason is not None:
                names = {rank: f"process {worker.pid}" for rank, worker in self.workers.items()}
                say(f"error: {describe(failure, names)}")
            return failure.status
        finally:
            self.kill()
            self.coordinator.close()
            for each, handler in previous.items():
                signal.signal(each, handler)

    def kill(self) -> None:
        """Kill all ranks that are still running, and wait until they are gone."""
        for worker in self.workers.values():
            worker.kill()  # does nothing to a process that has exited
        for worker in self.workers.values():
            worker.wait()

    def _wait(self) -> Failure | None:
        while True:
            heard = self.coordinator.listen(POLL_S)
            if heard is not None and heard.rank is not None and heard.reason == LOST_CONNECTION:
                heard = self._failure_of(heard.rank)
            failure = heard or self._check_processes()
            if failure is not None:
                return failure
            if self.signals_received > 2:
                return Failure(0, None, 128 + signal.SIGINT)
            if all(worker.poll() is not None for worker in self.workers.values()):
                return None

    def _check_processes(self) -> Failure | None:
        """Return a failure if a rank exited before its work was done, or does not exit after it.

        Of several that exited, the one killed by a signal is reported: the others may have exited because of it.
        """
        running = [rank for rank, worker in self.workers.items() if worker.poll() is None]
        exited = [rank for rank in self.workers if rank not in running and not self.coordinator.is_done(rank)]
        if exited:
            return self._failure_of(min(exited, key=lambda rank: self.workers[rank].returncode > 0))
        return next(filter(None, map(self.coordinator.check_exit, running)), None)

    def _killed_after_work(self) -> Failure | None:
        """Return a failure if a signal killed a rank between the end of its work and its exit."""
        statuses = {rank: worker.wait() for rank, worker in self.workers.items()}
        return next((Failure(rank, describe_exit(status)) for rank, status in statuses.items() if status < 0), None)

    def _failure_of(self, rank: int) -> Failure | None:
        """Find out why a rank closed its connection; its last message may still be on its way."""
        try:
            status = self.workers[rank].wait(timeout=5)
        except subprocess.TimeoutExpired:
            return Failure(rank, "closed its connection, but did not exit")
        end = time.monotonic() + POLL_S
        while time.monotonic() < end:
            heard = self.coordinator.listen(0.01)
            if heard is not None and heard.reason != LOST_CONNECTION:
                return heard
        return None if self.coordinator.is_done(rank) else Failure(rank, describe_exit(status), max(status, 1))

    def _forward(self, number: int, frame: FrameType | None) -> None:
        """Forward a signal to rank 0, and with it all ranks finish the step and save; the third signal ends the job."""
        self.signals_received += 1
        with suppress(ProcessLookupError):
            self.workers[0].send_signal(number)


def exit_with_launcher(launcher: int) -> None:
    """Have the kernel kill this process when the launcher exits, whatever the reason (Linux)."""
    if sys.platform == "linux":
        pr_set_pdeathsig = 1
        ctypes.CDLL(None).prctl(pr_set_pdeathsig, signal.SIGKILL)
        if os.getppid() != launcher:  # it has exited already
            os._exit(1)


def _worker_specs(size: int) -> tuple[list[WorkerSpec], dict[int, socket.socket]]:
    """Open everything that the ranks share; return their specs, and the launcher's end of each connection."""
    memory = _shared_memory()
    distances = barrier_distances(size)
    pipes = [[os.pipe() for _ in range(size)] for _ in distances]  # (to read, to write) of each round and rank
    controls: dict[int, socket.socket] = {}
    specs = []
    for rank in range(size):
        controls[rank], control = socket.socketpair()
        controls[rank].settimeout(1.0)
        specs.append(
            WorkerSpec(
                rank=rank,
                size=size,
                memory=memory,
                signal_pipes=[
                    ends[(rank + distance) % size][1] for distance, ends in zip(distances, pipes, strict=True)
                ],
                wait_pipes=[ends[rank][0] for ends in pipes],
                control=control.detach(),
                launcher=os.getpid(),
            )
        )
    return specs, controls


def _shared_memory() -> int:
    """Create an anonymous shared-memory file (memfd); return its descriptor."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("minitf")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _start(command: Sequence[str], spec: WorkerSpec) -> subprocess.Popen[bytes]:
    environment = {**os.environ, WORKER_VARIABLE: json.dumps(asdict(spec))}
    environment["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, sys.path))  # the same code as in this process
    # OpenBLAS takes all cores when it is imported; each rank sets its share of them itself
    environment.setdefault("OPENBLAS_NUM_THREADS", "1")
    return subprocess.Popen(
        [sys.executable, "-P", *(f"-W{option}" for option in sys.warnoptions), *command],
        env=environment,
        pass_fds=spec.descriptors,
        stdin=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C reaches the launcher alone, which forwards it to rank 0
    )


def _require_gpus(count: int) -> None:
    """Raises: UserError if this host has fewer GPUs."""
    if device_count() < count:
        try:
            get_backend(f"cuda:{count - 1}")  # says why
        except ValueError as error:
            raise UserError(f"{error}; choose fewer --devices, or --devices cpu:N") from None
