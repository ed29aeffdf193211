"""What binds config.json to the checkpoints of its run: the values that decide which numbers come out.

A checkpoint carries them, under its digest. Not among them: values that a resumed run may change (`may_change`), and
paths; texts and vocabulary are bound by their digests. Values that one side lacks are not compared, so that a run to
which a field is unknown can be used.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

from minitf.config.options import shown
from minitf.config.run import RunConfig

SOURCES = ("preset", "data")
"""Fields that name a source, and no number."""
SIZES = ("model.vocab_size", "model.source_vocab_size")
"""Filled in from the vocabulary, whose digest binds them."""

TRAINING_ONLY = ("model.dropout", "model.attention_dropout", "model.activation_dropout", "model.attention_gain")
TRANSLATION = ("task", "precision", "max_length", "parsing.tags", "parsing.form")
"""Fields outside of the model that a translation depends on."""


def decisive_values(config: RunConfig) -> dict[str, Any]:
    """{"seed": 0, "model.heads": 8, …}"""
    return _values(config, "")


def edits(recorded: Any, config: RunConfig, *, for_translation: bool = False) -> list[str]:
    """Describe the decisive values that differ from those recorded: `model.heads is 4 and was 8`."""
    now = decisive_values(config)
    common = [name for name in now if isinstance(recorded, dict) and name in recorded]
    if for_translation:
        common = [name for name in common if _matters_for_translation(name)]
    return [
        f"{name} is {shown(now[name])} and was {shown(recorded[name])}"
        for name in common
        if now[name] != recorded[name]
    ]


def _matters_for_translation(name: str) -> bool:
    return name in TRANSLATION or (name.startswith("model.") and name not in TRAINING_ONLY)


def _values(config: Any, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in fields(config):
        value = getattr(config, each.name)
        if is_dataclass(value):
            found |= _values(value, f"{each.name}.")
        elif not (each.metadata["may_change"] or _is_path(each.type) or prefix + each.name in (*SOURCES, *SIZES)):
            found[prefix + each.name] = list(value) if isinstance(value, tuple) else value  # as JSON has it
    return found


def _is_path(kind: Any) -> bool:
    return kind is Path or any(map(_is_path, get_args(kind)))
