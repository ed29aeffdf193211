"""BLEU depends on the batch size

Symptom: the loss falls, but BLEU is 3 points lower than it should be. Translated one at a time, sentences are right; in
a batch with longer sentences, the same sentences get other translations, the worse the more the lengths differ.
"""

import math

import numpy as np

from minitf.learn.expect import equal

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
MUTANT = ("minitf.model.transformer:padding_mask", "padding is seen too")
WHY = "ids >= PAD is True for padding as well, so that short sentences attend to the padding behind them."
RIGHT_LINES = {
    "real[:, None, None, :]": "the mask is one of keys, the last axis, for all heads and queries",
    "PAD, UNKNOWN, BOS, EOS": "these are the ids of the special tokens",
    "np.where(padding_mask(ids)": "what may not be attended to gets a score so low that its weight is 0",
    "math.sqrt(q.shape[-1])": "the scale is 1/√K",
    "scores.max(axis=-1": "the largest score is subtracted so that exp does not overflow",
    "weights /= ": "the weights of a query add up to 1",
}


def check_padding(answer):
    """a sentence alone and in a batch"""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, 4, 3)) for _ in range(3))
    padded = answer.encoder_self_attention(q, k, v, np.array([[7, 3, 0, 0]]))
    alone = answer.encoder_self_attention(q[:, :, :2], k[:, :, :2], v[:, :, :2], np.array([[7, 3]]))
    equal("what the real tokens get", padded[:, :, :2], alone)
