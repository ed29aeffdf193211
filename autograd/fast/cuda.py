"""The kernels for GPUs, of the names of numpy_layers.py and numpy_products.py: CUDA kernels and cuBLAS calls.

The only file that imports CuPy.  `takes` is the guard: inputs that no kernel takes (float16, complex numbers, very wide
rows) are computed by the plain ops, in CuPy.  Nothing here waits for the GPU, except to copy results to the host.

Storage and arithmetic: float64, float32, or bf16 in memory with float32 arithmetic, sums and statistics.  A product of
two bf16 matrices is summed in float32 on tensor cores; its result is bf16, or float32 where that is asked for.
"""

from __future__ import annotations

import itertools
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import cupy
import numpy as np
from cupy_backends.cuda.libs import cublas

from autograd import random
from autograd.backend import GpuBackend
from autograd.fast import cuda_source, self_test
from autograd.fast.cuda_source import GROUP, TILE
from autograd.fast.numpy_layers import NO_PLACES, Places, adam_parts_, gather_, gradients_of_heads, heads_last_empty
from autograd.fast.numpy_search import top_tokens
from autograd.fast.threads import available_cores, blocks_of
from autograd.ops import fused, nn

OLDEST = (14, 2)
if tuple(int(part) for part in cupy.__version__.split(".")[:2]) < OLDEST:
    raise ImportError(f"CuPy {cupy.__version__} is too old; pip install 'cupy-cuda13x>=14.2'")

try:
    from autograd.fast import cublaslt
except ImportError:  # nvmath-python is not installed: products by cuBLAS, and other kernels after them
    cublaslt = None  # type: ignore[assignment]

try:
    import ml_dtypes

    BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
except ImportError:  # only --precision bf16 needs it
    BFLOAT16 = None

Array = Any

KINDS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"} | ({BFLOAT16: "bf16"} if BFLOAT16 else {})
WIDE: dict[str, np.dtype[Any]] = {
    "bf16": np.dtype(np.float32),
    "float": np.dtype(np.float32),
    "double": np.dtype(np.float64),
}
CUDA_TYPES = {"bf16": 14, "float": 0, "double": 1}  # cudaDataType
DROP = np.dtype(
    [(name, "u8") for name in ("seed", "step", "site", "first")]
    + [("scale", "f8"), ("below", "u4"), ("_", "u4"), ("now", "u8")]
)
ALIGNED = 64  # elements: rows of logits begin at multiples of it, which products and 16-byte loads need
MOST_LISTS = 256  # of some kilobytes each
NO_DROP = np.zeros((), DROP)[()]
_PLACES = ("q", "k", "v", "y", "g_y", "g_q", "g_k", "g_v")
SHAPE = np.dtype(
    [(name, "i8", 3) for name in _PLACES]
    + [("mask", "i8", 4)]
    + [(name, "i4") for name in ("heads", "t", "s", "k_width", "v_width", "causal")]
)


class Cuda(GpuBackend):
    """One GPU.  `tf32`: tensor cores may round the factors of float32 products to 10 bits."""

    def __init__(self, index: int = 0):
        super().__init__(index)
        self.device = cupy.cuda.Device(index)
        self.tf32 = False
        self._functions: dict[str, Any] = {}
        self._shared: dict[str, int] = {}  # bytes that a kernel may have, where that was raised
        self._causal: Array | None = None
        self._now: tuple[int, Array] | None = None  # while a graph is captured: the step, and where it will be
        self._held: list[Array] = []  # and what the graph reads besides its own memory
        self._lists: dict[bytes, Array] = {}  # tables of arrays, by their content
        self._one = {np.dtype(t): np.ones(1, t) for t in (np.float32, np.float64)}  # factors that cuBLAS reads
        self._zero = {t: np.zeros(1, t) for t in self._one}
        self._shared_limit = self.device.attributes["MaxSharedMemoryPerBlockOptin"]
        self._multiprocessors = self.device.attributes["MultiProcessorCount"]
        with self.device:
            self._done = cupy.zeros(4096, np.uint32)  # where blocks of a launch count those that have ended
            self._lt = self._products() if cublaslt is not None else None
        self._tested: set[str] = set()
        self._has_bf16 = int(self.device.compute_capability) >= 80

    def _products(self) -> Any:
        self._workspace = cupy.empty(cublaslt.WORKSPACE_BYTES, np.uint8)
        try:
            return cublaslt.Products(self._workspace.data.ptr)
        except Exception as error:  # whatever it is, cuBLAS does the same in more launches
            warnings.warn(f"cuBLASLt cannot be used, cuBLAS is: {type(error).__name__}: {error}", stacklevel=2)
            return None

    @property
    def uses_epilogues(self) -> bool:
        """Whether products add the bias and apply ReLU themselves, without other kernels."""
        return self._lt is not None

    @property
    def nccl(self) -> Any:
        """CuPy's interface to NCCL; its `available` is False without the library."""
        with warnings.catch_warnings():  # of the missing library
            warnings.simplefilter("ignore")
            from cupy.cuda import nccl  # cupy.cuda has no such attribute before this import
        return nccl

    def asarray(self, a: Any) -> Array:
        if isinstance(a, cupy.ndarray):
            return a
        if self._now is None:
            return cupy.asarray(a, order="C")  # copied without waiting
        with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc), cupy.cuda.Stream.null:
            self._held.append(cupy.asarray(a, order="C"))  # a constant: copied now, once
        return self._held[-1]

    @contextmanager
    def capturing(self, step: int, place: Array) -> Iterator[list[Array]]:
        """Inside the block, a stream of this GPU is captured: dropout reads its step from `place`.

        Yields the memory to keep as long as the graph.
        """
        self._now, self._held = (step, place), []
        self._causal = None  # a mask that is replaced, or that the graph has yet to compute, is not shared
        try:
            yield self._held
        finally:
            self._now, self._held, self._causal = None, [], None

    def set_precision(self, precision: str) -> None:
        if precision == "bf16" and BFLOAT16 is None:
            raise ValueError("precision=bf16 needs ml-dtypes: pip install '.[gpu]' in the project's directory")
        if precision == "bf16" and not self._has_bf16:
            raise ValueError(f"precision=bf16 needs a GPU of compute capability 8.0; cuda:{self.device.id} has less")
        self.tf32 = precision == "tf32"
        if precision not in self._tested:
            kind = {"float64": "double", "bf16": "bf16"}.get(precision, "float")
            dtype = BFLOAT16 if kind == "bf16" else WIDE[kind]
            with self.device:
                self.compile(cuda_source.usual_names(kind))
                self_test.run(self, kind, dtype, WIDE[kind])
            self._tested.add(precision)

    def takes(self, op: str, arrays: Sequence[Array], parameters: dict[str, Any]) -> bool:
        """The guard of the implementations in ops.py: whether kernels compute an op of these inputs."""
        guard = GUARDS.get(op)
        return guard is not None and guard(self, *arrays, **parameters)

    # ---- Launching ----

    def _launch(self, name: str, grid: tuple[int, ...], block: tuple[int, ...], *arguments: Any,
                shared: int = 0) -> None:  # fmt: skip
        """Launch a kernel.  Arguments: contiguous arrays, NumPy scalars and structures; None is a null pointer."""
        function = self._functions.get(name)
        if function is None:
            function = self._functions[name] = self._load(name)
        if shared > self._shared.get(name, 48 * 1024):
            function.max_dynamic_shared_size_bytes = self._shared[name] = shared
        function(grid, block, tuple([_NULL if a is None else a for a in arguments]), shared_mem=shared)

    def compile(self, names: Sequence[str]) -> None:
        """Compile kernels side by side.  The first time, they take 0.3 to 10 s of a core each; CuPy keeps them on disk.

        Others are compiled when they are first launched.
        """
        with ThreadPoolExecutor(available_cores()) as pool:
            found = {name: pool.submit(self._load, name) for name in names if name not in self._functions}
            if wait(found.values(), timeout=1).not_done:
                cores = available_cores()
                print(f"compiling {len(found)} CUDA kernels on {cores} cores, for the first run", file=sys.stderr)
            self._functions |= {name: each.result() for name, each in found.items()}

    def _load(self, name: str) -> Any:
        """The source includes no headers, so parsing all of it for each kernel costs little."""
        with cupy.cuda.Device(self.index):  # of this thread
            module = cupy.RawModule(code=cuda_source.source(), options=("-std=c++17",), name_expressions=[name])
            return module.get_function(name)

    def _drop_of(self, keep: random.Mask | None) -> Any:
        """Return a dropout mask as the structure `Drop` of kernels.cu."""
        if keep is None or not keep.drop_below:
            return NO_DROP
        step, now = keep.step, 0
        if self._now is not None:
            if step != self._now[0]:
                raise ValueError(f"a mask of step {step} in a graph that is captured in step {self._now[0]}")
            step, now = 0, self._now[1].data.ptr
        return np.array((keep.seed, step, keep.site, keep.first, keep.scale, keep.drop_below, 0, now), DROP)[()]

    def _each_group(self, name: str, kind: str, groups: int, *arguments: Any) -> None:
        """Launch a kernel that takes 16 elements a thread."""
        self._launch(f"{name}<{kind}>", (-(-groups // 256),), (256,), *arguments)

    # ---- Dropout ----

    def draw(self, mask: random.Mask, shape: tuple[int, ...]) -> random.Mask:
        return mask  # kernels draw it wherever they need it, so nothing is kept for the backward pass

    def dropout(self, x: Array, keep: random.Mask, scale: float) -> Array:
        kind, x = KINDS[x.dtype], _contiguous(x)
        y = cupy.empty(x.shape, x.dtype)
        if x.size:
            self._each_group("dropout", kind, -(-x.size // GROUP), x, y, np.int64(x.size), self._drop_of(keep))
        return y

    # ---- Layer normalisation ----

    def dropout_add_layer_norm(
        self, x: Array, residual: Array | None, keep: Any, scale: float, weight: Array, bias: Array, eps: float
    ) -> tuple[Array, Array, Array]:
        kind = _kind(x, *(() if residual is None else (residual,)))
        groups = _norm_groups(kind, x.shape[1], weight, bias)
        if kind is None or groups is None or not x.size:  # in a forward pass alone: see `takes`
            wide_x, *rest = _widened(x) if residual is None else _widened(x, residual)
            total = wide_x if residual is None else rest[0] + nn.dropped(cupy, wide_x, keep)
            y = nn.LayerNorm.forward(cupy, total, weight, bias, eps=eps).astype(x.dtype, copy=False)
            return y, *nn.normalised(cupy, total, eps)
        (rows, width), wide, x = x.shape, WIDE[kind], _rows(x)
        y, normalised, inverse_std = cupy.empty_like(x), cupy.empty_like(x), cupy.empty((rows, 1), wide)
        blocks = min(6 * self._multiprocessors, -(-rows // 4))  # those that run at once, which read parameters once
        self._launch(
            f"layer_norm<{kind}, {groups}>", (blocks,), (32, 4),
            x, None if residual is None else _rows(residual), _contiguous(weight), _contiguous(bias), y, normalised,
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
            g_y, normalised, inverse_std, _contiguous(weight), g_z, g_x, partial, self._done, g_weight, g_bias,
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
        kind, width = KINDS.get(dtype), weight.shape[1]
        if kind is None or weight.dtype != WIDE[kind]:
            return fused.ScaledEmbedding.forward(
                cupy, weight, indices, positions, scale=scale, drop=keep, dtype=dtype
            )  # fmt: skip
        y = cupy.empty((*indices.shape, width), dtype)
        if y.size:
            self._each_group(
                "embedding", kind, indices.size * -(-width // GROUP), _contiguous(weight), _indices(indices),
                None if positions is None else _contiguous(positions.astype(WIDE[kind], copy=False)), y,
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
        if total.dtype != WIDE[kind] or not _is_contiguous(total):  # not one that this class made
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
            f"embedding_backward<{kind}>", (chunks,), (threads,), _contiguous(g_y), keys, *settings,
            self._drop_of(drop),
        )  # fmt: skip
        self._launch(
            f"embedding_edges<{cuda_source.WIDE[kind]}>", (chunks, -(-width // 32)), (32, cuda_source.SUMMED),
            keys, edges, total, *settings[2:],
        )  # fmt: skip

    # ---- Products ----

    def product(self, a: Array, b: Array, dtype: Any = None) -> Array:
        kind = _kind(a, b)
        result = a.dtype if dtype is None else np.dtype(dtype)
        if kind is None or result not in (a.dtype, WIDE[kind]):
            return cupy.matmul(a, b).astype(result, copy=False)
        (m, inner), n = a.shape, b.shape[1]
        y = cupy.empty((m, n), result)
        if not inner:
            y.fill(0)
        elif y.size:
            self._gemm(kind, a, b, y)
        return y

    def add_product_(self, total: Array, a: Array, b: Array) -> None:
        """total += a b, in the launch of the product.  Shapes: total [..., n], a [rows, k], b [k, n]"""
        if _kind(a, b) is None or total.dtype != a.dtype or not _is_contiguous(total):
            total += self.product(a, b).reshape(total.shape)
        elif total.size and a.size:
            self._gemm(KINDS[a.dtype], a, b, total.reshape(len(a), -1), add=True)

    def _gemm(
        self, kind: str, a: Array, b: Array, y: Array, add: bool = False,
        epilogue: str = "", vector: Array | None = None,
    ) -> bool:  # fmt: skip
        """y ← a b, or y + a b with `add`.  cuBLAS is column-major: the memory of y is yᵀ = bᵀ aᵀ to it.

        epilogue: of cublaslt.py, with its `vector`; False is returned, and nothing done, where there is none
        """
        if epilogue and self._lt is None:
            return False
        (a, a_trans, a_ld), (b, b_trans, b_ld) = _for_blas(a), _for_blas(b)
        (m, inner), n, wide = a.shape, b.shape[1], WIDE[kind]
        compute = cublas.CUBLAS_COMPUTE_64F if kind == "double" else cublas.CUBLAS_COMPUTE_32F
        if kind == "float" and self.tf32:
            compute = cublas.CUBLAS_COMPUTE_32F_FAST_TF32
        one, factor = self._one[wide].ctypes.data, (self._one if add else self._zero)[wide].ctypes.data
        y_type, y_ld = CUDA_TYPES[KINDS[y.dtype]], max(n, y.strides[0] // y.itemsize)
        if self._lt is not None:
            left = cublaslt.Matrix(b.data.ptr, CUDA_TYPES[kind], *_stored(n, inner, b_trans), b_ld, bool(b_trans))
            right = cublaslt.Matrix(a.data.ptr, CUDA_TYPES[kind], *_stored(inner, m, a_trans), a_ld, bool(a_trans))
            result = cublaslt.Matrix(y.data.ptr, y_type, n, m, y_ld)
            given = {"epilogue": getattr(cublaslt, epilogue)} if epilogue else {}
            if vector is not None:
                given |= {"vector": vector.data.ptr, "vector_kind": CUDA_TYPES[KINDS[vector.dtype]]}
            stream = cupy.cuda.get_current_stream().ptr
            done = self._lt.multiply(left, right, result, one, factor, compute, stream, **given)
            if done or epilogue:
                return done
        cublas.gemmEx(
            cupy.cuda.device.get_cublas_handle(), b_trans, a_trans, n, m, inner,
            one, b.data.ptr, CUDA_TYPES[kind], b_ld, a.data.ptr, CUDA_TYPES[kind], a_ld, factor,
            y.data.ptr, y_type, y_ld, compute, cublas.CUBLAS_GEMM_DEFAULT,
        )  # fmt: skip
        return True

    def linear_gradients(
        self, g_y: Array, weight: Array | None, x: Array | None, dtype: Any, with_bias: bool
    ) -> tuple[Array | None, Array | None, Array | None]:
        g_x = None if weight is None else self.product(g_y, weight)
        if x is None:
            return g_x, None, self.sum_rows(g_y) if with_bias else None
        return g_x, self.product(g_y.T, x, dtype), self.sum_rows(g_y) if with_bias else None

    def linear_of_few(self, x: Array, w: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
        return self.linear(x, w.T, bias, relu, dtype)

    def prefers_contiguous(self, rows: int, n_in: int) -> bool:
        return False

    def side_by_side(self, arrays: Sequence[Array]) -> list[Array]:
        return self.parted(cupy.concatenate(arrays), [len(a) for a in arrays])

    def are_side_by_side(self, arrays: Sequence[Array]) -> bool:
        return all(a.flags.c_contiguous for a in arrays) and all(
            a.data.mem is b.data.mem and a.dtype == b.dtype and a.data.ptr + a.nbytes == b.data.ptr
            for a, b in itertools.pairwise(arrays)
        )

    def stacked(self, arrays: Sequence[Array]) -> Array:
        first = arrays[0]
        if len(arrays) == 1 or not self.are_side_by_side(arrays):
            return first if len(arrays) == 1 else cupy.concatenate(arrays)
        return cupy.ndarray((sum(map(len, arrays)), *first.shape[1:]), first.dtype, first.data)

    def parted(self, a: Array, sizes: Sequence[int]) -> list[Array]:
        # no views: the engine copies gradients that are views, since other arrays may share their memory
        row = math.prod(a.shape[1:]) * a.itemsize
        starts = itertools.accumulate(sizes[:-1], initial=0)
        return [
            cupy.ndarray((size, *a.shape[1:]), a.dtype, a.data + start * row)
            for start, size in zip(starts, sizes, strict=True)
        ]

    def linear(self, x: Array, weight: Array, bias: Array | None, relu: bool = False, dtype: Any = None) -> Array:
        kind = _kind(x, weight)
        result = x.dtype if dtype is None else np.dtype(dtype)
        biased = bias is None or (kind is not None and bias.dtype in (x.dtype, WIDE[kind]))
        if kind is None or not biased or result not in (x.dtype, WIDE[kind]):
            y = nn.Linear.forward(cupy, x, weight, bias, dtype=result)
            return cupy.maximum(y, 0) if relu else y
        # cuBLASLt reads a bias in the type of the result, whatever type is set (cublasLt.h, BIAS_DATA_TYPE)
        if self._lt is not None and bias is not None and bias.dtype == result and x.size and len(weight):
            y = cupy.empty((len(x), len(weight)), result)
            epilogue = "RELU_BIAS" if relu else "BIAS"
            if self._gemm(kind, x, weight.T, y, epilogue=epilogue, vector=_contiguous(bias)):
                return y
        y = self.product(x, weight.T, dtype)  # without such an epilogue, CuPy's own kernels do the rest
        if bias is not None:
            y[...] = y + bias
        return cupy.maximum(y, y.dtype.type(0), out=y) if relu else y

    def sum_rows(self, x: Array) -> Array:
        return self.relu_backward_sum(x, None)[1]

    def relu_backward_sum(self, g_y: Array, y: Array | None) -> tuple[Array, Array]:
        """g_y where y is positive, or all of g_y without y; and the sum of its rows."""
        kind, (rows, width) = KINDS.get(g_y.dtype) if y is None else _kind(g_y, y), g_y.shape
        columns = 32 * GROUP  # of a block
        across = -(-width // columns)
        if kind is None or not g_y.size or across > self._done.size:
            g_x = g_y if y is None else nn.Relu.backward(cupy, g_y, y, None)
            return g_x, _widened(g_x)[0].sum(axis=0)
        parts = min(cuda_source.SUM_BLOCKS, -(-rows // 8))
        g_x, total = g_y if y is None else cupy.empty(g_y.shape, g_y.dtype), cupy.empty(width, WIDE[kind])
        partial = cupy.empty((parts, across, columns), WIDE[kind])
        self._launch(
            f"relu_backward_sum<{kind}>", (across, parts), (32, 8), _contiguous(g_y),
            None if y is None else _contiguous(y), g_x, partial, self._done, total, np.int64(rows), np.int32(width),
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
        q, k, v, leading = _as_heads(q, k, v)
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
        return y.reshape(*leading, t, m) if y.shape[:2] != leading else y, (y, log_total, mask, causal)

    def attention_backward(
        self, g_y: Array, q: Array, k: Array, v: Array, kept: tuple[Any, ...], keep: Any, keep_scale: float,
        scale: float, places: Places = NO_PLACES,
    ) -> tuple[Array, Array, Array]:  # fmt: skip
        y, log_total, mask, causal = kept
        kind, head = self.attention_kernel(q, k, v)
        assert kind is not None  # as in the forward pass
        q, k, v, leading = _as_heads(q, k, v)
        g_y = g_y.reshape(y.shape)
        if g_y.strides[-1] != g_y.itemsize:
            g_y = cupy.ascontiguousarray(g_y)
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
        return tuple([g.reshape(*leading, *g.shape[2:]) if g.shape[:2] != leading else g for g in gradients])

    def attention_kernel(self, q: Array, k: Array, v: Array) -> tuple[str | None, int]:
        """C++ type and head width of the kernel for these arrays; (None, 0) if there is none."""
        kind, widest = _kind(q, k, v), max(q.shape[-1], v.shape[-1])
        if kind is None or widest > cuda_source.HEADS[-1]:
            return None, 0
        head = next(n for n in cuda_source.HEADS if widest <= n)
        # the backward pass needs more shared memory, and must be able to use a kernel where the forward pass does
        too_large = cuda_source.attention_shared_bytes(kind, head, backward=True) > self._shared_limit
        if (kind, head) == ("double", 128) or too_large or (kind == "bf16" and not self._has_bf16):
            return None, 0
        odd = q.ndim > 4 or 0 in (*q.shape, *k.shape, *v.shape) or len({*map(np.ndim, (q, k, v))}) > 1
        return (None, 0) if odd else (kind, head)

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

    @property
    def logits_bytes(self) -> int:
        """A 32nd of the GPU's memory: large products, in few launches."""
        total: int = self.device.mem_info[1]
        return total // 32

    def linear_cross_entropy(
        self, x: Array, weight: Array, bias: Array | None, targets: Array, counted: Array, factors: Array | None,
        wanted: Sequence[bool], *, label_smoothing: float, rows: int | None = None,
    ) -> tuple[Array, Array | None, Array | None, Array | None]:  # fmt: skip
        """Compute the loss as in numpy_layers.py; for bf16, the gradients of weight and bias are float32.

        Logits are bf16, as large as they are, and their gradient takes their place; without gradients, in validation,
        logits are float32.
        """
        kind, size, classes = KINDS[x.dtype], len(x), len(weight)
        wide, stride = WIDE[kind], -(-classes // ALIGNED) * ALIGNED
        dtype = x.dtype if any(wanted) else wide
        rows = min(size, rows or max(1, self.logits_bytes // (stride * dtype.itemsize)))
        targets, counted = _indices(targets), _contiguous(counted)
        factors = None if factors is None else _contiguous(factors.astype(wide, copy=False))
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
        kind = _kind(*[a for update in some for a in update[:4]]) if some else None
        if kind not in ("float", "double") or not all(map(_is_contiguous, arrays)):
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
        some = [(place, _contiguous(g), place if adds else None) for place, g, adds in gradients]
        kinds = {_kind(place, g) for place, g, *_ in some if g.size}
        if kinds != {"float"} and kinds != {"double"}:
            gather_(gradients)
            return
        lists, blocks = self._listed([each for each in some if each[0].size], 256 * cuda_source.PER_THREAD)
        self._launch(f"gather_<{kinds.pop()}>", (blocks,), (256,), lists, np.int32(len(lists)))

    def squared_norm(self, arrays: Sequence[Array]) -> Any:
        """Return the squared norm as a number on the device; reading it waits for all preceding work."""
        some = [_contiguous(a) for a in arrays if a.size]
        kind = _kind(*some) if some else None
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
        kind, (rows, classes) = _kind(logits), logits.shape
        if kind not in ("float", "double") or not logits.size:
            return top_tokens(self.to_host(logits), self.to_host(barred), count)
        wide = WIDE[kind]
        results = (((rows,), wide), ((rows, count), wide), ((rows, count), np.dtype(np.int32)))  # the widest first
        memory = cupy.empty(sum(math.prod(shape) * dtype.itemsize for shape, dtype in results), np.uint8)
        log_total, values, ids = _views(memory, results)
        self._launch(
            f"top_tokens<{kind}>", (rows,), (_threads(classes),), _contiguous(logits), barred, ids, values,
            log_total, np.int32(classes), np.int32(count),
        )  # fmt: skip
        log_total, values, ids = _views(memory.get(), results)  # one copy to the host, which waits, and not three
        return ids, values, log_total


# ---- Guards: which inputs the kernels take ---------------------------------------------------------------------------


def _linear(gpu: Cuda, x: Array, weight: Array, bias: Array | None, dtype: Any = None) -> bool:
    """float32, float64 or bfloat16; weight and bias also float32 beside bfloat16."""
    kind = KINDS.get(x.dtype)
    if kind is None or not (x.size and weight.size):
        return False
    types = x.dtype, WIDE[kind]
    return weight.dtype in types and (bias is None or bias.dtype in types) and dtype in (None, *types)


def _heads(gpu: Cuda, x: Array, *parameters: Array, heads: int, count: int) -> bool:
    """float32, float64 or bfloat16; parameters also float32 beside bfloat16."""
    biases = parameters[count:] or [None] * count
    return all(_linear(gpu, x, weight, bias) for weight, bias in zip(parameters[:count], biases, strict=True))


def _embedding(gpu: Cuda, weight: Array, indices: Array, positions: Array | None, *, dtype: Any, **_: Any) -> bool:
    """float32 or float64; the result also bfloat16."""
    kind = KINDS.get(weight.dtype if dtype is None else np.dtype(dtype))
    fits = (
        kind is not None
        and weight.dtype == WIDE[kind]
        and (positions is None or np.result_type(weight.dtype, positions.dtype) == weight.dtype)
    )
    return fits and bool(indices.size and weight.size)


def _norm(gpu: Cuda, x: Array, *others: Array, **_: Any) -> bool:
    """float32, float64 or bfloat16, in rows of up to 2,048."""
    *residual, weight, bias = others
    kind = _kind(x, *residual)
    return bool(x.size) and _norm_groups(kind, x.shape[-1], weight, bias) is not None


def _loss(gpu: Cuda, x: Array, weight: Array, bias: Array | None, **_: Any) -> bool:
    """float32, float64 or bfloat16 with float32 parameters."""
    return _linear(gpu, x, weight, None) and (
        bias is None or bias.dtype == WIDE[KINDS[x.dtype]]
    )  # fmt: skip


GUARDS: dict[str, Callable[..., bool]] = {
    "Linear": _linear,
    "LinearRelu": _linear,
    "LinearHeads": _heads,
    "ScaledEmbedding": _embedding,
    "LayerNorm": _norm,
    "DropoutAddLayerNorm": _norm,
    "Dropout": lambda gpu, x, drop: x.dtype in KINDS and bool(x.size),
    "ScaledDotProductAttention": lambda gpu, q, k, v, **_: gpu.attention_kernel(q, k, v)[0] is not None,
    "LinearCrossEntropy": _loss,
}

# ---- Arguments of kernels ----------------------------------------------------------------------------------------

_NULL = np.intp(0)


def _kind(*arrays: Array) -> str | None:
    """Return the C++ type of all arrays; None if they differ or there are no kernels for it."""
    kind = KINDS.get(arrays[0].dtype)
    return kind if all(a.dtype == arrays[0].dtype for a in arrays) else None


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


_is_contiguous = attrgetter("_c_contiguous")  # CuPy's `flags` takes 0.5 µs: 0.7 ms of a step, while the GPU waits


def _contiguous(a: Array) -> Array:
    return a if _is_contiguous(a) else cupy.ascontiguousarray(a)


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
    return _contiguous(a.astype(np.int32, copy=False))


def _threads(width: int) -> int:
    """Threads for a row: a power of two, with some 16 elements each."""
    return min(512, max(32, 1 << max(0, (width // GROUP - 1).bit_length())))


def _norm_groups(kind: str | None, width: int, *parameters: Array) -> int | None:
    """Return the smallest layer-norm kernel that holds a row; None if there is none."""
    fits = [groups for groups in cuda_source.NORM_GROUPS if width <= groups * 32 * GROUP]
    if kind is None or not fits or any(p.dtype != WIDE[kind] for p in parameters):
        return None
    return fits[0]


def _for_blas(a: Array) -> tuple[Array, int, int]:
    """Return a matrix that cuBLAS can read, whether it is transposed in memory, and its leading dimension."""
    rows, columns = a.shape
    if a.flags.c_contiguous:
        return a, cublas.CUBLAS_OP_N, columns
    if a.flags.f_contiguous:
        return a, cublas.CUBLAS_OP_T, rows
    down, along = (stride // a.itemsize for stride in a.strides)
    if along == 1 and down >= columns:
        return a, cublas.CUBLAS_OP_N, down
    if down == 1 and along >= rows:
        return a, cublas.CUBLAS_OP_T, along
    return cupy.ascontiguousarray(a), cublas.CUBLAS_OP_N, columns


def _stored(rows: int, columns: int, transposed: int) -> tuple[int, int]:
    """Return the shape in memory of a matrix that a product takes transposed, or as it is."""
    return (columns, rows) if transposed else (rows, columns)


def _as_heads(q: Array, k: Array, v: Array) -> tuple[Array, Array, Array, tuple[int, ...]]:
    """[B, H, T, K], [B, H, S, K] and [B, H, S, M], contiguous along the last axis; and the given leading axes."""
    leading = np.broadcast_shapes(q.shape[:-2], k.shape[:-2], v.shape[:-2])
    full = (1,) * (2 - len(leading)) + leading

    def shaped(a: Array) -> Array:
        if a.strides[-1] != a.itemsize and a.shape[-1] > 1:
            a = cupy.ascontiguousarray(a)
        return a if a.shape[:-2] == full else cupy.broadcast_to(a, (*full, *a.shape[-2:]))

    return shaped(q), shaped(k), shaped(v), leading


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
