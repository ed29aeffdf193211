"""Properties of an encoder layer, or of any function of vectors at positions (section 3.1)."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from additions.course.conformance.adapters import layer_function, matrices_in
from additions.course.conformance.calling import (
    Array,
    Library,
    called,
    check_gradients,
    difference,
    in_float64,
    library_for,
    library_of,
    repeatable,
    rounding,
    shared_array,
)  # fmt: skip
from additions.course.conformance.table import NotGiven, Table, Wrong
from minitf.model.layers import Module

B, S = 2, 5


def check_layer(
    layer: Callable[..., Any], d_model: int, *, norm: Literal["post", "pre"] | None = None, causal: bool = False,
    mask: Literal["allowed", "forbidden", "none"] | None = None, library: Library | None = None,
    vjp: Callable[..., Any] | None = None, dtype: Any = np.float64,
) -> Table:  # fmt: skip
    """Check layer(x, mask), or layer(x).

    Shapes: x [B, S, d_model], mask bool [B, S], which positions are real -> [B, S, d_model]

    norm: where the normalisation is to be; default: either place will do
    causal: True if a position must not see later ones
    mask: "allowed", True at real tokens; "forbidden", True at padding; "none": it is called as layer(x).  Default:
        "none" for a callable of one argument, else "allowed"
    library: as in check_attention
    vjp: vjp(g, x, mask) or vjp(g, x) -> g_x, for a function of NumPy arrays
    dtype: of the arrays given; a module is copied, and its parameters made float64, first
    """
    known = layer_function(layer)[1]
    checks = _Checks(layer, d_model, norm, causal, mask or known or _takes(layer), library, vjp, dtype)
    return Table.of(
        {
            "repeatable": lambda: repeatable(lambda: checks.call(checks.x)),
            "future": checks.future,
            "padding": checks.padding,
            "batch": checks.batch,
            "norm order": checks.norm_order,
            "residual": checks.residual,
            "gradients": checks.gradients,
        }
    )


def _takes(layer: Any) -> Literal["allowed", "none"]:
    try:
        parameters = inspect.signature(layer).parameters.values()
    except (TypeError, ValueError):
        return "allowed"
    needed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return "none" if len(needed) == 1 else "allowed"


class _Checks:
    """The properties of one layer, each a method that returns what it found (sections 3.1 and 5.4)."""

    def __init__(
        self, layer: Any, d_model: int, norm: str | None, causal: bool, mask: str, library: Any, vjp: Any, dtype: Any
    ):
        self.module = in_float64(layer)
        self.layer, _ = layer_function(self.module)
        self.norm, self.causal, self.mask, self.vjp = norm, causal, mask, vjp
        self.x = np.random.default_rng(0).standard_normal((B, S, d_model)).astype(dtype)
        own: Library = library_of(layer)
        if own == "numpy":
            own = library_for(self.layer, self.x, *self.arguments(None, self.x.shape))
        self.library: Library = library or own

    def arguments(self, real: Array | None, shape: tuple[int, ...]) -> tuple[Array, ...]:
        if self.mask == "none":
            return ()
        real = np.ones(shape[:2], bool) if real is None else real
        return (real,) if self.mask == "allowed" else (~real,)

    def call(self, x: Array, real: Array | None = None) -> Array:
        y = called(self.layer, self.library)(x, *self.arguments(real, x.shape))
        if y.shape != x.shape:
            raise Wrong(f"the output has shape {y.shape}, expected that of x, {x.shape}")
        return y

    def future(self) -> str:
        if not self.causal:
            raise NotGiven("an encoder layer sees the whole sentence; causal=True for a decoder layer")
        y = self.call(self.x)
        for t in range(1, S):
            x = self.x.copy()
            x[:, t:] *= -7
            off = difference(y[:, :t], self.call(x)[:, :t])
            if off:
                raise Wrong(f"position {t - 1} changes by {off:.1e} when positions from {t} on change")
        return "exactly independent of later positions"

    def padding(self) -> str:
        if self.mask == "none":
            raise NotGiven("it takes no mask")
        real = np.ones((B, S), bool)
        real[0, 3:] = False
        y, x = self.call(self.x, real), self.x.copy()
        x[0, 3:] = 100 * x[0, 3:] + 3
        off = difference(y[real], self.call(x, real)[real])
        if off:
            text = f"real positions change by {off:.1e} when those of padding change"
            if not difference(self.call(self.x, ~real)[real], self.call(x, ~real)[real]):
                meant = {"allowed": "forbidden", "forbidden": "allowed"}[self.mask]
                text += f'; with the mask the other way round they do not: hand in mask="{meant}" if that is meant'
            raise Wrong(text)
        return "exactly independent of padding"

    def batch(self) -> str:
        y = self.call(self.x)
        off = difference(y[1:], self.call(self.x[1:]))
        if off > rounding(y, self.x):
            raise Wrong(f"a sentence changes by {off:.1e} with the others in its batch; are the axes exchanged?")
        return "sentences are independent of each other"

    def norm_order(self) -> str:
        found = self._norm()
        if found is None:
            raise Wrong("neither: the output is not normalised, and x + f(norm(x)) does not fit either")
        if found == "inside":
            raise Wrong(
                f"it is {FORMULAS[found]}: what the sub-layers give is normalised, neither their sum with x nor x"
            )
        if self.norm not in (None, found):
            raise Wrong(f"it is {found}-norm, expected {self.norm}-norm: {FORMULAS[found]}")
        return f"{found}-norm, {FORMULAS[found]}"

    def _norm(self) -> str | None:
        """Pre-norm: y - x is the same for all large multiples of x.  Post-norm: all outputs lie in a plane."""
        exact = self.x.dtype == np.float64
        x = self.x * (1e6 if exact else 1e3)  # so large that the first sub-layer's share does not count in the second
        one, two = self.call(x) - x, self.call(2 * x) - 2 * x
        is_pre = difference(one, two) <= (1e-4 if exact else 3e-2) * abs(one).max()
        rng = np.random.default_rng(1)
        many = rng.standard_normal((4 * x.shape[-1], S, x.shape[-1])).astype(x.dtype)
        y = self.call(many)
        if is_pre:  # so is x + norm(f(x)), whose second term lies in a plane
            return "inside" if _in_a_plane(y - many) else "pre"
        return "post" if _in_a_plane(y) else None

    def residual(self) -> str:
        """Check that x passes if all weights except those of normalisations are 0."""
        if self._norm() in ("pre", "inside"):
            return "x itself is added: y - x does not change when x is scaled"
        without = _without_weights(self.module)
        if without is None:
            y = self._with_matrices_of_0()
        else:
            function = called(layer_function(without)[0], self.library)
            y = function(self.x, *self.arguments(None, self.x.shape))
        if difference(y, np.broadcast_to(y[:1, :1], y.shape)) <= rounding(y, self.x):
            raise Wrong("with all weights 0 the output is constant: x is not added to what the sub-layers give")
        return "with all weights 0, x passes"

    def _with_matrices_of_0(self) -> Array:
        """Return what a function gives while the matrices that it can reach are 0."""
        matrices = [a for a in matrices_in(self.layer) if a.flags.writeable]
        before, y = [a.copy() for a in matrices], self.call(self.x)
        try:
            for a in matrices:
                a[...] = 0
            without = self.call(self.x)
        finally:
            for a, kept in zip(matrices, before, strict=True):
                a[...] = kept
        if not difference(without, y):
            raise NotGiven("its weights are not found, and cannot be set to 0: hand in an object that holds them")
        return without

    def gradients(self) -> str:
        if self.x.dtype != np.float64:
            raise NotGiven("differences of float32 numbers are too inexact: hand in a layer of float64")
        extra = self.arguments(None, self.x.shape)
        if self.library == "torch":
            import torch

            extra = tuple([torch.from_numpy(a) for a in extra])
        vjp = None if self.vjp is None else lambda g, x: self.vjp(g, x, *extra)
        function = lambda x: self.layer(x, *extra)  # noqa: E731
        return check_gradients(function, self.library, [self.x], vjp)


FORMULAS = {"post": "norm(x + f(x))", "pre": "x + f(norm(x))", "inside": "x + norm(f(x))"}


def _in_a_plane(y: Array) -> bool:
    """Return whether the vectors y of the last axis have one linear relation: w · x̂ + b has Σ (y - b) / w = 0."""
    rows = y.reshape(-1, y.shape[-1]).astype(np.float64)
    spread = np.linalg.svd(rows - rows.mean(axis=0), compute_uv=False)
    return bool(spread[-1] <= 1e-3 * spread[-2])


def _without_weights(layer: Any) -> Any:
    """Return a copy of a module whose parameters are 0, except those of normalisations; None if it is not a module."""
    if isinstance(layer, Module):
        without = copy.deepcopy(layer)
        _clear(without)
        return without
    if hasattr(layer, "modules") and hasattr(layer, "named_parameters"):  # PyTorch
        without = copy.deepcopy(layer)
        for module in without.modules():
            if "Norm" not in type(module).__name__:
                for parameter in module.parameters(recurse=False):
                    shared_array(parameter)[...] = 0
        return without
    return None


def _clear(module: Module) -> None:
    if "Norm" in type(module).__name__:
        return
    children = dict(module.children())
    for name, parameter in module.named_parameters().items():
        if not any(name.startswith(f"{child}.") for child in children):
            parameter.data[...] = 0
    for child in children.values():
        _clear(child)
