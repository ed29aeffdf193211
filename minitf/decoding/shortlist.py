"""Lexical shortlists: the few target tokens that the translation of a batch may consist of.

A large part of decoding computes logits of words that cannot occur. With a shortlist, the logits are those of the most
frequent target pieces, of the likely translations of the source pieces and, with one vocabulary, of the source pieces
themselves. Probabilities are normalised over these tokens, so results differ from those of the whole vocabulary.

Source: the rule and the form of the file are Marian's, `--shortlist lex.s2t [first [best [prune]]]`
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from minitf.data.lexical_table import NO_SOURCE, LexicalTable, piece_names
from minitf.data.piece_vocabulary import SPECIAL_TOKENS
from minitf.data.vocabulary import AnyVocabulary
from minitf.errors import UserError

Array = Any


class Shortlist:
    """The candidates of a batch, by a lexical table."""

    def __init__(
        self, table: LexicalTable, vocabulary: AnyVocabulary, first: int = 100, best: int = 100, prune: float = 0.0
    ):
        """
        first: number of most frequent target pieces, which are candidates of every batch; by the probabilities of "no
            source piece", then in the order of the vocabulary
        best: number of most probable translations of each source piece
        prune: only translations more probable than this
        """
        self.vocabulary_fingerprint = vocabulary.fingerprint()
        self._shared = vocabulary.source.fingerprint() == vocabulary.target.fingerprint()
        names = np.array([*piece_names(vocabulary.target)])
        frequent = [*dict.fromkeys([*table.target[table.source == NO_SOURCE].tolist(), *names.tolist()])]
        self._always = np.zeros(len(vocabulary.target), bool)  # [V]
        self._always[[*range(SPECIAL_TOKENS), *frequent[:first]]] = True
        translations = table.best(best, prune)
        self._translations = translations.target
        self._ends = np.searchsorted(translations.source, np.arange(len(vocabulary.source) + 1))  # [V of sources + 1]

    @classmethod
    def load(cls, path: Path, vocabulary: AnyVocabulary, **limits: Any) -> Shortlist:
        """Read a file of Marian's form.  Limits: `first`, `best`, `prune`

        Raises: UserError for a file without lines, with other lines, or made with another vocabulary
        """
        return cls(LexicalTable.read(Path(path), vocabulary), vocabulary, **limits)

    def require_usable(self, vocabulary: AnyVocabulary) -> None:
        """Raises: UserError for another vocabulary than the shortlist's"""
        if vocabulary.fingerprint() != self.vocabulary_fingerprint:
            raise UserError("the shortlist was loaded for another vocabulary; load it with the translator's")

    def tokens(self, source: Array) -> Array:
        """The candidates of a batch, ascending, with all special tokens.  Shapes: source int [B, S] -> int64 [C]"""
        chosen = self._always.copy()
        pieces = np.unique(source)
        if self._shared:
            chosen[pieces] = True
        for piece in pieces[pieces != NO_SOURCE].tolist():
            chosen[self._translations[self._ends[piece] : self._ends[piece + 1]]] = True
        return np.flatnonzero(chosen)
