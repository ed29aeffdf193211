"""Every pair once an epoch, never over budget, the same batches after a restart as without one."""

import itertools
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitf.config.model import BOS, EOS, PAD
from minitf.data.batches import Batch, Batches
from minitf.data.prepared import PreparedCorpus
from minitf.errors import UserError
from tests.helpers.batches import batch_of, epoch_of

LENGTHS = st.lists(st.tuples(st.integers(1, 12), st.integers(1, 12)), min_size=1, max_size=60)
SENTENCES = st.lists(st.lists(st.integers(4, 99), max_size=9), min_size=1, max_size=9)


def corpus_of(lengths) -> PreparedCorpus:
    """Pair i says i in every token, so that no pair can pass for another."""
    return PreparedCorpus.from_ids(
        [[4 + i] * source for i, (source, _) in enumerate(lengths)],
        [[1004 + i] * target for i, (_, target) in enumerate(lengths)],
    )


def typical(pairs=5000, seed=0) -> PreparedCorpus:
    """Lengths spread as in captions: 14 tokens on average, the sides alike but not equal."""
    rng = np.random.default_rng(seed)
    source = np.clip(rng.gamma(10, 1.4, pairs), 3, 50).astype(int)
    target = np.clip(source * rng.normal(1.03, 0.15, pairs), 2, 50).astype(int)
    return corpus_of(list(zip(source.tolist(), target.tolist(), strict=True)))


def same(a: Batch, b: Batch) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in ("indices", "source", "target_in", "target_out")
    )


def all_same(first, second) -> bool:
    return all(same(a, b) for a, b in zip(first, second, strict=True))


def members(batches) -> list[list[int]]:
    return [batch.indices.tolist() for batch in batches]


# ---- padding -----------------------------------------------------------------------------------


def padded_by_hand(sentences, first=(), last=()) -> list[list[int]]:
    rows = [[*first, *sentence, *last] for sentence in sentences]
    return [row + [PAD] * (max(map(len, rows)) - len(row)) for row in rows]


@settings(deadline=None)  # the machine may be busy
@given(SENTENCES, st.data())
def test_padding_is_what_a_loop_would_do(sources, data):
    targets = data.draw(
        st.lists(st.lists(st.integers(4, 99), max_size=9), min_size=len(sources), max_size=len(sources))
    )
    batch = batch_of(sources, targets)
    assert batch.source.tolist() == padded_by_hand(sources, last=[EOS])
    assert batch.target_in.tolist() == padded_by_hand(targets, first=[BOS])
    assert batch.target_out.tolist() == padded_by_hand(targets, last=[EOS])
    assert batch.indices.tolist() == list(range(len(sources)))
    assert batch.source_tokens == sum(len(sentence) + 1 for sentence in sources)
    assert batch.target_tokens == sum(len(sentence) + 1 for sentence in targets)
    assert all(array.dtype == np.int32 for array in (batch.source, batch.target_in, batch.target_out))


# ---- an epoch ------------------------------------------------------------------------------------


@settings(deadline=None)  # the machine may be busy
@given(LENGTHS, st.integers(13, 60), st.integers(0, 5), st.booleans())
def test_an_epoch_holds_every_pair_once_within_the_budget(lengths, budget, epoch, shuffle):
    corpus = corpus_of(lengths)
    batches = Batches(corpus, budget, seed=3, shuffle=shuffle)
    for epoch_batches in (epoch_of(batches, epoch), list(batches.one_epoch())):
        assert len(epoch_batches) == batches.per_epoch
        assert sorted(itertools.chain(*members(epoch_batches))) == list(range(len(lengths)))
        for batch in epoch_batches:
            assert max(batch.source.size, batch.target_in.size, batch.target_out.size) <= budget
            sources = [corpus.source[i] for i in batch.indices]
            assert same(batch, batch_of(sources, [corpus.target[i] for i in batch.indices], batch.indices))


@settings(deadline=None)  # the machine may be busy
@given(LENGTHS, st.integers(13, 60))
def test_batches_are_as_large_as_the_budget_allows(lengths, budget):
    in_order = list(Batches(corpus_of(lengths), budget).one_epoch())
    for batch, following in itertools.pairwise(in_order):
        width = max(following.source[0].tolist().index(EOS), following.target_out[0].tolist().index(EOS)) + 1
        assert (len(batch.indices) + 1) * width > budget


@pytest.mark.parametrize(("budget", "fill"), [(1024, 0.93), (4096, 0.90)])
def test_little_of_a_batch_is_padding(budget, fill):
    corpus = typical()
    epoch = epoch_of(Batches(corpus, budget), 0)
    tokens = sum(batch.source_tokens + batch.target_tokens for batch in epoch)
    assert tokens == len(corpus.source.ids) + len(corpus.target.ids) + 2 * len(corpus)
    assert tokens / sum(batch.padded_tokens for batch in epoch) > fill


def test_the_order_depends_on_seed_and_epoch_alone():
    corpus = typical(1000)
    first = [members(epoch_of(Batches(corpus, 512, seed=1), epoch)) for epoch in range(3)]
    busy = Batches(corpus, 512, seed=1)
    list(itertools.islice(busy, 7))
    assert [members(epoch_of(busy, epoch)) for epoch in (2, 0, 1)] == [first[2], first[0], first[1]]
    others = [*first[1:], members(epoch_of(Batches(corpus, 512, seed=2), 0))]
    for other in others:
        assert other != first[0]
        assert {frozenset(batch) for batch in other} != {frozenset(batch) for batch in first[0]}  # not just reordered


def test_short_and_long_batches_come_mixed():
    widths = [batch.source.shape[1] for batch in epoch_of(Batches(typical(), 512, seed=1), 0)]
    assert abs(np.corrcoef(widths, np.arange(len(widths)))[0, 1]) < 0.3
    ties = [batch.indices.tolist() for batch in epoch_of(Batches(corpus_of([(3, 3)] * 100), 40, seed=1), 0)]
    assert ties != sorted(ties)
    assert any(batch != list(range(batch[0], batch[0] + len(batch))) for batch in ties)


def test_most_pairs_meet_others_in_the_next_epoch():
    batches = Batches(typical(), 512)
    together = [
        {pair for batch in members(epoch_of(batches, epoch)) for pair in itertools.combinations(sorted(batch), 2)}
        for epoch in (0, 1)
    ]
    assert len(together[0] & together[1]) < 0.3 * len(together[0])  # half without the jitter


def test_without_shuffling_every_epoch_is_the_same():
    batches = Batches(typical(1000), 512, seed=1, shuffle=False)
    assert members(epoch_of(batches, 0)) == members(epoch_of(batches, 5)) == members(batches.one_epoch())
    widths = [max(batch.source.shape[1], batch.target_in.shape[1]) for batch in epoch_of(batches, 0)]
    assert widths == sorted(widths)


def test_the_order_is_the_one_that_earlier_checkpoints_count_in():
    """A literal, from NumPy 2.0 and 2.4 alike: if it changes, runs no longer resume exactly."""
    lengths = [(1 + i % 3, 1 + i % 2) for i in range(12)]
    assert members(epoch_of(Batches(corpus_of(lengths), 12, seed=1), 2)) == [
        [11],
        [8, 5, 2],
        [7, 10, 1, 4],
        [6, 0, 3, 9],
    ]


# ---- iterating and resuming ----------------------------------------------------------------------


@pytest.mark.heavy
@settings(deadline=None)  # the machine may be busy
@given(LENGTHS, st.integers(0, 40), st.integers(0, 3), st.booleans())
def test_resuming_equals_never_having_stopped(lengths, stop, seed, shuffle):
    corpus = corpus_of(lengths)
    uninterrupted = Batches(corpus, 20, seed, shuffle=shuffle)
    expected = list(itertools.islice(uninterrupted, stop + 20))
    stopped = Batches(corpus, 20, seed, shuffle=shuffle)
    before = list(itertools.islice(stopped, stop))
    resumed = Batches(corpus_of(lengths), 20, seed, shuffle=shuffle)
    resumed.restore(json.loads(json.dumps(stopped.state())))
    after = list(itertools.islice(resumed, 20))
    assert all_same(before + after, expected)
    assert resumed.state() == uninterrupted.state()


def test_looking_does_not_move():
    batches = Batches(typical(300), 512)
    next(batches)
    state = batches.state()
    list(batches.one_epoch()), batches.batch(7, 0), batches.part(3, 1, 0, 2)
    assert batches.state() == state


def test_no_batch_outside_an_epoch():
    batches = Batches(typical(300), 512)
    for epoch, position in ((0, batches.per_epoch), (0, -1), (-1, 0)):
        with pytest.raises(IndexError, match=f"batch {position} of epoch {epoch}: an epoch has {batches.per_epoch}"):
            batches.batch(epoch, position)


@pytest.mark.parametrize(
    ("other", "name"),
    [
        (lambda: Batches(typical(301), 512, 1), "corpus"),
        (lambda: Batches(typical(300), 513, 1), "max_tokens_per_batch"),
        (lambda: Batches(typical(300), 512, 2), "seed"),
        (lambda: Batches(typical(300), 512, 1, shuffle=False), "shuffle"),
    ],
)
def test_a_place_in_other_batches_is_refused(other, name):
    with pytest.raises(UserError, match=f"cannot resume: the checkpoint counts batches of {name}="):
        other().restore(Batches(typical(300), 512, 1).state())


@pytest.mark.parametrize(
    "harm", [{"position": 10**6}, {"position": -1}, {"epoch": -1}, {"epoch": None}, {"position": 1.0}]
)
def test_a_damaged_place_is_refused(harm):
    batches = Batches(typical(300), 512)
    with pytest.raises(UserError, match="the checkpoint is damaged"):
        batches.restore({**batches.state(), **harm})
    assert (batches.epoch, batches.position) == (0, 0)
    with pytest.raises(UserError, match="cannot resume"):
        batches.restore({})


def test_arguments_that_cannot_work():
    corpus = corpus_of([(3, 3), (9, 2), (2, 12)])
    assert Batches(corpus, 13).per_epoch == 3
    with pytest.raises(
        UserError, match=r"max_tokens_per_batch=9 is too small for 2 of 3 pairs, the longest .* 13 tokens"
    ):
        Batches(corpus, 9)
    with pytest.raises(UserError, match="max_tokens_per_batch=0 is too small for 3 of 3"):
        Batches(corpus, 0)
    assert Batches(corpus, 10**12).per_epoch == 1  # nothing is allocated for a budget no corpus fills


# ---- parts of a batch ----------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 3, 7, 40])
def test_the_parts_of_a_batch_are_its_rows_in_order(parts):
    """As wide as the whole, so that a position is the same place in both; some are empty where rows are few."""
    batches = Batches(typical(300), 512, seed=1)
    for position in range(0, batches.per_epoch, 3):
        whole = batches.batch(2, position)
        pieces = [batches.part(2, position, part, parts) for part in range(parts)]
        found = [piece for piece in pieces if piece is not None]
        assert len(found) == min(parts, len(whole.indices))
        sizes = [0 if piece is None else len(piece.indices) for piece in pieces]
        assert max(sizes) - min(sizes) <= 1
        assert [piece.first_row for piece in found] == [sum(sizes[:i]) for i in range(parts) if sizes[i]]
        for name in ("indices", "source", "target_in", "target_out"):
            np.testing.assert_array_equal(
                np.concatenate([getattr(piece, name) for piece in found]), getattr(whole, name)
            )
        assert sum(piece.target_tokens for piece in found) == whole.target_tokens
        assert sum(piece.padded_tokens for piece in found) == whole.padded_tokens


def test_an_epoch_is_shared_out_by_whole_batches():
    batches = Batches(typical(300), 256, shuffle=False)
    shares = [list(batches.one_epoch(first, 3)) for first in range(3)]
    every = list(batches.one_epoch())
    assert all_same(every, [shares[i % 3][i // 3] for i in range(len(every))])
