"""Load what a run has learned: the checkpoints to translate with, and the model that they fit."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from autograd.devices import get_backend
from autograd.fast import set_precision
from minitf.config import RunConfig
from minitf.config.run_config import check_precision
from minitf.data.vocabulary import AnyVocabulary, load_vocabulary, sized
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.storage import checkpoints
from minitf.storage.checkpoints import Checkpoints
from minitf.storage.run_directory import CHECKPOINTS_NAME, CONFIG_NAME, RunDirectory
from minitf.system.environment import load_or_none, registered

__all__ = ["LearnedModel", "build_model", "load_learned", "with_precision"]

Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class LearnedModel:
    """The configuration, vocabulary and weights of a run or of another program's model."""

    config: RunConfig
    vocabulary: AnyVocabulary
    weights: Weights
    origin: Path
    """The file or folder to name in errors."""


def foreign_model(path: Path) -> Any | None:
    """Read the model of another program: (configuration, vocabulary, weights); None if the path is none that an
    installed addition knows. A folder with a configuration and checkpoints of ours is none."""
    if (path / CONFIG_NAME).is_file() and Checkpoints(path / CHECKPOINTS_NAME).steps():
        return None
    formats = map(partial(load_or_none, "minitf.formats"), registered("minitf.formats"))
    found = next((each for each in formats if each is not None and each.is_foreign(path)), None)
    return None if found is None else found.read_foreign(path)


def config_of(path: Path) -> RunConfig:
    """Read the configuration of a run, or of another program's model.  Raises: UserError if there is neither"""
    foreign = foreign_model(path)
    return RunDirectory.open(path).config() if foreign is None else foreign.config


def load_learned(
    path: Path,
    *,
    average: int | None = None,
    checkpoint: int | None = None,
    weights: str | None = None,
    warn: Callable[[str], object] = warnings.warn,
) -> LearnedModel:
    """Load the weights and the vocabulary of a run, or of another program's model.  Arguments: see `Translator.load`

    Raises: UserError if there is no run, no checkpoint, or its parts do not belong together
    """
    foreign = foreign_model(path)
    if foreign is not None:
        for name, value, of_one in (
            ("average", average, 1),
            ("checkpoint", checkpoint, None),
            ("weights", weights, "average"),
        ):
            if value not in (None, of_one):
                raise UserError(f"{name}={value} selects checkpoints, but {path} is a single model; omit it")
        return LearnedModel(foreign.config, foreign.vocabulary, foreign.weights, path)
    run = RunDirectory.open(path)
    config = run.config(warn)
    vocabulary = load_vocabulary(run.vocabulary_path)
    if weights is None:
        weights = config.weights if average is None and checkpoint is None else "average"
    paths, prefix = choose_checkpoints(run, config, average, checkpoint, weights, warn)
    check_vocabulary(run.vocabulary_path, vocabulary, paths[-1])
    return LearnedModel(config, vocabulary, checkpoints.average(paths, prefix), paths[-1])


def choose_checkpoints(
    run: RunDirectory,
    config: RunConfig,
    average: int | None,
    checkpoint: int | None,
    weights: str,
    warn: Callable[[str], object],
) -> tuple[list[Path], str]:
    """Return the checkpoints whose mean translates, and the prefix of its weights in them.

    Arguments: see `Translator.load`
    """
    if average is not None and checkpoint is not None:
        raise UserError(f"average={average} and checkpoint={checkpoint} cannot be combined; choose one of the two")
    if average is not None and average < 1:
        raise UserError(f"average={average} selects no checkpoint; choose 1 (the last) or more")
    if weights != "average" and (average or checkpoint) is not None:
        raise UserError(f"weights={weights} excludes average={average} and checkpoint={checkpoint}; choose one")
    store = Checkpoints(run.checkpoints_path)
    if weights == "moving-average" and config.moving_average is None:
        raise UserError(f"the run of {store.folder} has no moving average; train with --set moving_average=0.9999")
    if checkpoint is not None:
        return [store.existing(checkpoint)], "model."
    paths, prefix = store.translating(weights, average or config.average_checkpoints)
    if average is not None and len(paths) < average:
        warn(f"{run.path} has {len(paths)} checkpoints, not {average}: all of them are averaged")
    return paths, prefix


def check_vocabulary(path: Path, vocabulary: AnyVocabulary, origin: Path) -> None:
    """Refuse a vocabulary of the right size that gives the ids another meaning; not all checkpoints name theirs."""
    if checkpoints.read_state(origin).get("vocabulary", vocabulary.fingerprint()) != vocabulary.fingerprint():
        raise UserError(
            f"{path} is not the vocabulary that {origin} was trained with; restore the one that training wrote"
        )


def build_model(learned: LearnedModel, dtype: Any) -> Transformer:
    """Build the model with its weights, in evaluation mode.  Raises: UserError if they do not fit"""
    config, vocabulary = learned.config, learned.vocabulary
    rows, pieces = (config.model.source_rows, config.model.vocab_size), (len(vocabulary.source), len(vocabulary))
    if config.model.vocab_size and rows != pieces:
        model_has, vocabulary_has = (str(b) if a == b else f"{a} and {b}" for a, b in (rows, pieces))
        raise UserError(
            f"the run's model has {model_has} tokens, but its vocabulary {vocabulary_has}; "
            "restore the vocabulary that the run was trained with"
        )
    model = Transformer(sized(config.model, vocabulary), seed=None, dtype=dtype)
    try:
        model.load_parameters(learned.weights, copy=False)
    except ValueError as error:
        raise UserError(f"{learned.origin} does not match the run's configuration: {error}") from error
    model.eval()
    return model


def with_precision(config: RunConfig, device: str, precision: str | None) -> RunConfig:
    """Move a configuration to another device and set the precision there.  Raises: UserError if it cannot be"""
    check_precision(precision, device != "cpu")
    if precision == "int8":
        precision = "float32"  # of all but the weights
    if precision is None and device == "cpu" and config.precision in ("tf32", "bf16"):
        precision = "float32"
    chosen: Any = precision or config.precision
    try:
        set_precision(chosen, get_backend(device))
    except ValueError as error:
        raise UserError(f"{error}; choose --device cpu or another --precision") from None
    return replace(config, device=device, devices=None, precision=chosen)
