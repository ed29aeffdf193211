"""Presets: the everyday ones, every row of the paper's tables, settings of other toolkits, and published recipes.

    minitf presets
    minitf train --preset table3-b-dk-16

A preset is a complete `RunConfig`. Known differences from the original are noted beside it.
"""

import math
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from minitf.config.run_config import RunConfig

__all__ = ["Preset", "Published", "varied"]


@dataclass(frozen=True)
class Published:
    """Published figures."""

    parameters_m: float | None = None  # millions
    perplexity: float | None = None  # per subword, newstest2013 in the paper
    bleu: float | None = None
    hours: float | None = None  # of training, on 8 P100: sections 5.2 and 6.1


@dataclass(frozen=True)
class Preset:
    """A configuration, its origin and its published figures."""

    config: RunConfig
    about: str
    group: str
    published: Published

    @property
    def name(self) -> str:
        """Name of the preset, as `--preset` takes it."""
        return self.config.preset


NAMED: dict[str, Preset] = {}
"""All presets by name, in the order of `minitf presets`."""


def _preset(
    group: str,
    start: RunConfig,
    name: str,
    about: str,
    published: Published | None = None,
    model: dict[str, Any] | None = None,
    optimizer: dict[str, Any] | None = None,
    **own: Any,
) -> RunConfig:
    """Add a preset to NAMED: `start` with some values changed."""
    NAMED[name] = Preset(varied(start, name, model, optimizer, **own), about, group, published or Published())
    return NAMED[name].config


def varied(
    start: RunConfig,
    name: str,
    model: dict[str, Any] | None = None,
    optimizer: dict[str, Any] | None = None,
    **own: Any,
) -> RunConfig:
    """Return the configuration of a preset: `start` with some values changed."""
    return replace(
        start,
        preset=name,
        output=Path("runs") / name,
        model=replace(start.model, **(model or {})),
        optimizer=replace(start.optimizer, **(optimizer or {})),
        **own,
    )


# ---- Everyday ----

_everyday = partial(_preset, "everyday")
_BASE_HOURS, _BIG_HOURS = 12.0, 84.0  # 5.2: 12 hours; 3.5 days
_base_published = Published(65, 4.92, 25.8, _BASE_HOURS)
_big_published = Published(213, 4.33, 26.4, _BIG_HOURS)
_big_model = {"d_model": 1024, "d_ff": 4096, "heads": 16, "dropout": 0.3}  # Table 3, last row

_tiny = _everyday(
    RunConfig(),
    "tiny",
    "the built-in corpus on a laptop, in minutes",
    # three epochs of a corpus without noise: nothing to overfit, so dropout would only slow it down
    model={"layers": 3, "d_model": 128, "d_ff": 512, "heads": 4, "dropout": 0.0},
    optimizer={"warmup_steps": 150, "peak_learning_rate": 0.003},
    vocab_size=1_000,
    max_tokens_per_batch=1_024,  # small updates learn most from few tokens
    max_steps=1_000,
    valid_every=250,
    log_every=20,
    save_every=40,
)
_laptop = _everyday(
    RunConfig(),
    "laptop",
    "5,000 to 200,000 pairs on a laptop, in half an hour to an hour",
    # Measured: docs/results.md. Small updates learn most from few tokens; pre-norm bears the high rate, and little text
    # needs much dropout
    model={"layers": 4, "d_model": 128, "d_ff": 256, "heads": 4, "dropout": 0.3, "norm": "pre"},
    optimizer={"warmup_steps": 1_000, "peak_learning_rate": 0.003},
    vocab_size=5_000,
    max_tokens_per_batch=1_024,
    max_steps=30_000,
    valid_every=500,
    save_every=500,
    keep_checkpoints=10,
    average_checkpoints=10,
)
_small = _everyday(
    RunConfig(),
    "small",
    "200,000 to 500,000 pairs on a CPU, in half a day",
    model={"layers": 3, "d_model": 256, "d_ff": 1024, "heads": 4},
    optimizer={"warmup_steps": 2_000},
    vocab_size=8_000,
    max_tokens_per_batch=4_096,
    max_steps=20_000,
    valid_every=500,
    log_every=50,
    save_every=500,
)
_base = _everyday(RunConfig(), "base", "the paper's base model", _base_published)
_big = _everyday(
    _base,
    "big",
    "the paper's big model",
    _big_published,
    model=_big_model,
    max_steps=300_000,
    save_every=600,
    valid_every=600,
    keep_checkpoints=20,  # 6.1
    average_checkpoints=20,
)

PRESETS: dict[str, RunConfig] = {name: preset.config for name, preset in NAMED.items()}
"""The everyday presets."""
DEFAULT_PRESET = "tiny"

# ---- Table 2: newstest2014 ----

_german: dict[str, Any] = {"data": "wmt14-en-de"}
_french: dict[str, Any] = {"data": "wmt14-en-fr", "vocab_size": 32_000}
_french_big = {**_french, "model": {"dropout": 0.1}}
for _start, _name, _about, _figures, _values in (
    (_base, "base-en-de", "base, WMT 2014 English-German", Published(65, None, 27.3, _BASE_HOURS), _german),
    (_big, "big-en-de", "big, WMT 2014 English-German", Published(213, None, 28.4, _BIG_HOURS), _german),
    (_base, "base-en-fr", "base, WMT 2014 English-French", Published(None, None, 38.1, _BASE_HOURS), _french),
    (
        _big,
        "big-en-fr",
        "big with dropout 0.1, WMT 2014 English-French",
        Published(None, None, 41.8, _BIG_HOURS),
        _french_big,
    ),
):
    _about += ", 32,000 subwords" if "fr" in _name else ""
    _preset("Table 2", _start, f"table2-{_name}", _about, _figures, **_values)

# ---- Table 3: newstest2013, no averaging of checkpoints (6.2) ----


def _row(name: str, about: str, published: Published, model: dict[str, Any], **optimizer: Any) -> None:
    start = _big if name == "big" else _base
    values: dict[str, Any] = {"data": "wmt14-en-de", "average_checkpoints": 1}
    _preset("Table 3", start, f"table3-{name}", about, published, model, optimizer, **values)


_row("base", "base", _base_published, {})
_row("a-heads-1", "(A) 1 head of 512", Published(None, 5.29, 24.9), {"heads": 1})
_row("a-heads-4", "(A) 4 heads of 128", Published(None, 5.00, 25.5), {"heads": 4})
_row("a-heads-16", "(A) 16 heads of 32", Published(None, 4.91, 25.8), {"heads": 16})
_row("a-heads-32", "(A) 32 heads of 16", Published(None, 5.01, 25.4), {"heads": 32})
# the column of parameters tells that d_v stayed 64: with 16 as well, base would have to lose 14 million, not 7
_row("b-dk-16", "(B) d_k 16, d_v 64", Published(58, 5.16, 25.1), {"d_k": 16, "d_v": 64})
_row("b-dk-32", "(B) d_k 32, d_v 64", Published(60, 5.01, 25.4), {"d_k": 32, "d_v": 64})
_row("c-layers-2", "(C) 2 layers", Published(36, 6.11, 23.7), {"layers": 2})
_row("c-layers-4", "(C) 4 layers", Published(50, 5.19, 25.3), {"layers": 4})
_row("c-layers-8", "(C) 8 layers", Published(80, 4.88, 25.5), {"layers": 8})
_row("c-d-model-256", "(C) d_model 256, d_k = d_v = 32", Published(28, 5.75, 24.5), {"d_model": 256})
_row("c-d-model-1024", "(C) d_model 1024, d_k = d_v = 128", Published(168, 4.66, 26.0), {"d_model": 1024})
_row("c-d-ff-1024", "(C) d_ff 1024", Published(53, 5.12, 25.4), {"d_ff": 1024})
_row("c-d-ff-4096", "(C) d_ff 4096", Published(90, 4.75, 26.2), {"d_ff": 4096})
_row("d-dropout-0.0", "(D) no dropout", Published(None, 5.77, 24.6), {"dropout": 0.0})
_row("d-dropout-0.2", "(D) dropout 0.2", Published(None, 4.95, 25.5), {"dropout": 0.2})
_row("d-smoothing-0.0", "(D) no label smoothing", Published(None, 4.67, 25.3), {}, label_smoothing=0.0)
_row("d-smoothing-0.2", "(D) label smoothing 0.2", Published(None, 5.47, 25.7), {}, label_smoothing=0.2)
_row("e-learned-positions", "(E) learned positions", Published(None, 4.92, 25.7), {"positions": "learned"})
_row("big", "big", _big_published, {})

# ---- One divergence each, from the base model ----

_CONCATENATED = {"positions": "sinusoidal-concatenated"}
for _name, _about, _model in (
    ("pre-norm", "x + f(LayerNorm(x)), a norm after each stack", {"norm": "pre"}),
    ("concatenated-sinusoids", "all sines, then all cosines", _CONCATENATED),
    ("attention-dropout", "dropout 0.1 of attention weights", {"attention_dropout": 0.1}),
    ("relu-dropout", "dropout 0.1 after the ReLU", {"activation_dropout": 0.1}),
):
    _preset("divergence", _base, f"base-{_name}", _about, model=_model)

# ---- Toolkits ----

_toolkit = partial(_preset, "toolkit")
_later_tensor2tensor = {"norm": "pre", "attention_dropout": 0.1, "activation_dropout": 0.1}
_fairseq_model = {**_CONCATENATED, "norm_epsilon": 1e-5, "first_position": 2, "attention_gain": math.sqrt(0.5)}

_toolkit(
    _base,
    "tensor2tensor-1.0.3",
    "transformer_base in the code nearest to the paper; without its target-space embedding and zero start vector",
    model=_CONCATENATED,
)
_toolkit(
    _base,
    "tensor2tensor-base-v3",
    "transformer_base since October 2017",
    model={**_CONCATENATED, **_later_tensor2tensor, "attention_bias": False},
    optimizer={"beta2": 0.997, "learning_rate_scale": 2.0, "warmup_steps": 8_000},
    max_extra_length=100,
)
_fairseq = _toolkit(
    _base,
    "fairseq-transformer-wmt-en-de",
    "fairseq's base model, peak rate 0.0007; smoothing spread over all tokens",
    model=_fairseq_model,
    optimizer={"peak_learning_rate": 7e-4, "epsilon": 1e-8},
    max_extra_length=200,
    beta=0.0,
)
_fairseq_big = _toolkit(
    _fairseq,
    "fairseq-transformer-vaswani-wmt-en-de-big",
    "fairseq's big model, peak rate 0.0005",
    model=_big_model,
    optimizer={"peak_learning_rate": 5e-4},
    max_steps=300_000,
)
_toolkit(
    _fairseq_big,
    "fairseq-transformer-wmt-en-de-big-t2t",
    "fairseq's big model in tensor2tensor's later manner",
    model=_later_tensor2tensor,
)
_epochs: dict[str, Any] = {"valid_every": 1, "valid_every_unit": "epochs", "save_every": 1, "save_every_unit": "epochs"}
_toolkit(
    _fairseq,
    "fairseq-iwslt-de-en",
    "fairseq's IWSLT recipe, without weight decay and on cased text: not its tokenized 34.5 to 35 BLEU",
    model={"d_ff": 1024, "heads": 4, "dropout": 0.3},
    optimizer={"peak_learning_rate": 5e-4},
    data="iwslt14",
    vocab_size=10_000,
    max_tokens_per_batch=4_096,
    max_steps=50_000,
    valid_metric="bleu",
    weights="best",
    beam=5,
    alpha=1.0,
    **_epochs,
)
_toolkit(
    _base,
    "marian-transformer-base",
    "--task transformer-base",
    model=_CONCATENATED,
    optimizer={"peak_learning_rate": 3e-4, "warmup_steps": 16_000, "clip_norm": 5.0},
    moving_average=0.9999,
    weights="moving-average",
    beam=8,
    alpha=1.0,
    beta=0.0,
)

# ---- Recipes ----

_recipe = partial(_preset, "recipe")
_transformer_tiny = _recipe(
    _base,
    "multi30k-transformer-tiny",
    "Wu et al. 2021, Transformer-Tiny without pictures: tokenized BLEU on test_2016_flickr",
    Published(2.6, None, 41.02),
    model={**_fairseq_model, "layers": 4, "d_model": 128, "d_ff": 256, "heads": 4, "dropout": 0.3},
    optimizer={"peak_learning_rate": 0.005, "warmup_steps": 2_000, "epsilon": 1e-8, "clip_norm": 25.0},
    data="multi30k-tok",
    vocab_size=10_000,
    max_tokens_per_batch=4_096,
    accumulate=2,  # two GPUs of 4,096 slots there
    max_steps=8_000,
    patience=10,
    log_every=50,
    keep_checkpoints=10,
    average_checkpoints=10,
    beam=5,
    alpha=1.0,
    beta=0.0,
    bleu_tokenize="none",
    **_epochs,
)
_recipe(
    _transformer_tiny,
    "multi30k-ten-minutes",
    "the same model on two cores in ten minutes: tokenized BLEU on test_2016_flickr",
    # Measured: docs/results.md. Small updates, pre-norm and a rate that falls to 0 learn most from few tokens; 20
    # epochs need less dropout than 90
    model={"norm": "pre", "dropout": 0.2},
    optimizer={"peak_learning_rate": 0.0035, "warmup_steps": 600, "decay_steps": 5_400},
    kernels="numba",
    devices="cpu:2",  # two processes of one thread are faster than one of two
    max_tokens_per_batch=1_536,
    accumulate=1,
    max_steps=5_400,
    max_minutes=10.0,
    patience=None,
    valid_every=2,
    average_checkpoints=1,  # where the rate has fallen to 0, a mean of the last 2, 4 or 8 is no better
)
