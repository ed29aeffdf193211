"""One folder, one run, one process."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from minitf.config import RunConfig
from minitf.errors import UserError
from minitf.storage.config_file import load_config
from minitf.storage.run_directory import RunDirectory

CONFIG = replace(RunConfig(), max_steps=7)
LATER = replace(CONFIG, max_steps=9)


def no_warning(message):
    raise AssertionError(message)


# ---- The folder ----


def test_a_new_run_keeps_its_configuration_and_environment(tmp_path):
    with RunDirectory.create(tmp_path / "runs" / "a", CONFIG) as run:
        assert run.config() == CONFIG
        assert run.environment_changes() == []
        assert json.loads(run.environment_path.read_text())["numpy"] == np.__version__
    assert sorted(os.listdir(run.path)) == ["config.json", "environment.json", "lock"]


def test_the_places_of_its_files(tmp_path):
    with RunDirectory.create(tmp_path, CONFIG) as run:
        places = [run.vocabulary_path, run.data_path, run.checkpoints_path, run.log_path]
    assert [place.relative_to(tmp_path) for place in places] == [
        *map(Path, ["vocabulary.model", "data", "checkpoints", "log.jsonl"])
    ]


@pytest.mark.parametrize("learned", ["log.jsonl", "checkpoints/step-00000001.safetensors", "checkpoints/x.damaged"])
def test_a_folder_with_a_run_is_refused(tmp_path, learned):
    RunDirectory.create(tmp_path, CONFIG).close()
    (tmp_path / learned).parent.mkdir(exist_ok=True)
    (tmp_path / learned).write_text("x")
    message = f"^{tmp_path} already holds a run; go on with --resume {tmp_path}, or give another --output$"
    with pytest.raises(UserError, match=message):
        RunDirectory.create(tmp_path, LATER)
    assert load_config(tmp_path / "config.json") == CONFIG
    assert (tmp_path / learned).exists()
    RunDirectory.resume(tmp_path, CONFIG).close()  # the refusal left no lock


def test_a_run_that_never_came_to_learn_is_replaced(tmp_path):
    """A wrong text or vocabulary ends a run in its preparation; the next try must not be sent elsewhere."""
    with RunDirectory.create(tmp_path, CONFIG) as run:
        run.vocabulary_path.write_text("of the first try")
        (run.data_path / "train").mkdir(parents=True)
        run.checkpoints_path.mkdir()
        run.log_path.write_text("")
        (tmp_path / "notes.txt").write_text("mine")
        (tmp_path / ".config.json.01234567.partial").write_text("of a killed process")
    with RunDirectory.create(tmp_path, LATER) as run:
        assert run.config() == LATER
    assert sorted(os.listdir(tmp_path)) == ["config.json", "environment.json", "lock", "notes.txt"]


@pytest.mark.parametrize("deadly", range(1, 17))
def test_a_creation_killed_at_any_rename_or_removal_can_be_repeated(tmp_path, deadly):
    with RunDirectory.create(tmp_path, CONFIG) as run:
        run.vocabulary_path.write_text("of the first try")
        (run.data_path / "train").mkdir(parents=True)
    program = f"""
import os, signal
from pathlib import Path
from minitf.config import RunConfig
from minitf.storage.run_directory import RunDirectory
count = 0
def dying(act):
    def counted(*arguments, **options):
        global count
        count += 1
        if count == {deadly}:
            os.kill(os.getpid(), signal.SIGKILL)
        return act(*arguments, **options)
    return counted
for name in ("rename", "replace", "unlink", "rmdir"):
    setattr(os, name, dying(getattr(os, name)))
RunDirectory.create(Path({str(tmp_path)!r}), RunConfig())
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode in (-signal.SIGKILL, 0)
    assert (ended.returncode == 0) == (deadly == 16)  # all of them have been tried
    with RunDirectory.create(tmp_path, LATER) as run:
        assert run.config() == LATER
    assert sorted(os.listdir(tmp_path)) == ["config.json", "environment.json", "lock"]


@pytest.mark.parametrize("own", ["{}", "[]", '{"minitf": "0.1.0"}', "not JSON"])
def test_files_of_someone_else_are_not_cleared_away(tmp_path, own):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    for name in ("config.json", "environment.json"):
        (tmp_path / name).write_text(own)
        with pytest.raises(UserError, match=r"already holds .*; empty it, or give another --output$"):
            RunDirectory.create(tmp_path, CONFIG)
    (tmp_path / "environment.json").write_text("{}")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"already holds .*; empty it, or give another --output$"):
        RunDirectory.create(tmp_path, CONFIG)
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine"


def test_what_a_killed_process_left_is_removed(tmp_path):
    RunDirectory.create(tmp_path, CONFIG).close()
    for name in (".config.json.01234567.partial", ".test.hypotheses.89abcdef.partial", ".notes.txt.01234567.partial"):
        (tmp_path / name).write_text("half")
    RunDirectory.resume(tmp_path, CONFIG).close()
    assert sorted(os.listdir(tmp_path)) == [".notes.txt.01234567.partial", "config.json", "environment.json", "lock"]


def test_parts_of_a_run_are_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(UserError, match=r"already holds data, log\.jsonl; empty it, or give another --output$"):
        RunDirectory.create(tmp_path, CONFIG)
    assert not (tmp_path / "config.json").exists()


def test_a_folder_with_other_files_can_be_used(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with RunDirectory.create(tmp_path, CONFIG):
        assert (tmp_path / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize("act", [RunDirectory.open, lambda path: RunDirectory.resume(path, CONFIG)])
def test_a_folder_without_a_run_is_refused(tmp_path, act):
    with pytest.raises(UserError, match=r"holds no run: config\.json is missing"):
        act(tmp_path)
    with pytest.raises(UserError, match=r"cannot look into .*: File name too long"):
        RunDirectory.open(tmp_path / ("a" * 300))
    with pytest.raises(UserError, match="absent is not a directory; give the folder of a training run"):
        act(tmp_path / "absent")
    assert os.listdir(tmp_path) == []


def test_a_resumed_run_has_the_new_values(tmp_path):
    RunDirectory.create(tmp_path, CONFIG).close()
    with RunDirectory.resume(tmp_path, LATER) as run:
        assert run.config() == LATER
    assert RunDirectory.open(tmp_path).config() == LATER


def test_a_path_that_cannot_be_a_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match=r"cannot create the folder .*file"):
        RunDirectory.create(tmp_path / "file", CONFIG)
    with pytest.raises(UserError, match=r"cannot create the folder .*one of its parts is a file"):
        RunDirectory.create(tmp_path / "file" / "a", CONFIG)


def test_a_full_disk_leaves_no_run_and_no_lock(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(UserError, match="No space left on device; free some space"):
            RunDirectory.create(tmp_path, CONFIG)
    with pytest.raises(UserError, match="holds no run"):
        RunDirectory.open(tmp_path)
    RunDirectory.create(tmp_path, CONFIG).close()


# ---- The lock ----

HOLDER = """
import sys, time
from pathlib import Path
from minitf.config import RunConfig
from minitf.storage.run_directory import RunDirectory
run = RunDirectory.{verb}(Path(sys.argv[1]), RunConfig())
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process at work in the folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER.format(verb="create"), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused_and_told_of_the_first(tmp_path, holder):
    message = f"^{tmp_path} is in use by process {holder.pid} on .*; wait until it has ended, or give another --output$"
    for verb in (RunDirectory.create, RunDirectory.resume):
        with pytest.raises(UserError, match=message):
            verb(tmp_path, CONFIG)
    assert RunDirectory.open(tmp_path).config() == RunConfig()  # reading is free, and nothing was written
    ended = subprocess.run(
        [sys.executable, "-c", HOLDER.format(verb="resume"), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert f"is in use by process {holder.pid}" in ended.stderr


def test_a_killed_process_leaves_no_lock(tmp_path, holder):
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    with RunDirectory.resume(tmp_path, CONFIG) as run:
        assert f"process {os.getpid()} " in (run.path / "lock").read_text()


def test_the_lock_ends_with_the_block(tmp_path):
    with RunDirectory.create(tmp_path, CONFIG), pytest.raises(UserError, match=f"in use by process {os.getpid()} on"):
        RunDirectory.resume(tmp_path, CONFIG)
    RunDirectory.resume(tmp_path, CONFIG).close()


def test_programs_started_by_the_holder_do_not_inherit_the_lock(tmp_path):
    with RunDirectory.create(tmp_path, CONFIG):
        child = subprocess.Popen(["sleep", "60"], close_fds=False)
    try:
        RunDirectory.resume(tmp_path, CONFIG).close()
    finally:
        child.kill()
        child.wait()


# ---- The environment ----


def test_changes_of_the_environment_are_told(tmp_path):
    with RunDirectory.create(tmp_path, CONFIG) as run:
        facts = json.loads(run.environment_path.read_text())
        run.environment_path.write_text(json.dumps(facts | {"numpy": "1.0"}))
        assert run.environment_changes() == [f"numpy was 1.0 and is {np.__version__}"]
        run.environment_path.write_text("[]")
        with pytest.raises(UserError, match=r"environment\.json: it is not an object"):
            run.environment_changes()
        run.environment_path.unlink()
        assert run.environment_changes() == ["environment.json has gone"]
