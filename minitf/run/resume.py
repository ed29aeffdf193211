"""Resume a run from its newest checkpoint, with the same results as a run that was never interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from minitf.config import RunConfig
from minitf.errors import UserError
from minitf.run.fine_tuning import check_freeze, initial_model
from minitf.run.start import assembled, open_shared, prepare_data
from minitf.run.text_snapshots import texts_of_resumed
from minitf.storage.checkpoints import Checkpoints
from minitf.storage.locked_run import LockedRun
from minitf.storage.restoring import check_best, load_latest, without_prefix
from minitf.storage.run_directory import RunDirectory
from minitf.system.process import Say, set_up_device
from minitf.training.run import MODEL, MOVING_AVERAGE, OPTIMIZER, Run, SingleProcess
from minitf.training.state import TrainState
from minitf.translation.loading import LearnedModel


@contextmanager
def resume(folder: Path, config: RunConfig, process: SingleProcess, say: Say) -> Iterator[Run]:
    """Resume the run in a directory; `config` is its own with values that may change.

    Raises: UserError for texts, vocabularies, checkpoints and directories that cannot be used.
    """
    set_up_device(process.threads, process.device, config.precision, config.kernels, plain=config.plain)
    with ExitStack() as stack:
        initial: LearnedModel | None = None
        with process.main_process_first():
            if process.is_main_process:
                if config.freeze is not None:
                    check_freeze(config)
                if config.init is not None and not Checkpoints(RunDirectory(folder).checkpoints_path).steps():
                    initial = initial_model(config, say)
            texts = texts_of_resumed(config, RunDirectory.open(folder), say)
            if process.is_main_process:
                directory: RunDirectory = stack.enter_context(LockedRun.resume(folder, config))
                for change in directory.environment_changes():
                    say(f"note: {change} since this run began; results may not be bit-identical")
            else:
                directory = open_shared(config.output)
            data = prepare_data(config, texts, directory, say, kept=None if initial is None else initial.vocabulary)
        run = assembled(config, data, directory, process, initial, stack)
        if process.is_main_process:
            restore(run, say)
        run.state = process.synchronize(run.state, run.model, run.optimizer, run.moving_average, data.train)
        yield run


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
    if "imported" in plain:
        raise UserError(
            f"{run.directory.path} was imported and has no optimizer state; start a run from it with "
            f"--init {run.directory.path}"
        )
    if "packed" in plain:
        raise UserError(
            f"{run.directory.path} was packed for translation and has no optimizer state; resume the original run, or "
            "pack that run with --resumable"
        )
    try:
        state = TrainState.from_plain(plain)
        _check_texts(run, state)
        run.model.load_parameters(without_prefix(MODEL, arrays))
        run.optimizer.load_state(state.step, without_prefix(OPTIMIZER, arrays))
        if run.moving_average is not None:
            run.moving_average.load(without_prefix(MOVING_AVERAGE, arrays))
        run.data.train.restore(state.data)
    except ValueError as error:
        raise UserError(f"the last checkpoint of {run.directory.path} does not match this run: {error}") from error
    run.state = state
    run.checkpoints.take_identity(state.step)
    run.checkpoints.forget_best(but=state.best_step)
    check_best(run.checkpoints, state.best_step, warn)
    run.log.truncate_to(state.log_offset, warn)
    say(f"resumed after step {state.step:,}")


def _check_texts(run: Run, state: TrainState) -> None:
    """Refuse another vocabulary or validation text, with which the run's results would not be comparable."""
    if state.vocabulary != run.state.vocabulary:
        raise UserError(
            f"{run.directory.vocabulary_path} has changed; restore the vocabulary that the run was trained with"
        )
    if state.valid_corpus != run.state.valid_corpus:
        valid = run.data.texts.valid
        raise UserError(f"the validation text {valid and valid[0]} has changed; restore it")
