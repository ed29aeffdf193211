"""The Transformer: positions, encoder, decoder (sections 3.1, 3.4, 3.5), and decoding step by step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor, no_grad
from autograd.backend import Backend, backend_of
from minitf.config import TransformerConfig
from minitf.errors import UserError
from minitf.model.attention import MultiHeadAttention, SelfAttentionCache, join_heads, padding_mask
from minitf.model.layers import Dropout, Embedding, FeedForward, Initializer, LayerNorm, Module, Parameter

Array = Any


# ---- Positions (section 3.5) -------------------------------------------------------------------------------------


def sinusoids(length: int, d_model: int, *, concatenated: bool = False) -> np.ndarray:
    """PE(pos, 2i) = sin(pos / 10000^(2i / d_model)), PE(pos, 2i + 1) = cos(the same angle).

    With `concatenated`, all sines come before all cosines and the exponent is i / (d_model / 2 - 1), as in the first
    public code.

    Shapes: -> float64 [length, d_model]
    """
    half = np.arange(d_model // 2)
    exponent = half / max(d_model // 2 - 1, 1) if concatenated else 2 * half / d_model
    angle = np.arange(length)[:, None] / 10000.0**exponent  # [length, D / 2]
    if concatenated:
        return np.concatenate([np.sin(angle), np.cos(angle)], axis=1)
    return np.stack([np.sin(angle), np.cos(angle)], axis=-1).reshape(length, d_model)


class Positions(Module):
    """Adds to each position what tells it from the others: fixed sinusoids, or a learned table (Table 3, row E)."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.kind = config.positions
        self.d_model = config.d_model
        self.dtype = init.dtype
        self.first = config.first_position
        self.limit = config.max_positions if self.kind == "learned" else None
        self.fixed: Array = np.zeros((0, config.d_model), init.dtype)  # sinusoids known so far
        if self.kind == "learned":
            self.weight = init.normal(config.max_positions, config.d_model)

    def __call__(self, x: Tensor, start: int = 0) -> Tensor:
        """x + positions start, start + 1, …, counted from the first.  Shapes: x [B, T, D] -> [B, T, D]"""
        return x + self.rows(x.shape[1], start, backend_of([x.data]))

    def rows(self, length: int, start: int, backend: Backend) -> Tensor | Array:
        """What is added at positions start, start + 1, …, as many as `length`.  Shapes: -> [T, D]"""
        start += self.first
        stop = start + length
        if self.limit is not None:
            if stop > self.limit:
                raise UserError(
                    f"a sequence of {stop - self.first} tokens is longer than the {self.limit - self.first} learned "
                    "positions of this model; "
                    "shorten it, or train with a larger --model.max-positions"
                )
            return self.weight[start:stop]
        if stop > len(self.fixed) or backend_of([self.fixed]) is not backend:
            table = sinusoids(2 * stop, self.d_model, concatenated=self.kind == "sinusoidal-concatenated")
            self.fixed = backend.asarray(table.astype(self.dtype))
        return self.fixed[start:stop]


# ---- Layers (section 3.1) ----------------------------------------------------------------------------------------


class Residual(Module):
    """LayerNorm(x + Dropout(sublayer(x))), the paper's order; "pre": x + Dropout(sublayer(LayerNorm(x)))."""

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


def _attention(config: TransformerConfig, init: Initializer) -> MultiHeadAttention:
    return MultiHeadAttention(
        config.d_model,
        config.heads,
        config.head_d_k,
        config.head_d_v,
        config.attention_dropout,
        init,
        bias=config.attention_bias,
        gain=config.attention_gain,
    )


def _feed_forward(config: TransformerConfig, init: Initializer) -> FeedForward:
    return FeedForward(config.d_model, config.d_ff, config.activation, config.activation_dropout, init)


class EncoderLayer(Module):
    """Self-attention, then feed-forward."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.self_attention = _attention(config, init)
        self.self_attention_residual = Residual(config, init)
        self.feed_forward = _feed_forward(config, init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, y, mask))
        return self.feed_forward_residual(x, self.feed_forward)


class DecoderLayer(Module):
    """Self-attention to what came before, attention to the source, then feed-forward."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.self_attention = _attention(config, init)
        self.self_attention_residual = Residual(config, init)
        self.cross_attention = _attention(config, init)
        self.cross_attention_residual = Residual(config, init)
        self.feed_forward = _feed_forward(config, init)
        self.feed_forward_residual = Residual(config, init)

    def __call__(self, x: Tensor, memory: Tensor, memory_mask: Array) -> Tensor:
        """Shapes: x [B, T, D], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]

        Padding stands at the end of a target, so the causal rule already keeps real positions from seeing it.
        """
        x = self.self_attention_residual(x, lambda y: self.self_attention(y, y, y, is_causal=True))
        x = self.cross_attention_residual(x, lambda y: self.cross_attention(y, memory, memory, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def step(self, x: Tensor, cache: LayerCache, memory_mask: Array) -> Tensor:
        """One position after those in `cache`.  Shapes: x [N, 1, D] -> [N, 1, D]"""
        x = self.self_attention_residual(x, lambda y: self._attend_back(y, cache.past))
        x = self.cross_attention_residual(x, lambda y: self._attend_source(y, cache, memory_mask))
        return self.feed_forward_residual(x, self.feed_forward)

    def _attend_back(self, y: Tensor, past: SelfAttentionCache) -> Tensor:
        attention = self.self_attention
        keys, values = past.append(attention.split_heads(attention.key(y)), attention.split_heads(attention.value(y)))
        return attention.attend(attention.split_heads(attention.query(y)), keys, values)

    def _attend_source(self, y: Tensor, cache: LayerCache, memory_mask: Array) -> Tensor:
        """The beams of a sentence are its queries, side by side, so its keys and values stand in memory once."""
        attention = self.cross_attention
        n, _, width = y.shape
        b = len(cache.memory_keys.data)
        q = attention.split_heads(attention.query(y.reshape(b, n // b, width)))  # [B, H, N / B, K]
        heads = ag.scaled_dot_product_attention(q, cache.memory_keys, cache.memory_values, memory_mask)
        return attention.output(join_heads(heads)).reshape(n, 1, width)


class Encoder(Module):
    """A stack of layers (left half of Figure 1)."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.layers = [EncoderLayer(config, init) for _ in range(config.layers)]
        # a pre-norm stack leaves its sum un-normalised; the post-norm one of the paper ends in a norm by itself
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init) if config.norm == "pre" else None

    def __call__(self, x: Tensor, mask: Array) -> Tensor:
        """Shapes: x [B, S, D], mask bool [B, 1, 1, S] -> [B, S, D]"""
        for layer in self.layers:
            x = layer(x, mask)
        return x if self.norm is None else self.norm(x)


class Decoder(Module):
    """A stack of layers (right half of Figure 1)."""

    def __init__(self, config: TransformerConfig, init: Initializer):
        self.layers = [DecoderLayer(config, init) for _ in range(config.layers)]
        self.norm = LayerNorm(config.d_model, config.norm_epsilon, init) if config.norm == "pre" else None

    def __call__(self, x: Tensor, memory: Tensor, memory_mask: Array) -> Tensor:
        """Shapes: x [B, T, D], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]"""
        for layer in self.layers:
            x = layer(x, memory, memory_mask)
        return x if self.norm is None else self.norm(x)

    def step(self, x: Tensor, state: DecodingState) -> Tensor:
        """Shapes: x [N, 1, D] -> [N, 1, D]"""
        for layer, cache in zip(self.layers, state.layers, strict=True):
            x = layer.step(x, cache, state.memory_mask)
        return x if self.norm is None else self.norm(x)


# ---- The whole (Figure 1) ----------------------------------------------------------------------------------------


class Transformer(Module):
    """logits = Decoder(target, Encoder(source)) · embeddingᵀ

    One matrix serves both embeddings and the output projection (section 3.4) unless `share_embeddings` is off.
    The seed and the configuration determine the starting weights.
    """

    def __init__(
        self, config: TransformerConfig, seed: int = 0, dtype: Any = np.float32, compute_dtype: str | None = None
    ):
        """compute_dtype: of activations where it is not that of the parameters: "bfloat16" for mixed precision"""
        if config.vocab_size < 1:
            raise UserError(f"vocab_size={config.vocab_size} is not positive; set it to the size of the vocabulary")
        init = Initializer(seed, dtype)
        self.config = config
        self.compute_dtype = compute_dtype
        self.source_embedding = Embedding(config.vocab_size, config.d_model, init)
        if config.share_embeddings:
            self.target_embedding = self.source_embedding
        else:
            self.target_embedding = Embedding(config.vocab_size, config.d_model, init)
            self.projection = init.glorot_uniform(config.vocab_size, config.d_model)
        self.source_positions = Positions(config, init)
        self.target_positions = Positions(config, init)
        self.dropout = Dropout(config.dropout)
        self.encoder = Encoder(config, init)
        self.decoder = Decoder(config, init)

    def __call__(self, source: Array, target: Array) -> Tensor:
        """Logits of each next token.  Shapes: source int [B, S], target int [B, T] -> [B, T, V]"""
        return ag.linear(self.decode(target, self.encode(source), padding_mask(source)), self.output_matrix)

    @property
    def output_matrix(self) -> Parameter:
        """The weights of the output projection.  Shapes: -> [V, D]"""
        return self.source_embedding.weight if self.config.share_embeddings else self.projection

    def encode(self, source: Array) -> Tensor:
        """Shapes: source int [B, S], padded with PAD -> memory [B, S, D]"""
        x = self._embed(source, self.source_embedding, self.source_positions)
        return self.encoder(x, padding_mask(source))

    def decode(self, target: Array, memory: Tensor, memory_mask: Array) -> Tensor:
        """Shapes: target int [B, T], memory [B, S, D], memory_mask bool [B, 1, 1, S] -> [B, T, D]"""
        x = self._embed(target, self.target_embedding, self.target_positions)
        return self.decoder(x, memory, memory_mask)

    def _embed(self, ids: Array, embedding: Embedding, positions: Positions, start: int = 0) -> Tensor:
        """Dropout(√d_model · embedding + positions).  Shapes: ids int [B, T] -> [B, T, D]"""
        rows = positions.rows(ids.shape[1], start, backend_of([embedding.weight.data]))
        p = self.dropout.p if self.training else 0.0
        return ag.embedding(
            ids, embedding.weight, scale=embedding.scale, positions=rows, p=p, dtype=self.compute_dtype
        )  # fmt: skip

    def start_decoding(self, source: Array) -> DecodingState:
        """Encode `source` and project the decoder's keys and values of it, once for all steps.

        Shapes: source int [B, S] -> a state of B rows
        """
        source = self.backend.asarray(source)
        with no_grad():
            memory = self.encode(source)
            layers = []
            for layer in self.decoder.layers:
                attention = layer.cross_attention
                layers.append(
                    LayerCache(
                        attention.split_heads(attention.key(memory)), attention.split_heads(attention.value(memory))
                    )
                )
        return DecodingState(layers, padding_mask(source))

    def decode_step(self, tokens: Array, state: DecodingState) -> Array:
        """Logits of the token that follows `tokens`, the newest of each row.  Shapes: tokens int [N] -> [N, V]"""
        with no_grad():
            x = self._embed(tokens[:, None], self.target_embedding, self.target_positions, state.length)  # [N, 1, D]
            x = self.decoder.step(x, state)
            state.length += 1
            return ag.linear(x.reshape(x.shape[0], x.shape[2]), self.output_matrix).data


class LayerCache:
    """What one decoder layer keeps between steps: the past of each row, and the source of each sentence."""

    def __init__(self, memory_keys: Tensor, memory_values: Tensor):
        self.past = SelfAttentionCache()
        self.memory_keys = memory_keys  # [B, H, S, K], not repeated for the beams
        self.memory_values = memory_values  # [B, H, S, d_v]


class DecodingState:
    """The caches of all layers.  Rows are beams, grouped by sentence: each of B sentences has N / B of the N rows."""

    def __init__(self, layers: list[LayerCache], memory_mask: Array):
        self.layers = layers
        self.memory_mask = memory_mask  # bool [B, 1, 1, S]
        self.length = 0  # positions decoded so far
        self.sentence = np.arange(len(memory_mask))  # [N], the sentence of each row

    def reorder(self, rows: np.ndarray) -> None:
        """Row i becomes what row rows[i] was: beams move, multiply and go; sentences without rows are dropped.

        Raises: IndexError for a row that is not there; ValueError unless the rows of a sentence stay together, the same
        number for each sentence.
        """
        rows = np.asarray(rows)
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self.sentence)):
            raise IndexError(f"rows must lie in 0 … {len(self.sentence) - 1}, found {rows.min()} … {rows.max()}")
        sentence = self.sentence[rows]
        starts = np.flatnonzero(np.concatenate([[True], sentence[1:] != sentence[:-1]])) if len(rows) else rows
        kept = sentence[starts]
        if len(np.unique(kept)) != len(kept) or len({*np.diff([*starts, len(rows)])}) > 1:
            raise ValueError(f"rows {rows.tolist()} do not give each sentence one group of equal size")
        whole = len(kept) == len(self.memory_mask) and bool((kept == np.arange(len(kept))).all())
        backend = backend_of([self.memory_mask])
        rows_there, kept_there = backend.asarray(rows), backend.asarray(kept)
        for cache in self.layers:
            cache.past.reorder(rows_there)
            if not whole:
                cache.memory_keys = Tensor(cache.memory_keys.data[kept_there])
                cache.memory_values = Tensor(cache.memory_values.data[kept_there])
        if not whole:
            self.memory_mask = self.memory_mask[kept_there]
        self.sentence = np.repeat(np.arange(len(kept)), len(rows) // max(len(kept), 1))
