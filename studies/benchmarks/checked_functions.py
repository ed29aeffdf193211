"""NumPy functions with a hand-written gradient, wrong ones and right ones, for `studies/benchmarks/checkers.py`.

`function(*inputs)` returns an array, `vjp(g, *inputs)` the gradient of (g * function(*inputs)).sum() by each input,
None for an integer array.  Many of the wrong ones are right at the inputs that they come with: they are wrong in a
region, for a shape, a dtype or a way of calling that these inputs do not show.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray
RNG = np.random.default_rng(20)
X = RNG.standard_normal((3, 4))
Y = RNG.standard_normal((3, 4))
POSITIVE = abs(X) + 0.2
ROW = RNG.standard_normal(4)
SQUARE = RNG.standard_normal((4, 4))
NOISE = np.random.default_rng(21)


@dataclass(frozen=True)
class Checked:
    """closed: parameters that require a gradient, which the function reads without being called with them."""

    kind: str
    name: str
    function: Callable[..., Any]
    vjp: Callable[..., Any]
    inputs: Sequence[Any] = (X,)
    closed: Sequence[Array] = ()


def cases(listed: dict[str, dict[str, Sequence[Any]]]) -> list[Checked]:
    """Functions by kind and name: each with its vjp, and its inputs and closed parameters if they are others than X."""
    return [Checked(kind, name, *case) for kind, named in listed.items() for name, case in named.items()]


def elementwise(function: Callable[[Array], Array], slope: Callable[[Array], Array]) -> tuple[Callable, Callable]:
    return function, lambda g, x: g * slope(x)


# ---- Functions that several of them use ----


def sigmoid(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(e / e.sum(-1, keepdims=True))


def logsumexp(x: Array) -> Array:
    top = x.max(-1)
    return np.asarray(top + np.log(np.exp(x - top[..., None]).sum(-1)))


def normalise(x: Array, eps: float = 1e-5) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(-1, keepdims=True) + eps))


def normalise_vjp(g: Array, x: Array, eps: float = 1e-5) -> Array:
    y = normalise(x, eps)
    scale = 1 / np.sqrt(x.var(-1, keepdims=True) + eps)
    return np.asarray(scale * (g - g.mean(-1, keepdims=True) - y * (g * y).mean(-1, keepdims=True)))


def summed_to(g: Array, shape: tuple[int, ...]) -> Array:
    """g, summed over the axes along which an array of this shape was broadcast."""
    g = g.sum(axis=tuple(range(g.ndim - len(shape))))
    axes = tuple([k for k, n in enumerate(shape) if n == 1 and g.shape[k] != 1])
    return np.asarray(g.sum(axis=axes, keepdims=True))


def scattered(g: Array, x: Array, rows: Array) -> Array:
    g_x = np.zeros_like(x)
    np.add.at(g_x, rows, g)
    return g_x


def overwritten(g: Array, x: Array, rows: Array) -> Array:
    g_x = np.zeros_like(x)
    g_x[rows] = g
    return g_x


def sinc(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(x == 0, 1.0, np.sin(x) / x)


def sinc_slope(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.where(abs(x) < 1e-2, -x / 3 + x**3 / 30, (np.cos(x) - np.sin(x) / x) / x)


def in_place(g: Array, x: Array) -> Array:
    g *= np.cos(x)
    return g


BUFFER = np.zeros((3, 4))


def buffered(x: Array) -> Array:
    BUFFER[...] = x
    return np.sin(x)


def shared_memory(g: Array, a: Array, b: Array) -> tuple[Array, Array]:
    """As of an op that looks whether it was called with one array twice, and then forgets half."""
    return (g * b, 0 * g) if np.shares_memory(a, b) else (g * b, g * a)


def in_blocks(g: Array, x: Array) -> Array:
    """Cosines in blocks of 64, of which the last is forgotten if it is not full."""
    flat = np.cos(x).reshape(-1).copy()
    if flat.size > 64 and flat.size % 64:
        flat[flat.size // 64 * 64 :] = 0
    return g * flat.reshape(x.shape)


def cumprod_vjp(g: Array, x: Array) -> Array:
    y = g * x.cumprod(-1)
    return np.asarray(y[..., ::-1].cumsum(-1)[..., ::-1] / x)


def unit_vjp(g: Array, x: Array, axis: int = -1) -> Array:
    n = np.sqrt((x * x).sum(-1, keepdims=True))
    return np.asarray((g - x * (g * x).sum(axis, keepdims=True) / n**2) / n)


def hidden(x: Array, mask: Any = -1e9) -> Array:
    return softmax(x + mask)


def softmax_vjp(g: Array, y: Array) -> Array:
    return np.asarray(y * (g - (g * y).sum(-1, keepdims=True)))


ROW_HIDDEN = np.where(np.arange(3)[:, None] == 1, -1e9, 0.0)
SECONDS = 1.7e9 + RNG.uniform(0, 1000, 5)
MINUTE = 2 * np.pi / 60


def narrow_exp(x: Array) -> Array:
    return np.exp(x.astype(np.float32)).astype(float)


def narrow_loss(x: Array) -> Array:
    """A loss that a framework rounds to float32."""
    return np.asarray(np.float32(np.logaddexp(0, x).mean()), float)


# ---- Wrong ----

WRONG = cases(
    {
        "sign": {
            "cos": elementwise(np.cos, np.sin),
        },
        "factor": {
            "square without its 2": elementwise(np.square, lambda x: x),
            "tanh, 1e-6 too large": elementwise(np.tanh, lambda x: (1 + 1e-6) / np.cosh(x) ** 2),
            "variance divided by n - 1": (
                lambda x: x.var(-1),
                lambda g, x: g[..., None] * 2 * (x - x.mean(-1, keepdims=True)) / (x.shape[-1] - 1),
            ),
        },
        "term": {
            "softmax without its projection": (softmax, lambda g, x: g * softmax(x)),
            "layer norm, statistics detached": (normalise, lambda g, x: g / np.sqrt(x.var(-1, keepdims=True) + 1e-5)),
            "layer norm, another epsilon": (normalise, lambda g, x: normalise_vjp(g, x, 1e-12)),
            "x · mean(x), its mean detached": (lambda x: x * x.mean(), lambda g, x: g * x.mean()),
        },
        "broadcast": {
            "a mean in place of a sum": (np.add, lambda g, x, b: (g, g.mean(0)), [X, ROW]),
            "of an (m, 1): sums over the wrong axis": (
                np.multiply,
                lambda g, a, b: (
                    summed_to(g * b, a.shape),
                    (g * a).sum(0).reshape(b.shape)
                    if b.shape[-1:] == (1,) and g.ndim == 2 and g.shape[0] == g.shape[1]
                    else summed_to(g * a, b.shape),
                ),
                [SQUARE, SQUARE[0]],
            ),
            "of an (m, 1): one column for all": (
                np.add,
                lambda g, a, b: (
                    summed_to(g, a.shape),
                    g[:, :1] if b.shape == (g.shape[0], 1) != g.shape else summed_to(g, b.shape),
                ),
                [X, ROW],
            ),
            "of an (m, 1): not summed at all": (
                np.add,
                lambda g, a, b: (g.sum(axis=tuple(range(g.ndim - a.ndim))), g.sum(axis=tuple(range(g.ndim - b.ndim)))),
                [X, ROW],
            ),
        },
        "size 1": {
            "a squeeze too many": (
                lambda x: x.sum(-1),
                lambda g, x: np.broadcast_to(np.squeeze(g)[..., None], x.shape) * (1 if x.shape[0] > 1 else 2),
            ),
            "softmax of one class passes g on": (
                softmax,
                lambda g, x: g if x.shape[-1] == 1 else softmax(x) * (g - (g * softmax(x)).sum(-1, keepdims=True)),
            ),
            "mean over a batch of one": (
                lambda x: x.mean(0),
                lambda g, x: np.broadcast_to(g / max(2, len(x)), x.shape),
            ),
        },
        "0-d": {
            "sin of a number": (np.sin, lambda g, x: g * np.cos(x) * (1 if np.ndim(x) else 2)),
        },
        "empty": {
            "uninitialised memory where nothing is summed": (
                lambda x, b: (x * b).sum(0),
                lambda g, x, b: (g * b * np.ones_like(x), (g * x).sum(0) if len(x) else np.full(b.shape, np.nan)),
                [X, ROW],
            ),
        },
        "region": {
            "leaky ReLU beyond its kink": (
                *elementwise(lambda x: np.where(x > 0, x, 0.1 * x), np.ones_like),
                [POSITIVE],
            ),
            "Huber beyond its knee": elementwise(
                lambda x: np.where(abs(x) < 3, x * x / 2, 3 * abs(x) - 4.5), lambda x: x
            ),
            "clip at ±50": elementwise(lambda x: np.clip(x, -50, 50), np.ones_like),
            "ELU, slope 2 between -0.01 and 0": elementwise(
                lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
                lambda x: np.where(x > 0, 1, np.where(x > -0.01, 2, np.exp(np.minimum(x, 0)))),
            ),
        },
        "overflow": {
            "sigmoid": elementwise(sigmoid, lambda x: np.exp(-x) / (1 + np.exp(-x)) ** 2),
            "logsumexp": (logsumexp, lambda g, x: g[..., None] * np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
            "softplus": elementwise(lambda x: np.logaddexp(0, x), lambda x: np.exp(x) / (1 + np.exp(x))),
            "tanh": elementwise(
                np.tanh, lambda x: 4 / (np.exp(x) + np.exp(-x)) ** 2 * np.where(abs(x) > 400, np.nan, 1)
            ),
            "log cosh beyond 600": elementwise(
                lambda x: np.logaddexp(x, -x), lambda x: np.where(abs(x) > 600, 0, np.tanh(x))
            ),
        },
        "tiny": {
            "sinc, wrong below 1e-3": elementwise(sinc, lambda x: np.where(abs(x) < 1e-3, 1, sinc_slope(x))),
            "sin, flat below 1e-4": elementwise(np.sin, lambda x: np.where(abs(x) < 1e-4, 0, np.cos(x))),
            "100 + exp, flat below 1e-6": elementwise(
                lambda x: 100 + np.exp(x), lambda x: np.where(abs(x) < 1e-6, 0, np.exp(x))
            ),
            "expm1, cancels below 1e-7": elementwise(
                np.expm1, lambda x: np.where(abs(x) < 1e-7, (np.exp(x) - 1) / np.where(x == 0, 1, x) * 2, np.exp(x))
            ),
        },
        "zeros": {
            "product of all, divided by each": (lambda x: x.prod(-1), lambda g, x: (g * x.prod(-1))[..., None] / x),
            "cumulative product by a quotient": (lambda x: x.cumprod(-1), cumprod_vjp),
        },
        "indices": {
            "rows that overwrite each other": (
                lambda x, rows: x[rows],
                lambda g, x, rows: (overwritten(g, x, rows), None),
                [X, np.array([2, 0])],
            ),
            "columns, the last of equals": (
                lambda x, k: x[:, k],
                lambda g, x, k: (overwritten(g.T, x.T, k).T, None),
                [X, np.array([3, 1])],
            ),
        },
        "f(x, x)": {
            "product of one array": (np.multiply, shared_memory, [X, Y]),
        },
        "large": {
            "cosines in blocks of 64": (np.sin, in_blocks),
            "sum of more than 100": (
                lambda x: x.sum(),
                lambda g, x: np.full(x.shape, g * min(1, 100 / max(x.size, 1))),
            ),
        },
        "float32": {
            "through float16": elementwise(
                np.sin, lambda x: np.cos(x).astype(np.float16 if x.dtype == np.float32 else x.dtype)
            ),
            "1 % too large": elementwise(
                np.tanh, lambda x: (1.01 if x.dtype == np.float32 else 1) * (1 - np.tanh(x) ** 2)
            ),
            "a slope in float32": (np.sin, lambda g, x: g * np.cos(x).astype(np.float32)),
        },
        "closed over": {
            "the wrong slope of a parameter": (lambda x, w: x * w, lambda g, x, w: (g * w, g * x * 2), [X], [Y]),
        },
        "activation": {
            "its slope at the input in place of the product": (
                lambda x, w: np.tanh(x @ w),
                lambda g, x, w: (g * (1 - np.tanh(x) ** 2) @ w.T, x.T @ (g * (1 - np.tanh(x) ** 2))),
                [X, SQUARE],
            ),
        },
        "outputs": {
            "the second cotangent for the first": (
                lambda x: (np.sin(x), np.exp(x)),
                lambda g, x: g[1] * np.cos(x) + g[1] * np.exp(x),
            ),
            "the second cotangent is forgotten": (lambda x: (np.sin(x), np.exp(x)), lambda g, x: g[0] * np.cos(x)),
        },
        "cotangent": {
            "clipped at ±1": (np.sin, lambda g, x: np.clip(g, -1, 1) * np.cos(x)),
            "changed in place": (np.sin, in_place),
        },
        "state": {
            "a buffer": (buffered, lambda g, x: g * np.cos(BUFFER) if g.shape == BUFFER.shape else g * np.cos(x)),
            "noise of 1e-4": (np.sin, lambda g, x: g * np.cos(x) * (1 + 1e-4 * NOISE.standard_normal(x.shape))),
        },
        "layout": {
            "in the order of memory": (np.sin, lambda g, x: g.ravel("K").reshape(g.shape) * np.cos(x)),
        },
        "axes": {
            "transposed": (np.sin, lambda g, x: (g * np.cos(x)).T, [SQUARE]),
            "a product's factor transposed": (np.matmul, lambda g, a, b: (g @ b, a.T @ g), [SQUARE, SQUARE.T @ SQUARE]),
        },
        "numerical": {
            "norm at 1e-6, 1 % too large": (
                lambda x: np.sqrt((x * x).sum(-1)),
                lambda g, x: 1.01 * g[..., None] * x / np.sqrt((x * x).sum(-1, keepdims=True)),
                [1e-6 * X],
            ),
            "log at 1e-8, 1 % too large": (*elementwise(np.log, lambda x: 1.01 / x), [1e-8 * POSITIVE]),
            "|(x + 1e8) - 1e8|, 1 % too large": elementwise(
                lambda x: abs((x + 1e8) - 1e8), lambda x: 1.01 * np.sign(x)
            ),
        },
        "exchange": {
            "quotient": (lambda a, b: a / b, lambda g, a, b: (g / b, -g * a / b), [X, POSITIVE]),
        },
        "three axes": {
            "unit rows, a sum over axis 1": (
                lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)),
                lambda g, x: unit_vjp(g, x, 1),
            ),
            "a bias, summed over axis 0 of two": (
                lambda x: x - x.mean(-1, keepdims=True),
                lambda g, x: g - g.mean(1, keepdims=True),
            ),
        },
        "two rows": {
            "a mean": (lambda x: x.mean(0), lambda g, x: np.broadcast_to(g / (1 if len(x) == 2 else len(x)), x.shape)),
            "a variance, n - 1 for 2": (
                lambda x: x.var(-1),
                lambda g, x: g[..., None] * 2 * (x - x.mean(-1, keepdims=True)) / (x.shape[-1] - (x.shape[-1] == 2)),
            ),
        },
        "zero cotangent": {
            "ones": (np.sin, lambda g, x: (g if g.any() else np.ones_like(g)) * np.cos(x)),
            "the weights": (np.multiply, lambda g, x, w: (g * w, g * x if g.any() else w), [X, Y]),
        },
        "whole numbers": {
            "a slope of 0": elementwise(np.sin, lambda x: np.where(x == np.round(x), 0, np.cos(x))),
            "a power": elementwise(lambda x: x**3, lambda x: 3 * x**2 - (x == np.floor(x)) * (x != 0)),
        },
        "ends": {
            "index 0 is dropped": (
                lambda x, rows: x[rows],
                lambda g, x, rows: (scattered(np.where((rows > 0)[:, None], g, 0), x, rows), None),
                [X, np.array([2, 1])],
            ),
            "the last index is dropped": (
                lambda x, rows: x[rows],
                lambda g, x, rows: (scattered(np.where((rows < len(x) - 1)[:, None], g, 0), x, rows), None),
                [X, np.array([1, 0, 1])],
            ),
        },
        "mask": {
            "all True": (
                lambda x, m: np.where(m, x, -9.0),
                lambda g, x, m: (g * (2 if m.all() else m), None),
                [X, np.arange(12).reshape(3, 4) % 3 > 0],
            ),
            "a row hidden by -1e9 gets nothing": (
                lambda x: hidden(x, ROW_HIDDEN),
                lambda g, x: softmax_vjp(g, hidden(x, ROW_HIDDEN)) * (ROW_HIDDEN == 0),
            ),
        },
        "far": {
            "seconds since 1970": (
                *elementwise(lambda x: np.sin(MINUTE * x), lambda x: 2 * MINUTE * np.cos(MINUTE * x)),
                [SECONDS],
            ),
            "sin at 1e14, 0": (*elementwise(np.sin, np.zeros_like), [1e14 * (1 + POSITIVE)]),
        },
        "in float32": {
            "exp, 1.5 times": elementwise(narrow_exp, lambda x: 1.5 * np.exp(x)),
            "a loss, 1.1 times": (narrow_loss, lambda g, x: 1.1 * g / (1 + np.exp(-x)) / x.size),
        },
    }
)

# ---- Right ----


def matmul_vjp(g: Array, a: Array, b: Array) -> tuple[Array, Array]:
    return g @ np.swapaxes(b, -1, -2), np.swapaxes(a, -1, -2) @ g


def attention(q: Array, k: Array, v: Array) -> Array:
    return np.asarray(softmax(q @ k.T / np.sqrt(q.shape[-1])) @ v)


def attention_vjp(g: Array, q: Array, k: Array, v: Array) -> tuple[Array, Array, Array]:
    scale = 1 / np.sqrt(q.shape[-1])
    p = softmax(q @ k.T * scale)
    g_p = g @ v.T
    g_s = p * (g_p - (g_p * p).sum(-1, keepdims=True)) * scale
    return g_s @ k, g_s.T @ q, p.T @ g


def unique_scatter(x: Array, rows: Array) -> Array:
    y = np.zeros((5, *x.shape[1:]))
    y[rows] = x
    return y


def float64_only(x: Array) -> Array:
    if x.dtype != np.float64:
        raise TypeError("float64 only")
    return np.sin(x)


KEPT = RNG.random((3, 4)) > 0.4
RIGHT = cases(
    {
        "element-wise": {
            "exp": elementwise(np.exp, np.exp),
            "sin": elementwise(np.sin, np.cos),
            "sin of 40 x": elementwise(lambda x: np.sin(40 * x), lambda x: 40 * np.cos(40 * x)),
            "sin of 3,000 x": elementwise(lambda x: np.sin(3e3 * x), lambda x: 3e3 * np.cos(3e3 * x)),
            "sigmoid": elementwise(sigmoid, lambda x: sigmoid(x) * sigmoid(-x)),
            "sigmoid as it is written first": elementwise(
                lambda x: 1 / (1 + np.exp(-x)), lambda x: 1 / (1 + np.exp(-x)) * (1 - 1 / (1 + np.exp(-x)))
            ),
            "log(1 + exp(x))": elementwise(lambda x: np.log(1 + np.exp(x)), lambda x: 1 / (1 + np.exp(-x))),
            "tanh": elementwise(np.tanh, lambda x: 1 - np.tanh(x) ** 2),
            "log": (*elementwise(np.log, lambda x: 1 / x), [POSITIVE]),
            "sqrt": (*elementwise(np.sqrt, lambda x: 0.5 / np.sqrt(x)), [POSITIVE]),
            "x to the 2.5": (*elementwise(lambda x: x**2.5, lambda x: 2.5 * x**1.5), [POSITIVE]),
            "1 / x": elementwise(lambda x: 1 / x, lambda x: -1 / x**2),
            "sinc": elementwise(sinc, sinc_slope),
            "exp(-x²)": elementwise(lambda x: np.exp(-x * x), lambda x: -2 * x * np.exp(-x * x)),
            "arctan": elementwise(np.arctan, lambda x: 1 / (1 + x * x)),
            "tanh of 1e5 x": elementwise(lambda x: np.tanh(1e5 * x), lambda x: 1e5 * (1 - np.tanh(1e5 * x) ** 2)),
        },
        "kinks": {
            "ReLU": elementwise(lambda x: np.maximum(x, 0), lambda x: x > 0),
            "abs": elementwise(np.abs, np.sign),
            "clip": elementwise(lambda x: np.clip(x, -1, 1), lambda x: abs(x) < 1),
            "ReLU(x) - ReLU(-x)": elementwise(
                lambda x: np.maximum(x, 0) - np.maximum(-x, 0), lambda x: (x > 0) * 1.0 + (x < 0)
            ),
            "floor": elementwise(np.floor, np.zeros_like),
            "hard shrink": elementwise(lambda x: np.where(abs(x) > 0.5, x, 0), lambda x: abs(x) > 0.5),
            "largest of a row": (lambda x: x.max(-1), lambda g, x: g[..., None] * (x == x.max(-1, keepdims=True))),
            "larger of two": (np.maximum, lambda g, a, b: (g * (a > b), g * (b >= a)), [X, Y]),
            "sorted": (
                lambda x: np.sort(x, -1),
                lambda g, x: np.take_along_axis(g, np.argsort(np.argsort(x, -1), -1), -1),
            ),
        },
        "reductions": {
            "sum": (lambda x: x.sum(0), lambda g, x: np.broadcast_to(g, x.shape)),
            "mean": (lambda x: x.mean(), lambda g, x: np.full(x.shape, g / x.size)),
            "mean of this shape": (lambda x: x.mean(), lambda g, x: np.full((3, 4), g / 12)),
            "variance": (
                lambda x: x.var(-1),
                lambda g, x: g[..., None] * 2 * (x - x.mean(-1, keepdims=True)) / x.shape[-1],
            ),
            "variance, n - 1": (
                lambda x: x.var(-1, ddof=1),
                lambda g, x: g[..., None] * 2 * (x - x.mean(-1, keepdims=True)) / (x.shape[-1] - 1),
            ),
            "logsumexp": (logsumexp, lambda g, x: g[..., None] * softmax(x)),
            "log of a sum of exps": (
                lambda x: np.log(np.exp(x).sum(-1)),
                lambda g, x: g[..., None] * np.exp(x) / np.exp(x).sum(-1, keepdims=True),
            ),
            "norm": (
                lambda x: np.sqrt((x * x).sum(-1)),
                lambda g, x: g[..., None] * x / np.sqrt((x * x).sum(-1, keepdims=True)),
            ),
            "cumulative sum": (lambda x: x.cumsum(-1), lambda g, x: g[..., ::-1].cumsum(-1)[..., ::-1]),
        },
        "normalisations": {
            "softmax": (softmax, lambda g, x: softmax(x) * (g - (g * softmax(x)).sum(-1, keepdims=True))),
            "log softmax": (
                lambda x: x - logsumexp(x)[..., None],
                lambda g, x: g - softmax(x) * g.sum(-1, keepdims=True),
            ),
            "layer norm": (normalise, normalise_vjp),
            "layer norm without epsilon": (lambda x: normalise(x, 0.0), lambda g, x: normalise_vjp(g, x, 0.0)),
            "unit length": (lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)), unit_vjp),
        },
        "broadcasts": {
            "bias": (np.add, lambda g, x, b: (g, g.sum(0)), [X, ROW]),
            "bias of any batch": (np.add, lambda g, x, b: (g, g.reshape(-1, 4).sum(0)), [X, ROW]),
            "product": (np.multiply, lambda g, a, b: (summed_to(g * b, a.shape), summed_to(g * a, b.shape)), [X, ROW]),
            "product of equal shapes": (np.multiply, lambda g, a, b: (g * b, g * a), [X, Y]),
            "quotient of equal shapes": (np.divide, lambda g, a, b: (g / b, -g * a / b**2), [X, POSITIVE]),
            "power of equal shapes": (
                np.power,
                lambda g, a, b: (g * b * a ** (b - 1), g * a**b * np.log(a)),
                [POSITIVE, Y],
            ),
        },
        "products": {
            "matrices": (np.matmul, matmul_vjp, [X, SQUARE]),
            "a matrix that is closed over": (lambda x: x @ SQUARE, lambda g, x: g @ SQUARE.T),
            "attention": (attention, attention_vjp, [X, Y, RNG.standard_normal((3, 2))]),
            "quadratic form": (
                lambda x: (x @ SQUARE * x).sum(-1),
                lambda g, x: g[..., None] * (x @ (SQUARE + SQUARE.T)),
            ),
            "determinant": (
                np.linalg.det,
                lambda g, x: g * np.linalg.det(x) * np.linalg.inv(x).T,
                [SQUARE + 3 * np.eye(4)],
            ),
            "inverse": (
                np.linalg.inv,
                lambda g, x: -np.linalg.inv(x).T @ g @ np.linalg.inv(x).T,
                [SQUARE + 3 * np.eye(4)],
            ),
        },
        "masks": {
            "dropout, its mask closed over": (lambda x: x * KEPT / 0.6, lambda g, x: g * KEPT / 0.6),
            "mask as an argument": (lambda x, m: np.where(m, x, -9.0), lambda g, x, m: (g * m, None), [X, KEPT]),
        },
        "indices": {
            "rows": (lambda x, rows: x[rows], lambda g, x, rows: (scattered(g, x, rows), None), [X, np.array([2, 0])]),
            "rows closed over": (lambda x: x[[2, 0]], lambda g, x: scattered(g, x, np.array([2, 0]))),
            "permutation": (
                lambda x, order: x[order],
                lambda g, x, order: (g[np.argsort(order)], None),
                [X, np.array([2, 0, 1])],
            ),
            "sums between offsets": (
                lambda x, offsets: np.add.reduceat(x, offsets),
                lambda g, x, offsets: (np.repeat(g, np.diff(np.append(offsets, len(x))), axis=0), None),
                [X, np.array([0, 2])],
            ),
            "into rows of zeros": (unique_scatter, lambda g, x, rows: (g[rows], None), [X, np.array([4, 0, 2])]),
        },
        "shapes": {
            "transpose": (lambda x: x.T, lambda g, x: g.T),
            "reshape": (lambda x: x.reshape(-1), lambda g, x: g.reshape(x.shape)),
            "roll": (lambda x: np.roll(x, 1, -1), lambda g, x: np.roll(g, -1, -1)),
            "a convolution, valid where the kernel is shorter": (
                lambda x, w: np.convolve(x, w, "valid"),
                lambda g, x, w: (np.convolve(g, w[::-1]), np.convolve(x, g[::-1], "valid")[::-1]),
                [np.resize(X, 9) + np.arange(9), ROW[:3]],
            ),
            "differences": (
                lambda x: np.diff(x),
                lambda g, x: np.pad(g, ((0, 0), (1, 0))) - np.pad(g, ((0, 0), (0, 1))),
            ),
            "0-d": (np.sin, lambda g, x: g * np.cos(x), [np.array(0.3)]),
            "empty": (np.sin, lambda g, x: g * np.cos(x), [np.zeros((0, 3))]),
            "two outputs": (lambda x: (np.sin(x), np.exp(x)), lambda g, x: g[0] * np.cos(x) + g[1] * np.exp(x)),
        },
        "dtypes": {
            "float64 only": (float64_only, lambda g, x: g * np.cos(x)),
        },
        "numerical": {
            "norm at 1e-6": (
                lambda x: np.sqrt((x * x).sum(-1)),
                lambda g, x: g[..., None] * x / np.sqrt((x * x).sum(-1, keepdims=True)),
                [1e-6 * X],
            ),
            "log at 1e-8": (*elementwise(np.log, lambda x: 1 / x), [1e-8 * POSITIVE]),
            "1 / x at 1e-6": (*elementwise(lambda x: 1 / x, lambda x: -1 / x**2), [1e-6 * POSITIVE]),
            "sqrt at 1e-8": (*elementwise(np.sqrt, lambda x: 0.5 / np.sqrt(x)), [1e-8 * POSITIVE]),
            "(x + 1e8) - 1e8": elementwise(lambda x: (x + 1e8) - 1e8, np.ones_like),
            "|(x + 1e8) - 1e8|": elementwise(lambda x: abs((x + 1e8) - 1e8), np.sign),
            "1 - cos x": (*elementwise(lambda x: 1 - np.cos(x), np.sin), [1e-5 * X]),
            "large values": elementwise(lambda x: 1e12 * x**2, lambda x: 2e12 * x),
            "small values": elementwise(lambda x: 1e-12 * x**2, lambda x: 2e-12 * x),
            "at 1e10": (*elementwise(lambda x: x * x, lambda x: 2 * x), [1e10 * X]),
        },
        "far": {
            "seconds since 1970": (
                *elementwise(lambda x: np.sin(MINUTE * x), lambda x: MINUTE * np.cos(MINUTE * x)),
                [SECONDS],
            ),
            "sin at 1e8": (*elementwise(np.sin, np.cos), [1e8 * (1 + POSITIVE)]),
            "sin at 1e14": (*elementwise(np.sin, np.cos), [1e14 * (1 + POSITIVE)]),
        },
        "absorbed": {
            "softmax(x - 1e9)": (hidden, lambda g, x: softmax_vjp(g, hidden(x))),
            "a row hidden by -1e9": (
                lambda x: hidden(x, ROW_HIDDEN),
                lambda g, x: softmax_vjp(g, hidden(x, ROW_HIDDEN)),
            ),
            "columns hidden by -1e9": (
                lambda x: hidden(x, -1e9 * (np.arange(4) > 1)),
                lambda g, x: softmax_vjp(g, hidden(x, -1e9 * (np.arange(4) > 1))),
            ),
        },
        "in float32": {
            "exp": elementwise(narrow_exp, np.exp),
            "a loss": (narrow_loss, lambda g, x: g / (1 + np.exp(-x)) / x.size),
        },
    }
)
