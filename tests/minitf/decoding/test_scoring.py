"""Forced decoding gives the numbers of the search."""

import numpy as np
import pytest

from minitf.config.model import BOS, EOS, PAD
from minitf.decoding.greedy import score_targets
from minitf.fast.inference import InferenceTransformer
from minitf.translation.forced_decoding import alignments, attention_weights
from tests.helpers.small_model import model_with, sources

pytestmark = pytest.mark.heavy


def test_log_probabilities_are_those_of_the_whole_model():
    model = model_with()
    source, targets = sources(5, 3), [[4, 5, EOS], [6, EOS]]
    for row, target, forced in zip(source, targets, score_targets(model, source, targets), strict=True):
        logits = model(row[None, row != PAD], np.array([[2, *target[:-1]]])).data[0]
        expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(forced, expected[np.arange(len(target)), target], rtol=1e-9)


def test_alignments_are_of_the_last_layer_but_one_and_of_real_tokens():
    decoder = InferenceTransformer(model_with(layers=3))
    source, targets = sources(5, 3), [[4, 5, EOS], [6, EOS]]
    found = alignments(decoder, source, targets)
    for row, target, weights in zip(source, targets, found, strict=True):
        assert weights.shape == (len(target), 5)
        np.testing.assert_allclose(weights.sum(axis=1), 1, rtol=1e-12)
        assert (weights[:, row == PAD] == 0).all()
    cross = attention_weights(decoder.model, source[:1], np.array([[BOS, 4, 5]])).cross
    np.testing.assert_allclose(found[0], cross[0, 1].mean(axis=0), rtol=1e-9)


def test_targets_must_fit():
    model = model_with()
    with pytest.raises(ValueError, match="1 targets for 2 sentences"):
        score_targets(model, sources(5, 3), [[EOS]])
    with pytest.raises(ValueError, match="target 1 has no token"):
        score_targets(model, sources(5, 3), [[EOS], []])
