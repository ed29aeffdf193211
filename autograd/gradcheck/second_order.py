"""The check of second derivatives: of the backward pass as a function of the inputs and of the incoming gradients.

`grad(..., create_graph=True)` computes this function, and `gradcheck` checks its backward pass as that of any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from autograd import functional
from autograd.gradcheck.compare import Options, gradient_error
from autograd.gradcheck.function import CheckedFunction, GradcheckError
from autograd.modes import enable_grad
from autograd.tensor import Tensor


def second_order_error(func: Callable[..., Any], inputs: Any, options: Options | None = None, **how: Any) -> float:
    """Return the largest error of the second derivatives, relative as that of `gradient_error`.

    how: atol, rtol, fast and precision, as in `gradient_error`

    Raises: GradcheckError for a wrong second derivative; NotImplementedError for an op whose backward pass cannot be
    recorded
    """
    options = dataclasses.replace(options or Options(), float32=False)
    with CheckedFunction(func, inputs, precision=how["precision"]) as function:
        function.select_outputs(function.call())
        rng = np.random.default_rng(options.seed)
        cotangents = [rng.standard_normal(shape) for shape in function.output_shapes]
    count = len(function.arguments)

    def backward_pass(*values: Any) -> tuple[Tensor, ...]:
        """Return the gradients, as a function of all arguments and of the incoming gradients; under no_grad(), too."""
        inputs = [values[i] for i in function.positions]
        frozen = [x for x in inputs if not x.requires_grad]  # by the check; there is a gradient to differentiate anyhow
        for x in frozen:
            x.requires_grad = True
        try:
            with enable_grad():
                outputs = function.func(*values[:count])
                outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
                chosen = [outputs[j] for j in function.outputs]
                found = functional.grad(chosen, inputs, values[count:], create_graph=True, allow_unused=True)
        finally:
            for x in frozen:
                x.requires_grad = False
        return tuple([Tensor(np.zeros(x.shape)) if g is None else g for g, x in zip(found, inputs, strict=True)])

    gradients = backward_pass(*function.arguments, *[Tensor(c, requires_grad=True) for c in cotangents])
    for i, g in zip(function.positions, gradients, strict=True):
        if not g.requires_grad and g.numpy().any():  # a gradient is linear in what arrives: it depends on that at least
            raise GradcheckError(
                f"the gradient of input {i} has no graph, so that its derivatives are lost: backward leaves the graph "
                "(through .data, .numpy() or detach())"
            )
    if not any(g.requires_grad for g in gradients):
        return 0.0  # it is 0 everywhere
    try:
        return gradient_error(backward_pass, [*function.arguments, *cotangents], options=options, **how)
    except GradcheckError as error:
        raise type(error)(
            f"second derivatives (inputs from {count} on are the incoming gradients, outputs are the gradients of "
            f"the inputs): {error}"
        ) from error
