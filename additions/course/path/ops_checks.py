"""The checks of the ops: one table of cases and mistakes, and one check, which compares with ours."""

# ruff: noqa: E501 (a mistake to a line)

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from additions.course.expect import Wrong, equal, told, true
from additions.course.path.checks import Variants, Work, compare, of
from additions.course.path.ours import OurOp, by_rule, changed
from additions.course.path.steps import find_step
from autograd.engine import unbroadcast
from autograd.ops import arithmetic, nn, products, reduce, shape

Array = np.ndarray
FLOAT32 = 1e-3  # beside the results of float64


@dataclass(frozen=True)
class Case:
    """inputs: shapes of random numbers, or arrays; parameters: of the op"""

    what: str
    inputs: tuple[Any, ...]
    parameters: dict[str, Any]

    def arrays(self, dtype: Any = np.float64) -> list[Any]:
        rng = np.random.default_rng(7)
        made = [
            rng.standard_normal(each) if isinstance(each, tuple) else None if each is None else np.array(each)
            for each in self.inputs
        ]
        for a in made:
            if a is not None:
                a.flags.writeable = False
        return [a.astype(dtype) if a is not None and a.dtype.kind == "f" else a for a in made]


Mistake = tuple[str, ...]  # what the verdict says; a text of our source and its replacement, maybe several


def op(
    step: str, ours: Any, names: str, cases: dict[str, tuple[Any, ...]], mistakes: Sequence[Mistake] = (), *,
    helpers: Sequence[Any] = (), fixed: dict[str, Any] | None = None,
) -> None:  # fmt: skip
    """Enter the check of an op.

    names: of its inputs
    cases: description: the inputs, and last the parameters if there are any
    """

    def variants() -> Iterator[tuple[str, OurOp]]:
        for message, *texts in mistakes:
            yield message, OurOp(changed(ours, texts, helpers), **(fixed or {}))

    def rules() -> Iterator[tuple[str, OurOp]]:
        things, names = [*helpers, ours], vars(sys.modules[ours.__module__])
        for message, defined in by_rule(things, names, find_step(step).statement, fixed):
            yield message, OurOp(defined[ours.__name__], **(fixed or {}))

    for what, (*inputs, last) in cases.items():
        inputs, parameters = (inputs, last) if isinstance(last, dict) else ([*inputs, last], {})
        case = Case(what, tuple(inputs), parameters)
        check = partial(
            _check_op, ours=OurOp(ours, **(fixed or {})), names=names.split(), case=case, variants=variants, rules=rules
        )
        check.__doc__ = f"{ours.__name__}: {what}"
        of(step)(check)


def _check_op(work: Work, ours: OurOp, names: list[str], case: Case, variants: Variants, rules: Variants) -> None:
    theirs = getattr(work.ops, ours.__name__)
    true(hasattr(theirs, "broadcasts"), f"{ours.__name__} does not say whether it `broadcasts`; the engine asks it")
    true(theirs.broadcasts or not ours.broadcasts, f"{ours.__name__}.broadcasts is false, so the engine would not sum the "
         "gradients of inputs that were repeated")  # fmt: skip
    compare(partial(results_of, names=names, case=case), theirs, ours, variants, rules)
    dtype = np.float32
    arrays = case.arrays(dtype)
    y = theirs.forward(np, *arrays, **case.parameters)
    true(y.dtype == dtype or y.dtype.kind != "f", f"of float32 inputs, y is {y.dtype}; a factor is an array of float64")
    gradients = theirs.backward(np, np.ones_like(y), y, *arrays, **case.parameters)
    for name, g in zip(names, gradients, strict=True):
        true(
            g is None or g.dtype == dtype,
            f"of float32 inputs, the gradient of {name} is {None if g is None else g.dtype}",
        )


def results_of(op: Any, names: list[str], case: Case) -> Iterator[tuple[str, Any]]:
    """y, and the gradient of each input in its shape."""
    arrays = case.arrays()
    try:
        y = op.forward(np, *arrays, **case.parameters)
        yield "y", y
        g = np.random.default_rng(5).standard_normal(np.shape(y))
        g.flags.writeable = False
        found = op.backward(np, g, np.asarray(y), *arrays, **case.parameters)
    except ValueError as error:
        if "read-only" in str(error):
            error.add_note("an op writes into none of its arguments, which others still read; compute a new array")
        raise
    if not isinstance(found, tuple):
        raise Wrong(f"backward returns {'None' if found is None else 'an array'}; return a tuple, with a gradient for each of "
                    f"{', '.join(names)}: (g,) has one element")  # fmt: skip
    true(len(found) == len(names), f"backward returns {len(found)} gradients for the inputs {', '.join(names)}")
    for name, x, g_x in zip(names, arrays, found, strict=True):
        what = f"the gradient of {name}"
        if x is None:
            continue
        if g_x is not None:
            g_x = np.asarray(g_x)
            if (op.broadcasts and g_x.shape == np.shape(y) != x.shape) or (op.broadcasts and g_x.ndim > x.ndim):
                g_x = unbroadcast(g_x, x.shape)
            true(g_x.shape == x.shape, f"{what} has shape {g_x.shape}, expected that of {name}, {x.shape}")
        yield what, g_x


# ---- The table ---------------------------------------------------------------------------------------------------

MATRICES = {"two matrices [2, 3]": ((2, 3), (2, 3)), "a matrix [2, 3] and a row [3]": ((2, 3), (3,))}

op("add", arithmetic.Add, "a b", MATRICES)  # fmt: skip
op("add", arithmetic.Subtract, "a b", MATRICES)  # fmt: skip
op("multiply", arithmetic.Multiply, "a b", MATRICES, [
    ("a mean is taken; the engine sums over what was repeated, and the op has nothing to do with that",
     "lambda: g * a", "lambda: (g * a).mean() + 0 * g"),
])  # fmt: skip
op("divide", arithmetic.Divide, "a b", MATRICES, [
    ("it is the gradient of a product", "-g / b * y", "g * a"),
])  # fmt: skip
SUMMED = {
    "all of a matrix": ((2, 3), {"axis": None, "keepdims": False}),
    "along axis 0": ((3, 3), {"axis": 0, "keepdims": False}),
    "along axis -1, which stays": ((3, 3), {"axis": -1, "keepdims": True}),
    "along axis 1 of three": ((3, 3, 3), {"axis": 1, "keepdims": False}),
    "along axes 0 and 2": ((2, 3, 2), {"axis": (0, 2), "keepdims": False}),
}
op("sum", reduce.Sum, "x", SUMMED, [
    ("the axis that was summed over comes back in the wrong place: g broadcasts as if the last one were missing",
     "g.reshape(kept_shape(x.shape, axis))", "g.reshape(g.shape)"),
])  # fmt: skip
op("shape", shape.Reshape, "x", {
    "[2, 6] to [3, 4]": ((2, 6), {"shape": (3, 4)}), "[2, 6] to [-1]": ((2, 6), {"shape": (-1,)}),
}, [
    ("its elements are in the order of columns", "g.reshape(x.shape)", 'g.reshape(x.shape, order="F")'),
    ("its elements are in the order of columns", "x.reshape(shape)", 'x.reshape(shape, order="F")'),
    ("it is transposed rather than reshaped", "g.reshape(x.shape)", "g.reshape(x.shape[::-1]).T"),
])  # fmt: skip
op("shape", shape.SwapAxes, "x", {
    "axes 0 and 1 of [3, 3, 3]": ((3, 3, 3), {"axis1": 0, "axis2": 1}),
    "the last two of [2, 3, 4]": ((2, 3, 4), {"axis1": -1, "axis2": -2}),
}, [
    ("all axes are reversed", "g.swapaxes(axis1, axis2)", "g.T"),
    ("all axes are reversed", "x.swapaxes(axis1, axis2)", "x.T"),
    ("the last two axes are exchanged, whichever are asked for", "g.swapaxes(axis1, axis2)", "g.swapaxes(-1, -2)"),
    ("the last two axes are exchanged, whichever are asked for", "x.swapaxes(axis1, axis2)", "x.swapaxes(-1, -2)"),
])  # fmt: skip
op("matmul", products.Matmul, "a b", {
    "two matrices [2, 3] [3, 4]": ((2, 3), (3, 4)),
    "two square matrices": ((3, 3), (3, 3)),
    "a batch [2, 3, 2, 4] [2, 3, 4, 3]": ((2, 3, 2, 4), (2, 3, 4, 3)),
    "a batch [2, 5, 3] times one matrix [3, 4]": ((2, 5, 3), (3, 4)),
    "one matrix times a batch": ((3, 3), (4, 3, 3)),
}, [
    ("it is the product of elements, a * b", "xp.matmul(a, b)", "a * b"),
], helpers=[products.mismatch])  # fmt: skip
op("relu", nn.Relu, "x", {
    "numbers of both signs": ((3, 4),), "0 itself": (np.array([-1.0, 0.0, 2.0]),),
}, [
    ("it passes where x is negative, and not where it is positive", "y > 0", "y <= 0"),
    ("it passes everywhere", "keep_where(xp, g, y > 0)", "g"),
    ("it passes at x = 0, where it is to be 0", "y > 0", "x >= 0"),
    ("it is 0 or 1, without the incoming gradient", "keep_where(xp, g, y > 0)", "(y > 0) * 1.0"),
    ("it is g · y; the slope is 1, not y", "keep_where(xp, g, y > 0)", "g * y"),
])  # fmt: skip
op("softmax", reduce.Softmax, "x", {
    "a row": ((4,),), "three rows": ((3, 4),), "large numbers": (np.array([[1000.0, 1001.0], [-1000.0, 0.0]]),),
    "rows of very different size": (np.array([[0.0, 1.0], [2000.0, 2001.0]]),), "a batch [2, 3, 3]": ((2, 3, 3),),
}, helpers=[reduce.peak_of], fixed={"axis": -1})  # fmt: skip
ROWS = [nn.rows_of, nn.in_precision_of]
op("linear", nn.Linear, "x weight bias", {
    "two rows": ((2, 3), (4, 3), (4,)), "a batch [2, 5, 3]": ((2, 5, 3), (4, 3), (4,)),
    "a square weight": ((2, 2, 3), (3, 3), (3,)), "without bias": ((2, 5, 3), (4, 3), None),
}, [
    ("the weight is reshaped to the shape of its transpose; its elements are not exchanged", "@ w).reshape", "@ w.reshape(w.T.shape).T).reshape"),
    ("it is that of the last sentence of the batch alone; all rows use the weight",
     "g_rows.astype(x.dtype, copy=False).T @ rows_of(x)", "g[-1].T @ x[-1]"),
    ("it is that of the last sentence of the batch alone; all rows use the bias", "g_rows.sum(axis=0)", "g[-1].sum(axis=0)"),
], helpers=ROWS, fixed={"dtype": None})  # fmt: skip


def _first_of_rows(xp, g, indices, shape):
    total = xp.zeros(shape)
    total[indices.reshape(-1)[::-1]] = g.reshape(-1, shape[-1])[::-1]
    return total


def _last_of_rows(xp, g, indices, shape):
    total = xp.zeros(shape)
    total[indices] += g
    return total


op("embedding", nn.Embedding, "weight indices", {
    "each row once": ((4, 3), np.array([2, 0])), "rows that are used several times": ((4, 3), np.array([3, 1, 3, 3])),
    "two sentences [2, 3]": ((5, 3), np.array([[0, 2, 2], [4, 2, 0]])),
}, [
    ("rows that are used several times keep one of their gradients: += adds once a row; np.add.at adds all",
     "add_rows(xp, g, indices, weight.shape)", "_last_of_rows(xp, g, indices, weight.shape)"),
    ("rows that are used several times keep the first of their gradients; it is their sum",
     "add_rows(xp, g, indices, weight.shape)", "_first_of_rows(xp, g, indices, weight.shape)"),
    ("rows that are used several times get a mean of their gradients; it is the sum",
     "add_rows(xp, g, indices, weight.shape)",
     "add_rows(xp, g, indices, weight.shape) / xp.maximum(xp.bincount(indices.reshape(-1), minlength=len(weight)), 1)[:, None]"),
    ("the gradients are not in the order of the indices", "add_rows(xp, g, indices", "add_rows(xp, g[::-1], indices"),
], helpers=[_first_of_rows, _last_of_rows])  # fmt: skip
NORM = [nn.rows_of, nn.mean_of_rows, nn.normalised]
ALONG = "inverse_std * (g_n - mean_of_rows(g_n) - n * mean_of_rows(g_n * n))"
op("layer_norm", nn.LayerNorm, "x weight bias", {
    "one row [5]": ((5,), (5,), (5,), {"eps": 1e-5}), "three rows [3, 4]": ((3, 4), (4,), (4,), {"eps": 1e-5}),
    "a batch [2, 3, 4]": ((2, 3, 4), (4,), (4,), {"eps": 1e-5}), "a large eps": ((2, 3), (3,), (3,), {"eps": 0.5}),
}, [
    ("the variance is divided by n - 1; here it is the mean of the squares",
     "mean_of_rows(centred * centred)", "(mean_of_rows(centred * centred) * (x.shape[-1] / (x.shape[-1] - 1)))"),
    ("mean and variance are taken as constants: the weight and 1/√ alone are its factors", ALONG, "inverse_std * g_n"),
    ("a sum is taken along n where a mean belongs", "mean_of_rows(g_n * n)", "(g_n * n).sum(axis=-1, keepdims=True)"),
    ("weight is a factor at the end; it belongs to the gradient of n, of which the means are taken",
     "g_n = g * weight", "g_n = g", "g_x = inverse_std *", "g_x = weight * inverse_std *"),
    ("x stands where n, the normalised x, belongs", "- n * mean_of_rows(g_n * n)", "- x * mean_of_rows(g_n * n)"),
    ("it is made of x, not of n, the normalised x", "rows_of(g * n)", "rows_of(g * x)"),
    ("the means are over the whole array; they are along the last axis, with keepdims=True",
     "mean_of_rows(g_n)", "g_n.mean()", "mean_of_rows(g_n * n)", "(g_n * n).mean()"),
], helpers=NORM)  # fmt: skip
ATTENTION = [nn.dropped, nn.masked_softmax, nn.attention_weights, nn.softmax_gradient]
ATTENTION_MISTAKES = [
    ("the mean of g_p is taken away in the softmax's gradient; it is Σ g_p · p", "(g_p * p).sum(", "g_p.mean("),
    ("the probabilities add up to 1 over the queries; they do over the keys, the last axis",
     "e.sum(axis=-1, keepdims=True)", "e.sum(axis=-2, keepdims=True)", ".max(axis=-1,", ".max(axis=-2,"),
    ("g_q and g_k are exchanged", "g_scores @ k, g_scores.swapaxes(-1, -2) @ q,", "g_scores.swapaxes(-1, -2) @ q, g_scores @ k,"),
]  # fmt: skip
FREE = {"drop": None}
TRI, NOBODY = np.tri(3, dtype=bool), np.array([[True, False], [False, False], [False, True]])
op("attention", nn.ScaledDotProductAttention, "q k v", {
    "2 queries, 3 keys of 5 elements, values of 4": ((2, 5), (3, 5), (3, 4), {"mask": None, "scale": 0.4}),
    "one shape for all": ((3, 3), (3, 3), (3, 3), {"mask": None, "scale": 1.5}),
    "a batch of heads [2, 2, 3, 4]": ((2, 2, 3, 4), (2, 2, 2, 4), (2, 2, 2, 3), {"mask": None, "scale": 0.5}),
    "large scores": (np.full((2, 3), 40.0), np.arange(6.0).reshape(2, 3), (2, 3), {"mask": None, "scale": 10.0}),
}, ATTENTION_MISTAKES, helpers=ATTENTION, fixed=FREE)  # fmt: skip
op("mask", nn.ScaledDotProductAttention, "q k v", {
    "a causal mask": ((3, 4), (3, 4), (3, 4), {"mask": TRI, "scale": 0.5}),
    "padding, and heads [2, 2, 3, 4]": (
        (2, 2, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4),
        {"mask": np.array([[1, 1, 0], [1, 0, 0]], bool)[:, None, None, :], "scale": 0.5}),
    "a query that may attend to nothing": ((3, 4), (2, 4), (2, 4), {"mask": NOBODY, "scale": 0.5}),
    "large scores that the mask forbids": (
        np.full((2, 3), 40.0), np.array([[3.0, 3.0, 3.0], [9.0, 9.0, 9.0]]), (2, 3),
        {"mask": np.array([[True, False]] * 2), "scale": 10.0}),
    "no mask": ((2, 5), (3, 5), (3, 4), {"mask": None, "scale": 0.4}),
}, [
    ("the mask is the wrong way round: True means may attend", "xp.where(mask, scores,", "xp.where(~mask, scores,"),
    ("the mask is applied after the softmax: the rest of the row does not add up to 1",
     "return e / xp.where(total == 0, 1, total)",
     "return xp.exp(raw - raw.max(axis=-1, keepdims=True)) / xp.exp(raw - raw.max(axis=-1, keepdims=True)).sum(axis=-1, keepdims=True) * (1 if mask is None else mask)",
     "    if mask is not None:", "    raw = scores\n    if mask is not None:"),
    ("a query that may attend to nothing attends to all keys alike; it gives 0",
     "-math.inf", "-1e30"),
    ("the number that forbids is too small: what is masked still has weight", "-math.inf", "-9"),
    ("scores that are masked become 0, not -∞: exp(0) is 1", "-math.inf", "0"),
    *ATTENTION_MISTAKES,
], helpers=ATTENTION, fixed=FREE)  # fmt: skip
LOSS_MISTAKES = [
    ("it is not normalised: exp(logits) where softmax(logits) belongs", "e / e.sum(axis=1, keepdims=True)", "e"),
    ("it is not normalised: exp(logits) where softmax(logits) belongs", "e / e.sum(axis=1, keepdims=True)", "xp.exp(logits)"),
    ("rows that do not count have a gradient", "xp.where(counted[:, None], g_rows * g_logits, 0)", "g_rows * g_logits"),
    ("rows that do not count have a gradient", "xp.where(counted[:, None], g_rows * g_logits, 0)", "g_rows * g_logits",
     "logits = xp.where(counted[:, None], logits, 0)", "logits = logits"),
    ("the incoming gradient, g, is not a factor", "g_rows * g_logits", "g_logits"),
    ("it is the mean of the rows that count; it is to be their sum", "reduced(each, counted, reduction)", "(each.sum() / counted.sum())"),
    ("rows that do not count are in the sum", "xp.where(counted, loss, 0)", "loss", "xp.where(counted, targets, 0)", "targets"),
    ("its sign is the wrong way round: probabilities are below 1, so -log is above 0", "loss = nll\n", "loss = -nll\n"),
    ("it is the probability of the target, not its logarithm", "loss = nll\n", "loss = -xp.exp(-nll)\n"),
]  # fmt: skip
LOGITS = {
    "with a row of padding": ((4, 5), {"targets": np.array([1, 0, 4, 1]), "counted": np.array([1, 0, 1, 1], bool)}),
    "three rows": ((3, 4), {"targets": np.array([2, 0, 3]), "counted": np.ones(3, bool)}),
    "padding alone": ((2, 3), {"targets": np.array([0, 0]), "counted": np.zeros(2, bool)}),
    "large logits": (np.array([[1000.0, 0.0, -1000.0], [0.0, 800.0, 0.0]]), {"targets": np.array([1, 1]), "counted": np.ones(2, bool)}),
}  # fmt: skip


def _with(label_smoothing: float) -> dict[str, tuple[Any, ...]]:
    return {what: (x, {**more, "label_smoothing": label_smoothing}) for what, (x, more) in LOGITS.items()}


LOSS = [nn.divisor, nn.reduced, nn.of_each]
SUMMED_UP = {"reduction": "sum"}
op("cross_entropy", nn.CrossEntropy, "logits", _with(0.0), LOSS_MISTAKES, helpers=LOSS, fixed=SUMMED_UP)
GRADIENT = "p - (1 - label_smoothing) * one_hot.astype(p.dtype) - label_smoothing / logits.shape[1]"
op("label_smoothing", nn.CrossEntropy, "logits", _with(0.1), [
    ("the smoothing is missing: that of ε = 0 comes back", GRADIENT, "p - one_hot.astype(p.dtype)"),
    ("the smoothing is missing: that of ε = 0 comes back", "if label_smoothing:", "if False:"),
    ("ε is spread over the V - 1 other classes; it is over all V, the target among them",
     "label_smoothing * (log_total - logits.mean(axis=1))",
     "label_smoothing * (log_total - (logits.sum(axis=1) - logits[xp.arange(len(targets)), xp.where(counted, targets, 0)]) / (logits.shape[1] - 1))"),
    ("ε is spread over the V - 1 other classes; it is over all V, the target among them",
     GRADIENT, "p - one_hot * (1 - label_smoothing) - (1 - one_hot) * label_smoothing / (logits.shape[1] - 1)"),
    ("each class has ε, not ε / V", "label_smoothing / logits.shape[1]", "label_smoothing"),
    ("each class has ε, not ε / V", "logits.mean(axis=1)", "logits.sum(axis=1)", "(log_total -", "(logits.shape[1] * log_total -"),
    *LOSS_MISTAKES,
], helpers=LOSS, fixed=SUMMED_UP)  # fmt: skip


# ---- Steps with checks of their own ------------------------------------------------------------------------------


@of("operators")
def check_operators(work: Work) -> None:
    """x with a Tensor, a number, an array, on either side"""
    Tensor = work.engine.Tensor
    a, b = np.array([[2.0, 3.0], [4.0, 5.0]]), np.array([[5.0, 7.0], [1.0, 2.0]])
    for sign, compute in (
        ("+", lambda x, y: x + y), ("-", lambda x, y: x - y), ("*", lambda x, y: x * y), ("/", lambda x, y: x / y),
        ("@", lambda x, y: x @ y),
    ):  # fmt: skip
        for name, left, right, p, q in (
            ("x and y", Tensor(a), Tensor(b), a, b), ("x and an array", Tensor(a), b, a, b),
            ("an array and x", a, Tensor(b), a, b), ("x and 3", Tensor(a), 3.0, a, 3.0), ("3 and x", 3.0, Tensor(b), 3.0, b),
        ):  # fmt: skip
            if sign == "@" and 3.0 in (
                left if isinstance(left, float) else 0,
                right if isinstance(right, float) else 0,
            ):
                continue
            y = compute(left, right)
            true(isinstance(y, Tensor), f"{name} with {sign} give a {type(y).__name__}, not a Tensor")
            told(f"{name} with {sign}", y.data, compute(p, q), {"the sides are exchanged": compute(q, p)})
    equal("-x", (-Tensor(a)).data, -a)


@of("operators")
def check_methods(work: Work) -> None:
    """reshape, swapaxes, sum and mean, and their gradients"""
    a = np.arange(6.0).reshape(2, 3)
    x = work.engine.Tensor(a, requires_grad=True)
    for name, found, right in (
        ("x.reshape(3, 2)", x.reshape(3, 2), a.reshape(3, 2)), ("x.reshape((6,))", x.reshape((6,)), a.reshape(6)),
        ("x.reshape(-1)", x.reshape(-1), a.reshape(6)), ("x.swapaxes(0, 1)", x.swapaxes(0, 1), a.T), ("x.sum()", x.sum(), 15.0),
        ("x.sum(axis=0)", x.sum(axis=0), a.sum(0)), ("x.mean()", x.mean(), 2.5),
        ("x.mean(axis=-1, keepdims=True)", x.mean(axis=-1, keepdims=True), a.mean(-1, keepdims=True)),
        ("x.mean(axis=(0, 1))", x.mean(axis=(0, 1)), 2.5),
    ):  # fmt: skip
        true(isinstance(found, work.engine.Tensor), f"{name} is a {type(found).__name__}, not a Tensor")
        equal(name, found.data, right)
    w = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    (3.0 - (x.swapaxes(0, 1) * w).mean(axis=0) / 2.0).sum().backward()
    true(x.grad is not None, "no gradient passes through the operators: is each made by `apply`?")
    told("the gradient of (3 - mean(xᵀ · w) / 2).sum()", x.grad.data, -w.T / 6, {
        "the sign of 3 - x is lost": w.T / 6, "the mean's divisor has no part in it": -w.T / 2,
    })  # fmt: skip


@of("dropout")
def check_mask(work: Work) -> None:
    """Mask: which elements are kept, and the scale"""
    made = work.ops.Mask((200, 50), 0.25, np.random.default_rng(0))
    kept = made.array()
    true(
        isinstance(kept, np.ndarray) and kept.shape == (200, 50),
        f"array() is to be of shape (200, 50), found {np.shape(kept)}",
    )
    true(kept.dtype == bool, f"array() is of type {kept.dtype}, expected bool")
    true(
        np.array_equal(kept, made.array()),
        "array() draws new numbers each time: forward and backward would drop different elements",
    )
    share = kept.mean()
    true(
        abs(share - 0.25) > 0.05, f"{share:.0%} are kept, with p = 0.25 for being dropped: p is the probability to drop"
    )
    true(abs(share - 0.75) < 0.05, f"{share:.0%} are kept, expected 75%")
    told("the scale for p = 0.25", made.scale, 1 / 0.75, {
        "it is 1 / p; it is to be 1 / (1 - p)": 4.0, "it is 1 - p; what is kept grows by 1 / (1 - p)": 0.75,
        "nothing makes up for what is dropped": 1.0,
    })  # fmt: skip
    other = work.ops.Mask((200, 50), 0.25, np.random.default_rng(1)).array()
    true(not np.array_equal(kept, other), "another generator gives the same mask: `rng` is not used")


DROPPED = SimpleNamespace(array=lambda: np.array([[True, False, True], [False, True, True]]), scale=4 / 3)
op("dropout", nn.Dropout, "x", {"a given mask": ((2, 3), {"drop": DROPPED})}, [
    ("the mask is the wrong way round: what is to be kept is dropped", "x * keep *", "x * ~keep *"),
    ("the mask has no part in it", "dropped(xp, g, drop)", "g"),
    ("nothing is dropped", "dropped(xp, x, drop)", "x"),
], helpers=[nn.dropped])  # fmt: skip
