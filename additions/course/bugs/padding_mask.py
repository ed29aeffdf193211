"""BLEU depends on the batch size

Symptom: the loss falls, but BLEU is 3 points lower than it should be. Translated one at a time, sentences are right; in
a batch with longer sentences, the same sentences get other translations, the worse the more the lengths differ.
"""

import math

import numpy as np

PAD, UNKNOWN, BOS, EOS = 0, 1, 2, 3


def padding_mask(ids):
    """True at tokens that may be attended to.  Shapes: ids int [B, S] -> bool [B, 1, 1, S]"""
    real = ids > PAD
    return real[:, None, None, :]


def encoder_self_attention(q, k, v, ids):
    """Shapes: q, k [B, H, S, K], v [B, H, S, M], ids int [B, S] -> [B, H, S, M]"""
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])  # [B, H, S, S]
    scores = np.where(padding_mask(ids), scores, -1e9)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v


HINTS = (
    "What does a sentence see in a batch with longer ones that it does not see alone?",
    "Compute padding_mask for ids [[7, 3, 0, 0]] by hand: PAD is 0.",
    "Which comparison lets PAD through?",
)
BUG = ("real = ids > PAD", "real = ids >= PAD")
WHY = "ids >= PAD is True for padding as well, so that short sentences attend to the padding behind them."

RNG = np.random.default_rng(0)


def check_results(answer):
    """sentences of different lengths in a batch"""
    ids = np.array([[7, 3, 0, 0], [4, 1, 2, 9]])
    yield "the output", answer.encoder_self_attention(*RNG.standard_normal((3, 2, 1, 4, 3)), ids)
