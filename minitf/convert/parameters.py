"""The names and shapes of a model's parameters, from its configuration alone, and the arrays of a foreign model.

Source: `Transformer.named_parameters`, which is not asked because it would allocate what a damaged file claims.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minitf.config import TransformerConfig
from minitf.convert.stored_arrays import Array, ModelFileError, Stored, StoredArray, runs

Shape = tuple[int, ...]
SOURCE_ROWS = ("source_embedding.weight",)
TARGET_ROWS = ("target_embedding.weight", "projection", "output_bias")
"""Parameters whose rows are the pieces of a vocabulary."""


def parameter_shapes(c: TransformerConfig) -> dict[str, Shape]:
    """The shape of every parameter by name, in the order of the model."""
    d, source = c.d_model, c.source_vocab_size or c.vocab_size
    shapes: dict[str, Shape] = {"source_embedding.weight": (source, d)}
    if c.share_embeddings in ("target-output", "none"):
        shapes["target_embedding.weight"] = c.vocab_size, d
    if c.share_embeddings in ("source-target", "none"):
        shapes["projection"] = c.vocab_size, d
    if c.output_bias:
        shapes["output_bias"] = (c.vocab_size,)
    for side in ("source", "target"):
        if c.positions == "learned":
            shapes[f"{side}_positions.weight"] = c.max_positions, d
        if c.embedding_norm:
            shapes |= _norm(f"{side}_embedding_norm", d)
    for side, layers in (("encoder", c.encoder_layers or c.layers), ("decoder", c.decoder_layers or c.layers)):
        for layer in range(layers):
            shapes |= _layer(c, f"{side}.layers.{layer}", side == "decoder")
        if c.norm == "pre":
            shapes |= _norm(f"{side}.norm", d)
    return shapes


def _layer(c: TransformerConfig, place: str, cross: bool) -> dict[str, Shape]:
    shapes: dict[str, Shape] = {}
    keys, values = c.heads * c.head_d_k, c.heads * c.head_d_v
    for attention in ("self_attention", "cross_attention")[: 1 + cross]:
        widths = {"query": keys, "key": keys, "value": values}
        for name, width in widths.items():
            shapes |= _linear(f"{place}.{attention}.{name}", width, c.d_model, c.attention_bias)
        shapes |= _linear(f"{place}.{attention}.output", c.d_model, values, c.attention_bias)
        shapes |= _norm(f"{place}.{attention}_residual.norm", c.d_model)
    shapes |= _linear(f"{place}.feed_forward.up", c.d_ff, c.d_model)
    shapes |= _linear(f"{place}.feed_forward.down", c.d_model, c.d_ff)
    return shapes | _norm(f"{place}.feed_forward_residual.norm", c.d_model)


def _linear(name: str, n_out: int, n_in: int, bias: bool = True) -> dict[str, Shape]:
    return {f"{name}.weight": (n_out, n_in), **({f"{name}.bias": (n_out,)} if bias else {})}


def _norm(name: str, width: int) -> dict[str, Shape]:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}


def read_parameters(
    config: TransformerConfig,
    read: Callable[[str], Array | Stored],
    source_order: Sequence[int],
    target_order: Sequence[int],
    origin: object,
) -> dict[str, Array]:
    """The arrays of all parameters, in float32 or float64, and checked.

    read: called with the name of a parameter, returns its array with the rows of pieces in the foreign order, or where
        it is in a file
    source_order, target_order: the foreign id of each of our pieces; -1 for an added one, whose row is of zeros

    Raises: ModelFileError for a shape that does not fit the configuration, and for numbers that are not finite
    """
    orders = {**dict.fromkeys(SOURCE_ROWS, source_order), **dict.fromkeys(TARGET_ROWS, target_order)}
    arrays = {}
    shapes = parameter_shapes(config)
    for name in sorted(shapes, key=lambda name: name.endswith(".bias")):  # projections side by side in memory
        shape, found = shapes[name], read(name)
        if name in orders:
            if len(found.shape) != len(shape) or found.shape[0] < max(orders[name], default=0) + 1:
                raise ModelFileError(f"{origin}: {name} of shape {list(found.shape)} has fewer rows than pieces")
            array = (
                found.rows(orders[name])
                if isinstance(found, StoredArray)
                else rows_in_order(_read(found), orders[name])
            )
        else:
            array = _read(found)
        if array.shape != shape:
            raise ModelFileError(f"{origin}: {name} has shape {list(array.shape)}, expected is {list(shape)}")
        array = array.astype(np.float64 if array.dtype == np.float64 else np.float32, copy=False)
        if not _is_finite(array):
            raise ModelFileError(f"{origin}: {name} holds numbers that are not finite; the file is damaged")
        arrays[name] = array
    return arrays


def _read(found: Array | Stored) -> Array:
    return found if isinstance(found, np.ndarray) else found.read()


def _is_finite(array: Array) -> bool:
    numbers = array.ravel("K")
    with np.errstate(all="ignore"):  # the sum of squares alone is fast, but may overflow
        return bool(np.isfinite(numbers @ numbers)) or bool(np.isfinite(numbers).all())


def rows_in_order(array: Array, order: Sequence[int]) -> Array:
    """array[order], with zeros where the order is -1; consecutive rows are copied at once."""
    result = np.zeros((len(order), *array.shape[1:]), array.dtype)
    for start, stop in runs(order):
        if order[start] >= 0:
            result[start:stop] = array[order[start] : order[start] + stop - start]
    return result
