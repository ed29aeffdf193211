"""Record a training step: every op forward and backward with its arrays, what it saves, memory, and the update.

Arrays are sampled at once and never referred to, so that the recorded step frees and reuses memory as any other: it has
the bits of a step that is not recorded.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from additions.inspect.memory_profile import Memory
from additions.inspect.modules import ModuleListener, listen
from additions.pages.samples import Samples
from additions.pages.sources import input_names, saved
from autograd.engine import Op
from autograd.modes import Observer, observe
from autograd.safety import CallSites
from autograd.tensor import Tensor

EventKind = Literal["forward", "backward", "update"]
SETTINGS = (bool, int, float, str, tuple)  # types of parameters of an op that are shown


@dataclass
class Input:
    """An input of an op: where it comes from, and its sample if that is neither an op nor a leaf."""

    name: str
    op: int | None = None
    output: int = 0
    leaf: int | None = None
    value: int | None = None
    gradient: int | None = None  # the sample of what the op's backward pass gave


@dataclass
class Saved:
    """One of the arrays that an op saved."""

    name: str
    value: int | None  # None: not an array
    text: str  # what is not an array
    nbytes: int
    buffer: int | None  # of the memory profile; None: memory of a leaf or a constant


@dataclass
class OpRecord:
    """One op of the step."""

    op_class: type[Op]
    scope: str | None  # dotted name of the innermost module; None outside of all
    where: tuple[str, int]  # file and line that made it
    inputs: list[Input] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    g_outputs: list[int] = field(default_factory=list)
    saved: list[Saved] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    forward: int | None = None  # its events
    backward: int | None = None


@dataclass
class Leaf:
    """A Tensor that no op of the step made: a parameter or an input."""

    name: str
    value: int
    gradient: int | None = None  # the sum of all that arrived
    complete: int | None = None  # the event after which it was complete
    update: int | None = None
    after: int | None = None
    states: dict[str, tuple[int, int]] = field(default_factory=dict)  # of the optimizer, before and after


@dataclass
class Event:
    """A moment of the step: an op's forward or backward pass, or the update of a leaf."""

    kind: EventKind
    subject: int  # number of the op or leaf
    moment: int  # position in the memory profile at which it begins
    again: bool = False  # a forward pass during the backward pass, by `checkpoint`


class Recorder(Observer, ModuleListener):
    """A recording of one step."""

    def __init__(self, names: Mapping[str, Tensor], samples: Samples, model: Any = None):
        self.model, self.samples = model, samples
        self.memory = Memory(model)
        self.ops: list[OpRecord] = []
        self.leaves: list[Leaf] = []
        self.events: list[Event] = []
        self.arrivals: list[tuple[int, int, int]] = []  # event, op and input number of each gradient, in order
        self.tensors: list[Tensor] = []  # of the leaves
        self._names = {id(tensor): name for name, tensor in reversed([*names.items()])}
        self._numbers: weakref.WeakKeyDictionary[Op, int] = weakref.WeakKeyDictionary()
        self._leaf_numbers: dict[int, int] = {}
        self._buffers: dict[int, int] = {}  # by id of the profile's
        self._scopes: list[str] = []
        self._in_backward = 0

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Context manager: record the ops inside."""
        with ExitStack() as stack:
            for listener in (self.memory, self):
                stack.enter_context(listen(self.model, listener))
            for observer in (CallSites(), self, self.memory):  # the innermost sees the end of an op first
                stack.enter_context(observe(observer))
            try:
                yield
            finally:
                self.memory.finish()

    # ---- Forward ----

    def before_forward(self, op: Op, arrays: Sequence[Any]) -> None:
        number = self._number(op)
        record = self.ops[number]
        record.forward = self._begin("forward", number)
        record.inputs = [Input(name) for name in input_names(type(op), len(arrays))]
        for each, array in zip(record.inputs, arrays, strict=True):
            each.value = self.samples.add(array) if array is not None else None

    def after_forward(self, op: Op, outputs: Sequence[Any]) -> None:
        record = self.ops[self._number(op)]
        record.outputs = [self.samples.add(y) for y in outputs]
        record.settings = _settings(op)

    def after_error(self, op: Op) -> None:
        self.ops[self._number(op)].settings["error"] = "raised"

    def after_record(self, op: Op, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        record = self.ops[self._number(op)]
        self._link(op, record)
        record.saved = [self._saved(name, a) for name, a in saved(op)]

    def _link(self, op: Op, record: OpRecord) -> None:
        """Note where the inputs of an op come from."""
        if not record.inputs:  # the op was made before the recording
            record.inputs = [Input(name) for name in input_names(type(op), len(op.edges))]
        for each, edge in zip(record.inputs, op.edges, strict=True):
            if edge is None:
                continue
            if isinstance(edge[0], Tensor):
                each.leaf = self._leaf(edge[0])
            else:
                each.op, each.output = self._number(edge[0]), edge[1]

    def _number(self, op: Op) -> int:
        """Return the number of an op; one made before the recording gets its record when it is first seen."""
        if op not in self._numbers:
            self._numbers[op] = len(self.ops)
            self.ops.append(OpRecord(type(op), self._scopes[-1] if self._scopes else None, op.where))
            if op.order >= 0:
                self._link(op, self.ops[-1])
        return self._numbers[op]

    def _leaf(self, tensor: Tensor) -> int:
        if id(tensor) not in self._leaf_numbers:
            self._leaf_numbers[id(tensor)] = len(self.leaves)
            name = self._names.get(id(tensor), f"leaf {len(self.leaves)}")
            self.leaves.append(Leaf(name, self.samples.add(tensor.data)))
            self.tensors.append(tensor)
        return self._leaf_numbers[id(tensor)]

    def _saved(self, name: str, array: Any) -> Saved:
        if not hasattr(array, "nbytes"):
            text = "nothing" if array is None else repr(array) if isinstance(array, SETTINGS) else type(array).__name__
            return Saved(name, None, text[:60], 0, None)
        buffer = self.memory.buffer_of(array)
        return Saved(name, self.samples.add(array), "", array.nbytes, None if buffer is None else self._buffer(buffer))

    def _buffer(self, buffer: Any) -> int:
        for number in range(len(self._buffers), len(self.memory.buffers)):
            self._buffers[id(self.memory.buffers[number])] = number
        return self._buffers[id(buffer)]

    # ---- Backward ----

    def before_backward_pass(self) -> None:
        self._in_backward += 1

    def after_backward_pass(self) -> None:
        self._in_backward -= 1

    def before_backward(self, op: Op, g_outputs: Sequence[Any]) -> None:
        number = self._number(op)
        record = self.ops[number]
        record.backward = self._begin("backward", number)
        record.g_outputs = [self.samples.add(g) for g in g_outputs]

    def after_backward(self, op: Op, g_inputs: Sequence[Any]) -> None:
        number = self._number(op)
        record = self.ops[number]
        for i, g in enumerate(g_inputs):
            if g is not None:
                record.inputs[i].gradient = self.samples.add(g)
                self.arrivals.append((record.backward or 0, number, i))

    def after_leaf(self, leaf: Tensor, gradient: Any) -> None:
        record = self.leaves[self._leaf(leaf)]
        record.gradient, record.complete = self.samples.add(gradient), len(self.events) - 1

    # ---- Update ----

    def record_update(
        self, update: Callable[[], Any], states: Mapping[str, Mapping[str, Any]], names: Mapping[str, Tensor]
    ) -> None:
        """Call `update` and note what it does to every leaf that has a gradient."""
        for tensor in names.values():
            if tensor.grad is not None:
                self._leaf(tensor)
        changed = [i for i, tensor in enumerate(self.tensors) if tensor.grad is not None]
        before = {i: self._states(i, states) for i in changed}
        update()
        for i in changed:
            leaf = self.leaves[i]
            leaf.after = self.samples.add(self.tensors[i].data)
            leaf.update = self._begin("update", i)
            leaf.states = {name: (before[i][name], after) for name, after in self._states(i, states).items()}

    def _states(self, leaf: int, states: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
        name = self.leaves[leaf].name
        return {kind: self.samples.add(arrays[name]) for kind, arrays in states.items() if name in arrays}

    # ---- Events and modules ----

    def _begin(self, kind: EventKind, subject: int) -> int:
        again = kind == "forward" and self._in_backward > 0
        self.events.append(Event(kind, subject, len(self.memory.timeline) - 1, again))
        return len(self.events) - 1

    def enter_module(self, name: str) -> None:
        self._scopes.append(name)

    def leave_module(self, name: str) -> None:
        self._scopes.pop()


def _settings(op: Op) -> dict[str, str]:
    """Return the parameters of the call, such as an axis or a scale."""
    shown = {name: value for name, value in op.parameters.items() if isinstance(value, SETTINGS)}
    return {name: f"{value:.6g}" if type(value) is float else repr(value)[:60] for name, value in shown.items()}
