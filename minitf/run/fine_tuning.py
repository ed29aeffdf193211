"""Fine-tuning: runs that start from the weights of a model (`--init`), and frozen parts (`--freeze`)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from minitf.config import RunConfig
from minitf.config.model import EOS
from minitf.config.options import shown
from minitf.config.run import TRAINING_ONLY
from minitf.data.vocabulary import AnyVocabulary
from minitf.errors import UserError
from minitf.model.layers import Module
from minitf.model.parameters import Parameter
from minitf.model.transformer import Transformer
from minitf.storage.checkpoints import Checkpoints
from minitf.storage.run_directory import RunDirectory
from minitf.system.process import Say
from minitf.translation.loading import LearnedModel, config_of, load_learned

ARCHITECTURE = ("task", "parsing.tags", "parsing.form")
"""Values outside `model` that the weights were trained for."""
DEFAULTS = ("vocab_size", "beam", "alpha", "beta", "max_extra_length")
"""Values of the model that flags may replace."""
PARTS = {
    "embeddings": (
        "source_embedding",
        "target_embedding",
        "source_positions",
        "target_positions",
        "source_embedding_norm",
        "target_embedding_norm",
    ),
    "output": ("projection", "output_bias"),
}
"""Parts that several attributes of a Transformer make up; others, such as "encoder", are names of one."""


@dataclass(frozen=True)
class StartingPoint:
    """The weights and the vocabulary that a run starts with."""

    learned: LearnedModel
    digest: str
    """SHA-256 of both."""

    @property
    def vocabulary(self) -> AnyVocabulary:
        """The vocabulary of the model that the run starts from."""
        return self.learned.vocabulary

    def load_into(self, model: Module) -> None:
        """Copy the weights into a model.  Raises: UserError if they do not fit"""
        try:
            model.load_parameters(self.learned.weights)
        except ValueError as error:
            raise UserError(f"{self.learned.origin} does not match the architecture of the run: {error}") from error


def starting_point(config: RunConfig, say: Say) -> StartingPoint:
    """Load the initial weights and the vocabulary of a run, from `config.init`.

    Raises: UserError for a model that cannot be loaded, and where it is not the one that a resumed run started from
    """
    assert config.init is not None
    of_run: dict[str, Any] = {"weights": config.init_weights}
    if config.init_weights == "last":
        of_run = {"average": 1}
    learned = load_learned(config.init, **of_run, warn=lambda message: say(f"warning: {message}"))
    digest = digest_of(learned)
    if config.init_digest not in (None, digest):
        raise UserError(
            f"the weights of {config.init} changed since this run began, and the run has no checkpoint yet; "
            "restore them, or start a new run"
        )
    return StartingPoint(learned, digest)


def starting_point_of_resumed(config: RunConfig, folder: Path, say: Say) -> StartingPoint | None:
    """Load the initial weights of a resumed run; None if the run has a checkpoint."""
    if config.init is None or Checkpoints(RunDirectory(folder).checkpoints_path).steps():
        return None
    return starting_point(config, say)


def digest_of(learned: LearnedModel) -> str:
    """Return the SHA-256 of the weights, by name, and of the vocabulary."""
    digest = hashlib.sha256(learned.vocabulary.fingerprint().encode())
    for name, array in sorted(learned.weights.items()):
        digest.update(f"\n{name} {array.dtype} {array.shape}\n".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()


def check_freeze(config: RunConfig) -> None:
    """Raises: UserError for what `freeze` refuses, before there is a vocabulary or a directory of the run"""
    if config.freeze is not None:
        outline = replace(config.model, vocab_size=EOS + 1, source_vocab_size=None, masked_tokens=())
        freeze(Transformer(outline, seed=None), config.freeze)


def freeze(model: Module, parts: str | None) -> dict[str, Parameter]:
    """Freeze parts of a model; return the parameters that are trained.

    parts: names separated by commas: "embeddings", "output", and names of modules and parameters such as "encoder",
        "decoder.layers.0" or "output_bias"

    Raises: UserError for a part that the model does not have, and where nothing is left to learn
    """
    named = model.named_parameters()
    for part in parts.split(",") if parts else ():
        places = PARTS.get(part.strip(), (part.strip(),))
        found = [name for name in named if any(name == place or name.startswith(f"{place}.") for place in places)]
        if not found:
            modules = list(dict.fromkeys(name.partition(".")[0] for name in named))
            known = ", ".join([part for part, places in PARTS.items() if {*places} & {*modules}] + modules)
            raise UserError(f"freeze={parts!r}: the model has no part {part.strip()!r}; choose from {known}")
        for name in found:
            named[name].requires_grad = False
    learning = {name: parameter for name, parameter in named.items() if parameter.requires_grad}
    if not learning:
        raise UserError(f"freeze={parts!r} leaves no parameter to train; freeze fewer parts")
    return learning


# ---- Flags ----


def with_values_of_model(given: dict[str, Any]) -> dict[str, Any]:
    """Return the values given on the command line and those of the model in `init`, by the names of fields.

    Raises: UserError for a value that contradicts the model, and for a vocabulary: the model's is kept
    """
    init = given["init"]
    base: RunConfig = config_of(init)
    for name in ("vocabulary", "vocab_size"):
        if name in given:
            flag = name.replace("_", "-")
            raise UserError(
                f"--{flag} and --init cannot be combined: the vocabulary is that of {init}; omit one of them"
            )
    fixed = [f"model.{each.name}" for each in fields(base.model)]
    of_model = {name: attrgetter(name)(base) for name in (*fixed, *ARCHITECTURE, *DEFAULTS)}
    for name, value in given.items():
        if name in of_model and name not in (*TRAINING_ONLY, *DEFAULTS) and value != of_model[name]:
            flag = name.replace("_", "-")
            raise UserError(
                f"--{flag} {shown(value, quote=False)} differs from the {shown(of_model[name], quote=False)} of "
                f"{init}, whose architecture cannot change; omit the flag, or start without --init"
            )
    return of_model | given
