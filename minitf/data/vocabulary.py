"""Subword vocabulary shared by source and target: byte-pair encoding through sentencepiece (section 5.1).

`normalise` changes text as little as translation allows: canonical composition (NFC) makes one character of `e` + `´`,
and any run of white space becomes one space. sentencepiece's own default, nmt_nfkc, also rewrites "…" as "...", "m²" as
"m2" and "½" as "1⁄2"; a model trained on such targets cannot produce the references it is scored against. White space
can be folded because BLEU's tokenisation splits at all of it; otherwise each no-break space of a raw corpus would make
pieces of its own.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from sentencepiece import SentencePieceProcessor

from minitf.config.model import BOS, EOS, PAD, UNK, TransformerConfig
from minitf.data.merges import learn_merges
from minitf.data.text import PathLike, checked_ids, words_of
from minitf.errors import UserError
from minitf.system.environment import load
from minitf.system.files import atomic_write, read_small_file

__all__ = ["MAX_MODEL_BYTES", "AnyVocabulary", "Vocabulary", "sized"]

AnyVocabulary = Any
"""The vocabulary of a run: a `Vocabulary`, or the two vocabularies of a model of another program, with its methods."""
MAX_MODEL_BYTES = 256 * 2**20
MOST_WORDS = 100_000
"""Words whose ids are kept; a word of a corpus comes some thirty times, and is cut into pieces once."""


class Vocabulary:
    """Conversion of text to token ids and back, by a sentencepiece model.

    `decode(encode(line)) == normalise(line)` for any text if the model has byte pieces. Text that looks like a special
    token ("</s>") is spelled out and never becomes the token.
    """

    file_name = "vocabulary.model"

    def __init__(self, model: bytes, name: str = "the vocabulary"):
        """Load the bytes of a model file; `name` is for messages.

        Raises: UserError when the bytes are not a sentencepiece model, or its special tokens have other ids than ours.
        """
        self.model = model
        self._processor = SentencePieceProcessor()
        self._words: dict[str, list[int]] | None = None
        """The ids of words seen so far, where those of a line are those of its words: no piece has a space inside."""
        try:
            self._processor.load_from_serialized_proto(model)
            self._processor.id_to_piece(list(range(len(self))))
        except (RuntimeError, UnicodeDecodeError) as error:  # the latter for a damaged piece
            raise UserError(f"{name} is not a sentencepiece model; give the file that training wrote") from error
        ids = self._processor
        found = ids.pad_id(), ids.unk_id(), ids.bos_id(), ids.eos_id()
        if found != (PAD, UNK, BOS, EOS):
            raise UserError(
                f"{name} has the special token ids PAD, UNK, BOS, EOS = {', '.join(map(str, found))} where "
                f"{PAD}, {UNK}, {BOS}, {EOS} are needed; train the vocabulary here, or with these ids"
            )

    @classmethod
    def load(cls, path: PathLike) -> "Vocabulary":
        """Load a model file.  Raises: UserError when it is missing or cannot be used"""
        model = read_small_file(Path(path), MAX_MODEL_BYTES)
        return cls(model, str(path))

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocab_size: int,
        model_path: PathLike,
        *,
        byte_fallback: bool = True,
        symbols: Sequence[str] = (),
    ) -> "Vocabulary":
        """Learn byte-pair merges from the lines of both languages, and write the model to `model_path`.

        The same lines give the same file, byte for byte: merges depend only on how often each word occurs. Only these
        counts are in memory; see `count_words`.

        byte_fallback: spell a character without a piece in its UTF-8 bytes, so that no text becomes UNK; this takes 256
        rows of the embedding
        symbols: texts that are always one piece, the longest match first; one that begins with a space begins a word;
        they get the first ids after the special tokens and are part of the `vocab_size`
        vocab_size: number of pieces; of a text whose words can be merged into fewer, it is their number

        Raises: UserError when there is no text, or when `vocab_size` is below what the special tokens, bytes and
        characters need.
        Source: Sennrich et al. 2016
        """
        vocabulary = cls(learn_merges(lines, vocab_size, byte_fallback, symbols))
        if not any(" " in symbol.strip() for symbol in symbols):
            vocabulary._words = {}
        vocabulary.save(model_path)
        return vocabulary

    def save(self, path: PathLike) -> None:
        """Write the model file, completely or not at all."""
        with atomic_write(path) as file:
            file.write(self.model)

    @property
    def source(self) -> Self:
        """The vocabulary of the source language, as that of every model has one: this."""
        return self

    @property
    def target(self) -> Self:
        """The vocabulary of the target language: this."""
        return self

    def __len__(self) -> int:
        return len(self._processor)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Convert lines to token ids without BOS and EOS, on all cores; a line of white space has none."""
        rows = [words_of(line) for line in lines]
        if self._words is None:
            return self._processor.encode([" ".join(row) for row in rows])
        if len(self._words) > MOST_WORDS:
            self._words.clear()
        new = list({word for row in rows for word in row} - self._words.keys())
        self._words |= zip(new, self._processor.encode(new), strict=True)
        return [[index for word in row for index in self._words[word]] for row in rows]

    def decode(self, sentences: Iterable[Iterable[int]]) -> list[str]:
        """Convert token ids to text, one line for each sentence. PAD, BOS and EOS have no text.

        Bytes that do not spell UTF-8 become U+FFFD and UNK becomes "⁇", so that neither disappears unnoticed.
        Raises: UserError for an id that is not in the vocabulary.
        """
        rows = [checked_ids(ids, len(self)) for ids in sentences]
        # Byte pieces can spell a line end, which must not cut one translation into two.
        return [" ".join(text.split()) for text in self._processor.decode(rows)] if rows else []

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Convert token ids to pieces, as sentencepiece writes them: "▁" stands for the space before a word."""
        return [self._processor.id_to_piece(index) for index in checked_ids(ids, len(self))]

    def fingerprint(self) -> str:
        """SHA-256 of the model file: vocabularies with the same fingerprint give the same ids."""
        return hashlib.sha256(self.model).hexdigest()


def load_vocabulary(path: PathLike) -> AnyVocabulary:
    """Load a sentencepiece model, or the vocabulary of an imported model, which `additions.interchange` reads.

    Raises: UserError when it is missing or cannot be used
    """
    content = read_small_file(Path(path), MAX_MODEL_BYTES)
    if content[:1] == b"{":  # which no sentencepiece model begins with
        vocabulary: AnyVocabulary = load("minitf.formats", "foreign", str(path), "additions.interchange").vocabulary_of(
            content, str(path)
        )
        return vocabulary
    return Vocabulary(content, str(path))


def sized(config: TransformerConfig, vocabulary: AnyVocabulary) -> TransformerConfig:
    """The configuration of a model with as many rows as the vocabulary has pieces.

    Raises: UserError if source and target differ in size, but the model has one matrix for both
    """
    source, target = len(vocabulary.source), len(vocabulary)
    return replace(config, vocab_size=target, source_vocab_size=None if source == target else source)
