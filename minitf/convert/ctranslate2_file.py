"""Arrays of CTranslate2's `model.bin`, versions 2 to 6.

    u32 version, name of the model, u32 revision, u32 n, n × (name, u8 rank, u32 dimensions, what it holds, data), and
    from version 3: u32 n, n × (alias, name)

What an array holds is, before version 4, u8 bytes of an item and u32 items; later u8 type and u32 bytes. A name is u16
length, bytes, NUL. Source: ctranslate2/specs/model_spec.py
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from minitf.convert.stored_arrays import BFLOAT16, MAX_RANK, Array, SourceFile, StoredArray
from minitf.system.files import atomic_write

VERSIONS = range(2, 7)
TYPES: dict[int, np.dtype[Any] | str] = {
    0: np.dtype("<f4"), 1: np.dtype("<i1"), 2: np.dtype("<i2"), 3: np.dtype("<i4"), 4: np.dtype("<f2"), 5: BFLOAT16,
}  # fmt: skip
TYPES_BY_SIZE = {1: TYPES[1], 2: TYPES[2], 4: TYPES[0]}
"""Before version 4 only the bytes of an item are given: int8, int16 and float32."""
MAX_ARRAYS = 100_000


@dataclass(frozen=True)
class Content:
    """What a `model.bin` holds."""

    version: int
    name: str
    revision: int
    arrays: dict[str, StoredArray]


def read_content(file: SourceFile) -> Content:
    """Read all but the data of the arrays.  Raises: ModelFileError for what the file cannot hold"""
    reader = _Reader(file)
    version = reader.number("I")
    if version not in VERSIONS:
        raise file.damaged(f"version {version} of CTranslate2's model.bin is not read, only 2 to 6")
    name, revision = reader.text(), reader.number("I")
    arrays: dict[str, StoredArray] = {}
    for _ in range(reader.count()):
        reader.add_array(arrays, version)
    if version >= 3:
        for _ in range(reader.count()):
            alias, of = reader.text(), reader.text()
            if of not in arrays or alias in arrays:
                raise file.damaged(f"{alias[:80]!r} is another name of {of[:80]!r}, which cannot be")
            arrays[alias] = arrays[of]
    if reader.place != file.size:
        raise file.damaged(f"it goes on after its last array, at byte {reader.place}")
    return Content(version, name, revision, arrays)


class _Reader:
    """A place in a file that moves on with what is read."""

    def __init__(self, file: SourceFile):
        self.file, self.place = file, 0

    def number(self, code: str) -> int:
        content = self.file.bytes(self.place, struct.calcsize("<" + code))
        self.place += len(content)
        return struct.unpack("<" + code, content)[0]

    def count(self) -> int:
        count = self.number("I")
        if count > MAX_ARRAYS:
            raise self.file.damaged(f"it claims {count} arrays")
        return count

    def text(self) -> str:
        length = self.number("H")
        content = self.file.bytes(self.place, length)
        self.place += length
        return content.rstrip(b"\0").decode("utf-8", "replace")

    def add_array(self, arrays: dict[str, StoredArray], version: int) -> None:
        name, rank = self.text(), self.number("B")
        if name in arrays or rank > MAX_RANK:
            raise self.file.damaged(f"its array {name[:80]!r} is there twice, or has {rank} dimensions")
        shape = tuple(self.number("I") for _ in range(rank))
        kind, size = self.number("B"), self.number("I")
        dtype = (TYPES if version >= 4 else TYPES_BY_SIZE).get(kind)
        if dtype is None:
            raise self.file.damaged(f"its array {name[:80]!r} is of type {kind}, which is not known")
        array = StoredArray(self.file, self.place, shape, dtype)
        if array.nbytes != (size if version >= 4 else size * kind):
            raise self.file.damaged(f"its array {name[:80]!r} of shape {list(shape)} has another number of bytes")
        arrays[name] = array
        self.place += array.nbytes


def write_content(
    path: Path, name: str, revision: int, arrays: Mapping[str, Array], aliases: Mapping[str, str]
) -> None:
    """Write version 6, completely or not at all; aliases: another name -> the name of its array."""
    kinds = {dtype: kind for kind, dtype in TYPES.items()}
    with atomic_write(path) as file:
        file.write(struct.pack("<I", 6) + _text(name) + struct.pack("<2I", revision, len(arrays)))
        for label, array in arrays.items():
            shape = struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
            file.write(_text(label) + shape + struct.pack("<BI", kinds[array.dtype], array.nbytes))
            file.write(np.ascontiguousarray(array).data)
        file.write(struct.pack("<I", len(aliases)))
        for alias, label in aliases.items():
            file.write(_text(alias) + _text(label))


def _text(text: str) -> bytes:
    content = text.encode() + b"\0"
    return struct.pack("<H", len(content)) + content
