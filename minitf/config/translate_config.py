"""The settings of a translation with a trained run, and their checks."""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from minitf.config.device_settings import check_device, check_plain, check_precision
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
        None, "beam size; 1 is greedy search (hypotheses)", section="Search", at_least=1, at_most=1000
    )
    alpha: float | None = option(None, "exponent of the length penalty", at_least=0, at_most=100)
    max_extra_length: int | None = option(
        None, "maximum output length: input length plus this number (tokens)", at_least=1, at_most=10000
    )
    sample: bool = option(False, "draw translations at random instead of searching for the best", section="Sampling")
    temperature: float | None = option(
        None, "divisor of the logits: below 1 sharpens, above 1 flattens the distribution; none: 1", above=0
    )
    top_k: int | None = option(
        None, "sample only among this number of most probable tokens; none: all (tokens)", at_least=1
    )
    top_p: float | None = option(
        None,
        "sample only among the fewest tokens whose probabilities sum to this; none: all (probability)",
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
    average: int | None = option(None, "number of last checkpoints to average (checkpoints)", at_least=1)

    max_tokens_per_batch: int = option(
        4096, "maximum number of input tokens in a batch, padding included (tokens)", section="Performance", at_least=1
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
        "numpy", "CPU kernels for everything except matrix products: numba is faster, but starts half a second later"
    )
    plain: bool = option(False, PLAIN_HELP)

    def __post_init__(self) -> None:
        check_fields(self)
        check_device(self.device)
        check_precision(self.precision, self.device != "cpu", self.kernels)
        check_plain(self)
        if self.weights in ("best", "moving-average") and self.average is not None:
            raise UserError(
                f"weights={self.weights} is no average of checkpoints; omit average={self.average} or weights"
            )
        if self.text is not None and self.input is not None:
            raise UserError(f"input={self.input} and text cannot be combined; give one of them")
        for name in ("temperature", "top_k", "top_p", "seed"):
            if not self.sample and getattr(self, name) is not None:
                raise UserError(f"{name} requires sample; give --sample, too, to draw translations at random")
        given = [("score", other) for other in ("reference", "sample") if self.score and getattr(self, other)]
        if self.score is not None and self.nbest > 1:
            given.append(("score", f"nbest={self.nbest}"))
        if self.sample and self.beam is not None and self.beam > 1:
            given.append(("sample", f"beam={self.beam}"))
        for one, other in given:
            raise UserError(f"{one} and {other} cannot be combined; omit one of them")
