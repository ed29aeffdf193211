"""Arrays in files of other programs: described by a header, checked against the size of the file, read on demand."""

from __future__ import annotations

import io
import itertools
import json
import math
import os
import stat
import struct
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


# ---- zip -----------------------------------------------------------------------------------------------------------


END = struct.Struct("<4s4H2IH")
"""The end of the directory: signature, disk numbers, entries (here, in all), bytes and offset, length of a comment."""
LOCATOR = struct.Struct("<4sIQI")
END_64 = struct.Struct("<4sQ2H2I4Q")
ENTRY = struct.Struct("<4s6H3I5H2I")
LOCAL = struct.Struct("<4s5H3I2H")
UNSET, UNSET_SHORT = 0xFFFF_FFFF, 0xFFFF
MAX_COMMENT = 0xFFFF
MAX_DIRECTORY_BYTES = 64 * 2**20


def stored_members(file: SourceFile) -> dict[str, Member]:
    """Where each member's bytes are.

    Raises: ModelFileError for what is not a zip file, for compressed, encrypted or overlapping members, for two of one
    name, and for any offset or size that the file does not have.
    """
    count, size, offset = _directory(file)
    if size > MAX_DIRECTORY_BYTES:
        raise file.damaged(f"its directory of {size} bytes is too long")
    members: dict[str, Member] = {}
    for name, local, length, crc in _entries(file, file.bytes(offset, size), count):
        if name in members:
            raise file.damaged(f"it has two members {name[:80]!r}")
        signature, *_, name_length, extra_length = LOCAL.unpack(file.bytes(local, LOCAL.size))
        if signature != b"PK\3\4":
            raise file.damaged(f"its member {name[:80]!r} does not begin where the directory says")
        members[name] = Member(name, local + LOCAL.size + name_length + extra_length, length, crc)
        file.check(members[name].offset, length)
    refuse_overlap(file, [(member.offset, member.size) for member in members.values()])
    return members


def _directory(file: SourceFile) -> tuple[int, int, int]:
    """Number of entries, bytes and offset of the directory."""
    start = max(0, file.size - END.size - MAX_COMMENT)
    tail = file.bytes(start, file.size - start)
    place = tail.rfind(b"PK\5\6")
    if place < 0 or len(tail) - place < END.size:
        raise file.damaged("it is not a zip file, or has been cut short")
    _, _, _, _, count, size, offset, _ = END.unpack_from(tail, place)
    if UNSET in (size, offset) or count == UNSET_SHORT:  # more than 4 GiB: zip64
        begin = start + place - LOCATOR.size
        signature, _, end_64, _ = LOCATOR.unpack(file.bytes(begin, LOCATOR.size))
        if signature == b"PK\6\7":
            signature, *_, count, size, offset = END_64.unpack(file.bytes(end_64, END_64.size))
            if signature != b"PK\6\6":
                raise file.damaged("the end of its directory is not where it says")
    file.check(offset, size)
    return count, size, offset


def _entries(file: SourceFile, directory: bytes, count: int) -> Iterator[Member]:
    """The members in the directory, with the offsets of their headers."""
    place = 0
    for _ in range(count):
        if len(directory) - place < ENTRY.size:
            raise file.damaged(f"its directory ends before the last of {count} entries")
        entry = ENTRY.unpack_from(directory, place)
        signature, flags, method = entry[0], entry[3], entry[4]
        crc, compressed, size, name_length, extra_length, comment_length, local = *entry[7:13], entry[16]
        place += ENTRY.size
        raw, extra = directory[place : place + name_length], directory[place + name_length :][:extra_length]
        place += name_length + extra_length + comment_length
        if signature != b"PK\1\2" or len(raw) < name_length:
            raise file.damaged("an entry of its directory is damaged")
        name = raw.decode("utf-8", "replace")
        if method or flags & 1:
            how = "encrypted" if flags & 1 else "compressed"
            raise file.damaged(f"its member {name[:80]!r} is {how}; write it without, as numpy.savez does")
        compressed, size, local = _wide(extra, compressed, size, local, file)
        if compressed != size:
            raise file.damaged(f"its member {name[:80]!r} has two sizes, {compressed} and {size}")
        yield Member(name, local, size, crc)


def _wide(extra: bytes, compressed: int, size: int, local: int, file: SourceFile) -> tuple[int, int, int]:
    """The sizes and the offset of an entry, which zip64 keeps in the extra field where 32 bits are too few."""
    place = 0
    while len(extra) - place >= 4:
        kind, length = struct.unpack_from("<2H", extra, place)
        if kind == 1:
            wide = iter(struct.unpack_from(f"<{min(length, len(extra) - place - 4) // 8}Q", extra, place + 4))
            try:  # those that are unset, in this order
                size = next(wide) if size == UNSET else size
                compressed = next(wide) if compressed == UNSET else compressed
                local = next(wide) if local == UNSET else local
            except StopIteration:
                raise file.damaged("an entry of its directory lacks its size") from None
        place += 4 + length
    return compressed, size, local


# ---- npz -----------------------------------------------------------------------------------------------------------


NPY_MAGIC = b"\x93NUMPY"
MAX_NPY_HEADER_BYTES = 10_000


def npz_arrays(file: SourceFile) -> dict[str, StoredArray]:
    """The arrays of the file by name, without `.npy`.

    Raises: ModelFileError for what is not an .npz file of plain numbers.
    """
    members = stored_members(file)
    return {name.removesuffix(".npy"): _npz_array(file, member) for name, member in members.items()}


def _npz_array(file: SourceFile, member: Member) -> StoredArray:
    """Read the header of one .npy member: 6 bytes magic, version, length, and a literal of Python."""
    shown, offset, size = member.name[:80], member.offset, member.size
    start = file.bytes(offset, min(size, 12))
    if len(start) < 12 or start[:6] != NPY_MAGIC or start[6] not in (1, 2, 3):
        raise file.damaged(f"its member {shown!r} is not an array of NumPy")
    begin = 10 if start[6] == 1 else 12
    (length,) = struct.unpack("<H" if start[6] == 1 else "<I", start[8:begin])
    if length > min(MAX_NPY_HEADER_BYTES, size - begin):
        raise file.damaged(f"the header of its array {shown!r} is too long")
    header = io.BytesIO(file.bytes(offset + 8, begin - 8 + length))
    read = npy.read_array_header_1_0 if start[6] == 1 else npy.read_array_header_2_0
    try:  # the header is parsed as a literal, with a limit on its length
        shape, in_fortran_order, dtype = read(header, max_header_size=MAX_NPY_HEADER_BYTES)
    except Exception as error:  # SyntaxError, TypeError, RecursionError, MemoryError, … of a damaged literal
        raise file.damaged(f"the header of its array {shown!r} is damaged") from error
    if dtype.kind not in "biuf" or dtype.itemsize > 8 or (in_fortran_order and len(shape) > 1):
        raise file.damaged(
            f"its array {shown!r} is of type {dtype}, or not in C order; only numbers in C order are read"
        )
    array = StoredArray(file, offset + begin + length, shape, np.dtype(dtype), member)
    if array.nbytes != size - begin - length:
        raise file.damaged(f"its array {shown!r} of shape {list(shape)} is not as long as its member")
    return array


# ---- safetensors ---------------------------------------------------------------------------------------------------


DTYPES: dict[str, np.dtype[Any] | str] = {
    **{f"{kind.upper()}{8 * size}": np.dtype(f"<{kind}{size}") for kind in "fiu" for size in (1, 2, 4, 8)
       if (kind, size) != ("f", 1)},
    "BOOL": np.dtype(bool),
    "BF16": BFLOAT16,
}  # fmt: skip
MAX_HEADER_BYTES = 16 * 2**20


def safetensors_arrays(file: SourceFile) -> dict[str, StoredArray]:
    """The arrays of the file by name.

    Raises: ModelFileError unless the arrays lie end to end and fill the file, as the format requires.
    """
    (length,) = struct.unpack("<Q", file.bytes(0, 8))
    if length > min(MAX_HEADER_BYTES, file.size - 8):
        raise file.damaged(f"a header of {length} bytes is impossible in a file of {file.size} bytes")
    try:
        header = parse_json_object(file.bytes(8, length))
    except ValueError as error:
        raise file.damaged(f"its header is damaged: {error}") from None
    header.pop("__metadata__", None)
    arrays = {name: _safetensors_array(file, name, claim, 8 + length) for name, claim in header.items()}
    end = 8 + length
    for array in sorted(arrays.values(), key=lambda each: (each.offset, each.nbytes)):
        if array.offset != end:
            raise file.damaged("its arrays do not lie end to end")
        end += array.nbytes
    if end != file.size:
        raise file.damaged(f"its arrays end at byte {end}, but it has {file.size}")
    return arrays


def _safetensors_array(file: SourceFile, name: str, claim: Any, begin: int) -> StoredArray:
    shown = name[:80]
    try:
        dtype, shape, (start, end) = claim["dtype"], claim["shape"], claim["data_offsets"]
        if not all(type(number) is int and 0 <= number < 2**63 for number in (*shape, start, end)):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise file.damaged(f"its header does not describe the array {shown!r}") from None
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise file.damaged(f"its array {shown!r} is of type {str(dtype)[:20]}, which is not read")
    array = StoredArray(file, begin + start, tuple(shape), DTYPES[dtype])
    if array.nbytes != end - start:
        raise file.damaged(f"its array {shown!r} of {math.prod(shape)} numbers has {end - start} bytes")
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
