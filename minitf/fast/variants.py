"""The parts of variants.py in fewer and larger kernels: layers.py, for other architectures than the paper's."""

from __future__ import annotations

from typing import Any

import autograd as ag
from autograd import Tensor
from minitf.config.model import PAD
from minitf.fast.layers import CheckpointedEncoder, FastTransformer, PackedDecoder
from minitf.model.variants import (
    ForeignTransformer,
    PreNormDecoder,
    PreNormEncoder,
    end_for_start,
)

Array = Any


class CheckpointedPreNormEncoder(PreNormEncoder, CheckpointedEncoder):
    """The same, and the norm after the stack."""


class PackedPreNormDecoder(PreNormDecoder, PackedDecoder):
    """The same, and the norm after the stack."""


class FastForeignTransformer(FastTransformer, ForeignTransformer):
    """The same for models of other programs."""

    def embed_source(self, ids: Array) -> Tensor:
        if not self.config.embedding_norm:
            return super().embed_source(ids)
        x = self.embedded(ids, self.source_embedding, self.source_positions, 0.0)
        return self.dropout(self.source_embedding_norm(x))

    def embed_target(self, ids: Array, start: int = 0) -> Tensor:
        begin, normed = self.config.decoder_start, self.config.embedding_norm
        ids = end_for_start(ids) if begin == "eos" else ids
        if not normed and begin != "zero":
            return super().embed_target(ids, start)
        x = self.embedded(ids, self.target_embedding, self.target_positions, 0.0, start)
        if begin == "zero":
            x = self.position_alone(ids, x, start)
        return self.dropout(self.target_embedding_norm(x) if normed else x)

    def logits(self, hidden: Tensor) -> Tensor:
        return ag.linear(hidden, self.output_matrix, self.logit_bias(), dtype=self.output_matrix.dtype)

    def loss_settings(self, labels: Array) -> tuple[Array, dict[str, Any]]:
        """Return the bias of the logits; masked tokens, and no loss for such labels."""
        settings: dict[str, Any] = {"bias": self.output_bias} if self.config.output_bias else {}
        if self.config.masked_tokens:
            settings["masked"] = masked = self.is_masked()
            backend = self.backend
            labels = backend.xp.where(backend.asarray(masked)[labels], PAD, labels)
        return labels, settings
