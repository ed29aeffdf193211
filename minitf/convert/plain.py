"""Our own parameters as a file of safetensors, for programs of one's own."""

from __future__ import annotations

from pathlib import Path

from minitf.config.options import to_plain
from minitf.convert.outgoing import LearnedModel
from minitf.convert.pieces import json_text, write_sentencepiece, write_text
from minitf.convert.safetensors_file import write_safetensors


def write_plain(learned: LearnedModel, folder: Path) -> list[str]:
    """Write model.safetensors with the names of `Transformer.named_parameters`, config.json and the vocabulary."""
    write_safetensors(folder / "model.safetensors", learned.weights, {"format": "np"})
    write_text(folder / "config.json", json_text({"minitf": to_plain(learned.model)}))
    for side in ("source", "target"):
        vocabulary = getattr(learned.vocabulary, side)
        pieces = getattr(vocabulary, "pieces_by_id", None) or vocabulary.pieces(range(len(vocabulary)))
        write_text(folder / f"{side}_vocabulary.json", json_text(pieces))
    write_sentencepiece(learned.vocabulary, folder)
    return []
