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

import itertools
import math
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from autograd.backend import CPU, Backend, as_operand, backend_of, is_floating, silent
from autograd.modes import backward_pass_watched, state
from autograd.tensor import Tensor
from autograd.versions import share_versions, versions_of_saved

Array = Any  # numpy.ndarray or cupy.ndarray
Edge = tuple["Op | Tensor", int]  # a node and which of its outputs, or a leaf and 0

_order = itertools.count()
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


# ---- Nodes -------------------------------------------------------------------------------------------------------


class Op:
    """Base class of differentiable operations; an instance is the graph's node for one call.

    A subclass defines `forward(self, *arrays, **parameters)`, which returns an array or a tuple of arrays, and
    `backward(self, *g_outputs)`, which returns one gradient per input (`None` where none is needed; a single input
    needs no tuple).  Both take and return raw arrays.  `forward` keeps what `backward` needs with `self.save(...)`.
    `flops` may state the operations of both, for profiles (`autograd.ops.flops` has the usual counts).
    """

    broadcasts: ClassVar[bool] = False
    """True if the inputs are broadcast against each other: the engine then sums each gradient to its input's shape."""

    registry: ClassVar[dict[str, type[Op]]] = {}
    """Every op class of `autograd.ops` by name, so that tests can check that each one is covered."""

    backend: Backend
    needs_gradient: tuple[bool, ...]  # one flag per input: `backward` may skip the products of the others
    edges: tuple[Edge | None, ...] = ()
    input_specs: tuple[tuple[tuple[int, ...], Any] | None, ...] = ()  # (shape, dtype) of each input to differentiate
    output_specs: tuple[tuple[tuple[int, ...], Any], ...] = ()
    order: int = -1
    where: tuple[str, int] = ("", 0)  # file and line outside this package that made the op
    hooks: dict[int, list[Callable]] | None = None  # by output index
    freed = False
    _saved: tuple[Any, ...] = ()
    _versions: tuple[tuple[list[int], int], ...] = ()
    _refill: Callable[[], None] | None = None  # recomputes the saved arrays that `checkpoint` dropped

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        if cls.__module__.startswith("autograd.ops"):
            Op.registry[cls.__name__] = cls

    @property
    def xp(self):
        """The array module of the inputs: numpy or cupy."""
        return self.backend.xp

    def save(self, *arrays: Any) -> None:
        """Keep what the backward pass needs; a node holds no other arrays."""
        self._saved = arrays

    @property
    def saved_arrays(self) -> tuple[Any, ...]:
        """What `save` kept, unchecked and not recomputed: for tools that inspect the graph."""
        return self._saved

    @property
    def saved(self) -> tuple[Any, ...]:
        """What `save` kept.

        Raises: RuntimeError if one of these arrays was changed in place through a Tensor after it was saved.
        """
        for version, seen in self._versions:
            if version[0] != seen:
                raise RuntimeError(
                    f"{self} needs for its backward pass an array that was changed in place {version[0] - seen} "
                    "time(s) after the op used it; change a copy instead, or make the change after backward()"
                )
        if self._refill is not None:
            self._refill()
        return self._saved

    def forward(self, *arrays: Array, **parameters: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.forward")

    def backward(self, *g_outputs: Array) -> Any:
        raise NotImplementedError(f"{type(self).__name__}.backward")

    def flops(self, inputs: Sequence[tuple[int, ...]], outputs: Sequence[tuple[int, ...]], /) -> tuple[float, float]:
        """Floating-point operations of the forward and of the backward pass, given the shapes of inputs and outputs.

        By default one per output element, and backward one for each input that needs a gradient.
        """
        n = math.prod(outputs[0])
        return n, n * sum(self.needs_gradient)

    def __str__(self) -> str:
        return f"{type(self).__name__} (made at {self.where[0]}:{self.where[1]})"


def apply(op_class: type[Op], *inputs: Any, **parameters: Any) -> Any:
    """Run an op on Tensors, arrays and Python scalars; return its output as a Tensor, several outputs as a tuple.

    Only Tensors get gradients.  Python scalars stay Python scalars, so they never change a dtype.
    """
    op = op_class()
    arrays = [x.data if isinstance(x, Tensor) else as_operand(x) for x in inputs]
    op.backend = backend_of(arrays)
    if op.backend is not CPU:
        arrays = _on_device(op.backend, inputs, arrays)
    recording = state.recording
    op.needs_gradient = tuple([recording and isinstance(x, Tensor) and x.requires_grad for x in inputs])
    recording = any(op.needs_gradient)
    watchers = state.watchers
    if recording or watchers:
        op.where = _caller()
    for watcher in watchers:
        watcher.before_forward(op, arrays)
    try:
        result = op.forward(*arrays, **parameters)
    except BaseException:
        for watcher in reversed(watchers):
            watcher.after_error(op)
        raise
    several = isinstance(result, tuple)
    # NumPy's reductions and its arithmetic on 0-d arrays return scalars: convert them to arrays here, for all ops
    outputs = [op.backend.asarray(a) for a in (result if several else (result,))]
    for watcher in reversed(watchers):
        watcher.after_forward(op, outputs)

    tensors = tuple(Tensor(a) for a in outputs)
    share_versions(inputs, tensors)
    if recording:
        _record(op, inputs, arrays, tensors)
        for watcher in reversed(watchers):
            watcher.after_record(op, inputs)
    return tensors if several else tensors[0]


def _record(op: Op, inputs: Sequence[Any], arrays: Sequence[Any], outputs: Sequence[Tensor]) -> None:
    """Make `op` a node of the graph: edges to the nodes of its inputs, and its outputs refer to it."""
    op.order = next(_order)
    op.edges = tuple([_edge(x) if needed else None for x, needed in zip(inputs, op.needs_gradient, strict=True)])
    op.input_specs = tuple(
        [(a.shape, a.dtype) if needed else None for a, needed in zip(arrays, op.needs_gradient, strict=True)]
    )
    op.output_specs = tuple([(y.data.shape, y.data.dtype) for y in outputs])
    op._versions = versions_of_saved(op.saved_arrays, (*inputs, *outputs))
    for index, y in enumerate(outputs):
        if is_floating(y.data.dtype):
            y.requires_grad, y.op, y.index = True, op, index


def _on_device(backend: Backend, inputs: Sequence[Any], arrays: list[Any]) -> list[Any]:
    """Copy NumPy arrays that are used together with GPU arrays to the GPU, as constants.

    Raises: ValueError if one of them requires a gradient, which would be on another device than the Tensor.
    """
    for x, a in zip(inputs, arrays, strict=True):
        if isinstance(x, Tensor) and x.requires_grad and isinstance(a, np.ndarray):
            raise ValueError(
                "a Tensor that requires a gradient is on the CPU and another input on a GPU; move it first: "
                "Tensor(backend.asarray(x), requires_grad=True), or model.to(device)"
            )
    return [backend.asarray(a) if isinstance(a, np.ndarray) else a for a in arrays]


def _edge(x: Tensor) -> Edge:
    return (x, 0) if x.op is None else (x.op, x.index)


def _caller() -> tuple[str, int]:
    """File and line of the nearest stack frame outside this package: where user code made the op."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_HERE):
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


# ---- The backward pass -------------------------------------------------------------------------------------------


class _Sum:
    """Running sum of the gradients of one array."""

    __slots__ = ("owned", "value")

    def __init__(self) -> None:
        self.value: Array | None = None
        self.owned = False  # whether `value` may be changed in place

    def add(self, g: Array, owned: bool) -> None:
        if self.value is None:
            self.value, self.owned = g, owned
        elif self.owned:
            self.value += g
        else:
            self.value, self.owned = self.value + g, True


@silent()
@backward_pass_watched()
def run_backward(
    outputs: Sequence[Tensor],
    gradients: Sequence[Array],
    *,
    retain_graph: bool = False,
    wanted: Sequence[Tensor] | None = None,
) -> list[Array | None]:
    """Propagate `gradients` of `outputs` back through the graph.

    Without `wanted`, gradients are added to the `grad` of every leaf reached; with it, the gradients of those
    Tensors are returned instead and no `grad` is changed.

    Division by zero, overflow and invalid operations give ∞ and NaN without NumPy's warnings (the slope of sqrt at 0
    *is* infinite): a warning raised here could not name the op, `autograd.inspect.anomaly_mode` does.
    """
    nodes, uses = _reachable(outputs)
    sums: dict[tuple[int, int], _Sum] = {}  # by (id of node or leaf, output index)
    captured: dict[tuple[int, int], Array] = {}
    capture = None if wanted is None else {(id(target), index) for target, index in map(_edge, wanted)}

    def add(edge: Edge, g: Array, owned: bool) -> None:
        target, index = edge
        total = sums.setdefault((id(target), index), _Sum())
        total.add(g, owned)
        if isinstance(target, Tensor):
            uses[id(target)] -= 1
            if not uses[id(target)]:  # complete: no node left to visit leads to this leaf
                del sums[id(target), 0]
                _finish_leaf(target, total, capture, captured)

    for output, g in zip(outputs, gradients, strict=True):
        add(_edge(output), g, owned=False)
    for node in nodes:
        totals = [sums.pop((id(node), index), None) for index in range(len(node.output_specs))]
        g_outputs = [_complete_gradient(node, index, total) for index, total in enumerate(totals)]
        if capture:
            for index, (total, g) in enumerate(zip(totals, g_outputs, strict=True)):
                if (id(node), index) in capture:  # copied unless the engine allocated it: others may refer to it
                    captured[id(node), index] = g if total and total.owned and g is total.value else g.copy()
        g_inputs = _node_backward(node, g_outputs)
        for position, (edge, g) in enumerate(zip(node.edges, g_inputs, strict=True)):
            if edge is not None:
                if g is None:
                    shape, dtype = node.input_specs[position]  # type: ignore[misc]
                    g = node.xp.zeros(shape, dtype)
                add(edge, g, owned=_is_fresh(g, g_outputs, g_inputs, node.saved_arrays))
        if not retain_graph:
            node._saved, node._versions, node._refill, node.freed = (), (), None, True
    return [captured.get((id(t), i)) for t, i in map(_edge, wanted or ())]


def _reachable(outputs: Sequence[Tensor]) -> tuple[list[Op], dict[int, int]]:
    """All nodes that `outputs` depend on, newest first, and the number of gradients that each leaf will receive."""
    seen: dict[int, Op] = {}
    uses: dict[int, int] = {}
    stack: list[Op | Tensor] = [_edge(output)[0] for output in outputs]
    while stack:
        target = stack.pop()
        if isinstance(target, Tensor):
            uses[id(target)] = uses.get(id(target), 0) + 1
        elif id(target) not in seen:
            if target.freed:
                raise RuntimeError(
                    f"cannot run backward() a second time through {target}: the first call freed its saved arrays; "
                    "make the first call backward(retain_graph=True), or run the forward pass again"
                )
            seen[id(target)] = target
            stack.extend([edge[0] for edge in target.edges if edge is not None])
    return sorted(seen.values(), key=lambda node: node.order, reverse=True), uses


def _complete_gradient(node: Op, index: int, total: _Sum | None) -> Array:
    """The total gradient of one output after its hooks; zeros for an output that was not used."""
    shape, dtype = node.output_specs[index]
    g = node.xp.zeros(shape, dtype) if total is None or total.value is None else total.value
    return _run_hooks(node.hooks[index], g) if node.hooks and index in node.hooks else g


def _run_hooks(hooks: list[Callable], g: Array) -> Array:
    for hook in list(hooks):
        replaced = hook(Tensor(g))
        if replaced is not None:
            new = replaced.data if isinstance(replaced, Tensor) else replaced
            if new.shape != g.shape:
                raise ValueError(f"a gradient hook returned shape {new.shape} for a gradient of shape {g.shape}")
            g = new
    return g


def _node_backward(node: Op, g_outputs: list[Array]) -> list[Array | None]:
    """Run a node's backward pass; undo broadcasting, check shapes and convert dtypes to those of the inputs."""
    watchers = state.watchers
    for watcher in watchers:
        watcher.before_backward(node, g_outputs)
    result = node.backward(*g_outputs)
    g_inputs = list(result) if isinstance(result, tuple) else [result]
    if len(g_inputs) != len(node.edges):
        raise RuntimeError(f"{node}: backward returned {len(g_inputs)} gradients for {len(node.edges)} inputs")
    for i, (g, spec) in enumerate(zip(g_inputs, node.input_specs, strict=True)):
        if g is None or spec is None:
            g_inputs[i] = None
            continue
        shape, dtype = spec
        if not hasattr(g, "shape"):
            g = node.backend.asarray(g)
        if node.broadcasts:
            g = unbroadcast(g, shape)
        if g.shape != shape:
            raise RuntimeError(
                f"{node}: backward returned a gradient of shape {g.shape} for input {i} of shape {shape}"
            )
        g_inputs[i] = g if g.dtype == dtype else g.astype(dtype)
    for watcher in reversed(watchers):
        watcher.after_backward(node, g_inputs)
    return g_inputs


def unbroadcast(g: Array, shape: tuple[int, ...]) -> Array:
    """Sum `g` over the axes along which an array of `shape` was broadcast: the transpose of broadcasting."""
    if g.shape == shape:
        return g
    lead = g.ndim - len(shape)
    repeated = [lead + i for i, n in enumerate(shape) if n == 1 and g.shape[lead + i] != 1]
    return g.sum(axis=(*range(lead), *repeated), keepdims=True).reshape(shape)


def _is_fresh(g: Array, g_outputs: Sequence[Array], g_inputs: Sequence[Array | None], saved: Sequence[Array]) -> bool:
    """Whether the engine may write into `g`: it is not a view, and no other array here is `g` or a view of it."""
    if getattr(g, "base", None) is not None:
        return False
    holders = [other for other in (*g_outputs, *g_inputs, *saved) if other is g or getattr(other, "base", None) is g]
    return len(holders) == 1


def _finish_leaf(leaf: Tensor, total: _Sum, capture: set | None, captured: dict) -> None:
    """Run the hooks of a leaf whose gradient is complete, then capture the gradient or add it to `leaf.grad`."""
    g: Array = total.value
    owned = total.owned
    if leaf.hooks:
        hooked = _run_hooks(leaf.hooks, g)
        owned, g = False, hooked  # a hook may have kept the array
    for watcher in reversed(state.watchers):
        watcher.after_leaf(leaf, g)
    if capture is not None:
        if (id(leaf), 0) in capture:
            captured[id(leaf), 0] = g if owned else g.copy()
    elif leaf.grad is None:
        leaf.grad = Tensor(g if owned else g.copy())
    else:
        leaf.grad.data[...] += g
        leaf.grad.version[0] += 1
    if capture is None and leaf.grad_hooks:
        for grad_hook in list(leaf.grad_hooks):
            grad_hook(leaf)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Any = None,
    *,
    retain_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of `outputs` with respect to `inputs`, returned instead of accumulated.

    `inputs` may be leaves or intermediate Tensors.  `grad_outputs` has one array per output (default: 1 for an output
    of one element).

    Raises: RuntimeError if `outputs` do not depend on an input, unless `allow_unused`: its gradient is then None.
    """
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given = [None] * len(outputs) if grad_outputs is None else grad_outputs
    if isinstance(given, Tensor) or hasattr(given, "shape"):
        given = [given]
    if len(given) != len(outputs):
        raise ValueError(f"grad_outputs has {len(given)} arrays for {len(outputs)} outputs; give one each")
    for position, x in enumerate(inputs):
        if not x.requires_grad:
            raise RuntimeError(f"input {position} of grad() does not require a gradient; set requires_grad=True on it")
    starts = [starting_gradient(y, g) for y, g in zip(outputs, given, strict=True)]
    results = run_backward(outputs, starts, retain_graph=retain_graph, wanted=inputs)
    if not allow_unused and any(g is None for g in results):
        unused = [i for i, g in enumerate(results) if g is None]
        raise RuntimeError(f"the outputs of grad() do not depend on input(s) {unused}; pass allow_unused=True")
    return tuple([None if g is None else Tensor(g) for g in results])


def starting_gradient(output: Tensor, gradient: Any) -> Array:
    """The gradient of `output` that a backward pass starts from: `gradient`, or 1 for a single element.

    Raises: RuntimeError if `output` has no graph, or several elements and no `gradient`; ValueError on a wrong shape.
    """
    if not output.requires_grad:
        raise RuntimeError(
            "backward() has nothing to do: the Tensor does not depend on any Tensor with requires_grad=True"
        )
    xp = backend_of([output.data]).xp
    if gradient is None:
        if output.size != 1:
            raise RuntimeError(
                f"backward() without a gradient needs a single element, this Tensor has shape {output.shape}; "
                "reduce it (for example .sum()) or pass gradient="
            )
        return xp.ones(output.shape, output.dtype)
    g = xp.asarray(gradient.data if isinstance(gradient, Tensor) else gradient, dtype=output.dtype)
    if g.shape != output.shape:
        raise ValueError(f"gradient has shape {g.shape}, the Tensor has shape {output.shape}; they must be equal")
    return g
