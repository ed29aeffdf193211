"""Models for tests of the search whose probabilities are known: random ones from a table, and scripted ones."""

import math

import numpy as np

from minitf.config.model import EOS, PAD


class RandomModel:
    """Random logits that depend on the whole history and on the source sentence, and on nothing else.

    A row's state is one integer, mixed with every token; it picks a row of a table of random logits.
    """

    def __init__(self, seed, vocabulary=6, spread=2.0, end_bias=0.0, dtype=np.float64, states=9973):
        self.logits = (np.random.default_rng(seed).normal(size=(states, vocabulary)) * spread).astype(dtype)
        self.logits[:, EOS] += end_bias
        self.rows_seen = []

    def mix(self, state, token):
        return (state * 3001 + token * 71 + 11) % len(self.logits)

    def start_decoding(self, source):
        rows = np.zeros(len(source), dtype=np.int64)
        for column in source.T:
            rows = np.where(column == PAD, rows, self.mix(rows, column))
        return RandomModelState(rows)

    def decode_step(self, tokens, state):
        assert tokens.shape == state.rows.shape
        state.rows = self.mix(state.rows, tokens)
        self.rows_seen.append(len(tokens))
        return self.logits[state.rows]


class RandomModelState:
    def __init__(self, rows):
        self.rows = rows

    def reorder(self, rows):
        self.rows = self.rows[rows]


class ScriptedModel:
    """The same probabilities for every history: scripts[t] = {token: probability} at output position t + 1."""

    def __init__(self, scripts, vocabulary=8):
        self.logits = np.full((len(scripts), vocabulary), -np.inf)
        for t, script in enumerate(scripts):
            for token, probability in script.items():
                self.logits[t, token] = math.log(probability)

    def start_decoding(self, source):
        return RandomModelState(np.full(len(source), -1))

    def decode_step(self, tokens, state):
        state.rows = state.rows + 1
        return self.logits[np.minimum(state.rows, len(self.logits) - 1)]


def sources(rng, count, longest=5, vocabulary=6):
    """Source sentences of random lengths, EOS last, padded with PAD."""
    batch = np.full((count, longest + 1), PAD)
    for row in batch:
        length = rng.integers(0, longest + 1)
        row[:length] = rng.integers(EOS + 1, vocabulary, size=length)
        row[length] = EOS
    return batch
