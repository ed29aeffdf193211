"""One folder, one run, one process."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from additions.pages.run_log import is_training
from minitf.config import PRESETS, OptimizerConfig, RunConfig, TransformerConfig
from minitf.errors import UserError
from minitf.storage.run_directory import RunDirectory, load_config, save_config

CONFIG = replace(RunConfig(), max_steps=7)
LATER = replace(CONFIG, max_steps=9)


# ---- The folder ----


def test_a_new_run_keeps_its_configuration_and_environment(tmp_path):
    with RunDirectory.create(tmp_path / "runs" / "a", CONFIG) as run:
        assert run.config() == CONFIG
        assert run.environment_changes() == []
        facts = json.loads(run.environment_path.read_text())
        assert facts["numpy"] == np.__version__
        run.environment_path.write_text(json.dumps({**facts, "numpy": "0.9", "old": "x"}))
        changes = [f"numpy was 0.9 and is {np.__version__}", "old was x and is not recorded"]
        assert run.environment_changes() == changes
    assert sorted(os.listdir(run.path)) == ["config.json", "environment.json", "lock"]


@pytest.mark.parametrize("learned", ["log.jsonl", "checkpoints/step-00000001.safetensors", "checkpoints/x.damaged"])
def test_a_folder_with_a_run_is_refused(tmp_path, learned):
    RunDirectory.create(tmp_path, CONFIG).close()
    (tmp_path / learned).parent.mkdir(exist_ok=True)
    (tmp_path / learned).write_text("x")
    message = f"^{tmp_path} already contains a run; continue it with --resume {tmp_path}, or give another --output$"
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


@pytest.mark.parametrize("own", ["{}", "[]", '{"minitf": "0.1.0"}', "not JSON"])
def test_files_of_someone_else_are_not_cleared_away(tmp_path, own):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "mine.txt").write_text("mine")
    for name in ("config.json", "environment.json"):
        (tmp_path / name).write_text(own)
        with pytest.raises(UserError, match=r"already contains .*; empty it, or give another --output$"):
            RunDirectory.create(tmp_path, CONFIG)
    (tmp_path / "environment.json").write_text("{}")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(UserError, match=r"already contains .*; empty it, or give another --output$"):
        RunDirectory.create(tmp_path, CONFIG)
    assert (tmp_path / "data" / "mine.txt").read_text() == "mine"


def test_what_a_killed_process_left_is_removed(tmp_path):
    RunDirectory.create(tmp_path, CONFIG).close()
    (tmp_path / "data").mkdir()
    for name in (".config.json.01234567.partial", "data/.a.ids.89abcdef.partial"):
        (tmp_path / name).write_text("half")
    RunDirectory.resume(tmp_path, CONFIG).close()
    assert sorted(os.listdir(tmp_path)) == ["config.json", "data", "environment.json", "lock"]
    assert os.listdir(tmp_path / "data") == []


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "run").write_text("mine")
    with pytest.raises(UserError, match="File exists; a file has this name; choose another"):
        RunDirectory.create(tmp_path / "run", CONFIG)


def test_parts_of_a_run_are_refused(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(UserError, match=r"already contains data, log\.jsonl; empty it, or give another --output$"):
        RunDirectory.create(tmp_path, CONFIG)
    assert not (tmp_path / "config.json").exists()


@pytest.mark.parametrize("act", [RunDirectory.open, lambda path: RunDirectory.resume(path, CONFIG)])
def test_a_folder_without_a_run_is_refused(tmp_path, act):
    with pytest.raises(UserError, match=r"contains no run: config\.json is missing"):
        act(tmp_path)
    with pytest.raises(UserError, match=r"cannot look into .*: File name too long"):
        RunDirectory.open(tmp_path / ("a" * 300))
    with pytest.raises(UserError, match="absent is not a directory; give the directory of a training run"):
        act(tmp_path / "absent")
    assert os.listdir(tmp_path) == []


def test_a_resumed_run_has_the_new_values(tmp_path):
    RunDirectory.create(tmp_path, CONFIG).close()
    with RunDirectory.resume(tmp_path, LATER) as run:
        assert run.config() == LATER
    assert RunDirectory.open(tmp_path).config() == LATER


def test_a_full_disk_leaves_no_run_and_no_lock(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", fail)
        with pytest.raises(UserError, match="No space left on device; free some space"):
            RunDirectory.create(tmp_path, CONFIG)
    with pytest.raises(UserError, match="contains no run"):
        RunDirectory.open(tmp_path)
    RunDirectory.create(tmp_path, CONFIG).close()


# ---- The lock ----

HOLDER = """
import sys, time
from pathlib import Path
from minitf.config import RunConfig
from minitf.storage.run_directory import RunDirectory
run = RunDirectory.create(Path(sys.argv[1]), RunConfig())
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    """Another process at work in the folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_process_is_refused(tmp_path, holder):
    message = f"^{tmp_path} is in use by another process; wait until it has ended, or give another --output$"
    for verb in (RunDirectory.create, RunDirectory.resume):
        with pytest.raises(UserError, match=message):
            verb(tmp_path, CONFIG)
    assert RunDirectory.open(tmp_path).config() == RunConfig()  # reading is free, and nothing was written
    assert is_training(RunDirectory(tmp_path))


# ---- The configuration ----


ODD = replace(
    RunConfig(),
    train=(Path("träin.en"), Path("/a b/\udcff.de")),
    valid=(Path("a.en"), Path("a.de")),
    vocabulary=Path("v.model"),
    max_minutes=0.1,
    threads=3,
    patience=None,
    model=TransformerConfig(d_k=16, dropout=0, share_embeddings="none", positions="learned", masked_tokens=(0, 2)),
    optimizer=OptimizerConfig(peak_learning_rate=1 / 3, clip_norm=25),
)


@pytest.mark.parametrize("config", [*PRESETS.values(), ODD])
def test_round_trip(tmp_path, config):
    save_config(tmp_path / "c.json", config)
    assert load_config(tmp_path / "c.json") == config


@pytest.mark.parametrize(("plain_value", "meaning"), [(True, "all"), (False, "none")])
def test_a_configuration_may_share_all_embeddings_or_none_by_true_or_false(tmp_path, plain_value, meaning):
    path = tmp_path / "c.json"
    save_config(path, ODD)
    plain = json.loads(path.read_text())
    plain["model"]["share_embeddings"] = plain_value
    path.write_text(json.dumps(plain))
    assert load_config(path).model.share_embeddings == meaning


def test_a_key_that_is_missing_has_its_default(tmp_path):
    path = tmp_path / "c.json"
    save_config(path, ODD)
    plain = json.loads(path.read_text())
    del plain["log_every"], plain["model"]["norm"]
    path.write_text(json.dumps(plain))
    assert load_config(path) == ODD


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"akumulate": 5},
            "unknown key 'akumulate'; did you mean accumulate?; the valid keys are preset, output, seed",
        ),
        ({"model": {"layer": 5}}, "unknown key 'layer' in model; did you mean layers?; the valid keys are vocab_size"),
        ({"model": 5}, "model is 5, not an object of names and values"),
        ({"model": {"layers": "6"}}, "layers='6'; choose a whole number >= 1"),
        ({"train": "ab"}, "train='ab'; choose two paths, or none"),
        ({"output": None}, "output=none; choose a path"),
        ({"optimizer": None}, "optimizer is none, not an object of names and values"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, change, message):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(change))
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: {message}")
