"""Weights to start with, and parts that do not learn."""

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

import autograd as ag
from minitf.app.train import read_train_args
from minitf.config import OptimizerConfig, TransformerConfig
from minitf.config.model import PAD
from minitf.config.presets import PRESETS
from minitf.data.vocabulary import load_vocabulary
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.run.fine_tuning import freeze, load_into
from minitf.training.optim import Adam
from minitf.training.run import MovingAverage
from minitf.translation.translator import Translator, load_learned
from tests.helpers.imported import MODEL, PAIR
from tests.helpers.runs import call
from tests.helpers.small_model import model_with


def loss_of(model):
    source, target = np.array([[4, 5, 6, 3], [7, 8, 3, PAD]]), np.array([[2, 9, 10], [2, 11, 12]])
    return ag.cross_entropy(model(source, target), target, label_smoothing=0.1)


# ---- Parts that do not learn ----


@pytest.mark.parametrize(
    ("parts", "frozen"),
    [
        (None, lambda name: False),
        ("encoder", lambda name: name.startswith("encoder.")),
        ("decoder,embeddings", lambda name: name.startswith(("decoder.", "source_", "target_"))),
        (" encoder.layers.1 , output", lambda name: name.startswith(("encoder.layers.1.", "projection", "output_b"))),
        ("target_positions", lambda name: name == "target_positions.weight"),
        ("embeddings", lambda name: name.startswith(("source_", "target_"))),
    ],
)
def test_parts_by_name(parts, frozen):
    more = {"share_embeddings": "none", "output_bias": True, "positions": "learned", "embedding_norm": True}
    model = model_with(**more)
    names = set(model.named_parameters())
    assert names - set(freeze(model, parts)) == {name for name in names if frozen(name)}


def test_frozen_parts_keep_every_bit_and_have_no_moments():
    """The gradients of the others are those of the whole model, to the bit."""
    whole, part = model_with(share_embeddings="none"), model_with(share_embeddings="none")
    learning = freeze(part, "encoder,source_embedding")
    before = {name: p.data.copy() for name, p in part.named_parameters().items()}
    optimizer, average = Adam(learning, OptimizerConfig()), MovingAverage(part.named_parameters(), 0.9)
    for model in (whole, part):
        loss_of(model).backward()
    for name, parameter in part.named_parameters().items():
        if name in learning:
            np.testing.assert_array_equal(parameter.grad.data, whole.named_parameters()[name].grad.data)
        else:
            assert parameter.grad is None
    optimizer.step(0.1)
    average.update(1)
    assert {name.partition(".")[2] for name in optimizer.state_arrays()} == set(learning)
    for name, parameter in part.named_parameters().items():
        assert (parameter.data.tobytes() == before[name].tobytes()) == (name not in learning), name
        if name not in learning:
            assert average.arrays[name].tobytes() == before[name].tobytes()


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("encodr", "freeze='encodr': the model has no part 'encodr'; choose from embeddings, source_emb"),
        ("encoder.layers.2", "has no part 'encoder.layers.2'"),
        ("encoder,,decoder", "has no part ''"),
        ("embeddings,encoder,decoder", "leaves no parameter to train; freeze fewer parts"),
    ],
)
def test_parts_that_cannot_be(parts, message):
    with pytest.raises(UserError, match=message):
        freeze(model_with(), parts)


# ---- Weights to start with ----


def test_a_run_starts_with_the_weights_that_translate(make_run, tmp_path):
    run = make_run(steps=(1, 2, 3), average_checkpoints=2)
    expected = load_learned(run)
    model = Transformer(replace(expected.config.model, vocab_size=len(expected.vocabulary)), seed=9)
    load_into(model, expected)
    for name, array in expected.weights.items():
        np.testing.assert_array_equal(model.named_parameters()[name].data, array)
    with pytest.raises(UserError, match="does not match the architecture of the run"):
        load_into(Transformer(TransformerConfig(vocab_size=5, layers=1, d_model=4, heads=1)), expected)


@pytest.fixture(scope="module")
def imported(make_run):
    return make_run(vocabulary=PAIR, model=MODEL, steps=(1, 2), beam=3, alpha=1.0)


def test_the_architecture_is_that_of_the_model_and_training_is_that_of_the_flags(imported):
    words = ["--init", str(imported), "--preset", "small", "--model.dropout", "0.3", "--max-steps", "7", "--beam", "2"]
    config = read_train_args(words).config
    assert (config.model.encoder_layers, config.model.decoder_start, config.model.masked_tokens) == (3, "zero", (0, 2))
    assert (config.model.dropout, config.max_steps, config.beam, config.alpha) == (0.3, 7, 2, 1.0)
    assert config.optimizer == PRESETS["small"].optimizer
    assert config.init == imported.absolute()
    agreeing = read_train_args([*words, "--model.d-model", "16", "--model.norm", "pre"]).config
    assert agreeing == config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--model.layers", "1"],
            r"--model\.layers 1 differs from the 6 of .*, whose architecture cannot change; omit",
        ),
        (["--vocab-size", "900"], r"--vocab-size and --init cannot be combined: the vocabulary is that of"),
        (["--init", "absent"], r".*absent is not a directory"),
    ],
)
def test_contradictions_are_refused(imported, words, message):
    with pytest.raises(UserError, match=message):
        read_train_args(["--init", str(imported), *words])


@pytest.fixture
def texts(tmp_path):
    """The model copies letters, each in the other vocabulary."""
    rng = np.random.default_rng(0)
    lines = ["".join(rng.choice([*"abcdefgh"], rng.integers(2, 9))) for _ in range(300)]
    for name, text in (("a.src", lines), ("a.trg", [line.upper() for line in lines])):
        (tmp_path / name).write_text("\n".join(text) + "\n")
    return ["--train", str(tmp_path / "a.src"), str(tmp_path / "a.trg")]


FLAGS = [
    *("--threads", "1", "--max-length", "32", "--max-tokens-per-batch", "256", "--log-every", "5"),
    *("--optimizer.warmup-steps", "5", "--optimizer.peak-learning-rate", "0.01", "--save-every", "10"),
    *("--average-checkpoints", "1"),
]


@pytest.mark.heavy
def test_an_imported_model_is_fine_tuned(imported, texts, tmp_path, capfd):
    """It keeps its vocabulary, the frozen half keeps its bits, and the loss falls."""
    out = tmp_path / "tuned"
    words = ["--init", str(imported), "--set", "freeze=encoder,source_embedding", *texts, *FLAGS]
    assert call([*words, "--max-steps", "40", "--output", str(out)]) == 0
    said = capfd.readouterr().err
    assert f"initial weights: {imported}" in said
    assert re.search(r"frozen: encoder,source_embedding; [\d,]+ parameters are trained", said)
    assert load_vocabulary(out / "vocabulary.json").fingerprint() == PAIR.fingerprint()
    assert not (out / "vocabulary.model").exists()
    config = json.loads((out / "config.json").read_text())
    assert (config["init"], config["freeze"]) == (str(imported), "encoder,source_embedding")
    start, end = Translator.load(imported), Translator.load(out)
    frozen = 0
    for name, parameter in start.model.named_parameters().items():
        same = parameter.data.tobytes() == end.model.named_parameters()[name].data.tobytes()
        assert same == name.startswith(("encoder.", "source_embedding.")), name
        frozen += same
    assert frozen > 20
    stored = load_file(out / "checkpoints" / "step-00000040.safetensors")
    assert not [name for name in stored if name.startswith("optimizer.") and ".encoder." in name]
    pairs = [("abc", "ABC"), ("hgf", "HGF")]
    assert all(b.score > a.score for a, b in zip(start.score(pairs), end.score(pairs), strict=True))


@pytest.mark.heavy
def test_a_part_that_cannot_be_frozen_is_refused_before_there_is_a_run(imported, texts, tmp_path, capfd):
    for parts, message in (("encodr", "has no part 'encodr'; choose from"), ("encoder,decoder", "")):
        words = ["--init", str(imported), "--set", f"freeze={parts}", *texts, *FLAGS, "--max-steps", "1"]
        assert call([*words, "--output", str(tmp_path / "run")]) == (2 if message else 0)
        assert message in capfd.readouterr().err
        assert (tmp_path / "run").exists() == (not message)


@pytest.mark.heavy
def test_it_resumes_to_the_same_bits_without_the_model_that_it_started_from(make_run, texts, tmp_path):
    first = make_run(vocabulary=PAIR, model=MODEL, steps=(1,))
    words = ["--init", str(first), "--set", "freeze=decoder.layers.0", *texts, *FLAGS, "--output"]
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert call([*words, str(whole), "--max-steps", "20"]) == 0
    assert call([*words, str(parts), "--max-steps", "10"]) == 0
    os.rename(first, Path(first).with_name("moved"))
    assert call(["--resume", str(parts), "--max-steps", "20"]) == 0
    one, two = (load_file(each / "checkpoints" / "step-00000020.safetensors") for each in (whole, parts))
    assert one.keys() == two.keys()
    assert all(one[name].tobytes() == two[name].tobytes() for name in one)
