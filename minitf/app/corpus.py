"""`minitf corpus FOLDER`: write the built-in corpus and show some of it."""

from __future__ import annotations

from collections.abc import Sequence

from minitf.app.cli import ArgumentParser, add_options_of
from minitf.corpora.phrases import generate_corpus, write_corpus
from minitf.corpora.phrases.templates import KINDS, random_pair
from minitf.corpora.portable_random import PortableRandom

SHOWN_PER_KIND = 3


def main(argv: Sequence[str]) -> None:
    """Write the corpus that the command line describes, and print examples of each kind."""
    options = vars(_parser().parse_args(argv))
    folder = options.pop("folder")
    corpus = generate_corpus(**options)
    write_corpus(folder, corpus)
    print(f"{folder}: {len(corpus.train)} training, {len(corpus.valid)} validation, {len(corpus.test)} test pairs")
    rng = PortableRandom(options["seed"])
    for kind in KINDS:
        print(f"\n{kind.name} ({kind.share} %)")
        for _ in range(SHOWN_PER_KIND):
            english, german = random_pair(kind, rng)
            print(f"  {english}  →  {german}")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf corpus",
        description="Write the built-in corpus (English to German: numbers, dates, clock times, prices) to a folder.",
    )
    parser.add_argument(
        "folder", help="folder for train.en, train.de, valid.en and so on; files of these names are replaced"
    )
    helps = {
        "seed": "seed of all random numbers",
        "train_pairs": "training pairs",
        "valid_pairs": "held-out pairs for validation",
        "test_pairs": "held-out pairs for the final score",
    }
    add_options_of(parser, generate_corpus, helps)
    return parser
