"""Continue a run from its newest checkpoint: weights, moments, moving average, place in the data, and log."""

import os
from collections.abc import Callable
from dataclasses import fields
from typing import Any

from minitf.config.options import check_fields
from minitf.config.removed import LAST_VERSION
from minitf.errors import UserError
from minitf.storage.checkpoints import Array, Checkpoints, DamagedCheckpointError, load, without_prefix
from minitf.system.files import os_errors_explained, sync_folder
from minitf.system.process import Say
from minitf.training.run import MODEL, MOVING_AVERAGE, OPTIMIZER, Run
from minitf.training.state import Interval, TrainState

__all__ = ["load_latest", "state_from_plain"]

REMOVED_FIELDS = ("skipped_updates", "skipped_in_a_row", "saved_s")
"""Fields of a `TrainState` that earlier versions had."""


def restore(run: Run, say: Say) -> None:
    """Continue from the newest complete checkpoint; without any, from the beginning."""

    def warn(message: str) -> None:
        say(f"warning: {message}")

    found = load_latest(run.checkpoints, warn)
    if found is None:
        say("no checkpoint yet: starting from the beginning")
        run.checkpoints.forget_best(but=0)
        run.log.truncate_to(0, say)
        return
    arrays, plain = found
    if "imported" in plain or "packed" in plain:
        raise UserError(
            f"{run.directory.path} was imported, or packed for translation, and has no optimizer state; start a run "
            f"from it with --init {run.directory.path}"
        )
    try:
        state = state_from_plain(plain)
        if state.vocabulary != run.state.vocabulary:  # with another, results would not be comparable
            raise UserError(
                f"{run.directory.vocabulary_path} has changed; restore the vocabulary that the run was trained with"
            )
        if state.valid_corpus != run.state.valid_corpus:
            valid = run.data.texts.valid
            raise UserError(f"the validation text {valid and valid[0]} has changed; restore it")
        run.model.load_parameters(without_prefix(MODEL, arrays))
        run.optimizer.load_state(state.step, without_prefix(OPTIMIZER, arrays))
        if run.moving_average is not None:
            run.moving_average.load(without_prefix(MOVING_AVERAGE, arrays))
        run.data.train.restore(state.data)
    except ValueError as error:
        raise UserError(f"the last checkpoint of {run.directory.path} does not match this run: {error}") from error
    run.state = state
    run.checkpoints.forget_best(but=state.best_step)
    run.log.truncate_to(state.log_offset, warn)
    say(f"resumed after step {state.step:,}")


def load_latest(store: Checkpoints, warn: Callable[[str], None]) -> tuple[dict[str, Array], dict[str, Any]] | None:
    """Load the newest undamaged checkpoint; return None where there are no checkpoints.

    `warn` is called with a sentence for each newer one that is damaged, which with `store.keep` is renamed to
    `….damaged`: it must neither count as one of those to keep nor be averaged.

    Raises: UserError if all checkpoints are damaged: starting from scratch would hide the loss
    """
    steps = store.steps()
    for step in reversed(steps):
        try:
            found = load(store.path(step))
        except DamagedCheckpointError as error:
            warn(str(error))
            continue
        if store.keep is not None:
            with os_errors_explained(f"rename checkpoints in {store.folder}"):
                for path in [store.path(each) for each in steps if each > step]:
                    os.replace(path, path.with_name(path.name + ".damaged"))
                sync_folder(store.folder)
            store.delete_superseded(step)  # the process that saved it may have been killed before
        return found
    if steps:
        raise UserError(f"none of the {len(steps)} checkpoints in {store.folder} is intact; start a new run")
    return None


def state_from_plain(plain: dict[str, Any]) -> TrainState:
    """Convert from `to_plain`.  Raises: UserError if a field is missing, unknown, or has an impossible value."""
    if isinstance(plain, dict):
        if skipped := plain.get("skipped_updates"):
            raise UserError(
                f"{skipped} updates of this run were skipped by --on-divergence skip, which is gone; continue it "
                f"with minitf {LAST_VERSION}"
            )
        plain = {name: value for name, value in plain.items() if name not in REMOVED_FIELDS}
        plain.setdefault("planned_steps", 0)  # earlier versions had none
    _check_names(plain, TrainState)
    interval = plain["interval"]
    _check_names(interval, Interval)
    state = TrainState(**{**plain, "interval": Interval(**interval)})
    check_fields(state)
    check_fields(state.interval)
    return state


def _check_names(plain: Any, kind: type) -> None:
    names = {each.name for each in fields(kind)}
    found = set(plain) if isinstance(plain, dict) else set()
    if found != names:
        raise UserError(f"the training state does not fit this version: {', '.join(sorted(found ^ names))} differ")
    for name, value in plain.items():
        if isinstance(value, int | float) and value < 0:
            raise UserError(f"{name}={value} in the training state is negative")
