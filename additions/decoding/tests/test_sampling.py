"""Sampling against the distribution that it says it draws from, and its independence of the other sentences."""

import numpy as np
import pytest

from additions.decoding.sampling import SamplingConfig, distribution, sample
from minitf.config.model import EOS, PAD
from minitf.decoding.search import BeamSearchConfig
from minitf.errors import UserError
from tests.helpers.fake_models import RandomModel, ScriptedModel, sources

LOGITS = np.log(np.array([0.1, 0.1, 0.05, 0.05, 0.4, 0.2, 0.1]))


def shares(**settings):
    return distribution(LOGITS, SamplingConfig(**settings)).round(12).tolist()


def test_the_distribution_by_hand():
    assert shares() == pytest.approx([0, 0, 0, 0.05 / 0.75, 0.4 / 0.75, 0.2 / 0.75, 0.1 / 0.75])
    assert shares(temperature=0.5) == pytest.approx(np.array([0, 0, 0, 0.25, 16, 4, 1]) / 21.25)
    assert shares(top_k=2) == pytest.approx([0, 0, 0, 0, 2 / 3, 1 / 3, 0])
    assert shares(top_p=0.5) == [0, 0, 0, 0, 1, 0, 0]  # 0.533 is enough
    assert shares(top_p=0.6) == pytest.approx([0, 0, 0, 0, 2 / 3, 1 / 3, 0])
    assert shares(top_k=3, top_p=0.9) == pytest.approx([0, 0, 0, 0, 4 / 7, 2 / 7, 1 / 7])
    assert shares(top_p=1.0) == pytest.approx(shares())


@pytest.mark.heavy
def test_draws_follow_the_distribution():
    model = ScriptedModel([{4: 0.6, 5: 0.3, EOS: 0.1}, {EOS: 1.0}])
    rng = np.random.default_rng(0)
    source = np.concatenate([rng.integers(4, 1000, (3000, 3)), np.full((3000, 1), EOS)], axis=1)
    found = [each.tokens for (each,) in sample(model, source)]
    for tokens, probability in [((4,), 0.6), ((5,), 0.3), ((), 0.1)]:
        share = found.count(tokens) / len(found)
        assert share == pytest.approx(probability, abs=4 * (probability * (1 - probability) / len(found)) ** 0.5)


def test_a_draw_depends_on_seed_sentence_and_number_and_on_nothing_else():
    model = RandomModel(3, vocabulary=30)
    source = sources(np.random.default_rng(1), 12, longest=5, vocabulary=30)
    config = BeamSearchConfig(n_best=3, max_extra_length=9)
    together = sample(model, source, config, SamplingConfig(seed=7))
    alone = [sample(model, row[None, row != PAD], config, SamplingConfig(seed=7))[0] for row in source]
    assert together == alone
    assert sample(model, source[::-1], config, SamplingConfig(seed=7)) == together[::-1]
    assert sample(model, source, config, SamplingConfig(seed=8)) != together
    assert len({each.tokens for each in together[0]}) > 1


def test_little_temperature_and_one_candidate_are_greedy():
    model = RandomModel(4, vocabulary=20)
    source = sources(np.random.default_rng(2), 6, vocabulary=20)
    config = BeamSearchConfig(max_extra_length=9)
    greedy = sample(model, source, config, SamplingConfig(top_k=1))
    assert sample(model, source, config, SamplingConfig(temperature=1e-4)) == greedy
    assert sample(model, source, config, SamplingConfig(top_p=1e-9)) == greedy


def test_limits_hold():
    model = RandomModel(5, vocabulary=20, end_bias=3)
    source = sources(np.random.default_rng(3), 4, vocabulary=20)
    config = BeamSearchConfig(max_length=6)
    for (each,) in sample(model, source, config):
        assert len(each.tokens) <= 6


@pytest.mark.parametrize(
    "setting", [{"temperature": 0}, {"temperature": np.nan}, {"top_k": 0}, {"top_p": 0}, {"top_p": 1.5}, {"seed": -1}]
)
def test_impossible_settings_are_refused(setting):
    (name,) = setting
    with pytest.raises(UserError, match=name):
        SamplingConfig(**setting)
