"""Lexical shortlists: which tokens are candidates, and searches among these alone."""

import numpy as np
import pytest

from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.data.lexical_table import NO_SOURCE, LexicalTable
from minitf.data.piece_vocabulary import PieceVocabulary, VocabularyPair
from minitf.decoding.ensemble import Ensemble
from minitf.decoding.search import BeamSearchConfig, beam_search
from minitf.decoding.shortlist import Shortlist
from minitf.errors import UserError
from minitf.fast.decoder import InferenceTransformer
from tests.helpers.small_model import SMALL, model_with, sources

V = SMALL.vocab_size


def words(count, prefix="w"):
    return PieceVocabulary("words", ["<pad>", "<unk>", "<s>", "</s>", *(f"{prefix}{i}" for i in range(4, count))])


ONE = VocabularyPair(*[words(40)] * 2)
TWO = VocabularyPair(words(30, "s"), words(40, "t"))


def random_table(seed, entries=200, frequent=12):
    rng = np.random.default_rng(seed)
    source = np.concatenate([np.full(frequent, NO_SOURCE), rng.integers(4, 30, entries)])
    target = np.concatenate([rng.permutation(np.arange(4, 40))[:frequent], rng.integers(4, 40, entries)])
    _, kept = np.unique(source * 100 + target, return_index=True)
    return LexicalTable.of(source[kept], target[kept], rng.random(len(source)).round(2)[kept])


def plain_tokens(table, source, first, best, prune, shared):
    """Marian's rule, one set after the other."""
    entries = list(zip(table.source.tolist(), table.target.tolist(), table.probability.tolist(), strict=True))
    frequent = [t for s, t, _ in sorted(entries, key=lambda e: (-e[2], e[1])) if s == NO_SOURCE]
    frequent += [t for t in range(4, 40) if t not in frequent]
    found = {PAD, UNK, BOS, EOS, *frequent[:first]}
    for piece in {*source.reshape(-1).tolist()} - {PAD}:
        by_probability = sorted((-p, t) for s, t, p in entries if s == piece and p > prune)
        found |= {t for _, t in by_probability[:best]} | ({piece} if shared else set())
    return sorted(found)


@pytest.mark.parametrize("vocabulary", [ONE, TWO], ids=["shared", "two"])
@pytest.mark.parametrize(("first", "best", "prune"), [(1, 1, 0), (5, 3, 0), (20, 2, 0.5), (3, 100, 0.9), (100, 100, 0)])
def test_tokens_are_those_of_the_plain_rule(vocabulary, first, best, prune):
    for seed in range(5):
        table = random_table(seed, frequent=(0, 12)[seed % 2])
        rng = np.random.default_rng(seed)
        source = np.pad(rng.integers(4, 30, (3, 4)), ((0, 0), (0, 2)), constant_values=(0, EOS))
        source[0, 3:] = PAD
        found = Shortlist(table, vocabulary, first, best, prune).tokens(source)
        assert found.tolist() == plain_tokens(table, source, first, best, prune, vocabulary is ONE)


def test_hundred_most_frequent_and_hundred_translations_are_the_default():
    source = np.array([[4, EOS]])
    table = random_table(0)
    found = [Shortlist(table, TWO, *limits).tokens(source).tolist() for limits in ((), (100, 100, 0.0))]
    assert found[0] == found[1]


# ---- Searches ----------------------------------------------------------------------------------------------------


def decoders(dtype=np.float64):
    """One model, one whose logits have a bias, and an ensemble of both."""
    one, other = (
        InferenceTransformer(model_with(each, seed, dtype))
        for seed, each in enumerate([{}, {"output_bias": True, "masked_tokens": (0, 5), "share_embeddings": False}])
    )
    return one, other, Ensemble([one, other])


@pytest.mark.parametrize("which", range(3), ids=["model", "with bias", "ensemble"])
def test_logits_are_those_of_the_tokens(which):
    decoder = decoders()[which]
    source, tokens = sources(4, 6), np.array([1, 3, 4, 7, 16])
    whole, few = decoder.start_decoding(source), decoder.start_decoding(source, shortlist=tokens)
    for newest in ([BOS, BOS], [5, 9], [3, 4]):
        expected = decoder.decode_step(np.array(newest), whole)[:, tokens]
        found = decoder.decode_step(np.array(newest), few)
        if which == 2:  # normalised
            expected, found = (each - np.logaddexp.reduce(each, axis=1, keepdims=True) for each in (expected, found))
        assert found.shape == (2, 5)
        if which != 2:
            np.testing.assert_allclose(found, expected, rtol=1e-12)
        for state in (whole, few):
            state.reorder(np.array([1, 0]))


class Restricted:
    """All logits but those of the tokens at -inf: what a shortlist is to amount to."""

    def __init__(self, decoder, tokens):
        self.decoder, self.start_decoding = decoder, decoder.start_decoding
        self.never = np.setdiff1d(np.arange(V), tokens)

    def decode_step(self, tokens, state):
        logits = self.decoder.decode_step(tokens, state)
        logits[:, self.never] = -np.inf
        return logits


@pytest.mark.parametrize("which", range(2), ids=["model", "with bias"])
@pytest.mark.parametrize(
    "search",
    [
        BeamSearchConfig(beam=1, max_extra_length=8),
        BeamSearchConfig(beam=3, n_best=3, max_extra_length=8),
        BeamSearchConfig(beam=2, min_length=4, max_extra_length=6, allow_unknown=True),
        BeamSearchConfig(beam=12, n_best=12, max_extra_length=3),  # wider than the shortlist
    ],
    ids=["greedy", "n-best", "shortest length", "wide"],
)
def test_search_is_among_the_tokens_alone(which, search):
    decoder, tokens = decoders()[which], np.array([1, 3, 4, 7, 9, 16])
    source = sources(4, 6, 2)
    found = beam_search(decoder, source, search, shortlist=tokens)
    expected = beam_search(Restricted(decoder, tokens), source, search)
    for mine, theirs in zip(found, expected, strict=True):
        assert [each.tokens for each in mine] == [each.tokens for each in theirs]
        np.testing.assert_allclose([each.score for each in mine], [each.score for each in theirs], rtol=1e-12)
        assert {token for each in mine for token in each.tokens} <= {*tokens.tolist()}


@pytest.mark.parametrize("which", range(3), ids=["model", "with bias", "ensemble"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_all_tokens_give_the_bits_of_no_shortlist(which, dtype):
    decoder, search = decoders(dtype)[which], BeamSearchConfig(beam=3, n_best=3, max_extra_length=8)
    source = sources(4, 6, 2)
    assert beam_search(decoder, source, search, shortlist=np.arange(V)) == beam_search(decoder, source, search)


def test_prefixes_and_a_shortlist_exclude_each_other():
    decoder, source = decoders()[0], sources(4)
    beam_search(decoder, source, BeamSearchConfig(), [()], np.array([EOS, 4]))
    with pytest.raises(ValueError, match="a prefix may contain tokens that the shortlist lacks"):
        beam_search(decoder, source, BeamSearchConfig(), [(5,)], np.array([EOS, 4]))


def test_shortlist_of_another_vocabulary_is_refused():
    shortlist = Shortlist(random_table(0), ONE)
    shortlist.require_usable(ONE)
    with pytest.raises(UserError, match="another vocabulary"):
        shortlist.require_usable(TWO)
