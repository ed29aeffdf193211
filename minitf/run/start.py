"""Start a run, or resume it from its newest checkpoint, with the same results as if it had never been interrupted."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from minitf.config import RunConfig
from minitf.config.run_config import parse_devices
from minitf.data.vocabulary import sized
from minitf.errors import UserError
from minitf.fast.accelerate import accelerate, accelerate_adam
from minitf.fast.step_graphs import step_graphs
from minitf.model.counting import training_bytes
from minitf.model.transformer import Transformer
from minitf.run.fine_tuning import check_freeze, freeze, initial_model, load_into
from minitf.run.texts import check_texts, find_texts, prepare_data
from minitf.storage.checkpoints import Checkpoints, load_latest, without_prefix
from minitf.storage.run_directory import LockedRun, NoLog, RunDirectory, RunLog
from minitf.system.environment import available_bytes
from minitf.system.process import Say, set_up_device
from minitf.training.moving_average import MovingAverage
from minitf.training.optim import Adam, compute_gradients
from minitf.training.run import MODEL, MOVING_AVERAGE, OPTIMIZER, Run, SingleProcess, TrainingData
from minitf.training.state import TrainState
from minitf.translation.loading import LearnedModel


@contextmanager
def start(config: RunConfig, process: SingleProcess, say: Say, resumed: Path | None = None) -> Iterator[Run]:
    """Start a run with the configuration `config`, or continue the one in the directory `resumed`.

    Raises: UserError for texts, vocabularies, checkpoints and directories that cannot be used.
    """
    set_up_device(process.threads, process.device, config.precision, config.kernels, plain=config.plain)
    with ExitStack() as stack:
        initial: LearnedModel | None = None
        with process.main_process_first():
            own = None if resumed is None else RunDirectory.open(resumed)
            if process.is_main_process:
                if config.freeze is not None:
                    check_freeze(config)
                if config.init is not None and (own is None or not Checkpoints(own.checkpoints_path).steps()):
                    initial = initial_model(config, say)
            texts = find_texts(config, own, say)
            if process.is_main_process:
                if texts is not None:
                    check_texts(texts, say)  # before the directory of the run exists
                locked = LockedRun.create(config.output, config) if own is None else LockedRun.resume(own.path, config)
                directory: RunDirectory = stack.enter_context(locked)
                for change in [] if own is None else directory.environment_changes():
                    say(f"note: {change} since this run began; results may not be bit-identical")
            else:
                directory = open_shared(config.output)
            data = prepare_data(config, texts, directory, say, kept=None if initial is None else initial.vocabulary)
        run = assembled(config, data, directory, process, initial, stack, say)
        if own is not None and process.is_main_process:
            restore(run, say)
        run.state = process.synchronize(run.state, run.model, run.optimizer, run.moving_average, data.train)
        yield run


def open_shared(path: Path) -> RunDirectory:
    """Open the directory that the main process has created or locked."""
    try:
        return RunDirectory.open(path)
    except UserError as error:
        raise UserError(f"{error}; all hosts must share the directory that rank 0 has created") from None


def assembled(
    config: RunConfig,
    data: TrainingData,
    directory: RunDirectory,
    process: SingleProcess,
    initial: LearnedModel | None,
    stack: ExitStack,
    say: Say,
) -> Run:
    """Put a run together, with its initial weights.

    initial: the model whose weights to start with; None: random ones
    stack: closes the log
    """
    config = replace(config, model=sized(config.model, data.vocabulary))
    tell_memory(config, say)
    model = Transformer(config.model, seed=config.seed, dtype=config.dtype)
    if initial is not None:
        load_into(model, initial)
    model.to(process.device)
    if not config.plain:
        compute_dtype = "bfloat16" if config.precision == "bf16" and config.on_gpu else None
        model = accelerate(model, compute_dtype=compute_dtype, checkpoint_layers=config.checkpoint_activations)
    named_parameters = model.named_parameters()
    learning = named_parameters if config.freeze is None else freeze(model, config.freeze)
    optimizer = Adam(learning, config.optimizer)
    gradients = None
    if config.on_gpu:
        gradients = step_graphs(model, compute_gradients, config, process.is_parallel)
    return Run(
        config=config,
        data=data,
        model=model,
        optimizer=optimizer if config.plain else accelerate_adam(optimizer),
        moving_average=MovingAverage(named_parameters, config.moving_average) if config.moving_average else None,
        state=TrainState(
            vocabulary=data.vocabulary.fingerprint(),
            valid_corpus=data.valid.corpus.fingerprint if data.valid else "",
        ),
        directory=directory,
        checkpoints=Checkpoints(
            directory.checkpoints_path,
            keep=config.keep_checkpoints if process.is_main_process else None,
        ),
        log=stack.enter_context(RunLog(directory.log_path)) if process.is_main_process else NoLog(),
        process=process,
        gradients=gradients,
    )


def tell_memory(config: RunConfig, say: Say) -> None:
    """Say how much memory the training will take; a warning, and what helps, where less is available."""
    processes = 1 if config.devices is None else parse_devices(config.devices)[1]
    of_one = training_bytes(replace(config, vocab_size=config.model.vocab_size))
    total, available = of_one * processes, None if config.on_gpu else available_bytes()
    size = f"{total / 2**30:.1f} GiB" if total > 2**30 else f"{total / 2**20:.0f} MiB"
    size += f" in {processes} processes" if processes > 1 else ""
    say(f"memory: about {size}, in batches of {config.max_tokens_per_batch:,} tokens")
    if available is not None and total > available:
        say(
            f"warning: {available / 2**30:.1f} GiB of memory are available; half of --max-tokens-per-batch and twice "
            "--accumulate learn the same with less, and so does --checkpoint-activations"
        )


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
    run.checkpoints.forget_best(but=state.best_step)
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
