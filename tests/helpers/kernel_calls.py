"""Arguments with which the kernels of a backend are compared with their definitions, in small and in large sizes."""

import math

import numpy as np

from autograd.random import Mask


def normal(rng, shape, dtype):
    return rng.standard_normal(shape).astype(dtype)


def norm_parameters(rng, width, dtype):
    return 1 + 0.1 * normal(rng, width, dtype), normal(rng, width, dtype)


def product(rng, dtype, m, inner, n):
    yield (normal(rng, (m, inner), dtype), normal(rng, (inner, n), dtype)), {}


def products(rng, dtype, m, inner, n):
    a, b, g = normal(rng, (m, inner), dtype), normal(rng, (inner, n), dtype), normal(rng, (m, n), dtype)
    yield ((g, np.asfortranarray(b).T), (a.T, g)), {}
    yield ((a, b), (b.T[:3], a.T), (g, b.T)), {}


def linear_gradients(rng, dtype, m, inner, n):
    g_y, weight, x = normal(rng, (m, n), dtype), normal(rng, (n, inner), dtype), normal(rng, (m, inner), dtype)
    for with_bias in (True, False):
        for of_x, of_weight in ((weight, x), (weight, None), (None, x), (None, None)):
            yield (g_y, of_x, of_weight, (1, m), dtype, with_bias), {}


def add_product_(rng, dtype, m, inner, n):
    yield (normal(rng, (m, n), dtype), normal(rng, (m, inner), dtype), normal(rng, (inner, n), dtype)), {}


def linear(rng, dtype, m, inner, n):
    x, weight, bias = normal(rng, (m, inner), dtype), normal(rng, (n, inner), dtype), normal(rng, n, dtype)
    yield (x, weight, bias), {}
    yield (x, weight, None), {}
    yield (x, weight, bias), {"relu": True}
    yield (x, weight, bias.astype(np.float64)), {}


def linear_of_few(rng, dtype, m, inner, n):
    x, w, bias = normal(rng, (m, inner), dtype), normal(rng, (inner, n), dtype), normal(rng, n, dtype)
    for rows_at_a_time in (None, max(m // 4, 1) if m % 4 == 0 else 1):
        yield (x, w, bias), {"relu": True, "rows_at_a_time": rows_at_a_time}
        yield (x, w, None), {"rows_at_a_time": rows_at_a_time}
        yield (x, np.asfortranarray(w), bias), {"rows_at_a_time": rows_at_a_time}  # a view of [out, in], as weights are


def draw(rng, dtype, *shape):
    for first_row in (0, 3):
        yield (Mask(1, 2, 3, shape, first_row, 6554), (*shape, 1)), {}


def keep_where(rng, dtype, *shape):
    x, keep = normal(rng, shape, dtype), rng.random(shape) < 0.7
    yield (x, keep), {}
    yield (np.where(keep, x, [math.nan, math.inf, -math.inf][len(shape) % 3]).astype(dtype), keep), {}
    yield (x, keep[:1] if len(keep) else keep), {}


def sum_rows(rng, dtype, rows, width):
    yield (normal(rng, (rows, width), dtype),), {}
    yield (rng.integers(-9, 9, (rows, width)).astype(dtype),), {}


def relu(rng, dtype, *shape):
    x = normal(rng, shape, dtype)
    yield (x,), {}
    yield (
        (np.where(x > 1, [math.nan, math.inf, -math.inf][len(shape) % 3], np.where(x < -1, -0.0, x)).astype(dtype),),
        {},
    )


def relu_backward(rng, dtype, *shape):
    y, g_y = np.maximum(normal(rng, shape, dtype), 0), normal(rng, shape, dtype)
    yield (g_y, y), {}
    yield (np.where(y > 0.5, g_y, math.nan).astype(dtype), np.where(y > 1, math.inf, y).astype(dtype)), {}


def dropout(rng, dtype, *shape):
    yield (normal(rng, shape, dtype), rng.random(shape) < 0.7, 65536 / 45875), {}


def layer_norm(rng, dtype, rows, width):
    yield (3 + normal(rng, (rows, width), dtype), *norm_parameters(rng, width, dtype), 1e-6), {}
    yield (normal(rng, (rows, width), dtype), *norm_parameters(rng, width, np.float64), 0.5), {}


def scale_and_shift(rng, dtype, rows, width):
    yield (normal(rng, (rows, width), dtype), *norm_parameters(rng, width, dtype)), {}


def dropout_add_layer_norm(rng, dtype, rows, width):
    x, residual = normal(rng, (rows, width), dtype), 3 + normal(rng, (rows, width), dtype)
    keep = rng.random((rows, width)) < 0.7
    yield (x, residual, keep, 65536 / 45875, *norm_parameters(rng, width, dtype), 1e-6), {}
    yield (x, residual, None, 1.0, *norm_parameters(rng, width, dtype), 1e-6), {}
    yield (x, residual.astype(np.float64), keep, 1.5, *norm_parameters(rng, width, dtype), 1e-6), {}


def layer_norm_backward(rng, dtype, rows, width):
    inverse_std = (0.5 + rng.random((rows, 1))).astype(dtype)
    normalised = normal(rng, (rows, width), dtype)
    yield (normal(rng, (rows, width), dtype), normalised, inverse_std, norm_parameters(rng, width, dtype)[0]), {}


def embedding_backward(rng, dtype, rows, width):
    for vocabulary, index_dtype in ((1, np.int64), (50, np.int64), (200, np.uint8)):  # 200 · width is no uint8
        yield (normal(rng, (rows, width), dtype), rng.integers(0, vocabulary, rows, index_dtype), vocabulary + 2), {}


def attention_masks(rng, b, h, t, s):
    """None, padded keys, a causal triangle, and one of any kind; queries that may attend to nothing among them."""
    yield None
    yield np.arange(s) < rng.integers(0, s + 1, (b, 1, 1, 1))
    yield np.tri(t, s, dtype=bool)
    yield rng.random((b, h, t, s)) < 0.5


def attention(rng, dtype, b, h, t, s, k=3, m=5):
    q, key, v = (normal(rng, (b, h, n, width), dtype) for n, width in ((t, k), (s, k), (s, m)))
    for mask in attention_masks(rng, b, h, t, s):
        yield (q, key, v, mask, None, 1.0, 0.7), {}
    yield (q, key, v, mask, rng.random((b, h, t, s)) < 0.8, 1.25, 0.7), {}


def attention_output(rng, dtype, b, h, t, s, m=5):
    p, v = rng.random((b, h, t, s)).astype(dtype), normal(rng, (b, h, s, m), dtype)
    yield (p, v, None, 1.0), {}
    yield (p, v, rng.random((b, h, t, s)) < 0.8, 1.25), {}


def attention_backward(rng, dtype, b, h, t, s, k=3, m=5):
    q, key, v = (normal(rng, (b, h, n, width), dtype) for n, width in ((t, k), (s, k), (s, m)))
    g_y, p = normal(rng, (b, h, t, m), dtype), rng.random((b, h, t, s)).astype(dtype)
    p[..., :1, :] = 0  # a query that may attend to nothing
    yield (g_y, q, key, v, (p,), None, 1.0, 0.7), {}
    yield (g_y, q, key, v, (p,), rng.random((b, h, t, s)) < 0.8, 1.25, 0.7), {}


def masked_softmax_(rng, dtype, b, h, t, s):
    for mask in attention_masks(rng, b, h, t, s):
        yield (5 * normal(rng, (b, h, t, s), dtype), mask), {}
    yield (normal(rng, (t, s), dtype), np.tri(t, s, dtype=bool)), {}


def softmax_backward_(rng, dtype, b, h, t, s):
    yield (normal(rng, (b, h, t, s), dtype), rng.random((b, h, t, s)).astype(dtype)), {}
    yield (normal(rng, (t, s), dtype), rng.random((t, s)).astype(dtype)), {}


def cross_entropy(rng, dtype, rows, classes):
    for smoothing, offset in ((0.0, 0), (0.1, 200 if dtype == np.float32 else 1000)):  # whose exponential is infinite
        yield (3 * normal(rng, (rows, classes), dtype) + offset, rng.integers(0, classes, rows), smoothing), {}


def linear_cross_entropy(rng, dtype, rows, inner, classes):
    x, weight, bias = (
        normal(rng, (rows, inner), dtype),
        normal(rng, (classes, inner), dtype),
        normal(rng, classes, dtype),
    )
    targets, counted = rng.integers(0, max(classes, 1), rows), rng.random(rows) < 0.7
    factors = rng.random(rows).astype(dtype)
    every, none = (True, True, True), (False, False, False)
    for at_once in (1, 3, None):
        yield (x, weight, bias, targets, counted, factors, every), {"label_smoothing": 0.1, "rows": at_once}
    yield (x, weight, None, targets, counted, None, (True, True, False)), {"label_smoothing": 0.0}
    yield (x, weight, None, targets, counted, None, none), {"label_smoothing": 0.1, "rows": 2}


def normal_distribution(rng, dtype, *shape):
    yield (np.asarray(4 * rng.standard_normal(shape), dtype),), {}


def top_tokens(rng, dtype, rows, classes):
    for logits in (normal(rng, (rows, classes), dtype), rng.integers(0, 9, (rows, classes)).astype(dtype)):  # many ties
        logits[rng.random(logits.shape) < 0.2] = -math.inf
        logits[:, -1] = 1  # a sum of nothing is no number
        some = np.isin(np.arange(classes), [0, 2, classes // 2])
        choices = ((some, 8), (~some, 8), (some & False, 1), (some, 2), (some, classes + 2))
        for barred, count in choices[:5] if rows * classes < 10_000 else choices[:2]:
            yield (logits, barred, min(count, classes)), {}


def scale_rows_(rng, dtype, rows, width):
    few = np.where(rng.random(rows) < 0.1, rng.random(rows), 1)
    for factors in (rng.random(rows), np.zeros(rows), few, few + 1):
        yield (normal(rng, (rows, width), dtype), factors.astype(dtype)), {}


def adam_(rng, dtype, *shape):
    parameter, gradient, m = (normal(rng, shape, dtype) for _ in range(3))
    settings = {"step_size": 0.01, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9}
    for scale in (1.0, 1 / 700):
        yield (parameter, gradient, m, rng.random(shape).astype(dtype)), {**settings, "gradient_scale": scale}


ROWS = [(0, 5), (1, 1), (1, 7), (3, 5), (65, 513)]
ROWS_LARGE = [(900, 160)]  # several blocks, and enough to wake the other threads
PRODUCTS = [(0, 3, 4), (2, 0, 4), (2, 3, 0), (1, 1, 1), (5, 3, 4), (300, 20, 30)]
PRODUCTS_LARGE = [(1900, 50, 70), (2101, 33, 90), (300, 300, 71), (40, 2500, 61), (130, 9000, 33)]
HEADS = [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0), (1, 1, 1, 1), (2, 3, 4, 5), (3, 2, 5, 4)]
FEW_LARGE = [(11, 300, 3003), (4, 2048, 512), (1, 2048, 1100), (23, 700, 1100)]
HEADS_LARGE = [(10, 4, 40, 90)]
KERNELS = {  # name: what it is called with, in small and in large, and for which arguments it overwrites
    "product": (product, PRODUCTS, PRODUCTS_LARGE, ()),
    "products": (products, PRODUCTS, PRODUCTS_LARGE, ()),
    "linear_gradients": (linear_gradients, PRODUCTS, PRODUCTS_LARGE, ()),
    "add_product_": (add_product_, PRODUCTS, [(5001, 60, 150), (1301, 170, 601)], (0,)),
    "linear": (linear, PRODUCTS, [(1900, 50, 70), (2101, 33, 90), (300, 21, 2500)], ()),
    "linear_of_few": (linear_of_few, [*PRODUCTS, (7, 90, 6)], FEW_LARGE, ()),
    "draw": (draw, [*ROWS, (4,), ()], [(900, 703), (1_000_001,)], ()),
    "keep_where": (keep_where, [*ROWS, (4,), (2, 3, 4)], [(900, 160), (140_000,)], ()),
    "dropout": (dropout, [*ROWS, (4,), (2, 3, 4)], [(900, 160), (140_000,)], ()),
    "layer_norm": (layer_norm, ROWS, ROWS_LARGE, ()),
    "dropout_add_layer_norm": (dropout_add_layer_norm, ROWS, ROWS_LARGE, ()),
    "sum_rows": (sum_rows, ROWS, [(900, 160), (140_000, 1)], ()),
    "relu": (relu, [*ROWS, (4,), ()], [(900, 160), (140_000,)], ()),
    "relu_backward": (relu_backward, [*ROWS, (4,), ()], [(900, 160), (140_000,)], ()),
    "relu_backward_sum": (relu_backward, [*ROWS, (4, 0)], ROWS_LARGE, ()),
    "scale_and_shift": (scale_and_shift, ROWS, ROWS_LARGE, ()),
    "layer_norm_backward": (layer_norm_backward, ROWS, ROWS_LARGE, ()),
    "embedding_backward": (embedding_backward, [*ROWS, (4, 0)], ROWS_LARGE, ()),
    "attention": (attention, HEADS, HEADS_LARGE, ()),
    "attention_output": (attention_output, HEADS, HEADS_LARGE, ()),
    "attention_backward": (attention_backward, HEADS, HEADS_LARGE, ()),
    "masked_softmax_": (masked_softmax_, HEADS, HEADS_LARGE, (0,)),
    "softmax_backward_": (softmax_backward_, HEADS, HEADS_LARGE, (0,)),
    "cross_entropy": (cross_entropy, ROWS, ROWS_LARGE, ()),
    "cross_entropy_": (cross_entropy, ROWS, ROWS_LARGE, (0,)),
    "normal_distribution": (normal_distribution, [*ROWS, (4,), ()], [(900, 160), (140_000,)], ()),
    "scale_rows_": (scale_rows_, ROWS, ROWS_LARGE, (0,)),
    "top_tokens": (top_tokens, [*ROWS, (3, 1000), (2, 777)], [(20, 37_000), (900, 700)], ()),
    "adam_": (adam_, [*ROWS, (4,), (2, 3, 4), ()], [(900, 160), (140_000,)], (0, 2, 3)),
}
OF_GPUS = {  # kernels that a CPU computes as they are defined
    "linear_cross_entropy": (linear_cross_entropy, [(0, 3, 4), (1, 1, 1), (5, 3, 4), (7, 20, 70)], [], ()),
}
