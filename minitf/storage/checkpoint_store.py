"""Write checkpoints: saved while training, deleted when there are newer ones, and loaded when a run is resumed.

The safetensors library does not write them: its temporary file has a name that nobody could clean up after a kill, is
private to its owner and is not flushed to the disk, and equal content would not give equal bytes.
"""

import hashlib
import json
import math
import os
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from minitf.storage.checkpoints import (
    BLANK,
    DIGEST_PLACE,
    DTYPES,
    Array,
    CheckpointError,
    Checkpoints,
    DamagedCheckpointError,
    bytes_of,
    load,
    read_state,
)
from minitf.system.files import os_errors_explained
from minitf.system.writing import atomic_write, remove_leftovers, sync_folder

__all__ = ["CheckpointStore", "load_latest"]

BLOCK_BYTES = 2**20
"""Bytes that are written and checksummed together: they fit in a processor's cache."""


def save(path: Path, arrays: Mapping[str, Array], state: Mapping[str, Any]) -> None:
    """Write a checkpoint, durable and whole or not at all; memory: at most a copy of one tensor.

    state: what JSON can represent exactly (no tuples, no keys but strings, no NaN).

    Raises: CheckpointError if the system refuses to write; TypeError or ValueError for arrays or a state that
    cannot be stored.
    """
    text = json.dumps(state, allow_nan=False)
    if json.loads(text) != state:
        raise TypeError("JSON cannot represent the state exactly: use lists instead of tuples and strings as keys")
    # wide types first, so that each tensor is aligned to its own width
    ordered = dict(sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize))
    header = _header(ordered, [BLANK] * len(ordered), text)
    mebibytes = math.ceil(sum(array.nbytes for array in ordered.values()) / 2**20)
    with atomic_write(path, action=f"write the checkpoint {path} ({mebibytes} MiB)", kind=CheckpointError) as file:
        file.write(header)
        digests = [_write_tensor(file, array) for array in ordered.values()]
        file.seek(0)
        file.write(_header(ordered, digests, text))


def _header(arrays: Mapping[str, Array], digests: Sequence[str], state: str) -> bytes:
    """Length and header. Its size does not depend on the digests, so that it can be written again."""
    metadata = {"minitf_checkpoint": "1", "sha256": BLANK, "tensors_sha256": "".join(digests), "state": state}
    header: dict[str, Any] = {"__metadata__": metadata}
    begin = 0
    for name, array in arrays.items():
        code = DTYPES.get(array.dtype.newbyteorder("="))
        if code is None:
            known = ", ".join(map(str, DTYPES))
            raise TypeError(f"{name} is of type {array.dtype}, which a checkpoint cannot hold; use one of {known}")
        header[name] = {"dtype": code, "shape": array.shape, "data_offsets": [begin, begin + array.nbytes]}
        begin += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)  # the format requires aligned data
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

    def __init__(self, folder: Path, keep: int | None = None) -> None:
        super().__init__(folder)
        self.keep = keep
        if keep is None:
            return
        if keep < 1:
            raise ValueError(f"keep={keep} would delete every checkpoint")
        with os_errors_explained(f"prepare {folder}", CheckpointError):
            self.folder.mkdir(parents=True, exist_ok=True)
            remove_leftovers(self.folder)

    def save(self, step: int, arrays: Mapping[str, Array], state: Mapping[str, Any]) -> Path:
        """Write the checkpoint of a step, and once it is durable delete all but the last `keep`.

        A state in which `on_schedule` is False is that of a run that was stopped between two scheduled checkpoints: it
        is deleted once there is a newer one, and does not count, so that a resumed run keeps the same checkpoints as a
        run that was never stopped.

        Raises: as `save` of a file; no older checkpoint has been deleted then.
        """
        if self.keep is None:
            raise ValueError(f"{self.folder} was opened for reading; give keep to save")
        save(self.path(step), arrays, state)
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

    # ---- The weights of the best validation ----

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
        with os_errors_explained(f"delete old checkpoints in {self.folder}", CheckpointError):
            for step in self.steps("best"):
                if step != but:
                    self.best_path(step).unlink(missing_ok=True)


def load_latest(store: CheckpointStore, warn: Callable[[str], None]) -> tuple[dict[str, Array], dict[str, Any]] | None:
    """Load the newest undamaged checkpoint; return None where there are no checkpoints.

    `warn` is called with a sentence for each newer one that is damaged, which with `store.keep` is renamed to
    `….damaged`: it must neither count as one of those to keep nor be averaged.

    Raises: CheckpointError if all checkpoints are damaged: starting from scratch would hide the loss
    """
    steps = store.steps()
    for step in reversed(steps):
        try:
            found = load(store.path(step))
        except DamagedCheckpointError as error:
            warn(str(error))
            continue
        if store.keep is not None:
            with os_errors_explained(f"rename checkpoints in {store.folder}", CheckpointError):
                for path in [store.path(each) for each in steps if each > step]:
                    os.replace(path, path.with_name(path.name + ".damaged"))
                sync_folder(store.folder)
            store.delete_superseded(store.keep, step)  # the process that saved it may have been killed before
        return found
    if steps:
        raise CheckpointError(f"none of the {len(steps)} checkpoints in {store.folder} is intact; start a new run")
    return None
