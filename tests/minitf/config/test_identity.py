"""What binds config.json to its checkpoints."""

from dataclasses import fields, replace
from pathlib import Path

import pytest

from minitf.config import PRESETS, RunConfig
from minitf.config.identity import TRAINING_ONLY, TRANSLATION, decisive_values, edits

TINY = PRESETS["tiny"]
VALUES = decisive_values(TINY)


def with_value(name, value):
    section, _, field = name.rpartition(".")
    if not section:
        return replace(TINY, **{field: value})
    return replace(TINY, **{section: replace(getattr(TINY, section), **{field: value})})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model.heads", 1),
        ("model.activation", "gelu"),
        ("model.positions", "sinusoidal-concatenated"),
        ("model.first_position", 2),
        ("model.norm_epsilon", 1e-5),
        ("model.norm", "pre"),
        ("model.attention_bias", False),
        ("precision", "float64"),
        ("max_length", 7),
        ("model.masked_tokens", (5, 6)),
    ],
)
def test_an_edit_of_what_a_translation_depends_on_is_named(name, value):
    (edit,) = edits(VALUES, with_value(name, value), for_translation=True)
    assert edit.startswith(f"{name} is ")
    assert edits(VALUES, with_value(name, value)) == [edit]


@pytest.mark.parametrize(
    ("name", "value"), [("seed", 7), ("accumulate", 3), ("optimizer.beta1", 0.5), ("model.dropout", 0.5)]
)
def test_an_edit_of_training_alone_is_named_when_it_is_resumed(name, value):
    assert edits(VALUES, with_value(name, value))[0].startswith(f"{name} is {value} and was ")
    assert edits(VALUES, with_value(name, value), for_translation=True) == []


def test_what_may_change_is_free():
    free = {each.name for each in fields(RunConfig) if each.metadata.get("may_change")}
    assert not free & VALUES.keys()
    moved = replace(TINY, output=Path("elsewhere"), max_steps=7, beam=1, threads=3)
    assert edits(VALUES, moved) == []


def test_checkpoints_of_other_versions_raise_no_false_alarm():
    assert edits(None, TINY) == []
    assert edits({}, TINY) == []
    assert edits({"model.heads": VALUES["model.heads"], "of a later version": 1}, TINY) == []
    assert edits([1, 2], TINY) == []


def test_the_names_are_those_of_fields():
    assert {*TRAINING_ONLY, *TRANSLATION} <= VALUES.keys()
