"""The settings of a translation with a trained run, and their checks."""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from minitf.config.devices import check_device, check_plain, check_precision
from minitf.config.options import REQUIRED, check_fields, option
from minitf.config.run_config import PLAIN_HELP
from minitf.errors import UserError


@dataclass(frozen=True, kw_only=True)
class TranslateConfig:
    """A translation; a value of none is taken from the run, unless the help says otherwise."""

    run: Path = option(REQUIRED, "run directory, or a model of another program", positional=True)
    more: tuple[Path, ...] = option(
        (), "further runs for an ensemble, which averages the probabilities of all runs", positional=True
    )
    input: Path | None = option(None, "text to translate, one sentence per line; none: standard input", section="Text")
    text: str | None = option(None, "text to translate, in place of an input")
    output: Path | None = option(None, "file for the translations, one line per input line; none: standard output")
    reference: Path | None = option(None, "reference translations; prints the BLEU score")
    score: Path | None = option(
        None, "file of translations: print the log-probability and score of each instead of translating"
    )
    format: Literal["text", "jsonl"] = option("text", "jsonl: one JSON object per line, with scores and tokens")
    nbest: int = option(
        1,
        "number of translations per line; if more than 1, text lines are number ||| text ||| log-probability ||| score",
        at_least=1,
        at_most=1000,
    )
    alignment: bool = option(
        False, "print the word alignment from the decoder's attention: pairs source-target of word numbers from 0"
    )
    quiet: bool = option(False, "print translations and errors only")

    beam: int | None = option(
        None, "beam size; 1 is greedy search", unit="hypotheses", section="Search", at_least=1, at_most=1000
    )
    alpha: float | None = option(None, "exponent of the length penalty", at_least=0, at_most=100)
    beta: float | None = option(
        None,
        "offset of the length in its penalty, ((beta + length) / (beta + 1))^alpha; 0 makes it length^alpha",
        at_least=0,
        at_most=1e6,
    )
    max_extra_length: int | None = option(
        None, "maximum output length: input length plus this number", unit="tokens", at_least=1, at_most=10_000
    )

    sample: bool = option(False, "draw translations at random instead of searching for the best", section="Sampling")
    temperature: float | None = option(
        None, "divisor of the logits: below 1 sharpens, above 1 flattens the distribution; none: 1", above=0
    )
    top_k: int | None = option(
        None, "sample only among this number of most probable tokens; none: all", unit="tokens", at_least=1
    )
    top_p: float | None = option(
        None,
        "sample only among the fewest tokens whose probabilities sum to this; none: all",
        unit="probability",
        above=0,
        at_most=1,
    )
    seed: int | None = option(None, "seed of the random numbers of every sentence; none: 0", at_least=0)

    weights: Literal["average", "best", "moving-average"] | None = option(
        None,
        "weights to translate with: average, the mean of the last checkpoints; best, those of the best validation; "
        "moving-average, the average in the last checkpoint",
        section="Model",
    )
    average: int | None = option(None, "number of last checkpoints to average", unit="checkpoints", at_least=1)
    checkpoint: int | None = option(None, "translate with the checkpoint of this step alone", unit="step", at_least=0)

    max_tokens_per_batch: int = option(
        4_096,
        "maximum number of input tokens in a batch, padding included",
        unit="tokens",
        section="Performance",
        at_least=1,
    )
    device: str = option("cpu", "device: cpu; cuda or cuda:0 for the first GPU; cuda:1 for the second")
    precision: Literal["float32", "float64", "tf32", "bf16", "int8"] | None = option(
        None,
        "number format; none: the run's, or float32 on a CPU if the run's is tf32 or bf16; int8: 8-bit weights on a "
        "CPU, a quarter of the memory, faster with --kernels numba if the CPU has VNNI, and slower otherwise; bf16: "
        "on a GPU, or weights in half the memory with --kernels numba on a CPU with AVX-512 BF16",
    )
    threads: int | None = option(None, "number of threads; none: one per core", at_least=1, at_most=1024)
    kernels: Literal["numpy", "numba"] = option(
        "numpy",
        "CPU kernels for everything except matrix products: numba is faster, but starts half a second later",
    )
    plain: bool = option(False, PLAIN_HELP)

    def __post_init__(self) -> None:
        check_fields(self)
        check_device(self.device)
        check_precision(self.precision, self.device != "cpu", self.kernels)
        check_plain(self)
        if self.average is not None and self.checkpoint is not None:
            raise UserError(
                f"average={self.average} and checkpoint={self.checkpoint} cannot be combined; choose one of the two"
            )
        if self.weights in ("best", "moving-average") and (self.average or self.checkpoint) is not None:
            raise UserError(
                f"weights={self.weights} is neither an average of checkpoints nor one of them; omit average and "
                "checkpoint, or weights"
            )
        if self.text is not None and self.input is not None:
            raise UserError(f"input={self.input} and text cannot be combined; give one of them")
        if self.sample and self.beam is not None and self.beam > 1:
            raise UserError(f"beam={self.beam} and sample cannot be combined: sampling has no beam; omit one of them")
        for name in ("temperature", "top_k", "top_p", "seed"):
            if not self.sample and getattr(self, name) is not None:
                raise UserError(f"{name} requires sample; give --sample, too, to draw translations at random")
        if self.score is not None:
            for name in ("reference", "sample"):
                if getattr(self, name):
                    raise UserError(
                        f"score and {name} cannot be combined: score writes no new translations; omit one of them"
                    )
            if self.nbest > 1:
                raise UserError(
                    f"nbest={self.nbest} and score cannot be combined: a line has one given translation; omit one of "
                    "them"
                )
