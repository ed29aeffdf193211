"""Derivatives as users ask for them: `grad`, and functions that turn functions into derivatives.

The latter have the names that they have in JAX and in torch.func.  Their functions take and return Tensors, or tuples,
lists and dicts of them, nested as one likes; arrays and numbers are taken as Tensors.  Results have a graph where they
depend on other Tensors that require a gradient, so that all of them can be composed with each other and with
`backward`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, overload

import numpy as np

from autograd import ops
from autograd.backend import as_array, backend_of
from autograd.engine import Op, apply, reachable, run_backward
from autograd.modes import enable_grad, is_grad_enabled, no_grad
from autograd.tensor import Tensor, TensorLike, edge_of, new_tensor

__all__ = ["ancestors"]

Function = Callable[..., Any]


@overload
def grad(
    outputs: Function, inputs: int | tuple[int, ...] | None = None, *, argnums: int | tuple[int, ...] = 0
) -> Function: ...


@overload
def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: TensorLike | Sequence[TensorLike | None] | None = None,
    *,
    retain_graph: bool | None = None,
    allow_unused: bool = False,
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]: ...


def grad(
    outputs: Any,
    inputs: Any = None,
    grad_outputs: TensorLike | Sequence[TensorLike | None] | None = None,
    *,
    retain_graph: bool | None = None,
    allow_unused: bool = False,
    create_graph: bool = False,
    argnums: int | tuple[int, ...] = 0,
) -> Any:
    """Gradients of `outputs` with respect to `inputs`, returned instead of accumulated; or the gradient of a function.

    `grad(function, argnums=0)` is the function of the same arguments that returns the gradient alone, of which
    `value_and_grad` returns the value too; `grad(function, 1)` is with respect to argument 1.

    `inputs` may be leaves or intermediate Tensors.  `grad_outputs` has one array per output (default: 1 for an output
    of one element).  With `create_graph`, the gradients have a graph themselves, to `inputs`, to `grad_outputs` and to
    all other Tensors: derivatives of every order are gradients of gradients.  `retain_graph` keeps the graph for
    another backward pass, by default only with `create_graph`.

    Raises: RuntimeError if `outputs` do not depend on an input, unless `allow_unused`: its gradient is then None;
    NotImplementedError for create_graph=True through an op whose backward pass cannot be recorded
    """
    if callable(outputs):
        return _gradient_of(outputs, argnums if inputs is None else inputs)
    if inputs is None:
        raise TypeError("grad takes Tensors, grad(outputs, inputs), or a function, grad(function)(*arguments)")
    outputs = [outputs] if isinstance(outputs, Tensor) else list(outputs)
    inputs = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    given: Any = [None] * len(outputs) if grad_outputs is None else grad_outputs
    if isinstance(given, Tensor) or hasattr(given, "shape"):
        given = [given]
    if len(given) != len(outputs):
        raise ValueError(f"grad_outputs has {len(given)} arrays for {len(outputs)} outputs; give one each")
    for position, x in enumerate(inputs):
        if not x.requires_grad:
            raise RuntimeError(f"input {position} of grad() does not require a gradient; set requires_grad=True on it")
    if allow_unused:  # a result without a graph, such as the gradient of a linear function, depends on none of them
        given = [g for y, g in zip(outputs, given, strict=True) if y.requires_grad]
        outputs = [y for y in outputs if y.requires_grad]
    results = run_backward(outputs, given, retain_graph=retain_graph, create_graph=create_graph, wanted=inputs)
    if not allow_unused and any(g is None for g in results):
        unused = [i for i, g in enumerate(results) if g is None]
        raise RuntimeError(f"the outputs of grad() do not depend on input(s) {unused}; pass allow_unused=True")
    return tuple(results)


# ---- Functions of functions --------------------------------------------------------------------------------------


def vjp(function: Function, *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """`function(*primals)`, and the function from a cotangent v of the output to vᵀ J, for each of `primals`.

    The cotangent has the structure of the output.  The products, a tuple, have those of the primals, and are zeros
    where the output does not depend on one.  The second function may be called several times.

    Raises: ValueError, from the second function, for a cotangent that does not fit
    """
    call = _Call(function, primals)

    def pull_back(cotangent: Any) -> tuple[Any, ...]:
        return call.shaped(call.gradients(_fitting(cotangent, call.output, "cotangent", "output")))

    return call.output, pull_back


def jvp(function: Function, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """`function(*primals)`, and J t: its derivative along the `tangents` t, in the structure of the output.

    Two backward passes: vᵀ J is linear in v, and J t is the gradient of vᵀ J t with respect to v.

    Raises: ValueError for tangents that do not fit
    """
    call = _Call(function, tuple(primals))
    directions = _fitting(tuple(tangents), tuple(primals), "tangent", "primal")
    vs = [_full(y, 0) for y in call.outputs]
    for v in vs:
        v.requires_grad = True
    with enable_grad():
        gradients = _gradients(call.outputs, call.leaves, vs, create_graph=True)
    recorded = call.is_recorded or any(t.requires_grad for t in directions)
    return call.output, _like(call.output, _gradients(gradients, vs, directions, create_graph=recorded))


def value_and_grad(function: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """The function of the same arguments that returns the value and its gradient with respect to argument `argnums`.

    `function` returns a single element.  Of several `argnums`, the gradients are a tuple.

    Raises: RuntimeError, when it is called, for a value of several elements
    """

    def value_and_gradient(*arguments: Any, **settings: Any) -> tuple[Any, Any]:
        call = _Call(function, arguments, settings, argnums)
        value = call.output
        if not isinstance(value, Tensor) or value.size != 1:
            found = f"shape {value.shape}" if isinstance(value, Tensor) else type(value).__name__
            raise RuntimeError(f"a gradient is that of a function that returns a single element, found {found}")
        return value, call.shaped(call.gradients([_full(value, 1)]))

    return value_and_gradient


def _gradient_of(function: Function, argnums: Any) -> Function:
    if not isinstance(argnums, int | tuple):
        raise TypeError(
            "the second argument of grad(function, argnums) is the number of an argument, or a tuple of numbers, found "
            f"{type(argnums).__name__}; write grad(function)(x), or grad(function(x), x)"
        )

    def gradient(*arguments: Any, **settings: Any) -> Any:
        return value_and_grad(function, argnums)(*arguments, **settings)[1]

    return gradient


def elementwise_grad(function: Function, argnums: int = 0) -> Function:
    """The function that returns dy_i/dx_i, of a `function` that computes each element y_i from x_i alone."""

    def gradient(*arguments: Any, **settings: Any) -> Any:
        call = _Call(function, arguments, settings, argnums)
        return call.shaped(call.gradients([_full(y, 1) for y in call.outputs]))

    return gradient


def jacobian(function: Function, argnums: int | tuple[int, ...] = 0) -> Function:
    """The function that returns dy_i/dx_j for every element of the output and of argument `argnums`.

    A backward pass for each element of the output.  It has the structure of the output, and inside that of the
    argument; of several `argnums`, a tuple of these.

    Shapes: y [*Y], x [*X] -> [*Y, *X]
    """

    def jacobian_of(*arguments: Any, **settings: Any) -> Any:
        call = _Call(function, arguments, settings, argnums)
        parts = []
        for i, y in enumerate(call.outputs):
            rows = []  # for each element of y, the gradients of all leaves
            for position in range(y.size):
                cotangents = [_full(each, 0) for each in call.outputs]
                cotangents[i].data.reshape(-1)[position] = 1
                rows.append(call.gradients(cotangents))
            columns = zip(*rows, strict=True) if rows else [()] * len(call.leaves)
            whole = [
                ops.reshape(ops.stack(column), (*y.shape, *x.shape))
                if column
                else Tensor(np.zeros((*y.shape, *x.shape), y.dtype))
                for column, x in zip(columns, call.leaves, strict=True)
            ]
            parts.append(call.shaped(whole))
        return _like(call.output, parts)

    return jacobian_of


def hessian(function: Function, argnums: int = 0) -> Function:
    """The function that returns d²y/dx_i dx_j for all elements of argument `argnums`; y is a single element.

    The Jacobian of the gradient: a backward pass for each element of x.

    Shapes: y [], x [*X] -> [*X, *X]
    """
    return jacobian(_gradient_of(function, argnums), argnums)


def hvp(function: Function, x: Any, v: Any) -> Any:
    """The Hessian of `function` at x times v, without the Hessian: the gradient of gradientᵀ v.

    `function` returns a single element; v and the product have the structure of x.  The Hessian is symmetric, so the
    product is vᵀ times the Jacobian of the gradient: the first of two backward passes is recorded.

    Raises: RuntimeError for a value of several elements; ValueError for a v that does not fit
    """
    direction = _like(x, _fitting(v, x, "v", "x"))
    return vjp(_gradient_of(function, 0), x)[1](direction)[0]


class _Call:
    """A recorded call of a function to differentiate.

    argnums: the arguments to differentiate with respect to; None for all
    primals: the one that an int names, or a tuple of several
    """

    def __init__(
        self, function: Function, arguments: tuple[Any, ...], settings: dict[str, Any] | None = None,
        argnums: int | tuple[int, ...] | None = None,
    ):  # fmt: skip
        """Raises: TypeError for a primal that is not of floating point, or an output that is no Tensor"""
        argnums = tuple(range(len(arguments))) if argnums is None else argnums
        chosen = argnums if isinstance(argnums, tuple) else (argnums,)
        for n in chosen:
            if not -len(arguments) <= n < len(arguments):
                raise ValueError(
                    f"argnums has {n}, but the function was called with {len(arguments)} arguments, from 0 on"
                )
        primals = tuple([arguments[n] for n in chosen])
        self.primals = primals if isinstance(argnums, tuple) else primals[0]
        whole, is_recording = list(arguments), is_grad_enabled()
        with enable_grad():
            self.leaves = [_argument(x) for x in _leaves(self.primals)]
            for n, primal in zip(chosen, _like(primals, self.leaves), strict=True):
                whole[n] = primal
            output = function(*whole, **(settings or {}))
        self.outputs: list[Tensor] = _leaves(output)
        for y in self.outputs:
            if not isinstance(y, Tensor):
                raise TypeError(f"the function returned {type(y).__name__}; return Tensors, or a tuple or dict of them")
        known = {id(x) for x in self.leaves}
        found = ancestors([y for y in self.outputs if y.requires_grad]) if is_recording else ()
        self.is_recorded = any(isinstance(x, Tensor) and id(x) not in known for x in found)
        self.output = output if self.is_recorded else _like(output, [y.detach() for y in self.outputs])

    def shaped(self, leaves: Iterable[Any]) -> Any:
        """The structure of the primals with other leaves."""
        return _like(self.primals, leaves)

    def gradients(self, cotangents: list[Tensor]) -> list[Tensor]:
        """The gradients of all leaves, with a graph where it can lead to other Tensors."""
        recorded = self.is_recorded or (is_grad_enabled() and any(v.requires_grad for v in cotangents))
        return _gradients(self.outputs, self.leaves, cotangents, create_graph=recorded)


def ancestors(results: Sequence[Tensor]) -> list[Op | Tensor]:
    """All nodes and leaves that `results` depend on, inputs before the ops that use them."""
    nodes, _ = reachable([edge_of(x) for x in results])
    found: dict[int, Op | Tensor] = {id(x): x for x in results if x.op is None}
    for node in sorted(nodes, key=attrgetter("order")):
        found |= {id(edge[0]): edge[0] for edge in node.edges if edge is not None}
        found[id(node)] = node
    return list(found.values())


def _argument(x: Any) -> Tensor:
    """x as an argument to differentiate with respect to: other uses of the same Tensor count as constant."""
    if isinstance(x, Tensor) and x.requires_grad:
        return ops.reshape(x, x.shape)
    return Tensor(x.data if isinstance(x, Tensor) else as_array(x), requires_grad=True)


def _gradients(
    outputs: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor], *, create_graph: bool
) -> list[Tensor]:
    """`grad`, which may be called again, with zeros for inputs that the outputs do not depend on."""
    found = grad(outputs, inputs, cotangents, retain_graph=True, allow_unused=True, create_graph=create_graph)
    return [_full(x, 0) if g is None else g for g, x in zip(found, inputs, strict=True)]


def _full(x: Tensor, value: float) -> Tensor:
    return new_tensor(backend_of([x.data]).xp.full(x.shape, value, x.dtype))


# ---- Nested arguments and results ----


def _parts(nested: Any) -> list[Any] | None:
    """Return the items of a tuple, dict or list; None for anything else, also for a list of numbers, an array."""
    if isinstance(nested, dict):
        return list(nested.values())
    is_nested = isinstance(nested, list) and any(hasattr(x, "shape") or isinstance(x, (tuple, dict)) for x in nested)
    return list(nested) if isinstance(nested, tuple) or is_nested else None


def _leaves(nested: Any) -> list[Any]:
    """The Tensors and arrays in nested tuples, lists and dicts, in their order."""
    parts = _parts(nested)
    return [nested] if parts is None else [leaf for part in parts for leaf in _leaves(part)]


def _like(nested: Any, leaves: Iterable[Any]) -> Any:
    """The structure of `nested` with other leaves."""
    parts, leaves = _parts(nested), iter(leaves)
    if parts is None:
        return next(leaves)
    rebuilt = [_like(part, leaves) for part in parts]
    if isinstance(nested, dict):
        return dict(zip(nested, rebuilt, strict=True))
    if hasattr(nested, "_fields"):
        return type(nested)(*rebuilt)
    return rebuilt if isinstance(nested, list) else tuple(rebuilt)


def _fitting(given: Any, like: Any, name: str, other: str) -> list[Tensor]:
    """The leaves of `given` as Tensors of the shapes and dtypes of those of `like`.  Raises: ValueError otherwise"""
    leaves, wanted = _leaves(given), _leaves(like)
    if len(leaves) != len(wanted):
        raise ValueError(f"the {name} has {len(leaves)} arrays, the {other} {len(wanted)}; give one each")
    fitting = []
    for leaf, x in zip(leaves, wanted, strict=True):
        tensor = leaf if isinstance(leaf, Tensor) else Tensor(as_array(leaf))
        x = x if hasattr(x, "dtype") else as_array(x)
        if tensor.shape != x.shape:
            raise ValueError(f"a {name} has shape {tensor.shape}, its {other} has shape {x.shape}; they must be equal")
        fitting.append(tensor.astype(x.dtype))
    return fitting


# ---- Custom gradients ----


class CustomGradient(Op):
    """y = what a function returned, together with the function that computes its gradient"""

    def forward(self, *inputs, made, gradient):
        self.gradient = gradient
        return made.pop()

    def backward(self, *g_outputs):
        with no_grad():
            return _arrays_of(self.gradient(*[new_tensor(g) for g in g_outputs]))

    def as_plain(self) -> Any:
        """Return the gradient's function in the place of a plain op, whose backward pass reads nothing."""

        def backward(xp: Any, g: Any, y: Any, *inputs: Any) -> Any:
            return self.gradient(*(g if isinstance(g, tuple) else (g,)))

        return SimpleNamespace(backward=backward), (None,) * (1 + len(self.needs_gradient)), {}


def _arrays_of(results: Any) -> Any:
    if isinstance(results, tuple):
        return tuple([_arrays_of(each) for each in results])
    return results.data if isinstance(results, Tensor) else results


def custom_gradient(function: Function) -> Function:
    """Decorator: `function` returns its output, and a function from the output's gradient to those of its arguments.

        @autograd.custom_gradient
        def log1pexp(x):
            e = autograd.exp(x)
            return autograd.log(1 + e), lambda g: g * (1 - 1 / (1 + e))

    Both are called with Tensors.  A gradient that is computed by ops can be differentiated again; a gradient of None
    is 0.  Of several outputs, a tuple, the second function gets a gradient each.
    """

    @wraps(function)
    def with_gradient(*arguments: Any) -> Any:
        inputs = [x if isinstance(x, Tensor) else Tensor(x) for x in arguments]
        output, gradient = function(*inputs)
        return apply(CustomGradient, *inputs, made=[_arrays_of(output)], gradient=gradient)

    return with_gradient
