"""Checkpoints of a run: saved while training, restored after a crash, and averaged to translate.

Weights, optimizer and all other arrays of a run are in one file; prefixes of their names (`model.`, `optimizer.m.`, …)
tell them apart. The format of a file is described in `minitf.storage.checkpoint_file`.
"""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from minitf.storage.checkpoint_file import (
    Array,
    CheckpointError,
    DamagedCheckpointError,
    Reader,
    load,
    read_origin,
    read_state,
    save,
    verify,
)
from minitf.system.files import delete, make_folder, os_errors_explained, remove_leftovers, rename

__all__ = [
    "CheckpointError",
    "CheckpointStore",
    "DamagedCheckpointError",
    "average",
    "load",
    "read_origin",
    "read_state",
    "refuse_mixture",
    "save",
    "verify",
    "with_prefix",
    "without_prefix",
]

# ---- Names ----


def with_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """{"weight": w} -> {"model.weight": w}"""
    return {prefix + name: array for name, array in arrays.items()}


def without_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """{"model.weight": w, "optimizer.m.weight": m} -> {"weight": w}"""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


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

    Names are those after the prefix. Memory: the result, and a tensor in float64 for each thread.

    Source: section 6.1.
    Raises: CheckpointError where names, shapes or types differ, and as `load`.
    """
    if not paths:
        raise CheckpointError("there is no checkpoint to average; train until the first one is saved")
    with ExitStack() as stack:
        readers = [stack.enter_context(Reader(path)) for path in paths]
        refuse_mixture({reader.path: reader.origin for reader in readers})
        for reader in readers[1:]:
            _refuse_difference(readers[0], reader, prefix)
        names = readers[0].names(prefix)
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


class CheckpointStore:
    """The checkpoints of one run, `step-00001000.safetensors` and so on, and the weights of its best validation,
    `best-00000900.safetensors`.

    With `keep`, for the process that trains (it holds the run's lock): the folder is created, partial files of a killed
    process are removed, and `save` keeps the last `keep`. Without, for reading only.
    """

    PATTERN = re.compile(r"step-(\d{8,})\.safetensors")
    BEST_PATTERN = re.compile(r"best-(\d{8,})\.safetensors")

    def __init__(self, folder: Path, keep: int | None = None, origin: Mapping[str, Any] | None = None) -> None:
        """
        origin: what each checkpoint that is saved is to carry about the run, such as its identity, "run"
        """
        self.folder = Path(folder)
        self.keep = keep
        self.origin = dict(origin or {})
        if keep is None:
            return
        if keep < 1:
            raise ValueError(f"keep={keep} would delete every checkpoint")
        with os_errors_explained(f"prepare {folder}", CheckpointError):
            make_folder(self.folder)
            remove_leftovers(self.folder, "(step|best)-")

    def path(self, step: int) -> Path:
        """The path of the checkpoint of a step."""
        return self.folder / f"step-{step:08d}.safetensors"

    def steps(self) -> list[int]:
        """The steps that have a checkpoint, oldest first; the files are not opened."""
        return self._steps_in_names(self.PATTERN)

    def last(self, count: int) -> list[Path]:
        """The newest `count` checkpoints, oldest first, or all if there are fewer."""
        return [self.path(step) for step in self.steps()[-count:]]

    def _steps_in_names(self, pattern: re.Pattern[str]) -> list[int]:
        with os_errors_explained(f"read {self.folder}", CheckpointError):
            names = os.listdir(self.folder) if self.folder.exists() else []  # nothing saved yet
        return sorted(int(match[1]) for match in map(pattern.fullmatch, names) if match)

    def check_one_run(self) -> None:
        """Raises: CheckpointError where there are checkpoints of several runs; damaged ones do not count."""
        origins = {}
        best = self._steps_in_names(self.BEST_PATTERN)
        for path in [*map(self.path, self.steps()), *map(self.best_path, best)]:
            with suppress(CheckpointError):  # damaged, or just deleted by the process that trains
                origins[path] = read_origin(path)
        refuse_mixture(origins)

    def newest_origin(self) -> tuple[Path | None, dict[str, Any]]:
        """The newest checkpoint whose header is undamaged, and its origin; (None, {}) where there is none."""
        for path in map(self.path, reversed(self.steps())):
            with suppress(CheckpointError):
                return path, read_origin(path)
        return None, {}

    def take_identity(self, step: int) -> None:
        """Save under the identity of the checkpoint of a step from now on; one of an earlier version has none."""
        self.origin |= {name: value for name, value in read_origin(self.path(step)).items() if name == "run"}

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
        self._delete_superseded(self.keep, step)
        return self.path(step)

    def _delete_superseded(self, keep: int, saved: int) -> None:
        """Delete all but the last `keep`, and those off the schedule; the newest is durable by now.

        saved: the step of the newest; a network file system may not list it yet
        """
        with os_errors_explained(f"delete old checkpoints in {self.folder}", CheckpointError):
            *older, newest = sorted({*self.steps(), saved})
            off_schedule = [step for step in older if self._is_off_schedule(step)]
            scheduled = [step for step in older if step not in off_schedule]
            for step in [*off_schedule, *[*scheduled, newest][:-keep]]:
                delete(self.path(step), missing_ok=True)  # as above, or a request that was sent twice

    def _is_off_schedule(self, step: int) -> bool:
        try:
            return read_state(self.path(step)).get("on_schedule") is False
        except DamagedCheckpointError:
            return False

    # ---- The weights of the best validation ----

    def best_path(self, step: int) -> Path:
        """The path of the weights of the best validation, if it is that of this step."""
        return self.folder / f"best-{step:08d}.safetensors"

    def best_paths(self) -> list[Path]:
        """The weights of best validations, oldest first: a checkpoint may refer to another than the newest."""
        return [self.best_path(step) for step in self._steps_in_names(self.BEST_PATTERN)]

    def best_step(self) -> int | None:
        """The step of the best validation whose weights were saved; None where there are none."""
        return max(self._steps_in_names(self.BEST_PATTERN), default=None)

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
                    delete(self.best_path(step))

    def check_best(self, step: int, warn: Callable[[str], None]) -> None:
        """Warn if the weights of the best validation are damaged, and rename them to `….damaged`.

        Only a validation that is better still brings such weights again.
        """
        path = self.best_path(step)
        if not path.exists():
            return
        try:
            verify(path)
        except DamagedCheckpointError as error:
            warn(f"{error}; there are weights of a best validation again after the next better one")
            self._set_aside([path])

    # ---- Loading ----

    def translating(self, weights: str, count: int) -> tuple[list[Path], str]:
        """The checkpoints whose mean translates, and the prefix of its weights: those of `weights` of a run.

        count: last checkpoints that an average is of

        Raises: CheckpointError where there are none
        """
        if weights == "best":
            best = self.best_step()
            if best is None:
                raise CheckpointError(
                    f"{self.folder} has no weights of a best validation; train with --valid until the first"
                )
            return [self.best_path(best)], "model."
        paths = self.last(count)
        if not paths:
            raise CheckpointError(f"{self.folder.parent} has no checkpoint yet; train until the first one is saved")
        return (paths[-1:], "moving_average.") if weights == "moving-average" else (paths, "model.")

    def load(self, step: int, prefix: str = "") -> tuple[dict[str, Array], dict[str, Any]]:
        """Load the checkpoint of a step.

        Raises: as `load` of a file; where there is none, the message lists the steps that there are.
        """
        return load(self.existing(step), prefix)

    def existing(self, step: int) -> Path:
        """The path of the checkpoint of a step.  Raises: CheckpointError where there is none"""
        if not self.path(step).exists():
            steps = ", ".join(map(str, self.steps())) or "none"
            raise CheckpointError(f"{self.folder} has no checkpoint of step {step}; there are: {steps}")
        return self.path(step)

    def latest(self, warn: Callable[[str], None]) -> tuple[dict[str, Array], dict[str, Any]] | None:
        """Load the newest undamaged checkpoint; return None where there are no checkpoints.

        `warn` is called with a sentence for each newer one that is damaged, which with `keep` is renamed to
        `….damaged`: it must neither count as one of those to keep nor be averaged.

        Raises: CheckpointError where all checkpoints are damaged: starting from scratch would hide the loss; and where
        they are of several runs.
        """
        self.check_one_run()
        steps = self.steps()
        for step in reversed(steps):
            try:
                found = load(self.path(step))
            except DamagedCheckpointError as error:
                warn(str(error))
            else:
                if self.keep is not None:
                    self._set_aside([self.path(each) for each in steps if each > step])
                    self._delete_superseded(self.keep, step)  # the process that saved it may have been killed before
                return found
        if steps:
            raise CheckpointError(f"none of the {len(steps)} checkpoints in {self.folder} is whole; start another run")
        return None

    def _set_aside(self, paths: Sequence[Path]) -> None:
        with os_errors_explained(f"rename checkpoints in {self.folder}", CheckpointError):
            for path in paths:
                rename(path, path.name + ".damaged")
