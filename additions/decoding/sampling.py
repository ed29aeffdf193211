"""Sampling: target sentences drawn from the model's distribution, with temperature, top-k and top-p.

P'(v) ∝ P(v)^(1 / temperature)  over the top_k most probable tokens, then over the fewest of these with mass top_p

sampler = Sampler.load("runs/x")
sampler.sampling = SamplingConfig(top_p=0.9, seed=1)
sampler.translate(["a tree"])
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from autograd.backend import backend_of
from minitf.config.model import PAD
from minitf.config.options import check_fields, hidden
from minitf.decoding.greedy import walk
from minitf.decoding.search import (
    NEVER,
    BeamSearchConfig,
    Hypothesis,
    Model,
    decoder_of,
    finder_of,
    hypothesis_of,
    log_probabilities_of,
    max_lengths,
)
from minitf.system.environment import sum_left_to_right
from minitf.translation.translator import Translator

Array = NDArray[Any]


@dataclass(frozen=True)
class SamplingConfig:
    """Settings of sampling. The defaults draw from the model's distribution unchanged."""

    temperature: float = hidden(1.0, "below 1, probable tokens become more probable; above 1, less", above=0)
    top_k: int | None = hidden(None, "draw among this number of most probable tokens; none: all", at_least=1)
    top_p: float | None = hidden(
        None, "draw among the fewest most probable tokens that together have this probability", above=0, at_most=1
    )
    seed: int = hidden(0, "each sentence has its own generator, seeded with this and its tokens", at_least=0)

    def __post_init__(self) -> None:
        check_fields(self)


class Sampler(Translator):
    """A translator that draws translations, as `sampling` says, instead of searching for the best."""

    sampling = SamplingConfig()

    def search_batch(self, decoder: Any, source: Array, config: BeamSearchConfig) -> list[list[Hypothesis]]:
        return sample(decoder, source, config, self.sampling)


def sample(
    model: Model,
    source: Array,
    config: BeamSearchConfig | None = None,
    sampling: SamplingConfig | None = None,
) -> list[list[Hypothesis]]:
    """`config.n_best` independent draws for each sentence, best first, with the limits and penalty of `config`.

    The draws of a sentence depend on the seed, its tokens and the number of the draw, not on other sentences; equal
    sentences have equal draws. Log-probabilities and scores are the model's, before temperature, top_k and top_p.

    Shapes: source [B, S] token ids with EOS, padded with PAD
    """
    config, sampling = config or BeamSearchConfig(), sampling or SamplingConfig()
    n, decoder = config.n_best, decoder_of(model)
    limits = max_lengths(source, config)
    generators = [_generator(sampling.seed, draw, row[row != PAD].tolist()) for row in source for draw in range(n)]

    def choose(logits: Array, position: int, rows: Array) -> tuple[Array, Array]:
        host_logits = backend_of([logits]).to_host(logits)
        chosen = np.empty(len(rows), dtype=np.int64)
        for place, row in enumerate(rows.tolist()):
            chosen[place] = _draw(distribution(host_logits[place], sampling), generators[row].random())
        return chosen, log_probabilities_of(logits, chosen, position, finder_of(decoder))

    walks = walk(decoder, source.repeat(n, axis=0), limits.repeat(n), choose)
    drawn = [hypothesis_of(tokens, sum_left_to_right(gained), config) for tokens, gained in walks]
    return [sorted(drawn[i : i + n], key=lambda each: -each.score) for i in range(0, len(drawn), n)]


def distribution(logits: Array, sampling: SamplingConfig) -> Array:
    """Return the distribution that the next token is drawn from.  Shapes: logits [V] -> [V] float64"""
    scaled = logits.astype(np.float64)
    scaled[list(NEVER)] = -np.inf
    order = np.argsort(-scaled, kind="stable")  # the most probable first, equal ones by id
    scaled = (scaled - scaled[order[0]]) / sampling.temperature
    probabilities = np.exp(scaled)
    if sampling.top_k is not None:
        probabilities[order[sampling.top_k :]] = 0
    if sampling.top_p is not None:
        held = np.cumsum(probabilities[order])
        enough = int(np.searchsorted(held, sampling.top_p * held[-1])) + 1
        probabilities[order[enough:]] = 0
    return probabilities / probabilities.sum()


def _draw(probabilities: Array, uniform: float) -> int:
    """Return the token whose interval of [0, 1) contains `uniform`.  Shapes: probabilities [V]"""
    shares = np.cumsum(probabilities)
    token = int(np.searchsorted(shares, uniform * shares[-1], side="right"))
    return min(token, int(np.flatnonzero(probabilities)[-1]))  # rounding may go beyond the last


def _generator(seed: int, draw: int, tokens: list[int]) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence([seed, draw, *tokens])))
