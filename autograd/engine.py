"""Reverse-mode automatic differentiation: ops record a graph as they run, the backward pass walks it in reverse.

An `Op` instance is a node of the graph.  `apply` runs its forward pass on raw arrays and wraps the results in Tensors;
`run_backward` visits the nodes from the newest to the oldest and passes each one the gradients of its outputs.

Invariants:

- Edges lead from a node to older nodes and to leaf Tensors, never to intermediate Tensors.  There is no reference
  cycle, so reference counting frees a graph as soon as its last Tensor is deleted, and `run_backward` frees what each
  node saved right after its backward pass.
- Creation order is a topological order: an op can only use what existed before it.  Sorting by it needs no
  recursion, so a chain of any length is fine.
- A gradient is written into only if nothing else refers to its array: the first sum allocates, later sums go in place.
"""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Sequence
from contextlib import nullcontext
from operator import attrgetter, itemgetter
from sys import modules
from types import CodeType
from typing import Any, ClassVar

import numpy as np
from numpy import ndarray

from autograd.backend import CPU, Backend, as_operand, backend_of, beside_bfloat16, is_floating, silent, unbroadcast
from autograd.devices import on_device
from autograd.modes import current_modes, enable_grad
from autograd.tensor import (
    Array,
    ArraySpec,
    Edge,
    GradientSums,
    Leaf,
    Tensor,
    TensorLike,
    attach,
    clock,
    edge_of,
    make_spec,
    new_tensor,
    refuse_list,
    specs_of,
    split,
    starting_gradient,
)

__all__ = ["Op", "apply", "implementations", "unbroadcast"]

implementations: dict[type[Op], Any] = {}
"""The classes of `autograd.fast` that compute in the place of plain ops where their `takes(…)` says so."""


class Op:
    """Base class of differentiable operations; an instance is the graph's node for one call.

    A plain op has two pure functions, both static methods:

        forward(xp, *inputs, **parameters)          returns the output y, or a tuple of outputs
        backward(xp, g, y, *inputs, **parameters)   returns one gradient per input, given that of the output

    Arguments are raw arrays of the module `xp`.  `backward` computes again what it needs and writes none of its
    arguments.  A gradient may also be None, if it is 0, or a function without arguments that returns it, which is
    called only if the input needs a gradient.  A single input needs no tuple, unless its gradient is None.

    An op that keeps what it likes has methods instead, as the implementations in `autograd.fast` do:

        forward(self, *inputs, **parameters)        keeps arrays with `self.save(...)`
        backward(self, *g_outputs)                  reads them from `self.saved`
    """

    reads: ClassVar[str | tuple[str, ...]] = ""
    """The arrays that a plain backward pass reads: names of inputs, and "y" for the output.  The graph keeps these.

    A tuple has one string for each input: what the gradient of this input reads.  In the place of other arrays,
    `backward` gets an `ArraySpec`, which has their shape and dtype.
    """

    broadcasts: ClassVar[bool] = False
    """True if the inputs are broadcast against each other: the engine then sums each gradient to its input's shape."""

    registry: ClassVar[dict[str, type[Op]]] = {}
    """Every plain op of this package by name, so that tests can check that each one is covered."""

    moves: ClassVar[bool] = False  # whether backward only rearranges the output's gradient, and sums nothing
    is_plain: ClassVar[bool] = False
    is_ours: ClassVar[bool] = False  # whether a function of this package applies it
    _keeps: ClassVar[dict[int, Any]]  # of `_keeper`, by the bits of `needs_gradient`

    forward: Any  # a static function or a method
    backward: Any
    call_recorded_backward: Any  # `call_backward` of Tensors: higher_order.py defines it

    # A slot is set in a third of the time that an entry of __dict__ takes
    __slots__ = ("__dict__", "__weakref__", "_edges", "_saved", "call_site", "order", "output_specs")
    order: int  # by `clock`
    output_specs: tuple[ArraySpec, ...]
    call_site: tuple[CodeType, int] | None  # the user's code that made the op, if an observer noted it
    _edges: tuple[Edge | None, ...]
    _saved: Any  # a tuple, or a function of the node that puts one in its place when it is first needed; None if freed

    # Defaults are those of the class, and an instance sets what differs: a node stays small
    backend: Backend = CPU
    parameters: dict[str, Any] = {}  # noqa: RUF012
    hooks: dict[int, Any] | None = None  # `Hooks` by output index
    _several = False  # whether forward returned a tuple

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.is_plain, cls._keeps = isinstance(inspect.getattr_static(cls, "forward", None), staticmethod), {}
        cls.is_ours = cls.__module__.startswith("autograd.")
        if cls.is_plain and cls.is_ours:
            Op.registry[cls.__name__] = cls

    @classmethod
    def places_read(cls, needs_gradient: Sequence[bool]) -> frozenset[int]:
        """Return what `backward` reads for these gradients, by `reads`: 0 for the output, i + 1 for input i."""
        reads = cls.reads
        if isinstance(reads, tuple):
            reads = " ".join([names for names, needed in zip(reads, needs_gradient, strict=False) if needed])
        parameters = list(inspect.signature(cls.forward).parameters.values())[1:]  # without xp
        names = ["y", *[p.name for p in parameters]]
        rest = next((i for i, p in enumerate(parameters, 1) if p.kind is p.VAR_POSITIONAL), len(names))
        return frozenset([i for i in range(len(needs_gradient) + 1) if names[min(i, rest)] in reads.split()])

    @property
    def xp(self):
        """The array module of the inputs: numpy or cupy."""
        return self.backend.xp

    def save(self, *arrays: Any) -> None:
        """Keep what the backward pass needs; a node holds no other arrays."""
        self._saved = arrays

    @property
    def saved(self) -> tuple[Any, ...]:
        """The arrays that `save` kept; for a plain op, the output and the inputs that are kept."""
        while callable(self._saved):
            self._saved(self)
        return self._saved or ()

    freed = property(lambda self: self._saved is None, doc="Whether a backward pass has freed what the node saved.")

    @property
    def saved_arrays(self) -> tuple[Any, ...]:
        """The arrays that the node keeps now: for tools that inspect the graph."""
        saved = getattr(self._saved, "kept", ()) if callable(self._saved) else self.saved
        return tuple([a for a in saved if isinstance(a, self.xp.ndarray)]) if self.is_plain else saved

    @property
    def needs_gradient(self) -> tuple[bool, ...]:
        """Whether each input needs a gradient."""
        return tuple([edge is not None for edge in self._edges])

    @property
    def edges(self) -> tuple[tuple[Op | Tensor, int] | None, ...]:
        """The destination of each input's gradient: a node and the number of its output, or a leaf and 0; or None."""
        return tuple([None if edge is None else split(edge) for edge in self._edges])

    @property
    def input_specs(self) -> list[Any]:
        """Shape and dtype of each input to differentiate."""
        return specs_of(self._edges)

    @property
    def where(self) -> tuple[str, int]:
        """File and line of the user's code that made the op."""
        if self.call_site is None:
            return "", 0
        code, instruction = self.call_site
        return code.co_filename, next((n for a, b, n in code.co_lines() if a <= instruction < b and n), 0)

    def call_backward(self, g_outputs: Sequence[Array], input_specs: Sequence[ArraySpec | None]) -> list[Any]:
        """The results of `backward`, one for each input: a gradient, a function that returns it, or None for 0."""
        if not self.is_plain:
            return self.results_of(self.backward(*g_outputs))
        values = list(self._saved if type(self._saved) is tuple else self.saved)  # output and inputs
        for i, spec in enumerate(input_specs, 1):
            if values[i] is None:
                values[i] = spec
        if g_outputs[0].itemsize == 2 and not self.moves:  # sums may be beyond half
            g_outputs = [g.astype(np.float32) for g in g_outputs]
        g: Any = g_outputs[0]
        if self._several:
            g, values[0] = tuple(g_outputs), self.output_specs
        elif values[0] is None:
            values[0] = self.output_specs[0]
        return self.results_of(self.backward(self.backend.xp, g, *values, **self.parameters))

    def results_of(self, result: Any) -> list[Any]:
        """Return what `backward` returned, as a list of one for each input.  Raises: RuntimeError for another number"""
        found = [*result] if isinstance(result, tuple) else [result]
        if result is None or len(found) != len(self._edges):
            what = f"{len(found)} gradients for {len(self._edges)} inputs"
            if result is None:
                what = "None; return a gradient for each input, (None,) for a gradient of 0"
            raise RuntimeError(f"{self}: backward returned {what}")
        return found

    def __str__(self) -> str:
        return type(self).__name__ + (f" (made at {self.where[0]}:{self.where[1]})" if self.call_site else "")


def apply(op_class: type[Op], *inputs: TensorLike | None, **parameters: Any) -> Tensor:
    """Run an op on Tensors, arrays and Python scalars; return its output as a Tensor, several outputs as a tuple.

    Only Tensors get gradients.  Python scalars stay Python scalars, so they never change a dtype.
    """
    modes, arrays, edges, needs, recorded, has_float = current_modes(), [], [], 1, False, False
    recording, events = modes.recording, modes.events
    for x in inputs:
        needs += needs  # after a first 1, a bit for each input: 1 if it needs a gradient
        edge = None
        if isinstance(x, Tensor):
            arrays.append(x.data)
            if recording and (edge := x._edge) is not None:
                needs, recorded = needs + 1, True
                edge = x if edge is Leaf else edge
        else:
            arrays.append(as_operand(x))
            has_float = has_float or type(arrays[-1]) is float
        edges.append(edge)
    arrays = beside_bfloat16(arrays) if has_float else arrays
    backend, xp = CPU, np
    if "cupy" in modules:  # otherwise no array is on a GPU
        backend = backend_of(arrays)
        if backend is not CPU:
            arrays, xp = on_device(backend, inputs, arrays), backend.xp
    fast = implementations.get(op_class)
    if fast is not None and fast.takes(backend, arrays, parameters):
        op_class = fast
    op = op_class()
    op._edges, op.order, op._saved, op.output_specs, op.call_site = tuple(edges), next(clock), (), (), None
    if parameters:
        op.parameters = _checked(op_class, parameters)
    if backend is not CPU:
        op.backend = backend
    if events.before_forward:
        for call in events.before_forward:
            call(op, arrays)
    plain = op_class.is_plain
    values = [xp, *arrays] if plain else arrays
    try:
        result = op.forward(*values, **parameters)
    except BaseException:
        for call in events.after_error:
            call(op)
        raise
    if type(result) is not ndarray:
        if isinstance(result, tuple):
            return _several_outputs(op, needs if recorded else 0, inputs, arrays, result)  # type: ignore[return-value]  # as unpacked
        result = _as_output(op, result)
    y = new_tensor(result)
    if events.after_forward:
        for call in events.after_forward:
            call(op, [result])
    if recorded:
        dtype, spec = result.dtype, ArraySpec()
        if dtype.kind == "f" or _has_gradient(op, dtype):
            y._edge = op
        spec.shape, spec.dtype = result.shape, dtype
        op.output_specs = (spec,)
        if plain:
            keep = op._keeps.get(needs) or _keeper(op, needs)
            if type(keep) is not tuple:
                values[0] = result
                values.append(None)
                keep = keep(values)
            op._saved = keep
        for call in events.after_record:
            call(op, inputs, (y,))
    return y


def _several_outputs(op: Op, needs: int, inputs: Any, arrays: Any, results: Sequence[Any]) -> tuple[Tensor, ...]:
    """The end of `apply` for an op whose forward pass returns a tuple."""
    op._several, outputs, events = True, [_as_output(op, a) for a in results], current_modes().events
    tensors = tuple(map(new_tensor, outputs))
    for call in events.after_forward:
        call(op, outputs)
    if needs:
        for i, y in enumerate(tensors):
            if _has_gradient(op, y.dtype):
                y._edge = (op, i) if i else op
        op.output_specs = tuple([make_spec(a.shape, a.dtype) for a in outputs])
        if op.is_plain:
            keep = op._keeps.get(needs) or _keeper(op, needs)
            op._saved = keep if type(keep) is tuple else keep([None, *arrays, None])
        for call in events.after_record:
            call(op, inputs, tensors)
    return tensors


def _checked(op_class: type[Op], parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters of an op.  Raises: TypeError for a Tensor among them, and for a list as the axis of one of ours"""
    for name, value in parameters.items():
        if isinstance(value, Tensor):
            raise TypeError(
                f"{op_class.__name__} got a Tensor as {name}=, where it gets no gradient; "
                "pass it to apply() by position, or its number by .item()"
            )
        if isinstance(value, list) and name == "axis" and op_class.is_ours:
            refuse_list(value)
    return parameters


def evaluate(op_class: type[Op], xp: Any, *inputs: Any, **parameters: Any) -> Any:
    """The output of a plain op that another op uses: an array from arrays; recorded, a Tensor from Tensors."""
    recorded = any(isinstance(x, Tensor) for x in inputs)
    return apply(op_class, *inputs, **parameters) if recorded else op_class.forward(xp, *inputs, **parameters)


def _as_output(op: Op, a: Any) -> Array:
    """A result of a forward pass as an array: NumPy's reductions return scalars.

    Raises: TypeError for anything but an array or a number
    """
    is_number = isinstance(a, (np.generic, float, int, complex))
    if is_number or isinstance(a, op.xp.ndarray):
        return op.backend.asarray(a)
    raise TypeError(
        f"{type(op).__name__}.forward returned {type(a).__name__}; return an array, or a tuple of arrays, "
        "computed from the arrays that forward gets"
    )


def _has_gradient(op: Op, dtype: Any) -> bool:
    """Whether a result has a gradient.  Raises: TypeError for complex numbers"""
    if dtype.kind in "biu" or is_floating(dtype):
        return dtype.kind not in "biu"
    raise TypeError(
        f"{type(op).__name__} of a Tensor that requires a gradient gave {dtype}; only real functions are "
        "differentiated: compute real and imaginary parts in two Tensors, or use x.detach()"
    )


def _keeper(op: Op, needs: int) -> Any:
    """The function from [output, *inputs, None] to what a plain op keeps of them, made once for the bits of `needs`.

    These are arrays that the backward pass reads, and numbers; in the place of others None, or, without an edge that
    has it, an `ArraySpec`.  Of an op that keeps nothing, the tuple of None itself.
    """
    needed = op.needs_gradient
    read = op.places_read(needed) - ({0} if op._several else set())
    places = range(len(needed) + 1)
    constant = [i for i in places[1:] if not needed[i - 1] and i not in read]
    keep = itemgetter(*[i if i in read else -1 for i in places])

    def keep_constants_too(arrays: list[Any]) -> tuple[Any, ...]:
        kept = list(keep(arrays))
        for i in constant:
            a = arrays[i]
            kept[i] = make_spec(a.shape, a.dtype) if hasattr(a, "dtype") else a
        return tuple(kept)

    op._keeps[needs] = found = keep_constants_too if constant else keep if read else (None,) * len(places)
    return found


# ---- The backward pass -------------------------------------------------------------------------------------------


def run_backward(
    outputs: Sequence[Tensor],
    gradients: Sequence[Any],
    *,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    wanted: Sequence[Tensor] | None = None,
) -> list[Tensor | None]:
    """Propagate `gradients` of `outputs` back through the graph; see `backward` for the other arguments.

    Without `wanted`, gradients are added to the `grad` of every leaf reached; with it, the gradients of those
    Tensors are returned instead and no `grad` is changed.  With `create_graph`, the gradients are Tensors on their way.

    Division by zero, overflow and invalid operations give ∞ and NaN without NumPy's warnings (the slope of sqrt at 0
    *is* infinite): a warning raised here could not name the op, `autograd.anomaly.anomaly_mode` does.
    """
    retain_graph = create_graph if retain_graph is None else retain_graph
    events = current_modes().events
    for call in events.before_backward_pass:
        call()
    try:
        with silent(), enable_grad() if create_graph else nullcontext():
            starts = [starting_gradient(y, g, create_graph) for y, g in zip(outputs, gradients, strict=True)]
            nodes, arrivals = plan(outputs, wanted)
            sums = GradientSums(arrivals, wanted, create_graph)
            sums.add([edge_of(output) for output in outputs], starts)
            for node in nodes:
                g_outputs = sums.take(node)
                if wanted is not None and not any(map(sums.awaits, node._edges)):  # wanted itself
                    continue
                g_inputs = _node_backward(node, g_outputs, create_graph, events)
                del g_outputs  # before the sums look who else refers to these arrays
                sums.add(node._edges, g_inputs)
                if not retain_graph:
                    node._saved = None
            return [sums.captured.get(edge_of(x)) for x in wanted or ()]
    finally:
        for call in events.after_backward_pass:
            call()


def backward(
    self: Tensor, gradient: TensorLike | None = None, *, retain_graph: bool | None = None, create_graph: bool = False
) -> None:
    """Add d(self)/d(leaf), weighted by `gradient`, to the `grad` of every leaf that this Tensor depends on.

    `gradient` has this Tensor's shape and may be omitted for a single element.  The graph is freed unless
    `retain_graph`, which is the default with `create_graph`: every `grad` then has a graph itself, which refers to the
    leaf; `zero_grad()` ends this circle, and `autograd.grad` makes none.

    Raises: RuntimeError if the graph was freed, `gradient` is missing or a saved array was changed in place;
    ValueError if `gradient` has the wrong shape; NotImplementedError for create_graph=True through an op whose backward
    pass cannot be recorded
    """
    run_backward([self], [gradient], retain_graph=retain_graph, create_graph=create_graph)


attach(backward=backward)


def plan(outputs: Sequence[Tensor], wanted: Sequence[Tensor] | None) -> tuple[list[Op], dict[Any, int]]:
    """The nodes to visit, newest first, and the number of gradients that each of them and each leaf receives.

    With `wanted`, only what leads from `outputs` to these Tensors is visited.
    """
    starts: Sequence[Edge | None] = [edge_of(output) for output in outputs]
    nodes, arrivals = reachable(starts)
    nodes.sort(key=attrgetter("order"), reverse=True)
    if wanted is not None:
        follow = {split(edge_of(x))[0] for x in wanted}
        for node in reversed(nodes):
            if any(edge is not None and split(edge)[0] in follow for edge in node._edges):
                follow.add(node)
        nodes = [node for node in nodes if node in follow]
        groups = (starts, *[node._edges for node in nodes])
        reached = [split(edge)[0] for edges in groups for edge in edges if edge is not None]
        arrivals = Counter([target for target in reached if target in follow])
    for node in nodes:
        if node._saved is None:  # freed
            raise RuntimeError(
                f"cannot run backward() a second time through {node}: the first call freed its saved arrays; "
                "make the first call backward(retain_graph=True), or run the forward pass again"
            )
    return nodes, arrivals


def reachable(starts: Sequence[Edge | None]) -> tuple[list[Op], dict[Any, int]]:
    """All nodes that edges lead to from `starts`, and the number of edges that lead to each node and leaf."""
    nodes: list[Op] = []
    counts: dict[Any, int] = {}
    groups = [starts]
    for edges in groups:  # grows
        for edge in edges:
            if edge is None:
                continue
            target = edge[0] if type(edge) is tuple else edge
            if target not in counts and isinstance(target, Op):
                nodes.append(target)
                groups.append(target._edges)
            counts[target] = counts.get(target, 0) + 1
    return nodes, counts


def _node_backward(node: Op, g_outputs: list[Any], recorded: bool, events: Any) -> list[Any]:
    """Run a node's backward pass; undo broadcasting, check shapes and convert dtypes to those of the inputs."""
    for call in events.before_backward:
        call(node, [g.data for g in g_outputs] if recorded else g_outputs)
    input_specs = specs_of(node._edges)
    g_inputs = (node.call_recorded_backward if recorded else node.call_backward)(g_outputs, input_specs)
    for i, spec in enumerate(input_specs):
        g = None if spec is None else g_inputs[i]
        if type(g) is not ndarray:
            g = g() if callable(g) else g
            if g is None or spec is None:  # 0, or not wanted
                g_inputs[i] = None
                continue
            if isinstance(g, np.generic) or not hasattr(g, "dtype"):  # a scalar, as of sums
                g = node.backend.asarray(g)
            g_inputs[i] = g
        if g.shape != spec.shape:
            g_inputs[i] = g = unbroadcast(g, spec.shape) if node.broadcasts else g
            if g.shape != spec.shape:
                raise RuntimeError(
                    f"{node}: backward returned a gradient of shape {g.shape} for input {i} of shape {spec.shape}"
                )
        if g.dtype is not spec.dtype and g.dtype != spec.dtype:
            g_inputs[i] = g.astype(spec.dtype)
    for call in events.after_backward:
        call(node, [g.data if isinstance(g, Tensor) else g for g in g_inputs])
    return g_inputs
