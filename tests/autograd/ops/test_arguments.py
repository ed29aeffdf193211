"""Arguments that are not differentiated: a graph there is not lost without a word, and errors say what to write."""

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor
from autograd.engine import Op, apply

X = Tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
V = Tensor([1.0, 2.0], requires_grad=True)
N = Tensor(0.5, requires_grad=True)
IDS = np.array([0, 1])

# ---- Numbers ----

NUMBERS = {  # every argument of a public function that is a number
    "cross_entropy label_smoothing": lambda n: ag.cross_entropy(X, IDS, label_smoothing=n),
    "dropout p": lambda n: ag.dropout(X, n),
    "dropout_add_layer_norm p": lambda n: ag.fast.dropout_add_layer_norm(X, X, V, V, p=n),
    "dropout_add_layer_norm eps": lambda n: ag.fast.dropout_add_layer_norm(X, X, V, V, eps=n),
    "scaled_embedding p": lambda n: ag.fast.scaled_embedding(IDS, X, p=n),
    "scaled_embedding scale": lambda n: ag.fast.scaled_embedding(IDS, X, scale=n),
    "layer_norm eps": lambda n: ag.layer_norm(X, V, V, eps=n),
    "pad constant_values": lambda n: ag.pad(X, 1, n),
    "scaled_dot_product_attention dropout": lambda n: ag.scaled_dot_product_attention(X, X, X, dropout=n),
    "scaled_dot_product_attention scale": lambda n: ag.scaled_dot_product_attention(X, X, X, scale=n),
    "var ddof": lambda n: ag.var(X, ddof=n),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_tensor_is_no_number(name):
    """As one, it would get no gradient."""
    NUMBERS[name](0.5)
    with pytest.raises(TypeError, match=r"(found|got) a Tensor.*no gradient; .*\.item\(\)"):
        NUMBERS[name](N)


# ---- Operands that are differentiated wherever they stand ----

OPERANDS = {
    "clip min": lambda n: ag.clip(X, min=n),
    "clip max": lambda n: ag.clip(X, max=n),
    "scaled_embedding positions": lambda n: ag.fast.scaled_embedding(IDS, X, positions=n * np.ones((2, 2))),
    "linear bias": lambda n: ag.linear(X, X, bias=n * np.ones(2)),
    "masked_fill value": lambda n: ag.masked_fill(X, X.data > 1, value=n),
    "where a": lambda n: ag.where(condition=X.data > 1, a=n, b=X),
    "layer_norm bias": lambda n: ag.layer_norm(X, V, bias=n * np.ones(2)),
    "power b": lambda n: ag.power(X, b=n),
    "concatenate arrays": lambda n: ag.concatenate(arrays=[X, n * np.ones((1, 2))]),
}


@pytest.mark.parametrize("name", OPERANDS)
def test_a_tensor_given_by_keyword_gets_its_gradient(name):
    def total(n):
        return (OPERANDS[name](n) * np.array([[1.0, 2.0]])).sum()

    n = Tensor(1.5, requires_grad=True)
    (gradient,) = ag.grad(total(n), n)
    difference = (total(Tensor(1.5 + 1e-6)).item() - total(Tensor(1.5 - 1e-6)).item()) / 2e-6
    assert gradient.item() == pytest.approx(difference, rel=1e-5)
    assert gradient.item() != 0


# ---- Lists ----

LISTS = {
    "layer_norm": lambda a: ag.layer_norm(a([[1.0, 2.0]]), a([1.0, 1.0]), a([0.0, 1.0])),
    "dropout_add_layer_norm": lambda a: ag.fast.dropout_add_layer_norm(
        *map(a, ([[1.0, 2.0]], [[1.0, 0.0]], [1, 2], [0, 1]))
    ),
    "linear": lambda a: ag.linear(a([[1.0, 2.0]]), a([[1.0, 2.0]]), a([3.0])),
    "embedding": lambda a: ag.embedding(a([0, 1]), a([[1.0, 2.0], [3.0, 4.0]])),
    "cross_entropy": lambda a: ag.cross_entropy(a([[1.0, 2.0]]), a([1])),
    "scaled_dot_product_attention": lambda a: ag.scaled_dot_product_attention(*[a([[1.0, 2.0]])] * 3, a([[True]])),
    "masked_fill": lambda a: ag.masked_fill(a([1.0, 2.0]), a([True, False]), 0.0),
    "where": lambda a: ag.where(a([True, False]), a([1.0, 2.0]), a([3.0, 4.0])),
    "take": lambda a: ag.take(a([1.0, 2.0]), a([1])),
    "matmul": lambda a: ag.matmul(a([[1.0, 2.0]]), a([[1.0], [2.0]])),
    "pad": lambda a: ag.pad(np.asarray(a([1.0, 2.0])), 1),
}


@pytest.mark.parametrize("name", LISTS)
def test_lists_are_taken_as_arrays(name):
    one, other = LISTS[name](list), LISTS[name](np.array)
    np.testing.assert_array_equal(one.data, other.data)


ONE_INPUT = [
    "abs", "exp", "gelu", "log", "log_softmax", "logsumexp", "max", "mean", "min", "negative", "reciprocal", "relu",
    "sigmoid", "silu", "softmax", "sqrt", "square", "sum", "tanh", "var",
]  # fmt: skip


@pytest.mark.parametrize("name", ONE_INPUT)
def test_numbers_and_lists_are_taken_as_arrays(name):
    for x in [2.0, 2, np.float32(2), [1.0, 2.0], [1, 2]]:
        function = getattr(ag, name)
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(function(x).data, function(np.asarray(x, float)).data, rtol=1e-6)


@pytest.mark.parametrize(
    "call",
    [
        lambda: ag.layer_norm(X, V, None),
        lambda: ag.layer_norm(X, None, V),
        lambda: ag.cross_entropy(None, IDS),
        lambda: ag.scaled_dot_product_attention(X, X, None),
        lambda: ag.embedding(IDS, None),
    ],
)
def test_none_in_the_place_of_an_array_is_named(call):
    with pytest.raises(TypeError, match="must be a Tensor or an array, found None"):
        call()


@pytest.mark.parametrize("name", ["sum", "mean", "var", "max", "min", "logsumexp", "softmax", "log_softmax", "squeeze"])
def test_several_axes_are_a_tuple(name):
    x = X if name != "squeeze" else Tensor(np.ones((1, 1)))
    with pytest.raises(TypeError, match=r"axis=\[0, 1\] is a list; write a tuple, axis=\(0, 1\)"):
        getattr(ag, name)(x, axis=[0, 1])
    getattr(ag, name)(x, axis=(0, 1))


def test_an_op_of_a_user_may_take_a_list_as_its_axis():
    class Total(Op):
        @staticmethod
        def forward(xp, x, *, axis):
            return x.sum(axis=tuple(axis))

        @staticmethod
        def backward(xp, g, y, x, *, axis):
            return xp.broadcast_to(xp.expand_dims(g, tuple(axis)), x.shape)

    assert apply(Total, X, axis=[0, 1]).item() == X.sum().item()


# ---- Arguments that change before the backward pass ----

INDICES = {
    "embedding": lambda i: ag.embedding(i, X),
    "take": lambda i: ag.take(X, i, axis=0),
    "getitem": lambda i: X[i],
    "where": lambda i: ag.where(i != 0, X, 0.0) * ag.take(X, i, axis=0),
}


@pytest.mark.parametrize("name", INDICES)
def test_an_index_that_was_changed_is_noticed(name):
    index = Tensor([0, 0])
    y = INDICES[name](index)
    index[0] = 1
    with pytest.raises(RuntimeError, match="changed in place"):
        y.sum().backward()


@pytest.mark.parametrize("causal", [False, True])
def test_a_mask_of_attention_may_change(causal):
    q, k, v = (np.random.default_rng(i).standard_normal((2, 3, 4)) for i in range(3))

    def gradients(change):
        mask = Tensor(np.array([[True, True, False]]))
        leaves = [Tensor(a, requires_grad=True) for a in (q, k, v)]
        y = ag.scaled_dot_product_attention(*leaves, mask, is_causal=causal)
        if change:
            mask[0, 1] = False
        return [g.data for g in ag.grad(y, leaves, np.ones((2, 3, 4)))]

    np.testing.assert_array_equal(gradients(False), gradients(True))


def test_lists_of_axes_and_places_may_change():
    x = Tensor(np.arange(24.0).reshape(2, 3, 4), requires_grad=True)
    axes, places = [2, 0, 1], np.array([1, 2])
    y, pieces = ag.transpose(x, axes), ag.split(x, places, axis=1)
    axes[:], places[:] = [0, 1, 2], [2, 3]
    (g,) = ag.grad(y, x, y.data.copy())
    np.testing.assert_array_equal(g.data, x.data)
    (g,) = ag.grad(pieces, x, [piece.data.copy() for piece in pieces])
    np.testing.assert_array_equal(g.data, x.data)


# ---- bfloat16 ----

SAME_DTYPE = {
    "gelu": ag.gelu,
    "gelu tanh": lambda x: ag.gelu(x, "tanh"),
    "where": lambda x: ag.where(x.data > 0, x, 0.0),
    "where, on the other side": lambda x: ag.where(x.data > 0, -1, x),
    "masked_fill": lambda x: ag.masked_fill(x, x.data > 0, -1.0),
    "clip": lambda x: ag.clip(x, -0.5, 1.5),
    "softmax": ag.softmax,
    "log_softmax": ag.log_softmax,
    "logsumexp": ag.logsumexp,
    "var": ag.var,
    **{
        f"beside a number, {i}": f
        for i, f in enumerate(
            [
                lambda x: x + 0.5,
                lambda x: 0.5 - x,
                lambda x: x * 2.5,
                lambda x: 1.5 / x,
                lambda x: (x * x) ** 1.5,
                lambda x: ag.maximum(x, 1.5),
                lambda x: x % 0.75,
            ]
        )
    },
    **{name: getattr(ag, name) for name in ONE_INPUT if name not in ("log", "sqrt")},
}


@pytest.mark.parametrize("name", SAME_DTYPE)
def test_bfloat16_stays_bfloat16(name):
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    values = np.array([-2.0, -0.25, 0.5, 3.0], bfloat16)
    results = []
    for dtype in (bfloat16, np.float64):
        x = Tensor(values.astype(dtype), requires_grad=True)
        y = SAME_DTYPE[name](x)
        assert y.dtype == dtype
        (g,) = ag.grad(y, x, np.ones(y.shape, dtype))
        assert g.dtype == dtype
        results.append([y.data.astype(float), g.data.astype(float)])
    for narrow, wide in zip(*results, strict=True):
        np.testing.assert_allclose(narrow, wide, rtol=0.02, atol=0.02)
