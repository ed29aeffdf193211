"""The model, position by position, with what its layers keep.  `InferenceTransformer` of minitf/fast equals it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor, no_grad
from autograd.backend import Backend
from minitf.model.transformer import Transformer, padding_mask

Array = Any


@dataclass
class TensorCache:
    """Keys and values that a decoder layer has computed: of the source once, of the target position by position.

    Shapes: keys [B, H, S or T, K], values [B, H, S or T, d_v]
    """

    source: tuple[Tensor, Tensor]
    target: tuple[Tensor, Tensor] | None = None

    @property
    def length(self) -> int:
        """Target positions so far."""
        return 0 if self.target is None else self.target[0].shape[2]

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Add keys and values of the newest position; return those of all positions."""
        if self.target is not None:
            k, v = (ag.concatenate([old, new], axis=2) for old, new in zip(self.target, (k, v), strict=True))
        self.target = k, v
        return k, v

    def reorder(self, rows: Array) -> None:
        """Make row i what row rows[i] was."""
        keys, values = self.source
        self.source = keys[rows], values[rows]
        if self.target is not None:
            keys, values = self.target
            self.target = keys[rows], values[rows]


@dataclass
class DecodingState:
    """The source and the keys and values of all layers for each row."""

    backend: Backend
    memory: Tensor
    memory_mask: Array
    caches: Sequence[TensorCache]

    def reorder(self, rows: np.ndarray) -> None:
        """Make row i what row rows[i] was."""
        rows = self.backend.asarray(rows)
        with no_grad():
            self.memory, self.memory_mask = self.memory[rows], self.memory_mask[rows]
            for cache in self.caches:
                cache.reorder(rows)


class TransformerDecoder:
    """A Transformer that search asks for one position after the other; dropout is off."""

    def __init__(self, model: Transformer):
        self.model = model
        self.source_eos = model.config.source_eos  # whether sources end with EOS
        self.masked_tokens = {*model.config.masked_tokens}  # which the model never produces

    @property
    def backend(self) -> Backend:
        """The backend of the model's device."""
        return self.model.backend

    def start_decoding(self, source: Array) -> DecodingState:
        """Encode `source`, and project the keys and values of it once for all steps.

        Shapes: source int [B, S], padded with PAD -> a state of B rows
        """
        source = self.backend.asarray(source)
        with _inference(self.model):
            memory = self.model.encode(source)
            attentions = [layer.cross_attention for layer in self.model.decoder.layers]
            caches = [TensorCache(each.keys_and_values(memory, memory)) for each in attentions]
        return DecodingState(self.backend, memory, padding_mask(source), caches)

    def decode_step(self, tokens: Array, state: DecodingState) -> Array:
        """Logits of the token that follows `tokens`, the newest of each row.  Shapes: tokens int [R] -> [R, V]"""
        with _inference(self.model):
            newest = state.backend.asarray(tokens)[:, None]  # [R, 1]
            hidden = self.model.decode(newest, state.memory, state.memory_mask, state.caches)  # [R, 1, D]
            return self.model.logits(hidden).data[:, 0]


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
