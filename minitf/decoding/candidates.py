"""Log-probabilities of the next token: the most probable ones, or that of a given one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograd.backend import backend_of
from minitf.config.model import BOS, PAD, UNK
from minitf.errors import UserError

__all__ = ["NEVER", "finder_of", "log_probabilities_of"]

Array = NDArray[Any]
Finder = Callable[[Array, Array, int], tuple[Array, Array, Array]]
"""`top_tokens`, or what a decoder computes it with."""
NEVER: tuple[int, ...] = PAD, UNK, BOS
"""Tokens that stand for no text, which search does not choose."""


def top_tokens(logits: Array, barred: Array, count: int) -> tuple[Array, Array, Array]:
    """Find the `count` largest logits of each row that are not barred, equal ones by id, and ln Σ exp of the row.

    Barred ids, with -inf, follow if there are too few others.  If the largest logit is not finite, the sum is NaN.
    A fast decoder has a `Finder` of its own that does not sort whole rows.

    Shapes: logits [R, V], barred bool [V] -> ids int [R, count], values [R, count], [R]; all three on the host
    """
    logits = backend_of([logits]).to_host(logits)
    values = np.where(barred, logits.dtype.type(-np.inf), logits)
    ids = np.argsort(-values, axis=1, kind="stable")[:, :count]
    top = logits.max(axis=1)
    with np.errstate(invalid="ignore"):
        total = np.exp(logits - top[:, None]).sum(axis=1)
    return ids, at_places(values, ids), top.astype(np.float64) + np.log(total.astype(np.float64))


def at_places(array: Array, places: Array) -> Array:
    """`np.take_along_axis` along axis 1, in a third of the time for a few rows.  [R, W, …], [R, C] -> [R, C, …]"""
    return array[np.arange(len(array))[:, None], places]


def most_probable(logits: Array, count: int, position: int, find: Finder = top_tokens) -> tuple[Array, Array]:
    """Return the `count` most probable tokens of each row, best first, equal ones by id, and their log-probabilities.

    Probabilities are normalised over all logits.  The tokens of `NEVER` have -inf.

    position: for error messages
    Shapes: logits [R, V], on any device -> token [R, C], log-probability [R, C] float64
    Raises: UserError for logits that are not finite
    """
    barred = np.zeros(logits.shape[1], bool)
    barred[list(NEVER)] = True
    tokens, values, log_total = find(logits, barred, min(count, logits.shape[1]))
    _require_numbers(log_total, logits, position)
    # not above 0, however the device rounds: the stop rule relies on that
    return tokens.astype(np.int64, copy=False), np.minimum(values - log_total.astype(np.float64)[:, None], 0)


def finder_of(decoder: Any) -> Finder:
    """Return the function that finds the largest logits of a decoder."""
    return getattr(decoder, "top_tokens", top_tokens)


def log_probabilities_of(logits: Array, tokens: Array, position: int, find: Finder = top_tokens) -> Array:
    """log P of one given token in each row.  Shapes: logits [R, V], tokens [R] -> [R] float64"""
    backend = backend_of([logits])
    log_total = find(logits, np.zeros(logits.shape[1], bool), 1)[2]
    _require_numbers(log_total, logits, position)
    chosen = backend.to_host(logits[backend.asarray(np.arange(len(tokens))), backend.asarray(tokens)])
    return chosen.astype(np.float64) - log_total


def diverged(gives: str, position: int) -> UserError:
    """Return the error for a model that gives no token a probability."""
    return UserError(
        f"the model gives {gives} at output position {position}; its weights have diverged: use an earlier checkpoint"
    )


def dead_end(position: int) -> UserError:
    """Return the error for an output that no token can follow."""
    return diverged("every token that may be produced a probability of 0", position)


def _require_numbers(log_total: Array, logits: Array, position: int) -> None:
    """Raises: UserError if the logarithm of a row's normaliser is not finite."""
    if not (finite := np.isfinite(log_total)).all():
        largest = backend_of([logits]).to_host(logits[np.flatnonzero(~finite)[0]]).max()
        raise diverged(f"logits of {float(largest)}", position)
