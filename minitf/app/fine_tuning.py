"""The flags of a run that starts from a model (`--init`): what it takes from the model, and which flags contradict."""

from __future__ import annotations

from dataclasses import fields
from operator import attrgetter
from typing import Any

from minitf.config import RunConfig
from minitf.config.identity import TRAINING_ONLY
from minitf.config.options import shown
from minitf.errors import UserError
from minitf.translation.loading import config_of

ARCHITECTURE = ("task", "parsing.tags", "parsing.form")
"""Values outside of `model` that the weights were trained for."""
DEFAULTS = ("vocab_size", "beam", "alpha", "beta", "max_extra_length")
"""Values of the model that flags may replace."""


def with_values_of_model(given: dict[str, Any]) -> dict[str, Any]:
    """Return the values given on the command line and those of the model in `init`, by the names of fields.

    Raises: UserError for a value that contradicts the model, and for a vocabulary: the model's is kept
    """
    init = given["init"]
    base: RunConfig = config_of(init)
    for name in ("vocabulary", "vocab_size"):
        if name in given:
            flag = name.replace("_", "-")
            raise UserError(f"--{flag} and --init exclude each other: the vocabulary is that of {init}; leave one out")
    fixed = [f"model.{each.name}" for each in fields(base.model)]
    of_model = {name: attrgetter(name)(base) for name in (*fixed, *ARCHITECTURE, *DEFAULTS)}
    for name, value in given.items():
        if name in of_model and name not in (*TRAINING_ONLY, *DEFAULTS) and value != of_model[name]:
            flag = name.replace("_", "-")
            raise UserError(
                f"--{flag} {shown(value, quote=False)} differs from the {shown(of_model[name], quote=False)} of "
                f"{init}, whose architecture is kept; leave the flag out, or start without --init"
            )
    return of_model | given
