"""Checkpoint files: tensors and a state in the safetensors format, written whole and checked byte by byte.

A file is a length (8 bytes, little-endian), a header (JSON, that many bytes) and the bytes of the tensors, end to end:

    {"__metadata__": {"minitf_checkpoint": "1", "sha256": …, "tensors_sha256": …, "state": …},
     "model.encoder.layers.0.norm.gain": {"dtype": "F32", "shape": [512], "data_offsets": [0, 2048]}, …}

`sha256` covers length and header (with zeros in its own place), `tensors_sha256` holds one sum for each tensor, in
order: a flipped bit anywhere is found, and reading only `model.*` checks all it reads without reading the rest.
Any safetensors library reads the files. They are written here and not by one, because sums and bytes then go out in a
single pass over memory, and because a full disk must be an OSError before the last checkpoint is touched.

A file may come from anywhere: nothing in its header is believed before it is checked, no memory is taken for more
than the file holds, and nothing in it can run.
"""

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray

from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained, parse_json

Array = NDArray[Any]

DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
    "U64": "<u8",
    "U32": "<u4",
    "U16": "<u2",
    "U8": "|u1",
}
DTYPE_CODES = {np.dtype(dtype): code for code, dtype in DTYPES.items()}

MAX_HEADER_BYTES = 4 * 2**20
"""A big model with its optimizer needs 0.2 MB. JSON grows to some 30 times its length when it is read."""
MAX_ELEMENTS = 2**48
BLOCK_BYTES = 2**20
"""Read, written and summed at once: fits in a processor's cache."""

NAME = re.compile(r"\w+([.-]\w+)*", re.ASCII)  # no slashes, no empty parts, no leading dots
MAX_NAME = 500
METADATA = "__metadata__"
BLANK = "0" * 64
OPENING = b'{"__metadata__":{"minitf_checkpoint":"1","sha256":"'
DIGEST_PLACE = slice(len(OPENING), len(OPENING) + len(BLANK))


class CheckpointError(UserError):
    """A checkpoint cannot be written or read."""


class DamagedCheckpointError(CheckpointError):
    """The bytes of a file are not those of a checkpoint, or not those that were written."""


@dataclass(frozen=True)
class Entry:
    """Where a tensor stands in its file. Offsets count from the end of the header."""

    name: str
    code: str
    shape: tuple[int, ...]
    begin: int
    end: int


# ---- Writing ----


def save(path: Path, arrays: Mapping[str, Array], state: Mapping[str, Any]) -> None:
    """Write a checkpoint that is at `path` whole and durable, or not at all; memory: one tensor at most.

    state: what JSON can hold exactly (no tuples, no keys but strings, no NaN).

    Raises: CheckpointError where the system refuses to write; TypeError or ValueError for arrays or a state that
    cannot be kept.
    """
    path = Path(path)
    entries = _plan(arrays)
    text = _state_text(state)
    mebibytes = math.ceil(sum(array.nbytes for array in arrays.values()) / 2**20)
    action = f"write the checkpoint {path} ({mebibytes} MiB)"
    with atomic_write(path, action, CheckpointError) as file:
        file.write(_header(entries, [BLANK] * len(entries), text))
        digests = [_write_tensor(file, arrays[entry.name]) for entry in entries]
        file.seek(0)
        file.write(_header(entries, digests, text))


def _plan(arrays: Mapping[str, Array]) -> list[Entry]:
    """The order of tensors in the file: wide types first, so that each is aligned to its own width."""
    entries = []
    begin = 0
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
        if not _is_name(name):
            raise ValueError(f"{name!r} cannot name a tensor; use letters, digits, _ and single dots between them")
        code = DTYPE_CODES.get(array.dtype.newbyteorder("<"))
        if code is None:
            raise TypeError(f"{name} is of type {array.dtype}, which a checkpoint cannot hold; use one of {[*DTYPES]}")
        entries.append(Entry(name, code, array.shape, begin, begin + array.nbytes))
        begin += array.nbytes
    return entries


def _state_text(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, allow_nan=False)
    if json.loads(text) != state:
        raise TypeError("the state does not come back from JSON as it is: use lists for tuples and strings for keys")
    return text


def _header(entries: Sequence[Entry], digests: Sequence[str], state_text: str) -> bytes:
    """Length and header. Its size does not depend on the digests, so that it can be written again."""
    metadata = {"minitf_checkpoint": "1", "sha256": BLANK, "tensors_sha256": "".join(digests), "state": state_text}
    header: dict[str, Any] = {METADATA: metadata}
    for entry in entries:
        header[entry.name] = {"dtype": entry.code, "shape": entry.shape, "data_offsets": [entry.begin, entry.end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format wants its data aligned
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(f"names and state take {len(text)} bytes, more than the {MAX_HEADER_BYTES} of a header")
    length = struct.pack("<Q", len(text))
    digest = hashlib.sha256(length + text).hexdigest().encode()
    return length + text[: DIGEST_PLACE.start] + digest + text[DIGEST_PLACE.stop :]


def _write_tensor(file: BinaryIO, array: Array) -> str:
    """Write the bytes of an array and give their sum."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    view = little.reshape(-1).view(np.uint8).data
    digest = hashlib.sha256()
    for start in range(0, len(view), BLOCK_BYTES):
        block = view[start : start + BLOCK_BYTES]
        digest.update(block)
        file.write(block)
    return digest.hexdigest()


# ---- Reading ----


def load(path: Path, prefix: str = "") -> tuple[dict[str, Array], dict[str, Any]]:
    """The tensors whose names begin with `prefix`, which is taken off, and the state. Other tensors are not read.

    Raises: DamagedCheckpointError where a byte that was read is not what was written; CheckpointError where the file
    cannot be opened or no name begins with the prefix.
    """
    with Reader(path) as reader:
        return {name.removeprefix(prefix): reader.read(name) for name in reader.names(prefix)}, reader.state


def read_state(path: Path) -> dict[str, Any]:
    """The state alone."""
    with Reader(path) as reader:
        return reader.state


def verify(path: Path) -> None:
    """Check every byte of a checkpoint, keeping none.

    Raises: as `load`.
    """
    with Reader(path) as reader:
        for name in reader.names(""):
            reader.check(name)


class Reader:
    """An open checkpoint whose header has been checked."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        with os_errors_explained(f"read the checkpoint {path}", CheckpointError):
            mode = os.stat(self.path).st_mode
            if not stat.S_ISREG(mode):  # opening a pipe would wait for ever
                raise CheckpointError(f"{path} is no file; give a checkpoint, such as step-00001000.safetensors")
            self._file = open(self.path, "rb")  # noqa: SIM115 (closed in __exit__, or here)
        try:
            self._read_header()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def names(self, prefix: str) -> list[str]:
        """The names that begin with a prefix, in the order of the file."""
        names = [name for name in self.entries if name.startswith(prefix)]
        if prefix and not names:
            raise CheckpointError(f"{self.path} has no tensor whose name begins with {prefix!r}")
        return names

    def read(self, name: str) -> Array:
        """One tensor, checked."""
        entry = self.entries[name]
        array = np.empty(entry.shape, DTYPES[entry.code])
        view = array.reshape(-1).view(np.uint8).data
        self._sum(entry, lambda start, size: view[start : start + size])
        return array.astype(array.dtype.newbyteorder("="), copy=False)

    def check(self, name: str) -> None:
        """Check one tensor without keeping it."""
        view = memoryview(bytearray(BLOCK_BYTES))
        self._sum(self.entries[name], lambda start, size: view[:size])

    def _sum(self, entry: Entry, place: Callable[[int, int], memoryview]) -> None:
        """Read the bytes of a tensor, block by block, into the places named, and compare their sum."""
        digest = hashlib.sha256()
        size = entry.end - entry.begin
        with self._read_errors_explained():
            self._file.seek(self._data_begin + entry.begin)
            for start in range(0, size, BLOCK_BYTES):
                block = place(start, min(BLOCK_BYTES, size - start))
                if self._file.readinto(block) != len(block):
                    raise self._damaged("it ends too early")
                digest.update(block)
        if digest.hexdigest() != self._digests[entry.name]:
            raise self._damaged(f"the bytes of {entry.name} have changed since they were written")

    def _read_errors_explained(self) -> Any:
        return os_errors_explained(f"read the checkpoint {self.path}", DamagedCheckpointError)

    def _damaged(self, what: str) -> DamagedCheckpointError:
        return DamagedCheckpointError(f"the checkpoint {self.path} is damaged: {what}")

    def _read_header(self) -> None:
        """Length, sum, JSON, and every claim of the header, in this order: each is needed to believe the next."""
        with self._read_errors_explained():
            size = os.fstat(self._file.fileno()).st_size
            start = self._file.read(8)
            length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
            if not DIGEST_PLACE.stop <= length <= min(MAX_HEADER_BYTES, size - 8):
                raise self._damaged(f"a header of {length} bytes cannot be, in a file of {size} bytes")
            text = self._file.read(length)
        if len(text) != length:
            raise self._damaged("it ends too early")
        if not text.startswith(OPENING):
            raise self._damaged("it does not begin as a checkpoint of this project does")
        blank = text[: DIGEST_PLACE.start] + BLANK.encode() + text[DIGEST_PLACE.stop :]
        if hashlib.sha256(start + blank).hexdigest().encode() != text[DIGEST_PLACE]:
            raise self._damaged("its header has changed since it was written")
        self._data_begin = 8 + length
        try:
            header = parse_json(text)
            self.entries = _checked_entries(header, size - self._data_begin)
            self._digests = _checked_digests(header[METADATA], self.entries)
            self.state = _checked_state(header[METADATA])
        except ValueError as error:
            raise self._damaged(f"in its header, {error}") from error


def _checked_entries(header: dict[str, Any], data_size: int) -> dict[str, Entry]:
    """The tensors of a header, which must fill the data from end to end.

    Raises: ValueError saying what is wrong.
    """
    entries = {}
    position = 0
    for name, claim in header.items():
        if name == METADATA:
            continue
        if not _is_name(name):
            raise ValueError(f"{name[:80]!r} cannot name a tensor")
        entry = _checked_entry(name, claim)
        if entry.begin != position:
            raise ValueError(f"{name} begins at byte {entry.begin}, and not where the tensor before ends, {position}")
        entries[name] = entry
        position = entry.end
    if position != data_size:
        raise ValueError(f"the tensors take {position} bytes, but the file has {data_size}")
    return entries


def _checked_entry(name: str, claim: Any) -> Entry:
    if not isinstance(claim, dict) or sorted(claim) != ["data_offsets", "dtype", "shape"]:
        raise ValueError(f"{name} does not have exactly dtype, shape and data_offsets")
    code, shape, offsets = claim["dtype"], claim["shape"], claim["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise ValueError(f"{name} is of the unknown type {str(code)[:20]!r}")
    if not _is_counts(shape) or len(shape) > 32 or math.prod(max(1, each) for each in shape) > MAX_ELEMENTS:
        raise ValueError(f"the shape of {name} is none")
    if not _is_counts(offsets) or len(offsets) != 2:
        raise ValueError(f"the data_offsets of {name} are no two places")
    begin, end = offsets
    size = math.prod(shape) * np.dtype(DTYPES[code]).itemsize
    if end - begin != size:
        raise ValueError(f"{name} has {end - begin} bytes, but its shape {shape} and type {code} need {size}")
    return Entry(name, code, tuple(shape), begin, end)


def _is_name(name: str) -> bool:
    """Whether a tensor may be called so: never like a path, nor like the header's own entry."""
    return len(name) <= MAX_NAME and NAME.fullmatch(name) is not None and name != METADATA


def _is_counts(value: Any) -> bool:
    """Whether a value is a list of whole numbers that are not negative."""
    return isinstance(value, list) and all(type(each) is int and each >= 0 for each in value)


def _checked_digests(metadata: dict[str, Any], entries: dict[str, Entry]) -> dict[str, str]:
    text = metadata.get("tensors_sha256")
    if not isinstance(text, str) or len(text) != 64 * len(entries):
        raise ValueError("tensors_sha256 does not hold one sum for each tensor")
    return {name: text[64 * i : 64 * (i + 1)] for i, name in enumerate(entries)}


def _checked_state(metadata: dict[str, Any]) -> dict[str, Any]:
    text = metadata.get("state")
    state = parse_json(text) if isinstance(text, str) else None
    if not isinstance(state, dict):
        raise ValueError("the state is no object of names and values")
    return state
