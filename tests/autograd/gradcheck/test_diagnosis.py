"""Classic wrong gradients, and the mistake that the message names."""

import numpy as np
import pytest

from autograd import gradcheck
from autograd.gradcheck import from_vjp
from tests.helpers.marks import parametrize_some
from tests.helpers.ops import CENTRAL, message

RNG = np.random.default_rng(7)
X = RNG.standard_normal((4, 5))
W = RNG.standard_normal((4, 5))
SQUARE = RNG.standard_normal((4, 4))


# ---- Normalisations ----


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x):
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def normalise(x, axis=-1, eps=1e-5):
    centred = x - x.mean(axis, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis, keepdims=True) + eps)


def inverse_std(x, axis=-1):
    return 1 / np.sqrt(x.var(axis, keepdims=True) + 1e-5)


def unit(x):
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def rms(x):
    return x / np.sqrt((x * x).mean(-1, keepdims=True))


NORMALISATIONS = {
    "softmax without its projection": (softmax, lambda g, x: g * softmax(x), "- Σ g · y of a softmax"),
    "softmax along axis 0": (lambda x: softmax(x, 0), lambda g, x: g * softmax(x, 0), "along axis 0, so the gradient"),
    "softmax, projection along the wrong axis": (
        lambda x: softmax(x, 0),
        lambda g, x: softmax(x, 0) * (g - (g * softmax(x, 0)).sum(1, keepdims=True)),
        "along axis 0, so the gradient must add up to 0",
    ),
    "log-softmax without Σ g": (log_softmax, lambda g, x: g, "- y · Σ g of a log-softmax"),
    "centring": (lambda x: x - x.mean(-1, keepdims=True), lambda g, x: g, "- mean(g) of a normalisation"),
    "layer norm, statistics detached": (normalise, lambda g, x: g * inverse_std(x), "mean and deviation along axis 1"),
    "layer norm without the part along x̂": (
        normalise,
        lambda g, x: (g - g.mean(-1, keepdims=True)) * inverse_std(x),
        "missing or wrong projection: the output does not change when the input is scaled along axis 1",
    ),
    "layer norm without the mean": (
        normalise,
        lambda g, x: (g - normalise(x) * (g * normalise(x)).mean(-1, keepdims=True)) * inverse_std(x),
        "- mean(g) of a normalisation",
    ),
    "batch norm, statistics detached": (
        lambda x: normalise(x, 0), lambda g, x: g * inverse_std(x, 0), "mean and deviation along axis 0",
    ),
    "unit length": (
        lambda x: unit(x) / 100, lambda g, x: g / 100 / np.sqrt((x * x).sum(-1, keepdims=True)), "for a norm - x̂ · Σ g",
    ),
    "RMS norm": (rms, lambda g, x: g / np.sqrt((x * x).mean(-1, keepdims=True)), "input is scaled along axis 1"),
    "the whole array": (
        lambda x: x / np.linalg.norm(x), lambda g, x: g / np.linalg.norm(x), "is scaled along axes 0, 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("function", "vjp", "said"), NORMALISATIONS.values(), ids=NORMALISATIONS)
def test_missing_projections(function, vjp, said):
    text = message(from_vjp(function, vjp), X)
    assert said in text.partition("likely cause: ")[2], text


# ---- Sums, means, axes ----

SUMS = {
    "mean divided by the other axis": (
        lambda x: x.mean(0), lambda g, x: np.broadcast_to(g / 5, x.shape), "divided by 5 (the size of axis 1",
    ),
    "mean of two axes divided by one": (
        lambda x: x.mean(), lambda g, x: np.broadcast_to(g / 4, x.shape), "a sum where a mean is meant",
    ),
    "n - 1": (lambda x: x.var(0), lambda g, x: g * 2 * (x - x.mean(0)) / 3, "divided by n - 1 where n is meant (n = 4"),
    "n": (lambda x: x.var(0, ddof=1), lambda g, x: g * 2 * (x - x.mean(0)) / 4, "n where n - 1 is meant (n = 4"),
    "scale of attention": (
        lambda x: x @ W.T / np.sqrt(5), lambda g, x: g @ W, "a factor 1/√5 is missing (the size of axis 1",
    ),
    "keepdims": (lambda x: x.sum(1), lambda g, x: g, "keepdims=True, or np.expand_dims(g, axis)"),
    "keepdims, square": (
        lambda x: x[:, :4].sum(1), lambda g, x: np.pad(np.broadcast_to(g, (4, 4)), ((0, 0), (0, 1))), "",
    ),
    "transposed product": (lambda x: x[:, :4] @ SQUARE, lambda g, x: np.pad(g @ SQUARE, ((0, 0), (0, 1))), ""),
}  # fmt: skip


@pytest.mark.parametrize(("function", "vjp", "said"), SUMS.values(), ids=SUMS)
def test_sums_and_means(function, vjp, said):
    assert said in message(from_vjp(function, vjp), X).partition("likely cause: ")[2]


def test_a_reduced_gradient_along_the_wrong_axis():
    text = message(from_vjp(lambda x: x.sum(1), lambda g, x: np.broadcast_to(g, x.shape)), SQUARE)
    assert "broadcast along the wrong axis (keepdims)" in text


def test_a_forgotten_broadcast_sum():
    row = RNG.standard_normal(5)
    assert "a missing sum" in message(from_vjp(np.add, lambda g, x, b: (g, g)), [X, row])
    assert "a missing sum" in message(from_vjp(np.add, lambda g, x, b: (g, g[0])), [X, row])
    assert "a mean where a sum is meant" in message(from_vjp(np.add, lambda g, x, b: (g, g.mean(0))), [X, row])


def test_transposed_factors():
    assert "a factor is transposed" in message(from_vjp(lambda x: x @ SQUARE, lambda g, x: g @ SQUARE), SQUARE)
    assert "is transposed: return its .T" in message(from_vjp(lambda x: x.T @ X, lambda g, x: g @ X.T), X)


# ---- Factors, terms, masks ----

VALUES = {
    "factor 2": (np.square, lambda g, x: g * x, "a factor 2 is missing"),
    "sign": (np.negative, lambda g, x: g, "the sign is wrong"),
    "chain rule": (lambda x: np.sin(x * x), lambda g, x: g * np.cos(x * x), "a factor 2 · x is missing"),
    "y for y²": (np.tanh, lambda g, x: g * (1 - np.tanh(x)), "a factor (1 + y) is missing"),
    "1 - y": (lambda x: 1 / (1 + np.exp(-x)), lambda g, x: g / (1 + np.exp(-x)), "a factor (1 - y) is missing"),
    "output for input": (np.exp, lambda g, x: g * x, "x and y are confused"),
    "exponent": (lambda x: x**3, lambda g, x: 3 * x * g, "a factor x is missing"),
    "sign in part": (np.abs, lambda g, x: g, "the sign is wrong for some elements"),
    "mask": (lambda x: np.maximum(x, 0), lambda g, x: g, "a mask (of relu, clip, where, dropout,"),
    "inverted": (lambda x: np.maximum(x, 0), lambda g, x: g * (x < 0), "a mask is the wrong way round"),
    "dropout and its scale": (lambda x: x * (W > 0) / 0.6, lambda g, x: g, "backward, and so is its factor"),
    "half of the mask": (lambda x: np.clip(x, -0.5, 0.5), lambda g, x: g * (x < 0.5), "a mask (of relu, clip"),
    "residual": (lambda x: x + np.sin(x), lambda g, x: g * np.cos(x), "the direct path is missing"),
    "residual twice": (np.sin, lambda g, x: g * (np.cos(x) + 1), "itself is added once too often"),
    "passed on": (np.sin, lambda g, x: g, "the incoming gradient is passed on unchanged"),
    "ignored": (np.sin, lambda g, x: np.cos(x), "does not use the incoming gradient"),
    "overwritten rows": (
        lambda x: x[[0, 1, 0, 0]], lambda g, x: np.array([g[3], g[1], 0 * g[0], 0 * g[0]]), "np.add.at",
    ),
    "off by one": (lambda x: x[1:], lambda g, x: np.pad(g, ((0, 1), (0, 0))), "moved by one along axis 0"),
    "reversed": (lambda x: x[::-1] * 1, lambda g, x: g, "in reverse order along axis 0"),
    "order of elements": (lambda x: x.reshape(5, 4), lambda g, x: g.reshape(x.shape, order="F"), "at other elements"),
    "one column": (
        np.sin, lambda g, x: g * np.cos(x) * np.where(np.arange(5) == 4, 5, 1), "are 5 times the right ones: a sum",
    ),
    "constant in a term": (
        lambda x: x**2 + 5 * x**3, lambda g, x: g * (2 * x + 5 * x**2), "x² has a wrong constant factor, 10 too small",
    ),
    "detached": (lambda x: x * x.mean(), lambda g, x: g * x.mean(), ""),
}  # fmt: skip


@pytest.mark.parametrize(("function", "vjp", "said"), VALUES.values(), ids=VALUES)
def test_factors_terms_and_masks(function, vjp, said):
    text = message(from_vjp(function, vjp), X, options=CENTRAL)
    assert said in text.partition("likely cause: ")[2], text


def test_masks_without_a_scale_and_flat_functions():
    relu = from_vjp(lambda x: np.maximum(x, 0), lambda g, x: g)
    assert message(relu, X, options=CENTRAL).endswith("is forgotten in backward")
    assert "does not depend on this input here" in message(from_vjp(lambda x: x - x, lambda g, x: g), X)


def correlate(x, w, padding=0, stride=1):
    """y[b, t, u] = Σ w[i, j] · x[b, t · stride + i, u · stride + j], of padded images and one kernel."""
    x = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    rows, columns = ((n - k) // stride + 1 for n, k in zip(x.shape[1:], w.shape, strict=True))
    return sum(
        w[i, j] * x[:, i : i + stride * rows : stride, j : j + stride * columns : stride][:, :rows, :columns]
        for i, j in np.ndindex(w.shape)
    )


def correlate_vjp(g, x, w, kernel, padding=0, stride=1):
    """The gradients, that by x with `kernel` in the place of w."""
    g_x = np.zeros((len(x), *(n + 2 * padding for n in x.shape[1:])))
    g_w = np.zeros_like(w)
    padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding)))
    rows, columns = g.shape[1:]
    for i, j in np.ndindex(w.shape):
        place = np.s_[:, i : i + stride * rows : stride, j : j + stride * columns : stride]
        g_x[place][:, :rows, :columns] += kernel[i, j] * g
        g_w[i, j] = (padded[place][:, :rows, :columns] * g).sum()
    return g_x[:, padding : padding + x.shape[1], padding : padding + x.shape[2]], g_w


@parametrize_some(("padding", "stride"), [(1, 2), (0, 1)])
def test_a_flipped_kernel(padding, stride):
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((2, 5, 6)), rng.standard_normal((3, 2))

    def check(flip_of_x, flip_of_w=lambda g_w: g_w, f=lambda y: y, slope=np.ones_like):
        def vjp(g, x, w):
            g = g * slope(correlate(x, w, padding, stride))
            g_x, g_w = correlate_vjp(g, x, w, flip_of_x(w), padding, stride)
            return g_x, flip_of_w(g_w)

        return from_vjp(lambda x, w: f(correlate(x, w, padding, stride)), vjp), [x, w]

    assert gradcheck(*check(lambda w: w))
    both = message(*check(lambda w: w[::-1, ::-1]))
    assert "the kernel of a convolution is flipped along axis 1 of the input and axis 2 of the input" in both
    after = message(*check(lambda w: w[::-1, ::-1], f=np.tanh, slope=lambda y: 1 - np.tanh(y) ** 2))
    assert "the kernel of a convolution is flipped along axis 1 of the input and axis 2 of the input" in after
    one = message(*check(lambda w: w[:, ::-1]))
    assert "the kernel of a convolution is flipped along axis 2 of the input:" in one
    kernel = message(*check(lambda w: w, lambda g_w: g_w[::-1, ::-1]))
    assert "in reverse order along axis 0 of the input and axis 1 of the input: is the kernel" in kernel


def test_exchanged_inputs():
    text = message(from_vjp(np.multiply, lambda g, x, w: (g * x, g * w)), [X, W])
    assert "this is the gradient of input 1: two gradients, or two factors, are exchanged" in text


def test_a_forgotten_factor_is_named_after_its_input():
    text = message(from_vjp(lambda x, w: x * w, lambda g, x, w: (g, g * x)), [X, W])
    assert "a factor input 1 is missing" in text
    assert "is lost" in message(from_vjp(lambda x, w: normalise(x) * w, lambda g, x, w: (0 * x, g)), [X, W])


def test_no_cause_is_made_up():
    """Random numbers, and a wrong number here and there, fit no pattern."""
    noise = np.random.default_rng(0).standard_normal(X.shape)
    for wrong in (lambda g, x: g * noise, lambda g, x: g * np.cos(x) + g * noise * 0.1):
        assert "no known mistake" in message(from_vjp(np.sin, wrong), X)
