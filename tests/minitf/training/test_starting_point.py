"""Weights to start with, their digest, and parts that do not learn."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import autograd as ag
from minitf.config import OptimizerConfig, RunConfig, TransformerConfig
from minitf.config.model import PAD
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.training.moving_average import MovingAverage
from minitf.training.optim import Adam
from minitf.training.starting_point import digest_of, freeze, starting_point
from minitf.translation.loading import load_learned
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
        ("encodr", "freeze='encodr': the model has no part 'encodr'; choose among embeddings, source_emb"),
        ("encoder.layers.2", "has no part 'encoder.layers.2'"),
        ("encoder.layer", "has no part 'encoder.layer'"),
        ("encoder,,decoder", "has no part ''"),
        ("output", "has no part 'output'"),
        ("embeddings,encoder,decoder", "leaves nothing to learn; freeze fewer parts"),
    ],
)
def test_parts_that_cannot_be(parts, message):
    with pytest.raises(UserError, match=message):
        freeze(model_with(), parts)


# ---- Weights to start with ----


def config_from(run, **more):
    return RunConfig(init=run, **more)


def test_a_run_starts_with_the_weights_that_translate(make_run, tmp_path):
    run = make_run(steps=(1, 2, 3), average_checkpoints=2)
    start = starting_point(config_from(run), None, print)
    expected = load_learned(run)
    assert start.digest == digest_of(expected)
    for name, array in expected.weights.items():
        np.testing.assert_array_equal(start.learned.weights[name], array)
    last = starting_point(config_from(run, init_weights="last"), None, print)
    assert last.learned.origin.name == "step-00000003.safetensors"
    assert last.digest != start.digest
    model = Transformer(replace(expected.config.model, vocab_size=len(expected.vocabulary)), seed=9)
    last.load_into(model)
    for name, array in load_learned(run, average=1).weights.items():
        np.testing.assert_array_equal(model.named_parameters()[name].data, array)
    with pytest.raises(UserError, match="does not fit the architecture of the run"):
        last.load_into(Transformer(TransformerConfig(vocab_size=5, layers=1, d_model=4, heads=1)))


def test_a_resumed_run_needs_it_only_without_a_checkpoint(make_run):
    first, begun = make_run(), make_run(steps=())
    digest = starting_point(config_from(first), None, print).digest
    assert starting_point(config_from(Path("gone")), make_run(), print) is None
    assert starting_point(config_from(first, init_digest=digest), begun, print).digest == digest
    with pytest.raises(UserError, match="has other weights than when this run began"):
        starting_point(config_from(first, init_digest="0" * 64), begun, print)


def test_the_digest_is_of_names_weights_and_vocabulary(make_run):
    learned = load_learned(make_run())
    name, other, *_ = learned.weights
    changed = learned.weights | {name: learned.weights[name] + np.float32(1e-3)}
    renamed = {f"{key}s" if key == other else key: array for key, array in learned.weights.items()}
    digests = [digest_of(replace(learned, weights=weights)) for weights in (learned.weights, changed, renamed)]
    assert len({*digests}) == 3
    assert digest_of(replace(learned, weights=dict(reversed(learned.weights.items())))) == digests[0]
