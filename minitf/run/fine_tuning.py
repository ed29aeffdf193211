"""Fine-tuning: runs that start from the weights of a model (`--init`), and frozen parts (`--freeze`)."""

from dataclasses import fields
from operator import attrgetter
from typing import Any

from minitf.config import RunConfig
from minitf.config.options import shown
from minitf.errors import UserError
from minitf.model.layers import Module
from minitf.model.parameters import Parameter
from minitf.storage.run_directory import RunDirectory
from minitf.translation.translator import LearnedModel, foreign_model

__all__ = ["freeze"]

TRAINING_ONLY = ("model.dropout", "model.attention_dropout", "model.activation_dropout", "model.attention_gain")
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


def load_into(model: Module, initial: LearnedModel) -> None:
    """Copy the initial weights into a model.  Raises: UserError if they do not fit"""
    try:
        model.load_parameters(initial.weights)
    except ValueError as error:
        raise UserError(f"{initial.origin} does not match the architecture of the run: {error}") from error


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
    foreign = foreign_model(init)
    base: RunConfig = RunDirectory.open(init).config() if foreign is None else foreign.config
    for name in ("vocabulary", "vocab_size"):
        if name in given:
            flag = name.replace("_", "-")
            raise UserError(
                f"--{flag} and --init cannot be combined: the vocabulary is that of {init}; omit one of them"
            )
    fixed = [f"model.{each.name}" for each in fields(base.model)]
    of_model = {name: attrgetter(name)(base) for name in (*fixed, *DEFAULTS)}
    for name, value in given.items():
        if name in of_model and name not in (*TRAINING_ONLY, *DEFAULTS) and value != of_model[name]:
            flag = name.replace("_", "-")
            raise UserError(
                f"--{flag} {shown(value, quote=False)} differs from the {shown(of_model[name], quote=False)} of "
                f"{init}, whose architecture cannot change; omit the flag, or start without --init"
            )
    return of_model | given
