"""Model files of other programs, written byte by byte as their own writers do, without these programs."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

Array = np.ndarray

# ---- CTranslate2 -------------------------------------------------------------------------------------------------


def write_ctranslate2(
    path: Path,
    arrays: Mapping[str, Array],
    version: int = 6,
    *,
    name: str = "TransformerSpec",
    aliases: Mapping[str, str] | None = None,
    bfloat16: bool = False,
) -> None:
    """A `model.bin`; bfloat16: store arrays of uint16 as that type."""

    def text(value: str) -> bytes:
        return struct.pack("<H", len(value) + 1) + value.encode() + b"\0"

    kinds = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4, "uint16": 5}
    parts = [struct.pack("<I", version), text(name), struct.pack("<2I", 7, len(arrays))]
    for label, array in arrays.items():
        parts += [text(label), struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)]
        after = (kinds[str(array.dtype)], array.nbytes) if version >= 4 else (array.itemsize, array.size)
        parts += [struct.pack("<BI", *after), array.tobytes()]
    if version >= 3:
        parts.append(struct.pack("<I", len(aliases or {})))
        parts += [text(alias) + text(label) for alias, label in (aliases or {}).items()]
    path.write_bytes(b"".join(parts))


# ---- Marian ------------------------------------------------------------------------------------------------------


def write_intgemm(path: Path, arrays: Mapping[str, Array], intgemm8: int = 0x4101) -> None:
    """A `.intgemm.alphas.bin`: matrices with more than one row in 8 bits, transposed but for embeddings."""
    headers, shapes, contents = [], [], []
    for name, array in arrays.items():
        if array.dtype == np.int8:
            kind, content = 0x101, array.tobytes()
        elif array.ndim == 2 and len(array) > 1:
            kind, multiplier = intgemm8, np.float32(127 / abs(array).max())
            q = np.round(array * multiplier).astype(np.int8)
            content = (q if "Wemb" in name else q.T).tobytes() + multiplier.tobytes()
        else:
            kind, content = 0x404, array.astype("<f4").tobytes()
        content += bytes(-len(content) % 256)
        headers.append(struct.pack("<4Q", len(name) + 1, kind, array.ndim, len(content)))
        shapes.append(struct.pack(f"<{array.ndim}i", *array.shape))
        contents.append(content)
    start = struct.pack("<2Q", 1, len(arrays)) + b"".join(headers) + b"".join(f"{name}\0".encode() for name in arrays)
    start += b"".join(shapes)
    gap = -(len(start) + 8) % 256
    path.write_bytes(start + struct.pack("<Q", gap) + bytes(gap) + b"".join(contents))
