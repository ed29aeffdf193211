"""Translate text with a trained run: lines in, as many lines out, in the same order.

translator = Translator.load("runs/tiny")
translator.translate(["the third of May", "", "ten euros"])
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Unpack, overload

import numpy as np

from autograd.backend import get_backend
from autograd.fast import return_freed_memory, set_precision
from minitf.config import RunConfig
from minitf.config.model import EOS
from minitf.config.options import shown
from minitf.config.run_config import check_precision
from minitf.data.text import PathLike, refuse_single_string
from minitf.data.vocabulary import AnyVocabulary, load_vocabulary, sized
from minitf.decoding.decoder import TransformerDecoder
from minitf.decoding.greedy import score_targets
from minitf.decoding.lines import Ids, LineTranslator, Plan, Settings, Translation, chunks_of_lines, search_of
from minitf.decoding.search import BeamSearchConfig, IncrementalDecoder, Model, hypothesis_of
from minitf.errors import UserError
from minitf.fast.accelerate import accelerate
from minitf.fast.inference import InferenceTransformer
from minitf.model.transformer import Transformer
from minitf.storage import checkpoints
from minitf.storage.checkpoints import Checkpoints
from minitf.storage.run_directory import CHECKPOINTS_NAME, CONFIG_NAME, RunDirectory
from minitf.system.environment import load_or_none, registered, sum_left_to_right

__all__ = ["LearnedModel", "Translator", "build_model", "load_learned", "with_precision"]


class Translator(LineTranslator):
    """A model with its vocabulary, which translates text, and scores translations.

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
        cls, run_directory: PathLike, *, average: int | None = None, checkpoint: int | None = None,
        weights: str | None = None, dtype: Any = None, device: str = "cpu", precision: str | None = None,
        plain: bool = False, warn: Callable[[str], object] = warnings.warn,
    ) -> Translator:  # fmt: skip
        """Load the translator of a run, which may still be training, with the run's settings of the search.

        run_directory: a run, or a model of Marian, Hugging Face, fairseq or CTranslate2, which is converted in memory
        average: use the mean of this many last checkpoints; default: the run's number, or as many as there are
        checkpoint: use the one checkpoint of this step instead
        weights: "average"; "best", of the best validation; "moving-average", of the last one; default: the run's
        dtype: type of the numbers; default: the run's
        device: "cpu", "cuda", "cuda:1", …
        precision: "float32", "float64", on a GPU "tf32" or "bf16"; on a CPU "int8", in a quarter of the memory;
            default: the run's, float32 for one of a GPU on a CPU
        warn: see `Translator`
        plain: compute with the plain parts alone, slower and easier to follow
        Raises: UserError if there is no run, no checkpoint, or its parts do not belong together
        Source: section 6.1 (averaging)
        """
        chosen: Any = {"average": average, "checkpoint": checkpoint, "weights": weights}
        learned = load_learned(Path(run_directory), **chosen, warn=warn)
        packed = precision if precision == "int8" else None
        learned = replace(learned, config=with_precision(learned.config, device, precision))
        transformer = build_model(learned, np.float32 if packed else dtype or learned.config.dtype).to(device)
        if learned.config.precision == "bf16":
            if plain:
                raise UserError("plain does not support precision=bf16, the run's; give precision float32")
            transformer = accelerate(transformer, compute_dtype="bfloat16")
        translator = cls(
            TransformerDecoder(transformer) if plain else transformer,
            learned.vocabulary,
            search=search_of(learned.config),
            max_source_length=learned.config.max_length - 1,  # that of a run counts the EOS of training sentences
            packed=packed,
            warn=warn,
        )
        if packed:  # the model is of no other use
            translator.decoder.release_weights()
            learned.weights.clear()
            return_freed_memory()
        translator.bleu_tokenize = learned.config.bleu_tokenize
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
        self, lines: Iterable[str], *, must_wait: Callable[[], bool] = lambda: False, **settings: Unpack[Settings]
    ) -> Iterator[str]:
        """Translate any number of lines in the memory of a few: read and translate them by the thousand.

        must_wait: asked after each line; where the next line has not arrived, those before it are translated first
        """
        for best, *_ in self.stream_nbest(lines, must_wait=must_wait, **settings):
            yield best.text

    def stream_nbest(
        self, lines: Iterable[str], *, must_wait: Callable[[], bool] = lambda: False, **settings: Unpack[Settings]
    ) -> Iterator[list[Translation]]:
        """Yield the n best translations of each line, by default one; see `translate_stream`."""
        plan = self.plan(settings)
        refuse_single_string(lines)
        first_line = 1
        for chunk in chunks_of_lines(lines, must_wait):
            yield from self.nbest(chunk, plan, first_line)
            first_line += len(chunk)

    # ---- Given translations, by forced decoding ----

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
        if any(isinstance(pair, str) for pair in pairs):
            raise TypeError("pairs holds a single string; give a pair of a line and its translation in its place")
        sources = self.vocabulary.source.encode([source for source, _ in pairs])
        encoded = iter(self.vocabulary.target.encode([target for _, target in pairs if isinstance(target, str)]))
        targets = [tuple(next(encoded) if isinstance(target, str) else target) for _, target in pairs]
        for number, (ids, target) in enumerate(zip(sources, targets, strict=True), start=first_line):
            if len(ids) > self.max_source_length:
                self.warn(f"line {number} {self._too_long(ids)}")
            self._check_scorable(number, ids, target)
        texts = self.vocabulary.target.decode(targets)
        asked = [i for i, pair in enumerate(zip(sources, targets, strict=True)) if any(pair)]
        scored = dict(zip(asked, self._force([(sources[i], targets[i]) for i in asked], plan), strict=True))
        results = []
        for i, (text, source, target) in enumerate(zip(texts, sources, targets, strict=True)):
            if i not in scored:  # a blank line for a blank line, which no model is asked about
                results.append(Translation(text, 0.0, 0.0, True, (), ()))
                continue
            found = hypothesis_of((*target, EOS), sum_left_to_right(scored[i]), plan.search)
            parts = ((tuple(source), target),)
            results.append(Translation(text, found.score, found.log_probability, True, parts, tuple(scored[i])))
        return results

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

    def _force(self, pairs: Sequence[tuple[Sequence[int], Ids]], plan: Plan) -> list[list[float]]:
        """Decode given targets (without EOS) of given sources; return the log-probabilities of the tokens of each."""

        def job(model: IncrementalDecoder, source: Any, places: Sequence[int]) -> list[list[float]]:
            return score_targets(model, source, [(*pairs[i][1], EOS) for i in places])

        return self._run([list(source) for source, _ in pairs], job, plan, 1, lambda batch: None)


# ---- What a run has learned: the checkpoints to translate with, and the model that they fit -----------------------

Weights = dict[str, np.ndarray]


@dataclass(frozen=True)
class LearnedModel:
    """The configuration, vocabulary and weights of a run or of another program's model."""

    config: RunConfig
    vocabulary: AnyVocabulary
    weights: Weights
    origin: Path
    """The file or folder to name in errors."""


def foreign_model(path: Path) -> Any | None:
    """Read the model of another program: (configuration, vocabulary, weights); None if the path is none that an
    installed addition knows. A folder with a configuration and checkpoints of ours is none."""
    if (path / CONFIG_NAME).is_file() and Checkpoints(path / CHECKPOINTS_NAME).steps():
        return None
    formats = map(partial(load_or_none, "minitf.formats"), registered("minitf.formats"))
    found = next((each for each in formats if each is not None and each.is_foreign(path)), None)
    return None if found is None else found.read_foreign(path)


def load_learned(
    path: Path, *, average: int | None = None, checkpoint: int | None = None, weights: str | None = None,
    warn: Callable[[str], object] = warnings.warn,
) -> LearnedModel:  # fmt: skip
    """Load the weights and the vocabulary of a run, or of another program's model.  Arguments: see `Translator.load`

    Raises: UserError if there is no run, no checkpoint, or its parts do not belong together
    """
    foreign = foreign_model(path)
    if foreign is not None:
        given = ("average", average, 1), ("checkpoint", checkpoint, None), ("weights", weights, "average")
        for name, value, of_one in given:
            if value not in (None, of_one):
                raise UserError(f"{name}={value} selects checkpoints, but {path} is a single model; omit it")
        return LearnedModel(foreign.config, foreign.vocabulary, foreign.weights, path)
    run = RunDirectory.open(path)
    config = run.config(warn)
    vocabulary = load_vocabulary(run.vocabulary_path)
    if weights is None:
        weights = config.weights if average is None and checkpoint is None else "average"
    paths, prefix = choose_checkpoints(run, config, average, checkpoint, weights, warn)
    if checkpoints.Reader(paths[-1]).state.get("vocabulary", vocabulary.fingerprint()) != vocabulary.fingerprint():
        raise UserError(
            f"{run.vocabulary_path} is not the vocabulary that {paths[-1]} was trained with; restore the one that "
            "training wrote"
        )  # one of the right size would give the ids another meaning; not all checkpoints name theirs
    return LearnedModel(config, vocabulary, checkpoints.average(paths, prefix), paths[-1])


def choose_checkpoints(
    run: RunDirectory, config: RunConfig, average: int | None, checkpoint: int | None, weights: str,
    warn: Callable[[str], object],
) -> tuple[list[Path], str]:  # fmt: skip
    """Return the checkpoints whose mean translates, and the prefix of its weights in them.

    Arguments: see `Translator.load`
    """
    if average is not None and checkpoint is not None:
        raise UserError(f"average={average} and checkpoint={checkpoint} cannot be combined; choose one of the two")
    if average is not None and average < 1:
        raise UserError(f"average={average} selects no checkpoint; choose 1 (the last) or more")
    if weights not in ("average", "best", "moving-average"):
        raise UserError(f"weights={shown(weights)}; choose one of average, best, moving-average")
    if weights != "average" and (average or checkpoint) is not None:
        raise UserError(f"weights={weights} excludes average={average} and checkpoint={checkpoint}; choose one")
    store = Checkpoints(run.checkpoints_path)
    if weights == "moving-average" and config.moving_average is None:
        raise UserError(f"the run of {store.folder} has no moving average; train with --set moving_average=0.9999")
    if checkpoint is not None:
        return [store.existing(checkpoint)], "model."
    paths, prefix = store.translating(weights, average or config.average_checkpoints)
    if average is not None and len(paths) < average:
        warn(f"{run.path} has {len(paths)} checkpoints, not {average}: all of them are averaged")
    return paths, prefix


def build_model(learned: LearnedModel, dtype: Any) -> Transformer:
    """Build the model with its weights, in evaluation mode.  Raises: UserError if they do not fit"""
    config, vocabulary = learned.config, learned.vocabulary
    rows, pieces = (config.model.source_rows, config.model.vocab_size), (len(vocabulary.source), len(vocabulary))
    if config.model.vocab_size and rows != pieces:
        model_has, vocabulary_has = (str(b) if a == b else f"{a} and {b}" for a, b in (rows, pieces))
        raise UserError(
            f"the run's model has {model_has} tokens, but its vocabulary {vocabulary_has}; "
            "restore the vocabulary that the run was trained with"
        )
    model = Transformer(sized(config.model, vocabulary), seed=None, dtype=dtype)
    try:
        model.load_parameters(learned.weights, copy=False)
    except ValueError as error:
        raise UserError(f"{learned.origin} does not match the run's configuration: {error}") from error
    model.eval()
    return model


def with_precision(config: RunConfig, device: str, precision: str | None) -> RunConfig:
    """Move a configuration to another device and set the precision there.  Raises: UserError if it cannot be"""
    check_precision(precision, device != "cpu")
    if precision == "int8":
        precision = "float32"  # of all but the weights
    if precision is None and device == "cpu" and config.precision in ("tf32", "bf16"):
        precision = "float32"
    chosen: Any = precision or config.precision
    try:
        set_precision(chosen, get_backend(device))
    except ValueError as error:
        raise UserError(f"{error}; choose --device cpu or another --precision") from None
    return replace(config, device=device, devices=None, precision=chosen)
