"""`python -m minitf.corpora.phrases FOLDER`: write the default corpus and show some of it."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Sequence

from minitf.app.cli import run_command
from minitf.corpora.draw import Draw
from minitf.corpora.phrases.corpus import generate_corpus, write_corpus
from minitf.corpora.phrases.templates import KINDS, random_pair

SHOWN_PER_KIND = 3


def main(argv: Sequence[str]) -> None:
    options = vars(parser().parse_args(argv))
    folder = options.pop("folder")
    corpus = generate_corpus(**options)
    write_corpus(folder, corpus)
    print(f"{folder}: {len(corpus.train)} training, {len(corpus.valid)} validation, {len(corpus.test)} test pairs")
    draw = Draw(options["seed"])
    for kind in KINDS:
        print(f"\n{kind.name} ({kind.share} %)")
        for _ in range(SHOWN_PER_KIND):
            english, german = random_pair(kind, draw)
            print(f"  {english}  →  {german}")


def parser() -> argparse.ArgumentParser:
    """One option for each argument of `generate_corpus`, with its default."""
    parser = argparse.ArgumentParser(
        prog="python -m minitf.corpora.phrases",
        description="Write the default corpus (English → German numbers, dates, clock times, prices) to a folder.",
        allow_abbrev=False,
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("folder", help="gets train.en, train.de, valid.en, …; files of these names are replaced")
    helps = {
        "seed": "another seed, another corpus",
        "train_pairs": "how many pairs to learn from",
        "valid_pairs": "how many held-out pairs to watch while learning",
        "test_pairs": "how many held-out pairs for the final score",
    }
    for name, parameter in inspect.signature(generate_corpus).parameters.items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=parameter.default, metavar="N", help=helps[name])
    return parser


if __name__ == "__main__":
    sys.exit(run_command(main))
