"""Learn the pieces of a vocabulary: counts of words, and sentencepiece's trainer, which merges them.

Source: Sennrich et al. 2016 (byte-pair encoding)
"""

import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from sentencepiece import SentencePieceTrainer

from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.data.text import in_chunks, words_of
from minitf.errors import UserError

# The most frequent characters, which make up this share of the text, get a piece each; the rest are spelled in bytes.
# In 58,000 lines of Multi30k these are the 13 characters seen five times or less: too rare to learn an embedding from,
# while spelling them trains the byte pieces.
COVERAGE = 0.99999
MAX_DISTINCT_WORDS = 1_000_000  # sentencepiece needs some 600 bytes for each
LINES_AT_A_TIME, CHARACTERS_AT_A_TIME = 10_000, 2_000_000
# sentencepiece skips a sentence of more than 4,192 bytes, and earlier releases end the process at a word of 65,536
# characters. No piece is longer than 16 characters, so a cut here loses nothing.
LONGEST_WORD = 1000


def learn_merges(
    lines: Iterable[str], vocab_size: int, byte_fallback: bool = True, symbols: Sequence[str] = ()
) -> bytes:
    """Learn byte-pair merges from lines; return the bytes of a sentencepiece model.  Arguments: `Vocabulary.train`

    Raises: UserError when there is no text, or the size is impossible
    """
    if not 4 < vocab_size < 2**31:
        raise UserError(f"vocab_size={vocab_size} is impossible: choose a number of pieces such as 8000")
    words = count_words(lines)
    if not words:
        raise UserError("the corpus has no words; a vocabulary needs at least one line that is not empty")
    return _train(words, vocab_size, byte_fallback, symbols)


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


def _train(words: Counter[str], vocab_size: int, byte_fallback: bool, symbols: Sequence[str]) -> bytes:
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
            return _train(words, int(most[1]), byte_fallback, symbols)
        raise UserError(_training_advice(str(error), vocab_size)) from error
    return model.getvalue()


def _training_lines(words: Counter[str]) -> Iterator[str]:
    for word, count in words.items():
        # sentencepiece skips a line with U+2585, which it uses internally; the byte pieces spell it.
        for part in word.replace("\u2585", " ").split():
            for start in range(0, len(part), LONGEST_WORD):
                yield f"{part[start : start + LONGEST_WORD]}\t{count}"


def _training_advice(message: str, vocab_size: int) -> str:
    """Reword sentencepiece's error about the size as a sentence that says which sizes are possible."""
    if found := re.search(r"required_chars\. \d+ vs (\d+)", message):
        return (
            f"vocab_size={vocab_size:,} is too small: special tokens, bytes and the characters of this corpus alone "
            f"need {int(found[1]):,}; choose at least that"
        )
    return f"sentencepiece could not learn a vocabulary of {vocab_size:,} pieces: {message}"
