"""Batches of sentences, shared out among the threads of a CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from autograd.fast import cpu_kernels
from autograd.fast.shared import blocks_of

Work = Callable[[Any, list[int]], None]
"""Compute the results of a batch, given by the indices of its sentences, with a decoder."""
Batches = Callable[..., Iterator[list[int]]]
"""(lengths, most tokens, most sentences, group) -> batches of sentences whose lengths have one value of `group`"""

WORTH_A_THREAD = 8
"""Sentences below which a batch is not divided among threads: a product of fewer rows takes about as long."""
WORTH_SHARING = {"numpy": 50_000_000, "numba": 20_000_000}
"""Multiplications of a batch in a step, by the CPU's kernels, below which batches are not shared out: threads whose
calls take a few microseconds wait for one another's turn with the interpreter, and two are slower than one."""
IN_CACHE = 4_000_000
"""Weights of a step that stay in the cache, so that the compiled search takes as long for a sentence in any batch: the
last batches are divided, for all threads to end at about the same time."""

WIDTH_STEP = 8
"""The number to a multiple of which `same_bits` pads sources; those of one width are computed alike."""


def padded_width(length: int) -> int:
    """Return the width to which a source of `length` tokens is padded."""
    return -(-length // WIDTH_STEP) * WIDTH_STEP


def share_out(
    decoder: Any,
    work: Work,
    batches_by_length: Batches,
    lengths: Sequence[int],
    max_tokens: int,
    max_sentences: int,
    rows: int,
) -> None:
    """Call `work` for batches of all sentences, in several threads where the batches are large.

    decoder: an `InferenceTransformer`, or an ensemble of these
    rows: hypotheses of a sentence that a step computes at once
    """
    shared = min(max_sentences, max(WORTH_A_THREAD, -(-len(lengths) // (cpu_kernels().threads or 1))))
    threads = _threads(decoder, shared * rows)
    if threads > 1:
        max_sentences = shared
    group = padded_width if decoder.same_bits else None
    batches = list(batches_by_length(lengths, max_tokens, max_sentences, group))
    if threads > 1 and getattr(decoder, "compiled_search", None) is not None and decoder.weights_of_a_step <= IN_CACHE:
        batches[-threads:] = [each[s] for each in batches[-threads:] for s in blocks_of(len(each), WORTH_A_THREAD)]
    if min(threads, len(batches)) > 1:
        _in_threads(decoder, work, batches, min(threads, len(batches)))
        return
    for batch in batches:
        work(decoder, batch)


def _threads(decoder: Any, rows: int) -> int:
    """Return the number of batches of `rows` hypotheses to compute at once: several large ones on a CPU."""
    kernels = cpu_kernels()
    if decoder.backend is not kernels:
        return 1
    if getattr(decoder, "compiled_search", None) is not None:
        return kernels.threads or 1
    return (kernels.threads or 1) if rows * decoder.weights_of_a_step >= WORTH_SHARING[kernels.kernels] else 1


def _in_threads(whole: Any, work: Work, batches: list[list[int]], threads: int) -> None:
    """Let each thread take one batch after the other; an error or interrupt stops all threads within a step."""
    queue = iter(batches)
    stopped = threading.Event()
    decoder = _Stoppable(whole, stopped)

    def run() -> None:
        try:
            with cpu_kernels().in_one_thread():
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

    def __init__(self, decoder: Any, stopped: threading.Event):
        self.decoder, self.stopped = decoder, stopped
        self.start_decoding = decoder.start_decoding

    def search(self, *arguments: Any) -> Any:
        if self.stopped.is_set():
            raise _StoppedError
        return self.decoder.search(*arguments) if hasattr(self.decoder, "search") else None

    def decode_step(self, tokens: np.ndarray, state: Any) -> np.ndarray:
        if self.stopped.is_set():
            raise _StoppedError
        return self.decoder.decode_step(tokens, state)
