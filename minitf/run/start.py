"""Start a run: find and prepare its texts, make its directory, its model and its optimizer."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from minitf.config import RunConfig
from minitf.config.identity import decisive_values
from minitf.data.vocabulary import sized
from minitf.errors import UserError
from minitf.evaluation.aligned_text import check_trees
from minitf.model.transformer import Transformer
from minitf.run.fine_tuning import StartingPoint, check_freeze, freeze, starting_point
from minitf.run.texts import check_texts, find_texts, prepare_data
from minitf.storage.checkpoint_store import CheckpointStore
from minitf.storage.log import NoLog, RunLog
from minitf.storage.run_directory import RunDirectory
from minitf.system.device import set_up_device
from minitf.system.messages import Say
from minitf.training.moving_average import MovingAverage
from minitf.training.optim import Adam
from minitf.training.run import Run, SingleProcess, TrainingData
from minitf.training.state import TrainState


@contextmanager
def start(config: RunConfig, process: SingleProcess, say: Say) -> Iterator[Run]:
    """Start the run that `config` describes.

    Raises: UserError for texts, vocabularies and directories that cannot be used.
    """
    set_up_device(process.threads, process.device, config.precision, config.kernels)
    with ExitStack() as stack:
        beginning: StartingPoint | None = None
        with process.main_process_first():
            if process.is_main_process:
                if config.freeze is not None:
                    check_freeze(config)
                if config.init is not None:
                    beginning = starting_point(config, say)
                    config = replace(config, init_digest=beginning.digest)
            texts = find_texts(config, say)
            if process.is_main_process:
                if texts is not None:
                    check_texts(texts, config.errors, say)  # before the directory of the run exists
                if config.task == "parsing":
                    check_trees(config.parsing, config.errors)
                directory = stack.enter_context(RunDirectory.create(config.output, config))
            else:
                directory = open_shared(config.output)
            data = prepare_data(config, texts, directory, say, kept=None if beginning is None else beginning.vocabulary)
        run = assembled(config, data, directory, process, beginning, stack)
        run.state = process.synchronize(run.state, run.model, run.optimizer, run.moving_average, data.train)
        yield run


def open_shared(path: Path) -> RunDirectory:
    """Open the directory that the main process has created or locked."""
    try:
        return RunDirectory.open(path)
    except UserError as error:
        raise UserError(f"{error}; every host must see the directory that rank 0 has made") from None


def assembled(
    config: RunConfig,
    data: TrainingData,
    directory: RunDirectory,
    process: SingleProcess,
    beginning: StartingPoint | None,
    stack: ExitStack,
) -> Run:
    """Put a run together, with its initial weights.

    beginning: the weights to start with; None: random ones
    stack: closes the log
    """
    config = replace(config, model=sized(config.model, data.vocabulary))
    compute_dtype = "bfloat16" if config.precision == "bf16" else None
    model = Transformer(config.model, seed=config.seed, dtype=config.dtype, compute_dtype=compute_dtype)
    model.checkpoint_activations(config.checkpoint_activations)
    if beginning is not None:
        beginning.load_into(model)
    model.to(process.device)
    named_parameters = model.named_parameters()
    learning = named_parameters if config.freeze is None else freeze(model, config.freeze)
    return Run(
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
