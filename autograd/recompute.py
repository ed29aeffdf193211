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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import numpy as np

from autograd import random, safety
from autograd.engine import Op
from autograd.modes import enable_grad, is_grad_enabled, state
from autograd.observers import Observer, observe
from autograd.tensor import Tensor

P = ParamSpec("P")
R = TypeVar("R")

Call = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]


def checkpoint(fn: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """fn(*args, **kwargs), of which only the arguments and the random state are kept for the backward pass.

    `fn` runs again during the backward pass and must run the same ops: all its random numbers come from
    `autograd.random`, and it has no side effects.  Calls may be nested: inside, only the inner call's arguments are
    computed again.  Under `no_grad` this is a plain call.

    Raises: RuntimeError, from the backward pass, if the second run of `fn` differs from the first or if an array that
    it reads was changed in place in between.
    """
    if not is_grad_enabled():
        return fn(*args, **kwargs)
    segment = _Segment((fn, args, kwargs))
    with segment.recording():
        return fn(*args, **kwargs)


def _innermost() -> _Segment | _SecondRun | None:
    """Return the innermost running call of this thread: of nested calls, only this one handles the ops."""
    return next((w for w in reversed(state.observers) if isinstance(w, (_Segment, _SecondRun))), None)


class _Segment(Observer):
    """One call of `checkpoint`: the nodes of its first run, and what is needed to compute their arrays again.

    Nodes refer to their segment, the segment has only weak references to its nodes: no cycle.
    """

    def __init__(self, call: Call):
        self.call: Call | None = call
        self.random_state = random.get_state()
        self.first_row = random.get_first_row()
        self.parts: list[_Part] = []
        self.parent: _Segment | None = None
        self.is_recording = False
        self.began = safety.now()
        self.read: dict[int, weakref.ref] = {}  # the memory that `fn` reads, by id
        self._note_read([*call[1], *call[2].values()])

    # ---- The first run ----

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Context manager: nodes made inside drop the arrays that they save."""
        outer = _innermost()
        if outer is not None:
            outer.add_segment(self)
        self.is_recording = True
        try:
            with observe(self):
                yield
        finally:
            self.is_recording = False

    def after_record(self, op: Op, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if _innermost() is self:
            self._note_read([x for x in inputs if isinstance(x, Tensor) and x.op is None])
            self.parts.append(_Part(op, op.saved, inputs))
            if op.saved:
                op._saved = self.refill

    def add_segment(self, inner: _Segment) -> None:
        """Add a nested call, which keeps not even its arguments: this call computes them again."""
        inner.parent, inner.call = self, None
        self.parts.append(_Part(inner))

    def _note_read(self, tensors: Sequence[Any]) -> None:
        for x in tensors:
            if isinstance(x, Tensor):
                owner = safety.owner_of(x.data)
                self.read.setdefault(id(owner), weakref.ref(owner))

    # ---- The second run ----

    def refill(self, node: Op | None = None) -> None:
        """Run `fn` again and give every node, of which `node` is one, the arrays that it had saved."""
        if self.is_recording:
            raise RuntimeError("backward() was called inside a function given to checkpoint(); call it outside")
        if self.call is None and self.parent is not None:
            self.parent.refill()
        if self.call is None:
            raise RuntimeError("checkpoint: the second run of the outer function did not call checkpoint() again")
        read = [array for reference in self.read.values() if (array := reference()) is not None]
        safety.require_unchanged(read, self.began, "checkpoint()")
        fn, args, kwargs = self.call
        outer_state, outer_row = random.get_state(), random.get_first_row()
        random.set_state(self.random_state)
        random.set_first_row(self.first_row)
        second = _SecondRun(self.parts)
        try:
            with enable_grad(), observe(second):
                fn(*args, **kwargs)
        finally:
            random.set_state(outer_state)
            random.set_first_row(outer_row)
        second.pass_on()
        self.call, self.parts, self.read = None, [], {}


class _SecondRun(Observer):
    """The second run of a segment: passes the arrays that each op saves to its counterpart in the first run."""

    def __init__(self, parts: list[_Part]):
        self.parts = parts
        self.done = 0
        self.pairs: list[tuple[Op, Op]] = []  # nodes of the first run that need arrays, and their counterparts

    def after_record(self, op: Op, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if _innermost() is self:
            node = self._next(type(op).__name__, op.saved, op, inputs)
            if isinstance(node, Op) and not node.freed:
                self.pairs.append((node, op))

    def add_segment(self, inner: _Segment) -> None:
        """Give a nested call of the first run its arguments again."""
        first = self._next(type(inner).__name__, (), "checkpoint()", ())
        if isinstance(first, _Segment):
            first.call = inner.call

    def _next(self, kind: str, saved: Sequence[Any], what: Any, inputs: Sequence[Any]) -> Op | _Segment | None:
        """Return the counterpart in the first run, None if it was deleted since."""
        if self.done == len(self.parts):
            raise RuntimeError(f"checkpoint: the second run of the function has an extra op: {what}")
        part = self.parts[self.done]
        self.done += 1
        if (part.kind, part.saved) != (kind, _outlines(saved)):
            raise RuntimeError(
                f"checkpoint: the second run of the function differs: {what} in place of {part}; the function must not "
                "depend on anything that changes in between (a training flag, a counter, other random numbers)"
            )
        if part.constants != _checksums(inputs):
            raise RuntimeError(
                f"checkpoint: an array that {what} reads was changed since the first run of the function; change a "
                "copy instead, or make the change after backward()"
            )
        return part.get()

    def pass_on(self) -> None:
        """Give the nodes of the first run what their counterparts keep, also in place of the arrays that these saved.

        Raises: RuntimeError if the second run ended early
        """
        if self.done < len(self.parts):
            raise RuntimeError(f"checkpoint: the second run of the function lacks an op: {self.parts[self.done]}")
        for node, op in self.pairs:
            node._saved, op._saved = op._saved, ()


class _Part:
    """A node or nested segment of the first run, and what its counterpart in the second run must look like."""

    def __init__(self, made: Op | _Segment, saved: Sequence[Any] = (), inputs: Sequence[Any] = ()):
        self.get: Callable[[], Op | _Segment | None] = weakref.ref(made)
        self.kind = type(made).__name__
        self.saved = _outlines(saved)
        self.constants = _checksums(inputs)

    def __str__(self) -> str:
        return "checkpoint()" if self.kind == _Segment.__name__ else f"{self.kind} saving {self.saved}"


def _outlines(saved: Sequence[Any]) -> list[Any]:
    """Shape and dtype of arrays, type names of anything else: what is compared between the two runs."""
    return [(a.shape, a.dtype) if hasattr(a, "dtype") else type(a).__name__ for a in saved if a is not None]


def _checksums(inputs: Sequence[Any]) -> list[int]:
    """Return checksums of the inputs that are NumPy arrays, whose changes in place are not detected otherwise."""
    return [
        zlib.crc32(np.ascontiguousarray(x).view(np.uint8).data) for x in inputs if isinstance(x, np.ndarray) and x.size
    ]
