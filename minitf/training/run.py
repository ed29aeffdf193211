"""A training run: what it consists of, how it starts and resumes, and its checkpoints."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote

import numpy as np

from autograd.backend import backend_of
from minitf.config import RunConfig
from minitf.config.identity import decisive_values, edits
from minitf.data.vocabulary import sized
from minitf.errors import UserError
from minitf.evaluation.aligned_text import check_trees
from minitf.model.transformer import Transformer
from minitf.storage.checkpoints import CheckpointError, CheckpointStore, read_state, with_prefix, without_prefix
from minitf.storage.log import NoLog, RunLog
from minitf.storage.run_directory import RunDirectory
from minitf.system.device import set_up_device
from minitf.system.messages import Say
from minitf.training.kept_texts import Texts, texts_of_resumed
from minitf.training.moving_average import MovingAverage
from minitf.training.optim import Adam
from minitf.training.process import SingleProcess
from minitf.training.schedule import record_checkpoint
from minitf.training.starting_point import StartingPoint, check_freeze, freeze, starting_point
from minitf.training.state import TrainState
from minitf.training.texts import TrainingData, check_texts, find_texts, prepare_data

MODEL, OPTIMIZER, MOVING_AVERAGE = "model.", "optimizer.", "moving_average."
"""Prefixes of the names of tensors in a checkpoint."""


@dataclass
class Run:
    """A training run: data, model, optimizer, training state, and the files it writes."""

    config: RunConfig  # with the size of the vocabulary
    data: TrainingData
    model: Transformer
    optimizer: Adam
    moving_average: MovingAverage | None
    state: TrainState
    directory: RunDirectory
    checkpoints: CheckpointStore
    log: RunLog | NoLog
    process: SingleProcess


class TrainingError(UserError):
    """Raised when training has diverged: the loss, a gradient or a weight is not finite."""

    exit_status = 1  # the command line was right


# ---- Start -----------------------------------------------------------------------------------------------------------


@contextmanager
def open_run(
    config: RunConfig, resume: Path | None, process: SingleProcess, say: Say, *, allow_config_edits: bool = False
) -> Iterator[Run]:
    """Start the run that `config` describes, or resume the one in the directory `resume`.

    allow_config_edits: resume although config.json was edited since the last checkpoint

    Raises: UserError for texts, vocabularies and directories that cannot be used.
    """
    set_up_device(process.threads, process.device, config.precision, config.kernels)
    with ExitStack() as stack:
        start: StartingPoint | None = None
        with process.main_process_first():
            if process.is_main_process:
                check_freeze(config)
                start = starting_point(config, resume, say)
                config = replace(config, init_digest=start.digest) if start else config
            texts = texts_of_resumed(config, RunDirectory.open(resume), say) if resume else find_texts(config, say)
            if process.is_main_process:
                if resume is not None:
                    _check_config(RunDirectory(resume), config, say, allow_config_edits)
                directory = stack.enter_context(_create_or_lock(config, texts, resume, say))
            else:
                directory = _open_shared(config.output)
            data = prepare_data(config, texts, directory, say, kept=None if start is None else start.vocabulary)
        config = replace(config, model=sized(config.model, data.vocabulary))
        compute_dtype = "bfloat16" if config.precision == "bf16" else None
        model = Transformer(config.model, seed=config.seed, dtype=config.dtype, compute_dtype=compute_dtype)
        model.checkpoint_activations(config.checkpoint_activations)
        if start is not None:
            start.load_into(model)
        model.to(process.device)
        named_parameters, learning = model.named_parameters(), freeze(model, config.freeze)
        run = Run(
            config=config,
            data=data,
            model=model,
            optimizer=Adam(learning, config.optimizer),
            moving_average=MovingAverage(named_parameters, config.moving_average) if config.moving_average else None,
            state=TrainState(
                vocabulary=data.vocabulary.fingerprint(),
                valid_corpus=data.valid.corpus.fingerprint if data.valid else "",
            ),
            directory=directory,
            checkpoints=CheckpointStore(
                directory.checkpoints_path,
                keep=config.keep_checkpoints if process.is_main_process else None,
                origin={"run": secrets.token_hex(16), "config": decisive_values(config)},
            ),
            log=stack.enter_context(RunLog(directory.log_path)) if process.is_main_process else NoLog(),
            process=process,
        )
        if resume is not None and process.is_main_process:
            restore(run, say)
        run.state = process.synchronize(run.state, model, run.optimizer, run.moving_average, data.train)
        yield run


def _create_or_lock(config: RunConfig, texts: Texts | None, resume: Path | None, say: Say) -> RunDirectory:
    if resume is None:
        if texts is not None:
            check_texts(texts, config.errors, say)  # before the directory of the run exists
        if config.task == "parsing":
            check_trees(config.parsing, config.errors)
        return RunDirectory.create(config.output, config)
    directory = RunDirectory.resume(resume, config)
    for change in directory.environment_changes():
        say(f"note: {change} since this run began; its bits may differ")
    return directory


def _check_config(directory: RunDirectory, config: RunConfig, say: Say, allow_edits: bool) -> None:
    """Refuse a configuration that was edited since the last checkpoint, or warn where that is allowed."""
    path, origin = CheckpointStore(directory.checkpoints_path).newest_origin()
    if path is not None and (found := edits(origin.get("config"), config)):
        message = f"{directory.config_path} was edited since {path.name} was saved: {'; '.join(found)}"
        if not allow_edits:
            raise UserError(f"{message}; put it back, or give --allow-config-edits to go on with the new values")
        say(f"warning: {message}")


def _open_shared(path: Path) -> RunDirectory:
    """Open the directory that the main process has created or locked."""
    try:
        return RunDirectory.open(path)
    except UserError as error:
        raise UserError(f"{error}; every host must see the directory that rank 0 has made") from None


# ---- Checkpoints -----------------------------------------------------------------------------------------------------


def save(run: Run) -> None:
    """Write a checkpoint, complete or not at all, in the main process, after checking that all ranks agree.

    Raises: CheckpointError if the system refuses; TrainingError, before a byte is written, if a weight or moment is
    not finite.  Earlier checkpoints stay in both cases.
    """
    state = run.state
    run.process.check_weights(state.step, run.model)
    record_checkpoint(run.config, state, run.data.train.epoch)
    if not run.process.is_main_process:
        return
    arrays = with_prefix(MODEL, {name: p.numpy() for name, p in run.model.named_parameters().items()})
    arrays |= with_prefix(OPTIMIZER, run.optimizer.state_arrays())
    if run.moving_average is not None:
        arrays |= with_prefix(MOVING_AVERAGE, run.moving_average.arrays)
    arrays = {name: backend_of([array]).to_host(array) for name, array in arrays.items()}
    for name, array in arrays.items():
        if not np.isfinite(array).all():
            found = f"after step {state.step:,}, {name} is not finite"
            raise TrainingError(f"training diverged: {found}; {advice(run.config, run.directory, run.checkpoints)}")
    run.log.sync()
    state.log_offset = run.log.offset
    state.data = run.data.train.state()
    run.checkpoints.save(state.step, arrays, state.to_plain())
    run.checkpoints.forget_best(but=state.best_step)


def save_best(run: Run, loss: float, bleu: float | None) -> None:
    """Write the weights that were validated: the model's, which may be a moving average at the time of the call."""
    state = run.state
    arrays = with_prefix(MODEL, {name: p.numpy() for name, p in run.model.named_parameters().items()})
    about = {"step": state.step, "vocabulary": state.vocabulary, "valid_loss": loss, "valid_bleu": bleu}
    run.checkpoints.save_best(state.step, arrays, about)


def restore(run: Run, say: Say) -> None:
    """Continue from the newest complete checkpoint; without any, from the beginning."""

    def warn(message: str) -> None:
        say(f"warning: {message}")

    found = run.checkpoints.latest(warn)
    if found is None:
        say("no checkpoint yet: starting from the beginning")
        run.checkpoints.forget_best(but=0)
        run.log.truncate_to(0, say)
        return
    arrays, plain = found
    if "imported" in plain:
        raise UserError(
            f"{run.directory.path} was imported and holds no state of an optimizer; start a run from it with "
            f"--init {run.directory.path}"
        )
    if "packed" in plain:
        raise UserError(
            f"{run.directory.path} was packed to translate and holds no state of the optimizer; resume the run it was "
            "packed from, or pack that with --resumable"
        )
    try:
        state = TrainState.from_plain(plain)
        _check_texts(run, state)
        run.model.load_parameters(without_prefix(MODEL, arrays))
        run.optimizer.load_state(state.step - state.skipped_updates, without_prefix(OPTIMIZER, arrays))
        if run.moving_average is not None:
            run.moving_average.load(without_prefix(MOVING_AVERAGE, arrays))
        run.data.train.restore(state.data)
    except ValueError as error:
        raise UserError(f"the last checkpoint of {run.directory.path} does not fit this run: {error}") from error
    run.state = state
    run.checkpoints.take_identity(state.step)
    run.checkpoints.forget_best(but=state.best_step)
    run.checkpoints.check_best(state.best_step, warn)
    run.log.truncate_to(state.log_offset, warn)
    say(f"resumed after step {state.step:,}")


def _check_texts(run: Run, state: TrainState) -> None:
    """Refuse another vocabulary or validation text, with which the run's numbers would mean something else."""
    if state.vocabulary != run.state.vocabulary:
        raise UserError(f"{run.directory.vocabulary_path} has changed; put back the vocabulary it was trained with")
    if state.valid_corpus != run.state.valid_corpus:
        valid = run.data.texts.valid
        raise UserError(f"the validation text {valid and valid[0]} has changed; put it back")


def advice(config: RunConfig, directory: RunDirectory, checkpoints: CheckpointStore) -> str:
    """Name the last good checkpoint, and the options that help."""
    good = [path for path in checkpoints.last(config.keep_checkpoints) if _is_good(path)]
    last = f"the last good checkpoint is {good[-1]}" if good else "there is no good checkpoint"
    skip = f"skip such updates (--resume {quote(str(directory.path))} --on-divergence skip), or "
    given_peak = config.optimizer.peak_learning_rate is not None
    return (
        f"{last}; {skip if config.on_divergence == 'stop' else ''}start again with a smaller "
        f"--optimizer.{'peak-learning-rate' if given_peak else 'learning-rate-scale'}, "
        "more --optimizer.warmup-steps, or --optimizer.clip-norm 1"
    )


def _is_good(path: Path) -> bool:
    """Whether a checkpoint can be read, and no update was skipped just before it."""
    try:
        return not read_state(path)["skipped_in_a_row"]
    except CheckpointError:
        return False
