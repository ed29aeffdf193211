"""The whole model: positions, parameters, what padding and the future must not change, dropout, and its gradients."""

import math
from dataclasses import replace

import numpy as np
import pytest

import autograd as ag
from additions.interchange.foreign_transformer import position_table
from autograd import Tensor, random
from minitf.config.model import BOS, EOS, PAD
from minitf.errors import UserError
from minitf.model.parameters import Initializer
from minitf.model.transformer import Positions, Residual, Transformer, sinusoids
from tests.helpers.model_variants import SMALL, batch, every_variant, ids, loss_of, model_with

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
    with pytest.raises(UserError, match="train with more max_positions"):
        positions(Tensor(np.zeros((1, 1, 8))), start=5)


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
    ("rate", "sites"), [("dropout", 2 + 2 * 2 + 3 * 2), ("attention_dropout", 2 + 2 * 2), ("activation_dropout", 2 * 2)]
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


# ---- Shapes ----


@pytest.mark.parametrize(("b", "s", "t"), [(1, 1, 1), (2, 3, 0), (0, 3, 2), (2, 0, 3)])
def test_shapes_of_little(b, s, t):
    logits = model_with()(np.full((b, s), 5), np.full((b, t), 5))
    assert logits.shape == (b, t, 17)
    assert np.isfinite(logits.data).all()


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
