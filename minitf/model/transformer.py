"""The Transformer (Figure 1): attention, positions, encoder, decoder (sections 3.1 to 3.5).

Dimension letters: B sentences, T target and S source positions, D d_model, H heads, K d_k, V vocabulary.
"""

from collections.abc import Callable, Sequence
from typing import Any, Literal, Protocol

import numpy as np

import autograd as ag
from autograd import Tensor
from autograd.backend import Backend, backend_of
from minitf.config import TransformerConfig
from minitf.config.model import PAD
from minitf.errors import UserError
from minitf.model.layers import Dropout, Embedding, FeedForward, LayerNorm, Linear, Module
from minitf.model.parameters import PROCESS, Initializer, Parameter

__all__ = [
    "Decoder", "DecoderLayer", "Encoder", "EncoderLayer", "MultiHeadAttention", "Positions", "Reduction",
    "Transformer", "join_heads", "padding_mask", "sinusoids",
]  # fmt: skip

Array = Any
Reduction = Literal["mean", "sum", "none"]


class Cache(Protocol):
    """Keys and values of a decoder layer: of the source, and of `length` target positions (decoding/decoder.py)."""

    @property
    def source(self) -> tuple[Tensor, Tensor]: ...
    @property
    def length(self) -> int: ...
    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]: ...


# ---- Attention (section 3.2.2) -----------------------------------------------------------------------------------


def padding_mask(ids: Array) -> Array:
    """True at real tokens, which every position may attend to.  Shapes: ids [B, S] -> bool [B, 1, 1, S]"""
    return (ids != PAD)[:, None, None, :]


class MultiHeadAttention(Module):
    """Concat(head_1 … head_H) W^O, head_i = Attention(query W_i^Q, key W_i^K, value W_i^V).

    The H projections of a kind are one matrix: W^Q and W^K are [H · K, D], W^V is [H · d_v, D].  K and d_v are D / H,
    unless they are given.
    """

    def __init__(
        self, d_model: int, heads: int, dropout: float = 0.0, init: Initializer = PROCESS, *,
        d_k: int | None = None, d_v: int | None = None, bias: bool = True, gain: float = 1.0,
    ):  # fmt: skip
        if None in (d_k, d_v) and d_model % heads:
            raise UserError(f"d_model={d_model} is not divisible by heads={heads}; choose a multiple of {heads}")
        keys, values = (heads * (d_model // heads if d is None else d) for d in (d_k, d_v))
        self.heads = heads
        self.query = Linear(d_model, keys, init, bias=bias, gain=gain)
        self.key = Linear(d_model, keys, init, bias=bias, gain=gain)
        self.value = Linear(d_model, values, init, bias=bias, gain=gain)
        self.output = Linear(values, d_model, init, bias=bias)
        self.dropout = Dropout(dropout)

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Array | None = None, is_causal: bool = False
    ) -> Tensor:
        """Shapes: query [B, T, D], key and value [B, S, D], mask bool broadcastable to [B, H, T, S] -> [B, T, D]"""
        return self.over(query, *self.keys_and_values(key, value), mask, is_causal)

    def keys_and_values(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Project keys and values.  Shapes: [B, S, D] -> [B, H, S, K], [B, H, S, d_v]"""
        return self.split_heads(self.key(key)), self.split_heads(self.value(value))

    def over(self, query: Tensor, k: Tensor, v: Tensor, mask: Array | None = None, is_causal: bool = False) -> Tensor:
        """Attend to projected keys and values.

        Shapes: query [B, T, D], k [B, H, S, K], v [B, H, S, d_v] -> [B, T, D]
        """
        q = self.split_heads(self.query(query))  # [B, H, T, K]
        return self.output(join_heads(self.attend(q, k, v, mask, is_causal)))

    def attend(self, q: Tensor, k: Tensor, v: Tensor, mask: Array | None, is_causal: bool = False) -> Tensor:
        """softmax(q kᵀ / √d_k) v in each head.

        Shapes: q [B, H, T, K], k [B, H, S, K], v [B, H, S, d_v] -> [B, H, T, d_v]
        """
        return ag.scaled_dot_product_attention(q, k, v, mask, is_causal=is_causal, dropout=self.dropout_now)

    @property
    def dropout_now(self) -> float:
        """The probability that a weight is dropped: 0 unless the module trains."""
        return self.dropout.p if self.training else 0.0

    def split_heads(self, x: Tensor) -> Tensor:
        """Shapes: [B, T, H · K] -> [B, H, T, K], a view"""
        b, t, width = x.shape
        return x.reshape(b, t, self.heads, width // self.heads).swapaxes(1, 2)


def join_heads(x: Tensor) -> Tensor:
    """Shapes: [B, H, T, K] -> [B, T, H · K]; a view of what the attention op returns"""
    b, h, t, k = x.shape
    return x.swapaxes(1, 2).reshape(b, t, h * k)


# ---- Positions (section 3.5) -------------------------------------------------------------------------------------


def sinusoids(length: int, d_model: int) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same angle).

    Shapes: -> float64 [length, D]
    """
    angle = np.arange(length)[:, None] / 10000.0 ** (np.arange(0, d_model, 2) / d_model)  # [length, D / 2]
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model)


class Positions(Module):
    """x + PE: fixed sinusoids are added to the embeddings."""

    def __init__(self, config: TransformerConfig, init: Initializer = PROCESS):
        self.d_model, self.dtype = config.d_model, init.dtype
        self.fixed: Array = np.zeros((0, config.d_model), init.dtype)  # rows computed so far

    def __call__(self, x: Tensor, start: int = 0) -> Tensor:
        """x + encodings of positions start, start + 1, ….  Shapes: x [B, T, D] -> [B, T, D]"""
        return x + self.rows(x.shape[1], start, backend_of([x.data]))

    def rows(self, length: int, start: int, backend: Backend) -> Tensor | Array:
        """Encodings of `length` positions from `start` on.  Shapes: -> [length, D]"""
        stop = start + length
        if stop > len(self.fixed) or backend_of([self.fixed]) is not backend:
            self.fixed = backend.asarray(self.table(2 * stop).astype(self.dtype))
        return self.fixed[start:stop]

    def table(self, length: int) -> np.ndarray:
        """Shapes: -> float64 [length, D]"""
        return sinusoids(length, self.d_model)


# ---- Layers (section 3.1) ----------------------------------------------------------------------------------------


class Residual(Module):
    """LayerNorm(x + Dropout(sublayer(x)))"""

    def __init__(self, config: TransformerConfig, init: Initializer = PROCESS):
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init)
        self.dropout = Dropout(config.dropout)

    def __call__(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Shapes: x [B, T, D] -> [B, T, D]"""
        return self.norm(x + self.dropout(sublayer(x)))


class EncoderLayer(Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig, init: Initializer = PROCESS):
        self.self_attention = MultiHeadAttention(**config.attention_arguments, init=init)
        self.self_attention_residual = Residual(config, init)
        self.feed_forward = FeedForward(**config.feed_forward_arguments, init=init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, y, mask))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(Module):
    """Causal self-attention, attention to the source, then feed-forward."""

    def __init__(self, config: TransformerConfig, init: Initializer = PROCESS):
        self.self_attention = MultiHeadAttention(**config.attention_arguments, init=init)
        self.self_attention_residual = Residual(config, init)
        self.cross_attention = MultiHeadAttention(**config.attention_arguments, init=init)
        self.cross_attention_residual = Residual(config, init)
        self.feed_forward = FeedForward(**config.feed_forward_arguments, init=init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x: Tensor, memory: Tensor, memory_mask: Array, cache: Cache | None = None) -> Tensor:
        """Shapes: x [B, T, D], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]

        Padding stands at the end of a target, so the causal mask already hides it from real positions.

        cache: for decoding position by position: x is the newest position alone, which sees all earlier ones
        """
        x = self.self_attention_residual(x, lambda y: self.attend_to_target(y, cache))
        x = self.cross_attention_residual(x, lambda y: self.attend_to_source(y, memory, memory_mask, cache))
        return self.feed_forward_residual(x, self.feed_forward)

    def attend_to_target(self, x: Tensor, cache: Cache | None) -> Tensor:
        """Shapes: x [B, T, D] -> [B, T, D]"""
        if cache is None:
            return self.self_attention(x, x, x, is_causal=True)
        return self.self_attention.over(x, *cache.append(*self.self_attention.keys_and_values(x, x)))

    def attend_to_source(self, x: Tensor, memory: Tensor, memory_mask: Array, cache: Cache | None) -> Tensor:
        """Shapes: x [B, T, D], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]"""
        if cache is None:
            return self.cross_attention(x, memory, memory, memory_mask)
        k, v = cache.source
        return self.cross_attention.over(x, k, v, memory_mask)


class Encoder(Module):
    """A stack of layers (left half of Figure 1)."""

    def __init__(self, config: TransformerConfig, init: Initializer = PROCESS):
        self.layers = [EncoderLayer(config, init) for _ in range(config.encoder_depth)]

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        for layer in self.layers:
            x = layer(x, mask)
        return x


class Decoder(Module):
    """A stack of layers (right half of Figure 1)."""

    def __init__(self, config: TransformerConfig, init: Initializer = PROCESS):
        self.layers = [DecoderLayer(config, init) for _ in range(config.decoder_depth)]

    def __call__(self, x: Tensor, memory: Tensor, memory_mask: Array, caches: Sequence[Cache] | None = None) -> Tensor:
        """Shapes: x [B, T, D], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]"""
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, memory_mask, None if caches is None else caches[i])
        return x


# ---- The whole (Figure 1) ----------------------------------------------------------------------------------------


class Transformer(Module):
    """logits = Decoder(target, Encoder(source)) · embeddingᵀ

    One matrix serves both embeddings and the output projection (section 3.4); `share_embeddings` says which of them.
    The seed and the configuration determine the initial weights.
    """

    def __init__(self, config: TransformerConfig, seed: int | None = 0, dtype: Any = np.float32):
        """seed: None gives weights that take no memory, to be loaded"""
        if config.vocab_size < 1 and seed is not None:
            raise UserError(f"vocab_size={config.vocab_size} is not positive; set it to the size of the vocabulary")
        init, d, scaled = Initializer(seed, dtype), config.d_model, config.scale_embeddings
        self.config = config
        self.source_embedding = Embedding(config.source_rows, d, init, scaled=scaled)
        if config.ties_source:
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = Embedding(config.vocab_size, d, init, scaled=scaled)
        self.projection = None if config.ties_output else init.glorot_uniform(config.vocab_size, d)
        self.source_positions = Positions(config, init)
        self.target_positions = Positions(config, init)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config, init)
        self.decoder = Decoder(config, init)

    def __repr__(self) -> str:
        c, (n, m) = self.config, (len(self.encoder.layers), len(self.decoder.layers))
        depth = f"layers={n}" if n == m else f"encoder_layers={n}, decoder_layers={m}"
        sizes = f"{depth}, d_model={c.d_model}, d_ff={c.d_ff}, heads={c.heads}, vocab_size={c.vocab_size}"
        return f"Transformer({sizes}: {self.parameter_count():,} parameters)"

    def __call__(self, source: Array, target: Array) -> Tensor:
        """Logits of each next token.  Shapes: source int [B, S], target int [B, T] -> [B, T, V]"""
        return self.logits(self.decode(target, self.encode(source), padding_mask(source)))

    def encode(self, source: Array) -> Tensor:
        """Shapes: source int [B, S], padded with PAD -> memory [B, S, D]"""
        return self.encoder(self.embed_source(source), padding_mask(source))

    def decode(
        self, target: Array, memory: Tensor, memory_mask: Array, caches: Sequence[Cache] | None = None
    ) -> Tensor:
        """Shapes: target int [B, T], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]

        caches: one for each layer, for decoding position by position: target is the newest token of each row, [B, 1]
        """
        start = 0 if caches is None else caches[0].length
        return self.decoder(self.embed_target(target, start), memory, memory_mask, caches)

    def embed_source(self, ids: Array) -> Tensor:
        """Dropout(√d_model · E[ids] + positions).  Shapes: ids int [B, S] -> [B, S, D]"""
        return self.dropout(self.source_positions(self.source_embedding(ids)))

    def embed_target(self, ids: Array, start: int = 0) -> Tensor:
        """Dropout(√d_model · E[ids] + positions from `start` on).  Shapes: ids int [B, T] -> [B, T, D]"""
        return self.dropout(self.target_positions(self.target_embedding(ids), start))

    def logits(self, hidden: Tensor) -> Tensor:
        """Shapes: hidden [B, T, D] -> [B, T, V]"""
        return ag.linear(hidden, self.output_matrix)

    def loss(
        self, source: Array, target: Array, labels: Array, label_smoothing: float, reduction: Reduction = "sum"
    ) -> tuple[Tensor, Tensor]:
        """Cross-entropy with smoothed labels, and negative log-likelihood, of the labels that are not padding.

        Shapes: source int [B, S], target and labels int [B, T]
        """
        logits = self(source, target)
        loss, nll = ag.cross_entropy(
            logits, labels, label_smoothing=label_smoothing, ignore_index=PAD, reduction=reduction, with_nll=True
        )
        return loss, nll

    @property
    def output_matrix(self) -> Parameter:
        """The weights of the output projection.  Shapes: -> [V, D]"""
        return self.target_embedding.weight if self.projection is None else self.projection
