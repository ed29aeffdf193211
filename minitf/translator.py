"""Translate text with a trained run: lines in, as many lines out, in the same order.

    translator = Translator.load("runs/tiny")
    translator.translate(["the third of May", "", "ten euros"])

Lines are cut into subwords, sorted by length, searched in batches and put back in order. An empty line stays empty. A
line longer than any the model was trained on is translated in pieces, cut where a sentence ends if possible.
"""

from __future__ import annotations

import itertools
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from autograd.backend import get_backend
from minitf.data.text import PathLike
from minitf.data.vocabulary import EOS, PAD, Vocabulary
from minitf.errors import UserError
from minitf.search import BeamSearchConfig, Decoder, Hypothesis, beam_search

if TYPE_CHECKING:
    from minitf.attention_weights import SentenceAttention
    from minitf.checkpoint import CheckpointStore
    from minitf.config import RunConfig
    from minitf.rundir import RunDirectory
    from minitf.transformer import Transformer

MAX_TOKENS_PER_BATCH = 4096
MAX_ROWS_PER_BATCH = 512
"""Hypotheses searched at once. More rows do not make a matrix product faster, and each has V logits."""
LINES_AT_A_TIME, CHARACTERS_AT_A_TIME = 1000, 1_000_000
"""What a stream is sorted within: enough for batches of equal lengths, soon enough to see translations."""

SENTENCE_ENDS = tuple(".!?…。！？।؟")
CLAUSE_ENDS = tuple(",;:–—，；：、،")
CLOSING = "\"'”’»›“)]}」』）"

Progress = Callable[[int], object]


@dataclass(frozen=True)
class Translation:
    """One translation of a line."""

    text: str
    score: float
    """What translations are ranked by: log_probability / length penalty; summed over the pieces of a long line."""
    log_probability: float
    """Natural logarithm; summed over the pieces of a long line."""
    finished: bool
    """False: cut at its length limit, because no hypothesis had ended by then."""


class Translator:
    """A model and its vocabulary, ready to translate.

    Methods may be called from several threads; they then take turns.
    """

    def __init__(
        self,
        model: Decoder,
        vocabulary: Vocabulary,
        *,
        search: BeamSearchConfig | None = None,
        max_source_length: int = 255,
        warn: Callable[[str], object] | None = None,
    ):
        """From a model in evaluation mode.

        search: what the methods use where they are not told otherwise; default: the paper's
        max_source_length: subwords of a line, without EOS, beyond which it is translated in pieces
        warn: called with a sentence about a line that was translated in pieces, or whose translations are cut;
            default: a Python warning
        """
        if max_source_length < 1:
            raise UserError(f"max_source_length={max_source_length} leaves no subword of a line; choose 1 or more")
        self.model = model
        self.vocabulary = vocabulary
        self.search = search or BeamSearchConfig()
        self.max_source_length = max_source_length
        self.warn = warn or _python_warning
        self._one_at_a_time = threading.Lock()  # the model's scratch memory is shared

    @classmethod
    def load(
        cls,
        run_directory: PathLike,
        *,
        average: int | None = None,
        checkpoint: int | None = None,
        weights: str | None = None,
        dtype: Any = None,
        device: str = "cpu",
        precision: str | None = None,
        warn: Callable[[str], object] | None = None,
    ) -> Translator:
        """The translator of a run, which may still be training. Its search settings are the run's.

        average: use the mean of the last so many checkpoints; default: what the run says, or as many as there are
        checkpoint: use the one checkpoint of this step instead
        weights: "average"; "best", those of the best validation; "moving-average", that of the last checkpoint;
            default: what the run says
        dtype: compute in these numbers; default: the run's
        device: where to compute: "cpu", "cuda", "cuda:1", …
        precision: "float32", "float64", or on a GPU "tf32" or "bf16"; default: the run's where the device has it
        Raises: UserError where there is no run, no checkpoint, or its parts do not belong together
        Source: section 6.1 (averaging)
        """
        from minitf.rundir import RunDirectory

        run = RunDirectory.open(Path(run_directory))
        config = run.config()
        vocabulary = Vocabulary.load(run.vocabulary_path)
        warn = warn or _python_warning
        if weights is None:
            weights = config.weights if average is None and checkpoint is None else "average"
        arrays, origin = _load_weights(run, config, average, checkpoint, weights, warn)
        _check_vocabulary(run.vocabulary_path, vocabulary, origin)
        config = _with_precision(config, device, precision)
        model = _build_model(config, vocabulary, arrays, origin, dtype or config.dtype)
        model.to(device)
        learned = config.model.positions == "learned"
        search = BeamSearchConfig(
            beam=config.beam,
            alpha=config.alpha,
            max_extra_length=config.max_extra_length,
            max_length=config.model.max_positions - config.model.first_position if learned else None,
        )
        # max_length counts the EOS of training sentences
        return cls(model, vocabulary, search=search, max_source_length=config.max_length - 1, warn=warn)

    def translate(
        self,
        lines: Sequence[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        max_extra_length: int | None = None,
        max_tokens_per_batch: int = MAX_TOKENS_PER_BATCH,
        progress: Progress | None = None,
    ) -> list[str]:
        """The best translation of each line: one line for each, in order, without line ends; "" for a blank one.

        beam, alpha, max_extra_length: see `BeamSearchConfig`; default: the translator's
        max_tokens_per_batch: most source subwords searched at once, padding included
        progress: called with the number of further lines that are done, as they are
        """
        _refuse_single_string(lines)
        search = _changed(self.search, beam=beam, alpha=alpha, max_extra_length=max_extra_length)
        return [best.text for (best,) in self._translate(lines, search, max_tokens_per_batch, progress)]

    def translate_nbest(
        self,
        lines: Sequence[str],
        *,
        n_best: int | None = None,
        beam: int | None = None,
        alpha: float | None = None,
        max_extra_length: int | None = None,
        max_tokens_per_batch: int = MAX_TOKENS_PER_BATCH,
        progress: Progress | None = None,
    ) -> list[list[Translation]]:
        """The n best translations of each line, best first; default: as many as the beam is wide.

        Fewer where fewer hypotheses ended within their limit. A blank line has one translation, "". Different
        subwords may spell one text, so a text may come twice.
        """
        _refuse_single_string(lines)
        search = _changed(self.search, beam=beam, alpha=alpha, max_extra_length=max_extra_length)
        search = replace(search, n_best=search.beam if n_best is None else n_best)
        return self._translate(lines, search, max_tokens_per_batch, progress)

    def translate_stream(
        self,
        lines: Iterable[str],
        *,
        beam: int | None = None,
        alpha: float | None = None,
        max_extra_length: int | None = None,
        max_tokens_per_batch: int = MAX_TOKENS_PER_BATCH,
        progress: Progress | None = None,
        must_wait: Callable[[], bool] | None = None,
    ) -> Iterator[str]:
        """As `translate`, for any number of lines in the memory of a few: reads and translates them by the thousand.

        must_wait: asked after each line; where the next one has not arrived yet, those before it are translated first
        """
        _refuse_single_string(lines)
        search = _changed(self.search, beam=beam, alpha=alpha, max_extra_length=max_extra_length)
        first_line = 1
        for chunk in _chunks(lines, must_wait or _never):
            for (best,) in self._translate(chunk, search, max_tokens_per_batch, progress, first_line):
                yield best.text
            first_line += len(chunk)

    def attention(
        self,
        source: str,
        target: str | None = None,
        *,
        beam: int | None = None,
        alpha: float | None = None,
        max_extra_length: int | None = None,
    ) -> SentenceAttention:
        """Where every head of the model looks while it reads `source` and writes `target`, by default its translation.

        beam, alpha, max_extra_length: how the translation is searched for, as in `translate`
        Raises: UserError for a blank source, and for one so long that it is translated in pieces
        """
        (ids,) = self.vocabulary.encode([source])
        if not ids:
            raise UserError("the source is blank; give a sentence")
        if len(ids) > self.max_source_length:
            raise UserError(
                f"the source has {len(ids)} subwords, more than the {self.max_source_length} the model knows, and is "
                "translated in pieces; give one of these"
            )
        given = None if target is None else (*self.vocabulary.encode([target])[0], EOS)
        return self._attention(
            ids, given, _changed(self.search, beam=beam, alpha=alpha, max_extra_length=max_extra_length)
        )

    def attentions(
        self,
        line: str,
        *,
        beam: int | None = None,
        alpha: float | None = None,
        max_extra_length: int | None = None,
    ) -> list[SentenceAttention]:
        """The same for any line, as `translate` takes it: nothing for a blank one, one for each piece of a long one."""
        search = _changed(self.search, beam=beam, alpha=alpha, max_extra_length=max_extra_length)
        (ids,) = self.vocabulary.encode([line])
        pieces = split_long(ids, self.vocabulary.pieces(ids), self.max_source_length) if ids else []
        return [self._attention(piece, None, search) for piece in pieces]

    def _attention(self, ids: list[int], target: Sequence[int] | None, search: BeamSearchConfig) -> SentenceAttention:
        """Of one piece of a line; `target` ends with EOS, None stands for the best translation."""
        from minitf.attention_weights import sentence_attention

        source = [*ids, EOS]
        with self._one_at_a_time:
            if target is None:
                ((best, *_),) = beam_search(self.model, np.array([source]), search)
                target = (*best.tokens, EOS) if best.finished else best.tokens
            return sentence_attention(self.model, self.vocabulary, source, target)

    def _translate(
        self,
        lines: Sequence[str],
        search: BeamSearchConfig,
        max_tokens: int,
        progress: Progress | None,
        first_line: int = 1,
    ) -> list[list[Translation]]:
        """The n best translations of each line; the lines are numbered from `first_line` in warnings."""
        if max_tokens < 1:
            raise UserError(f"max_tokens_per_batch={max_tokens} holds no subword; choose 1 or more, such as 4096")
        pieces: list[list[int]] = []
        last_piece: list[int] = []  # of each line: how many pieces there are up to its end
        for number, ids in enumerate(self.vocabulary.encode(lines), start=first_line):
            pieces += self._split(ids, number)
            last_piece.append(len(pieces))
        report = progress or _no_progress
        report(len(lines) - len(set(last_piece) - {0}))  # blank lines
        found = self._search_pieces(pieces, search, max_tokens, set(last_piece), report)
        translated = self._decode(found)
        results = [_join(translated[begin:end], search.n_best) for begin, end in itertools.pairwise([0, *last_piece])]
        self._warn_of_cuts(results, first_line)
        return results

    def _split(self, ids: list[int], number: int) -> list[list[int]]:
        """The pieces of a line that are translated one by one: none of a blank line, one of nearly every other."""
        if len(ids) <= self.max_source_length:
            return [ids] if ids else []
        pieces = split_long(ids, self.vocabulary.pieces(ids), self.max_source_length)
        self.warn(
            f"line {number} has {len(ids)} subwords, more than the {self.max_source_length} the model knows: "
            f"it is translated in {len(pieces)} pieces"
        )
        return pieces

    def _search_pieces(
        self,
        pieces: list[list[int]],
        search: BeamSearchConfig,
        max_tokens: int,
        line_ends: set[int],
        report: Progress,
    ) -> list[list[Hypothesis]]:
        """Search in batches of equal lengths, the longest first: what does not fit into memory shows at once."""
        found: list[list[Hypothesis]] = [[] for _ in pieces]
        for batch in batches_by_length([len(ids) + 1 for ids in pieces], max_tokens, MAX_ROWS_PER_BATCH // search.beam):
            source = _pad([[*pieces[i], EOS] for i in batch])  # [B, S]
            with self._one_at_a_time:
                results = beam_search(self.model, source, search)
            for i, hypotheses in zip(batch, results, strict=True):
                found[i] = hypotheses
            report(sum(i + 1 in line_ends for i in batch))
        return found

    def _decode(self, found: list[list[Hypothesis]]) -> list[list[Translation]]:
        texts = iter(self.vocabulary.decode([each.tokens for hypotheses in found for each in hypotheses]))
        return [
            [Translation(next(texts), each.score, each.log_probability, each.finished) for each in hypotheses]
            for hypotheses in found
        ]

    def _warn_of_cuts(self, results: list[list[Translation]], first_line: int) -> None:
        """One sentence for all: an untrained model never ends a translation."""
        cut = [number for number, found in enumerate(results, start=first_line) if not found[0].finished]
        if cut:
            lines = f"line {cut[0]}" if len(cut) == 1 else f"{len(cut)} lines, the first is line {cut[0]}"
            self.warn(f"no translation ended within its length limit, so the output is cut: {lines}")


# ---- A line and its pieces ----


def split_long(ids: list[int], texts: Sequence[str], limit: int) -> list[list[int]]:
    """Cut a line into pieces of at most `limit` subwords, in the second half of what fits at the best place there is.

    The best place is behind the end of a sentence, then of a clause, then of a word, then of a character; of several,
    the last. `texts` are the subwords as sentencepiece writes them: "▁" opens a word, "<0xE2>" is a byte.
    """
    pieces = []
    begin = 0
    while len(ids) - begin > limit:
        places = range(begin + limit, begin + limit // 2, -1)
        cut = max(places, key=lambda place: _cut_quality(texts[place - 1], texts[place]))  # the first of the best
        pieces.append(ids[begin:cut])
        begin = cut
    return [*pieces, ids[begin:]]


def _cut_quality(before: str, after: str) -> int:
    """How good it is to cut between two subwords: 4 a sentence ends, 3 a clause, 2 a word, 1 a character, 0 none."""
    if after.startswith("<0x") and "80" <= after[3:5].upper() <= "BF":
        return 0  # a byte that continues a character
    ended = before.rstrip(CLOSING)
    if not after.startswith("▁") and before.isascii():
        return 1  # inside a word, or between "3" and ".5"; other scripts may have no spaces
    if ended.endswith(SENTENCE_ENDS):
        return 4
    if ended.endswith(CLAUSE_ENDS):
        return 3
    return 2 if after.startswith("▁") else 1


def _join(pieces: Sequence[list[Translation]], n_best: int) -> list[Translation]:
    """The n best ways to choose one translation for each piece, by the sum of their scores."""
    joined = [Translation("", 0.0, 0.0, True)]
    for translations in pieces:
        pairs = [(left, right) for left in joined for right in translations]
        pairs.sort(key=lambda pair: -(pair[0].score + pair[1].score))
        joined = [
            Translation(
                f"{left.text} {right.text}".strip(),
                left.score + right.score,
                left.log_probability + right.log_probability,
                left.finished and right.finished,
            )
            for left, right in pairs[:n_best]
        ]
    return joined


def _chunks(lines: Iterable[str], must_wait: Callable[[], bool]) -> Iterator[list[str]]:
    """Lists of lines that end at either limit and wherever the next line would have to be waited for."""
    chunk: list[str] = []
    held = 0
    try:
        for line in lines:
            chunk.append(line)
            held += len(line)
            if len(chunk) == LINES_AT_A_TIME or held >= CHARACTERS_AT_A_TIME or must_wait():
                yield chunk
                chunk, held = [], 0
    except UserError:  # a line that cannot be read does not take those before it along
        if chunk:
            yield chunk
        raise
    if chunk:
        yield chunk


def batches_by_length(lengths: Sequence[int], max_tokens: int, max_sentences: int) -> Iterator[list[int]]:
    """The places of sentences, longest first, in lists of at most max_tokens with padding; at least one in each."""
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    begin = 0
    while begin < len(order):
        count = max(1, min(max_tokens // lengths[order[begin]], max_sentences))
        yield order[begin : begin + count]
        begin += count


def _pad(sentences: Sequence[Sequence[int]]) -> np.ndarray:
    """-> [B, S], filled up with PAD"""
    padded = np.full((len(sentences), max(map(len, sentences))), PAD, dtype=np.int64)
    for row, sentence in zip(padded, sentences, strict=True):
        row[: len(sentence)] = sentence
    return padded


# ---- The model of a run ----


def _load_weights(
    run: RunDirectory,
    config: RunConfig,
    average: int | None,
    checkpoint: int | None,
    weights: str,
    warn: Callable[[str], object],
) -> tuple[dict[str, np.ndarray], Path]:
    """The weights to translate with, and the file to name where they do not fit."""
    from minitf import checkpoint as checkpoints

    if average is not None and checkpoint is not None:
        raise UserError(f"average={average} and checkpoint={checkpoint} exclude each other; choose one of the two")
    if average is not None and average < 1:
        raise UserError(f"average={average} takes no checkpoint; choose 1 (the last) or more")
    store = checkpoints.CheckpointStore(run.checkpoints_path)
    if weights != "average":
        if (average or checkpoint) is not None:
            raise UserError(f"weights={weights} excludes average={average} and checkpoint={checkpoint}; choose one")
        return _load_best(store) if weights == "best" else _load_moving_average(store, config)
    if checkpoint is not None:
        arrays, _ = store.load(checkpoint, "model.")
        return arrays, store.path(checkpoint)
    steps = store.steps()[-(average or config.average_checkpoints) :]
    if not steps:
        raise UserError(f"{run.path} has no checkpoint yet; train until the first one is saved")
    if average is not None and len(steps) < average:
        warn(f"{run.path} has {len(steps)} checkpoints, not {average}: the mean is taken of these")
    return checkpoints.average([store.path(step) for step in steps]), store.path(steps[-1])


def _load_best(store: CheckpointStore) -> tuple[dict[str, np.ndarray], Path]:
    from minitf import checkpoint as checkpoints

    step = store.best_step()
    if step is None:
        raise UserError(f"{store.folder} has no weights of a best validation; train with --valid until the first one")
    return checkpoints.load(store.best_path(step), "model.")[0], store.best_path(step)


def _load_moving_average(store: CheckpointStore, config: RunConfig) -> tuple[dict[str, np.ndarray], Path]:
    steps = store.steps()
    if config.moving_average is None:
        raise UserError(f"the run of {store.folder} keeps no moving average; train one with --moving-average 0.9999")
    if not steps:
        raise UserError(f"{store.folder} has no checkpoint yet; train until the first one is saved")
    return store.load(steps[-1], "moving_average.")[0], store.path(steps[-1])


def _check_vocabulary(path: Path, vocabulary: Vocabulary, origin: Path) -> None:
    """Refuse a vocabulary of the right size that gives the ids another meaning; not all checkpoints name theirs."""
    from minitf.checkpoint import read_state

    if read_state(origin).get("vocabulary", vocabulary.fingerprint()) != vocabulary.fingerprint():
        raise UserError(
            f"{path} is not the vocabulary that {origin} was trained with; put back the one that training wrote"
        )


def _build_model(
    config: RunConfig, vocabulary: Vocabulary, weights: dict[str, np.ndarray], origin: Path, dtype: Any
) -> Transformer:
    from minitf.transformer import Transformer

    if config.model.vocab_size not in (0, len(vocabulary)):
        raise UserError(
            f"the run's model has {config.model.vocab_size} tokens, but its vocabulary {len(vocabulary)}; "
            "put back the vocabulary.model that the run was trained with"
        )
    compute_dtype = "bfloat16" if config.precision == "bf16" else None
    model = Transformer(replace(config.model, vocab_size=len(vocabulary)), dtype=dtype, compute_dtype=compute_dtype)
    try:
        model.load_parameters(weights)
    except ValueError as error:
        raise UserError(f"{origin} does not fit the run's configuration: {error}") from error
    model.eval()
    return model


def _with_precision(config: RunConfig, device: str, precision: str | None) -> RunConfig:
    """The run's configuration on another device, which is made ready.  Raises: UserError where it cannot be"""
    from minitf.config import check_precision

    check_precision(precision, device != "cpu")
    if precision is None and device == "cpu" and config.precision in ("tf32", "bf16"):
        precision = "float32"
    chosen: Any = precision or config.precision
    try:
        get_backend(device).set_precision(chosen)
    except ValueError as error:
        raise UserError(f"{error}; choose --device cpu or another --precision") from None
    return replace(config, device="cpu" if device == "cpu" else device, devices=None, precision=chosen)


# ---- Small things ----


def _changed(search: BeamSearchConfig, **given: Any) -> BeamSearchConfig:
    return replace(search, **{name: value for name, value in given.items() if value is not None})


def _refuse_single_string(lines: Iterable[str]) -> None:
    if isinstance(lines, str):
        raise TypeError("lines is a single string, which would be translated letter by letter; give a list of lines")


def _python_warning(message: str) -> None:
    warnings.warn(message, stacklevel=2)


def _never() -> bool:
    return False


def _no_progress(lines: int) -> None:
    pass
