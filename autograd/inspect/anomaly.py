"""The op and the line where the first NaN or infinity came up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from autograd.backend import backend_of
from autograd.engine import Op
from autograd.inspect.text import readable_array
from autograd.modes import Watcher, watch
from autograd.tensor import Tensor
from autograd.versions import owner_of

FINITE, INFINITE, NAN = 0, 1, 2  # how bad an array is: the worst of its elements
KINDS = ("finite", "infinite", "NaN")


class AnomalyError(ArithmeticError):
    """A NaN or an infinity came up.

    `op` is the name of the op, `where` the file and line that made it, `phase` "forward" or "backward"; `shape`,
    `dtype` and `index` are those of the array and its first bad element, `value` is that element; `inputs_finite` has
    a flag for each array that went in.
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
    """Context manager: raise at the op, and name the line, where the first NaN or infinity comes up.

    To blame is the op whose result is worse than all that went in: infinite from finite inputs, or NaN from inputs
    without NaN; forward and backward alike.  So -inf in a mask, or as what `masked_fill` fills with, is fine, and what
    it may turn into later, such as the NaN of -inf + inf, is not.  A NaN that came in from outside is reported where it
    first spreads, and the sum of several gradients, the starting gradient and what hooks return are looked at, too.
    An infinity given to an op as an option, such as `pad(…, constant_values=-inf)`, counts as coming up there.

    Every array is read once more: expect a step to take about half as long again.

    Raises: AnomalyError
    """
    with watch(_Inspector()):
        yield


class _Inspector(Watcher):
    def __init__(self) -> None:
        # kinds of what went into the ops that run at present; several, as checkpoint() runs ops inside a backward
        self.running: list[tuple[Op, list[int]]] = []

    # ---- Forward ----

    def before_forward(self, op: Op, arrays: Sequence[Any]) -> None:
        self.running.append((op, [_kind(a) for a in arrays]))

    def after_forward(self, op: Op, outputs: Sequence[Any]) -> None:
        inputs = self._kinds_into(op)
        for i, y in enumerate(outputs):
            kind = _kind(y)
            which = f" {i}" if len(outputs) > 1 else ""
            if kind > max(inputs, default=FINITE):
                _raise(op, "forward", f"gave {KINDS[kind]} in its output{which}", y, inputs)
            if kind == NAN:  # an op that made it would have been stopped: it is from outside
                which_input = inputs.index(NAN)
                _raise(op, "forward", f"got NaN from outside, in input {which_input}, and passed it on", y, inputs)

    # ---- Backward ----

    def before_backward(self, op: Op, g_outputs: Sequence[Any]) -> None:
        kinds = [_kind(g) for g in g_outputs]
        for g, kind in zip(g_outputs, kinds, strict=True):
            if kind != FINITE:
                what = (
                    f"got {KINDS[kind]} in the gradient of its output: the sum of the gradients of all its uses "
                    "overflowed, a hook returned it, or backward() was given it,"
                )
                _raise(op, "backward", what, g, [])
        self.running.append((op, kinds))

    def after_backward(self, op: Op, g_inputs: Sequence[Any]) -> None:
        into = self._kinds_into(op)
        for i, g in enumerate(g_inputs):
            kind = FINITE if g is None else _kind(g)
            if kind != FINITE:
                # what was saved went in, too; but some backward passes write their result over it
                saved = [a for a in op.saved_arrays if hasattr(a, "dtype") and owner_of(a) is not owner_of(g)]
                into += [_kind(a) for a in saved]
                _raise(op, "backward", f"gave {KINDS[kind]} in the gradient of its input {i}", g, into)

    def after_leaf(self, leaf: Tensor, gradient: Any) -> None:
        kind = _kind(gradient)
        if kind != FINITE:
            what = f"the gradients of a leaf of shape {list(leaf.shape)} were finite, their sum, or what a hook made of"
            _raise(None, "backward", f"{what} it, is {KINDS[kind]}", gradient, [])

    def _kinds_into(self, op: Op) -> list[int]:
        """What was found before `op` ran; forgets ops in between that ended in an error."""
        while self.running:
            running, kinds = self.running.pop()
            if running is op:
                return kinds
        return []


def _kind(x: Any) -> int:
    """The worst element of an array or Python scalar: finite, infinite or NaN; what is no number is finite."""
    if isinstance(x, float):
        return FINITE if x - x == 0 else NAN if x != x else INFINITE
    if getattr(getattr(x, "dtype", None), "kind", "") != "f":
        return FINITE
    xp = backend_of([x]).xp
    if bool(xp.isfinite(x).all()):
        return FINITE
    return NAN if bool(xp.isnan(x).any()) else INFINITE


def _raise(op: Op | None, phase: str, what: str, array: Any, inputs: list[int]) -> None:
    """Say all about the first of the worst elements.  Raises: AnomalyError"""
    xp = backend_of([array]).xp
    bad = xp.isnan(array) if _kind(array) == NAN else xp.isinf(array)
    index = tuple([int(i) for i in xp.unravel_index(int(bad.argmax()), bad.shape)])
    subject = "" if op is None else f"the {phase} pass of {op} "
    given = f"; what went in was {_all_in_words(inputs)}" if inputs else ""
    count = int(bad.sum())
    message = (
        f"{subject}{what}: the first at {list(index)} of {readable_array(array.shape, array.dtype)}, "
        f"{count:,} of {array.size:,} elements{given}"
    )
    raise AnomalyError(message, op=op, phase=phase, array=array, index=index, inputs=inputs)


def _all_in_words(kinds: list[int]) -> str:
    if all(kind == FINITE for kind in kinds):
        return "finite"
    return ", ".join(KINDS[kind] for kind in kinds)
