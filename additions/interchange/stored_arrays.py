"""Arrays in files of other programs: described by a header, checked against the size of the file, read on demand.

The files are .npz and .safetensors. `zipfile` reads the directory of a zip file, and NumPy
the header of an array; `np.load` and the safetensors library, which reads our checkpoints, would copy each array once
more than it takes to bring it to where the weights stay, and the latter needs `ml_dtypes` for bfloat16.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.lib import format as npy

from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained, parse_json_object

Array = np.ndarray

BFLOAT16 = "bfloat16"
"""The type that NumPy lacks: the upper half of a float32."""
MAX_RANK = 8
ALIGNMENT, SMALL_BYTES = 64, 2**14
"""Bytes: at a multiple of the first an array begins; one below the second has memory of its own."""
VERIFIED_BYTES, MAX_HEAD_BYTES = 2**20, 2**14
"""Bytes of a member that are checked together, and the most that may stand before an array, such as its shape."""
MOST_TIMES, SPARE_BYTES = 8, 2**24
"""The bytes that are read of a file at most: a multiple of its size, plus a constant.

Each byte is read once or twice, for its checksum, and that of shared matrices once more; what is beyond that is a small
file whose names of arrays stand for one place a thousand times.
"""
MAX_MEMBERS, MAX_DIRECTORY_BYTES = 20_000, 4 * 2**20
"""The limits of a zip file: the largest models have a few thousand members, of 200 bytes in the directory."""
MAX_CONFIG_BYTES = 16 * 2**20
"""Bytes of a configuration or a word list that is read as a whole; that of 250,000 pieces has 6 MB."""
MAX_READ_BYTES, MAX_SAFETENSORS_HEADER_BYTES, MAX_NPY_HEADER_BYTES = 64 * 2**20, 16 * 2**20, 10_000
"""Bytes of a directory, and of headers."""
BLOCK_BYTES, LONGEST_LINE = 2**16, 2**12


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
            self._descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        self.size = status.st_size
        self._block, self._used = np.empty(0, np.uint8), 0
        self._left = MOST_TIMES * self.size + SPARE_BYTES
        self._verified: set[Member] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def damaged(self, reason: str) -> ModelFileError:
        """Return the error that names this file and what is wrong with it."""
        return ModelFileError(f"{self.path} cannot be read: {reason}")

    def bytes(self, offset: int, count: int) -> bytes:
        """Read `count` bytes.  Raises: ModelFileError if the file does not have them"""
        self.check(offset, count)
        content = np.empty(count, np.uint8)
        self.fill(content, offset)
        return content.tobytes()

    def array(self, offset: int, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Read an array in C order.  Raises: ModelFileError if the file does not have its bytes"""
        self.check(offset, math.prod(shape) * dtype.itemsize)
        array = self.memory(shape, dtype)
        self.fill(array, offset)
        return array

    def fill(self, array: Array, offset: int) -> None:
        """Read the bytes of an array in C order from `offset` on.  Raises: ModelFileError after many times the file"""
        self._left -= array.nbytes
        if self._left < 0:
            raise self.damaged(f"its arrays have more than {MOST_TIMES} times its {self.size} bytes: they share them")
        rest = memoryview(array.reshape(-1).view(np.uint8)) if array.size else memoryview(b"")  # type: ignore[arg-type]
        with os_errors_explained(f"read {self.path}", ModelFileError):
            while rest:
                count = _read_into(self._descriptor, rest[: 2**30], offset)
                if not count:
                    raise self.damaged("it has been cut short while it was read")
                rest, offset = rest[count:], offset + count

    def memory(self, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
        """Return a part of the block, as long as there is one."""
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


def _read_into(descriptor: int, memory: memoryview, offset: int) -> int:
    """Fill `memory` from `offset` on; return the number of bytes that were there."""
    if hasattr(os, "preadv"):
        return os.preadv(descriptor, [memory], offset)
    os.lseek(descriptor, offset, os.SEEK_SET)  # on Windows
    found = os.read(descriptor, len(memory))
    memory[: len(found)] = found
    return len(found)


@dataclass(frozen=True)
class StoredArray:
    """An array that lies in a file, which has its bytes."""

    file: SourceFile
    offset: int
    shape: tuple[int, ...]
    dtype: np.dtype[Any] | str
    """A type of NumPy, or BFLOAT16."""
    within: Member | None = None
    """The member that it is part of, where the file has checksums: they are compared when an array of it is read."""

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
        """Return the rows of these numbers, each of which the array has; of zeros for -1."""
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
    """Return the array in the machine's byte order."""
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def runs(order: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The longest stretches of consecutive ids.  Example: [-1, 1, 0, 2, 3, 4] -> (0, 1), (1, 2), (2, 3), (3, 6)"""
    ids = np.asarray(order, np.int64)
    begins = np.flatnonzero((np.diff(ids) != 1) | (ids[1:] == 0)) + 1
    return itertools.pairwise([0, *begins.tolist(), len(ids)] if len(ids) else [])


def read_text(path: Path) -> str:
    """Read a small text file.  Raises: ModelFileError if it is missing, too large, or not UTF-8"""
    with SourceFile(path) as file:
        if file.size > MAX_CONFIG_BYTES:
            raise file.damaged(f"it has {file.size} bytes, more than the {MAX_CONFIG_BYTES} of a configuration")
        try:
            return file.bytes(0, file.size).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise file.damaged(f"byte {error.start + 1} is not UTF-8") from None


# ---- zip ---------------------------------------------------------------------------------------------------------


class Stream:
    """Part of a SourceFile as a file of its own, read on in blocks; never more bytes at once than there are."""

    def __init__(self, file: SourceFile, offset: int, size: int, most: int = MAX_READ_BYTES):
        self.most = most
        self.file, self.start, self.place, self.end = file, offset, offset, min(offset + size, file.size)
        self._block, self._begin = b"", offset

    def read(self, count: int = -1) -> bytes:
        """Read `count` bytes, or all that are left.  Raises: ModelFileError for a part that is too long"""
        left = max(0, self.end - self.place)
        count = left if count < 0 else min(count, left)
        if count > self.most:
            raise self.file.damaged(f"a part of {count} bytes, such as its directory, is too long")
        at = self.place - self._begin
        if not 0 <= at <= at + count <= len(self._block):
            self._block = self.file.bytes(self.place, min(max(count, BLOCK_BYTES), left))
            self._begin, at = self.place, 0
        self.place += count
        return self._block[at : at + count]

    def readline(self) -> bytes:
        """Return a line, or the start of one that is longer than any name."""
        start = self.place
        line = self.read(LONGEST_LINE)
        end = line.find(b"\n") + 1 or len(line)
        self.place = start + end
        return line[:end]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Move to a place of the part, as `io.IOBase.seek`.  Raises: OSError before its beginning"""
        self.place = offset + {os.SEEK_SET: self.start, os.SEEK_CUR: self.place, os.SEEK_END: self.end}[whence]
        if self.place < self.start:
            raise OSError("a place before the beginning")
        return self.tell()

    def tell(self) -> int:
        """Return the place in the part."""
        return self.place - self.start


def stored_members(file: SourceFile) -> dict[str, Member]:
    """Locate the bytes of each member of a zip file.

    Raises: ModelFileError for a file that is not a zip file; for compressed, encrypted or overlapping members; for two
    members with the same name; and for any offset or size beyond the file.
    """
    try:
        entries = zipfile.ZipFile(Stream(file, 0, file.size, MAX_DIRECTORY_BYTES)).infolist()
    except ModelFileError:
        raise
    except Exception as error:  # BadZipFile, struct.error, ValueError, … of a damaged directory
        raise file.damaged("it is not a zip file, has been cut short, or its directory is damaged") from error
    if len(entries) > MAX_MEMBERS:
        raise file.damaged(f"it has {len(entries)} members, more than the {MAX_MEMBERS} of any model")
    members: dict[str, Member] = {}
    for entry in entries:
        name, shown = entry.filename, repr(entry.filename[:80])
        if name in members:
            raise file.damaged(f"it has two members {shown}")
        if entry.compress_type or entry.flag_bits & 1:
            how = "encrypted" if entry.flag_bits & 1 else "compressed"
            raise file.damaged(f"its member {shown} is {how}; write it without, as numpy.savez does")
        if entry.compress_size != entry.file_size:
            raise file.damaged(f"its member {shown} has two sizes, {entry.compress_size} and {entry.file_size}")
        header = file.bytes(entry.header_offset, 30)
        if header[:4] != b"PK\3\4":
            raise file.damaged(f"its member {shown} does not begin where the directory says")
        offset = entry.header_offset + len(header) + sum(struct.unpack("<2H", header[-4:]))  # of name and extra field
        file.check(offset, entry.file_size)
        members[name] = Member(name, offset, entry.file_size, entry.CRC)
    spans = sorted((member.offset, member.size) for member in members.values() if member.size)
    for (offset, size), (following, _) in itertools.pairwise(spans):
        if offset + size > following:  # together, they would take more memory than the file has
            raise file.damaged(f"two arrays share the bytes from {following} on")
    return members


# ---- npz ---------------------------------------------------------------------------------------------------------


def npz_arrays(file: SourceFile) -> dict[str, StoredArray]:
    """Return the arrays of an .npz file by name, without `.npy`.

    Raises: ModelFileError for what is not an .npz file of plain numbers.
    """
    return {name.removesuffix(".npy"): _npy_array(file, member) for name, member in stored_members(file).items()}


def _npy_array(file: SourceFile, member: Member) -> StoredArray:
    shown, stream = repr(member.name[:80]), Stream(file, member.offset, member.size)
    try:  # the header is parsed as a literal, with a limit on its length
        read = npy.read_array_header_1_0 if npy.read_magic(stream) == (1, 0) else npy.read_array_header_2_0
        shape, in_fortran_order, dtype = read(stream, max_header_size=MAX_NPY_HEADER_BYTES)
    except Exception as error:  # SyntaxError, TypeError, RecursionError, MemoryError, … of a damaged literal
        raise file.damaged(f"its member {shown} is not an array of NumPy, or its header is damaged") from error
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or (in_fortran_order and len(shape) > 1):
        raise file.damaged(f"its array {shown} is of type {dtype}, or not in C order; only numbers in C order are read")
    array = StoredArray(file, stream.place, shape, np.dtype(dtype), member)
    if array.nbytes != member.size - stream.tell():
        raise file.damaged(f"its array {shown} of shape {list(shape)} is not as long as its member")
    return array


# ---- Pickles ---------------------------------------------------------------------------------------------------------


def refused_pickle(path: Path, convert: str) -> ModelFileError:
    """Return the error for a file of PyTorch.  convert: the Python code that makes model.safetensors of it"""
    return ModelFileError(
        f"{path} is a pickle, which can run code when it is read; if you trust it, write model.safetensors beside it, "
        f"in its folder and with PyTorch: {convert}"
    )


# ---- safetensors -------------------------------------------------------------------------------------------------

SAFETENSORS_DTYPES: dict[str, np.dtype[Any] | str] = {
    **{f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}") for kind in "fiu" for size in (1, 2, 4, 8)
       if (kind, size) != ("f", 1)},
    "BOOL": np.dtype(bool),
    "BF16": BFLOAT16,
}  # fmt: skip


def safetensors_header(file: SourceFile) -> tuple[dict[str, Any], int]:
    """Return the header of a .safetensors file, and where its arrays begin."""
    (length,) = struct.unpack("<Q", file.bytes(0, 8))
    if length > min(MAX_SAFETENSORS_HEADER_BYTES, file.size - 8):
        raise file.damaged(f"a header of {length} bytes is impossible in a file of {file.size} bytes")
    try:
        header = parse_json_object(file.bytes(8, length))
    except ValueError as error:
        raise file.damaged(f"its header is damaged: {error}") from None
    return header, 8 + length


def safetensors_arrays(file: SourceFile) -> dict[str, StoredArray]:
    """Return the arrays of a .safetensors file by name.

    Raises: ModelFileError unless the arrays lie end to end and fill the file, as the format requires.
    """
    header, end = safetensors_header(file)
    header.pop("__metadata__", None)
    arrays = {name: _safetensors_array(file, name, claim, end) for name, claim in header.items()}
    for array in sorted(arrays.values(), key=lambda each: (each.offset, each.nbytes)):
        if array.offset != end:
            raise file.damaged("its arrays do not lie end to end")
        end += array.nbytes
    if end != file.size:
        raise file.damaged(f"its arrays end at byte {end}, but it has {file.size}")
    return arrays


def _safetensors_array(file: SourceFile, name: str, claim: Any, begin: int) -> StoredArray:
    shown = repr(name[:80])
    try:
        dtype, shape, (start, end) = claim["dtype"], claim["shape"], claim["data_offsets"]
        if not all(type(number) is int and 0 <= number < 2**63 for number in (*shape, start, end)):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise file.damaged(f"its header does not describe the array {shown}") from None
    if not isinstance(dtype, str) or dtype not in SAFETENSORS_DTYPES:
        raise file.damaged(f"its array {shown} is of type {str(dtype)[:20]}, which is not read")
    array = StoredArray(file, begin + start, tuple(shape), SAFETENSORS_DTYPES[dtype])
    if array.nbytes != end - start:
        raise file.damaged(f"its array {shown} of {math.prod(shape)} numbers has {end - start} bytes")
    return array


def write_safetensors(path: Path, arrays: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Write arrays of float32, completely or not at all."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    end = 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": [end, end + 4 * array.size]}
        end += 4 * array.size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with atomic_write(path) as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(np.ascontiguousarray(array, "<f4").data)
