"""Memory profile: the arrays in use over time, the peak, and what holds the memory at the peak."""

from __future__ import annotations

import time
import tracemalloc
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from additions.inspect.modules import ModuleListener, listen
from additions.inspect.readable import readable_array, readable_bytes, readable_place, table
from autograd.engine import Op
from autograd.modes import Observer, observe
from autograd.safety import CallSites, owner_of
from autograd.tensor import Tensor

__all__ = ["GRADIENT", "INTERMEDIATE", "RESULT", "SAVED", "Buffer", "Memory"]

SAVED = "saved for the backward pass"
GRADIENT = "gradients of leaves"
INTERMEDIATE = "gradients of intermediate results"
RESULT = "other results of ops"


@contextmanager
def memory(model: Any = None) -> Iterator[Memory]:
    """Context manager: record the memory of all arrays that ops allocate in the block.

        with memory(model) as m:
            …a training step…
        print(m)

    Arrays that existed before (parameters, moments, data) are not counted, except ids that an embedding saves; nor are
    arrays that exist only within one op's forward or backward pass.  With the `model`, arrays have the name of their
    layer and gradients that of their parameter.  If `tracemalloc` is tracing, its peak is shown, too.

    Raises: TypeError for a model without `children()`
    """
    record = Memory(model)
    with listen(model, record), observe(CallSites()), observe(record):
        try:
            yield record
        finally:
            record.finish()


class Moment(NamedTuple):
    """The memory in use after a change."""

    ms: float
    live_bytes: int
    during: str  # the op that ran


@dataclass
class Buffer:
    """An array that an op allocated, from its allocation to its release; times are positions in the timeline."""

    nbytes: int
    shape: tuple[int, ...]
    dtype: str
    made_by: str
    layer: str | None
    backward: bool  # allocated by a backward pass
    born: int
    died: int | None = None
    saved: list[tuple[int, int | None]] = field(default_factory=list)  # begin and end, for each node that saved it
    gradient_of: tuple[int, str] | None = None  # begin, and the name of the leaf's gradient

    def lives(self, moment: int) -> bool:
        """Return whether the buffer is in use at a moment."""
        return self.born <= moment and (self.died is None or moment < self.died)

    def held_as(self, moment: int) -> str:
        """Return the first reason that the array is in use for."""
        if any(begin <= moment and (end is None or moment < end) for begin, end in self.saved):
            return SAVED
        if self.gradient_of is not None and self.gradient_of[0] <= moment:
            return GRADIENT
        return INTERMEDIATE if self.backward else RESULT

    def __str__(self) -> str:
        return f"{readable_array(self.shape, self.dtype)} {self.gradient_of[1] if self.gradient_of else self.made_by}"


class Memory(Observer, ModuleListener):
    """Memory profile of a block, complete at its end."""

    def __init__(self, model: Any = None) -> None:
        self.timeline: list[Moment] = [Moment(0.0, 0, "")]
        self.buffers: list[Buffer] = []
        self.measured_peak_bytes: int | None = None  # by tracemalloc, if it is tracing
        named = model.named_parameters() if hasattr(model, "named_parameters") else {}
        self._names = {id(tensor): name for name, tensor in named.items()}
        self._layers: list[str] = []
        self._alive: dict[int, tuple[weakref.ref, Buffer]] = {}  # by the id of the array
        self._inputs: list[tuple[Op, set[int]]] = []  # running ops and the ids of their inputs
        self._savers: weakref.WeakKeyDictionary[Op, tuple[str | None, list[Buffer]]] = weakref.WeakKeyDictionary()
        self._kept: set[int] = set()  # ids of the arrays that the op kept whose backward pass is running
        self._during = ""
        self._leaves: list[weakref.ref[Tensor]] = []  # just finished: their gradient may be a copy
        self._start_s = time.perf_counter()
        self._measured_before: int | None = None
        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()
            self._measured_before = tracemalloc.get_traced_memory()[0]

    def finish(self) -> None:
        """Stop recording at the end of the block; arrays still in use stay so in the record."""
        if self._measured_before is not None and tracemalloc.is_tracing():
            self.measured_peak_bytes = tracemalloc.get_traced_memory()[1] - self._measured_before
        self._look_at_leaves()
        self._alive.clear()

    # ---- Allocation and release ----

    def _note(self, change: int) -> int:
        """Append a moment to the timeline; return its position."""
        ms = (time.perf_counter() - self._start_s) * 1e3
        self.timeline.append(Moment(ms, self.timeline[-1].live_bytes + change, self._during))
        return len(self.timeline) - 1

    def _follow(self, array: Any, made_by: str, layer: str | None, backward: bool) -> Buffer | None:
        """Return the buffer of an array's memory, new or recorded before; None for memory of another library."""
        owner = owner_of(array)
        known = self._known(owner)
        if known is not None:
            return known
        key = id(owner)
        buffer = Buffer(owner.nbytes, array.shape, str(array.dtype), made_by, layer, backward, born=0)

        def died(_: weakref.ref) -> None:
            del self._alive[key]
            buffer.died = self._note(-buffer.nbytes)

        try:
            self._alive[key] = weakref.ref(owner, died), buffer
        except TypeError:
            return None
        buffer.born = self._note(owner.nbytes)
        self.buffers.append(buffer)
        return buffer

    def _known(self, owner: Any) -> Buffer | None:
        found = self._alive.get(id(owner))
        return found[1] if found is not None and found[0]() is owner else None

    def buffer_of(self, array: Any) -> Buffer | None:
        """Return the recorded memory that an array lies in; None for memory that no op of the block allocated."""
        return self._known(owner_of(array))

    # ---- Ops ----

    def before_forward(self, op: Op, arrays: Sequence[Any]) -> None:
        self._look_at_leaves()
        self._during = f"{type(op).__name__} ({readable_place(op.where)})"
        self._inputs.append((op, {id(owner_of(a)) for a in arrays}))

    def after_forward(self, op: Op, outputs: Sequence[Any]) -> None:
        layer = self._layers[-1] if self._layers else None
        running = None
        while running is not op:  # ops above it raised an error
            running, given = self._inputs.pop()
        for array in (*outputs, *op.saved_arrays):
            if hasattr(array, "nbytes") and id(owner_of(array)) not in given:
                self._follow(array, self._during, layer, backward=False)
        self._savers[op] = layer, []

    def after_record(self, op: Op, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        _, kept = self._savers.get(op, (None, []))
        for array in op.saved_arrays:
            buffer = self.buffer_of(array) if hasattr(array, "nbytes") else None
            if buffer is not None:
                buffer.saved.append((len(self.timeline) - 1, None))
                kept.append(buffer)

    def before_backward(self, op: Op, g_outputs: Sequence[Any]) -> None:
        self._look_at_leaves()
        layer = self._savers.get(op, (None, []))[0]
        self._kept = {id(owner_of(a)) for a in op.saved_arrays if hasattr(a, "nbytes")}
        self._during = f"{type(op).__name__} backward ({readable_place(op.where)})"
        for g in g_outputs:
            self._follow(g, f"gradient for {type(op).__name__}", layer, backward=True)

    def after_backward(self, op: Op, g_inputs: Sequence[Any]) -> None:
        layer, kept = self._savers.get(op, (None, []))
        for g in g_inputs:
            if g is not None:
                self._follow(g, self._during, layer, backward=True)
        for array in op.saved_arrays:
            if hasattr(array, "nbytes") and id(owner_of(array)) not in self._kept:  # an output that was not kept
                self._follow(array, f"{self._during}, computed again", layer, backward=True)
        for buffer in kept:  # one of the nodes that saved it frees it
            open_ends = [i for i, (_, end) in enumerate(buffer.saved) if end is None]
            if open_ends:
                buffer.saved[open_ends[0]] = buffer.saved[open_ends[0]][0], len(self.timeline)
        kept.clear()

    def after_allocation(self, gradient: Any) -> None:
        self._follow(gradient, f"sum of gradients after {self._during}", None, backward=True)

    def after_leaf(self, leaf: Tensor, gradient: Any) -> None:
        self._follow(gradient, self._during, None, backward=True)
        if leaf.grad is None:  # or it is an array that is added to
            self._leaves.append(weakref.ref(leaf))

    def after_backward_pass(self) -> None:
        self._look_at_leaves()

    def _look_at_leaves(self) -> None:
        for reference in self._leaves:
            leaf = reference()
            if leaf is not None and leaf.grad is not None:
                name = f"gradient of {self._names.get(id(leaf), 'a leaf')}"
                buffer = self._follow(leaf.grad.data, name, None, backward=True)
                if buffer is not None and buffer.gradient_of is None:
                    buffer.gradient_of = len(self.timeline) - 1, name
        self._leaves.clear()

    def enter_module(self, name: str) -> None:
        self._layers.append(name)

    def leave_module(self, name: str) -> None:
        self._layers.pop()

    # ---- Results ----

    @property
    def _peak(self) -> int:
        return max(range(len(self.timeline)), key=lambda i: self.timeline[i].live_bytes)

    @property
    def peak_bytes(self) -> int:
        """Memory in use at the peak."""
        return self.timeline[self._peak].live_bytes

    @property
    def live_bytes(self) -> int:
        """Memory in use at the end."""
        return self.timeline[-1].live_bytes

    def at_peak(self) -> dict[str, list[Buffer]]:
        """Return the arrays in use at the peak, grouped by purpose, the largest first."""
        moment = self._peak
        held: dict[str, list[Buffer]] = {reason: [] for reason in (SAVED, GRADIENT, INTERMEDIATE, RESULT)}
        for buffer in sorted(self.buffers, key=lambda buffer: -buffer.nbytes):
            if buffer.lives(moment):
                held[buffer.held_as(moment)].append(buffer)
        return held

    def table(self, largest: int = 8) -> str:
        """Return the peak, its composition and its largest arrays as text."""
        peak = self.timeline[self._peak]
        measured = ""
        if self.measured_peak_bytes is not None:
            measured = f" (tracemalloc measured {readable_bytes(self.measured_peak_bytes)})"
        head = f"peak {readable_bytes(peak.live_bytes)}{measured} after {peak.ms:.1f} ms, in {peak.during or 'nothing'}"
        held = self.at_peak()
        reasons = [
            [reason, str(len(buffers)), *_share(sum(b.nbytes for b in buffers), peak.live_bytes)]
            for reason, buffers in held.items()
        ]
        top = sorted([b for buffers in held.values() for b in buffers], key=lambda b: -b.nbytes)[:largest]
        arrays = [[str(b), b.layer or "", *_share(b.nbytes, peak.live_bytes)] for b in top]
        return "\n\n".join(
            [
                head,
                table(["held", "arrays", "bytes", "share"], reasons),
                table(["largest arrays", "layer", "bytes", "share"], arrays),
            ]
        )

    def __str__(self) -> str:
        return self.table()

    __repr__ = __str__  # the last line of a notebook's cell shows the table


def _share(part: int, whole: int) -> tuple[str, str]:
    return readable_bytes(part), f"{part / whole:.1%}" if whole else ""
