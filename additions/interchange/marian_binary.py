"""Arrays of a Marian binary file, `model.bin` or `model.intgemm.alphas.bin`, the format of translation in browsers.

    u64 version, u64 n, n × u64 (length of the name, type, length of the shape, bytes), names, int32 shapes, u64 gap,
    `gap` bytes of padding, and the arrays end to end

An 8-bit matrix is stored transposed, though its shape is not (only the embeddings are as they are), and followed by a
float32 multiplier: w = q / multiplier. Source: browsermt/marian-dev, src/common/{binary.cpp,types.h}
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np

from additions.interchange.stored_arrays import MAX_RANK, Array, SourceFile, StoredArray

PLAIN: dict[int, np.dtype[Any]] = {0x404: np.dtype("<f4"), 0x101: np.dtype(np.int8)}
INTGEMM8 = (0x4101, 0x10101)
"""The type in the browsers' fork of Marian, and in Marian itself since 1.10."""
MAX_ARRAYS, MAX_NAME = 100_000, 1000


@dataclass(frozen=True)
class QuantizedArray:
    """An 8-bit matrix with one multiplier."""

    quantized: StoredArray
    multiplier: float
    transposed: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the weights."""
        return self.quantized.shape[::-1] if self.transposed else self.quantized.shape

    def read(self) -> Array:
        """w = q / multiplier"""
        weights = self.quantized.read().astype(np.float32)
        with np.errstate(all="ignore"):  # numbers that are not finite are refused later
            weights /= np.float32(self.multiplier)
        return weights.T if self.transposed else weights


def binary_arrays(file: SourceFile) -> dict[str, StoredArray | QuantizedArray]:
    """The arrays of the file by name.  Raises: ModelFileError for sizes that the file cannot hold, and unknown types"""
    version, count = struct.unpack("<2Q", file.bytes(0, 16))
    if version != 1 or count > MAX_ARRAYS:
        raise file.damaged(f"version {version} with {count} arrays is not one of Marian's binary files")
    table = file.array(16, (count, 4), np.dtype("<u8")).tolist()  # name, type, rank, bytes
    place = 16 + 32 * count
    names = []
    for name_length, _, rank, _ in table:
        if name_length > MAX_NAME or rank > MAX_RANK:
            raise file.damaged(f"a name of {name_length} bytes or an array of {rank} dimensions is impossible")
        names.append(file.bytes(place, name_length).split(b"\0")[0].decode("utf-8", "replace"))
        place += name_length
    if len(set(names)) != count:
        raise file.damaged("two of its arrays have one name")
    shapes = []
    for _, _, rank, _ in table:
        shapes.append(tuple(file.array(place, (rank,), np.dtype("<i4")).tolist()))
        place += 4 * rank
    (gap,) = struct.unpack("<Q", file.bytes(place, 8))
    place += 8 + gap
    arrays = {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, table, strict=True):
        file.check(place, size)
        arrays[name] = _array(file, name, kind, shape, place, size)
        place += size
    return arrays


def _array(
    file: SourceFile, name: str, kind: int, shape: tuple[int, ...], offset: int, size: int
) -> StoredArray | QuantizedArray:
    shown, is_quantized, transposed = repr(name[:80]), kind in INTGEMM8, kind in INTGEMM8 and "Wemb" not in name
    if not is_quantized and kind not in PLAIN:
        raise file.damaged(f"its array {shown} is of type {kind:#x}; only float32 and intgemm8 are read")
    array = StoredArray(file, offset, shape[::-1] if transposed else shape, PLAIN.get(kind, np.dtype(np.int8)))
    if array.nbytes + 4 * is_quantized > size:
        raise file.damaged(f"its array {shown} has {size} bytes, too few for shape {list(shape)}")
    if not is_quantized:
        return array
    (multiplier,) = struct.unpack("<f", file.bytes(offset + array.nbytes, 4))
    if not (math.isfinite(multiplier) and multiplier):
        raise file.damaged(f"the multiplier of its array {shown} is {multiplier}")
    return QuantizedArray(array, multiplier, transposed)
