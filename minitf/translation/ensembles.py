"""Runs that translate together: what they must have in common, and how each reads the source."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from minitf.config.model import EOS, PAD, UNK
from minitf.data.sentences import Sentences, pad
from minitf.errors import UserError
from minitf.translation.loading import LearnedModel


def require_one_target(models: Sequence[LearnedModel]) -> None:
    """Raises: UserError for models that cannot translate together: of other target vocabularies, or other tasks"""
    first = models[0]
    for other in models[1:]:
        if other.vocabulary.target.fingerprint() != first.vocabulary.target.fingerprint():
            raise UserError(
                f"{other.origin} has another target vocabulary than {first.origin}; models that translate together "
                "need the same one"
            )
        if other.config.task != first.config.task:
            raise UserError(
                f"{other.origin} was trained for {other.config.task}, {first.origin} for {first.config.task}; "
                "give models of one task"
            )


def source_reader(first: LearnedModel, other: LearnedModel) -> Callable[[np.ndarray], np.ndarray] | None:
    """A function that turns the token ids that the first model reads into those of the other; None: they are the same.

    Text without a piece in the vocabulary of the first model is lost.
    """
    mine, theirs, eos = first.vocabulary.source, other.vocabulary.source, other.config.model.source_eos
    same_ids = mine.fingerprint() == theirs.fingerprint()
    if same_ids and eos == first.config.model.source_eos:
        return None

    def read(source: np.ndarray) -> np.ndarray:
        rows = [[index for index in row if index not in (PAD, EOS)] for row in source.tolist()]
        if not same_ids:
            rows = theirs.encode(mine.decode(rows))
        return pad(Sentences.from_lists([row if row or eos else [UNK] for row in rows]), eos=eos)

    return read
