"""Every kernel at the sizes of a step of base: its numbers against the definition, its time, its share of a copy's rate.

Then each product of a step: Tflop/s with and without its epilogue, and by the eight algorithms that cuBLASLt proposes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from common import LENGTH, ROWS, SMALL, VOCAB, get_backend, gpu_ms, put

from autograd import random
from autograd.backend import CPU
from autograd.fast import cuda_device
from autograd.fast.table import Kernels

TOKENS, WIDTH, HEADS, HEAD = ROWS * LENGTH, 512, 8, 64
ELEMENTS = 5000 if SMALL else 63_000_000  # of all parameters
BF16 = np.dtype("bfloat16")
DROP = {"seed": 1, "step": 2, "site": 3, "drop_below": 6554}
RNG = np.random.default_rng(0)
gpu: Any = get_backend("cuda")
cupy = gpu.xp


def normal(*shape: int, dtype: Any = BF16) -> Any:
    """Random numbers, of which larger arrays repeat the first 2²⁰."""
    size = math.prod(shape)
    some = gpu.asarray(RNG.standard_normal(min(size, 1 << 20), np.float32)).astype(dtype)
    return cupy.tile(some, -(-size // some.size))[:size].reshape(shape)


def wide(a: Any) -> Any:
    """An array in float64."""
    return a.astype(np.float32).astype(np.float64)


def off(ours: Any, exact: Any) -> float:
    """‖ours - exact‖ / ‖exact‖"""
    return float(cupy.linalg.norm((wide(ours) - cupy.asarray(exact)).ravel()) / cupy.linalg.norm(cupy.asarray(exact)))


def row(name: str, work: Callable[[], Any], size: float, errors: Any = None, tolerance: float = 0.01) -> None:
    """Time `work`, which moves `size` bytes."""
    try:
        ms, found = gpu_ms(work), [] if errors is None else errors()
        share = round(size / ms / 1e6 / PEAK, 3)
        right = all(each <= tolerance for each in found)
        put(f"rate, {name}", ms=round(ms, 4), gb_per_s=round(size / ms / 1e6), share=share, off=found, right=right)
    except Exception as error:
        put(f"rate, {name}", error=f"{type(error).__name__}: {error}"[:300], right=False)


# ---- Rows ----


def rows() -> None:
    x, r, g = (normal(TOKENS, WIDTH) for _ in range(3))
    w, b = normal(WIDTH, dtype=np.float32), normal(WIDTH, dtype=np.float32)
    mask, size = random.Mask(shape=x.shape, first_row=0, **DROP), x.nbytes
    keep = cupy.asarray(mask.array())

    def forward(residual: Any = r, drop: Any = mask) -> Any:
        return gpu.dropout_add_layer_norm(x, residual, drop, 1.0, w, b, 1e-6)

    y, hat, inverse = forward()

    def backward(drop: Any = mask) -> Any:
        return gpu.dropout_add_layer_norm_backward(g, hat, inverse, w, drop, 1.0)

    def forward_errors() -> list[float]:
        z = wide(r) + cupy.where(keep, wide(x) * mask.scale, 0)
        exact = (z - z.mean(1, keepdims=True)) / cupy.sqrt(z.var(1, keepdims=True) + 1e-6)
        return [off(y, exact * wide(w) + wide(b)), off(hat, exact)]

    def backward_errors() -> list[float]:
        g_hat, n = wide(g) * wide(w), wide(hat)
        exact = (g_hat - g_hat.mean(1, keepdims=True) - n * (g_hat * n).mean(1, keepdims=True)) * wide(inverse)
        exacts = cupy.where(keep, exact * mask.scale, 0), exact, (wide(g) * n).sum(0), wide(g).sum(0)
        return [off(*each) for each in zip(backward(), exacts, strict=True)]

    row("layer_norm with dropout and residual", forward, 4 * size, forward_errors)
    row("layer_norm alone", lambda: forward(None, None), 3 * size)
    row("layer_norm_backward with dropout", backward, 4 * size, backward_errors)
    row("layer_norm_backward alone", lambda: backward(None), 3 * size)
    row("dropout", lambda: gpu.dropout(x, mask, 1.0), 2 * size)
    before, above = normal(TOKENS, 4 * WIDTH), normal(TOKENS, 4 * WIDTH)

    def relu_errors() -> list[float]:
        exact = cupy.where(above > 0, wide(before), 0)
        return [off(*each) for each in zip(gpu.relu_backward_sum(before, above), (exact, exact.sum(0)), strict=True)]

    row("relu_backward_sum", lambda: gpu.relu_backward_sum(before, above), 3 * before.nbytes, relu_errors)


def attention() -> None:
    q, k, v, g_y = (normal(ROWS, LENGTH, HEADS, HEAD).swapaxes(1, 2) for _ in range(4))
    lengths = np.random.default_rng(0).integers(LENGTH // 2, LENGTH + 1, (ROWS, 1, 1, 1))
    padding, exactly = gpu.asarray(np.arange(LENGTH) < lengths), Kernels(CPU, "numpy")
    for name, allowed in (("no mask", None), ("padding", padding), ("causal", gpu.causal_mask(LENGTH, LENGTH))):

        def forward(allowed: Any = allowed, drop: Any = None) -> Any:
            return gpu.attention(q, k, v, allowed, drop, 1.0, 0.125)

        y, saved = forward()

        def backward(saved: Any = saved) -> Any:
            return gpu.attention_backward(g_y, q, k, v, saved, None, 1.0, 0.125)

        def errors(allowed: Any = allowed, y: Any = y, backward: Any = backward) -> list[float]:
            few = slice(0, 4)
            host = [wide(a[few]).get() for a in (q, k, v, g_y)]
            mask = None if allowed is None else (allowed[few] if allowed.ndim == 4 else allowed).get()
            exact, kept = exactly.attention(*host[:3], mask, None, 1.0, 0.125)
            exacts = exactly.attention_backward(host[3], *host[:3], kept, None, 1.0, 0.125)
            found = [a[few] for a in backward()]
            return [off(y[few], exact), *[off(*each) for each in zip(found, exacts, strict=True)]]

        row(f"attention, {name}", forward, 4 * q.nbytes, errors, 0.02)
        row(f"attention_backward, {name}", backward, 7 * q.nbytes)
    weights = random.Mask(shape=(ROWS, HEADS, LENGTH, LENGTH), first_row=0, **DROP)
    row("attention, causal, dropout of weights", lambda: forward(drop=weights), 4 * q.nbytes)


def losses() -> None:
    logits, targets = normal(TOKENS, VOCAB), gpu.asarray(np.arange(TOKENS, dtype=np.int32) * 97 % VOCAB)
    whole = cupy.empty((2, TOKENS), np.float32)

    def loss(x: Any = logits, ids: Any = targets, into: Any = whole) -> None:
        gpu._launch_loss(x, ids, None, None, *into, x, 0.1)

    def loss_errors() -> list[float]:
        few = min(64, TOKENS)
        mine, ids, found = normal(few, VOCAB), targets[:few], cupy.empty((2, few), np.float32)
        exact, places = wide(mine), (cupy.arange(few), ids)
        total = cupy.log(cupy.exp(exact).sum(1, keepdims=True))
        loss(mine, ids, found)
        gradient = cupy.exp(exact - total) - 0.1 / VOCAB
        gradient[places] -= 0.9
        return [off(found[1], total[:, 0] - exact[places]), off(mine, gradient)]

    row("cross_entropy, in place", loss, 2 * logits.nbytes, loss_errors, 0.02)


def updates() -> None:
    p, m, g, v = (cupy.abs(normal(ELEMENTS, dtype=np.float32)) for _ in range(4))
    settings = {"step_size": 1e-4, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "gradient_scale": 1.0}
    copy = cupy.zeros(ELEMENTS, BF16)
    row("adam_", lambda: gpu.adam_all_([(p, g, m, v, copy)], **settings), 30 * ELEMENTS)
    norm = float((g.astype(np.float64) ** 2).sum())
    norm_errors = lambda: [abs(float(gpu.squared_norm([g])) / norm - 1)]  # noqa: E731
    row("squares", lambda: gpu.squared_norm([g]), 4 * ELEMENTS, norm_errors, 1e-5)


def embedding() -> None:
    targets = gpu.asarray(np.arange(TOKENS, dtype=np.int32) * 97 % VOCAB)
    table, g_y = normal(VOCAB, WIDTH, dtype=np.float32), normal(TOKENS, WIDTH)
    mask = random.Mask(shape=g_y.shape, first_row=0, **DROP)
    size = 3 * g_y.nbytes
    row("embedding with dropout", lambda: gpu.embedding(table, targets, None, 22.6, mask, 1.0, BF16), size)
    zipf = np.minimum(np.random.default_rng(0).zipf(1.2, TOKENS) - 1, VOCAB - 1).astype(np.int32)
    for name, ids in (("uniform", targets), ("Zipf", gpu.asarray(zipf))):

        def backward(ids: Any = ids) -> Any:
            return gpu.embedding_backward(g_y, ids, VOCAB)

        def errors(ids: Any = ids, backward: Any = backward) -> list[float]:
            exact = np.zeros((VOCAB, WIDTH))
            np.add.at(exact, ids.get(), wide(g_y).get())
            return [off(backward(), exact)]

        row(f"embedding backward, {name}", backward, size + 4 * VOCAB * WIDTH, errors, 1e-4)


# ---- Products ----


def product(name: str, m: int, n: int, inner: int, work: Callable[[], Any], epilogue: bool = False) -> None:
    """Time a product by the algorithm that cuBLASLt proposes first, and by seven others."""
    ms: list[float | None] = []
    first = gpu._lt
    for proposal in range(1 if SMALL else 8):
        gpu._lt = cuda_device.Products(gpu._workspace.data.ptr, proposal) if proposal else first
        try:
            ms.append(round(gpu_ms(work), 4))
        except Exception as error:
            put(f"product, {name}", shape=[m, n, inner], error=f"{type(error).__name__}: {error}"[:300])
            break
    gpu._lt = first
    if ms:
        rate = round(2 * m * n * inner / ms[0] / 1e9)  # type: ignore[operator]
        put(f"product, {name}", shape=[m, n, inner], ms=ms[0], tflops=rate, others_ms=ms[1:], epilogue=epilogue)


def products() -> None:
    wide_type = np.dtype(np.float32)
    for out, inner in ((512, 512), (1536, 512), (2048, 512), (512, 2048), (6144, 512), (VOCAB, 512)):
        x, w, g, bias = normal(TOKENS, inner), normal(out, inner), normal(TOKENS, out), normal(out)
        sizes = TOKENS, out, inner
        product("forward", *sizes, lambda x=x, w=w: gpu.product(x, w.T))
        product("gradient of a weight", *sizes, lambda x=x, g=g: gpu.product(g.T, x, wide_type))
        product("gradient of an input", *sizes, lambda w=w, g=g: gpu.product(g, w))
        if out != VOCAB:
            product("forward, BIAS", *sizes, lambda x=x, w=w, bias=bias: gpu.linear(x, w, bias), True)
            row(f"sum of {out} columns", lambda g=g: gpu.sum_rows(g), g.nbytes)
        if out == 2048:
            relu = lambda x=x, w=w, bias=bias: gpu.linear(x, w, bias, True)  # noqa: E731
            product("forward, RELU_BIAS", *sizes, relu, True)
        total = normal(TOKENS, inner)
        product("gradient of an input, added", *sizes, lambda w=w, g=g, t=total: gpu.add_product_(t, g, w))


def copied() -> float:
    """GB/s of a large copy, read and written."""
    pair: Sequence[Any] = [cupy.ones(1 << (12 if SMALL else 28), np.float32) for _ in range(2)]
    rate = 2 * pair[0].nbytes / gpu_ms(lambda: cupy.copyto(*pair)) / 1e6
    put("copy", gb_per_s=round(rate))
    return rate


if __name__ == "__main__":
    gpu.set_precision("bf16")
    PEAK = copied()
    for part in (rows, attention, losses, updates, embedding, products):
        part()
