"""One folder, one run, one process; a log of whole lines."""

import json
import math
import os
import platform
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
from minitf.storage.run_directory import RunDirectory, RunLog, read_log
from minitf.system.environment import changes, environment_facts, project_version

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


@pytest.mark.parametrize("deadly", range(1, 11))
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
for name in ("replace", "unlink", "rmdir"):
    setattr(os, name, dying(getattr(os, name)))
RunDirectory.create(Path({str(tmp_path)!r}), RunConfig())
"""
    ended = subprocess.run([sys.executable, "-c", program], check=False)
    assert ended.returncode in (-signal.SIGKILL, 0)
    assert (ended.returncode == 0) == (deadly == 10)  # all of them have been tried
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
    with pytest.raises(UserError, match="absent is no folder; give the folder of a training run"):
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
    def fail(*_):
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


# ---- The log ----


@pytest.fixture
def log(tmp_path):
    with RunLog(tmp_path / "log.jsonl") as opened:
        yield opened


def test_lines_are_appended_and_read(log):
    log.append({"step": 1, "loss": 0.1, "text": "ü\n"})
    with RunLog(log.path) as again:
        again.append({"step": 2})
    assert read_log(log.path) == [{"step": 1, "loss": 0.1, "text": "ü\n"}, {"step": 2}]
    assert log.path.read_bytes().count(b"\n") == 2


def test_numbers_that_json_lacks_can_be_read_back(log):
    log.append({"loss": math.nan, "norms": [math.inf, -math.inf, np.float64("nan"), 1.5]})
    (record,) = read_log(log.path)
    assert record == {"loss": "nan", "norms": ["inf", "-inf", "nan", 1.5]}
    assert math.isnan(float(record["loss"]))


def test_what_json_lacks_otherwise_is_refused_before_writing(log):
    with pytest.raises(TypeError):
        log.append({"loss": np.float32(1)})
    assert log.offset == 0


def test_the_log_goes_back_to_where_a_checkpoint_was(log):
    offsets = [log.offset]
    for step in range(3):
        log.append({"step": step})
        offsets.append(log.offset)
    log.truncate_to(offsets[2], no_warning)
    log.append({"step": "again"})
    assert read_log(log.path) == [{"step": 0}, {"step": 1}, {"step": "again"}]
    log.truncate_to(0, no_warning)
    assert log.path.read_bytes() == b""


def test_a_log_that_lost_lines_is_told_and_kept(log):
    log.append({"step": 1})
    size = log.offset
    told = []
    log.truncate_to(size + 5, told.append)
    assert told == [f"{log.path} has {size} bytes, but had {size + 5} at the checkpoint: some of its lines are lost"]
    assert read_log(log.path) == [{"step": 1}]


def test_an_edited_log_is_refused(log):
    log.append({"step": 1})
    log.append({"step": 2})
    before = log.path.read_bytes()
    with pytest.raises(UserError, match="no end of line at byte 5: it was edited"):
        log.truncate_to(5, no_warning)
    assert log.path.read_bytes() == before


@pytest.mark.parametrize("half", ['{"step', '{"step": 2}', "x" * 200_000])
def test_half_a_line_of_a_killed_process(log, half):
    log.append({"step": 1})
    with open(log.path, "a") as file:
        file.write(half)
    assert read_log(log.path) == [{"step": 1}]  # the writer may be about to end it
    with RunLog(log.path) as again:
        again.append({"step": 3})
    assert read_log(log.path) == [{"step": 1}, {"step": 3}]


def test_a_file_of_half_a_line_only(tmp_path):
    (tmp_path / "a").write_text("x" * 100_000)
    with RunLog(tmp_path / "a") as log:
        assert log.offset == 0


def test_a_full_disk_leaves_whole_lines(log, monkeypatch):
    log.append({"step": 1})
    write = os.write
    calls = []

    def half(descriptor, content):
        calls.append(len(content))
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return write(descriptor, content[:4])

    monkeypatch.setattr(os, "write", half)
    with pytest.raises(UserError, match=r"cannot write .*log.jsonl: No space left on device; free some space"):
        log.append({"step": 2})
    assert log.path.read_bytes() == b'{"step": 1}\n'


def test_a_line_written_in_parts_is_whole(log, monkeypatch):
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, content: write(descriptor, content[:3]))
    log.append({"step": 1, "loss": 2.5})
    assert read_log(log.path) == [{"step": 1, "loss": 2.5}]


def test_sync_reaches_the_disk(log, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", flushed.append)
    log.sync()
    assert len(flushed) == 1


@pytest.mark.parametrize(
    ("line", "message"), [("{", "line 2: Expecting"), ("[1]", "line 2: it is not an object"), ("", "line 2: Expecting")]
)
def test_a_line_that_is_no_record_is_named(tmp_path, line, message):
    (tmp_path / "a").write_text('{"step": 1}\n' + line + "\n")
    with pytest.raises(UserError, match=f"a, {message}"):
        read_log(tmp_path / "a")


def test_no_log(tmp_path):
    with pytest.raises(UserError, match="No such file"):
        read_log(tmp_path / "a")
    with pytest.raises(UserError, match="cannot open"):
        RunLog(tmp_path / "absent" / "a")


def test_a_closed_log_says_so(tmp_path):
    log = RunLog(tmp_path / "a")
    log.close()
    log.close()
    with pytest.raises(ValueError, match="is closed"):
        log.append({})


# ---- The environment ----


def test_facts():
    facts = environment_facts()
    assert facts["python"].endswith(platform.python_version())
    assert facts["numpy"] == np.__version__
    assert facts["minitf"] == project_version()
    assert facts["blas"] != "unknown unknown"
    assert all(isinstance(value, str) and value for value in facts.values())


def test_changes_are_told(tmp_path):
    before = {"numpy": "2.0", "python": "3.11", "old": "x"}
    now = {"numpy": "2.1", "python": "3.11", "new": "y"}
    assert changes(before, now) == [
        "numpy was 2.0 and is 2.1",
        "old was x and is not recorded",
        "new was not recorded and is y",
    ]
    with RunDirectory.create(tmp_path, CONFIG) as run:
        facts = json.loads(run.environment_path.read_text())
        run.environment_path.write_text(json.dumps(facts | {"numpy": "1.0"}))
        assert run.environment_changes() == [f"numpy was 1.0 and is {np.__version__}"]
        run.environment_path.write_text("[]")
        with pytest.raises(UserError, match=r"environment\.json: it is not an object"):
            run.environment_changes()
        run.environment_path.unlink()
        assert run.environment_changes() == ["environment.json has gone"]
