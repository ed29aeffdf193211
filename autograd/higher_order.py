"""Derivatives of derivatives: a backward pass that is recorded itself.

The backward pass of a plain op reads its arguments and writes none of them.  Called with Tensors in the place of
arrays, and with `TensorFunctions` in the place of NumPy, the same lines record the graph of the gradient, which can be
differentiated as any other.  The walk through the graph is the engine's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd import ops
from autograd.engine import Op
from autograd.tensor import ArraySpec, Edge, Tensor, new_tensor


def call_recorded_backward(
    node: Op, g_outputs: Sequence[Tensor], input_specs: Sequence[ArraySpec | None]
) -> list[Tensor | None]:
    """`Op.call_backward` of Tensors: the gradients of a node's inputs with a graph; None for those that are 0.

    Raises: NotImplementedError for an op whose `forward` and `backward` are methods
    """
    if hasattr(node, "as_plain"):  # an implementation in the place of a plain op, which tells this, output and inputs
        op_class, (y, *inputs), parameters = node.as_plain()
    elif node.is_plain:
        op_class, (y, *inputs), parameters = type(node), node.saved, node.parameters
    else:
        raise NotImplementedError(
            f"create_graph=True: the gradient of {node} has no graph, because backward(self, g) may read what its "
            "inputs do not show; write forward(xp, *inputs) and backward(xp, g, y, *inputs) as static methods"
        )
    for i, (edge, spec) in enumerate(zip(node._edges, input_specs, strict=True)):
        if edge is not None and spec is not None:
            inputs[i] = _read(inputs[i], spec, edge)
    g: Any = tuple(g_outputs) if node._several else g_outputs[0]
    y = node.output_specs if node._several else _read(y, node.output_specs[0], node)
    found = node.results_of(op_class.backward(TensorFunctions(node.xp), g, y, *inputs, **parameters))
    needed = [None if spec is None else g() if callable(g) else g for g, spec in zip(found, input_specs, strict=True)]
    return [g if g is None or isinstance(g, Tensor) else new_tensor(node.backend.asarray(g)) for g in needed]


Op.call_recorded_backward = call_recorded_backward


def _read(a: Any, spec: ArraySpec, edge: Edge) -> Tensor | ArraySpec:
    """An array that the graph keeps as a Tensor of this graph; of one that is not read (None, a spec), the spec."""
    if a is None or isinstance(a, ArraySpec):
        return spec
    if a.shape != spec.shape:  # an implementation has broadcast it
        lead = a.ndim - len(spec.shape)
        a = a[(0,) * lead + tuple([slice(n) for n in spec.shape])]
    return new_tensor(a, edge)


# ---- NumPy's functions, on Tensors --------------------------------------------------------------------------------


class TensorFunctions:
    """The functions of an array module: given Tensors, the ops of the same names; given arrays, its own.

    Functions that are constant but for jumps, such as `xp.greater`, give arrays.

    Raises: NotImplementedError for a function of Tensors that no op corresponds to
    """

    def __init__(self, xp: Any):
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        own = getattr(self._xp, name)
        if isinstance(own, type) or not callable(own) or isinstance(own, np.dtype):
            return own

        def function(*arguments: Any, **settings: Any) -> Any:
            if not any(_has_tensor(x) for x in (*arguments, *settings.values())):
                return own(*arguments, **settings)
            if name in _STEPS:
                return own(*[x.data if isinstance(x, Tensor) else x for x in arguments], **settings)
            if name not in _FUNCTIONS:
                raise NotImplementedError(
                    f"xp.{name} of a Tensor, in the backward pass of an op: there is no op of this name, so the "
                    "gradient has no graph; write the backward pass with functions that autograd has"
                )
            return _FUNCTIONS[name](*arguments, **settings)

        return function


def _has_tensor(x: Any) -> bool:
    return isinstance(x, Tensor) or (isinstance(x, (list, tuple)) and any(_has_tensor(each) for each in x))


def _asarray(x: Tensor, dtype: Any = None) -> Tensor:
    return x if dtype is None or x.dtype == dtype else ops.astype(x, dtype)


def _moveaxis(x: Tensor, source: Any, destination: Any) -> Tensor:
    axes = np.empty(range(x.ndim))  # whose sizes are their numbers: rearranged, they say where each has gone
    return ops.transpose(x, np.moveaxis(axes, source, destination).shape)


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
    "moveaxis": _moveaxis,
    "ravel": lambda x: ops.reshape(x, -1),
}
