"""Forced decoding gives the numbers of the search."""

import numpy as np
import pytest

from minitf.config.model import EOS, PAD
from minitf.decoding.greedy import score_targets
from tests.helpers.small_model import model_with, sources

pytestmark = pytest.mark.heavy


def test_log_probabilities_are_those_of_the_whole_model():
    model = model_with()
    source, targets = sources(5, 3), [[4, 5, EOS], [6, EOS]]
    for row, target, forced in zip(source, targets, score_targets(model, source, targets), strict=True):
        logits = model(row[None, row != PAD], np.array([[2, *target[:-1]]])).data[0]
        expected = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(forced, expected[np.arange(len(target)), target], rtol=1e-9)
