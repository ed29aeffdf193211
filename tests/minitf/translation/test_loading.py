"""A run with two vocabularies and another architecture: text to text, scores, n-best, alignments and attention."""

from dataclasses import replace

import numpy as np
import pytest

from additions.interchange.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.config.model import BOS, EOS, PAD
from minitf.decoding.sampling import SamplingConfig
from minitf.errors import UserError
from minitf.translation.translator import Translator
from tests.helpers.imported import MODEL, PAIR

LINES = ["abc", "", "hgfedcba", "c", "abcabcabc"]


@pytest.fixture(scope="module")
def translator(make_run):
    return Translator.load(make_run(vocabulary=PAIR, model=MODEL, precision="float64"), warn=lambda message: None)


def test_text_goes_in_by_one_vocabulary_and_comes_out_by_the_other(translator):
    texts = translator.translate(LINES, sampling=SamplingConfig(seed=1), max_extra_length=5)
    assert texts[1] == ""
    assert any(texts)
    assert all({*text} <= {*"ABCDEFGHIJ "} for text in texts)
    assert translator.translate([LINES[2]], sampling=SamplingConfig(seed=1), max_extra_length=5) == [texts[2]]


def test_the_model_reads_no_end_token(translator):
    """Log-probabilities are those of the model itself, given the source without EOS and BOS before the target."""
    (scored,) = translator.score([("abc", "BAD")])
    source, target = np.array([[4, 5, 6]]), [5, 4, 7]
    logits = translator.model(source, np.array([[BOS, *target]])).data[0]
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(scored.token_log_probabilities, expected[range(4), [*target, EOS]], rtol=1e-9)


def test_alignment_has_the_pieces_of_its_side(translator):
    (found,) = translator.translate_nbest(["abc"], n_best=1, max_extra_length=5)
    (alignment,) = translator.align(found)
    assert alignment.source == ("a", "b", "c")
    np.testing.assert_allclose(alignment.weights.sum(axis=1), 1, rtol=1e-6)


def test_a_target_for_a_blank_source_is_refused_where_the_model_reads_no_end_token(translator):
    assert translator.score([("", "")])[0].log_probability == 0
    with pytest.raises(UserError, match="line 2 is blank, and this model reads no end token"):
        translator.score([("a", "A"), ("  ", "A")])


def test_a_translation_that_the_model_never_produces_is_named(translator):
    with pytest.raises(UserError, match="never produces"):
        translator.score([("a", [4, PAD])])


def test_another_vocabulary_is_refused(make_run):
    larger = PieceVocabulary("characters", [*PAIR.source.pieces_by_id, "i"])
    run = make_run(vocabulary=PAIR, model=replace(MODEL, vocab_size=14, source_vocab_size=12))
    VocabularyPair(larger, PAIR.target).save(run / "vocabulary.json")
    with pytest.raises(UserError, match="model has 12 and 14 tokens, but its vocabulary 13 and 14"):
        Translator.load(run)


# ---- Ensembles ----


def test_an_ensemble_of_runs_scores_with_the_mean_of_their_probabilities(make_run, translator):
    """One has another architecture."""
    other = replace(MODEL, encoder_layers=1, decoder_start="bos")
    runs = [
        make_run(vocabulary=PAIR, model=MODEL, precision="float64"),
        make_run(vocabulary=PAIR, model=other, precision="float64", steps=(5,)),
    ]
    both, one, two = (Translator.load(*each, warn=print) for each in (runs, runs[:1], runs[1:]))
    pairs = [("abc", "BAD"), ("hg", "A"), ("c", "")]
    for each, left, right in zip(*(translator.score(pairs) for translator in (both, one, two)), strict=True):
        probabilities = [np.exp(found.token_log_probabilities) for found in (left, right)]
        expected = np.log(np.mean(probabilities, axis=0))
        np.testing.assert_allclose(each.token_log_probabilities, expected, rtol=1e-9)
    assert both.translate(["abcd"], beam=3, max_extra_length=3)


def test_an_ensemble_aligns_with_the_mean_of_its_models(make_run):
    """One has another depth."""
    models = [MODEL, replace(MODEL, decoder_layers=1, heads=4)]
    runs = [make_run(vocabulary=PAIR, model=each, steps=(1,), precision="float64") for each in models]
    both, one, two = (Translator.load(*each, warn=print) for each in (runs, runs[:1], runs[1:]))
    found = both.score([("abc", "BAD"), ("hg", "A")])
    aligned = [translator.align(found) for translator in (both, one, two)]
    for together, left, right in zip(*aligned, strict=True):
        assert (together.source, together.target) == (left.source, left.target)
        np.testing.assert_allclose(together.weights, (left.weights + right.weights) / 2, rtol=1e-12)
        assert not np.allclose(left.weights, right.weights, atol=1e-3)


def test_runs_that_cannot_translate_together_are_refused(make_run):
    pair = VocabularyPair(PAIR.source, PieceVocabulary("characters", [*PAIR.target.pieces_by_id, "K"]))
    ended = replace(MODEL, source_eos=True)
    runs = [make_run(vocabulary=each, model=MODEL, steps=(1,)) for each in (PAIR, pair)]
    for other in runs[1], make_run(vocabulary=PAIR, model=ended, steps=(1,)):
        with pytest.raises(UserError, match=r"has another vocabulary than .*; models that translate together need"):
            Translator.load(runs[0], other)
