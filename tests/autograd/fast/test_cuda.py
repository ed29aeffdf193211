"""The CUDA kernels against their plain definitions: emulated on the CPU, the text a GPU compiles, thread by thread.

The emulation shows indices, bounds, barriers, shuffles, the layout of tensor-core fragments, and every formula, forward
and backward.  With `-m gpu` the same tests run on a GPU.
"""

import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from autograd import random
from autograd.backend import CPU
from autograd.fast.table import Kernels
from autograd.ops.index import add_elements
from tests.emulation.device import KINDS, cuda_backend
from tests.helpers.marks import parametrize_some

pytestmark = pytest.mark.heavy

DTYPES = [np.float32, np.float64]
KINDS_OF_C = {np.float32: "float", np.float64: "double"}
NUMPY = Kernels(CPU, "numpy")


@pytest.fixture(params=KINDS)
def backend(request: pytest.FixtureRequest) -> Iterator[Any]:
    with cuda_backend(request.param) as made:
        yield made


@pytest.fixture(params=[False, True], ids=["forwards", "backwards"])
def order(request: pytest.FixtureRequest, backend: Any) -> None:
    """Threads take turns from the first to the last, or the other way: a missing barrier shows in one of them."""
    if backend.emulator is not None:  # a GPU has its own order, and the second run is a repetition
        backend.emulator.backwards = request.param


# ---- Moving between the two worlds -------------------------------------------------------------------------------


def test_transposed_arrays_arrive_in_c_order(backend: Any) -> None:
    """Kernels index rows; a model of Marian has transposed views on the CPU."""
    x = np.arange(6.0).reshape(2, 3).T
    assert backend.asarray(x).flags.c_contiguous
    np.testing.assert_array_equal(to_host(backend.asarray(x)), x)


def to_device(backend: Any, x: Any) -> Any:
    if isinstance(x, np.ndarray | np.generic):
        return backend.asarray(x)
    return tuple([to_device(backend, each) for each in x]) if isinstance(x, tuple) else x


def to_host(x: Any) -> Any:
    if hasattr(x, "get"):
        return x.get()
    return tuple([to_host(each) for each in x]) if isinstance(x, tuple | list) else x


def flat(x: Any) -> list[np.ndarray]:
    return [array for each in x if each is not None for array in flat(each)] if isinstance(x, tuple | list) else [x]


def assert_close(ours: Any, theirs: Any, tolerance: float) -> None:
    ours, theirs = [[np.asarray(a) for a in flat(to_host(x))] for x in (ours, theirs)]
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        assert a.shape == b.shape
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=tolerance, atol=tolerance)


def normal(rng: np.random.Generator, *shape: int, dtype: Any = np.float64) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def tolerance_of(dtype: Any) -> float:
    return 1e-12 if np.dtype(dtype) == np.float64 else 2e-5


def test_nccl_is_imported_where_it_is_used(backend: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`cupy.cuda` has no attribute `nccl` before that."""
    if backend.emulator is not None:
        for name in ("cupy.cuda", "cupy.cuda.nccl"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
    assert backend.nccl is sys.modules["cupy.cuda.nccl"]


# ---- Random numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_row", [0, 1, 7])
@pytest.mark.parametrize("shape", [(1,), (16,), (5, 3), (3, 4, 37), (300, 7)])
def test_masks_are_those_of_the_cpu(backend: Any, shape: tuple[int, ...], first_row: int) -> None:
    mask = random.Mask(seed=2**63 + 5, step=3, site=2**33 + 1, shape=shape, first_row=first_row, drop_below=20_000)
    drawn = backend.dropout(backend.asarray(np.ones(shape, np.float32)), backend.draw(mask, shape), mask.scale)
    np.testing.assert_array_equal(drawn.get() > 0, mask.array())


def masks(shape: tuple[int, ...], **settings: int) -> random.Mask:
    given = {"seed": 1, "step": 2, "site": 3, "first_row": 1, "drop_below": 20_000, **settings}
    return random.Mask(shape=shape, **given)  # type: ignore[arg-type]


def both(name: str, backend: Any, args: tuple[Any, ...], mask: random.Mask | None) -> tuple[Any, Any]:
    """The result of a kernel with a mask as its last argument but one, and that of its definition."""
    scale = 1.0 if mask is None else mask.scale
    kept = None if mask is None else mask.array()
    ours = getattr(backend, name)(*[to_device(backend, a) for a in args], mask, scale)
    return ours, getattr(NUMPY, name)(*args, kept, scale)


# ---- Rows --------------------------------------------------------------------------------------------------------

ROWS = [(1, 1), (3, 5), (2, 16), (5, 37), (3, 512), (9, 513), (2, 1100)]


@parametrize_some("drop_below", [None, 20_000, 0, 65_535], keep=2)
@pytest.mark.parametrize("shape", ROWS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout_residual_and_layer_norm(
    backend: Any, order: None, dtype: Any, shape: tuple[int, int], drop_below: int | None
) -> None:
    rng = np.random.default_rng(0)
    x, residual, g_y = (normal(rng, *shape, dtype=dtype) for _ in range(3))
    weight, bias = normal(rng, shape[1], dtype=dtype), normal(rng, shape[1], dtype=dtype)
    mask = None if drop_below is None else masks(shape, drop_below=drop_below)
    scale, keep = (1.0, None) if mask is None else (mask.scale, mask.array())
    args = to_device(backend, (x, residual)), to_device(backend, (weight, bias))
    ours = backend.dropout_add_layer_norm(*args[0], mask, scale, *args[1], 1e-6)
    theirs = NUMPY.dropout_add_layer_norm(x, residual, keep, scale, weight, bias, 1e-6)
    size = max(scale / 100, 1) if dtype == np.float32 else scale  # numbers scaled up by 65536 round likewise
    assert_close(ours, theirs, 20 * size * tolerance_of(dtype))
    _, normalised, inverse_std = theirs
    args = tuple([to_device(backend, a) for a in (g_y, normalised, inverse_std, weight)])
    ours = backend.dropout_add_layer_norm_backward(*args, mask, scale)
    theirs = NUMPY.dropout_add_layer_norm_backward(g_y, normalised, inverse_std, weight, keep, scale)
    assert_close(ours, theirs, 20 * scale * tolerance_of(dtype))
    assert [name.split("<")[0] for name in backend.launched][:2] == ["layer_norm", "layer_norm_backward"]


@pytest.mark.parametrize("shape", [(4,), (3, 7), (17, 33)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_dropout(backend: Any, dtype: Any, shape: tuple[int, ...]) -> None:
    x = normal(np.random.default_rng(0), *shape, dtype=dtype)
    assert_close(*both("dropout", backend, (x,), masks(shape)), tolerance_of(dtype))


@parametrize_some("dtype", DTYPES)
def test_many_rows_add_up_in_blocks(backend: Any, order: None, dtype: Any) -> None:
    """More rows than warps, so that a warp adds several up, and several partial sums a column."""
    rng = np.random.default_rng(0)
    g_y, normalised, weight = (normal(rng, *shape, dtype=dtype) for shape in ((2700, 3), (2700, 3), (3,)))
    args = g_y, normalised, rng.random((2700, 1)).astype(dtype), weight
    ours = backend.dropout_add_layer_norm(*to_device(backend, (g_y, None, None, 1.0, weight, weight, 1e-6)))
    assert_close(
        ours, NUMPY.dropout_add_layer_norm(g_y, None, None, 1.0, weight, weight, 1e-6), 1e3 * tolerance_of(dtype)
    )
    for _ in range(2):  # the second launch finds no trace of the first
        ours = backend.dropout_add_layer_norm_backward(*[backend.asarray(a) for a in args], None, 1.0)
        assert_close(ours, NUMPY.dropout_add_layer_norm_backward(*args, None, 1.0), 1000 * tolerance_of(dtype))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, "bfloat16"])
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (3, 33), (65, 64), (1000, 40)])
def test_gradient_of_relu_and_of_its_bias(backend: Any, dtype: Any, rows: int, width: int) -> None:
    """The sum is float32 for bfloat16; without ReLU, it is that of the rows as they are."""
    dtype = np.dtype(dtype) if dtype != "bfloat16" else np.dtype(pytest.importorskip("ml_dtypes").bfloat16)
    rng = np.random.default_rng(0)
    g_y = rng.integers(-3, 4, (rows, width)).astype(dtype)  # sums of small integers are exact
    y = np.maximum(rng.integers(-2, 3, (rows, width)), 0).astype(dtype)
    g_x, g_bias = backend.relu_backward_sum(backend.asarray(g_y), backend.asarray(y))
    expected = np.where(y > 0, g_y, 0).astype(dtype)
    np.testing.assert_array_equal(g_x.get(), expected)
    np.testing.assert_array_equal(g_bias.get(), expected.astype(np.float64).sum(axis=0))
    assert g_bias.base is None
    np.testing.assert_array_equal(backend.sum_rows(backend.asarray(g_y)).get(), g_y.astype(np.float64).sum(axis=0))


@pytest.mark.parametrize("layout", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_gradients_are_added_to_a_sum_of_any_layout(backend: Any, dtype: Any, layout: Any) -> None:
    """That of a layer's input, by its product, and that of an embedding, in its rows."""
    rng = np.random.default_rng(0)
    total, a, b = (rng.integers(-3, 4, shape).astype(dtype) for shape in ((12, 5), (12, 7), (7, 5)))
    ours = backend.xp.empty((12, 5), dtype, order=layout)
    ours[...] = backend.asarray(total)
    assert ours.flags.c_contiguous == (layout == "C")
    backend.add_product_(ours, backend.asarray(a), backend.asarray(b))
    np.testing.assert_array_equal(ours.get(), total + a @ b)
    indices = np.array([3, 0, 3, 11], np.int32)
    backend.add_embedding_(ours, backend.asarray(total[:4]), backend.asarray(indices), 2.0, None)
    expected = total + a @ b
    np.add.at(expected, indices, 2 * total[:4])
    np.testing.assert_array_equal(ours.get(), expected)


def test_gradients_of_parameters_are_no_views(backend: Any) -> None:
    """The engine copies a view, whose memory others may share: a launch for each of 156 parameters."""
    rng = np.random.default_rng(0)
    g_y = backend.asarray(normal(rng, 300, 33))
    inverse_std, weight = (backend.asarray(normal(rng, *shape)) for shape in ((300, 1), (33,)))
    found = [
        backend.sum_rows(g_y),
        *backend.dropout_add_layer_norm_backward(g_y, g_y, inverse_std, weight, None, 1.0)[2:],
    ]
    assert [(a.base, a.shape, a.flags.c_contiguous) for a in found] == [(None, (33,), True)] * 3
    assert backend.causal_mask(3, 5) is backend.causal_mask(3, 5)
    np.testing.assert_array_equal(backend.causal_mask(3, 5).get(), np.tri(3, 5, dtype=bool))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [600, 1100, 2048])
def test_wide_rows_are_normalised_by_kernels(backend: Any, order: None, dtype: Any, width: int) -> None:
    """Registers hold only a part of a row, or of the sums of its columns."""
    rng = np.random.default_rng(0)
    g_y, normalised = normal(rng, 9, width, dtype=dtype), normal(rng, 9, width, dtype=dtype)
    args = g_y, normalised, rng.random((9, 1)).astype(dtype), normal(rng, width, dtype=dtype)
    ours = backend.dropout_add_layer_norm_backward(*[backend.asarray(a) for a in args], None, 1.0)
    assert_close(ours, NUMPY.dropout_add_layer_norm_backward(*args, None, 1.0), 100 * tolerance_of(dtype))
    assert backend.launched[0].startswith("layer_norm_backward<")


# ---- Embedding ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("drop_below", [None, 20_000])
@pytest.mark.parametrize("with_positions", [False, True])
@pytest.mark.parametrize(("b", "t", "d"), [(1, 1, 1), (2, 3, 5), (3, 7, 40)])
def test_embedding(backend: Any, b: int, t: int, d: int, with_positions: bool, drop_below: int | None) -> None:
    rng = np.random.default_rng(0)
    weight, indices = normal(rng, 11, d), rng.integers(0, 11, (b, t), np.int32)
    positions = normal(rng, t, d) if with_positions else None
    mask = None if drop_below is None else masks((b, t, d))
    ours, theirs = both("embedding", backend, (weight, indices, positions, 2.5), mask)
    assert_close(ours, theirs, 1e-14)


def test_an_index_outside_gives_nan(backend: Any) -> None:
    y = backend.embedding(backend.asarray(np.ones((3, 2))), backend.asarray(np.array([0, 3, -1])), None, 1.0, None, 1.0)
    np.testing.assert_array_equal(np.isnan(y.get()), [[False] * 2, [True] * 2, [True] * 2])
    x, targets, counted = (backend.asarray(a) for a in (np.ones((3, 2)), np.array([0, 2, -1]), np.ones(3, bool)))
    (loss, _), *_ = backend.linear_cross_entropy(
        x, x[:2], None, targets, counted, None, (False,) * 3, label_smoothing=0.1
    )  # fmt: skip
    np.testing.assert_array_equal(np.isnan(loss.get()), [False, True, True])


@parametrize_some("vocabulary", [2, 400, 1, 5], keep=2)
@pytest.mark.parametrize(("rows", "width"), [(1, 1), (31, 3), (32, 16), (33, 17), (200, 40)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_of_equal_indices_add_up(
    backend: Any, order: None, dtype: Any, rows: int, width: int, vocabulary: int
) -> None:
    """Runs of equal indices that end inside a block's share, at its edge, and that go on over several shares."""
    rng = np.random.default_rng(0)
    g_y, indices = normal(rng, rows, width, dtype=dtype), rng.integers(0, vocabulary, rows)
    ours = backend.embedding_backward(backend.asarray(g_y), backend.asarray(indices), vocabulary)
    assert_close(ours, NUMPY.embedding_backward(g_y, indices, vocabulary), 20 * tolerance_of(dtype))


def test_a_frequent_index_has_many_edges(backend: Any, order: None) -> None:
    """More chunks than rows of threads, of an index that begins and ends inside a chunk."""
    rng = np.random.default_rng(0)
    g_y, indices = normal(rng, 1500, 35), np.full(1500, 2)
    indices[:40], indices[-50:] = 1, 3
    ours = backend.embedding_backward(backend.asarray(g_y), backend.asarray(indices), 5)
    assert_close(ours, NUMPY.embedding_backward(g_y, indices, 5), 1e-10)


def test_rows_of_an_index_outside_have_no_gradient(backend: Any, order: None) -> None:
    """A negative index reads nothing before its arrays, and adds nothing to row 0."""
    rng = np.random.default_rng(0)
    g_y, indices = normal(rng, 100, 20), rng.integers(-3, 7, 100)
    inside = (indices >= 0) & (indices < 5)
    ours = backend.embedding_backward(backend.asarray(g_y), backend.asarray(indices), 5)
    assert_close(ours, NUMPY.embedding_backward(g_y[inside], indices[inside], 5), 1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.complex128, np.int64])
def test_values_are_added_in_a_fixed_order(backend: Any, dtype: Any) -> None:
    """`cupy.add.at` adds atomically: the order, and the last bits, would change from run to run."""
    rng = np.random.default_rng(0)
    positions, values = rng.integers(0, 9, 200), (4 * normal(rng, 200)).astype(dtype)
    ours = add_elements(backend.xp, backend.asarray(values), backend.asarray(positions), (11,))
    assert ours.dtype == dtype
    expected = np.zeros(11, np.complex128)
    np.add.at(expected, positions, values.astype(np.complex128))
    tolerance = {np.float32: 1e-5, np.float16: 0.05, np.int64: 0}.get(dtype, 1e-13)
    np.testing.assert_allclose(ours.get().astype(np.complex128), expected, rtol=tolerance, atol=tolerance)


# ---- Attention ---------------------------------------------------------------------------------------------------


def attention_masks(rng: np.random.Generator, b: int, h: int, t: int, s: int) -> dict[str, np.ndarray | None]:
    padding = np.arange(s) < rng.integers(0, s + 1, (b, 1, 1, 1))
    return {
        "none": None,
        "padding": padding,
        "causal": np.tri(t, s, dtype=bool),
        "padded and causal": padding & np.tri(t, s, dtype=bool),
        "any": rng.random((b, h, t, s)) < 0.5,
    }


def heads(rng: np.random.Generator, b: int, h: int, n: int, width: int, dtype: Any) -> np.ndarray:
    """As the model has them: [B, H, N, width], which lies in memory position by position."""
    return normal(rng, b, n, h, width, dtype=dtype).swapaxes(1, 2)


SIZES = [(1, 1, 1, 1, 1, 1), (2, 3, 4, 5, 3, 5), (1, 2, 64, 64, 64, 64), (1, 1, 65, 130, 20, 7), (1, 1, 130, 9, 8, 100)]


@parametrize_some("drop_below", [20_000, None])
@pytest.mark.parametrize("kind", ["none", "padding", "causal", "padded and causal", "any"])
@pytest.mark.parametrize("size", [size for size in SIZES if size[-1] <= 64], ids=str)  # wider heads have no kernel
def test_attention_in_float64(backend: Any, size: tuple[int, ...], kind: str, drop_below: int | None) -> None:
    check_attention(backend, size, kind, drop_below, np.float64)


@pytest.mark.parametrize(
    ("size", "kind", "drop_below"),
    [(SIZES[0], "none", None), (SIZES[1], "any", 20_000), (SIZES[3], "padding", 20_000), (SIZES[4], "none", None)],
)
def test_attention_in_float32(
    backend: Any, order: None, size: tuple[int, ...], kind: str, drop_below: int | None
) -> None:
    check_attention(backend, size, kind, drop_below, np.float32)


def check_attention(backend: Any, size: tuple[int, ...], kind: str, drop_below: int | None, dtype: Any) -> None:
    b, h, t, s, k_width, v_width = size
    rng = np.random.default_rng(0)
    q, k, v = (heads(rng, b, h, n, w, dtype) for n, w in ((t, k_width), (s, k_width), (s, v_width)))
    g_y = heads(rng, b, h, t, v_width, dtype)
    allowed = attention_masks(rng, b, h, t, s)[kind]
    mask = None if drop_below is None else masks((b, h, t, s))
    scale, keep = (1.0, None) if mask is None else (mask.scale, mask.array())
    device = [to_device(backend, a) for a in (q, k, v, allowed)]
    if kind == "causal":
        device[3] = backend.causal_mask(t, s)  # whose elements kernels need not read
    y, kept = backend.attention(*device, mask, scale, 0.3)
    expected, expected_kept = NUMPY.attention(q, k, v, allowed, keep, scale, 0.3)
    assert_close(y, expected, 20 * tolerance_of(dtype))
    gradients = backend.attention_backward(backend.asarray(g_y), *device[:3], kept, mask, scale, 0.3)
    assert_close(
        gradients, NUMPY.attention_backward(g_y, q, k, v, expected_kept, keep, scale, 0.3),
        100 * tolerance_of(dtype),
    )  # fmt: skip
    used = [name.split("<")[0] for name in backend.launched]
    queries = ["attention_backward_queries"] if s > 64 else []
    assert used == ["attention", *queries, "attention_backward"]


def test_keys_shared_by_a_batch(backend: Any) -> None:
    rng = np.random.default_rng(0)
    q, k, v = normal(rng, 3, 2, 4, 5), normal(rng, 1, 2, 6, 5), normal(rng, 2, 6, 3)[None]
    y, _ = backend.attention(*[backend.asarray(a) for a in (q, k, v)], None, None, 1.0, 0.5)
    assert_close(y, NUMPY.attention(q, k, v, None, None, 1.0, 0.5)[0], 1e-13)


# ---- bfloat16 ----------------------------------------------------------------------------------------------------


@pytest.fixture
def bf16() -> np.dtype:
    return np.dtype(pytest.importorskip("ml_dtypes").bfloat16)


def rounded(bf16: np.dtype, *arrays: np.ndarray) -> list[np.ndarray]:
    """Numbers that bfloat16 holds exactly, in float64, so that the definition starts from the same ones."""
    return [a.astype(bf16).astype(np.float64) for a in arrays]


BF16 = 2**-8  # relative, of one rounding


@pytest.mark.parametrize(
    "size", [(1, 1, 3, 5, 8, 8), (2, 2, 50, 50, 64, 64), (1, 1, 70, 130, 64, 20), (1, 1, 9, 70, 100, 128)], ids=str
)
@pytest.mark.parametrize("kind", ["none", "causal", "padded and causal", "any"])
def test_attention_on_tensor_cores(backend: Any, order: None, bf16: np.dtype, size: tuple[int, ...], kind: str) -> None:
    b, h, t, s, k_width, v_width = size
    rng = np.random.default_rng(0)
    shapes = ((t, k_width), (s, k_width), (s, v_width), (t, v_width))
    q, k, v, g_y = rounded(bf16, *[heads(rng, b, h, n, w, np.float64) for n, w in shapes])
    allowed = attention_masks(rng, b, h, t, s)[kind]
    mask = masks((b, h, t, s)) if kind == "any" else None
    scale, keep = (1.0, None) if mask is None else (mask.scale, mask.array())
    device = [backend.asarray(a.astype(bf16)) for a in (q, k, v, g_y)]
    causal = backend.causal_mask(t, s) if kind == "causal" else None
    y, kept = backend.attention(
        *device[:3], to_device(backend, allowed) if causal is None else causal, mask, scale, 0.125
    )
    expected, expected_kept = NUMPY.attention(q, k, v, allowed, keep, scale, 0.125)
    assert_close(y, expected, 4 * BF16)
    gradients = backend.attention_backward(device[3], *device[:3], kept, mask, scale, 0.125)
    exact = NUMPY.attention_backward(g_y, q, k, v, expected_kept, keep, scale, 0.125)
    for ours, theirs in zip(gradients, exact, strict=True):
        assert np.linalg.norm(ours.get().astype(np.float64) - theirs) < 3 * BF16 * np.linalg.norm(theirs) + 1e-6
    assert all("bf16" in name for name in backend.launched)


@pytest.mark.parametrize("scale", [1.0, 0.3])  # one that is no power of two is rounded
def test_a_weight_of_one_gives_scores_no_gradient(backend: Any, bf16: np.dtype, scale: float) -> None:
    """As in the definition: not the rounding of large numbers, which large queries and keys multiply."""
    rng = np.random.default_rng(0)
    mask, (b, h, t, s, width) = masks((2, 3, 7, 40)), (2, 3, 7, 40, 64)
    q, k, v, g_y = [1e3 * heads(rng, b, h, n, width, np.float64) for n in (t, s, s, t)]
    for dtype in (np.float32, np.float64, bf16):
        device = [backend.asarray(a.astype(dtype)) for a in (q, k, v, g_y)]
        _, kept = backend.attention(*device[:3], None, mask, mask.scale, scale)
        g_q, g_k, g_v = backend.attention_backward(device[3], *device[:3], kept, mask, mask.scale, scale)
        assert not g_q.get().any()
        assert not g_k.get().any()
        assert g_v.get().any()


def test_rows_in_bfloat16(backend: Any, bf16: np.dtype) -> None:
    """Statistics are float32: the error is that of rounding the results once, whatever the width."""
    rng = np.random.default_rng(0)
    x, residual, g_y = rounded(bf16, *[3 + normal(rng, 5, 600) for _ in range(3)])
    weight, bias = 1 + normal(rng, 600, dtype=np.float32) / 9, normal(rng, 600, dtype=np.float32)
    mask = masks((5, 600))
    low = [backend.asarray(a.astype(bf16)) for a in (x, residual, g_y)]
    parameters = [backend.asarray(a) for a in (weight, bias)]
    y, normalised, inverse_std = backend.dropout_add_layer_norm(*low[:2], mask, mask.scale, *parameters, 1e-6)
    expected = NUMPY.dropout_add_layer_norm(x, residual, mask.array(), mask.scale, weight, bias, 1e-6)
    assert y.dtype == normalised.dtype == bf16
    assert_close((y, normalised), expected[:2], BF16)
    assert_close(inverse_std, expected[2], 1e-5)
    ours = backend.dropout_add_layer_norm_backward(low[2], normalised, inverse_std, parameters[0], mask, mask.scale)
    exact = [normalised.get().astype(np.float64), inverse_std.get().astype(np.float64)]
    theirs = NUMPY.dropout_add_layer_norm_backward(g_y, *exact, weight, mask.array(), mask.scale)
    assert_close(ours[:2], theirs[:2], BF16 * 4)
    assert_close(ours[2:], theirs[2:], 1e-4)


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("rows", [2, None])
def test_loss_of_a_product_in_bfloat16(backend: Any, bf16: np.dtype, rows: int | None, trains: bool) -> None:
    """In training, logits and their gradients are bfloat16 in the same memory; in validation, logits are never rounded.

    The loss is that of these logits, exact to float32.
    """
    rng = np.random.default_rng(0)
    x, weight = rounded(bf16, normal(rng, 5, 20), normal(rng, 70, 20))
    bias, targets, counted = normal(rng, 70, dtype=np.float32), rng.integers(0, 70, 5), np.arange(5) != 3
    low = [backend.asarray(a.astype(bf16)) for a in (x, weight)]
    found, *gradients = backend.linear_cross_entropy(
        *low, backend.asarray(bias), backend.asarray(targets), backend.asarray(counted), None, (trains,) * 3,
        label_smoothing=0.1, rows=rows,
    )  # fmt: skip
    logits = x @ weight.T
    (logits,) = rounded(bf16, rounded(bf16, logits)[0] + bias) if trains else (logits + bias,)
    losses = NUMPY.cross_entropy_(logits, targets, 0.1)  # the logits become gradients
    assert_close(tuple(found), [np.where(counted, each, 0) for each in losses], 1e-5)
    assert {name for name in backend.launched if "cross" in name} == {f"cross_entropy<{'bf16' if trains else 'float'}>"}
    if trains:
        g = logits * counted[:, None]
        assert [a.dtype for a in (found, *gradients)] == [np.float32, bf16, np.float32, np.float32]
        assert_close(gradients, (g @ weight, g.T @ x, g.sum(axis=0)), 8 * BF16)
    else:
        assert gradients == [None, None, None]


@pytest.mark.parametrize("classes", [3, 512, 4103])
@pytest.mark.parametrize("offset", [0, 5], ids=["aligned", "unaligned"])
@pytest.mark.parametrize("kind", ["bf16", "float", "double"])
def test_loss_of_large_logits(backend: Any, order: None, bf16: np.dtype, kind: str, classes: int, offset: int) -> None:
    """Loss and gradient in place: exact to the type of statistics however large the logits, also by powers of two.

    Rows that are no multiple of 16 bytes apart, a target in the last few classes, a row that does not count, and -inf.
    """
    rng = np.random.default_rng(0)
    dtype = {"bf16": bf16, "float": np.float32, "double": np.float64}[kind]
    logits = (90 + 4 * normal(rng, 4, classes)).astype(dtype)
    logits[2, : classes - 1] = -np.inf
    targets, counted = np.array([classes - 1, 0, classes - 1, 1], np.int32), np.array([True, True, True, False])
    wide = np.float64 if kind == "double" else np.float32
    place = backend.asarray(np.zeros((4, classes + (-classes % 64 or 64) + offset), dtype))[:, :classes]
    loss, nll = (backend.asarray(np.zeros(4, wide)) for _ in range(2))
    factors = backend.asarray(np.array([1, 0.5, 2, 1], wide))
    tolerance = {"bf16": BF16, "float": 2e-5, "double": 1e-12}[kind]
    for smoothing in (0.0, 0.1):
        place[...] = backend.asarray(logits)
        rows = [backend.asarray(a) for a in (targets, counted)]
        backend._launch_loss(place, *rows, factors, loss, nll, place, smoothing)
        exact = logits.astype(np.float64)
        found = NUMPY.cross_entropy_(exact, targets, smoothing)  # the logits become gradients
        exact *= np.array([1, 0.5, 2, 0])[:, None]
        for ours, theirs in zip((loss, nll), found, strict=True):
            precision = 1e-13 if kind == "double" else 1e-6
            np.testing.assert_allclose(ours.get(), np.where(counted, theirs, 0), rtol=precision, atol=precision)
        np.testing.assert_allclose(place.get().astype(np.float64), exact, rtol=tolerance, atol=1e-7)


def test_a_row_of_logits_in_shared_memory_gives_the_same_bits(
    backend: Any, bf16: np.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where one fits; else it is read from memory twice."""
    rng = np.random.default_rng(0)
    x, weight, targets = normal(rng, 5, 20), normal(rng, 1000, 20), rng.integers(0, 1000, 5)
    counted, found = backend.asarray(np.arange(5) != 3), []
    for dtype in (bf16, np.float32, np.float64):
        args = [*[backend.asarray(a.astype(dtype)) for a in (x, weight)], None, backend.asarray(targets), counted, None]
        for limit in (backend._shared_limit, 0):
            with monkeypatch.context() as patch:
                patch.setattr(backend, "_shared_limit", limit)
                found.append(to_host(backend.linear_cross_entropy(*args, (True, True, False), label_smoothing=0.1)[:3]))
        for kept, read_again in zip(*found[-2:], strict=True):
            np.testing.assert_array_equal(kept, read_again)


def test_rows_are_in_the_order_of_their_indices(backend: Any, order: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """More rows than a block takes, by comparing all pairs and by a sort; rows that are dropped, scaled and added."""
    rng = np.random.default_rng(0)
    for rows in (1, 127, 129, 400):
        indices, keys = rng.integers(0, 40, rows).astype(np.int32), backend.asarray(np.zeros(rows, np.int64))
        backend._launch("order_rows", (-(-rows // 128),), (32, 8), backend.asarray(indices), keys, np.int32(rows))
        np.testing.assert_array_equal(to_host(keys), np.sort(indices.astype(np.int64) * rows + np.arange(rows)))
    g_y, mask = normal(rng, rows, 20), masks((rows, 20))
    total = NUMPY.embedding_backward(NUMPY.dropout(g_y, mask.array(), mask.scale), indices, 40, 1.5)
    for most in (rows, rows - 1):
        monkeypatch.setattr("autograd.fast.cuda_source.ORDERED", most)
        given = backend.embedding_backward(backend.asarray(g_y), backend.asarray(indices), 40, 1.5, mask)
        assert_close(given, total, 1e-12)
    assert backend.launched.count("order_rows") == 4 + 1


def test_products_in_bfloat16_add_up_in_float32(backend: Any, bf16: np.dtype) -> None:
    rng = np.random.default_rng(0)
    a, b = rounded(bf16, normal(rng, 7, 300), normal(rng, 5, 300))
    low = [backend.asarray(x.astype(bf16)) for x in (a, b)]
    wide = backend.product(low[0], low[1].T, np.float32)
    assert wide.dtype == np.float32
    assert_close(wide, a @ b.T, 1e-4)
    narrow = backend.product(low[0], low[1].T)
    assert narrow.dtype == bf16
    assert_close(narrow, (a @ b.T), 16 * BF16)


def test_embedding_into_bfloat16(backend: Any, bf16: np.dtype) -> None:
    rng = np.random.default_rng(0)
    weight, indices = normal(rng, 9, 20, dtype=np.float32), rng.integers(0, 9, (40, 2))
    y = backend.embedding(backend.asarray(weight), backend.asarray(indices), None, 2.0, None, 1.0, bf16)
    np.testing.assert_array_equal(y.get(), (2 * weight[indices]).astype(bf16))
    g_weight = backend.embedding_backward(y.reshape(80, 20), backend.asarray(indices.reshape(-1)), 9)
    expected = NUMPY.embedding_backward(y.get().astype(np.float64).reshape(80, 20), indices.reshape(-1), 9)
    assert g_weight.dtype == np.float32
    assert_close(g_weight, expected, 1e-4)


# ---- Optimizer and search ----------------------------------------------------------------------------------------

ADAM = {"step_size": 0.01, "beta1": 0.9, "beta2": 0.98, "eps": 1e-9, "gradient_scale": 0.5}


@pytest.mark.parametrize("dtype", DTYPES)
def test_adam_for_many_arrays_at_once(backend: Any, dtype: Any) -> None:
    """In one launch: some arrays are larger than a block, some empty."""
    rng = np.random.default_rng(0)
    sizes = [0, 1, 0, 3000, 1024, *range(5, 75), 0]
    arrays = [[normal(rng, n, dtype=dtype) for _ in range(3)] + [rng.random(n).astype(dtype)] for n in sizes]
    device = [[backend.asarray(a) for a in some] for some in arrays]
    backend.adam_all_([(*some, None) for some in device], **ADAM)
    NUMPY.adam_all_([(*some, None) for some in arrays], **ADAM)
    for ours, theirs in zip(device, arrays, strict=True):
        assert_close(tuple(ours), tuple(theirs), tolerance_of(dtype))
    assert len(backend.launched) == 1
    exact = sum(float((some[1].astype(np.float64) ** 2).sum()) for some in arrays)
    assert float(backend.squared_norm([some[1] for some in device])) == pytest.approx(exact, rel=1e-5)


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_gathered_in_one_launch(backend: Any, dtype: Any) -> None:
    """Written or added; some are larger than a block, some empty."""
    rng = np.random.default_rng(0)
    parts = [
        (normal(rng, n, dtype=dtype), normal(rng, n, dtype=dtype), n % 2 == 0) for n in (0, 1, 3, 1024, 1026, 5000)
    ]
    device = [tuple([to_device(backend, each) for each in part]) for part in parts]
    backend.gather_(device)
    NUMPY.gather_(parts)
    for (ours, *_), (theirs, *_) in zip(device, parts, strict=True):
        np.testing.assert_array_equal(to_host(ours), theirs)
    assert backend.launched == [f"gather_<{KINDS_OF_C[dtype]}>"]


def test_adam_in_float32_uses_beta_as_given(backend: Any) -> None:
    """In float32, 1 - 0.999 is off by 1e-5 of itself, and so would be the second moment."""
    parameter, m, v = (backend.asarray(np.zeros(1, np.float32)) for _ in range(3))
    gradient = backend.asarray(np.ones(1, np.float32))
    backend.adam_all_([(parameter, gradient, m, v, None)], **{**ADAM, "beta2": 0.999, "gradient_scale": 1.0})
    np.testing.assert_allclose(v.get(), 0.001, rtol=1e-7)


def test_adam_writes_the_bfloat16_copy(backend: Any, bf16: np.dtype) -> None:
    rng = np.random.default_rng(0)
    arrays = [backend.asarray(normal(rng, 50, dtype=np.float32)) for _ in range(3)]
    v, copy = backend.asarray(rng.random(50).astype(np.float32)), backend.asarray(np.zeros(50, bf16))
    backend.adam_all_([(*arrays, v, copy)], **ADAM)
    np.testing.assert_array_equal(copy.get(), arrays[0].get().astype(bf16))


@pytest.mark.parametrize("classes", [5, 70, 1000])
def test_top_tokens(backend: Any, order: None, classes: int) -> None:
    rng = np.random.default_rng(0)
    logits = rng.integers(0, 9, (4, classes)).astype(np.float32)  # with ties: the smaller id comes first
    barred = np.zeros(classes, bool)
    barred[[0, 2]] = True
    ids, values, log_total = backend.top_tokens(backend.asarray(logits), backend.asarray(barred), 3)
    expected = np.argsort(-np.where(barred, -np.inf, logits), axis=1, kind="stable")[:, :3]
    np.testing.assert_array_equal(ids, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(logits, expected, 1))
    np.testing.assert_allclose(log_total, np.log(np.exp(logits.astype(float)).sum(axis=1)), rtol=1e-6)


def test_tokens_of_a_row_with_nan_are_of_the_vocabulary(backend: Any) -> None:
    logits = np.full((2, 40), np.nan)
    logits[1, 3] = 1.0
    ids, _, log_total = backend.top_tokens(backend.asarray(logits), backend.asarray(np.zeros(40, bool)), 4)
    assert [sorted(set(row)) for row in np.asarray(ids).tolist()] == [[0, 1, 2, 3], [0, 1, 2, 3]]
    assert np.isnan(log_total).all()
