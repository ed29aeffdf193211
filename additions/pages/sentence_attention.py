"""The attention of every head for a sentence and its translation, with the pieces as text.

attention(translator, "the cat sat")                       # and its translation
attention(translator, "the cat sat", "die Katze saß")      # and a given target
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from additions.decoding.attention import attention_weights
from additions.pages.number_table import table
from minitf.config.model import BOS, EOS
from minitf.errors import UserError
from minitf.fast.inference import InferenceTransformer
from minitf.translation.translator import Translator

Array = np.ndarray


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


def attention(translator: Translator, source: str, target: str | None = None, **settings: Any) -> SentenceAttention:
    """Return the attention weights of every head for `source` and `target`, by default its translation.

    settings: of the translation; see `Translator.translate`
    Raises: UserError for a blank source, for one so long that it is translated in pieces, and for a model that is not a
    Transformer
    """
    (ids,) = translator.vocabulary.source.encode([source])
    if not ids:
        raise UserError("the source is blank; give a sentence")
    if len(ids) > translator.max_source_length:
        raise UserError(
            f"the source has {len(ids)} subwords, more than the {translator.max_source_length} the model knows, and is "
            "translated in pieces; give one of these"
        )
    if target is None:
        (found,) = attentions(translator, source, **settings)
        return found
    return _attention(translator, ids, [*translator.vocabulary.target.encode([target])[0], EOS])


def attentions(translator: Translator, line: str, **settings: Any) -> list[SentenceAttention]:
    """Return the attention weights for any line: none for a blank one, one for each piece of a long one."""
    ((best,),) = translator.translate_nbest([line], n_best=1, **settings)
    end = [EOS] if best.finished else []
    return [_attention(translator, source, [*target, *end]) for source, target in best.parts]


def _attention(translator: Translator, source: Sequence[int], target: Sequence[int]) -> SentenceAttention:
    """Return the attention of token ids: the source without EOS, the target ending with EOS unless it was cut."""
    model, vocabulary = translator.decoder, translator.vocabulary
    if not isinstance(model, InferenceTransformer):
        raise UserError(f"a model of type {type(model).__name__} has no attention weights; use a Transformer")
    source_eos = model.config.source_eos
    target_in, source_in = [BOS, *target[:-1]], [*source, *[EOS] * source_eos]
    weights = attention_weights(model, np.array([source_in]), np.array([target_in]))
    logits = weights.logits[0].astype(np.float64)  # [T, V]
    logits -= logits.max(axis=1, keepdims=True)
    log_probabilities = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return SentenceAttention(
        source=tuple(vocabulary.source.pieces(source_in)),
        target_in=tuple(vocabulary.target.pieces(target_in)),
        target_out=tuple(vocabulary.target.pieces(target)),
        encoder=weights.encoder[0],
        decoder=weights.decoder[0],
        cross=weights.cross[0],
        log_probabilities=log_probabilities[np.arange(len(target)), target],
        source_text=vocabulary.source.decode([source])[0],
        target_text=vocabulary.target.decode([target])[0],
        finished=target[-1] == EOS,
        source_eos=source_eos,
    )
