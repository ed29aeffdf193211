"""Fixtures of several rooms, imported by their conftests: directories of runs."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from minitf.config import PRESETS, RunConfig
from minitf.data.vocabulary import AnyVocabulary, Vocabulary, sized
from minitf.decoding import lines
from minitf.decoding.search import BeamSearchConfig
from minitf.model.transformer import Transformer
from minitf.storage.checkpoints import Checkpoints, with_prefix
from minitf.storage.run_directory import RunDirectory
from tests.helpers.runs import Ground, prepared_ground

SENTENCES = [
    "the cat sat on the mat. the dog did not, and the bird sang!",
    "a house, a tree and a garden; two houses, three trees, four gardens?",
    "die Katze saß auf der Matte. der Hund nicht, und der Vogel sang!",
    "ein Haus, ein Baum und ein Garten; zwei Häuser, drei Bäume, vier Gärten?",
]

MakeRun = Callable[..., Path]


@pytest.fixture(scope="session")
def tiny_vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    """Byte pieces, characters and a few merges."""
    return Vocabulary.train(SENTENCES, 350, tmp_path_factory.mktemp("vocabulary") / "vocabulary.model")


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory, tiny_vocabulary: Vocabulary) -> MakeRun:
    """make_run(steps=(1, 2, 3), **settings of RunConfig): a run whose checkpoints hold different random weights.

    vocabulary: another one than the tiny one
    """

    def make(
        steps: tuple[int, ...] = (1, 2, 3), vocabulary: AnyVocabulary = tiny_vocabulary, **settings: object
    ) -> Path:
        tiny = PRESETS["tiny"]
        small = replace(tiny.model, layers=2, d_model=16, d_ff=32, heads=2)
        config: RunConfig = replace(tiny, **{"model": small, **settings})  # type: ignore[arg-type]
        path = tmp_path_factory.mktemp("runs") / "run"
        with RunDirectory.create(path, config) as run:
            vocabulary.save(run.path / vocabulary.file_name)
            store = Checkpoints(run.checkpoints_path, keep=max(1, len(steps)))
            for step in steps:
                model = Transformer(sized(config.model, vocabulary), seed=step, dtype=config.dtype)
                weights = {name: parameter.data for name, parameter in model.named_parameters().items()}
                store.save(step, with_prefix("model.", weights), {})
        return path

    return make


@pytest.fixture(scope="session")
def tiny_run(make_run: MakeRun) -> Path:
    """One such run, for tests that only read it."""
    return make_run()


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    """A corpus, flags for training runs of a second on it, and the fingerprint that these must have."""
    with prepared_ground() as made:
        yield made


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[BeamSearchConfig]:
    """The configurations that translators have called beam_search with."""
    seen = []
    search = lines.beam_search

    def spy(model: Any, source: Any, config: BeamSearchConfig, *others: Any) -> Any:
        seen.append(config)
        return search(model, source, config, *others)

    monkeypatch.setattr(lines, "beam_search", spy)
    return seen
