"""Multi-head attention against a loop over heads, and padding masks."""

import math

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, random
from minitf.config.model import EOS, PAD
from minitf.model.attention import MultiHeadAttention, join_heads, padding_mask
from minitf.model.layers import Initializer


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def module(d_model=6, heads=2, d_k=3, d_v=4, dropout=0.0):
    attention = MultiHeadAttention(d_model, heads, d_k, d_v, dropout, Initializer(1, np.float64))
    for i, p in enumerate(attention.parameters()):  # zero biases would hide mistakes
        p.data += 0.3 * normal(p.shape, 10 + i)
    return attention


def head_by_head(attention, query, memory, allowed, heads, d_k, d_v):
    """Section 3.2.2 as it stands there: project, attend, concatenate, project; one sentence and one head at a time."""
    w = {name: p.data for name, p in attention.named_parameters().items()}
    result = np.zeros_like(query)
    for b in range(len(query)):
        found = []
        for i in range(heads):
            of_k, of_v = slice(i * d_k, (i + 1) * d_k), slice(i * d_v, (i + 1) * d_v)
            q = query[b] @ w["query.weight"][of_k].T + w["query.bias"][of_k]
            k = memory[b] @ w["key.weight"][of_k].T + w["key.bias"][of_k]
            v = memory[b] @ w["value.weight"][of_v].T + w["value.bias"][of_v]
            weights = np.exp(q @ k.T / math.sqrt(d_k)) * allowed[b]
            found.append(weights / weights.sum(axis=1, keepdims=True) @ v)
        result[b] = np.concatenate(found, axis=1) @ w["output.weight"].T + w["output.bias"]
    return result


@pytest.mark.parametrize(("heads", "d_k", "d_v"), [(1, 6, 6), (2, 3, 3), (3, 1, 5), (2, 4, 1)])
def test_multi_head_attention(heads, d_k, d_v):
    attention = module(heads=heads, d_k=d_k, d_v=d_v)
    query, memory = normal((2, 3, 6)), normal((2, 5, 6), 1)
    ids = np.array([[7, 7, EOS, PAD, PAD], [7, 7, 7, 7, EOS]])
    mask = padding_mask(ids)
    y = attention(Tensor(query), Tensor(memory), Tensor(memory), mask)
    allowed = np.broadcast_to((ids != PAD)[:, None], (2, 3, 5))
    np.testing.assert_allclose(y.data, head_by_head(attention, query, memory, allowed, heads, d_k, d_v), rtol=1e-10)
    causal = attention(Tensor(query), Tensor(query), Tensor(query), is_causal=True)
    allowed = np.broadcast_to(np.tri(3), (2, 3, 3))
    np.testing.assert_allclose(causal.data, head_by_head(attention, query, query, allowed, heads, d_k, d_v), rtol=1e-10)


def test_query_key_and_value_in_this_order():
    attention = module()
    q, k, v = (Tensor(normal((1, 4, 6), seed)) for seed in range(3))
    projected = [layer(x) for layer, x in ((attention.query, q), (attention.key, k), (attention.value, v))]
    heads = ag.scaled_dot_product_attention(*(attention.split_heads(x) for x in projected))
    expected = attention.output(join_heads(heads)).data
    np.testing.assert_array_equal(attention(q, k, v).data, expected)
    assert (attention(q, v, k).data != expected).all()


def test_parameters():
    named = module(d_model=6, heads=2, d_k=3, d_v=4).named_parameters()
    kinds = ("query", "key", "value", "output")
    assert list(named) == [f"{kind}.{part}" for kind in kinds for part in ("weight", "bias")]
    assert [named[f"{kind}.weight"].shape for kind in kinds] == [(6, 6), (6, 6), (8, 6), (6, 8)]


def test_splitting_heads_and_joining_them_again():
    attention = module()
    x = Tensor(np.arange(2 * 3 * 6).reshape(2, 3, 6).astype(float))
    heads = attention.split_heads(x)
    assert heads.shape == (2, 2, 3, 3)
    assert np.shares_memory(heads.data, x.data)
    np.testing.assert_array_equal(heads.data[1, 1, 2], x.data[1, 2, 3:])
    np.testing.assert_array_equal(join_heads(heads).data, x.data)


def test_dropout_of_attention_weights_only_while_training():
    attention, plain = module(dropout=0.5), module()
    x = Tensor(normal((1, 4, 6)))
    random.set_state((1, 0, 0))
    first, second = attention(x, x, x).data, attention(x, x, x).data
    assert random.get_state() == (1, 0, 2)
    assert (first != second).any()
    np.testing.assert_array_equal(attention.eval()(x, x, x).data, plain(x, x, x).data)
    assert (first != plain(x, x, x).data).any()


def test_padding_mask():
    ids = np.array([[5, EOS, PAD], [5, 6, EOS]])
    mask = padding_mask(ids)
    assert mask.dtype == bool
    assert mask.shape == (2, 1, 1, 3)
    assert mask[:, 0, 0].tolist() == [[True, True, False], [True, True, True]]
