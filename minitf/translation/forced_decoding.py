"""Given translations of given lines: their probabilities, alignments and attention weights, by forced decoding.

The decoder reads the tokens of the given translation instead of those that it would have chosen, so all positions are
computed at once:

    weights = attention_weights(model, source, target_in)     # a batch of token ids
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from minitf.config.model import BOS, EOS, PAD
from minitf.decoding.decoder import IncrementalDecoder
from minitf.decoding.ensemble import Ensemble
from minitf.decoding.greedy import score_targets
from minitf.decoding.lines import Ids, LineTranslator, Plan, Settings, Translation, chunks_of_lines
from minitf.decoding.search import hypothesis_of
from minitf.errors import UserError
from minitf.fast.inference import InferenceTransformer
from minitf.model.transformer import Transformer
from minitf.system.environment import sum_left_to_right

__all__ = ["attention_weights"]

Array = np.ndarray


@dataclass(frozen=True)
class AttentionWeights:
    """softmax(q kᵀ / √d_k) of every layer and head; each row is a distribution over the keys.

    Rows are queries, columns keys. Weights on padding are 0; the rows of padding have no meaning.
    """

    encoder: Array  # [B, L, H, S, S] source position attends to source position
    decoder: Array  # [B, L, H, T, T] target position attends to itself and earlier ones
    cross: Array  # [B, L, H, T, S] target position attends to source position
    logits: Array  # [B, T, V] of the next token at each target position


def attention_weights(model: Transformer | InferenceTransformer, source: Any, target: Any) -> AttentionWeights:
    """Decode a given target, without dropout, and keep the weights of every attention.

    Shapes: source int [B, S] and target int [B, T] as for `model(source, target)`: EOS last, BOS first, padded with PAD
    Source: sections 3.2.1 and 3.2.2; the paper's Figures 3 to 5
    """
    decoder = InferenceTransformer(model) if isinstance(model, Transformer) else model
    found, hidden = decoder.attention_weights(source, target)
    assert decoder.parts is not None
    encoder, own, cross = (np.stack(layers, axis=1) for layers in found)  # [B, L, H, …, …]
    return AttentionWeights(encoder, own, cross, decoder.backend.to_host(decoder.parts.logits(hidden)))


def alignments(decoder: Any, source: Array, targets: Sequence[Sequence[int]]) -> list[Array]:
    """Return the attention to the source in the last decoder layer but one, averaged over heads: [T, S] of each target.

    Shapes: source int [B, S]; targets B lists of token ids, EOS last
    """
    length = max(map(len, targets))
    target = np.array([[BOS, *given[:-1], *[PAD] * (length - len(given))] for given in targets])
    cross = decoder.attention_weights(source, target)[0][2]
    weights = cross[max(0, len(cross) - 2)].mean(axis=1)  # [B, H, T, S] -> [B, T, S]
    return [each[: len(given)] for each, given in zip(weights, targets, strict=True)]


@dataclass(frozen=True)
class Alignment:
    """The attention of each target subword to the source subwords."""

    source: tuple[str, ...]
    """S subwords as sentencepiece writes them: "▁" opens a word."""
    target: tuple[str, ...]
    """T subwords."""
    weights: Any
    """[T, S], the mean of the heads; a row sums to 1 less the weight of the end token."""

    def links(self) -> list[tuple[int, int]]:
        """Return (source subword, target subword) for each target subword and the source subword of largest weight."""
        return [(int(row.argmax()), t) for t, row in enumerate(self.weights) if len(row)]

    def word_links(self) -> list[tuple[int, int]]:
        """Return (source word, target word), from 0, of the words whose subwords are linked, in order of the target."""
        source, target = _word_numbers(self.source), _word_numbers(self.target)
        return sorted({(source[s], target[t]) for s, t in self.links()}, key=lambda link: (link[1], link[0]))


def _word_numbers(pieces: Sequence[str]) -> list[int]:
    """Return the word, from 0, that each subword belongs to: "▁" opens a word."""
    opened = itertools.accumulate(piece.startswith("▁") for piece in pieces)
    return [max(0, number - 1) for number in opened]


class ForcedDecoding(LineTranslator):
    """A translator of lines that also scores and aligns given translations."""

    def score(
        self, pairs: Sequence[tuple[str, str | Sequence[int]]], **settings: Unpack[Settings]
    ) -> list[Translation]:
        """Compute the log-probability and score of a given translation of each line, text or token ids.

        Text is cut into subwords again; a search may have found the same text in other subwords, with another
        probability. Its token ids (in `Translation.parts`) get the number that the search gave them.
        """
        return self._score(pairs, self.plan(settings))

    def _score(
        self, pairs: Sequence[tuple[str, str | Sequence[int]]], plan: Plan, first_line: int = 1
    ) -> list[Translation]:
        """Score pairs; their lines are numbered from `first_line` in messages."""
        sources = self.vocabulary.source.encode([source for source, _ in pairs])
        encoded = iter(self.vocabulary.target.encode([target for _, target in pairs if isinstance(target, str)]))
        targets = [tuple(next(encoded) if isinstance(target, str) else target) for _, target in pairs]
        for number, (ids, target) in enumerate(zip(sources, targets, strict=True), start=first_line):
            if len(ids) > self.max_source_length:
                self.warn(f"line {number} {self._too_long(ids)}")
            self._check_scorable(number, ids, target)
        asked = [i for i, pair in enumerate(zip(sources, targets, strict=True)) if any(pair)]
        scored = dict(zip(asked, self._force([(sources[i], targets[i]) for i in asked], plan), strict=True))
        texts = self.vocabulary.target.decode(targets)
        return [
            self._scored(texts[i], tuple(sources[i]), targets[i], scored.get(i), plan.search) for i in range(len(pairs))
        ]

    def _check_scorable(self, number: int, source: Sequence[int], target: Ids) -> None:
        """Raises: UserError for a pair to which the model can give no probability."""
        if target and not source and not self._source_eos:
            raise UserError(
                f"line {number} is blank, and this model reads no end token after a source: there is nothing to "
                "translate; leave the line out"
            )
        if never := self._masked & {*target}:
            (piece,) = self.vocabulary.target.pieces([min(never)])
            raise UserError(f"the translation of line {number} holds {piece!r}, which this model never produces")

    def score_stream(
        self, lines: Iterable[str], targets: Iterable[str], **settings: Unpack[Settings]
    ) -> Iterator[list[Translation]]:
        """Score any number of lines as `score` does, and yield each result in a list of its own.

        Raises: UserError, after the lines that have both, where there are not as many lines as translations
        """
        plan = self.plan(settings)
        remaining = iter(targets)
        first_line = 1
        for chunk in chunks_of_lines(lines):
            given = list(itertools.islice(remaining, len(chunk)))
            for found in self._score(list(zip(chunk, given, strict=False)), plan, first_line):
                yield [found]
            first_line += len(given)
            if len(given) < len(chunk):
                raise UserError(f"line {first_line} has no translation to score; give one for each line")
        if next(remaining, None) is not None:
            raise UserError(f"there are more translations to score than the {first_line - 1} lines; give one for each")

    def align(self, translations: Sequence[Translation], **settings: Unpack[Settings]) -> list[Alignment]:
        """Align the subwords of translations with those of their sources, by the decoder's attention.

        The mean of the heads in the last layer but one, where it follows the words best; of an ensemble, the mean of
        its models.

        Raises: UserError for a model that is not a Transformer
        Source: Garg et al. 2019, arXiv:1909.02074
        """
        plan = self.plan(settings)
        parts = [part for translation in translations for part in translation.parts]
        of_models = [self._force(parts, plan, member) for member in self._members()]
        means = iter([np.mean(weights, axis=0) for weights in zip(*of_models, strict=True)])
        return [self._alignment(each.parts, [next(means) for _ in each.parts]) for each in translations]

    def _members(self) -> Sequence[IncrementalDecoder]:
        """Return the decoders of an ensemble, or the one decoder."""
        if isinstance(self.model, Transformer):
            return [self.decoder]
        if not isinstance(self.model, Ensemble):
            raise UserError(f"alignments need a Transformer, not a model of type {type(self.model).__name__}")
        return self.model.members

    def _force(
        self,
        pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
        plan: Plan,
        aligning: IncrementalDecoder | None = None,
    ) -> list[Any]:
        """Decode given targets (without EOS) of given sources; return the log-probabilities of the tokens of each.

        aligning: a Transformer whose attention to the source, [T, S], to return instead
        """

        def job(model: IncrementalDecoder, source: Any, places: Sequence[int]) -> list[Any]:
            targets = [(*pairs[i][1], EOS) for i in places]
            if aligning is None:
                return score_targets(model, source, targets)
            return alignments(model, source, targets)

        return self._run([list(source) for source, _ in pairs], job, plan, 1, lambda batch: None, aligning)

    @staticmethod
    def _scored(text: str, source: Ids, target: Ids, tokens: list[float] | None, search: Any) -> Translation:
        if tokens is None:  # a blank line for a blank line, which no model is asked about
            return Translation(text, 0.0, 0.0, True, (), ())
        found = hypothesis_of((*target, EOS), sum_left_to_right(tokens), search)
        return Translation(text, found.score, found.log_probability, True, ((source, target),), tuple(tokens))

    def _alignment(self, parts: Sequence[tuple[Ids, Ids]], forced: Sequence[np.ndarray]) -> Alignment:
        source = tuple(self.vocabulary.source.pieces([i for ids, _ in parts for i in ids]))
        target = tuple(self.vocabulary.target.pieces([i for _, ids in parts for i in ids]))
        weights = np.zeros((len(target), len(source)))
        s = t = 0
        for (source_ids, target_ids), each in zip(parts, forced, strict=True):
            rows, columns = len(target_ids), len(source_ids)
            weights[t : t + rows, s : s + columns] = each[:rows, :columns]
            s, t = s + columns, t + rows
        return Alignment(source, target, weights)
