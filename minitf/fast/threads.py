"""Batches of sentences on several threads of a CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from autograd.fast import in_one_thread

Work = Callable[[Any, list[int]], None]
"""Compute the results of a batch, given by the indices of its sentences, with a decoder."""


def in_threads(whole: Any, work: Work, batches: list[list[int]], threads: int) -> None:
    """Let each thread take one batch after the other; an error or interrupt stops all threads within a step."""
    queue = iter(batches)
    stopped = threading.Event()
    decoder = _Stoppable(whole, stopped)

    def run() -> None:
        try:
            with in_one_thread():
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
        self.start_decoding, self.top_tokens = decoder.start_decoding, decoder.top_tokens

    def search(self, *arguments: Any) -> Any:
        if self.stopped.is_set():
            raise _StoppedError
        return self.decoder.search(*arguments) if hasattr(self.decoder, "search") else None

    def decode_step(self, tokens: np.ndarray, state: Any) -> np.ndarray:
        if self.stopped.is_set():
            raise _StoppedError
        return self.decoder.decode_step(tokens, state)
