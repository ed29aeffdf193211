"""The key/value cache of `InferenceTransformer`.

Beams of a sentence share their past. A step appends one key and one value for each beam: a node of the sentence's tree
of hypotheses. Nodes never move; each beam attends to its ancestors by a mask, and when beams are reordered, only the
masks are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from autograd.backend import Backend
from autograd.fast.table import Kernels

Array = Any

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
        caches = [masks, self.memory_keys, self.memory_values, self.keys, self.values]
        if kept[moved].min() >= len(kept):  # the last sentences fill the holes: nothing is read after it was written
            to, source = self.backend.asarray(moved), self.backend.asarray(kept[moved])
            for array in (array for cache in caches for array in cache):
                array[to] = array[source]
            return
        source = self.backend.asarray(kept)
        for cache in caches:
            cache[:] = [array[source] for array in cache]
        self.memory_mask = masks[0] if masks else None


class LayerCache:
    """The cache of one layer of the decoder; see `Cache` of minitf/model/cache.py."""

    def __init__(self, state: DecodingState, layer: int):
        self.state, self.layer = state, layer

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
