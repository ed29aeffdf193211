"""The interface between search and model, and the Transformer's decoder, position by position.

The fast decoder, with the same methods, is minitf/fast/inference.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograd import Tensor, no_grad
from autograd.backend import Backend
from minitf.model.cache import Cache
from minitf.model.transformer import Transformer, padding_mask

Array = Any
IncrementalDecoder = Any
"""A `TransformerDecoder`, or another object whose `start_decoding` and `decode_step` do the same."""


class TransformerDecoder:
    """A Transformer that search asks for one position after the other; dropout is off."""

    def __init__(self, model: Transformer):
        self.model = model

    @property
    def backend(self) -> Backend:
        """The backend of the model's device."""
        return self.model.backend

    @property
    def source_eos(self) -> bool:
        """Whether sources end with EOS."""
        return self.model.config.source_eos

    @property
    def masked_tokens(self) -> set[int]:
        """Tokens that the model never produces."""
        return {*self.model.config.masked_tokens}

    def start_decoding(self, source: Array) -> DecodingState:
        """Encode `source`, and project the keys and values of it once for all steps.

        Shapes: source int [B, S], padded with PAD -> a state of B rows
        """
        source = self.backend.asarray(source)
        with _inference(self.model):
            memory = self.model.encode(source)
            caches = [layer.new_cache(memory) for layer in self.model.decoder.layers]
        return DecodingState(self.backend, memory, padding_mask(source), caches)

    def decode_step(self, tokens: Array, state: DecodingState) -> Array:
        """Logits of the token that follows `tokens`, the newest of each row.  Shapes: tokens int [R] -> [R, V]"""
        with _inference(self.model):
            newest = state.backend.asarray(tokens)[:, None]  # [R, 1]
            hidden = self.model.decode(newest, state.memory, state.memory_mask, state.caches)  # [R, 1, D]
            return self.model.logits(hidden).data[:, 0]


@dataclass
class DecodingState:
    """The source and the keys and values of all layers for each row."""

    backend: Backend
    memory: Tensor
    memory_mask: Array
    caches: Sequence[Cache]

    def reorder(self, rows: np.ndarray) -> None:
        """Make row i what row rows[i] was."""
        rows = self.backend.asarray(rows)
        with no_grad():
            self.memory, self.memory_mask = self.memory[rows], self.memory_mask[rows]
            for cache in self.caches:
                cache.reorder(rows)


@contextmanager
def _inference(model: Transformer) -> Iterator[None]:
    """Context manager: nothing is recorded, and dropout is off."""
    was_training = model.training
    if was_training:
        model.eval()
    try:
        with no_grad():
            yield
    finally:
        if was_training:
            model.train()
