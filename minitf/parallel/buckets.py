"""Gradients of several processes: one flat buffer, summed in buckets while the backward pass still runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from autograd import Tensor
from autograd.backend import backend_of
from minitf.model.layers import Parameter
from minitf.parallel.group import Group
from minitf.parallel.sums import from_bfloat16, to_bfloat16

Array = Any

FIRST_BUCKET_BYTES = 1 << 20  # small, so that the first one is on its way early
BUCKET_BYTES = 25 << 20  # large enough for full speed, small enough that little is left after the backward pass
ALIGNMENT = 64  # numbers; kernels read 16 bytes at a time, and a row of a cache is 64


@dataclass
class ReduceClock:
    """Seconds since it was last read; the first two beside the backward pass, the last one after it."""

    waiting_s: float = 0.0  # with a bucket in hand, for the last process to come with its own
    summing_s: float = 0.0  # adding up buckets
    exposed_s: float = 0.0  # standing still after the backward pass, until all buckets are summed

    def read(self) -> dict[str, float]:
        """The seconds, for the log; they begin anew."""
        seen = asdict(self)
        self.waiting_s, self.summing_s, self.exposed_s = 0.0, 0.0, 0.0
        return seen


class Gradients:
    """The gradients of one process that learns alone: nothing is summed."""

    def __init__(self, named_parameters: Mapping[str, Parameter]):
        self.named_parameters = named_parameters
        self.clock = ReduceClock()

    def begin(self, passes: int) -> None:
        """Forget all gradients; this many backward passes follow."""
        for parameter in self.named_parameters.values():
            parameter.grad = None

    def finish(self) -> None:
        """The passes are done: return when `grad` of every parameter has the sum over all processes."""


class ReducedGradients(Gradients):
    """The gradients of one process of several.

    They stand end to end in one flat buffer, in the order in which a backward pass comes to them: the parameters from
    the last to the first, so that the embedding, which is complete only when the pass has ended, is the last, in a
    bucket of its own.  A bucket is summed as soon as all that is in it is complete, in the same order in every
    process: also in one whose share of the update is empty.
    """

    def __init__(
        self,
        named_parameters: Mapping[str, Parameter],
        group: Group,
        *,
        as_bfloat16: bool = False,
        bucket_bytes: int = BUCKET_BYTES,
    ):
        super().__init__(named_parameters)
        self.group = group
        parameters = list(named_parameters.values())[::-1]
        first = parameters[0].data
        self._xp = backend_of([first]).xp
        self._as_bfloat16 = as_bfloat16
        places = list(_slices(parameters))
        length = places[-1].stop
        self._wire = group.new_buffer(length, "uint16" if as_bfloat16 else first.dtype)
        self.flat = self._xp.zeros(length, first.dtype) if as_bfloat16 else self._wire
        self._places = dict(zip(map(id, parameters), places, strict=True))
        self.buckets = _buckets(parameters, bucket_bytes)
        self._bucket_of = {id(p): number for number, (bucket, _) in enumerate(self.buckets) for p in bucket}
        self._thread = None if group.overlaps_itself else ThreadPoolExecutor(1, "all-reduce")
        self._sent: list[Future[None]] = []
        self._next = len(self.buckets)  # which is summed next; none, as no update has begun
        self._remaining: dict[int, int] = {}  # backward passes to come, of each parameter
        self._incomplete: list[int] = []  # parameters of each bucket that still wait for one
        for parameter in parameters:
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def begin(self, passes: int) -> None:
        self.flat[...] = 0
        for parameter in self.named_parameters.values():
            place = self._places[id(parameter)]
            parameter.grad = Tensor(self.flat[place].reshape(parameter.shape))
        self._sent = []
        self._next = 0
        self._remaining = dict.fromkeys(self._places, passes)
        self._incomplete = [len(bucket) for bucket, _ in self.buckets]

    def finish(self) -> None:
        start = time.perf_counter()
        with self.group.waiting():
            while self._next < len(self.buckets):  # what got no gradient this time, here
                self._send_next()
            for sent in self._sent:
                sent.result()
            self.group.synchronize()
        if self._as_bfloat16:
            self.flat[...] = from_bfloat16(self._wire, self._xp)
        self.clock.exposed_s += time.perf_counter() - start

    def _on_gradient(self, parameter: Tensor) -> None:
        """A backward pass has added to a parameter's gradient; after the last one, it is complete."""
        if self._next == len(self.buckets):
            return  # a pass that belongs to no update
        self._remaining[id(parameter)] -= 1
        if self._remaining[id(parameter)]:
            return
        self._incomplete[self._bucket_of[id(parameter)]] -= 1
        while self._next < len(self.buckets) and not self._incomplete[self._next]:
            self._send_next()

    def _send_next(self) -> None:
        _, part = self.buckets[self._next]
        self._next += 1
        if self._thread is None:
            self._sum(part)
        else:
            self._sent.append(self._thread.submit(self._sum, part))

    def _sum(self, part: slice) -> None:
        start, waited_s = time.perf_counter(), self.group.waited_s
        if self._as_bfloat16:
            self._wire[part] = to_bfloat16(self.flat[part], self._xp)
        self.group.all_reduce(part)
        waited_s = self.group.waited_s - waited_s
        self.clock.waiting_s += waited_s
        self.clock.summing_s += time.perf_counter() - start - waited_s


def gradients_of(named_parameters: Mapping[str, Parameter], group: Group, *, as_bfloat16: bool = False) -> Gradients:
    """The gradients of a process of a group, which may have but one."""
    if not group.reduces:
        return Gradients(named_parameters)
    return ReducedGradients(named_parameters, group, as_bfloat16=as_bfloat16)


def _slices(parameters: Sequence[Parameter]) -> Iterator[slice]:
    """Where each parameter's gradient stands in the buffer."""
    stop = 0
    for parameter in parameters:
        start = -(-stop // ALIGNMENT) * ALIGNMENT
        stop = start + parameter.size
        yield slice(start, stop)


def _buckets(parameters: Sequence[Parameter], bucket_bytes: int) -> list[tuple[list[Parameter], slice]]:
    """Runs of parameters, each closed when it has the bytes; the last parameter has one of its own."""
    buckets: list[tuple[list[Parameter], slice]] = []
    run: list[Parameter] = []
    start, bytes_ = 0, 0
    for parameter, place in zip(parameters, _slices(parameters), strict=True):
        run.append(parameter)
        bytes_ += parameter.data.nbytes
        limit = bucket_bytes if buckets else min(FIRST_BUCKET_BYTES, bucket_bytes)
        if bytes_ >= limit or any(parameter is each for each in parameters[-2:]):
            buckets.append((run, slice(start, place.stop)))
            run, start, bytes_ = [], place.stop, 0
    return buckets
