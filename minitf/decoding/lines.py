"""Translate lines of text with a model: cut into subwords, sorted by length, searched in batches, put in order again.

An empty line stays empty. A line longer than any the model was trained on is translated in pieces: see long_lines.py.
"""

import itertools
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypedDict

import numpy as np

from minitf.config import RunConfig
from minitf.config.model import EOS, PAD
from minitf.config.options import fits
from minitf.data.text import in_chunks, refuse_single_string
from minitf.data.vocabulary import AnyVocabulary
from minitf.decoding.long_lines import joined, split_long
from minitf.decoding.search import BeamSearchConfig, Hypothesis, IncrementalDecoder, Model, beam_search, decoder_of
from minitf.errors import UserError, nearest

__all__ = ["Translation", "search_of"]

MAX_TOKENS_PER_BATCH, MAX_TOKENS_OF_GPU = 4096, 16384
"""Source subwords searched at once, on a CPU and on a GPU, where a step of any number of rows takes the host 4 ms."""
TOKENS_PER_ROW = 8
"""Share of the limit that each hypothesis searched at once takes: it has V logits, and about 25 keys and values."""
LINES_AT_A_TIME, CHARACTERS_AT_A_TIME = 1000, 1_000_000
"""Lines of a stream that are sorted together: enough for batches of equal lengths, soon enough to see translations."""
Job = Callable[[IncrementalDecoder, np.ndarray, Sequence[int]], Sequence[Any]]
"""(decoder, source [B, S], indices of the sentences) -> a result for each sentence"""
Ids = tuple[int, ...]


@dataclass(frozen=True)
class Translation:
    """One translation of a line."""

    text: str
    score: float
    """log_probability / length penalty, by which translations are ranked; summed over the pieces of a long line."""
    log_probability: float
    """Natural logarithm; summed over the pieces of a long line."""
    finished: bool
    """False: cut at the length limit, because no hypothesis ended before."""
    parts: tuple[tuple[Ids, Ids], ...] = field(default=(), repr=False)
    """Source and target tokens of each piece of the line, without the end tokens; one piece of nearly every line."""
    token_log_probabilities: tuple[float, ...] | None = None
    """log P of each target token of a translation given to `score`, the end tokens of pieces included."""


class Settings(TypedDict, total=False):
    """Settings of a translation; a setting that is missing or None is taken from the translator."""

    beam: int | None
    alpha: float | None
    beta: float | None
    max_extra_length: int | None
    max_length: int | None
    n_best: int | None
    beam_patience: float | None
    """See `BeamSearchConfig`."""
    max_tokens_per_batch: int | None
    max_sentences_per_batch: int | None
    progress: Callable[[int], object] | None
    """See `Plan`."""


@dataclass(frozen=True)
class Plan:
    """Settings in which the translator's own values have replaced those missing."""

    search: BeamSearchConfig
    max_tokens_per_batch: int | None = None
    """Most source subwords searched at once, padding included; hypotheses: an eighth as many; None: by the device."""
    max_sentences_per_batch: int | None = None
    progress: Callable[[int], object] = lambda lines: None
    """Called with the number of lines finished since the last call."""

    def __post_init__(self) -> None:
        for name in ("max_tokens_per_batch", "max_sentences_per_batch"):
            value = getattr(self, name)
            if value is not None and not (fits(value, int) and value >= 1):
                raise UserError(f"{name}={value} holds no sentence; choose 1 or more, such as 4096 subwords")


def search_of(config: RunConfig) -> BeamSearchConfig:
    """Return the settings of the search of a run; the length of outputs is bounded by a table of learned positions."""
    model = config.model
    return BeamSearchConfig(
        beam=config.beam,
        alpha=config.alpha,
        beta=config.beta,
        max_extra_length=config.max_extra_length,
        max_length=model.max_positions - model.first_position if model.positions == "learned" else None,
    )


class LineTranslator:
    """A model with its vocabulary, which translates lines of text.

    Methods may be called from several threads, which take turns.
    """

    def __init__(
        self,
        model: Model,
        vocabulary: AnyVocabulary,
        *,
        search: BeamSearchConfig | None = None,
        max_source_length: int = 255,
        warn: Callable[[str], object] = warnings.warn,
    ):
        """Translate with a Transformer, without dropout, or with another model that decodes step by step.

        search: default settings of the methods; default: the paper's
        max_source_length: longest line in subwords, without EOS, that is translated in one piece
        warn: called with a message about a line that is translated in pieces, or whose translations are truncated
        """
        if max_source_length < 1:
            raise UserError(f"max_source_length={max_source_length} is too small for a line; choose 1 or more")
        self.model = model
        self.vocabulary = vocabulary
        self.search = search or BeamSearchConfig()
        self.max_source_length = max_source_length
        self.warn = warn
        self.decoder = decoder_of(model)
        self._lock = threading.Lock()
        self._source_eos: bool = getattr(self.decoder, "source_eos", True)
        self._masked: set[int] = getattr(self.decoder, "masked_tokens", set())

    def plan(self, settings: Settings) -> Plan:
        """Return the settings, with the translator's own values for those missing.  Raises: TypeError for others"""
        given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        if unknown := given.keys() - Settings.__annotations__.keys():
            name, valid = min(unknown), list(Settings.__annotations__)
            begin = [each for each in valid if each.startswith(name)]  # n: n_best
            hint = f"; did you mean {' or '.join(begin)}?" if begin else nearest(name, valid)
            raise TypeError(f"{name} is not a setting of a translation{hint}; the settings are {', '.join(valid)}")
        of_search = {each.name: given.pop(each.name) for each in fields(BeamSearchConfig) if each.name in given}
        return Plan(replace(self.search, **of_search), **given)

    def nbest(self, lines: Sequence[str], plan: Plan, first_line: int = 1) -> list[list[Translation]]:
        """Return the n best translations of each line; the lines are numbered from `first_line` in warnings."""
        refuse_single_string(lines)
        pieces: list[list[int]] = []
        last_piece: list[int] = []  # of each line: how many pieces there are up to its end
        for number, ids in enumerate(self.vocabulary.source.encode(lines), start=first_line):
            split = [ids] if ids else []  # a blank line has no piece, and nearly every other line one
            if len(ids) > self.max_source_length:
                split = split_long(ids, self.vocabulary.source.pieces(ids), self.max_source_length)
                self.warn(f"line {number} {self._too_long(ids)}: it is translated in {len(split)} pieces")
            pieces += split
            last_piece.append(len(pieces))
        ends = set(last_piece)
        plan.progress(len(lines) - len(ends - {0}))  # blank lines

        def count(batch: Sequence[int]) -> object:
            return plan.progress(sum(i + 1 in ends for i in batch))

        def job(decoder: IncrementalDecoder, source: Any, places: Sequence[int]) -> list[list[Hypothesis]]:
            return self.search_batch(decoder, source, plan.search)

        found = self._run(pieces, job, plan, plan.search.beam, count)
        translated = self._decode(pieces, found)
        n = plan.search.n_best
        blank = [Translation("", 0.0, 0.0, True)]
        results = [
            translated[a][:n] if b == a + 1 else joined(translated[a:b], n) if b > a else blank
            for a, b in itertools.pairwise([0, *last_piece])
        ]
        cut = [number for number, best in enumerate(results, start=first_line) if not best[0].finished]
        if cut:  # one warning for all lines: an untrained model never ends a translation
            where = f"line {cut[0]}" if len(cut) == 1 else f"{len(cut)} lines, the first is line {cut[0]}"
            self.warn(f"no translation ended within its length limit, so the output is truncated: {where}")
        return results

    def _too_long(self, ids: Sequence[int]) -> str:
        return f"has {len(ids)} subwords, more than the {self.max_source_length} the model knows"

    def search_batch(
        self, decoder: IncrementalDecoder, source: np.ndarray, config: BeamSearchConfig
    ) -> list[list[Hypothesis]]:
        """The hypotheses of a batch of sentences: those of `beam_search`, unless a subclass has another search.

        Shapes: source [B, S] token ids, padded with PAD
        """
        return beam_search(decoder, source, config)

    def _run(
        self, sentences: Sequence[list[int]], job: Job, plan: Plan, rows: int, done: Callable[[Sequence[int]], object]
    ) -> list[Any]:
        on_cpu = getattr(getattr(self.decoder, "backend", None), "kind", "cpu") == "cpu"
        tokens = plan.max_tokens_per_batch or (MAX_TOKENS_PER_BATCH if on_cpu else MAX_TOKENS_OF_GPU)
        most = max(1, tokens // (TOKENS_PER_ROW * rows))
        most = min(most, plan.max_sentences_per_batch or most)
        limits: Any = {"max_tokens": tokens, "max_sentences": most, "rows": rows}
        with self._lock:
            return run_batches(self.decoder, sentences, job, **limits, done=done, source_eos=self._source_eos)

    def _decode(self, pieces: list[list[int]], found: list[list[Hypothesis]]) -> list[list[Translation]]:
        texts = iter(self.vocabulary.target.decode([each.tokens for hypotheses in found for each in hypotheses]))
        return [
            [
                Translation(
                    next(texts), each.score, each.log_probability, each.finished, ((tuple(piece), each.tokens),)
                )
                for each in hypotheses
            ]
            for piece, hypotheses in zip(pieces, found, strict=True)
        ]


def chunks_of_lines(lines: Iterable[str], must_wait: Callable[[], bool] = lambda: False) -> Iterator[list[str]]:
    """Lines of a stream in the groups that are translated together; see `in_chunks`."""
    limits = {"max_items": LINES_AT_A_TIME, "max_characters": CHARACTERS_AT_A_TIME}
    return in_chunks(lines, len, **limits, must_wait=must_wait)


# ---- Batches ----


def run_batches(
    decoder: IncrementalDecoder,
    sentences: Sequence[Sequence[int]],
    job: Job,
    *,
    max_tokens: int,
    max_sentences: int,
    done: Callable[[Sequence[int]], object],
    rows: int = 1,
    source_eos: bool = True,
) -> list[Any]:
    """Return the result of `job` for each sentence (token ids, without EOS), in order.

    rows: hypotheses of a sentence that a step computes at once
    source_eos: end each sentence with EOS
    done: called with the indices of finished sentences

    The longest sentences come first, so that a batch too large for memory fails at once.
    """
    results: list[Any] = [None] * len(sentences)
    reporting = threading.Lock()

    def work(decoder: IncrementalDecoder, batch: list[int]) -> None:
        rows = [[*sentences[i], EOS] if source_eos else sentences[i] for i in batch]
        width = max(map(len, rows))
        source = np.array([[*ids, *[PAD] * (width - len(ids))] for ids in rows], np.int32)  # [B, S]
        for i, result in zip(batch, job(decoder, source, batch), strict=True):
            results[i] = result
        with reporting:
            done(batch)

    lengths = [len(ids) + source_eos for ids in sentences]
    if hasattr(decoder, "compute_batches"):  # a fast decoder, on all threads
        decoder.compute_batches(work, batches_by_length, lengths, max_tokens, max_sentences, rows)
    else:
        for batch in batches_by_length(lengths, max_tokens, max_sentences):
            work(decoder, batch)
    return results


def batches_by_length(lengths: Sequence[int], max_tokens: int, max_sentences: int) -> Iterator[list[int]]:
    """Indices of sentences, longest first, in batches of at most max_tokens with padding, or of one sentence."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    begin = 0
    while begin < len(order):
        longest = lengths[order[begin]]
        batch = order[begin : begin + max(1, min(max_tokens // longest, max_sentences))]
        yield batch
        begin += len(batch)
