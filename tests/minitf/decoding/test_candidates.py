"""Log-probabilities of next tokens."""

import numpy as np

from minitf.decoding.search import log_probabilities_of


def test_log_probabilities_by_hand():
    logits = np.log(np.array([[1, 2, 5], [4000, 1, 4]], np.float32)) + np.float32(500)
    found = log_probabilities_of(logits, np.array([2, 1]), 1)
    np.testing.assert_allclose(found, np.log([5 / 8, 1 / 4005]), rtol=1e-4)
