"""A tiny reverse-mode automatic differentiation engine over NumPy and CuPy arrays."""

import os
from importlib import import_module
from typing import TYPE_CHECKING

if os.path.exists(os.path.join(os.path.dirname(__file__), "tracer.py")):  # a file of HIPS autograd
    raise ImportError(
        f"the files in {os.path.dirname(__file__)} are mixed with those of HIPS autograd, a package of the same name: "
        "use a virtual environment without it, or run `pip uninstall autograd` and install this project again with "
        "`pip install --force-reinstall --no-deps`"
    )

from autograd import check_install as check_install  # before the first import of NumPy
from autograd import higher_order as higher_order
from autograd import unrecorded as unrecorded
from autograd.creation import from_dlpack, ones, randn, zeros
from autograd.engine import Op, apply
from autograd.functional import (
    custom_gradient,
    elementwise_grad,
    grad,
    hessian,
    hvp,
    jacobian,
    jvp,
    value_and_grad,
    vjp,
)
from autograd.modes import enable_grad, is_grad_enabled, no_grad
from autograd.ops import *  # noqa: F403
from autograd.ops import __all__ as _ops
from autograd.recompute import checkpoint
from autograd.tensor import Tensor

if os.environ.get("AUTOGRAD_PLAIN", "0") in ("", "0"):  # otherwise the core is all there is
    from autograd import fast, numpy_calls, safety

    fast.install()  # faster implementations of the ops
    safety.install()  # call sites in messages; changes in place are noticed
    numpy_calls.install()  # NumPy's functions, called with Tensors, say what to write instead
from autograd.gradcheck import gradcheck  # isort: skip  (last: it is made of the others, and hides its own module)

__version__ = "0.2.0"

__all__ = [
    "Op", "Tensor", "apply", "check_derivatives", "check_elementwise", "check_jvp", "checkpoint", "custom_gradient",
    "elementwise_grad", "enable_grad", "from_dlpack", "grad", "gradcheck", "hessian", "hvp", "is_grad_enabled",
    "jacobian", "jvp", "no_grad", "ones", "randn", "value_and_grad", "vjp", "zeros", *_ops,
]  # fmt: skip


if TYPE_CHECKING:  # to a type checker, a __getattr__ would make every misspelt name right
    from autograd.gradcheck import check_derivatives, check_elementwise, check_jvp
else:

    def __getattr__(name):  # only who uses them pays for the import
        if name in ("check_derivatives", "check_elementwise", "check_jvp"):
            return getattr(import_module("autograd.gradcheck.compare"), name)
        raise AttributeError(f"module 'autograd' has no attribute {name!r}")
