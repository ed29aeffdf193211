"""The settings of a training run, grouped by subject; run.py combines and checks them.

Each field states its meaning, unit and source once, in `option`; the command line, its help and all checks are derived
from it. The defaults are the paper's base model and training (sections 5 and 6).
"""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from minitf.config.fields import option

PathPair = tuple[Path, Path]


@dataclass(frozen=True, kw_only=True)
class PurposeSettings:
    """The task of a run, its directory and its seed."""

    preset: str = option("base", "preset for all values that are not given; --list-presets lists all", section="Run")
    output: Path = option(Path("runs/base"), "run directory; must not contain a run")
    seed: int = option(0, "seed of all random numbers", at_least=0, below=2**63)
    task: Literal["translation", "parsing"] = option(
        "translation",
        "translation: learn to translate lines of text; parsing: learn to parse sentences into constituency trees",
        source="6.3",
    )


@dataclass(frozen=True, kw_only=True)
class ComputerSettings:
    """The device, precision and processes of a run."""

    precision: Literal["float32", "float64", "tf32", "bf16"] = option(
        "float32",
        "number format; on a GPU also tf32: float32 with the factors of products rounded to 10 bits; bf16: activations "
        "and products in bfloat16, with sums, statistics, weights and the loss in float32, or with --kernels numba on "
        "a CPU that has AVX-512 BF16, factors of products and what is kept for the backward pass in bfloat16",
    )
    device: str = option("cpu", "device: cpu; cuda or cuda:0 for the first GPU; cuda:1 for the second", may_change=True)
    threads: int | None = option(
        None,
        "number of threads, of all processes on a host together; none: one per core",
        at_least=1,
        may_change=True,
        limit=1024,
    )
    kernels: Literal["numpy", "numba"] = option(
        "numpy",
        "CPU kernels for everything except matrix products: numba is faster and compiles its loops in the first run, "
        "in 10 to 15 seconds; results differ by rounding",
        may_change=True,
    )
    plain: bool = option(
        False,
        "use only the plain implementation, formulas in array code that are easy to step through with a debugger: "
        "slower, with the same results up to rounding",
        may_change=True,
    )
    devices: str | None = option(
        None,
        "data-parallel training: 8 for eight GPUs on this host, cpu:4 for four processes on its CPU; none: one "
        "process, or the processes of mpiexec",
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
        "keep only the inputs of layers and recompute the layers in the backward pass: less memory, about a fifth more "
        "time, identical results",
        may_change=True,
    )
    reduce_dtype: Literal["full", "bfloat16"] = option(
        "full", "type of gradients when summed over processes: full, as computed; bfloat16, with half the bytes"
    )
    rank_timeout: float = option(
        20.0,
        "abort the job if a process makes no progress for this time, unless it waits for others",
        unit="seconds",
        above=0,
        may_change=True,
        limit=1e6,
    )


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """The texts of a run, its vocabulary and its batches."""

    data: Literal["multi30k", "multi30k-tok", "wmt14-en-de", "wmt14-en-fr", "iwslt14"] | None = option(
        None,
        "public corpus, downloaded from its official site the first time; none: the given texts, or the built-in "
        "corpus of English and German phrases",
        section="Data",
    )
    data_dir: Path | None = option(
        None,
        "directory for the corpus selected by --data; files in it are used; none: in the cache, ~/.cache/minitf",
        may_change=True,
    )
    train: PathPair | None = option(None, "source and target text for training, aligned line by line", may_move=True)
    valid: PathPair | None = option(
        None, "source and target text for validation; public corpora include it", may_move=True
    )
    test: PathPair | None = option(
        None, "source and target text to score at the end; public corpora include it", may_move=True
    )
    errors: Literal["strict", "replace"] = option(
        "strict", "bytes that are not UTF-8: strict stops with an error that names the line, replace reads U+FFFD"
    )
    vocabulary: Path | None = option(
        None, "SentencePiece model to use; none: learn one from the training text", may_move=True
    )
    vocab_size: int = option(
        37_000, "size of the vocabulary to learn, shared by both languages", unit="tokens", source="5.1", at_least=5
    )
    max_length: int = option(
        256, "omit longer pairs from training; includes the end-of-sentence token", unit="tokens per side", at_least=2
    )
    max_tokens_per_batch: int = option(
        25_000, "maximum batch size, padding included", unit="tokens per side", source="5.1", at_least=1
    )
    accumulate: int = option(
        1, "batches summed per update: larger updates in the same memory", unit="batches", at_least=1
    )


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """The start of a run, its length, its validations and its checkpoints."""

    init: Path | None = option(
        None,
        "fine-tuning: start from the weights of this run or model of another program, with its architecture and "
        "vocabulary; none: start from random weights",
        section="Training",
    )
    init_weights: Literal["average", "best", "moving-average", "last"] | None = option(
        None, "weights of --init to start from; last: its last checkpoint; none: the weights that it translates with"
    )
    init_digest: str | None = option(None, "SHA-256 of the weights and the vocabulary of --init", hidden=True)
    freeze: str | None = option(
        None,
        "parts that are not trained, separated by commas: embeddings, encoder, decoder, output, or names of parameters "
        "such as encoder.layers.0; none: train all",
    )
    max_steps: int = option(100_000, "number of updates", unit="updates", source="5.2", at_least=1, may_change=True)
    max_minutes: float | None = option(
        None,
        "maximum training time, over all resumptions; none: train until --max-steps",
        unit="minutes",
        above=0,
        may_change=True,
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
        "metric that decides which validation is best, for --patience and the best checkpoint; bleu translates the "
        "validation text each time",
    )
    valid_bleu_every: int | None = option(
        None,
        "also compute BLEU at the first validation after each interval of this length, in the unit of "
        "--valid-every-unit; --valid-metric decides which validation is best; none: BLEU only with --valid-metric bleu",
        at_least=1,
        may_change=True,
    )
    valid_beam: int = option(
        1, "beam size for the BLEU of a validation; 1 is greedy search", unit="hypotheses", at_least=1, limit=1000
    )
    on_divergence: Literal["stop", "skip"] = option(
        "stop",
        "action if a loss or gradient is not finite: stop ends the run, skip omits the update and counts it",
        may_change=True,
    )
    valid_every: int = option(
        1_500, "validation interval, in the unit of --valid-every-unit", at_least=1, may_change=True
    )
    valid_every_unit: Literal["updates", "epochs"] = option(
        "updates", "unit of --valid-every; an epoch ends with its last update", may_change=True
    )
    log_every: int = option(100, "logging interval", unit="updates", at_least=1, may_change=True)
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
        "unit of --save-every; minutes are minutes of training, over all resumptions: a faster machine saves at other "
        "steps",
        may_change=True,
    )
    keep_checkpoints: int = option(
        5, "number of checkpoints to keep; older ones are deleted", unit="checkpoints", at_least=1, may_change=True
    )
    moving_average: float | None = option(
        None,
        "decay of an exponential moving average of the weights, such as 0.9999; validation then uses the average; "
        "none: no moving average",
        above=0,
        below=1,
    )


@dataclass(frozen=True, kw_only=True)
class TranslationSettings:
    """The settings for translating with a run; `minitf translate` can override them."""

    weights: Literal["average", "best", "moving-average"] = option(
        "average",
        "weights to translate with: average, the mean of the last --average-checkpoints; best, the weights at the best "
        "validation; moving-average, the average in the last checkpoint",
        may_change=True,
        section="Translation of the test text, and defaults of minitf translate",
    )
    average_checkpoints: int = option(
        5, "number of last checkpoints to average", unit="checkpoints", source="6.1", at_least=1, may_change=True
    )
    beam: int = option(
        4,
        "beam size; 1 is greedy search",
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
        "maximum output length: input length plus this number",
        unit="tokens",
        source="6.1",
        at_least=1,
        may_change=True,
        limit=10_000,
    )
    bleu_tokenize: Literal["13a", "intl", "char", "zh", "none"] = option(
        "13a", "tokenization for BLEU, as named by sacrebleu; none: the text is already tokenized", may_change=True
    )


@dataclass(frozen=True, kw_only=True)
class OptimizerSettings:
    """Adam, its learning rate and label smoothing (sections 5.3 and 5.4)."""

    beta1: float = option(0.9, "Adam's decay of the mean gradient", source="5.3", at_least=0, below=1)
    beta2: float = option(0.98, "Adam's decay of the mean squared gradient", source="5.3", at_least=0, below=1)
    epsilon: float = option(1e-9, "added to Adam's denominator", source="5.3", above=0)
    warmup_steps: int = option(
        4000,
        "updates during which the learning rate rises; it then falls as 1/sqrt(step)",
        unit="updates",
        source="5.3",
        at_least=1,
    )
    learning_rate_scale: float = option(1.0, "factor on the learning rate given by equation 3", source="5.3", above=0)
    peak_learning_rate: float | None = option(
        None, "learning rate at the end of the warm-up; none: as in equation 3, 1/sqrt(d_model * warmup)", above=0
    )
    decay_steps: int | None = option(
        None,
        "updates after which the learning rate, falling in a straight line after the warm-up, is 0; none: it falls as "
        "1/sqrt(step)",
        unit="updates",
        at_least=2,
    )
    clip_norm: float | None = option(
        None,
        "clip the norm of the gradient of all parameters to this value; none: no clipping, as in the paper",
        above=0,
    )
    label_smoothing: float = option(
        0.1,
        "probability moved from the correct token to all tokens of the vocabulary, including itself",
        source="5.4",
        at_least=0,
        below=1,
    )


@dataclass(frozen=True, kw_only=True)
class ParsingSettings:
    """The trees of a run with task=parsing, and their tokens (section 6.3)."""

    trees: Path | None = option(
        None, "training treebank, in brackets; none: the built-in treebank, drawn from a grammar", may_move=True
    )
    valid_trees: Path | None = option(
        None, "validation treebank; none: the twentieth of the trees before the test trees", may_move=True
    )
    test_trees: Path | None = option(
        None, "test treebank, scored at the end; none: the last twentieth of the trees", may_move=True
    )
    tags: Literal["pos", "xx"] = option(
        "pos", "pos: learn the part of speech of each word; xx: one tag for all words except punctuation"
    )
    form: Literal["joined", "symbols"] = option(
        "joined",
        "joined: one token per word, made of its tag and the brackets around it; symbols: one token per bracket, as in "
        "the paper's reference 37, three times as long",
    )
