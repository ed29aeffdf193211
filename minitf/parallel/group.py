"""The ranks of a job: collective operations over MPI and NCCL, and gradients in buckets that all ranks sum.

mpiexec starts the ranks, on one host or several, and ends all of them when one dies. A rank that hangs is noticed by
the others, which wait for it in a collective operation no longer than TIMEOUT_VARIABLE says, and then end the job.
With one GPU a rank, NCCL, through CuPy, all-reduces gradients on a CUDA stream of its own.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np

from autograd import Tensor
from autograd.backend import backend_of, get_backend
from autograd.devices import device_count
from autograd.fast import kernels_of
from minitf.errors import UserError
from minitf.model.parameters import Parameter
from minitf.system.process import exit_status, say

Array = Any

TIMEOUT_VARIABLE = "MINITF_COLLECTIVE_TIMEOUT_S"
TIMEOUT_S = 600.0
FIRST_PAUSE_S, LAST_PAUSE_S = 2e-5, 1e-3
BUSY_S = 0.5
"""The time for which a transfer that all ranks have begun is polled without pauses: MPI moves data only when asked."""


class ParallelError(UserError):
    """Raised when data-parallel training cannot continue: a rank hangs, or has diverged from rank 0."""

    exit_status = 1  # the command line was right


class Deadline:
    """Limit of the time that this rank waits in one collective operation."""

    def __init__(self) -> None:
        """Raises: UserError if the variable is not a number of seconds"""
        given = os.environ.get(TIMEOUT_VARIABLE, str(TIMEOUT_S))
        try:
            self.limit_s = float(given)
        except ValueError:
            raise UserError(f"{TIMEOUT_VARIABLE}={given!r} is not a number of seconds") from None
        self._waited_s, self._last_s, self._pause_s = 0.0, time.monotonic(), FIRST_PAUSE_S

    def pause(self) -> bool:
        """Sleep, longer each time, since MPI's own wait takes a core; return whether the time is over.

        A pause counts for a second at most: a whole job that was stopped for an hour goes on afterwards.
        """
        time.sleep(self._pause_s)
        self._pause_s = min(2 * self._pause_s, LAST_PAUSE_S)
        now_s = time.monotonic()
        self._waited_s += min(now_s - self._last_s, 1.0)
        self._last_s = now_s
        return self._waited_s > self.limit_s

    def error(self, rank: int, whom: str, purpose: str) -> ParallelError:
        """Return the error of a wait of `rank` that is over."""
        return ParallelError(
            f"rank {rank} waited {self.limit_s:g} seconds for {whom}, in {purpose}; continue from the last checkpoint "
            f"with --resume, or if it is only slow, increase {TIMEOUT_VARIABLE}"
        )


class Group:
    """The ranks of a job that mpiexec has started, on any number of hosts, and their collective operations.

    Every rank calls the same methods in the same order; each call waits for the slowest rank.
    """

    rank, size = 0, 1
    device = "cpu"
    is_asynchronous = False  # True: `all_reduce` returns at once, and `synchronize` waits

    def __init__(self, mpi: Any):
        """mpi: the module mpi4py.MPI"""
        self._mpi, self._world = mpi, mpi.COMM_WORLD
        self.rank, self.size = self._world.rank, self._world.size
        self.barrier("the start")
        host = self._world.Split_type(mpi.COMM_TYPE_SHARED)
        self.local_rank, self.local_size = host.rank, host.size  # among the ranks of this host
        has_affinity = hasattr(os, "sched_getaffinity")  # not on macOS
        cores = sorted(os.sched_getaffinity(0)) if has_affinity else list(range(os.cpu_count() or 1))
        sharing = sum(each == cores for each in host.allgather(cores))  # 1 where mpiexec has bound each to its own
        self.cores = max(1, len(cores) // sharing)  # CPU cores of this rank
        self.hosts = sum(self.all_gather(self.local_rank == 0))

    def all_gather(self, value: Any, purpose: str = "a message", *, after_rank_0: bool = False) -> list[Any]:
        """Return the values of all ranks, in order of rank.

        purpose: of this call, for the message of the error
        after_rank_0: wait for rank 0 without a limit, since it works alone before this call

        Raises: ParallelError that names the ranks that did not come in time
        """
        others = [rank for rank in range(self.size) if rank != self.rank]
        requests = [self._world.isend(value, rank) for rank in others]
        values, deadline = {self.rank: value}, Deadline()
        while True:
            for rank in others:
                if rank not in values and (message := self._world.improbe(rank)) is not None:
                    values[rank] = message.recv()
            if len(values) == self.size and self._mpi.Request.Testall(requests):
                return [values[rank] for rank in range(self.size)]
            if deadline.pause():
                missing = [rank for rank in others if rank not in values and not (after_rank_0 and rank == 0)]
                if missing:
                    raise deadline.error(self.rank, f"rank {', '.join(map(str, missing))}", purpose)

    def broadcast(self, array: Array) -> None:
        """Overwrite `array` with rank 0's."""
        self.barrier("a broadcast")
        self._complete(self._world.Ibcast(array.reshape(-1).view(np.uint8)), "a broadcast")

    def all_reduce(self, array: Array) -> None:
        """Replace `array` by its sum over all ranks, with the same bytes on every rank and each time.

        MPI leaves the order of the additions to the library. MPICH adds each part of the array on one rank and copies
        the sum, in an order that depends on the number of ranks alone.
        """
        self.barrier("the sum of gradients")
        self._complete(self._world.Iallreduce(self._mpi.IN_PLACE, array), "the sum of gradients")

    def _complete(self, request: Any, purpose: str) -> None:
        """Wait for a collective operation that all ranks have begun."""
        deadline, busy_until_s = Deadline(), time.monotonic() + BUSY_S
        while not request.Test():
            if time.monotonic() > busy_until_s and deadline.pause():
                raise deadline.error(self.rank, "another rank", purpose)

    def synchronize(self) -> None:
        """Make the computations that follow wait for all `all_reduce` calls so far."""

    def barrier(self, purpose: str = "a barrier", *, after_rank_0: bool = False) -> None:
        """Wait until every rank has called this method."""
        self.all_gather(None, purpose, after_rank_0=after_rank_0)

    def broadcast_value(self, value: Any) -> Any:
        """Return rank 0's value, whose computation may take rank 0 any time."""
        return self.all_gather(value if self.rank == 0 else None, "a message of rank 0", after_rank_0=True)[0]

    @contextmanager
    def main_process_first(self) -> Iterator[None]:
        """Context manager: rank 0 executes the block first, then all other ranks do, and find the files it wrote."""
        if self.rank != 0:
            self.barrier("the preparation of texts", after_rank_0=True)
        yield
        if self.rank == 0:
            self.barrier("the preparation of texts")

    def abort(self, message: str | None, status: int) -> NoReturn:
        """Print a message and end all ranks; the job exits with `status`.

        An error of all ranks is printed once, by rank 0: the others wait for it to end them.
        """
        time.sleep(min(0.5 * self.rank, 2.0))
        if message is not None:
            say(message)
        time.sleep(0.2)  # mpiexec must have read the message when it learns of the end
        self._world.Abort(status)
        raise SystemExit(status)


@contextmanager
def join(kind: str) -> Iterator[Group]:
    """Join the other ranks of this job, each with its share of the cores, and leave together with them.

    kind: "cpu", or "cuda" for one GPU per rank
    An error inside the `with` block is reported once, and ends all ranks.
    """
    group = Group(import_mpi())
    prefix = "" if group.rank == 0 else f"rank {group.rank}: "
    try:
        if kind == "cpu":
            yield group
        else:
            yield group_of_gpus(group, kind)
        group.barrier("the end of the run", after_rank_0=True)  # which may still score translations
    except UserError as error:
        group.abort(f"error: {prefix}{error}", error.exit_status)
    except KeyboardInterrupt as interrupt:
        group.abort("interrupted" if group.rank == 0 else None, exit_status(interrupt))
    except Exception as error:
        sys.excepthook(type(error), error, error.__traceback__)
        group.abort(f"error: {prefix}{type(error).__name__}: {error}", 1)


def import_mpi() -> Any:
    """Import mpi4py's MPI.

    Raises: UserError if mpi4py or the MPI library is missing.
    """
    try:
        from mpi4py import MPI  # initialises MPI
    except (ImportError, RuntimeError) as error:
        raise UserError(
            f"this is one process of several, but mpi4py cannot be used ({str(error).splitlines()[0]}); "
            "pip install '.[parallel]' in the project's directory"
        ) from None
    return MPI


def group_of_gpus(group: Group, kind: str) -> Group:
    """Return a group of the same ranks with a GPU each.

    Raises: UserError if there are fewer GPUs
    """
    if kind != "cuda" and group.local_size > 1:
        raise UserError(
            f"device={kind!r} would be shared by {group.local_size} processes of this host; choose --device cuda, "
            "which gives each its own"
        )
    # a batch system may show each process its own GPU alone (CUDA_VISIBLE_DEVICES), which is then cuda:0 in all of them
    device = kind if kind != "cuda" else f"cuda:{0 if device_count() == 1 else group.local_rank}"
    try:
        backend = get_backend(device)
    except ValueError as error:
        raise UserError(f"{error}; choose fewer --devices, or --devices cpu:N") from None
    return NcclGroup(group, backend, device)


NCCL_TYPES = {"float32": "NCCL_FLOAT32", "float64": "NCCL_FLOAT64"}


class NcclGroup(Group):
    """The ranks of `control`, with a GPU each: NCCL sums their arrays on a stream of its own, MPI does the rest."""

    is_asynchronous = True

    def __init__(self, control: Group, backend: Any, device: str):
        """
        backend: that of this rank's GPU, which is the current device; it alone imports CuPy
        Raises: UserError if NCCL is missing or refuses these GPUs.
        """
        vars(self).update(vars(control))
        self.device = device
        self._xp, self._nccl = backend.xp, backend.nccl
        if not self._nccl.available:
            raise UserError(
                "CuPy finds no NCCL, which connects GPUs; pip install nvidia-nccl-cu13, or train on one GPU"
            )
        identifier = control.broadcast_value(self._nccl.get_unique_id() if self.rank == 0 else None)
        try:
            self._communicator = self._nccl.NcclCommunicator(self.size, identifier, self.rank)
        except self._nccl.NcclError as error:
            raise UserError(
                f"NCCL cannot join {self.size} GPUs: {error}; each process needs its own GPU (NCCL_DEBUG=WARN "
                "makes NCCL print details)"
            ) from error
        self._stream = self._xp.cuda.Stream(non_blocking=True)

    def broadcast(self, array: Array) -> None:
        if isinstance(array, np.ndarray):
            super().broadcast(array)
            return
        stream = self._xp.cuda.get_current_stream()
        self._communicator.bcast(array.data.ptr, array.nbytes, self._nccl.NCCL_UINT8, 0, stream.ptr)

    def all_reduce(self, array: Array) -> None:
        """Enqueue the all-reduce, which starts when the current stream has written `array`."""
        self._stream.wait_event(self._xp.cuda.get_current_stream().record())
        kind = getattr(self._nccl, NCCL_TYPES[array.dtype.name])
        pointer = array.data.ptr
        self._communicator.allReduce(pointer, pointer, array.size, kind, self._nccl.NCCL_SUM, self._stream.ptr)

    def synchronize(self) -> None:
        """Wait until all sums have ended; CUDA itself would wait without a limit.

        Raises: ParallelError if NCCL has lost a rank, or a sum does not end
        """
        event, deadline = self._stream.record(), Deadline()
        while not event.done:
            try:
                self._communicator.check_async_error()
            except self._nccl.NcclError as error:
                self._communicator.abort()
                raise ParallelError(
                    f"NCCL cannot sum gradients: {error}; continue from the last checkpoint with --resume "
                    "(NCCL_DEBUG=WARN makes NCCL print details)"
                ) from error
            if deadline.pause():
                raise deadline.error(self.rank, "another rank", "the sum of gradients")
        self._xp.cuda.get_current_stream().wait_event(event)


# ---- Gradient buckets --------------------------------------------------------------------------------------------

FIRST_BUCKET_BYTES = 1 << 20  # small, so that communication starts early
BUCKET_BYTES = 25 << 20  # large enough for full bandwidth, small enough that little is left after the backward pass
ALIGNMENT = 64  # elements; kernels read 16 bytes at a time, and a cache line has 64


class GradientBuckets:
    """The gradients of all parameters in one flat buffer, all-reduced bucket by bucket.

    A bucket's gradients are moved there when a backward pass has completed them, and parameters have gradients again
    after `finish`.
    The buffer holds the parameters from the last to the first, the order in which a backward pass completes them.  The
    shared embedding, complete only at the end of the pass, comes last and has a bucket of its own.  On GPUs a bucket is
    all-reduced as soon as all gradients in it are complete, while the backward pass goes on, in the same order on every
    rank, also on a rank without rows in this update.  On a CPU all are summed after the backward pass: a sum beside it
    would take the cores from it.
    """

    def __init__(self, parameters: Sequence[Parameter], group: Group, *, bucket_bytes: int = BUCKET_BYTES):
        self.group = group
        self._exposed_s = 0.0  # after the backward pass, until all buckets are reduced
        self._parameters = parameters[::-1]
        places, self.buckets = _laid_out(self._parameters, bucket_bytes)
        first = self._parameters[0].data
        self._buffer = backend_of([first]).xp.zeros(places[-1].stop, first.dtype)
        self._kernels = kernels_of([first])
        self._views = {
            id(each): self._buffer[place].reshape(each.shape)
            for each, place in zip(self._parameters, places, strict=True)
        }
        self._gathered: set[int] = set()  # parameters that have a gradient in the buffer
        self._bucket_of = {id(p): number for number, (bucket, _) in enumerate(self.buckets) for p in bucket}
        self._pending: list[int] = []  # gradients that each bucket still waits for
        self._next = len(self.buckets)  # the next bucket to reduce; none before the first update
        for parameter in self._parameters:
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def begin(self, backward_passes: int) -> None:
        """Forget all gradients and count on this many backward passes before buckets are complete."""
        for parameter in self._parameters:
            parameter.grad = None
        self._gathered = set()
        self._pending = [len(bucket) * backward_passes for bucket, _ in self.buckets]
        self._next = 0

    def finish(self) -> None:
        """Wait until the gradients of all parameters are summed over all ranks."""
        start = time.perf_counter()
        while self._next < len(self.buckets):
            self._reduce_next()
        self.group.synchronize()
        for parameter in self._parameters:
            parameter.grad = Tensor(self._views[id(parameter)])
        self._exposed_s += time.perf_counter() - start

    def take_times(self) -> dict[str, float]:
        """Return the seconds spent on communication since the last call."""
        times = {"exposed_s": self._exposed_s}
        self._exposed_s = 0.0
        return times

    def _on_gradient(self, parameter: Tensor) -> None:
        """Called when a backward pass has accumulated the gradient of `parameter`."""
        if self._next == len(self.buckets):
            return  # a backward pass outside of an update
        number = self._bucket_of[id(parameter)]
        self._pending[number] -= 1
        bucket, _ = self.buckets[number]
        if self._pending[number] % len(bucket) == 0:  # of this backward pass, all have one
            self._gather(bucket)
        while self.group.is_asynchronous and self._next < len(self.buckets) and not self._pending[self._next]:
            self._reduce_next()

    def _gather(self, bucket: list[Parameter]) -> None:
        """Move the gradients that have arrived to the buffer, where they are added to those of earlier passes."""
        arrived = {id(parameter): parameter for parameter in bucket if parameter.grad is not None}
        if arrived:
            self._kernels.gather_(
                [
                    (self._views[key], parameter.grad.data, key in self._gathered)  # type: ignore[union-attr]
                    for key, parameter in arrived.items()
                ]
            )
        self._gathered |= {*arrived}
        for parameter in arrived.values():
            parameter.grad = None

    def _reduce_next(self) -> None:
        bucket, part = self.buckets[self._next]
        self._next += 1
        self._gather(bucket)
        for key in {id(parameter) for parameter in bucket} - self._gathered:
            self._views[key][...] = 0
        self.group.all_reduce(self._buffer[part])


def _laid_out(
    parameters: Sequence[Parameter], bucket_bytes: int
) -> tuple[list[slice], list[tuple[list[Parameter], slice]]]:
    """Assign each parameter an aligned slice of the flat buffer, and group them into buckets of `bucket_bytes` or more.

    The last parameter gets its own bucket.
    """
    places: list[slice] = []
    buckets: list[tuple[list[Parameter], slice]] = []
    bucket: list[Parameter] = []
    bucket_start = stop = 0
    for number, parameter in enumerate(parameters, 1):
        start = -(-stop // ALIGNMENT) * ALIGNMENT
        stop = start + parameter.size
        places.append(slice(start, stop))
        bucket.append(parameter)
        limit = bucket_bytes if buckets else min(FIRST_BUCKET_BYTES, bucket_bytes)
        if sum(each.data.nbytes for each in bucket) >= limit or number >= len(parameters) - 1:
            buckets.append((bucket, slice(bucket_start, stop)))
            bucket, bucket_start = [], stop
    return places, buckets
