"""Time profile of a training step: per op, per layer, and between the ops."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, fields
from types import MethodType
from typing import Any, Literal, NamedTuple

from additions.inspect.flops import operations
from additions.inspect.graph import SavedMemory
from additions.inspect.modules import ModuleListener, listen
from additions.inspect.readable import readable_bytes, table
from autograd.engine import Op
from autograd.modes import Observer, observe

# Rows that are not of an op
PYTHON = "(Python between ops)"
BACKWARD = "(backward pass: summing gradients)"
OUTSIDE = "(everything else)"
PROFILER = "(the profiler itself)"

Phase = Literal["forward", "backward", "other"]


@contextmanager
def profile(model: Any = None, **calls: Callable[..., Any]) -> Iterator[Profile]:
    """Context manager: measure the time of the block, per op and, with the `model`, per layer.

        with profile(model, optimizer=optimizer.step) as p:
            …one training step or several…
        print(p)

    `calls` are methods that get a row of their own, named by the keyword; the context manager `p.section("data")` does
    the same for any lines.  The remaining time is a row, too: all rows add up to the time of the block.

    Raises: TypeError for a model without `children()`, and for calls that are not methods of an object
    """
    measured = Profile(type(model).__name__)
    with ExitStack() as stack:
        for name, method in calls.items():
            stack.enter_context(_timed(measured, name, method))
        stack.enter_context(listen(model, measured))
        stack.enter_context(observe(measured))
        try:
            yield measured
        finally:
            measured.finish()


@contextmanager
def _timed(measured: Profile, name: str, method: Any) -> Iterator[None]:
    """Context manager: wrap a method of one object in a section."""
    owner, attribute = getattr(method, "__self__", None), getattr(method, "__name__", "")
    if not (isinstance(method, MethodType) and hasattr(owner, "__dict__") and getattr(owner, attribute, 0) == method):
        raise TypeError(
            f"{name}={method!r} is not a method of an object that can be wrapped; put the lines that call it into "
            f"`with p.section({name!r}):` instead"
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        with measured.section(name):
            return method(*args, **kwargs)

    vars(owner)[attribute] = call
    try:
        yield
    finally:
        del vars(owner)[attribute]


# ---- The clock ---------------------------------------------------------------------------------------------------


@dataclass
class Row:
    """Time and costs of one kind of activity; the times of all rows add up to the clock's."""

    name: str
    calls: int = 0  # of forward passes and other activities, without backward passes
    forward_ms: float = 0.0
    backward_ms: float = 0.0
    other_ms: float = 0.0  # neither forward nor backward
    saved_bytes: int = 0  # memory saved for the backward pass; shared memory is counted once
    flops: float = 0.0  # floating-point operations, forward and backward

    @property
    def total_ms(self) -> float:
        """Time of forward and backward pass and of the rest."""
        return self.forward_ms + self.backward_ms + self.other_ms

    def add(self, other: Row) -> None:
        """Add all of another row."""
        for each in fields(self)[1:]:  # all but the name
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))

    def cells(self, wall_ms: float) -> list[str]:
        """Return the row as text, empty where a value does not apply."""
        total_s = self.total_ms / 1e3
        return [
            self.name,
            f"{self.calls:,}" if self.calls else "",
            f"{self.forward_ms:.2f}" if self.forward_ms else "",
            f"{self.backward_ms:.2f}" if self.backward_ms else "",
            f"{self.total_ms:.2f}",
            f"{self.total_ms / wall_ms:.1%}" if wall_ms else "",
            readable_bytes(self.saved_bytes) if self.saved_bytes else "",
            f"{self.flops / 1e9:.3f}" if self.flops else "",
            f"{self.flops / 1e9 / total_s:.1f}" if self.flops and total_s else "",
        ]


class Running(NamedTuple):
    """An activity that has begun and not ended; one that begins inside of it ends first."""

    key: object
    row: Row
    phase: Phase
    shapes: Sequence[tuple[int, ...]] = ()  # of the inputs of a forward pass


class Clock:
    """Begin and end nested activities between `pause` and `resume`; the time in between is the profiler's own.

    Every moment belongs to exactly one row: that of the innermost activity.
    """

    def __init__(self, outside: Row, own: Row) -> None:
        self._outside, self._own = outside, own
        self._running: list[Running] = []
        self.start_s = self._last_s = time.perf_counter()

    def pause(self) -> float:
        """Assign the time until now to the running activity; return now."""
        row, phase = (self._running[-1].row, self._running[-1].phase) if self._running else (self._outside, "other")
        return self._spend(row, phase)

    def resume(self) -> None:
        """Assign the time since `pause` to the profiler."""
        self._spend(self._own, "other")

    def _spend(self, row: Row, phase: str) -> float:
        now, spent = time.perf_counter(), f"{phase}_ms"
        setattr(row, spent, getattr(row, spent) + (now - self._last_s) * 1e3)
        self._last_s = now
        return now

    def begin(self, *activity: Any) -> None:
        """Assign time to the row of a `Running` from now on, until `end` of its key, but for what begins inside."""
        self._running.append(Running(*activity))

    def end(self, key: object) -> Running | None:
        """End the activity `key`, and those inside it that raised an error; None if it is not running."""
        if not any(each.key is key for each in self._running):
            return None
        while (ended := self._running.pop()).key is not key:
            pass
        return ended


# ---- The profile -------------------------------------------------------------------------------------------------


class _Seen(NamedTuple):
    """Notes on a node from its forward pass, for its backward pass."""

    row: Row
    flops_backward: float


def _own_time(method: Callable[..., None]) -> Callable[..., None]:
    """Decorator of methods of `Profile`: their time is the profiler's own."""

    def call(self: Profile, *args: Any) -> None:
        self._clock.pause()
        method(self, *args)
        self._clock.resume()

    return call


class Profile(Observer, ModuleListener):
    """Time profile of a block, complete at its end."""

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name
        self.wall_ms = 0.0
        self._rows: dict[tuple[str, str | None], Row] = {}  # by activity and layer
        self._seen: weakref.WeakKeyDictionary[Op, _Seen] = weakref.WeakKeyDictionary()
        self._saved = SavedMemory()
        self._layers: list[tuple[str, object]] = []
        self._passes: list[object] = []  # running backward passes
        self._clock = Clock(self._row(OUTSIDE, None), self._row(PROFILER, None))

    def _row(self, name: str, layer: str | None) -> Row:
        return self._rows.setdefault((name, layer), Row(name))

    def finish(self) -> None:
        """Stop measuring at the end of the block."""
        self.wall_ms = (self._clock.pause() - self._clock.start_s) * 1e3

    # ---- Results ----

    def rows(self, by: Literal["op", "layer"] = "op", depth: int | None = None) -> list[Row]:
        """Return the rows of a table, by decreasing time; those that are not of an op or layer last.

        `depth` merges the layers whose names agree in this number of parts: "encoder.layers.0" has three.

        Raises: ValueError for another `by`
        """
        if by not in ("op", "layer"):
            raise ValueError(f"by={by!r} is neither 'op' nor 'layer'")
        joined: dict[str, Row] = {}
        for (name, layer), row in self._rows.items():
            label = name
            if by == "layer" and layer is not None:
                label = self._label(layer, depth)
            elif by == "layer" and not name.startswith("("):
                label = f"{name}, in no layer"
            joined.setdefault(label, Row(label)).add(row)
        return sorted(joined.values(), key=lambda row: (row.name.startswith("("), -row.total_ms))

    def _label(self, layer: str, depth: int | None = None) -> str:
        return ".".join(layer.split(".")[:depth]) or self.model_name

    @property
    def accounted_ms(self) -> float:
        """The sum of all rows."""
        return sum(row.total_ms for row in self._rows.values())

    def table(self, by: Literal["op", "layer"] = "op", depth: int | None = 3) -> str:
        """`rows` as text, with their total."""
        rows = self.rows(by, depth)
        total = Row("total")
        for row in rows:
            total.add(row)
        header = [by, "calls", "forward ms", "backward ms", "total ms", "share", "saved", "GFLOP", "GFLOP/s"]
        return table(header, [row.cells(self.wall_ms) for row in (*rows, total)])

    def __str__(self) -> str:
        per_layer = f"\n\n{self.table('layer')}" if any(layer is not None for _, layer in self._rows) else ""
        return self.table("op") + per_layer

    __repr__ = __str__  # the last line of a notebook's cell shows the table

    # ---- Ops ----

    @_own_time
    def before_forward(self, op: Op, arrays: Sequence[Any]) -> None:
        layer = self._layers[-1][0] if self._layers else None
        name = type(op).__name__ + (", computed again" if self._passes else "")
        row = self._row(name, layer)
        row.calls += 1
        self._clock.begin(op, row, "forward", [getattr(a, "shape", ()) for a in arrays])

    @_own_time
    def after_forward(self, op: Op, outputs: Sequence[Any]) -> None:
        ended = self._clock.end(op)
        if ended is not None:
            forward, backward = operations(op, ended.shapes, [y.shape for y in outputs])
            ended.row.flops += forward
            self._seen[op] = _Seen(ended.row, backward)

    @_own_time
    def after_error(self, op: Op) -> None:
        self._clock.end(op)

    @_own_time
    def after_record(self, op: Op, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        if op in self._seen:
            self._seen[op].row.saved_bytes += self._saved.added_by(op)

    @_own_time
    def before_backward_pass(self) -> None:
        self._passes.append(object())
        self._clock.begin(self._passes[-1], self._row(BACKWARD, None), "backward")

    @_own_time
    def after_backward_pass(self) -> None:
        self._clock.end(self._passes.pop())

    @_own_time
    def before_backward(self, op: Op, g_outputs: Sequence[Any]) -> None:
        seen = self._seen.get(op)
        if seen is None:  # the forward pass was before the block
            seen = _Seen(self._row(type(op).__name__, None), 0.0)
        seen.row.flops += seen.flops_backward
        self._clock.begin(op, seen.row, "backward")

    @_own_time
    def after_backward(self, op: Op, g_inputs: Sequence[Any]) -> None:
        self._clock.end(op)

    # ---- Modules and named sections ----

    @_own_time
    def enter_module(self, name: str) -> None:
        key = object()
        self._layers.append((name, key))
        self._clock.begin(key, self._row(PYTHON, name), "forward")

    @_own_time
    def leave_module(self, name: str) -> None:
        self._clock.end(self._layers.pop()[1])

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Context manager: the time of the block that is not of ops gets the row `name`."""
        key = object()
        row = self._row(f"({name})", None)
        row.calls += 1
        self._clock.pause()
        self._clock.begin(key, row, "other")
        self._clock.resume()
        try:
            yield
        finally:
            self._clock.pause()
            self._clock.end(key)
            self._clock.resume()
