"""Attention weights of all layers and heads for a sentence pair.

    weights = attention_weights(model, source, target_in)     # a batch of token ids
    translator.attention("the cat sat")                       # one sentence, with its pieces as text

The target is given and not searched for: forced decoding computes every position as search does.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from autograd.backend import backend_of
from autograd.html import table
from minitf.config.model import BOS, EOS
from minitf.data.vocabulary import AnyVocabulary
from minitf.decoding.candidates import log_probabilities_of
from minitf.errors import UserError
from minitf.fast.decoder import InferenceTransformer
from minitf.model.transformer import Transformer

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
    if not decoder.has_attention:
        raise UserError(
            f"the encoder of this model is {decoder.model.config.mixing} and has no attention weights to show; "
            "--attention needs a model with mixing=self-attention or restricted"
        )
    layers = {"encoder": len(decoder.model.encoder.layers)}
    layers["decoder"] = layers["cross"] = len(decoder.model.decoder.layers)
    kept: dict[tuple[str, int], list[Array]] = {(kind, i): [] for kind, n in layers.items() for i in range(n)}
    state = decoder.start_decoding(source, {place: weights.append for place, weights in kept.items()})
    length, s = target.shape[1], source.shape[1]
    logits = [decoder.decode_step(target[:, t], state) for t in range(length)]  # T × [B, V]
    for layer in range(layers["decoder"]):
        rows = kept["decoder", layer]  # T × [B, H, 1, the last positions up to t]
        kept["decoder", layer] = [
            np.pad(row, ((0, 0),) * 3 + ((t + 1 - row.shape[3], length - t - 1),)) for t, row in enumerate(rows)
        ]
    encoder, own, cross = (
        np.stack([np.concatenate(kept[kind, layer], axis=2) for layer in range(n)], axis=1)  # [B, L, H, …, …]
        for kind, n in layers.items()
    )
    host_logits = [backend_of([each]).to_host(each) for each in logits]
    return AttentionWeights(encoder[..., :s, :s], own, cross[..., :s], np.stack(host_logits, axis=1))


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
