"""Detection of the program that wrote a model, and the reader and writer of its format."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable
from pathlib import Path

from additions.interchange.ctranslate2 import find_ctranslate2, read_ctranslate2, write_ctranslate2
from additions.interchange.fairseq import find_fairseq, read_fairseq
from additions.interchange.folders import new_folder
from additions.interchange.huggingface import find_huggingface, read_huggingface, write_huggingface
from additions.interchange.incoming import ForeignModel
from additions.interchange.marian import find_marian, read_marian, write_marian
from additions.interchange.outgoing import LearnedModel, write_plain
from additions.interchange.piece_vocabulary import VocabularyPair
from additions.interchange.stored_arrays import ModelFileError
from minitf.errors import UserError
from minitf.model.layers import Module
from minitf.system.files import os_errors_explained

Reader = Callable[[Path], ForeignModel]
Writer = Callable[[LearnedModel, Path], list[str]]
READERS: tuple[tuple[Callable[[Path], Path | None], Reader], ...] = (
    (find_ctranslate2, read_ctranslate2),
    (find_huggingface, read_huggingface),
    (find_marian, read_marian),
    (find_fairseq, read_fairseq),
)
"""The functions that find the file or folder of a model, if a path is one, and that read it."""
WRITERS: dict[str, Writer] = {
    "ctranslate2": write_ctranslate2,
    "marian": write_marian,
    "huggingface": write_huggingface,
    "safetensors": write_plain,
}


def part(name: str) -> type[Module]:
    """A class of foreign_transformer.py."""
    from additions.interchange import foreign_transformer  # deferred: a vocabulary needs no model

    found: type[Module] = getattr(foreign_transformer, name)
    return found


def vocabulary_of(content: bytes, name: str) -> VocabularyPair:
    """The vocabularies of an imported model, from their file.  name: for messages"""
    return VocabularyPair.from_bytes(content, name)


def is_foreign(path: Path) -> bool:
    """Return whether a path is a model of another program: its file, or a folder that holds it."""
    return _found(path) is not None


def _found(path: Path) -> tuple[Path, Reader] | None:
    return next(((place, read) for find, read in READERS if (place := find(path)) is not None), None)


def _of_tensorflow(path: Path) -> Path | None:
    """Return the table of a checkpoint of TensorFlow: `path`, beside it, or in the folder; None if there is none."""
    stem = re.sub(r"\.(index|meta|data-\d+-of-\d+)$", "", path.name)
    found = [*path.glob("*.index")] if path.is_dir() else [path.with_name(f"{stem}.index")]
    return next((each for each in found if any(each.parent.glob(f"{glob.escape(each.stem)}.data-*-of-*"))), None)


def read_foreign(path: Path, positions: str | None = None) -> ForeignModel:
    """Read the model of another program.

    positions: the positions of a model of Marian, where they are not its own; see `read_marian`

    Raises: ModelFileError for anything that is not a model, for damage, and for an architecture that is not supported
    """
    if checkpoint := _of_tensorflow(path):
        raise ModelFileError(
            f"{checkpoint} is a checkpoint of TensorFlow, such as tensor2tensor writes, a format that is not read; "
            "convert it with a program that has TensorFlow"
        )
    with os_errors_explained(f"read {path}", ModelFileError):
        path.stat()  # says what is wrong with the path
        found = _found(path)
    if positions is not None:
        if found is None or found[1] is not read_marian:
            raise UserError(
                f"positions={positions} applies only to models of Marian, but {path} contains none; omit it"
            )
        return read_marian(found[0], positions)
    if found is None:
        raise ModelFileError(
            f"{path} contains no supported model: expected is a directory with model.npz, model.safetensors and "
            "config.json or dict.*.txt, or model.bin and vocabularies"
        )
    place, read = found
    return read(place)


def write_foreign(learned: LearnedModel, folder: Path, name: str) -> list[str]:
    """Write a model in the format of another program to a new folder, completely or not at all.

    Returns: notes for the user
    Raises: UserError for what the other program does not have, and a folder that holds files
    """
    with new_folder(folder) as temporary, os_errors_explained(f"write the folder {folder}"):
        return WRITERS[name](learned, temporary)
