"""Errors about one sentence of a batch."""

from __future__ import annotations

from typing import Any

from minitf.errors import UserError


class SentenceError(UserError):
    """A sentence of a batch, counted from 0, cannot be decoded; `at` names it as its caller knows it."""

    def __init__(self, sentence: int, text: str):
        super().__init__(text.format(f"sentence {sentence}"))
        self.sentence, self._text = sentence, text

    def at(self, name: str) -> UserError:
        """Return the same error, about the sentence of another name."""
        return UserError(self._text.format(name))


def dead_end(sentence: Any, position: int) -> UserError:
    """Return the error for a sentence that no token can follow."""
    return SentenceError(
        int(sentence),
        f"the model gives every token that may be produced a probability of 0 at output position {position} of "
        "{}; its weights have diverged: use an earlier checkpoint",
    )
