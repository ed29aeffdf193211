"""Decode many sentences: sorted by length, in batches, on all threads, with results in the given order."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, TypeVar

import numpy as np

from autograd.backend import CPU
from minitf.data.sentences import Sentences, pad
from minitf.decoding.decoder import InferenceTransformer, padded_width
from minitf.decoding.ensemble import Ensemble
from minitf.decoding.state import IncrementalDecoder

Result = TypeVar("Result")
Job = Callable[[IncrementalDecoder, np.ndarray, Sequence[int]], Sequence[Result]]
"""(decoder, source [B, S], indices of the sentences) -> a result for each sentence"""

WORTH_A_THREAD = 8
"""Sentences below which a batch is not divided among threads: a product of fewer rows takes about as long."""
WORTH_SHARING = {"numpy": 50_000_000, "numba": 20_000_000, "loops": 4_000_000}
"""Multiplications of a batch in a step, by the CPU's kernels or the loops that compute whole layers, below which
batches are not shared out: threads whose calls take a few microseconds wait for one another's turn with the
interpreter, and two are slower than one."""


class BatchedModel:
    """A decoder that one thread of a program uses at a time, and whose batches share the threads of the backend."""

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

        shared = min(max_sentences, max(WORTH_A_THREAD, -(-len(sentences) // (CPU.threads or 1))))
        threads = self._threads(shared * rows)
        if threads > 1:
            max_sentences = shared
        same_bits = isinstance(self.decoder, InferenceTransformer | Ensemble) and self.decoder.same_bits
        lengths = [len(ids) + source_eos for ids in sentences]
        batches = list(batches_by_length(lengths, max_tokens, max_sentences, padded_width if same_bits else None))
        with self.lock:
            if min(threads, len(batches)) <= 1:
                for batch in batches:
                    work(self.decoder, batch)
            else:
                self._share_out(work, batches, min(threads, len(batches)))
        return results

    def _threads(self, rows: int) -> int:
        """How many batches of `rows` hypotheses to compute at once: several large ones on a CPU, by known decoders."""
        decoder = self.decoder
        if not isinstance(decoder, InferenceTransformer | Ensemble) or decoder.backend is not CPU:
            return 1
        computed_by = "loops" if CPU.runs_loops(rows, 1) else CPU.kernels
        return (CPU.threads or 1) if rows * decoder.weights_of_a_step >= WORTH_SHARING[computed_by] else 1

    def _share_out(
        self, work: Callable[[IncrementalDecoder, list[int]], None], batches: list[list[int]], threads: int
    ) -> None:
        """Let each thread take one batch after the other; an error or interrupt stops all threads within a step."""
        queue = iter(batches)
        stopped = threading.Event()
        decoder = _Stoppable(self.decoder, stopped)

        def run() -> None:
            try:
                with CPU.in_one_thread():
                    for batch in queue:
                        work(decoder, batch)
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
    """A decoder that ends a search, at its next step, once another thread has failed."""

    def __init__(self, decoder: IncrementalDecoder, stopped: threading.Event):
        self.decoder, self.stopped = decoder, stopped
        self.start_decoding = decoder.start_decoding

    def decode_step(self, tokens: np.ndarray, state: Any) -> np.ndarray:
        if self.stopped.is_set():
            raise _StoppedError
        return self.decoder.decode_step(tokens, state)


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
