"""Search against exhaustive enumeration, against itself run to the end, and one sentence alone against a batch."""

import math
import re

import numpy as np
import pytest

from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.decoding.greedy import greedy_search
from minitf.decoding.search import BeamSearchConfig, Hypothesis, beam_search, length_penalty
from minitf.errors import UserError
from tests.helpers.fake_models import RandomModel, ScriptedModel, sources
from tests.helpers.marks import parametrize_some


def log_softmax(row):
    return row - row.max() - math.log(np.exp(row - row.max()).sum())


def enumerate_all(model, source, config, max_length):
    """Every finished hypothesis of one sentence up to max_length tokens (EOS counted), best first."""
    found = []

    def visit(rows, tokens, log_probability):
        rows = model.mix(rows, tokens[-1] if tokens else BOS)
        log_probabilities = log_softmax(model.logits[rows])
        length = len(tokens) + 1
        ended = log_probability + log_probabilities[EOS]
        found.append((ended / ((5 + length) / 6) ** config.alpha, tuple(tokens), ended))
        if length < max_length:
            for token in range(len(log_probabilities)):
                if token > EOS:
                    visit(rows, [*tokens, token], log_probability + log_probabilities[token])

    visit(int(model.start_decoding(source[None]).rows[0]), [], 0.0)
    return sorted(found, key=lambda each: -each[0])


@pytest.mark.heavy
@pytest.mark.parametrize("alpha", [0.0, 0.6, 1.0, 2.0])
def test_a_beam_as_wide_as_the_space_finds_what_enumeration_finds(alpha):
    rng = np.random.default_rng(1)
    for seed in range(15):
        model = RandomModel(seed, vocabulary=6, spread=rng.uniform(0.3, 3), end_bias=rng.uniform(-2, 2))
        source = sources(rng, 3, longest=2)
        config = BeamSearchConfig(beam=256, alpha=alpha, max_extra_length=2, n_best=6)
        for row, hypotheses in zip(source, beam_search(model, source, config), strict=True):
            limit = int(np.sum(row > EOS)) + 2
            expected = enumerate_all(model, row, config, limit)[:6]
            assert len(hypotheses) == len(expected)
            assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for _, tokens, _ in expected]
            assert all(hypothesis.finished for hypothesis in hypotheses)
            found = [(hypothesis.score, hypothesis.log_probability) for hypothesis in hypotheses]
            np.testing.assert_allclose(found, [(score, total) for score, _, total in expected], rtol=1e-12)


PATIENCE = None, 0.5, 1, 2


def plain_beam_search(model, source, config, max_length):
    """The algorithm for one sentence in plain loops: no arrays, no bound. Returns (score, tokens), best first."""
    alive, finished, ended = [(0.0, (), int(model.start_decoding(source[None]).rows[0]))], [], 0
    for length in range(1, max_length + 1):
        candidates = []
        for n, (total, tokens, rows) in enumerate(alive):
            rows = model.mix(rows, tokens[-1] if tokens else BOS)
            log_probabilities = log_softmax(model.logits[rows])
            for token in range(EOS, len(log_probabilities)):
                candidates.append((-total - log_probabilities[token], n, token, tokens, rows))
        candidates = sorted(candidates)[: 2 * config.beam]
        penalty = ((5 + length) / 6) ** config.alpha
        finished += [(-cost / penalty, tokens) for cost, _, token, tokens, _ in candidates if token == EOS]
        alive = [(-cost, (*tokens, token), rows) for cost, _, token, tokens, rows in candidates if token != EOS]
        alive = alive[: config.beam]
        ended += sum(token == EOS for _, _, token, _, _ in candidates[: config.beam])
        if config.beam_patience is not None and ended >= config.beam_patience * config.beam:
            break
    return sorted(finished, key=lambda each: -each[0]) or [(total / penalty, tokens) for total, tokens, _ in alive]


@pytest.mark.heavy
@parametrize_some("beam", [3, 2, 4])
def test_a_narrow_beam_equals_the_algorithm_in_plain_loops(beam):
    """Though it stops before the longest length where no better hypothesis can come."""
    rng = np.random.default_rng(beam)
    steps = most = 0
    for seed in range(80):
        model = RandomModel(
            seed, vocabulary=int(rng.integers(5, 14)), spread=rng.uniform(0.2, 4), end_bias=rng.uniform(-2, 2)
        )
        source, n_best = sources(rng, 3), int(rng.integers(1, beam + 1))
        config = BeamSearchConfig(
            beam, rng.uniform(0, 2), max_extra_length=4, n_best=n_best, beam_patience=PATIENCE[seed % 4]
        )
        found = beam_search(model, source, config)
        steps, most = steps + len(model.rows_seen), most + int(np.sum(source > EOS, axis=1).max()) + 4
        for row, hypotheses in zip(source, found, strict=True):
            expected = plain_beam_search(model, row, config, int(np.sum(row > EOS)) + 4)[:n_best]
            assert [hypothesis.tokens for hypothesis in hypotheses] == [tokens for _, tokens in expected]
            scores = [hypothesis.score for hypothesis in hypotheses]
            np.testing.assert_allclose(scores, [score for score, _ in expected], rtol=1e-12)
    assert steps < most


@pytest.mark.heavy
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_beam_is_greedy_search(dtype):
    rng = np.random.default_rng(2)
    for seed in range(60):
        model = RandomModel(seed, vocabulary=9, spread=rng.uniform(0.2, 3), dtype=dtype)
        source = sources(rng, 5)
        config = BeamSearchConfig(beam=1, alpha=rng.choice([0.0, 0.6, 2.0]), max_extra_length=6)
        assert [[each] for each in greedy_search(model, source, config)] == beam_search(model, source, config)


def test_one_beam_ends_at_its_first_end_token_though_a_longer_output_would_score_better():
    # EOS is the best first token; going on would end with a far better score under so strong a penalty.
    model = ScriptedModel([{EOS: 0.5, 4: 0.4, 5: 0.1}, {EOS: 1.0}])
    source = np.array([[4, EOS]])
    ((one,),) = beam_search(model, source, BeamSearchConfig(beam=1, alpha=2.0))
    assert one.tokens == ()
    ((two,),) = beam_search(model, source, BeamSearchConfig(beam=2, alpha=20.0))
    assert two.tokens == (4,)


@pytest.mark.heavy
@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_a_sentence_alone_is_searched_as_in_a_batch(search):
    rng = np.random.default_rng(3)
    for seed in range(25):
        model = RandomModel(seed, vocabulary=8, spread=rng.uniform(0.3, 3), dtype=np.float32)
        source = sources(rng, 7)
        config = BeamSearchConfig(beam=3, alpha=0.6, max_extra_length=8, n_best=2)
        together = search(model, source, config)
        rows_together, model.rows_seen = sum(model.rows_seen), []
        alone = [search(model, row[None, : np.sum(row != PAD)], config)[0] for row in source]
        assert together == alone
        assert rows_together == sum(model.rows_seen)  # nor does anyone wait for the others
        order = rng.permutation(len(source))
        shuffled = search(model, source[order], config)
        assert [shuffled[i] for i in np.argsort(order)] == together


@pytest.mark.parametrize("beam", [1, 4])
def test_the_end_token_counts_in_the_length_and_the_start_token_does_not(beam):
    model = ScriptedModel([{4: 1.0}, {EOS: 0.25, 5: 0.75}, {EOS: 1e-9, 5: 1.0}])
    config = BeamSearchConfig(beam=beam, alpha=1.0, max_extra_length=2)
    ((hypothesis,),) = beam_search(model, np.array([[EOS]]), config)
    if beam == 4:  # at most 2 tokens: only "4 EOS" ends in time
        assert hypothesis.tokens == (4,)
        assert hypothesis.finished
        assert hypothesis.log_probability == pytest.approx(math.log(0.25), rel=1e-12)
        assert hypothesis.score == pytest.approx(math.log(0.25) / (7 / 6), rel=1e-12)
    else:  # greedy goes on with 5 and is cut
        assert hypothesis.tokens == (4, 5)
        assert not hypothesis.finished


def test_length_penalty_is_the_one_of_the_paper():
    lengths = (1, 0.6), (13, 1.0), (19, 0.5), (40, 0.0)
    assert [length_penalty(*each) for each in lengths] == [1.0, 3.0, 2.0, 1.0]


@pytest.mark.parametrize("beam", [1, 4])
def test_output_is_at_most_source_length_plus_extra_for_each_sentence_and_is_cut_there(beam):
    model = RandomModel(6, vocabulary=30, end_bias=-60.0)  # EOS is never among the candidates
    source = np.array([[4, 5, 6, EOS], [4, EOS, PAD, PAD], [EOS, PAD, PAD, PAD]])
    for limit, expected in [(None, [8, 6, 5]), (6, [6, 6, 5])]:
        config = BeamSearchConfig(beam=beam, max_extra_length=5, max_length=limit, alpha=0.6, n_best=beam)
        result = beam_search(model, source, config)
        assert [[len(h.tokens) for h in hypotheses] for hypotheses in result] == [[n] * beam for n in expected]
        for hypotheses in result:
            assert not any(h.finished for h in hypotheses)
            scores = [h.log_probability / ((5 + len(h.tokens)) / 6) ** 0.6 for h in hypotheses]
            assert [h.score for h in hypotheses] == scores
            assert hypotheses == sorted(hypotheses, key=lambda h: -h.score)


def test_a_finished_hypothesis_is_preferred_to_every_cut_one():
    model = ScriptedModel([{4: 0.999, EOS: 0.001}, {4: 1.0}])
    (hypotheses,) = beam_search(model, np.array([[4, EOS]]), BeamSearchConfig(beam=2, n_best=2, max_extra_length=3))
    assert hypotheses == [Hypothesis((), math.log(0.001), math.log(0.001), finished=True)]


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_tokens_that_stand_for_no_text_are_never_produced(search):
    model = RandomModel(9, vocabulary=30, end_bias=-5)
    model.logits[:, [PAD, UNK, BOS]] += 20
    config = BeamSearchConfig(max_extra_length=20)
    results = search(model, np.array([[4, EOS], [5, EOS]]), config)
    hypotheses = results if search is greedy_search else [each for (each,) in results]
    produced = {token for hypothesis in hypotheses for token in hypothesis.tokens}
    assert min(produced) > EOS


@pytest.mark.parametrize("search", [beam_search, greedy_search])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_numbers_are_an_error_that_names_the_place(search, bad):
    class Broken(RandomModel):
        def decode_step(self, tokens, state):
            logits = super().decode_step(tokens, state).copy()
            if len(self.rows_seen) == 3:
                logits[-1, 5] = bad
            return logits

    model = Broken(0, vocabulary=30, end_bias=-60.0)
    with pytest.raises(UserError, match=r"logits of (nan|inf) at output position 3;"):
        search(model, np.array([[4, EOS], [5, EOS]]), BeamSearchConfig())


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_a_model_without_any_way_on_is_an_error(search):
    model = ScriptedModel([{4: 1.0}, {PAD: 0.5, BOS: 0.5}])
    with pytest.raises(UserError, match="probability of 0 at output position 2;"):
        search(model, np.array([[4, EOS]]), BeamSearchConfig(max_extra_length=5))


def test_ties_go_to_the_lower_beam_and_then_to_the_lower_token():
    model = ScriptedModel([dict.fromkeys((4, 5, 6, 7), 0.25)] * 2 + [{EOS: 1.0}])
    (hypotheses,) = beam_search(model, np.array([[4, EOS]]), BeamSearchConfig(beam=3, n_best=3))
    assert [hypothesis.tokens for hypothesis in hypotheses] == [(4, 4), (4, 5), (4, 6)]
    assert greedy_search(model, np.array([[4, EOS]]))[0].tokens == (4, 4)


@pytest.mark.parametrize("search", [beam_search, greedy_search])
def test_an_empty_batch_has_no_results_and_an_empty_sentence_is_no_source(search):
    assert search(RandomModel(0), np.zeros((0, 4), dtype=np.int64)) == []
    with pytest.raises(ValueError, match="source sentence 1 has no token"):
        search(RandomModel(0), np.array([[4, EOS], [PAD, PAD]]))
    with pytest.raises(ValueError, match=r"shape \(2,\), not \[B, S\]"):
        search(RandomModel(0), [4, EOS])
    with pytest.raises(TypeError, match="config=4 is of type int, not BeamSearchConfig"):
        search(RandomModel(0), [[4, EOS]], 4)


SETTINGS = "beam=0, alpha=-0.1, alpha=inf, beam_patience=0, max_extra_length=0, max_length=0, n_best=5 is not in 1..4"


@pytest.mark.parametrize("setting", SETTINGS.split(", "))
def test_impossible_settings_are_refused(setting):
    name, _, value = setting.split()[0].partition("=")
    with pytest.raises(UserError, match=f"^{re.escape(setting)}"):
        BeamSearchConfig(**{name: float(value) if name == "alpha" else int(value)})
