"""Kernels that all devices share, for precision and embedding, and where arrays lie in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from autograd.backend import Backend

Array = Any
Places = Sequence[Any]  # for each of several arrays, memory or None

NO_PLACES: Places = (None, None, None)


class SharedKernels(Backend):
    """The kernels that no device overrides, or only a GPU, and that not only training calls."""

    uses_epilogues = False
    """True if products add a bias of the type of their result, and apply ReLU, themselves."""

    def set_precision(self, precision: str) -> None:
        """Prepare to compute in "float32", "float64", "tf32" or "bf16".

        Raises: ValueError if the device does not have this precision.
        """
        if precision not in ("float32", "float64"):
            raise ValueError(f"precision={precision} is for GPUs")

    saves_memory = False
    """True to return memory to the system within a step, as programs want that compute activations again."""

    # ---- Activations in bfloat16 ----

    in_bfloat16 = False
    """True if activations, and factors of products, are float32 that are rounded to bfloat16: memory is scarce then."""

    def round_(self, x: Array) -> Array:
        """Round activations to bfloat16, if that is the precision, as it is not here.  Shapes: [...] (overwritten)"""
        return x

    def keep_narrow(self, op: Any) -> None:
        """Have an op on the CPU keep rounded activations in 16 bits, if there are any."""

    # ---- Embedding ----

    dropout: Callable[..., Array]  # of the device

    def embedding(
        self, weight: Array, indices: Array, positions: Array | None, scale: float, keep: Any, keep_scale: float,
        dtype: Any = None,
    ) -> Array:  # fmt: skip
        """dropout(scale · weight[indices] + positions), in `dtype` (None: that of the weight).

        Shapes: weight [V, D], indices int [..., T], positions [T, D] or None, keep [..., T, D] or None -> [..., T, D]
        """
        y = weight[indices]
        if scale != 1:
            y *= scale
        if positions is not None and positions.dtype == y.dtype:
            y += positions
        elif positions is not None:
            y = y + positions
        if keep is not None:
            y = self.dropout(y, keep, keep_scale)
        return y if dtype is None else y.astype(dtype, copy=False)

    # ---- Arrays side by side in memory ----

    def side_by_side(self, arrays: Sequence[Array]) -> list[Array]:
        """Copies of arrays, one after the other in a block of memory, so that `stacked` can return a view of it."""
        return self.parted(self.xp.concatenate(arrays), [len(a) for a in arrays])

    def place_of(self, a: Array) -> tuple[Any, int] | None:
        """The block of memory that holds the array and the address of its first element, if others can follow it there.

        None where that is not known, as here, or the array is not contiguous.
        """
        return None

    def are_side_by_side(self, arrays: Sequence[Array]) -> bool:
        """Whether arrays follow each other in one block of memory: `stacked` returns a view of them, and no copy."""
        for a, b in itertools.pairwise(arrays):
            here, there = self.place_of(a), self.place_of(b)
            if here is None or there is None or a.dtype != b.dtype:
                return False
            if here[0] is not there[0] or here[1] + a.nbytes != there[1]:
                return False
        return True

    def rows_from(self, first: Array, count: int) -> Array:
        """A view of `count` rows of memory that begins with those of an array."""
        raise NotImplementedError

    def stacked(self, arrays: Sequence[Array]) -> Array:
        """Return the rows of all arrays, one after the other.  Shapes: [N_i, ...] -> [Σ N_i, ...]"""
        if len(arrays) == 1:
            return arrays[0]
        if self.are_side_by_side(arrays):
            return self.rows_from(arrays[0], sum(map(len, arrays)))
        return self.xp.concatenate(arrays)

    def parted(self, a: Array, sizes: Sequence[int]) -> list[Array]:
        """The rows of a contiguous array as several arrays, in its memory.  Shapes: [Σ N_i, ...] -> [N_i, ...]"""
        return [a[end - size : end] for size, end in zip(sizes, itertools.accumulate(sizes), strict=True)]


def blocks_of(size: int, rows: int) -> Iterator[slice]:
    """Slices of `rows` that cover 0 … size."""
    return (slice(start, min(start + rows, size)) for start in range(0, size, rows))


def heads_last_empty(xp: Any, shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an empty array of shape [..., H, T, K], in memory [..., T, H, K].

    Products write into it at full speed, and joining the heads, by transpose and reshape to [..., T, H · K], copies
    nothing.
    """
    if len(shape) < 3:
        return xp.empty(shape, dtype)
    *leading, h, t, k = shape
    return xp.empty((*leading, t, h, k), dtype).swapaxes(-2, -3)


def gradients_of_heads(xp: Any, shapes: Sequence[tuple[int, ...]], dtype: Any, places: Places) -> list[Array]:
    """Memory for gradients of these shapes: what `places` gives, or else as `heads_last_empty`."""
    return [
        heads_last_empty(xp, shape, dtype) if place is None or place.shape != shape or place.dtype != dtype else place
        for shape, place in zip(shapes, places, strict=True)
    ]
