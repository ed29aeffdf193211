"""The settings of a translation with a trained run, by what they are about; translate.py puts them together.

What is none here, the run provides, unless the help says otherwise.
"""

# ruff: noqa: RUF009 (`option` makes a dataclass field: it is called once a class, as `dataclasses.field` is)

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from minitf.config.options import REQUIRED, option


@dataclass(frozen=True, kw_only=True)
class TextSettings:
    """What is translated, and where to."""

    run: Path = option(REQUIRED, "run directory, or a model of another program", positional=True)
    more: tuple[Path, ...] = option(
        (),
        "further runs that translate with it as an ensemble: the mean of their probabilities decides",
        positional=True,
    )
    input: Path | None = option(None, "text to translate, a sentence a line; none: standard input", section="Text")
    output: Path | None = option(None, "file for the translations, a line for each line; none: standard output")
    reference: Path | None = option(None, "reference translations, to print the BLEU score")
    bleu_tokenize: Literal["13a", "intl", "char", "zh", "none"] = option(
        "13a", "tokenization of BLEU, by sacrebleu's names; none: the text is already tokenized"
    )
    errors: Literal["strict", "replace"] = option(
        "strict", "bytes that are not UTF-8: strict stops and names the line, replace reads U+FFFD"
    )


@dataclass(frozen=True, kw_only=True)
class SearchSettings:
    """The search for the best translation. The run provides what is none."""

    beam: int | None = option(
        None,
        "width of beam search; 1 is greedy; none: the run's",
        unit="hypotheses",
        section="Search",
        at_least=1,
        limit=1000,
    )
    alpha: float | None = option(
        None, "exponent of the length penalty; none: the penalty's, or the run's", at_least=0, limit=100
    )
    beta: float | None = option(
        None, "offset of the length in its penalty; none: the penalty's, or the run's", at_least=0, limit=1e6
    )
    penalty: (
        Literal["paper", "tensor2tensor", "opennmt-wu", "joeynmt", "fairseq", "marian", "sockeye", "none"] | None
    ) = option(
        None, "length penalty of a toolkit, none for no penalty; --alpha and --beta, where given, replace its own"
    )
    max_extra_length: int | None = option(
        None,
        "longest output: tokens of the input plus this; none: the run's",
        unit="tokens",
        at_least=1,
        limit=10_000,
    )
    max_length: int | None = option(
        None,
        "longest output, end token included, whatever the input; none: no such limit",
        unit="tokens",
        at_least=1,
        limit=100_000,
    )
    min_length: int | None = option(
        None, "shortest output, end token included; none: 1", unit="tokens", at_least=1, limit=100_000
    )
    beam_patience: float | None = option(
        None,
        "end a line's search once this times beam hypotheses have finished; 1 is the rule of fairseq and CTranslate2, "
        "faster, but not exact; none: when no better one can follow",
        above=0,
        limit=1000,
    )
    prefix: Path | None = option(None, "forced beginning of each translation: a line, maybe empty, for each input line")
    same_bits: bool = option(
        False,
        "make a line's translation and score independent of the other lines, to the last bit; takes 1.3 to "
        "1.4 times as long on a CPU",
    )
    shortlist: Path | None = option(
        None,
        "lexical table in Marian's form (minitf shortlist writes one): choose among the likely target pieces of a "
        "batch only, which is faster, but not exact",
    )
    shortlist_first: int | None = option(
        None, "most frequent target pieces on a shortlist; none: 100", unit="pieces", at_least=1
    )
    shortlist_best: int | None = option(
        None, "most probable translations of each source piece on a shortlist; none: 100", unit="pieces", at_least=1
    )
    shortlist_prune: float = option(
        0.0,
        "translations on a shortlist are more probable than this",
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
        None, "sample among this many most probable tokens only; none: all", unit="tokens", at_least=1
    )
    top_p: float | None = option(
        None, "sample among the fewest tokens that sum to this; none: all", unit="probability", above=0, at_most=1
    )
    seed: int | None = option(None, "seed of the random numbers of every sentence; none: 0", at_least=0)


@dataclass(frozen=True, kw_only=True)
class OutputSettings:
    """What is written of each line."""

    format: Literal["text", "jsonl"] = option(
        "text", "jsonl: an object a line, with scores and tokens", section="What is written"
    )
    nbest: int = option(
        1,
        "translations of each line; as text, more than one are lines of number ||| text ||| log-probability ||| score",
        at_least=1,
        limit=1000,
    )
    alignment: bool = option(
        False, "word alignment from the decoder's attention: pairs of word numbers from 0, source-target"
    )
    score: Path | None = option(
        None, "given translations: write the log-probability and score of each instead of translating"
    )


@dataclass(frozen=True, kw_only=True)
class WeightSettings:
    """The weights of the run that translate."""

    average: int | None = option(
        None, "last checkpoints to average; none: the run's number", unit="checkpoints", section="Model", at_least=1
    )
    checkpoint: int | None = option(None, "translate with the one checkpoint of this step", unit="step", at_least=0)
    allow_config_edits: bool = option(
        False, "use the run's config.json although it was edited since the checkpoints were saved"
    )
    weights: Literal["average", "best", "moving-average"] | None = option(
        None,
        "weights that translate: average, the mean of the last checkpoints; best, those of the best validation; "
        "moving-average, that of the last checkpoint; none: the run's",
    )


@dataclass(frozen=True, kw_only=True)
class AttentionSettings:
    """The attention to draw."""

    attention: Path | None = option(
        None,
        "file for the attention weights: .html for an interactive page, .png, .svg or .pdf for a picture of the first "
        "line",
        section="Attention",
    )
    attention_lines: int | None = option(
        None, "lines on the page, from the first one that is not blank; none: 20", unit="lines", at_least=1
    )
    attention_kind: Literal["encoder", "decoder", "cross"] | None = option(
        None,
        "attention to draw, or to show first: source to source, target to target, target to source; none: cross",
    )
    attention_layer: int | None = option(
        None, "layer to draw, or to show first; none: all, the last first", unit="counted from 1", at_least=1
    )
    attention_head: int | None = option(
        None, "head to draw, or to show first; none: all", unit="counted from 1", at_least=1
    )


@dataclass(frozen=True, kw_only=True)
class MachineSettings:
    """Where and how to compute."""

    max_tokens_per_batch: int = option(
        4_096, "largest batch of input tokens, padding included", unit="tokens", section="Computer", at_least=1
    )
    max_sentences_per_batch: int | None = option(
        None, "largest batch of sentences; none: as many as pay off", unit="sentences", at_least=1
    )
    device: str = option("cpu", "where to compute: cpu; cuda or cuda:0, the first GPU; cuda:1, the second")
    precision: Literal["float32", "float64", "tf32", "bf16"] | None = option(
        None, "numbers to compute with; none: the run's, or float32 where only a GPU has these"
    )
    threads: int | None = option(None, "threads to compute with; none: one per core", at_least=1, limit=1024)
    kernels: Literal["numpy", "numba"] = option(
        "numpy",
        "how a CPU computes between matrix products: numba compiles its loops and is faster, but starts half a second "
        "later",
    )
    plain: bool = option(
        False,
        "compute with the plain parts alone, formulas in array code that a debugger can step through: slower, and the "
        "same numbers to rounding",
    )
    quiet: bool = option(False, "print translations and errors only")
