"""Kernels of training alone in NumPy: products of many rows, loss, gradients and Adam.  See numpy_layers.py

Products are divided among threads where the BLAS library packs least, and bits do not change.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import numpy as np

from autograd.fast.numpy_layers import SERIAL_PRODUCT, heads_last_empty, row_means, weighted_sums
from autograd.fast.table import cpu, entry
from autograd.fast.threads import BLOCK_BYTES, SERIAL_BYTES, blocks_of, in_order, run, run_blocks, spread, thread_count

Array = Any
Places = Sequence[Any]  # for each of several arrays, memory or None

NO_PLACES: Places = (None, None, None)
BITS: dict[Any, Any] = {np.dtype(np.float32): np.dtype(np.int32), np.dtype(np.float64): np.dtype(np.int64)}  # as wide
ROWS_ALIKE = 48  # OpenBLAS computes a row to the same bits in every block whose first row is a multiple of this
ROWS_AT_ONCE = 1920  # of a product, to twice as many: OpenBLAS packs them into memory that it keeps for each thread
BLOCK_PRODUCT = 2_000_000  # multiplications of a block of rows: OpenBLAS has other kernels for less than a million
ADDED_BYTES = 2 * 1024 * 1024  # of a block of rows of a product that is added to another array
COLUMNS_BELOW = 256  # rows of `linear` below which threads divide its columns, and so the weights
WIDE = 8  # times as many columns as rows from which they do so in any `linear`, in as many blocks
LOGITS_BYTES = 64 << 20  # that `linear_cross_entropy` holds in memory

# ---- Products: as few and as large BLAS calls as the threads allow ----


@entry("numpy")
def linear(x: Array, weight: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
    """x Wᵀ + b, or max(x Wᵀ + b, 0) with `relu`, in `dtype` (None: that of x).

    Shapes: x [N, in], weight [out, in], bias [out] or None -> [N, out]
    """
    threads = thread_count()
    if len(x) < COLUMNS_BELOW and threads is not None:
        return cpu.linear_of_few(x, weight.T, bias, relu)
    y = np.empty((len(x), len(weight)), x.dtype)

    def work(rows: slice, columns: slice = slice(None)) -> None:
        out = y[rows, columns]
        np.matmul(x[rows], weight[columns].T, out=out)
        cpu.add_bias_(out, None if bias is None else bias[columns], relu)

    if threads is None or x.size * len(weight) < SERIAL_PRODUCT:
        work(slice(None))
    elif len(weight) >= WIDE * len(x):  # the weights, which the BLAS packs for each block of rows, are most of it
        run_blocks(lambda s: work(slice(None), s), len(weight), -(-len(weight) // WIDE))
    else:
        run(work, _row_blocks(len(x), x.shape[1] * len(weight), x.dtype))
    return y


@entry("numpy")
def product(a: Array, b: Array) -> Array:
    """a b for two matrices.  Shapes: a [M, K], b [K, N] -> [M, N]"""
    return products((a, b))[0]


@entry("numpy")
def products(*factors: tuple[Any, ...]) -> tuple[Array, ...]:
    """a b for each of several pairs (a, b), which threads compute side by side.

    A GPU takes the type of the result, too.
    """
    if thread_count() is None or sum([a.size * b.shape[1] for a, b, *_ in factors]) < SERIAL_PRODUCT:
        return tuple([np.matmul(a, b) for a, b, *_ in factors])
    tasks: list[tuple[Any, ...]] = []  # of all products, so that threads wait for one another once
    found = []
    for a, b, *_ in factors:
        dtype, (m, inner), n = np.result_type(a, b), a.shape, b.shape[1]
        # a short, wide matrix times a tall one: parts of the inner axis, summed in order.  If only the few rows of
        # the result were divided instead, the BLAS would repack all of b in every thread.
        is_small = m * inner * n < SERIAL_PRODUCT
        inner_parts = [slice(0, inner)] if is_small or m >= inner else _parts(inner, 2)
        # shared threads: as many blocks of rows as leave one for each thread
        rows = [slice(0, m)] if is_small else _row_blocks(m, inner * n, dtype, len(inner_parts))
        found.append(np.empty((m, n), dtype))
        sums = [(r, OrderedSum(found[-1][r])) for r in rows]
        tasks += [(a[r, s], b[s], i, total) for i, s in enumerate(inner_parts) for r, total in sums]
    run(lambda task: task[3].add_product(*task[:3]), tasks)
    return tuple(found)


class OrderedSum:
    """The sum of products in the order of their numbers, in `total`; few of them are in memory at once."""

    def __init__(self, total: Array):
        self.total, self.next, self.lock = total, 0, Lock()
        self.waiting: dict[int, Array] = {}

    def add_product(self, a: Array, b: Array, number: int) -> None:
        """Compute product `number`, and add what is not waiting for another one any more."""
        product = np.matmul(a, b, out=None if number else self.total)
        with self.lock:
            self.waiting[number] = product
            while self.next in self.waiting:
                part = self.waiting.pop(self.next)
                if self.next:
                    self.total += part
                self.next += 1


@entry("numpy")
def add_product_(total: Array, a: Array, b: Array) -> Array:
    """total += a b.  Shapes: total [M, N] (overwritten), a [M, K], b [K, N]"""
    (m, inner), n = a.shape, b.shape[1]
    if thread_count() is None or not _computes_rows_alike(total.dtype):
        total += cpu.product(a, b)
        return total

    def work(rows: slice) -> None:  # the product of a block is still in the cache when it is added
        total[rows] += np.matmul(a[rows], b)

    least = -(-BLOCK_PRODUCT // max(1, inner * n))
    block = max(ADDED_BYTES // max(1, n * total.itemsize), least)
    run_blocks(work, m, ROWS_ALIKE * -(-block // ROWS_ALIKE), m * inner * n >= SERIAL_PRODUCT)
    return total


def _row_blocks(rows: int, row_cost: int, dtype: Any, inner_parts: int = 1) -> list[slice]:
    """Blocks of the rows of a product: few, as the BLAS packs the other factor for each.

    One or a few for each thread where the BLAS computes rows alike in any block; otherwise shapes alone must decide.

    row_cost: multiplications of a row
    inner_parts: the parts of the inner axis that threads compute at the same time
    """
    if not _computes_rows_alike(np.dtype(dtype)):
        return _parts(rows, 4)
    count = max((thread_count() or 1) // inner_parts, rows // ROWS_AT_ONCE)
    count = max(1, min(count, rows * row_cost // BLOCK_PRODUCT))
    starts = [ROWS_ALIKE * round(i * rows / (count * ROWS_ALIKE)) for i in range(count)]
    return [slice(a, b) for a, b in itertools.pairwise([*starts, rows]) if a < b]


def _parts(size: int, most: int) -> list[slice]:
    """Parts of an axis of a product: `most`, or more of an axis of more than 2,048 for each.

    Of the inner axis, two, which are summed; of rows, four, so that a thread that starts late delays no whole product.
    """
    return [*blocks_of(size, min(2048, max(128, -(-size // most))))]


@functools.cache
def _computes_rows_alike(dtype: np.dtype) -> bool:
    """Does the BLAS compute a row to the same bits alone and in a larger block that begins at a multiple of ROWS_ALIKE?

    OpenBLAS does: its kernels compute 4 to 16 rows at a time, and those at the end of a block in another order.
    """
    if dtype not in (np.float32, np.float64):
        return False
    from threadpoolctl import threadpool_limits

    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2 * ROWS_ALIKE + 5, 500)).astype(dtype), rng.standard_normal((500, 203)).astype(dtype)
    layouts = ((a, b), (a, np.asfortranarray(b)), (np.asfortranarray(a), b))
    with threadpool_limits(1, user_api="blas"):  # as in `set_threads`; several of its threads divide rows elsewhere
        return all(np.array_equal((a @ b)[ROWS_ALIKE:], a[ROWS_ALIKE:] @ b) for a, b in layouts)


# ---- ReLU, and sums of rows ----


@entry("numpy")
def relu_backward_sum(g_y: Array, y: Array) -> tuple[Array, Array]:
    """g_y where y > 0, else 0, and the sum of its rows.  Shapes: g_y [N, D], y [N, D] -> [N, D], [D]"""
    g_x = np.empty(y.shape, g_y.dtype)
    (g_bias,) = _sums_of_blocks(lambda s, total: cpu.relu_backward_block(g_y[s], y[s], g_x[s], total), g_x, 1)
    return g_x, g_bias


@entry("numpy")
def relu_backward_block(g_y: Array, y: Array, g_x: Array, g_bias: Array) -> None:
    """A block of `relu_backward_sum`."""
    bits = g_x.view(BITS[g_y.dtype])  # NumPy's `where` takes 1.3 to 4 ns an element, this 0.2 to 0.5
    np.negative(y > 0, out=bits, dtype=bits.dtype, casting="unsafe")
    bits &= np.ascontiguousarray(g_y).view(bits.dtype)
    _sum_rows(g_x, g_bias)


@entry("numpy")
def sum_rows(x: Array) -> Array:
    """Σ over the rows.  Shapes: x [N, D] -> [D]"""
    return _sums_of_blocks(lambda s, total: _sum_rows(x[s], total), x, 1)[0]


def _sums_of_blocks(work: Callable[..., None], rows: Array, count: int) -> list[Array]:
    """Call `work` with each block of rows and `count` arrays [D] for its sums; return the sums of all blocks."""
    sums: list[dict[int, Array]] = [{} for _ in range(count)]  # of each block, by its first row

    def block(s: slice) -> None:
        own = [np.empty(rows.shape[1], rows.dtype) for _ in range(count)]
        work(s, *own)
        for each, of_block in zip(sums, own, strict=True):
            each[s.start] = of_block

    spread(block, len(rows), rows.shape[1] * rows.itemsize)
    return [in_order(each) for each in sums]


def _sum_rows(x: Array, total: Array) -> None:
    """Shapes: x [N, D], total [D] (written)"""
    np.matmul(np.ones(len(x), x.dtype), x, out=total)


# ---- Layer normalisation, embedding and attention ----


@entry("numpy")
def dropout_add_layer_norm_backward(
    g_y: Array, normalised: Array, inverse_std: Array, weight: Array, keep: Any, scale: float
) -> tuple[Array, Array, Array, Array]:
    """Shapes: g_y [N, D], x̂ [N, D], 1/σ [N, 1], weight [D] -> g_x [N, D], g_residual [N, D], g_weight [D], g_bias [D]

    Derived in docs/fused-ops.md.
    """
    g_sum = np.empty(g_y.shape, g_y.dtype)

    def work(s: slice, *sums: Array) -> None:
        cpu.layer_norm_backward_block(g_y[s], normalised[s], inverse_std[s], weight, g_sum[s], *sums)

    g_weight, g_bias = _sums_of_blocks(work, g_y, 2)
    return g_sum if keep is None else cpu.dropout(g_sum, keep, scale), g_sum, g_weight, g_bias


@entry("numpy")
def layer_norm_backward_block(
    g_y: Array, normalised: Array, inverse_std: Array, weight: Array, g_sum: Array, g_weight: Array, g_bias: Array
) -> None:
    """A block of `dropout_add_layer_norm_backward`, before dropout."""
    along = g_y * normalised
    _sum_rows(along, g_weight)
    _sum_rows(g_y, g_bias)
    along_x = weighted_sums(along, weight) / g_y.shape[1]
    np.multiply(g_y, weight, out=g_sum)
    g_sum -= row_means(g_sum)
    g_sum -= np.multiply(normalised, along_x, out=along)
    g_sum *= inverse_std


@entry("numpy")
def embedding_backward(g_y: Array, indices: Array, rows: int, scale: float = 1.0, drop: None = None) -> Array:
    """scale · Σ of the gradients of equal indices, in the order of the rows.

    drop: a GPU draws the mask of a dropout of g_y here; a CPU has done it before

    Shapes: g_y [N, D], indices [N] -> [rows, D]
    """
    # `np.add.at` is fast for one axis, and takes a quarter of the time of sorting and `np.add.reduceat`
    width = g_y.shape[1]
    g_weight = np.zeros((rows, width), g_y.dtype)
    flat, columns = g_weight.reshape(-1), np.arange(width)
    indices = indices.astype(np.intp, copy=False)  # narrower integers could not hold a position
    block = max(1, BLOCK_BYTES // max(8 * width, 1))
    for start in range(0, len(indices), block):
        positions = indices[start : start + block, None] * width + columns
        np.add.at(flat, positions.reshape(-1), g_y[start : start + block].reshape(-1))
    if scale != 1:
        g_weight *= scale
    return g_weight


@entry("numpy")
def attention_backward(
    g_y: Array, q: Array, k: Array, v: Array, kept: tuple[Any, ...], keep: Any, keep_scale: float,
    scale: float, places: Places = NO_PLACES,
) -> tuple[Array, Array, Array]:  # fmt: skip
    """Return the gradients of q, k and v, each in the memory of `places` where there is any of its shape and type.

    Shapes: g_y [B, H, T, M], others as in `attention` -> g_q [B, H, T, K], g_k [B, H, S, K], g_v [B, H, S, M]

    Derived in docs/fused-ops.md.
    """
    (p,) = kept
    g_q, g_k, g_v = gradients_of_heads(np, [a.shape for a in (q, k, v)], p.dtype, places)

    def work(some: slice) -> None:
        block, g = p[some], g_y[some]
        factors = None if keep is None else np.multiply(keep[some], p.dtype.type(keep_scale))
        np.matmul((block if factors is None else block * factors).swapaxes(-1, -2), g, out=g_v[some])
        g_p = np.matmul(g, v[some].swapaxes(-1, -2), out=np.empty(block.shape, p.dtype))
        if factors is not None:
            g_p *= factors
        cpu.weights_to_scores_(g_p, block, scale)
        np.matmul(g_p, k[some], out=g_q[some])
        np.matmul(g_p.swapaxes(-1, -2), q[some], out=g_k[some])

    spread(work, len(p), p[0].nbytes)
    return g_q, g_k, g_v


@entry("numpy")
def weights_to_scores_(g: Array, p: Array, scale: float) -> None:
    """Turn the gradient of attention weights into that of q kᵀ, by the thread that computes the block."""
    g -= np.einsum("...s,...s->...", g, p)[..., None]
    g *= p
    g *= scale


def gradients_of_heads(xp: Any, shapes: Sequence[tuple[int, ...]], dtype: Any, places: Places) -> list[Array]:
    """Memory for gradients of these shapes: what `places` gives, or else as `heads_last_empty`."""
    return [
        heads_last_empty(xp, shape, dtype) if place is None or place.shape != shape or place.dtype != dtype else place
        for shape, place in zip(shapes, places, strict=True)
    ]


# ---- Cross-entropy ----


@entry("numpy")
def linear_cross_entropy(
    x: Array, weight: Array, bias: Array | None, targets: Array, counted: Array, factors: Array | None,
    wanted: Sequence[bool], *, label_smoothing: float, rows: int | None = None,
) -> tuple[Array, Array | None, Array | None, Array | None]:  # fmt: skip
    """The cross-entropy of the logits x Wᵀ + b, and the gradients of x, weight and bias, `rows` rows at a time.

    Rows that are not `counted` have loss 0 and no gradient; the others' gradients are multiplied by `factors`.

    Shapes: x [N, D], weight [V, D], bias [V] or None, targets int [N], counted bool [N], factors [N] or None
            -> loss and nll [2, N], g_x [N, D], g_weight [V, D], g_bias [V], None where not wanted
    """
    size, dtype = len(x), x.dtype
    losses = np.zeros((2, size), dtype)
    targets = np.where(counted, targets, 0)  # other rows read column 0
    g_x = np.empty(x.shape, dtype) if wanted[0] else None
    g_weight = g_bias = None
    blocks = -(-size // max(1, rows or LOGITS_BYTES // (len(weight) * dtype.itemsize)))  # of equal size
    for some in blocks_of(size, rows or -(-size // blocks)):
        logits = cpu.linear(x[some], weight, bias)
        losses[:, some] = np.where(counted[some], cpu.cross_entropy_(logits, targets[some], label_smoothing), 0)
        if any(wanted):
            logits[~counted[some]] = 0  # now they are gradients
            if factors is not None:
                logits *= np.where(counted[some], factors[some], 1)[:, None]
            if g_x is not None:
                g_x[some] = cpu.product(logits, weight)
            if wanted[1] and some.start:
                g_weight = cpu.add_product_(g_weight, logits.T, x[some])  # [V, n] @ [n, D] -> [V, D]
            elif wanted[1]:
                g_weight = cpu.product(logits.T, x[some])
            if wanted[2]:
                part = cpu.sum_rows(logits)
                g_bias = part if g_bias is None else np.add(g_bias, part, out=g_bias)
        del logits  # before the next block's; no view of it may be left
    return losses, g_x, g_weight, g_bias


@entry("numpy")
def cross_entropy_(logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
    """Row losses against (1 - ε) · one-hot + ε / V (section 5.4), and row negative log-likelihoods.

    The logits become the gradient of each row's loss: softmax - (1 - ε) · one-hot - ε / V.  Forward and backward pass
    need the same exponentials, of the largest array of a training step: computed once.  Derived in docs/fused-ops.md.

    Shapes: logits [N, V] (overwritten), targets [N] -> loss [N], nll [N]
    """
    loss, nll = np.empty(len(logits), logits.dtype), np.empty(len(logits), logits.dtype)

    def work(s: slice) -> None:
        cpu.cross_entropy_block(logits[s], targets[s], label_smoothing, loss[s], nll[s])

    spread(work, len(logits), logits.shape[1] * logits.itemsize)
    return loss, nll


@entry("numpy")
def cross_entropy_block(logits: Array, targets: Array, label_smoothing: float, loss: Array, nll: Array) -> None:
    """A block of `cross_entropy_`."""
    at = np.arange(len(logits)), targets
    logits -= logits.max(axis=1, keepdims=True)
    at_target = logits[at]
    mean = logits.mean(axis=1) if label_smoothing else 0
    np.exp(logits, out=logits)
    total = logits.sum(axis=1)
    log_total = np.log(total)
    nll[:] = log_total - at_target
    loss[:] = (1 - label_smoothing) * nll + label_smoothing * (log_total - mean)
    logits *= (1 / total)[:, None]
    if label_smoothing:
        logits -= label_smoothing / logits.shape[1]
    logits[at] -= 1 - label_smoothing


# ---- Optimizer ----

Update = tuple[Array, Array, Array, Array, Array | None]


@entry("numpy")
def adam_all_(updates: Sequence[Update], **settings: float) -> None:
    """One Adam update of many arrays (Kingma & Ba 2015, Algorithm 1): (parameter, gradient, m, v, copy or None).

    m ← β₁ m + (1 - β₁) g;  v ← β₂ v + (1 - β₂) g²;  parameter ← parameter - step_size · m / (√v + eps)

    Bias corrections are folded into `step_size` and `eps`.  A copy, of the new parameter, is in lower precision.
    """
    parts = [part for update in updates for part in _parts_of(update)]
    worth_waking = sum(part[0].nbytes for part in parts) >= SERIAL_BYTES
    run_blocks(lambda s: cpu.adam_parts_(parts[s], **settings), len(parts), 4, worth_waking)


def _parts_of(update: Update) -> list[Any]:
    """Parts of the arrays of `adam_all_`, each too small to divide: those of all parameters wake the threads once."""
    if update[0].nbytes < SERIAL_BYTES or not all(a is None or a.flags.c_contiguous for a in update):
        return [update]
    some = blocks_of(update[0].size, max(1, (SERIAL_BYTES - 1) // update[0].itemsize))
    return [tuple([None if a is None else a.reshape(-1)[s] for a in update]) for s in some]


@entry("numpy")
def adam_parts_(
    parts: Sequence[Update], *, step_size: float, beta1: float, beta2: float, eps: float, gradient_scale: float
) -> None:
    """`adam_all_` in one thread, of parts that are too small to divide."""
    for parameter, gradient, m, v, copy in parts:
        g = gradient * gradient_scale
        step = g - m
        step *= 1 - beta1
        m += step
        g *= g
        g -= v
        g *= 1 - beta2
        v += g
        step = np.sqrt(v)
        step += eps
        step = m / step
        step *= step_size
        parameter -= step
        if copy is not None:
            copy[...] = parameter


@entry("numpy")
def parted(a: Array, sizes: Sequence[int]) -> list[Array]:
    """The rows of a contiguous array as several arrays, in its memory.  Shapes: [Σ N_i, ...] -> [N_i, ...]"""
    return [a[end - size : end] for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]


@entry("numpy")
def gather_(gradients: Sequence[tuple[Array, Array, bool]]) -> None:
    """Write or add many gradients to their places: (place, gradient, whether it is added)."""
    for place, gradient, adds in gradients:
        if adds:
            place += gradient
        else:
            place[...] = gradient


@entry("numpy")
def squared_norm(arrays: Sequence[Array]) -> float:
    """Σ x² over all elements: pieces in the arrays' precision, their sum in float64."""
    total = 0.0
    for array in arrays:
        flat = array.reshape(-1)
        # a float32 dot product in pieces: exact enough, and without a float64 copy of the array
        total += math.fsum(float(piece @ piece) for piece in np.array_split(flat, -(-flat.size // 65536) or 1))
    return total
