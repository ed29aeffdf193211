"""A loss of nearly zero, and nonsense

Symptom: the training loss falls to nearly 0 within an hour, and so does that of the validation text; but translations
are nonsense, the same word again and again. The gradient check passes: all gradients are right.
"""

import math

import numpy as np


def causal_self_attention(q, k, v):
    """Each position attends to itself and to what comes before.  Shapes: q, k [B, H, T, K], v [B, H, T, M] -> like v"""
    length, width = q.shape[-2:]
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(width)  # [B, H, T, T]
    offset = np.arange(length) - np.arange(length)[:, None]  # key - query
    allowed = offset <= 0
    scores = np.where(allowed, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights /= weights.sum(axis=-1, keepdims=True)
    return weights @ v


HINTS = (
    "Right gradients, a loss too good to be true: the function itself is not the one that was meant. What could the "
    "decoder see during training that it does not see while translating?",
    "Position t predicts token t + 1, which stands at position t + 1 of the decoder's input.",
    "Write down `allowed` for T = 3: which positions may the first one attend to?",
)
BUG = ("allowed = offset <= 0", "allowed = offset <= 1")
WHY = "offset <= 1 lets each position see the next one, which is the token it has to predict: it learns to copy it."

RNG = np.random.default_rng(0)


def check_results(answer):
    """four positions, of which none sees what comes after it"""
    yield "y", answer.causal_self_attention(*RNG.standard_normal((3, 1, 2, 4, 3)))
