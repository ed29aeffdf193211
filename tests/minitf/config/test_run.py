"""Configurations refuse what cannot be, say why, and come back from their file as they were."""

import dataclasses
import json
import os
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitf.config import PRESETS, OptimizerConfig, RunConfig, TransformerConfig, TranslateConfig
from minitf.errors import UserError
from minitf.storage.config_file import load_config, save_config

PAIR = (Path("a.en"), Path("a.de"))


def all_fields(config_class):
    for each in fields(config_class):
        if is_dataclass(each.type):
            yield from all_fields(each.type)
        else:
            yield each


@pytest.mark.parametrize(
    ("config_class", "values", "message"),
    [
        (TransformerConfig, {"d_model": 510}, "d_model=510 is not divisible by heads=8; choose a multiple of 8"),
        (TransformerConfig, {"d_model": 510, "d_k": 64}, "d_model=510 is not divisible by heads=8"),
        (TransformerConfig, {"d_model": 510, "d_v": 64}, "d_model=510 is not divisible by heads=8"),
        (
            TransformerConfig,
            {"d_model": 9, "heads": 3},
            "d_model=9 is odd, but positions=sinusoidal pairs sines with cosines; choose an even d_model or learned",
        ),
        (
            TransformerConfig,
            {"d_model": 2, "heads": 1, "positions": "sinusoidal-concatenated"},
            "d_model=2 is too small for positions=sinusoidal-concatenated; choose 4 or more",
        ),
        (TransformerConfig, {"layers": 0}, "layers=0; choose a whole number >= 1"),
        (TransformerConfig, {"layers": 6.0}, "layers=6.0; choose a whole number >= 1"),
        (TransformerConfig, {"layers": True}, "layers=true; choose a whole number >= 1"),
        (TransformerConfig, {"layers": "6"}, "layers='6'; choose a whole number >= 1"),
        (TransformerConfig, {"layers": None}, "layers=none; choose a whole number >= 1"),
        (TransformerConfig, {"d_k": 0}, "d_k=0; choose a whole number >= 1, or none"),
        (TransformerConfig, {"dropout": 1.0}, "dropout=1.0; choose a number >= 0 and < 1"),
        (TransformerConfig, {"dropout": -0.1}, "dropout=-0.1; choose a number >= 0 and < 1"),
        (TransformerConfig, {"dropout": float("nan")}, "dropout=nan; choose a number >= 0 and < 1"),
        (TransformerConfig, {"norm_epsilon": 0}, "norm_epsilon=0; choose a number > 0"),
        (TransformerConfig, {"norm_epsilon": float("inf")}, "norm_epsilon=inf; choose a number > 0"),
        (TransformerConfig, {"norm": "mid"}, "norm='mid'; choose one of post, pre"),
        (TransformerConfig, {"activation": None}, "activation=none; choose one of relu, gelu, silu"),
        (TransformerConfig, {"share_embeddings": 1}, "share_embeddings=1; choose true or false"),
        (OptimizerConfig, {"beta2": 1}, "beta2=1; choose a number >= 0 and < 1"),
        (OptimizerConfig, {"warmup_steps": 0}, "warmup_steps=0; choose a whole number >= 1"),
        (OptimizerConfig, {"clip_norm": 0.0}, "clip_norm=0.0; choose a number > 0, or none"),
        (OptimizerConfig, {"label_smoothing": 1.0}, "label_smoothing=1.0; choose a number >= 0 and < 1"),
        (
            OptimizerConfig,
            {"learning_rate_scale": 2.0, "peak_learning_rate": 1e-3},
            "learning_rate_scale=2.0 scales equation 3, which peak_learning_rate=0.001 replaces; choose one",
        ),
        (RunConfig, {"max_steps": 0}, "max_steps=0; choose a whole number >= 1"),
        (RunConfig, {"seed": 2**63}, f"seed={2**63}; choose a whole number >= 0 and < {2**63}"),
        (RunConfig, {"max_minutes": 0}, "max_minutes=0; choose a number > 0, or none"),
        (RunConfig, {"alpha": -1}, "alpha=-1; choose a number >= 0"),
        (RunConfig, {"train": Path("a")}, "train=a; choose two paths, or none"),
        (RunConfig, {"train": (Path("a"),)}, "train=a; choose two paths, or none"),
        (RunConfig, {"train": ("a", "b")}, "train='a' 'b'; choose two paths, or none"),
        (RunConfig, {"output": "runs/a"}, "output='runs/a'; choose a path"),
        (RunConfig, {"precision": "fp16"}, "precision='fp16'; choose one of float32, float64, tf32, bf16"),
        (RunConfig, {"precision": "bf16"}, "precision=bf16 is for GPUs; choose --device cuda, or --precision float32"),
        (RunConfig, {"device": "gpu"}, "device='gpu' is no device; choose cpu, or cuda:0 for the first GPU"),
        (RunConfig, {"device": "cuda:"}, "device='cuda:' is no device"),
        (RunConfig, {"model": None}, "model=none; choose a TransformerConfig"),
        (
            RunConfig,
            {"max_tokens_per_batch": 255},
            "max_tokens_per_batch=255 cannot hold a sentence of max_length=256 tokens; choose 256 or more",
        ),
        (
            RunConfig,
            {"max_length": 1025, "model": TransformerConfig(positions="learned")},
            "max_length=1025 is longer than the max_positions=1024 of learned positions",
        ),
        (
            RunConfig,
            {"average_checkpoints": 6},
            "average_checkpoints=6 are more than the keep_checkpoints=5 that are kept; choose keep_checkpoints of 6",
        ),
        (RunConfig, {"valid": PAIR}, "valid is given without train; the built-in corpus brings its own"),
        (RunConfig, {"test": PAIR}, "test is given without train; the built-in corpus brings its own"),
        (RunConfig, {"train": PAIR, "patience": 3}, "patience=3 watches the validations; give valid"),
        (RunConfig, {"train": PAIR, "weights": "best"}, "weights=best takes those of the best validation; give valid"),
        (RunConfig, {"weights": "moving-average"}, "weights=moving-average needs such an average; give moving_average"),
        (RunConfig, {"moving_average": 1.0}, "moving_average=1.0; choose a number > 0 and < 1, or none"),
        (
            TransformerConfig,
            {"positions": "learned", "max_positions": 2, "first_position": 2},
            "first_position=2 is not among the max_positions=2 of learned positions; choose at least 3 of them",
        ),
        (
            RunConfig,
            {"max_length": 1024, "model": TransformerConfig(positions="learned", first_position=1)},
            "max_length=1024 is longer than the max_positions=1024 of learned positions; choose max_positions of 1025",
        ),
        (TranslateConfig, {"run": Path("r"), "weights": "best", "average": 5}, "weights=best is neither an average of"),
        (TranslateConfig, {"run": Path("r"), "weights": "best", "checkpoint": 0}, "weights=best is neither an average"),
        (
            TranslateConfig,
            {"run": Path("r"), "average": 5, "checkpoint": 100},
            "average=5 and checkpoint=100 exclude each other; choose one of the two",
        ),
        (TranslateConfig, {"run": Path("r"), "beam": 0}, "beam=0; choose a whole number >= 1, or none"),
    ],
)
def test_what_cannot_be_is_refused(config_class, values, message):
    with pytest.raises(UserError) as caught:
        config_class(**values)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("config_class", "values"),
    [
        (TransformerConfig, {"d_model": 510, "d_k": 64, "d_v": 64}),
        (TransformerConfig, {"d_model": 9, "heads": 3, "positions": "learned"}),
        (TransformerConfig, {"dropout": 0, "norm_epsilon": 1}),
        (OptimizerConfig, {"peak_learning_rate": 1e-3}),
        (RunConfig, {"max_length": 1024, "model": TransformerConfig(positions="learned")}),
        (RunConfig, {"max_length": 5000, "model": TransformerConfig()}),
        (RunConfig, {"train": PAIR, "valid": PAIR, "patience": 3}),
        (RunConfig, {"patience": 3}),  # the built-in corpus has validation text
        (RunConfig, {"device": "cuda:3"}),
        (RunConfig, {"seed": 2**63 - 1}),
    ],
)
def test_what_can_be_is_accepted(config_class, values):
    config = config_class(**values)
    for name, value in values.items():
        assert getattr(config, name) == value


def test_widths_of_heads():
    assert (TransformerConfig().head_d_k, TransformerConfig().head_d_v) == (64, 64)
    row_b = TransformerConfig(d_k=16)
    assert (row_b.head_d_k, row_b.head_d_v) == (16, 64)
    row_a = replace(TransformerConfig(), heads=32)
    assert (row_a.head_d_k, row_a.head_d_v) == (16, 16)


def test_configurations_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunConfig().max_steps = 5


def test_the_defaults_and_the_base_preset_are_the_papers():
    base = PRESETS["base"]
    assert base == RunConfig()
    model, optimizer = base.model, base.optimizer
    assert (model.layers, model.d_model, model.d_ff, model.heads, model.dropout) == (6, 512, 2048, 8, 0.1)
    assert (model.norm, model.activation, model.positions, model.share_embeddings) == (
        "post",
        "relu",
        "sinusoidal",
        True,
    )
    assert (model.attention_dropout, model.activation_dropout) == (0, 0)
    assert (optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.warmup_steps) == (0.9, 0.98, 1e-9, 4000)
    assert (optimizer.learning_rate_scale, optimizer.peak_learning_rate, optimizer.clip_norm) == (1, None, None)
    assert optimizer.label_smoothing == 0.1
    assert (base.max_steps, base.max_tokens_per_batch * base.accumulate, base.vocab_size) == (100_000, 25_000, 37_000)
    assert (base.beam, base.alpha, base.max_extra_length, base.average_checkpoints) == (4, 0.6, 50, 5)


def test_the_big_preset_is_the_papers():
    big, base = PRESETS["big"], PRESETS["base"]
    assert big.model == replace(base.model, d_model=1024, d_ff=4096, heads=16, dropout=0.3)
    assert big.optimizer == base.optimizer
    assert (big.max_steps, big.average_checkpoints) == (300_000, 20)
    assert (big.max_tokens_per_batch, big.accumulate) == (base.max_tokens_per_batch, base.accumulate)


def test_presets_know_their_names_and_write_to_folders_of_their_own():
    assert [preset.preset for preset in PRESETS.values()] == [*PRESETS] == ["tiny", "small", "base", "big"]
    assert len({preset.output for preset in PRESETS.values()}) == len(PRESETS)


@pytest.mark.parametrize("config_class", [RunConfig, TranslateConfig])
def test_every_field_explains_itself(config_class):
    for each in all_fields(config_class):
        assert each.metadata["help"], each.name
        assert each.metadata["help"].isascii(), f"{each.name}: a terminal may know ASCII only"
        assert not each.metadata["help"].endswith("."), each.name


# ---- The file ----

ODD = replace(
    RunConfig(),
    train=(Path("träin.en"), Path("/a b/\udcff.de")),
    valid=PAIR,
    vocabulary=Path("v.model"),
    max_minutes=0.1,
    threads=3,
    patience=None,
    model=TransformerConfig(d_k=16, dropout=0, share_embeddings=False, positions="learned"),
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


def test_a_key_that_an_older_version_did_not_know_has_its_default(tmp_path):
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
