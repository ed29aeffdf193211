"""The Transformer: positions, encoder, decoder (sections 3.1, 3.4, 3.5)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor, checkpoint
from autograd.backend import Backend, backend_of
from minitf.config import TransformerConfig
from minitf.config.model import BOS, EOS
from minitf.errors import UserError
from minitf.model.attention import MultiHeadAttention, are_packed, linear_heads, padding_mask, side_by_side
from minitf.model.layers import Dropout, Embedding, FeedForward, Initializer, LayerNorm, Linear, Module, Parameter
from minitf.model.mixing import Convolution, Mixing, Recurrent, SeparableConvolution

Array = Any


# ---- Positions (section 3.5) -------------------------------------------------------------------------------------


def sinusoids(length: int, d_model: int, kind: str = "sinusoidal") -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same angle).

    With kind "sinusoidal-halves", all sines come before all cosines, rounded to float32 as Hugging Face keeps them;
    with "sinusoidal-concatenated", the exponent is i / (d_model / 2 - 1), as in the first public code.

    Shapes: -> float64 [length, d_model]
    """
    half = np.arange(d_model // 2)
    exponent = half / max(d_model // 2 - 1, 1) if kind == "sinusoidal-concatenated" else 2 * half / d_model
    angle = np.arange(length)[:, None] / 10000.0**exponent  # [length, D / 2]
    if kind == "sinusoidal":
        return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model)
    table = np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    return table.astype(np.float32).astype(np.float64) if kind == "sinusoidal-halves" else table


class Positions(Module):
    """Positional encoding: fixed sinusoids, or a learned table (Table 3, row E)."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.kind = config.positions
        self.d_model = config.d_model
        self.dtype = init.dtype
        self.first = config.first_position
        self.limit = config.max_positions if self.kind == "learned" else None
        self.fixed: Array = np.zeros((0, config.d_model), init.dtype)  # sinusoids computed so far
        if self.kind == "learned":
            self.weight = init.normal(config.max_positions, config.d_model)

    def __call__(self, x: Tensor, start: int = 0) -> Tensor:
        """x + encodings of positions start, start + 1, ….  Shapes: x [B, T, D] -> [B, T, D]"""
        return x + self.rows(x.shape[1], start, backend_of([x.data]))

    def rows(self, length: int, start: int, backend: Backend) -> Tensor | Array:
        """Encodings of `length` positions from `start` on.  Shapes: -> [length, D]

        Raises: UserError beyond the last learned position
        """
        start += self.first
        stop = start + length
        if self.limit is not None:
            if stop > self.limit:
                raise UserError(
                    f"a sequence of {stop - self.first} tokens is longer than the {self.limit - self.first} learned "
                    "positions of this model; shorten it, or train with a larger --model.max-positions"
                )
            return self.weight[start:stop]
        if stop > len(self.fixed) or backend_of([self.fixed]) is not backend:
            table = sinusoids(2 * stop, self.d_model, self.kind)
            self.fixed = backend.asarray(table.astype(self.dtype))
        return self.fixed[start:stop]


# ---- Layers (section 3.1) ----------------------------------------------------------------------------------------


class Residual(Module):
    """LayerNorm(x + Dropout(sublayer(x))) as in the paper; with norm="pre", x + Dropout(sublayer(LayerNorm(x)))."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init)
        self.dropout = Dropout(config.dropout)
        self.norm_first = config.norm == "pre"

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Shapes: x [B, T, D] -> [B, T, D]"""
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))
        return ag.dropout_add_layer_norm(
            sublayer(x), x, self.norm.weight, self.norm.bias,
            p=self.dropout.p, eps=self.norm.eps, training=self.training,
        )  # fmt: skip


def _attention(config: TransformerConfig, init: Initializer, *, to_itself: bool = True) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model, config.heads, config.head_d_k, config.head_d_v, config.attention_dropout, init,
        bias=config.attention_bias, gain=config.attention_gain, kind=config.attention,
        neighbourhood=config.neighbourhood if to_itself and config.mixing == "restricted" else None,
    )  # fmt: skip


def _other_mixing(config: TransformerConfig, init: Initializer) -> Mixing | None:
    """The layer of Table 1 that the encoder has in the place of self-attention; None if it has self-attention."""
    match config.mixing:
        case "recurrent":
            return Recurrent(config.d_model, init)
        case "convolutional":
            return Convolution(config.d_model, config.kernel_width, init)
        case "separable-convolutional":
            return SeparableConvolution(config.d_model, config.kernel_width, init)
    return None


def _feed_forward(config: TransformerConfig, init: Initializer) -> FeedForward:
    return FeedForward(config.d_model, config.d_ff, config.activation, config.activation_dropout, init)


class EncoderLayer(Module):
    """Self-attention, or another layer of Table 1, then feed-forward."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.mixing = _other_mixing(config, init)
        if self.mixing is None:
            self.self_attention = _attention(config, init)
        self.self_attention_residual = Residual(config, init)
        self.feed_forward = _feed_forward(config, init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        x = self.self_attention_residual(x, lambda y: self.mix(y, mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def mix(self, x: Tensor, mask: Array) -> Tensor:
        """The sub-layer in which positions see others.  Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        return self.self_attention(x, x, x, mask) if self.mixing is None else self.mixing(x, mask)


class DecoderLayer(Module):
    """Causal self-attention, attention to the source, then feed-forward."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.self_attention = _attention(config, init)
        self.self_attention_residual = Residual(config, init)
        self.cross_attention = _attention(config, init, to_itself=False)
        self.cross_attention_residual = Residual(config, init)
        self.feed_forward = _feed_forward(config, init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(
        self, x: Tensor, memory: Tensor, memory_mask: Array, projected: Sequence[Tensor] | None = None
    ) -> Tensor:
        """Shapes: x [B, T, D], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]

        Padding stands at the end of a target, so the causal mask already hides it from real positions.

        projected: keys and values of the memory, where they are computed for all layers together
        """
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, y, is_causal=True))
        if projected is None:
            x = self.cross_attention_residual(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        else:
            keys, values = projected
            x = self.cross_attention_residual(x, lambda y: self.cross_attention.over(y, keys, values, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)


class Encoder(Module):
    """A stack of layers (left half of Figure 1)."""

    checkpoints_layers = False

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.layers = [EncoderLayer(config, init) for _ in range(config.encoder_depth)]
        # the sum that leaves a pre-norm stack is not normalised; the paper's post-norm stack ends in a norm by itself
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init) if config.norm == "pre" else None

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        for layer in self.layers:
            x = checkpoint(layer, x, mask) if self.checkpoints_layers else layer(x, mask)
        return x if self.norm is None else self.norm(x)


class Decoder(Module):
    """A stack of layers (right half of Figure 1)."""

    checkpoints_layers = False

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.layers = [DecoderLayer(config, init) for _ in range(config.decoder_depth)]
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init) if config.norm == "pre" else None

    def __call__(self, x: Tensor, memory: Tensor, memory_mask: Array) -> Tensor:
        """Shapes: x [B, T, D], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]"""
        projected: list[Any] = [None] * len(self.layers)
        if are_packed(of_memory := self._of_memory()):
            of_all = linear_heads(memory, of_memory, self.layers[0].cross_attention.heads)
            projected = list(zip(of_all[::2], of_all[1::2], strict=True))
        for layer, each in zip(self.layers, projected, strict=True):
            inputs = x, memory, memory_mask, each
            x = checkpoint(layer, *inputs) if self.checkpoints_layers else layer(*inputs)
        return x if self.norm is None else self.norm(x)

    def packed(self) -> Iterator[list[Parameter]]:
        for layer in self.layers:
            yield from layer.self_attention.packed()
        yield from side_by_side(self._of_memory())

    def _of_memory(self) -> list[Linear]:
        """The layers that compute keys and values of the encoder's output."""
        attentions = [layer.cross_attention for layer in self.layers]
        return [linear for attention in attentions for linear in (attention.key, attention.value)]


# ---- The whole (Figure 1) ----------------------------------------------------------------------------------------


class Transformer(Module):
    """logits = Decoder(target, Encoder(source)) · embeddingᵀ

    One matrix serves both embeddings and the output projection (section 3.4); `share_embeddings` says which of them.
    The seed and the configuration determine the initial weights.
    """

    def __init__(
        self, config: TransformerConfig, seed: int | None = 0, dtype: Any = np.float32, compute_dtype: str | None = None
    ):
        """seed: None gives weights that take no memory, to be loaded
        compute_dtype: dtype of activations if not that of the parameters: "bfloat16" for mixed precision
        """
        if config.vocab_size < 1 and seed is not None:
            raise UserError(f"vocab_size={config.vocab_size} is not positive; set it to the size of the vocabulary")
        init, d, scaled = Initializer(seed, dtype), config.d_model, config.scale_embeddings
        self.config = config
        self.compute_dtype = compute_dtype
        self.source_embedding = Embedding(config.source_rows, d, init, scaled=scaled)
        if config.ties_source:
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = Embedding(config.vocab_size, d, init, scaled=scaled)
        if not config.ties_output:
            self.projection = init.glorot_uniform(config.vocab_size, d)
        self.output_bias = init.zeros(config.vocab_size) if config.output_bias else None
        self.source_positions = Positions(config, init)
        self.target_positions = Positions(config, init)
        if config.embedding_norm:
            self.source_embedding_norm = LayerNorm(d, config.norm_epsilon, init)
            self.target_embedding_norm = LayerNorm(d, config.norm_epsilon, init)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config, init)
        self.decoder = Decoder(config, init)
        if seed is not None:
            self.place_side_by_side()

    def __call__(self, source: Array, target: Array) -> Tensor:
        """Logits of each next token.  Shapes: source int [B, S], target int [B, T] -> [B, T, V]"""
        hidden = self.decode(target, self.encode(source), padding_mask(source))
        dtype = self.output_matrix.dtype  # not rounded to compute_dtype
        return ag.linear(hidden, self.output_matrix, self.logit_bias(), dtype=dtype)

    def checkpoint_activations(self, on: bool = True) -> None:
        """Whether to keep, for the backward pass, only the inputs of layers and to compute the layers again."""
        self.encoder.checkpoints_layers = self.decoder.checkpoints_layers = on

    def logit_bias(self) -> Tensor | None:
        """The bias of the logits, minus infinity for tokens that the model never produces.  Shapes: -> [V]"""
        if not self.config.masked_tokens:
            return self.output_bias
        xp, matrix = self.backend.xp, self.output_matrix
        masked = xp.zeros(len(matrix), bool)
        masked[list(self.config.masked_tokens)] = True
        bias = xp.zeros(len(matrix), matrix.dtype) if self.output_bias is None else self.output_bias
        return ag.masked_fill(bias, masked, -math.inf)

    @property
    def output_matrix(self) -> Parameter:
        """The weights of the output projection.  Shapes: -> [V, D]"""
        return self.target_embedding.weight if self.config.ties_output else self.projection

    def encode(self, source: Array) -> Tensor:
        """Shapes: source int [B, S], padded with PAD -> memory [B, S, D]"""
        return self.encoder(self._embed(source, "source"), padding_mask(source))

    def decode(self, target: Array, memory: Tensor, memory_mask: Array) -> Tensor:
        """Shapes: target int [B, T], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]"""
        return self.decoder(self._embed(target, "target"), memory, memory_mask)

    def _embed(self, ids: Array, side: str) -> Tensor:
        """Dropout(√d_model · embedding + positions), or Dropout(LayerNorm(…)).  Shapes: ids int [B, T] -> [B, T, D]"""
        embedding, positions = self.embedding_of(side)
        norm = self.embedding_norm_of(side)
        rows = positions.rows(ids.shape[1], 0, backend_of([embedding.weight.data]))
        start = self.config.decoder_start if side == "target" else "bos"
        if start == "eos":
            ids = end_for_start(ids)
        p = self.dropout.p if self.training else 0.0
        is_plain = norm is None and start != "zero"
        x = ag.embedding(
            ids, embedding.weight, scale=embedding.scale, positions=rows, p=p if is_plain else 0.0,
            dtype=self.compute_dtype,
        )  # fmt: skip
        if is_plain:
            return x
        if start == "zero":
            first = backend_of([x.data]).asarray(ids == BOS)[:, :, None]  # [B, T, 1]
            x = ag.where(first, ag.astype(rows, x.dtype), x)  # the position alone
        return self.dropout(x if norm is None else norm(x))

    def embedding_of(self, side: str) -> tuple[Embedding, Positions]:
        """The embedding and the positions of "source" or "target"."""
        if side == "source":
            return self.source_embedding, self.source_positions
        return self.target_embedding, self.target_positions

    def embedding_norm_of(self, side: str) -> LayerNorm | None:
        """The layer normalisation of the embeddings of "source" or "target", if the model has one."""
        if not self.config.embedding_norm:
            return None
        return self.source_embedding_norm if side == "source" else self.target_embedding_norm


def end_for_start(tokens: Array) -> Array:
    """The tokens with EOS in place of BOS, for a decoder that starts with EOS.  Shapes: [...] -> [...]"""
    return backend_of([tokens]).xp.where(tokens == BOS, EOS, tokens)


def parameter_shapes(config: TransformerConfig) -> dict[str, tuple[int, ...]]:
    """The shape of every parameter by its name in checkpoints, in the order of the model, without its memory."""
    return {name: p.shape for name, p in Transformer(config, seed=None).named_parameters().items()}
