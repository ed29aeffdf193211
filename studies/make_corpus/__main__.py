"""Draw texts from the grammars of the built-in corpus and treebank; needs num2words. From the root of the checkout:

python -m studies.make_corpus shipped                     write the texts of minitf/corpora/texts again
python -m studies.make_corpus phrases FOLDER --seed 5     a corpus of other pairs, and examples of each kind of phrase
python -m studies.make_corpus treebank FOLDER --seed 5    a treebank of other trees
"""

from __future__ import annotations

import argparse
import bz2
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from additions.parsing.treebank import write_treebank
from minitf.corpora.built_in import write_corpus
from minitf.errors import UserError
from studies.make_corpus.phrases.phrase_corpus import generate_corpus
from studies.make_corpus.phrases.templates import KINDS, random_pair
from studies.make_corpus.portable_random import PortableRandom
from studies.make_corpus.treebank.tree_corpus import generate_treebank

ROOT = Path(__file__).parents[2]
PHRASES, TREES = ROOT / "minitf/corpora/texts/phrases.tsv.bz2", ROOT / "additions/parsing/texts/treebank.mrg.bz2"
SHOWN_PER_KIND = 3


def phrases_text() -> str:
    """The lines of the built-in corpus: validation, test and training pairs, "English<tab>German"."""
    corpus = generate_corpus()
    return "".join(f"{one}\t{two}\n" for part in (corpus.valid, corpus.test, corpus.train) for one, two in part)


def treebank_text() -> str:
    """The lines of the built-in treebank: validation, test and training trees."""
    treebank = generate_treebank()
    return "".join(f"{tree}\n" for part in (treebank.valid, treebank.test, treebank.train) for tree in part)


def write_shipped() -> None:
    """Write the texts that are part of the package."""
    for path, text in ((PHRASES, phrases_text()), (TREES, treebank_text())):
        path.write_bytes(bz2.compress(text.encode("utf-8")))
        print(f"{path}: {text.count(chr(10)):,} lines")


def write_phrases(folder: str, **options: int) -> None:
    """Write a corpus, and print examples of each kind of phrase."""
    write_corpus(folder, generate_corpus(**options))
    rng = PortableRandom(options["seed"])
    for kind in KINDS:
        print(f"\n{kind.name} ({kind.share} %)")
        for _ in range(SHOWN_PER_KIND):
            english, german = random_pair(kind, rng)
            print(f"  {english}  →  {german}")


def write_trees(folder: str, **options: int) -> None:
    """Write a treebank."""
    write_treebank(folder, generate_treebank(**options))


def main(argv: list[str] | None = None) -> None:
    """Run the command that the command line names."""
    parser = argparse.ArgumentParser(
        prog="python -m studies.make_corpus",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    commands.add_parser("shipped", help="write the texts that are shipped").set_defaults(work=write_shipped)
    for name, work, generate in (
        ("phrases", write_phrases, generate_corpus),
        ("treebank", write_trees, generate_treebank),
    ):
        _add_command(commands.add_parser(name, help=f"write {name} of another seed or size"), work, generate)
    options = vars(parser.parse_args(argv))
    try:
        options.pop("work")(**options)
    except UserError as error:
        parser.error(str(error))


def _add_command(parser: argparse.ArgumentParser, work: Callable[..., None], generate: Callable[..., Any]) -> None:
    """Add the folder, and an option for each argument of the generator."""
    parser.add_argument("folder", help="folder for the texts; files of their names are replaced")
    for name, parameter in inspect.signature(generate).parameters.items():
        option = "--" + name.replace("_", "-")
        parser.add_argument(option, type=int, default=parameter.default, help=f"default {parameter.default}")
    parser.set_defaults(work=work)


if __name__ == "__main__":
    main()
