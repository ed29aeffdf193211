"""Ensembles: the mean of the members' probabilities, in every kind of search and in scores."""

from dataclasses import replace

import numpy as np
import pytest

from additions.decoding.ensemble import Ensemble, load_ensemble
from additions.decoding.sampling import SamplingConfig, sample
from additions.interchange.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.config.model import BOS
from minitf.decoding.search import BeamSearchConfig, beam_search
from minitf.errors import UserError
from minitf.fast.inference import InferenceTransformer
from tests.helpers.imported import MODEL, PAIR
from tests.helpers.small_model import SMALL, model_with, sources


def softmax(logits):
    p = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def ensemble_of(*changes, dtype=np.float64):
    models = [model_with(each, seed=seed, dtype=dtype) for seed, each in enumerate(changes)]
    return models, Ensemble([InferenceTransformer(model) for model in models])


def test_probabilities_are_the_mean_of_the_members():
    """Whatever the architectures, over steps and reorderings; the members compute without caches here."""
    models, ensemble = ensemble_of({}, {"norm": "pre", "encoder_layers": 1}, {"masked_tokens": (0, 5), "d_k": 3})
    source = sources(5, 3, 7)
    state = ensemble.start_decoding(source)
    rng = np.random.default_rng(0)
    target = np.full((3, 1), BOS)
    for rows in (None, [2, 0, 1], [1, 2], [0, 0, 1, 1]):
        if rows is not None:
            state.reorder(np.array(rows))
            source, target = source[rows], target[rows]
            target = np.concatenate([target, rng.integers(4, SMALL.vocab_size, (len(target), 1))], axis=1)
        found = ensemble.decode_step(target[:, -1], state)
        expected = np.mean([softmax(model(source, target).data[:, -1]) for model in models], axis=0)
        np.testing.assert_allclose(np.exp(found), expected, rtol=1e-9)
        np.testing.assert_allclose(np.exp(found).sum(axis=1), 1, rtol=1e-12)


def test_tokens_that_no_member_produces_have_no_probability():
    _, ensemble = ensemble_of({"masked_tokens": (0, 2, 7)}, {"masked_tokens": (0, 7, 8)})
    assert ensemble.masked_tokens == {0, 7}
    logits = ensemble.decode_step(np.array([BOS]), ensemble.start_decoding(sources(4)))
    assert np.flatnonzero(np.isneginf(logits[0])).tolist() == [0, 7]


def test_improbable_tokens_do_not_underflow():
    """float32 has no number for exp(-200)."""

    class Certain:
        backend = ensemble_of({})[1].backend

        def __init__(self, model):
            self.model = model

        def start_decoding(self, source):
            return None

        def decode_step(self, tokens, state):
            return np.array([[0, -200, -90]], np.float32)

    member = Certain(model_with())
    found = Ensemble([member, member]).decode_step(np.zeros(1, int), Ensemble([member, member]).start_decoding(None))
    np.testing.assert_allclose(found, [[0, -200, -90]], rtol=1e-6)
    assert found.dtype == np.float32


def test_equal_members_are_one_model():
    model = model_with()
    one, two = InferenceTransformer(model), Ensemble([InferenceTransformer(model), InferenceTransformer(model)])
    source, config = sources(5, 3, 7, 4), BeamSearchConfig(beam=3, n_best=3, max_extra_length=4)
    for a, b in zip(beam_search(one, source, config), beam_search(two, source, config), strict=True):
        assert [each.tokens for each in a] == [each.tokens for each in b]
        np.testing.assert_allclose([each.score for each in a], [each.score for each in b], rtol=1e-12)
    drawn = [sample(each, source, config, SamplingConfig(seed=3)) for each in (one, two)]
    assert [[h.tokens for h in each] for each in drawn[0]] == [[h.tokens for h in each] for each in drawn[1]]


def test_other_target_vocabularies_are_refused():
    with pytest.raises(UserError, match=r"models of one target vocabulary, not of \[17, 18\] tokens"):
        ensemble_of({}, {"vocab_size": 18})


# ---- Of runs ----


def test_an_ensemble_of_runs_scores_with_the_mean_of_their_probabilities(make_run):
    """One has another architecture."""
    other = replace(MODEL, encoder_layers=1, decoder_start="bos")
    runs = [
        make_run(vocabulary=PAIR, model=MODEL, precision="float64"),
        make_run(vocabulary=PAIR, model=other, precision="float64", steps=(5,)),
    ]
    both, one, two = (load_ensemble(*each, warn=print) for each in (runs, runs[:1], runs[1:]))
    pairs = [("abc", "BAD"), ("hg", "A"), ("c", "")]
    for each, left, right in zip(*(translator.score(pairs) for translator in (both, one, two)), strict=True):
        probabilities = [np.exp(found.token_log_probabilities) for found in (left, right)]
        expected = np.log(np.mean(probabilities, axis=0))
        np.testing.assert_allclose(each.token_log_probabilities, expected, rtol=1e-9)
    assert both.translate(["abcd"], beam=3, max_extra_length=3)


def test_runs_that_cannot_translate_together_are_refused(make_run):
    pair = VocabularyPair(PAIR.source, PieceVocabulary("characters", [*PAIR.target.pieces_by_id, "K"]))
    ended = replace(MODEL, source_eos=True)
    runs = [make_run(vocabulary=each, model=MODEL, steps=(1,)) for each in (PAIR, pair)]
    for other in runs[1], make_run(vocabulary=PAIR, model=ended, steps=(1,)):
        with pytest.raises(UserError, match=r"has another vocabulary than .*; models that translate together need"):
            load_ensemble(runs[0], other)
