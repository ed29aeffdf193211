"""Checkpoints: files of tensors and a state in the safetensors format, with checksums of every byte, and their folder.

A file is a length (8 bytes, little-endian), a header (JSON, that many bytes) and the bytes of the tensors, end to end:

    {"__metadata__": {"minitf_checkpoint": "1", "sha256": …, "tensors_sha256": …, "state": …},
     "model.encoder.layers.0.self_attention_residual.norm.weight":
         {"dtype": "F32", "shape": [512], "data_offsets": [0, 2048]}, …}

`sha256` covers length and header (with zeros in its own place), `tensors_sha256` holds a checksum of each tensor, in
order: a flipped bit anywhere is found, and reading only `model.*` checks all it reads without reading the rest.

The safetensors library reads the files and validates their headers, so that a file may come from anywhere. It does not
write them: its temporary file has a name that nobody could clean up after a kill, is private to its owner and is not
flushed to the disk, and equal content would not give equal bytes.
"""

import hashlib
import json
import math
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from minitf.errors import UserError
from minitf.system.files import atomic_write, open_regular, os_errors_explained, parse_json_object

__all__ = ["FACTORS", "Checkpoints", "save", "with_prefix", "without_prefix"]

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


class DamagedCheckpointError(UserError):
    """The bytes of a file are not those of a checkpoint, or not those that were written."""


def bytes_of(array: Array) -> memoryview:
    """Return the bytes of an array as they are in a file, without a copy where the array already has this layout."""
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


# ---- Files ----


def save(path: Path, arrays: Mapping[str, Array], state: Mapping[str, Any]) -> None:
    """Write a checkpoint, durable and whole or not at all; memory: at most a copy of one tensor.

    state: what JSON can represent exactly (no tuples, no keys but strings, no NaN).

    Raises: UserError if the system refuses to write; TypeError or ValueError for arrays or a state that
    cannot be stored.
    """
    text = json.dumps(state, allow_nan=False)
    if json.loads(text) != state:
        raise TypeError("JSON cannot represent the state exactly: use lists instead of tuples and strings as keys")
    # wide types first, so that each tensor is aligned to its own width
    ordered = dict(sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize))
    header = _header(ordered, text)
    mebibytes = math.ceil(sum(array.nbytes for array in ordered.values()) / 2**20)
    with atomic_write(path, action=f"write the checkpoint {path} ({mebibytes} MiB)") as file:
        file.write(header)
        for array in ordered.values():
            file.write(bytes_of(array))


def _header(arrays: Mapping[str, Array], state: str) -> bytes:
    """Return length and header."""
    header: dict[str, Any] = {"__metadata__": {}}
    begin, digests = 0, ""
    for name, array in arrays.items():
        code = DTYPES.get(array.dtype.newbyteorder("="))
        if code is None:
            known = ", ".join(map(str, DTYPES))
            raise TypeError(f"{name} is of type {array.dtype}, which a checkpoint cannot hold; use one of {known}")
        header[name] = {"dtype": code, "shape": array.shape, "data_offsets": [begin, begin + array.nbytes]}
        begin += array.nbytes
        digests += hashlib.sha256(bytes_of(array)).hexdigest()
    header["__metadata__"] = {"minitf_checkpoint": "1", "sha256": BLANK, "tensors_sha256": digests, "state": state}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format requires aligned data
    length = struct.pack("<Q", len(text))
    digest = hashlib.sha256(length + text).hexdigest().encode()
    return length + text[: DIGEST_PLACE.start] + digest + text[DIGEST_PLACE.stop :]


def load(path: Path, prefix: str = "") -> tuple[dict[str, Array], dict[str, Any]]:
    """Read the tensors whose names begin with `prefix`, which is taken off, and the state. Other tensors are not read.

    Raises: DamagedCheckpointError if a byte that was read is not what was written; UserError if the file
    cannot be opened or no name begins with the prefix.
    """
    reader = Reader(path)
    names = reader.names(prefix)
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # checksums take as long as reading
        arrays = pool.map(reader.read, names)
        return {name.removeprefix(prefix): a for name, a in zip(names, arrays, strict=True)}, reader.state


class Reader:
    """An open checkpoint whose header has been checked; the library closes the file once nothing refers to it."""

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

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin with a prefix, in the order of the file."""
        names = [name for name in self._digests if name.startswith(prefix)]
        if prefix and not names:
            raise UserError(f"{self.path} has no tensor whose name begins with {prefix!r}")
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
            if hashlib.sha256(bytes_of(array)).hexdigest() != self._digests[name]:
                raise ValueError(f"the bytes of {name} have changed since they were written")
        return array

    @contextmanager
    def _errors_explained(self) -> Iterator[None]:
        """Context manager that tells errors of the system, such as a wrong permission, from damage to the file."""
        try:
            with os_errors_explained(f"read the checkpoint {self.path}"):
                yield
        except (SafetensorError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            advice = "without it, earlier checkpoints are used"
            raise DamagedCheckpointError(f"the checkpoint {self.path} is damaged: {error}; {advice}") from error


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
    Raises: UserError if names, shapes or types differ, and as `load`.
    """
    first, *others = readers = list(map(Reader, paths))
    for other in others:
        for name in sorted({*first.names(prefix), *other.names(prefix)}):
            if first.kind(name) != other.kind(name):
                raise UserError(
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
        raise UserError(f"{name} in {readers[0].path} is of type {first.dtype}, which has no mean")
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
    `best-00000900.safetensors`.

    keep: number of last ones that `save` keeps, for the process that trains, which holds the run's lock; the folder is
        created. None: for reading
    """

    def __init__(self, folder: Path, keep: int | None = None) -> None:
        self.folder, self.keep = Path(folder), keep
        if keep is not None:
            with os_errors_explained(f"prepare {folder}"):
                self.folder.mkdir(parents=True, exist_ok=True)

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
        with os_errors_explained(f"read {self.folder}"):
            names = os.listdir(self.folder) if self.folder.exists() else []  # nothing saved yet
        return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)

    def last(self, count: int) -> list[Path]:
        """Return the newest `count` checkpoints, oldest first, or all if there are fewer."""
        return [self.path(step) for step in self.steps()[-count:]]

    def translating(self, weights: str, count: int) -> tuple[list[Path], str]:
        """Return the checkpoints whose mean translates, and the prefix of its weights: those of `weights` of a run.

        count: last checkpoints that an average is of

        Raises: UserError if there are none
        """
        if weights == "best":
            best = self.steps("best")
            if not best:
                raise UserError(
                    f"{self.folder} has no weights of a best validation; train with --valid until the first validation"
                )
            return [self.best_path(best[-1])], "model."
        paths = self.last(count)
        if not paths:
            raise UserError(f"{self.folder.parent} has no checkpoint yet; train until the first checkpoint is saved")
        return (paths[-1:], "moving_average.") if weights == "moving-average" else (paths, "model.")

    def existing(self, step: int) -> Path:
        """Return the path of the checkpoint of a step.  Raises: UserError if there is none"""
        if not self.path(step).exists():
            steps = ", ".join(map(str, self.steps())) or "none"
            raise UserError(f"{self.folder} has no checkpoint of step {step}; there are: {steps}")
        return self.path(step)

    # ---- Writing ----

    def save(self, step: int, arrays: Mapping[str, Array], state: Mapping[str, Any]) -> Path:
        """Write the checkpoint of a step, and once it is durable delete all but the last `keep`.

        A state in which `on_schedule` is False is that of a run that was stopped between two scheduled checkpoints: it
        is deleted once there is a newer one, and does not count, so that a resumed run keeps the same checkpoints as a
        run that was never stopped.

        Raises: as `save` of a file; no older checkpoint has been deleted then.
        """
        save(self.path(step), arrays, state)
        self.delete_superseded(step)
        return self.path(step)

    def delete_superseded(self, saved: int) -> None:
        """Delete all but the last `keep`, and those off the schedule; the newest is durable by now.

        saved: the step of the newest; a network file system may not list it yet
        """
        assert self.keep is not None, "opened for reading"
        with os_errors_explained(f"delete old checkpoints in {self.folder}"):
            *older, newest = sorted({*self.steps(), saved})
            off_schedule = [step for step in older if self._is_off_schedule(step)]
            scheduled = [step for step in older if step not in off_schedule]
            for step in [*off_schedule, *[*scheduled, newest][: -self.keep]]:
                self.path(step).unlink(missing_ok=True)

    def _is_off_schedule(self, step: int) -> bool:
        try:
            return Reader(self.path(step)).state.get("on_schedule") is False
        except DamagedCheckpointError:
            return False

    def save_best(self, step: int, arrays: Mapping[str, Array], state: Mapping[str, Any]) -> None:
        """Write the weights of the best validation so far.

        Older ones stay until `forget_best`: a run that is killed before its next checkpoint resumes from the one
        before, for which they are still the best.

        Raises: as `save` of a file.
        """
        save(self.best_path(step), arrays, state)

    def forget_best(self, but: int) -> None:
        """Delete the weights of all best validations but that of one step: those of earlier steps, and those of later
        steps that a resumed run has yet to reach again."""
        with os_errors_explained(f"delete old checkpoints in {self.folder}"):
            for step in self.steps("best"):
                if step != but:
                    self.best_path(step).unlink(missing_ok=True)
