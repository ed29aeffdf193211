"""Restore a run from its checkpoints: from the newest one that is not damaged; damaged ones are set aside."""

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from minitf.storage.checkpoint_store import CheckpointStore
from minitf.storage.checkpoints import (
    Array,
    CheckpointError,
    DamagedCheckpointError,
    load,
    verify,
)
from minitf.system.files import os_errors_explained
from minitf.system.writing import sync_folder

__all__ = ["load_latest", "without_prefix"]

Warn = Callable[[str], None]


def load_latest(store: CheckpointStore, warn: Warn) -> tuple[dict[str, Array], dict[str, Any]] | None:
    """Load the newest undamaged checkpoint; return None where there are no checkpoints.

    `warn` is called with a sentence for each newer one that is damaged, which with `store.keep` is renamed to
    `….damaged`: it must neither count as one of those to keep nor be averaged.

    Raises: CheckpointError if all checkpoints are damaged: starting from scratch would hide the loss; and where
    they are of several runs.
    """
    store.check_one_run()
    steps = store.steps()
    for step in reversed(steps):
        try:
            found = load(store.path(step))
        except DamagedCheckpointError as error:
            warn(str(error))
        else:
            if store.keep is not None:
                _set_aside(store, [store.path(each) for each in steps if each > step])
                store.delete_superseded(store.keep, step)  # the process that saved it may have been killed before
            return found
    if steps:
        raise CheckpointError(f"none of the {len(steps)} checkpoints in {store.folder} is intact; start a new run")
    return None


def check_best(store: CheckpointStore, step: int, warn: Warn) -> None:
    """Warn if the weights of the best validation are damaged, and rename them to `….damaged`.

    Only a validation that is better still brings such weights again.
    """
    path = store.best_path(step)
    if not path.exists():
        return
    try:
        verify(path)
    except DamagedCheckpointError as error:
        warn(f"{error}; the next better validation will save new weights")
        _set_aside(store, [path])


def _set_aside(store: CheckpointStore, paths: Sequence[Path]) -> None:
    with os_errors_explained(f"rename checkpoints in {store.folder}", CheckpointError):
        for path in paths:
            os.replace(path, path.with_name(path.name + ".damaged"))
        sync_folder(store.folder)


def without_prefix(prefix: str, arrays: Mapping[str, Array]) -> dict[str, Array]:
    """{"model.weight": w, "optimizer.m.weight": m} -> {"weight": w}"""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
