"""The rules that a run's text is normalised by, as the normaliser of a sentencepiece model.

A run composes characters (NFC) and folds white space in Python, before sentencepiece; `vocabulary.model` has neither.
An exported model has both, so that every program that reads it cuts the same text into the same pieces.
"""

from __future__ import annotations

import itertools
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import cache, partial

from sentencepiece import SentencePieceNormalizer, set_min_log_level

from additions.interchange.protocol_buffers import fields_of

NORMALIZER_SPEC, NAME, CHARSMAP = 3, 1, 2
"""Fields of sentencepiece's ModelProto, and of the NormalizerSpec in it."""


def with_normaliser(model: bytes) -> bytes:
    """Return a sentencepiece model whose own normaliser does what `minitf.data.text.normalise` does.

    In a protocol buffer a message that is there twice is merged, so that the normaliser may stand behind the model.
    """
    spec = fields_of(model)[NORMALIZER_SPEC] + _field(NAME, b"minitf_nfc") + _field(CHARSMAP, _charsmap())
    return model + _field(NORMALIZER_SPEC, spec)


def _field(number: int, content: bytes) -> bytes:
    size, length = len(content), b""
    while size >= 0x80:
        size, length = size >> 7, length + bytes([size & 0x7F | 0x80])
    return bytes([number << 3 | 2]) + length + bytes([size]) + content


@cache
def _charsmap() -> bytes:
    set_min_log_level(2)  # errors alone: sentencepiece writes to standard error how large the map is
    return fields_of(SentencePieceNormalizer(norm_map=list(rules().items())).serialized_normalizer_spec())[CHARSMAP]


def rules() -> dict[str, str]:
    """Return the replacements, of which the longest that fits is made: white space, and whatever NFC composes.

    All spellings of a character are composed, its marks in any order that means the same. Marks of a group that no
    single character stands for keep their order, which NFC would change in rare cases.
    """
    composite = {each: parts for each in _characters() if (parts := unicodedata.normalize("NFD", each)) != each}
    others: defaultdict[str, list[str]] = defaultdict(list)  # characters that NFC replaces by one
    for character in composite:
        if (composed := nfc(character)) != character:
            others[composed].append(character)
    found = {}
    for character, parts in composite.items():
        composed = nfc(character)
        for spelling in {character, *_spellings(parts, composed, others)} - {composed}:
            found[spelling] = composed
    spaces = [each for each in _characters() if each.isspace() and each != " "]
    return found | dict.fromkeys([*spaces, "▁"], " ")


nfc = partial(unicodedata.normalize, "NFC")


def _characters() -> Iterator[str]:
    """All characters of Unicode but half surrogate pairs."""
    return map(chr, itertools.chain(range(1, 0xD800), range(0xE000, sys.maxunicode + 1)))


def _spellings(parts: str, composed: str, others: Mapping[str, list[str]]) -> Iterator[str]:
    """Other spellings of a character whose NFD is `parts`: its first marks composed, or replaced by their equals."""
    for marks in map("".join, itertools.permutations(parts[1:])):
        if nfc(parts[0] + marks) != composed:
            continue
        for end in range(len(parts)):
            if len(first := nfc(parts[0] + marks[:end])) == 1:
                each = [[letter, *others[letter]] for letter in first + marks[end:]]
                yield from map("".join, itertools.product(*each))
