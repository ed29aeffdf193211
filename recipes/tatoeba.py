#!/usr/bin/env python3
"""A translator to talk to, from the sentence pairs of Tatoeba: English to German, or back.

    python recipes/tatoeba.py --texts DIR --output runs/tatoeba-en-de             # DIR holds train.en and train.de
    python recipes/tatoeba.py --texts DIR --output runs/tatoeba-de-en --reverse

The corpus is cut by English sentence, so that no held-out one is trained on with another translation. Further flags go
to train.py. Prints the BLEU of the test text, and ten of its sentences with their translations: those at every tenth of
the text, which is drawn at random, whatever their translations are like. A run that was interrupted goes on.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import resumable  # first: it finds minitf without an installation

from minitf.app.cli import run_command
from minitf.corpora.splitting import split_corpus
from minitf.data.text import read_lines
from minitf.storage.run_directory import HYPOTHESES_NAME

HELD_OUT, EXAMPLES = 2_000, 10
BASE = [
    *(
        "--preset",
        "small",
        "--vocab-size",
        "8000",
        "--max-tokens-per-batch",
        "2048",
        "--optimizer.warmup-steps",
        "1000",
    ),
    *("--max-steps", "12000", "--valid-every", "1000", "--log-every", "100"),
]


def main(argv: Sequence[str]) -> int:
    """Cut the corpus, train, print the score and the examples."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--texts", type=Path, required=True, metavar="DIR", help="holds train.en and train.de")
    parser.add_argument("--output", type=Path, default=Path("runs/tatoeba-en-de"), metavar="DIR", help="the run")
    parser.add_argument("--reverse", action="store_true", help="German to English")
    parser.add_argument("--held-out", type=int, default=HELD_OUT, metavar="N", help="pairs of each held-out text")
    args, flags = parser.parse_known_args(argv)
    sides = ("de", "en") if args.reverse else ("en", "de")
    texts = args.output.with_name(f"{args.output.name}-texts")
    paths = {split: tuple(texts / f"{split}.{side}" for side in sides) for split in ("train", "valid", "test")}
    if not all(path.exists() for pair in paths.values() for path in pair):
        held_out = {"valid": args.held_out, "test": args.held_out}
        split_corpus(args.texts / "train.en", args.texts / "train.de", texts, **held_out)
    given = [str(word) for split, pair in paths.items() for word in (f"--{split}", *pair)]
    resumable.train(args.output, [*BASE, *given, *flags])
    show(args.output, *paths["test"])
    return 0


def show(run: Path, source: Path, reference: Path) -> None:
    """Print the score of the test text, and the sentences at every tenth of it."""
    final = resumable.final_score(run)
    assert final is not None  # or `train` had failed
    print(f"BLEU {final['bleu']:.2f} after {final['step']:,} updates ({final['signature']})")
    rows = list(zip(*map(read_lines, (source, run / HYPOTHESES_NAME, reference)), strict=True))
    for row in rows[:: max(1, len(rows) // EXAMPLES)][:EXAMPLES]:
        print("\n{}\n  → {}\n    {}".format(*row))


if __name__ == "__main__":
    sys.exit(run_command(main))
