"""Start a training run, or resume one from its last checkpoint."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from minitf.config import RunConfig
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.parsing.aligned_text import check_trees
from minitf.storage.checkpoint import CheckpointStore
from minitf.storage.log import NoLog, RunLog
from minitf.storage.run_directory import RunDirectory
from minitf.system.device import set_up_device
from minitf.system.messages import Say
from minitf.training.moving_average import MovingAverage
from minitf.training.optim import Adam
from minitf.training.process import SingleProcess
from minitf.training.run import Run
from minitf.training.saving import restore
from minitf.training.state import TrainState
from minitf.training.texts import Texts, check_texts, find_texts, prepare_data


@contextmanager
def open_run(config: RunConfig, resume: Path | None, process: SingleProcess, say: Say) -> Iterator[Run]:
    """Start the run that `config` describes, or resume the one in the directory `resume`.

    Raises: UserError for texts, vocabularies and directories that cannot be used.
    """
    set_up_device(process.threads, process.device, config.precision)
    with ExitStack() as stack:
        with process.main_process_first():
            texts = find_texts(config, say)
            if process.is_main_process:
                directory = stack.enter_context(_create_or_lock(config, texts, resume, say))
            else:
                directory = _open_shared(config.output)
            data = prepare_data(config, texts, directory, say)
        config = replace(config, model=replace(config.model, vocab_size=len(data.vocabulary)))
        compute_dtype = "bfloat16" if config.precision == "bf16" else None
        model = Transformer(config.model, seed=config.seed, dtype=config.dtype, compute_dtype=compute_dtype)
        model.to(process.device)
        named_parameters = model.named_parameters()
        run = Run(
            config=config,
            data=data,
            model=model,
            optimizer=Adam(named_parameters, config.optimizer),
            moving_average=MovingAverage(named_parameters, config.moving_average) if config.moving_average else None,
            state=TrainState(
                vocabulary=data.vocabulary.fingerprint(),
                valid_corpus=data.valid.corpus.fingerprint if data.valid else "",
            ),
            directory=directory,
            checkpoints=CheckpointStore(
                directory.checkpoints_path, keep=config.keep_checkpoints if process.is_main_process else None
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
            check_texts(texts, config.errors)  # before the directory of the run exists
        if config.task == "parsing":
            check_trees(config.parsing, config.errors)
        return RunDirectory.create(config.output, config)
    directory = RunDirectory.resume(resume, config)
    for change in directory.environment_changes():
        say(f"note: {change} since this run began; its bits may differ")
    return directory


def _open_shared(path: Path) -> RunDirectory:
    """Open the directory that the main process has created or locked."""
    try:
        return RunDirectory.open(path)
    except UserError as error:
        raise UserError(f"{error}; every host must see the directory that rank 0 has made") from None
