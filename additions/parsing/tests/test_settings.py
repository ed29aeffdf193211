"""The settings and the presets of the task."""

from dataclasses import replace
from pathlib import Path

import pytest

from additions.parsing.settings import ParsingConfig, presets
from minitf.app.command_line import flags_of
from minitf.app.train import read_train_args
from minitf.config import PRESETS, RunConfig
from minitf.config.options import from_plain, to_plain
from minitf.config.removed import without_removed
from minitf.errors import UserError

FLAGS = [flag.name for flag in flags_of(RunConfig, ["parsing"]) if flag.dest.startswith("parsing.")]


def test_the_preset_of_the_wall_street_journal_is_that_of_section_6_3():
    config = presets()["parsing-wsj"].config
    assert (config.model.layers, config.model.d_model, config.vocab_size) == (4, 1024, 16_000)
    assert (config.beam, config.alpha, config.max_extra_length) == (21, 0.3, 300)
    assert config.task_options == ParsingConfig(form="symbols")


@pytest.mark.parametrize("name", presets())
def test_presets_know_their_names_and_search_as_the_paper_does(name):
    config, papers = presets()[name].config, presets()["parsing-wsj"].config
    assert read_train_args(["--preset", name]).config == config
    assert (config.preset, config.output) == (name, Path("runs") / name)
    for value in ("task", "beam", "alpha", "max_extra_length"):
        assert getattr(config, value) == getattr(papers, value)


def test_flags_set_the_options():
    assert [f"--parsing.{name}" for name in ("trees", "valid-trees", "test-trees", "tags", "form")] == FLAGS
    words = ["--preset", "parsing-tiny", "--parsing.trees", "/t", "--parsing.test-trees", "/e", "--parsing.tags=xx"]
    options = ParsingConfig(trees=Path("/t"), test_trees=Path("/e"), tags="xx")
    assert read_train_args(words).config == replace(presets()["parsing-tiny"].config, task_options=options)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--parsing.tags", "xx"], "--parsing.tags is of parsing, but the run learns translation"),
        (["--preset", "parsing-tiny", "--parsing.test-trees", "/e"], "test_trees is given without trees"),
        (["--preset", "parsing-tiny", "--train", "a", "b"], "task=parsing has data of its own; omit train"),
        (["--preset", "parsing-tiny", "--valid-metric", "bleu"], "valid_metric=bleu scores translations"),
        (
            ["--preset", "parsing-tiny", "--parsing.tag", "xx"],
            r"unknown flag --parsing.tag; did you mean",
        ),
        (["--preset", "parsing-tiyn"], "preset='parsing-tiyn' is unknown; did you mean parsing-tiny"),
    ],
)
def test_what_cannot_be_is_refused(words, message):
    with pytest.raises(UserError, match=message):
        read_train_args(words)


def test_a_configuration_comes_back_from_json_also_from_that_of_earlier_versions():
    config = replace(presets()["parsing-wsj"].config, task_options=ParsingConfig(trees=Path("/t"), tags="xx"))
    plain = to_plain(config)
    assert from_plain(RunConfig, plain) == config
    old = plain | {"parsing": plain.pop("task_options")}
    assert from_plain(RunConfig, without_removed(old, resuming=True, warn=print)) == config
    old = to_plain(PRESETS["tiny"]) | {"parsing": to_plain(ParsingConfig())}
    assert from_plain(RunConfig, without_removed(old, resuming=True, warn=print)) == PRESETS["tiny"]
