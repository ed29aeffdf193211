"""Log-probabilities of the next token: the most probable ones, or that of a given one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograd.backend import backend_of
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.errors import UserError

Array = NDArray[Any]
Finder = Callable[[Array, Array, int], tuple[Array, Array, Array]]
"""`top_tokens`, or what a decoder computes it with."""


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


def most_probable(
    logits: Array,
    count: int,
    position: int,
    sentences: Array,
    forbidden: tuple[int, ...] = (),
    find: Finder = top_tokens,
) -> tuple[Array, Array]:
    """Return the `count` most probable tokens of each row, best first, equal ones by id, and their log-probabilities.

    Probabilities are normalised over all logits; forbidden tokens have -inf. `position` and `sentences` are for error
    messages.

    Shapes: logits [R, V], on any device, sentences [R] -> token [R, C], log-probability [R, C] float64
    Raises: DivergedError for logits that are not finite
    """
    barred = np.zeros(logits.shape[1], bool)
    barred[list(forbidden)] = True
    tokens, values, log_total = find(logits, barred, min(count, logits.shape[1]))
    _require_numbers(log_total, logits, position, sentences)
    # not above 0, however the device rounds: the stop rule relies on that
    return tokens.astype(np.int64, copy=False), np.minimum(values - log_total.astype(np.float64)[:, None], 0)


def most_probable_next(
    logits: Array,
    count: int,
    position: int,
    sentences: Array,
    allow_unknown: bool,
    may_end: Array,
    find: Finder = top_tokens,
) -> tuple[Array, Array]:
    """`most_probable` among the tokens that search may choose: EOS in the rows of `may_end` only.

    Shapes: logits [R, V], sentences [R], may_end bool [R] -> token [R, C], log-probability [R, C] float64
    """
    found = {
        end: most_probable(logits, count, position, sentences, never_produced(allow_unknown, end), find)
        for end in {*may_end.tolist()}
    }
    if len(found) == 1:
        return found.popitem()[1]
    (token, gained), (other_token, other_gained) = found[True], found[False]
    rows = may_end[:, None]
    return np.where(rows, token, other_token), np.where(rows, gained, other_gained)


def finder_of(decoder: Any) -> Finder:
    """Return the function that finds the largest logits of a decoder."""
    return getattr(decoder, "top_tokens", top_tokens)


def log_probabilities_of(
    logits: Array, tokens: Array, position: int, sentences: Array, find: Finder = top_tokens
) -> Array:
    """log P of one given token in each row.  Shapes: logits [R, V], tokens [R] -> [R] float64"""
    backend = backend_of([logits])
    log_total = find(logits, np.zeros(logits.shape[1], bool), 1)[2]
    _require_numbers(log_total, logits, position, sentences)
    chosen = backend.to_host(logits[backend.asarray(np.arange(len(tokens))), backend.asarray(tokens)])
    return chosen.astype(np.float64) - log_total


class DivergedError(UserError):
    """The model gives no token a probability; `at` names the sentence as its caller knows it."""

    def __init__(self, gives: str, position: int, sentence: int):
        """gives: at this position of this sentence of the batch, counted from 0"""
        self.sentence = sentence
        self._text = (
            f"the model gives {gives} at output position {position} of {{}}; its weights have diverged: use an earlier "
            "checkpoint"
        )
        super().__init__(self._text.format(f"sentence {sentence}"))

    def at(self, name: str) -> UserError:
        """Return the same error, about the sentence of another name."""
        return UserError(self._text.format(name))


def dead_end(sentence: Any, position: int) -> DivergedError:
    """Return the error for a sentence that no token can follow."""
    return DivergedError("every token that may be produced a probability of 0", position, int(sentence))


def never_produced(allow_unknown: bool, may_end: bool) -> tuple[int, ...]:
    """Return the tokens that search may not choose: PAD, BOS, UNK unless allowed, EOS before the least length."""
    return (PAD, *(() if allow_unknown else (UNK,)), BOS, *(() if may_end else (EOS,)))


def _require_numbers(log_total: Array, logits: Array, position: int, sentences: Array) -> None:
    """Raises: DivergedError if the logarithm of a row's normaliser is not finite."""
    if not (finite := np.isfinite(log_total)).all():
        first = np.flatnonzero(~finite)[0]
        largest = backend_of([logits]).to_host(logits[first]).max()
        raise DivergedError(f"logits of {float(largest)}", position, int(sentences[first]))
