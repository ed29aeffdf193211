"""The corpus itself: distinct pairs, split into training and held-out sets, and written as lines of text."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from minitf.corpora.draw import Draw
from minitf.corpora.phrases.numerals import Pair
from minitf.corpora.phrases.templates import KINDS, Kind, random_pair
from minitf.data.text import write_atomically
from minitf.errors import UserError
from minitf.system.files import os_errors_explained

# What the demo translates at its end, with the right answers; none of it is ever part of a corpus.
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

# The share of the English phrases that are written as by a careless typist: "the train leaves at noon".
CARELESS = 0.125
# How many draws in a row may bring nothing new before a kind of phrase counts as used up.
PATIENCE = 1_000


@dataclass(frozen=True)
class Corpus:
    """Lists of (English, German) pairs; no English and no German line occurs twice in all three together."""

    train: list[Pair]
    valid: list[Pair]
    test: list[Pair]


def generate_corpus(
    seed: int = 2017, *, train_pairs: int = 30_000, valid_pairs: int = 1_000, test_pairs: int = 1_000
) -> Corpus:
    """Draw a corpus; the same arguments bring the same pairs on every machine.

    All pairs are drawn first, then shuffled, then split: the held-out pairs are as the training pairs are, only unseen.

    Raises: UserError if a number is negative or the phrases do not suffice for so many pairs.
    """
    sizes = {"seed": seed, "train_pairs": train_pairs, "valid_pairs": valid_pairs, "test_pairs": test_pairs}
    for name, value in sizes.items():
        if value < 0:
            raise UserError(f"{name}={value} is negative; give a whole number from 0 on")
    draw = Draw(seed)
    pairs = distinct_pairs(draw, train_pairs + valid_pairs + test_pairs)
    draw.shuffle(pairs)
    held_out = valid_pairs + test_pairs
    return Corpus(train=pairs[held_out:], valid=pairs[:valid_pairs], test=pairs[valid_pairs:held_out])


def distinct_pairs(draw: Draw, count: int, kinds: tuple[Kind, ...] = KINDS) -> list[Pair]:
    """Draw `count` pairs of which no two share their English or their German, and none is a sample.

    Each kind keeps its share, however much of it is drawn already, until it is used up; then the others go on.
    """
    tickets = [kind for kind in kinds for _ in range(kind.share)]
    # One English has one German, so where no German comes twice, no English does either.
    seen = {german for _, german in SAMPLE_PAIRS}
    pairs: list[Pair] = []
    while len(pairs) < count:
        if not tickets:
            raise UserError(f"all phrases are used up after {len(pairs):,} of {count:,} pairs; ask for fewer")
        kind = draw.one_of(tickets)
        for _ in range(PATIENCE):
            english, german = random_pair(kind, draw)
            if german not in seen:
                break
        else:
            tickets = [other for other in tickets if other is not kind]
            continue
        seen.add(german)
        pairs.append((careless(english) if draw.chance(CARELESS) else english, german))
    return pairs


def careless(english: str) -> str:
    """English as it is typed in haste: no capitals, no full stop at the end."""
    return english.lower().removesuffix(".")


def write_corpus(folder: str | os.PathLike[str], corpus: Corpus) -> None:
    """Write train.en, train.de, valid.en, …, test.de: UTF-8, one phrase a line, line ends LF.

    The folder is made if there is none. Each file gets its name only once it is complete.

    Raises: UserError if the folder or a file cannot be written.
    """
    folder = Path(folder)
    with os_errors_explained(f"make the folder {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
    for name, pairs in (("train", corpus.train), ("valid", corpus.valid), ("test", corpus.test)):
        for side, language in enumerate(("en", "de")):
            with write_atomically(folder / f"{name}.{language}") as file:
                file.writelines(pair[side] + "\n" for pair in pairs)
