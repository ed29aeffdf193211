"""The configuration of a training run: settings (run_settings.py), model, optimizer and trees; checks and identity."""

# ruff: noqa: RUF009 (`default_of` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

import re
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args

from minitf.config.alternatives import check_plain, parse_devices
from minitf.config.fields import default_of
from minitf.config.model import TransformerConfig
from minitf.config.options import check_fields, shown
from minitf.config.run_settings import (
    ComputerSettings,
    OptimizerSettings,
    ParsingSettings,
    PurposeSettings,
    TextSettings,
    TrainingSettings,
    TranslationSettings,
)
from minitf.errors import UserError


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig(OptimizerSettings):
    """Adam, its learning rate and label smoothing. The defaults are those of sections 5.3 and 5.4."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.peak_learning_rate is not None and self.learning_rate_scale != 1:
            raise UserError(
                f"learning_rate_scale={self.learning_rate_scale} scales equation 3, which "
                f"peak_learning_rate={self.peak_learning_rate} replaces; choose one of the two"
            )
        if self.decay_steps is not None and self.decay_steps <= self.warmup_steps:
            raise UserError(
                f"decay_steps={self.decay_steps} leaves no updates after warmup_steps={self.warmup_steps}; choose more "
                "of the one or fewer of the other"
            )


@dataclass(frozen=True, kw_only=True)
class ParsingConfig(ParsingSettings):
    """The trees of a run with task=parsing, and how they are written as tokens."""

    def __post_init__(self) -> None:
        check_fields(self)
        if self.trees is None and (self.valid_trees or self.test_trees):
            given = "valid_trees" if self.valid_trees else "test_trees"
            raise UserError(f"{given} is given without trees; the built-in treebank includes its own: give trees, too")


@dataclass(frozen=True, kw_only=True)
class RunConfig(TranslationSettings, TrainingSettings, TextSettings, ComputerSettings, PurposeSettings):
    """A training run. The fields are in the order of the bases, the last one first."""

    model: TransformerConfig = default_of(TransformerConfig)
    optimizer: OptimizerConfig = default_of(OptimizerConfig)
    parsing: ParsingConfig = default_of(ParsingConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        check_device(self.device)
        check_precision(self.precision, self.on_gpu, self.kernels)
        self._check_amounts()
        self._check_texts()

    @property
    def dtype(self) -> str:
        """Type of parameters and optimizer state: float64 with that precision, float32 with every other."""
        return "float64" if self.precision == "float64" else "float32"

    @property
    def on_gpu(self) -> bool:
        """Whether the run uses one or several GPUs."""
        return self.device != "cpu" or (self.devices is not None and parse_devices(self.devices)[0] == "cuda")

    def _check_amounts(self) -> None:
        if self.devices is not None:
            if self.device != "cpu":
                raise UserError(
                    f"device={self.device!r} and devices={self.devices!r} cannot be combined; choose one of the two"
                )
            parse_devices(self.devices)
        if self.plain:
            check_plain(self, ("threads", "kernels", "graphs", "checkpoint_activations"))
        if self.reduce_dtype == "bfloat16" and self.dtype == "float64":
            raise UserError("reduce_dtype=bfloat16 requires float32 gradients; omit it with precision=float64")
        if self.graphs and self.checkpoint_activations:
            raise UserError(
                f"graphs={self.graphs} and checkpoint_activations cannot be combined; use --graphs 0, or omit "
                "checkpoint_activations"
            )
        decay_steps = self.optimizer.decay_steps
        if decay_steps is not None and self.max_steps > decay_steps:
            raise UserError(
                f"max_steps={self.max_steps} continues after decay_steps={decay_steps}, where the learning rate is 0; "
                f"choose max_steps of {decay_steps} or fewer, or start a run with more decay_steps"
            )
        if self.max_tokens_per_batch < self.max_length:
            raise UserError(
                f"max_tokens_per_batch={self.max_tokens_per_batch} cannot hold a sentence of "
                f"max_length={self.max_length} tokens; choose {self.max_length} or more, or a smaller max_length"
            )
        needed = self.max_length + self.model.first_position
        if self.model.positions == "learned" and needed > self.model.max_positions:
            raise UserError(
                f"max_length={self.max_length} exceeds max_positions={self.model.max_positions} of learned "
                f"positions; choose max_positions of {needed} or more, or a smaller max_length"
            )
        if self.average_checkpoints > self.keep_checkpoints:
            raise UserError(
                f"average_checkpoints={self.average_checkpoints} exceeds keep_checkpoints={self.keep_checkpoints}; "
                f"choose keep_checkpoints of {self.average_checkpoints} or more"
            )
        if self.init is None and self.init_weights is not None:
            raise UserError(f"init_weights={self.init_weights} requires a run to start from; give init, too")
        if self.weights == "moving-average" and self.moving_average is None:
            raise UserError("weights=moving-average requires moving_average; set it to a decay such as 0.9999")

    def _check_texts(self) -> None:
        if self.task == "parsing" and (self.train or self.valid or self.test or self.data):
            raise UserError("task=parsing learns from trees, not from texts; give parsing.trees instead")
        if self.task == "parsing" and self.valid_metric == "bleu":
            raise UserError("valid_metric=bleu scores translations, not trees; choose loss for task=parsing")
        if self.valid_metric == "bleu" and self.train is not None and self.valid is None:
            raise UserError("valid_metric=bleu requires a validation text; give valid")
        if self.valid_bleu_every is not None:
            if self.task == "parsing":
                raise UserError("valid_bleu_every scores translations, not trees; omit it for task=parsing")
            if self.train is not None and self.valid is None:
                raise UserError(f"valid_bleu_every={self.valid_bleu_every} requires a validation text; give valid")
        if self.task == "translation" and self.parsing != ParsingConfig():
            raise UserError("the options of parsing require task=parsing; set it, or omit the options")
        if self.data_dir is not None and self.data is None:
            raise UserError(f"data_dir={self.data_dir} is the directory of a public corpus; give data, too")
        if self.train is None and (self.valid or self.test):
            given = "valid" if self.valid else "test"
            corpus = "the built-in corpus" if self.data is None else self.data
            raise UserError(f"{given} is given without train; {corpus} includes its own: give train, too")
        if self.train is not None and self.data is not None:
            raise UserError(f"data={self.data} and train are both given; choose one of the two")
        if self.train is not None and self.valid is None and self.patience is not None:
            raise UserError(f"patience={self.patience} requires validations; give valid, or set patience to none")
        if self.train is not None and self.valid is None and self.weights == "best":
            raise UserError("weights=best requires validations; give valid, or choose other weights")


# ---- Identity ----
#
# Values that decide which numbers come out bind config.json to the checkpoints of its run.
# A checkpoint carries them, under its digest. Not among them: values that a resumed run may change (`may_change`), and
# paths; texts and vocabulary are bound by their digests. Values that one side lacks are not compared, so that a run to
# which a field is unknown can be used.

SOURCES = ("preset", "data")
"""Fields that name a source, and no number."""
SIZES = ("model.vocab_size", "model.source_vocab_size")
"""Filled in from the vocabulary, whose digest binds them."""

TRAINING_ONLY = ("model.dropout", "model.attention_dropout", "model.activation_dropout", "model.attention_gain")
TRANSLATION = ("task", "precision", "max_length", "parsing.tags", "parsing.form")
"""Fields outside the model that a translation depends on."""


def decisive_values(config: RunConfig) -> dict[str, Any]:
    """Return the values that decide the results, by name: {"seed": 0, "model.heads": 8, …}"""
    return _values(config, "")


def edits(recorded: Any, config: RunConfig, *, for_translation: bool = False) -> list[str]:
    """Describe the decisive values that differ from those recorded: `model.heads is 4 and was 8`."""
    now = decisive_values(config)
    common = [name for name in now if isinstance(recorded, dict) and name in recorded]
    if for_translation:
        common = [name for name in common if _matters_for_translation(name)]
    return [
        f"{name} is {shown(now[name])} and was {shown(recorded[name])}"
        for name in common
        if now[name] != recorded[name]
    ]


def _matters_for_translation(name: str) -> bool:
    return name in TRANSLATION or (name.startswith("model.") and name not in TRAINING_ONLY)


def _values(config: Any, prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for each in fields(config):
        value = getattr(config, each.name)
        if is_dataclass(value):
            found |= _values(value, f"{each.name}.")
        elif not (each.metadata["may_change"] or _is_path(each.type) or prefix + each.name in (*SOURCES, *SIZES)):
            found[prefix + each.name] = list(value) if isinstance(value, tuple) else value  # as JSON has it
    return found


def _is_path(kind: Any) -> bool:
    return kind is Path or any(map(_is_path, get_args(kind)))


# ---- Devices ----


def check_device(device: str) -> None:
    """Check the name of a device.  Raises: UserError for a name that no device can have."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise UserError(f"device={shown(device)} is not a device; choose cpu, or cuda:0 for the first GPU")


def check_precision(precision: str | None, on_gpu: bool, kernels: str) -> None:
    """Check that the device supports a precision, a CPU with `kernels`.

    Raises: UserError for a precision of the other device.
    """
    if precision in ("tf32", "bf16") and not on_gpu and (precision, kernels) != ("bf16", "numba"):
        others = ", --kernels numba" if precision == "bf16" else ""
        raise UserError(f"precision={precision} requires a GPU; choose --device cuda{others}, or --precision float32")
    if precision == "int8" and on_gpu:
        raise UserError("precision=int8 requires --device cpu; on a GPU, choose --precision bf16")
