"""The corpus itself: distinct pairs, split into training and held-out sets, and written as lines of text."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from minitf.data.phrases.draw import Draw
from minitf.data.phrases.numerals import Pair
from minitf.data.phrases.templates import KINDS, Kind, random_pair
from minitf.errors import UserError

# What the demo translates at its end, with the right answers; none of it is ever part of a corpus.
SAMPLE_PAIRS: tuple[Pair, ...] = (
    ("at a quarter past seven", "um Viertel nach sieben"),
    ("twenty-one thousand six hundred and seventy-seven", "einundzwanzigtausendsechshundertsiebenundsiebzig"),
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
# How many draws in a row may bring nothing new before the phrases count as used up.
PATIENCE = 10_000


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
    """Draw `count` pairs of which no two share their English or their German, and none is a sample."""
    tickets = [kind for kind in kinds for _ in range(kind.share)]
    seen_english = set(SAMPLES)
    seen_german = {german for _, german in SAMPLE_PAIRS}
    pairs: list[Pair] = []
    in_vain = 0
    while len(pairs) < count:
        english, german = random_pair(draw.one_of(tickets), draw)
        if draw.chance(CARELESS):
            english = careless(english)
        if english in seen_english or german in seen_german:
            in_vain += 1
            if in_vain == PATIENCE:
                raise UserError(
                    f"the phrases are used up after {len(pairs)} pairs, but {count} are asked for; ask for fewer"
                )
            continue
        in_vain = 0
        seen_english.add(english)
        seen_german.add(german)
        pairs.append((english, german))
    return pairs


def careless(english: str) -> str:
    """English as it is typed in haste: no capitals, no full stop at the end."""
    return english.lower().removesuffix(".")


def write_corpus(folder: str | os.PathLike[str], corpus: Corpus) -> None:
    """Write train.en, train.de, valid.en, …, test.de: UTF-8, one phrase a line, line ends LF.

    Each file is written under a temporary name, flushed to the disk and then renamed, so that no reader ever finds
    half a file. The folder is made if there is none.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, pairs in (("train", corpus.train), ("valid", corpus.valid), ("test", corpus.test)):
            _write_lines(folder / f"{name}.en", (english for english, _ in pairs))
            _write_lines(folder / f"{name}.de", (german for _, german in pairs))
    except OSError as error:
        raise UserError(
            f"cannot write the corpus to {folder}: {error.strerror}; choose a folder to write in"
        ) from error


def _write_lines(path: Path, lines: Iterable[str]) -> None:
    unfinished = path.with_name(path.name + ".tmp")
    with open(unfinished, "w", encoding="utf-8", newline="\n") as file:
        file.writelines(line + "\n" for line in lines)
        file.flush()
        os.fsync(file.fileno())
    os.replace(unfinished, path)
