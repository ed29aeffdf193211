"""Arrays of an .npz file, which is how Marian stores a model."""

from __future__ import annotations

import io
import struct

import numpy as np
from numpy.lib import format as npy

from minitf.convert.stored_arrays import Member, SourceFile, StoredArray
from minitf.convert.zip_file import stored_members

MAGIC = b"\x93NUMPY"
MAX_HEADER_BYTES = 10_000


def npz_arrays(file: SourceFile) -> dict[str, StoredArray]:
    """The arrays of the file by name, without `.npy`.

    Raises: ModelFileError for what is not an .npz file of plain numbers.
    """
    members = stored_members(file)
    return {name.removesuffix(".npy"): _array(file, member) for name, member in members.items()}


def _array(file: SourceFile, member: Member) -> StoredArray:
    """Read the header of one .npy member: 6 bytes magic, version, length, and a literal of Python."""
    shown, offset, size = member.name[:80], member.offset, member.size
    start = file.bytes(offset, min(size, 12))
    if len(start) < 12 or start[:6] != MAGIC or start[6] not in (1, 2, 3):
        raise file.damaged(f"its member {shown!r} is not an array of NumPy")
    begin = 10 if start[6] == 1 else 12
    (length,) = struct.unpack("<H" if start[6] == 1 else "<I", start[8:begin])
    if length > min(MAX_HEADER_BYTES, size - begin):
        raise file.damaged(f"the header of its array {shown!r} is too long")
    header = io.BytesIO(file.bytes(offset + 8, begin - 8 + length))
    read = npy.read_array_header_1_0 if start[6] == 1 else npy.read_array_header_2_0
    try:  # the header is parsed as a literal, with a limit on its length
        shape, in_fortran_order, dtype = read(header, max_header_size=MAX_HEADER_BYTES)
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
