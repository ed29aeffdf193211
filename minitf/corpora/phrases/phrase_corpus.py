"""The corpus of phrases: distinct pairs, split into training, validation and test set."""

from __future__ import annotations

import os
from operator import itemgetter

from minitf.corpora.phrases.numerals import Pair
from minitf.corpora.phrases.templates import KINDS, Kind, random_pair
from minitf.corpora.portable_random import PortableRandom
from minitf.corpora.splits import Splits, require_non_negative, split
from minitf.errors import UserError

# The phrases that the demo translates at its end, with the right translations; they are in no corpus.
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

CARELESS = 0.125  # fraction of the English phrases that are written as if typed in haste: "the train leaves at noon"
PATIENCE = 1_000  # draws in a row without a new phrase after which a kind of phrase counts as used up

Corpus = Splits[Pair]
"""(English, German) pairs; no English and no German line occurs twice in the three sets together."""


def generate_corpus(
    seed: int = 2017, *, train_pairs: int = 30_000, valid_pairs: int = 1_000, test_pairs: int = 1_000
) -> Corpus:
    """Generate a corpus; the same arguments give the same pairs on every machine.

    All pairs are drawn first, then shuffled and split: the three sets have the same distribution.

    Raises: UserError if a number is negative or the grammar has fewer phrases than pairs.
    """
    require_non_negative(seed=seed, train_pairs=train_pairs, valid_pairs=valid_pairs, test_pairs=test_pairs)
    rng = PortableRandom(seed)
    pairs = distinct_pairs(rng, train_pairs + valid_pairs + test_pairs)
    rng.shuffle(pairs)
    return split(pairs, valid_pairs, test_pairs)


def distinct_pairs(rng: PortableRandom, count: int, kinds: tuple[Kind, ...] = KINDS) -> list[Pair]:
    """Draw `count` pairs of which no two have the same English or the same German, and none is a sample.

    Each kind of phrase keeps its share of the draws until its phrases are used up; the other kinds then go on.
    """
    tickets = [kind for kind in kinds for _ in range(kind.share)]
    # An English phrase has only one German translation, so pairs of different German have different English.
    seen = {german for _, german in SAMPLE_PAIRS}
    pairs: list[Pair] = []
    while len(pairs) < count:
        if not tickets:
            raise UserError(f"all phrases are used up after {len(pairs):,} of {count:,} pairs; ask for fewer")
        kind = rng.choice(tickets)
        for _ in range(PATIENCE):
            english, german = random_pair(kind, rng)
            if german not in seen:
                break
        else:
            tickets = [other for other in tickets if other is not kind]
            continue
        seen.add(german)
        pairs.append((careless(english) if rng.chance(CARELESS) else english, german))
    return pairs


def careless(english: str) -> str:
    """English as typed in haste: no capitals, no full stop at the end."""
    return english.lower().removesuffix(".")


def write_corpus(folder: str | os.PathLike[str], corpus: Corpus) -> None:
    """Write train.en, train.de, valid.en, …, test.de.  Raises: UserError if the folder or a file cannot be written."""
    corpus.write(folder, {"en": itemgetter(0), "de": itemgetter(1)})
