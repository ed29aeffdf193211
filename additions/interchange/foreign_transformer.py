"""The Transformer of other programs, plain, fast, and on arrays: other sinusoids, normalised embeddings, another start
of the decoder, a bias on the logits, tokens that are never produced.

The house asks for the class where a configuration has one of these (minitf/model/variants.py).
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor
from autograd.backend import backend_of
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD
from minitf.fast.accelerate import REPLACEMENTS, FastTransformer
from minitf.fast.array_layers import PARTS, ArrayTransformer, OfArrays
from minitf.model.layers import LayerNorm
from minitf.model.parameters import Initializer
from minitf.model.transformer import Positions, Reduction, Transformer, padding_mask, sinusoids

Array = Any

# ---- Positions ----


def position_table(length: int, d_model: int, kind: str) -> np.ndarray:
    """The table of fixed positions of a kind: `sinusoids`, or all sines before all cosines.

    "sinusoidal-halves" has the paper's angles, rounded to float32 as Hugging Face keeps them; with
    "sinusoidal-concatenated", the exponent is i / (d_model / 2 - 1), as in the first public code.

    Shapes: -> float64 [length, d_model]
    """
    if kind == "sinusoidal":
        return sinusoids(length, d_model)
    half = np.arange(d_model // 2)
    exponent = half / max(d_model // 2 - 1, 1) if kind == "sinusoidal-concatenated" else 2 * half / d_model
    angle = np.arange(length)[:, None] / 10000.0**exponent  # [length, D / 2]
    table = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    return table.astype(np.float32).astype(np.float64) if kind == "sinusoidal-halves" else table


class OtherSinusoids(Positions):
    """Sinusoids in another order, or that count from another position."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        super().__init__(config, init)
        self.kind, self.first = config.positions, config.first_position

    def rows(self, length: int, start: int, backend: Any) -> Tensor | Array:
        return super().rows(length, start + self.first, backend)

    def table(self, length: int) -> np.ndarray:
        return position_table(length, self.d_model, self.kind)


class ArraySinusoids(OfArrays, OtherSinusoids):
    """`OtherSinusoids` of an array."""


# ---- Embeddings and logits ----


class ForeignTransformer(Transformer):
    """A Transformer with any of these."""

    def __init__(self, config: TransformerConfig, seed: int | None = 0, dtype: Any = np.float32):
        super().__init__(config, seed, dtype)
        init = Initializer(None, dtype)
        if config.output_bias:
            self.output_bias = init.zeros(config.vocab_size)
        if config.embedding_norm:
            self.source_embedding_norm = LayerNorm(config.d_model, config.norm_epsilon, init)
            self.target_embedding_norm = LayerNorm(config.d_model, config.norm_epsilon, init)
            for name in ("encoder", "decoder"):  # parameters are in the order of attributes: norms come before them
                setattr(self, name, vars(self).pop(name))

    def embed_source(self, ids: Array) -> Tensor:
        x = self.source_positions(self.source_embedding(ids))
        return self.dropout(self.source_embedding_norm(x) if self.config.embedding_norm else x)

    def embed_target(self, ids: Array, start: int = 0) -> Tensor:
        begin = self.config.decoder_start
        x = self.target_positions(self.target_embedding(end_for_start(ids) if begin == "eos" else ids), start)
        if begin == "zero":
            x = self.position_alone(ids, x, start)
        return self.dropout(self.target_embedding_norm(x) if self.config.embedding_norm else x)

    def position_alone(self, ids: Array, x: Tensor, start: int) -> Tensor:
        """x, with the position alone, and no embedding, where the token is BOS.  Shapes: [B, T], [B, T, D] -> same"""
        backend = backend_of([x.data])
        rows = self.target_positions.rows(x.shape[1], start, backend)
        first = backend.asarray(ids == BOS)[:, :, None]  # [B, T, 1]
        return ag.where(first, ag.astype(rows, x.dtype), x)

    def logits(self, hidden: Tensor) -> Tensor:
        return ag.linear(hidden, self.output_matrix, self.logit_bias())

    def logit_bias(self) -> Tensor | None:
        """The bias of the logits, minus infinity for tokens that the model never produces.  Shapes: -> [V]"""
        bias = self.output_bias if self.config.output_bias else None
        if not self.config.masked_tokens:
            return bias
        xp, matrix = self.backend.xp, self.output_matrix
        return ag.masked_fill(
            xp.zeros(len(matrix), matrix.dtype) if bias is None else bias, xp.asarray(self.is_masked()), -math.inf
        )

    def is_masked(self) -> np.ndarray:
        """True for tokens that the model never produces.  Shapes: -> bool [V]"""
        masked = np.zeros(self.config.vocab_size, bool)
        masked[list(self.config.masked_tokens)] = True
        return masked

    def loss(
        self, source: Array, target: Array, labels: Array, label_smoothing: float, reduction: Reduction = "sum"
    ) -> tuple[Tensor, Tensor]:
        """The loss as the paper's; masked tokens get no share of the smoothing, and there is no loss for such labels.

        Shapes: source int [B, S], target and labels int [B, T]
        """
        if not self.config.masked_tokens:
            return super().loss(source, target, labels, label_smoothing, reduction)
        xp, masked = self.backend.xp, self.is_masked()
        allowed = xp.asarray(np.flatnonzero(~masked))  # [V']
        column = xp.asarray(np.where(masked, -1, np.cumsum(~masked) - 1))  # [V], -1: none
        hidden = self.decode(target, self.encode(source), padding_mask(source))
        loss, nll = ag.cross_entropy(
            ag.linear(
                hidden, self.output_matrix[allowed], self.output_bias[allowed] if self.config.output_bias else None
            ),
            xp.where(labels == PAD, -1, column[labels]),
            label_smoothing=label_smoothing,
            ignore_index=-1,
            reduction=reduction,
            with_nll=True,
        )
        return loss, nll


def end_for_start(tokens: Array) -> Array:
    """The tokens with EOS in place of BOS, for a decoder that starts with EOS.  Shapes: [...] -> [...]"""
    return backend_of([tokens]).xp.where(tokens == BOS, EOS, tokens)


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


class ArrayForeignTransformer(ArrayTransformer, ForeignTransformer):
    """The same on arrays."""

    def position_alone(self, ids: Array, x: Array, start: int) -> Array:
        return backend_of([x]).xp.where((ids == BOS)[:, :, None], self.target_positions.encodings(x, start), x)


REPLACEMENTS[ForeignTransformer] = FastForeignTransformer
PARTS[ForeignTransformer] = PARTS[FastForeignTransformer] = ArrayForeignTransformer
PARTS[OtherSinusoids] = ArraySinusoids
