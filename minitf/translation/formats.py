"""Translations as lines of a file: the text alone, n-best lists as Moses and Marian write them, or JSON objects.

ein Haus                                        one translation a line
0 ||| ein Haus ||| -0.1523 ||| -0.1247          several: number of the line, text, log-probability, score
… ||| 0-0 1-1                                   with alignments: source word-target word, from 0
{"line": 1, "translations": [{"text": "ein Haus", "log_probability": -0.15, …}]}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minitf.config import TranslateConfig
    from minitf.translation.translator import Alignment, Translation, Translator


class TranslationLines:
    """What is written of each line, in the form that a configuration asks for."""

    def __init__(self, config: TranslateConfig, translator: Translator):
        self.config, self.translator = config, translator

    def of(self, results: Iterable[list[Translation]]) -> Iterator[tuple[list[str], Translation]]:
        """For each line: the lines to write, and its best translation."""
        for number, found in enumerate(results):
            alignments = self.translator.align(found) if self.config.alignment else [None] * len(found)
            if self.config.format == "jsonl":
                yield [self._json(number, found, alignments)], found[0]
            else:
                pairs = zip(found, alignments, strict=True)
                yield [self._text(number, each, alignment) for each, alignment in pairs], found[0]

    def _text(self, number: int, translation: Translation, alignment: Alignment | None) -> str:
        parts = [translation.text]
        if self.config.score is not None:
            parts = [f"{translation.log_probability:.8g}", f"{translation.score:.8g}"]
        elif self.config.nbest > 1:
            parts = [str(number), *parts, f"{translation.log_probability:.8g}", f"{translation.score:.8g}"]
        if alignment is not None:
            parts.append(" ".join(f"{s}-{t}" for s, t in alignment.word_links()))
        return ("\t" if self.config.score is not None else " ||| ").join(parts)

    def _json(self, number: int, found: Sequence[Translation], alignments: Sequence[Alignment | None]) -> str:
        translations = [self._object(*each) for each in zip(found, alignments, strict=True)]
        return json.dumps({"line": number + 1, "translations": translations}, ensure_ascii=False)

    def _object(self, translation: Translation, alignment: Alignment | None) -> dict[str, Any]:
        vocabulary = self.translator.vocabulary
        about: dict[str, Any] = {
            "text": translation.text,
            "log_probability": translation.log_probability,
            "score": translation.score,
            "finished": translation.finished,
            "tokens": vocabulary.pieces([i for _, target in translation.parts for i in target]),
        }
        if translation.token_log_probabilities is not None:
            about["token_log_probabilities"] = list(translation.token_log_probabilities)
        if alignment is not None:
            about["source_tokens"] = list(alignment.source)
            about["token_alignment"] = alignment.links()
            about["word_alignment"] = alignment.word_links()
        return about
