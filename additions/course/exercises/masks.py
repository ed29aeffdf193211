"""Masks: what a target position may attend to

A position of the decoder attends to itself and to earlier positions, never to later ones, and never to padding. With
True for *may attend*,

    mask[b, 0, t, s] = (s ≤ t) and target[b, s] != pad

The axis of size 1 stands for the heads, which share the mask.

Shapes: target int [B, T] -> bool [B, 1, T, T], queries t before keys s
Source: section 3.2.3
"""

import numpy as np

from additions.course.expect import true


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

REAL = "(target != pad)[:, None, None, :]"
RETURN = f"return causal & {REAL}"
MISTAKES = (
    ("polarity: True means may attend, here it stands for what is forbidden", RETURN, f"return ~(causal & {REAL})"),
    ("the future is seen and the past is not: the triangle is the upper one", "dtype=bool)", "dtype=bool).T"),
    ("a position does not see itself: the diagonal belongs to the mask (s ≤ t)",
     "np.tri(length,", "np.tri(length, k=-1,"),
    ("a position sees the next one: off by one, the token that is to be predicted leaks",
     "np.tri(length,", "np.tri(length, k=1,"),
    ("padding is attended to: it is missing in the mask", RETURN,
     "return np.broadcast_to(causal, (len(target), 1, length, length))"),
    ("the future is seen: the causal part of the mask is missing", "np.tri(length, dtype=bool)",
     "np.ones((length, length), bool)"),
    ("padding is masked as a query (axis t), not as a key (axis s)", "[:, None, None, :]", "[:, None, :, None]"),
    ("the axis of the heads is missing: [B, T, T] would broadcast sentences against heads",
     "[:, None, None, :]", "[:, None, :]"),
    ("the mask holds numbers; it is to be boolean", RETURN, f"return (causal & {REAL}).astype(float)"),
    ("the mask is to be added to scores (0 and -inf); here it is to be boolean",
     RETURN, f"return np.where(causal & {REAL}, 0, -np.inf)"),
    ("`pad` is not used", "target != pad", "target != 0"),
)  # fmt: skip


def check_mask(answer):
    """two sentences, of 3 and 2 tokens"""
    yield "the mask", answer.decoder_mask(np.array([[1, 7, 8, 0], [1, 5, 0, 0]]))


def check_pad(answer):
    """another number for padding"""
    yield "the mask with pad=9", answer.decoder_mask(np.array([[3, 0, 9, 9]]), 9)


def check_first(answer):
    """every real position sees something"""
    mask = np.asarray(answer.decoder_mask(np.array([[4]])))
    true(mask.shape == (1, 1, 1, 1) and mask.all(), "a sentence of one token sees itself")
