"""The Transformer without gradients: the encoder at once, the decoder position by position, in plain arrays.

transformer.py says what is computed. Here it is computed for a search, which asks for one position at a time of a few
hypotheses, where a call of NumPy may cost as much as the arithmetic in it:

- The source's keys and values are kept once a sentence; the beams of a sentence are its queries, side by side.
- Beams share their past. A step appends a key and a value for each beam, a node of the sentence's tree. Nodes never
  move: a beam attends to its ancestors among them, and when beams move, only the lists of ancestors do.
- `same_bits` makes what becomes of a sentence independent of its company, to the last bit: every product of matrices
  that a sentence takes part in has a shape that depends on nothing but the sentence, or a fixed one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

import autograd as ag
from autograd import Tensor, no_grad
from autograd.backend import Backend, backend_of
from minitf.config.special_tokens import PAD

if TYPE_CHECKING:
    from minitf.model.attention import MultiHeadAttention
    from minitf.model.layers import FeedForward, LayerNorm, Linear
    from minitf.model.transformer import DecoderLayer, EncoderLayer, Positions, Residual, Transformer

Array = Any

WIDTH_STEP = 8
"""With `same_bits`, sources are padded to a multiple of this; those of one width are computed alike."""
FIRST_POSITIONS = 16
"""Positions that the caches have room for at first; they double when full."""


def padded_width(length: int) -> int:
    """The width to which a source of `length` tokens is padded."""
    return -(-length // WIDTH_STEP) * WIDTH_STEP


class InferenceTransformer:
    """What a search needs of a Transformer in evaluation mode. Weights that change later are not all seen: make anew.

    same_bits: results do not depend on which sentences are decoded together, to the bit, if these have one
        `padded_width`; at about half the speed in large batches
    """

    def __init__(self, model: Transformer, *, same_bits: bool = False):
        self.model = model
        self.backend: Backend = backend_of([model.output_matrix.data])
        self.dtype = model.output_matrix.data.dtype
        self.decoder_layers = [_JoinedLayer(layer) for layer in model.decoder.layers]
        self.rows_at_a_time = self._rows_computed_alike() if same_bits else None
        self.turned: dict[int, tuple[Array, Array]] = {}  # by id: weights [out, in] and the same as [in, out]
        if (self.rows_at_a_time or math.inf) >= self.backend.few_rows:
            for weight in self._weights_of_a_step():
                self.turned[id(weight)] = weight, np.ascontiguousarray(weight.T)

    @staticmethod
    def takes(model: Transformer) -> bool:
        """Is the model of a kind, and in a place, that this can compute? Others decode by themselves."""
        return isinstance(model.output_matrix.data, np.ndarray) and model.compute_dtype is None

    def start_decoding(self, source: Array) -> DecodingState:
        """Encode `source` and project the decoder's keys and values of it, once for all steps.

        Shapes: source int [B, S], padded with PAD -> a state of B rows
        """
        b, s = source.shape
        if self.rows_at_a_time:
            source = np.pad(source, ((0, 0), (0, padded_width(s) - s)), constant_values=PAD)
        allowed = (source != PAD)[:, None, None, :]  # [B, 1, 1, S]
        bias = np.where(allowed, self.dtype.type(0), self.dtype.type(-np.inf))
        memory = self._encode(source, bias)  # [≥ B · S, D]
        keys, values = [], []
        for layer in self.model.decoder.layers:
            attention = layer.cross_attention
            keys.append(self._heads(memory, attention.key, b, attention.heads, source.size))  # [B, H, S, K]
            values.append(self._heads(memory, attention.value, b, attention.heads, source.size))  # [B, H, S, d_v]
        return DecodingState(keys, values, bias)

    def decode_step(self, tokens: Array, state: DecodingState) -> Array:
        """Logits of the token that follows `tokens`, the newest of each row.  Shapes: tokens int [R] -> [R, V]"""
        model = self.model
        if len(tokens) != state.rows:
            raise ValueError(f"{len(tokens)} tokens for a state of {state.rows} rows; give one for each")
        x = self._embed(tokens, model.target_embedding)  # [≥ R, D]
        x += self._positions(model.target_positions, 1, state.length)
        state.begin_step(self.dtype)
        for index, layer in enumerate(self.decoder_layers):
            x = self._decoder_layer(x, layer, state, index)
        state.end_step()
        x = x if model.decoder.norm is None else self._layer_norm(x, model.decoder.norm)
        return self._product(x, model.output_matrix.data)[: len(tokens)]

    # ---- Layers ----

    def _encode(self, source: Array, bias: Array) -> Array:
        """Shapes: source int [B, S], bias [B, 1, 1, S] -> memory [≥ B · S, D]"""
        b, s = source.shape
        x = self._embed(source.reshape(-1), self.model.source_embedding)
        x[: b * s].reshape(b, s, -1)[...] += self._positions(self.model.source_positions, s)
        for layer in self.model.encoder.layers:
            x = self._encoder_layer(x, layer, bias)
        return x if self.model.encoder.norm is None else self._layer_norm(x, self.model.encoder.norm)

    def _encoder_layer(self, x: Array, layer: EncoderLayer, bias: Array) -> Array:
        attention = layer.self_attention

        def attend(y: Array) -> Array:
            b, s = len(bias), bias.shape[3]
            parts = (attention.query, attention.key, attention.value)
            q, k, v = (self._heads(y, part, b, attention.heads, b * s) for part in parts)
            return self._mix(_attention(q, k, bias), v, len(y))

        x = self._sublayer(x, layer.self_attention_residual, attend, attention.output)
        return self._feed_forward(x, layer.feed_forward, layer.feed_forward_residual)

    def _decoder_layer(self, x: Array, joined: _JoinedLayer, state: DecodingState, index: int) -> Array:
        layer = joined.layer

        def attend_back(y: Array) -> Array:
            q, keys, values = joined.project(self._product(y, joined.weight)[: state.rows], state, index)
            return self._mix(_attention(q, keys, state.ancestor_bias), values, len(y))

        def attend_source(y: Array) -> Array:
            attention = layer.cross_attention
            q = self._heads(y, attention.query, state.sentences, attention.heads, state.rows)
            keys, values, bias = state.memory(index)
            p = _attention(q, keys, bias)  # [B, H, n, S]
            if index == state.watched_layer:
                state.source_attention = p.mean(axis=1).reshape(state.rows, -1)
            return self._mix(p, values, len(y))

        x = self._sublayer(x, layer.self_attention_residual, attend_back, layer.self_attention.output)
        x = self._sublayer(x, layer.cross_attention_residual, attend_source, layer.cross_attention.output)
        return self._feed_forward(x, layer.feed_forward, layer.feed_forward_residual)

    def _feed_forward(self, x: Array, feed_forward: FeedForward, residual: Residual) -> Array:
        def inner(y: Array) -> Array:
            hidden = self._linear(y, feed_forward.up)  # [R, F]
            if feed_forward.activation is ag.relu:
                return np.maximum(hidden, 0, out=hidden)
            with no_grad():
                return feed_forward.activation(Tensor(hidden)).data

        return self._sublayer(x, residual, inner, feed_forward.down)

    def _sublayer(self, x: Array, residual: Residual, inner: Callable[[Array], Array], last: Linear) -> Array:
        """`Residual` around inner, then last.  Shapes: x [R, D] -> [R, D]"""
        y = self._linear(inner(self._layer_norm(x, residual.norm) if residual.norm_first else x), last)
        y += x
        return y if residual.norm_first else self._layer_norm(y, residual.norm)

    def _layer_norm(self, x: Array, norm: LayerNorm) -> Array:
        return self.backend.layer_norm(x, norm.weight.data, norm.bias.data, norm.eps)[0]

    # ---- Parts of layers ----

    def _positions(self, positions: Positions, length: int, start: int = 0) -> Array:
        rows = positions.rows(length, start, self.backend)
        return rows.data if isinstance(rows, Tensor) else rows

    def _embed(self, tokens: Array, embedding: Any) -> Array:
        """Scaled embeddings, and rows of zeros up to whole calls.  Shapes: tokens int [R] -> [≥ R, D]"""
        step = self.rows_at_a_time or 1
        x = np.zeros((-(-len(tokens) // step) * step, embedding.weight.shape[1]), self.dtype)
        np.multiply(embedding.weight.data[tokens], embedding.scale, out=x[: len(tokens)])
        return x

    def _product(self, x: Array, weight: Array) -> Array:
        """Shapes: x [R, in], weight [out, in] -> [R, out]"""
        w = weight.T
        if (self.rows_at_a_time or len(x)) >= self.backend.few_rows and id(weight) in self.turned:
            _, w = self.turned[id(weight)]
        return self.backend.product_of_few(x, w, self.rows_at_a_time)

    def _linear(self, x: Array, linear: Linear) -> Array:
        y = self._product(x, linear.weight.data)
        if linear.bias is not None:
            y += linear.bias.data
        return y

    def _heads(self, x: Array, linear: Linear, b: int, heads: int, rows: int) -> Array:
        """A projection of the first rows by sentence and head.  Shapes: x [≥ rows, D] -> [B, H, rows / B, K]"""
        return _by_head(self._linear(x, linear)[:rows], b, heads)

    @staticmethod
    def _mix(p: Array, values: Array, rows: int) -> Array:
        """The mean of the values by each head's weights, heads joined, and rows of zeros up to whole calls.

        Shapes: p [B, H, n, S], values [B, H, S, d_v] -> [rows, H · d_v], rows ≥ B · n
        """
        b, h, n, _ = p.shape
        y = np.zeros((rows, h * values.shape[3]), p.dtype)
        np.matmul(p, values, out=_by_head(y[: b * n], b, h))  # [B, H, n, d_v]
        return y

    def _rows_computed_alike(self) -> int:
        """How many equal rows every product gives equal results, as tried with all weights; one always does."""
        model = self.model
        weights = [p.data.T for p in model.parameters() if p.ndim == 2]
        weights += [layer.weight.T for layer in self.decoder_layers]
        rng = np.random.default_rng(0)
        for rows in (8, 4, 2):
            x = {w.shape[0]: rng.standard_normal((1, w.shape[0])).astype(self.dtype).repeat(rows, 0) for w in weights}
            results = (self.backend.product_of_few(x[w.shape[0]], w, rows) for w in weights)
            if all((y == y[:1]).all() for y in results):
                return rows
        return 1

    def _weights_of_a_step(self) -> list[Array]:
        """The weights of every step of the decoder, each [out, in]."""
        linears = [
            linear
            for layer in self.model.decoder.layers
            for linear in (
                layer.self_attention.output,
                layer.cross_attention.query,
                layer.cross_attention.output,
                layer.feed_forward.up,
                layer.feed_forward.down,
            )
        ]
        joined = [layer.weight for layer in self.decoder_layers]
        return [self.model.output_matrix.data, *joined, *(linear.weight.data for linear in linears)]


def _by_head(x: Array, b: int, heads: int) -> Array:
    """Shapes: x [B · n, H · K] -> [B, H, n, K], a view"""
    return x.reshape(b, len(x) // b, heads, x.shape[1] // heads).swapaxes(1, 2)


def _attention(q: Array, keys: Array, bias: Array | None) -> Array:
    """softmax(q keysᵀ / √K + bias); a query that may attend to nothing attends to nothing.

    Shapes: q [B, H, n, K], keys [B, H, S, K], bias broadcastable to [B, H, n, S] -> [B, H, n, S]
    """
    p = np.matmul(q, keys.swapaxes(-1, -2))
    p *= 1 / math.sqrt(q.shape[3])
    limits = np.finfo(p.dtype)
    if bias is not None:
        p += bias
    p -= np.maximum(p.max(axis=-1, keepdims=True), limits.min)  # -inf - (-inf) would be NaN
    np.exp(p, out=p)
    p /= np.maximum(p.sum(axis=-1, keepdims=True), limits.tiny)
    return p


class _JoinedLayer:
    """A decoder layer whose self-attention projects query, key and value in one product."""

    def __init__(self, layer: DecoderLayer):
        self.layer = layer
        attention: MultiHeadAttention = layer.self_attention
        parts = (attention.query, attention.key, attention.value)
        self.weight = np.concatenate([part.weight.data for part in parts])  # [H · (2 K + d_v), D]
        self.bias = np.concatenate([part.bias.data for part in parts if part.bias is not None] or [np.zeros(0)])
        self.heads = attention.heads
        self.ends = len(attention.query.weight.data), 2 * len(attention.query.weight.data)

    def project(self, y: Array, state: DecodingState, index: int) -> tuple[Array, Array, Array]:
        """The queries, and the keys and values of all nodes, this step's with them.

        Shapes: y [B · n, H · (2 K + d_v)] -> q [B, H, n, K], keys [B, H, nodes, K], values [B, H, nodes, d_v]
        """
        if len(self.bias):
            y += self.bias
        q_end, k_end = self.ends
        parts = (y[:, :q_end], y[:, q_end:k_end], y[:, k_end:])
        q, k, v = (_by_head(part, state.sentences, self.heads) for part in parts)
        return q, state.append(state.keys, index, k), state.append(state.values, index, v)


class DecodingState:
    """What the decoder remembers of the hypotheses so far, a row each: `beams` rows for each of `sentences` sentences.

    Arrays have room for the sentences of the start; those still searched are the first.
    """

    def __init__(self, memory_keys: list[Array], memory_values: list[Array], memory_bias: Array):
        layers = len(memory_keys)
        self.sentences, self.beams = len(memory_bias), 1
        self.length = 0  # positions decoded so far
        self.node_count = 0  # keys and values that each sentence has of them
        self.memory_keys, self.memory_values = memory_keys, memory_values  # a layer: [B, H, S, K], [B, H, S, d_v]
        self.memory_bias = memory_bias  # [B, 1, 1, S]: 0 for a token, -inf for padding
        self.keys: list[Array | None] = [None] * layers  # a layer: [B, H, room, K]
        self.values: list[Array | None] = [None] * layers  # a layer: [B, H, room, d_v]
        self.ancestors = np.zeros((self.sentences, 1, 0))  # [B, n, room]: 0 for an ancestor (and oneself), else -inf
        self.branched = False  # until then, every node is an ancestor
        self.watched_layer: int | None = None  # in which the attention to the source is to be kept
        self.source_attention: Array | None = None  # of the last step, the mean of all heads, [B · n, S]

    @property
    def rows(self) -> int:
        """Hypotheses: sentences × beams."""
        return self.sentences * self.beams

    @property
    def ancestor_bias(self) -> Array | None:
        """Who may attend to which node in this step; None: all to all.  Shapes: -> [B, 1, n, nodes]"""
        if not self.branched:
            return None
        return self.ancestors[:, None, :, : self.node_count + self.beams]

    def memory(self, index: int) -> tuple[Array, Array, Array]:
        """Keys, values and bias of the source, in one layer."""
        b = self.sentences
        return self.memory_keys[index][:b], self.memory_values[index][:b], self.memory_bias[:b]

    def begin_step(self, dtype: Any) -> None:
        """Make a node for each row: its own ancestor, and nobody else's yet."""
        self.branched |= self.beams > 1
        end = self.node_count + self.beams
        if end > self.ancestors.shape[2]:
            room = max(2 * self.node_count, FIRST_POSITIONS * self.beams)
            grown = np.zeros((self.sentences, self.beams, room), dtype)
            grown[:, :, : self.node_count] = self.ancestors[:, :, : self.node_count]
            self.ancestors = grown
        new = self.ancestors[:, :, self.node_count : end]  # [B, n, n]
        new[...] = -np.inf
        new[:, np.arange(self.beams), np.arange(self.beams)] = 0

    def end_step(self) -> None:
        """The nodes of this step have their keys and values in every layer."""
        self.node_count += self.beams
        self.length += 1

    def append(self, caches: list[Array | None], index: int, new: Array) -> Array:
        """The keys (or values) of all nodes of a layer, those of this step behind the others.

        Shapes: new [B, H, n, K] -> [B, H, nodes, K], a view
        """
        cache, room, end = caches[index], self.ancestors.shape[2], self.node_count + self.beams
        if cache is None or cache.shape[2] < room:
            grown = np.empty((*new.shape[:2], room, new.shape[3]), new.dtype)
            if cache is not None:
                grown[:, :, : self.node_count] = cache[: self.sentences, :, : self.node_count]
            caches[index] = cache = grown
        cache[: self.sentences, :, self.node_count : end] = new
        return cache[: self.sentences, :, :end]

    def reorder(self, rows: Array) -> None:
        """Row i becomes what row rows[i] was: beams move, multiply and go; sentences without rows are dropped.

        Raises: IndexError for a row that is not there; ValueError unless the rows of a sentence stay together, the same
        number for each sentence.
        """
        rows = np.asarray(rows)
        kept = self._sentences_of(rows)
        n = len(rows) // max(len(kept), 1)
        room = self.ancestors.shape[2]
        self.ancestors = self.ancestors.reshape(self.rows, room)[rows].reshape(len(kept), n, room)
        self._keep(kept)
        self.sentences, self.beams = len(kept), n

    def _sentences_of(self, rows: Array) -> Array:
        """The sentence of each group of rows."""
        if not len(rows):
            return rows.astype(int)
        if rows.min() < 0 or rows.max() >= self.rows:
            raise IndexError(f"rows must lie in 0 … {self.rows - 1}, found {rows.min()} … {rows.max()}")
        sentence = rows // self.beams
        groups = 1 + int(np.count_nonzero(sentence[1:] != sentence[:-1]))
        grouped = sentence.reshape(groups, -1) if len(rows) % groups == 0 else sentence[:, None]
        kept = grouped[:, 0]
        if len(grouped) != groups or (grouped != kept[:, None]).any() or len({*kept.tolist()}) < groups:
            raise ValueError(f"rows {rows.tolist()} do not give each sentence one group of equal size")
        return kept

    def _keep(self, kept: Array) -> None:
        """Sentence i becomes what sentence kept[i] was."""
        moved = np.flatnonzero(kept != np.arange(len(kept)))
        if not len(moved):
            return
        caches = [self.memory_keys, self.memory_values, self.keys, self.values]
        if kept[moved].min() >= len(kept):  # the last sentences fill the holes: nothing is read after it was written
            for each in [self.memory_bias, *(array for cache in caches for array in cache)]:
                if each is not None:
                    each[moved] = each[kept[moved]]
            return
        self.memory_bias = self.memory_bias[kept]
        for cache in caches:
            cache[:] = [None if array is None else array[kept] for array in cache]
