"""Write checkpoints: saved while training, and deleted when there are newer ones.

The safetensors library does not write them: its temporary file has a name that nobody could clean up after a kill, is
private to its owner and is not flushed to the disk, and equal content would not give equal bytes.
"""

import hashlib
import json
import math
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from minitf.storage.checkpoints import (
    BLANK,
    DIGEST_PLACE,
    DTYPES,
    MAX_HEADER_BYTES,
    METADATA,
    Array,
    CheckpointError,
    Checkpoints,
    DamagedCheckpointError,
    bytes_of,
    is_name,
    read_origin,
    read_state,
)
from minitf.system.files import os_errors_explained
from minitf.system.writing import atomic_write, remove_leftovers

__all__ = ["CheckpointStore"]

BLOCK_BYTES = 2**20
"""Bytes that are written and checksummed together: they fit in a processor's cache."""


def save(
    path: Path, arrays: Mapping[str, Array], state: Mapping[str, Any], origin: Mapping[str, Any] | None = None
) -> None:
    """Write a checkpoint, durable and whole or not at all; memory: at most a copy of one tensor.

    state, origin: what JSON can represent exactly (no tuples, no keys but strings, no NaN).

    Raises: CheckpointError if the system refuses to write; TypeError or ValueError for arrays or a state that
    cannot be stored.
    """
    path = Path(path)
    # wide types first, so that each tensor is aligned to its own width
    ordered = dict(sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize))
    texts = {"state": _json_text(state), "origin": _json_text(origin or {})}
    header = _header(ordered, [BLANK] * len(ordered), texts)
    mebibytes = math.ceil(sum(array.nbytes for array in ordered.values()) / 2**20)
    with atomic_write(path, action=f"write the checkpoint {path} ({mebibytes} MiB)", kind=CheckpointError) as file:
        file.write(header)
        digests = [_write_tensor(file, array) for array in ordered.values()]
        file.seek(0)
        file.write(_header(ordered, digests, texts))


def _json_text(state: Mapping[str, Any]) -> str:
    text = json.dumps(state, allow_nan=False)
    if json.loads(text) != state:
        raise TypeError(
            "the state cannot be represented exactly in JSON: use lists instead of tuples and strings as keys"
        )
    return text


def _header(arrays: Mapping[str, Array], digests: Sequence[str], texts: Mapping[str, str]) -> bytes:
    """Length and header. Its size does not depend on the digests, so that it can be written again."""
    metadata = {"minitf_checkpoint": "1", "sha256": BLANK, "tensors_sha256": "".join(digests), **texts}
    header: dict[str, Any] = {METADATA: metadata}
    begin = 0
    for name, array in arrays.items():
        if not is_name(name):
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


def _write_tensor(file: IO[bytes], array: Array) -> str:
    """Write the bytes of an array; return their checksum."""
    content = bytes_of(array)
    digest = hashlib.sha256()
    for start in range(0, len(content), BLOCK_BYTES):
        block = content[start : start + BLOCK_BYTES]
        digest.update(block)
        file.write(block)
    return digest.hexdigest()


class CheckpointStore(Checkpoints):
    """The checkpoints of one run, with `keep` for the process that trains, which holds the run's lock.

    The folder is created, partial files of a killed process are removed, and `save` keeps the last `keep`.
    """

    def __init__(self, folder: Path, keep: int | None = None, origin: Mapping[str, Any] | None = None) -> None:
        """
        origin: what each checkpoint that is saved is to carry about the run, such as its identity, "run"
        """
        super().__init__(folder)
        self.keep = keep
        self.origin = dict(origin or {})
        if keep is None:
            return
        if keep < 1:
            raise ValueError(f"keep={keep} would delete every checkpoint")
        with os_errors_explained(f"prepare {folder}", CheckpointError):
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.folder)

    # ---- Saving ----

    def save(self, step: int, arrays: Mapping[str, Array], state: Mapping[str, Any]) -> Path:
        """Write the checkpoint of a step, and once it is durable delete all but the last `keep`.

        A state in which `on_schedule` is False is that of a run that was stopped between two scheduled checkpoints: it
        is deleted once there is a newer one, and does not count, so that a resumed run keeps the same checkpoints as a
        run that was never stopped.

        Raises: as `save` of a file; no older checkpoint has been deleted then.
        """
        if self.keep is None:
            raise ValueError(f"{self.folder} was opened for reading; give keep to save")
        if step < 0:
            raise ValueError(f"step={step} is negative")
        save(self.path(step), arrays, state, self.origin)
        self.delete_superseded(self.keep, step)
        return self.path(step)

    def delete_superseded(self, keep: int, saved: int) -> None:
        """Delete all but the last `keep`, and those off the schedule; the newest is durable by now.

        saved: the step of the newest; a network file system may not list it yet
        """
        with os_errors_explained(f"delete old checkpoints in {self.folder}", CheckpointError):
            *older, newest = sorted({*self.steps(), saved})
            off_schedule = [step for step in older if self._is_off_schedule(step)]
            scheduled = [step for step in older if step not in off_schedule]
            for step in [*off_schedule, *[*scheduled, newest][:-keep]]:
                self.path(step).unlink(missing_ok=True)

    def _is_off_schedule(self, step: int) -> bool:
        try:
            return read_state(self.path(step)).get("on_schedule") is False
        except DamagedCheckpointError:
            return False

    def take_identity(self, step: int) -> None:
        """Save under the identity of the checkpoint of a step from now on; one of an earlier version has none."""
        self.origin |= {name: value for name, value in read_origin(self.path(step)).items() if name == "run"}

    # ---- The weights of the best validation ----

    def save_best(self, step: int, arrays: Mapping[str, Array], state: Mapping[str, Any]) -> None:
        """Write the weights of the best validation so far.

        Older ones stay until `forget_best`: a run that is killed before its next checkpoint resumes from the one
        before, for which they are still the best.

        Raises: as `save` of a file.
        """
        save(self.best_path(step), arrays, state, self.origin)

    def forget_best(self, but: int) -> None:
        """Delete the weights of all best validations but that of one step: those of earlier steps, and those of later
        steps that a resumed run has yet to reach again."""
        with os_errors_explained(f"delete old checkpoints in {self.folder}", CheckpointError):
            for step in self._steps_in_names(self.BEST_PATTERN):
                if step != but:
                    self.best_path(step).unlink(missing_ok=True)
