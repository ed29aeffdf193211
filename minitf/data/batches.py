"""Sentences in one array, and batches of those of similar length, up to a number of tokens per side (section 5.1).

"Sentence pairs were batched together by approximate sequence length. Each training batch contained a set of sentence
pairs containing approximately 25000 source tokens and 25000 target tokens." Here `max_tokens_per_batch` bounds the
padded slots of each side, B·S and B·T, since those are what a step's memory and time depend on.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.random import PCG64, SeedSequence  # NumPy itself imports them when they are first used

from minitf.config.model import BOS, EOS, PAD
from minitf.errors import UserError

__all__ = ["Batch", "Batches"]

# How far apart the differences of length of two pairs may be for the pairs to trade places between epochs. With 0, two
# Multi30k pairs that share a batch also share one in the next epoch 60 % of the time, at a fill of 97 % (4,096 tokens);
# with 2, 28 % at 95 %; without sorting by the difference at all, 18 % at 93 %.
JITTER = 2


@dataclass(frozen=True, eq=False)
class Sentences:
    """Sentences as token ids, end to end in one array."""

    ids: np.ndarray  # [tokens]
    offsets: np.ndarray  # [sentences + 1] int64: sentence i is ids[offsets[i] : offsets[i + 1]]

    @classmethod
    def from_lists(cls, sentences: Sequence[Sequence[int]]) -> "Sentences":
        """Join sentences that are given one by one."""
        offsets = np.zeros(len(sentences) + 1, "<i8")
        np.cumsum([len(sentence) for sentence in sentences], out=offsets[1:])
        return cls(np.fromiter(itertools.chain.from_iterable(sentences), "<i4"), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> np.ndarray:
        """The ids of a sentence, a view."""
        if not 0 <= index < len(self):
            raise IndexError(f"sentence {index} of {len(self):,}, counted from 0")
        return self.ids[self.offsets[index] : self.offsets[index + 1]]

    def take(self, indices: np.ndarray) -> "Sentences":
        """Gather the sentences with these indices, in this order."""
        starts = self.offsets[indices]  # [B]
        ends = np.cumsum(self.offsets[indices + 1] - starts)  # [B]
        offsets = np.concatenate([[0], ends])  # [B + 1]
        # Token k of the result is ids[k + (its sentence's start here - its sentence's start in the result)].
        shifts = np.repeat(starts - offsets[:-1], np.diff(offsets))  # [tokens]
        return Sentences(self.ids[shifts + np.arange(offsets[-1])], offsets)

    @cached_property
    def lengths(self) -> np.ndarray:
        """[sentences] int32, without BOS and EOS."""
        return np.diff(self.offsets).astype(np.int32)


@dataclass(frozen=True, eq=False)
class Corpus:
    """A parallel corpus as token ids, without BOS and EOS."""

    source: Sentences
    target: Sentences
    fingerprint: str = ""  # equal for equal text, vocabulary and settings


@dataclass(frozen=True, eq=False)
class Batch:
    """A batch of sentence pairs: token ids, padded to rectangles with PAD.

    The decoder reads `target_in` and predicts `target_out`, the same tokens one position later.
    """

    indices: np.ndarray  # [B] int64, of the pairs in the corpus
    source: np.ndarray  # [B, S] int32, source then EOS, which some models leave out
    target_in: np.ndarray  # [B, T] int32, BOS then target
    target_out: np.ndarray  # [B, T] int32, target then EOS
    first_row: int = 0  # index of row 0 in the whole batch, if this is a part of one
    number: int = 0  # of the batch in its update

    @property
    def source_tokens(self) -> int:
        """Number of source tokens, with EOS if they end with it, without padding."""
        return int(np.count_nonzero(self.source != PAD))

    @property
    def target_tokens(self) -> int:
        """Number of predicted tokens, with EOS, without padding: the loss is averaged over these."""
        return int(np.count_nonzero(self.target_out != PAD))

    @property
    def padded_tokens(self) -> int:
        """Number of tokens of both sides with padding: B·S + B·T."""
        return self.source.size + self.target_out.size


class Batches:
    """Endless iterator over the batches of a corpus: each epoch holds every pair exactly once, in an order of its own.

    for batch in batches:            # never ends
        ...                          # batches.epoch, batches.position: the place of the *next* batch

    An epoch is cut from the pairs in order of length: first of the longer side, which is what fills the budget, then of
    the difference between the sides, alternately ascending and descending so that neighbours remain similar where the
    length changes. With `shuffle`, the difference is blurred a little (see JITTER), ties are broken at random, and the
    batches come in random order. The order depends on (seed, epoch) alone: (epoch, position) is enough to resume, and
    every rank can compute which batches are its own.

    Memory: lengths and one epoch's order, some 30 bytes per pair; the ids remain in the corpus.
    """

    def __init__(
        self,
        corpus: Corpus,
        max_tokens_per_batch: int,
        seed: int = 0,
        *,
        shuffle: bool = True,
        source_eos: bool = True,
    ):
        """
        max_tokens_per_batch: padded slots of one side, BOS or EOS included; source_eos: end each source with EOS
        Raises: UserError when a single pair exceeds the budget.
        """
        self.corpus = corpus
        self.max_tokens_per_batch = max_tokens_per_batch
        self.seed = seed
        self.shuffle = shuffle
        self.source_eos = source_eos
        self.epoch = self.position = 0
        self._widths = np.maximum(corpus.source.lengths, corpus.target.lengths) + 1  # [pairs], + 1: BOS or EOS
        longest = int(self._widths.max())
        if longest > max_tokens_per_batch:
            over = int(np.count_nonzero(self._widths > max_tokens_per_batch))
            raise UserError(
                f"max_tokens_per_batch={max_tokens_per_batch} is too small for {over:,} of {len(self._widths):,} "
                f"pairs, the longest of which takes {longest} tokens per side; raise it, or lower max_length"
            )
        # Epochs differ in the order of pairs of equal width only, so that the cuts are the same in each.
        self._bounds = _cut(np.sort(self._widths), max_tokens_per_batch)
        self._order_of: tuple[int | None, np.ndarray, np.ndarray] | None = None

    @property
    def per_epoch(self) -> int:
        """Number of batches in an epoch."""
        return len(self._bounds) - 1

    def __iter__(self) -> "Batches":
        return self

    def __next__(self) -> Batch:
        return self.batch(*self.next_place())

    def next_place(self) -> tuple[int, int]:
        """Skip the next batch and return its (epoch, position), for `part`."""
        place = self.epoch, self.position
        self.position += 1
        if self.position == self.per_epoch:
            self.epoch, self.position = self.epoch + 1, 0
        return place

    def batch(self, epoch: int, position: int) -> Batch:
        """Batch number `position` of an epoch, both counted from 0; the iterator does not move."""
        return cast(Batch, self.part(epoch, position, 0, 1))  # a whole batch has a row

    def part(self, epoch: int | None, position: int, part: int, parts: int) -> Batch | None:
        """One of `parts` nearly equal slices of a batch, padded to the whole batch's width; None if it has no row.

        epoch: None for the order without shuffling
        """
        if (epoch or 0) < 0 or not 0 <= position < self.per_epoch:
            raise IndexError(
                f"batch {position} of epoch {epoch}: an epoch has {self.per_epoch} batches, counted from 0"
            )
        epoch = epoch if self.shuffle else None
        if self._order_of is None or self._order_of[0] != epoch:
            self._order_of = (epoch, *self._new_order(epoch))
        _, pairs, turns = self._order_of
        turn = turns[position]
        indices = pairs[self._bounds[turn] : self._bounds[turn + 1]]
        start, stop = len(indices) * part // parts, len(indices) * (part + 1) // parts
        if start == stop:
            return None
        source, target = self.corpus.source, self.corpus.target
        rows = indices[start:stop]
        sources, targets = source.take(rows), target.take(rows)
        longest_source, longest_target = int(source.lengths[indices].max()), int(target.lengths[indices].max())
        return Batch(
            rows,
            source=pad(sources, longest_source, eos=self.source_eos),
            target_in=pad(targets, longest_target, bos=True),
            target_out=pad(targets, longest_target),
            first_row=start,
        )

    def one_epoch(self, first: int = 0, stride: int = 1) -> Iterator[Batch]:
        """Iterate over every pair once, in the same order each time, short sentences first: for validation.

        first, stride: yield only batch number `first` and every `stride`-th after it
        """
        for position in range(first, self.per_epoch, stride):
            yield cast(Batch, self.part(None, position, 0, 1))

    def state(self) -> dict[str, Any]:
        """The place of the next batch, and the data and settings it refers to, as values for JSON."""
        return {"epoch": self.epoch, "position": self.position, **self._identity()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state()`: the batches that follow are those that would have followed then, bit for bit.

        Raises: UserError when the state is of other data or settings.
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

    def _new_order(self, epoch: int | None) -> tuple[np.ndarray, np.ndarray]:
        """(pairs in order of length, batches in order of appearance) of an epoch; None: not shuffled."""
        difference = self.corpus.target.lengths - self.corpus.source.lengths  # [pairs]
        if epoch is None:
            return _by_length(self._widths, difference, np.arange(len(difference))), np.arange(self.per_epoch)
        # Raw bits of a generator, unlike its distributions, are guaranteed to be the same in later NumPy releases.
        bits = PCG64(SeedSequence((self.seed, epoch)))
        ties = bits.random_raw(len(difference))  # [pairs] uint64
        blurred = difference + (ties % (2 * JITTER + 1)).astype(np.int32) - JITTER
        turns = np.argsort(bits.random_raw(self.per_epoch), kind="stable")
        return _by_length(self._widths, blurred, ties), turns


def pad(sentences: Sentences, longest: int | None = None, *, bos: bool = False, eos: bool = True) -> np.ndarray:
    """Pad sentences to [B, longest + 1] int32: each followed by EOS, or with `bos` preceded by BOS.

    With neither, to [B, longest].
    """
    lengths = sentences.lengths
    longest = int(lengths.max()) if longest is None else longest
    rows = np.full((len(lengths), longest + (bos or eos)), PAD, np.int32)
    body = rows[:, 1:] if bos else rows[:, :longest]
    # A mask selects in row order, which is the order of the sentences laid end to end: no loop over rows.
    body[np.arange(longest) < lengths[:, None]] = sentences.ids
    if bos:
        rows[:, 0] = BOS
    elif eos:
        rows[np.arange(len(rows)), lengths] = EOS
    return rows


def _by_length(widths: np.ndarray, difference: np.ndarray, ties: np.ndarray) -> np.ndarray:
    """[pairs] int64: sorted by width, within it by difference (downwards where the width is odd), then by `ties`."""
    return np.lexsort((ties, np.where(widths % 2, -difference, difference), widths))


def _cut(widths: np.ndarray, budget: int) -> np.ndarray:
    """[batches + 1]: batch b is pairs bounds[b] : bounds[b + 1], as many as fit; `widths` ascend."""
    sizes = np.arange(1, min(budget, len(widths)) + 1)
    bounds = [0]
    while bounds[-1] < len(widths):
        start = bounds[-1]
        window = widths[start : start + budget // int(widths[start])].astype(np.int64)
        # Widths ascend, so the n-th sentence of the window is the widest of n: its slots are n times its width.
        bounds.append(start + int(np.count_nonzero(window * sizes[: len(window)] <= budget)))
    return np.array(bounds)
