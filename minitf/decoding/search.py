"""Beam search.

    score(y) = log P(y | x) / penalty(|y|),    penalty(length) = ((β + length) / (β + 1))^α,    β = 5

Every step, each sentence extends its `beam` alive hypotheses by every token and keeps the 2 × beam best of these
candidates. Candidates that end (EOS) are scored and join the finished hypotheses; the `beam` best of the others stay
alive. Sentences are independent: each has its own length limit and stop rule, and leaves the batch when it is done.

Source: section 6.1 (beam 4, α = 0.6, output limited to the input length + 50); the penalty is equation 14 of
Wu et al. 2016, arXiv:1609.08144, without its coverage term.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograd.backend import backend_of
from minitf.config.model import BOS, EOS, PAD, UNK
from minitf.config.options import check_fields, hidden, of_type
from minitf.decoding.decoder import TransformerDecoder
from minitf.errors import UserError
from minitf.model.transformer import Transformer

__all__ = [
    "NEVER", "BeamSearchConfig", "Hypothesis", "Model", "beam_search", "decoder_of",
    "finder_of", "hypothesis_of", "length_penalty", "log_probabilities_of", "max_lengths",
]  # fmt: skip

Array = NDArray[Any]
Finder = Callable[[Array, Array, int], tuple[Array, Array, Array]]
"""`top_tokens`, or what a decoder computes it with."""
NEVER: tuple[int, ...] = PAD, UNK, BOS
"""Tokens that stand for no text, which search does not choose."""
IncrementalDecoder = Any
"""A `TransformerDecoder`, or another object whose `start_decoding` and `decode_step` do the same."""
Model = Transformer | IncrementalDecoder


@dataclass(frozen=True)
class BeamSearchConfig:
    """Settings of beam search. The defaults are those of section 6.1."""

    beam: int = hidden(4, "hypotheses kept alive for each sentence; 1 is greedy search", at_least=1)
    alpha: float = hidden(
        0.6, "exponent of the length penalty: 0 is none, 1 nearly ranks by log-probability per token", at_least=0
    )
    beta: float = hidden(5.0, "offset in ((β + length) / (β + 1))^α; 5 is the paper's, 0 makes it length^α", at_least=0)
    max_extra_length: int = hidden(
        50, "a sentence of S source tokens, EOS not counted, may become S + this many, EOS counted", at_least=1
    )
    max_length: int | None = hidden(None, "most target tokens, EOS counted, whatever the source", at_least=1)
    n_best: int = hidden(1, "finished hypotheses returned for each sentence, the best first", at_least=1)
    beam_patience: float | None = hidden(
        None, "stop at this × beam ended hypotheses (Kasai et al. 2022, arXiv:2204.05424)", above=0, at_most=1000
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.n_best > self.beam:
            raise UserError(f"n_best={self.n_best} is not in 1..{self.beam}; choose a beam at least as wide as n_best")

    def penalty(self, length: int) -> float:
        """Return the divisor of the log-probability of `length` tokens, EOS included, BOS not."""
        return length_penalty(length, self.alpha, self.beta)

    @property
    def candidates(self) -> int:
        """Continuations looked at: 2 × beam, so that `beam` go on even when as many end.

        A single beam looks at one only. If that one ends, nothing goes on: exactly greedy search.
        """
        return 1 if self.beam == 1 else 2 * self.beam

    @property
    def max_ended(self) -> int:
        """Hypotheses, each among the `beam` best of its step, that may end: after them, a sentence is done."""
        return 2**62 if self.beam_patience is None else math.ceil(self.beam_patience * self.beam)


@dataclass(frozen=True)
class Hypothesis:
    """One output sentence. Its length, for the penalty, is len(tokens), and 1 more for the EOS of a finished one."""

    tokens: tuple[int, ...]
    """Token ids without BOS and EOS."""
    log_probability: float
    """log P(tokens, EOS | source); without the EOS where the hypothesis is not finished. Natural logarithm."""
    score: float
    """log_probability / penalty(length), by which hypotheses are ranked."""
    finished: bool
    """False: cut at the length limit, because no hypothesis of the sentence had ended by then."""


@dataclass
class Beams:
    """The hypotheses of the sentences still searched. B shrinks as sentences finish; N is 1 at first, then `beam`."""

    sentence: Array  # [B] index in the caller's batch
    max_length: Array  # [B] target tokens allowed, EOS included
    max_penalty: Array  # [B] float64, length penalty at max_length, the largest for any hypothesis of the sentence
    tokens: Array  # [B, N, t] alive hypotheses, BOS first
    log_probability: Array  # [B, N] float64, best first; -inf: there is no such hypothesis
    to_end: Array  # [B] hypotheses that may still end
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


def length_penalty(length: int, alpha: float, beta: float = 5.0) -> float:
    """((β + length) / (β + 1))^α. EOS counts in the length, BOS does not."""
    return ((beta + length) / (beta + 1.0)) ** alpha


def decoder_of(model: Model) -> IncrementalDecoder:
    """A new decoder of a Transformer, the fast one of a model with fast parts; another model is a decoder itself."""
    if not isinstance(model, Transformer):
        return model
    make: Callable[[Transformer], IncrementalDecoder] = getattr(model, "decoder_type", TransformerDecoder)
    return make(model)


def beam_search(model: Model, source: Array, config: BeamSearchConfig | None = None) -> list[list[Hypothesis]]:
    """Return the n best target sentences found for each source sentence, best first.

    Finished hypotheses are returned: n_best of them, or fewer where fewer ended. A sentence without any at its length
    limit returns its unfinished ones, scored as they are.

    model: a Transformer, whose weights are prepared for decoding in each call, or an `InferenceTransformer`, which
        keeps them prepared for many calls

    Shapes: source [B, S] token ids with EOS, padded with PAD
    Raises: UserError if the model's logits are not numbers; the message names the output position
    """
    config, source = of_type(BeamSearchConfig, config or BeamSearchConfig(), "config"), np.asarray(source)
    results: list[list[Hypothesis]] = [[] for _ in source]
    if not len(source):
        return results
    decoder = decoder_of(model)
    if hasattr(decoder, "search"):  # a fast decoder, of some models
        found: list[list[Hypothesis]] | None = decoder.search(source, config)
        if found is not None:
            return found
    beams = _start(source, config)
    state = decoder.start_decoding(source)
    position = 0
    while True:
        position += 1
        logits = decoder.decode_step(beams.newest, state)  # [B × N, V]
        candidates = _best_candidates(logits, beams, config, position, finder_of(decoder))
        _collect_finished(beams, candidates, config)
        rows = _extend(beams, candidates, config)  # [B, N] row that each alive hypothesis continues
        done = _is_done(beams, config, position)  # [B]
        if done.any():
            for b in np.flatnonzero(done):
                results[beams.sentence[b]] = beams.finished[b] or _cut(beams, b, config, position)
            if done.all():
                return results
            rows = rows[_drop(beams, done)]
        reorder(state, rows.reshape(-1), rows_before=len(logits))


def hypothesis_of(tokens: Sequence[int], log_probability: float, config: BeamSearchConfig) -> Hypothesis:
    """Return a hypothesis of all tokens produced: its EOS, if it has one, counts in the length and is then removed."""
    score = log_probability / config.penalty(len(tokens))
    finished = tokens[-1] == EOS
    return Hypothesis(tuple(tokens[:-1] if finished else tokens), log_probability, score, finished)


def _start(source: Array, config: BeamSearchConfig) -> Beams:
    """One alive hypothesis for each sentence: BOS, with probability 1."""
    B = len(source)
    max_length = max_lengths(source, config)
    return Beams(
        sentence=np.arange(B),
        max_length=max_length,
        max_penalty=np.array([config.penalty(int(length)) for length in max_length]),
        tokens=np.full((B, 1, 1), BOS),
        log_probability=np.zeros((B, 1)),
        to_end=np.full(B, config.max_ended),
        finished=[[] for _ in range(B)],
    )


def max_lengths(source: Array, config: BeamSearchConfig) -> Array:
    """Limit on target tokens, EOS included: the source tokens without EOS + max_extra_length.  Shapes: -> [B]"""
    if source.ndim != 2:
        raise ValueError(f"source has shape {source.shape}, not [B, S]; pad the sentences to one length with PAD={PAD}")
    lengths = (source != PAD).sum(axis=1)
    if not lengths.all():
        empty = np.flatnonzero(lengths == 0)[0]
        raise ValueError(f"source sentence {empty} has no token; every source sentence ends with EOS={EOS}")
    limits = lengths - (source == EOS).sum(axis=1) + config.max_extra_length
    return limits if config.max_length is None else np.minimum(limits, config.max_length)


def _best_candidates(logits: Array, beams: Beams, config: BeamSearchConfig, position: int, find: Finder) -> Candidates:
    """Return the best continuations of each sentence; of equal ones, that of the lower beam, then the lower token id.

    Each of a sentence's C best continuations is among the C best of its beam, so every beam is cut to these first, by
    its logits, and only N × C of the N × V log-probabilities are computed.
    """
    B, N = beams.log_probability.shape
    token, gained = most_probable(logits, config.candidates, position, find)  # [B × N, C] each
    C = token.shape[1]
    total = beams.log_probability.reshape(B * N, 1) + gained  # [B × N, C]

    if N == 1:  # in order already
        return Candidates(np.zeros_like(token), token, total)
    beam = np.arange(N).repeat(C)  # [N × C]
    token, total = token.reshape(B, N * C), total.reshape(B, N * C)
    by_beam_and_token = beam * (int(token.max()) + 1) + token
    order = np.lexsort((by_beam_and_token, -total), axis=1)[:, : config.candidates]  # [B, C], by total first
    return Candidates(beam[order], at_places(token, order), at_places(total, order))


def _collect_finished(beams: Beams, candidates: Candidates, config: BeamSearchConfig) -> None:
    """Score the candidates that end; keep the n_best finished hypotheses of each sentence."""
    ends = (candidates.token == EOS) & np.isfinite(candidates.log_probability)  # [B, C]
    if not ends.any():
        return
    beams.to_end -= ends[:, : config.beam].sum(axis=1)
    sentences, places = np.nonzero(ends)
    for b, c in zip(sentences.tolist(), places.tolist(), strict=True):
        tokens = [*beams.tokens[b, candidates.beam[b, c], 1:].tolist(), EOS]
        beams.finished[b].append(hypothesis_of(tokens, float(candidates.log_probability[b, c]), config))
    for b in {*sentences.tolist()}:
        beams.finished[b].sort(key=lambda hypothesis: -hypothesis.score)  # stable: the earlier of equals stays ahead
        del beams.finished[b][config.n_best :]


def _extend(beams: Beams, candidates: Candidates, config: BeamSearchConfig) -> Array:
    """Make the `beam` best candidates that do not end the alive hypotheses; return the rows that they continue."""
    B, N = beams.log_probability.shape
    going_on = np.where(candidates.token == EOS, -np.inf, candidates.log_probability)  # [B, C]
    order = np.argsort(-going_on, axis=1, kind="stable")[:, : config.beam]  # [B, N']
    parent = at_places(candidates.beam, order)  # [B, N']
    token = at_places(candidates.token, order)  # [B, N']
    history = at_places(beams.tokens, parent)  # [B, N', t]
    beams.tokens = np.concatenate([history, token[:, :, None]], axis=2)  # [B, N', t + 1]
    beams.log_probability = at_places(going_on, order)  # [B, N']
    return np.arange(B)[:, None] * N + parent


def _is_done(beams: Beams, config: BeamSearchConfig, position: int) -> Array:
    """Return which sentences are done: at their length limit, out of patience, or sure of their n best hypotheses.

    Shapes: -> bool [B]

    A log-probability only decreases and, for α ≥ 0, the penalty only grows up to the sentence's own length limit:
    best alive log-probability / penalty(limit) bounds every later score. A later equal score does not enter the n-best.
    """
    ended = (beams.max_length <= position) | (beams.to_end <= 0)
    bound = beams.log_probability[:, 0] / beams.max_penalty
    worst_kept = np.array([kept[-1].score if len(kept) == config.n_best else -np.inf for kept in beams.finished])
    return ended | (bound <= worst_kept)


def _cut(beams: Beams, b: Any, config: BeamSearchConfig, position: int) -> list[Hypothesis]:
    """Return the n_best alive hypotheses of a sentence that reached its length limit before any of them ended."""
    alive = np.flatnonzero(np.isfinite(beams.log_probability[b]))[: config.n_best]
    if not len(alive):
        raise dead_end(position)
    return [hypothesis_of(beams.tokens[b, n, 1:].tolist(), float(beams.log_probability[b, n]), config) for n in alive]


def _drop(beams: Beams, done: Array) -> Array:
    """Remove the sentences that are done from the batch; return the index of each that remains."""
    kept = places_filled(done)
    beams.finished = [beams.finished[b] for b in kept]
    beams.sentence = beams.sentence[kept]
    of_sentences = beams.max_length, beams.max_penalty, beams.to_end
    beams.max_length, beams.max_penalty, beams.to_end = (array[kept] for array in of_sentences)
    beams.tokens, beams.log_probability = beams.tokens[kept], beams.log_probability[kept]
    return kept


def places_filled(done: Array) -> Array:
    """Indices of the sentences that are not done, the last of them in the places of those that are.

    In any other order, a state would have to copy the keys and values of all sentences that move.
    """
    alive = np.flatnonzero(~done)
    kept = np.arange(len(alive))
    kept[done[: len(alive)]] = alive[alive >= len(alive)]
    return kept


def reorder(state: Any, rows: Array, *, rows_before: int) -> None:
    """Reorder the state's rows, unless every row keeps its place."""
    if not np.array_equal(rows, np.arange(rows_before)):
        state.reorder(rows)


# ---- Log-probabilities of the next token: the most probable ones, or that of a given one ----


def top_tokens(logits: Array, barred: Array, count: int) -> tuple[Array, Array, Array]:
    """Find the `count` largest logits of each row that are not barred, equal ones by id, and ln Σ exp of the row.

    Barred ids, with -inf, follow if there are too few others.  If the largest logit is not finite, the sum is NaN.
    A fast decoder has a `Finder` of its own that does not sort whole rows.

    Shapes: logits [R, V], barred bool [V] -> ids int [R, count], values [R, count], [R]; all three on the host
    """
    logits = backend_of([logits]).to_host(logits)
    values = np.where(barred, logits.dtype.type(-np.inf), logits)
    ids = np.argsort(-values, axis=1, kind="stable")[:, :count]
    top = logits.max(axis=1)
    with np.errstate(invalid="ignore"):
        total = np.exp(logits - top[:, None]).sum(axis=1)
    return ids, at_places(values, ids), top.astype(np.float64) + np.log(total.astype(np.float64))


def at_places(array: Array, places: Array) -> Array:
    """`np.take_along_axis` along axis 1, in a third of the time for a few rows.  [R, W, …], [R, C] -> [R, C, …]"""
    return array[np.arange(len(array))[:, None], places]


def most_probable(logits: Array, count: int, position: int, find: Finder = top_tokens) -> tuple[Array, Array]:
    """Return the `count` most probable tokens of each row, best first, equal ones by id, and their log-probabilities.

    Probabilities are normalised over all logits.  The tokens of `NEVER` have -inf.

    position: for error messages
    Shapes: logits [R, V], on any device -> token [R, C], log-probability [R, C] float64
    Raises: UserError for logits that are not finite
    """
    barred = np.zeros(logits.shape[1], bool)
    barred[list(NEVER)] = True
    tokens, values, log_total = find(logits, barred, min(count, logits.shape[1]))
    _require_numbers(log_total, logits, position)
    # not above 0, however the device rounds: the stop rule relies on that
    return tokens.astype(np.int64, copy=False), np.minimum(values - log_total.astype(np.float64)[:, None], 0)


def finder_of(decoder: Any) -> Finder:
    """Return the function that finds the largest logits of a decoder."""
    return getattr(decoder, "top_tokens", top_tokens)


def log_probabilities_of(logits: Array, tokens: Array, position: int, find: Finder = top_tokens) -> Array:
    """log P of one given token in each row.  Shapes: logits [R, V], tokens [R] -> [R] float64"""
    backend = backend_of([logits])
    log_total = find(logits, np.zeros(logits.shape[1], bool), 1)[2]
    _require_numbers(log_total, logits, position)
    chosen = backend.to_host(logits[backend.asarray(np.arange(len(tokens))), backend.asarray(tokens)])
    return chosen.astype(np.float64) - log_total


def diverged(gives: str, position: int) -> UserError:
    """Return the error for a model that gives no token a probability."""
    return UserError(
        f"the model gives {gives} at output position {position}; its weights have diverged: use an earlier checkpoint"
    )


def dead_end(position: int) -> UserError:
    """Return the error for an output that no token can follow."""
    return diverged("every token that may be produced a probability of 0", position)


def _require_numbers(log_total: Array, logits: Array, position: int) -> None:
    """Raises: UserError if the logarithm of a row's normaliser is not finite."""
    if not (finite := np.isfinite(log_total)).all():
        largest = backend_of([logits]).to_host(logits[np.flatnonzero(~finite)[0]]).max()
        raise diverged(f"logits of {float(largest)}", position)
