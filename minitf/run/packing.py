"""`minitf pack`: copy only the files of a run that translation, or resuming, needs."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import replace
from pathlib import Path
from shlex import quote

import numpy as np

from autograd.fast.low_precision.int8 import quantise
from minitf.config import RunConfig
from minitf.data.prepared import is_prepared, other_content
from minitf.errors import UserError
from minitf.fast.array_layers import matrices
from minitf.run.text_snapshots import keep_held_out, kept_copies
from minitf.storage import checkpoint_store, checkpoints
from minitf.storage.run_directory import CHECKPOINTS_NAME, RunDirectory, save_config
from minitf.system.files import os_errors_explained
from minitf.system.process import say, shell_command
from minitf.system.writing import new_folder
from minitf.training.run import MODEL, Texts, exist
from minitf.translation.loading import LearnedModel, build_model, load_learned


def pack_run(run: Path, output: Path | None, resumable: bool, int8: bool = False) -> str:
    """Copy the files that `run` needs into the new directory `output`; return a message for the user.

    run: a run, or a model of another program, which becomes a run
    int8: store matrices in 8 bits

    Raises: UserError for a run without a checkpoint, or if `output` exists.
    """
    place = output or run.absolute().with_name(f"{run.absolute().name}-packed")
    with new_folder(place) as path:
        packed = RunDirectory(path)
        if resumable:
            content = _pack_to_resume(RunDirectory.open(run), packed)
        else:
            content = _pack_to_translate(load_learned(run, warn=_warn), packed, int8)
    command = f"{shell_command('train')} --resume" if resumable else shell_command("translate")
    return f"{place}: {_size(place)} of {_size(run)}: {content}\nuse it with:\n    {command} {quote(str(place))}"


def _pack_to_translate(learned: LearnedModel, packed: RunDirectory, int8: bool) -> str:
    """Write configuration, vocabulary, and the weights that translate as the one checkpoint."""
    config, vocabulary, origin = learned.config, learned.vocabulary, learned.origin
    packed.checkpoints_path.mkdir()
    about = {"packed": config.weights, "vocabulary": vocabulary.fingerprint()}
    is_run = origin.parent.name == CHECKPOINTS_NAME
    step = int(origin.stem.partition("-")[2]) if is_run else 0
    weights = _in_int8(learned) if int8 else learned.weights
    place = checkpoints.Checkpoints(packed.checkpoints_path).path(step)
    of_run = checkpoints.read_origin(origin) if is_run else {"run": secrets.token_hex(16)}
    checkpoint_store.save(place, checkpoints.with_prefix(MODEL, weights), about, of_run)
    vocabulary.save(packed.path / vocabulary.file_name)
    save_config(packed.config_path, replace(config, weights="average", average_checkpoints=1))
    found = len(checkpoints.Checkpoints(origin.parent).last(config.average_checkpoints)) if is_run else 1
    mean = f"the mean of {found} checkpoints" if found > 1 else "the weights of the only checkpoint"
    kind = mean if config.weights == "average" else f"{config.weights} weights"
    return f"configuration, vocabulary and {kind if is_run else 'weights'}{', matrices in 8 bits' if int8 else ''}"


def _in_int8(learned: LearnedModel) -> dict[str, np.ndarray]:
    """The weights of a model, those in 8 bits that `minitf translate --precision int8` would quantise."""
    model = build_model(learned, np.float32)
    quantised = {id(parameter) for parameter in matrices(model)}
    weights: dict[str, np.ndarray] = {}
    for name, parameter in model.named_parameters().items():
        weights[name] = parameter.data
        if id(parameter) in quantised:
            weights[name], weights[name + checkpoints.FACTORS] = quantise(parameter.data)
            if not np.isfinite(weights[name + checkpoints.FACTORS]).all():
                raise UserError(f"{learned.origin}: {name} holds NaN or ∞; train again, or use an earlier checkpoint")
    return weights


def _pack_to_resume(run: RunDirectory, packed: RunDirectory) -> str:
    """Copy all files that determine how the run continues, so that it continues exactly like the original run."""
    config, store = run.config(), checkpoints.Checkpoints(run.checkpoints_path)
    kept = store.last(config.average_checkpoints if config.weights == "average" else 1)
    if not kept:
        raise UserError(f"{run.path} has no checkpoint yet; train until the first checkpoint is saved")
    packed.checkpoints_path.mkdir()
    others = (run.environment_path, run.vocabulary_path, run.log_path, run.config_path)  # the log after its checkpoint
    for path in (*kept, *store.best_paths(), run.data_path, *others):
        if path.exists():
            with os_errors_explained(f"copy {path}"):
                copy(path, packed.path / path.relative_to(run.path))
    keep_held_out(_texts_of_ids(config, packed), packed)  # of a run that was started before runs kept copies
    count = "1 checkpoint" if len(kept) == 1 else f"{len(kept)} checkpoints"
    return f"{count}, token ids, held-out texts, log, configuration and vocabulary"


def copy(path: Path, target: Path) -> None:
    """Copy a file, or a folder and all in it but locks and half-written files."""
    if path.is_dir():
        shutil.copytree(path, target, ignore=shutil.ignore_patterns("*.partial", "*.lock"))
    else:
        shutil.copyfile(path, target)


def _warn(message: str) -> None:
    say(f"warning: {message}")


def _texts_of_ids(config: RunConfig, packed: RunDirectory) -> Texts:
    """Return the validation text that is named in config.json, if it is the text of the run's token ids.

    config.json may come from elsewhere and name any file; of a test text there are no ids to compare with.
    """
    valid = config.valid if config.valid is not None and exist(config.valid) else None
    folder = packed.data_path / "valid"
    if valid is not None and (not is_prepared(folder) or other_content(folder, *valid)):
        valid = None
    if config.test is not None and kept_copies(packed, "test") is None:
        source, target = (quote(str(path)) for path in config.test)
        _warn(f"the run has no copy of its test text; resume it with --test {source} {target}")
    return Texts(None, valid, None)


def _size(folder: Path) -> str:
    """Return the size of all files in a directory: `22.1 MB`"""
    return f"{sum(path.stat().st_size for path in folder.rglob('*') if path.is_file()) / 1e6:,.1f} MB"
