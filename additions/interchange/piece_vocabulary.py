"""Vocabularies of other programs' models: a list of pieces for each language, with a rule that cuts text into them.

    sentencepiece   the pieces that a sentencepiece model makes, numbered by a list of its own (OPUS-MT's vocab.yml,
                    Hugging Face's vocab.json, fairseq's dict.txt)
    words           words at white space, or the subwords of a text that was cut into them before ("to@@ day")
    characters      one character a piece

Ids are those of this program: PAD, UNK, BOS and EOS are the first four of each list.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from sentencepiece import SentencePieceProcessor

from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.data.text import PathLike, checked_ids
from minitf.data.vocabulary import MAX_MODEL_BYTES
from minitf.errors import UserError
from minitf.system.files import atomic_write, parse_json_object, read_small_file

__all__ = ["LANGUAGE", "PieceVocabulary", "VocabularyPair", "loaded_processor"]

KINDS = ("sentencepiece", "words", "characters")
FORMAT = {"format": "minitf vocabulary", "version": 1}
SPECIAL_TOKENS = 4
UNKNOWN = "⁇"
"""The text of UNK, as sentencepiece has it."""
LANGUAGE = re.compile(r"\s*(>>[^<>\s]+<<)")
"""The target language of a multilingual model, at the beginning of a line: `>>fra<< Good morning.`"""


class PieceVocabulary:
    """Conversion of text of one language to token ids and back, by a list of pieces.

    Text is cut as it is, without normalisation but that of the sentencepiece model. What has no piece becomes UNK; text
    that looks like a special token ("</s>") never becomes the token.
    """

    def __init__(
        self,
        kind: str,
        pieces: Sequence[str],
        model: bytes = b"",
        joiner: str = "",
        name: str = "the vocabulary",
        processor: SentencePieceProcessor | None = None,
    ):
        """
        pieces: in the order of their ids, the names of PAD, UNK, BOS and EOS first
        model: the bytes of a sentencepiece model, for kind "sentencepiece"
        joiner: what a word ends with that belongs to the next one, or begins with that belongs to the one before: "@@"
            joins `to@@ day`; for kind "words"
        name: for messages
        processor: `loaded_processor(model, name)`, where that has been called already

        Raises: UserError for pieces that are not distinct texts, and a model that is not one of sentencepiece
        """
        self.kind, self.pieces_by_id, self.model, self.joiner = kind, list(pieces), model, joiner
        self._check(name)
        self._processor = loaded_processor(model, name) if processor is None else processor

    def _check(self, name: str) -> None:
        pieces = self.pieces_by_id
        if self.kind not in KINDS:
            raise UserError(f"{name} is of kind {self.kind!r}; choose one of {', '.join(KINDS)}")
        if len(pieces) <= SPECIAL_TOKENS or {*map(type, pieces)} != {str} or not all(pieces):
            raise UserError(f"{name} is not a list of the four special tokens and pieces, each a text")
        checked_characters("".join(pieces))
        if len({*pieces}) < len(pieces):
            twice = Counter(pieces).most_common(1)[0][0]
            raise UserError(f"{name} has the piece {twice[:40]!r} twice; a piece has one id")
        if bool(self.model) != (self.kind == "sentencepiece") or (self.joiner and self.kind != "words"):
            raise UserError(f"{name} has a sentencepiece model or a joiner that its kind {self.kind} cannot have")

    @cached_property
    def _ids(self) -> dict[str, int]:
        """The ids of all pieces but special tokens."""
        return {piece: number for number, piece in enumerate(self.pieces_by_id) if number >= SPECIAL_TOKENS}

    @property
    def source(self) -> Self:
        """The vocabulary of the source: this one."""
        return self

    @property
    def target(self) -> Self:
        """The vocabulary of the target: this one."""
        return self

    def __len__(self) -> int:
        return len(self.pieces_by_id)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Convert lines to token ids without BOS and EOS; a line of white space has none."""
        return [[self._ids.get(piece, UNK) for piece in row] for row in self._cut(list(map(checked_characters, lines)))]

    def _cut(self, lines: list[str]) -> list[list[str]]:
        if self.kind == "words":
            return [line.split() for line in lines]
        if self.kind == "characters":
            space = " " if " " in self._ids else "▁"
            return [list(" ".join(line.split()).replace(" ", space)) for line in lines]
        found = [LANGUAGE.match(line) for line in lines]
        codes = [[match[1]] if match and match[1] in self._ids else [] for match in found]
        rest = [
            line[match.end() :] if code and match else line
            for line, match, code in zip(lines, found, codes, strict=True)
        ]
        return [code + row for code, row in zip(codes, self._processor.encode(rest, out_type=str), strict=True)]

    def decode(self, sentences: Iterable[Iterable[int]]) -> list[str]:
        """Convert token ids to text, one line for each sentence. PAD, BOS and EOS have no text, UNK is "⁇".

        Raises: UserError for an id that is not in the vocabulary.
        """
        rows = [[index for index in checked_ids(ids, len(self)) if index not in (PAD, BOS, EOS)] for ids in sentences]
        if self.kind == "sentencepiece":
            unknown = self._processor.id_to_piece(self._processor.unk_id())
            names = [unknown if number == UNK else piece for number, piece in enumerate(self.pieces_by_id)]
            texts = [self._processor.decode([names[index] for index in row]) if row else "" for row in rows]
            return [" ".join(text.replace("▁", " ").split()) for text in texts]
        cut = [[UNKNOWN if index == UNK else self.pieces_by_id[index] for index in row] for row in rows]
        if self.kind == "characters":
            return [" ".join("".join(row).replace("▁", " ").split()) for row in cut]
        texts = [" ".join(row) for row in cut]
        if not self.joiner:
            return texts
        return [f" {text} ".replace(f"{self.joiner} ", "").replace(f" {self.joiner}", "").strip() for text in texts]

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Convert token ids to pieces, as sentencepiece writes them: "▁" stands for the space before a word."""
        row = [(index, self.pieces_by_id[index]) for index in checked_ids(ids, len(self))]
        if self.kind == "characters":
            return [piece.replace(" ", "▁") for _, piece in row]
        if self.kind == "sentencepiece":
            return [piece for _, piece in row]
        before = ["", *(piece for _, piece in row)]
        return [
            piece if self._continues(left, index) else f"▁{piece}"
            for left, (index, piece) in zip(before, row, strict=False)
        ]

    def _continues(self, before: str, index: int) -> bool:
        """Return whether the piece of this id, after another, does not open a word."""
        if index < SPECIAL_TOKENS and index != UNK:
            return True
        piece = self.pieces_by_id[index]
        return bool(self.joiner) and (before.endswith(self.joiner) or piece.startswith(self.joiner))

    def to_plain(self) -> dict[str, Any]:
        """Convert to JSON values."""
        plain: dict[str, Any] = {"kind": self.kind, "pieces": self.pieces_by_id}
        if self.kind == "sentencepiece":
            plain["model"] = base64.b64encode(self.model).decode()
        return plain | ({"joiner": self.joiner} if self.joiner else {})

    @classmethod
    def from_plain(cls, plain: Any, name: str) -> Self:
        """Convert from `to_plain`.  Raises: UserError for anything else"""
        needed, possible = {"kind", "pieces"}, {"kind", "pieces", "model", "joiner"}
        if not (isinstance(plain, dict) and needed <= plain.keys() <= possible and isinstance(plain["pieces"], list)):
            raise UserError(f"{name} does not describe a vocabulary: its keys are not those of version 1")
        if not all(isinstance(plain.get(key, ""), str) for key in ("kind", "model", "joiner")):
            raise UserError(f"{name} does not describe a vocabulary: kind, model and joiner are texts")
        try:
            model = base64.b64decode(plain.get("model", ""), validate=True)
        except ValueError as error:
            raise UserError(f"{name} holds a model that is not base64: {error}") from error
        return cls(plain["kind"], plain["pieces"], model, plain.get("joiner", ""), name)

    def fingerprint(self) -> str:
        """SHA-256 of all that decides ids and texts."""
        return hashlib.sha256(json.dumps(self.to_plain(), sort_keys=True).encode()).hexdigest()


def loaded_processor(model: bytes, name: str) -> SentencePieceProcessor:
    """The bytes of a sentencepiece model, ready to use; empty without a model.  Raises: UserError for other bytes"""
    processor = SentencePieceProcessor()
    try:
        if model:
            processor.load_from_serialized_proto(model)
            processor.id_to_piece(list(range(len(processor))))
    except (RuntimeError, UnicodeDecodeError) as error:  # the latter for a damaged piece
        raise UserError(f"{name} holds no sentencepiece model; import it again") from error
    return processor


class VocabularyPair:
    """The vocabularies of source and target; one object where they are one."""

    file_name = "vocabulary.json"

    def __init__(self, source: PieceVocabulary, target: PieceVocabulary):
        self.source, self.target = source, target

    @classmethod
    def load(cls, path: PathLike) -> Self:
        """Load what `save` wrote.  Raises: UserError when it is missing or cannot be used"""
        content = read_small_file(Path(path), MAX_MODEL_BYTES)
        return cls.from_bytes(content, str(path))

    @classmethod
    def from_bytes(cls, content: bytes, name: str = "the vocabulary") -> Self:
        """Load the bytes of a file; `name` is for messages.  Raises: UserError when they cannot be used"""
        try:
            plain = parse_json_object(content)
        except ValueError as error:
            raise UserError(f"{name}: {error}") from error
        if plain.keys() != {*FORMAT, "source", "target"} or any(plain[key] != value for key, value in FORMAT.items()):
            raise UserError(f"{name} is not a vocabulary of version {FORMAT['version']}; import the model again")
        source = PieceVocabulary.from_plain(plain["source"], f"{name} (source)")
        if plain["target"] is None:
            return cls(source, source)
        return cls(source, PieceVocabulary.from_plain(plain["target"], f"{name} (target)"))

    def save(self, path: PathLike) -> None:
        """Write the file, completely or not at all."""
        with atomic_write(path) as file:
            file.write(self._content)

    @cached_property
    def _content(self) -> bytes:
        target = None if self.target is self.source else self.target.to_plain()
        plain = {**FORMAT, "source": self.source.to_plain(), "target": target}
        return json.dumps(plain, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"

    def fingerprint(self) -> str:
        """SHA-256 of the file: vocabularies with the same fingerprint give the same ids."""
        return hashlib.sha256(self._content).hexdigest()

    def __len__(self) -> int:
        """Number of pieces of the target."""
        return len(self.target)


def checked_characters(line: str) -> str:
    """Return the line.  Raises: UserError for half a surrogate pair, which Python's strings can hold but no text can"""
    if not line.isascii():
        try:
            line.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"character {error.start + 1:,} of {line[:40]!r} is half a surrogate pair, which is not a character; "
                "decode the text as UTF-8 with errors='replace'"
            ) from None
    return line
