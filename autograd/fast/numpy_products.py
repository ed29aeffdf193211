"""Matrix products on the CPU: divided among threads where the BLAS library packs least, and bits do not change."""

from __future__ import annotations

import ctypes
import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.fast.table import cpu, entry
from autograd.fast.threads import BLOCK_BYTES, blocks_of, in_order, run, run_blocks, thread_count

Array = Any

SERIAL_PRODUCT = 2_000_000  # multiplications below which waking another thread costs more than it saves
ROWS_ALIKE = 48  # OpenBLAS computes a row to the same bits in every block whose first row is a multiple of this
BLOCK_PRODUCT = 2_000_000  # multiplications of a block of rows: OpenBLAS has other kernels for less than a million
ADDED_BYTES = 2 * 1024 * 1024  # of a block of rows of a product that is added to another array
COLUMNS_BELOW = 256  # rows of `linear` below which threads divide its columns, and so the weights
WIDE = 8  # times as many columns as rows from which they do so in any `linear`, in as many blocks
MATMUL_SHARES = 512  # elements of a result below which NumPy's matmul keeps the interpreter lock; its dot never does
FEW_ROWS = 16  # rows of `linear_of_few` from which large blocks of weights are faster
TURNED_ROWS = {True: 96, False: 32}  # of `linear_of_few`, with AVX-512 or not, up to which w.T is the first factor
CONTIGUOUS_ROWS = 48  # from which a contiguous copy of w is the faster second factor, with AVX-512
FEW_INPUTS = 512  # weights of a row of w.T below which OpenBLAS packs products of a few rows after all
FEW_PRODUCTS = 2**19  # multiplications of a block with few rows, where the BLAS has kernels for small products

NO_BYTES: Any = ctypes.c_char * 0


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
    tasks: list[tuple[Array, ...]] = []  # of all products, so that threads wait for one another once
    found = []
    for a, b, *_ in factors:
        dtype, (m, inner), n = np.result_type(a, b), a.shape, b.shape[1]
        # a short, wide matrix times a tall one: parts of the inner axis, summed in order.  If only the few rows of
        # the result were divided instead, the BLAS would repack all of b in every thread.
        is_small = m * inner * n < SERIAL_PRODUCT
        inner_parts = [slice(0, inner)] if is_small or m >= inner else _parts(inner, 2)
        # shared threads: as many blocks of rows as leave one for each thread
        rows = [slice(0, m)] if is_small else _row_blocks(m, inner * n, dtype, len(inner_parts))
        parts = {s.start: np.empty((m, n), dtype) for s in inner_parts}
        tasks += [(a[r, s], b[s], parts[s.start][r]) for s in inner_parts for r in rows]
        found.append(parts)
    run(lambda task: np.matmul(task[0], task[1], out=task[2]), tasks)
    return tuple([in_order(parts) for parts in found])


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
def add_bias_(y: Array, bias: Array | None, relu: bool) -> None:
    """y + bias, or max(y + bias, 0), by the thread that has y in its cache.  Shapes: y [N, D], bias [D]"""
    for some in blocks_of(len(y), max(1, BLOCK_BYTES // max(1, y.shape[1] * y.itemsize))):
        if bias is not None:
            y[some] += bias
        if relu:
            np.maximum(y[some], 0, out=y[some])


def _row_blocks(rows: int, row_cost: int, dtype: Any, inner_parts: int = 1) -> list[slice]:
    """Blocks of the rows of a product: few, as the BLAS packs the other factor for each.

    One for each thread where the BLAS computes rows alike in any block; otherwise shapes alone must decide.

    row_cost: multiplications of a row
    inner_parts: the parts of the inner axis that threads compute at the same time
    """
    if not _computes_rows_alike(np.dtype(dtype)):
        return _parts(rows, 4)
    count = max(1, min((thread_count() or 1) // inner_parts, rows * row_cost // BLOCK_PRODUCT))
    starts = [ROWS_ALIKE * round(i * rows / (count * ROWS_ALIKE)) for i in range(count)]
    return [slice(a, b) for a, b in itertools.pairwise([*starts, rows]) if a < b]


# ---- Few rows and many weights, as in decoding ----


@entry("numpy")
def prefers_contiguous(rows: int, n_in: int) -> bool:
    """Whether `linear_of_few` is faster with w contiguous as [in, out], and not a view of [out, in]."""
    return rows >= (CONTIGUOUS_ROWS if _has_small_kernels() else 0) or (rows > 1 and n_in < FEW_INPUTS)


@entry("numpy")
def linear_of_few(x: Array, w: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
    """`linear` for few rows and many weights, as in decoding, with the weights as [in, out].

    Shapes: x [R, in], w [in, out], bias [out] or None -> [R, out]
    """
    (rows, n_in), n_out = x.shape, w.shape[1]
    weights = n_in * n_out
    if weights <= 2**17 and rows * weights <= FEW_PRODUCTS:  # one block
        y = np.dot(x, w) if rows * n_out < MATMUL_SHARES else np.matmul(x, w)
        if bias is not None:
            y += bias
        return np.maximum(y, 0, out=y) if relu else y
    y = np.empty((rows, n_out), x.dtype)
    # OpenBLAS is up to 1.9 times as fast with w.T as the first factor
    is_turned = w.T.flags.c_contiguous and FEW_ROWS <= rows <= TURNED_ROWS[_has_small_kernels()]

    def work(columns: slice) -> None:
        out = y[:, columns]
        if is_turned:
            out[...] = np.matmul(w.T[columns], x.T).T
        elif out.size < MATMUL_SHARES:
            out[...] = np.dot(x, w[:, columns])
        else:
            np.matmul(x, w[:, columns], out=out)

    block = 16 * max(1, _weights_at_a_time(rows, weights) // (16 * max(n_in, 1)))
    run_blocks(work, n_out, block, worth_waking=x.size * n_out >= SERIAL_PRODUCT)
    cpu.add_bias_(y, bias, relu)
    return y


# ---- Arrays side by side in memory ----


@entry("numpy")
def are_side_by_side(arrays: Sequence[Array]) -> bool:
    """Whether arrays follow each other in one block of memory: `stacked` returns a view of them, and no copy."""
    for a in arrays:
        if not (isinstance(a.base, np.ndarray) and a.base.flags.c_contiguous and a.flags.c_contiguous):
            return False
    return all(
        a.base is b.base and a.dtype == b.dtype and _address(a) + a.nbytes == _address(b)
        for a, b in itertools.pairwise(arrays)
    )


@entry("numpy")
def stacked(arrays: Sequence[Array]) -> Array:
    """Return the rows of all arrays, one after the other.  Shapes: [N_i, ...] -> [Σ N_i, ...]"""
    first = arrays[0]
    if len(arrays) == 1:
        return first
    if are_side_by_side(arrays):
        shape = sum(map(len, arrays)), *first.shape[1:]
        return np.ndarray(shape, first.dtype, first.base, _address(first) - _address(first.base))
    return np.concatenate(arrays)


@entry("numpy")
def parted(a: Array, sizes: Sequence[int]) -> list[Array]:
    """The rows of a contiguous array as several arrays, in its memory.  Shapes: [Σ N_i, ...] -> [N_i, ...]"""
    return [a[end - size : end] for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]


def _address(a: Array) -> int:
    """Return the address of the first element of a contiguous array."""
    if not a.flags.writeable:
        return int(a.ctypes.data)
    # in a seventh of the time, and without new strings, which the interpreter keeps for a while as names of attributes
    return ctypes.addressof(NO_BYTES.from_buffer(a))


def _parts(size: int, most: int) -> list[slice]:
    """Parts of an axis of a product: `most`, or more of an axis of more than 2,048 for each.

    Of the inner axis, two, which are summed; of rows, four: the BLAS packs the other factor for each, but with two, a
    thread that starts late delays the whole product; with four or more, the other takes its blocks.
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


@functools.cache
def _has_small_kernels() -> bool:
    """Is this OpenBLAS with AVX-512? It computes products of up to a million multiplications without repacking."""
    from threadpoolctl import threadpool_info

    return any(each.get("architecture") in ("SkylakeX", "Cooperlake", "SapphireRapids") for each in threadpool_info())


def _weights_at_a_time(rows: int, weights: int) -> int:
    """Weights of a block of `linear_of_few`: as many as fit a core's cache, or suit the kernels for small products."""
    if rows < FEW_ROWS and _has_small_kernels():
        return min(2**17, FEW_PRODUCTS // (1 << (max(rows, 1) - 1).bit_length()))
    if rows < FEW_ROWS:
        return 2**17
    return min(2**19, max(2**17, weights // 4))
