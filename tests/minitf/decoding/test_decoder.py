"""Decoding step by step: cached equals uncached whatever the beams do, and search with the real model."""

import numpy as np
import pytest

from autograd import Tensor
from minitf.config import OptimizerConfig
from minitf.config.model import BOS, PAD
from minitf.decoding.decoder import TransformerDecoder
from minitf.errors import UserError
from minitf.fast.inference import InferenceTransformer
from minitf.training.optim import Adam
from tests.helpers import model_variants
from tests.helpers.marks import parametrize_some
from tests.helpers.small_model import SMALL, model_with, sources

VARIANTS = {
    **model_variants.VARIANTS,
    "start with a zero vector": {"decoder_start": "zero", "output_bias": True, "masked_tokens": (0, 2)},
    "masked tokens": {"masked_tokens": (0, 1, 2, 7)},
}
some_variants = parametrize_some("changes", VARIANTS.values(), keep=(0, 4, 8), ids=VARIANTS.keys())


def decoder_with(**changes):
    return InferenceTransformer(model_with(**changes))


class Uncached:
    """The same model without caches: every step runs the decoder over all tokens so far, a row for each beam."""

    def __init__(self, model):
        self.model = model

    def start_decoding(self, source):
        return UncachedState(source, np.zeros((len(source), 0), int))

    def decode_step(self, tokens, state):
        state.tokens = np.concatenate([state.tokens, tokens[:, None]], axis=1)
        return self.model(state.source, state.tokens).data[:, -1]


class UncachedState:
    def __init__(self, source, tokens):
        self.source, self.tokens = source, tokens

    def reorder(self, rows):
        self.source, self.tokens = self.source[rows], self.tokens[rows]


def compare_steps(model, source, reorders):
    """Decode random tokens with caches and without, reordering before each step as `reorders` says (None: not)."""
    for decoder in (InferenceTransformer(model), TransformerDecoder(model)):
        compare_decoders(Uncached(model), decoder, source, reorders)


def compare_decoders(plain, model, source, reorders):
    rng = np.random.default_rng(0)
    state, expected_state = model.start_decoding(source), plain.start_decoding(source)
    for rows in reorders:
        if rows is not None:
            state.reorder(np.array(rows))
            expected_state.reorder(np.array(rows))
        tokens = rng.integers(BOS, SMALL.vocab_size, len(expected_state.source))
        logits = model.decode_step(tokens, state)
        expected = plain.decode_step(tokens, expected_state)
        assert isinstance(logits, np.ndarray)
        np.testing.assert_allclose(logits, expected, rtol=1e-10, atol=1e-10)


# ---- Cached equals uncached ----


@pytest.mark.heavy
@some_variants
def test_one_beam_past_every_growth_of_the_caches(changes):
    compare_steps(model_with(changes), sources(5, 2, 8), [None] * 35)


@pytest.mark.heavy
@some_variants
def test_beams_move_multiply_and_go(changes):
    """Rows of three sentences: two beams each, permuted, repeated, sentences swapped and dropped, four beams, one."""
    reorders = [
        None,
        [0, 0, 1, 1, 2, 2],
        [1, 0, 3, 3, 4, 5],
        None,
        [4, 5, 0, 0, 3, 2],  # sentence 2 first
        [0, 1, 2, 3],  # without the last
        [3, 2, 1, 1],  # in another order
        *[None] * 10,
        [0, 0, 0, 1, 2, 3, 3, 2],
        [7, 4],
        [1],
        [0, 0, 0],
        [2, 1, 0],
    ]
    compare_steps(model_with(changes), sources(5, 2, 8), reorders)


def test_a_source_of_nothing_but_padding_decodes_to_numbers():
    source = sources(4, 6)
    source[0] = PAD
    compare_steps(model_with(), source, [None, [0, 0, 1, 1], [2, 3, 1, 0]])


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_decoding_keeps_no_graph_and_leaves_recording_on(activation):
    model = decoder_with(activation=activation)
    state = model.start_decoding(sources(4, 6))
    logits = model.decode_step(np.array([BOS, BOS]), state)
    assert all(isinstance(each, np.ndarray) for each in (logits, *state.memory_keys, *state.memory_values, *state.keys))
    assert (model.model.source_embedding.weight * 1).requires_grad


def test_decoding_beyond_the_learned_positions_is_refused():
    model = decoder_with(positions="learned", max_positions=5)
    state = model.start_decoding(sources(4))
    for _ in range(5):
        model.decode_step(np.array([5]), state)
    with pytest.raises(UserError, match="a sequence of 6 tokens is longer than the 5 learned positions"):
        model.decode_step(np.array([5]), state)


@pytest.mark.parametrize(
    "rows", [[0, 1, 2, 2, 4], [0, 2, 1, 3, 4, 5], [0, 0, 2, 2, 0, 0], [0, 1, 2, 3, 4], [0, 1, 2], [0, 1, 4, 2, 3, 5]]
)
def test_rows_of_a_sentence_must_stay_together_and_be_as_many_as_others(rows):
    model = decoder_with()
    state = model.start_decoding(sources(3, 4, 5))
    state.reorder(np.array([0, 0, 1, 1, 2, 2]))
    model.decode_step(np.full(6, BOS), state)
    ancestors, keys = state.ancestors.copy(), state.keys[0].copy()
    message = rf"rows \[{rows[0]}, .*\] do not give each sentence one group of equal size"
    with pytest.raises(ValueError, match=message):
        state.reorder(np.array(rows))
    assert (state.sentences, state.beams) == (3, 2)
    np.testing.assert_array_equal(state.ancestors, ancestors)
    np.testing.assert_array_equal(state.keys[0], keys)


@pytest.mark.parametrize("rows", [[0, 3], [-1, 0], [0, 1, 2, -3]])
def test_rows_that_are_not_there_are_refused(rows):
    state = decoder_with().start_decoding(sources(3, 4, 5))
    with pytest.raises(IndexError, match=rf"rows must lie in 0 … 2, found {min(rows)} … {max(rows)}"):
        state.reorder(np.array(rows))


def test_all_sentences_may_go():
    model = decoder_with()
    state = model.start_decoding(sources(3, 4))
    model.decode_step(np.array([BOS, BOS]), state)
    state.reorder(np.array([], int))
    assert state.rows == state.sentences == len(state.ancestors) == 0
    assert [len(array) for array in (*state.caches[0].source, state.mask_of_source)] == [0, 0, 0]


# ---- Weights, activations, caches ----


def test_attention_without_biases():
    compare_steps(model_with(attention_bias=False), sources(5, 2, 8), [None, [0, 0, 1, 1, 2, 2], None])


def first_logits(model, source):
    return model.decode_step(np.full(len(source), BOS), model.start_decoding(source))


@pytest.mark.parametrize("changed", ["loaded", "stepped", "assigned"])
def test_weights_that_change_are_taken_over(changed):
    """Also into the copies that the decoder makes: joined and transposed matrices."""
    model = model_with()
    decoder, source = (
        InferenceTransformer(model),
        sources(3, 4).repeat(9, axis=0),
    )  # 18 rows: enough for transposed ones
    before = first_logits(decoder, source)
    if changed == "loaded":
        model.load_parameters({name: p.data + 0.1 for name, p in model.named_parameters().items()})
    elif changed == "stepped":
        for p in model.parameters():
            p.grad = Tensor(np.ones(p.shape))
        Adam(model.named_parameters(), OptimizerConfig()).step(0.1)
    else:
        for p in model.parameters():
            p.data = p.data + 0.1
    after = first_logits(decoder, source)
    np.testing.assert_array_equal(after, first_logits(InferenceTransformer(model), source))
    assert (after != before).any()


def test_a_token_for_each_row():
    state = decoder_with().start_decoding(sources(3, 4))
    with pytest.raises(ValueError, match="3 tokens for a state of 2 rows"):
        decoder_with().decode_step(np.array([BOS, BOS, BOS]), state)
