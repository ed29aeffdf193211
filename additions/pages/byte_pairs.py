"""The merges of a byte-pair vocabulary, read from its sentencepiece model, for a program that has no sentencepiece."""

import struct

from minitf.data.prepared import all_fields_of, encodes_words_apart, fields_of
from minitf.data.vocabulary import Vocabulary

__all__ = ["byte_pairs"]

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # ModelProto.SentencePiece.type


def byte_pairs(vocabulary: Vocabulary) -> tuple[list[str], list[float | None], list[int]] | None:
    """Pieces, their scores, and the ids of the 256 bytes, or of none: all that cuts a word into pieces.

    The neighbours that make the piece of the highest score are merged first, of equal ones the first in the word. None
    in place of a score: no merge makes the piece. None in place of all: the vocabulary has other rules.
    """
    if not encodes_words_apart(vocabulary):
        return None
    fields = [fields_of(piece) for number, piece in all_fields_of(vocabulary.model) if number == 1]
    kinds = [each.get(3, NORMAL) for each in fields]
    if not {*kinds} <= {NORMAL, UNKNOWN, CONTROL, BYTE}:
        return None  # symbols that are never cut, or pieces that are never used
    pieces = vocabulary.pieces(range(len(vocabulary)))
    scores = [_float(each.get(2)) if kind == NORMAL else None for each, kind in zip(fields, kinds, strict=True)]
    byte_ids = {piece: i for i, (piece, kind) in enumerate(zip(pieces, kinds, strict=True)) if kind == BYTE}
    return pieces, scores, [byte_ids[f"<0x{byte:02X}>"] for byte in range(256)] if byte_ids else []


def _float(four_bytes: bytes | None) -> float:
    return 0.0 if four_bytes is None else struct.unpack("<f", four_bytes)[0]
