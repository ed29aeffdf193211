"""Other architectures than the paper's: pre-norm, other positions, and what models of other programs have.

A class here has the signature of the part of transformer.py that it replaces.  The table at the end says which values
of the configuration ask for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor
from autograd.backend import Backend, backend_of
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS, PAD
from minitf.errors import UserError
from minitf.model.cache import Cache
from minitf.model.layers import LayerNorm, variants
from minitf.model.parameters import Initializer
from minitf.model.transformer import (
    Decoder,
    Encoder,
    Positions,
    Reduction,
    Residual,
    Transformer,
    padding_mask,
    sinusoids,
)

__all__ = ["ForeignTransformer", "position_table"]

Array = Any

# ---- Pre-norm ----------------------------------------------------------------------------------------------------


class PreNormResidual(Residual):
    """x + Dropout(sublayer(LayerNorm(x)))"""

    def __call__(self, x: Tensor, sublayer: Any) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class PreNormEncoder(Encoder):
    """A stack of pre-norm layers, and a norm of the sum that leaves it; post-norm layers end in one by themselves."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        super().__init__(config, init)
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        return self.norm(super().__call__(x, mask))


class PreNormDecoder(Decoder):
    """A stack of pre-norm layers, and a norm of the sum that leaves it."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        super().__init__(config, init)
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init)

    def __call__(self, x: Tensor, memory: Tensor, memory_mask: Array, caches: Sequence[Cache] | None = None) -> Tensor:
        return self.norm(super().__call__(x, memory, memory_mask, caches))


# ---- Positions ---------------------------------------------------------------------------------------------------


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

    def rows(self, length: int, start: int, backend: Backend) -> Tensor | Array:
        return super().rows(length, start + self.first, backend)

    def table(self, length: int) -> np.ndarray:
        return position_table(length, self.d_model, self.kind)


class LearnedPositions(Positions):
    """A table that is learned (Table 3, row E)."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.first, self.limit = config.first_position, config.max_positions
        self.weight = init.normal(config.max_positions, config.d_model)

    def rows(self, length: int, start: int, backend: Backend) -> Tensor | Array:
        """Encodings of `length` positions from `start` on.  Shapes: -> [length, D]

        Raises: UserError beyond the last learned position
        """
        start += self.first
        stop = start + length
        if stop > self.limit:
            raise UserError(
                f"a sequence of {stop - self.first} tokens is longer than the {self.limit - self.first} learned "
                "positions of this model; shorten it, or train with more max_positions"
            )
        return self.weight[start:stop]


# ---- Embeddings and logits of models of other programs -----------------------------------------------------------


class ForeignTransformer(Transformer):
    """A Transformer with any of: normalised embeddings, another start of the decoder, a bias on the logits, tokens that
    are never produced."""

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


# ---- Which configurations ask for them ---------------------------------------------------------------------------

_other_sinusoids = dict.fromkeys(("sinusoidal-concatenated", "sinusoidal-halves"), OtherSinusoids)
_foreign = ("embedding_norm", "output_bias", "masked_tokens", "decoder_start")
variants |= {
    Positions: {"positions": {"learned": LearnedPositions, **_other_sinusoids}, "first_position": OtherSinusoids},
    Residual: {"norm": PreNormResidual},
    Encoder: {"norm": PreNormEncoder},
    Decoder: {"norm": PreNormDecoder},
    Transformer: dict.fromkeys(_foreign, ForeignTransformer),
}
