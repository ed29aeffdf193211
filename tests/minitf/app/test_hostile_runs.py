"""A run that somebody else has made: no command follows its links, waits for its pipes, or writes outside of it."""

import os
import shutil

import pytest

from minitf import __main__ as commands
from minitf.errors import UserError
from tests.helpers.runs import FLAGS, call, write_corpus

pytestmark = pytest.mark.heavy

PLACES = {
    "log.jsonl": "link",
    "checkpoints": "link to a folder",
    "lock": "pipe",
    "data/texts/test.target": "link",
    "report.html": "dangling link",
}


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
    assert call([*map(str, flags), *FLAGS, "--output", str(run), "--max-steps", "2"]) == 0
    return run


def commands_of_a_run(run, texts, out):
    """Every command that is given a run, the one that may change it most the last."""
    yield "report", run, "--output", out / "report.html"
    yield "translate", run, "--input", texts / "valid.en", "--output", out / "plain"
    yield "pack", run, "--output", out / "packed"
    yield "train", "--resume", run, "--max-steps", "9"


def content(folder):
    return {path: path.is_file() and path.read_bytes() for path in folder.rglob("*")}


@pytest.mark.parametrize(("name", "kind"), PLACES.items())
def test_a_run_with_a_link_or_a_pipe_is_refused_by_every_command(trained, texts, tmp_path, name, kind):
    run, outside, out = tmp_path / "run", tmp_path / "outside", tmp_path / "out"
    shutil.copytree(trained, run)
    (outside / "folder").mkdir(parents=True)
    (outside / "authorized_keys").write_text("nobody's but mine\n")
    out.mkdir()
    path = run / name
    shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        target = {"link": "authorized_keys", "link to a folder": "folder", "dangling link": "created"}[kind]
        path.symlink_to(outside / target)
    before = content(outside), content(run)
    for line in commands_of_a_run(run, texts, out):
        with pytest.raises(UserError, match=f"{name} is a .*, which a run cannot hold; put the file itself"):
            commands.run([str(part) for part in line])
    assert (content(outside), content(run)) == before
    assert list(out.iterdir()) == []


def test_commands_that_do_not_train_leave_a_run_as_it_is(trained, texts, tmp_path):
    before = content(trained)
    for line in [*commands_of_a_run(trained, texts, tmp_path)][:-1]:
        commands.run([str(part) for part in line])
    assert content(trained) == before


def test_a_link_that_the_user_has_named_is_followed(trained, tmp_path):
    (tmp_path / "mine").symlink_to(tmp_path / "page")
    commands.run(["report", str(trained), "--output", str(tmp_path / "mine")])
    assert (tmp_path / "mine").is_symlink()
    assert "<title>" in (tmp_path / "page").read_text()
