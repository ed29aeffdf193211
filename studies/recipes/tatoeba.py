#!/usr/bin/env python3
"""A translator to talk to, from the sentence pairs of Tatoeba: English to German, or back.

    python studies/recipes/tatoeba.py --texts DIR --output runs/tatoeba-en-de --write docs/results.md
    python studies/recipes/tatoeba.py --texts DIR --output runs/tatoeba-de-en --write docs/results.md --reverse

DIR holds train.en and train.de. The corpus is cut by English sentence, so that no held-out one is trained on with
another translation; in the direction from German, some German test sentences are. Further flags go to train.py. A run
that was interrupted goes on; one that is done is not trained again. Prints the BLEU of the test text, the learning
curve, and the translations of ten test sentences: the first of a permutation that the seed 1 draws, whatever they are
like. A page has a place for each direction.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import resumable  # first: it finds minitf without an installation
import summary

from additions.corpora.splitting import split_corpus
from minitf.system.process import run_command

HELD_OUT = 2_000
BASE = [
    *("--preset", "small", "--vocab-size", "8000", "--max-tokens-per-batch", "2048"),
    *("--optimizer.warmup-steps", "1000"),
    *("--max-steps", "12000", "--valid-every", "1000", "--log-every", "100"),
]


def main(argv: Sequence[str]) -> int:
    """Cut the corpus, train, print and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--texts", type=Path, required=True, metavar="DIR", help="holds train.en and train.de")
    parser.add_argument("--output", type=Path, default=Path("runs/tatoeba-en-de"), metavar="DIR", help="the run")
    parser.add_argument("--reverse", action="store_true", help="German to English")
    parser.add_argument("--held-out", type=int, default=HELD_OUT, metavar="N", help="pairs of each held-out text")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the results into this page")
    args, flags = parser.parse_known_args(argv)
    sides = ("de", "en") if args.reverse else ("en", "de")
    mark = "tatoeba.py {}-{}".format(*sides)
    if args.write:
        resumable.write_within(args.write, mark, None)  # now, not after hours
    texts = args.output.with_name(f"{args.output.name}-texts")
    paths = {split: tuple(texts / f"{split}.{side}" for side in sides) for split in ("train", "valid", "test")}
    if not all(path.exists() for pair in paths.values() for path in pair):
        held_out = {"valid": args.held_out, "test": args.held_out}
        split_corpus(args.texts / "train.en", args.texts / "train.de", texts, **held_out)
    given = [str(word) for split, pair in paths.items() for word in (f"--{split}", *pair)]
    resumable.train(args.output, [*BASE, *given, *flags])
    page = summary.of_run(args.output, "Tatoeba", *paths["test"])
    print(page, end="")
    if args.write:
        resumable.write_within(args.write, mark, page)
    return 0


if __name__ == "__main__":
    sys.exit(run_command(main))
