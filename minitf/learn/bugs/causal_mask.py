"""A loss of nearly zero, and nonsense

Symptom: the training loss falls to nearly 0 within an hour, and so does that of the validation text; but translations
are nonsense, the same word again and again. The gradient check passes: all gradients are right.
"""

import math

import numpy as np

from minitf.learn.expect import true


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
MUTANT = ("autograd.ops.nn:allowed", "causal mask off by one: the next position is seen")
WHY = "offset <= 1 lets each position see the next one, which is the token it has to predict: it learns to copy it."
RIGHT_LINES = {
    "offset = np.arange": "row t, column s holds s - t: negative for the past, 0 for the position itself",
    "math.sqrt(width)": "the scale is 1/√K",
    "np.where(allowed": "what is not allowed gets a score of -inf, a weight of 0",
    "scores.max(axis=-1": "the largest score is subtracted so that exp does not overflow",
    "weights /= ": "the weights of a query add up to 1",
    "length, width = q.shape": "T and K are the last two axes",
}


def check_future(answer):
    """a position does not depend on later ones"""
    rng = np.random.default_rng(0)
    q, k, v = (rng.standard_normal((1, 1, 4, 3)) for _ in range(3))
    before = answer.causal_self_attention(q, k, v)
    k[:, :, 2:], v[:, :, 2:] = 9, 9
    after = answer.causal_self_attention(q, k, v)
    true(np.array_equal(before[:, :, :2], after[:, :, :2]), "position 1 depends on position 2, which comes later")
    true(not np.allclose(before[:, :, 3], after[:, :, 3]), "position 3 does not depend on itself or position 2")
