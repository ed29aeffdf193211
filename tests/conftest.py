"""What tests of several rooms need: a complete run directory of a tiny model that has learned nothing."""

import signal
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autograd import random
from autograd.testing import Errors
from minitf.config import PRESETS, RunConfig
from minitf.data.vocabulary import Vocabulary
from minitf.model.transformer import Transformer
from minitf.storage.checkpoint import CheckpointStore, with_prefix
from minitf.storage.run_directory import RunDirectory
from tests.emulation.device import why_no_gpu
from tests.torture.kills import Ground, prepared_ground

SENTENCES = [
    "the cat sat on the mat. the dog did not, and the bird sang!",
    "a house, a tree and a garden; two houses, three trees, four gardens?",
    "die Katze saß auf der Matte. der Hund nicht, und der Vogel sang!",
    "ein Haus, ein Baum und ein Garten; zwei Häuser, drei Bäume, vier Gärten?",
]

MakeRun = Callable[..., Path]


@pytest.fixture(autouse=True)
def random_numbers_of_others() -> Iterator[None]:
    """Leave this thread's random numbers as they were found, so that the order of the tests does not matter."""
    state, first_row = random.get_state(), random.get_first_row()
    yield
    random.set_state(state)
    random.set_first_row(first_row)


@pytest.fixture(scope="session")
def tiny_vocabulary(tmp_path_factory: pytest.TempPathFactory) -> Vocabulary:
    """Byte pieces, characters and a few merges."""
    return Vocabulary.train(SENTENCES, 350, tmp_path_factory.mktemp("vocabulary") / "vocabulary.model")


@pytest.fixture(scope="session")
def make_run(tmp_path_factory: pytest.TempPathFactory, tiny_vocabulary: Vocabulary) -> MakeRun:
    """make_run(steps=(1, 2, 3), **settings of RunConfig): a run whose checkpoints hold different random weights."""

    def make(steps: tuple[int, ...] = (1, 2, 3), **settings: object) -> Path:
        tiny = PRESETS["tiny"]
        small = replace(tiny.model, layers=2, d_model=16, d_ff=32, heads=2)
        config: RunConfig = replace(tiny, **{"model": small, **settings})  # type: ignore[arg-type]
        path = tmp_path_factory.mktemp("runs") / "run"
        with RunDirectory.create(path, config) as run:
            tiny_vocabulary.save(run.vocabulary_path)
            store = CheckpointStore(run.checkpoints_path, keep=max(1, len(steps)))
            for step in steps:
                model = Transformer(
                    replace(config.model, vocab_size=len(tiny_vocabulary)), seed=step, dtype=config.dtype
                )
                weights = {name: parameter.data for name, parameter in model.named_parameters().items()}
                store.save(step, with_prefix("model.", weights), {})
        return path

    return make


@pytest.fixture(scope="session")
def ground() -> Iterator[Ground]:
    """A corpus, flags for runs of a moment on it, and what such a run must come to."""
    with prepared_ground() as made:
        yield made


@pytest.fixture(scope="session")
def tiny_run(make_run: MakeRun) -> Path:
    """One such run, for tests that only read it."""
    return make_run()


def pytest_configure() -> None:
    """Programs under test inherit which signals are ignored: under nohup, or behind `&` in a script, some are."""
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, usual)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and (reason := why_no_gpu()):
        pytest.skip(reason)


class Proof:
    """How many examples of gradients were checked in this run, and the worst error of all."""

    def __init__(self) -> None:
        self.names: dict[str, set[str]] = {}
        self.examples = 0
        self.errors = Errors()

    def add(self, kind: str, name: str, errors: Errors) -> None:
        self.names.setdefault(kind, set()).add(name)
        self.examples += 1
        self.errors = self.errors.merge(errors)

    def to_plain(self) -> dict[str, Any]:
        """As strings and numbers, to be sent from process to process."""
        return {
            "names": {kind: sorted(names) for kind, names in self.names.items()},
            "examples": self.examples,
            "errors": list(self.errors),
        }

    def add_plain(self, other: dict[str, Any]) -> None:
        """What another process has checked."""
        for kind, names in other["names"].items():
            self.names.setdefault(kind, set()).update(names)
        self.examples += other["examples"]
        self.errors = self.errors.merge(Errors(*other["errors"]))

    def __str__(self) -> str:
        counts = ", ".join(f"{len(names)} {kind}" for kind, names in sorted(self.names.items()))
        sources = zip(("differences", "complex steps", "plain compositions"), self.errors, strict=True)
        worst = ", ".join(f"{error:.0e} from {source}" for source, error in sources if error is not None)
        return f"gradients: {counts}, {self.examples:,} examples; worst error {worst}"


_proof = Proof()


@pytest.fixture(scope="session")
def proof() -> Proof:
    return _proof


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of several (`pytest -n`) hands over what it has checked."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["proof"] = _proof.to_plain()


@pytest.hookimpl(optionalhook=True)  # of pytest-xdist
def pytest_testnodedown(node: Any) -> None:
    """The process that sums up takes it."""
    if "proof" in getattr(node, "workeroutput", {}):  # not there if the process has died
        _proof.add_plain(node.workeroutput["proof"])


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _proof.examples:
        terminalreporter.write_line(str(_proof))
