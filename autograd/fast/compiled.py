"""The CPU's backend with kernels that Numba compiles, for float32: one pass over memory in place of ten.

What they leave out is computed as in cpu.py: other dtypes, layouts that are not contiguous, and all matrix products but
those of few rows, as no compiler does better than a BLAS.  Results differ from NumPy's by rounding, and do not depend
on the number of threads.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autograd.fast import compiled_bf16, compiled_int8
from autograd.fast import compiled_kernels as kernels
from autograd.fast.compiled_tiles import linear_of_tiles
from autograd.fast.cpu import CpuKernels
from autograd.fast.cpu_products import FEW_ROWS, SERIAL_PRODUCT, in_order
from autograd.fast.int8 import Int8Weights
from autograd.fast.memory import return_freed_memory
from autograd.fast.narrow import keep_narrow
from autograd.fast.packed import OUTPUTS, PackedWeights
from autograd.fast.shared import blocks_of

Array = Any
f4, F4 = np.float32, np.dtype(np.float32)

NO_BIAS = np.empty(0, f4)
LARGE_STEP = 4 << 20  # bytes of an activation from which memory is dearer than page faults
INFINITY = {F4: np.int32(0x7F800000), np.dtype(np.uint16): np.int16(0x7F80)}  # bits, of float32 and of bfloat16


class CompiledKernels(CpuKernels):
    """NumPy on the host, with compiled kernels."""

    kernels = "numba"

    def set_precision(self, precision: str) -> None:
        if precision == "bf16":
            _require_bfloat16()
        super().set_precision("float32" if precision == "bf16" else precision)
        self.in_bfloat16 = precision == "bf16"
        self.logits_bytes = CpuKernels.logits_bytes // (2 if self.in_bfloat16 else 1)

    # ---- Elements ----

    def dropout(self, x: Array, keep: Array, scale: float) -> Array:
        if not _are_plain(x) or keep.shape != x.shape or not keep.flags.c_contiguous:
            return super().dropout(x, keep, scale)
        y = np.empty(x.shape, f4)
        self._over_elements(lambda x, keep, y: kernels.dropout(x, keep, f4(scale), y), x, keep, y)
        return y

    def add_bias_(self, y: Array, bias: Array | None, relu: bool) -> None:
        if bias is None or not _are_plain(y, bias) or bias.shape != y.shape[1:]:
            super().add_bias_(y, bias, relu)
        else:
            kernels.add_bias_(y, bias, relu)

    def relu_backward(self, g_y: Array, y: Array) -> Array:
        return super().relu_backward(g_y, self.widened(y) if y.dtype == np.uint16 else y)

    def relu_backward_sum(self, g_y: Array, y: Array) -> tuple[Array, Array]:
        if not (_are_plain(g_y) and y.flags.c_contiguous and y.shape == g_y.shape and y.dtype in INFINITY):
            return super().relu_backward_sum(g_y, y)
        g_x = np.empty(y.shape, f4)
        return g_x, self._relu_backward_sum_(g_y, y, g_x)

    def _relu_backward_sum_(self, g_y: Array, y: Array, g_x: Array) -> Array:
        """Write g_y where y > 0, else 0, to g_x, which may be g_y; return the sum of its rows."""
        infinity = INFINITY[y.dtype]
        bits = y.view(type(infinity))

        def work(s: slice, total: Array) -> None:
            kernels.relu_backward_sum(g_y[s], bits[s], infinity, g_x[s], total)

        return self._sums_of_blocks(work, g_x, 1)[0]

    def adam_(self, parameter: Array, gradient: Array, m: Array, v: Array, **settings: float) -> None:
        if not _are_alike(parameter, gradient, m, v):
            super().adam_(parameter, gradient, m, v, **settings)
            return
        numbers = _of_adam(**settings)
        self._over_elements(lambda *arrays: kernels.adam_(*arrays, *numbers), parameter, gradient, m, v)

    def adam_parts_(self, parts: Sequence[tuple[Any, ...]], **settings: float) -> None:
        numbers = _of_adam(**settings)
        for part in parts:
            *arrays, copy = part
            if copy is None and _are_alike(*arrays):  # few calls: there are hundreds of parts
                kernels.adam_(*(arrays if arrays[0].ndim == 1 else [a.reshape(-1) for a in arrays]), *numbers)
            else:
                super().adam_parts_([part], **settings)

    # ---- Activations in bfloat16, and products of such factors but for those of attention and of a decoder ----

    def round_(self, x: Array) -> Array:
        if self.in_bfloat16 and _are_plain(x):
            self._over_elements(compiled_bf16.round_, x.view(np.uint32))
        return x

    def keep_narrow(self, op: Any) -> None:
        if self.in_bfloat16:
            keep_narrow(op, self)

    def narrowed(self, x: Array) -> tuple[Array, bool]:
        """Return the bits of x in bfloat16, and whether nothing was lost.

        Shapes: float32 [N, ...] -> uint16 [N, ...]
        """
        bits, exact = np.empty(x.shape, np.uint16), []

        def work(s: slice) -> None:
            flat = np.ascontiguousarray(x[s]).reshape(-1)
            exact.append(compiled_bf16.narrow(flat.view(np.uint32), bits[s].reshape(-1)))

        self._spread(work, len(x), x[0].nbytes)
        return bits, all(exact)

    def widened(self, bits: Array) -> Array:
        """Shapes: uint16 [N, ...], of `narrowed` -> float32 [N, ...]"""
        x = np.empty(bits.shape, F4)
        self._over_elements(lambda bits, x: compiled_bf16.widen(bits, x.view(np.uint32)), bits, x)
        return x

    def product(self, a: Array, b: Array, dtype: Any = None) -> Array:
        if not self._rounds(a, b, dtype):
            return super().product(a, b, dtype)
        return self._rounded_product_(np.empty((len(a), b.shape[1]), F4), a, b)

    def products(self, *factors: tuple[Array, Array]) -> tuple[Array, ...]:
        if any(self._rounds(a, b) for a, b in factors):
            return tuple([self.product(a, b) for a, b in factors])
        return super().products(*factors)

    def add_product_(self, total: Array, a: Array, b: Array) -> Array:
        if not (self._rounds(a, b) and _are_plain(total)):
            return super().add_product_(total, a, b)
        return self._rounded_product_(total, a, b, begun=True)

    def linear(self, x: Array, weight: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
        if not self._rounds(x, weight, dtype) or (bias is not None and not _are_plain(bias)):
            return super().linear(x, weight, bias, relu, dtype)
        return self._rounded_product_(np.empty((len(x), len(weight)), F4), x, weight.T, bias, relu)

    def masked_product(self, a: Array, b: Array, mask: Array) -> tuple[Array | None, Array | None]:
        if not self._rounds(a, b):
            return None, None
        g = self.product(a, b)
        return g, self._relu_backward_sum_(g, mask, g)

    def _rounds(self, a: Array, b: Array, dtype: Any = None) -> bool:
        """Are the factors of this product rounded, or bits of bfloat16?"""
        kinds = a.dtype in INFINITY and b.dtype in INFINITY
        return self.in_bfloat16 and dtype in (None, F4) and kinds and a.size * b.size > 0

    def _rounded_product_(
        self, c: Array, a: Array, b: Array, bias: Any = None, relu: bool = False, **how: Any
    ) -> Array:
        wake = a.size * b.shape[1] >= SERIAL_PRODUCT
        run = functools.partial(self._run, worth_waking=wake)
        return compiled_bf16.product_(run, (self.threads or 1) if wake else 1, c, a, b, bias, relu, **how)

    # ---- Products of few rows ----

    contiguous_below = 0

    @property
    def contiguous_from(self) -> float:  # type: ignore[override]
        return max(FEW_ROWS, super().contiguous_from)

    def linear_of_few(
        self, x: Array, w: Array, bias: Array | None, relu: bool = False, rows_at_a_time: int | None = None,
        dtype: Any = None,
    ) -> Array:  # fmt: skip
        weight, step = w.T, rows_at_a_time or len(x)
        if (
            step >= FEW_ROWS
            or dtype not in (None, x.dtype)
            or not _are_plain(x, weight)
            or x.shape[1] != weight.shape[1]
            or not (bias is None or (_are_plain(bias) and bias.shape == weight.shape[:1]))
        ):
            return super().linear_of_few(x, w, bias, relu, rows_at_a_time, dtype)
        y, serial = np.empty((len(x), len(weight)), F4), x.size * len(weight) < SERIAL_PRODUCT
        if serial and len(x) <= step:  # one call: views and closures take as long as a small product
            kernels.linear_of_few(x, weight, NO_BIAS if bias is None else bias, relu, y)
            return y

        def work(s: slice) -> None:
            shifts = NO_BIAS if bias is None else bias[s]
            for some in blocks_of(len(x), step):
                kernels.linear_of_few(x[some], weight[s], shifts, relu, y[some, s])

        at_once = kernels.OUTPUTS_AT_A_TIME  # parts of whole groups, for the same bits with any number of threads
        groups = -(-len(weight) // at_once)
        self._run_blocks(work, len(weight), at_once * (groups if serial else -(-groups // (4 * (self.threads or 1)))))
        return y

    def packed_weights(self, precision: str) -> type[PackedWeights]:
        if precision != "bf16":
            return super().packed_weights(precision)
        _require_bfloat16()
        return compiled_bf16.BFloat16Weights

    def linear_packed(self, x: Array, weights: Any, relu: bool = False) -> Array:
        rows, words, is_int8 = len(x), weights.words, isinstance(weights, Int8Weights)
        if is_int8 and not (compiled_int8.LANES and _are_plain(x)):
            return super().linear_packed(x, weights, relu)
        y = np.empty((rows, OUTPUTS * len(words)), F4)
        packed = np.empty((rows, words.shape[1]), np.int32)
        if is_int8:
            factors = np.empty(rows, F4)
            compiled_int8.quantise_inputs(x, x.shape[1], packed.view(np.uint8), factors)
            of_weights = words, weights.start, weights.factors, weights.bias
            product = functools.partial(compiled_int8.linear_int8, packed, factors, *of_weights, relu)
        else:
            x = np.ascontiguousarray(x, F4)
            compiled_bf16.pack_rows(x.view(np.uint32), 0, x.shape[1], packed.view(np.uint16))
            product = functools.partial(linear_of_tiles, packed, words, weights.bias, relu)

        def work(some: slice) -> None:
            product(OUTPUTS * some.start, OUTPUTS * some.stop, y)

        serial = rows * words.size < SERIAL_PRODUCT  # faster than float32 by as many as stand in its place
        self._run_blocks(work, len(words), len(words) if serial else -(-len(words) // (4 * (self.threads or 1))))
        return np.ascontiguousarray(y[:, : weights.shape[0]])

    # ---- Layer normalisation ----

    def dropout_add_layer_norm(
        self, x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float
    ) -> tuple[Array, Array, Array]:
        if (
            not _are_plain(x, weight, bias)
            or not weight.shape == bias.shape == x.shape[1:]
            or not (residual is None or _are_alike(x, residual))
            or not (keep is None or (keep.shape == x.shape and keep.flags.c_contiguous))
        ):
            return super().dropout_add_layer_norm(x, residual, keep, scale, weight, bias, eps)
        y, normalised, inverse_std = np.empty(x.shape, f4), np.empty(x.shape, f4), np.empty((len(x), 1), f4)

        def work(s: slice) -> None:
            norm = weight, bias, f4(eps), y[s], normalised[s], inverse_std[s]
            if residual is None:
                kernels.layer_norm(x[s], *norm)
            elif keep is None:
                kernels.add_layer_norm(x[s], residual[s], *norm)
            else:
                kernels.dropout_add_layer_norm(x[s], residual[s], keep[s], f4(scale), *norm)
            if self.in_bfloat16:
                compiled_bf16.round_(normalised[s].reshape(-1).view(np.uint32))
                kernels.scale_and_shift(normalised[s], weight, bias, y[s])

        self._spread(work, len(x), x.shape[1] * x.itemsize)
        return y, normalised, inverse_std

    def scale_and_shift(self, normalised: Array, weight: Array, bias: Array) -> Array:
        if not _are_plain(normalised, weight, bias) or not weight.shape == bias.shape == normalised.shape[1:]:
            return super().scale_and_shift(normalised, weight, bias)
        y = np.empty(normalised.shape, f4)
        row_bytes = y.shape[1] * y.itemsize
        self._spread(lambda s: kernels.scale_and_shift(normalised[s], weight, bias, y[s]), len(y), row_bytes)
        return y

    def layer_norm_backward(
        self, g_y: Array, normalised: Array, inverse_std: Array, weight: Array
    ) -> tuple[Array, Array, Array]:
        if (
            not _are_alike(g_y, normalised)
            or not _are_plain(inverse_std, weight)
            or inverse_std.shape != (len(g_y), 1)
            or weight.shape != g_y.shape[1:]
        ):
            return super().layer_norm_backward(g_y, normalised, inverse_std, weight)
        g_x = np.empty(g_y.shape, f4)

        def work(s: slice, *sums: Array) -> None:
            kernels.layer_norm_backward(g_y[s], normalised[s], inverse_std[s], weight, g_x[s], *sums)

        return g_x, *self._sums_of_blocks(work, g_y, 2)

    def _sums_of_blocks(self, work: Callable[..., None], rows: Array, count: int) -> list[Array]:
        """Call `work` with each block of rows and `count` arrays [D] for its sums; return the sums of all blocks."""
        sums: list[dict[int, Array]] = [{} for _ in range(count)]  # of each block, by its first row

        def block(s: slice) -> None:
            own = [np.empty(rows.shape[1], f4) for _ in range(count)]
            work(s, *own)
            for each, of_block in zip(sums, own, strict=True):
                each[s.start] = of_block

        self._spread(block, len(rows), rows.shape[1] * rows.itemsize)
        return [in_order(each) for each in sums]

    # ---- Embedding ----

    def embedding_backward(self, g_y: Array, indices: Array, rows: int) -> Array:
        self._return_gaps(g_y)  # behind the backward pass of a stack of layers
        if not _are_plain(g_y) or len(indices) != len(g_y) or not _are_within(indices, rows):
            return super().embedding_backward(g_y, indices, rows)
        g_weight = np.zeros((rows, g_y.shape[1]), f4)
        kernels.add_rows_(g_weight, np.ascontiguousarray(indices, np.intp), g_y)
        return g_weight

    # ---- Attention ----

    def _softmax_of_blocks_(self, scores: Array, mask: Array | None, scale: float) -> Callable[[slice], None]:
        if not _are_plain(scores) or scores.ndim != 4:
            return super()._softmax_of_blocks_(scores, mask, scale)
        allowed, masked = _mask_of(mask, scores.shape), mask is not None

        def work(some: slice) -> None:
            kernels.softmax_(scores[some], allowed if len(allowed) == 1 else allowed[some], masked, f4(scale))
            if self.in_bfloat16:
                compiled_bf16.round_(scores[some].reshape(-1).view(np.uint32))

        return work

    def _dropped(self, block: Array, keep: Array, scale: float) -> Array:
        if not _are_plain(block) or keep.shape != block.shape:
            return super()._dropped(block, keep, scale)
        y = np.empty(block.shape, f4)
        kernels.dropout(block.reshape(-1), keep.reshape(-1), f4(scale), y.reshape(-1))
        return y

    def _of_weights_to_scores_(self, g: Array, p: Array, keep: Array | None, keep_scale: float, scale: float) -> None:
        if not _are_alike(g, p) or not (keep is None or keep.shape == p.shape):
            super()._of_weights_to_scores_(g, p, keep, keep_scale, scale)
            return
        if keep is not None:
            kernels.dropout_(g.reshape(-1), keep.reshape(-1), f4(keep_scale))
        g_rows, rows = (a.reshape(-1, a.shape[-1]) for a in (g, p))
        kernels.softmax_backward_(g_rows, rows, f4(scale))

    def softmax_backward_(self, g_p: Array, p: Array) -> Array:
        if not _are_alike(g_p, p) or not g_p.ndim:
            return super().softmax_backward_(g_p, p)
        g_rows, rows = (a.reshape(-1, a.shape[-1]) for a in (g_p, p))
        self._spread(lambda s: kernels.softmax_backward_(g_rows[s], rows[s], f4(1)), len(rows), rows[0].nbytes)
        return g_p

    # ---- Cross-entropy and search ----

    def linear_cross_entropy(self, x: Array, *others: Any, **settings: Any) -> tuple[Any, ...]:
        self._return_gaps(x)  # behind the forward pass
        try:
            return super().linear_cross_entropy(x, *others, **settings)
        finally:
            self._return_gaps(x)

    def _return_gaps(self, x: Array) -> None:
        """Return the gaps between arrays in memory to the system, if it is to be saved and the activation x is large.

        The next arrays, the largest of a step, would fit few of the gaps.  It takes 1 to 2 ms, and page faults.
        """
        if self.saves_memory and self.in_bfloat16 and x.nbytes >= LARGE_STEP:
            return_freed_memory()

    def cross_entropy(self, logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
        return self._losses(kernels.cross_entropy, super().cross_entropy, logits, targets, label_smoothing)

    def cross_entropy_(self, logits: Array, targets: Array, label_smoothing: float) -> tuple[Array, Array]:
        return self._losses(kernels.cross_entropy_, super().cross_entropy_, logits, targets, label_smoothing)

    def _losses(
        self, kernel: Callable[..., None], otherwise: Callable[..., tuple[Array, Array]], logits: Array, targets: Array,
        label_smoothing: float,
    ) -> tuple[Array, Array]:  # fmt: skip
        if not _are_plain(logits) or len(targets) != len(logits) or not _are_within(targets, logits.shape[1]):
            return otherwise(logits, targets, label_smoothing)
        loss, nll = np.empty(len(logits), f4), np.empty(len(logits), f4)
        targets = np.ascontiguousarray(targets, np.intp)

        def work(s: slice) -> None:
            kernel(logits[s], targets[s], float(label_smoothing), loss[s], nll[s])

        self._spread(work, len(logits), logits[0].nbytes)
        return loss, nll

    def top_tokens(self, logits: Array, barred: Array, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if not _are_plain(logits) or barred.size != logits.shape[1] or count > barred.size - np.count_nonzero(barred):
            return super().top_tokens(logits, barred, count)
        rows = len(logits)
        ids, values, log_total = np.empty((rows, count), np.intp), np.empty((rows, count), f4), np.empty(rows)

        def work(s: slice) -> None:
            kernels.largest_of_rows(logits[s], barred, ids[s], values[s], log_total[s])

        self._spread(work, rows, logits[0].nbytes)
        return ids, values, log_total


def _of_adam(*, step_size: float, beta1: float, beta2: float, eps: float, gradient_scale: float) -> tuple[Any, ...]:
    """Return the numbers of `kernels.adam_`, in its order."""
    return f4(step_size), f4(1 - beta1), f4(1 - beta2), f4(eps), f4(gradient_scale)


def _require_bfloat16() -> None:
    if not compiled_bf16.IS_AVAILABLE:
        raise ValueError(
            "precision=bf16 requires AVX-512 BF16 (avx512_bf16), which this processor lacks; choose float32"
        )


def _are_plain(*arrays: Array) -> bool:
    """Are these contiguous arrays of float32, with something in each?"""
    for a in arrays:  # noqa: SIM110 (`all` takes twice as long, and a decoder asks a hundred times a step)
        if a.dtype != F4 or not a.flags.c_contiguous or not a.size:
            return False
    return True


def _are_alike(*arrays: Array) -> bool:
    """Are these contiguous arrays of float32 of one shape, with something in each?"""
    return _are_plain(*arrays) and all(a.shape == arrays[0].shape for a in arrays)


def _are_within(indices: Array, size: int) -> bool:
    """Are these indices 0 … size - 1? Compiled code would read and write anywhere; NumPy raises an error."""
    return bool(indices.size) and indices.min() >= 0 and indices.max() < size


def _mask_of(mask: Array | None, shape: tuple[int, ...]) -> Array:
    """Return the mask as `kernels.softmax_` takes it, contiguous [B or 1, H or 1, T or 1, S]; all True for None.

    Raises: ValueError unless it broadcasts to `shape`, [B, H, T, S]
    """
    if mask is None:
        return np.ones((1, 1, 1, shape[3]), bool)
    mask = mask.reshape((1,) * (4 - mask.ndim) + mask.shape)
    if not all(n in (1, of_scores) for n, of_scores in zip(mask.shape, shape, strict=True)):
        raise ValueError(f"a mask of shape {mask.shape} does not broadcast to {shape}")
    return np.ascontiguousarray(
        mask if mask.shape[3] == shape[3] else np.broadcast_to(mask, (*mask.shape[:3], shape[3]))
    )
