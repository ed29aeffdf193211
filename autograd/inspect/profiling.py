"""Time profile of a training step: per op, per layer, and between the ops."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MethodType
from typing import Any, Literal

from autograd.engine import Op
from autograd.inspect.clock import Clock, Row
from autograd.inspect.graph import SavedMemory
from autograd.inspect.modules import ModuleListener, listen
from autograd.inspect.text import readable_array, readable_bytes, readable_place, table
from autograd.modes import Watcher, watch

# Rows that are not of an op
PYTHON = "(Python between ops)"
BACKWARD = "(backward pass: summing gradients)"
OUTSIDE = "(everything else)"
PROFILER = "(the profiler itself)"


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
        stack.enter_context(watch(measured))
        try:
            yield measured
        finally:
            measured.finish()


@contextmanager
def _timed(measured: Profile, name: str, method: Any) -> Iterator[None]:
    """Context manager: wrap a method of one object in a section, under each name that the object has it."""
    owner, names = getattr(method, "__self__", None), []
    if isinstance(method, MethodType) and hasattr(owner, "__dict__"):
        found = [*vars(owner).items(), *[item for each in type(owner).__mro__ for item in vars(each).items()]]
        names = [attribute for attribute, value in found if value in (method, method.__func__)]
    if not names or any(attribute.startswith("__") for attribute in names):
        raise TypeError(
            f"{name}={method!r} is not a method of an object that can be wrapped; put the lines that call it into "
            f"`with p.section({name!r}):` instead"
        )

    def call(*args: Any, **kwargs: Any) -> Any:
        with measured.section(name):
            return method(*args, **kwargs)

    before = {attribute: vars(owner)[attribute] for attribute in names if attribute in vars(owner)}
    vars(owner).update(dict.fromkeys(names, call))
    try:
        yield
    finally:
        for attribute in names:
            del vars(owner)[attribute]
        vars(owner).update(before)


@dataclass
class _Seen:
    """What is recorded about a node in its forward pass, for its backward pass."""

    row: Row
    flops_backward: float
    details: dict[str, Any]


def _own_time(method: Callable[..., None]) -> Callable[..., None]:
    """Decorator of methods of `Profile`: their time is the profiler's own."""

    def call(self: Profile, *args: Any) -> None:
        self._clock.pause()
        method(self, *args)
        self._clock.resume()

    return call


class Profile(Watcher, ModuleListener):
    """Time profile of a block, complete at its end."""

    needs_arrays = False

    def __init__(self, model_name: str) -> None:
        self.model_name = model_name
        self.wall_ms = 0.0
        self._rows: dict[tuple[str, str | None], Row] = {}  # by activity and layer
        self._seen: weakref.WeakKeyDictionary[Op, _Seen] = weakref.WeakKeyDictionary()
        self._running: list[tuple[Op, Row, list[tuple[int, ...]]]] = []  # forward passes, shapes of their inputs
        self._saved = SavedMemory()
        self._layers: list[tuple[str, object]] = []
        self._passes: list[object] = []  # running backward passes
        self._clock = Clock(self._row(OUTSIDE, None), self._row(PROFILER, None))

    def _row(self, name: str, layer: str | None) -> Row:
        return self._rows.setdefault((name, layer), Row(name))

    def finish(self) -> None:
        """Stop measuring at the end of the block."""
        self.wall_ms = (self._clock.pause() - self._clock.start_s) * 1e3
        self._clock.end_all()

    # ---- Results ----

    def rows(self, by: Literal["op", "layer"] = "op", depth: int | None = None) -> list[Row]:
        """The rows of a table, by decreasing time; those that are not of an op or layer last.

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
        return table(header, [_cells(row, self.wall_ms) for row in (*rows, total)])

    def __str__(self) -> str:
        per_layer = f"\n\n{self.table('layer')}" if any(layer is not None for _, layer in self._rows) else ""
        return self.table("op") + per_layer

    def save_trace(self, path: str | Path) -> None:
        """Write the time span of every activity as JSON for chrome://tracing and ui.perfetto.dev."""
        self._clock.write_trace(path)

    # ---- Ops ----

    @_own_time
    def before_forward(self, op: Op, arrays: Sequence[Any]) -> None:
        layer = self._layers[-1][0] if self._layers else None
        name = type(op).__name__ + (", computed again" if self._passes else "")
        row = self._row(name, layer)
        row.calls += 1
        details = {"line": readable_place(op.where)}
        if layer is not None:
            details["layer"] = self._label(layer)
        self._running.append((op, row, [getattr(a, "shape", ()) for a in arrays]))
        self._clock.begin(op, row, "forward", name, "forward", details)

    @_own_time
    def after_forward(self, op: Op, outputs: Sequence[Any]) -> None:
        ended = self._clock.end(op)
        running = None
        while running is not op:  # ops above it raised an error
            running, row, shapes = self._running.pop()
        forward, backward = op.flops(shapes, [y.shape for y in outputs])
        row.flops += forward
        if ended is not None:
            ended.details["outputs"] = ", ".join(readable_array(y.shape, y.dtype) for y in outputs)
            self._seen[op] = _Seen(row, backward, {**ended.details, "GFLOP": backward / 1e9})
            ended.details["GFLOP"] = forward / 1e9

    @_own_time
    def after_error(self, op: Op) -> None:
        self._clock.end(op)

    @_own_time
    def after_record(self, op: Op, inputs: Sequence[Any]) -> None:
        if op in self._seen:
            self._seen[op].row.saved_bytes += self._saved.added_by(op)

    @_own_time
    def before_backward_pass(self) -> None:
        self._passes.append(object())
        self._clock.begin(self._passes[-1], self._row(BACKWARD, None), "backward", "backward pass", "pass", {})

    @_own_time
    def after_backward_pass(self) -> None:
        self._clock.end(self._passes.pop())

    @_own_time
    def before_backward(self, op: Op, g_outputs: Sequence[Any]) -> None:
        seen = self._seen.get(op)
        if seen is None:  # the forward pass was before the block
            seen = _Seen(self._row(type(op).__name__, None), 0.0, {"line": readable_place(op.where)})
        seen.row.flops += seen.flops_backward
        self._clock.begin(op, seen.row, "backward", f"{type(op).__name__} backward", "backward", seen.details)

    @_own_time
    def after_backward(self, op: Op, g_inputs: Sequence[Any]) -> None:
        self._clock.end(op)

    # ---- Modules and named sections ----

    @_own_time
    def enter_module(self, name: str) -> None:
        key = object()
        self._layers.append((name, key))
        self._clock.begin(key, self._row(PYTHON, name), "forward", self._label(name), "module", {})

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
        self._clock.begin(key, row, "other", name, "section", {})
        self._clock.resume()
        try:
            yield
        finally:
            self._clock.pause()
            self._clock.end(key)
            self._clock.resume()


def _cells(row: Row, wall_ms: float) -> list[str]:
    """A row as text, empty where a value does not apply."""
    total_s = row.total_ms / 1e3
    return [
        row.name,
        f"{row.calls:,}" if row.calls else "",
        f"{row.forward_ms:.2f}" if row.forward_ms else "",
        f"{row.backward_ms:.2f}" if row.backward_ms else "",
        f"{row.total_ms:.2f}",
        f"{row.total_ms / wall_ms:.1%}" if wall_ms else "",
        readable_bytes(row.saved_bytes) if row.saved_bytes else "",
        f"{row.flops / 1e9:.3f}" if row.flops else "",
        f"{row.flops / 1e9 / total_s:.1f}" if row.flops and total_s else "",
    ]
