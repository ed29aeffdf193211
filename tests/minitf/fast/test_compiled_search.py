"""The compiled search finds the tokens that the plain search finds with the plain decoder, and scores to rounding."""

from itertools import chain

import numpy as np
import pytest

pytest.importorskip("numba", reason="needs Numba")

from autograd.fast import set_kernels
from autograd.fast.threads import _Process
from minitf.config.model import EOS
from minitf.decoding.decoder import TransformerDecoder
from minitf.decoding.lines import run_batches
from minitf.decoding.search import BeamSearchConfig, beam_search
from minitf.errors import UserError
from minitf.fast import inference as fast_decoder
from minitf.fast import search_weights
from minitf.fast.inference import InferenceTransformer
from tests.helpers.marks import parametrize_some
from tests.helpers.small_model import SMALL, model_with, sources

pytestmark = pytest.mark.heavy  # Numba compiles

f4 = np.float32
SOURCE = sources(9, 5, 12, 3, 2, 17)
MODELS = {
    "paper": {},
    "pre-norm": {"norm": "pre"},
    "SiLU": {"activation": "silu"},
    "SiLU, pre-norm": {"activation": "silu", "norm": "pre"},
    "narrow keys": {"d_k": 3, "d_v": 5},
    "wide keys": {"d_k": 21, "d_v": 34},
    "three heads": {"heads": 3, "d_k": 4, "d_v": 4},
    "no biases": {"attention_bias": False},
    "other embeddings": {"share_embeddings": "none"},
    "learned positions": {"positions": "learned", "max_positions": 40},
    "one layer, wide": {"layers": 1, "d_model": 80, "d_ff": 130, "spread": 0.3},
    "layers of other numbers": {"encoder_layers": 3, "decoder_layers": 1},
}
SEARCHES = {
    "greedy": {"beam": 1},
    "beam": {"beam": 4},
    "n best": {"beam": 5, "n_best": 5},
    "to the limit": {"beam": 4, "n_best": 4, "alpha": 2.0},
    "patience": {"beam": 4, "n_best": 4, "beam_patience": 0.75},
    "most length": {"beam": 3, "max_length": 2, "n_best": 3},
    "no penalty": {"beam": 4, "alpha": 0.0, "n_best": 3},
    "length": {"beam": 4, "alpha": 1.0, "beta": 0.0, "n_best": 3},
}


@pytest.fixture(autouse=True)
def compiled_cpu(monkeypatch):
    set_kernels("numba")


def lively(**changes):
    """A model whose outputs are of several tokens and lengths."""
    return model_with(dtype=f4, **{"seed": 3, "spread": 0.9, **changes})


def found_by(decoder, source, config):
    """What the compiled search alone finds."""
    found = decoder.search(source, config)
    assert found is not None
    return found


def check_equal(found, expected):
    assert [[each.tokens for each in of_sentence] for of_sentence in found] == [
        [each.tokens for each in of_sentence] for of_sentence in expected
    ]
    for ours, plain in zip(chain(*found), chain(*expected), strict=True):
        assert ours.finished == plain.finished
        assert ours.log_probability == pytest.approx(plain.log_probability, rel=2e-5, abs=2e-5)
        assert ours.score == pytest.approx(plain.score, rel=2e-5, abs=2e-5)


@pytest.mark.parametrize("changes", MODELS.values(), ids=MODELS.keys())
def test_as_the_plain_decoder_of_every_model(changes):
    model = lively(**changes)
    outputs = set()
    for search in ({"beam": 1}, {"beam": 4, "n_best": 3}):
        config = BeamSearchConfig(max_extra_length=12, **search)
        expected = beam_search(TransformerDecoder(model), SOURCE, config)
        check_equal(found_by(InferenceTransformer(model), SOURCE, config), expected)
        outputs |= {each.tokens for of_sentence in expected for each in of_sentence}
    assert len(outputs) > 4  # they are lively


@pytest.mark.parametrize("search", SEARCHES.values(), ids=SEARCHES.keys())
def test_as_the_plain_search_of_every_kind(search):
    config = BeamSearchConfig(**{"max_extra_length": 20, **search})
    for seed in 2, 3, 5:  # sentences that end early, at the limit, and both
        model = lively(seed=seed)
        expected = beam_search(TransformerDecoder(model), SOURCE, config)
        check_equal(found_by(InferenceTransformer(model), SOURCE, config), expected)


def with_rows(rows):
    """A model whose logits are products with these rows, one of each token."""
    model = lively(share_embeddings="none")
    model.named_parameters()["projection"].data[...] = rows
    return model


# Of the last, longer ones are better
@pytest.mark.parametrize("search", [{}, {"max_extra_length": 1}, {"n_best": 2, "alpha": 8.0}])
def test_equal_candidates_come_in_the_same_order(search):
    model, config = with_rows(0), BeamSearchConfig(**{"beam": 3, "n_best": 3, "max_extra_length": 9, **search})
    expected = beam_search(TransformerDecoder(model), SOURCE, config)
    check_equal(found_by(InferenceTransformer(model), SOURCE, config), expected)
    assert len({each.tokens for of_sentence in expected for each in of_sentence}) > 1


@pytest.mark.parametrize("beam", [1, 3])
def test_alone_as_in_a_batch_to_the_bit(beam):
    decoder, config = InferenceTransformer(lively()), BeamSearchConfig(beam=beam, max_extra_length=12)
    together = found_by(decoder, SOURCE, config)
    assert [found_by(decoder, row[row != 0][None], config)[0] for row in SOURCE] == together
    assert found_by(decoder, SOURCE[::-1], config) == together[::-1]


def test_beam_search_and_batches_on_threads_come_to_it(monkeypatch):
    sentences = [row[(row != 0) & (row != EOS)].tolist() for row in SOURCE] * 5
    decoder, config = InferenceTransformer(lively()), BeamSearchConfig(beam=3, max_extra_length=12)
    calls = []
    searched = decoder.search
    monkeypatch.setattr(decoder, "search", lambda *arguments: calls.append(1) or searched(*arguments))

    def run(threads):
        monkeypatch.setattr(_Process, "threads", threads)
        return run_batches(
            decoder, sentences,
            lambda model, source, places: beam_search(model, source, config),
            max_tokens=100, max_sentences=4, done=lambda batch: None,
        )  # fmt: skip

    monkeypatch.setattr(_Process, "threads", 3)
    assert [fast_decoder._threads(decoder, 1), fast_decoder._threads(InferenceTransformer(model_with()), 1)] == [3, 1]
    alone = run(None)
    count = len(calls)
    assert count >= 8
    assert run(3) == alone
    assert len(calls) == 2 * count
    assert alone[:6] == [found_by(decoder, row[row != 0][None], config)[0] for row in SOURCE]


def test_what_stays_with_the_plain_search(monkeypatch):
    config = BeamSearchConfig(beam=2)
    assert InferenceTransformer(model_with(dtype=f4, activation="gelu")).search(SOURCE, config) is None
    assert InferenceTransformer(model_with()).search(SOURCE, config) is None  # float64
    decoder = InferenceTransformer(lively())
    assert decoder.search(SOURCE, BeamSearchConfig(beam=8)) is None  # 16 candidates of 13 tokens
    monkeypatch.setattr(search_weights, "MOST_WEIGHTS", decoder.weights_of_a_step - 1)
    assert InferenceTransformer(lively()).search(SOURCE, config) is None


def test_changed_weights_are_taken_over():
    model, config = lively(), BeamSearchConfig(beam=2, max_extra_length=12)
    decoder = InferenceTransformer(model)
    before = found_by(decoder, SOURCE, config)
    up = model.decoder.layers[0].feed_forward.up.weight
    up.data = up.data * f4(-2)
    after = found_by(decoder, SOURCE, config)
    assert after != before
    assert after == found_by(InferenceTransformer(model), SOURCE, config)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_have_diverged_are_reported_as_ever(value):
    model = lively()
    key = model.decoder.layers[1].self_attention.key.weight
    key.data = np.full_like(key.data, value)
    decoder = InferenceTransformer(model)
    assert decoder.search(SOURCE, BeamSearchConfig(beam=2)) is None
    with pytest.raises(UserError, match="its weights have diverged"):
        beam_search(decoder, SOURCE, BeamSearchConfig(beam=2))


def test_a_long_output_needs_no_room_beforehand():
    """Keys and values of more steps than there is room for at first."""
    model, config = lively(), BeamSearchConfig(beam=2, max_extra_length=60)
    check_equal(
        found_by(InferenceTransformer(model), SOURCE, config), beam_search(TransformerDecoder(model), SOURCE, config)
    )
    assert SMALL.max_positions < 70


ODD = {"d_model": 9, "heads": 1, "d_ff": 13, "positions": "learned"}


@parametrize_some("changes", [{}, {"norm": "pre"}, {"share_embeddings": "none", "d_k": 3, "d_v": 5}, ODD])
def test_with_packed_weights_as_the_decoder_with_them(changes):
    """The products have the same factors; attention and norms differ by rounding."""
    model = lively(**changes)
    decoder, config = InferenceTransformer(model, packed="int8"), BeamSearchConfig(3, n_best=3, max_extra_length=12)
    found = found_by(decoder, SOURCE, config)
    vars(decoder)["search"] = lambda *arguments: None
    expected = beam_search(decoder, SOURCE, config)
    pairs = [*zip(chain(*found), chain(*expected), strict=True)]
    assert sum(ours.tokens == plain.tokens for ours, plain in pairs) > 0.8 * len(pairs)
    differences = [abs(ours.score - plain.score) for ours, plain in pairs if ours.tokens == plain.tokens]
    assert np.median(differences) < 1e-5  # where float32 rounds x to the middle of two numbers, another may be next
    assert found != found_by(InferenceTransformer(model), SOURCE, config)
