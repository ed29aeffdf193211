"""A model of another program on its way to ours: options, arrays, and the weights in our order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sentencepiece import SentencePieceProcessor

from additions.interchange.foreign_transformer import position_table
from additions.interchange.piece_vocabulary import PieceVocabulary, VocabularyPair, loaded_processor
from additions.interchange.stored_arrays import Array, ModelFileError, Stored, StoredArray, runs
from additions.interchange.vocabularies import Pieces, read_json
from minitf.config import RunConfig, TransformerConfig
from minitf.model.transformer import Transformer
from minitf.system.files import parse_json_object

LONGEST_LINE, MOST_TOKENS = 512, 1024
"""max_length of an imported model whose files do not say how long sentences may be, and of any."""
POSITION_TOLERANCE = 1e-4
"""Programs that compute sinusoids in float32 differ by this much; float16 rounds them by 2.4e-4, bfloat16 by 2e-3."""
ACTIVATIONS = {"relu": "relu", "gelu": "gelu", "silu": "silu", "swish": "silu"}
SOURCE_ROWS = ("source_embedding.weight",)
TARGET_ROWS = ("target_embedding.weight", "projection", "output_bias")
"""Parameters whose rows are the pieces of a vocabulary."""


class ForeignModel(NamedTuple):
    """A model read from another program's files, to be imported as a run."""

    config: RunConfig
    vocabulary: VocabularyPair
    weights: dict[str, Array]


def only_file(folder: Path, found: Sequence[Path], usual: Collection[str]) -> Path | None:
    """Return the only file that is found in a folder, or the only one with a usual name; None if there is none."""
    named = [each for each in found if each.name in usual]
    if len(found) > 1 and len(named) != 1:
        raise ModelFileError(f"{folder} contains several models, such as {found[0].name}; give the file of one")
    return next(iter(named or found), None)


# ---- Options -----------------------------------------------------------------------------------------------------


class Options:
    """The options that a file holds, of which any may be missing, of the wrong type, or not supported.

    Each method raises ModelFileError for a value that it does not accept, with the option's name.
    """

    def __init__(self, path: Path, values: Mapping[str, Any]):
        self.path, self.values = path, values

    @classmethod
    def of_json(cls, path: Path) -> Options:
        """Return the options of a JSON file."""
        return cls(path, read_json(path, parse_json_object))

    def refused(self, name: str, advice: str = "") -> ModelFileError:
        """Return the error of an option whose value is not supported."""
        shown = repr(self.values.get(name))[:60]
        return ModelFileError(f"{self.path}: the option {name}={shown} is not supported{advice and '; ' + advice}")

    def _value(self, name: str, default: Any, fits: Callable[[Any], bool], expected: str) -> Any:
        value = self.values.get(name)
        if value is None:
            return default
        if not fits(value):
            raise self.refused(name, f"expected is {expected}")
        return value

    def number(self, name: str, default: int, at_least: int = 1, at_most: int = 2**24) -> int:
        """Return a whole number."""
        expected = f"a whole number from {at_least} to {at_most}"
        return self._value(name, default, lambda v: type(v) is int and at_least <= v <= at_most, expected)

    def real(self, name: str, default: float) -> float:
        """Return a finite number, 0 or more."""
        return float(
            self._value(name, default, lambda v: type(v) in (int, float) and 0 <= v < np.inf, "a number, 0 or more")
        )

    def fraction(self, name: str, default: float = 0.0) -> float:
        """Return a probability below 1."""
        return float(
            self._value(name, default, lambda v: type(v) in (int, float) and 0 <= v < 1, "a number from 0 to 1")
        )

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a truth value."""
        return bool(self._value(name, default, lambda v: v in (True, False), "true or false"))

    def text(self, name: str, default: str = "") -> str:
        """Return a text."""
        return self._value(name, default, lambda v: isinstance(v, str), "a text")

    def activation(self, name: str, default: str) -> Any:
        """Return the name of an activation, as ours."""
        value = self.text(name, default)
        if value not in ACTIVATIONS:
            raise self.refused(name, f"the activations are {', '.join(ACTIVATIONS)}")
        return ACTIVATIONS[value]

    def require(self, name: str, *accepted: Any, advice: str = "") -> Any:
        """Return the value of an option, which must be one of those accepted; a missing one is None."""
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
        """Return the value of two options that must agree, such as the heads of encoder and decoder."""
        value = self.number(name, default)
        if self.number(other, value) != value:
            raise self.refused(other, f"{name}={value} must be the same")
        return value


# ---- Arrays ------------------------------------------------------------------------------------------------------


class Arrays:
    """The arrays of a file by name, which remembers those that were used."""

    def __init__(self, path: Path, arrays: Mapping[str, Stored]):
        self.path, self.arrays = path, arrays
        self.used: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.arrays

    def find(self, *names: str) -> str:
        """Return the first of these names that the file has.  Raises: ModelFileError if it has none"""
        for name in names:
            if name in self.arrays:
                return name
        raise ModelFileError(f"{self.path} has no array {names[0]}; give a whole model of a Transformer")

    def shape(self, *names: str) -> tuple[int, ...]:
        """Return the shape of the first of these arrays that the file has; two numbers."""
        name = self.find(*names)
        shape = self.arrays[name].shape
        if len(shape) != 2:
            raise ModelFileError(f"{self.path}: {name} has shape {list(shape)}; expected is a matrix")
        return shape

    def read(self, *names: str) -> Array:
        """Read the first of these arrays that the file has."""
        return self.stored(*names).read()

    def stored(self, *names: str) -> Stored:
        """Return the first of these arrays that the file has, to be read later."""
        name = self.find(*names)
        self.used.add(name)
        return self.arrays[name]

    def depth(self, pattern: str, first: int = 0) -> int:
        """Count the layers: names `pattern` with {} = first, first + 1, …  Raises: ModelFileError if none"""
        self.find(pattern.format(first))
        return next(depth for depth in range(1, len(self.arrays) + 1) if pattern.format(first + depth) not in self)

    def refuse_rest(self, ignored: Callable[[str], bool]) -> None:
        """Refuse arrays that nothing has used: they are part of what another architecture computes."""
        rest = sorted(name for name in self.arrays if name not in self.used and not ignored(name))
        if rest:
            raise ModelFileError(
                f"{self.path} has the array {rest[0][:100]}, which no architecture of this project has; it is not "
                "supported"
            )


def positions_of(arrays: Arrays, *names: str) -> dict[str, Any]:
    """The fields of the configuration that tables of positions stand for: sinusoids, or else learned positions.

    A table in half precision is kept as learned positions: the exact sinusoids would be another model, whose
    log-probabilities differ by 10⁻³ from those of the program that wrote it.
    """
    kinds = [_recognised(arrays.read(name)) for name in names]
    return kinds[0] if kinds[0] == kinds[-1] else {"positions": "learned", "max_positions": arrays.shape(names[0])[0]}


def _recognised(table: Array) -> dict[str, Any]:
    length, d_model = table.shape
    rows = min(length, 256)
    kinds = ("sinusoidal-halves", "sinusoidal-concatenated", "sinusoidal") if d_model % 2 == 0 and d_model >= 4 else ()
    for kind in kinds:
        for first in (0, 1, 2):
            if np.allclose(
                table[:rows], position_table(first + rows, d_model, kind)[first:], atol=POSITION_TOLERANCE, rtol=0
            ):
                return {"positions": kind, "first_position": first}
    return {"positions": "learned", "max_positions": length}


# ---- Weights -----------------------------------------------------------------------------------------------------


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
    if model.ties_source and source.order != target.order:
        raise ModelFileError(f"{origin} has one matrix for two vocabularies whose special tokens differ")
    barred = set(masked)
    never = {place for place, index in enumerate(target.order) if index in barred}
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
        each = [_vocabulary(side, origin, found.result()) for side, found in zip(sides, processors, strict=True)]
    longest = model.max_positions - model.first_position if model.positions == "learned" else MOST_TOKENS
    settings["max_length"] = max(2, min(settings.get("max_length", LONGEST_LINE), longest, MOST_TOKENS))
    defaults = {"vocab_size": max(5, model.vocab_size), "average_checkpoints": 1, "alpha": 1.0, "beta": 0.0}
    config = RunConfig(model=model, **{**defaults, **settings})
    return ForeignModel(config, VocabularyPair(each[0], each[-1]), weights)


def _vocabulary(pieces: Pieces, origin: Path, processor: SentencePieceProcessor) -> PieceVocabulary:
    return PieceVocabulary(pieces.kind, pieces.ours, pieces.model, pieces.joiner, str(origin), processor)


def read_parameters(
    config: TransformerConfig,
    read: Callable[[str], Array | Stored],
    source_order: Sequence[int],
    target_order: Sequence[int],
    origin: object,
) -> dict[str, Array]:
    """Return the arrays of all parameters, in float32 or float64, and checked.

    read: called with the name of a parameter, returns its array with the rows of pieces in the foreign order, or where
        it is in a file
    source_order, target_order: the foreign id of each of our pieces; -1 for an added one, whose row is of zeros

    Raises: ModelFileError for a shape that does not fit the configuration, and for numbers that are not finite
    """
    orders = {**dict.fromkeys(SOURCE_ROWS, source_order), **dict.fromkeys(TARGET_ROWS, target_order)}
    arrays = {}
    shapes = {name: p.shape for name, p in Transformer(config, seed=None).named_parameters().items()}
    for name in sorted(shapes, key=lambda name: name.endswith(".bias")):  # projections side by side in memory
        shape, found, order = shapes[name], read(name), orders.get(name)
        if order is not None and (len(found.shape) != len(shape) or found.shape[0] <= max(order, default=-1)):
            raise ModelFileError(f"{origin}: {name} of shape {list(found.shape)} has fewer rows than pieces")
        if order is not None and isinstance(found, StoredArray):
            array = found.rows(order)
        else:
            array = found if isinstance(found, np.ndarray) else found.read()
            array = array if order is None else rows_in_order(array, order)
        if array.shape != shape:
            raise ModelFileError(f"{origin}: {name} has shape {list(array.shape)}, expected is {list(shape)}")
        array = array.astype(np.float64 if array.dtype == np.float64 else np.float32, copy=False)
        if not _is_finite(array):
            raise ModelFileError(f"{origin}: {name} contains numbers that are not finite; the file is damaged")
        arrays[name] = array
    return arrays


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
