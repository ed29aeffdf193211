"""The compiled search (compiled_search.py) of a model: its weights in the order of the tiles, and its results."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import numpy as np

import autograd as ag
from autograd import Tensor
from autograd.backend import CPU
from autograd.fast.compiled_int8 import PARTS
from autograd.fast.int8 import OUTPUTS
from minitf.config.model import PAD
from minitf.decoding.search import NEVER, BeamSearchConfig, Hypothesis, length_penalty, max_lengths
from minitf.fast import compiled_search as compiled
from minitf.model.transformer import Residual

Array = Any
f4 = np.float32

ACTIVATIONS = {ag.relu: compiled.RELU, ag.silu: compiled.SILU}
FIRST_POSITIONS = 16
"""Output tokens for whose keys and values there is room at first; the room doubles when it is full."""
MOST_WEIGHTS = 64_000_000
"""Weights of a step up to which it is tried, on one thread for each batch; base has 44 million, big 140 million."""
ALIGNMENT = 16
"""Words in a cache line, in which every product's weights begin."""


def search_of(decoder: Any) -> CompiledSearch | None:
    """Return the compiled search of an `InferenceTransformer`; None for a model that is large, or that it lacks."""
    config, parts = decoder.config, decoder.parts
    activations = {layer.feed_forward.activation for layer in (*parts.encoder.layers, *parts.decoder.layers)}
    if (
        decoder.weights_of_a_step > MOST_WEIGHTS
        or parts.dtype != f4
        or config.decoder_start != "bos"
        or config.embedding_norm
        or not activations <= ACTIVATIONS.keys()
    ):
        return None
    return CompiledSearch(decoder)


class CompiledSearch:
    """The search of an `InferenceTransformer` whose weights stay as they are."""

    def __init__(self, decoder: Any):
        self.parts, self.model, config = decoder.parts, decoder.model, decoder.config
        layers = self.parts.decoder.layers
        self.shape = config.heads, config.head_d_k, config.head_d_v, f4(layers[0].self_attention.scale)
        self.settings = (
            config.norm == "pre", ACTIVATIONS[layers[0].feed_forward.activation], f4(config.norm_epsilon),
            config.d_model, (len(self.parts.encoder.layers), len(layers)),
        )  # fmt: skip
        self.weights = laid_out([*_pieces(self.parts)])
        self.widths = self.weights[0][compiled.DECODER, :, 0, compiled.OUT].tolist()  # of the outputs of products

    def __call__(self, source: Array, config: BeamSearchConfig) -> list[list[Hypothesis]] | None:
        """`beam_search`; None where it must compute, or raise an error.

        Shapes: source int [B, S], padded with PAD
        """
        vocabulary, limits = self.model.config.vocab_size, max_lengths(source, config)
        barred = np.zeros(vocabulary, bool)
        barred[list(NEVER)] = True
        if config.candidates > vocabulary - np.count_nonzero(barred):
            return None
        b, longest, rows = len(source), int(limits.max()), len(source) * config.beam
        sentence, position = np.nonzero(source != PAD)  # of each token
        lengths = np.bincount(sentence)
        ends = np.cumsum(lengths)
        tokens = np.zeros((len(sentence), 8), np.int64)
        tokens[:, compiled.TOKEN], tokens[:, compiled.POSITION] = source[sentence, position], position
        tokens[:, compiled.OWN + 1], tokens[:, compiled.OWN + 2] = (ends - lengths)[sentence], ends[sentence]
        own = np.empty((1, len(tokens), self.widths[compiled.INWARD]), f4)
        spans = np.stack([limits, ends - lengths, ends, np.full(b, config.max_ended)], axis=1)
        embeddings = self._embedding("source", source.shape[1]), self._embedding("target", longest)
        hypotheses = np.zeros((2, 2, rows, longest + 1), np.int64), np.zeros((2, rows)), np.zeros((rows, 8), np.int64)
        count, n, depth = config.candidates, config.n_best, self.settings[4][1]
        found: Any = np.zeros(b, np.int64), np.empty((b, n, longest), np.int64), np.empty((b, n), np.int64)
        found = *found, np.empty((b, n, 2))
        finished, progress, sentences = np.zeros(b, bool), np.array([0, 0, b, 0]), np.arange(b)
        sources = np.empty((depth, len(tokens), self.widths[compiled.MEMORY]), f4)
        nodes = np.empty((depth, FIRST_POSITIONS * rows, self.widths[compiled.INWARD]), f4)
        work = self._work(max(len(tokens), rows), max(longest, len(tokens)) + 1, rows)
        model = self.weights
        if len(model) == 3:
            groups = -(-int(model[0][..., compiled.INPUTS].max()) // 4)
            model = *model, np.empty((len(work[0]), PARTS * groups), np.int32), np.empty(len(work[0]), f4)
        penalties = _penalties(2 ** longest.bit_length(), config.alpha, config.beta)
        while True:
            status = compiled.search(
                (tokens, own), np.arange(len(tokens))[None], model, embeddings, self.shape, self.settings,
                spans, penalties, barred, progress, sentences, hypotheses, sources, nodes, work,
                np.empty((1, compiled.PART), f4), (np.empty((2, count), np.int64), np.empty(count)), found, finished,
            )  # fmt: skip
            if status != compiled.FULL:
                return _hypotheses(finished, *found) if status == compiled.DONE else None
            nodes = np.concatenate([nodes, np.empty_like(nodes)], axis=1)

    def _work(self, rows: int, places: int, rows_of_logits: int) -> tuple[Array, ...]:
        """Return the arrays that the layers work in, and one for logits."""
        out = self.widths
        width, heads = _padded(self.model.config.d_model), _padded(self.shape[0] * self.shape[2])
        arrays = [np.empty((rows, n), f4) for n in (width, width, width, out[compiled.UP], heads, out[compiled.QUERY])]
        ones = np.ones((1, max(width, compiled.PART)), f4)
        return *arrays, np.empty(places, f4), ones, np.empty((rows_of_logits, out[compiled.LOGITS]), f4)

    def _embedding(self, side: str, length: int) -> tuple[Any, Array, Any]:
        """Return the embeddings of the source or the target, encodings of positions, and the factor on embeddings."""
        embedding = getattr(self.model, f"{side}_embedding")
        rows = getattr(self.model, f"{side}_positions").rows(length, 0, CPU)
        table = getattr(self.parts, f"{side}_embedding").table
        table = embedding.weight.data if table is None else (table.groups, table.factors)
        return table, rows.data if isinstance(rows, Tensor) else rows, f4(embedding.scale)


@functools.lru_cache
def _penalties(count: int, alpha: float, beta: float) -> Array:
    """Return the length penalties of 0 … count - 1."""
    return np.array([length_penalty(n, alpha, beta) for n in range(count)])


def _padded(width: int) -> int:
    return -(-width // OUTPUTS) * OUTPUTS


# ---- Weights ----

Piece = tuple[tuple[Any, ...], Any]
"""Stack, product and layer; a `Product` of array_layers.py, or the weights and biases of norms"""


def _pieces(parts: Any) -> Iterator[Piece]:
    """Yield the products and norms of the model, and where they belong in `places`."""
    for stack, module in enumerate((parts.encoder, parts.decoder)):
        for i, layer in enumerate(module.layers):
            own, feed_forward = layer.self_attention, layer.feed_forward
            found = {
                compiled.INWARD: own.inward, compiled.OUTWARD: own.output.product, compiled.UP: feed_forward.up.product,
                compiled.DOWN: feed_forward.down.product,
            }  # fmt: skip
            if stack == compiled.DECODER:
                cross = layer.cross_attention
                found |= {compiled.QUERY: cross.query.product, compiled.CROSS: cross.output.product}
                found |= {compiled.MEMORY: cross.inward}
            found[compiled.NORMS] = [each.norm for each in vars(layer).values() if isinstance(each, Residual)]
            yield from (((stack, kind, i), piece) for kind, piece in found.items())
        if hasattr(module, "norm"):
            yield (stack, compiled.LAST, 0), [module.norm]
    yield (compiled.DECODER, compiled.LOGITS, 0), parts.output


def laid_out(pieces: list[Piece]) -> tuple[Array, ...]:
    """Return where everything is, the numbers, and, if products have weights in 8 bits, the same memory as integers.

    Weights in 8 bits are read there by their products, too.
    """
    places = np.zeros((2, 10, 1 + max(layer for (*_, layer), _ in pieces), 6), np.int64)
    arrays: list[tuple[tuple[int, ...], Array, Any]] = []
    for at, piece in pieces:
        if isinstance(piece, list):
            of_norms = np.concatenate([a.data for norm in piece for a in (norm.weight, norm.bias)])
            arrays.append(((*at, compiled.WEIGHTS), of_norms, None))
            continue
        packed = piece.packed
        n_in, out = piece.w.shape if packed is None else packed.shape[::-1]
        bias = np.zeros(_padded(out), f4)
        bias[:out] = 0 if piece.bias is None and packed is None else piece.bias if packed is None else packed.bias[:out]
        places[at][compiled.INPUTS], places[at][compiled.OUT] = n_in, len(bias)
        arrays.append(((*at, compiled.BIAS), bias, None))
        if packed is not None:
            arrays.append(((*at, compiled.START), packed.start, None))
            arrays.append(((*at, compiled.FACTORS), packed.factors, None))
        arrays.append(((*at, compiled.WEIGHTS), piece.w if packed is None else packed.words, packed))
    sizes = [a.size if a.ndim == 1 or packed is not None else _padded(a.shape[1]) * len(a) for _, a, packed in arrays]
    begins = np.cumsum([0, *(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)])
    words = np.zeros(begins[-1], np.int32)
    numbers = words.view(f4)
    for (at, a, packed), begin, size in zip(arrays, begins, sizes, strict=False):
        places[at] = begin
        if packed is not None:
            words[begin : begin + size] = a.reshape(-1)
            packed.groups = words[begin : begin + size].view(np.int8).reshape(packed.groups.shape)
        elif a.ndim == 1:
            (words if a.dtype == np.int32 else numbers)[begin : begin + size] = a
        else:
            by_group = numbers[begin : begin + size].reshape(-1, len(a), OUTPUTS)
            for group, columns in enumerate(range(0, a.shape[1], OUTPUTS)):
                some = a[:, columns : columns + OUTPUTS]
                by_group[group, :, : some.shape[1]] = some
    has_words = any(packed is not None for *_, packed in arrays)
    return (places, numbers, words) if has_words else (places, numbers)


def _hypotheses(
    finished: Array, counts: Array, tokens: Array, lengths: Array, numbers: Array
) -> list[list[Hypothesis]]:
    return [
        [
            Hypothesis(tuple(row[:length].tolist()), log_probability, score, bool(ended))
            for row, length, (log_probability, score) in zip(
                tokens[b, :count], lengths[b, :count].tolist(), numbers[b, :count].tolist(), strict=True
            )
        ]
        for b, (ended, count) in enumerate(zip(finished, counts.tolist(), strict=True))
    ]
