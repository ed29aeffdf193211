"""Tools for testing gradients of your own: cases, checks, random inputs, functions that are not ops.

    from autograd.testing import Example, cases_for, check_case, draw, register

    @register("Cube", "any shape")
    def _(rng):
        return Example(cube, [draw.uniform(rng, draw.shape(rng))], plain=lambda x: x * x * x)

    for case in cases_for("Cube"):
        check_case(case, np.random.default_rng(0))

`from_vjp` makes a function of NumPy arrays and its hand-written gradient one that `autograd.gradcheck` can check,
`from_torch` a function of PyTorch tensors, `from_pair` a layer that returns its output and its backprop.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from autograd.gradcheck.adapters import from_pair, from_torch, from_vjp
from autograd.gradcheck.cases import (
    Case,
    Errors,
    Example,
    all_cases,
    cases_for,
    check_case,
    check_example,
    register,
)

if TYPE_CHECKING:
    from autograd.gradcheck import draw as draw
else:

    def __getattr__(name):
        if name == "draw":
            return import_module("autograd.gradcheck.draw")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Case",
    "Errors",
    "Example",
    "all_cases",
    "cases_for",
    "check_case",
    "check_example",
    "from_pair",
    "from_torch",
    "from_vjp",
    "register",
]
