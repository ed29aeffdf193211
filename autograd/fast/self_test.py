"""Start-up self-test: every kernel and epilogue of a GPU against NumPy's kernels in float64, on small arrays.

A driver, a library or a card may compute wrong without a word.  What does is named, and the plain op or another launch
takes its place.  AUTOGRAD_SELF_TEST=0 leaves this out.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from autograd import random
from autograd.backend import CPU
from autograd.fast.cuda_graphs import CudaGraphs
from autograd.fast.table import Kernels

Array = Any
TOLERANCES = {"double": 1e-10, "float": 1e-4, "bf16": 0.03}  # of the largest number of a result
TF32 = 0.01
EXACT = Kernels(CPU, "numpy")


def run(gpu: Any, kind: str, dtype: Any, wide: Any) -> None:
    """Test what computes arrays of `dtype`, with statistics in `wide`; `gpu.wrong` gets the names of what is wrong.

    Raises: ValueError if something is wrong in whose place nothing right is found
    """
    if os.environ.get("AUTOGRAD_SELF_TEST") == "0":
        return
    tolerance = TF32 if gpu.tf32 else TOLERANCES[kind]
    for name, check in CHECKS.items():
        how = _fault(check, gpu, dtype, wide, tolerance)
        if how is None:
            continue
        gpu.wrong.add(name)
        still = None if name in REPLACED else _fault(check, gpu, dtype, wide, tolerance)
        said = f"cuda:{gpu.index} computes {name} wrong in {kind}: {how}"
        if still is not None:
            raise ValueError(f"{said}; what is computed in its place is wrong, too: {still}")
        warnings.warn(f"{said}; it is not used", stacklevel=2)


def _fault(check: Callable[..., Any], gpu: Any, dtype: Any, wide: Any, tolerance: float) -> str | None:
    try:
        for ours, exact in check(gpu, _Arrays(gpu, dtype, wide)):
            off = np.abs(gpu.to_host(ours).astype(np.float64) - exact).max() / np.abs(exact).max()
            if not off <= tolerance:
                return f"off by {off:.2g} of the largest number"
    except Exception as error:  # whatever it is, it is not the result
        return f"{type(error).__name__}: {error}"
    return None


class _Arrays:
    """Random numbers that `dtype` holds exactly: on the GPU, and in float64 on the host."""

    def __init__(self, gpu: Any, dtype: Any, wide: Any):
        self.gpu, self.dtype, self.wide = gpu, dtype, wide
        self.rng = np.random.default_rng(0)

    def __call__(self, *shape: int, dtype: Any = None) -> tuple[Array, np.ndarray]:
        host = self.rng.standard_normal(shape).astype(dtype or self.dtype)
        return self.gpu.asarray(host), host.astype(np.float64)

    def indices(self, below: int, *shape: int) -> tuple[Array, np.ndarray]:
        host = self.rng.integers(0, below, shape).astype(np.int32)
        return self.gpu.asarray(host), host


Results = Iterator[tuple[Array, np.ndarray]]


def _mask(*shape: int) -> random.Mask:
    return random.Mask(seed=1, step=2, site=3, shape=shape, first_row=1, drop_below=20_000)


def _product(gpu: Any, give: _Arrays) -> Results:
    (a, exact_a), (b, exact_b) = give(37, 72), give(72, 40)
    yield gpu.product(a, b), exact_a @ exact_b
    yield gpu.product(a, b, give.wide), exact_a @ exact_b


def _bias(gpu: Any, give: _Arrays, relu: bool = False) -> Results:
    (x, exact_x), (w, exact_w), (b, exact_b) = give(37, 72), give(40, 72), give(40)
    yield gpu.linear(x, w, b, relu), EXACT.linear(exact_x, exact_w, exact_b, relu)


def _bias_gradient(gpu: Any, give: _Arrays) -> Results:
    (g, exact_g), (x, exact_x) = give(64, 40), give(64, 72)
    found = gpu.linear_gradients(g, None, x, np.dtype(give.wide), True)
    yield from zip(found[1:], EXACT.linear_gradients(exact_g, None, exact_x, None, True)[1:], strict=True)


def _relu_mask(gpu: Any, give: _Arrays) -> Results:
    """ReLU, and the gradient before it in the product after it."""
    (x, exact_x), (w, exact_w), (b, exact_b) = give(37, 72), give(40, 72), give(40)
    (g, exact_g), (v, exact_v) = give(37, 24), give(24, 40)
    y, mask = gpu.linear_relu(x, w, b)
    exact = EXACT.linear(exact_x, exact_w, exact_b, True)
    yield y, exact
    g_y = None if mask is None else gpu.masked_product(g, v, mask)[0]
    if g_y is not None:
        yield g_y, EXACT.relu_backward(exact_g @ exact_v, exact)


def _bias_kernel(gpu: Any, give: _Arrays) -> Results:
    """Add a bias by a kernel, without the epilogues that would do the same."""
    (x, exact_x), (w, exact_w), (b, exact_b) = give(37, 72), give(40, 72), give(40, dtype=give.wide)
    wrong = gpu.wrong
    gpu.wrong = wrong | {"BIAS", "RELU_BIAS"}
    try:
        y = gpu.linear(x, w, b, True)
    finally:
        gpu.wrong = wrong
    yield y, EXACT.linear(exact_x, exact_w, exact_b, True)


def _dropout(gpu: Any, give: _Arrays) -> Results:
    x, exact = give(37, 41)
    mask = _mask(37, 41)
    yield gpu.dropout(x, mask, mask.scale), EXACT.dropout(exact, mask.array(), mask.scale)


def _layer_norm(gpu: Any, give: _Arrays) -> Results:
    for width in (40, 512):
        (x, exact_x), (r, exact_r) = give(37, width), give(37, width)
        (w, exact_w), (b, exact_b) = give(width, dtype=give.wide), give(width, dtype=give.wide)
        mask = _mask(37, width)
        found = gpu.dropout_add_layer_norm(x, r, mask, mask.scale, w, b, 1e-6)
        exact = EXACT.dropout_add_layer_norm(exact_x, exact_r, mask.array(), mask.scale, exact_w, exact_b, 1e-6)
        yield from zip(found, exact, strict=True)


def _layer_norm_backward(gpu: Any, give: _Arrays) -> Results:
    for width in (40, 512):
        (g, exact_g), (n, exact_n), (w, exact_w) = give(37, width), give(37, width), give(width, dtype=give.wide)
        s, exact_s = give(37, 1, dtype=give.wide)
        mask = _mask(37, width)
        found = gpu.dropout_add_layer_norm_backward(g, n, s, w, mask, mask.scale)
        exact = EXACT.dropout_add_layer_norm_backward(exact_g, exact_n, exact_s, exact_w, mask.array(), mask.scale)
        yield from zip(found, exact, strict=True)


def _embedding(gpu: Any, give: _Arrays) -> Results:
    (w, exact_w), (i, exact_i), mask = give(50, 40, dtype=give.wide), give.indices(50, 6, 7), _mask(6, 7, 40)
    exact = EXACT.embedding(exact_w, exact_i, None, 2.0, mask.array(), mask.scale)
    yield gpu.embedding(w, i, None, 2.0, mask, mask.scale, give.dtype), exact


def _embedding_backward(gpu: Any, give: _Arrays) -> Results:
    (g, exact_g), (i, exact_i), mask = give(99, 40), give.indices(5, 99), _mask(99, 40)
    kept = EXACT.dropout(exact_g, mask.array(), mask.scale)
    yield gpu.embedding_backward(g, i, 7, 1.5, mask), EXACT.embedding_backward(kept, exact_i, 7, 1.5)


def _column_sum(gpu: Any, give: _Arrays) -> Results:
    (g, exact_g), (y, exact_y) = give(200, 40), give(200, 40)
    yield gpu.sum_rows(g), EXACT.sum_rows(exact_g)
    yield from zip(gpu.relu_backward_sum(g, y), EXACT.relu_backward_sum(exact_g, exact_y), strict=True)


def _attention(gpu: Any, give: _Arrays) -> Results:
    """More than a tile of queries and of keys; the last keys are padding."""
    (q, exact_q), (k, exact_k), (v, exact_v), (g, exact_g) = (give(1, 2, 70, 64) for _ in range(4))
    keep = np.tri(70, dtype=bool) & (np.arange(70) < 68)
    mask, given = _mask(1, 2, 70, 70), gpu.asarray(keep)
    found, kept = gpu.attention(q, k, v, given, mask, mask.scale, 0.125)
    exact, exact_kept = EXACT.attention(exact_q, exact_k, exact_v, keep, mask.array(), mask.scale, 0.125)
    yield found, exact
    yield from zip(
        gpu.attention_backward(g, q, k, v, kept, mask, mask.scale, 0.125),
        EXACT.attention_backward(exact_g, exact_q, exact_k, exact_v, exact_kept, mask.array(), mask.scale, 0.125),
        strict=True,
    )


def _cross_entropy(gpu: Any, give: _Arrays) -> Results:
    (x, exact_x), (w, exact_w), (t, exact_t) = give(37, 40), give(300, 40), give.indices(300, 37)
    (f, exact_f), counted = give(37, dtype=give.wide), np.arange(37) % 5 > 0
    everything = (True, True, False)
    found = gpu.linear_cross_entropy(x, w, None, t, gpu.asarray(counted), f, everything, label_smoothing=0.1)
    exact = EXACT.linear_cross_entropy(
        exact_x, exact_w, None, exact_t, counted, exact_f, everything, label_smoothing=0.1
    )
    yield from zip(found[:3], exact[:3], strict=True)


def _adam(gpu: Any, give: _Arrays) -> Results:
    (p, exact_p), (g, exact_g), (m, exact_m), (v, exact_v) = (give(30, 40, dtype=give.wide) for _ in range(4))
    v, exact_v = abs(v), abs(exact_v)
    copy = None if give.dtype == give.wide else gpu.xp.zeros((30, 40), give.dtype)
    settings = {"step_size": 0.1, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "gradient_scale": 0.5}
    gpu.adam_all_([(p, g, m, v, copy)], **settings)
    EXACT.adam_all_([(exact_p, exact_g, exact_m, exact_v, None)], **settings)
    yield from ((p, exact_p), (m, exact_m), (v, exact_v), (p if copy is None else copy, exact_p))


def _gather(gpu: Any, give: _Arrays) -> Results:
    (p, exact_p), (g, exact_g), (q, _) = (give(30, 40, dtype=give.wide) for _ in range(3))
    gpu.gather_([(p, g, True), (q, g, False)])
    yield from ((p, exact_p + exact_g), (q, exact_g))


def _squares(gpu: Any, give: _Arrays) -> Results:
    (a, exact_a), (b, exact_b) = give(300, 300, dtype=give.wide), give(7, dtype=give.wide)
    yield gpu.squared_norm([a, b]), np.asarray((exact_a**2).sum() + (exact_b**2).sum())


def _top_tokens(gpu: Any, give: _Arrays) -> Results:
    x, exact = give(5, 300, dtype=give.wide)
    barred = np.arange(300) < 3
    ids, values, total = gpu.top_tokens(x, gpu.asarray(barred), 4)
    for ours, theirs in zip((ids, values, total), EXACT.top_tokens(exact, barred, 4), strict=True):
        yield gpu.asarray(ours), theirs


def _graphs(gpu: Any, give: _Arrays) -> Results:
    """A product and a mask, captured in one step and repeated in another."""
    if not gpu.uses_epilogues:  # and therefore no graphs
        return
    (x, exact_x), (w, exact_w) = give(37, 41), give(41, 40)
    mask, graphs = _mask(37, 41), CudaGraphs(gpu)

    def compute() -> Array:
        return gpu.product(gpu.dropout(x, mask, mask.scale), w)

    compute()
    graph = graphs.capture(compute, mask.step)
    for step in (5, mask.step):
        kept = random.Mask(mask.seed, step, mask.site, mask.shape, mask.first_row, mask.drop_below).array()
        yield graphs.repeat(graph, step), EXACT.product(EXACT.dropout(exact_x, kept, mask.scale), exact_w)


CHECKS: dict[str, Callable[[Any, _Arrays], Results]] = {  # what others are made of comes first
    "products": _product,
    "dropout": _dropout,
    "column_sum": _column_sum,
    "bias_": _bias_kernel,
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "embedding": _embedding,
    "embedding_backward": _embedding_backward,
    "attention": _attention,
    "cross_entropy": _cross_entropy,
    "adam_": _adam,
    "gather_": _gather,
    "squares": _squares,
    "top_tokens": _top_tokens,
    "BIAS": _bias,
    "RELU_BIAS": lambda gpu, give: _bias(gpu, give, relu=True),
    "RELU_MASK": _relu_mask,
    "BIAS_GRADIENT": _bias_gradient,
    "CUDA graphs": _graphs,
}
REPLACED = {"layer_norm", "layer_norm_backward", "embedding", "embedding_backward", "attention", "cross_entropy"} | {
    "CUDA graphs"
}
"""The kernels in whose place plain ops run if they compute wrong, and CUDA graphs, without which steps run too."""
