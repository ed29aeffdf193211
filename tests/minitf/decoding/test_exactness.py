"""Beam search is exact: wide beams against enumeration, and the stop rule against running to the longest output."""

import numpy as np
import pytest

from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.decoding.search import BeamSearchConfig, beam_search, length_penalty

ALPHAS = (0.0, 0.6, 1.0, 2.0)


class TreeModel:
    """Random log-probabilities of every token after every history, for several models at once: a sentence each.

    A history is the number whose digits are its tokens; the first source token says which model.
    """

    def __init__(self, rng, models, vocabulary, longest):
        spread, end = rng.uniform(0.2, 4, (models, 1, 1)), rng.uniform(-2, 2, (models, 1))
        self.vocabulary = vocabulary
        self.logits = rng.standard_normal((models, vocabulary**longest, vocabulary)) * spread
        self.logits[:, :, EOS] += end

    def start_decoding(self, source):
        return TreeState(source[:, 0] - EOS - 1)

    def decode_step(self, tokens, state):
        state.history = np.where(tokens == BOS, 0, state.history * self.vocabulary + tokens)
        return self.logits[state.model, state.history]


class TreeState:
    def __init__(self, model):
        self.model, self.history = model, np.zeros_like(model)

    def reorder(self, rows):
        self.model, self.history = self.model[rows], self.history[rows]


def draw(rng, models):
    """Models of one random size, their source sentences and the longest output."""
    vocabulary = int(rng.integers(5, 7))
    longest = int(rng.integers(1, 7 if vocabulary == 5 else 6))
    model = TreeModel(rng, models, vocabulary, longest)
    source = np.stack([np.arange(models) + EOS + 1, np.full(models, EOS)], axis=1)
    return model, source, longest


def enumerated(model, index, longest, alpha, beta, allow_unknown):
    """The best finished hypothesis of one model: (score, tokens), by visiting all there are."""
    logits = model.logits[index]
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    best = (-np.inf, ())
    level = [(0, (), 0.0)]  # history, tokens, log-probability
    for length in range(1, longest + 1):
        following = []
        for history, tokens, total in level:
            row = log_probabilities[history]
            best = max(best, ((total + row[EOS]) / length_penalty(length, alpha, beta), tokens))
            for token in range(model.vocabulary):
                if token not in (PAD, BOS, EOS) and (allow_unknown or token != UNK):
                    following.append((history * model.vocabulary + token, (*tokens, token), total + row[token]))
        level = following
    return best


def check_wide_beams(seed, models, alphas):
    """How many searches were compared."""
    rng = np.random.default_rng(seed)
    model, source, longest = draw(rng, models)
    for alpha in alphas:
        allow_unknown, beta = bool(rng.random() < 0.5), float(rng.choice([5.0, 0.0]))
        config = BeamSearchConfig(
            beam=max(2, model.vocabulary ** (longest - 1)),
            alpha=alpha,
            beta=beta,
            max_length=longest,
            allow_unknown=allow_unknown,
        )
        for index, (found, *_) in enumerate(beam_search(model, source, config)):
            score, tokens = enumerated(model, index, longest, alpha, beta, allow_unknown)
            assert found.finished
            assert found.tokens == tokens or found.score == pytest.approx(score, abs=1e-12)
            assert found.score == pytest.approx(score, rel=1e-11, abs=1e-12)
    return len(alphas) * models


def check_stop_rule(seed, models):
    rng = np.random.default_rng(seed)
    model, source, longest = draw(rng, models)
    for alpha in ALPHAS:
        beam = int(rng.integers(1, 5))
        choices = {"beam": beam, "alpha": alpha, "max_length": longest, "n_best": int(rng.integers(1, beam + 1))}
        choices["beta"] = float(rng.choice([5.0, 0.0]))
        early = beam_search(model, source, BeamSearchConfig(**choices))
        assert early == beam_search(model, source, BeamSearchConfig(**choices, stop_early=False))


@pytest.mark.heavy
def test_wide_beams_and_the_stop_rule_on_400_random_models():
    for seed in range(40):
        check_wide_beams(seed, 5, ALPHAS)
        check_stop_rule(1000 + seed, 5)
