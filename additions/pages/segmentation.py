"""The rules by which a vocabulary cuts text into pieces, as plain values for a program that has no sentencepiece.

pairs           the neighbours that make the piece of the highest score are merged first
unigram         the pieces whose scores have the largest sum
words           words at white space, or subwords that a joiner ends ("to@@ day")
characters      one character a piece
"""

from __future__ import annotations

import base64
import struct
from typing import Any

from additions.interchange.piece_vocabulary import LANGUAGE, PieceVocabulary
from additions.interchange.protocol_buffers import all_fields_of, fields_of
from minitf.data.vocabulary import AnyVocabulary, Vocabulary
from minitf.errors import UserError

NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # ModelProto.SentencePiece.type
KINDS = {1: "unigram", 2: "pairs"}  # TrainerSpec.model_type


def rules_of(vocabulary: AnyVocabulary, name: str) -> dict[str, Any]:
    """Return kind, pieces by id and, of a sentencepiece model, scores and normalisation.

    scores: by id; None for a piece that text never becomes
    others: the scores of the model's pieces that have no id; they are cut, and are unknown
    bytes: whether a character without a piece is spelled in bytes
    trie, texts: replacements of the model's normalisation, see `normalised` in web/translator-vocabulary.js

    Raises: UserError for rules that the page does not have
    """
    if isinstance(vocabulary, Vocabulary):
        pieces = vocabulary.pieces(range(len(vocabulary)))
        return {"pieces": pieces, "composed": True, **_of_sentencepiece(vocabulary.model, pieces, name)}
    assert isinstance(vocabulary, PieceVocabulary)
    pieces = vocabulary.pieces_by_id
    if vocabulary.kind == "sentencepiece":
        codes = any(LANGUAGE.fullmatch(piece) for piece in pieces)
        return {"pieces": pieces, "codes": codes, **_of_sentencepiece(vocabulary.model, pieces, name)}
    return {"pieces": pieces, "kind": vocabulary.kind, "joiner": vocabulary.joiner}


def _of_sentencepiece(model: bytes, pieces: list[str], name: str) -> dict[str, Any]:
    fields = all_fields_of(model)
    trainer, normalizer = (fields_of(bytes(dict(fields).get(number, b""))) for number in (2, 3))
    listed = [fields_of(piece) for number, piece in fields if number == 1]
    kinds = {each.get(3, NORMAL) for each in listed}
    scores = {each[1].decode(): _float(each.get(2)) for each in listed if each.get(3, NORMAL) == NORMAL}
    kind = KINDS.get(trainer.get(3, 1))
    wrong = (
        ("symbols that are never cut", not kinds <= {NORMAL, UNKNOWN, CONTROL, BYTE}),
        ("words or characters of a sentencepiece model", kind is None),
        ("white space at the end of pieces", trainer.get(24, 0)),
        ("merges across white space", kind == "pairs" and any("▁" in piece[1:] for piece in scores)),
        ("white space that is kept", not all(normalizer.get(number, 1) for number in (3, 4, 5))),
        # 3: add_dummy_prefix, 4: remove_extra_whitespaces, 5: escape_whitespaces
    )
    for what, found in wrong:
        if found:
            raise UserError(f"{name} has a vocabulary with {what}, which the page does not have; use minitf translate")
    with_ids = {*pieces[4:]}
    rules = {
        "kind": kind,
        "scores": [scores.get(piece) if number > 3 else None for number, piece in enumerate(pieces)],
        "others": {piece: score for piece, score in scores.items() if piece not in with_ids},
        "bytes": BYTE in kinds,
    }
    if charsmap := normalizer.get(2):  # the size of the trie, its units of 32 bits, then texts that end in 0
        size = struct.unpack_from("<I", charsmap)[0]
        parts = {"trie": charsmap[4 : 4 + size], "texts": charsmap[4 + size :]}
        rules |= {key: base64.b64encode(part).decode() for key, part in parts.items()}
    return rules


def _float(four_bytes: bytes | None) -> float:
    return 0.0 if four_bytes is None else struct.unpack("<f", four_bytes)[0]
