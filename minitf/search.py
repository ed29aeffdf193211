"""Greedy and beam search: the most probable target sentence that a model can be talked into.

    score(y) = log P(y | x) / penalty(|y|),    penalty(length) = ((5 + length) / 6)^α

Every step, each sentence extends its `beam` alive hypotheses by every token and keeps the 2 × beam best of these
candidates. Candidates that end (EOS) are scored and move to the finished ones; the `beam` best of the others stay
alive. Sentences never look at each other: each has its own length limit, stops by its own rule and leaves the batch.

Source: section 6.1 (beam 4, α = 0.6, output limited to the input length + 50); the penalty is equation 14 of
Wu et al. 2016, arXiv:1609.08144, without its coverage term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from autograd.backend import backend_of
from minitf.data.vocabulary import BOS, EOS, PAD, UNK
from minitf.errors import UserError

Array = NDArray[Any]

BLOCK_ELEMENTS = 2**18
"""Logits looked at together: a megabyte stays in a processor's cache through the passes over it."""


class DecodingState(Protocol):
    """What a model remembers of the hypotheses so far, one row each."""

    def reorder(self, rows: Array) -> object:
        """Make row i what row rows[i] was: rows may be dropped, swapped and repeated."""


class Decoder(Protocol):
    """The part of a Transformer that search needs."""

    def start_decoding(self, source: Array) -> Any: ...  # source [B, S] -> DecodingState of B rows

    def decode_step(self, tokens: Array, state: Any) -> Array: ...  # tokens [R], newest token of each row -> [R, V]


@dataclass(frozen=True)
class BeamSearchConfig:
    """How to search. The defaults are those of section 6.1."""

    beam: int = 4
    """Hypotheses kept alive for each sentence. 1 is greedy search."""
    alpha: float = 0.6
    """Exponent of the length penalty: 0 prefers short outputs, 1 nearly compares log-probabilities per token."""
    max_extra_length: int = 50
    """A sentence of S source tokens (without EOS) may become S + max_extra_length target tokens (with EOS)."""
    max_length: int | None = None
    """Never more target tokens (with EOS) than this, whatever the source; None: no such limit."""
    n_best: int = 1
    """Finished hypotheses returned for each sentence, the best first."""
    allow_unknown: bool = False
    """Whether UNK may be produced. It stands for no text, so by default the next best token is taken."""
    stop_early: bool = True
    """End a sentence once no alive hypothesis can enter its n-best; False only proves that this changes nothing."""

    def __post_init__(self) -> None:
        if self.beam < 1:
            raise UserError(f"beam={self.beam} keeps no hypothesis; choose 1 (greedy) or more")
        if not 0 <= self.alpha < np.inf:
            raise UserError(f"alpha={self.alpha} is no length penalty; choose a number from 0 (none), such as 0.6")
        if self.max_extra_length < 1:
            raise UserError(
                f"max_extra_length={self.max_extra_length} leaves no room for the end token; choose 1 or more"
            )
        if self.max_length is not None and self.max_length < 1:
            raise UserError(f"max_length={self.max_length} leaves no room for the end token; choose 1 or more")
        if not 1 <= self.n_best <= self.beam:
            raise UserError(f"n_best={self.n_best} is not in 1..{self.beam}; choose a beam at least as wide as n_best")

    @property
    def candidates(self) -> int:
        """Continuations looked at: 2 × beam, so that `beam` go on even when as many end.

        A single beam looks at one only. If that one ends, nothing goes on: exactly greedy search.
        """
        return 1 if self.beam == 1 else 2 * self.beam


@dataclass(frozen=True)
class Hypothesis:
    """One output sentence. Its length, for the penalty, is len(tokens), and 1 more for the EOS of a finished one."""

    tokens: tuple[int, ...]
    """Token ids without BOS and EOS."""
    log_probability: float
    """log P(tokens, EOS | source); without the EOS where the hypothesis is not finished. Natural logarithm."""
    score: float
    """log_probability / penalty(length), what hypotheses are ranked by."""
    finished: bool
    """False: cut at its length limit, which happens only where no hypothesis of the sentence has ended by then."""


@dataclass
class Beams:
    """The hypotheses of the sentences still searched. B shrinks as sentences finish; N is 1 at first, then `beam`."""

    sentence: Array  # [B] place in the caller's batch
    max_length: Array  # [B] target tokens allowed, EOS included
    max_penalty: Array  # [B] float64, length penalty at max_length: no hypothesis of the sentence meets a larger one
    tokens: Array  # [B, N, t] alive hypotheses, BOS first
    log_probability: Array  # [B, N] float64, best first; -inf: no hypothesis here
    finished: list[list[Hypothesis]] = field(default_factory=list)  # B lists, best first, at most n_best in each

    @property
    def newest(self) -> Array:
        """The last token of every alive hypothesis. [B × N]"""
        return self.tokens[:, :, -1].reshape(-1)


@dataclass(frozen=True)
class Candidates:
    """The best C one-token continuations of each sentence, best first."""

    beam: Array  # [B, C] which alive hypothesis is extended
    token: Array  # [B, C] by which token
    log_probability: Array  # [B, C] float64, of hypothesis and token together


def length_penalty(length: int, alpha: float) -> float:
    """((5 + length) / 6)^α. EOS counts in the length, BOS does not."""
    return ((5.0 + length) / 6.0) ** alpha


def beam_search(model: Decoder, source: Array, config: BeamSearchConfig | None = None) -> list[list[Hypothesis]]:
    """The n best target sentences found for each source sentence, best first.

    A sentence that has no finished hypothesis at its length limit returns its unfinished ones, scored as they are.
    Otherwise only finished ones are returned: n_best of them, or fewer where fewer ended.

    Shapes: source [B, S] token ids with EOS, padded with PAD
    Raises: UserError where the model's logits are not numbers (the message names the output position)
    """
    config = config or BeamSearchConfig()
    beams = _start(source, config)
    results: list[list[Hypothesis]] = [[] for _ in source]
    if not len(source):
        return results
    state: DecodingState = model.start_decoding(source)
    position = 0
    while True:
        position += 1
        logits = model.decode_step(beams.newest, state)  # [B × N, V]
        candidates = _best_candidates(logits, beams, config, position)
        _collect_finished(beams, candidates, config)
        rows = _extend(beams, candidates, config)  # [B, N] row that each alive hypothesis continues
        done = _is_done(beams, config, position)  # [B]
        for b in np.flatnonzero(done):
            results[beams.sentence[b]] = beams.finished[b] or _cut(beams, b, config, position)
        if done.all():
            return results
        _drop(beams, done)
        _reorder(state, rows[~done].reshape(-1), rows_before=len(logits))


def greedy_search(model: Decoder, source: Array, config: BeamSearchConfig | None = None) -> list[Hypothesis]:
    """The sentence that the most probable next token leads to, step by step: beam search with one beam, for reading.

    Shapes: source [B, S] token ids with EOS, padded with PAD
    """
    config = config or BeamSearchConfig(beam=1)
    max_length = _max_lengths(source, config)  # [B]
    if not len(source):
        return []
    tokens: list[list[int]] = [[] for _ in source]
    log_probability = np.zeros(len(source))
    alive = np.arange(len(source))  # [R] the sentence of each row of the state
    newest = np.full(len(source), BOS)  # [R]
    state = model.start_decoding(source)
    position = 0
    while len(alive):
        position += 1
        logits = model.decode_step(newest, state)  # [R, V]
        best, gained = _most_probable(logits, 1, config, position, alive)  # [R, 1] each
        newest = best[:, 0]
        if np.isneginf(gained).any():
            raise _dead_end(alive[gained.argmin()], position)
        log_probability[alive] += gained[:, 0]
        for sentence, token in zip(alive, newest.tolist(), strict=True):
            tokens[sentence].append(token)
        going_on = np.flatnonzero((newest != EOS) & (position < max_length[alive]))
        if len(going_on):
            _reorder(state, going_on, rows_before=len(alive))
        alive, newest = alive[going_on], newest[going_on]
    return [
        _hypothesis(sentence, total, config.alpha)
        for sentence, total in zip(tokens, log_probability.tolist(), strict=True)
    ]


def _hypothesis(tokens: Sequence[int], log_probability: float, alpha: float) -> Hypothesis:
    """A hypothesis from all tokens produced: its EOS, if it has one, counts in the length and is then taken off."""
    score = log_probability / length_penalty(len(tokens), alpha)
    finished = tokens[-1] == EOS
    return Hypothesis(tuple(tokens[:-1] if finished else tokens), log_probability, score, finished)


def _start(source: Array, config: BeamSearchConfig) -> Beams:
    """One alive hypothesis for each sentence: BOS, with probability 1."""
    B = len(source)
    max_length = _max_lengths(source, config)
    return Beams(
        sentence=np.arange(B),
        max_length=max_length,
        max_penalty=np.array([length_penalty(int(length), config.alpha) for length in max_length]),
        tokens=np.full((B, 1, 1), BOS),
        log_probability=np.zeros((B, 1)),
        finished=[[] for _ in range(B)],
    )


def _max_lengths(source: Array, config: BeamSearchConfig) -> Array:
    """Target tokens that each sentence may have, EOS included: its source tokens without EOS + max_extra_length. [B]"""
    if source.ndim != 2:
        raise ValueError(f"source has shape {source.shape}, not [B, S]; pad the sentences to one length with PAD={PAD}")
    empty = np.flatnonzero((source == PAD).all(axis=1))
    if len(empty):
        raise ValueError(f"source sentence {empty[0]} holds no token; every source sentence ends with EOS={EOS}")
    limits = np.sum((source != PAD) & (source != EOS), axis=1) + config.max_extra_length
    return limits if config.max_length is None else np.minimum(limits, config.max_length)


def _most_probable(
    logits: Array, count: int, config: BeamSearchConfig, position: int, sentences: Array
) -> tuple[Array, Array]:
    """The `count` most probable tokens of each row that may be produced, best first, and their log-probabilities.

    The probabilities are those of the whole vocabulary: what may not be produced keeps its share. `sentences` names
    the rows in error messages.

    Shapes: logits [R, V] -> token [R, C], log-probability [R, C] float64
    """
    V = logits.shape[1]
    never = np.zeros(V, dtype=bool)
    never[[PAD, BOS] if config.allow_unknown else [PAD, BOS, UNK]] = True
    if not isinstance(logits, np.ndarray):  # they are on a GPU, and only the few best come over here
        return _most_probable_there(logits, count, never, position, sentences)
    tokens, log_probabilities = [], []
    rows_at_once = max(1, BLOCK_ELEMENTS // V)
    for start in range(0, len(logits), rows_at_once):
        block = logits[start : start + rows_at_once]
        log_normaliser = _log_normaliser(block, position, sentences[start:])  # [R]
        producible = np.where(never, np.array(-np.inf, dtype=block.dtype), block)  # [R, V]
        tokens.append(top_tokens(producible, count))  # [R, C]
        best = np.take_along_axis(producible, tokens[-1], axis=1).astype(np.float64)  # [R, C]
        log_probabilities.append(best - log_normaliser[:, None])
    return np.concatenate(tokens), np.concatenate(log_probabilities)


def _most_probable_there(logits: Any, count: int, never: Array, position: int, sentences: Array) -> tuple[Array, Array]:
    """The same where the logits are."""
    backend = backend_of([logits])
    tokens, best, log_normaliser = backend.top_tokens(logits, backend.asarray(never), min(count, logits.shape[1]))
    _require_numbers(log_normaliser, position, sentences)
    log_probabilities = best.astype(np.float64) - log_normaliser.astype(np.float64)[:, None]
    return tokens.astype(np.int64), np.minimum(log_probabilities, 0)  # not above 0: the stop rule rests on that


def _log_normaliser(logits: Array, position: int, sentences: Array) -> Array:
    """log Σ_v exp(logits[:, v]), so that log P(v) = logits[:, v] - this. [R, V] -> [R] float64

    It is never below the largest logit, also in floating point, so no log-probability is above 0: the stop rule
    rests on that.
    """
    peak = logits.max(axis=1, keepdims=True)  # NaN if any is
    _require_numbers(peak[:, 0], position, sentences)
    shifted = logits - peak
    total = np.exp(shifted, out=shifted).sum(axis=1, dtype=np.float64)
    return peak[:, 0].astype(np.float64) + np.log(total)


def _require_numbers(peak: Array, position: int, sentences: Array) -> None:
    """Raises: UserError where the largest logit of a row, or what all of them come to, is no number."""
    broken = np.flatnonzero(~np.isfinite(peak))
    if len(broken):
        raise UserError(
            f"the model gives logits of {peak[broken[0]]} at output position {position} of sentence "
            f"{sentences[broken[0]]}; its weights have diverged: use an earlier checkpoint"
        )


def top_tokens(logits: Array, count: int) -> Array:
    """The ids of the `count` largest logits of each row, largest first, equal ones by id. [R, V] -> [R, count]"""
    V = logits.shape[1]
    if count >= V:
        return np.argsort(-logits, axis=1, kind="stable")
    ids = np.sort(np.argpartition(logits, V - count, axis=1)[:, V - count :], axis=1)
    values = np.take_along_axis(logits, ids, axis=1)
    ids = np.take_along_axis(ids, np.argsort(-values, axis=1, kind="stable"), axis=1)
    # A partition takes any of several equal logits at its boundary; such rows are sorted whole.
    tied = np.flatnonzero(np.sum(logits >= values.min(axis=1, keepdims=True), axis=1) > count)
    ids[tied] = np.argsort(-logits[tied], axis=1, kind="stable")[:, :count]
    return ids


def _best_candidates(logits: Array, beams: Beams, config: BeamSearchConfig, position: int) -> Candidates:
    """The best continuations of each sentence; among equals, the lower beam, then the lower token id.

    None of a sentence's C best continuations is outside the C best of its own beam, so every beam is cut to these
    first, by its raw logits, and only N × C of the N × V log-probabilities are ever computed.
    """
    B, N = beams.log_probability.shape
    sentences = np.repeat(beams.sentence, N)  # [B × N]
    token, gained = _most_probable(logits, config.candidates, config, position, sentences)  # [B × N, C] each
    C = token.shape[1]
    total = beams.log_probability.reshape(B * N, 1) + gained  # [B × N, C]

    beam = np.broadcast_to(np.repeat(np.arange(N), C), (B, N * C))  # [B, N × C]
    token, total = token.reshape(B, N * C), total.reshape(B, N * C)
    order = np.lexsort((token, beam, -total), axis=1)[:, : config.candidates]  # [B, C], by total, then beam, then token
    return Candidates(
        beam=np.take_along_axis(beam, order, axis=1),
        token=np.take_along_axis(token, order, axis=1),
        log_probability=np.take_along_axis(total, order, axis=1),
    )


def _collect_finished(beams: Beams, candidates: Candidates, config: BeamSearchConfig) -> None:
    """Score the candidates that end, and keep the n_best finished hypotheses of each sentence."""
    ends = (candidates.token == EOS) & np.isfinite(candidates.log_probability)  # [B, C]
    for b, c in zip(*np.nonzero(ends), strict=True):
        tokens = [*beams.tokens[b, candidates.beam[b, c], 1:].tolist(), EOS]
        beams.finished[b].append(_hypothesis(tokens, float(candidates.log_probability[b, c]), config.alpha))
    for b in np.flatnonzero(ends.any(axis=1)):
        beams.finished[b].sort(key=lambda hypothesis: -hypothesis.score)  # stable: the earlier of equals stays ahead
        del beams.finished[b][config.n_best :]


def _extend(beams: Beams, candidates: Candidates, config: BeamSearchConfig) -> Array:
    """Go on with the `beam` best candidates that do not end; returns the rows of the state that they continue."""
    B, N = beams.log_probability.shape
    going_on = np.where(candidates.token == EOS, -np.inf, candidates.log_probability)  # [B, C]
    order = np.argsort(-going_on, axis=1, kind="stable")[:, : config.beam]  # [B, N']
    parent = np.take_along_axis(candidates.beam, order, axis=1)  # [B, N']
    token = np.take_along_axis(candidates.token, order, axis=1)  # [B, N']
    history = np.take_along_axis(beams.tokens, parent[:, :, None], axis=1)  # [B, N', t]
    beams.tokens = np.concatenate([history, token[:, :, None]], axis=2)  # [B, N', t + 1]
    beams.log_probability = np.take_along_axis(going_on, order, axis=1)  # [B, N']
    return np.arange(B)[:, None] * N + parent


def _is_done(beams: Beams, config: BeamSearchConfig, position: int) -> Array:
    """Which sentences are at their length limit, or hold n_best hypotheses that no alive one can still beat. [B]

    A log-probability only falls and, for α ≥ 0, the penalty only grows up to the sentence's own length limit:
    best alive log-probability / penalty(limit) bounds every score to come. An equal score comes too late to enter.
    """
    at_limit = beams.max_length <= position
    if not config.stop_early:
        return at_limit
    bound = beams.log_probability[:, 0] / beams.max_penalty
    worst_kept = np.array([kept[-1].score if len(kept) == config.n_best else -np.inf for kept in beams.finished])
    return at_limit | (bound <= worst_kept)


def _cut(beams: Beams, b: Any, config: BeamSearchConfig, position: int) -> list[Hypothesis]:
    """The n_best alive hypotheses of a sentence that ran into its length limit before any of them ended."""
    alive = np.flatnonzero(np.isfinite(beams.log_probability[b]))[: config.n_best]
    if not len(alive):
        raise _dead_end(beams.sentence[b], position)
    return [
        _hypothesis(beams.tokens[b, n, 1:].tolist(), float(beams.log_probability[b, n]), config.alpha) for n in alive
    ]


def _dead_end(sentence: Any, position: int) -> UserError:
    return UserError(
        f"the model gives every token that may be produced a probability of 0 at output position {position} of "
        f"sentence {sentence}; its weights have diverged: use an earlier checkpoint"
    )


def _drop(beams: Beams, done: Array) -> None:
    """Take the sentences that are done out of the batch."""
    beams.finished = [kept for kept, over in zip(beams.finished, done, strict=True) if not over]
    beams.sentence = beams.sentence[~done]
    beams.max_length, beams.max_penalty = beams.max_length[~done], beams.max_penalty[~done]
    beams.tokens, beams.log_probability = beams.tokens[~done], beams.log_probability[~done]


def _reorder(state: DecodingState, rows: Array, *, rows_before: int) -> None:
    """Reorder the state's rows, unless that would copy every row onto itself."""
    if not np.array_equal(rows, np.arange(rows_before)):
        state.reorder(rows)
