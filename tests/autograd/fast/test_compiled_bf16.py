"""Products of factors that are rounded to bfloat16, by the processor's instruction, are those of the definition."""

import tracemalloc

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs Numba")
ml_dtypes = pytest.importorskip("ml_dtypes", reason="needs ml-dtypes, to round as it does")

import autograd as ag  # noqa: E402
from autograd import Tensor, random, safety  # noqa: E402
from autograd.engine import Op  # noqa: E402
from autograd.fast import cpu_kernels, recomputed, set_kernels, set_precision, set_threads  # noqa: E402
from autograd.fast.low_precision import compiled_bf16  # noqa: E402
from autograd.fast.low_precision.compiled_bf16 import IS_AVAILABLE, BFloat16Weights  # noqa: E402
from autograd.observers import Observer, observe  # noqa: E402
from autograd.recompute import checkpoint  # noqa: E402

recomputed.recompute_large_outputs()

f4 = np.float32
SHAPES = [(1, 1, 1), (3, 5, 7), (8, 2, 32), (33, 64, 40), (70, 31, 97), (260, 1030, 300), (9, 2050, 33)]  # M, K, N

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(not IS_AVAILABLE, reason="needs a processor with AVX-512 BF16"),
]


@pytest.fixture
def kernels():
    set_kernels("numba")
    set_precision("bf16")
    return cpu_kernels()


def normal(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(f4)


def rounded(x):
    return x.astype(ml_dtypes.bfloat16).astype(np.float64)


def layouts(x):
    """The matrix in rows, in columns, and with gaps."""
    wide = np.zeros((x.shape[0], 2 * x.shape[1]), f4)
    wide[:, ::2] = x
    return x, np.asfortranarray(x), wide[:, ::2]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_is_that_of_rounded_factors(kernels, shape):
    m, inner, n = shape
    a, b, bias, total = normal(m, inner), normal(inner, n, seed=1), normal(n, seed=2), normal(m, n, seed=3)
    expected, terms = rounded(a) @ rounded(b), np.abs(rounded(a)) @ np.abs(rounded(b))
    bound = 2.0**-23 * (2 + inner / 4) * (terms + 1)  # of sums in float32, in any order, by far
    for first in layouts(a):
        for second in layouts(b):
            found = kernels.product(first, second)
            assert found.dtype == f4
            assert (np.abs(found - expected) <= bound).all()
            np.testing.assert_array_equal(found, kernels.product(a, b))  # the same bits
    for relu in (False, True):
        y = expected + bias
        assert (np.abs(kernels.linear(a, b.T, bias, relu) - (np.maximum(y, 0) if relu else y)) <= bound).all()
    np.testing.assert_array_equal(kernels.linear(a, b.T, None, True), np.maximum(kernels.product(a, b), 0))
    assert (np.abs(kernels.add_product_(total.copy(), a, b) - (expected + total)) <= bound).all()


@pytest.mark.parametrize("shape", SHAPES)
def test_integers_are_exact(kernels, shape):
    m, inner, n = shape
    rng = np.random.default_rng(0)
    a, b, total = (rng.integers(-9, 10, each).astype(f4) for each in ((m, inner), (inner, n), (m, n)))
    np.testing.assert_array_equal(kernels.product(a, b), a @ b)
    np.testing.assert_array_equal(kernels.product(a, np.asfortranarray(b)), a @ b)
    np.testing.assert_array_equal(kernels.product(np.asfortranarray(a), b), a @ b)
    np.testing.assert_array_equal(kernels.add_product_(total.copy(), a, b), total + a @ b)


def test_factors_are_rounded_as_by_definition(kernels):
    """To the nearest, ties to even; NaN of any bits stays NaN, and what is beyond the largest bfloat16 is ∞."""
    bits = np.concatenate([
        np.arange(0x3F7F0000, 0x3F820000, 0x1000), np.arange(0x7F7E0000, 0x7F830000, 0x1000), [0x7FFFFFFF, 0x7F800001],
        np.random.default_rng(0).integers(0x00800000, 0x7F000000, 500),
    ]).astype(np.uint32)  # fmt: skip
    x = np.concatenate([bits, bits | np.uint32(0x80000000)]).view(f4)
    one = np.ones((1, 1), f4)
    with np.errstate(invalid="ignore"):  # in a cast of NaN
        expected = x.astype(ml_dtypes.bfloat16).astype(f4)
    for found in (kernels.product(x[:, None], one)[:, 0], kernels.product(one, x[None])[0]):
        np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(kernels.linear(one, x[:, None], None)[0], expected)


def test_what_is_not_finite_stays_in_its_rows_and_columns(kernels):
    a, b = normal(20, 40), normal(40, 50)
    a[3, 7], b[5, 49] = np.nan, np.inf
    found = kernels.linear(a, np.ascontiguousarray(b.T), None, relu=True)
    assert np.isnan(found[3]).all()
    assert not np.isfinite(found[a[:, 5] > 0, 49]).any()
    np.testing.assert_array_equal(np.isfinite(np.delete(found, 3, axis=0)[:, :49]), True)


def test_factors_may_be_the_bits_of_bfloat16(kernels):
    a, b = normal(70, 51), normal(51, 97, seed=1)
    expected = kernels.product(a, b)
    (narrow_a, _), (narrow_b, _), (columns_a, _) = (kernels.narrowed(x) for x in (a, b, a.T))
    for first in (a, narrow_a, columns_a.T):
        for second in (narrow_b, np.asfortranarray(narrow_b)):
            np.testing.assert_array_equal(kernels.product(first, second), expected)


@pytest.mark.parametrize("kind", [np.float32, np.uint16])
def test_the_gradient_of_relu_reads_bits_of_bfloat16(kind, kernels):
    g, w, y = normal(70, 51), normal(51, 40, seed=1), normal(70, 40, seed=2)
    y[:6, 0] = np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-38
    expected = kernels.relu_backward_sum(kernels.product(g, w), y)
    y = kernels.narrowed(y)[0] if kind is np.uint16 else y
    with np.errstate(invalid="ignore"):  # of NaN > 0
        for one, other in zip(kernels.relu_backward_sum(kernels.product(g, w), y), expected, strict=True):
            np.testing.assert_array_equal(one, other)
    above = [False, True, False, False, False, True]
    np.testing.assert_array_equal(expected[0][:6, 0] != 0, above)


def test_threads_do_not_change_a_bit(kernels):
    x, w, g = normal(700, 300), normal(500, 300, seed=1), normal(700, 500, seed=2)
    found = []
    for threads in (1, 3):
        set_threads(threads)
        found.append((kernels.linear(x, w, w[:, 0].copy(), True), kernels.product(g, w), kernels.product(g.T, x)))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    a, b = normal(37, 2100), normal(2100, 70)
    np.testing.assert_array_equal(kernels.product(a, b)[5:14, 20:61], kernels.product(a[5:14], b[:, 20:61]))


def test_parts_that_are_packed_one_after_the_other_do_not_change_a_bit(kernels, monkeypatch):
    a, b, bias, total = normal(70, 2100), normal(2100, 100, seed=1), normal(100, seed=2), normal(70, 100, seed=3)

    def products():
        yield kernels.linear(a, b.T, bias, relu=True)
        yield kernels.linear(a, np.ascontiguousarray(b.T), bias)
        yield kernels.product(np.asfortranarray(a), b)
        yield kernels.add_product_(total.copy(), a, b)

    whole = list(products())
    monkeypatch.setattr(compiled_bf16, "INNER", 2 * compiled_bf16.PAIRS)
    monkeypatch.setattr(compiled_bf16, "PACKED_BYTES", 1)
    for found, expected in zip(products(), whole, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_other_dtypes_and_empty_matrices_are_not_rounded(kernels):
    a = normal(4, 3).astype(np.float64)
    np.testing.assert_array_equal(kernels.product(a, a.T), a @ a.T)
    assert kernels.product(np.empty((0, 3), f4), normal(3, 2)).shape == (0, 2)
    np.testing.assert_array_equal(kernels.product(np.empty((2, 0), f4), np.empty((0, 3), f4)), np.zeros((2, 3)))


# ---- Weights in 16 bits ----


@pytest.mark.parametrize("shape", [*SHAPES, (6, 7, 64), (0, 5, 3)])
def test_a_product_with_weights_in_16_bits_is_that_of_rounded_factors(kernels, shape):
    """Each row is computed as it is alone, to the bit, and on any number of threads."""
    m, inner, n = shape
    x, w, bias = normal(m, inner), normal(n, inner, seed=1), normal(n, seed=2)
    weights = BFloat16Weights.of(w, bias)
    assert (weights.shape, weights.size) == ((n, inner), n * inner)
    assert weights.groups.nbytes == 2 * 64 * -(-n // 64) * 2 * -(-inner // 2)
    expected, terms = rounded(x) @ rounded(w).T + bias, np.abs(rounded(x)) @ np.abs(rounded(w)).T + np.abs(bias)
    bound = 2.0**-23 * (2 + inner / 4) * (terms + 1)  # of sums in float32, in any order, by far
    for relu in (False, True):
        set_threads(1)
        found = kernels.linear_packed(x, weights, relu)
        assert found.dtype == f4
        assert (np.abs(found - (np.maximum(expected, 0) if relu else expected)) <= bound).all()
        set_threads(3)
        np.testing.assert_array_equal(kernels.linear_packed(np.asfortranarray(x), weights, relu), found)
        for i, row in enumerate(found):
            np.testing.assert_array_equal(kernels.linear_packed(x[i : i + 1], weights, relu)[0], row)


def test_threads_share_the_outputs_of_a_large_product(kernels):
    x, weights = normal(40, 501), BFloat16Weights.of(normal(1000, 501, seed=1))
    found = kernels.linear_packed(x, weights)
    set_threads(2)
    np.testing.assert_array_equal(kernels.linear_packed(x, weights), found)


def test_rows_of_weights_in_16_bits(kernels):
    w, bias, chosen = normal(150, 31), normal(150, seed=1), np.array([149, 0, 64, 63])
    weights = BFloat16Weights.of(w, bias)
    np.testing.assert_array_equal(weights.rows(chosen), rounded(w[chosen]).astype(f4))
    np.testing.assert_array_equal(BFloat16Weights.of(w.T.copy().T).rows(chosen), weights.rows(chosen))


def test_what_is_not_finite_stays_in_its_row_and_output(kernels):
    x, w = normal(5, 31), normal(70, 31, seed=1)
    x[1, 30], w[69, 30] = np.nan, np.inf
    found = kernels.linear_packed(x, BFloat16Weights.of(w), relu=True)
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[:, 69] == np.inf, x[:, 30] > 0)
    np.testing.assert_array_equal(np.isfinite(np.delete(found, 1, axis=0)[:, :69]), True)


# ---- Activations in 16 bits ----


@pytest.fixture
def in_use(kernels, monkeypatch):
    """Kernels that round, which ops on the CPU use, and arrays of any size kept in 16 bits."""
    monkeypatch.setattr(recomputed, "NARROW_BYTES", 0)
    return kernels


def saved_by(loss, kind):
    """What the nodes of a graph keep that is of some type."""
    nodes = [loss.op]
    for node in nodes:  # grows
        nodes += [edge[0] for edge in node.edges if edge is not None and isinstance(edge[0], Op)]
    return [a for node in dict.fromkeys(nodes) for a in getattr(node._saved, "saved", ()) if type(a) is kind]


def layer_loss(leaves, checkpoints=False):
    """Self-attention, a residual and a feed-forward network."""
    x, qkv, weight, up, down, gain, bias = leaves

    def layer(x):
        random.manual_seed(3)
        heads = ag.fast.linear_heads(x, qkv, heads=2)
        y = ag.scaled_dot_product_attention(*heads, dropout=0.2).swapaxes(1, 2).reshape(*x.shape)
        y = ag.fast.dropout_add_layer_norm(ag.linear(y, weight), x, gain, bias, p=0.3)
        return ag.linear(ag.fast.linear_relu(y, up), down)

    return ((checkpoint(layer, x) if checkpoints else layer(x)) ** 2).sum()


def new_leaves():
    shapes = (3, 5, 8), (8, 8), (12, 8), (8, 12), (8,), (8,)
    x, weight, up, down, gain, bias = (leaf(normal(*shape, seed=i)) for i, shape in enumerate(shapes))
    return x, [leaf(normal(8, 8, seed=10 + i)) for i in range(3)], weight, up, down, gain, bias


def leaf(a):
    return Tensor(a, requires_grad=True)


def gradients_of(how):
    leaves = new_leaves()
    loss = layer_loss(leaves, checkpoints=how == "checkpoint")
    found = ag.grad(loss, [leaf for each in leaves for leaf in (each if isinstance(each, list) else [each])])
    return loss, [g.data for g in found]


@pytest.mark.parametrize("how", ["in 16 bits", "checkpoint", "computed again"])
def test_what_is_kept_in_16_bits_gives_the_bits_of_what_is_kept_whole(how, in_use, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(recomputed, "NARROW_BYTES", 1 << 30)
        loss, expected = gradients_of("whole")
        assert not saved_by(layer_loss(new_leaves()), recomputed.NarrowArray)
    if how == "computed again":
        monkeypatch.setattr(recomputed, "LARGE_BYTES", 0)
    same_loss, found = gradients_of(how)
    assert same_loss.item() == loss.item()
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_all_activations_of_a_layer_are_kept_in_16_bits(in_use, monkeypatch):
    monkeypatch.setattr(recomputed, "LARGE_BYTES", 0)
    kept = saved_by(layer_loss(new_leaves()), recomputed.NarrowArray)
    # x, q, k, v and attention weights; normalised rows; what ReLU returned, which two ops keep
    assert len(kept) == 8
    assert len(set(map(id, kept))) == 7
    assert all(each.kept.dtype == np.uint16 for each in kept)


def test_what_is_not_only_a_factor_is_kept_whole_unless_it_is_a_bfloat16(in_use):
    q, k, v = (leaf(normal(2, 2, 3, 4, seed=i)) for i in range(3))
    k.data[...] = in_use.round_(k.data.copy())
    y = ag.scaled_dot_product_attention(q, k, v)
    saved = y.op._saved.saved
    assert saved[0] is q.data
    assert [type(a) is recomputed.NarrowArray for a in saved] == [False, True, False, False, True]
    halved = (k.data.nbytes + saved[4].unpack().nbytes) / 2
    assert sum(a.nbytes for a in y.op.saved_arrays if a is not None) == q.data.nbytes + v.data.nbytes + halved


def test_an_array_that_was_changed_is_narrowed_again(in_use):
    x, w = Tensor(normal(4, 3)), leaf(normal(2, 3, seed=1))
    first = ag.linear(x, w)
    x.data *= 2
    safety.note_change(x.data)
    second = ag.linear(x, w)
    g = normal(4, 2, seed=2)
    for y, factor in ((first, 0.5), (second, 1)):
        (found,) = ag.grad((y * g).sum(), [w])
        np.testing.assert_array_equal(found.data, in_use.product(g.T, factor * x.data))


def test_rounding_and_halving_are_those_of_the_definition(in_use):
    x = normal(7, 3, 5)
    np.testing.assert_array_equal(in_use.round_(x.copy()), x.astype(ml_dtypes.bfloat16).astype(f4))
    for a in (x, x.swapaxes(1, 2), in_use.round_(x.copy())):
        bits, exact = in_use.narrowed(a)
        np.testing.assert_array_equal(in_use.widened(bits), a.astype(ml_dtypes.bfloat16).astype(f4))
        assert exact is bool((in_use.widened(bits) == a).all())


def test_a_second_run_of_checkpoint_keeps_activations_in_16_bits(in_use, monkeypatch):
    monkeypatch.setattr(recomputed, "LARGE_BYTES", 0)
    loss, kept = layer_loss(new_leaves(), checkpoints=True), []

    class Count(Observer):
        def after_backward(self, op, g_inputs):
            kept.append(len(saved_by(loss, recomputed.NarrowArray)))

    with observe(Count()):
        loss.backward()
    assert kept[0] == 0  # the sum behind the layer
    assert max(kept) == 8


def test_the_backward_pass_of_a_feed_forward_network_widens_nothing(in_use, monkeypatch):
    """At most: the gradient of the hidden activations before and after ReLU, and packed parts of factors."""
    rows, wide = 2048, 1024
    x, up, down = leaf(normal(rows, 16)), leaf(normal(wide, 16, seed=1)), leaf(normal(16, wide, seed=2))
    biases = leaf(normal(wide, seed=3)), leaf(normal(16, seed=4))
    loss = ag.linear(ag.fast.linear_relu(x, up, biases[0]), down, biases[1]).sum()
    loss.backward(retain_graph=True)  # which compiles
    tracemalloc.start()
    try:
        loss.backward()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    hidden = 4 * rows * wide
    assert hidden < peak < 2.4 * hidden
