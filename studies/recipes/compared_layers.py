"""Layers with which the paper compares its own: Table 1's in place of self-attention, and other kinds of attention.

Importing this module enters them into the model's table of variants, and `choose` says which of them models have: a
configuration of minitf has no such fields.  A layer of Table 1 maps x [B, S, D] and the padding mask to
[B, S, D]; padding does not change what other positions get.
"""

from __future__ import annotations

from typing import Any

import autograd as ag
from autograd import Tensor
from minitf.config import TransformerConfig
from minitf.fast.array_layers import recast
from minitf.model.layers import Linear, Module, variants
from minitf.model.parameters import Initializer, Parameter
from minitf.model.transformer import DecoderLayer, EncoderLayer, FeedForward, MultiHeadAttention, Residual
from studies.ops import additive_attention, gru, local_attention

Array = Any


class Recurrent(Module):
    """A gated recurrent unit that reads the sentence once, forwards.  Shapes: x [B, S, D] -> [B, S, D]"""

    def __init__(self, d_model: int, init: Initializer):
        self.inputs = Linear(d_model, 3 * d_model, init)
        self.weight = init.glorot_uniform(3 * d_model, d_model)
        self.bias = init.zeros(3 * d_model)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]

        Padding stands at the end, where no other position reads it.
        """
        return gru(self.inputs(x), self.weight, self.bias)


class Convolution(Module):
    """y_t = b + Σ_j W_j x_{t+j}, over the `width` positions around t.  Shapes: x [B, S, D] -> [B, S, D]"""

    def __init__(self, d_model: int, width: int, init: Initializer):
        self.width = width
        self.output = Linear(width * d_model, d_model, init)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        return self.output(ag.concatenate(_neighbours(x, mask, self.width), axis=-1))  # of [B, S, k · D]


class SeparableConvolution(Module):
    """y_t = b + W Σ_j w_j x_{t+j}: a convolution of each feature alone, then a product at each position.

    Shapes: x [B, S, D] -> [B, S, D]
    """

    def __init__(self, d_model: int, width: int, init: Initializer):
        self.width = width
        self.weight = init.normal(d_model, width)  # of standard deviation 1/√k
        self.output = Linear(d_model, d_model, init)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        terms = [x_j * self.weight[:, j] for j, x_j in enumerate(_neighbours(x, mask, self.width))]
        total = terms[0]
        for term in terms[1:]:
            total = total + term
        return self.output(total)


Mixing = Recurrent | Convolution | SeparableConvolution


def _neighbours(x: Tensor, mask: Array, width: int) -> list[Tensor]:
    """x at each of the `width` positions around each position, 0 outside the sentence; one more before if even.

    Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D] each
    """
    length = x.shape[1]
    inside = ag.where(mask[:, 0, 0, :, None], x, 0)
    padded = ag.pad(inside, ((0, 0), (width // 2, (width - 1) // 2), (0, 0)))
    return [padded[:, j : j + length] for j in range(width)]


# ---- Attention (section 3.2.1, section 4) ----


class UnscaledAttention(MultiHeadAttention):
    """softmax(q kᵀ) v, without the factor 1/√d_k"""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Array | None, is_causal: bool = False) -> Tensor:
        return ag.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, dropout=self.dropout_now, scale=1.0)


class AdditiveAttention(MultiHeadAttention):
    """softmax(w tanh(q + k)) v"""

    score: Parameter  # [H, K]

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Array | None, is_causal: bool = False) -> Tensor:
        return additive_attention(q, k, v, self.score, mask, is_causal=is_causal, dropout=self.dropout_now)


class LocalAttention(MultiHeadAttention):
    """Self-attention to the `neighbourhood` of a position (section 4); in a decoder, up to the position itself."""

    def configure(self, config: TransformerConfig) -> LocalAttention:
        """Set what a configuration says of the neighbourhood; return self."""
        self.neighbourhood = config.neighbourhood
        self.scale = 1.0 if config.attention == "dot-product" else None  # None: 1/√d_k
        return self

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Array | None, is_causal: bool = False) -> Tensor:
        if q.shape[2] < k.shape[2]:  # the newest position alone
            k, v = k[:, :, -self.neighbourhood :], v[:, :, -self.neighbourhood :]
            return ag.scaled_dot_product_attention(q, k, v, mask, dropout=self.dropout_now, scale=self.scale)
        positions = None if mask is None else mask[..., 0, :]  # [B, 1, S]
        return local_attention(
            q, k, v, positions,
            neighbourhood=self.neighbourhood, is_causal=is_causal, dropout=self.dropout_now, scale=self.scale,
        )  # fmt: skip


class OtherEncoderLayer(EncoderLayer):
    """An encoder layer with the attention that the configuration asks for."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        super().__init__(config, init)
        self.self_attention = _with_attention(self.self_attention, config, init)


class OtherDecoderLayer(DecoderLayer):
    """A decoder layer with the attention that the configuration asks for."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        super().__init__(config, init)
        self.self_attention = _with_attention(self.self_attention, config, init)
        self.cross_attention = _with_attention(self.cross_attention, config, init)


def _with_attention(attention: MultiHeadAttention, config: TransformerConfig, init: Initializer) -> MultiHeadAttention:
    found: MultiHeadAttention = recast(attention, _attentions.get(config.attention, MultiHeadAttention))
    if isinstance(found, AdditiveAttention):
        found.score = init.glorot_uniform(config.heads, config.head_d_k)
    return found


class LocalEncoderLayer(OtherEncoderLayer):
    """An encoder layer whose self-attention is restricted to a neighbourhood."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        super().__init__(config, init)
        self.self_attention = recast(self.self_attention, LocalAttention).configure(config)


class LocalDecoderLayer(OtherDecoderLayer):
    """A decoder layer whose self-attention is restricted to a neighbourhood."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        super().__init__(config, init)
        self.self_attention = recast(self.self_attention, LocalAttention).configure(config)


class MixingEncoderLayer(EncoderLayer):
    """An encoder layer with a recurrent or convolutional layer in the place of self-attention (Table 1)."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.mixing = _mixing(config, init)
        self.self_attention_residual = Residual(config, init)
        self.feed_forward = FeedForward(**config.feed_forward_arguments, init=init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        x = self.self_attention_residual(x, lambda y: self.mixing(y, mask))
        return self.feed_forward_residual(x, self.feed_forward)


def _mixing(config: TransformerConfig, init: Initializer) -> Mixing:
    if config.mixing == "recurrent":
        return Recurrent(config.d_model, init)
    kind = Convolution if config.mixing == "convolutional" else SeparableConvolution
    return kind(config.d_model, config.kernel_width, init)


_mixings = dict.fromkeys(("recurrent", "convolutional", "separable-convolutional"), MixingEncoderLayer)
_attentions = {"dot-product": UnscaledAttention, "additive": AdditiveAttention}
variants |= {
    EncoderLayer: {
        "mixing": {"restricted": LocalEncoderLayer, **_mixings},
        "attention": dict.fromkeys(_attentions, OtherEncoderLayer),
    },
    DecoderLayer: {
        "mixing": {"restricted": LocalDecoderLayer},
        "attention": dict.fromkeys(_attentions, OtherDecoderLayer),
    },
}

DEFAULTS = {"attention": "scaled-dot-product", "mixing": "self-attention", "neighbourhood": 32, "kernel_width": 3}
"""The paper's layers, r of restricted self-attention (section 4), and k of convolutions (Table 1)."""


def choose(**values: object) -> None:
    """Let the models that this process makes from now on have these layers; the paper's, where nothing is given."""
    if values.keys() - DEFAULTS.keys():
        raise ValueError(f"{sorted(values.keys() - DEFAULTS.keys())} are none of {', '.join(DEFAULTS)}")
    for name, default in DEFAULTS.items():
        value = values.get(name, default)
        setattr(TransformerConfig, name, default if value == default else property(lambda self, value=value: value))


choose()
