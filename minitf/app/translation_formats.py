"""Translations with scores, alignments, or several for a line, as lines of text or as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from minitf.config import TranslateConfig
from minitf.data.vocabulary import AnyVocabulary
from minitf.decoding.translation import Translation
from minitf.translation.attention_weights import Alignment
from minitf.translation.translator import Translator


def formatted(
    results: Iterable[list[Translation]], config: TranslateConfig, translator: Translator
) -> Iterator[tuple[list[str], str]]:
    """Yield, for each input line, the lines to write in the format of `config`, and the best translation.

    Several translations of a line are written as Moses and Marian do:

        0 ||| ein Haus ||| -0.1523 ||| -0.1247 ||| 0-0 1-1

    number of the line, text, log-probability, score, and with alignments source word-target word, from 0; as JSON:

        {"line": 1, "translations": [{"text": "ein Haus", "log_probability": -0.15, …}]}
    """
    for number, found in enumerate(results):
        alignments = translator.align(found) if config.alignment else [None] * len(found)
        pairs = list(zip(found, alignments, strict=True))
        if config.format == "jsonl":
            objects = [_object(translator.vocabulary, *pair) for pair in pairs]
            lines = [json.dumps({"line": number + 1, "translations": objects}, ensure_ascii=False)]
        else:
            lines = [_text(config, number, *pair) for pair in pairs]
        yield lines, found[0].text


def _text(config: TranslateConfig, number: int, translation: Translation, alignment: Alignment | None) -> str:
    parts = [translation.text]
    if config.score is not None:
        parts = [f"{translation.log_probability:.8g}", f"{translation.score:.8g}"]
    elif config.nbest > 1:
        parts = [str(number), *parts, f"{translation.log_probability:.8g}", f"{translation.score:.8g}"]
    if alignment is not None:
        parts.append(" ".join(f"{s}-{t}" for s, t in alignment.word_links()))
    return ("\t" if config.score is not None else " ||| ").join(parts)


def _object(vocabulary: AnyVocabulary, translation: Translation, alignment: Alignment | None) -> dict[str, Any]:
    about: dict[str, Any] = {
        "text": translation.text,
        "log_probability": translation.log_probability,
        "score": translation.score,
        "finished": translation.finished,
        "tokens": vocabulary.target.pieces([i for _, target in translation.parts for i in target]),
    }
    if translation.token_log_probabilities is not None:
        about["token_log_probabilities"] = list(translation.token_log_probabilities)
    if alignment is not None:
        about["source_tokens"] = list(alignment.source)
        about["token_alignment"] = alignment.links()
        about["word_alignment"] = alignment.word_links()
    return about
