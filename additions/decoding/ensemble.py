"""An ensemble: several models that translate together.

P(token) = 1/M · Σ P_m(token), the arithmetic mean of the members' probabilities

load_ensemble("runs/x", "runs/y").translate(["a tree"])
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from minitf.data.text import PathLike
from minitf.decoding.search import finder_of
from minitf.errors import UserError
from minitf.translation.translator import Translator

Array = Any


class Ensemble:
    """Decoders with one vocabulary on one device; search, sampling and scores use it like a single decoder."""

    def __init__(self, members: Sequence[Any]):
        """members: decoders of Transformers"""
        sizes = {member.model.config.vocab_size for member in members}
        if len(sizes) != 1:
            raise UserError(f"an ensemble needs models of one target vocabulary, not of {sorted(sizes)} tokens")
        self.members = list(members)
        if all(hasattr(member, "compute_batches") for member in self.members):  # fast decoders, on all threads
            self.compute_batches = partial(type(self.members[0]).compute_batches, self)
        self.top_tokens = finder_of(self.members[0])

    @property
    def backend(self) -> Any:
        """The backend of the device of all members."""
        return self.members[0].backend

    @property
    def source_eos(self) -> bool:
        """Whether sources end with EOS."""
        return self.members[0].source_eos

    @property
    def masked_tokens(self) -> set[int]:
        """Tokens that no member ever produces."""
        return set.intersection(*(member.masked_tokens for member in self.members))

    @property
    def weights_of_a_step(self) -> int:
        """The weights that each row of a step is multiplied with."""
        return sum(member.weights_of_a_step for member in self.members)

    def start_decoding(self, source: np.ndarray) -> EnsembleState:
        """Encode `source` with every member.  Shapes: source int [B, S], padded with PAD -> a state of B rows"""
        return EnsembleState([member.start_decoding(source) for member in self.members])

    def decode_step(self, tokens: np.ndarray, state: EnsembleState) -> Array:
        """Return the logarithm of the mean probability of the token that follows.  Shapes: tokens int [R] -> [R, V]"""
        xp = self.backend.xp
        found = [
            _log_probabilities(xp, member.decode_step(tokens, each))
            for member, each in zip(self.members, state.states, strict=True)
        ]
        top = found[0]
        for each in found[1:]:
            top = xp.maximum(top, each)
        top = xp.where(xp.isneginf(top), 0, top)  # of tokens that no member produces
        total = xp.zeros_like(top)
        for each in found:
            each -= top
            total += xp.exp(each, out=each)
        total /= len(found)
        with np.errstate(divide="ignore"):
            top += xp.log(total, out=total)
        return top


@dataclass
class EnsembleState:
    """The states of the members."""

    states: list[Any]

    def reorder(self, rows: np.ndarray) -> None:
        """Make row i what row rows[i] was, in every member."""
        for state in self.states:
            state.reorder(rows)


def _log_probabilities(xp: Any, logits: Array) -> Array:
    """log softmax of each row, in float32 at least.  Shapes: [R, V] -> [R, V], a new array"""
    logits = logits.astype(xp.promote_types(logits.dtype, xp.float32) if logits.dtype.kind == "f" else xp.float32)
    logits -= logits.max(axis=1, keepdims=True)
    logits -= xp.log(xp.exp(logits).sum(axis=1, keepdims=True))
    return logits


def load_ensemble(*runs: PathLike, warn: Callable[[str], object] = warnings.warn, **settings: Any) -> Translator:
    """Load a translator of several runs, with the settings of the search of the first.

    settings: as `Translator.load` takes them; of all runs
    Raises: UserError for runs that read other ids, and as `Translator.load`
    """
    first, *others = translators = [Translator.load(run, warn=warn, **settings) for run in runs]
    for run, other in zip(runs[1:], others, strict=True):
        ids, first_ids = ((each.vocabulary.fingerprint(), each.decoder.source_eos) for each in (other, first))
        if ids != first_ids:
            raise UserError(
                f"{run} has another vocabulary than {runs[0]}; models that translate together need the same one"
            )
    lengths = [each.search.max_length for each in translators if each.search.max_length is not None]
    return Translator(
        Ensemble([each.decoder for each in translators]),
        first.vocabulary,
        search=replace(first.search, max_length=min(lengths, default=None)),
        max_source_length=min(each.max_source_length for each in translators),
        warn=warn,
    )
