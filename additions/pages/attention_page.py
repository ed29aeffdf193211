"""An interactive HTML page of the attention weights of all heads, for some sentences and their translations.

page = attention_page([attention(translator, "the cat sat on the mat")], "runs/x")
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from additions.pages.page import page
from additions.pages.sentence_attention import SentenceAttention
from minitf.errors import UserError

Kind = Literal["encoder", "decoder", "cross"]

WHOLE = 65_535
"""The sum of a row of weights as integers of two bytes, so that a row sums to exactly one."""
LONGEST_LABEL = 60  # characters of a sentence in the selection list


def attention_page(
    sentences: Sequence[SentenceAttention],
    name: str,
    *,
    kind: Kind = "cross",
    layer: int | None = None,
    head: int | None = None,
    numbers: Sequence[int] | None = None,
) -> str:
    """Return the page as HTML.

    name: of the model, for the title
    kind, layer, head: what is shown first, counted from 1; default: all heads of the last layer
    numbers: of the lines that the sentences come from; default: 1, 2, …
    Raises: UserError if there is no sentence, or the model has no such layer or head.
    """
    if not sentences:
        raise UserError("there is no sentence for an attention page: every line is blank")
    first = sentences[0]
    heads, shown = first.heads, first.layers_of(kind)
    check_choice(shown, heads, layer, head)
    depths = f"{first.layers}" if first.encoder_layers == first.layers else f"{first.encoder_layers} + {first.layers}"
    described = {
        "model": f"{name} · {depths} layers of {heads} heads",
        "layers": first.layers,
        "encoder_layers": first.encoder_layers,
        "heads": heads,
        "start": {
            "sentence": 0,
            "kind": kind,
            "layer": (layer or shown) - 1,
            "head": -1 if head is None else head - 1,
        },
        "sentences": [
            _described(sentence, number)
            for sentence, number in zip(sentences, numbers or range(1, len(sentences) + 1), strict=True)
        ],
    }
    blobs = {f"weights-{i}": pack(sentence) for i, sentence in enumerate(sentences)}
    scripts = ("pieces.js", "heat.js", "attention-weights.js", "attention.js")
    return page(
        "attention", f"Attention · {name}", *scripts, styles=["kind.css"], data={"page": described}, blobs=blobs
    )


def check_choice(layers: int, heads: int, layer: int | None, head: int | None) -> None:
    """Raises: UserError for a layer or head, counted from 1, that the model does not have."""
    for what, chosen, count in (("layer", layer, layers), ("head", head, heads)):
        if chosen is not None and not 1 <= chosen <= count:
            raise UserError(f"attention_{what}={chosen} is not among the model's {count}; choose 1 to {count}")


def _described(sentence: SentenceAttention, number: int) -> dict[str, Any]:
    text = sentence.source_text
    short = text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…"
    end = [len(sentence.target_out) - 1] if sentence.finished else []
    source_end = [len(sentence.source) - 1] if sentence.source_eos else []
    return {
        "label": f"{number}: {short}",
        "source_text": text,
        "target_text": sentence.target_text,
        "source": sentence.source,
        "target_in": sentence.target_in,
        "target_out": sentence.target_out,
        "special": {"source": source_end, "target_in": [0], "target_out": end},
        "log_probabilities": [round(float(p), 5) for p in sentence.log_probabilities],
    }


def pack(sentence: SentenceAttention) -> bytes:
    """All weights, compressed: the high bytes of encoder, decoder and cross attention, then the low bytes.

    Most weights are small, so most high bytes are zeros, which compress well next to each other.
    """
    weights = np.concatenate([in_units(each).ravel() for each in (sentence.encoder, sentence.decoder, sentence.cross)])
    return zlib.compress((weights >> 8).astype(np.uint8).tobytes() + (weights & 255).astype(np.uint8).tobytes())


def in_units(weights: np.ndarray) -> np.ndarray:
    """Rows of weights as integers that sum to exactly `WHOLE`: those with the largest remainders are rounded up.

    Shapes: [..., T, S] -> uint16 [..., T, S]
    """
    exact = weights.astype(np.float64)
    exact *= WHOLE / exact.sum(axis=-1, keepdims=True)
    units = np.floor(exact)
    missing = WHOLE - units.sum(axis=-1, keepdims=True)
    by_remainder = np.argsort(units - exact, axis=-1, kind="stable")  # the largest first
    rounded_up = np.zeros(units.shape, bool)
    np.put_along_axis(rounded_up, by_remainder, np.arange(units.shape[-1]) < missing, axis=-1)
    return (units + rounded_up).astype(np.uint16)
