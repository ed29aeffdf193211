"""Read and write lines of text exactly.

Only `\\n` ends a line: U+2028, U+0085, form feeds and a lone `\\r` are characters of a sentence. Python's text files
and `str.splitlines` cut there as well, which shifts one side of a corpus against the other: a model silently learns
from wrong pairs. Here files are read as bytes, cut at `\\n`, and decoded line by line.
"""

import contextlib
import gzip
import io
import itertools
import os
import unicodedata
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from minitf.errors import UserError
from minitf.system.files import os_errors_explained

__all__ = [
    "MAX_LINE_BYTES", "PathLike", "checked_ids", "lines_of", "normalise", "read_lines", "read_pairs",
    "refuse_single_string",
]  # fmt: skip

PathLike = str | os.PathLike[str]
T = TypeVar("T")

BUFFER_BYTES = 1 << 16
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
MAX_LINE_BYTES = 16 * 2**20
"""The longest line; a file without line ends is more likely a mistake than a sentence."""


def lines_of(stream: Any, name: str) -> Iterator[str]:
    """Iterate over the lines of a binary stream, without `\\n` or `\\r\\n`, each as soon as it has arrived.

    A byte order mark at the start is dropped, a last line without `\\n` counts, an empty stream has no line. All other
    characters are kept, NUL included. Memory: one line.

    Raises: UserError for bytes that are not UTF-8, and for a line of more than 16 MiB.
    """
    offset = 0  # of the line's first byte in the stream
    # Of a line that is longer than allowed, only a part too long is read.
    for number, raw in enumerate(iter(lambda: stream.readline(MAX_LINE_BYTES + 2), b""), start=1):
        if len(raw) > MAX_LINE_BYTES:
            most = f"{MAX_LINE_BYTES // 2**20} MiB"
            raise UserError(f"{name}, line {number:,} has more than {most}; put each sentence on a separate line")
        skipped = len(BYTE_ORDER_MARK) if number == 1 and raw.startswith(BYTE_ORDER_MARK) else 0
        if skipped == len(raw):  # nothing but the mark: still an empty file
            return
        try:
            line = raw[skipped:-2] if raw.endswith(b"\r\n") else raw[skipped:].removesuffix(b"\n")
            yield line.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(_not_utf8(name, number, raw, skipped + error.start, offset)) from None
        offset += len(raw)


def read_lines(path: PathLike) -> Iterator[str]:
    """Iterate over the lines of a file, decompressed first where its name ends in `.gz`, as `lines_of` does.

    Raises: UserError when the file cannot be opened, read or decompressed, or is not UTF-8.
    """
    with os_errors_explained(f"read {os.fspath(path)}"):
        try:
            with _opened(Path(path)) as stream:
                yield from lines_of(stream, os.fspath(path))
        except (gzip.BadGzipFile, zlib.error) as error:
            advice = "compress it again, or drop .gz from its name"
            raise UserError(f"cannot read {os.fspath(path)}: it is not valid gzip data ({error}); {advice}") from error
        except EOFError as error:
            advice = "copy or download it again"
            raise UserError(f"cannot read {os.fspath(path)}: its gzip data ends too early; {advice}") from error


def read_pairs(source_path: PathLike, target_path: PathLike) -> Iterator[tuple[str, str]]:
    """Iterate over pairs of line i of the source and line i of the target. Memory: one pair.

    Raises: UserError as `read_lines` does; when a file has no line; and, after the last common line, when one file has
    more lines than the other. Both are then read to their end, so that the message names both counts.
    """
    source_count = target_count = 0
    for source, target in itertools.zip_longest(read_lines(source_path), read_lines(target_path)):
        source_count += source is not None
        target_count += target is not None
        if source is not None and target is not None:
            yield source, target
    for path, count in ((source_path, source_count), (target_path, target_count)):
        if count == 0:
            raise UserError(f"{os.fspath(path)} is empty; a corpus needs at least one line on each side")
    if source_count != target_count:
        raise UserError(
            f"{os.fspath(source_path)} has {source_count:,} lines but {os.fspath(target_path)} has {target_count:,}; "
            "line i of one must be the translation of line i of the other, so the counts must be equal"
        )


def refuse_single_string(lines: Iterable[str]) -> None:
    """Raises: TypeError for one string, whose letters would be taken for lines"""
    if isinstance(lines, str):
        raise TypeError("lines is a single string, whose characters would be taken for lines; give a list of lines")


def normalise(line: str) -> str:
    """Normalise a line for the vocabulary: NFC, every run of white space one space, none at the ends."""
    return " ".join(words_of(line))


def words_of(line: str) -> list[str]:
    """The words of a normalised line."""
    # U+2581 marks the start of a word inside sentencepiece, which cannot distinguish it from a space.
    return unicodedata.normalize("NFC", line).replace("▁", " ").split()


def in_chunks(
    items: Iterable[T],
    characters: Callable[[T], int],
    *,
    max_items: int,
    max_characters: int,
    must_wait: Callable[[], bool] = lambda: False,
) -> Iterator[list[T]]:
    """Group items into lists whose memory is bounded, however long single items are.

    A list ends at `max_items` items, with the item that takes it to `max_characters`, where `must_wait` says that the
    next item has not arrived, and before an item that raises UserError.
    """
    chunk: list[T] = []
    held = 0
    try:
        for item in items:
            chunk.append(item)
            held += characters(item)
            if len(chunk) >= max_items or held >= max_characters or must_wait():
                yield chunk
                chunk, held = [], 0
    except UserError:  # a line that cannot be read does not take those before it along
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[BinaryIO]:
    """Open a file, decompressed where its name ends in `.gz`."""
    with open(path, "rb", buffering=BUFFER_BYTES) as stored:
        if path.suffix != ".gz":
            yield stored
            return
        # GzipFile.readline is Python code; a C buffer in front of it halves the time of a pass.
        with gzip.GzipFile(fileobj=stored) as unzipped, io.BufferedReader(unzipped, BUFFER_BYTES) as stream:
            yield stream


def _not_utf8(name: str, number: int, raw: bytes, position: int, offset: int) -> str:
    """The message for a byte that is not UTF-8; line and byte are counted from 1."""
    advice = "convert it to UTF-8, or drop such bytes with: iconv -c -f UTF-8 -t UTF-8"
    if number == 1 and raw.startswith(b"\x1f\x8b"):
        advice = "it seems to be compressed: give it a name that ends in .gz"
    elif number == 1 and raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        advice = "it seems to be UTF-16: convert it to UTF-8"
    return (
        f"{name}, line {number:,}: byte {position + 1:,} of the line (byte {offset + position + 1:,} of the input) is "
        f"0x{raw[position]:02x}, which is not valid UTF-8 there; {advice}"
    )


def checked_ids(ids: Iterable[int], size: int) -> list[int]:
    """Token ids as a list.  Raises: UserError for one that is not in a vocabulary of `size` pieces"""
    row = [int(index) for index in ids]
    if row and not (min(row) >= 0 and max(row) < size):
        wrong = next(index for index in row if not 0 <= index < size)
        raise UserError(
            f"token id {wrong} is outside the vocabulary of {size:,} pieces; "
            "use the vocabulary that the model was trained with"
        )
    return row
