"""Batches of sentences of similar length, up to a number of tokens a side (section 5.1).

"Sentence pairs were batched together by approximate sequence length. Each training batch contained a set of sentence
pairs containing approximately 25000 source tokens and 25000 target tokens." Here `max_tokens_per_batch` bounds the
padded slots of each side, B·S and B·T, since those are what a step's memory and time depend on.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.random import PCG64, SeedSequence  # NumPy itself imports them when they are first used

from minitf.config.special_tokens import BOS, EOS, PAD
from minitf.data.prepared import PreparedCorpus
from minitf.errors import UserError

Ids = Sequence[int] | np.ndarray
EndToEnd = tuple[np.ndarray, np.ndarray]  # ids of all sentences [tokens], length of each [B]

# How far two pairs' differences of length may be apart and still change places between epochs. With 0, two Multi30k
# pairs that share a batch share the next epoch's as well 60 % of the time, at a fill of 97 % (4,096 tokens); with 2,
# 28 % at 95 %; without sorting by the difference at all, 18 % at 93 %.
JITTER = 2


@dataclass(frozen=True, eq=False)
class Batch:
    """Pairs of sentences as rectangles of token ids, short rows filled up with PAD.

    The decoder reads `target_in` and is to predict `target_out`, the same tokens one position later.
    """

    indices: np.ndarray  # [B] int64, which pairs of the corpus these are
    source: np.ndarray  # [B, S] int32, source then EOS
    target_in: np.ndarray  # [B, T] int32, BOS then target
    target_out: np.ndarray  # [B, T] int32, target then EOS
    first_row: int = 0  # which row of a whole batch row 0 is, where this is a part of one
    number: int = 0  # of the batch in its update

    @property
    def source_tokens(self) -> int:
        """Source tokens, EOS included and padding not."""
        return int(np.count_nonzero(self.source != PAD))

    @property
    def target_tokens(self) -> int:
        """Predicted tokens, EOS included and padding not: what a loss is averaged over."""
        return int(np.count_nonzero(self.target_out != PAD))

    @property
    def padded_tokens(self) -> int:
        """Slots of both sides, padding included: B·S + B·T."""
        return self.source.size + self.target_out.size

    @property
    def fill(self) -> float:
        """Share of the slots that hold a token."""
        return (self.source_tokens + self.target_tokens) / self.padded_tokens


@overload
def collate(sources: Sequence[Ids]) -> np.ndarray: ...
@overload
def collate(sources: Sequence[Ids], targets: Sequence[Ids], indices: np.ndarray | None = None) -> Batch: ...
def collate(
    sources: Sequence[Ids], targets: Sequence[Ids] | None = None, indices: np.ndarray | None = None
) -> np.ndarray | Batch:
    """Pads sentences given as ids without special tokens: to a Batch, or without targets to the source array alone.

    Training and translation both pad here, so a sentence looks the same to the model in either.

    Shapes: sources B × [s], targets B × [t] -> source [B, S = max s + 1], target_in and target_out [B, T = max t + 1]
    """
    if targets is None:
        ids, lengths = _end_to_end(sources)
        return _padded(ids, lengths, int(lengths.max()), last=EOS)
    if len(sources) != len(targets):
        raise ValueError(f"{len(sources)} sources do not pair with {len(targets)} targets")
    indices = np.arange(len(sources)) if indices is None else indices
    return _paired(indices, _end_to_end(sources), _end_to_end(targets))


def _paired(
    indices: np.ndarray,
    sources: EndToEnd,
    targets: EndToEnd,
    longest: tuple[int, int] | None = None,
    first_row: int = 0,
) -> Batch:
    source_length, target_length = longest or (int(sources[1].max()), int(targets[1].max()))
    return Batch(
        indices,
        source=_padded(*sources, source_length, last=EOS),
        target_in=_padded(*targets, target_length, first=BOS),
        target_out=_padded(*targets, target_length, last=EOS),
        first_row=first_row,
    )


def _end_to_end(sentences: Sequence[Ids]) -> EndToEnd:
    if not len(sentences):
        raise ValueError("a batch needs at least one sentence")
    lengths = np.fromiter(map(len, sentences), np.intp, len(sentences))
    return np.concatenate(sentences, dtype=np.int32, casting="unsafe"), lengths


def _padded(
    ids: np.ndarray, lengths: np.ndarray, longest: int, *, first: int | None = None, last: int | None = None
) -> np.ndarray:
    """[B, longest + 1] int32: each sentence after `first` or before `last`, then PAD."""
    rows = np.full((len(lengths), longest + 1), PAD, np.int32)
    if first is None:
        body = rows[:, :-1]
    else:
        rows[:, 0] = first
        body = rows[:, 1:]
    # A mask selects in row order, which is the order of the sentences laid end to end: no loop over rows.
    body[np.arange(body.shape[1]) < lengths[:, None]] = ids
    if last is not None:
        rows[np.arange(len(rows)), lengths] = last
    return rows


class Batches:
    """Batches of a corpus for ever: each epoch holds every pair exactly once, in an order of its own.

    for batch in batches:            # never ends
        ...                          # batches.epoch, batches.position: where the *next* batch stands

    An epoch is cut from the pairs in order of length: first of the longer side, which is what fills the budget, then of
    the difference between the sides, ascending and descending in turns so that neighbours stay alike across the seams.
    With `shuffle`, the difference is blurred a little (see JITTER), ties fall at random, and the batches come in random
    order. All of it depends on (seed, epoch) alone, so that (epoch, position) is all there is to resume from, and every
    process of several can work out which batches are its own.

    Memory: lengths and one epoch's order, some 30 bytes a pair; the ids stay where the corpus has them.
    """

    def __init__(self, corpus: PreparedCorpus, max_tokens_per_batch: int, seed: int = 0, *, shuffle: bool = True):
        """
        Units: max_tokens_per_batch in padded slots of one side, BOS or EOS included.
        Raises: UserError when a pair alone exceeds the budget: a batch over budget is memory nobody planned for.
        """
        if seed < 0:
            raise UserError(f"seed={seed} is negative; choose 0 or more")
        self.corpus = corpus
        self.max_tokens_per_batch = max_tokens_per_batch
        self.seed = seed
        self.shuffle = shuffle
        self.epoch = 0
        self.position = 0
        self._widths = np.maximum(corpus.source_lengths, corpus.target_lengths) + 1  # [pairs], + 1: BOS or EOS
        self._check_budget()
        # The order within one width changes from epoch to epoch, widths in order do not: nor do the cuts.
        self._bounds = _cut(np.sort(self._widths), max_tokens_per_batch)
        self._order_of: tuple[int | None, np.ndarray, np.ndarray] | None = None

    @property
    def per_epoch(self) -> int:
        """Batches in an epoch, the same in each."""
        return len(self._bounds) - 1

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Batch:
        return self.batch(*self.next_place())

    def next_place(self) -> tuple[int, int]:
        """(epoch, position) of the next batch, which the iteration passes over: for those who want a part of it."""
        place = self.epoch, self.position
        self.position += 1
        if self.position == self.per_epoch:
            self.epoch, self.position = self.epoch + 1, 0
        return place

    def batch(self, epoch: int, position: int) -> Batch:
        """Batch number `position` of an epoch, both counted from 0; does not move the iteration."""
        batch = self.part(epoch, position, 0, 1)
        assert batch is not None  # a whole batch has a row
        return batch

    def part(self, epoch: int, position: int, part: int, parts: int) -> Batch | None:
        """One of `parts` nearly equal runs of rows of a batch, as wide as the whole batch; None where it has no row."""
        if epoch < 0 or not 0 <= position < self.per_epoch:
            raise IndexError(
                f"batch {position} of epoch {epoch}: an epoch has {self.per_epoch} batches, counted from 0"
            )
        return self._part(epoch if self.shuffle else None, position, part, parts)

    def iterate(self, epoch: int, start: int = 0) -> Iterator[Batch]:
        """The batches of one epoch from `start` to its end; does not move the iteration."""
        for position in range(start, self.per_epoch):
            yield self.batch(epoch, position)

    def one_epoch(self, first: int = 0, stride: int = 1) -> Iterator[Batch]:
        """Every pair once in an order that never changes, short sentences first: for validation.

        Of its batches, number `first` and every `stride`-th from there.
        """
        for position in range(first, self.per_epoch, stride):
            batch = self._part(None, position, 0, 1)
            assert batch is not None  # a whole batch has a row
            yield batch

    def state(self) -> dict[str, Any]:
        """Where the next batch stands, and what that position is a position in; plain values, fit for JSON."""
        return {"epoch": self.epoch, "position": self.position, **self._identity()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continues from `state()`: the batches that follow are those that would have followed then, bit for bit.

        Raises: UserError when the state was taken over other data or settings, whose batches are not these.
        """
        for name, ours in self._identity().items():
            if state.get(name) != ours:
                raise UserError(
                    f"cannot resume: the checkpoint counts batches of {name}={state.get(name)}, these are of "
                    f"{name}={ours}; resume with the same data and settings, or start a new run from its weights"
                )
        epoch, position = state.get("epoch"), state.get("position")
        if not (isinstance(epoch, int) and isinstance(position, int) and epoch >= 0 and 0 <= position < self.per_epoch):
            raise UserError(
                f"cannot resume at batch {position} of epoch {epoch}: an epoch has {self.per_epoch} batches; "
                "the checkpoint is damaged, use an earlier one"
            )
        self.epoch, self.position = epoch, position

    def _identity(self) -> dict[str, Any]:
        return {
            "corpus": self.corpus.fingerprint,
            "max_tokens_per_batch": self.max_tokens_per_batch,
            "seed": self.seed,
            "shuffle": self.shuffle,
        }

    def _check_budget(self) -> None:
        if not len(self._widths):
            raise UserError("the corpus has no pairs; there is nothing to make batches of")
        longest = int(self._widths.max())
        if longest > self.max_tokens_per_batch:
            over = int(np.count_nonzero(self._widths > self.max_tokens_per_batch))
            raise UserError(
                f"max_tokens_per_batch={self.max_tokens_per_batch} has no room for {over:,} of {len(self._widths):,} "
                f"pairs, the longest of which takes {longest} tokens a side; raise it, or lower max_length"
            )

    def _part(self, epoch: int | None, position: int, part: int, parts: int) -> Batch | None:
        pairs, turns = self._order(epoch)
        turn = turns[position]
        indices = pairs[self._bounds[turn] : self._bounds[turn + 1]]
        first, stop = len(indices) * part // parts, len(indices) * (part + 1) // parts
        if first == stop:
            return None
        width = int(self.corpus.source_lengths[indices].max()), int(self.corpus.target_lengths[indices].max())
        rows = indices[first:stop]
        return _paired(rows, self.corpus.sources(rows), self.corpus.targets(rows), width, first)

    def _order(self, epoch: int | None) -> tuple[np.ndarray, np.ndarray]:
        """(pairs in order of length, batches in order of appearance) of an epoch; None is the order never shuffled."""
        if self._order_of is None or self._order_of[0] != epoch:
            self._order_of = (epoch, *self._new_order(epoch))
        return self._order_of[1:]

    def _new_order(self, epoch: int | None) -> tuple[np.ndarray, np.ndarray]:
        difference = self.corpus.target_lengths - self.corpus.source_lengths  # [pairs]
        if epoch is None:
            return _by_length(self._widths, difference, np.arange(len(difference))), np.arange(self.per_epoch)
        # Raw bits of the generator, unlike its distributions, are promised to stay the same in later NumPy releases.
        bits = PCG64(SeedSequence((self.seed, epoch)))
        ties = bits.random_raw(len(difference))  # [pairs] uint64
        blurred = difference + (ties % (2 * JITTER + 1)).astype(np.int32) - JITTER
        turns = np.argsort(bits.random_raw(self.per_epoch), kind="stable")
        return _by_length(self._widths, blurred, ties), turns


def _by_length(widths: np.ndarray, difference: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """[pairs] int64: sorted by width, within it by difference (downwards where the width is odd), then by `ties`."""
    return np.lexsort((ties, np.where(widths % 2, -difference, difference), widths))


def _cut(widths: np.ndarray, budget: int) -> np.ndarray:
    """[batches + 1]: batch b is pairs bounds[b] : bounds[b + 1], each as many as fit; `widths` ascend."""
    sizes = np.arange(1, min(budget, len(widths)) + 1)
    bounds = [0]
    while bounds[-1] < len(widths):
        start = bounds[-1]
        window = widths[start : start + budget // int(widths[start])].astype(np.int64)
        # Widths ascend, so the n-th sentence of the window is the widest of n: its slots are n times its width.
        bounds.append(start + int(np.count_nonzero(window * sizes[: len(window)] <= budget)))
    return np.array(bounds)
