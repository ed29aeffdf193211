"""Many sentences through one model: sorted by length, in batches, on all cores, and given back in order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

from autograd.backend import CPU
from minitf.config.special_tokens import EOS, PAD
from minitf.decoding.decoder import InferenceTransformer, padded_width
from minitf.decoding.search import Decoder

Result = TypeVar("Result")
Job = Callable[[Decoder, np.ndarray, Sequence[int]], Sequence[Result]]
"""(model, source [B, S], which sentences these are) -> a result for each of them"""

WORTH_A_THREAD = 8
"""Sentences below which a batch is not shared out: a product of fewer rows takes about as long."""


class BatchedModel:
    """A model that threads of a program take turns to use, and whose batches share the threads of the backend."""

    def __init__(self, model: Decoder):
        self.model = model
        self.lock = threading.Lock()

    def run(
        self,
        sentences: Sequence[Sequence[int]],
        job: Job[Result],
        *,
        max_tokens: int,
        max_sentences: int,
        done: Callable[[Sequence[int]], object],
    ) -> list[Result]:
        """The result of `job` for each sentence (token ids, without EOS), in order.

        The longest come first: what does not fit into memory shows at once. `done` hears which sentences are.
        """
        results: list[Any] = [None] * len(sentences)
        hear = threading.Lock()

        def work(model: Decoder, batch: list[int]) -> None:
            source = pad([[*sentences[i], EOS] for i in batch])  # [B, S]
            for i, result in zip(batch, job(model, source, batch), strict=True):
                results[i] = result
            with hear:
                done(batch)

        threads = self._threads()
        if threads > 1:
            max_sentences = min(max_sentences, max(WORTH_A_THREAD, -(-len(sentences) // threads)))
        same_width = padded_width if self._same_bits() else None
        batches = list(batches_by_length([len(ids) + 1 for ids in sentences], max_tokens, max_sentences, same_width))
        with self.lock:
            if min(threads, len(batches)) <= 1:
                for batch in batches:
                    work(self.model, batch)
            else:
                self._share_out(work, batches, min(threads, len(batches)))
        return results

    def _same_bits(self) -> bool:
        return isinstance(self.model, InferenceTransformer) and self.model.rows_at_a_time is not None

    def _threads(self) -> int:
        """Batches computed at once: of our own models, which hold nothing that a batch changes."""
        return (CPU.threads or 1) if isinstance(self.model, InferenceTransformer) else 1

    def _share_out(self, work: Callable[[Decoder, list[int]], None], batches: list[list[int]], threads: int) -> None:
        """Each thread takes the next batch when it is done with one; an error or interrupt stops all within a step."""
        queue = iter(batches)
        stopped = threading.Event()
        model = _Stoppable(self.model, stopped)

        def run() -> None:
            try:
                with CPU.in_one_thread():
                    for batch in queue:
                        work(model, batch)
            except _StoppedError:
                pass
            except BaseException:
                stopped.set()
                raise

        with ThreadPoolExecutor(threads - 1, "minitf") as pool:
            others = [pool.submit(run) for _ in range(threads - 1)]
            try:
                run()
                wait(others)
            except BaseException:
                stopped.set()
                raise
        for other in others:
            other.result()


class _StoppedError(Exception):
    """Another thread has failed, or the program was interrupted."""


class _Stoppable:
    """A model that ends a search, at its next step, once another thread has failed."""

    def __init__(self, model: Decoder, stopped: threading.Event):
        self.model, self.stopped = model, stopped
        self.start_decoding = model.start_decoding

    def decode_step(self, tokens: np.ndarray, state: Any) -> np.ndarray:
        if self.stopped.is_set():
            raise _StoppedError
        return self.model.decode_step(tokens, state)


def batches_by_length(
    lengths: Sequence[int], max_tokens: int, max_sentences: int, kind: Callable[[int], int] | None = None
) -> Iterator[list[int]]:
    """The places of sentences, longest first, in lists of at most max_tokens with padding; at least one in each.

    kind: of a length; sentences of different kinds are not put together
    """
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    begin = 0
    while begin < len(order):
        longest = lengths[order[begin]]
        batch = order[begin : begin + max(1, min(max_tokens // longest, max_sentences))]
        if kind is not None:
            batch = [i for i in batch if kind(lengths[i]) == kind(longest)]
        yield batch
        begin += len(batch)


def pad(sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """-> [B, S], filled up with PAD"""
    padded = np.full((len(sentences), max(map(len, sentences))), PAD, dtype=np.int64)
    for row, sentence in zip(padded, sentences, strict=True):
        row[: len(sentence)] = sentence
    return padded
