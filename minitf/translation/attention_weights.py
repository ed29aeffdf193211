"""Attention weights of all layers and heads for a sentence pair.

    weights = attention_weights(model, source, target_in)     # a batch of token ids
    translator.attention("the cat sat")                       # one sentence, with its pieces as text

The target is given and not searched for, so all of its positions are computed at once.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograd.html import table
from minitf.config.model import BOS, EOS, PAD
from minitf.data.vocabulary import AnyVocabulary
from minitf.decoding.candidates import log_probabilities_of
from minitf.errors import UserError
from minitf.fast.inference import InferenceTransformer
from minitf.model.transformer import Transformer

__all__ = ["SentenceAttention"]

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


def attention_weights(model: Transformer | InferenceTransformer, source: Any, target: Any) -> AttentionWeights:
    """Decode a given target, without dropout, and keep the weights of every attention.

    Shapes: source int [B, S] and target int [B, T] as for `model(source, target)`: EOS last, BOS first, padded with PAD
    Source: sections 3.2.1 and 3.2.2; the paper's Figures 3 to 5
    """
    decoder = InferenceTransformer(model) if isinstance(model, Transformer) else model
    found, hidden = decoder.attention_weights(source, target)
    assert decoder.parts is not None
    encoder, own, cross = (np.stack(layers, axis=1) for layers in found)  # [B, L, H, …, …]
    return AttentionWeights(encoder, own, cross, decoder.backend.to_host(decoder.parts.logits(hidden)))


def alignments(decoder: Any, source: Array, targets: Sequence[Sequence[int]]) -> list[Array]:
    """Return the attention to the source in the last decoder layer but one, averaged over heads: [T, S] of each target.

    Shapes: source int [B, S]; targets B lists of token ids, EOS last
    """
    length = max(map(len, targets))
    target = np.array([[BOS, *given[:-1], *[PAD] * (length - len(given))] for given in targets])
    cross = decoder.attention_weights(source, target)[0][2]
    weights = cross[max(0, len(cross) - 2)].mean(axis=1)  # [B, H, T, S] -> [B, T, S]
    return [each[: len(given)] for each, given in zip(weights, targets, strict=True)]


@dataclass(frozen=True)
class SentenceAttention:
    """The attention weights of every head for one sentence and its translation.

    At target position t the model's input is `target_in[t]` and its output `target_out[t]`: the input is the output
    shifted right by one. So row t of `decoder` and `cross` belongs to the output `target_out[t]`, and column t of
    `decoder` to the input `target_in[t]`.
    """

    source: tuple[str, ...]  # [S] pieces, the end token last where the model reads one
    target_in: tuple[str, ...]  # [T] the start token first
    target_out: tuple[str, ...]  # [T] the end token last, unless the translation was cut at its length limit
    encoder: Array  # [L, H, S, S]; the encoder may have another number of layers than the decoder
    decoder: Array  # [L, H, T, T]
    cross: Array  # [L, H, T, S]
    log_probabilities: Array  # [T] of each piece of target_out, given those before it; natural logarithm
    source_text: str
    target_text: str
    finished: bool  # False: cut at the length limit, so target_out does not end with the end token
    source_eos: bool = True  # False: source does not end with the end token

    @property
    def layers(self) -> int:
        """Layers of the decoder."""
        return self.cross.shape[0]

    @property
    def encoder_layers(self) -> int:
        """Layers of the encoder."""
        return self.encoder.shape[0]

    def layers_of(self, kind: str) -> int:
        """Layers that have weights of "encoder", "decoder" or "cross"."""
        return self.encoder_layers if kind == "encoder" else self.layers

    @property
    def heads(self) -> int:
        """Heads of each layer."""
        return self.cross.shape[1]

    def _repr_html_(self) -> str:
        """Return a table for notebooks: each piece of the translation attends to the pieces of the source."""
        texts = f"{self.source_text} → {self.target_text}"
        caption = f"{texts}: cross-attention, mean of {self.layers} layers of {self.heads} heads"
        return table(self.cross.mean(axis=(0, 1)), caption, self.target_out, self.source)


def sentence_attention(
    model: Any, vocabulary: AnyVocabulary, source: Sequence[int], target: Sequence[int]
) -> SentenceAttention:
    """Return the attention of a sentence, given as token ids without EOS, and its target, ending with EOS unless cut.

    Raises: UserError for a model that is not a Transformer
    """
    if not isinstance(model, Transformer | InferenceTransformer):
        raise UserError(f"a model of type {type(model).__name__} has no attention weights; use a Transformer")
    target_in = [BOS, *target[:-1]]
    source_eos = (model if isinstance(model, Transformer) else model.model).config.source_eos
    source_in = [*source, EOS] if source_eos else source
    weights = attention_weights(model, np.array([source_in]), np.array([target_in]))
    log_probabilities = [
        log_probabilities_of(logits[None], np.array([token]), position, np.zeros(1, int))
        for position, (logits, token) in enumerate(zip(weights.logits[0], target, strict=True), start=1)
    ]
    return SentenceAttention(
        source=tuple(vocabulary.source.pieces(source_in)),
        target_in=tuple(vocabulary.target.pieces(target_in)),
        target_out=tuple(vocabulary.target.pieces(target)),
        encoder=weights.encoder[0],
        decoder=weights.decoder[0],
        cross=weights.cross[0],
        log_probabilities=np.concatenate(log_probabilities),
        source_text=vocabulary.source.decode([source])[0],
        target_text=vocabulary.target.decode([target])[0],
        finished=target[-1] == EOS,
        source_eos=source_eos,
    )


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
