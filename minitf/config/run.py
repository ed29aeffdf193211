"""Everything that can be chosen: frozen dataclasses, the paper's presets, and the file a run keeps them in.

A field says its meaning, unit and source once, in `option`; the command line, its help and all checks follow from
that. The defaults of `TransformerConfig`, `OptimizerConfig` and `RunConfig` are the paper's base model and training.
A preset is a complete `RunConfig` made by `dataclasses.replace`.
"""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from minitf.config.devices import parse_devices
from minitf.config.options import REQUIRED, check_fields, default_of, option
from minitf.errors import UserError

PathPair = tuple[Path, Path]


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """The architecture of section 3. The defaults are the base model."""

    vocab_size: int = option(0, "rows of the embedding; 0: as many as the vocabulary", at_least=0, hidden=True)
    layers: int = option(6, "layers of the encoder, and as many of the decoder", source="Table 3, N", at_least=1)
    d_model: int = option(512, "width of embeddings and of every sub-layer's output", source="3.1", at_least=1)
    heads: int = option(8, "attention heads", source="3.2.2, h", at_least=1)
    d_ff: int = option(2048, "inner width of the feed-forward networks", source="3.3", at_least=1)
    d_k: int | None = option(
        None, "width of queries and keys in a head; none: d_model / heads", source="3.2.2", at_least=1
    )
    d_v: int | None = option(None, "width of values in a head; none: d_model / heads", source="3.2.2", at_least=1)
    dropout: float = option(
        0.1, "dropout of sub-layer outputs and of embedding sums", unit="probability", source="5.4", at_least=0, below=1
    )
    attention_dropout: float = option(
        0.0, "dropout of attention weights; the paper names none", unit="probability", at_least=0, below=1
    )
    activation_dropout: float = option(
        0.0, "dropout inside the feed-forward networks; the paper names none", unit="probability", at_least=0, below=1
    )
    activation: Literal["relu", "gelu", "silu"] = option(
        "relu", "non-linearity of the feed-forward networks", source="3.3"
    )
    norm: Literal["post", "pre"] = option(
        "post",
        "post: LayerNorm(x + f(x)), the paper's; pre: x + f(LayerNorm(x)), steadier in deep models",
        source="3.1",
    )
    norm_epsilon: float = option(
        1e-6,
        "added to the variance in layer normalisation; the paper names none, its first public code has 1e-6",
        above=0,
    )
    positions: Literal["sinusoidal", "sinusoidal-concatenated", "learned"] = option(
        "sinusoidal",
        "sinusoidal: sin and cos in turn, the paper's; sinusoidal-concatenated: all sin, then all cos, as in its first "
        "public code; learned: a table, Table 3 row E",
        source="3.5",
    )
    max_positions: int = option(
        1024,
        "rows of the learned position table, so the longest sentence; sinusoids have no end",
        unit="tokens",
        at_least=1,
    )
    first_position: int = option(0, "number of the first position; fairseq counts from 2", unit="positions", at_least=0)
    attention_bias: bool = option(
        True, "biases in the projections of attention; the paper names none, its first public code has them"
    )
    attention_gain: float = option(
        1.0, "factor on the starting values of query, key and value projections; fairseq has 0.7071", above=0
    )
    share_embeddings: bool = option(
        True, "one matrix for source embedding, target embedding and output projection", source="3.4"
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if None in (self.d_k, self.d_v) and self.d_model % self.heads:
            raise UserError(
                f"d_model={self.d_model} is not divisible by heads={self.heads}; choose a multiple of {self.heads}"
            )
        if self.positions != "learned" and self.d_model % 2:
            raise UserError(
                f"d_model={self.d_model} is odd, but positions={self.positions} pairs sines with cosines; "
                "choose an even d_model or learned positions"
            )
        if self.positions == "learned" and self.first_position >= self.max_positions:
            raise UserError(
                f"first_position={self.first_position} is not among the max_positions={self.max_positions} of learned "
                f"positions; choose at least {self.first_position + 1} of them"
            )
        if self.positions == "sinusoidal-concatenated" and self.d_model < 4:
            raise UserError(f"d_model={self.d_model} is too small for positions={self.positions}; choose 4 or more")

    @property
    def head_d_k(self) -> int:
        """Width of queries and keys in a head: d_k, or d_model / heads."""
        return self.d_model // self.heads if self.d_k is None else self.d_k

    @property
    def head_d_v(self) -> int:
        """Width of values in a head: d_v, or d_model / heads, whatever d_k: Table 3 row B shrinks d_k alone."""
        return self.d_model // self.heads if self.d_v is None else self.d_v


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Adam, its learning rate and the loss it sees. The defaults are those of sections 5.3 and 5.4."""

    beta1: float = option(0.9, "Adam's decay of the mean gradient", source="5.3", at_least=0, below=1)
    beta2: float = option(0.98, "Adam's decay of the mean squared gradient", source="5.3", at_least=0, below=1)
    epsilon: float = option(1e-9, "added to Adam's denominator", source="5.3", above=0)
    warmup_steps: int = option(
        4000,
        "updates over which the learning rate rises; it then falls as 1/sqrt(step)",
        unit="updates",
        source="5.3",
        at_least=1,
    )
    learning_rate_scale: float = option(1.0, "factor on the learning rate of equation 3", source="5.3", above=0)
    peak_learning_rate: float | None = option(
        None, "learning rate at the end of the warm-up; none: what equation 3 gives, 1/sqrt(d_model * warmup)", above=0
    )
    clip_norm: float | None = option(
        None, "longest gradient, as the norm over all parameters; none: any, as in the paper", above=0
    )
    label_smoothing: float = option(
        0.1, "probability moved from the right token to all others", source="5.4", at_least=0, below=1
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.peak_learning_rate is not None and self.learning_rate_scale != 1:
            raise UserError(
                f"learning_rate_scale={self.learning_rate_scale} scales equation 3, which "
                f"peak_learning_rate={self.peak_learning_rate} replaces; choose one of the two"
            )


@dataclass(frozen=True, kw_only=True)
class ParsingConfig:
    """Which trees a run of task=parsing learns from, and what of them."""

    trees: Path | None = option(
        None, "treebank to learn from, in brackets; none: the built-in one, drawn from a grammar"
    )
    valid_trees: Path | None = option(
        None, "treebank to watch the loss on; none: a twentieth of the trees, before those that test"
    )
    test_trees: Path | None = option(None, "treebank to score at the end; none: the last twentieth of the trees")
    tags: Literal["pos", "xx"] = option(
        "pos", "pos: learn the part of speech of each word; xx: one tag for all words, punctuation aside"
    )
    form: Literal["joined", "symbols"] = option(
        "joined",
        "joined: one token a word, of the brackets and the tag around it; symbols: one a bracket, as the paper's "
        "reference 37, three times as long",
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.trees is None and (self.valid_trees or self.test_trees):
            given = "valid_trees" if self.valid_trees else "test_trees"
            raise UserError(f"{given} is given without trees; the built-in treebank brings its own: give trees, too")


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """One training run: data, vocabulary, model, optimizer, and when to stop, save and look."""

    preset: str = option("base", "where the other values start from; --list-presets names all", section="Run")
    output: Path = option(Path("runs/base"), "folder of the run; it must hold no run yet")
    seed: int = option(0, "start of every random number", at_least=0, below=2**63)
    precision: Literal["float32", "float64", "tf32", "bf16"] = option(
        "float32",
        "numbers to compute with; on a GPU also tf32: float32, but the factors of products rounded to 10 bits; and "
        "bf16: activations and products in bfloat16, with sums, statistics, weights and the loss in float32",
    )
    device: str = option("cpu", "where to compute: cpu; cuda or cuda:0, the first GPU; cuda:1, the second")
    threads: int | None = option(
        None,
        "threads of matrix products, shared out among the processes of a host; none: one a core",
        at_least=1,
        may_change=True,
    )
    devices: str | None = option(
        None,
        "train on several at once, as one: 8 is eight GPUs of this host, cpu:4 four processes on its CPU; none: one "
        "process, or those of mpiexec",
        may_change=True,
    )
    reduce_dtype: Literal["full", "bfloat16"] = option(
        "full",
        "numbers that gradients travel in between processes: full as they are computed, bfloat16 in half the bytes",
    )
    rank_timeout: float = option(
        20.0,
        "a process of several that stands still for so long, and not to wait for the others, ends the job",
        unit="seconds",
        above=0,
        may_change=True,
    )
    task: Literal["translation", "parsing"] = option(
        "translation",
        "what is learned: translation, of lines into lines; parsing, of sentences into their constituency trees",
        source="6.3",
    )

    data: Literal["multi30k", "multi30k-tok", "wmt14-en-de", "wmt14-en-fr", "iwslt14"] | None = option(
        None,
        "a public corpus, downloaded from its official place the first time; none: the texts given, else the built-in "
        "corpus of English and German phrases",
        section="Data",
    )
    data_dir: Path | None = option(
        None, "folder of the corpus chosen by data, or for it; none: one in the user's cache, ~/.cache/minitf"
    )
    train: PathPair | None = option(None, "source and target text to learn from, line by line")
    valid: PathPair | None = option(None, "source and target text to watch the loss on; a corpus has its own")
    test: PathPair | None = option(None, "source and target text to score at the end; a corpus has its own")
    errors: Literal["strict", "replace"] = option(
        "strict", "bytes that are not UTF-8: strict stops and names the line, replace puts U+FFFD"
    )
    vocabulary: Path | None = option(None, "a SentencePiece model to use; none: one is learned from the training text")
    vocab_size: int = option(
        37_000, "size of the vocabulary to learn, shared by both languages", unit="tokens", source="5.1", at_least=5
    )
    max_length: int = option(
        256, "longer pairs are left out of training; counts the end token", unit="tokens a side", at_least=2
    )
    max_tokens_per_batch: int = option(
        25_000, "most that is computed at once, padding included", unit="tokens a side", source="5.1", at_least=1
    )
    accumulate: int = option(
        1,
        "batches whose gradients are added up for one update: larger updates in the same memory",
        unit="batches",
        at_least=1,
    )

    max_steps: int = option(
        100_000, "updates to train for", unit="updates", source="5.2", section="Training", at_least=1, may_change=True
    )
    max_minutes: float | None = option(
        None,
        "time to train for, counted over all resumptions; none: until the steps are done",
        unit="minutes",
        above=0,
        may_change=True,
    )
    patience: int | None = option(
        None,
        "stop when this many validations in a row have brought nothing better; none: never",
        unit="validations",
        at_least=1,
        may_change=True,
    )
    valid_metric: Literal["loss", "bleu"] = option(
        "loss",
        "what makes a validation the best so far, for patience and for the checkpoint that is kept as the best; bleu "
        "translates the validation text each time",
    )
    valid_beam: int = option(
        1, "width of beam search for the BLEU of a validation; 1 is greedy", unit="hypotheses", at_least=1
    )
    on_divergence: Literal["stop", "skip"] = option(
        "stop",
        "an update whose loss or gradient is not a number: stop ends the run there, skip leaves the update out and "
        "counts it",
        may_change=True,
    )
    valid_every: int = option(1_500, "how often to validate, counted in valid_every_unit", at_least=1, may_change=True)
    valid_every_unit: Literal["updates", "epochs"] = option(
        "updates", "what valid_every counts; an epoch ends with the update that reaches its end", may_change=True
    )
    log_every: int = option(100, "updates between lines of the log", unit="updates", at_least=1, may_change=True)
    save_every: int = option(
        1_500,
        "how often to save a checkpoint, counted in save_every_unit; the paper's 10 minutes are 1,500 steps of 0.4 s "
        "(big: 600 of 1.0 s)",
        source="6.1",
        at_least=1,
        may_change=True,
    )
    save_every_unit: Literal["updates", "epochs", "minutes"] = option(
        "updates",
        "what save_every counts; minutes are those of training, over all resumptions, and give other checkpoints on "
        "a faster machine",
        may_change=True,
    )
    keep_checkpoints: int = option(
        5, "checkpoints kept; older ones are deleted", unit="checkpoints", at_least=1, may_change=True
    )
    moving_average: float | None = option(
        None,
        "decay of an exponential moving average of the weights, such as 0.9999, which validations then measure; "
        "none: no such average",
        above=0,
        below=1,
    )
    weights: Literal["average", "best", "moving-average"] = option(
        "average",
        "what translates: average, the mean of the last average_checkpoints; best, the weights of the best validation; "
        "moving-average, that of the last checkpoint",
        may_change=True,
        section="Translation of the test text, and what translate.py starts from",
    )
    average_checkpoints: int = option(
        5, "last checkpoints whose mean translates", unit="checkpoints", source="6.1", at_least=1, may_change=True
    )
    beam: int = option(
        4, "width of beam search; 1 is greedy", unit="hypotheses", source="6.1", at_least=1, may_change=True
    )
    alpha: float = option(0.6, "exponent of the length penalty", source="6.1", at_least=0, may_change=True)
    beta: float = option(
        5.0,
        "offset of the length in its penalty, ((beta + length) / (beta + 1))^alpha; 0 makes it length^alpha",
        at_least=0,
        may_change=True,
    )
    max_extra_length: int = option(
        50, "longest output: tokens of the input plus this", unit="tokens", source="6.1", at_least=1, may_change=True
    )
    bleu_tokenize: Literal["13a", "intl", "char", "zh", "none"] = option(
        "13a",
        "how BLEU splits text, by sacrebleu's names; none: at spaces alone, for text that has been tokenized already",
        may_change=True,
    )

    model: TransformerConfig = default_of(TransformerConfig)
    optimizer: OptimizerConfig = default_of(OptimizerConfig)
    parsing: ParsingConfig = default_of(ParsingConfig)

    def __post_init__(self) -> None:
        check_fields(self)
        check_device(self.device)
        check_precision(self.precision, self.on_gpu)
        if self.devices is not None and self.device != "cpu":
            raise UserError(
                f"device={self.device!r} and devices={self.devices!r} exclude each other; choose one of the two"
            )
        if self.devices is not None:
            parse_devices(self.devices)
        if self.max_tokens_per_batch < self.max_length:
            raise UserError(
                f"max_tokens_per_batch={self.max_tokens_per_batch} cannot hold a sentence of "
                f"max_length={self.max_length} tokens; choose {self.max_length} or more, or a smaller max_length"
            )
        needed = self.max_length + self.model.first_position
        if self.model.positions == "learned" and needed > self.model.max_positions:
            raise UserError(
                f"max_length={self.max_length} is longer than the max_positions={self.model.max_positions} of learned "
                f"positions; choose max_positions of {needed} or more, or a smaller max_length"
            )
        if self.average_checkpoints > self.keep_checkpoints:
            raise UserError(
                f"average_checkpoints={self.average_checkpoints} are more than the keep_checkpoints="
                f"{self.keep_checkpoints} that are kept; choose keep_checkpoints of {self.average_checkpoints} or more"
            )
        if self.weights == "moving-average" and self.moving_average is None:
            raise UserError("weights=moving-average needs such an average; give moving_average a decay such as 0.9999")
        self._check_texts()

    @property
    def dtype(self) -> str:
        """Numbers of parameters and optimizer: float64 with that precision, float32 with every other."""
        return "float64" if self.precision == "float64" else "float32"

    @property
    def on_gpu(self) -> bool:
        """Whether a GPU, or several, are to compute."""
        return self.device != "cpu" or (self.devices is not None and parse_devices(self.devices)[0] == "cuda")

    def _check_texts(self) -> None:
        if self.task == "parsing" and (self.train or self.valid or self.test or self.data):
            raise UserError("task=parsing learns from trees, not from texts; give parsing.trees instead")
        if self.task == "parsing" and self.valid_metric == "bleu":
            raise UserError("valid_metric=bleu scores translations, not trees; choose loss for task=parsing")
        if self.task == "translation" and self.parsing != ParsingConfig():
            raise UserError("the values of parsing are for task=parsing; give that, or leave them out")
        if self.data_dir is not None and self.data is None:
            raise UserError(f"data_dir={self.data_dir} is the folder of a public corpus; give data, too")
        if self.train is None and (self.valid or self.test):
            given = "valid" if self.valid else "test"
            corpus = "the built-in corpus" if self.data is None else self.data
            raise UserError(f"{given} is given without train; {corpus} brings its own: give train, too")
        if self.train is not None and self.data is not None:
            raise UserError(f"data={self.data} and train are both given; choose one of the two")
        if self.train is None or self.valid is not None:
            return
        if self.patience is not None:
            raise UserError(f"patience={self.patience} watches the validations; give valid, or patience none")
        if self.weights == "best":
            raise UserError("weights=best takes those of the best validation; give valid, or other weights")


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    """One translation. What is none comes from the run."""

    run: Path = option(REQUIRED, "folder of a training run", positional=True)
    input: Path | None = option(None, "text to translate, a sentence a line; none: standard input", section="Text")
    output: Path | None = option(None, "file for the translations, a line for each line; none: standard output")
    reference: Path | None = option(None, "right translations, to print the BLEU score")
    bleu_tokenize: Literal["13a", "intl", "char", "zh", "none"] = option(
        "13a",
        "how BLEU splits text, by sacrebleu's names; none: at spaces alone, for text that has been tokenized already",
    )
    errors: Literal["strict", "replace"] = option(
        "strict", "bytes that are not UTF-8: strict stops and names the line, replace puts U+FFFD"
    )
    beam: int | None = option(
        None, "width of beam search; 1 is greedy; none: the run's", unit="hypotheses", section="Search", at_least=1
    )
    alpha: float | None = option(None, "exponent of the length penalty; none: the penalty's, or the run's", at_least=0)
    beta: float | None = option(
        None, "offset of the length in its penalty; none: the penalty's, or the run's", at_least=0
    )
    penalty: (
        Literal["paper", "tensor2tensor", "opennmt-wu", "joeynmt", "fairseq", "marian", "sockeye", "none"] | None
    ) = option(None, "length penalty as a toolkit has it, but for an alpha or beta that is given; none: the run's")
    max_extra_length: int | None = option(
        None, "longest output: tokens of the input plus this; none: the run's", unit="tokens", at_least=1
    )
    max_length: int | None = option(
        None, "longest output, end token included, whatever the input; none: no such limit", unit="tokens", at_least=1
    )
    min_length: int | None = option(None, "shortest output, end token included; none: 1", unit="tokens", at_least=1)
    prefix: Path | None = option(
        None, "how each translation must begin: a line for each line of the input, maybe empty"
    )
    same_bits: bool = option(
        False, "a line's translation and score do not depend on the other lines, to the last bit; about half as fast"
    )
    sample: bool = option(False, "draw translations at random instead of searching for the best", section="Sampling")
    temperature: float | None = option(
        None, "below 1, probable tokens become more probable; above 1, less; none: 1", above=0
    )
    top_k: int | None = option(None, "draw among so many of the most probable; none: all", unit="tokens", at_least=1)
    top_p: float | None = option(
        None, "draw among the fewest that together are so probable; none: all", unit="probability", above=0, at_most=1
    )
    seed: int | None = option(None, "start of the random numbers of every sentence; none: 0", at_least=0)
    format: Literal["text", "jsonl"] = option(
        "text", "jsonl: an object a line, with scores and tokens", section="What is written"
    )
    nbest: int = option(
        1,
        "translations of each line; as text, more than one are lines of number ||| text ||| log-probability ||| score",
        at_least=1,
    )
    alignment: bool = option(
        False, "which word comes from which, by the decoder's attention: pairs of word numbers from 0, source-target"
    )
    score: Path | None = option(
        None, "given translations, to write the log-probability and score of each instead of translating"
    )
    average: int | None = option(
        None,
        "last checkpoints whose mean translates; none: as many as the run says",
        unit="checkpoints",
        section="Model",
        at_least=1,
    )
    checkpoint: int | None = option(None, "translate with the one checkpoint of this step", unit="step", at_least=0)
    weights: Literal["average", "best", "moving-average"] | None = option(
        None,
        "what translates: average, the mean of the last checkpoints; best, the weights of the best validation; "
        "moving-average, that of the last checkpoint; none: what the run says",
    )
    attention: Path | None = option(
        None,
        "file for what the model looks at: .html for a page to explore, .png, .svg or .pdf for a picture of the first "
        "line",
        section="Attention",
    )
    attention_lines: int = option(
        20, "lines on the page, from the first one that is not blank", unit="lines", at_least=1
    )
    attention_kind: Literal["encoder", "decoder", "cross"] = option(
        "cross", "which attention is drawn, or shown first: source to source, target to target, target to source"
    )
    attention_layer: int | None = option(
        None, "which layer is drawn, or shown first; none: all, the last first", unit="counted from 1", at_least=1
    )
    attention_head: int | None = option(
        None, "which head is drawn, or shown first; none: all", unit="counted from 1", at_least=1
    )
    max_tokens_per_batch: int = option(
        4_096, "most input tokens computed at once, padding included", unit="tokens", section="Computer", at_least=1
    )
    max_sentences_per_batch: int | None = option(
        None, "most sentences computed at once; none: as many as pay", unit="sentences", at_least=1
    )
    device: str = option("cpu", "where to compute: cpu; cuda or cuda:0, the first GPU; cuda:1, the second")
    precision: Literal["float32", "float64", "tf32", "bf16"] | None = option(
        None, "numbers to compute with; none: the run's, or float32 where only a GPU has these"
    )
    threads: int | None = option(None, "threads of matrix products; none: one a core", at_least=1)
    quiet: bool = option(False, "print translations and errors only")

    def __post_init__(self) -> None:
        check_fields(self)
        check_device(self.device)
        check_precision(self.precision, self.device != "cpu")
        if self.average is not None and self.checkpoint is not None:
            raise UserError(
                f"average={self.average} and checkpoint={self.checkpoint} exclude each other; choose one of the two"
            )
        if self.weights in ("best", "moving-average") and (self.average or self.checkpoint) is not None:
            raise UserError(
                f"weights={self.weights} is neither an average of checkpoints nor one of them; leave out average and "
                "checkpoint, or weights"
            )
        self._check_kind_of_work()

    def _check_kind_of_work(self) -> None:
        for name in ("reference", "prefix", "sample", "attention"):
            if self.score is not None and getattr(self, name):
                raise UserError(f"score and {name} exclude each other: score writes no new translations; leave one out")
        if self.prefix is not None and self.attention is not None:
            raise UserError("prefix and attention exclude each other: the pictures are of free translations")
        if self.score is not None and self.nbest > 1:
            raise UserError(f"nbest={self.nbest} and score exclude each other: a line has one given translation")


def check_device(device: str) -> None:
    """Raises: UserError for a name that no device can have."""
    if not re.fullmatch(r"cpu|cuda(:\d+)?", device):
        raise UserError(f"device={device!r} is no device; choose cpu, or cuda:0 for the first GPU")


def check_precision(precision: str | None, on_gpu: bool) -> None:
    """Raises: UserError for what only a GPU computes in."""
    if precision in ("tf32", "bf16") and not on_gpu:
        raise UserError(f"precision={precision} is for GPUs; choose --device cuda, or --precision float32")


# ---- Presets ----

_base = RunConfig()

_big = replace(  # Table 3, last row; 6.1 for the checkpoints
    _base,
    preset="big",
    output=Path("runs/big"),
    max_steps=300_000,
    save_every=600,
    valid_every=600,
    keep_checkpoints=20,
    average_checkpoints=20,
    model=replace(_base.model, d_model=1024, d_ff=4096, heads=16, dropout=0.3),
)

_small = replace(  # a real corpus of some 10,000 to 100,000 pairs on a laptop
    _base,
    preset="small",
    output=Path("runs/small"),
    vocab_size=8_000,
    max_tokens_per_batch=4_096,
    max_steps=20_000,
    valid_every=500,
    log_every=50,
    save_every=500,
    model=replace(_base.model, layers=3, d_model=256, d_ff=1024, heads=4),
    optimizer=replace(_base.optimizer, warmup_steps=2_000),
)

_tiny = replace(  # the built-in corpus on a laptop, in minutes
    _small,
    preset="tiny",
    output=Path("runs/tiny"),
    vocab_size=1_000,
    max_tokens_per_batch=1_024,  # small updates learn most from few tokens
    max_steps=1_000,
    valid_every=250,
    log_every=20,
    save_every=40,
    # three epochs of a corpus without noise: nothing to overfit, so dropout would only slow it down
    model=replace(_small.model, d_model=128, d_ff=512, dropout=0.0),
    optimizer=replace(_base.optimizer, warmup_steps=150, peak_learning_rate=0.003),
)

PRESETS: dict[str, RunConfig] = {preset.preset: preset for preset in (_tiny, _small, _base, _big)}
DEFAULT_PRESET = "tiny"
