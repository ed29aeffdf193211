"""Anomaly detection: raise an error at the op that produces the first NaN or infinity."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from autograd.backend import backend_of, is_floating
from autograd.engine import Op
from autograd.modes import Observer, observe
from autograd.safety import CallSites, owner_of
from autograd.tensor import Tensor

FINITE, INFINITE, NAN = 0, 1, 2  # the kind of an array is that of its worst element
KINDS = ("finite", "infinite", "NaN")


class AnomalyError(ArithmeticError):
    """An op produced a NaN or an infinity.

    `op` is the name of the op, `where` the file and line that made it, `phase` "forward" or "backward"; `shape`,
    `dtype` and `index` are those of the array and its first bad element, `value` is that element; `inputs_finite` has
    a flag for each input.
    """

    def __init__(
        self, message: str, *, op: Op | None, phase: str, array: Any, index: tuple[int, ...], inputs: list[int]
    ):
        super().__init__(message)
        self.op = None if op is None else type(op).__name__
        self.where = None if op is None else op.where
        self.phase = phase
        self.shape, self.dtype = array.shape, array.dtype
        self.index = index
        self.value = float(array[index])
        self.inputs_finite = tuple([kind == FINITE for kind in inputs])


@contextmanager
def anomaly_mode() -> Iterator[None]:
    """Context manager: raise an error at the op that produces the first NaN or infinity, with the line that made it.

    This is the op whose result is worse than all its inputs: infinite from finite inputs, or NaN from inputs without
    NaN, in the forward or the backward pass.  So -inf in a mask, or as the value of `masked_fill`, is fine, but not a
    later NaN from it, such as -inf + inf.  A NaN in the data is reported at the first op that passes it on.  Sums of
    several gradients, the starting gradient and results of hooks are checked, too.  An infinite parameter, such as in
    `pad(…, constant_values=-inf)`, counts as produced by the op.

    Every array is read once more: a step takes about 1.5 times as long.

    Raises: AnomalyError
    """
    with observe(CallSites()), observe(_Inspector()):
        yield


class _Inspector(Observer):
    """Notes in each op that runs the kinds of its inputs, and compares with them those of its results."""

    def before_forward(self, op: Any, arrays: Sequence[Any]) -> None:
        op._input_kinds = [_kind(a) for a in arrays]

    def after_forward(self, op: Any, outputs: Sequence[Any]) -> None:
        inputs = op._input_kinds
        for i, y in enumerate(outputs):
            kind = _kind(y)
            which = f" {i}" if len(outputs) > 1 else ""
            if kind > max(inputs, default=FINITE):
                _raise(op, "forward", f"returned {KINDS[kind]} values in its output{which}", y, inputs)
            if kind == NAN:  # no op produced it, or there would have been an error before
                _raise(op, "forward", f"got NaN values as its input {inputs.index(NAN)} and passed them on", y, inputs)

    def before_backward(self, op: Any, g_outputs: Sequence[Any]) -> None:
        kinds = [_kind(g) for g in g_outputs]
        for g, kind in zip(g_outputs, kinds, strict=True):
            if kind != FINITE:
                what = (
                    f"got {KINDS[kind]} values in the gradient of its output: the sum of the gradients of all uses "
                    "overflowed, or a hook or the argument of backward() has them,"
                )
                _raise(op, "backward", what, g, [])
        op._input_kinds = kinds

    def after_backward(self, op: Any, g_inputs: Sequence[Any]) -> None:
        for i, g in enumerate(g_inputs):
            kind = FINITE if g is None else _kind(g)
            if kind != FINITE:
                # saved arrays are inputs, too, unless the backward pass has written its result into them
                saved = [a for a in op.saved_arrays if hasattr(a, "dtype") and owner_of(a) is not owner_of(g)]
                into = [*op._input_kinds, *[_kind(a) for a in saved]]
                _raise(op, "backward", f"returned {KINDS[kind]} values in the gradient of its input {i}", g, into)

    def after_leaf(self, leaf: Tensor, gradient: Any) -> None:
        kind = _kind(gradient)
        if kind != FINITE:
            shape = list(leaf.shape)
            what = f"the gradients of a leaf of shape {shape} are finite, but their sum or a hook's result has"
            _raise(None, "backward", f"{what} {KINDS[kind]} values", gradient, [])


def _kind(x: Any) -> int:
    """The worst element of an array or Python scalar: FINITE, INFINITE or NAN; integers and other types are finite."""
    if isinstance(x, float):
        return FINITE if x - x == 0 else NAN if x != x else INFINITE
    if not hasattr(x, "dtype") or not is_floating(x.dtype):
        return FINITE
    x, xp = _in_numpys_dtype(x), backend_of([x]).xp
    if bool(xp.isfinite(x).all()):
        return FINITE
    return NAN if bool(xp.isnan(x).any()) else INFINITE


def _in_numpys_dtype(x: Any) -> Any:
    """x, or its values in float32 if it is bfloat16."""
    return x if x.dtype.kind == "f" else x.astype("float32")


def _raise(op: Op | None, phase: str, what: str, array: Any, inputs: list[int]) -> None:
    """Raises: AnomalyError that describes the first of the worst elements."""
    xp, numbers = backend_of([array]).xp, _in_numpys_dtype(array)
    bad = xp.isnan(numbers) if _kind(array) == NAN else xp.isinf(numbers)
    index = tuple([int(i) for i in np.unravel_index(int(bad.argmax()), bad.shape)])
    subject = "" if op is None else f"the {phase} pass of {op} "
    kinds = [KINDS[kind] for kind in inputs] if any(inputs) else ["finite"]
    given = f"; its inputs were {', '.join(kinds)}" if inputs else ""
    message = (
        f"{subject}{what}: the first at {list(index)} of {list(array.shape)} {array.dtype}, "
        f"{int(bad.sum()):,} of {array.size:,} elements{given}"
    )
    raise AnomalyError(message, op=op, phase=phase, array=array, index=index, inputs=inputs)
