"""Runs whose files are damaged or gone: what can be made again is, and what cannot is named in one sentence."""

import os
import random
import shutil

import pytest

from minitf.storage.run_directory import CONFIG_NAME, ENVIRONMENT_NAME, LOG_NAME, VOCABULARY_NAME
from tests.helpers.marks import parametrize_some
from tests.helpers.runs import call, flip

pytestmark = pytest.mark.heavy


@pytest.fixture
def run(ground, halfway):
    """A copy of a run that stopped before its end."""
    return shutil.copytree(halfway, ground.new())


def resume(ground, run):
    last = ground.flags[ground.flags.index("--max-steps") + 1]
    return ground.child(lambda: call(["--resume", str(run), "--max-steps", last]))


def finish(ground, run, *words):
    """Resume a run, expect `words` in its output, and compare the result with the reference."""
    assert resume(ground, run) == 0, ground.said
    assert all(word in ground.said for word in words), ground.said
    for path in run.rglob("*.damaged"):
        path.unlink()
    ground.compare(run)


def refused(ground, run, *words):
    """Expect one error with `words` where a run is to be resumed."""
    assert resume(ground, run) == 2, ground.said
    (error,) = [line for line in ground.said.splitlines() if line.startswith("error: ")]
    assert all(word in error for word in words), error


def checkpoints_of(run):
    return sorted((run / "checkpoints").glob("step-*.safetensors"))


@parametrize_some("newest", [2, 1])
def test_an_older_checkpoint_is_used_where_the_newest_are_damaged(ground, run, newest):
    harmed = checkpoints_of(run)[-newest:]
    for path in harmed:
        flip(path, path.stat().st_size - 9, 3)
    os.truncate(harmed[0], 1000)
    finish(ground, run, *[f"warning: the checkpoint {path} is damaged" for path in harmed])


def test_nothing_is_deleted_where_no_checkpoint_is_intact(ground, run):
    before = checkpoints_of(run)
    for path in before:
        flip(path, 100, 0)
    refused(ground, run, "none of the", "is intact")
    assert checkpoints_of(run) == before
    for path in before:
        flip(path, 100, 0)
    finish(ground, run)


def append(name, data):
    def harm(run):
        with open(run / name, "ab") as file:
            file.write(data)

    return harm


def flip_one(pattern):
    def harm(run):
        path = sorted(run.glob(pattern))[-1]
        flip(path, random.Random(1).randrange(path.stat().st_size), 3)

    return harm


def remove(pattern):
    return lambda run: sorted(run.glob(pattern))[0].unlink()


HARMS = {  # what is done to the files, and what resuming says of it
    "half a line at the end of the log": (append(LOG_NAME, b'{"step": 1'), ""),
    "vocabulary gone": (remove(VOCABULARY_NAME), "learning a joint vocabulary"),
    "prepared ids, a bit": (flip_one("data/*/*.ids"), ""),
    "lines of the log that no checkpoint knows": (append(LOG_NAME, b'{"step": 99}\n' * 9), ""),
    "prepared offsets, a bit": (flip_one("data/*/*.offsets"), ""),
    "description of prepared ids, a bit": (flip_one("data/*/prepared.json"), ""),
    "prepared ids gone": (remove("data/*/*.ids"), ""),
    "prepared data gone": (lambda run: shutil.rmtree(run / "data"), ""),
    "record of versions gone": (remove(ENVIRONMENT_NAME), "note: environment.json has gone"),
    "translations gone": (remove("test.hypotheses"), ""),
    "half a checkpoint": (append("checkpoints/.step-00000010.safetensors.00000000.partial", b"x"), ""),
    "half a vocabulary": (append(".vocabulary.model.00000000.partial", b"x"), ""),
}


@parametrize_some("harm", HARMS, keep=2)
def test_what_can_be_made_again_is(ground, run, harm):
    do, said = HARMS[harm]
    do(run)
    finish(ground, run, said)


@parametrize_some(("name", "content"), [(CONFIG_NAME, b"{"), (VOCABULARY_NAME, b"no model"), (ENVIRONMENT_NAME, b"[]")])
def test_what_cannot_be_made_again_is_named(ground, run, name, content):
    right = (run / name).read_bytes()
    (run / name).write_bytes(content)
    refused(ground, run, name)
    (run / name).write_bytes(right)
    finish(ground, run)
