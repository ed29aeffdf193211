"""Other architectures than the paper's: pre-norm and other positions.

A class here has the signature of the part of transformer.py that it replaces.  The table at the end says which values
of the configuration ask for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd import Tensor
from autograd.backend import Backend
from minitf.config import TransformerConfig
from minitf.errors import UserError
from minitf.model.cache import Cache
from minitf.model.layers import LayerNorm, Module, variants
from minitf.model.parameters import Initializer
from minitf.model.transformer import (
    Decoder,
    Encoder,
    Positions,
    Residual,
    Transformer,
    sinusoids,
)
from minitf.system.environment import load

__all__ = ["position_table"]

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


# ---- Which configurations ask for them ---------------------------------------------------------------------------


def foreign_transformer() -> type[Module]:
    """The class of a model of another program.  Raises: UserError if the addition that has it is not installed"""
    formats = load("minitf.formats", "foreign", "the class of a model of another program", "additions.interchange")
    found: type[Module] = formats.transformer()
    return found


_other_sinusoids = dict.fromkeys(("sinusoidal-concatenated", "sinusoidal-halves"), OtherSinusoids)
_of_other_programs = ("embedding_norm", "output_bias", "masked_tokens", "decoder_start")
variants |= {
    Positions: {"positions": {"learned": LearnedPositions, **_other_sinusoids}, "first_position": OtherSinusoids},
    Residual: {"norm": PreNormResidual},
    Encoder: {"norm": PreNormEncoder},
    Decoder: {"norm": PreNormDecoder},
    Transformer: dict.fromkeys(_of_other_programs, foreign_transformer),
}
