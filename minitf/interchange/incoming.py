"""A model of another program, as its reader found it: configuration, weights and vocabulary in our terms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sentencepiece import SentencePieceProcessor

from minitf.config import RunConfig, TransformerConfig
from minitf.data.piece_vocabulary import PieceVocabulary, VocabularyPair, loaded_processor
from minitf.interchange.stored_arrays import Array, ModelFileError, Stored, StoredArray, runs
from minitf.interchange.vocabularies import Pieces
from minitf.model.transformer import sinusoids

Weights = dict[str, Array]
LONGEST_LINE, MOST_TOKENS = 512, 1024
"""max_length of an imported model whose files do not say how long sentences may be, and of any."""


class ForeignModel(NamedTuple):
    """What an import makes a run of."""

    config: RunConfig
    vocabulary: VocabularyPair
    weights: Weights


class Arrays:
    """The arrays of a file by name, which remembers those that were used."""

    def __init__(self, path: Path, arrays: Mapping[str, Stored]):
        self.path, self.arrays = path, arrays
        self.used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def find(self, *names: str) -> str:
        """The first of these names that the file has.  Raises: ModelFileError if it has none"""
        for name in names:
            if name in self.arrays:
                return name
        raise ModelFileError(f"{self.path} has no array {names[0]}; give a whole model of a Transformer")

    def shape(self, *names: str) -> tuple[int, ...]:
        """The shape of the first of these arrays that the file has; two numbers."""
        name = self.find(*names)
        shape = self.arrays[name].shape
        if len(shape) != 2:
            raise ModelFileError(f"{self.path}: {name} has shape {list(shape)}; expected is a matrix")
        return shape

    def read(self, *names: str) -> Array:
        """Read the first of these arrays that the file has."""
        return self.stored(*names).read()

    def stored(self, *names: str) -> Stored:
        """The first of these arrays that the file has, to be read later."""
        name = self.find(*names)
        self.used.add(name)
        return self.arrays[name]

    def depth(self, pattern: str, first: int = 0) -> int:
        """How many layers there are: `pattern` with {} = first, first + 1, …  Raises: ModelFileError if none"""
        depth = 0
        while pattern.format(first + depth) in self.arrays:
            depth += 1
        if not depth:
            raise ModelFileError(
                f"{self.path} has no array {pattern.format(first)}; give a whole model of a Transformer"
            )
        return depth

    def refuse_rest(self, ignored: Callable[[str], bool] = lambda name: False) -> None:
        """Refuse arrays that nothing has used: they are part of what another architecture computes."""
        rest = sorted(name for name in self.arrays if name not in self.used and not ignored(name))
        if rest:
            raise ModelFileError(
                f"{self.path} has the array {rest[0][:100]}, which no architecture of this project has; it is not "
                "supported"
            )


def foreign_model(
    model: TransformerConfig,
    read: Callable[[str], Array | Stored],
    source: Pieces,
    target: Pieces,
    origin: Path,
    *,
    masked: Collection[int] = (),
    **settings: Any,
) -> ForeignModel:
    """Read the weights, and put configuration and vocabularies together.

    masked: foreign ids that the model never writes; settings: fields of RunConfig
    """
    if model.share_embeddings in ("all", "source-target") and source.order != target.order:
        raise ModelFileError(f"{origin} has one matrix for two vocabularies whose special tokens differ")
    never = {target.order.index(index) for index in masked if index in target.order}
    model = replace(
        model,
        vocab_size=len(target.order),
        source_vocab_size=len(source.order) if len(source.order) != len(target.order) else None,
        masked_tokens=tuple(sorted({*target.added, *never})),
    )
    sides = [source] if source == target else [source, target]
    with ThreadPoolExecutor(2) as pool:  # sentencepiece loads its models while the weights are read
        processors = [pool.submit(loaded_processor, side.model, str(origin)) for side in sides]
        weights = read_parameters(model, read, source.order, target.order, origin)
        each = [_side(side, origin, found.result()) for side, found in zip(sides, processors, strict=True)]
    longest = model.max_positions - model.first_position if model.positions == "learned" else MOST_TOKENS
    settings["max_length"] = max(2, min(settings.get("max_length", LONGEST_LINE), longest, MOST_TOKENS))
    defaults = {"vocab_size": max(5, model.vocab_size), "average_checkpoints": 1, "alpha": 1.0, "beta": 0.0}
    config = RunConfig(model=model, **{**defaults, **settings})
    return ForeignModel(config, VocabularyPair(each[0], each[-1]), weights)


def _side(pieces: Pieces, origin: Path, processor: SentencePieceProcessor) -> PieceVocabulary:
    return PieceVocabulary(pieces.kind, pieces.ours, pieces.model, pieces.joiner, str(origin), processor)


# ---- Options -------------------------------------------------------------------------------------------------------


ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}


class Options:
    """Names and values that a file holds, of which any may be missing or of the wrong type."""

    def __init__(self, path: Path, values: Mapping[str, Any]):
        self.path, self.values = path, values

    def refused(self, name: str, advice: str = "") -> ModelFileError:
        """The error of an option whose value is not supported."""
        shown = repr(self.values.get(name))[:60]
        return ModelFileError(f"{self.path}: the option {name}={shown} is not supported{advice and '; ' + advice}")

    def number(self, name: str, default: int, at_least: int = 1, at_most: int = 2**24) -> int:
        """A whole number.  Raises: ModelFileError for anything else"""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) is not int or not at_least <= value <= at_most:
            raise self.refused(name, f"expected is a whole number from {at_least} to {at_most}")
        return value

    def fraction(self, name: str, default: float = 0.0) -> float:
        """A probability below 1."""
        value = self.values.get(name)
        value = default if value is None else value
        if type(value) not in (int, float) or not 0 <= value < 1:
            raise self.refused(name, "expected is a number from 0 to 1")
        return float(value)

    def flag(self, name: str, default: bool = False) -> bool:
        """A truth value."""
        value = self.values.get(name)
        if value is None:
            return default
        if value not in (True, False):
            raise self.refused(name, "expected is true or false")
        return bool(value)

    def text(self, name: str, default: str = "") -> str:
        """A text."""
        value = self.values.get(name)
        if not isinstance(value, str | None):
            raise self.refused(name, "expected is a text")
        return default if value is None else value

    def activation(self, name: str, default: str) -> Any:
        """The name of an activation, as ours."""
        value = self.text(name, default)
        if value not in ACTIVATIONS:
            raise self.refused(name, f"the activations are {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def require(self, name: str, *accepted: Any, advice: str = "") -> Any:
        """The value of an option, which must be one of those accepted; a missing one is None."""
        value = self.values.get(name)
        if not any(value == each and isinstance(value, bool) == isinstance(each, bool) for each in accepted):
            raise self.refused(name, advice)
        return value

    def refuse_set(self, *names: str) -> None:
        """Refuse any of these options that is given and neither false, zero nor empty."""
        for name in names:
            if self.values.get(name):
                raise self.refused(name)

    def equal(self, name: str, other: str, default: int) -> int:
        """The value of two options that must agree, such as the heads of encoder and decoder."""
        value = self.number(name, default)
        if self.number(other, value) != value:
            raise self.refused(other, f"{name}={value} must be the same")
        return value


# ---- Parameters ----------------------------------------------------------------------------------------------------


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


# ---- Positions -----------------------------------------------------------------------------------------------------


KINDS = ("sinusoidal-halves", "sinusoidal-concatenated", "sinusoidal")


def recognised(table: Array) -> dict[str, Any]:
    """The fields of the configuration that a table stands for: sinusoids, or else learned positions."""
    length, d_model = table.shape
    rows = min(length, 256)
    tolerance = 2e-3 if table.dtype == np.float16 else 1e-4
    for kind in KINDS if d_model % 2 == 0 and d_model >= 4 else ():
        for first in (0, 1, 2):
            if np.allclose(table[:rows], sinusoids(first + rows, d_model, kind)[first:], atol=tolerance, rtol=0):
                return {"positions": kind, "first_position": first}
    return {"positions": "learned", "max_positions": length}
