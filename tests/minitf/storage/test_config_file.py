"""Configurations come back from their file as they were; a wrong or damaged file is named."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitf.config import PRESETS, OptimizerConfig, RunConfig, TransformerConfig, TranslateConfig
from minitf.errors import UserError
from minitf.storage.config_file import load_config, save_config

PAIR = (Path("a.en"), Path("a.de"))

ODD = replace(
    RunConfig(),
    train=(Path("träin.en"), Path("/a b/\udcff.de")),
    valid=PAIR,
    vocabulary=Path("v.model"),
    max_minutes=0.1,
    threads=3,
    patience=None,
    model=TransformerConfig(d_k=16, dropout=0, share_embeddings="none", positions="learned", masked_tokens=(0, 2)),
    optimizer=OptimizerConfig(peak_learning_rate=1 / 3, clip_norm=25),
)


@pytest.mark.parametrize("config", [*PRESETS.values(), ODD, OptimizerConfig(), TranslateConfig(run=Path("r"))])
def test_round_trip(tmp_path, config):
    save_config(tmp_path / "c.json", config)
    assert load_config(tmp_path / "c.json", type(config)) == config


@given(st.floats(0, 1, exclude_max=True), st.floats(0, exclude_min=True, allow_infinity=False))
@settings(max_examples=50, deadline=None)
def test_numbers_come_back_to_the_last_bit(tmp_path_factory, dropout, rate):
    path = tmp_path_factory.mktemp("f") / "c.json"
    config = RunConfig(model=TransformerConfig(dropout=dropout), optimizer=OptimizerConfig(peak_learning_rate=rate))
    save_config(path, config)
    assert load_config(path) == config


def test_the_file_can_be_read_by_people(tmp_path):
    save_config(tmp_path / "c.json", RunConfig())
    lines = (tmp_path / "c.json").read_text().splitlines()
    assert '  "max_steps": 100000,' in lines
    assert '    "layers": 6,' in lines


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
        ({"dtype": "float64"}, "the key 'dtype' is unknown; rename it to 'precision'"),
        ({"zzz": 5}, "unknown key 'zzz'; the valid keys are preset, output"),
        ({"model": {"layer": 5}}, "unknown key 'layer' in model; did you mean layers?; the valid keys are vocab_size"),
        ({"model": 5}, "model is 5, not an object of names and values"),
        ({"model": {"layers": "6"}}, "layers='6'; choose a whole number >= 1"),
        ({"max_steps": 5.5}, "max_steps=5.5; choose a whole number >= 1"),
        ({"train": ["a"]}, "train="),
        ({"train": ["a", "b", "c"]}, "train="),
        ({"train": "ab"}, "train='ab'; choose two paths, or none"),
        ({"output": None}, "output=none; choose a path"),
        ({"output": 3}, "output=3; choose a path"),
        ({"optimizer": None}, "optimizer is none, not an object of names and values"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path, change, message):
    path = tmp_path / "c.json"
    path.write_text(json.dumps(change))
    with pytest.raises(UserError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "Expecting value"),
        (b'{"max_steps": 5', "delimiter"),
        (b'{"max_steps": 5, "max_steps": 6}', "'max_steps' is given twice"),
        (b'{"max_minutes": NaN}', "NaN is not JSON"),
        (b"[]", "a configuration is \\[\\], not an object"),
        (b"\xff", "utf-8"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_a_damaged_file_is_refused(tmp_path, content, message):
    (tmp_path / "c.json").write_bytes(content)
    with pytest.raises(UserError, match=f"c.json: .*{message}"):
        load_config(tmp_path / "c.json")


def test_a_missing_key_without_a_default_is_refused(tmp_path):
    (tmp_path / "c.json").write_text("{}")
    with pytest.raises(UserError, match="the key 'run' is missing"):
        load_config(tmp_path / "c.json", TranslateConfig)


def test_an_absent_file_is_refused(tmp_path):
    with pytest.raises(UserError, match=r"cannot read .*c.json: No such file or directory; check the path"):
        load_config(tmp_path / "c.json")


def test_a_failure_keeps_the_old_file(tmp_path, monkeypatch):
    save_config(tmp_path / "c.json", RunConfig())

    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(UserError, match=r"cannot write .*c.json: No space left on device; free some space"):
        save_config(tmp_path / "c.json", ODD)
    assert load_config(tmp_path / "c.json") == RunConfig()
    assert os.listdir(tmp_path) == ["c.json"]
