"""Checkpoint files: tensors and a state in the safetensors format, with checksums of every byte.

A file is a length (8 bytes, little-endian), a header (JSON, that many bytes) and the bytes of the tensors, end to end:

    {"__metadata__": {"minitf_checkpoint": "1", "sha256": …, "tensors_sha256": …, "state": …, "origin": …},
     "model.encoder.layers.0.self_attention_residual.norm.weight":
         {"dtype": "F32", "shape": [512], "data_offsets": [0, 2048]}, …}

`sha256` covers length and header (with zeros in its own place), `tensors_sha256` holds a checksum of each tensor, in
order: a flipped bit anywhere is found, and reading only `model.*` checks all it reads without reading the rest.
`origin` says which run and configuration the tensors are of; it may be missing.

The safetensors library reads the files and validates their headers, so that a file may come from anywhere.
"""

import errno
import hashlib
import os
import re
import stat
import struct
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from minitf.errors import UserError
from minitf.system.files import explained, os_errors_explained, parse_json, parse_json_object

__all__ = ["Checkpoints", "with_prefix"]

Array = NDArray[Any]

DTYPES = {
    np.dtype(f"{kind}{size}"): f"{kind.upper()}{8 * size}"  # F32, I64, U8, …
    for kind, sizes in (("f", (2, 4, 8)), ("i", (1, 2, 4, 8)), ("u", (1, 2, 4, 8)))
    for size in sizes
}

MAX_HEADER_BYTES = 4 * 2**20
"""A big model with its optimizer needs 0.2 MB. JSON grows to some 30 times its length when it is parsed."""

OUT_OF_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the process or the system: a file that cannot be read because of one need not be damaged."""

NAME = re.compile(r"\w+([.-]\w+)*", re.ASCII)  # no slashes, no empty parts, no leading dots
MAX_NAME = 500
METADATA = "__metadata__"
FACTORS = ".factors"
BLANK = "0" * 64
OPENING = b'{"__metadata__":{"minitf_checkpoint":"1","sha256":"'
DIGEST_PLACE = slice(len(OPENING), len(OPENING) + len(BLANK))


class CheckpointError(UserError):
    """A checkpoint cannot be written or read."""


class DamagedCheckpointError(CheckpointError):
    """The bytes of a file are not those of a checkpoint, or not those that were written."""


def is_name(name: str) -> bool:
    """Return whether a tensor may have this name: not that of a path, nor the header's own entry."""
    return len(name) <= MAX_NAME and NAME.fullmatch(name) is not None and name != METADATA


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
            self._tensors = _opened(self.path)  # refuses what the file cannot hold
            metadata = header.pop(METADATA)
            self.kinds = {name: (claim["dtype"], claim["shape"]) for name, claim in header.items()}
            self._digests = _checked_digests(metadata, self.kinds)
            self.state = _json_of(metadata, "state", "null")
            self.origin = _json_of(metadata, "origin", "{}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Without a reference, the library closes the file. Its own __exit__ raises RuntimeError while another thread
        # reads: an interrupt between the start of a thread and its registration leaves one that no pool waits for.
        del self._tensors

    def names(self, prefix: str) -> list[str]:
        """Return the names that begin with a prefix, in the order of the file."""
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
        if hashlib.sha256(bytes_of(array)).hexdigest() != self._digests[name]:
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
            raise ValueError("it does not begin like a checkpoint of this project")
        blank = text[: DIGEST_PLACE.start] + BLANK.encode() + text[DIGEST_PLACE.stop :]
        if hashlib.sha256(start + blank).hexdigest().encode() != text[DIGEST_PLACE]:
            raise ValueError("its header has changed since it was written")
        return parse_json(text)

    @contextmanager
    def _damage_explained(self) -> Iterator[None]:
        try:
            yield
        except (OSError, SafetensorError, ValueError) as error:
            if isinstance(error, UserError):
                raise
            of_system = _error_of_system(error)
            if of_system is None:
                raise DamagedCheckpointError(f"the checkpoint {self.path} is damaged: {error}") from error
            kind = CheckpointError if of_system.errno in OUT_OF_RESOURCES else DamagedCheckpointError
            raise kind(explained(f"read the checkpoint {self.path}", of_system)) from error


def _error_of_system(error: Exception) -> OSError | None:
    """Return the error of the system that an exception is, or of which a message of safetensors has the number."""
    if isinstance(error, OSError):
        return error
    told = re.search(r"\(os error (\d+)\)", str(error))
    return OSError(int(told[1]), os.strerror(int(told[1]))) if told else None


def _opened(path: Path) -> Any:
    """Open a file with the safetensors library, which reports every error of the system as a missing file.

    Raises: OSError, the error of the system
    """
    try:
        return safe_open(path, "numpy", backend="pread")
    except FileNotFoundError:
        os.close(os.open(path, os.O_RDONLY))  # raises the error of the system
        return safe_open(path, "numpy", backend="pread")  # that error has passed


def _checked_digests(metadata: dict[str, Any], kinds: Mapping[str, tuple[str, list[int]]]) -> dict[str, str]:
    """Return the checksum of each tensor."""
    for name, (code, _) in kinds.items():
        if not is_name(name):
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


# ---- Names ----


def with_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """{"weight": w} -> {"model.weight": w}"""
    return {prefix + name: array for name, array in arrays.items()}


# ---- Origin ----


def refuse_mixture(origins: Mapping[Path, Mapping[str, Any]]) -> None:
    """Refuse checkpoints of several runs, by the identity in their origins; those of earlier versions have none.

    Raises: CheckpointError that names the checkpoints of each run.
    """
    runs: dict[str, list[str]] = {}
    for path, origin in origins.items():
        if origin.get("run"):
            runs.setdefault(str(origin["run"]), []).append(path.name)
    if len(runs) > 1:
        listed = "; ".join(f"of run {identity[:8]}: {', '.join(names)}" for identity, names in runs.items())
        raise CheckpointError(
            f"{next(iter(origins)).parent} holds checkpoints of {len(runs)} runs; move those of all runs but one "
            f"elsewhere ({listed})"
        )


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
        readers = [stack.enter_context(Reader(path)) for path in paths]
        refuse_mixture({reader.path: reader.origin for reader in readers})
        for reader in readers[1:]:
            _refuse_difference(readers[0], reader, prefix)
        names = [name for name in readers[0].names(prefix) if not name.endswith(FACTORS)]
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # checksums take longer than reading
            means = pool.map(partial(_mean, readers), names)
            return {name.removeprefix(prefix): mean for name, mean in zip(names, means, strict=True)}


def _refuse_difference(first: Reader, other: Reader, prefix: str) -> None:
    for name in sorted({*first.names(prefix), *other.names(prefix)}):
        kinds = first.kinds.get(name), other.kinds.get(name)
        if None in kinds:
            holder, lacker = (first, other) if kinds[0] else (other, first)
            raise CheckpointError(
                f"{lacker.path} has no tensor {name}, which {holder.path} has; average checkpoints of one run"
            )
        if kinds[0] != kinds[1]:
            (one, shape), (two, other_shape) = first.kinds[name], other.kinds[name]
            raise CheckpointError(
                f"{name} is {one} {shape} in {first.path}, but {two} {other_shape} in {other.path}; "
                "average checkpoints of one run"
            )


def _mean(readers: Sequence[Reader], name: str) -> Array:
    first = readers[0].read(name)
    if first.dtype == np.int8 and len(readers) == 1 and name + FACTORS in readers[0].kinds:
        factors = readers[0].read(name + FACTORS)
        if first.ndim != 2 or factors.shape != first.shape[:1] or factors.dtype != np.float32:
            raise CheckpointError(f"{name + FACTORS} in {readers[0].path} has no float32 for each row of {name}")
        return first * factors[:, None]
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

    PATTERN = re.compile(r"step-(\d{8,})\.safetensors")
    BEST_PATTERN = re.compile(r"best-(\d{8,})\.safetensors")

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)

    def path(self, step: int) -> Path:
        """Return the path of the checkpoint of a step."""
        return self.folder / f"step-{step:08d}.safetensors"

    def steps(self) -> list[int]:
        """Return the steps that have a checkpoint, oldest first; the files are not opened."""
        return self._steps_in_names(self.PATTERN)

    def last(self, count: int) -> list[Path]:
        """Return the newest `count` checkpoints, oldest first, or all if there are fewer."""
        return [self.path(step) for step in self.steps()[-count:]]

    def _steps_in_names(self, pattern: re.Pattern[str]) -> list[int]:
        with os_errors_explained(f"read {self.folder}", CheckpointError):
            names = os.listdir(self.folder) if self.folder.exists() else []  # nothing saved yet
        return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)

    def check_one_run(self) -> None:
        """Raises: CheckpointError if there are checkpoints of several runs; damaged ones do not count."""
        origins = {}
        best = self._steps_in_names(self.BEST_PATTERN)
        for path in [*map(self.path, self.steps()), *map(self.best_path, best)]:
            with suppress(CheckpointError):  # damaged, or just deleted by the process that trains
                origins[path] = read_origin(path)
        refuse_mixture(origins)

    def best_path(self, step: int) -> Path:
        """Return the path of the weights of the best validation, if it is that of this step."""
        return self.folder / f"best-{step:08d}.safetensors"

    def best_paths(self) -> list[Path]:
        """Return the weights of best validations, oldest first: a checkpoint may refer to another than the newest."""
        return [self.best_path(step) for step in self._steps_in_names(self.BEST_PATTERN)]

    def best_step(self) -> int | None:
        """Return the step of the best validation whose weights were saved; None if there are none."""
        return max(self._steps_in_names(self.BEST_PATTERN), default=None)

    def translating(self, weights: str, count: int) -> tuple[list[Path], str]:
        """Return the checkpoints whose mean translates, and the prefix of its weights: those of `weights` of a run.

        count: last checkpoints that an average is of

        Raises: CheckpointError if there are none
        """
        if weights == "best":
            best = self.best_step()
            if best is None:
                raise CheckpointError(
                    f"{self.folder} has no weights of a best validation; train with --valid until the first validation"
                )
            return [self.best_path(best)], "model."
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
