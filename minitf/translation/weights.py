"""What a run has learned: the weights to translate with, and the model that they fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autograd.backend import get_backend
from minitf.data.vocabulary import Vocabulary
from minitf.errors import UserError

if TYPE_CHECKING:
    from minitf.config import RunConfig
    from minitf.model.transformer import Transformer
    from minitf.storage.checkpoint import CheckpointStore
    from minitf.storage.run_directory import RunDirectory


def load_weights(
    run: RunDirectory,
    config: RunConfig,
    average: int | None,
    checkpoint: int | None,
    weights: str,
    warn: Callable[[str], object],
) -> tuple[dict[str, np.ndarray], Path]:
    """The weights to translate with, and the file to name where they do not fit."""
    from minitf.storage import checkpoint as checkpoints

    if average is not None and checkpoint is not None:
        raise UserError(f"average={average} and checkpoint={checkpoint} exclude each other; choose one of the two")
    if average is not None and average < 1:
        raise UserError(f"average={average} takes no checkpoint; choose 1 (the last) or more")
    store = checkpoints.CheckpointStore(run.checkpoints_path)
    if weights != "average":
        if (average or checkpoint) is not None:
            raise UserError(f"weights={weights} excludes average={average} and checkpoint={checkpoint}; choose one")
        return _load_best(store) if weights == "best" else _load_moving_average(store, config)
    if checkpoint is not None:
        arrays, _ = store.load(checkpoint, "model.")
        return arrays, store.path(checkpoint)
    steps = store.steps()[-(average or config.average_checkpoints) :]
    if not steps:
        raise UserError(f"{run.path} has no checkpoint yet; train until the first one is saved")
    if average is not None and len(steps) < average:
        warn(f"{run.path} has {len(steps)} checkpoints, not {average}: the mean is taken of these")
    return checkpoints.average([store.path(step) for step in steps]), store.path(steps[-1])


def _load_best(store: CheckpointStore) -> tuple[dict[str, np.ndarray], Path]:
    from minitf.storage import checkpoint as checkpoints

    step = store.best_step()
    if step is None:
        raise UserError(f"{store.folder} has no weights of a best validation; train with --valid until the first one")
    return checkpoints.load(store.best_path(step), "model.")[0], store.best_path(step)


def _load_moving_average(store: CheckpointStore, config: RunConfig) -> tuple[dict[str, np.ndarray], Path]:
    steps = store.steps()
    if config.moving_average is None:
        raise UserError(f"the run of {store.folder} keeps no moving average; train one with --moving-average 0.9999")
    if not steps:
        raise UserError(f"{store.folder} has no checkpoint yet; train until the first one is saved")
    return store.load(steps[-1], "moving_average.")[0], store.path(steps[-1])


def check_vocabulary(path: Path, vocabulary: Vocabulary, origin: Path) -> None:
    """Refuse a vocabulary of the right size that gives the ids another meaning; not all checkpoints name theirs."""
    from minitf.storage.checkpoint import read_state

    if read_state(origin).get("vocabulary", vocabulary.fingerprint()) != vocabulary.fingerprint():
        raise UserError(
            f"{path} is not the vocabulary that {origin} was trained with; put back the one that training wrote"
        )


def build_model(
    config: RunConfig, vocabulary: Vocabulary, weights: dict[str, np.ndarray], origin: Path, dtype: Any
) -> Transformer:
    from minitf.model.transformer import Transformer

    if config.model.vocab_size not in (0, len(vocabulary)):
        raise UserError(
            f"the run's model has {config.model.vocab_size} tokens, but its vocabulary {len(vocabulary)}; "
            "put back the vocabulary.model that the run was trained with"
        )
    compute_dtype = "bfloat16" if config.precision == "bf16" else None
    model = Transformer(replace(config.model, vocab_size=len(vocabulary)), dtype=dtype, compute_dtype=compute_dtype)
    try:
        model.load_parameters(weights)
    except ValueError as error:
        raise UserError(f"{origin} does not fit the run's configuration: {error}") from error
    model.eval()
    return model


def with_precision(config: RunConfig, device: str, precision: str | None) -> RunConfig:
    """The run's configuration on another device, which is made ready.  Raises: UserError where it cannot be"""
    from minitf.config.hardware import check_precision

    check_precision(precision, device != "cpu")
    if precision is None and device == "cpu" and config.precision in ("tf32", "bf16"):
        precision = "float32"
    chosen: Any = precision or config.precision
    try:
        get_backend(device).set_precision(chosen)
    except ValueError as error:
        raise UserError(f"{error}; choose --device cpu or another --precision") from None
    return replace(config, device="cpu" if device == "cpu" else device, devices=None, precision=chosen)
