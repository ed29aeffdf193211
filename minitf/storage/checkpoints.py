"""Checkpoint files, read: tensors and a state in the safetensors format, with checksums of every byte.

A file is a length (8 bytes, little-endian), a header (JSON, that many bytes) and the bytes of the tensors, end to end:

    {"__metadata__": {"minitf_checkpoint": "1", "sha256": …, "tensors_sha256": …, "state": …},
     "model.encoder.layers.0.self_attention_residual.norm.weight":
         {"dtype": "F32", "shape": [512], "data_offsets": [0, 2048]}, …}

`sha256` covers length and header (with zeros in its own place), `tensors_sha256` holds a checksum of each tensor, in
order: a flipped bit anywhere is found, and reading only `model.*` checks all it reads without reading the rest.
The safetensors library reads the files and validates their headers, so that a file may come from anywhere.
"""

import hashlib
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from minitf.errors import UserError
from minitf.system.files import open_regular, os_errors_explained, parse_json_object

__all__ = ["Checkpoints", "with_prefix", "without_prefix"]

Array = NDArray[Any]

DTYPES = {
    np.dtype(f"{kind}{size}"): f"{kind.upper()}{8 * size}"  # F32, I64, U8, …
    for kind, sizes in (("f", (2, 4, 8)), ("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)))
    for size in sizes
}
FACTORS = ".factors"
BLANK = "0" * 64
OPENING = b'{"__metadata__":{"minitf_checkpoint":"1","sha256":"'
DIGEST_PLACE = slice(len(OPENING), len(OPENING) + len(BLANK))


class CheckpointError(UserError):
    """A checkpoint cannot be written or read."""


class DamagedCheckpointError(CheckpointError):
    """The bytes of a file are not those of a checkpoint, or not those that were written."""


def bytes_of(array: Array) -> memoryview:
    """Return the bytes of an array as they are in a file, without a copy where the array already has this layout."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


# ---- Files ----


def load(path: Path, prefix: str = "") -> tuple[dict[str, Array], dict[str, Any]]:
    """Read the tensors whose names begin with `prefix`, which is taken off, and the state. Other tensors are not read.

    Raises: DamagedCheckpointError if a byte that was read is not what was written; CheckpointError if the file
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


class Reader:
    """An open checkpoint whose header has been checked."""

    def __init__(self, path: Path) -> None:
        self.path = Path(path)
        with self._errors_explained():
            with open_regular(self.path) as file:
                size, start = os.fstat(file.fileno()).st_size, file.read(8)
                length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
                if not DIGEST_PLACE.stop <= length <= size - 8:
                    raise ValueError(f"a header of {length} bytes is impossible in a file of {size} bytes")
                text = file.read(length)
            blank = text[: DIGEST_PLACE.start] + BLANK.encode() + text[DIGEST_PLACE.stop :]
            if not text.startswith(OPENING):
                raise ValueError("it does not begin like a checkpoint of this project")
            if hashlib.sha256(start + blank).hexdigest().encode() != text[DIGEST_PLACE]:
                raise ValueError("its header has changed since it was written")
            # not mmap, the default: a disk that fails, or a file cut short, would kill the process with SIGBUS
            self._tensors = safe_open(self.path, "numpy", backend="pread")  # refuses what the file cannot hold
            metadata, names = self._tensors.metadata(), self._tensors.offset_keys()
            digests = metadata.get("tensors_sha256", "")
            if len(digests) != 64 * len(names):
                raise ValueError("tensors_sha256 does not hold one checksum for each tensor")
            self._digests = {name: digests[64 * i : 64 * (i + 1)] for i, name in enumerate(names)}
            self.state = parse_json_object(metadata.get("state", "null"))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Without a reference, the library closes the file. Its own __exit__ raises RuntimeError while another thread
        # reads: an interrupt between the start of a thread and its registration leaves one that no pool waits for.
        del self._tensors

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin with a prefix, in the order of the file."""
        names = [name for name in self._digests if name.startswith(prefix)]
        if prefix and not names:
            raise CheckpointError(f"{self.path} has no tensor whose name begins with {prefix!r}")
        return names

    def kind(self, name: str) -> str:
        """Return type and shape of a tensor in words: `F32 [512, 2048]`; "missing" if there is none of that name."""
        if name not in self._digests:
            return "missing"
        part = self._tensors.get_slice(name)
        return f"{part.get_dtype()} {part.get_shape()}"

    def read(self, name: str) -> Array:
        """Read and check one tensor."""
        with self._errors_explained():
            code = self._tensors.get_slice(name).get_dtype()
            if code not in DTYPES.values():
                raise ValueError(f"{name} is of type {code}, which a checkpoint cannot hold")
            array = self._tensors.get_tensor(name)
            self._check(name, array)
        return array

    def _check(self, name: str, array: Array) -> None:
        if hashlib.sha256(bytes_of(array)).hexdigest() != self._digests[name]:
            raise ValueError(f"the bytes of {name} have changed since they were written")

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        """Context manager that tells errors of the system, such as a wrong permission, from damage to the file."""
        try:
            with os_errors_explained(f"read the checkpoint {self.path}", CheckpointError):
                yield
        except (SafetensorError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            raise DamagedCheckpointError(f"the checkpoint {self.path} is damaged: {error}") from error


# ---- Names ----


def with_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """{"weight": w} -> {"model.weight": w}"""
    return {prefix + name: array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """{"model.weight": w, "optimizer.m.weight": m} -> {"weight": w}"""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


# ---- Averaging ----


def average(paths: Sequence[Path], prefix: str = "model.") -> dict[str, Array]:
    """Average the tensors of several checkpoints: the arithmetic mean, summed in float64, in their own type.

    Names are those after the prefix. Memory: the result, and a tensor in float64 for each thread. Rows of 8 bits, which
    `minitf pack --precision int8` writes, are multiplied by their factors, in the tensor of the same name and FACTORS.

    Source: section 6.1.
    Raises: CheckpointError if names, shapes or types differ, and as `load`.
    """
    if not paths:
        raise CheckpointError("there is no checkpoint to average; train until the first checkpoint is saved")
    with ExitStack() as stack:
        first, *others = readers = [stack.enter_context(Reader(path)) for path in paths]
        for other in others:
            for name in sorted({*first.names(prefix), *other.names(prefix)}):
                if first.kind(name) != other.kind(name):
                    raise CheckpointError(
                        f"{name} is {first.kind(name)} in {first.path}, but {other.kind(name)} in {other.path}; "
                        "average checkpoints of one run"
                    )
        names = [name for name in first.names(prefix) if not name.endswith(FACTORS)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # checksums take longer than reading
            means = pool.map(partial(_mean, readers), names)
            return {name.removeprefix(prefix): mean for name, mean in zip(names, means, strict=True)}


def _mean(readers: Sequence[Reader], name: str) -> Array:
    first = readers[0].read(name)
    one_a_row = f"F32 [{first.shape[0]}]" if first.ndim == 2 and len(readers) == 1 else ""
    if first.dtype == np.int8 and readers[0].kind(name + FACTORS) == one_a_row:
        return first * readers[0].read(name + FACTORS)[:, None]
    if first.dtype.kind != "f":
        raise CheckpointError(f"{name} in {readers[0].path} is of type {first.dtype}, which has no mean")
    if len(readers) == 1:
        return first
    total = first.astype(np.float64)
    for reader in readers[1:]:
        total += reader.read(name)
    total /= len(readers)
    return total.astype(first.dtype)


# ---- The checkpoints of a run ----


class Checkpoints:
    """The checkpoints of one run, `step-00001000.safetensors` and so on, and the weights of its best validation,
    `best-00000900.safetensors`; for reading only, `CheckpointStore` writes them.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def path(self, step: int) -> Path:
        """Return the path of the checkpoint of a step."""
        return self.folder / f"step-{step:08d}.safetensors"

    def best_path(self, step: int) -> Path:
        """Return the path of the weights of the best validation, if it is that of this step."""
        return self.folder / f"best-{step:08d}.safetensors"

    def steps(self, kind: str = "step") -> list[int]:
        """Return the steps that have a checkpoint, oldest first; the files are not opened.

        kind: "best" for the steps of best validations; a checkpoint may refer to another than the newest
        """
        pattern = re.compile(kind + r"-(\d{8,})\.safetensors")
        with os_errors_explained(f"read {self.folder}", CheckpointError):
            names = os.listdir(self.folder) if self.folder.exists() else []  # nothing saved yet
        return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)

    def last(self, count: int) -> list[Path]:
        """Return the newest `count` checkpoints, oldest first, or all if there are fewer."""
        return [self.path(step) for step in self.steps()[-count:]]

    def translating(self, weights: str, count: int) -> tuple[list[Path], str]:
        """Return the checkpoints whose mean translates, and the prefix of its weights: those of `weights` of a run.

        count: last checkpoints that an average is of

        Raises: CheckpointError if there are none
        """
        if weights == "best":
            best = self.steps("best")
            if not best:
                raise CheckpointError(
                    f"{self.folder} has no weights of a best validation; train with --valid until the first validation"
                )
            return [self.best_path(best[-1])], "model."
        paths = self.last(count)
        if not paths:
            raise CheckpointError(
                f"{self.folder.parent} has no checkpoint yet; train until the first checkpoint is saved"
            )
        return (paths[-1:], "moving_average.") if weights == "moving-average" else (paths, "model.")

    def existing(self, step: int) -> Path:
        """Return the path of the checkpoint of a step.  Raises: CheckpointError if there is none"""
        if not self.path(step).exists():
            steps = ", ".join(map(str, self.steps())) or "none"
            raise CheckpointError(f"{self.folder} has no checkpoint of step {step}; there are: {steps}")
        return self.path(step)
