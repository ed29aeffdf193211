"""A model to make a page of, that has learned in seconds to translate a little; and lines that it has not."""

import random
import unicodedata
from pathlib import Path

from tests.helpers import runs

LONGER = 8  # tokens that a translation may be longer than its sentence
FLAGS = [
    *("--threads", "1", "--vocab-size", "330", "--max-length", "128", "--max-tokens-per-batch", "512"),
    *("--optimizer.warmup-steps", "40", "--optimizer.peak-learning-rate", "0.004", "--model.dropout", "0"),
    *("--model.layers", "2", "--model.d-model", "24", "--model.d-ff", "40", "--model.heads", "3"),
    *("--log-every", "100", "--valid-every", "1000", "--save-every", "1000", "--average-checkpoints", "1"),
    *("--max-extra-length", str(LONGER), "--max-steps", "100"),
]
RANGES = [(0x20, 0x7F), (0, 0x250), (0x300, 0x3C0), (0x5D0, 0x650), (0x1100, 0x1200), (0x1F300, 0x1F6FF), (0, 0x110000)]
SPACES = " \t\u00a0\u2003\u3000\ufeff\u200b\u2028\x1c\x85▁\u2585"


def train_a_little(folder: Path, *flags: str) -> Path:
    """Train on sentences of the twelve words of tests/helpers/runs.py; return the run."""
    draw = random.Random(1)
    texts = []
    for split, pairs in (("train", 400), ("valid", 12)):
        rows = [[draw.randrange(len(runs.ENGLISH)) for _ in range(draw.randint(2, 9))] for _ in range(pairs)]
        paths = [folder / f"{split}.{suffix}" for suffix in ("en", "de")]
        for path, words in zip(paths, (runs.ENGLISH, runs.GERMAN), strict=True):
            path.write_text("".join(" ".join(words[i] for i in row) + "\n" for row in rows), "utf-8")
        texts += [f"--{split}", *map(str, paths)]
    assert runs.call([*texts, *FLAGS, *flags, "--output", str(folder / "run")]) == 0
    return folder / "run"


def odd_lines(count, words, seed=0):
    """Lines of words, of spaces of all kinds and of characters from all of Unicode that this Python knows."""
    rng = random.Random(seed)

    def part():
        if rng.random() < 0.3:
            return rng.choice(words)
        if rng.random() < 0.4:
            return rng.choice(SPACES)
        drawn = (chr(rng.randrange(*rng.choice(RANGES))) for _ in range(rng.randint(1, 4)))
        return "".join(each for each in drawn if unicodedata.category(each) not in ("Cs", "Cn"))

    return ["".join(part() for _ in range(rng.randint(0, 14))) for _ in range(count)]
