"""Start-up self-test: every kernel and epilogue of a GPU against NumPy's kernels in float64, on small arrays.

A driver, a library or a card may compute wrong without a word.  One that does is refused, with the names of what is
wrong.  AUTOGRAD_SELF_TEST=0 leaves this out.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from autograd import random
from autograd.backend import CPU
from autograd.fast.cuda_graphs import CaptureError, CudaGraphs
from autograd.fast.table import Kernels

Array = Any
TOLERANCES = {"double": 1e-10, "float": 1e-4, "bf16": 0.03}  # of the largest number of a result
TF32 = 0.01
EXACT = Kernels(CPU, "numpy")


def run(gpu: Any, kind: str, dtype: Any, wide: Any) -> None:
    """Test what computes arrays of `dtype`, with statistics in `wide`.

    Raises: ValueError if something computes wrong
    """
    if os.environ.get("AUTOGRAD_SELF_TEST") == "0":
        return
    tolerance = TF32 if gpu.tf32 else TOLERANCES[kind]
    faults = [(name, _fault(check, gpu, dtype, wide, tolerance)) for name, check in CHECKS.items()]
    wrong = "; ".join([f"{name}: {how}" for name, how in faults if how is not None])
    if wrong:
        raise ValueError(
            f"cuda:{gpu.index} computes wrong in {kind}: {wrong}. Update driver, CuPy and nvmath-python, or compute "
            "with CuPy's functions alone (AUTOGRAD_PLAIN=1), or as it is (AUTOGRAD_SELF_TEST=0)"
        )


def _fault(check: Callable[..., Any], gpu: Any, dtype: Any, wide: Any, tolerance: float) -> str | None:
    try:
        ours, exact = check(gpu, _Arrays(gpu, dtype, wide)), check(EXACT, _Arrays(None, dtype, wide))
        for a, b in zip(ours, exact, strict=True):
            off = np.abs(np.asarray(gpu.to_host(gpu.asarray(a)), np.float64) - b).max() / np.abs(b).max()
            if not off <= tolerance:
                return f"off by {off:.2g} of the largest number"
    except Exception as error:  # whatever it is, it is not the result
        return f"{type(error).__name__}: {error}"
    return None


class _Arrays:
    """Random numbers that `dtype` holds exactly: on a GPU, or the same in float64 on the host."""

    def __init__(self, gpu: Any, dtype: Any, wide: Any):
        self.gpu, self.dtype, self.rng = gpu, dtype, np.random.default_rng(0)
        self.result: Any = None if gpu is None else dtype  # types of results; None: float64
        self.wide: Any = None if gpu is None else np.dtype(wide)
        self._wide = wide

    def __call__(self, *shape: int, wide: bool = False) -> Array:
        host = self.rng.standard_normal(shape).astype(self._wide if wide else self.dtype)
        return host.astype(np.float64) if self.gpu is None else self.gpu.asarray(host)

    def indices(self, below: int, *shape: int) -> Array:
        return self.given(self.rng.integers(0, below, shape).astype(np.int32))

    def given(self, host: Array) -> Array:
        return host if self.gpu is None else self.gpu.asarray(host)


Check = Callable[[Any, _Arrays], Any]
"""(kernels, arrays) -> arrays that the kernels compute: those of a GPU, and EXACT"""


def _mask(kernels: Any, *shape: int, step: int = 2) -> tuple[Any, float]:
    """A dropout mask as the kernels take it, and its scale."""
    mask = random.Mask(seed=1, step=step, site=3, shape=shape, first_row=1, drop_below=20_000)
    return kernels.draw(mask, shape), mask.scale


def _relu(kernels: Any, give: _Arrays) -> Any:
    """ReLU, and the gradient before it."""
    y = kernels.linear(give(37, 72), give(40, 72), give(40), True)
    return [y, *kernels.relu_backward_sum(give(37, 40), y), kernels.sum_rows(give(70, 600))]


def _layer_norm(kernels: Any, give: _Arrays) -> Any:
    results: list[Array] = []
    for width in (40, 512):
        rows, norm = (give(37, width), give(37, width)), (give(width, wide=True), give(width, wide=True))
        results += kernels.dropout_add_layer_norm(*rows, *_mask(kernels, 37, width), *norm, 1e-6)
    return results


def _layer_norm_backward(kernels: Any, give: _Arrays) -> Any:
    results: list[Array] = []
    for width in (40, 512):
        rows, norm = (give(37, width), give(37, width)), (give(37, 1, wide=True), give(width, wide=True))
        results += kernels.dropout_add_layer_norm_backward(*rows, *norm, *_mask(kernels, 37, width))
    return results


def _embedding_backward(kernels: Any, give: _Arrays) -> Any:
    g, indices, (keep, scale) = give(99, 40), give.indices(5, 99), _mask(kernels, 99, 40)
    if give.gpu is None:
        g, keep = kernels.dropout(g, keep, scale), None  # which a GPU draws where it adds
    return [kernels.embedding_backward(g, indices, 7, 1.5, keep)]


def _attention(kernels: Any, give: _Arrays) -> Any:
    """One tile of queries and of keys, and more; the last keys are padding."""
    results: list[Array] = []
    for n in (50, 70):
        *inputs, g = (give(1, 2, n, 64) for _ in range(4))
        keep, mask = give.given(np.tri(n, dtype=bool) & (np.arange(n) < n - 2)), _mask(kernels, 1, 2, n, n)
        y, kept = kernels.attention(*inputs, keep, *mask, 0.125)
        results += [y, *kernels.attention_backward(g, *inputs, kept, *mask, 0.125)]
    return results


def _cross_entropy(kernels: Any, give: _Arrays) -> Any:
    x, weight, targets, factors = give(37, 40), give(300, 40), give.indices(300, 37), give(37, wide=True)
    counted, wanted = give.given(np.arange(37) % 5 > 0), (True, True, False)
    return kernels.linear_cross_entropy(x, weight, None, targets, counted, factors, wanted, label_smoothing=0.1)[:3]


def _gather(kernels: Any, give: _Arrays) -> Any:
    sums, written = give(30, 40, wide=True), give(30, 40, wide=True)
    kernels.gather_([(sums, give(30, 40, wide=True), True), (written, give(30, 40, wide=True), False)])
    return [sums, written]


def _adam(kernels: Any, give: _Arrays) -> Any:
    p, g, m, v = (give(30, 40, wide=True) for _ in range(4))
    v = abs(v)
    copy = kernels.xp.zeros((30, 40), give.dtype) if give.gpu and give.dtype != give.wide else None
    settings = {"step_size": 0.1, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "gradient_scale": 0.5}
    kernels.adam_all_([(p, g, m, v, copy)], **settings)
    return [p, m, v, p if copy is None else copy]


def _graphs(kernels: Any, give: _Arrays) -> Any:
    """A product and a mask, captured in one step and repeated in another."""
    x, w = give(37, 41), give(41, 40)

    def compute(step: int) -> Array:
        return kernels.product(kernels.dropout(x, *_mask(kernels, 37, 41, step=step)), w)

    if give.gpu is None or not kernels.uses_epilogues:  # and therefore no graphs
        return [compute(5), compute(2)]
    graphs, first = CudaGraphs(kernels), [compute(5), compute(2)]
    try:
        graph = graphs.capture(lambda: compute(2), 2)
    except CaptureError:  # steps run without graphs, which a warning will say
        return first
    return [graphs.repeat(graph, step).copy() for step in (5, 2)]


CHECKS: dict[str, Check] = {
    "products": lambda k, give: [k.product(give(37, 72), give(72, 40), *([give.wide] if give.gpu else []))],
    "dropout": lambda k, give: [k.dropout(give(37, 41), *_mask(k, 37, 41))],
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "relu_backward_sum": _relu,
    "embedding": lambda k, give: [
        k.embedding(give(50, 40, wide=True), give.indices(50, 6, 7), None, 2.0, *_mask(k, 6, 7, 40), give.result)
    ],
    "embedding_backward": _embedding_backward,
    "attention": _attention,
    "cross_entropy": _cross_entropy,
    "adam_": _adam,
    "gather_": _gather,
    "squares": lambda k, give: [k.squared_norm([give(300, 300, wide=True), give(7, wide=True)])],
    "top_tokens": lambda k, give: k.top_tokens(give(5, 300, wide=True), give.given(np.arange(300) < 3), 4),
    "BIAS": lambda k, give: [k.linear(give(37, 72), give(40, 72), give(40))],
    "RELU_BIAS": lambda k, give: [k.linear(give(37, 72), give(40, 72), give(40), True)],
    "CUDA graphs": _graphs,
}
