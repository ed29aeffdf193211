"""A run or a working directory that somebody else has made: no command writes outside of it or waits for its pipes."""

import os
import shutil
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from minitf.app import commands
from minitf.errors import UserError
from tests.helpers.marks import parametrize_some
from tests.helpers.runs import FLAGS, call, write_corpus

pytestmark = pytest.mark.heavy

IN_RUN = [
    *("config.json", "environment.json", "vocabulary.model", "vocabulary.json", "log.jsonl", "report.html", "lock"),
    *("test.hypotheses", "checkpoints", "data", "data/train", "data/valid", "data/texts", "data/prepare.lock"),
    *("data/texts/valid.source", "data/texts/test.target", "data/valid/prepared.json", "data/train/source.ids"),
    "step.html",
]
IN_FOLDER = [
    *("step.html", "translator.html", "train.en", "valid.de", "test.en", "train.words", "train.tokens"),
    *("progress.json", "ex01.py"),
]


def runs_commands(run, texts, out):
    """Every command that is given a run, the one that may change it most the last."""
    source, target = texts / "valid.en", texts / "valid.de"
    yield "report", run
    yield "page", run, "--output", out / "translator.html"
    yield "step", run, "--output", out / "step.html"
    yield "translate", run, "--input", source, "--output", out / "plain", "--max-length", "4"
    yield "shortlist", run, source, target, "--output", out / "shortlist"
    yield "export", run, out / "exported", "--format", "ctranslate2"
    yield "pack", run, "--output", out / "packed"
    yield "pack", run, "--resumable", "--output", out / "resumable"
    yield "import", run, out / "imported"
    yield "train", "--resume", run, "--max-steps", "9"


def folders_commands(texts, run):
    """Every command that writes files whose names the user has not given, into the working directory."""
    pairs = ["--train-pairs", "20", "--valid-pairs", "4", "--test-pairs", "4"]
    yield "page", run
    yield "step", "--pair", "ein Hund", "a dog"
    yield "corpus", ".", *pairs
    yield "split", texts / "train.en", texts / "train.de", "--valid", "4", "--test", "4", "--output", "."
    yield "parse", "treebank", ".", "--train-trees", "20", "--valid-trees", "4", "--test-trees", "4"
    yield "learn", "start", "1"
    yield "learn", "hint", "1"


PATIENCE_S = 60  # only a command that waits for ever takes so long, also on a busy machine
KINDS = ["link", "pipe", "dangling link", "socket", "folder", "link to a device", "link to a folder"]


def put(kind, path, outside):
    """Put something else in the place of a file or folder."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to(outside / "authorized_keys")
    elif kind == "dangling link":
        path.symlink_to(outside / "created")
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        descriptor = os.open(path.parent, os.O_RDONLY)  # the name of a socket has at most 107 bytes
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(f"/proc/self/fd/{descriptor}/{path.name}")
        os.close(descriptor)
    elif kind == "folder":
        path.mkdir()
    elif kind == "link to a device":
        path.symlink_to("/dev/zero")
    else:
        path.symlink_to(outside / "folder")


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("texts")
    write_corpus(folder)
    return folder


@pytest.fixture(scope="module")
def trained(tmp_path_factory, texts):
    """A run that is not finished, with all its files."""
    run = tmp_path_factory.mktemp("runs") / "run"
    flags = [
        part
        for name in ("train", "valid", "test")
        for part in (f"--{name}", texts / f"{name}.en", texts / f"{name}.de")
    ]
    assert call([*map(str, flags), *FLAGS, "--output", str(run), "--max-steps", "8"]) == 0
    return run


@pytest.fixture
def outside(tmp_path):
    folder = tmp_path / "outside"
    (folder / "folder").mkdir(parents=True)
    (folder / "authorized_keys").write_text("nobody's but mine\n")
    (folder / "authorized_keys").chmod(0o600)
    (folder / "folder" / "mine").write_text("mine\n")
    return folder


def state_of(folder):
    """All that can change in a folder."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.is_file() and path.read_bytes(),
        )
        for path in [folder, *folder.rglob("*")]
    }


class ItWaitsError(BaseException):
    """Not an Exception: commands make a sentence of a TimeoutError."""


@contextmanager
def at_most(seconds: float) -> Iterator[None]:
    def too_long(*_):
        raise ItWaitsError

    before = signal.signal(signal.SIGALRM, too_long)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def survive(line, outside):
    """Run a command, which ends by itself, with a result or a sentence, and changes nothing outside."""
    before = state_of(outside)
    with at_most(PATIENCE_S), suppress(UserError, SystemExit):
        commands.main([str(part) for part in line])
    assert state_of(outside) == before, line


@parametrize_some("name", IN_RUN, keep=range(0, len(IN_RUN), 2))
def test_no_command_leaves_a_run(trained, texts, outside, tmp_path, name):
    """Every command with every file; all kinds of files in turn."""
    run, out = tmp_path / "run", tmp_path / "out"
    out.mkdir()
    for number, line in enumerate(runs_commands(run, texts, out), start=IN_RUN.index(name)):
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(trained, run)
        put(KINDS[number % len(KINDS)], run / name, outside)
        survive(line, outside)


@pytest.mark.parametrize("kind", KINDS)
def test_a_report_is_written_into_its_run(trained, outside, tmp_path, kind):
    run = tmp_path / "run"
    shutil.copytree(trained, run)
    put(kind, run / "report.html", outside)
    survive(["report", run], outside)
    assert (run / "report.html").is_dir() if kind == "folder" else "<title>" in (run / "report.html").read_text()
    assert not (run / "report.html").is_symlink()


@parametrize_some("kind", KINDS, keep=3)
def test_no_command_leaves_the_working_directory(trained, texts, outside, tmp_path, monkeypatch, kind):
    folder = tmp_path / "folder"
    for line in folders_commands(texts, trained):
        if line[0] == "step" and kind not in ("link", "pipe"):
            continue  # it takes seconds
        for name in IN_FOLDER:
            put(kind, folder / name, outside)
        monkeypatch.chdir(folder)
        survive(line, outside)


def test_a_link_that_the_user_has_named_is_followed(trained, tmp_path):
    (tmp_path / "mine").symlink_to(tmp_path / "page")
    commands.main(["report", str(trained), "--output", str(tmp_path / "mine")])
    assert (tmp_path / "mine").is_symlink()
    assert "<title>" in (tmp_path / "page").read_text()


def test_every_command_is_here_that_reads_a_run_or_writes_files_of_its_own_names(texts, tmp_path):
    named = {line[0] for line in (*runs_commands(tmp_path, texts, tmp_path), *folders_commands(texts, tmp_path))}
    assert named == set(commands.COMMANDS) - {"bleu", "statistics", "presets", "completion"}
