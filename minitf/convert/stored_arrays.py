"""Arrays in files of other programs: described by a header, checked against the size of the file, read on demand."""

from __future__ import annotations

import itertools
import math
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from minitf.errors import UserError
from minitf.system.files import os_errors_explained

Array = np.ndarray

BFLOAT16 = "bfloat16"
"""The type that NumPy lacks: the upper half of a float32."""
MAX_RANK = 8
MAX_CONFIG_BYTES = 16 * 2**20
"""Bytes of a configuration or a word list that is read as a whole; that of 250,000 pieces has 6 MB."""


class ModelFileError(UserError):
    """The file of a model cannot be read, or its bytes are not what its format requires."""


class SourceFile:
    """A file open for reading; whatever lies beyond its end is refused before memory is allocated."""

    def __init__(self, path: Path):
        self.path = Path(path)
        with os_errors_explained(f"read {path}", ModelFileError):
            status = os.stat(path)
            if not stat.S_ISREG(status.st_mode):  # opening a pipe would wait for ever
                raise ModelFileError(f"{path} is not a file; give the file of a model")
            self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        self.size = status.st_size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def damaged(self, reason: str) -> ModelFileError:
        """The error that names this file and what is wrong with it."""
        return ModelFileError(f"{self.path} cannot be read: {reason}")

    def bytes(self, offset: int, count: int) -> bytes:
        """Read `count` bytes.  Raises: ModelFileError where the file does not have them"""
        return self.array(offset, (count,), np.dtype(np.uint8)).tobytes() if count else b""

    def array(self, offset: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Read an array in C order.  Raises: ModelFileError where the file does not have its bytes"""
        self.check(offset, math.prod(shape) * dtype.itemsize)
        array = np.empty(tuple(shape), dtype)
        if array.size:
            rest = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            with os_errors_explained(f"read {self.path}", ModelFileError):
                while rest:
                    count = os.preadv(self._descriptor, [rest[: 2**30]], offset)
                    if not count:
                        raise self.damaged("it has been cut short while it was read")
                    rest, offset = rest[count:], offset + count
        return array

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
            upper = self.file.array(self.offset, self.shape, np.dtype("<u2"))
            return (upper.astype(np.uint32) << 16).view(np.float32)
        array = self.file.array(self.offset, self.shape, self.dtype)
        return array.astype(self.dtype.newbyteorder("="), copy=False)


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
