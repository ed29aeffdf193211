"""Translate text with a trained run: lines in, as many lines out, in the same order.

translator = Translator.load("runs/tiny")
translator.translate(["the third of May", "", "ten euros"])
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np

from autograd.fast import return_freed_memory
from minitf.config import RunConfig
from minitf.data.text import PathLike
from minitf.data.vocabulary import AnyVocabulary
from minitf.decoding.decoder import TransformerDecoder
from minitf.decoding.ensemble import Ensemble
from minitf.decoding.lines import Settings, Translation, chunks_of_lines, refuse_single_string, search_of
from minitf.decoding.search import BeamSearchConfig, Model
from minitf.errors import UserError
from minitf.fast.accelerate import accelerate
from minitf.fast.inference import InferenceTransformer
from minitf.model.transformer import Transformer
from minitf.translation.forced_decoding import ForcedDecoding
from minitf.translation.loading import (
    LearnedModel,
    build_model,
    load_learned,
    with_precision,
)

__all__ = ["Translator"]


class Translator(ForcedDecoding):
    """A model with its vocabulary, which translates text, and scores and aligns translations.

    Methods may be called from several threads, which take turns.
    """

    bleu_tokenize = "13a"
    """The tokenization of the run for BLEU."""

    def __init__(
        self,
        model: Model,
        vocabulary: AnyVocabulary,
        *,
        search: BeamSearchConfig | None = None,
        max_source_length: int = 255,
        packed: str | None = None,
        warn: Callable[[str], object] = warnings.warn,
    ):
        """Translate with a Transformer, without dropout, or with another model that decodes step by step.

        packed: "int8", weights of 8 bits: see `InferenceTransformer`
        search, max_source_length, warn: see `LineTranslator`
        """
        decoder = model
        if isinstance(model, Transformer):
            decoder = InferenceTransformer(model, packed=packed)
        elif packed:
            raise UserError(f"{packed} needs a Transformer, not a model of type {type(model).__name__}; omit it")
        super().__init__(decoder, vocabulary, search=search, max_source_length=max_source_length, warn=warn)
        self.model = model

    @classmethod
    def load(
        cls,
        run_directory: PathLike,
        *more: PathLike,
        average: int | None = None,
        checkpoint: int | None = None,
        weights: str | None = None,
        dtype: Any = None,
        device: str = "cpu",
        precision: str | None = None,
        plain: bool = False,
        warn: Callable[[str], object] = warnings.warn,
    ) -> Translator:
        """Load the translator of a run, which may still be training, with the run's settings of the search.

        run_directory: a run, or a model of Marian, Hugging Face, fairseq or CTranslate2, which is converted in memory
        more: further runs, which translate together with the first as an ensemble: with the mean of their probabilities
        average: use the mean of this many last checkpoints; default: the run's number, or as many as there are
        checkpoint: use the one checkpoint of this step instead
        weights: "average"; "best", of the best validation; "moving-average", of the last one; default: the run's
        dtype: type of the numbers; default: the run's
        device: "cpu", "cuda", "cuda:1", …
        precision: "float32", "float64", on a GPU "tf32" or "bf16"; on a CPU "int8", in a quarter of the memory;
            default: the run's, float32 for one of a GPU on a CPU
        warn: see `Translator`
        plain: compute with the plain parts alone, slower and easier to follow
        Raises: UserError if there is no run, no checkpoint, or its parts do not belong together; and for runs whose
            vocabularies differ
        Source: section 6.1 (averaging)
        """
        chosen: Any = {"average": average, "checkpoint": checkpoint, "weights": weights}
        chosen["warn"] = warn
        learned = [load_learned(Path(path), **chosen) for path in (run_directory, *more)]
        if more:
            require_alike(learned)
        packed = precision if precision == "int8" else None
        learned = [replace(each, config=with_precision(each.config, device, precision)) for each in learned]
        models = [_model_of(each, np.float32 if packed else dtype, device, plain) for each in learned]
        settings: Any = {**_limits_of([each.config for each in learned]), "warn": warn}
        if more:
            members: list[Any] = [
                TransformerDecoder(each) if plain else InferenceTransformer(each, packed=packed) for each in models
            ]
            translator = cls(Ensemble(members), learned[0].vocabulary, **settings)
        else:
            model = TransformerDecoder(models[0]) if plain else models[0]
            translator = cls(model, learned[0].vocabulary, packed=packed, **settings)
            members = [translator.decoder]
        if packed:  # the models are of no other use
            for member, each in zip(members, learned, strict=True):
                member.release_weights()
                each.weights.clear()
            return_freed_memory()
        translator.bleu_tokenize = learned[0].config.bleu_tokenize
        return translator

    # ---- Translations ----

    def __repr__(self) -> str:
        model = repr(self.model) if isinstance(self.model, Transformer) else type(self.model).__name__
        return f"{type(self).__name__}({model}, vocabulary of {len(self.vocabulary):,}, beam={self.search.beam})"

    @overload
    def translate(  # type: ignore[overload-overlap]  # a string is a sequence of strings
        self, lines: str, **settings: Unpack[Settings]
    ) -> str: ...

    @overload
    def translate(self, lines: Sequence[str], **settings: Unpack[Settings]) -> list[str]: ...

    def translate(self, lines: str | Sequence[str], **settings: Unpack[Settings]) -> str | list[str]:
        """Translate lines: one translation for each, in order, without line ends; "" for a blank line.

        lines: a list, or one line, whose translation alone is returned
        """
        if isinstance(lines, str):
            return self.translate([lines], **settings)[0]
        return [best.text for best, *_ in self.nbest(lines, self.plan(settings))]

    def translate_nbest(self, lines: Sequence[str], **settings: Unpack[Settings]) -> list[list[Translation]]:
        """Return the n best translations of each line, best first; default: as many as the beam is wide.

        Fewer where fewer hypotheses ended within their limit. A blank line has one translation, "". Different
        subwords may spell one text, so a text may come twice.
        """
        if settings.get("n_best") is None:
            settings["n_best"] = self.plan(settings).search.beam
        return self.nbest(lines, self.plan(settings))

    def translate_stream(
        self,
        lines: Iterable[str],
        *,
        must_wait: Callable[[], bool] = lambda: False,
        **settings: Unpack[Settings],
    ) -> Iterator[str]:
        """Translate any number of lines in the memory of a few: read and translate them by the thousand.

        must_wait: asked after each line; where the next line has not arrived, those before it are translated first
        """
        for best, *_ in self.stream_nbest(lines, must_wait=must_wait, **settings):
            yield best.text

    def stream_nbest(
        self,
        lines: Iterable[str],
        *,
        must_wait: Callable[[], bool] = lambda: False,
        **settings: Unpack[Settings],
    ) -> Iterator[list[Translation]]:
        """Yield the n best translations of each line, by default one; see `translate_stream`."""
        plan = self.plan(settings)
        refuse_single_string(lines)
        first_line = 1
        for chunk in chunks_of_lines(lines, must_wait):
            yield from self.nbest(chunk, plan, first_line)
            first_line += len(chunk)


def require_alike(models: Sequence[LearnedModel]) -> None:
    """Raises: UserError for models that cannot translate together: that read other ids"""
    first = models[0]
    for other in models[1:]:
        ids, first_ids = ((each.vocabulary.fingerprint(), each.config.model.source_eos) for each in (other, first))
        if ids != first_ids:
            raise UserError(
                f"{other.origin} has another vocabulary than {first.origin}; models that translate together need the "
                "same one"
            )


def _model_of(learned: LearnedModel, dtype: Any, device: str, plain: bool) -> Transformer:
    model = build_model(learned, dtype or learned.config.dtype).to(device)
    if learned.config.precision != "bf16":
        return model
    if plain:
        raise UserError("plain does not support precision=bf16, the run's; give precision float32")
    return accelerate(model, compute_dtype="bfloat16")


def _limits_of(configs: Sequence[RunConfig]) -> dict[str, Any]:
    """Return the search of the first run, and the length of lines, within what the models of all runs know."""
    searches = [search_of(config) for config in configs]
    longest = min((each.max_length for each in searches if each.max_length is not None), default=None)
    # max_length of a run counts the EOS of training sentences
    return {
        "search": replace(searches[0], max_length=longest),
        "max_source_length": min(config.max_length for config in configs) - 1,
    }
