"""Lines to token ids by their words, each distinct word once: several times as fast as line by line.

Text repeats its words, and byte-pair encoding never merges across a space, so a line's ids are those of its words end
to end. sentencepiece then sees each distinct word once, and all else is a dictionary and NumPy.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitf.data.sentences import Sentences
from minitf.data.text import words_of
from minitf.data.vocabulary import Vocabulary
from minitf.data.vocabulary_pair import PieceVocabulary

MAX_WORDS, MAX_IDS = 2**18, 2**22
"""Of a table, which is begun again once it holds more: some 60 MB."""
BYTE_PAIRS = 2  # ModelProto.trainer_spec.model_type


def line_encoder(vocabulary: Vocabulary | PieceVocabulary) -> Callable[[Sequence[str]], Sentences]:
    """Return a function that encodes lines as `vocabulary.encode` does, with all ids in one array.

    It keeps what it has encoded, and is to be called by one thread at a time.
    """
    if isinstance(vocabulary, Vocabulary) and encodes_words_apart(vocabulary):
        return WordTable(vocabulary).encode
    return lambda lines: Sentences.from_lists(vocabulary.encode(lines))


class WordTable:
    """The words seen so far, and their token ids."""

    def __init__(self, vocabulary: Vocabulary):
        self.vocabulary = vocabulary
        self.numbers = _Numbers()  # of each word, its place in `words`
        self.words = Sentences.from_lists([])

    def encode(self, lines: Sequence[str]) -> Sentences:
        """Encode lines."""
        if len(self.numbers) > MAX_WORDS or len(self.words.ids) > MAX_IDS:
            self.numbers, self.words = _Numbers(), Sentences.from_lists([])
        rows = [words_of(line) for line in lines]
        numbers = np.fromiter(map(self.numbers.__getitem__, itertools.chain.from_iterable(rows)), np.int64)
        new = itertools.islice(self.numbers, len(self.words), None)
        self.words = self.words.followed_by(Sentences.from_lists(self.vocabulary.encode(list(new))))
        by_word = self.words.take(numbers)
        ends = np.cumsum([0, *map(len, rows)])  # [lines + 1] in words
        return Sentences(by_word.ids, by_word.offsets[ends])


class _Numbers(dict[str, int]):
    """The number of each word, in the order in which they are first asked for."""

    def __missing__(self, word: str) -> int:
        self[word] = number = len(self)
        return number


def encodes_words_apart(vocabulary: Vocabulary) -> bool:
    """Whether a line's ids are those of its words: byte-pair encoding without rules of its own for characters, and no
    piece that reaches across a space.

    Vocabularies that are trained here do; other sentencepiece models may not.
    """
    model = _fields(vocabulary.model)
    trainer, normalizer = (_fields(bytes(model.get(number, b""))) for number in (2, 3))
    if trainer.get(3) != BYTE_PAIRS or trainer.get(24):  # 24: treat_whitespace_as_suffix
        return False
    if normalizer.get(2) or not (normalizer.get(3, 1) and normalizer.get(5, 1)):
        return False  # 2: precompiled_charsmap, 3: add_dummy_prefix, 5: escape_whitespaces
    return not any("▁" in piece[1:] for piece in vocabulary.pieces(range(len(vocabulary))))


def _fields(message: bytes) -> dict[int, Any]:
    """The fields of a protocol buffer by number, the last where one is repeated; none where it has groups."""
    found: dict[int, Any] = {}
    at = 0

    def varint() -> int:
        nonlocal at
        value = shift = 0
        while True:
            byte = message[at]
            at, value, shift = at + 1, value | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                return value

    while at < len(message):
        number, kind = divmod(varint(), 8)
        if kind == 0:
            found[number] = varint()
        elif kind in (1, 2, 5):
            size = varint() if kind == 2 else 8 if kind == 1 else 4
            found[number], at = message[at : at + size], at + size
        else:
            return {}
    return found
