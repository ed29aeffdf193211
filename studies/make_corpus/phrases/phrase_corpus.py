"""The corpus of phrases: distinct pairs, split into training, validation and test set."""

from __future__ import annotations

from minitf.corpora.built_in import SAMPLE_PAIRS, Corpus, Pair, require_non_negative, split
from minitf.errors import UserError
from studies.make_corpus.phrases.templates import KINDS, Kind, random_pair
from studies.make_corpus.portable_random import PortableRandom

CARELESS = 0.125  # fraction of the English phrases that are written as if typed in haste: "the train leaves at noon"
PATIENCE = 1_000  # draws in a row without a new phrase after which a kind of phrase counts as used up


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
