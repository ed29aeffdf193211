"""The whole model: positions, parameters, what padding and the future must not change, dropout, and its gradients."""

import math
from dataclasses import replace

import numpy as np
import pytest

import autograd as ag
from autograd import Tensor, random
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD
from minitf.errors import UserError
from minitf.model.parameters import Initializer
from minitf.model.transformer import (
    MultiHeadAttention,
    Positions,
    Residual,
    Transformer,
    join_heads,
    padding_mask,
    sinusoids,
)
from minitf.model.variants import position_table
from tests.helpers.marks import parametrize_some
from tests.helpers.model_variants import SMALL, VARIANTS, batch, every_variant, ids, loss_of, model_with

# ---- Positions (section 3.5) ----


def test_sinusoids_by_hand():
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos of the same."""
    table = sinusoids(4, 4)
    assert table.dtype == np.float64
    expected = [[math.sin(p), math.cos(p), math.sin(p / 100), math.cos(p / 100)] for p in range(4)]
    np.testing.assert_allclose(table, expected, rtol=1e-14)
    assert table[0].tolist() == [0, 1, 0, 1]
    np.testing.assert_allclose(table[1], [0.8414709848, 0.5403023059, 0.0099998333, 0.9999500004], atol=1e-10)
    base = sinusoids(1001, 512)
    assert base[1000, 300] == pytest.approx(math.sin(1000 / 10000 ** (300 / 512)), rel=1e-12)
    assert base[1000, 301] == pytest.approx(math.cos(1000 / 10000 ** (300 / 512)), rel=1e-12)


def test_wavelengths_form_a_geometric_progression():
    """From 2π to 10000 · 2π (the paper's words): pairs turn by a constant factor less from one to the next."""
    table = sinusoids(2, 64)
    angles = np.arctan2(table[1, ::2], table[1, 1::2])
    np.testing.assert_allclose(angles[1:] / angles[:-1], 10000 ** (-2 / 64), rtol=1e-9)
    assert angles[0] == pytest.approx(1)


def test_concatenated_sinusoids_by_hand():
    """All sines, then all cosines; wavelengths reach 10000 · 2π exactly."""
    table = position_table(3, 8, "sinusoidal-concatenated")
    for p in range(3):
        angles = [p, p / 10000 ** (1 / 3), p / 10000 ** (2 / 3), p / 10000]
        expected = [*(math.sin(a) for a in angles), *(math.cos(a) for a in angles)]
        np.testing.assert_allclose(table[p], expected, rtol=1e-12)


def test_sinusoids_in_halves_are_the_papers_in_another_order():
    """All sines, then all cosines, with the paper's wavelengths, in the precision of Hugging Face's table."""
    paper, halves = sinusoids(9, 8), position_table(9, 8, "sinusoidal-halves")
    in_order = np.concatenate([paper[:, ::2], paper[:, 1::2]], axis=1)
    np.testing.assert_array_equal(halves, in_order.astype(np.float32))


@pytest.mark.parametrize("kind", ["sinusoidal", "sinusoidal-concatenated", "sinusoidal-halves"])
def test_fixed_positions_have_no_end_and_do_not_change_as_they_grow(kind):
    positions = Positions(replace(SMALL, positions=kind), Initializer(0))
    expected = position_table(600, 8, kind).astype(np.float32)
    for start, stop in ((0, 3), (0, 600), (500, 600), (2, 4)):
        x = np.ones((2, stop - start, 8), np.float32)
        y = positions(Tensor(x), start)
        assert y.dtype == np.float32
        np.testing.assert_array_equal(y.data, x + expected[start:stop])
    assert positions.named_parameters() == {}


def test_learned_positions():
    positions = Positions(replace(SMALL, positions="learned", max_positions=5), Initializer(0, np.float64))
    assert list(positions.named_parameters()) == ["weight"]
    y = positions(Tensor(np.zeros((2, 2, 8))), start=3)
    np.testing.assert_array_equal(y.data, [positions.weight.data[3:5]] * 2)
    y.backward(np.ones((2, 2, 8)))
    assert positions.weight.grad.data.sum(axis=1).tolist() == [0, 0, 0, 16, 16]
    with pytest.raises(UserError, match="a sequence of 6 tokens is longer than the 5 learned positions of this model"):
        positions(Tensor(np.zeros((1, 6, 8))))
    with pytest.raises(UserError, match=r"train with a larger --model\.max-positions"):
        positions(Tensor(np.zeros((1, 1, 8))), start=5)


def test_a_sentence_beyond_the_learned_positions_is_refused_on_both_sides():
    model = model_with(positions="learned", max_positions=5)
    rng = np.random.default_rng(0)
    model(ids(rng, 5), ids(rng, 5))
    for source, target in ((6, 5), (5, 6)):
        with pytest.raises(UserError, match="a sequence of 6 tokens is longer"):
            model(ids(rng, source), ids(rng, target))


# ---- Parameters ----


def test_names_and_order_of_all_parameters():
    def linear(name):
        return [f"{name}.weight", f"{name}.bias"]

    def sublayer(name, layers):
        return [*(each for layer in layers for each in linear(f"{name}.{layer}")), *linear(f"{name}_residual.norm")]

    heads, wide = ("query", "key", "value", "output"), ("up", "down")
    names = list(model_with(layers=1).named_parameters())
    assert names == [
        "source_embedding.weight",
        *sublayer("encoder.layers.0.self_attention", heads),
        *sublayer("encoder.layers.0.feed_forward", wide),
        *sublayer("decoder.layers.0.self_attention", heads),
        *sublayer("decoder.layers.0.cross_attention", heads),
        *sublayer("decoder.layers.0.feed_forward", wide),
    ]
    pre = list(model_with(layers=1, norm="pre").named_parameters())
    assert set(pre) - set(names) == {*linear("encoder.norm"), *linear("decoder.norm")}
    learned = list(model_with(layers=1, positions="learned").named_parameters())
    assert set(learned) - set(names) == {"source_positions.weight", "target_positions.weight"}
    unshared = list(model_with(layers=1, share_embeddings="none").named_parameters())
    assert set(unshared) - set(names) == {"target_embedding.weight", "projection"}


def test_the_seed_decides_the_weights():
    one, same, other = (Transformer(SMALL, seed=seed).named_parameters() for seed in (4, 4, 5))
    for name, p in one.items():
        np.testing.assert_array_equal(p.data, same[name].data)
        assert name.endswith(("bias", "norm.weight")) or (p.data != other[name].data).all()
        assert p.dtype == np.float32
    double = Transformer(SMALL, seed=4, dtype=np.float64).named_parameters()
    for name, p in double.items():
        assert p.dtype == np.float64
        np.testing.assert_array_equal(p.data.astype(np.float32), one[name].data)


def test_a_vocabulary_of_nothing_is_refused():
    with pytest.raises(UserError, match="vocab_size=0 is not positive; set it to the size of the vocabulary"):
        Transformer(replace(SMALL, vocab_size=0))


# ---- Padding ----


@pytest.mark.heavy
@every_variant
def test_padding_changes_nothing(changes):
    model = model_with(changes)
    source, target, _ = batch()
    real = target != PAD
    logits = model(source, target).data
    wide_source, wide_target, _ = batch(width=12)
    np.testing.assert_array_equal(wide_source[:, : source.shape[1]], source)
    for more_source, more_target in ((wide_source, target), (source, wide_target), (wide_source, wide_target)):
        wide = model(more_source, more_target).data[:, : target.shape[1]]
        np.testing.assert_allclose(wide[real], logits[real], rtol=1e-12, atol=1e-12)
    for b in range(3):  # alone, without any padding
        alone = model(source[b : b + 1, : (source[b] != PAD).sum()], target[b : b + 1, : real[b].sum()])
        np.testing.assert_allclose(alone.data[0], logits[b, real[b]], rtol=1e-12, atol=1e-12)


@every_variant
def test_the_values_of_padding_are_never_seen(changes):
    """To the bit: with other numbers for PAD, all other logits stay."""
    model = model_with(changes)
    source, target, _ = batch()
    real = target != PAD
    before = model(source, target).data.copy()
    for table in {id(m): m for m in (model.source_embedding, model.target_embedding)}.values():
        table.weight.data[PAD] = 1e3
    after = model(source, target).data
    np.testing.assert_array_equal(after[real][:, 1:], before[real][:, 1:])
    assert (after[~real] != before[~real]).any()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_no_gradient_comes_from_padding(norm):
    """Exactly zero in the rows that only padding looks up; source, target, and positions beyond the sentences."""
    model = model_with(share_embeddings="none", norm=norm, positions="learned")
    source, target, expected = batch(width=12)
    loss_of(model, source, target, expected).backward()
    for name, used in (("source", 6), ("target", 7)):
        g = getattr(model, f"{name}_embedding").weight.grad.data
        assert (g[PAD] == 0).all()
        assert all((g[token] != 0).any() for token in np.unique({"source": source, "target": target}[name]) if token)
        g_positions = getattr(model, f"{name}_positions").weight.grad.data
        assert (g_positions[used:] == 0).all()
        assert (g_positions[:used] != 0).any(axis=1).all()


@pytest.mark.heavy
@every_variant
def test_a_source_of_nothing_but_padding_stays_finite(changes):
    model = model_with(changes)
    source, target, expected = batch()
    before = model(source, target).data.copy()
    source[1] = PAD
    logits = model(source, target)
    np.testing.assert_array_equal(logits.data[[0, 2]], before[[0, 2]])
    assert np.isfinite(logits.data).all()
    loss_of(model, source, target, expected).backward()
    assert all(np.isfinite(p.grad.data).all() for p in model.parameters())


# ---- Causality ----


@pytest.mark.heavy
@every_variant
def test_later_target_tokens_do_not_change_earlier_logits(changes):
    """To the bit, at every cut."""
    model = model_with(changes)
    rng = np.random.default_rng(1)
    source, target = ids(rng, 5, 5), ids(rng, 7, 7, start=BOS)
    logits = model(source, target).data
    for cut in range(1, 7):
        changed = target.copy()
        changed[:, cut:] = 4 + (changed[:, cut:] + 3) % 13
        other = model(source, changed).data
        np.testing.assert_array_equal(other[:, :cut], logits[:, :cut])
        assert (other[:, cut:] != logits[:, cut:]).any(axis=-1).all()


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_no_gradient_comes_from_later_target_tokens(norm):
    """Each position has a token of its own, so each row of the embedding's gradient belongs to one position."""
    model = model_with(share_embeddings="none", norm=norm)
    source, target = ids(np.random.default_rng(0), 5), np.arange(4, 11)[None]
    for t in range(7):
        g = np.zeros((1, 7, SMALL.vocab_size))
        g[0, t] = np.random.default_rng(t).standard_normal(SMALL.vocab_size)
        model.target_embedding.weight.zero_grad()
        model(source, target).backward(g)
        rows = model.target_embedding.weight.grad.data[4:11]
        assert (rows[t + 1 :] == 0).all()
        assert (rows[: t + 1] != 0).any(axis=1).all()


def test_every_source_position_sees_every_other():
    model = model_with()
    source = ids(np.random.default_rng(0), 5)
    before = model.encode(source).data
    for s in range(5):
        changed = source.copy()
        changed[0, s] = 4 if source[0, s] != 4 else 5
        assert (model.encode(changed).data != before).any(axis=-1).all()


def test_logits_depend_on_the_source():
    model = model_with()
    rng = np.random.default_rng(0)
    target = ids(rng, 4, start=BOS)
    assert (model(ids(rng, 5), target).data != model(ids(rng, 5), target).data).all()


# ---- Embeddings (section 3.4) ----


def test_embeddings_are_scaled_and_positions_added():
    model = model_with()
    source = ids(np.random.default_rng(0), 5)
    model.encoder = lambda x, mask: x
    expected = math.sqrt(8) * model.source_embedding.weight.data[source] + sinusoids(5, 8)
    np.testing.assert_allclose(model.encode(source).data, expected, rtol=1e-14)
    model.decoder = lambda x, memory, mask, caches: x
    np.testing.assert_allclose(model.decode(source, None, None).data, expected, rtol=1e-14)


def test_the_shared_matrix_receives_three_gradients():
    """Source embedding, target embedding and output projection: their sum, as three matrices show."""
    shared = model_with()
    three = Transformer(replace(SMALL, share_embeddings="none"), dtype=np.float64)
    arrays = {name: p.data for name, p in shared.named_parameters().items()}
    matrix = arrays["source_embedding.weight"]
    three.load_parameters({**arrays, "target_embedding.weight": matrix, "projection": matrix})
    for model in (shared, three):
        loss_of(model, *batch()).backward()
    parts = [p.grad.data for p in (three.source_embedding.weight, three.target_embedding.weight, three.projection)]
    assert all(np.abs(part).max() > 1e-3 for part in parts)
    np.testing.assert_allclose(shared.source_embedding.weight.grad.data, sum(parts), rtol=1e-10, atol=1e-12)
    assert shared.output_matrix is shared.source_embedding.weight is shared.target_embedding.weight


@pytest.mark.parametrize("activation", ["relu", "gelu", "silu"])
def test_every_layer_has_the_activation_asked_for(activation):
    model = model_with(activation=activation)
    layers = [*model.encoder.layers, *model.decoder.layers]
    assert [layer.feed_forward.activation for layer in layers] == [getattr(ag, activation)] * 4


# ---- Residual connections and dropout (sections 3.1, 5.4) ----


@pytest.mark.parametrize("norm", ["post", "pre"])
def test_a_residual_connection(norm):
    config = replace(SMALL, norm=norm, dropout=0.4)
    residual = Residual(config, Initializer(0, np.float64))
    residual.norm.weight.data[...], residual.norm.bias.data[...] = np.random.default_rng(1).standard_normal((2, 8))
    x = Tensor(np.random.default_rng(0).standard_normal((2, 3, 8)))

    def plain():
        if norm == "post":
            return residual.norm(x + ag.dropout(ag.tanh(x), 0.4))
        return x + ag.dropout(ag.tanh(residual.norm(x)), 0.4)

    random.set_state((1, 2, 0))
    y = residual(x, ag.tanh)
    random.set_state((1, 2, 0))
    np.testing.assert_allclose(y.data, plain().data, rtol=1e-12, atol=1e-12)
    assert random.get_state() == (1, 2, 1)
    residual.eval()
    without = residual.norm(x + ag.tanh(x)) if norm == "post" else x + ag.tanh(residual.norm(x))
    np.testing.assert_allclose(residual(x, ag.tanh).data, without.data, rtol=1e-12, atol=1e-12)
    assert random.get_state() == (1, 2, 1)


@pytest.mark.parametrize(
    ("rate", "sites"),
    [("dropout", 2 + 2 * 2 + 3 * 2), ("attention_dropout", 2 + 2 * 2), ("activation_dropout", 2 * 2)],
)
@pytest.mark.parametrize("norm", ["post", "pre"])
def test_dropout_only_while_training(rate, sites, norm):
    """On sub-layer outputs and both embedding sums; on attention weights; inside feed-forward. 2 + 2 layers."""
    model = model_with({rate: 0.3, "norm": norm})
    plain = model_with(norm=norm)
    source, target, _ = batch()
    random.set_state((1, 1, 0))
    first = model(source, target).data
    assert random.get_state() == (1, 1, sites)
    assert (model(source, target).data != first).any()  # the next sites
    random.begin_step(1)
    np.testing.assert_array_equal(model(source, target).data, first)
    model.eval()
    random.begin_step(2)
    np.testing.assert_array_equal(model(source, target).data, plain(source, target).data)
    assert random.get_state() == (1, 2, 0)


# ---- Gradients ----


@pytest.mark.heavy
@parametrize_some("changes", VARIANTS.values(), keep=(0, 1, 4, 8), ids=VARIANTS.keys())
def test_the_gradient_of_every_parameter(changes):
    """Along a random direction of each, against central differences, with dropout in place."""
    model = model_with({**changes, "dropout": 0.2, "attention_dropout": 0.2, "activation_dropout": 0.2}, layers=1)
    data = batch()

    def loss():
        random.set_state((3, 4, 0))
        return loss_of(model, *data)

    loss().backward()
    rng = np.random.default_rng(0)
    with ag.no_grad():
        for name, p in model.named_parameters().items():
            direction = rng.standard_normal(p.shape)
            start = p.data.copy()
            p.data[...] = start + 1e-6 * direction
            above = loss().item()
            p.data[...] = start - 1e-6 * direction
            below = loss().item()
            p.data[...] = start
            expected = (above - below) / 2e-6
            assert (p.grad.data * direction).sum() == pytest.approx(expected, rel=1e-5, abs=2e-6), name


# ---- Shapes ----


@pytest.mark.parametrize(("b", "s", "t"), [(1, 1, 1), (2, 3, 0), (0, 3, 2), (2, 0, 3)])
def test_shapes_of_little(b, s, t):
    logits = model_with()(np.full((b, s), 5), np.full((b, t), 5))
    assert logits.shape == (b, t, 17)
    assert np.isfinite(logits.data).all()


def test_encode_and_decode_are_the_two_halves():
    model = model_with()
    source, target, _ = batch()
    memory = model.encode(source)
    decoded = model.decode(target, memory, padding_mask(source))
    assert (memory.shape, decoded.shape) == ((3, 6, 8), (3, 7, 8))
    np.testing.assert_array_equal(model(source, target).data, ag.linear(decoded, model.output_matrix).data)


@pytest.mark.parametrize("bad", [17, -1])
def test_ids_outside_the_vocabulary_are_refused(bad):
    source, target, _ = batch()
    with pytest.raises(IndexError, match="embedding index must lie in 0 … 16"):
        model_with()(np.where(source == EOS, bad, source), target)


# ---- What models of other programs need ----


def test_a_zero_vector_starts_the_decoder_whatever_the_embedding_of_the_start_token():
    """The first position alone; a gradient reaches neither the start token's row nor, through it, any other."""
    model = model_with(decoder_start="zero", share_embeddings="none")
    source, target, expected = batch()
    before = model(source, target).data.copy()
    model.target_embedding.weight.data[BOS] = 1e3
    np.testing.assert_array_equal(model(source, target).data, before)
    loss_of(model, source, target, expected).backward()
    assert not model.target_embedding.weight.grad.data[BOS].any()


def test_the_end_token_starts_the_decoder():
    plain, ends = model_with(), model_with(decoder_start="eos")
    source, target, _ = batch()
    np.testing.assert_array_equal(ends(source, target).data, plain(source, np.where(target == BOS, EOS, target)).data)


@pytest.mark.parametrize("output_bias", [False, True])
def test_masked_tokens_have_no_probability(output_bias):
    """Other logits are those of the model without masks."""
    masked = (0, 2, 7)
    plain, model = model_with(output_bias=output_bias), model_with(output_bias=output_bias, masked_tokens=masked)
    source, target, _ = batch()
    logits, expected = model(source, target).data, plain(source, target).data
    assert np.isneginf(logits[..., masked]).all()
    np.testing.assert_array_equal(np.delete(logits, masked, -1), np.delete(expected, masked, -1))


def test_a_model_without_a_seed_takes_arrays_as_they_are():
    arrays = {name: p.data for name, p in model_with(norm="pre", dtype=np.float32).named_parameters().items()}
    model = Transformer(replace(SMALL, norm="pre"), seed=None)
    model.load_parameters(arrays, copy=False)
    for name, parameter in model.named_parameters().items():
        assert parameter.data is arrays[name]
    assert model.output_matrix is model.source_embedding.weight


# ---- Multi-head attention against a loop over heads, and padding masks ----


def normal(shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape)


def module(d_model=6, heads=2, d_k=3, d_v=4, dropout=0.0):
    attention = MultiHeadAttention(
        TransformerConfig(d_model=d_model, heads=heads, d_k=d_k, d_v=d_v, attention_dropout=dropout),
        Initializer(1, np.float64),
    )
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
