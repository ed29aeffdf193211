"""`minitf corpus FOLDER`: write the built-in corpus and show some of it."""

from __future__ import annotations

from collections.abc import Sequence

from minitf.app.command_line import ArgumentParser, add_options_of
from minitf.corpora.built_in import built_in_corpus, write_corpus

SHOWN = 10


def main(argv: Sequence[str]) -> None:
    """Write as much of the corpus as the command line asks for, and print a few pairs."""
    options = vars(_parser().parse_args(argv))
    folder = options.pop("folder")
    corpus = built_in_corpus(**options)
    write_corpus(folder, corpus)
    print(f"{folder}: {len(corpus.train)} training, {len(corpus.valid)} validation, {len(corpus.test)} test pairs")
    for english, german in corpus.train[:SHOWN]:
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
        "train_pairs": "training pairs",
        "valid_pairs": "held-out pairs for validation",
        "test_pairs": "held-out pairs for the final score",
    }
    add_options_of(parser, built_in_corpus, helps)
    return parser
