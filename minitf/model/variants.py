"""Other architectures than the paper's: pre-norm and learned positions.

A class here has the signature of the part of transformer.py that it replaces.  The table at the end says which values
of the configuration ask for it.
"""

from functools import partial
from typing import Any

from autograd import Tensor
from autograd.backend import Backend
from minitf.config import TransformerConfig
from minitf.errors import UserError
from minitf.model.layers import LayerNorm, Module, variants
from minitf.model.parameters import Initializer
from minitf.model.transformer import Decoder, Encoder, Positions, Residual, Transformer
from minitf.system.environment import load

Array = Any

# ---- Pre-norm ----------------------------------------------------------------------------------------------------


class PreNormResidual(Residual):
    """x + Dropout(sublayer(LayerNorm(x)))"""

    def __call__(self, x: Tensor, sublayer: Any) -> Tensor:
        return x + self.dropout(sublayer(self.norm(x)))


class _EndsInNorm(Module):
    """A stack of pre-norm layers, and a norm of the sum that leaves it; post-norm layers end in one by themselves."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        super().__init__(config, init)  # type: ignore[call-arg]  # of the stack
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init)

    def __call__(self, *arguments: Any) -> Tensor:
        return self.norm(super().__call__(*arguments))  # type: ignore[misc]


class PreNormEncoder(_EndsInNorm, Encoder):
    """A stack of pre-norm layers."""


class PreNormDecoder(_EndsInNorm, Decoder):
    """A stack of pre-norm layers."""


# ---- Positions ---------------------------------------------------------------------------------------------------


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


def of_other_programs(name: str) -> type[Module]:
    """A part of models of other programs.  Raises: UserError if the addition that has it is not installed"""
    formats = load("minitf.formats", "foreign", f"{name}, of models of other programs,", "additions.interchange")
    found: type[Module] = formats.part(name)
    return found


_sinusoids = partial(of_other_programs, "OtherSinusoids")
_transformer = partial(of_other_programs, "ForeignTransformer")
variants |= {
    Positions: {
        "positions": {
            "learned": LearnedPositions, "sinusoidal-concatenated": _sinusoids, "sinusoidal-halves": _sinusoids,
        },
        "first_position": _sinusoids,
    },
    Residual: {"norm": PreNormResidual},
    Encoder: {"norm": PreNormEncoder},
    Decoder: {"norm": PreNormDecoder},
    Transformer: dict.fromkeys(("embedding_norm", "output_bias", "masked_tokens", "decoder_start"), _transformer),
}  # fmt: skip
