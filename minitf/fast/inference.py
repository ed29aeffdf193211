"""The Transformer without gradients: the encoder at once, the decoder position by position, on plain arrays.

`TransformerDecoder` (minitf/decoding/decoder.py) defines what is computed, and the layers are the model's, on arrays
(array_layers.py), since a call of NumPy on a few hypotheses may cost as much as the arithmetic in it.  The beams of a
sentence are the queries of one attention, side by side, and keys and values of the past are not copied when beams are
reordered (`DecodingState`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from autograd.backend import Backend
from autograd.fast import cpu_kernels, in_one_thread, kernels_of, thread_count
from autograd.fast.int8 import Int8Weights
from autograd.fast.table import Kernels
from autograd.fast.threads import blocks_of, run
from autograd.safety import changed, now
from minitf.decoding.decoder import TransformerDecoder
from minitf.fast.array_layers import ArrayTransformer, Product, matrices, on_arrays
from minitf.model.transformer import Transformer, padding_mask

__all__ = ["InferenceTransformer"]

Array = Any

Work = Callable[[Any, list[int]], None]
"""Compute the results of a batch, given by the indices of its sentences, with a decoder."""
Batches = Callable[..., Iterator[list[int]]]
"""(lengths, most tokens, most sentences) -> batches of sentences"""
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
    `load_parameters`, `to`, or an array assigned to `Parameter.data`; not by writing into that array.  A model with
    layers that do not compute with arrays is decoded as it is.

    packed: matrices, embeddings included, are kept and multiplied in "int8", all else is float32, on a CPU
    """

    parts: ArrayTransformer | None
    """The model on arrays."""

    def __init__(self, model: Transformer, *, packed: str | None = None):
        """Raises: ValueError for `packed` with a model that is not on the CPU in float32, and for another word"""
        if packed not in (None, "int8"):
            raise ValueError(f"packed={packed!r} is neither 'int8' nor None, which leaves weights as they are")
        self.model, self.config, self.packed = model, model.config, packed
        self.source_eos, self.masked_tokens = model.config.source_eos, {*model.config.masked_tokens}
        self._parameters = model.parameters()
        self._load()

    @property
    def backend(self) -> Any:
        return self.kernels

    @property
    def weights_of_a_step(self) -> int:
        """The weights that each row of a step is multiplied with."""
        if self.parts is None:
            return self.model.parameter_count()
        parts = (part for module in self.parts.decoder.modules() for part in vars(module).values())
        products = [part for part in parts if isinstance(part, Product) and part.each_step]
        return sum(product.size for product in [*products, self.parts.output])

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
        shared = min(max_sentences, max(WORTH_A_THREAD, -(-len(lengths) // (thread_count() or 1))))
        threads = _threads(self, shared * rows)
        batches = [*batches_by_length(lengths, max_tokens, shared if threads > 1 else max_sentences)]
        if threads > 1 and getattr(self, "compiled_search", None) is not None and self.weights_of_a_step <= IN_CACHE:
            batches[-threads:] = [each[s] for each in batches[-threads:] for s in blocks_of(len(each), WORTH_A_THREAD)]

        def alone(batch: list[int]) -> None:
            with in_one_thread():
                work(self, batch)

        if min(threads, len(batches)) > 1:
            run(alone, batches)
            return
        for batch in batches:
            work(self, batch)

    def search(self, source: Array, config: Any) -> Any:
        """`beam_search` of minitf/decoding/search.py, compiled; None where it must compute.

        Shapes: source int [B, S], padded with PAD
        """
        self.load_changes()
        return None if self.compiled_search is None else self.compiled_search(source, config)

    def start_decoding(self, source: Array) -> Any:
        """Encode `source` and project the decoder's keys and values of it, once for all steps.

        Shapes: source int [B, S], padded with PAD -> a state of B rows
        """
        self.load_changes()
        if self.parts is None:
            return self.plain.start_decoding(source)
        source = self.kernels.asarray(source)
        mask = padding_mask(source)  # [B, 1, 1, S]
        mask = None if bool(mask.all()) else mask
        memory = self.parts.encoder(self.parts.embed_source(source), mask)  # [B, S, D]
        keys_values = [layer.cross_attention.keys_and_values(memory, memory) for layer in self.parts.decoder.layers]
        return DecodingState(self.kernels, keys_values, mask)

    def decode_step(self, tokens: Array, state: Any) -> Array:
        """Logits of the token that follows `tokens`, the newest of each row.

        Shapes: tokens int [R] -> [R, V]
        """
        if self.parts is None:
            return self.plain.decode_step(tokens, state)
        if len(tokens) != state.rows:
            raise ValueError(f"{len(tokens)} tokens for a state of {state.rows} rows; give one for each")
        x = self.parts.embed_target(self.kernels.asarray(tokens)[:, None], state.length)  # [R, 1, D]
        state.begin_step()
        x = x.reshape(state.sentences, state.beams, x.shape[2])
        memory: Any = None  # its keys and values are in the caches
        x = self.parts.decoder(x, memory, state.mask_of_source, state.caches)  # [B, n, D]
        state.end_step()
        return self.parts.output(x.reshape(len(tokens), x.shape[2]))

    def top_tokens(self, logits: Array, barred: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`top_tokens` of minitf/decoding/search.py, by a kernel that does not sort whole rows."""
        return self.kernels.top_tokens(logits, self.kernels.asarray(barred), count)

    # ---- Weights ----

    def load_changes(self) -> None:
        """Take over weights that have changed since the last call."""
        replaced = any(p.data is not data for p, data in zip(self._parameters, self._loaded, strict=True))
        if replaced or changed(self._loaded, self._since):
            self._load()

    def _load(self) -> None:
        """Take over the model's weights as they are now."""
        matrix = self.model.output_matrix.data
        self._loaded, self._since = [p.data for p in self._parameters], now()
        self.kernels = kernels_of([matrix])
        pack = None
        if self.packed:
            if self.kernels is not cpu_kernels() or matrix.dtype != np.float32:
                raise ValueError(f"{self.packed} needs a model in float32 on the CPU, not one in {matrix.dtype.name}")
            pack = Int8Weights.of
        self.parts = on_arrays(self.model, self.kernels, pack)
        if pack is not None and self.parts is None:
            raise ValueError(f"{self.packed} needs a model of the layers of minitf, not of others")
        vars(self).pop("compiled_search", None)

    def release_weights(self) -> None:
        """Give back the memory of the model's matrices that are packed; for the model, they are NaN."""
        for parameter in matrices(self.model):
            parameter.data = np.broadcast_to(np.float32(np.nan), parameter.shape)
        self._loaded, self._since = [p.data for p in self._parameters], now()
        _ = self.compiled_search  # which copies the packed weights: what it frees is free now, and not in a search

    @cached_property
    def plain(self) -> TransformerDecoder:
        """The decoder of a model with layers that do not compute with arrays."""
        return TransformerDecoder(self.model)

    @cached_property
    def compiled_search(self) -> Any:
        """The search of this model as one compiled function; None for models that it does not compute."""
        if self.parts is None or self.kernels is not cpu_kernels() or self.kernels.kernels != "numba":
            return None
        from minitf.fast.search_weights import search_of

        return search_of(self)


def _threads(decoder: Any, rows: int) -> int:
    """Return the number of batches of `rows` hypotheses to compute at once: several large ones on a CPU."""
    if decoder.backend.kind != "cpu":
        return 1
    if getattr(decoder, "compiled_search", None) is not None:
        return thread_count() or 1
    least = WORTH_SHARING[cpu_kernels().kernels]
    return (thread_count() or 1) if rows * decoder.weights_of_a_step >= least else 1


# ---- The key/value cache ----
#
# Beams of a sentence share their past. A step appends one key and one value for each beam: a node of the sentence's
# tree of hypotheses. Nodes never move; each beam attends to its ancestors by a mask, and when beams are reordered, only
# the masks are.

FIRST_POSITIONS = 16
"""Positions that the caches have room for at first; the room doubles when it is full."""


class DecodingState:
    """Keys and values of source and past, and which nodes each row attends to.

    There are `sentences` · `beams` rows, those of a sentence side by side. Arrays keep the room of all sentences that
    the search began with; those still searched come first.
    """

    def __init__(self, backend: Backend | Kernels, memory: Sequence[Sequence[Array]], memory_mask: Array | None):
        """memory: keys and values of the source, for each layer of the decoder

        Shapes: keys [B, H, S, K], values [B, H, S, d_v], mask bool [B, 1, 1, S]
        """
        self.backend = backend
        self.memory_keys, self.memory_values = [keys for keys, _ in memory], [values for _, values in memory]
        self.memory_mask = memory_mask
        self.sentences, self.beams = len(self.memory_keys[0]), 1
        self.length = 0  # positions decoded so far
        self.node_count = 0  # nodes of each sentence
        self.keys = [self._with_room(keys[:, :, :0], 0) for keys, _ in memory]  # a layer: [B, H, room, K]
        self.values = [self._with_room(values[:, :, :0], 0) for _, values in memory]  # a layer: [B, H, room, d_v]
        self.ancestors = backend.xp.zeros((self.sentences, 1, 0), bool)  # [B, n, room]: itself and its ancestors
        self.branched = False  # until there are several beams, every node is an ancestor
        self.mask: Array | None = None  # [B, 1, n, nodes], which nodes each row may attend to in this step; None: all

    @property
    def caches(self) -> list[LayerCache]:
        """The cache as the layers of the decoder see it."""
        return [LayerCache(self, layer) for layer in range(len(self.keys))]

    @property
    def rows(self) -> int:
        """Hypotheses: sentences × beams."""
        return self.sentences * self.beams

    @property
    def nodes(self) -> int:
        """Nodes of each sentence, those of the present step included."""
        return self.node_count + self.beams

    def begin_step(self) -> None:
        """Make a node for each row, which only this row attends to."""
        self.branched |= self.beams > 1
        if self.nodes > self.ancestors.shape[2]:
            count, room = self.node_count, max(2 * self.node_count, FIRST_POSITIONS * self.beams)
            self.keys = [self._with_room(a, room) for a in self.keys]
            self.values = [self._with_room(a, room) for a in self.values]
            grown = self.backend.xp.zeros((self.sentences, self.beams, room), bool)
            grown[:, :, :count] = self.ancestors[:, :, :count]
            self.ancestors = grown
        own = True if self.beams == 1 else self.backend.xp.eye(self.beams, dtype=bool)
        self.ancestors[:, :, self.node_count : self.nodes] = own
        self.mask = self.ancestors[:, None, :, : self.nodes] if self.branched else None

    def end_step(self) -> None:
        """Count the nodes of this step, which have their keys and values in every layer."""
        self.node_count += self.beams
        self.length += 1

    @property
    def mask_of_source(self) -> Array | None:
        """True at real tokens of the sentences still searched; None: everywhere.  Shapes: -> bool [B, 1, 1, S]"""
        return None if self.memory_mask is None else self.memory_mask[: self.sentences]

    def _with_room(self, cache: Array, room: int) -> Array:
        """A cache with room for more nodes.  Shapes: [B, H, old room, K] -> [B, H, room, K]"""
        _, h, _, width = cache.shape
        grown = self.backend.xp.empty((self.sentences, h, room, width), cache.dtype)
        grown[:, :, : self.node_count] = cache[: self.sentences, :, : self.node_count]
        return grown

    def reorder(self, rows: Array) -> None:
        """Make row i what row rows[i] was: beams move, multiply and go; sentences without rows are dropped.

        Raises: IndexError for a row that is not there; ValueError unless the rows of a sentence stay together, the same
        number for each sentence.
        """
        rows = np.asarray(rows)
        kept = self._sentences_of(rows)
        n, room = len(rows) // max(len(kept), 1), self.ancestors.shape[2]
        ancestors = self.ancestors.reshape(self.rows, room)[self.backend.asarray(rows)]
        self.ancestors = ancestors.reshape(len(kept), n, room)
        self._keep(kept)
        self.sentences, self.beams = len(kept), n

    def _sentences_of(self, rows: np.ndarray) -> np.ndarray:
        """Return the sentence of each group of rows."""
        sentence = rows // self.beams
        if len(rows) == self.rows and (sentence == np.arange(self.rows) // self.beams).all():
            return np.arange(self.sentences)  # as after most steps
        kept = sentence[np.flatnonzero(np.diff(sentence, prepend=-1))]
        if len(rows) and (rows.min() < 0 or rows.max() >= self.rows):
            raise IndexError(f"rows must lie in 0 … {self.rows - 1}, found {rows.min()} … {rows.max()}")
        if len(rows) and (
            len(np.unique(kept)) < len(kept) or not np.array_equal(np.repeat(kept, len(rows) // len(kept)), sentence)
        ):
            raise ValueError(f"rows {rows.tolist()} do not give each sentence one group of equal size")
        return kept

    def _keep(self, kept: np.ndarray) -> None:
        """Make sentence i what sentence kept[i] was."""
        moved = np.flatnonzero(kept != np.arange(len(kept)))
        if not len(moved):
            return
        masks = [] if self.memory_mask is None else [self.memory_mask]
        to, source = self.backend.asarray(moved), self.backend.asarray(kept[moved])
        for array in (*masks, *self.memory_keys, *self.memory_values, *self.keys, *self.values):
            array[to] = array[source]  # which copies before it writes


class LayerCache:
    """The cache of one layer of the decoder; see `TensorCache` of minitf/decoding/decoder.py."""

    def __init__(self, state: DecodingState, layer: int):
        self.state, self.layer, self.length = state, layer, state.length

    @property
    def source(self) -> tuple[Array, Array]:
        """Keys and values of the source.  Shapes: -> [B, H, S, K], [B, H, S, d_v]"""
        state, b = self.state, self.state.sentences
        return state.memory_keys[self.layer][:b], state.memory_values[self.layer][:b]

    @property
    def mask(self) -> Array | None:
        """The nodes that each row may attend to."""
        return self.state.mask

    def append(self, k: Array, v: Array) -> tuple[Array, Array]:
        """Store keys and values of this step's nodes; return those of all nodes, as views.

        Shapes: k [B, H, n, K], v [B, H, n, d_v] -> [B, H, nodes, K], [B, H, nodes, d_v]
        """
        state = self.state
        b, start, end = state.sentences, state.node_count, state.nodes
        keys, values = state.keys[self.layer], state.values[self.layer]
        keys[:b, :, start:end], values[:b, :, start:end] = k, v
        return keys[:b, :, :end], values[:b, :, :end]
