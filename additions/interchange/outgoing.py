"""A model of ours on its way to another program: rows of pieces in the other order, and dimensions of the positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from additions.interchange.foreign_transformer import position_table
from additions.interchange.incoming import SOURCE_ROWS, TARGET_ROWS, rows_in_order
from additions.interchange.piece_vocabulary import PieceVocabulary
from additions.interchange.stored_arrays import Array, write_safetensors
from additions.interchange.vocabularies import json_text, write_sentencepiece, write_text
from minitf.config import RunConfig, TransformerConfig
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.config.options import to_plain
from minitf.data.vocabulary import AnyVocabulary, sized
from minitf.errors import UserError
from minitf.model.transformer import Transformer

NEVER = -1e9
"""A bias that keeps a token out of the softmax."""
ADDED = -1
"""A row of zeros that the other program needs and the model does not have."""
COLUMNS = re.compile(r".*(embedding\.weight|projection|positions\.weight|(query|key|value|up)\.weight)")
ROWS = re.compile(r".*(norm\.(weight|bias)|(output|down)\.(weight|bias))")


@dataclass(frozen=True)
class LearnedModel:
    """A run's configuration, vocabulary and weights, as an export needs them."""

    config: RunConfig
    vocabulary: AnyVocabulary
    weights: dict[str, Array]

    @property
    def model(self) -> TransformerConfig:
        """The architecture, with the sizes of the vocabulary."""
        return sized(self.config.model, self.vocabulary)


@dataclass(frozen=True)
class Outgoing:
    """A model with its pieces in the order of another program."""

    learned: LearnedModel
    source: list[int]
    """Our id of each piece of the source, in the other order; ADDED for a row of zeros."""
    target: list[int]

    @classmethod
    def of(cls, learned: LearnedModel, first: Sequence[int]) -> Outgoing:
        """Pieces in the order `first`, then all others but the special tokens that the model lacks.

        A special token is lacking where an import has added it: it is never written, and its embedding is zero.
        """
        orders = []
        for side in ("source", "target"):
            rest = (index for index in range(len(getattr(learned.vocabulary, side))) if index not in first)
            orders.append([*first, *(index for index in rest if not _is_lacking(learned, side, index))])
        return cls(learned, *orders)

    @property
    def model(self) -> TransformerConfig:
        """The architecture."""
        return self.learned.model

    @property
    def is_shared(self) -> bool:
        """Whether source and target have the same pieces."""
        return self.names("source") == self.names("target")

    def array(self, name: str) -> Array:
        """Return the array of a parameter, in float32, with rows of pieces in the other order; a missing bias is 0."""
        weights = self.learned.weights
        if name not in weights:  # attention_bias=False
            return np.zeros(len(weights[name.removesuffix("bias") + "weight"]), np.float32)
        array = weights[name].astype(np.float32, copy=False)
        if name in SOURCE_ROWS:
            return rows_in_order(array, self.source)
        return rows_in_order(array, self.target) if name in TARGET_ROWS else array

    def embeddings(self, source: str, target: str, projection: str) -> tuple[dict[str, Array], dict[str, str]]:
        """Return the three matrices of pieces under these names, and of those that are another one: its name."""
        model, arrays, aliases = self.model, {source: self.array("source_embedding.weight")}, {}
        if model.ties_source:
            aliases[target] = source
        else:
            arrays[target] = self.array("target_embedding.weight")
        if model.ties_output:
            aliases[projection] = target
        else:
            arrays[projection] = self.array("projection")
        return arrays, aliases

    def positions(self, side: str, rows: int) -> Array:
        """Return the encodings of `rows` positions, or of all learned ones, from the first that is used."""
        model = self.model
        if model.positions == "learned":
            return self.array(f"{side}_positions.weight")[model.first_position :]
        table = position_table(model.first_position + rows, model.d_model, model.positions)
        return table[model.first_position :].astype(np.float32)

    def bias(self, masked: bool) -> Array:
        """Return the bias on the logits; masked: one that gives masked tokens no probability."""
        bias = self.array("output_bias") if self.model.output_bias else np.zeros(len(self.target), np.float32)
        never = {ADDED, *(self.model.masked_tokens if masked else ())}
        bias[[place for place, index in enumerate(self.target) if index in never]] = NEVER
        return bias

    def names(self, side: str) -> list[str]:
        """The names of the pieces, each once; those of end and unknown token are `</s>` and `<unk>`, as everywhere."""
        order = self.source if side == "source" else self.target
        ours = _names(getattr(self.learned.vocabulary, side))
        ours[EOS], ours[UNK] = "</s>", "<unk>"
        if ADDED in order and "<pad>" in ours:  # the added row is the padding there; the model's own is never written
            ours[ours.index("<pad>")] = "<blank>"
        names = [ours[index] if index >= 0 else "<pad>" for index in order]
        twice = len(names) - len(set(names))
        if twice:
            raise UserError(
                f"{twice} pieces of the {side} vocabulary have the name of another; other programs need one each"
            )
        return names

    def parameters(self) -> list[str]:
        """Return the names of all parameters but the rows of pieces, with biases where attention has none."""
        with_bias = Transformer(replace(self.model, attention_bias=True), seed=None)
        return [name for name in with_bias.named_parameters() if name not in (*SOURCE_ROWS, *TARGET_ROWS)]


def _is_lacking(learned: LearnedModel, side: str, index: int) -> bool:
    if index not in (PAD, BOS):
        return False
    vocabulary = learned.vocabulary
    if side == "source" and _names(vocabulary.source) != _names(vocabulary.target):
        return not learned.weights["source_embedding.weight"][index].any()
    return index in learned.model.masked_tokens and not (index == BOS and starts_with_embedding(learned))


def _names(vocabulary: Any) -> list[str]:
    """Return the names of the pieces of one side, in the order of our ids."""
    is_imported = isinstance(vocabulary, PieceVocabulary)
    return list(vocabulary.pieces_by_id) if is_imported else vocabulary.pieces(range(len(vocabulary)))


def target_embedding(learned: LearnedModel) -> Array:
    """Return the embeddings of the target."""
    return learned.weights.get("target_embedding.weight", learned.weights["source_embedding.weight"])


def starts_with_embedding(learned: LearnedModel) -> bool:
    """Return whether the decoder starts with the embedding of BOS, and that is not a zero vector."""
    return learned.model.decoder_start == "bos" and bool(target_embedding(learned)[BOS].any())


def with_halves(learned: LearnedModel) -> LearnedModel:
    """The same function with "sinusoidal-halves" instead of the paper's positions: its dimensions in another order.

    Sines and cosines in turn become all sines, then all cosines, where every vector of width d_model is reordered.
    """
    if learned.model.positions != "sinusoidal":
        return learned
    d = learned.model.d_model
    order = np.concatenate([np.arange(0, d, 2), np.arange(1, d, 2)])
    weights = {}
    for name, array in learned.weights.items():
        array = array[:, order] if COLUMNS.fullmatch(name) else array
        weights[name] = array[order] if ROWS.fullmatch(name) else array
    model = replace(learned.model, positions="sinusoidal-halves")
    return LearnedModel(replace(learned.config, model=model), learned.vocabulary, weights)


def refuse_fields(model: TransformerConfig, lacking: dict[str, Any], program: str, advice: str) -> None:
    """Refuse values of fields that another program lacks."""
    for name, refused in lacking.items():
        if getattr(model, name) == refused:
            raise UserError(f"{name}={str(refused).lower()} is not supported by {program}; {advice}")


def refuse_other_attention(model: TransformerConfig, program: str) -> None:
    """Refuse heads of another width, which other programs do not have."""
    for name, width in (("d_k", model.head_d_k), ("d_v", model.head_d_v)):
        if width * model.heads != model.d_model:
            raise UserError(
                f"{name}={width} is not d_model / heads, which {program} requires; use --format safetensors"
            )


def penalty_notes(config: RunConfig, program: str) -> list[str]:
    """Return a note for a length penalty that another program does not have: the paper's, with its offset."""
    if not config.beta or not config.alpha:
        return []
    return [
        f"{program} divides log-probabilities by length^{config.alpha:g}, the run by "
        f"((length + {config.beta:g}) / {config.beta + 1:g})^{config.alpha:g}, so that other translations may be best; "
        f"minitf and {program} search alike with alpha=0, or with beta=0: minitf train --set"
    ]


# ---- safetensors, for your own programs --------------------------------------------------------------------------


def write_plain(learned: LearnedModel, folder: Path) -> list[str]:
    """Write model.safetensors with the names of `Transformer.named_parameters`, config.json and the vocabulary."""
    write_safetensors(folder / "model.safetensors", learned.weights, {"format": "np"})
    write_text(folder / "config.json", json_text({"minitf": to_plain(learned.model)}))
    for side in ("source", "target"):
        write_text(folder / f"{side}_vocabulary.json", json_text(_names(getattr(learned.vocabulary, side))))
    write_sentencepiece(learned.vocabulary, folder)
    return []
