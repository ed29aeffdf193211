"""A page that translates: the trained model with its vocabulary, its search and its attention in one HTML file.

page = translator_page(load_learned(Path("runs/x")), "runs/x", ["the cat sat on the mat"])

The forward pass, the search and the segmentation are written a second time, in JavaScript, with the names of the Python
functions: web/translator-*.js. They compute each model that `minitf train` and `minitf import` make.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from additions.pages.page import page
from additions.pages.segmentation import rules_of
from autograd.fast.int8 import quantise
from minitf.data.prepared import PreparedCorpus, is_prepared
from minitf.data.vocabulary import AnyVocabulary, Vocabulary, sized
from minitf.decoding.lines import search_of
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.storage.run_directory import RunDirectory
from minitf.translation.translator import LearnedModel

Weights = Literal["int8", "float16", "float32"]

EXAMPLES, LONGEST_EXAMPLE, LINES = 12, 80, 200
"""Sentences to choose from, characters of the longest of them, and lines that are looked at."""
CODE = re.compile(r"[a-z]{2,3}(-[A-Za-z]{2,4})?")
HALF = 65_504  # the largest number of type float16


def translator_page(
    learned: LearnedModel,
    name: str,
    sentences: Sequence[str] = (),
    *,
    weights: Weights = "int8",
    earlier: Mapping[int, LearnedModel] = MappingProxyType({}),
) -> str:
    """Return the page as HTML.

    name: of the model, for the title
    sentences: to choose from; the first is translated when the page opens
    weights: type of the numbers in the page: "int8" is the smallest, with one factor for each row of a matrix;
        "float32" computes what `minitf translate` does, up to rounding
    earlier: checkpoints of the same run by their step, for the slider over training
    Raises: UserError for layers of the studies, a vocabulary with rules that the page does not have, such as a
        parser's, and weights that are not finite
    """
    config, vocabulary = learned.config, learned.vocabulary
    source, target = vocabulary.source, vocabulary.target
    described = {
        "name": name,
        "weights": weights,
        "config": asdict(sized(config.model, vocabulary)),
        "vocabulary": {
            "target": rules_of(target, name),
            "source": None if source is target else rules_of(source, name),
        },
        "search": asdict(search_of(config)),
        "max_source_length": config.max_length - 1,  # max_length counts the EOS of training sentences
        "sentences": list(sentences),
        "steps": list(earlier),
        "languages": languages_of(learned),
    }
    described["parameters"], blob = packed(learned, weights)
    blobs = {"weights": blob} | {f"weights-{step}": packed(each, weights)[1] for step, each in earlier.items()}
    return page(
        "translator",
        f"Translator · {name}",
        *SCRIPTS,
        styles=["kind.css"],
        data={"page": described},
        blobs={key: zlib.compress(each, 9) for key, each in blobs.items()},
    )


def spread(steps: Sequence[int], count: int) -> list[int]:
    """Choose at most `count` of the steps, evenly spaced, including the first and the last.

    Raises: UserError for a negative count
    """
    if count < 0:
        raise UserError(f"checkpoints={count} is not a number of checkpoints; choose 0 (none) or more")
    if count >= len(steps):
        return list(steps)
    return [steps[round(i * (len(steps) - 1) / max(1, count - 1))] for i in range(count)]


def languages_of(learned: LearnedModel) -> list[str]:
    """The codes of source and target language, as texts are named (mine.en, mine.de); none where they do not tell."""
    config, named = learned.config, []
    if config.train is not None:
        named = [str(path).removesuffix(".gz") for path in config.train]
    elif config.data is not None:
        named = {"multi30k": [".en", ".de"], "multi30k-tok": [".en", ".de"], "iwslt14": [".de", ".en"]}.get(
            config.data, [f".{code}" for code in config.data.split("-")[-2:]]
        )
    elif isinstance(learned.vocabulary, Vocabulary):  # learned here: of the built-in corpus
        named = [".en", ".de"]
    codes = [name.rpartition(".")[2] for name in named]
    return codes if all(CODE.fullmatch(code) for code in codes) else []


def example_sentences(run: Path, vocabulary: AnyVocabulary) -> list[str]:
    """Some sentences of the run's validation text; none where the run does not keep it, as one that was packed."""
    directory = RunDirectory(run)
    folder = directory.data_path / "valid"
    if not is_prepared(folder):
        return []
    source = PreparedCorpus.load(folder, vocabulary, max_length=directory.config().max_length).source
    texts = vocabulary.source.decode([source[i].tolist() for i in range(min(LINES, len(source)))])
    return [text for text in dict.fromkeys(texts) if len(text) <= LONGEST_EXAMPLE][:EXAMPLES]


PARTS = ("vocabulary", "model", "search", "beam", "attention", "layer")
SCRIPTS = ["pieces.js", "heat.js", *(f"translator-{part}.js" for part in PARTS), "translator.js"]


def packed(learned: LearnedModel, weights: Weights) -> tuple[list[dict[str, Any]], bytes]:
    """Return the parameters: name, shape and type of each, in the order of their bytes; and the bytes.

    A matrix of type int8 is followed by the factors of its rows; vectors are float32, unless all is float16.

    Raises: UserError for numbers that are not finite, or too large for float16
    """
    outline = Transformer(sized(learned.config.model, learned.vocabulary), seed=None)
    listed: list[dict[str, Any]] = []
    parts: list[np.ndarray] = []
    for name, parameter in outline.named_parameters().items():
        array = np.ascontiguousarray(learned.weights[name], "<f4")
        kind = "float32" if weights == "int8" and array.ndim == 1 else weights
        largest = np.abs(array).max()
        if not largest <= (HALF if kind == "float16" else np.finfo("f4").max):
            raise UserError(
                f"{learned.origin} has {largest} in {name}, which cannot be stored as {kind}; choose --weights "
                "float32, or train again where the run has diverged"
            )
        listed.append({"name": name, "shape": list(parameter.shape), "type": kind})
        if kind == "int8":
            parts += quantise(array)
        else:
            parts.append(array.astype({"float16": "<f2", "float32": "<f4"}[kind]))
    return listed, b"".join(part.tobytes() for part in parts)
