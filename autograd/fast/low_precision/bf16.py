"""Activations that are rounded to bfloat16, and products of such factors: kernels of a CPU for `--precision bf16`.

The device "bf16" of the table stands before "numba": `set_precision` enters it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from autograd.fast import compiled
from autograd.fast.compiled import F4, INFINITY, plain
from autograd.fast.compiled_tiles import linear_of_tiles
from autograd.fast.low_precision import compiled_bf16, compiled_int8
from autograd.fast.low_precision.int8 import Int8Weights
from autograd.fast.low_precision.packed import OUTPUTS, PackedWeights
from autograd.fast.numpy_products import SERIAL_PRODUCT
from autograd.fast.table import cpu, entry
from autograd.fast.threads import over_elements, run, run_blocks, spread, thread_count

Array = Any


def require_bfloat16() -> None:
    """Raises: ValueError if the processor lacks the instructions"""
    if not compiled_bf16.IS_AVAILABLE:
        raise ValueError(
            "precision=bf16 requires AVX-512 BF16 (avx512_bf16), which this processor lacks; choose float32"
        )


@entry("bf16")
def round_(x: Array) -> Array:
    """Round activations to bfloat16.  Shapes: [...] (overwritten)"""
    if plain(x):
        over_elements(compiled_bf16.round_, x.view(np.uint32))
    return x


@entry("bf16")
def narrowed(x: Array) -> tuple[Array, bool]:
    """Return the bits of x in bfloat16, and whether nothing was lost.

    Shapes: float32 [N, ...] -> uint16 [N, ...]
    """
    bits, exact = np.empty(x.shape, np.uint16), []

    def work(s: slice) -> None:
        flat = np.ascontiguousarray(x[s]).reshape(-1)
        exact.append(compiled_bf16.narrow(flat.view(np.uint32), bits[s].reshape(-1)))

    spread(work, len(x), x[0].nbytes)
    return bits, all(exact)


@entry("bf16")
def widened(bits: Array) -> Array:
    """Shapes: uint16 [N, ...], of `narrowed` -> float32 [N, ...]"""
    x = np.empty(bits.shape, F4)
    over_elements(lambda bits, x: compiled_bf16.widen(bits, x.view(np.uint32)), bits, x)
    return x


# ---- Products ----


def _rounds(a: Array, b: Array) -> bool:
    """Factors of float32, or bits of bfloat16, with something in each."""
    return a.dtype in INFINITY and b.dtype in INFINITY and a.size * b.size > 0


def _product_(c: Array, a: Array, b: Array, bias: Any = None, relu: bool = False, **how: Any) -> Array:
    wake = a.size * b.shape[1] >= SERIAL_PRODUCT
    work = functools.partial(run, worth_waking=wake)
    return compiled_bf16.product_(work, (thread_count() or 1) if wake else 1, c, a, b, bias, relu, **how)


@entry("bf16", _rounds)
def product(a: Array, b: Array) -> Array:
    return _product_(np.empty((len(a), b.shape[1]), F4), a, b)


@entry("bf16", lambda *factors: any(_rounds(*each) for each in factors))
def products(*factors: tuple[Array, Array]) -> tuple[Array, ...]:
    return tuple([cpu.product(*each) for each in factors])


@entry("bf16", lambda total, a, b: _rounds(a, b) and plain(total))
def add_product_(total: Array, a: Array, b: Array) -> Array:
    return _product_(total, a, b, begun=True)


def _linear(x: Array, weight: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> bool:
    """Factors of float32, or bits of bfloat16."""
    return _rounds(x, weight) and dtype in (None, F4) and (bias is None or plain(bias))


@entry("bf16", _linear)
def linear(x: Array, weight: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
    return _product_(np.empty((len(x), len(weight)), F4), x, weight.T, bias, relu)


# ---- Layers ----


@entry("bf16", compiled.contiguous)
def dropout_add_layer_norm(
    x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float
) -> tuple[Array, Array, Array]:
    _, normalised, inverse_std = compiled.dropout_add_layer_norm(x, residual, keep, scale, weight, bias, eps)
    return cpu.scale_and_shift(round_(normalised), weight, bias), normalised, inverse_std


@entry("bf16", lambda scores, mask, scale: plain(scores))
def softmax_of_blocks(scores: Array, mask: Array | None, scale: float) -> Callable[[slice], None]:
    softmax_ = compiled.softmax_of_blocks(scores, mask, scale)

    def work(some: slice) -> None:
        softmax_(some)
        compiled_bf16.round_(scores[some].reshape(-1).view(np.uint32))

    return work


# ---- Weights in 8 or 16 bits ----


def _packed(x: Array, weights: Any, relu: bool = False) -> bool:
    """Weights in bfloat16; in 8 bits where x is contiguous float32."""
    return not isinstance(weights, Int8Weights) or plain(x)


@entry("numba", _packed)
def linear_packed(x: Array, weights: Any, relu: bool = False) -> Array:
    rows, words, is_int8 = len(x), weights.words, isinstance(weights, Int8Weights)
    y = np.empty((rows, OUTPUTS * len(words)), F4)
    packed = np.empty((rows, words.shape[1] * (compiled_int8.PARTS if is_int8 else 1)), np.int32)
    if is_int8:
        factors = np.empty(rows, F4)
        compiled_int8.quantise_inputs(x, x.shape[1], packed, factors)
        of_weights = words, weights.start, weights.factors, weights.bias
        product = functools.partial(compiled_int8.linear_int8, packed, factors, *of_weights, relu)
    else:
        x = np.ascontiguousarray(x, F4)
        compiled_bf16.pack_rows(x.view(np.uint32), 0, x.shape[1], packed.view(np.uint16))
        product = functools.partial(linear_of_tiles, packed, words, weights.bias, relu)

    def work(some: slice) -> None:
        product(OUTPUTS * some.start, OUTPUTS * some.stop, y)

    serial = rows * words.size < SERIAL_PRODUCT  # faster than float32 by as many as stand in its place
    run_blocks(work, len(words), len(words) if serial else -(-len(words) // (4 * (thread_count() or 1))))
    return np.ascontiguousarray(y[:, : weights.shape[0]])


@entry("numba", lambda precision: precision == "bf16")
def packed_weights(precision: str) -> type[PackedWeights]:
    require_bfloat16()
    return compiled_bf16.BFloat16Weights
