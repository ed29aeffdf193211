"""Derivatives of derivatives: a backward pass that is recorded itself.

The backward pass of a plain op reads its arguments and writes none of them.  Called with Tensors in the place of
arrays, and with `TensorFunctions` in the place of NumPy, the same lines record the graph of the gradient, which can be
differentiated as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from autograd import ops
from autograd.backend import silent
from autograd.engine import Op, apply, backward_pass_events, plan, unbroadcast
from autograd.modes import enable_grad, state
from autograd.ops.products import Matmul
from autograd.tensor import Edge, Key, Outline, Tensor, attach, edge_of, key_of, new_tensor, split

Array = Any  # numpy.ndarray or cupy.ndarray


@silent()
@enable_grad()
@backward_pass_events()
def run_recorded_backward(
    outputs: Sequence[Tensor],
    gradients: Sequence[Tensor],
    *,
    retain_graph: bool = True,
    wanted: Sequence[Tensor] | None = None,
    values: bool = True,
) -> list[Tensor | None]:
    """`engine.run_backward` on Tensors: the gradients are results of recorded ops.

    Without `values`, only the graph of the gradients counts, and the gradients of leaves may hold NaN: products that
    nothing else reads are recorded and not computed, which saves a ninth of a Hessian-vector product.

    Raises: NotImplementedError for an op whose gradient cannot be differentiated, see `_plain_call`
    """
    events = state.events
    values = values or bool(state.observers)  # who are shown arrays
    nodes, arrivals = plan(outputs, wanted)
    sums = _Sums(arrivals, wanted)
    for output, g in zip(outputs, gradients, strict=True):
        sums.add(edge_of(output), g)
    for node in nodes:
        g_outputs = [sums.complete(node, index) for index in range(len(node.output_specs))]
        if not any(edge is not None and id(split(edge)[0]) in arrivals for edge in node._edges):  # wanted itself
            continue
        for call in events.before_backward:
            call(node, [g.data for g in g_outputs])
        g_inputs = gradients_of_inputs(node, g_outputs, values)
        for call in events.after_backward:
            call(node, [None if g is None else g.data for g in g_inputs])
        for edge, g_input in zip(node._edges, g_inputs, strict=True):
            if edge is not None and g_input is not None:
                sums.add(edge, g_input)
            elif edge is not None:
                sums.skip(edge)
        if not retain_graph:
            node._saved, node.freed = (), True
    return [sums.captured.get(key_of(edge_of(x))) for x in wanted or ()]


def cotangent(output: Tensor, start: Array, given: Any) -> Tensor:
    """The gradient that a recorded backward pass starts from: `given` with its graph, or its array, `start`."""
    if not isinstance(given, Tensor):
        return new_tensor(start)
    return given if given.dtype == output.dtype else ops.astype(given, output.dtype)


def _backward_with_graph(self: Tensor, start: Array, gradient: Any, retain_graph: bool | None) -> None:
    """`Tensor.backward` with create_graph."""
    run_recorded_backward([self], [cotangent(self, start, gradient)], retain_graph=retain_graph is not False)


attach(_backward_with_graph=_backward_with_graph)


class _Sums:
    """The gradients that have arrived at nodes and leaves so far, summed in the order in which the engine sums them."""

    def __init__(self, arrivals: dict[int, int], wanted: Sequence[Tensor] | None):
        self.sums: dict[Key, Tensor] = {}
        self.arrivals = arrivals
        self.targets = None if wanted is None else {key_of(edge_of(x)) for x in wanted}
        self.captured: dict[Key, Tensor] = {}

    def add(self, edge: Edge, g: Tensor) -> None:
        """Add what has come along `edge`."""
        if id(split(edge)[0]) in self.arrivals:
            key = key_of(edge)
            self.sums[key] = self.sums[key] + g if key in self.sums else g
            self.skip(edge)

    def skip(self, edge: Edge) -> None:
        """Note that a gradient, perhaps of zeros, has come along `edge`; the last one completes that of a leaf."""
        if isinstance(edge, Tensor) and id(edge) in self.arrivals:
            self.arrivals[id(edge)] -= 1
            if not self.arrivals[id(edge)]:
                self._finish(edge)

    def complete(self, node: Op, index: int) -> Tensor:
        """The total gradient of one output after its hooks, captured if it is wanted; zeros for an output not used."""
        key = (id(node), index) if index else id(node)
        g = self.sums.pop(key, None)
        if g is None:
            g = new_tensor(node.xp.zeros(*node.output_specs[index]))
        if node.hooks and index in node.hooks:
            g = node.hooks[index].run(g)
        if self.targets and key in self.targets:
            self.captured[key] = g
        return g

    def _finish(self, leaf: Tensor) -> None:
        """Run the hooks of a leaf whose gradient is complete, then capture the gradient or add it to `leaf.grad`."""
        g = self.sums.pop(id(leaf), None)
        if g is None:
            g = new_tensor(np.zeros_like(leaf.data))
        g = leaf.hooks.run(g) if leaf.hooks else g
        for call in state.events.after_leaf:
            call(leaf, g.data)
        if self.targets is not None:
            self.captured[id(leaf)] = g
            return
        leaf.grad = ops.clone(g) if leaf.grad is None else leaf.grad + g  # a copy: a later pass may add to it in place
        for grad_hook in list(leaf.grad_hooks or ()):
            grad_hook(leaf)


# ---- One node ----------------------------------------------------------------------------------------------------


def gradients_of_inputs(node: Op, g_outputs: Sequence[Tensor], values: bool = True) -> list[Tensor | None]:
    """The gradients of a node's inputs as Tensors with a graph; None for those that need none and those that are 0.

    Without `values`, those of leaves may hold NaN.
    """
    op_class, (y, *inputs), parameters = _plain_call(node)
    specs = node.input_specs
    for i, (edge, spec) in enumerate(zip(node._edges, specs, strict=True)):
        if edge is not None and spec is not None:
            inputs[i] = _read(inputs[i], spec, edge)
    g: Any = tuple(g_outputs) if node._several else g_outputs[0]
    y = node.output_specs if node._several else _read(y, node.output_specs[0], node)
    functions = TensorFunctions(node.xp)
    result = op_class.backward(functions, g, y, *inputs, **parameters)
    if result is None:
        raise RuntimeError(f"{node}: backward returned None; return a gradient, (None,) for a gradient of 0")
    found = list(result) if isinstance(result, tuple) else [result]
    if len(found) != len(specs):
        raise RuntimeError(f"{node}: backward returned {len(found)} gradients for {len(specs)} inputs")
    if op_class.broadcasts:
        found = [_unbroadcast(g, spec) for g, spec in zip(found, specs, strict=True)]
    gradients: list[Tensor | None] = []
    for i, (edge, spec) in enumerate(zip(node._edges, specs, strict=True)):
        is_read = values or not isinstance(edge, Tensor) or bool(edge.hooks)
        functions.unread_product = ops.matmul if is_read else partial(apply, Matmul, is_read=False)
        gradients.append(None if spec is None else _checked(node, i, found[i], spec))
    return gradients


def _plain_call(node: Any) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The plain op that a node is a call of, the output and the inputs that it reads, and its parameters.

    In the place of arrays that it does not read, and of an input that has none, None or an `Outline`.  An
    implementation in the place of a plain op has a method `as_plain` that returns these.

    Raises: NotImplementedError for an op whose `forward` and `backward` are methods
    """
    if hasattr(node, "as_plain"):
        return node.as_plain()
    if not node.is_plain:
        raise NotImplementedError(
            f"create_graph=True: the gradient of {node} has no graph, because backward(self, g) may read what its "
            "inputs do not show; write forward(xp, *inputs) and backward(xp, g, y, *inputs) as static methods"
        )
    return type(node), node.saved, node.parameters


def _read(a: Any, spec: Outline, edge: Edge) -> Tensor | Outline:
    """An array that the graph keeps as a Tensor of this graph; of one that is not read, the outline."""
    if a is None or isinstance(a, Outline):
        return spec
    if a.shape != spec.shape:  # an implementation has broadcast it
        lead = a.ndim - len(spec.shape)
        a = a[(0,) * lead + tuple([slice(n) for n in spec.shape])]
    tensor = new_tensor(a)
    tensor._requires_grad, tensor._edge = True, edge
    return tensor


def _unbroadcast(g: Any, spec: Outline | None) -> Any:
    if spec is None:
        return None
    g = g() if callable(g) else g
    return g if g is None else unbroadcast(g, spec.shape)


def _checked(node: Op, i: int, g: Any, spec: Outline) -> Tensor | None:
    """A gradient in the shape and dtype of its input."""
    if callable(g):
        g = g()
    if g is None:
        return None
    if not isinstance(g, Tensor):
        g = new_tensor(node.backend.asarray(g))
    if g.shape != spec.shape:
        raise RuntimeError(
            f"{node}: backward returned a gradient of shape {g.shape} for input {i} of shape {spec.shape}"
        )
    return g if g.dtype == spec.dtype else ops.astype(g, spec.dtype)


# ---- NumPy's functions, on Tensors --------------------------------------------------------------------------------


class TensorFunctions:
    """The functions of an array module: given Tensors, the ops of the same names; given arrays, its own.

    Functions that are constant but for jumps, such as `xp.greater`, give arrays.  `unread_product` is a matrix product
    whose value a backward pass hands on without reading it, as the gradient of an input.

    Raises: NotImplementedError for a function of Tensors that no op corresponds to
    """

    def __init__(self, xp: Any):
        self._xp = xp
        self.unread_product: Callable[..., Any] = ops.matmul

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._xp, name)
        if isinstance(own, type) or not callable(own) or isinstance(own, np.dtype):
            return own

        def function(*arguments: Any, **settings: Any) -> Any:
            if not any(_has_tensor(x) for x in (*arguments, *settings.values())):
                return own(*arguments, **settings)
            if name in _STEPS:
                return own(*[_raw(x) for x in arguments], **settings)
            if name not in _FUNCTIONS:
                raise NotImplementedError(
                    f"xp.{name} of a Tensor, in the backward pass of an op: there is no op of this name, so the "
                    "gradient has no graph; write the backward pass with functions that autograd has"
                )
            return _FUNCTIONS[name](*arguments, **settings)

        return function


def _has_tensor(x: Any) -> bool:
    return isinstance(x, Tensor) or (isinstance(x, (list, tuple)) and any(_has_tensor(each) for each in x))


def _raw(x: Any) -> Any:
    return x.data if isinstance(x, Tensor) else x


def _asarray(x: Tensor, dtype: Any = None) -> Tensor:
    return x if dtype is None or x.dtype == dtype else ops.astype(x, dtype)


def _moveaxis(x: Tensor, source: Any, destination: Any) -> Tensor:
    return ops.transpose(x, np.moveaxis(_axes(x), source, destination).shape)


def _axes(x: Tensor) -> np.ndarray:
    """An array with as many axes, whose sizes are their numbers: a rearranged one says where each has gone."""
    return np.broadcast_to(np.zeros(()), range(x.ndim))


def _flip(x: Tensor, axis: int) -> Tensor:
    index: list[Any] = [slice(None)] * x.ndim
    index[axis] = slice(None, None, -1)
    return x[tuple(index)]


def _cumprod(x: Tensor, axis: int) -> Tensor:
    """One product after the other: its graph is as long as the axis."""
    found: list[Any] = []
    for piece in ops.split(x, x.shape[axis], axis) if x.shape[axis] else ():
        found.append(found[-1] * piece if found else piece)
    return ops.concatenate(found, axis) if found else x


_STEPS = {
    "argmax", "argmin", "argsort", "ceil", "equal", "floor", "floor_divide", "greater", "greater_equal", "isfinite",
    "isinf", "isnan", "isneginf", "isposinf", "less", "less_equal", "logical_and", "logical_not", "logical_or",
    "not_equal", "ones_like", "result_type", "rint", "round", "shape", "sign", "signbit", "zeros_like",
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(ops, name) for name in ops.__all__ if hasattr(np, name)},
    "array": ops.clone,
    "asarray": _asarray,
    "ascontiguousarray": _asarray,
    "cumprod": _cumprod,
    "einsum": lambda subscripts, *operands, optimize=True: ops.einsum(subscripts, *operands),
    "flip": _flip,
    "moveaxis": _moveaxis,
    "ravel": lambda x: ops.reshape(x, -1),
}
