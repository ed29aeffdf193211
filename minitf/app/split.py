"""`minitf split SOURCE TARGET`: cut a corpus into training, validation and test text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from minitf.app.command_line import ArgumentParser
from minitf.corpora.splitting import BY, split_corpus
from minitf.corpora.statistics import corpus_statistics, suggested_flags


def main(argv: Sequence[str]) -> None:
    """Split the corpus that the command line names, and print what was done and the next command."""
    given = _parser().parse_args(argv)
    report = split_corpus(
        given.source,
        given.target,
        given.output,
        valid=given.valid,
        test=given.test,
        seed=given.seed,
        by=given.by,
        errors=given.errors,
    )
    print(f"{given.output}: {report.train:,} training, {report.valid:,} validation, {report.test:,} test pairs")
    if (report.valid, report.test) != (given.valid, given.test):
        print(f"{given.valid:,} and {given.test:,} were asked for: pairs that belong together are not cut")
    if report.empty:
        print(f"left out: {report.empty:,} pairs with an empty side")
    if report.targets_in_train:
        print(
            f"{report.targets_in_train:,} held-out targets are also targets of training, of other sources; --by both "
            "keeps them apart"
        )
    texts = " ".join(
        f"--{name} {quote(str(source))} {quote(str(target))}" for name, (source, target) in report.paths.items()
    )
    flags = suggested_flags(corpus_statistics(*report.paths["train"], given.errors))
    print(f"train with:\n    minitf train {texts} {flags} --output runs/mine")


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf split",
        description="Cut a corpus into training, validation and test text. Pairs with the same source sentence stay "
        "together, so that no held-out sentence is trained on.",
    )
    parser.add_argument("source", type=Path, metavar="SOURCE", help="text, a sentence a line, such as mine.en")
    parser.add_argument("target", type=Path, metavar="TARGET", help="its translation, line by line, such as mine.de")
    for name in ("valid", "test"):
        text = f"pairs to hold out for {name} (default 1000)"
        parser.add_argument(f"--{name}", type=int, default=1000, metavar="N", help=text)
    parser.add_argument(
        "--output", type=Path, default=Path("split"), metavar="FOLDER", help="folder to write (default split)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the draw (default 0)")
    parser.add_argument(
        "--by",
        choices=BY,
        default="source",
        help="both: pairs with the same target stay together, too",
    )
    parser.add_argument(
        "--errors",
        choices=("strict", "replace"),
        default="strict",
        help="bytes that are not UTF-8",
    )
    return parser
