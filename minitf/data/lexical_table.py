"""A lexical table, P(target piece | source piece): estimated from a parallel text, and in the text form of Marian.

    der the 0.5821        a line: target piece, source piece, probability
    . NULL 0.0712         the share of a target piece in the whole text, for "no source piece"; Marian skips these

Source: IBM model 1, Brown et al. 1993; the form is that of Marian's `--shortlist lex.s2t`
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from minitf.config.model import PAD
from minitf.data.piece_vocabulary import SPECIAL_TOKENS, PieceVocabulary
from minitf.data.sentences import Sentences
from minitf.data.text import read_lines
from minitf.data.vocabulary import AnyVocabulary, Vocabulary
from minitf.errors import UserError
from minitf.system.writing import atomic_write

NO_SOURCE = PAD
"""The source id of the entries for "no source piece": PAD stands in no sentence."""
NULL = "NULL"
"""Its name in a file."""
MOST_UNKNOWN = 0.05
"""A file with a larger share of lines that name other pieces was made with another vocabulary."""


@dataclass(frozen=True, eq=False)
class LexicalTable:
    """Probabilities of target pieces given source pieces, sorted by source, the most probable first, then by target."""

    source: np.ndarray  # [entries] int64
    target: np.ndarray  # [entries] int64
    probability: np.ndarray  # [entries] float64

    @classmethod
    def of(cls, source: np.ndarray, target: np.ndarray, probability: np.ndarray) -> LexicalTable:
        """Sort entries that may be in any order."""
        order = np.lexsort((target, -probability, source))
        return cls(source[order], target[order], probability[order])

    def best(self, count: int, above: float = 0.0) -> LexicalTable:
        """The `count` most probable targets of each source that are more probable than `above`; all of no source."""
        rank = np.arange(len(self.source)) - np.searchsorted(self.source, self.source)  # among those of the source
        kept = (rank < count) & (self.probability > above) | (self.source == NO_SOURCE)
        return LexicalTable(self.source[kept], self.target[kept], self.probability[kept])

    # ---- Files ----

    def write(self, path: Path, vocabulary: AnyVocabulary) -> None:
        """Write the entries whose pieces have names, a line each."""
        source, target = piece_names(vocabulary.source), piece_names(vocabulary.target)
        source[NO_SOURCE] = NULL
        with atomic_write(path, "w", chosen=True) as file:
            for s, t, p in zip(self.source.tolist(), self.target.tolist(), self.probability.tolist(), strict=True):
                if s in source and t in target:
                    file.write(f"{target[t]} {source[s]} {p:.7f}\n")

    @classmethod
    def read(cls, path: Path, vocabulary: AnyVocabulary) -> LexicalTable:
        """Read a file of Marian's form; lines that name pieces without an id, in unknown words, are left out.

        Raises: UserError for a file without lines, with other lines, or made with another vocabulary
        """
        source = {name: number for number, name in piece_names(vocabulary.source).items()} | {NULL: NO_SOURCE}
        target = {name: number for number, name in piece_names(vocabulary.target).items()}
        lines = list(_fields(path))
        if not lines:
            raise UserError(f"{path} is empty; make a shortlist with: minitf shortlist RUN SOURCE TARGET --output FILE")
        entries = {(source[s], target[t]): p for t, s, p in lines if s in source and t in target}
        unknown = sum(s not in source or t not in target for t, s, _ in lines)
        if unknown > MOST_UNKNOWN * len(lines):
            raise UserError(
                f"{unknown:,} of the {len(lines):,} lines of {path} name pieces that the vocabulary does not have: the "
                "file was made with another vocabulary, or its columns are not target, source, probability"
            )
        columns = np.array([(*ids, p) for ids, p in entries.items()]).T  # ids are exact in float64
        return cls.of(columns[0].astype(np.int64), columns[1].astype(np.int64), columns[2])


def piece_names(vocabulary: Vocabulary | PieceVocabulary) -> dict[int, str]:
    """The name of each piece but special tokens; a space in it is written "▁"."""
    if isinstance(vocabulary, PieceVocabulary):
        names = vocabulary.pieces_by_id
    else:
        names = vocabulary.pieces(range(len(vocabulary)))
    named = ((number, re.sub(r"\s", "▁", name)) for number, name in enumerate(names))
    return {number: name for number, name in named if number >= SPECIAL_TOKENS and name != NULL}


def _fields(path: Path) -> Iterator[tuple[str, str, float]]:
    """The fields of each line that has a target piece.  Raises: UserError for lines of another form"""
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split(" ")
        if len(fields) != 3:  # the general rule takes three times as long
            fields = re.split(r"[ \t]+", line.strip(" \t"))
        try:
            target, source, probability = fields[0], fields[1], float(fields[2])
            well_formed = len(fields) == 3 and 0 <= probability <= 1
        except (IndexError, ValueError):
            well_formed = False
        if not well_formed:
            raise UserError(
                f"line {number:,} of {path} is not a target piece, a source piece and a probability: {line[:60]!r}"
            )
        if target != NULL:
            yield target, source, probability


# ---- Estimation --------------------------------------------------------------------------------------------------


def model_1(pairs: Iterable[tuple[Sentences, Sentences]], iterations: int = 5) -> LexicalTable:
    """Estimate P(target | source) by expectation maximisation: IBM model 1 with "no source piece" in each sentence.

    In each iteration, every target piece is divided among the source pieces of its sentence in proportion to
    P(target | source); the shares, added up and normalised for each source piece, are the next probabilities. At the
    end, the entries of "no source piece" become the share of each target piece in the text.

    pairs: sources and targets, some sentences at a time; 8 bytes a pair of pieces of a sentence are kept in memory
    """
    chunks = [_cells(*sides) for sides in pairs]
    keys = np.unique(np.concatenate([np.empty(0, np.int64), *(np.unique(key) for key, _ in chunks)]))
    cells = [(np.searchsorted(keys, key).astype(np.int32), column) for key, column in chunks]
    del chunks
    source, target = keys >> 32, keys & 0xFFFFFFFF
    probability = np.ones(len(keys))
    for _ in range(iterations):
        counts = np.zeros(len(keys))
        for entry, column in cells:
            share = probability[entry]
            share /= np.bincount(column, share)[column]
            counts += np.bincount(entry, share, len(keys))
        probability = counts / np.bincount(source, counts)[source]
    occurrences = sum((np.bincount(entry, minlength=len(keys)) for entry, _ in cells), np.zeros(len(keys)))
    alone = source == NO_SOURCE  # which each target piece meets once
    probability[alone] = occurrences[alone] / occurrences[alone].sum()
    return LexicalTable.of(source, target, probability)


def _cells(source: Sentences, target: Sentences) -> tuple[np.ndarray, np.ndarray]:
    """All pairs of a target piece and a source piece of its sentence, or of no source piece.

    Shapes: -> source << 32 | target int64 [cells], which target piece of the text int32 [cells]
    """
    source = Sentences.from_lists([[NO_SOURCE, *source[i].tolist()] for i in range(len(source))])
    meets = np.repeat(source.lengths, target.lengths)  # [target pieces] how many source pieces each meets
    first = np.repeat(source.offsets[:-1], target.lengths)  # [target pieces] the first of these
    column = np.repeat(np.arange(len(meets), dtype=np.int32), meets)  # [cells]
    place = np.arange(len(column)) - np.repeat(np.cumsum(meets) - meets - first, meets)  # [cells]
    return source.ids[place].astype(np.int64) << 32 | target.ids[column], column
