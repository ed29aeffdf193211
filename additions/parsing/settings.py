"""The settings and the presets of the task "parsing": see minitf/config/task_settings.py."""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from minitf.config import PRESETS
from minitf.config.options import check_fields, option
from minitf.config.presets import Preset, varied
from minitf.errors import UserError


@dataclass(frozen=True, kw_only=True)
class ParsingConfig:
    """The trees of a run, and their tokens (section 6.3)."""

    trees: Path | None = option(
        None, "training treebank, in brackets; none: the built-in treebank, drawn from a grammar"
    )
    valid_trees: Path | None = option(
        None, "validation treebank; none: the twentieth of the trees before the test trees"
    )
    test_trees: Path | None = option(None, "test treebank, scored at the end; none: the last twentieth of the trees")
    tags: Literal["pos", "xx"] = option(
        "pos", "pos: learn the part of speech of each word; xx: one tag for all words except punctuation"
    )
    form: Literal["joined", "symbols"] = option(
        "joined",
        "joined: one token per word, made of its tag and the brackets around it; symbols: one token per bracket, as in "
        "the paper's reference 37, three times as long",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.trees is None and (self.valid_trees or self.test_trees):
            given = "valid_trees" if self.valid_trees else "test_trees"
            raise UserError(f"{given} is given without trees; the built-in treebank includes its own: give trees, too")


SEARCH: dict[str, Any] = {"task": "parsing", "max_length": 512, "beam": 21, "alpha": 0.3, "max_extra_length": 300}


def _preset(start: str, name: str, about: str, **values: Any) -> Preset:
    values = {**SEARCH, **values}
    return Preset(varied(PRESETS[start], name, **values), about, "parsing")


def presets() -> Mapping[str, Preset]:
    """Return the presets: of the built-in treebank, of a small one, of the Wall Street Journal."""
    found = (
        _preset(
            "tiny",
            "parsing-tiny",
            "the built-in treebank on a laptop, in minutes",
            # normalising first, at a higher rate, soonest learns which word is next
            model={"norm": "pre"},
            optimizer={"peak_learning_rate": 0.004},
            vocab_size=1_200,
            max_steps=1_250,
            valid_every=200,
        ),
        _preset(
            "small",
            "parsing-small",
            "a treebank of some 10,000 trees on a laptop; give --parsing.trees",
            optimizer={"warmup_steps": 600, "peak_learning_rate": 0.0015},
            vocab_size=4_000,
            max_tokens_per_batch=2_048,
        ),
        _preset(
            "base",
            "parsing-wsj",
            "Table 4, Wall Street Journal only; give --parsing.trees of sections 02 to 21",
            # "All other parameters" of the base model stayed; dropout and learning rate, chosen on development
            # data, are those of the first public code
            model={"layers": 4, "d_model": 1024, "dropout": 0.2, "attention_dropout": 0.2},
            optimizer={"warmup_steps": 16_000, "learning_rate_scale": 0.5},
            vocab_size=16_000,
            task_options=ParsingConfig(form="symbols"),
        ),
    )
    return {preset.name: preset for preset in found}


OPTIONS, ABOUT = ParsingConfig, "Parsing (section 6.3)"
