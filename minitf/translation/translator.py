"""Translate text with a trained run: lines in, as many lines out, in the same order.

translator = Translator.load("runs/tiny")
translator.translate(["the third of May", "", "ten euros"])
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

import numpy as np

from minitf.config.model import EOS
from minitf.data.text import PathLike, in_chunks
from minitf.data.vocabulary import AnyVocabulary
from minitf.decoding.decoder import IncrementalDecoder, TransformerDecoder
from minitf.decoding.ensemble import Ensemble
from minitf.decoding.lines import BatchedModel, Ids, LineTranslator, Plan, Translation, refuse_single_string, search_of
from minitf.decoding.sampling import SamplingConfig
from minitf.decoding.scoring import ForcedTarget, score_targets
from minitf.decoding.search import BeamSearchConfig, Model, hypothesis_of
from minitf.decoding.shortlist import Shortlist
from minitf.errors import UserError, nearest
from minitf.fast.accelerate import accelerate
from minitf.fast.decoder import InferenceTransformer
from minitf.model.transformer import Transformer
from minitf.system.environment import sum_left_to_right
from minitf.translation.attention_weights import Alignment, SentenceAttention, sentence_attention
from minitf.translation.loading import build_model, load_learned, require_one_target, source_reader, with_precision

LINES_AT_A_TIME, CHARACTERS_AT_A_TIME = 1000, 1_000_000
"""Lines of a stream that are sorted together: enough for batches of equal lengths, soon enough to see translations."""


class Settings(TypedDict, total=False):
    """How to translate; a setting that is missing or None is the translator's."""

    beam: int | None
    alpha: float | None
    beta: float | None
    max_extra_length: int | None
    max_length: int | None
    min_length: int | None
    beam_patience: float | None
    n_best: int | None
    """See `BeamSearchConfig`."""
    sampling: SamplingConfig | None
    """Draw translations at random instead of searching for the best."""
    shortlist: Shortlist | None
    """Choose among its tokens instead of the whole vocabulary: faster, with other results."""
    max_tokens_per_batch: int
    """Most source subwords searched at once, padding included."""
    max_sentences_per_batch: int | None
    progress: Callable[[int], object] | None
    """Called with the number of lines finished since the last call."""


def plan_of(settings: Settings, search: BeamSearchConfig) -> Plan:
    """Fill in the settings that are missing; `search` has those of the search.

    Raises: TypeError for an unknown setting.
    """
    given: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
    unknown = given.keys() - Settings.__annotations__.keys()
    if unknown:
        name, valid = min(unknown), list(Settings.__annotations__)
        begin = [each for each in valid if each.startswith(name)]  # n: n_best
        hint = f"; did you mean {' or '.join(begin)}?" if begin else nearest(name, valid)
        raise TypeError(f"{name} is not a setting of a translation{hint}; the settings are {', '.join(valid)}")
    of_search = {each.name: given.pop(each.name) for each in fields(BeamSearchConfig) if each.name in given}
    return Plan(replace(search, **of_search), **given)


class Translator(LineTranslator):
    """A model with its vocabulary, which translates text, scores and aligns translations, and shows its attention.

    Methods may be called from several threads, which take turns.
    """

    task = "translation"
    """The task of the run: "translation", or "parsing" for a `Parser`."""

    def __init__(
        self,
        model: Model,
        vocabulary: AnyVocabulary,
        *,
        search: BeamSearchConfig | None = None,
        max_source_length: int = 255,
        same_bits: bool = False,
        warn: Callable[[str], object] = warnings.warn,
    ):
        """From a Transformer, which is used without dropout, or another model that decodes step by step.

        same_bits: make a line's translation and score independent of the other lines, to the last bit; takes 1.3
            to 1.4 times as long on a CPU
        search, max_source_length, warn: see `LineTranslator`
        """
        decoder = InferenceTransformer(model, same_bits=same_bits) if isinstance(model, Transformer) else model
        if same_bits and decoder is model:
            raise UserError(f"same_bits needs a Transformer, not a model of type {type(model).__name__}; leave it out")
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
        same_bits: bool = False,
        plain: bool = False,
        allow_config_edits: bool = False,
        warn: Callable[[str], object] = warnings.warn,
    ) -> Translator:
        """Load the translator of a run, which may still be training, with the run's settings of the search.

        run_directory: a run, or a model of Marian, Hugging Face, fairseq or CTranslate2, which is converted in memory
        more: further runs, which translate together with the first as an ensemble: with the mean of their probabilities
        average: use the mean of this many last checkpoints; default: the run's number, or as many as there are
        checkpoint: use the one checkpoint of this step instead
        weights: "average"; "best", those of the best validation; "moving-average", that of the last checkpoint;
            default: the run's
        dtype: type of the numbers; default: the run's
        device: "cpu", "cuda", "cuda:1", …
        precision: "float32", "float64", or on a GPU "tf32" or "bf16"; default: the run's where the device has it
        same_bits, warn: see `Translator`
        plain: compute with the plain parts alone, slower and easier to follow
        allow_config_edits: use a config.json that was edited since the checkpoints were saved, with a warning
        Raises: UserError where there is no run, no checkpoint, or its parts do not belong together; and for runs whose
            target vocabularies differ
        Source: section 6.1 (averaging)
        """
        chosen: Any = {"average": average, "checkpoint": checkpoint, "weights": weights}
        chosen |= {"allow_config_edits": allow_config_edits, "warn": warn}
        learned = [load_learned(Path(path), **chosen) for path in (run_directory, *more)]
        require_one_target(learned)
        learned = [replace(each, config=with_precision(each.config, device, precision)) for each in learned]
        models = [build_model(each, dtype or each.config.dtype).to(device) for each in learned]
        for i, each in enumerate(learned):
            if each.config.precision == "bf16":
                if plain:
                    raise UserError("plain computes without precision=bf16, the run's; give precision float32")
                models[i] = accelerate(models[i], compute_dtype="bfloat16")
        config, *_ = configs = [each.config for each in learned]
        tables = [c.model.max_positions - c.model.first_position for c in configs if c.model.positions == "learned"]
        search = replace(search_of(config), max_length=min(tables, default=None))
        # max_length counts the EOS of training sentences
        settings: Any = {"search": search, "max_source_length": min(c.max_length for c in configs) - 1, "warn": warn}
        if more:
            readers = [source_reader(learned[0], each) for each in learned]
            members = [
                TransformerDecoder(each) if plain else InferenceTransformer(each, same_bits=same_bits)
                for each in models
            ]
            translator = cls(Ensemble(members, readers), learned[0].vocabulary, **settings)
        else:
            model = TransformerDecoder(models[0]) if plain else models[0]
            translator = cls(model, learned[0].vocabulary, same_bits=same_bits, **settings)
        translator.task = config.task
        return translator

    # ---- Translations ----

    def translate(
        self, lines: Sequence[str], prefixes: Sequence[str] | None = None, **settings: Unpack[Settings]
    ) -> list[str]:
        """Translate lines: one translation for each, in order, without line ends; "" for a blank line.

        prefixes: how each translation must begin; "" leaves it open
        """
        return [best.text for best, *_ in self.nbest(lines, self._plan(settings), prefixes)]

    def translate_nbest(
        self, lines: Sequence[str], prefixes: Sequence[str] | None = None, **settings: Unpack[Settings]
    ) -> list[list[Translation]]:
        """Return the n best translations of each line, best first; default: as many as the beam is wide.

        Fewer where fewer hypotheses ended within their limit. A blank line has one translation, "". Different
        subwords may spell one text, so a text may come twice.
        """
        if settings.get("n_best") is None:
            settings["n_best"] = self._plan(settings).search.beam
        return self.nbest(lines, self._plan(settings), prefixes)

    def translate_stream(
        self,
        lines: Iterable[str],
        prefixes: Iterable[str] | None = None,
        *,
        must_wait: Callable[[], bool] = lambda: False,
        **settings: Unpack[Settings],
    ) -> Iterator[str]:
        """Translate any number of lines in the memory of a few: read and translate them by the thousand.

        must_wait: asked after each line; where the next line has not arrived, those before it are translated first
        """
        for best, *_ in self.stream_nbest(lines, prefixes, must_wait=must_wait, **settings):
            yield best.text

    def stream_nbest(
        self,
        lines: Iterable[str],
        prefixes: Iterable[str] | None = None,
        *,
        must_wait: Callable[[], bool] = lambda: False,
        **settings: Unpack[Settings],
    ) -> Iterator[list[Translation]]:
        """Yield the n best translations of each line, by default one; see `translate_stream`."""
        plan = self._plan(settings)
        refuse_single_string(lines)
        remaining = None if prefixes is None else iter(prefixes)
        first_line = 1
        for chunk in _chunks(lines, must_wait):
            given = None if remaining is None else list(itertools.islice(remaining, len(chunk)))
            yield from self.nbest(chunk, plan, given, first_line)
            first_line += len(chunk)
        if remaining is not None and next(remaining, None) is not None:
            raise UserError(f"there are more prefixes than the {first_line - 1} lines; give one for each")

    # ---- Scores, alignments, attention ----

    def score(
        self, pairs: Sequence[tuple[str, str | Sequence[int]]], **settings: Unpack[Settings]
    ) -> list[Translation]:
        """Compute the log-probability and score of a given translation of each line, text or token ids.

        Text is cut into subwords again; a search may have found the same text in other subwords, with another
        probability. Its token ids (in `Translation.parts`) get the number that the search gave them.
        """
        return self._score(pairs, self._plan(settings))

    def _score(
        self, pairs: Sequence[tuple[str, str | Sequence[int]]], plan: Plan, first_line: int = 1
    ) -> list[Translation]:
        """Score pairs; their lines are numbered from `first_line` in messages."""
        if plan.shortlist is not None:
            raise UserError("scores are over the whole vocabulary, not over a shortlist; leave it out")
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
        plan = self._plan(settings)
        remaining = iter(targets)
        first_line = 1
        for chunk in _chunks(lines):
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

        Raises: UserError for a model that is not a Transformer, and for an ensemble that reads different sources
        Source: Garg et al. 2019, arXiv:1909.02074
        """
        plan = self._plan(settings)
        parts = [part for translation in translations for part in translation.parts]
        of_models = [
            [forced.attention for forced in self._force(parts, plan, aligning=member)] for member in self._members()
        ]
        means = iter([np.mean(weights, axis=0) for weights in zip(*of_models, strict=True)])
        return [self._alignment(each.parts, [next(means) for _ in each.parts]) for each in translations]

    def _members(self) -> list[BatchedModel]:
        """The models of an ensemble, or the one model, to be asked alone."""
        if isinstance(self.model, Transformer):
            return [self._batched]
        if not isinstance(self.model, Ensemble):
            raise UserError(f"alignments need a Transformer, not a model of type {type(self.model).__name__}")
        if any(reader is not None for reader in self.model.readers):
            raise UserError(
                "alignments need models that cut their sources into the same pieces; give one of these runs"
            )
        return [BatchedModel(member, self._batched.lock) for member in self.model.members]

    def attention(self, source: str, target: str | None = None, **settings: Unpack[Settings]) -> SentenceAttention:
        """Return the attention weights of every head for `source` and `target`, by default its translation.

        Raises: UserError for a blank source, and for one so long that it is translated in pieces
        """
        (ids,) = self.vocabulary.source.encode([source])
        if not ids:
            raise UserError("the source is blank; give a sentence")
        if len(ids) > self.max_source_length:
            raise UserError(f"the source {self._too_long(ids)}, and is translated in pieces; give one of these")
        given = None if target is None else (*self.vocabulary.target.encode([target])[0], EOS)
        return self._attention(ids, given, self._plan(settings))

    def attentions(self, line: str, **settings: Unpack[Settings]) -> list[SentenceAttention]:
        """Return the attention weights for any line: none for a blank one, one for each piece of a long one."""
        (ids,) = self.vocabulary.source.encode([line])
        return [self._attention(piece, None, self._plan(settings)) for piece in self._pieces(ids)]

    # ---- Search ----

    def _plan(self, settings: Settings) -> Plan:
        """Raises: TypeError for an unknown setting; UserError for a shortlist that this translator cannot use."""
        plan = plan_of(settings, self.search)
        if plan.shortlist is not None:
            decoder = self._batched.decoder
            if not isinstance(decoder, InferenceTransformer | Ensemble):
                raise UserError(f"shortlist needs a Transformer, not a model of type {type(decoder).__name__}")
            plan.shortlist.require_usable(self.vocabulary, decoder.same_bits)
        return plan

    def _force(
        self, pairs: Sequence[tuple[Sequence[int], Sequence[int]]], plan: Plan, aligning: BatchedModel | None = None
    ) -> list[ForcedTarget]:
        """Decode given targets (without EOS) of given sources; aligning: a Transformer whose attention to keep."""
        layer = None if aligning is None else max(0, aligning.decoder.model.config.decoder_depth - 2)  # type: ignore[attr-defined]

        def job(model: IncrementalDecoder, source: Any, places: Sequence[int]) -> list[ForcedTarget]:
            targets = [(*pairs[i][1], EOS) for i in places]
            return score_targets(model, source, targets, attention_layer=layer)

        return self._run([list(source) for source, _ in pairs], job, plan, 1, lambda batch: None, aligning)

    def _attention(self, ids: list[int], target: Sequence[int] | None, plan: Plan) -> SentenceAttention:
        """Return the attention of one piece of a line; `target` ends with EOS, None stands for the best translation."""
        if target is None:
            ((best, *_),) = self._search([ids], [()], plan, lambda batch: None)
            target = (*best.tokens, EOS) if best.finished else best.tokens
        with self._batched.lock:
            return sentence_attention(self._batched.decoder, self.vocabulary, ids, target)

    @staticmethod
    def _scored(text: str, source: Ids, target: Ids, forced: ForcedTarget | None, search: Any) -> Translation:
        if forced is None:  # a blank line for a blank line, which no model is asked about
            return Translation(text, 0.0, 0.0, True, (), ())
        tokens = forced.log_probabilities
        found = hypothesis_of((*target, EOS), sum_left_to_right(tokens), search)
        return Translation(text, found.score, found.log_probability, True, ((source, target),), tokens)

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


def _chunks(lines: Iterable[str], must_wait: Callable[[], bool] = lambda: False) -> Iterator[list[str]]:
    limits = {"max_items": LINES_AT_A_TIME, "max_characters": CHARACTERS_AT_A_TIME}
    return in_chunks(lines, len, **limits, must_wait=must_wait)
