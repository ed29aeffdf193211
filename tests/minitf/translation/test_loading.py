"""A run with two vocabularies and another architecture: text to text, scores, n-best."""

from dataclasses import replace

import numpy as np
import pytest

from additions.interchange.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.config.model import BOS, EOS, PAD
from minitf.errors import UserError
from minitf.translation.translator import Translator
from tests.helpers.imported import MODEL, PAIR

LINES = ["abc", "", "hgfedcba", "c", "abcabcabc"]


@pytest.fixture(scope="module")
def translator(make_run):
    return Translator.load(make_run(vocabulary=PAIR, model=MODEL, precision="float64"), warn=lambda message: None)


def test_text_goes_in_by_one_vocabulary_and_comes_out_by_the_other(translator):
    assert translator.translate(LINES, max_extra_length=5)[1] == ""
    (scored,) = translator.score([("abc", "BAD")])
    assert (scored.text, scored.parts) == ("BAD", (((4, 5, 6), (5, 4, 7)),))


def test_the_model_reads_no_end_token(translator):
    """Log-probabilities are those of the model itself, given the source without EOS and BOS before the target."""
    (scored,) = translator.score([("abc", "BAD")])
    source, target = np.array([[4, 5, 6]]), [5, 4, 7]
    logits = translator.model(source, np.array([[BOS, *target]])).data[0]
    expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    np.testing.assert_allclose(scored.token_log_probabilities, expected[range(4), [*target, EOS]], rtol=1e-9)


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
