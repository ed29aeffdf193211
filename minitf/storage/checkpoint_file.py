"""Checkpoint files: tensors and a state in the safetensors format, with checksums of every byte.

A file is a length (8 bytes, little-endian), a header (JSON, that many bytes) and the bytes of the tensors, end to end:

    {"__metadata__": {"minitf_checkpoint": "1", "sha256": …, "tensors_sha256": …, "state": …, "origin": …},
     "model.encoder.layers.0.self_attention_residual.norm.weight":
         {"dtype": "F32", "shape": [512], "data_offsets": [0, 2048]}, …}

`sha256` covers length and header (with zeros in its own place), `tensors_sha256` holds a checksum of each tensor, in
order: a flipped bit anywhere is found, and reading only `model.*` checks all it reads without reading the rest.
`origin` says which run and configuration the tensors are of; it may be missing.

The safetensors library reads the files and validates their headers, so that a file may come from anywhere. It does not
write them: its temporary file has a name that nobody could clean up after a kill, is private to its owner and is not
flushed to the disk, and equal content would not give equal bytes.
"""

import hashlib
import json
import math
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained, parse_json, parse_json_object

Array = NDArray[Any]

DTYPES = {
    np.dtype(f"{kind}{size}"): f"{kind.upper()}{8 * size}"  # F32, I64, U8, …
    for kind, sizes in (("f", (2, 4, 8)), ("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)))
    for size in sizes
}

MAX_HEADER_BYTES = 4 * 2**20
"""A big model with its optimizer needs 0.2 MB. JSON grows to some 30 times its length when it is parsed."""
BLOCK_BYTES = 2**20
"""Bytes that are written and checksummed together: they fit in a processor's cache."""

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


def _is_name(name: str) -> bool:
    """Whether a tensor may have this name: not that of a path, nor the header's own entry."""
    return len(name) <= MAX_NAME and NAME.fullmatch(name) is not None and name != METADATA


# ---- Writing ----


def save(
    path: Path, arrays: Mapping[str, Array], state: Mapping[str, Any], origin: Mapping[str, Any] | None = None
) -> None:
    """Write a checkpoint, durable and whole or not at all; memory: at most a copy of one tensor.

    state, origin: what JSON can represent exactly (no tuples, no keys but strings, no NaN).

    Raises: CheckpointError where the system refuses to write; TypeError or ValueError for arrays or a state that
    cannot be stored.
    """
    path = Path(path)
    # wide types first, so that each tensor is aligned to its own width
    ordered = dict(sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize))
    texts = {"state": _json_text(state), "origin": _json_text(origin or {})}
    header = _header(ordered, [BLANK] * len(ordered), texts)
    mebibytes = math.ceil(sum(array.nbytes for array in ordered.values()) / 2**20)
    with atomic_write(path, f"write the checkpoint {path} ({mebibytes} MiB)", CheckpointError) as file:
        file.write(header)
        digests = [_write_tensor(file, array) for array in ordered.values()]
        file.seek(0)
        file.write(_header(ordered, digests, texts))


def _json_text(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, allow_nan=False)
    if json.loads(text) != state:
        raise TypeError("the state does not come back from JSON as it is: use lists for tuples and strings for keys")
    return text


def _header(arrays: Mapping[str, Array], digests: Sequence[str], texts: Mapping[str, str]) -> bytes:
    """Length and header. Its size does not depend on the digests, so that it can be written again."""
    metadata = {"minitf_checkpoint": "1", "sha256": BLANK, "tensors_sha256": "".join(digests), **texts}
    header: dict[str, Any] = {METADATA: metadata}
    begin = 0
    for name, array in arrays.items():
        if not _is_name(name):
            raise ValueError(f"{name!r} cannot name a tensor; use letters, digits, _ and single dots between them")
        code = DTYPES.get(array.dtype.newbyteorder("="))
        if code is None:
            known = ", ".join(map(str, DTYPES))
            raise TypeError(f"{name} is of type {array.dtype}, which a checkpoint cannot hold; use one of {known}")
        header[name] = {"dtype": code, "shape": array.shape, "data_offsets": [begin, begin + array.nbytes]}
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format requires aligned data
    if len(text) > MAX_HEADER_BYTES:
        found = f"names and state take {len(text)} bytes, more than the {MAX_HEADER_BYTES} of a header"
        raise CheckpointError(f"{found}; choose fewer layers")
    length = struct.pack("<Q", len(text))
    digest = hashlib.sha256(length + text).hexdigest().encode()
    return length + text[: DIGEST_PLACE.start] + digest + text[DIGEST_PLACE.stop :]


def _write_tensor(file: BinaryIO, array: Array) -> str:
    """Write the bytes of an array; return their checksum."""
    content = _bytes_of(array)
    digest = hashlib.sha256()
    for start in range(0, len(content), BLOCK_BYTES):
        block = content[start : start + BLOCK_BYTES]
        digest.update(block)
        file.write(block)
    return digest.hexdigest()


def _bytes_of(array: Array) -> memoryview:
    """The bytes of an array as they are in a file, without a copy where the array already has this layout."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


# ---- Reading ----


def load(path: Path, prefix: str = "") -> tuple[dict[str, Array], dict[str, Any]]:
    """Read the tensors whose names begin with `prefix`, which is taken off, and the state. Other tensors are not read.

    Raises: DamagedCheckpointError where a byte that was read is not what was written; CheckpointError where the file
    cannot be opened or no name begins with the prefix.
    """
    with Reader(path) as reader, ThreadPoolExecutor(os.cpu_count()) as pool:  # checksums take as long as reading
        names = reader.names(prefix)
        arrays = pool.map(reader.read, names)
        return {name.removeprefix(prefix): a for name, a in zip(names, arrays, strict=True)}, reader.state


def read_state(path: Path) -> dict[str, Any]:
    """Read the state alone."""
    with Reader(path) as reader:
        return reader.state


def read_origin(path: Path) -> dict[str, Any]:
    """Read the origin alone; empty if the file has none."""
    with Reader(path) as reader:
        return reader.origin


def verify(path: Path) -> None:
    """Check every byte of a checkpoint; memory: one tensor.

    Raises: as `load`.
    """
    with Reader(path) as reader:
        for name in reader.names(""):
            reader.read(name)


class Reader:
    """An open checkpoint whose header has been checked."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        with os_errors_explained(f"read the checkpoint {path}", CheckpointError):
            if not stat.S_ISREG(os.stat(path).st_mode):  # opening a pipe would wait for ever
                raise CheckpointError(f"{path} is not a file; give a checkpoint, such as step-00001000.safetensors")
            file = open(path, "rb")  # noqa: SIM115 (closed below)
        with file, self._damage_explained():
            header = self._read_header(file)
            # not mmap, the default: a disk that fails, or a file cut short, would kill the process with SIGBUS
            self._tensors = safe_open(path, "numpy", backend="pread")  # refuses what the file cannot hold
            metadata = header.pop(METADATA)
            self.kinds = {name: (claim["dtype"], claim["shape"]) for name, claim in header.items()}
            self._digests = _checked_digests(metadata, self.kinds)
            self.state = _json_of(metadata, "state", "null")
            self.origin = _json_of(metadata, "origin", "{}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tensors.__exit__(None, None, None)

    def names(self, prefix: str) -> list[str]:
        """The names that begin with a prefix, in the order of the file."""
        names = [name for name in self.kinds if name.startswith(prefix)]
        if prefix and not names:
            raise CheckpointError(f"{self.path} has no tensor whose name begins with {prefix!r}")
        return names

    def read(self, name: str) -> Array:
        """Read and check one tensor."""
        with self._damage_explained():
            array = self._tensors.get_tensor(name)
            self._check(name, array)
        return array

    def _check(self, name: str, array: Array) -> None:
        if hashlib.sha256(_bytes_of(array)).hexdigest() != self._digests[name]:
            raise ValueError(f"the bytes of {name} have changed since they were written")

    def _read_header(self, file: BinaryIO) -> dict[str, Any]:
        """Check the header's length and checksum, and parse it."""
        size = os.fstat(file.fileno()).st_size
        start = file.read(8)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not DIGEST_PLACE.stop <= length <= min(MAX_HEADER_BYTES, size - 8):
            raise ValueError(f"a header of {length} bytes is impossible in a file of {size} bytes")
        text = file.read(length)
        if not text.startswith(OPENING):
            raise ValueError("it does not begin as a checkpoint of this project does")
        blank = text[: DIGEST_PLACE.start] + BLANK.encode() + text[DIGEST_PLACE.stop :]
        if hashlib.sha256(start + blank).hexdigest().encode() != text[DIGEST_PLACE]:
            raise ValueError("its header has changed since it was written")
        return parse_json(text)

    @contextmanager
    def _damage_explained(self) -> Iterator[None]:
        try:
            with os_errors_explained(f"read the checkpoint {self.path}", DamagedCheckpointError):
                yield
        except (SafetensorError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise DamagedCheckpointError(f"the checkpoint {self.path} is damaged: {error}") from error


def _checked_digests(metadata: dict[str, Any], kinds: Mapping[str, tuple[str, list[int]]]) -> dict[str, str]:
    """The checksum of each tensor."""
    for name, (code, _) in kinds.items():
        if not _is_name(name):
            raise ValueError(f"{name[:80]!r} cannot name a tensor")
        if code not in DTYPES.values():
            raise ValueError(f"{name} is of type {code}, which a checkpoint cannot hold")
    text = metadata.get("tensors_sha256")
    if not isinstance(text, str) or len(text) != 64 * len(kinds):
        raise ValueError("tensors_sha256 does not hold one checksum for each tensor")
    return {name: text[64 * i : 64 * (i + 1)] for i, name in enumerate(kinds)}


def _json_of(metadata: dict[str, Any], name: str, default: str) -> dict[str, Any]:
    try:
        return parse_json_object(metadata.get(name, default))
    except ValueError as error:
        raise ValueError(f"its {name} cannot be read: {error}") from error
