"""The kernels that Numba compiles, for contiguous float32: one pass over memory in place of ten.

NumPy's compute what their guards refuse: other layouts and dtypes, and all matrix products but those of few rows, as no
compiler does better than a BLAS.  Results differ from NumPy's by rounding, and do not depend on the number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.fast import compiled_kernels as kernels
from autograd.fast import numpy_training
from autograd.fast.numpy_layers import FEW_INPUTS, FEW_ROWS, SERIAL_PRODUCT
from autograd.fast.numpy_layers import prefers_contiguous as numpy_prefers_contiguous
from autograd.fast.table import entry
from autograd.fast.threads import run_blocks, spread, thread_count

Array = Any
f4, F4, BOOL = np.float32, np.dtype(np.float32), np.dtype(bool)

NO_BIAS, NO_MASK = np.empty(0, f4), np.empty((0, 0), bool)
INFINITY = np.int32(0x7F800000)  # its bits in float32

# ---- Guards ----


def plain(*arrays: Any) -> bool:
    """Contiguous arrays of float32, with something in each."""
    for a in arrays:  # noqa: SIM110 (`all` takes twice as long, and a decoder asks a hundred times a step)
        if a.dtype != F4 or not a.flags.c_contiguous or not a.size:
            return False
    return True


def contiguous(x: Array, *arguments: Any) -> bool:
    """Contiguous float32 with something in it, and others or masks of its shape, of its rows, or (N, 1)."""
    if not plain(x):
        return False
    for a in arguments:
        if isinstance(a, np.ndarray) and not (
            (a.shape == x.shape[-a.ndim :] or a.shape == (len(x), 1))
            and (a.dtype == F4 or a.dtype == BOOL)
            and a.flags.c_contiguous
        ):
            return False
    return True


def within(indices: Array, size: int) -> bool:
    """Whether indices are 0 … size - 1: compiled code would read and write anywhere; NumPy raises an error."""
    return bool(indices.size) and indices.min() >= 0 and indices.max() < size


# ---- Elements ----


@entry("numba", lambda y, bias, relu: bias is not None and contiguous(y, bias))
def add_bias_(y: Array, bias: Array, relu: bool) -> None:
    kernels.add_bias_(y, bias, relu)


@entry("numba", lambda g_y, y, g_x, g_bias: plain(g_y, y) and y.shape == g_y.shape)
def relu_backward_block(g_y: Array, y: Array, g_x: Array, g_bias: Array) -> None:
    kernels.relu_backward_sum(g_y, y.view(np.int32), INFINITY, g_x, g_bias)


@entry("numba")
def adam_parts_(
    parts: Sequence[tuple[Any, ...]], *, step_size: float, beta1: float, beta2: float, eps: float, gradient_scale: float
) -> None:
    numbers = f4(step_size), f4(1 - beta1), f4(1 - beta2), f4(eps), f4(gradient_scale)
    for part in parts:
        *arrays, copy = part
        if copy is None and contiguous(*arrays):  # few calls: there are hundreds of parts
            kernels.adam_(*(arrays if arrays[0].ndim == 1 else [a.reshape(-1) for a in arrays]), *numbers)
        else:
            numpy_training.adam_parts_(
                [part], step_size=step_size, beta1=beta1, beta2=beta2, eps=eps, gradient_scale=gradient_scale
            )


# ---- Products of few rows ----


@entry("numba")
def prefers_contiguous(rows: int, n_in: int) -> bool:
    return rows >= FEW_ROWS and numpy_prefers_contiguous(rows, FEW_INPUTS)


def _few(x: Array, w: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> bool:
    """Fewer than 16 rows, float32, and w a view of contiguous weights."""
    return (
        len(x) < FEW_ROWS
        and plain(x, w.T)
        and x.shape[1] == w.shape[0]
        and (bias is None or (plain(bias) and bias.shape == w.shape[1:]))
    )


@entry("numba", _few)
def linear_of_few(x: Array, w: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
    weight, shifts = w.T, NO_BIAS if bias is None else bias
    y, serial = np.empty((len(x), len(weight)), F4), x.size * len(weight) < SERIAL_PRODUCT
    if serial:  # one call: views and closures take as long as a small product
        kernels.linear_of_few(x, weight, shifts, relu, y)
        return y

    def work(s: slice) -> None:
        kernels.linear_of_few(x, weight[s], shifts if bias is None else shifts[s], relu, y[:, s])

    at_once = kernels.OUTPUTS_AT_A_TIME  # parts of whole groups, for the same bits with any number of threads
    groups = -(-len(weight) // at_once)
    run_blocks(work, len(weight), at_once * -(-groups // (4 * (thread_count() or 1))))
    return y


# ---- Layer normalisation ----


@entry("numba", contiguous)
def layer_norm_block(
    x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float, *results: Array
) -> None:
    given = x[:0] if residual is None else residual, NO_MASK if keep is None else keep
    kernels.layer_norm(x, *given, f4(scale), weight, bias, f4(eps), *results)


entry("numba", contiguous, "scale_and_shift_block")(kernels.scale_and_shift)
entry("numba", contiguous, "layer_norm_backward_block")(kernels.layer_norm_backward)


# ---- Embedding ----


def _of_rows(g_y: Array, indices: Array, rows: int, scale: float = 1.0, drop: Any = None) -> bool:
    """Contiguous float32, and indices inside."""
    return plain(g_y) and len(indices) == len(g_y) and within(indices, rows)


@entry("numba", _of_rows)
def embedding_backward(g_y: Array, indices: Array, rows: int, scale: float = 1.0, drop: Any = None) -> Array:
    g_weight = np.zeros((rows, g_y.shape[1]), f4)
    kernels.add_rows_(g_weight, np.ascontiguousarray(indices, np.intp), g_y)
    if scale != 1:
        g_weight *= f4(scale)
    return g_weight


# ---- Attention ----


@entry("numba", lambda scores, mask, scale: plain(scores))
def softmax_(scores: Array, mask: Array | None, scale: float) -> None:
    kernels.softmax_(scores, _mask_of(mask, scores.shape), mask is not None, f4(scale))


def _mask_of(mask: Array | None, shape: tuple[int, ...]) -> Array:
    """Return the mask as `kernels.softmax_` takes it, contiguous [B or 1, H or 1, T or 1, S]; all True for None.

    Raises: ValueError unless it broadcasts to `shape`, [B, H, T, S]
    """
    if mask is None:
        return np.ones((1, 1, 1, shape[3]), bool)
    np.broadcast_to(mask, shape)
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    return np.ascontiguousarray(np.broadcast_to(mask, (*mask.shape[:3], shape[3])))


@entry("numba", contiguous)
def weights_to_scores_(g: Array, p: Array, scale: float) -> None:
    g_rows, rows = (a.reshape(-1, a.shape[-1]) for a in (g, p))
    kernels.softmax_backward_(g_rows, rows, f4(scale))


# ---- Cross-entropy and search ----


def _of_loss(logits: Array, targets: Array, *_: Any) -> bool:
    """Contiguous float32, and targets inside."""
    return plain(logits) and len(targets) == len(logits) and within(targets, logits.shape[1])


@entry("numba", _of_loss)
def cross_entropy_block(logits: Array, targets: Array, label_smoothing: float, loss: Array, nll: Array) -> None:
    kernels.cross_entropy_(logits, np.ascontiguousarray(targets, np.intp), float(label_smoothing), loss, nll)


def _of_search(logits: Array, barred: Array, count: int) -> bool:
    """Contiguous float32, and as many tokens that are not barred."""
    return plain(logits) and barred.size == logits.shape[1] and count <= barred.size - np.count_nonzero(barred)


@entry("numba", _of_search)
def top_tokens(logits: Array, barred: Array, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = len(logits)
    ids, values, log_total = np.empty((rows, count), np.intp), np.empty((rows, count), f4), np.empty(rows)

    def work(s: slice) -> None:
        kernels.largest_of_rows(logits[s], barred, ids[s], values[s], log_total[s])

    spread(work, rows, logits[0].nbytes)
    return ids, values, log_total
