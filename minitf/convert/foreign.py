"""A model of another program, as its reader found it: configuration, weights and vocabulary in our terms."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from sentencepiece import SentencePieceProcessor

from minitf.config import RunConfig, TransformerConfig
from minitf.convert.parameters import read_parameters
from minitf.convert.pieces import Pieces
from minitf.convert.stored_arrays import Array, ModelFileError, Stored
from minitf.data.vocabulary_pair import PieceVocabulary, VocabularyPair, loaded_processor

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
