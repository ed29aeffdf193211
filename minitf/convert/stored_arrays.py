"""Arrays in files of other programs: described by a header, checked against the size of the file, read on demand."""

from __future__ import annotations

import itertools
import math
import os
import stat
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np

from minitf.errors import UserError
from minitf.system.files import os_errors_explained

Array = np.ndarray

BFLOAT16 = "bfloat16"
"""The type that NumPy lacks: the upper half of a float32."""
MAX_RANK = 8
ALIGNMENT, SMALL_BYTES = 64, 2**14
"""Bytes: at a multiple of the first an array begins; one below the second has memory of its own."""
VERIFIED_BYTES, MAX_HEAD_BYTES = 2**20, 2**14
"""Bytes of a member that are checked together, and the most that may stand before an array, such as its shape."""
MAX_CONFIG_BYTES = 16 * 2**20
"""Bytes of a configuration or a word list that is read as a whole; that of 250,000 pieces has 6 MB."""


class ModelFileError(UserError):
    """The file of a model cannot be read, or its bytes are not what its format requires."""


class Stored(Protocol):
    """An array in a file."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def read(self) -> Array: ...


class Member(NamedTuple):
    """A part of a file with a checksum."""

    name: str
    offset: int
    size: int
    crc: int
    """CRC-32 of its bytes."""


class SourceFile:
    """A file open for reading; whatever lies beyond its end is refused before memory is allocated.

    Arrays are parts of one block of memory of the file's size: the system maps a block in large pages, which takes a
    third of the time of many small arrays.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        with os_errors_explained(f"read {path}", ModelFileError):
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
                raise ModelFileError(f"{path} is not a file; give the file of a model")
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = status.st_size
        self._block, self._used = np.empty(0, np.uint8), 0
        self._verified: set[Member] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def damaged(self, reason: str) -> ModelFileError:
        """The error that names this file and what is wrong with it."""
        return ModelFileError(f"{self.path} cannot be read: {reason}")

    def bytes(self, offset: int, count: int) -> bytes:
        """Read `count` bytes.  Raises: ModelFileError where the file does not have them"""
        self.check(offset, count)
        content = np.empty(count, np.uint8)
        self.fill(content, offset)
        return content.tobytes()

    def array(self, offset: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Read an array in C order.  Raises: ModelFileError where the file does not have its bytes"""
        self.check(offset, math.prod(shape) * dtype.itemsize)
        array = self.memory(shape, dtype)
        self.fill(array, offset)
        return array

    def fill(self, array: Array, offset: int) -> None:
        """Read the bytes of an array in C order from `offset` on."""
        rest = memoryview(array.reshape(-1).view(np.uint8)) if array.size else memoryview(b"")  # type: ignore[arg-type]
        with os_errors_explained(f"read {self.path}", ModelFileError):
            while rest:
                count = os.preadv(self._descriptor, [rest[: 2**30]], offset)
                if not count:
                    raise self.damaged("it has been cut short while it was read")
                rest, offset = rest[count:], offset + count

    def memory(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """A part of the block, as long as there is one."""
        count = math.prod(shape) * dtype.itemsize
        if count < SMALL_BYTES:
            return np.empty(shape, dtype)
        if not self._block.size:
            self._block = np.empty(self.size, np.uint8)
        start, self._used = self._used, self._used + -(-count // ALIGNMENT) * ALIGNMENT
        if start + count > self.size:
            return np.empty(shape, dtype)
        return self._block[start : start + count].view(dtype).reshape(shape)

    def verify(self, member: Member) -> None:
        """Raises: ModelFileError unless the bytes of a member have its checksum; they are read once"""
        if member in self._verified:
            return
        block = np.empty(min(member.size, VERIFIED_BYTES), np.uint8)
        found = 0
        for start in range(0, member.size, VERIFIED_BYTES):
            some = block[: member.size - start]
            self.fill(some, member.offset + start)
            found = zlib.crc32(some.data, found)
        self.compare(member, found)
        self._verified.add(member)

    def compare(self, member: Member, crc: int) -> None:
        """Raises: ModelFileError for another checksum than that of a member"""
        if crc != member.crc:
            raise self.damaged(f"the bytes of its member {member.name[:80]!r} have changed since they were written")

    def check(self, offset: int, count: int) -> None:
        """Raises: ModelFileError unless the file has `count` bytes at `offset`"""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise self.damaged(f"it has {self.size} bytes, but {count} are needed from byte {offset} on")


@dataclass(frozen=True)
class StoredArray:
    """An array that lies in a file, which has its bytes."""

    file: SourceFile
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | str
    """A type of NumPy, or BFLOAT16."""
    within: Member | None = None
    """What it is a part of, where the file has checksums: that of a member is compared when an array of it is read."""

    def __post_init__(self) -> None:
        if len(self.shape) > MAX_RANK or any(not 0 <= size < 2**40 for size in self.shape):
            raise self.file.damaged(f"an array of shape {str(list(self.shape))[:80]} is impossible")
        self.file.check(self.offset, self.nbytes)

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return math.prod(self.shape) * (2 if isinstance(self.dtype, str) else self.dtype.itemsize)

    def read(self) -> Array:
        """Read the array; bfloat16 becomes float32, and bytes are in the machine's order."""
        if isinstance(self.dtype, str):
            upper = replace(self, dtype=np.dtype("<u2")).read()
            return (upper.astype(np.uint32) << 16).view(np.float32)
        array = self.file.array(self.offset, self.shape, self.dtype)
        if self.within is not None:
            self._verify(self.within, array)
        return _native(array)

    def _verify(self, member: Member, array: Array) -> None:
        """Compare the checksum of the member, without another look at the bytes of `array` if these are its last."""
        head = self.offset - member.offset
        if head > MAX_HEAD_BYTES or head + self.nbytes != member.size or not self.nbytes:
            self.file.verify(member)
            return
        start = zlib.crc32(self.file.bytes(member.offset, head))
        self.file.compare(member, zlib.crc32(array.reshape(-1).view(np.uint8).data, start))

    def rows(self, order: Sequence[int]) -> Array:
        """The rows of these numbers, each of which the array has; of zeros for -1."""
        if isinstance(self.dtype, str):
            upper = replace(self, dtype=np.dtype("<u2")).rows(order)
            return (upper.astype(np.uint32) << 16).view(np.float32)
        if self.within is not None:
            self.file.verify(self.within)
        array = self.file.memory((len(order), *self.shape[1:]), self.dtype)
        width = math.prod(self.shape[1:]) * self.dtype.itemsize
        for start, stop in runs(order):
            if order[start] < 0:
                array[start:stop] = 0
            else:
                self.file.fill(array[start:stop], self.offset + order[start] * width)
        return _native(array)


def _native(array: Array) -> Array:
    """The array in the machine's byte order."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def runs(order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The longest stretches of consecutive ids.  Example: [-1, 1, 0, 2, 3, 4] -> (0, 1), (1, 2), (2, 3), (3, 6)"""
    ids = np.asarray(order, np.int64)
    begins = np.flatnonzero((np.diff(ids) != 1) | (ids[1:] == 0)) + 1
    return itertools.pairwise([0, *begins.tolist(), len(ids)] if len(ids) else [])


def refuse_overlap(file: SourceFile, spans: Sequence[tuple[int, int]]) -> None:
    """Refuse stored arrays that share bytes, which would take more memory than the file has.

    spans: offset and number of bytes of each
    """
    ordered = sorted(span for span in spans if span[1])
    for (offset, count), (following, _) in itertools.pairwise(ordered):
        if offset + count > following:
            raise file.damaged(f"two arrays share the bytes from {following} on")


def read_text(path: Path) -> str:
    """Read a small text file.  Raises: ModelFileError where it is missing, too large, or not UTF-8"""
    with SourceFile(path) as file:
        if file.size > MAX_CONFIG_BYTES:
            raise file.damaged(f"it has {file.size} bytes, more than the {MAX_CONFIG_BYTES} of a configuration")
        try:
            return file.bytes(0, file.size).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise file.damaged(f"byte {error.start + 1} is not UTF-8") from None
