"""Batches of given sentences, and whole epochs."""

import numpy as np

from minitf.data.batches import Batch, Batches, pad
from minitf.data.prepared import PreparedCorpus


def batch_of(sources, targets, indices=None) -> Batch:
    """A batch of sentence pairs given as lists of token ids, in this order."""
    corpus = PreparedCorpus.from_ids(sources, targets)
    return Batch(
        np.arange(len(corpus)) if indices is None else indices,
        source=pad(corpus.source),
        target_in=pad(corpus.target, bos=True),
        target_out=pad(corpus.target),
    )


def epoch_of(batches: Batches, epoch: int, start: int = 0) -> list[Batch]:
    """The batches of one epoch from position `start` on."""
    return [batches.batch(epoch, position) for position in range(start, batches.per_epoch)]
