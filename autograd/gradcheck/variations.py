"""Checks of a backward pass beyond its values: side effects, incoming gradients, frozen inputs, layouts, float32.

`check_side_effects` comes first; the others compare with the gradients at the inputs, which are known to be right by
then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd import random
from autograd.gradcheck.function import CheckedFunction, GradcheckError, NondifferentiableError, arrange, joined
from autograd.gradcheck.numerical import size_of, worst_of
from autograd.tensor import Tensor

Array = np.ndarray
Arrays = list[Array]
Rng = np.random.Generator

NOISE = 1e-9  # gradients below this may be rounding errors of 0
SAME = 1e-7  # of the largest element, what another order of sums may change
IN_TURN = 16  # with more inputs, random halves are frozen


# ---- Side effects, determinism, precision ----


def check_side_effects(function: CheckedFunction, rng: Rng) -> tuple[Array, Arrays]:
    """Run func forward and backward; return random weights [M] of the outputs, and the gradients for them.

    Raises: GradcheckError for a rule that func or its backward pass breaks
    """
    before = _copies(function.arguments)
    first = function.call()
    _refuse_changes(function.arguments, before, "calling the function changes input {} in place; let it work on a copy")
    function.select_outputs(first)
    function.usual = float(abs(function.middle).sum(where=np.isfinite(function.middle)))
    state = random.get_state()
    outputs = function.call()
    if random.get_state() != state or not _same(function.vector(outputs), function.middle):
        raise GradcheckError(
            "the function is random: two calls with the same inputs differ; fix its random numbers inside it, for "
            "example by autograd.random.set_state((seed, 0, 0)) in its first line; for dropout in a PyTorch module, "
            "module.eval(), or torch.manual_seed(0) in the first line of a function that calls it"
        )
    if np.isnan(function.middle).any():
        raise NondifferentiableError("the function is NaN at this point; choose inputs inside its domain")
    if not np.allclose(function.evaluate(), function.middle, rtol=1e-10, atol=1e-10):
        raise GradcheckError("the function gives other values under no_grad() than while it records")

    outputs = function.call()
    values = _copies(outputs)
    weights = rng.standard_normal(function.middle.size)
    cotangents = function.split(weights)
    gradients = function.pull(outputs, cotangents, retain=True)
    _refuse_changes(function.arguments, before, "the backward pass changes input {} in place; let it work on a copy")
    if not _same(joined(cotangents), weights):
        raise GradcheckError(
            "the backward pass changes in place the incoming gradient, which other ops may use too; let it work on a "
            "copy"
        )
    _refuse_changes(outputs, values, "the backward pass changes in place output {}; let it work on a copy")
    try:
        again = function.pull(outputs, cotangents)
    except GradcheckError:
        return weights, gradients  # an op may overwrite its saved arrays if a second pass then raises an error
    for i, (g, other) in enumerate(zip(gradients, again, strict=True)):
        if np.allclose(g, other, rtol=1e-9, atol=1e-9 * size_of(g), equal_nan=True):
            continue
        if all(_same(function.pull(function.call(), cotangents)[i], g) for _ in range(2)):
            raise GradcheckError(
                f"a second backward pass through the same graph gives {function.input_name(i)} another gradient: "
                "an op changes in place what it saved; let it work on a copy"
            )
        raise GradcheckError(
            f"the backward pass is random: it gives {function.input_name(i)} another gradient each time, for the same "
            "inputs; draw random numbers in forward, and save them (or is memory of np.empty used before it is "
            "written?)"
        )
    return weights, gradients


def _refuse_changes(values: Sequence[Any], before: Sequence[Array | None], message: str) -> None:
    for k, (now, then) in enumerate(zip(_copies(values), before, strict=True)):
        if then is not None and not _same(now, then):
            raise GradcheckError(message.format(k))


def _copies(values: Sequence[Any]) -> list[Array | None]:
    arrays = [x.numpy() if isinstance(x, Tensor) else x for x in values]
    return [x.copy() if isinstance(x, np.ndarray) else None for x in arrays]


def _same(a: Array | None, b: Array | None) -> bool:
    return a is not None and b is not None and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


# ---- Multiples of the incoming gradient ----


def check_zero(function: CheckedFunction, right: Arrays) -> None:
    """The gradients for an incoming gradient of zeros must be zeros."""
    zeros = np.zeros(function.middle.size)
    for i, (g, usual) in enumerate(zip(function.gradients(zeros), right, strict=True)):
        wrong = ~(abs(g) <= NOISE)
        if not wrong.any() or not np.isfinite(usual).all():
            continue
        if np.allclose(g, usual, rtol=1e-6, atol=0):
            cause = "backward does not use the incoming gradient: it returns the same for every output"
        else:
            known = [(f"the values of {function.input_name(k)}", x) for k, x in enumerate(function.points)]
            known += [("ones", np.ones(()))]
            names = [name for name, x in known if x.size in (1, g.size) and
                     np.allclose(g.reshape(-1), x.reshape(-1), rtol=1e-5, atol=1e-7)]  # fmt: skip
            cause = (
                f"it returns {names[0]}" if names else "something is added to the gradient that does not depend on it"
            ) + ": backward starts from something else than zeros, or its result holds more than the gradient"
        place = int(np.argmax(wrong))
        raise GradcheckError(
            f"wrong gradient of {function.input_name(i)}: for an incoming gradient of zeros it is not 0, "
            f"{g.reshape(-1)[place]:.10g} at {function.input_name(i, place)}\nlikely cause: {cause}"
        )


MULTIPLES = (-1024.0, 1 / 1024)  # powers of two, so that products with them are exact


def check_multiples(function: CheckedFunction, weights: Array, right: Arrays) -> None:
    """The gradients for a multiple of the incoming gradient must be the same multiple, as backward is linear in it."""
    for multiple in MULTIPLES:
        _compare(
            function,
            [g / multiple for g in function.gradients(multiple * weights)],
            right,
            f"for {multiple:g} times that gradient, it is not the same multiple (does backward clip the incoming "
            "gradient, take its absolute value, or compare it with a threshold?). Divided by that number",
            "is not linear in the incoming gradient:",
        )


@np.errstate(invalid="ignore")
def _compare(function: CheckedFunction, found: Arrays, right: Arrays, when: str, what: str = "is wrong") -> None:
    """Raises: GradcheckError if a gradient differs by more than rounding"""
    same = max(SAME, 50 * function.rounding)
    for i, (a, b) in enumerate(zip(found, right, strict=True)):
        off = (a != b) & ~(abs(a - b) <= same * (1e-3 + abs(b).max(initial=0, where=np.isfinite(b))))
        off &= ~(np.isnan(a) & np.isnan(b))
        if off.any():
            place = int(np.argmax(off))
            raise GradcheckError(
                f"the gradient of {function.input_name(i)} {what} {when}: at {function.input_name(i, place)} it is "
                f"{a.reshape(-1)[place]:.10g} then, and {b.reshape(-1)[place]:.10g} otherwise, which is right"
            )


# ---- Frozen inputs ----


def check_frozen(function: CheckedFunction, weights: Array, right: Arrays, rng: Rng) -> None:
    """Freeze each input in turn, and all but one: the gradients of the others must stay what they are."""
    everyone = {*range(len(function.tensors))}
    count = len(everyone)
    parts = [{k} for k in everyone]
    if count > IN_TURN:
        parts = [{*rng.permutation(count)[: count // 2].tolist()} for _ in range(4)]
    for frozen in [*parts, *[everyone - part for part in parts if count > 2]] if count > 1 else []:
        for k in frozen:
            function.tensors[k].requires_grad = False
        try:
            found = function.gradients(weights)
        finally:
            for k in frozen:
                function.tensors[k].requires_grad = True
        _compare(
            function,
            [right[k] if k in frozen else g for k, g in enumerate(found)],
            right,
            f"when {' and '.join(map(function.input_name, sorted(frozen)))} requires no gradient "
            "(requires_grad=False, a frozen parameter); does forward save, or backward compute, something different in "
            "that case (see needs_gradient)?",
        )


# ---- Memory layouts ----

CONTIGUOUS = "does backward assume that arrays are contiguous?"
LAYOUTS: dict[str, tuple[Sequence[str], str]] = {  # of inputs, taken in turn, and of the incoming gradient
    "inputs and incoming gradients in C order": (["rows"], "rows"),
    "inputs in Fortran order": (["columns"], "rows"),
    "an incoming gradient in Fortran order": (["rows"], "columns"),
    "inputs and incoming gradients in Fortran order": (["columns"], "columns"),
    "inputs and incoming gradients of every second element of an array": (["gaps"], "gaps"),
    "inputs and incoming gradients with negative strides": (["reversed"], "reversed"),
    "inputs and incoming gradients whose last axis is the slowest": (["last axis first"], "last axis first"),
    "inputs in C and in Fortran order by turns": (["rows", "columns"], "rows"),
    "inputs in Fortran and in C order by turns": (["columns", "rows"], "rows"),
}


def in_layout(a: Array, layout: str) -> Array:
    """Copy an array into another memory layout, one of `LAYOUTS`."""
    axes = range(a.ndim)
    order = {"columns": axes[::-1], "last axis first": [*axes[-1:], *axes[:-1]]}.get(layout, axes)
    return arrange(a, order, [{"gaps": 2, "reversed": -1}.get(layout, 1)] * a.ndim)


def check_layouts(function: CheckedFunction, weights: Array, right: Arrays, rng: Rng) -> None:
    """Repeat the backward pass with inputs and incoming gradients in other memory layouts."""
    cotangents = function.split(weights)
    done: set[tuple[tuple[int, ...], ...]] = set()
    same = max(SAME, 50 * function.rounding)
    for what, (layouts, layout_of_cotangents) in LAYOUTS.items():
        points = [in_layout(x, layouts[i % len(layouts)]) for i, x in enumerate(function.points)]
        incoming = [in_layout(c, layout_of_cotangents) for c in cotangents]
        strides = tuple([a.strides for a in (*points, *incoming) if a.size > 1])
        if strides in done:
            continue
        done.add(strides)
        try:
            outputs = function.at(points).call()
        except (TypeError, ValueError, NotImplementedError, BufferError):
            continue  # the function refuses this layout, which nobody gave it
        if not np.allclose(function.vector(outputs), function.middle, rtol=same, atol=same * size_of(function.middle)):
            raise GradcheckError(f"the function gives other values for {what}; {CONTIGUOUS.replace('backward', 'it')}")
        _compare(function, function.pull(outputs, incoming), right, f"for {what}; {CONTIGUOUS}")
    if any(function.output_shapes):
        numbers = zip(rng.standard_normal(len(function.outputs)), function.output_shapes, strict=True)
        repeated = [np.broadcast_to(number, shape) for number, shape in numbers]
        plain = function.pull(function.call(), [np.array(c, order="C") for c in repeated])
        what = "repeated numbers (strides of 0, read-only), as the sum of the outputs gives"
        _compare(function, function.pull(function.call(), repeated), plain,
                 f"for an incoming gradient of {what}; {CONTIGUOUS}")  # fmt: skip


# ---- Two graphs ----


def check_two_graphs(function: CheckedFunction, weights: Array, here: Arrays, there: Arrays, points: Arrays) -> None:
    """Compare the gradients of graphs of two points that are alive at once, and of two at one point.

    here, there: the right gradients at the inputs, and at `points`
    """
    first = function.call()
    before = _copies(first)
    second = function.at(points).call()
    inputs = {id(x) for x in function.tensors}  # a function may return an input itself
    if any(id(y) not in inputs and not _same(y.numpy(), then) for y, then in zip(first, before, strict=True)):
        raise GradcheckError(
            "the output of one call is changed by the next call: the function returns a buffer that it uses again; "
            "let it return a new array each time"
        )
    buffer = (
        "once the function has been called at another point before the backward pass: an op keeps values in a buffer, "
        "an attribute of its class or a global variable, which the next call overwrites; keep them by self.save(...)"
    )
    function.move()  # a backward pass may read the Tensors themselves: custom_gradient's does
    _compare(function, function.pull(first, function.split(weights)), here, buffer)
    function.at(points).move()
    _compare(function, function.pull(second, function.split(weights)), there, buffer)
    sums = [y + 2 * other for y, other in zip(function.call(), function.call(), strict=True)]
    _compare(
        function,
        function.pull(sums, function.split(weights)),
        [3 * g for g in here],
        "if the function is used twice in one graph: backward returns a buffer that it uses again, or keeps something "
        "from one call to the next",
    )


# ---- float32 ----

NARROW_RTOL, NARROW_ATOL = 1e-4, 1e-5  # of the gradient, and of its largest element: about 1000 roundings of float32


def check_float32(function: CheckedFunction, weights: Array, rng: Rng, *, required: bool) -> None:
    """Compare the gradients in float32 with those in float64, at points that are numbers in both.

    They may differ by 1e-4 of the value, 1e-5 of the largest one or of outputs / inputs, and ten times what the
    difference varies when the inputs are moved by a few roundings: a function that amplifies rounding is not blamed.

    required: False for a function that may refuse float32, or overflow in it
    """
    weights = weights.astype(np.float32).astype(np.float64)
    differences: list[Arrays] = []
    for k in range(4):
        points = [np.empty_like(x, dtype=np.float32) for x in function.points]
        for narrow, x in zip(points, function.points, strict=True):
            narrow[...] = x * (1 + (k > 0) * 2.0**-22 * rng.uniform(-1, 1, x.shape))
        wide = function.at([x.astype(np.float64) for x in points])
        right, values = wide.gradients(weights), wide.evaluate()
        try:
            outputs = function.at(points).call()
            narrow = function.vector(outputs)
            if not required and not np.allclose(narrow, values, rtol=1e-2, atol=1e-2 * size_of(values)):
                return
            found = function.pull(outputs, function.split(weights))
        except Exception:  # nobody gave it float32 arrays: it may refuse them, or its values may be others in float64
            if required:
                raise
            return
        differences.append([a - b for a, b in zip(found, right, strict=True)])
    for i, g in enumerate(right):
        off = np.array([d[i] for d in differences])
        largest = max(
            size_of(g), function.usual / max(1.0, size_of(points[i])),
            size_of(weights) / 100,  # a gradient may be what is left of terms of size 1
        )  # fmt: skip
        allowed = NARROW_RTOL * abs(g) + NARROW_ATOL * largest + 10 * (off.max(axis=0) - off.min(axis=0))
        wrong = np.isfinite(g) & ~(abs(off[-1]) <= allowed) & (abs(g) < np.finfo(np.float32).max / 1e3)
        if wrong.any():
            place = worst_of(off[-1], np.zeros(()), wrong)
            value, by = g.reshape(-1)[place], off[-1].reshape(-1)[place]
            raise GradcheckError(
                f"wrong gradient of {function.input_name(i)} in float32, where it is right in float64: for a random "
                f"sum of the outputs by {function.input_name(i, place)}\n"
                f"  in float32  {value + by:.7g}\n  in float64  {value:.7g}\n"
                f"differ by more than {allowed.reshape(-1)[place]:.1g}; likely cause: another path for float32, a "
                "detour through float16, or numbers that overflow, vanish or cancel in it"
            )
