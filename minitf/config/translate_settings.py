"""The settings of a translation with a trained run, grouped by subject; translate.py combines them.

A value of none is taken from the run, unless the help says otherwise.
"""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from minitf.config.fields import REQUIRED, option


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """The runs, the input and the output of a translation."""

    run: Path = option(REQUIRED, "run directory, or a model of another program", positional=True)
    more: tuple[Path, ...] = option(
        (),
        "further runs for an ensemble, which averages the probabilities of all runs",
        positional=True,
    )
    input: Path | None = option(None, "text to translate, one sentence per line; none: standard input", section="Text")
    output: Path | None = option(None, "file for the translations, one line per input line; none: standard output")
    reference: Path | None = option(None, "reference translations; prints the BLEU score")
    bleu_tokenize: Literal["13a", "intl", "char", "zh", "none"] = option(
        "13a", "tokenization for BLEU, as named by sacrebleu; none: the text is already tokenized"
    )
    errors: Literal["strict", "replace"] = option(
        "strict", "bytes that are not UTF-8: strict stops with an error that names the line, replace reads U+FFFD"
    )


PENALTIES = {
    "paper": (0.6, 5.0),
    "tensor2tensor": (0.6, 5.0),
    "opennmt-wu": (1.0, 5.0),
    "joeynmt": (1.0, 5.0),
    "fairseq": (1.0, 0.0),
    "marian": (1.0, 0.0),
    "sockeye": (1.0, 0.0),
    "none": (0.0, 5.0),
}
"""(α, β) of the length penalties of toolkits.

The paper, tensor2tensor, OpenNMT-py (`wu`) and JoeyNMT have β = 5 (Wu et al. 2016); fairseq's `lenpen`, Marian's
`normalize` and Sockeye divide by length^α, which is β = 0 (Sockeye has this formula, with both letters). α is 1 where a
toolkit has no default. Only the score is that of the toolkit: the toolkits' stop rules are not exact.
"""


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The search for the best translation. A value of none is taken from the run."""

    beam: int | None = option(
        None,
        "beam size; 1 is greedy search; none: the run's",
        unit="hypotheses",
        section="Search",
        at_least=1,
        limit=1000,
    )
    alpha: float | None = option(
        None, "exponent of the length penalty; none: that of --penalty or the run", at_least=0, limit=100
    )
    beta: float | None = option(
        None, "offset of the length in the penalty; none: that of --penalty or the run", at_least=0, limit=1e6
    )
    penalty: (
        Literal["paper", "tensor2tensor", "opennmt-wu", "joeynmt", "fairseq", "marian", "sockeye", "none"] | None
    ) = option(None, "length penalty of a toolkit, none for no penalty; --alpha and --beta override its values")
    max_extra_length: int | None = option(
        None,
        "maximum output length: input length plus this number; none: the run's",
        unit="tokens",
        at_least=1,
        limit=10_000,
    )
    max_length: int | None = option(
        None,
        "maximum output length, including the end-of-sentence token; none: no limit other than --max-extra-length",
        unit="tokens",
        at_least=1,
        limit=100_000,
    )
    min_length: int | None = option(
        None,
        "minimum output length, including the end-of-sentence token; none: 1",
        unit="tokens",
        at_least=1,
        limit=100_000,
    )
    beam_patience: float | None = option(
        None,
        "stop the search for a line once this factor times beam hypotheses have finished; 1 is the rule of fairseq and "
        "CTranslate2: faster, but not exact; none: stop when no better hypothesis can follow",
        above=0,
        limit=1000,
    )
    prefix: Path | None = option(None, "forced beginning of each translation: one line, possibly empty, per input line")
    shortlist: Path | None = option(
        None,
        "lexical table in Marian's format, written by minitf shortlist: consider only the likely target pieces of a "
        "batch, which is faster, but not exact",
    )
    shortlist_first: int | None = option(
        None, "most frequent target pieces on a shortlist; none: 100", unit="pieces", at_least=1
    )
    shortlist_best: int | None = option(
        None, "most probable translations of each source piece on a shortlist; none: 100", unit="pieces", at_least=1
    )
    shortlist_prune: float = option(
        0.0,
        "omit translations that are not more probable than this from a shortlist",
        unit="probability",
        at_least=0,
        at_most=1,
    )


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """Translations drawn at random."""

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


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    """The output for each line."""

    format: Literal["text", "jsonl"] = option(
        "text", "jsonl: one JSON object per line, with scores and tokens", section="Output"
    )
    nbest: int = option(
        1,
        "number of translations per line; if more than 1, text lines are number ||| text ||| log-probability ||| score",
        at_least=1,
        limit=1000,
    )
    alignment: bool = option(
        False, "print the word alignment from the decoder's attention: pairs source-target of word numbers from 0"
    )
    score: Path | None = option(
        None, "file of translations: print the log-probability and score of each instead of translating"
    )


@dataclass(frozen=True, kw_only=True)
class WeightSettings:
    """The weights to translate with."""

    average: int | None = option(
        None, "number of last checkpoints to average; none: the run's", unit="checkpoints", section="Model", at_least=1
    )
    checkpoint: int | None = option(None, "translate with the checkpoint of this step alone", unit="step", at_least=0)
    allow_config_edits: bool = option(
        False, "use the run's config.json even if it was edited since the checkpoints were saved"
    )
    weights: Literal["average", "best", "moving-average"] | None = option(
        None,
        "weights to translate with: average, the mean of the last checkpoints; best, those of the best validation; "
        "moving-average, the average in the last checkpoint; none: the run's",
    )


@dataclass(frozen=True, kw_only=True)
class AttentionSettings:
    """The attention weights to show."""

    attention: Path | None = option(
        None,
        "file for the attention weights: .html for an interactive page; .png, .svg or .pdf for a figure of the first "
        "line",
        section="Attention",
    )
    attention_lines: int | None = option(
        None, "number of lines on the page, from the first non-blank line; none: 20", unit="lines", at_least=1
    )
    attention_kind: Literal["encoder", "decoder", "cross"] | None = option(
        None,
        "attention to draw or to show first: encoder, source to source; decoder, target to target; cross, target to "
        "source; none: cross",
    )
    attention_layer: int | None = option(
        None, "layer to draw or to show first; none: all, starting with the last", unit="counted from 1", at_least=1
    )
    attention_head: int | None = option(
        None, "head to draw or to show first; none: all", unit="counted from 1", at_least=1
    )


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """The batches, the device and the precision."""

    max_tokens_per_batch: int = option(
        4_096,
        "maximum number of input tokens in a batch, padding included",
        unit="tokens",
        section="Performance",
        at_least=1,
    )
    max_sentences_per_batch: int | None = option(
        None, "maximum number of sentences in a batch; none: chosen automatically", unit="sentences", at_least=1
    )
    device: str = option("cpu", "device: cpu; cuda or cuda:0 for the first GPU; cuda:1 for the second")
    precision: Literal["float32", "float64", "tf32", "bf16", "int8"] | None = option(
        None,
        "number format; none: the run's, or float32 on a CPU if the run's is tf32 or bf16; int8: 8-bit weights on a "
        "CPU, a quarter of the memory, faster with --kernels numba if the CPU has VNNI, and slower otherwise; bf16: "
        "on a GPU, or weights in half the memory with --kernels numba on a CPU with AVX-512 BF16",
    )
    threads: int | None = option(None, "number of threads; none: one per core", at_least=1, limit=1024)
    kernels: Literal["numpy", "numba"] = option(
        "numpy",
        "CPU kernels for everything except matrix products: numba is faster, but starts half a second later",
    )
    plain: bool = option(
        False,
        "use only the plain implementation, formulas in array code that are easy to step through with a debugger: "
        "slower, with the same results up to rounding",
    )
    quiet: bool = option(False, "print translations and errors only")
