"""The work of `minitf pack`: copy only what translation needs of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from additions.interchange.folders import new_folder
from autograd.fast.int8 import quantise
from minitf.errors import UserError
from minitf.fast.array_layers import matrices
from minitf.storage.checkpoints import FACTORS, Checkpoints, save, with_prefix
from minitf.storage.run_directory import CHECKPOINTS_NAME, RunDirectory, save_config
from minitf.system.process import say
from minitf.training.run import MODEL
from minitf.translation.translator import LearnedModel, build_model, load_learned


def pack_run(run: Path, output: Path, int8: bool = False) -> None:
    """Write configuration, vocabulary, and the weights that translate as one checkpoint, into a new directory.

    run: a run, or a model of another program, which becomes a run
    int8: store matrices in 8 bits

    Raises: UserError for a run without a checkpoint, or if `output` exists.
    """
    learned = load_learned(run, warn=lambda message: say(f"warning: {message}"))
    config, vocabulary = learned.config, learned.vocabulary
    weights = _in_int8(learned) if int8 else learned.weights
    of_run = learned.origin.parent.name == CHECKPOINTS_NAME
    step = int(learned.origin.stem.partition("-")[2]) if of_run else 0
    with new_folder(output) as path:
        packed = RunDirectory(path)
        packed.checkpoints_path.mkdir()
        about = {"packed": config.weights, "vocabulary": vocabulary.fingerprint()}
        save(Checkpoints(packed.checkpoints_path).path(step), with_prefix(MODEL, weights), about)
        vocabulary.save(path / vocabulary.file_name)
        save_config(packed.config_path, replace(config, weights="average", average_checkpoints=1))


def _in_int8(learned: LearnedModel) -> dict[str, np.ndarray]:
    """The weights of a model, those in 8 bits that `minitf translate --precision int8` would quantise."""
    model = build_model(learned, np.float32)
    quantised = {id(parameter) for parameter in matrices(model)}
    weights: dict[str, np.ndarray] = {}
    for name, parameter in model.named_parameters().items():
        weights[name] = parameter.data
        if id(parameter) in quantised:
            weights[name], weights[name + FACTORS] = quantise(parameter.data)
            if not np.isfinite(weights[name + FACTORS]).all():
                raise UserError(f"{learned.origin}: {name} holds NaN or ∞; train again, or use an earlier checkpoint")
    return weights
