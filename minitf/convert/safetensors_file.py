"""Arrays of a .safetensors file. Source: the format's description in the safetensors repository.

The safetensors library reads our checkpoints; here it would need `ml_dtypes` for bfloat16.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minitf.convert.stored_arrays import BFLOAT16, Array, SourceFile, StoredArray
from minitf.system.files import atomic_write, parse_json_object

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
    arrays = {name: _array(file, name, claim, 8 + length) for name, claim in header.items()}
    end = 8 + length
    for array in sorted(arrays.values(), key=lambda each: (each.offset, each.nbytes)):
        if array.offset != end:
            raise file.damaged("its arrays do not lie end to end")
        end += array.nbytes
    if end != file.size:
        raise file.damaged(f"its arrays end at byte {end}, but it has {file.size}")
    return arrays


def _array(file: SourceFile, name: str, claim: Any, begin: int) -> StoredArray:
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
