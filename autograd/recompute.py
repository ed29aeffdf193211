"""Activation recomputation: checkpoint(fn, *args) trades compute for memory by running `fn` twice.

The first run of `fn` builds the same graph as a plain call, but its nodes drop the arrays they saved.  When the
backward pass reaches the first of these nodes, `fn` runs again, with the random state of the first run, and each
node gets the arrays that its counterpart in the second run saved.  The edges are those of the plain call, so gradients
reach parameters and Tensors that `fn` only closes over, hooks run once, and sums are taken in the same order: the
gradients have the same bits as without checkpointing.

Tried and rejected: one op that runs a backward pass of its own inside its backward.  It sums the gradients of
parameters in another order, runs their hooks twice, and `grad()` cannot return them.

Source: Chen et al. 2016, "Training deep nets with sublinear memory cost"
"""

from __future__ import annotations

import weakref
import zlib
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

import numpy as np

from autograd import random, safety
from autograd.engine import Op
from autograd.modes import Observer, current_modes, enable_grad, is_grad_enabled, observe
from autograd.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
Part = tuple[Callable[[], Op | None], str, list[int]]
"""A node of the first run, and what must be equal in the second: what it saves, and checksums of its constants."""


def checkpoint(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """fn(*args, **kwargs), of which only the arguments and the random state are kept for the backward pass.

    `fn` runs again during the backward pass and must run the same ops: all its random numbers come from
    `autograd.random`, and it has no side effects.  Under `no_grad`, and inside another call, this is a plain call.

    Raises: RuntimeError, from the backward pass, if the second run of `fn` differs from the first or if an array that
    it reads was changed in place in between.
    """
    if not is_grad_enabled() or any(isinstance(each, (_Segment, _SecondRun)) for each in current_modes().observers):
        return fn(*args, **kwargs)
    segment = _Segment((fn, args, kwargs))
    try:
        with observe(segment):  # nodes made inside drop the arrays that they save
            return fn(*args, **kwargs)
    finally:
        segment.is_recording = False


class _Segment(Observer):
    """One call of `checkpoint`: the nodes of its first run, and what is needed to compute their arrays again.

    Nodes refer to their segment, the segment has only weak references to its nodes: no cycle.
    """

    def __init__(self, call: Call):
        self.call: Call | None = call
        self.random_state = random.get_state()
        self.first_row = random.get_first_row()
        self.parts: list[Part] = []
        self.is_recording = True  # until the first run has ended
        self.began = safety.now()
        self.read: dict[int, weakref.ref] = {}  # the memory that `fn` reads, by id
        self._note_read([*call[1], *call[2].values()])

    # ---- The first run ----

    def after_record(self, op: Op, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._note_read([x for x in inputs if isinstance(x, Tensor) and x.op is None])
        self.parts.append((weakref.ref(op), _what_is_saved(op), _checksums(inputs)))
        if op.saved:
            op._saved = self.refill

    def _note_read(self, tensors: Sequence[Any]) -> None:
        for x in tensors:
            if isinstance(x, Tensor):
                owner = safety.owner_of(x.data)
                self.read.setdefault(id(owner), weakref.ref(owner))

    # ---- The second run ----

    def refill(self, node: Op | None = None) -> None:
        """Run `fn` again and give every node, of which `node` is one, the arrays that it had saved."""
        if self.is_recording or self.call is None:
            raise RuntimeError("backward() was called inside a function given to checkpoint(); call it outside")
        read = [array for reference in self.read.values() if (array := reference()) is not None]
        safety.require_unchanged(read, self.began, "checkpoint()")
        fn, args, kwargs = self.call
        outer_state, outer_row = random.get_state(), random.get_first_row()
        random.set_state(self.random_state)
        random.set_first_row(self.first_row)
        second = _SecondRun(self.parts)
        try:
            with enable_grad(), observe(safety.CallSites()), observe(second):
                fn(*args, **kwargs)
        finally:
            random.set_state(outer_state)
            random.set_first_row(outer_row)
        if second.done < len(self.parts):
            lacking = self.parts[second.done][1]
            raise RuntimeError(f"checkpoint: the second run of the function lacks an op: {lacking}")
        for node, op in second.pairs:  # they get what their counterparts keep, also in place of what these saved
            node._saved, op._saved = op._saved, ()
        self.call, self.parts, self.read = None, [], {}


class _SecondRun(Observer):
    """The second run of a segment: finds the counterpart of each op, whose arrays it saves, in the first run."""

    def __init__(self, parts: list[Part]):
        self.parts = parts
        self.done = 0
        self.pairs: list[tuple[Op, Op]] = []  # nodes of the first run that need arrays, and their counterparts

    def after_record(self, op: Op, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if self.done == len(self.parts):
            raise RuntimeError(f"checkpoint: the second run of the function has an extra op: {op}")
        reference, saved, constants = self.parts[self.done]
        self.done += 1
        if saved != _what_is_saved(op):
            raise RuntimeError(
                f"checkpoint: the second run of the function differs: {op} in place of {saved}; the function must not "
                "depend on anything that changes in between (a training flag, a counter, other random numbers)"
            )
        if constants != _checksums(inputs):
            raise RuntimeError(
                f"checkpoint: an array that {op} reads was changed since the first run of the function; change a "
                "copy instead, or make the change after backward()"
            )
        node = reference()
        if node is not None and not node.freed:
            self.pairs.append((node, op))


def _what_is_saved(op: Op) -> str:
    """The name of an op, shape and dtype of arrays that it saves, type names of anything else."""
    found = [(a.shape, a.dtype) if hasattr(a, "dtype") else type(a).__name__ for a in op.saved if a is not None]
    return f"{type(op).__name__} saving {found}"


def _checksums(inputs: Sequence[Any]) -> list[int]:
    """Return checksums of the inputs that are NumPy arrays, whose changes in place are not detected otherwise."""
    return [
        zlib.crc32(np.ascontiguousarray(x).view(np.uint8).data) for x in inputs if isinstance(x, np.ndarray) and x.size
    ]
