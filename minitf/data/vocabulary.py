"""Subword units shared by source and target: byte-pair encoding through sentencepiece (section 5.1).

Text is normalised as little as translation allows: canonical composition (NFC) makes one character of `e` + `´`, and
any run of white space becomes one space. Nothing else changes. sentencepiece's own default, nmt_nfkc, also rewrites
"…" as "...", "m²" as "m2" and "½" as "1⁄2"; a model that learns from such targets cannot produce the references it is
scored against. White space is safe to fold, as BLEU's tokenisation splits at all of it; left in, each no-break space of
a raw corpus would make pieces of its own.
"""

import hashlib
import io
import re
import threading
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from minitf.config.special_tokens import BOS, EOS, PAD, UNK
from minitf.data.text import PathLike, in_chunks, unreadable, write_atomically
from minitf.errors import UserError
from minitf.system.signals import uninterrupted

if TYPE_CHECKING:
    import numpy as np

# Characters that together make up this share of the text get a piece of their own; the rest are spelled in bytes.
# One in 100,000 is spelled out: in 58,000 lines of Multi30k the 13 characters seen five times or less, too rare to
# learn an embedding from, while spelling them is what gives the byte pieces something to learn from.
COVERAGE = 0.99999
MAX_DISTINCT_WORDS = 1_000_000  # sentencepiece needs some 600 bytes for each
LINES_AT_A_TIME, CHARACTERS_AT_A_TIME = 10_000, 2_000_000
# sentencepiece skips a sentence of more than 4,192 bytes, and earlier releases end the process at a word of 65,536
# characters. No piece is longer than 16 characters, so a cut here loses nothing.
LONGEST_WORD = 1000

Ids: TypeAlias = "Sequence[int] | np.ndarray"


def normalise(line: str) -> str:
    """The text that is encoded: NFC, with every run of white space (line ends too) made one space, none at the ends.

    Raises: UserError for half a surrogate pair, which Python's strings can hold but no encoded text can.
    """
    if not line.isascii():
        try:
            line.encode()
        except UnicodeEncodeError as error:
            raise UserError(
                f"character {error.start + 1:,} of {line[:40]!r} is half a surrogate pair, which is no character; "
                "decode the text as UTF-8 with errors='replace'"
            ) from None
    # U+2581 marks the start of a word inside sentencepiece, which has no way to tell it from a space.
    return " ".join(unicodedata.normalize("NFC", line).replace("▁", " ").split())


class Vocabulary:
    """Text to token ids and back, by the pieces of one sentencepiece model.

    `decode(encode(line)) == normalise(line)` for any text whatever when the model has byte pieces. Text that looks like
    a special token ("</s>") is text: it is spelled out and never becomes the token.
    """

    def __init__(self, model: bytes, name: str = "the vocabulary"):
        """From the bytes of a model file; `name` is for messages.

        Raises: UserError when the bytes are no sentencepiece model or its special tokens have other ids than ours.
        """
        self.model = model
        self._processor = _load(model, name)

    @classmethod
    def load(cls, path: PathLike) -> "Vocabulary":
        """Reads a model file. Raises: UserError when it is missing or cannot be used."""
        try:
            model = Path(path).read_bytes()
        except OSError as error:
            raise unreadable(path, error) from error
        return cls(model, str(path))

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        vocab_size: int,
        model_path: PathLike,
        *,
        coverage: float = COVERAGE,
        byte_fallback: bool = True,
        max_distinct_words: int = MAX_DISTINCT_WORDS,
        symbols: Sequence[str] = (),
    ) -> "Vocabulary":
        """Learns byte-pair merges from the lines of both languages, and writes the model to `model_path`.

        The same lines give the same file, byte for byte: merges depend on how often each word occurs and on nothing
        random. Only the counts are held, so memory does not grow with the corpus; see `count_words`.

        byte_fallback spells a character without a piece in its UTF-8 bytes: no text is ever lost to UNK, at the price
        of 256 rows of the embedding.
        symbols are texts that are always one piece, the longest that fits first; one that begins with a space is the
        beginning of a word. They get the first ids after the special tokens and are part of the `vocab_size`.

        Raises: UserError when there is no text, or when `vocab_size` is below what the special tokens, bytes and
        characters need or above what the words of the corpus can be merged into.
        Source: Sennrich et al. 2016, as section 5.1 uses it; the vocabulary is shared by source and target.
        """
        _check_settings(vocab_size, coverage)
        words = count_words(lines, max_distinct_words)
        if not words:
            raise UserError("the corpus has no words; a vocabulary needs at least one line that is not empty")
        model = _train(words, vocab_size, coverage, byte_fallback, symbols)
        vocabulary = cls(model)
        vocabulary.save(model_path)
        return vocabulary

    def save(self, path: PathLike) -> None:
        """Writes the model file, whole or not at all."""
        with write_atomically(path, binary=True) as file:
            file.write(self.model)

    def __len__(self) -> int:
        return len(self._processor)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The token ids of each line, without BOS and EOS; [] for a line of nothing but white space.

        Lines are shared out among the machine's cores.
        """
        return self._processor.encode([normalise(line) for line in lines])

    def decode(self, sentences: Sequence[Ids]) -> list[str]:
        """The text of each sentence of token ids: one line each, whatever the ids. PAD, BOS and EOS have no text.

        Bytes that do not spell UTF-8 show as U+FFFD and UNK as "⁇", so that neither disappears unseen.
        Raises: UserError for an id that is not in the vocabulary.
        """
        rows = [self._checked(ids) for ids in sentences]
        # Byte pieces can spell a line end, and must not cut one translation into two.
        return [" ".join(text.split()) for text in self._processor.decode(rows)] if rows else []

    def pieces(self, ids: Ids) -> list[str]:
        """The piece of each id, as sentencepiece writes it: "▁" stands for the space before a word."""
        return [self._processor.id_to_piece(index) for index in self._checked(ids)]

    def fingerprint(self) -> str:
        """SHA-256 of the model file: two vocabularies with the same fingerprint give the same ids."""
        return hashlib.sha256(self.model).hexdigest()

    def _checked(self, ids: Ids) -> list[int]:
        row = [int(index) for index in ids]
        if row and not (min(row) >= 0 and max(row) < len(self)):
            wrong = next(index for index in row if not 0 <= index < len(self))
            raise UserError(
                f"token id {wrong} is outside the vocabulary of {len(self):,} pieces; "
                "use the vocabulary that the model was trained with"
            )
        return row


def count_words(lines: Iterable[str], max_distinct_words: int = MAX_DISTINCT_WORDS) -> Counter[str]:
    """How often each word occurs in normalised lines, in the order of their first occurrence.

    Pieces never reach across a space, so the counts hold all that merging needs, in the memory of the distinct words
    alone. Whenever those exceed `max_distinct_words`, the rarer half is let go: words that rare have no say in which
    merges come first (lossy counting, Manku & Motwani 2002).
    """
    words: Counter[str] = Counter()
    for chunk in in_chunks(lines, len, max_items=LINES_AT_A_TIME, max_characters=CHARACTERS_AT_A_TIME):
        words.update(normalise(" ".join(chunk)).split())
        if len(words) > max_distinct_words:
            words = Counter(dict(words.most_common(max_distinct_words // 2)))
    return words


def _train(words: Counter[str], vocab_size: int, coverage: float, byte_fallback: bool, symbols: Sequence[str]) -> bytes:
    with uninterrupted():
        from sentencepiece import SentencePieceTrainer

    model = io.BytesIO()
    stopped = threading.Event()

    def work() -> None:
        SentencePieceTrainer.train(
            sentence_iterator=_until(stopped, _training_lines(words)),
            input_format="tsv",  # word, tab, count
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            character_coverage=coverage,
            byte_fallback=byte_fallback,
            normalization_rule_name="identity",  # `normalise` has done it
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            user_defined_symbols=[symbol.replace(" ", "▁") for symbol in symbols],
            minloglevel=2,  # errors only; they are raised below
        )

    try:
        _interruptibly(work, stopped)
    except RuntimeError as error:
        raise UserError(_training_advice(str(error), vocab_size)) from error
    return model.getvalue()


def _interruptibly(work: Callable[[], None], stopped: threading.Event) -> None:
    """Call `work` in a thread of its own, so that an interrupt is answered at once.

    sentencepiece runs for minutes without looking at signals; and one that arrives while it reads from Python, it
    would report as a fault of the text.
    """
    failures: list[BaseException] = []
    done = threading.Event()  # and not `join`, which after an interrupt takes the thread for ended (Python 3.11, 3.12)

    def run() -> None:
        try:
            work()
        except BaseException as error:
            failures.append(error)
        finally:
            done.set()

    try:
        threading.Thread(target=run, daemon=True).start()
        done.wait()
    except BaseException:
        stopped.set()
        done.wait(timeout=1)  # a thread that comes back into an interpreter about to end would abort the process
        raise
    if failures:
        raise failures[0]


def _until(stopped: threading.Event, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if stopped.is_set():
            raise InterruptedError("the training of the vocabulary was interrupted")
        yield line


def _training_lines(words: Counter[str]) -> Iterable[str]:
    for word, count in words.items():
        # sentencepiece passes over a line that holds U+2585, which it uses within; the byte pieces spell it.
        for part in word.replace("\u2585", " ").split():
            for start in range(0, len(part), LONGEST_WORD):
                yield f"{part[start : start + LONGEST_WORD]}\t{count}"


def _training_advice(message: str, vocab_size: int) -> str:
    """sentencepiece's complaint about the size, as a sentence that says which sizes are possible."""
    if found := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return (
            f"vocab_size={vocab_size:,} is too small: special tokens, bytes and the characters of this corpus alone "
            f"need {int(found[1]):,}; choose at least that"
        )
    if found := re.search(r"value <= (\d+)", message):
        return (
            f"vocab_size={vocab_size:,} is too large for this corpus, whose words allow at most {int(found[1]):,} "
            "pieces; choose at most that, or train on more text"
        )
    return f"sentencepiece could not learn a vocabulary of {vocab_size:,} pieces: {message}"


def _check_settings(vocab_size: int, coverage: float) -> None:
    if not 4 < vocab_size < 2**31:
        raise UserError(f"vocab_size={vocab_size} is impossible: choose a number of pieces such as 8000")
    if not 0.98 <= coverage <= 1:
        raise UserError(f"coverage={coverage} is not a share of the characters between 0.98 and 1")


def _load(model: bytes, name: str) -> Any:
    with uninterrupted():
        from sentencepiece import SentencePieceProcessor

    processor = SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
        processor.id_to_piece(list(range(len(processor))))
    except (RuntimeError, UnicodeDecodeError) as error:  # the latter for a damaged piece
        raise UserError(f"{name} is not a sentencepiece model; give the file that training wrote") from error
    found = processor.pad_id(), processor.unk_id(), processor.bos_id(), processor.eos_id()
    if found != (PAD, UNK, BOS, EOS):
        raise UserError(
            f"{name} has the special token ids PAD, UNK, BOS, EOS = {', '.join(map(str, found))} where "
            f"{PAD}, {UNK}, {BOS}, {EOS} are needed; train the vocabulary here, or with these ids"
        )
    return processor
