"""Gradient buckets: gradients in one flat buffer, all-reduced over all ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from autograd import Tensor
from autograd.backend import backend_of
from autograd.fast import kernels_of
from minitf.model.parameters import Parameter
from minitf.parallel.group import Group

Array = Any

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
        places = _places(self._parameters)
        first = self._parameters[0].data
        self._buffer = backend_of([first]).xp.zeros(places[-1].stop, first.dtype)
        self._kernels = kernels_of([first])
        self._views = {
            id(each): self._buffer[place].reshape(each.shape)
            for each, place in zip(self._parameters, places, strict=True)
        }
        self._gathered: set[int] = set()  # parameters that have a gradient in the buffer
        self.buckets = _buckets(self._parameters, places, bucket_bytes)
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


def _places(parameters: Sequence[Parameter]) -> list[slice]:
    """Assign each parameter an aligned slice of the flat buffer."""
    places: list[slice] = []
    stop = 0
    for parameter in parameters:
        start = -(-stop // ALIGNMENT) * ALIGNMENT
        stop = start + parameter.size
        places.append(slice(start, stop))
    return places


def _buckets(
    parameters: Sequence[Parameter], places: Sequence[slice], bucket_bytes: int
) -> list[tuple[list[Parameter], slice]]:
    """Group parameters into buckets of at least `bucket_bytes`; the last parameter gets its own bucket."""
    buckets: list[tuple[list[Parameter], slice]] = []
    bucket: list[Parameter] = []
    start = 0
    for number, (parameter, place) in enumerate(zip(parameters, places, strict=True), 1):
        bucket.append(parameter)
        limit = bucket_bytes if buckets else min(FIRST_BUCKET_BYTES, bucket_bytes)
        if sum(each.data.nbytes for each in bucket) >= limit or number >= len(parameters) - 1:
            buckets.append((bucket, slice(start, place.stop)))
            bucket, start = [], place.stop
    return buckets
