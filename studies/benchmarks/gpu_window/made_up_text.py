"""A parallel text that needs no package and no download: for loss curves on a bare machine."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

SYLLABLES = [a + b for a in "bdfgklmnprstvz" for b in "aeiou"]
WORDS = 3000


def write_text(folder: Path, pairs: int) -> tuple[Path, Path]:
    """Write made-up sentences and their translations, the same ones in every call; return both paths.

    A translation has the words of another dictionary in reverse order, and a word more where the sentence is odd.
    """
    rng = random.Random(0)
    words = ["".join(parts) for parts in itertools.islice(itertools.product(SYLLABLES, repeat=2), WORDS)]
    others = [f"{word[2:]}{word[:2]}{ending}" for word, ending in zip(words, itertools.cycle("nst"), strict=False)]
    source, target = [], []
    for _ in range(pairs):
        ids = [min(int(rng.paretovariate(0.6)), WORDS) - 1 for _ in range(rng.randint(3, 24))]  # few words are frequent
        source.append(" ".join(words[i] for i in ids))
        target.append(" ".join([*(others[i] for i in reversed(ids)), *(["ok"] if len(ids) % 2 else [])]))
    folder.mkdir(parents=True, exist_ok=True)
    places = folder / "train.source", folder / "train.target"
    for place, lines in zip(places, (source, target), strict=True):
        place.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return places
