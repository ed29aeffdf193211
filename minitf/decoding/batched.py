"""Decode many sentences: sorted by length, in batches, with results in the given order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from minitf.data.sentences import Sentences, pad
from minitf.decoding.decoder import IncrementalDecoder

Result = TypeVar("Result")
Job = Callable[[IncrementalDecoder, np.ndarray, Sequence[int]], Sequence[Result]]
"""(decoder, source [B, S], indices of the sentences) -> a result for each sentence"""


class BatchedModel:
    """A decoder that one thread of a program uses at a time."""

    def __init__(self, decoder: IncrementalDecoder, lock: threading.Lock | None = None):
        """lock: that of another batched model whose threads must wait for this one; default: a new one"""
        self.decoder = decoder
        self.lock = threading.Lock() if lock is None else lock

    def run(
        self,
        sentences: Sequence[Sequence[int]],
        job: Job[Result],
        *,
        max_tokens: int,
        max_sentences: int,
        done: Callable[[Sequence[int]], object],
        rows: int = 1,
        source_eos: bool = True,
    ) -> list[Result]:
        """The result of `job` for each sentence (token ids, without EOS), in order.

        rows: hypotheses of a sentence that a step computes at once
        source_eos: end each sentence with EOS

        The longest sentences come first, so that a batch too large for memory fails at once. `done` is called with the
        indices of finished sentences.
        """
        results: list[Any] = [None] * len(sentences)
        reporting = threading.Lock()

        def work(decoder: IncrementalDecoder, batch: list[int]) -> None:
            source = pad(Sentences.from_lists([sentences[i] for i in batch]), eos=source_eos)  # [B, S]
            for i, result in zip(batch, job(decoder, source, batch), strict=True):
                results[i] = result
            with reporting:
                done(batch)

        lengths = [len(ids) + source_eos for ids in sentences]
        with self.lock:
            if hasattr(self.decoder, "compute_batches"):  # a fast decoder, on all threads
                self.decoder.compute_batches(work, batches_by_length, lengths, max_tokens, max_sentences, rows)
            else:
                for batch in batches_by_length(lengths, max_tokens, max_sentences):
                    work(self.decoder, batch)
        return results


def batches_by_length(
    lengths: Sequence[int], max_tokens: int, max_sentences: int, group: Callable[[int], int] | None = None
) -> Iterator[list[int]]:
    """Indices of sentences, longest first, in batches of at most max_tokens with padding, or of one sentence.

    group: a batch has only lengths for which this is equal
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    begin = 0
    while begin < len(order):
        longest = lengths[order[begin]]
        batch = order[begin : begin + max(1, min(max_tokens // longest, max_sentences))]
        if group is not None:
            batch = [i for i in batch if group(lengths[i]) == group(longest)]
        yield batch
        begin += len(batch)
