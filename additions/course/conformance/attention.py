"""Properties of an attention function (section 3.2.1)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, cast

import numpy as np

from additions.course.conformance.adapters import attention_function
from additions.course.conformance.calling import (
    Array,
    Library,
    called,
    check_gradients,
    difference,
    library_for,
    library_of,
    repeatable,
    rounding,
)
from additions.course.conformance.table import NotGiven, Table, Wrong

Meaning = Literal["allowed", "forbidden", "additive", "none"]
B, H, T, S, K, M = 2, 3, 4, 5, 8, 6


def check_attention(
    attention: Callable[..., Any], *, mask: Meaning | None = None, library: Library | None = None,
    vjp: Callable[..., Any] | None = None, dtype: Any = np.float64, scale: float | None = None,
) -> Table:  # fmt: skip
    """Check attention(q, k, v, mask).

    Shapes: q [B, H, T, K], k [B, H, S, K], v [B, H, S, M], mask [B, 1, T, S] -> [B, H, T, M]

    mask: what the mask means to it: "allowed", True may be attended to; "forbidden", True may not; "additive", 0 or
        minus infinity, added to the scores; "none": it is called as attention(q, k, v).  Default: "allowed", and for
        torch.nn.MultiheadAttention, which is looked at with all projections the identity, "forbidden"
    library: of the arrays: "numpy", "torch" or "autograd"; default: PyTorch's for its modules and functions, "autograd"
        for those of this project, "numpy" for others
    vjp: vjp(g, q, k, v, mask) -> (g_q, g_k, g_v), for a function of NumPy arrays
    scale: the factor on dot products, if it is not to be 1/√K
    """
    known_library = library_of(attention)
    attention, known = attention_function(attention)
    mask = mask or cast(Meaning, known) or "allowed"
    if mask not in ("allowed", "forbidden", "additive", "none"):
        raise ValueError(f"mask={mask!r} is not one of 'allowed', 'forbidden', 'additive', 'none'")
    checks = _Checks(attention, mask, library or known_library, vjp, dtype, scale)
    if library is None and known_library == "numpy":
        checks.library = library_for(attention, *checks.inputs())
    return Table.of(
        {
            "repeatable": lambda: repeatable(lambda: called(checks.attention, checks.library)(*checks.inputs())),
            "scale 1/√d_k": checks.scale,
            "future": checks.future,
            "padding": checks.padding,
            "weights add up to 1": checks.weights,
            "gradients": checks.gradients,
        }
    )


class _Checks:
    """The properties of one attention function, each a method that returns what it found (section 3.2.1)."""

    def __init__(
        self, attention: Any, mask: Meaning, library: Library, vjp: Any, dtype: Any, scale: float | None
    ):  # fmt: skip
        self.attention, self.mask, self.library, self.vjp = attention, mask, library, vjp
        self.factor = 1 / math.sqrt(K) if scale is None else scale
        rng = np.random.default_rng(0)
        self.q, self.k, self.v = (
            rng.standard_normal(shape).astype(dtype) for shape in ((B, H, T, K), (B, H, S, K), (B, H, S, M))
        )

    def inputs(self) -> tuple[Array, ...]:
        """Inputs that an attention function takes."""
        mask = () if self.mask == "none" else (_as(self.mask, np.ones((B, 1, T, S), bool), self.q.dtype),)
        return (self.q, self.k, self.v, *mask)

    def call(self, q: Array, k: Array, v: Array, allowed: Array, mask: Meaning | None = None) -> Array:
        mask = mask or self.mask
        function = called(self.attention, self.library)
        return function(q, k, v) if mask == "none" else function(q, k, v, _as(mask, allowed, q.dtype))

    def scale(self) -> str:
        allowed = np.ones((B, 1, T, S), bool)
        y = self.call(self.q, self.k, self.v, allowed)
        if difference(y, self.expected(self.factor)) <= rounding(y, self.q):
            return f"the weights are softmax(q kᵀ · {self.factor:.4g})"
        others = {"1 (is the division by √d_k missing?)": 1.0, "1/d_k": 1 / K, "√d_k": math.sqrt(K),
                  "1/√d_k": 1 / math.sqrt(K), "1/√d_v": 1 / math.sqrt(M), "1/√(H · d_k), the whole width":
                  1 / math.sqrt(H * K), "1/√T": 1 / math.sqrt(T), "1/√S": 1 / math.sqrt(S)}  # fmt: skip
        for name, factor in others.items():
            if difference(y, self.expected(factor)) <= rounding(y, self.q):
                raise Wrong(f"the factor on the dot products is {name}, expected {self.factor:.4g}")
        if difference(y, self.expected(self.factor, axis=-2)) <= rounding(y, self.q):
            raise Wrong("the softmax is along the queries; it must be along the keys")
        raise Wrong("the values are not those of softmax(scale · q kᵀ) v, for any usual scale")

    def expected(self, factor: float, axis: int = -1) -> Array:
        scores = self.q @ self.k.swapaxes(-1, -2) * factor
        e = np.exp(scores - scores.max(axis=axis, keepdims=True))
        return e / e.sum(axis=axis, keepdims=True) @ self.v

    def future(self) -> str:
        """Exactly unchanged when later keys and values change, to numbers that would show through a weak mask."""
        if self.mask == "none":
            raise NotGiven("it takes no mask")
        causal = np.broadcast_to(np.tri(T, dtype=bool), (B, 1, T, T))
        k, v = self.k[:, :, :T], self.v[:, :, :T]
        for mask in (self.mask, *_others(self.mask)):
            leak, own = self._leaks(k, v, causal, mask)
            if not leak and own:
                break
        else:
            mask = self.mask
        leak, own = self._leaks(k, v, causal, self.mask)
        if (leak or not own) and mask != self.mask:
            raise Wrong(f"its mask seems to mean {mask!r}, not {self.mask!r}: give mask={mask!r}")
        if leak:
            raise Wrong(f"{leak}: is the mask not used, applied after the softmax, or too small a number?")
        if not own:
            raise Wrong("a position does not see itself under a causal mask")
        return "exactly independent of later positions"

    def _leaks(self, k: Array, v: Array, causal: Array, mask: Meaning) -> tuple[str, bool]:
        """Describe the leak, "" if there is none; also return whether each position sees itself."""
        y, own = self.call(self.q, k, v, causal, mask), True
        for t in range(1, T):
            k2, v2 = k.copy(), v.copy()
            k2[:, :, t:], v2[:, :, t:] = 30 * k2[:, :, t:] + 9, -50 * v2[:, :, t:]
            y2 = self.call(self.q, k2, v2, causal, mask)
            off = difference(y[:, :, :t], y2[:, :, :t])
            if off:
                return f"position {t - 1} changes by {off:.1e} when keys and values from {t} on change", own
            own = own and difference(y[:, :, t:], y2[:, :, t:]) > 0
        return "", own

    def padding(self) -> str:
        if self.mask == "none":
            raise NotGiven("it takes no mask")
        real = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], bool)
        allowed = np.broadcast_to(real[:, None, None], (B, 1, T, S))
        k, v = self.k.copy(), self.v.copy()
        y = self.call(self.q, k, v, allowed)
        k[0, :, 3:], v[0, :, 3:] = 40 * k[0, :, 3:] + 7, 1e6
        off = difference(y, self.call(self.q, k, v, allowed))
        if off:
            raise Wrong(f"the output changes by {off:.1e} when keys and values of padding change")
        alone = self.call(self.q[:1], self.k[:1, :, :3], self.v[:1, :, :3], np.ones((1, 1, T, 3), bool))
        if difference(y[:1], alone) > rounding(y, self.q):
            raise Wrong("a sentence alone gives other values than in a batch with padding; are weights of padding "
                        "dropped after the softmax, so that they do not add up to 1?")  # fmt: skip
        return "exactly independent of padding"

    def weights(self) -> str:
        y = self.call(self.q, self.k, np.ones_like(self.v), np.ones((B, 1, T, S), bool))
        off = difference(y, np.ones_like(y))
        if off > rounding(y, self.q):
            raise Wrong(
                f"values of 1 give an output of {y.flat[int(abs(y - 1).argmax())]:.4g}: the weights add up to that"
            )
        return "values of 1 give an output of 1"

    def gradients(self) -> str:
        causal = np.broadcast_to(np.tri(T, dtype=bool), (B, 1, T, T))
        masks = () if self.mask == "none" else (_as(self.mask, causal, np.float64),)
        if self.library == "torch":
            import torch

            masks = tuple([torch.from_numpy(m) for m in masks])
        vjp = None if self.vjp is None else lambda g, q, k, v: self.vjp(g, q, k, v, *masks)
        inputs = [a.astype(np.float64) for a in (self.q, self.k[:, :, :T], self.v[:, :, :T])]
        return check_gradients(lambda q, k, v: self.attention(q, k, v, *masks), self.library, inputs, vjp)


def _as(meaning: Meaning, allowed: Array, dtype: Any) -> Array:
    if meaning == "additive":
        return np.where(allowed, 0, -np.inf).astype(dtype)
    return (allowed if meaning == "allowed" else ~allowed).copy()


def _others(meaning: Meaning) -> tuple[Meaning, ...]:
    return ("forbidden",) if meaning == "allowed" else ("allowed",) if meaning == "forbidden" else ()
