"""The settings of a training run, by what they are about; run.py puts them together, and checks them.

A field states its meaning, unit and source once, in `option`; the command line, its help and all checks follow from
that. The defaults are the paper's base model and training (sections 5 and 6).
"""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from minitf.config.options import option

PathPair = tuple[Path, Path]


@dataclass(frozen=True, kw_only=True)
class PurposeSettings:
    """What a run learns, and where it is kept."""

    preset: str = option("base", "preset of all values that are not given; --list-presets lists all", section="Run")
    output: Path = option(Path("runs/base"), "run directory; it must not hold a run yet")
    seed: int = option(0, "seed of all random numbers", at_least=0, below=2**63)
    task: Literal["translation", "parsing"] = option(
        "translation",
        "translation: learn to turn lines into lines; parsing: sentences into their constituency trees",
        source="6.3",
    )


@dataclass(frozen=True, kw_only=True)
class ComputerSettings:
    """Where and how a run computes."""

    precision: Literal["float32", "float64", "tf32", "bf16"] = option(
        "float32",
        "numbers to compute with; on a GPU also tf32: float32, with the factors of products rounded to 10 bits; and "
        "bf16: activations and products in bfloat16, with sums, statistics, weights and the loss in float32",
    )
    device: str = option(
        "cpu", "where to compute: cpu; cuda or cuda:0, the first GPU; cuda:1, the second", may_change=True
    )
    threads: int | None = option(
        None,
        "threads to compute with, of all processes of a host; none: one per core",
        at_least=1,
        may_change=True,
        limit=1024,
    )
    kernels: Literal["numpy", "numba"] = option(
        "numpy",
        "how a CPU computes between matrix products: numba compiles its loops, in 10 to 15 seconds on the first run, "
        "and is faster; results differ by rounding",
        may_change=True,
    )
    plain: bool = option(
        False,
        "compute with the plain parts alone, formulas in array code that a debugger can step through: slower, and the "
        "same numbers to rounding",
        may_change=True,
    )
    devices: str | None = option(
        None,
        "data-parallel training: 8 for eight GPUs of this host, cpu:4 for four processes on its CPU; none: one "
        "process, or those of mpiexec",
        may_change=True,
    )
    graphs: int | None = option(
        None,
        "CUDA graphs to keep on a GPU, one for each shape of batch: the same numbers in fewer launches; 0: none; none: "
        "100 where a step can be captured",
        at_least=0,
        may_change=True,
        limit=100_000,
    )
    checkpoint_activations: bool = option(
        False,
        "keep only the inputs of layers for the backward pass, which computes the layers again: less memory, about a "
        "fifth more time, the same numbers",
        may_change=True,
    )
    reduce_dtype: Literal["full", "bfloat16"] = option(
        "full", "type of gradients as they are summed over processes: full as computed, bfloat16 in half the bytes"
    )
    rank_timeout: float = option(
        20.0,
        "abort the job when a process makes no progress for this long, unless it waits for others",
        unit="seconds",
        above=0,
        may_change=True,
        limit=1e6,
    )


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """What a run learns from, and how it is cut into batches."""

    data: Literal["multi30k", "multi30k-tok", "wmt14-en-de", "wmt14-en-fr", "iwslt14"] | None = option(
        None,
        "public corpus, downloaded from its official place the first time; none: the texts given, else the built-in "
        "corpus of English and German phrases",
        section="Data",
    )
    data_dir: Path | None = option(
        None,
        "folder that holds or is to hold the corpus chosen by --data; none: one in the cache, ~/.cache/minitf",
        may_change=True,
    )
    train: PathPair | None = option(None, "source and target text to learn from, aligned line by line", may_move=True)
    valid: PathPair | None = option(
        None, "source and target text for validation; a public corpus has its own", may_move=True
    )
    test: PathPair | None = option(
        None, "source and target text to translate and score at the end; a public corpus has its own", may_move=True
    )
    errors: Literal["strict", "replace"] = option(
        "strict", "bytes that are not UTF-8: strict stops and names the line, replace reads U+FFFD"
    )
    vocabulary: Path | None = option(
        None, "SentencePiece model to use; none: one is learned from the training text", may_move=True
    )
    vocab_size: int = option(
        37_000, "size of the vocabulary to learn, shared by both languages", unit="tokens", source="5.1", at_least=5
    )
    max_length: int = option(
        256, "leave longer pairs out of training; counts the end-of-sentence token", unit="tokens a side", at_least=2
    )
    max_tokens_per_batch: int = option(
        25_000, "largest batch, padding included", unit="tokens a side", source="5.1", at_least=1
    )
    accumulate: int = option(
        1, "batches summed for one update: larger updates in the same memory", unit="batches", at_least=1
    )


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Where a run starts, how long it trains, and what it measures and keeps on the way."""

    init: Path | None = option(
        None,
        "fine-tuning: start with the weights of this run, or model of another program, and keep its architecture and "
        "vocabulary; none: start with random weights",
        section="Training",
    )
    init_weights: Literal["average", "best", "moving-average", "last"] | None = option(
        None, "weights of --init to start with; last: those of its last checkpoint; none: those that it translates with"
    )
    init_digest: str | None = option(None, "SHA-256 of the weights and the vocabulary of --init", hidden=True)
    freeze: str | None = option(
        None,
        "parts that do not learn, separated by commas: embeddings, encoder, decoder, output, or names of parameters "
        "such as encoder.layers.0; none: all learn",
    )
    max_steps: int = option(100_000, "updates to train for", unit="updates", source="5.2", at_least=1, may_change=True)
    max_minutes: float | None = option(
        None, "training time, over all resumptions; none: until --max-steps", unit="minutes", above=0, may_change=True
    )
    patience: int | None = option(
        None,
        "stop after this many validations without improvement; none: never",
        unit="validations",
        at_least=1,
        may_change=True,
    )
    valid_metric: Literal["loss", "bleu"] = option(
        "loss",
        "metric that decides which validation is the best, for --patience and for the best checkpoint; bleu "
        "translates the validation text each time",
    )
    valid_bleu_every: int | None = option(
        None,
        "also compute BLEU at the first validation after each interval of this length, in the unit of "
        "--valid-every-unit; --valid-metric decides which validation is best; none: BLEU only with --valid-metric bleu",
        at_least=1,
        may_change=True,
    )
    valid_beam: int = option(
        1, "width of beam search for the BLEU of a validation; 1 is greedy", unit="hypotheses", at_least=1, limit=1000
    )
    on_divergence: Literal["stop", "skip"] = option(
        "stop",
        "an update whose loss or gradient is not finite: stop ends the run, skip leaves the update out and counts it",
        may_change=True,
    )
    valid_every: int = option(
        1_500, "validation interval, in the unit of --valid-every-unit", at_least=1, may_change=True
    )
    valid_every_unit: Literal["updates", "epochs"] = option(
        "updates", "unit of --valid-every; an epoch ends with the update that reaches its end", may_change=True
    )
    log_every: int = option(100, "updates between lines of the log", unit="updates", at_least=1, may_change=True)
    save_every: int = option(
        1_500,
        "checkpoint interval, in the unit of --save-every-unit; the paper's 10 minutes are 1,500 steps of 0.4 s (big: "
        "600 of 1.0 s)",
        source="6.1",
        at_least=1,
        may_change=True,
    )
    save_every_unit: Literal["updates", "epochs", "minutes"] = option(
        "updates",
        "unit of --save-every; minutes are those of training, over all resumptions, and give other checkpoints on a "
        "faster machine",
        may_change=True,
    )
    keep_checkpoints: int = option(
        5, "checkpoints to keep; older ones are deleted", unit="checkpoints", at_least=1, may_change=True
    )
    moving_average: float | None = option(
        None,
        "decay of an exponential moving average of the weights, such as 0.9999, which validations then measure; "
        "none: no moving average",
        above=0,
        below=1,
    )


@dataclass(frozen=True, kw_only=True)
class TranslationSettings:
    """How a run translates, of which `minitf translate` can choose otherwise."""

    weights: Literal["average", "best", "moving-average"] = option(
        "average",
        "weights that translate: average, the mean of the last --average-checkpoints; best, those of the best "
        "validation; moving-average, that of the last checkpoint",
        may_change=True,
        section="Translation of the test text, and defaults of translate.py",
    )
    average_checkpoints: int = option(
        5, "last checkpoints to average", unit="checkpoints", source="6.1", at_least=1, may_change=True
    )
    beam: int = option(
        4,
        "width of beam search; 1 is greedy",
        unit="hypotheses",
        source="6.1",
        at_least=1,
        may_change=True,
        limit=1000,
    )
    alpha: float = option(0.6, "exponent of the length penalty", source="6.1", at_least=0, may_change=True, limit=100)
    beta: float = option(
        5.0,
        "offset of the length in its penalty, ((beta + length) / (beta + 1))^alpha; 0 makes it length^alpha",
        at_least=0,
        may_change=True,
        limit=1e6,
    )
    max_extra_length: int = option(
        50,
        "longest output: tokens of the input plus this",
        unit="tokens",
        source="6.1",
        at_least=1,
        may_change=True,
        limit=10_000,
    )
    bleu_tokenize: Literal["13a", "intl", "char", "zh", "none"] = option(
        "13a", "tokenization of BLEU, by sacrebleu's names; none: the text is already tokenized", may_change=True
    )
