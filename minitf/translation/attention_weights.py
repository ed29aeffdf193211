"""Where the heads look: the weights of every attention in a model, for a sentence and its translation.

    weights = attention_weights(model, source, target_in)     # a batch of token ids
    translator.attention("the cat sat")                       # one sentence, with its pieces as text

The target is given and not searched for (force decoding), so one pass of the model shows every position.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from autograd import Tensor, no_grad
from minitf.config.special_tokens import BOS, EOS
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError

if TYPE_CHECKING:
    from minitf.model.attention import MultiHeadAttention
    from minitf.model.transformer import Transformer

Array = np.ndarray


@dataclass(frozen=True)
class AttentionWeights:
    """softmax(q kᵀ / √d_k) of every layer and head; each row is a distribution over the keys.

    Rows are queries, columns keys. Weights on padding are 0; the rows of padding mean nothing.
    """

    encoder: Array  # [B, L, H, S, S] source position looks at source position
    decoder: Array  # [B, L, H, T, T] target position looks at itself and earlier ones
    cross: Array  # [B, L, H, T, S] target position looks at source position
    logits: Array  # [B, T, V] what the pass made of them


def attention_weights(model: Transformer, source: Any, target: Any) -> AttentionWeights:
    """Run the model once, without dropout, and keep what every head attends to.

    It costs one pass with a product more in each attention; a model that is not asked pays nothing.

    Shapes: source int [B, S] and target int [B, T] as for `model(source, target)`: EOS last, BOS first, padded with PAD
    Source: sections 3.2.1 and 3.2.2; the paper's Figures 3 to 5
    """
    was_training = model.training
    model.eval()
    try:
        with (
            no_grad(),
            recorded([layer.self_attention for layer in model.encoder.layers]) as encoder,
            recorded([layer.self_attention for layer in model.decoder.layers]) as decoder,
            recorded([layer.cross_attention for layer in model.decoder.layers]) as cross,
        ):
            logits = model(source, target)
    finally:
        model.train(was_training)
    return AttentionWeights(_stacked(encoder), _stacked(decoder), _stacked(cross), logits.numpy())


def _stacked(weights: list[Tensor]) -> Array:
    """Shapes: L of [B, H, T, S] -> [B, L, H, T, S]"""
    return np.stack([each.numpy() for each in weights], axis=1)


@contextmanager
def recorded(attentions: list[MultiHeadAttention]) -> Iterator[list[Tensor]]:
    """The weights [B, H, T, S] of every call of `attentions` inside the block, in the order of the calls."""
    weights: list[Tensor] = []
    for attention in attentions:
        attention.record = weights.append
    try:
        yield weights
    finally:
        for attention in attentions:
            del attention.record  # the class has None


@dataclass(frozen=True)
class SentenceAttention:
    """Where every head looked while a model read one sentence and wrote another.

    At target position t the model has `target_in[t]` as its input and writes `target_out[t]`: the input is the output
    shifted right by one. So row t of `decoder` and `cross` belongs to the writing of `target_out[t]`, and column t of
    `decoder` to `target_in[t]`.
    """

    source: tuple[str, ...]  # [S] pieces, the end token last
    target_in: tuple[str, ...]  # [T] the start token first
    target_out: tuple[str, ...]  # [T] the end token last, unless the translation was cut at its length limit
    encoder: Array  # [L, H, S, S]
    decoder: Array  # [L, H, T, T]
    cross: Array  # [L, H, T, S]
    log_probabilities: Array  # [T] of each piece of target_out, given those before it; natural logarithm
    source_text: str
    target_text: str
    finished: bool  # False: cut at the length limit, so target_out does not end with the end token

    @property
    def layers(self) -> int:
        return self.cross.shape[0]

    @property
    def heads(self) -> int:
        return self.cross.shape[1]


def sentence_attention(
    model: Any, vocabulary: Vocabulary, source: Sequence[int], target: Sequence[int]
) -> SentenceAttention:
    """One sentence of token ids, ending with EOS, and what was written for it, ending with EOS unless it was cut.

    Raises: UserError for a model that is no Transformer
    """
    if not hasattr(model, "encoder"):
        raise UserError(f"a model of type {type(model).__name__} has no attention to look at; give a Transformer")
    target_in = [BOS, *target[:-1]]
    weights = attention_weights(model, np.array([source]), np.array([target_in]))
    return SentenceAttention(
        source=tuple(vocabulary.pieces(source)),
        target_in=tuple(vocabulary.pieces(target_in)),
        target_out=tuple(vocabulary.pieces(target)),
        encoder=weights.encoder[0],
        decoder=weights.decoder[0],
        cross=weights.cross[0],
        log_probabilities=log_probabilities(weights.logits[0], np.array(target)),
        source_text=vocabulary.decode([source])[0],
        target_text=vocabulary.decode([target])[0],
        finished=target[-1] == EOS,
    )


def log_probabilities(logits: Array, tokens: Array) -> Array:
    """log softmax(logits) at `tokens`, in float64.  Shapes: logits [..., V], tokens int [...] -> [...]"""
    scores = logits.astype(np.float64)
    scores -= scores.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(scores, np.asarray(tokens)[..., None], axis=-1)[..., 0]
    return chosen - np.log(np.exp(scores).sum(axis=-1))
