"""The settings of a training run, and their checks; most checks are those of a translation, too.

Each field states its meaning, unit and source once, in `option`; the command line, its help and the checks of single
values are derived from it. The defaults of a run are the paper's base model and training (sections 5 and 6).
"""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from minitf.config.model import TransformerConfig
from minitf.config.options import check_fields, hidden, option, shown
from minitf.errors import UserError

MAX_PROCESSES = 1024


def check_device(device: str) -> None:
    """Check the name of a device.  Raises: UserError for a name that no device can have."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise UserError(f"device={shown(device)} is not a device; choose cpu, or cuda:0 for the first GPU")


def parse_devices(devices: str) -> tuple[str, int]:
    """Parse `--devices`: `8` or `cuda:8` -> ("cuda", 8), `cpu:4` -> ("cpu", 4).

    Raises: UserError for any other text
    """
    match = re.fullmatch(r"(?:(cpu|cuda):)?([0-9]{1,4})", devices)
    if not match or not 1 <= int(match[2]) <= MAX_PROCESSES:
        raise UserError(
            f"devices={shown(devices)} is not a number of devices; choose 8 for eight GPUs on this host, or cpu:4 for "
            f"four processes on its CPU, at most {MAX_PROCESSES:,}"
        )
    return match[1] or "cuda", int(match[2])


def check_precision(precision: str | None, on_gpu: bool) -> None:
    """Check that the device supports a precision.

    Raises: UserError for a precision of the other device.
    """
    if precision in ("tf32", "bf16") and not on_gpu:
        raise UserError(f"precision={precision} requires a GPU; choose --device cuda, or --precision float32")
    if precision == "int8" and on_gpu:
        raise UserError("precision=int8 requires --device cpu; on a GPU, choose --precision bf16")


FAST_ONLY = {"threads": None, "kernels": "numpy", "checkpoint_activations": False}
"""Settings that the fast implementation alone has, with the values that leave them unused."""


def check_plain(config: Any) -> None:
    """Check that a plain run uses nothing that the fast implementation alone has.

    Raises: UserError for the first setting that does
    """
    if not config.plain:
        return
    given = [name for name, unused in FAST_ONLY.items() if getattr(config, name, unused) not in (unused, "auto")]
    given += ["precision"] if config.precision in ("tf32", "bf16", "int8") else []
    if given:
        raise UserError(
            f"plain and {given[0]}={shown(getattr(config, given[0]))} cannot be combined: plain uses no fast "
            "implementation; omit one of them, or give --no-plain"
        )


PathPair = tuple[Path, Path]

PLAIN_HELP = (
    "use only the plain implementation, formulas in array code that are easy to step through with a debugger: "
    "slower, with the same results up to rounding"
)


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Adam, its learning rate and label smoothing. The defaults are those of sections 5.3 and 5.4."""

    beta1: float = hidden(0.9, "Adam's decay of the mean gradient (section 5.3)", at_least=0, below=1)
    beta2: float = hidden(0.98, "Adam's decay of the mean squared gradient (section 5.3)", at_least=0, below=1)
    epsilon: float = hidden(1e-09, "added to Adam's denominator (section 5.3)", above=0)
    warmup_steps: int = option(
        4000, "updates in which the learning rate rises; it then falls as 1/sqrt(step) (section 5.3)", at_least=1
    )
    learning_rate_scale: float = hidden(1.0, "factor on the learning rate given by equation 3 (section 5.3)", above=0)
    peak_learning_rate: float | None = option(
        None, "learning rate at the end of the warm-up; none: as in equation 3, 1/sqrt(d_model * warmup)", above=0
    )
    decay_steps: int | None = option(
        None, "updates until the rate, falling in a line after the warm-up, is 0; none: as 1/sqrt(step)", at_least=2
    )
    clip_norm: float | None = option(
        None, "clip the norm of the gradient of all parameters to this; none: no clipping, as in the paper", above=0
    )
    label_smoothing: float = option(
        0.1, "probability moved from the right token to all tokens, itself included (section 5.4)", at_least=0, below=1
    )

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
class RunConfig:
    """A training run. Hidden fields have no flag: presets set them."""

    # ---- Purpose and computer ----

    preset: str = option("base", "preset for all values that are not given; `minitf presets` lists all", section="Run")
    output: Path = option(Path("runs/base"), "run directory; must not contain a run")
    seed: int = option(0, "seed of all random numbers", at_least=0)
    precision: Literal["float32", "float64", "tf32", "bf16"] = option(
        "float32",
        "number format; on a GPU also tf32: float32 with the factors of products rounded to 10 bits; bf16: "
        "activations and products in bfloat16, with sums, statistics, weights and the loss in float32",
    )
    device: str = option("cpu", "device: cpu; cuda or cuda:0 for the first GPU; cuda:1 for the second", may_change=True)
    threads: int | None = option(
        None, "threads of all processes on a host; none: one per core", at_least=1, at_most=1024, may_change=True
    )
    kernels: Literal["numpy", "numba"] = option(
        "numpy",
        "CPU kernels for everything except matrix products: numba is faster and compiles its loops in the first run, "
        "in 10 to 15 seconds; results differ by rounding",
        may_change=True,
    )
    plain: bool = option(False, PLAIN_HELP, may_change=True)
    devices: str | None = option(
        None,
        "data-parallel training: 8 for eight GPUs on this host, cpu:4 for four processes on its CPU; none: one "
        "process, or the processes of mpiexec",
        may_change=True,
    )
    checkpoint_activations: bool = option(
        False, "recompute layers in the backward pass: less memory, a fifth more time, same results", may_change=True
    )

    # ---- Texts ----

    data: Literal["multi30k", "multi30k-tok", "wmt14-en-de", "wmt14-en-fr", "iwslt14"] | None = option(
        None,
        "public corpus, downloaded from its official site the first time; none: the given texts, or the built-in "
        "corpus of English and German phrases",
        section="Data",
    )
    data_dir: Path | None = option(
        None, "directory of the corpus of --data; files in it are used; none: in ~/.cache/minitf", may_change=True
    )
    train: PathPair | None = option(None, "source and target text for training, aligned line by line")
    valid: PathPair | None = option(None, "source and target text for validation; public corpora include it")
    test: PathPair | None = option(None, "source and target text to score at the end; public corpora include it")
    vocabulary: Path | None = option(None, "SentencePiece model to use; none: learn one from the training text")
    vocab_size: int = option(
        37000, "size of the vocabulary to learn, shared by both languages (tokens; section 5.1)", at_least=5
    )
    max_length: int = option(
        256, "omit longer pairs from training; includes the end-of-sentence token (tokens per side)", at_least=2
    )
    max_tokens_per_batch: int = option(
        25000, "maximum batch size, padding included (tokens per side; section 5.1)", at_least=1
    )
    accumulate: int = option(
        1, "batches summed per update: larger updates in the same memory (batches)", at_least=1, at_most=10**5
    )

    # ---- Training ----

    init: Path | None = option(
        None,
        "fine-tuning: start from the weights that this run or model of another program translates with, with its "
        "architecture and vocabulary; none: start from random weights",
        section="Training",
    )
    freeze: str | None = hidden(
        None,
        "parts that are not trained, separated by commas: embeddings, encoder, decoder, output, or names of "
        "parameters such as encoder.layers.0; none: train all",
    )
    max_steps: int = option(100000, "number of updates (updates; section 5.2)", at_least=1, may_change=True)
    max_minutes: float | None = option(
        None,
        "maximum training time, over all resumptions; if it ends the run before --max-steps, warm-up and decay of the "
        "learning rate fit it from step 100 on; none: train until --max-steps (minutes)",
        above=0,
        may_change=True,
    )
    patience: int | None = option(
        None, "stop after this many validations without improvement; none: never", at_least=1, may_change=True
    )
    valid_metric: Literal["loss", "bleu"] = option(
        "loss",
        "metric that decides which validation is best, for --patience and the best checkpoint; bleu translates the "
        "validation text each time, greedily",
    )
    valid_every: int = option(1500, "validation interval (updates)", at_least=1, may_change=True)
    valid_every_unit: Literal["updates", "epochs"] = hidden(
        "updates", "unit of valid_every; an epoch ends with its last update", may_change=True
    )
    log_every: int = option(100, "logging interval (updates)", at_least=1, may_change=True)
    save_every: int = option(
        1500, "checkpoint interval (updates; section 6.1: 10 minutes, 1,500 of base)", at_least=1, may_change=True
    )
    save_every_unit: Literal["updates", "epochs"] = hidden("updates", "unit of save_every", may_change=True)
    keep_checkpoints: int = hidden(
        5, "number of checkpoints to keep; older ones are deleted (checkpoints)", at_least=1, may_change=True
    )
    moving_average: float | None = hidden(
        None,
        "decay of an exponential moving average of the weights, such as 0.9999; validation then uses the average; "
        "none: no moving average",
        above=0,
        below=1,
    )

    # ---- Translation ----

    weights: Literal["average", "best", "moving-average"] = hidden(
        "average",
        "weights to translate with: average, the mean of the last --average-checkpoints; best, the weights at the "
        "best validation; moving-average, the average in the last checkpoint",
        may_change=True,
        section="Translation of the test text, and defaults of minitf translate",
    )
    average_checkpoints: int = option(
        5, "number of last checkpoints to average (checkpoints; section 6.1)", at_least=1, may_change=True
    )
    beam: int = option(
        4, "beam size; 1 is greedy search (hypotheses; section 6.1)", at_least=1, at_most=1000, may_change=True
    )
    alpha: float = hidden(0.6, "exponent of the length penalty (section 6.1)", at_least=0, at_most=100, may_change=True)
    beta: float = hidden(
        5.0, "beta of the penalty ((beta + length) / (beta + 1))^alpha", at_least=0, at_most=1e6, may_change=True
    )
    max_extra_length: int = option(
        50, "longest output: input length plus this (tokens; section 6.1)", at_least=1, at_most=10000, may_change=True
    )
    bleu_tokenize: Literal["13a", "intl", "char", "zh", "none"] = hidden(
        "13a", "tokenization for BLEU, as named by sacrebleu; none: the text is already tokenized", may_change=True
    )

    model: TransformerConfig = field(default_factory=TransformerConfig)
    optimizer: OptimizerConfig = field(default_factory=OptimizerConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        check_device(self.device)
        check_precision(self.precision, self.on_gpu)
        check_plain(self)
        if self.devices is not None:
            if self.device != "cpu":
                raise UserError(
                    f"device={self.device!r} and devices={self.devices!r} cannot be combined; choose one of the two"
                )
            parse_devices(self.devices)
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
        if self.weights == "moving-average" and self.moving_average is None:
            raise UserError("weights=moving-average requires moving_average; set it to a decay such as 0.9999")

    def _check_texts(self) -> None:
        if self.data_dir is not None and self.data is None:
            raise UserError(f"data_dir={self.data_dir} is the directory of a public corpus; give data, too")
        if self.train is None and (self.valid or self.test):
            given = "valid" if self.valid else "test"
            corpus = "the built-in corpus" if self.data is None else self.data
            raise UserError(f"{given} is given without train; {corpus} includes its own: give train, too")
        if self.train is not None and self.data is not None:
            raise UserError(f"data={self.data} and train are both given; choose one of the two")
        if self.train is not None and self.valid is None:
            if self.valid_metric == "bleu":
                raise UserError("valid_metric=bleu requires a validation text; give valid")
            if self.patience is not None:
                raise UserError(f"patience={self.patience} requires validations; give valid, or set patience to none")
            if self.weights == "best":
                raise UserError("weights=best requires validations; give valid, or choose other weights")
