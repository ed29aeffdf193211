"""The attention weights of every head for a given translation, and word alignments made of them.

weights = attention_weights(model, source, target_in)     # of a batch of token ids
align(translator, translation).word_links()               # of a `Translation`

The decoder reads the tokens of the given translation instead of those that it would have chosen, so all positions are
computed at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograd.backend import backend_of
from minitf.config.model import BOS, EOS
from minitf.decoding.lines import Translation
from minitf.errors import UserError
from minitf.fast.array_layers import ArrayAttention, with_classes
from minitf.fast.inference import InferenceTransformer
from minitf.model.transformer import Transformer, padding_mask
from minitf.translation.translator import Translator

Array = np.ndarray


@dataclass(frozen=True)
class AttentionWeights:
    """softmax(q kᵀ / √d_k) of every layer and head; each row is a distribution over the keys.

    Rows are queries, columns keys. Weights on padding are 0; the rows of padding have no meaning.
    """

    encoder: Array  # [B, L, H, S, S] source position attends to source position
    decoder: Array  # [B, L, H, T, T] target position attends to itself and earlier ones
    cross: Array  # [B, L, H, T, S] target position attends to source position
    logits: Array  # [B, T, V] of the next token at each target position


class RecordingAttention(ArrayAttention):
    """Attention that keeps its last weights, [B, H, T, S]: those with which rows of the identity are its values."""

    weights: Any

    def attend(self, q: Any, k: Any, v: Any, mask: Any, is_causal: bool = False) -> Any:
        xp = backend_of([k]).xp
        wide_q, wide_k = (a.astype(np.float32) if a.dtype.name == "bfloat16" else a for a in (q, k))
        unit = xp.broadcast_to(xp.eye(k.shape[2], dtype=wide_k.dtype), (*k.shape[:3], k.shape[2]))
        self.weights = super().attend(wide_q, wide_k, unit, mask, is_causal)
        return super().attend(q, k, v, mask, is_causal)


def attention_weights(model: Transformer | InferenceTransformer, source: Any, target: Any) -> AttentionWeights:
    """Decode a given target, without dropout, and keep the weights of every attention.

    Shapes: source int [B, S] and target int [B, T] as for `model(source, target)`: EOS last, BOS first, padded with PAD
    Raises: UserError for a model with other layers
    Source: sections 3.2.1 and 3.2.2; the paper's Figures 3 to 5
    """
    decoder = InferenceTransformer(model) if isinstance(model, Transformer) else model
    decoder.load_changes()
    if decoder.parts is None:
        raise UserError("this model has other layers than minitf's, and no attention weights to show")
    recording: Any = with_classes(
        decoder.parts, lambda kind: RecordingAttention if issubclass(kind, ArrayAttention) else kind
    )
    source, target = map(decoder.backend.asarray, (source, target))
    mask = padding_mask(source)
    memory = recording.encoder(recording.embed_source(source), mask)
    hidden = recording.decoder(recording.embed_target(target), memory, mask)
    stacks = ("encoder", "self_attention"), ("decoder", "self_attention"), ("decoder", "cross_attention")
    to_host = decoder.backend.to_host
    found = [
        [to_host(getattr(layer, name).weights) for layer in getattr(recording, stack).layers] for stack, name in stacks
    ]
    encoder, own, cross = (np.stack(layers, axis=1) for layers in found)  # [B, L, H, …, …]
    return AttentionWeights(encoder, own, cross, to_host(decoder.parts.logits(hidden)))


# ---- Alignments --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Alignment:
    """The attention of each target subword to the source subwords."""

    source: tuple[str, ...]
    """S subwords as sentencepiece writes them: "▁" opens a word."""
    target: tuple[str, ...]
    """T subwords."""
    weights: Any
    """[T, S], the mean of the heads; a row sums to 1 less the weight of the end token."""

    def links(self) -> list[tuple[int, int]]:
        """Return (source subword, target subword) for each target subword and the source subword of largest weight."""
        return [(int(row.argmax()), t) for t, row in enumerate(self.weights) if len(row)]

    def word_links(self) -> list[tuple[int, int]]:
        """Return (source word, target word), from 0, of the words whose subwords are linked, in order of the target."""
        source, target = _word_numbers(self.source), _word_numbers(self.target)
        return sorted({(source[s], target[t]) for s, t in self.links()}, key=lambda link: (link[1], link[0]))


def _word_numbers(pieces: Sequence[str]) -> list[int]:
    """Return the word, from 0, that each subword belongs to: "▁" opens a word."""
    opened = itertools.accumulate(piece.startswith("▁") for piece in pieces)
    return [max(0, number - 1) for number in opened]


def align(translator: Translator, translation: Translation) -> Alignment:
    """Align the subwords of a translation with those of its source, by the decoder's attention.

    The mean of the heads in the last layer but one, where it follows the words best.

    Raises: UserError for a model that is not a Transformer
    Source: Garg et al. 2019, arXiv:1909.02074
    """
    decoder, vocabulary = translator.decoder, translator.vocabulary
    if not isinstance(decoder, InferenceTransformer):
        raise UserError(f"alignments need a Transformer, not a model of type {type(decoder).__name__}")
    source = tuple(vocabulary.source.pieces([i for ids, _ in translation.parts for i in ids]))
    target = tuple(vocabulary.target.pieces([i for _, ids in translation.parts for i in ids]))
    weights = np.zeros((len(target), len(source)))
    s = t = 0
    for source_ids, target_ids in translation.parts:
        given = [*source_ids, *[EOS] * decoder.source_eos]
        cross = attention_weights(decoder, np.array([given]), np.array([[BOS, *target_ids]])).cross[0]  # [L, H, T, S]
        rows, columns = len(target_ids), len(source_ids)
        weights[t : t + rows, s : s + columns] = cross[max(0, len(cross) - 2)].mean(axis=0)[:rows, :columns]
        s, t = s + columns, t + rows
    return Alignment(source, target, weights)
