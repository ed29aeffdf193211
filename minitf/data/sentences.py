"""Sentences of different lengths in one array, and padded to a rectangle."""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from minitf.config.model import BOS, EOS, PAD


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
