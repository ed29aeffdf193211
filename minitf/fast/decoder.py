"""The Transformer without gradients: the encoder at once, the decoder position by position, in plain arrays.

`TransformerDecoder` (minitf/decoding/decoder.py) defines what is computed. Here it is computed for a search, which asks
for one position of a few hypotheses at a time, where a call of NumPy may cost as much as the arithmetic in it:

- Keys and values of the source are computed once a sentence; the beams of a sentence are its queries, side by side.
- Keys and values of the past are not copied when beams are reordered (state.py).
- With `same_bits`, results for a sentence do not depend on the others in its batch, to the last bit: every matrix
  product that a sentence takes part in has a shape that depends on the sentence alone, or a fixed one.
- Weights may be `packed` in 8 or 16 bits (autograd/fast/packed.py), and products with them have such factors; the
  result of a row depends on that row alone.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor, no_grad
from autograd.backend import backend_of
from autograd.fast import CpuKernels, cpu_kernels, kernels_of
from autograd.fast.packed import PackedWeights
from autograd.fast.shared import blocks_of
from autograd.safety import last_change, now
from minitf.config.model import BOS
from minitf.decoding import candidates
from minitf.fast.decoder_variants import mixed, showing_weights
from minitf.fast.same_bits import padded, padded_width, rows_computed_alike
from minitf.fast.state import DecodingState, Record
from minitf.fast.threads import Work, in_threads
from minitf.model.layers import Embedding, FeedForward, LayerNorm, Linear, Module
from minitf.model.transformer import MultiHeadAttention, Positions, Residual, Transformer, padding_mask
from minitf.model.variants import ForeignTransformer, LocalAttention, end_for_start

Array = Any

Batches = Callable[..., Iterator[list[int]]]
"""(lengths, most tokens, most sentences, group) -> batches of sentences whose lengths have one value of `group`"""
WORTH_A_THREAD = 8
"""Sentences below which a batch is not divided among threads: a product of fewer rows takes about as long."""
WORTH_SHARING = {"numpy": 50_000_000, "numba": 20_000_000}
"""Multiplications of a batch in a step, by the CPU's kernels, below which batches are not shared out: threads whose
calls take a few microseconds wait for one another's turn with the interpreter, and two are slower than one."""
IN_CACHE = 4_000_000
"""Weights of a step that stay in the cache, so that the compiled search takes as long for a sentence in any batch: the
last batches are divided, for all threads to end at about the same time."""


class InferenceTransformer:
    """A Transformer in evaluation mode for search, on the model's device and in its precision.

    `start_decoding` takes over weights that have changed since it was last called: by an optimizer's step,
    `load_parameters`, `to`, or an array assigned to `Parameter.data`; not by writing into that array.

    same_bits: results do not depend on which sentences are decoded together, to the bit, if these have one
        `padded_width`; at about half the speed in large batches
    packed: matrices, embeddings included, are kept and multiplied in "int8" or "bf16", all else is float32, on a CPU;
        bf16 with compiled kernels alone
    """

    def __init__(self, model: Transformer, *, same_bits: bool = False, packed: str | None = None):
        """Raises: ValueError for `packed` with a model that is not on the CPU in float32, or kernels without it"""
        candidates.top_tokens = top_tokens  # in every search from now on
        self.model: Any = model  # which may be any variant
        self.config, self.same_bits, self.packed = model.config, same_bits, packed
        self.norm_first = self.config.norm == "pre"
        self.has_attention = self.config.mixing in ("self-attention", "restricted")  # in the encoder
        self._parameters, self.plain_backend = model.parameters(), model.backend
        self._load()

    @property
    def source_eos(self) -> bool:
        """Whether sources end with EOS."""
        return self.config.source_eos

    @property
    def masked_tokens(self) -> set[int]:
        """Tokens that the model never produces."""
        return {*self.config.masked_tokens}

    @property
    def weights_of_a_step(self) -> int:
        """The weights that each row of a step is multiplied with."""
        return sum(each.size for each in self.weights.values() if each.of_a_step)

    def compute_batches(
        self,
        work: Work,
        batches_by_length: Batches,
        lengths: Sequence[int],
        max_tokens: int,
        max_sentences: int,
        rows: int,
    ) -> None:
        """Call `work` for batches of all sentences, in several threads where the batches are large.

        rows: hypotheses of a sentence that a step computes at once
        """
        shared = min(max_sentences, max(WORTH_A_THREAD, -(-len(lengths) // (cpu_kernels().threads or 1))))
        threads = _threads(self, shared * rows)
        group = padded_width if self.same_bits else None
        batches = [*batches_by_length(lengths, max_tokens, shared if threads > 1 else max_sentences, group)]
        if threads > 1 and getattr(self, "compiled_search", None) is not None and self.weights_of_a_step <= IN_CACHE:
            batches[-threads:] = [each[s] for each in batches[-threads:] for s in blocks_of(len(each), WORTH_A_THREAD)]
        if min(threads, len(batches)) > 1:
            in_threads(self, work, batches, min(threads, len(batches)))
            return
        for batch in batches:
            work(self, batch)

    def search(self, source: Array, config: Any) -> Any:
        """`beam_search` of minitf/decoding/search.py, compiled; None where it must compute.

        Shapes: source int [B, S], padded with PAD
        """
        self._load_changes()
        return None if self.compiled_search is None else self.compiled_search(source, config)

    def start_decoding(
        self, source: Array, record: Record | None = None, shortlist: Array | None = None
    ) -> DecodingState:
        """Encode `source` and project the decoder's keys and values of it, once for all steps.

        record: the attentions, of the encoder now and of the decoder in each step, whose weights to compute as well
        shortlist: the tokens, ascending, whose logits the steps compute; None: all

        Shapes: source int [B, S], padded with PAD; shortlist int [C] -> a state of B rows
        """
        self._load_changes()
        source = self.backend.asarray(source)
        b = len(source)
        if self.same_bits:
            source = padded(source)
        mask = padding_mask(source)  # [B, 1, 1, S]
        mask = None if bool(mask.all()) else mask
        memory = self._encode(source, mask, record)  # [≥ B · S, D]
        cross = [layer.cross_attention for layer in self.model.decoder.layers]
        keys_values = [  # [B, H, S, …] each, contiguous, as every step reads them
            [*map(self.backend.xp.ascontiguousarray, self._projections(memory, each, b, source.size, each.heads))]
            for each in cross
        ]
        window = self.config.neighbourhood if self.config.mixing == "restricted" else None
        return DecodingState(self.backend, keys_values, mask, record, window, self._output(shortlist))

    def decode_step(self, tokens: Array, state: DecodingState) -> Array:
        """Logits of the token that follows `tokens`, the newest of each row; [R, C] with a shortlist.

        Shapes: tokens int [R] -> [R, V]
        """
        model = self.model
        if len(tokens) != state.rows:
            raise ValueError(f"{len(tokens)} tokens for a state of {state.rows} rows; give one for each")
        x = self._embed(tokens[:, None], "target", state.length)  # [≥ R, D]
        state.begin_step()
        mask = state.mask()
        for index in range(len(model.decoder.layers)):
            x = self._decoder_layer(x, index, state, mask)
        state.end_step()
        x = self._layer_norm(x, model.decoder.norm) if self.norm_first else x
        return self._product(x, state.output)[: len(tokens)]

    # ---- Layers ----

    def _encode(self, source: Array, mask: Array | None, record: Record | None) -> Array:
        """Shapes: source int [B, S], mask bool [B, 1, 1, S] -> memory [≥ B · S, D]"""
        encoder = self.model.encoder
        x = self._embed(source, "source")
        for index, layer in enumerate(encoder.layers):
            residual = layer.self_attention_residual
            y = self._before(x, residual)
            if not self.has_attention:
                y = self._whole(mixed(y, layer.mixing, source.shape, mask, self.backend, one_by_one=self.same_bits))
            else:
                attention = layer.self_attention
                q, k, v = self._projections(y, attention, len(source), source.size, attention.heads)
                y = self._attend(q, k, v, mask, attention, record, ("encoder", index))  # [≥ B · S, H · d_v]
                y = self._linear(y, attention.output)
            x = self._after(x, y, residual)
            x = self._feed_forward(x, layer.feed_forward, layer.feed_forward_residual)
        return self._layer_norm(x, encoder.norm) if self.norm_first else x

    def _decoder_layer(self, x: Array, index: int, state: DecodingState, mask: Array | None) -> Array:
        """Shapes: x [≥ R, D], mask bool [B, 1, n, nodes] -> [≥ R, D]"""
        layer, b, rows = self.model.decoder.layers[index], state.sentences, state.rows
        attention, residual = layer.self_attention, layer.self_attention_residual
        q, k, v = self._projections(self._before(x, residual), attention, b, rows, attention.heads)
        k, v = state.append(index, k, v)
        y = self._attend(q, k, v, mask, attention, state.record, ("decoder", index))  # [≥ R, H · d_v]
        x = self._after(x, self._linear(y, attention.output), residual)

        attention, residual = layer.cross_attention, layer.cross_attention_residual
        (q,) = self._projections(self._before(x, residual), attention.query, b, rows, attention.heads)
        y = self._attend(q, *state.memory(index), attention, state.record, ("cross", index))
        x = self._after(x, self._linear(y, attention.output), residual)
        return self._feed_forward(x, layer.feed_forward, layer.feed_forward_residual)

    def _feed_forward(self, x: Array, feed_forward: FeedForward, residual: Residual) -> Array:
        """Shapes: x [R, D] -> [R, D]"""
        is_relu = feed_forward.activation is ag.relu
        hidden = self._linear(self._before(x, residual), feed_forward.up, relu=is_relu)  # [R, F]
        if not is_relu:
            with no_grad():
                hidden = feed_forward.activation(Tensor(hidden)).data
        return self._after(x, self._linear(hidden, feed_forward.down), residual)

    # ---- Parts of layers ----

    def _embed(self, tokens: Array, side: str, start: int = 0) -> Array:
        """Scaled embeddings + positions, normalised in some models, and rows of zeros up to whole products.

        Shapes: tokens int [B, T] -> [≥ B · T, D]
        """
        embedding: Embedding = getattr(self.model, f"{side}_embedding")
        positions: Positions = getattr(self.model, f"{side}_positions")
        norm = getattr(self.model, f"{side}_embedding_norm") if self.config.embedding_norm else None
        starts_with = self.config.decoder_start if side == "target" else "bos"
        if starts_with != "bos" and not (tokens == BOS).any():
            starts_with = "bos"
        if starts_with == "eos":
            tokens = end_for_start(tokens)
        tokens = self.backend.asarray(tokens)
        rows = positions.rows(tokens.shape[1], start, self.backend)
        rows = rows.data if isinstance(rows, Tensor) else rows
        table, indices = embedding.weight.data, tokens
        if self.packed:  # the rows that are read, in their order
            table = self.tables[id(embedding.weight)].rows(tokens.reshape(-1))
            indices = np.arange(tokens.size).reshape(tokens.shape)
        x = self.backend.embedding(table, indices, rows, embedding.scale, None, 1.0, self.dtype)
        if starts_with == "zero":
            x = self.backend.xp.where((tokens == BOS)[:, :, None], rows.astype(x.dtype, copy=False), x)
        x = x.reshape(tokens.size, x.shape[-1])
        return self._whole(x if norm is None else self._layer_norm(x, norm))

    def _before(self, x: Array, residual: Residual) -> Array:
        """Return the input of the sub-layer inside a residual connection."""
        return self._layer_norm(x, residual.norm) if self.norm_first else x

    def _after(self, x: Array, y: Array, residual: Residual) -> Array:
        """Return the residual connection around a sub-layer that made y (overwritten) of x."""
        if self.norm_first:
            y += x
            return y
        norm = residual.norm
        return self.backend.dropout_add_layer_norm(y, x, None, 1.0, norm.weight.data, norm.bias.data, norm.eps)[0]

    def _layer_norm(self, x: Array, norm: LayerNorm) -> Array:
        return self.backend.layer_norm(x, norm.weight.data, norm.bias.data, norm.eps)[0]

    def _linear(self, x: Array, module: Module, relu: bool = False) -> Array:
        """Return the product with the weights of a module in `self.weights`.  Shapes: x [R, in] -> [R, out]"""
        return self._product(x, self.weights[module], relu)

    def _product(self, x: Array, weights: _Weights, relu: bool = False) -> Array:
        """Shapes: x [R, in] -> [R, out]"""
        if isinstance(self.backend, CpuKernels) and weights.packed is not None:
            return self.backend.linear_packed(x, weights.packed, relu)
        rows = self.rows_at_a_time or len(x)
        few = self.backend.contiguous_below if rows > 1 else 0
        many = weights.of_a_step and (rows >= self.backend.contiguous_from or len(weights.w) < few)
        w = weights.contiguous if many else weights.w
        return self.backend.linear_of_few(x, w, weights.bias, relu, self.rows_at_a_time, weights.dtype)

    def _projections(self, x: Array, module: Module, b: int, rows: int, heads: int) -> list[Array]:
        """Queries, keys or values of the first rows of x, by sentence and head, as many as the module's product has.

        Shapes: x [≥ rows, D] -> [B, H, rows / B, K] each
        """
        y = self._linear(x, module)[:rows]
        n = rows // b
        return [y[:, part].reshape(b, n, heads, -1).swapaxes(1, 2) for part in self.weights[module].columns]

    def _attend(
        self,
        q: Array,
        k: Array,
        v: Array,
        mask: Array | None,
        attention: MultiHeadAttention,
        record: Record | None,
        place: tuple[str, int],
    ) -> Array:
        """Attention, heads joined, and rows of zeros up to whole products.

        Shapes: q [B, H, n, K], k [B, H, S, K], v [B, H, S, d_v], mask bool broadcastable to [B, H, n, S]
                -> [≥ B · n, H · d_v]
        """
        if record is not None and place in record:
            record[place](self.backend.to_host(self._heads(*showing_weights(q, k), mask, attention, place)))
        y = self._heads(q, k, v, mask, attention, place)
        b, h, n, width = y.shape
        return self._whole(y.swapaxes(1, 2).reshape(b * n, h * width))

    def _heads(
        self, q: Array, k: Array, v: Array, mask: Array | None, attention: MultiHeadAttention, place: tuple[str, int]
    ) -> Array:
        """Attention of the kind that the model has; a neighbourhood in the decoder is what its cache keeps.

        Shapes: as `_attend` -> [B, H, n, d_v]
        """
        is_local = isinstance(attention, LocalAttention) and place[0] == "encoder"
        if self.config.attention != "additive" and not is_local:
            return self.backend.attention(q, k, v, mask, None, 1.0, self.scale)[0]
        with no_grad():
            return attention.attend(Tensor(q), Tensor(k), Tensor(v), mask).data

    def _whole(self, x: Array) -> Array:
        """x with rows of zeros up to a multiple of `rows_at_a_time`."""
        missing = -len(x) % (self.rows_at_a_time or 1)
        if not missing:
            return x
        whole = self.backend.xp.zeros((len(x) + missing, x.shape[1]), x.dtype)
        whole[: len(x)] = x
        return whole

    @property
    def scale(self) -> float:
        """The factor on dot products of queries and keys."""
        return 1.0 if self.config.attention == "dot-product" else 1 / math.sqrt(self.config.head_d_k)

    # ---- Weights ----

    def _load_changes(self) -> None:
        if any(p.data is not data or last_change(data) > since for p, data, since in self._loaded):
            self._load()

    def _load(self) -> None:
        """Take over the model's weights as they are now."""
        model = self.model
        self._loaded = [(p, p.data, now()) for p in self._parameters]
        self.backend = kernels_of([model.output_matrix.data])
        self.dtype = np.dtype(getattr(model, "compute_dtype", None) or model.output_matrix.dtype)
        output = model.output_matrix.data.astype(self.dtype, copy=False)
        bias = None
        if isinstance(model, ForeignTransformer):
            with no_grad():
                bias = model.logit_bias()
        if self.packed:
            if not isinstance(self.backend, CpuKernels) or self.dtype != np.float32:
                raise ValueError(f"{self.packed} needs a model in float32 on the CPU, not one in {self.dtype.name}")
            self._pack = self.backend.packed_weights(self.packed).of
            self.matrices = [model.source_embedding.weight, model.target_embedding.weight, model.output_matrix]
            self.tables = {key: self._pack(p.data) for key, p in {id(p): p for p in self.matrices}.items()}
        packed = self.tables[id(model.output_matrix)] if self.packed else None
        of_logits = _Weights(
            output, None if bias is None else bias.data, packed=packed, dtype=model.output_matrix.dtype
        )
        weights: dict[Module, _Weights] = {model: of_logits}
        stacks = (model.encoder.layers, False), (model.decoder.layers, True)
        for layer, of_a_step in ((layer, of_a_step) for layers, of_a_step in stacks for layer in layers):
            linears = [layer.feed_forward.up, layer.feed_forward.down]
            if not (of_a_step or self.has_attention):
                weights |= {linear: self._joined(linear, of_a_step=False) for linear in linears}
                continue
            attention = layer.self_attention
            weights[attention] = self._joined(attention.query, attention.key, attention.value, of_a_step=of_a_step)
            for linear in (attention.output, *linears):
                weights[linear] = self._joined(linear, of_a_step=of_a_step)
        for cross in (layer.cross_attention for layer in model.decoder.layers):
            weights[cross] = self._joined(cross.key, cross.value, of_a_step=False)
            weights[cross.query], weights[cross.output] = self._joined(cross.query), self._joined(cross.output)
        self.weights = weights
        vars(self).pop("compiled_search", None)
        self.rows_at_a_time = None
        if self.same_bits:
            self.rows_at_a_time = 1 if self.packed else rows_computed_alike(self)

    def release_weights(self) -> None:
        """Give back the memory of the model's matrices that are packed; for the model, they are NaN."""
        for parameter in self.matrices:
            parameter.data = np.broadcast_to(np.float32(np.nan), parameter.shape)
        self._loaded = [(p, p.data, now()) for p in self._parameters]
        _ = self.compiled_search  # which copies the packed weights: what it frees is free now, and not in a search

    @cached_property
    def compiled_search(self) -> Any:
        """The search of this model as one compiled function; None for models that it does not compute."""
        if getattr(self.backend, "kernels", None) != "numba":
            return None
        from autograd.fast.compiled_int8 import LANES
        from minitf.fast.search import CompiledSearch, computes

        if self.packed == "int8" and not LANES:
            return None
        return CompiledSearch(self) if computes(self.model, self.weights_of_a_step) else None

    def _output(self, shortlist: Array | None) -> _Weights:
        """Return the product that computes the logits of the tokens of a shortlist, or of all."""
        whole = self.weights[self.model]
        if shortlist is None or len(shortlist) == self.config.vocab_size:
            return whole
        rows = self.backend.asarray(shortlist)
        if whole.packed is not None:
            return _Weights(None, None, packed=whole.packed.take(rows))
        return _Weights(whole.w.T[rows], None if whole.bias is None else whole.bias[rows], dtype=whole.dtype)

    def _joined(self, *linears: Linear, of_a_step: bool = True) -> _Weights:
        """Return the weights of several projections side by side, for one product."""
        weight = self.backend.stacked([linear.weight.data for linear in linears]).astype(self.dtype, copy=False)
        biases = [linear.bias.data for linear in linears if linear.bias is not None]
        ends = np.cumsum([linear.weight.shape[0] for linear in linears]).tolist()
        bias = self.backend.stacked(biases) if biases else None
        packed = self._pack(weight, bias) if self.packed else None
        if self.packed:
            self.matrices += [linear.weight for linear in linears]
        return _Weights(weight, bias, of_a_step, ends, packed=packed)


class _Weights:
    """The weights w [in, out] and the bias of a product, which may compute several projections.

    packed: the weights and the bias in 8 or 16 bits; there is no w then

    of_a_step: each step of the decoder computes the product
    ends: the end of each projection's columns
    dtype: type of the result; None: that of the inputs. Logits are not rounded to bfloat16
    """

    def __init__(
        self,
        weight: Array,
        bias: Array | None = None,
        of_a_step: bool = True,
        ends: Sequence[int] = (),
        dtype: Any = None,
        packed: PackedWeights | None = None,
    ):
        self.bias, self.of_a_step, self.dtype, self.packed = bias, of_a_step, dtype, packed
        if packed is None:
            self.w = weight.T
        elif bias is not None:
            packed.bias[: packed.shape[0]] = bias
        self.size = weight.size if packed is None else packed.size
        self.columns = [slice(start, end) for start, end in itertools.pairwise([0, *ends])]

    @cached_property
    def contiguous(self) -> Array:
        """A contiguous copy of w, made when it is first faster."""
        return backend_of([self.w]).xp.ascontiguousarray(self.w)


def _threads(decoder: Any, rows: int) -> int:
    """Return the number of batches of `rows` hypotheses to compute at once: several large ones on a CPU."""
    kernels = cpu_kernels()
    if decoder.backend is not kernels:
        return 1
    if getattr(decoder, "compiled_search", None) is not None:
        return kernels.threads or 1
    return (kernels.threads or 1) if rows * decoder.weights_of_a_step >= WORTH_SHARING[kernels.kernels] else 1


def top_tokens(logits: Array, barred: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """`top_tokens` of minitf/decoding/candidates.py, by a kernel that does not sort whole rows."""
    kernels = kernels_of([logits])
    return kernels.top_tokens(logits, kernels.asarray(barred), count)
