"""Subword vocabulary shared by source and target: byte-pair encoding through sentencepiece (section 5.1).

`normalise` changes text as little as translation allows: canonical composition (NFC) makes one character of `e` + `´`,
and any run of white space becomes one space. sentencepiece's own default, nmt_nfkc, also rewrites "…" as "...", "m²" as
"m2" and "½" as "1⁄2"; a model trained on such targets cannot produce the references it is scored against. White space
can be folded because BLEU's tokenisation splits at all of it; otherwise each no-break space of a raw corpus would make
pieces of its own.
"""

import hashlib
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from sentencepiece import SentencePieceProcessor, SentencePieceTrainer

from minitf.config.model import BOS, EOS, PAD, UNK, TransformerConfig
from minitf.data.text import PathLike, checked_ids, in_chunks, refuse_single_string, words_of
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
        return cls(read_small_file(Path(path), MAX_MODEL_BYTES), str(path))

    @classmethod
    def train(
        cls, lines: Iterable[str], vocab_size: int, model_path: PathLike, *, byte_fallback: bool = True,
        symbols: Sequence[str] = (),
    ) -> "Vocabulary":  # fmt: skip
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
        refuse_single_string(lines)
        if not 4 < vocab_size < 2**31:
            raise UserError(f"vocab_size={vocab_size} is impossible: choose a number of pieces such as 8000")
        words = count_words(lines)
        if not words:
            raise UserError("the corpus has no words; a vocabulary needs at least one line that is not empty")
        vocabulary = cls(_learn_pieces(words, vocab_size, byte_fallback, symbols))
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
        refuse_single_string(lines)
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
        return load("minitf.formats", "foreign", str(path), "additions.interchange").vocabulary_of(content, str(path))
    return Vocabulary(content, str(path))


def sized(config: TransformerConfig, vocabulary: AnyVocabulary) -> TransformerConfig:
    """The configuration of a model with as many rows as the vocabulary has pieces.

    Raises: UserError if source and target differ in size, but the model has one matrix for both
    """
    source, target = len(vocabulary.source), len(vocabulary)
    return replace(config, vocab_size=target, source_vocab_size=None if source == target else source)


# ---- Learning the pieces: counts of words, and sentencepiece's trainer, which merges them ----

# The most frequent characters, which make up this share of the text, get a piece each; the rest are spelled in bytes.
# In 58,000 lines of Multi30k these are the 13 characters seen five times or less: too rare to learn an embedding from,
# while spelling them trains the byte pieces.
COVERAGE = 0.99999
MAX_DISTINCT_WORDS = 1_000_000  # sentencepiece needs some 600 bytes for each
LINES_AT_A_TIME, CHARACTERS_AT_A_TIME = 10_000, 2_000_000
# sentencepiece skips a sentence of more than 4,192 bytes, and earlier releases end the process at a word of 65,536
# characters. No piece is longer than 16 characters, so a cut here loses nothing.
LONGEST_WORD = 1000


def count_words(lines: Iterable[str]) -> Counter[str]:
    """Count the words of normalised lines, in the order of their first occurrence.

    Pieces never reach across a space, so that merging needs the counts alone. Whenever there are more than
    MAX_DISTINCT_WORDS, the rarer half is dropped: such rare words do not decide which merges come first (lossy
    counting, Manku & Motwani 2002).
    """
    words: Counter[str] = Counter()
    for chunk in in_chunks(lines, len, max_items=LINES_AT_A_TIME, max_characters=CHARACTERS_AT_A_TIME):
        words.update(words_of(" ".join(chunk)))
        if len(words) > MAX_DISTINCT_WORDS:
            words = Counter(dict(words.most_common(MAX_DISTINCT_WORDS // 2)))
    return words


def _learn_pieces(words: Counter[str], vocab_size: int, byte_fallback: bool, symbols: Sequence[str]) -> bytes:
    model = io.BytesIO()
    try:
        SentencePieceTrainer.train(
            sentence_iterator=_training_lines(words),
            input_format="tsv",  # word, tab, count
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=COVERAGE,
            byte_fallback=byte_fallback,
            normalization_rule_name="identity",  # `normalise` has done it
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            user_defined_symbols=[symbol.replace(" ", "▁") for symbol in symbols],
            minloglevel=2,  # errors only; they are raised below
        )
    except RuntimeError as error:
        if most := re.search(r"Please set it to a value <= (\d+)", str(error)):  # the words allow no more
            return _learn_pieces(words, int(most[1]), byte_fallback, symbols)
        if found := re.search(r"required_chars\. \d+ vs (\d+)", str(error)):
            raise UserError(
                f"vocab_size={vocab_size:,} is too small: special tokens, bytes and the characters of this corpus "
                f"alone need {int(found[1]):,}; choose at least that"
            ) from error
        raise UserError(f"sentencepiece could not learn a vocabulary of {vocab_size:,} pieces: {error}") from error
    return model.getvalue()


def _training_lines(words: Counter[str]) -> Iterator[str]:
    for word, count in words.items():
        # sentencepiece skips a line with U+2585, which it uses internally; the byte pieces spell it.
        for part in word.replace("\u2585", " ").split():
            for start in range(0, len(part), LONGEST_WORD):
                yield f"{part[start : start + LONGEST_WORD]}\t{count}"
