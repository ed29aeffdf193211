"""The built-in corpus: texts that are shipped, drawn once from a grammar of this project.

The corpus holds English number words, dates, clock times, prices and sentences with them, and their German. It is real
translation: German puts the ones before the tens and the verb last in a clause, and inflects nearly every word. It
is read without network and is the same on every machine; `studies/make_corpus` holds the grammar, and draws other and
larger corpora from it.
"""

import bz2
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from operator import itemgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from minitf.errors import UserError
from minitf.system.files import atomic_write, os_errors_explained

__all__ = ["Splits", "built_in_corpus", "first", "read_text", "require_non_negative", "split", "write_corpus"]

Item = TypeVar("Item")


@dataclass(frozen=True)
class Splits(Generic[Item]):
    """Training, validation and test set."""

    train: list[Item]
    valid: list[Item]
    test: list[Item]

    def write(self, folder: str | os.PathLike[str], formats: Mapping[str, Callable[[Item], str]]) -> None:
        """Write a file per set and format, such as `train.en`: UTF-8, one item per line, line ends LF.

        formats: for each suffix of a name, the function that turns an item into a line
        The folder is created if it does not exist; each file gets its name only when it is complete.
        Raises: UserError if the folder or a file cannot be written.
        """
        folder = Path(folder)
        with os_errors_explained(f"create the folder {folder}"):
            folder.mkdir(parents=True, exist_ok=True)
        for name, items in vars(self).items():
            for suffix, line_of in formats.items():
                with atomic_write(folder / f"{name}.{suffix}", "w") as file:
                    file.writelines(f"{line_of(item)}\n" for item in items)


Pair = tuple[str, str]  # (English, German)

Corpus = Splits[Pair]
"""(English, German) pairs; no English and no German line occurs twice in the three sets together."""

TEXTS = files("minitf.corpora") / "texts"
SAMPLE_PAIRS: Any = [tuple(line.split("\t")) for line in (TEXTS / "samples.tsv").read_text("utf-8").splitlines()]
"""The phrases that the demo translates at its end, with the right translations; they are not in the corpus."""


def built_in_corpus(*, train_pairs: int = 30_000, valid_pairs: int = 1_000, test_pairs: int = 1_000) -> Corpus:
    """Return the built-in corpus, or the first pairs of each of its sets.

    Raises: UserError if a number is negative, or larger than that of the set
    """
    lines = read_text(TEXTS / "phrases.tsv.bz2")
    corpus: Splits[Any] = split([tuple(line.split("\t")) for line in lines], valid=1_000, test=1_000)
    return first(corpus, train_pairs=train_pairs, valid_pairs=valid_pairs, test_pairs=test_pairs)


def read_text(file: Traversable) -> list[str]:
    """Return the lines of a shipped text: those of the validation set, of the test set, of the training set."""
    return bz2.decompress(file.read_bytes()).decode("utf-8").splitlines()


def first(whole: Splits[Item], **sizes: int) -> Splits[Item]:
    """Return the first items of each set; sizes: as in `train_pairs=400`"""
    require_non_negative(**sizes)
    parts = {}
    for name, size in sizes.items():
        part = name.partition("_")[0]
        items = getattr(whole, part)
        if size > len(items):
            raise UserError(
                f"{name}={size} is more than the {len(items)} that are built in; ask for fewer, "
                "or draw more from the grammar with studies/make_corpus of the source distribution"
            )
        parts[part] = items[:size]
    return Splits(**parts)


def write_corpus(folder: str | os.PathLike[str], corpus: Corpus) -> None:
    """Write train.en, train.de, valid.en, …, test.de.  Raises: UserError if the folder or a file cannot be written"""
    corpus.write(folder, {"en": itemgetter(0), "de": itemgetter(1)})


def split(items: list[Item], valid: int, test: int) -> Splits[Item]:
    """Return the first `valid` items for validation, the next `test` ones for testing, the others for training."""
    return Splits(train=items[valid + test :], valid=items[:valid], test=items[valid : valid + test])


def require_non_negative(**numbers: int) -> None:
    """Raises: UserError that names the first negative number."""
    for name, value in numbers.items():
        if value < 0:
            raise UserError(f"{name}={value} is negative; give a whole number >= 0")
