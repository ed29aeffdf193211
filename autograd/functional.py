"""Gradients as users ask for them: `grad`, and `Tensor.backward`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from autograd.backend import as_array, backend_of
from autograd.engine import run_backward
from autograd.tensor import Tensor, TensorLike, new_tensor

Array = Any  # numpy.ndarray or cupy.ndarray


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: TensorLike | Sequence[TensorLike | None] | None = None,
    *,
    retain_graph: bool = False,
    allow_unused: bool = False,
    create_graph: bool = False,
) -> tuple[Tensor | None, ...]:
    """Gradients of `outputs` with respect to `inputs`, returned instead of accumulated.

    `inputs` may be leaves or intermediate Tensors.  `grad_outputs` has one array per output (default: 1 for an output
    of one element).  The gradients have no graph: there are no second derivatives.

    Raises: RuntimeError if `outputs` do not depend on an input, unless `allow_unused`: its gradient is then None;
    NotImplementedError for create_graph=True.
    """
    refuse_create_graph(create_graph)
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
    starts = [starting_gradient(y, g) for y, g in zip(outputs, given, strict=True)]
    results = run_backward(outputs, starts, retain_graph=retain_graph, wanted=inputs)
    if not allow_unused and any(g is None for g in results):
        unused = [i for i, g in enumerate(results) if g is None]
        raise RuntimeError(f"the outputs of grad() do not depend on input(s) {unused}; pass allow_unused=True")
    return tuple([None if g is None else new_tensor(g) for g in results])


def refuse_create_graph(create_graph: bool) -> None:
    """Raises: NotImplementedError for True"""
    if create_graph:
        raise NotImplementedError(
            "create_graph=True: second derivatives are not available, a gradient has no graph; "
            "take differences of gradients, or write the first derivative with autograd's functions"
        )


def starting_gradient(output: Tensor, gradient: Any) -> Array:
    """The gradient of `output` that a backward pass starts from: `gradient`, or 1 for a single element.

    Raises: RuntimeError if `output` has no graph, or several elements and no `gradient`; ValueError on a wrong shape.
    """
    if not output.requires_grad:
        raise RuntimeError(
            "backward() of a Tensor that does not depend on any Tensor with requires_grad=True: set it on the inputs; "
            "if this Tensor is a gradient, it has no graph, and second derivatives are not available: take differences "
            "of gradients"
        )
    xp = backend_of([output.data]).xp
    if gradient is None:
        if output.size != 1:
            raise RuntimeError(
                f"backward() without a gradient needs a single element, this Tensor has shape {output.shape}; "
                "reduce it (for example .sum()) or pass gradient="
            )
        return xp.ones(output.shape, output.dtype)
    g = xp.asarray(gradient.data if isinstance(gradient, Tensor) else as_array(gradient), dtype=output.dtype)
    if g.shape != output.shape:
        raise ValueError(f"gradient has shape {g.shape}, the Tensor has shape {output.shape}; they must be equal")
    return g


def backward(
    self: Tensor, gradient: TensorLike | None = None, *, retain_graph: bool = False, create_graph: bool = False
) -> None:
    """Add d(self)/d(leaf), weighted by `gradient`, to the `grad` of every leaf that this Tensor depends on.

    `gradient` has this Tensor's shape and may be omitted for a single element.  The graph is freed unless
    `retain_graph`.

    Raises: RuntimeError if the graph was freed, `gradient` is missing or a saved array was changed in place;
    ValueError if `gradient` has the wrong shape; NotImplementedError for create_graph=True.
    """
    refuse_create_graph(create_graph)
    run_backward([self], [starting_gradient(self, gradient)], retain_graph=retain_graph)


Tensor.backward = backward  # type: ignore[method-assign]
