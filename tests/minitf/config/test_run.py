"""Configurations refuse invalid values and say why."""

from dataclasses import fields, is_dataclass, replace
from pathlib import Path

import pytest

from minitf.app.translate import TranslateConfig
from minitf.config import PRESETS, OptimizerConfig, RunConfig, TransformerConfig
from minitf.config.run_config import parse_devices
from minitf.errors import UserError

ROOT = Path(__file__).parents[3]
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
        (TransformerConfig, {"layers": 0}, "layers=0; choose a whole number >= 1 and <= 150"),
        (TransformerConfig, {"layers": True}, "layers=true; choose a whole number >= 1"),
        (TransformerConfig, {"dropout": 1.0}, "dropout=1.0; choose a number >= 0 and < 1"),
        (TransformerConfig, {"norm_epsilon": float("inf")}, "norm_epsilon=inf; choose a number > 0"),
        (TransformerConfig, {"norm": "mid"}, "norm='mid'; choose one of post, pre"),
        (TransformerConfig, {"activation": None}, "activation=none; choose one of relu, gelu, silu"),
        (TransformerConfig, {"masked_tokens": [0]}, "masked_tokens=[0]; choose whole numbers"),
        (
            TransformerConfig,
            {"vocab_size": 9, "masked_tokens": (0, 9)},
            "masked_tokens has 9; choose ids of the vocabulary of 9 tokens, except the end-of-sentence token 3",
        ),
        (TransformerConfig, {"masked_tokens": (3,)}, "masked_tokens has 3; choose ids of the vocabulary"),
        (TransformerConfig, {"masked_tokens": (2, 0)}, "masked_tokens=[2, 0] is not in ascending order or has a"),
        (
            TransformerConfig,
            {"vocab_size": 9, "source_vocab_size": 8},
            "source_vocab_size=8 and vocab_size=9 differ, but share_embeddings=all uses one matrix for both; choose",
        ),
        (OptimizerConfig, {"clip_norm": 0.0}, "clip_norm=0.0; choose a number > 0, or none"),
        (
            OptimizerConfig,
            {"learning_rate_scale": 2.0, "peak_learning_rate": 1e-3},
            "learning_rate_scale=2.0 scales equation 3, which peak_learning_rate=0.001 replaces; choose one",
        ),
        (
            OptimizerConfig,
            {"warmup_steps": 9, "decay_steps": 9},
            "decay_steps=9 leaves no updates after warmup_steps=9; choose more of the one or fewer of the other",
        ),
        (
            RunConfig,
            {"max_steps": 9, "optimizer": OptimizerConfig(warmup_steps=4, decay_steps=8)},
            "max_steps=9 continues after decay_steps=8, where the learning rate is 0; choose max_steps of 8 or fewer",
        ),
        (RunConfig, {"seed": 2**63}, f"seed={2**63}; choose a whole number >= 0"),
        (RunConfig, {"train": ("a", "b")}, "train='a' 'b'; choose two paths, or none"),
        (RunConfig, {"output": "runs/a"}, "output='runs/a'; choose a path"),
        (
            RunConfig,
            {"precision": "bf16"},
            "precision=bf16 requires a GPU; choose --device cuda, or --precision float32",
        ),
        (RunConfig, {"device": "gpu"}, "device='gpu' is not a device; choose cpu, or cuda:0 for the first GPU"),
        (
            RunConfig,
            {"max_tokens_per_batch": 255},
            "max_tokens_per_batch=255 cannot hold a sentence of max_length=256 tokens; choose 256 or more",
        ),
        (
            RunConfig,
            {"max_length": 1024, "model": TransformerConfig(positions="learned", first_position=1)},
            "max_length=1024 exceeds max_positions=1024 of learned positions; choose max_positions of 1025",
        ),
        (
            RunConfig,
            {"average_checkpoints": 6},
            "average_checkpoints=6 exceeds keep_checkpoints=5; choose keep_checkpoints of 6",
        ),
        (RunConfig, {"valid": PAIR}, "valid is given without train; the built-in corpus includes its own"),
        (RunConfig, {"train": PAIR, "patience": 3}, "patience=3 requires validations; give valid"),
        (RunConfig, {"train": PAIR, "valid_metric": "bleu"}, "valid_metric=bleu requires a validation text; give"),
        (RunConfig, {"train": PAIR, "weights": "best"}, "weights=best requires validations; give valid"),
        (RunConfig, {"weights": "moving-average"}, "weights=moving-average requires moving_average; set it to"),
        (RunConfig, {"moving_average": 1.0}, "moving_average=1.0; choose a number > 0 and < 1, or none"),
        (
            TransformerConfig,
            {"positions": "learned", "max_positions": 2, "first_position": 2},
            "first_position=2 is not among the max_positions=2 of learned positions; choose at least 3 of them",
        ),
        (TranslateConfig, {"run": Path("r"), "precision": "bf16"}, "precision=bf16 requires a GPU"),
        (TranslateConfig, {"run": Path("r"), "weights": "best", "average": 5}, "weights=best is no average of"),
        (TransformerConfig, {"d_model": 2**40}, f"d_model={2**40}; choose a whole number >= 1 and <= {2**17}"),
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
        (RunConfig, {"max_length": 1024, "model": TransformerConfig(positions="learned")}),
        (RunConfig, {"patience": 3}),  # the built-in corpus has validation text
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


def test_the_defaults_and_the_base_preset_are_the_papers():
    base = PRESETS["base"]
    assert base == RunConfig()
    model, optimizer = base.model, base.optimizer
    assert (model.layers, model.d_model, model.d_ff, model.heads, model.dropout) == (6, 512, 2048, 8, 0.1)
    assert (model.norm, model.activation) == ("post", "relu")
    assert (model.positions, model.share_embeddings) == ("sinusoidal", "all")
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


@pytest.mark.parametrize("config_class", [RunConfig, TranslateConfig])
def test_every_field_explains_itself(config_class):
    for each in all_fields(config_class):
        assert each.metadata["help"], each.name
        assert each.metadata["help"].isascii(), f"{each.name}: a terminal may know ASCII only"
        assert not each.metadata["help"].endswith("."), each.name


def test_devices():
    assert parse_devices("8") == parse_devices("cuda:8") == ("cuda", 8)
    assert parse_devices("cpu:4") == ("cpu", 4)
    for wrong in ("", "0", "cpu", "cpu:0", "gpu:2", "-1", "cpu:4x", "99999", "٣"):
        with pytest.raises(UserError, match="is not a number of devices; choose 8 for eight GPUs"):
            RunConfig(devices=wrong)
    with pytest.raises(UserError, match="cannot be combined"):
        RunConfig(devices="2", device="cuda")


@pytest.mark.parametrize(
    ("make", "option", "found"),
    [
        (RunConfig, {"kernels": "numba"}, "kernels='numba'"),
        (RunConfig, {"threads": 2}, "threads=2"),
        (RunConfig, {"checkpoint_activations": True}, "checkpoint_activations=true"),
        (RunConfig, {"precision": "bf16", "device": "cuda"}, "precision='bf16'"),
    ],
)
def test_options_of_fast_parts_and_plain_exclude_each_other(make, option, found):
    make(**option)
    with pytest.raises(UserError, match=f"plain and {found} cannot be combined.* or give --no-plain"):
        make(**option, plain=True)
