"""Masks: what a target position may attend to

A position of the decoder attends to itself and to earlier positions, never to later ones, and never to padding. With
True for *may attend*,

    mask[b, 0, t, s] = (s ≤ t) and target[b, s] != pad

The axis of size 1 stands for the heads, which share the mask.

Shapes: target int [B, T] -> bool [B, 1, T, T], queries t before keys s
Source: section 3.2.3
"""

import numpy as np

from minitf.learn.expect import equal, true


def decoder_mask(target, pad=0):
    """True where position t may attend to position s."""
    # solution
    length = target.shape[1]
    causal = np.tri(length, dtype=bool)
    return causal & (target != pad)[:, None, None, :]
    # end


HINTS = (
    "Two masks are combined with &: the causal one [T, T], the same for all sentences, and one of real tokens, [B, T].",
    "np.tri(T, dtype=bool) is True on and below the diagonal: row t, a query, sees the columns s ≤ t.",
    "Padding is a property of the key s, the last axis: (target != pad)[:, None, None, :] broadcasts over heads and "
    "queries.",
)

TARGET = np.array([[1, 7, 8, 0], [1, 5, 0, 0]])
CAUSAL = np.tri(4, dtype=bool)
REAL = (TARGET != 0)[:, None, None, :]
RIGHT = CAUSAL & REAL


def check_mask(answer):
    """two sentences, of 3 and 2 tokens"""
    mistakes = {
        "polarity: True means may attend, here it stands for what is forbidden": ~RIGHT,
        "the future is seen and the past is not: the triangle is the upper one": np.triu(np.ones((4, 4), bool)) & REAL,
        "a position does not see itself: the diagonal belongs to the mask (s ≤ t)": np.tri(4, k=-1, dtype=bool) & REAL,
        "a position sees the next one: off by one, the token that is to be predicted leaks": (
            np.tri(4, k=1, dtype=bool) & REAL
        ),
        "padding is attended to: it is missing in the mask": np.broadcast_to(CAUSAL, RIGHT.shape),
        "the future is seen: the causal part of the mask is missing": np.broadcast_to(REAL, RIGHT.shape),
        "the two masks are combined with or; a key must be real and not later (&)": CAUSAL | REAL,
        "padding is seen and tokens are not: the comparison with `pad` is the wrong way round": CAUSAL & ~REAL,
        "padding is masked as a query (axis t), not as a key (axis s)": CAUSAL & (TARGET != 0)[:, None, :, None],
        "the axis of the heads is missing: [B, T, T] would broadcast sentences against heads": RIGHT[:, 0],
        "the mask holds numbers; it is to be boolean": RIGHT.astype(float),
        "the mask is to be added to scores (0 and -inf); here it is to be boolean": np.where(RIGHT, 0, -np.inf),
    }
    equal("the mask", answer.decoder_mask(TARGET), RIGHT, mistakes)


def check_pad(answer):
    """another number for padding"""
    target = np.array([[3, 0, 9, 9]])
    right = CAUSAL & (target != 9)[:, None, None, :]
    equal(
        "the mask with pad=9",
        answer.decoder_mask(target, 9),
        right,
        {"`pad` is not used": CAUSAL & (target != 0)[:, None, None]},
    )


def check_first(answer):
    """every real position sees something"""
    mask = np.asarray(answer.decoder_mask(np.array([[4]])))
    true(mask.shape == (1, 1, 1, 1) and mask.all(), "a sentence of one token sees itself")
