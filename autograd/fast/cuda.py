"""The kernels for GPUs, of the names of NumPy's (`numpy_….py`): CUDA kernels, and products by cuda_device.py.

`takes` is the guard: inputs that no kernel takes (float16, complex numbers, very wide rows) are computed by the plain
ops, in CuPy.  Nothing here waits for the GPU, except to copy results to the host.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import cupy
import numpy as np

from autograd import random
from autograd.fast import cuda_source
from autograd.fast.cuda_device import BFLOAT16, KINDS, WIDE, CudaDevice, contiguous, is_contiguous, kind_of
from autograd.fast.cuda_source import GROUP, TILE
from autograd.fast.numpy_layers import heads_last_empty, top_tokens
from autograd.fast.numpy_training import NO_PLACES, Places, adam_parts_, gather_, gradients_of_heads
from autograd.fast.threads import blocks_of
from autograd.ops import nn

Array = Any

ALIGNED = 64  # elements: rows of logits begin at multiples of it, which products and 16-byte loads need
MOST_LISTS = 256  # of some kilobytes each
_PLACES = ("q", "k", "v", "y", "g_y", "g_q", "g_k", "g_v")
SHAPE = np.dtype(
    [(name, "i8", 3) for name in _PLACES]
    + [("mask", "i8", 4)]
    + [(name, "i4") for name in ("heads", "t", "s", "k_width", "v_width", "causal")]
)


class Cuda(CudaDevice):
    """One GPU with all its kernels."""

    def __init__(self, index: int = 0):
        super().__init__(index)
        self._lists: dict[bytes, Array] = {}  # tables of arrays, by their content

    def takes(self, op: str, arrays: Sequence[Array], parameters: dict[str, Any]) -> bool:
        """The guard of the implementations in ops.py: whether kernels compute an op of these inputs.

        float32 or float64, or bfloat16 with parameters that may be float32, with something in each; norms in rows of up
        to 2,048.
        """
        found = [a for a in arrays if a is not None]
        own, asked = found[0].dtype, parameters.get("dtype")
        result = own if asked is None else np.dtype(asked)
        narrow = result if op == "ScaledEmbedding" else own
        kind = KINDS.get(narrow)
        if kind is None or not all(a.size for a in found):
            return False
        types = narrow, WIDE[kind]
        if result not in types or not all(a.dtype in types or a.dtype.kind in "iu" for a in found):
            return False
        if op == "ScaledEmbedding":
            return own == WIDE[kind]
        if op == "ScaledDotProductAttention":
            return self.attention_kernel(*arrays)[0] is not None
        if op in ("LayerNorm", "DropoutAddLayerNorm"):
            *rows, weight, bias = arrays
            return _norm_groups(kind_of(*rows), rows[0].shape[-1], weight, bias) is not None
        return op != "LinearCrossEntropy" or arrays[2] is None or arrays[2].dtype == WIDE[kind]

    def _each_group(self, name: str, kind: str, groups: int, *arguments: Any) -> None:
        """Launch a kernel that takes 16 elements a thread."""
        self._launch(f"{name}<{kind}>", (-(-groups // 256),), (256,), *arguments)

    # ---- Dropout ----

    def draw(self, mask: random.Mask, shape: tuple[int, ...]) -> random.Mask:
        return mask  # kernels draw it wherever they need it, so nothing is kept for the backward pass

    def dropout(self, x: Array, keep: random.Mask, scale: float) -> Array:
        kind, x = KINDS[x.dtype], contiguous(x)
        y = cupy.empty(x.shape, x.dtype)
        if x.size:
            self._each_group("dropout", kind, -(-x.size // GROUP), x, y, np.int64(x.size), self._drop_of(keep))
        return y

    # ---- Layer normalisation ----

    def dropout_add_layer_norm(
        self, x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float
    ) -> tuple[Array, Array, Array]:
        kind = kind_of(x, *(() if residual is None else (residual,)))
        groups = _norm_groups(kind, x.shape[1], weight, bias)
        if kind is None or groups is None or not x.size:  # in a forward pass alone: see `takes`
            wide_x, wide_residual = _widened(x, residual)
            total = wide_x if residual is None else wide_residual + nn.dropped(cupy, wide_x, keep)
            return nn.LayerNorm.forward(cupy, total, weight, bias, eps=eps).astype(x.dtype, copy=False), None, None
        (rows, width), wide, x = x.shape, WIDE[kind], _rows(x)
        y, normalised, inverse_std = cupy.empty_like(x), cupy.empty_like(x), cupy.empty((rows, 1), wide)
        blocks = min(6 * self._multiprocessors, -(-rows // 4))  # those that run at once, which read parameters once
        self._launch(
            f"layer_norm<{kind}, {groups}>", (blocks,), (32, 4),
            x, None if residual is None else _rows(residual), contiguous(weight), contiguous(bias), y, normalised,
            inverse_std, np.int64(rows), np.int32(width), np.int32(x.shape[1]), wide.type(eps), self._drop_of(keep),
            shared=2 * groups * 32 * GROUP * wide.itemsize,
        )  # fmt: skip
        return _columns(y, width), _columns(normalised, width), inverse_std

    def dropout_add_layer_norm_backward(
        self, g_y: Array, normalised: Array, inverse_std: Array, weight: Array, keep: Any, scale: float
    ) -> tuple[Array, Array, Array, Array]:
        kind, (rows, width) = KINDS[g_y.dtype], normalised.shape  # of g_y, too, or [..., D], as the results then are
        groups = _norm_groups(kind, width, weight, inverse_std)
        assert groups is not None  # the forward pass asks, and saves what fits: see `takes`
        g_y, normalised = _rows(g_y), _rows(normalised)
        g_z = cupy.empty_like(g_y)
        g_x = cupy.empty_like(g_y) if keep is not None and keep.drop_below else g_z
        warps = 4 if kind == "double" else 8  # as many as registers allow
        blocks = min(cuda_source.NORM_BLOCKS, -(-rows // warps))
        partial = cupy.empty((blocks, 2, groups * 32 * GROUP), WIDE[kind])
        g_weight, g_bias = cupy.empty(width, WIDE[kind]), cupy.empty(width, WIDE[kind])
        held = 1 if kind == "double" else groups  # groups of columns that a block sums
        self._launch(
            f"layer_norm_backward<{kind}, {groups}>", (blocks, groups // held), (32, warps),
            g_y, normalised, inverse_std, contiguous(weight), g_z, g_x, partial, self._done, g_weight, g_bias,
            np.int64(rows), np.int32(width), np.int32(g_y.shape[-1]), self._drop_of(keep),
            shared=(groups + warps) * 32 * GROUP * WIDE[kind].itemsize,
        )  # fmt: skip
        return _columns(g_x, width), _columns(g_z, width), g_weight, g_bias

    # ---- Embedding ----

    def embedding(
        self, weight: Array, indices: Array, positions: Array | None, scale: float, keep: Any, keep_scale: float,
        dtype: Any = None,
    ) -> Array:  # fmt: skip
        dtype = weight.dtype if dtype is None else np.dtype(dtype)
        kind, width = KINDS[dtype], weight.shape[1]
        y = cupy.empty((*indices.shape, width), dtype)
        if y.size:
            self._each_group(
                "embedding", kind, indices.size * -(-width // GROUP), contiguous(weight), _indices(indices),
                None if positions is None else contiguous(positions.astype(WIDE[kind], copy=False)), y,
                np.int64(indices.size), np.int32(width), np.int32(len(weight)),
                np.int32(1 if positions is None else len(positions)), WIDE[kind].type(scale), self._drop_of(keep),
            )  # fmt: skip
        return y

    def embedding_backward(
        self, g_y: Array, indices: Array, rows: int, scale: float = 1.0, drop: random.Mask | None = None
    ) -> Array:
        total = cupy.zeros((rows, g_y.shape[1]), WIDE[KINDS[g_y.dtype]])
        self.add_embedding_(total, g_y, indices, scale, drop)
        return total

    def add_embedding_(
        self, total: Array, g_y: Array, indices: Array, scale: float, drop: random.Mask | None
    ) -> None:  # fmt: skip
        """total[indices] += scale · dropout(g_y).  Shapes: total [rows, D], g_y [N, D], indices int [N]"""
        kind, (count, width) = KINDS[g_y.dtype], g_y.shape
        if not g_y.size:
            return
        if total.dtype != WIDE[kind] or not is_contiguous(total):  # not one that this class made
            total += self.embedding_backward(g_y, indices, len(total), scale, drop)
            return
        # equal indices side by side, in the order of their rows: no two keys are equal, so the order may be unstable
        if count > cuda_source.ORDERED:
            keys = cupy.sort(indices.astype(np.int64) * count + cupy.arange(count))
        else:
            keys = cupy.empty(count, np.int64)
            self._launch("order_rows", (-(-count // 128),), (32, 8), _indices(indices), keys, np.int32(count))
        chunks = -(-count // cuda_source.CHUNK)
        edges = cupy.empty((chunks, 2, width), WIDE[kind])
        settings = total, edges, np.int64(count), np.int32(width), np.int32(len(total)), WIDE[kind].type(scale)
        threads = min(256, -(-width // (32 * GROUP)) * 32)
        self._launch(
            f"embedding_backward<{kind}>", (chunks,), (threads,), contiguous(g_y), keys, *settings,
            self._drop_of(drop),
        )  # fmt: skip
        self._launch(
            f"embedding_edges<{cuda_source.WIDE[kind]}>", (chunks, -(-width // 32)), (32, cuda_source.SUMMED),
            keys, edges, total, *settings[2:],
        )  # fmt: skip

    # ---- Sums of rows ----

    def sum_rows(self, x: Array) -> Array:
        return self.relu_backward_sum(x, None)[1]

    def relu_backward_sum(self, g_y: Array, y: Array | None) -> tuple[Array, Array]:
        """g_y where y is positive, or all of g_y without y; and the sum of its rows."""
        kind, (rows, width) = KINDS.get(g_y.dtype) if y is None else kind_of(g_y, y), g_y.shape
        columns = 32 * GROUP  # of a block
        across = -(-width // columns)
        if kind is None or not g_y.size or across > self._done.size:
            g_x = g_y if y is None else nn.Relu.backward(cupy, g_y, y, None)
            return g_x, _widened(g_x)[0].sum(axis=0)
        parts = min(cuda_source.SUM_BLOCKS, -(-rows // 8))
        g_x, total = g_y if y is None else cupy.empty(g_y.shape, g_y.dtype), cupy.empty(width, WIDE[kind])
        partial = cupy.empty((parts, across, columns), WIDE[kind])
        self._launch(
            f"relu_backward_sum<{kind}>", (across, parts), (32, 8), contiguous(g_y),
            None if y is None else contiguous(y), g_x, partial, self._done, total, np.int64(rows), np.int32(width),
            shared=8 * columns * WIDE[kind].itemsize,
        )  # fmt: skip
        return g_x, total

    # ---- Attention ----

    def causal_mask(self, queries: int, keys: int) -> Array:
        if self._causal is None or self._causal.shape != (queries, keys):
            self._causal = super().causal_mask(queries, keys)  # the same one in every layer of a step
        return self._causal

    def attention(
        self, q: Array, k: Array, v: Array, mask: Array | None, keep: Any, keep_scale: float, scale: float
    ) -> tuple[Array, tuple[Any, ...]]:
        kind, head = self.attention_kernel(q, k, v)
        if kind is None:  # in a forward pass alone: see `takes`
            return nn.ScaledDotProductAttention.forward(cupy, q, k, v, mask=mask, drop=keep, scale=scale), ()
        q, k, v = map(_in_rows, (q, k, v))
        (b, h, t, _), m = q.shape, v.shape[3]
        y = heads_last_empty(cupy, (b, h, t, m), q.dtype)
        log_total = cupy.empty((b * h, t), WIDE[kind])
        causal = mask is not None and mask is self._causal
        mask = None if causal else mask  # which the kernels know without reading it
        shape = _attention_shape(mask, causal, q=q, k=k, v=v, y=y)
        self._launch(
            f"attention<{kind}, {_one_tile(kind, t, k.shape[2])}, {head}>", (b * h, -(-t // TILE)), (128,),
            q, k, v, mask, y, log_total, shape, WIDE[kind].type(scale), self._drop_of(keep),
            shared=cuda_source.attention_shared_bytes(kind, head, backward=False),
        )  # fmt: skip
        return y, (y, log_total, mask, causal)

    def attention_backward(
        self, g_y: Array, q: Array, k: Array, v: Array, kept: tuple[Any, ...], keep: Any, keep_scale: float,
        scale: float, places: Places = NO_PLACES,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        y, log_total, mask, causal = kept
        kind, head = self.attention_kernel(q, k, v)
        assert kind is not None  # as in the forward pass
        q, k, v, g_y = map(_in_rows, (q, k, v, g_y))
        (b, h, t, _), s = q.shape, k.shape[2]
        gradients = gradients_of_heads(cupy, [a.shape for a in (q, k, v)], q.dtype, places)
        g_q, g_k, g_v = gradients
        shape = _attention_shape(mask, causal, q=q, k=k, v=v, y=y, g_y=g_y, g_q=g_q, g_k=g_k, g_v=g_v)
        inputs = (q, k, v, mask, g_y, log_total)
        settings = (shape, WIDE[kind].type(scale), self._drop_of(keep))
        delta, one_tile = None, _one_tile(kind, t, s)
        if s > TILE:  # keys in one tile have their own sum in its place
            delta = cupy.empty_like(log_total)
            self._launch(
                f"attention_backward_queries<{kind}, {head}>", (b * h, -(-t // TILE)), (128,),
                *inputs, delta, y, g_q, *settings, shared=cuda_source.attention_shared_bytes(kind, head, backward=True),
            )  # fmt: skip
        self._launch(
            f"attention_backward<{kind}, {one_tile}, {head}>", (b * h, -(-s // TILE)), (128,),
            *inputs, delta, *gradients, *settings,
            shared=cuda_source.attention_shared_bytes(kind, head, backward=True, one_tile=one_tile),
        )  # fmt: skip
        return g_q, g_k, g_v

    def attention_kernel(self, q: Array, k: Array, v: Array) -> tuple[str | None, int]:
        """C++ type and head width of the kernel for these arrays; (None, 0) if there is none."""
        kind, widest = kind_of(q, k, v), max(q.shape[-1], v.shape[-1])
        if kind is None or widest > cuda_source.HEADS[-1]:
            return None, 0
        head = next(n for n in cuda_source.HEADS if widest <= n)
        # the backward pass needs more shared memory, and must be able to use a kernel where the forward pass does
        too_large = cuda_source.attention_shared_bytes(kind, head, backward=True) > self._shared_limit
        if (kind, head) == ("double", 128) or too_large or (kind == "bf16" and not self._has_bf16):
            return None, 0
        odd = 0 in (*q.shape, *k.shape, *v.shape) or {4} != {*map(np.ndim, (q, k, v))} or q.shape[:2] != k.shape[:2]
        return (None, 0) if odd or k.shape[:2] != v.shape[:2] else (kind, head)

    # ---- Cross-entropy ----

    def _launch_loss(
        self, logits: Array, targets: Array, counted: Array | None, factors: Array | None, loss: Array, nll: Array,
        gradient: Array | None, smoothing: float,
    ) -> None:  # fmt: skip
        """Launch the kernel of the loss.  Rows of logits and gradient may be apart, but as far as each other's."""
        kind, (rows, classes) = KINDS[logits.dtype], logits.shape
        kept = -(-classes // GROUP) * GROUP * logits.itemsize  # bytes of shared memory
        keeps = gradient is not None and 2 * kept <= self._shared_limit  # two blocks fit a multiprocessor
        self._launch(
            f"cross_entropy<{kind}>", (rows,), (_threads(classes),), logits, _indices(targets), counted, factors,
            loss, nll, gradient, np.int32(classes), np.int64(logits.strides[0] // logits.itemsize),
            WIDE[kind].type(smoothing), np.bool_(keeps), shared=kept if keeps else 0,
        )  # fmt: skip

    def linear_cross_entropy(
        self, x: Array, weight: Array, bias: Array | None, targets: Array, counted: Array, factors: Array | None,
        wanted: Sequence[bool], *, label_smoothing: float, rows: int | None = None,
    ) -> tuple[Array, Array | None, Array | None, Array | None]:  # fmt: skip
        """Compute the loss as in numpy_training.py; for bf16, the gradients of weight and bias are float32.

        Logits are bf16, as large as they are, and their gradient takes their place; without gradients, in validation,
        logits are float32.
        """
        kind, size, classes = KINDS[x.dtype], len(x), len(weight)
        wide, stride = WIDE[kind], -(-classes // ALIGNED) * ALIGNED
        dtype = x.dtype if any(wanted) else wide
        logits_bytes = self.device.mem_info[1] // 32  # of the GPU's memory: large products, in few launches
        rows = min(size, rows or max(1, logits_bytes // (stride * dtype.itemsize)))
        targets, counted = _indices(targets), contiguous(counted)
        factors = None if factors is None else contiguous(factors.astype(wide, copy=False))
        memory = cupy.empty((rows, stride), dtype)[:, :classes]  # logits of a block, and their gradient
        losses = cupy.empty((2, size), wide)
        loss, nll = losses
        g_x = cupy.empty(x.shape, x.dtype) if wanted[0] else None
        g_weight = cupy.empty(weight.shape, wide) if wanted[1] else None
        g_bias = cupy.zeros(classes, wide) if wanted[2] else None
        for some in blocks_of(size, rows):
            logits = g = memory[: some.stop - some.start]
            self._gemm(kind, x[some], weight.T, logits)
            if bias is not None:
                logits[...] = logits + bias
            self._launch_loss(
                logits, targets[some], counted[some], None if factors is None else factors[some], loss[some],
                nll[some], g if any(wanted) else None, label_smoothing,
            )  # fmt: skip
            if g_x is not None:
                self._gemm(kind, g, weight, g_x[some])
            if g_weight is not None:
                self._gemm(kind, g.T, x[some], g_weight, add=some.start > 0)
            if g_bias is not None:
                g_bias += self.sum_rows(g)
        return losses, g_x, g_weight, g_bias

    # ---- Optimizer ----

    def adam_all_(self, updates: Sequence[tuple[Array, Array, Array, Array, Array | None]], **settings: float) -> None:
        some = [update for update in updates if update[0].size]
        arrays = [a for update in some for a in update if a is not None]
        kind = kind_of(*[a for update in some for a in update[:4]]) if some else None
        if kind not in ("float", "double") or not all(map(is_contiguous, arrays)):
            adam_parts_(some, **settings)
            return
        complements = [1 - settings[name] for name in ("beta1", "beta2")]
        numbers = [settings["step_size"], *complements, settings["eps"], settings["gradient_scale"]]
        lists, blocks = self._listed(some, 256 * cuda_source.PER_THREAD)
        settled = map(some[0][0].dtype.type, numbers)
        self._launch(f"adam_<{kind}>", (blocks,), (256,), lists, np.int32(len(lists)), *settled)

    def _listed(self, updates: Sequence[tuple[Array | None, ...]], per_block: int) -> tuple[Array, int]:
        """Arrays as structures `Listed` of kernels.cu, in memory of the GPU, and their number of blocks.

        updates: parameter, gradient, m, v and bf16 copy of each, from the left as far as a kernel reads them
        """
        pad = [0] * (6 - len(updates[0]))
        rows = np.array(
            [
                [*[0 if a is None else a.data.ptr for a in update], *pad, update[0].size]  # type: ignore[union-attr]
                for update in updates
            ],
            np.int64,
        )
        rows[:, 5] = np.cumsum(-(-rows[:, 6] // per_block))
        key = rows.tobytes()  # of graphs, steps have the same addresses again and again
        if key not in self._lists:
            while len(self._lists) >= MOST_LISTS:
                del self._lists[next(iter(self._lists))]
            self._lists[key] = cupy.asarray(rows)
        return self._lists[key], int(rows[-1, 5])

    def gather_(self, gradients: Sequence[tuple[Array, Array, bool]]) -> None:
        some = [(place, contiguous(g), place if adds else None) for place, g, adds in gradients]
        kinds = {kind_of(place, g) for place, g, *_ in some if g.size}
        if kinds != {"float"} and kinds != {"double"}:
            gather_(gradients)
            return
        lists, blocks = self._listed([each for each in some if each[0].size], 256 * cuda_source.PER_THREAD)
        self._launch(f"gather_<{kinds.pop()}>", (blocks,), (256,), lists, np.int32(len(lists)))

    def squared_norm(self, arrays: Sequence[Array]) -> Any:
        """Return the squared norm as a number on the device; reading it waits for all preceding work."""
        some = [contiguous(a) for a in arrays if a.size]
        kind = kind_of(*some) if some else None
        if kind not in ("float", "double"):
            return sum([(a.astype(np.float64) ** 2).sum() for a in some], cupy.zeros((), np.float64))
        lists, blocks = self._listed([(a, a) for a in some], 1 << 16)
        partial, total = cupy.empty(blocks, np.float64), cupy.empty((), np.float64)
        self._launch(
            f"squares<{kind}>", (blocks,), (256,), lists, np.int32(len(lists)), partial, self._done, total
        )  # fmt: skip
        return total

    # ---- Search ----

    def top_tokens(self, logits: Array, barred: Array, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        kind, (rows, classes) = kind_of(logits), logits.shape
        if kind not in ("float", "double") or not logits.size:
            return top_tokens(self.to_host(logits), self.to_host(barred), count)
        wide = WIDE[kind]
        results = (((rows,), wide), ((rows, count), wide), ((rows, count), np.dtype(np.int32)))  # the widest first
        memory = cupy.empty(sum(math.prod(shape) * dtype.itemsize for shape, dtype in results), np.uint8)
        log_total, values, ids = _views(memory, results)
        self._launch(
            f"top_tokens<{kind}>", (rows,), (_threads(classes),), contiguous(logits), barred, ids, values,
            log_total, np.int32(classes), np.int32(count),
        )  # fmt: skip
        log_total, values, ids = _views(memory.get(), results)  # one copy to the host, which waits, and not three
        return ids, values, log_total


# ---- Arguments of kernels ----------------------------------------------------------------------------------------


def _views(memory: Array, results: Sequence[tuple[tuple[int, ...], np.dtype]]) -> list[Array]:
    """Arrays of the given shapes and dtypes, one after the other in an array of bytes."""
    views, start = [], 0
    for shape, dtype in results:
        stop = start + math.prod(shape) * dtype.itemsize
        views.append(memory[start:stop].view(dtype).reshape(shape))
        start = stop
    return views


def _widened(*arrays: Array | None) -> list[Array]:
    """bf16 arrays as float32, others unchanged."""
    return [a.astype(np.float32) if a is not None and a.dtype == BFLOAT16 else a for a in arrays]


def _rows(a: Array) -> Array:
    """Return a contiguous array [..., D] whose rows begin at multiples of 16 bytes, by zeros at their ends."""
    *leading, width = a.shape
    padded = -(-width * a.itemsize // 16) * 16 // a.itemsize
    if padded == width and a.flags.c_contiguous and a.data.ptr % 16 == 0:
        return a
    whole = cupy.zeros((*leading, padded), a.dtype)
    whole[..., :width] = a
    return whole


def _columns(a: Array, width: int) -> Array:
    return a if a.shape[-1] == width else a[..., :width]  # no view of all: the engine copies views


def _indices(a: Array) -> Array:
    return contiguous(a.astype(np.int32, copy=False))


def _threads(width: int) -> int:
    """Threads for a row: a power of two, with some 16 elements each."""
    return min(512, max(32, 1 << max(0, (width // GROUP - 1).bit_length())))


def _norm_groups(kind: str | None, width: int, *parameters: Array) -> int | None:
    """Return the smallest layer-norm kernel that holds a row; None if there is none."""
    fits = [groups for groups in cuda_source.NORM_GROUPS if width <= groups * 32 * GROUP]
    if kind is None or not fits or any(p.dtype != WIDE[kind] for p in parameters):
        return None
    return fits[0]


def _in_rows(a: Array) -> Array:
    """Return an array that is contiguous along its last axis."""
    return a if a.strides[-1] == a.itemsize or a.shape[-1] == 1 else cupy.ascontiguousarray(a)


def _one_tile(kind: str, t: int, s: int) -> str:
    """The template argument ONE_TILE of attention.cu."""
    return "true" if kind == "bf16" and max(t, s) <= TILE else "false"


def _attention_shape(mask: Array | None, causal: bool, **arrays: Array) -> Any:
    """Return the structure `AttentionShape` of attention.cu: strides and sizes of all arrays."""
    q, k, v = arrays["q"], arrays["k"], arrays["v"]
    t, s = q.shape[2], k.shape[2]
    shape = np.zeros((), SHAPE)
    for name, a in arrays.items():
        shape[name] = [stride // a.itemsize for stride in a.strides[:3]]
    if mask is not None:
        # by indexing, not by reshape, which might copy: the kernel gets the mask's own address
        shape["mask"] = cupy.broadcast_to(mask[(None,) * (4 - mask.ndim)], (*q.shape[:2], t, s)).strides
    shape["heads"], shape["t"], shape["s"] = q.shape[1], t, s
    shape["k_width"], shape["v_width"], shape["causal"] = q.shape[3], v.shape[3], causal
    return shape[()]
