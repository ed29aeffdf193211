"""The built-in corpus and the built-in treebank: texts that are shipped, drawn once from grammars of this project.

The corpus holds English number words, dates, clock times, prices and sentences with them, and their German. It is real
translation: German puts the ones before the tens and the verb last in a clause, and inflects nearly every word. The
trees have traces and function tags. Both are read without network and are the same on every machine;
`studies/make_corpus` holds the grammars, and draws other and larger corpora from them.
"""

from __future__ import annotations

import bz2
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from operator import itemgetter
from pathlib import Path
from typing import Any, Generic, TypeVar

from additions.parsing.trees import Tree, trees_of
from minitf.errors import UserError
from minitf.system.files import os_errors_explained
from minitf.system.writing import atomic_write

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

WORD = re.compile(r"\w+")

Corpus = Splits[Pair]
"""(English, German) pairs; no English and no German line occurs twice in the three sets together."""
Treebank = Splits[Tree]
"""Trees with traces and function tags; no sentence occurs twice in the three sets together."""

# The phrases that the demo translates at its end, with the right translations; they are not in the corpus.
SAMPLE_PAIRS: tuple[Pair, ...] = (
    ("at a quarter past seven", "um Viertel nach sieben"),
    ("seven thousand six hundred and twenty-one", "siebentausendsechshunderteinundzwanzig"),
    ("a seventeen-year-old girl", "ein siebzehnjähriges Mädchen"),
    (
        "The meeting is on the twenty-first of March at half past seven.",
        "Die Sitzung ist am einundzwanzigsten März um halb acht.",
    ),
    ("The train to Vienna leaves at twenty-five to nine.", "Der Zug nach Wien fährt um fünf nach halb neun ab."),
    (
        "Anna paid one euro and eighty cents for the apple.",
        "Anna hat einen Euro und achtzig Cent für den Apfel bezahlt.",
    ),
    (
        "Our grandmother was born on the third of October nineteen thirty-six.",
        "Unsere Großmutter wurde am dritten Oktober neunzehnhundertsechsunddreißig geboren.",
    ),
    ("peter has been working here for sixteen months", "Peter arbeitet seit sechzehn Monaten hier."),
)
SAMPLES: tuple[str, ...] = tuple(english for english, _ in SAMPLE_PAIRS)


def built_in_corpus(*, train_pairs: int = 30_000, valid_pairs: int = 1_000, test_pairs: int = 1_000) -> Corpus:
    """Return the built-in corpus, or the first pairs of each of its sets.

    Raises: UserError if a number is negative, or larger than that of the set
    """
    pairs = [tuple(line.split("\t")) for line in _lines("phrases.tsv.bz2")]
    corpus: Splits[Any] = split(pairs, valid=1_000, test=1_000)
    return _first(corpus, train_pairs=train_pairs, valid_pairs=valid_pairs, test_pairs=test_pairs)


def built_in_words() -> frozenset[str]:
    """Return the English words of the built-in corpus in lower case, some 360."""
    texts = {word for line in _lines("phrases.tsv.bz2") for word in line.partition("\t")[0].split()}
    return frozenset(word for text in texts for word in WORD.findall(text.casefold()))


def built_in_treebank(*, train_trees: int = 30_000, valid_trees: int = 500, test_trees: int = 1_000) -> Treebank:
    """Return the built-in treebank, or the first trees of each of its sets.

    Raises: UserError if a number is negative, or larger than that of the set
    """
    lines = split(_lines("treebank.mrg.bz2"), valid=500, test=1_000)
    first = _first(lines, train_trees=train_trees, valid_trees=valid_trees, test_trees=test_trees)
    return Splits(*(list(trees_of(part, "the built-in treebank")) for part in (first.train, first.valid, first.test)))


def _lines(name: str) -> list[str]:
    """Return the lines of a shipped text: those of the validation set, of the test set, of the training set."""
    return bz2.decompress((files("minitf.corpora") / "texts" / name).read_bytes()).decode("utf-8").splitlines()


def _first(whole: Splits[Item], **sizes: int) -> Splits[Item]:
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


def write_treebank(folder: str | os.PathLike[str], treebank: Treebank) -> None:
    """Write train.mrg, valid.mrg and test.mrg.  Raises: UserError if the folder or a file cannot be written"""
    treebank.write(folder, {"mrg": str})


def split(items: list[Item], valid: int, test: int) -> Splits[Item]:
    """Return the first `valid` items for validation, the next `test` ones for testing, the others for training."""
    return Splits(train=items[valid + test :], valid=items[:valid], test=items[valid : valid + test])


def require_non_negative(**numbers: int) -> None:
    """Raises: UserError that names the first negative number."""
    for name, value in numbers.items():
        if value < 0:
            raise UserError(f"{name}={value} is negative; give a whole number >= 0")
