"""`minitf corpus`, `statistics` and `split`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from shlex import quote

from additions.corpora.splitting import BY, split_corpus
from additions.corpora.statistics import corpus_statistics, refuse_leaks, render, suggested_flags
from minitf.app.command_line import ArgumentParser, add_options_of
from minitf.corpora.built_in import built_in_corpus, write_corpus
from minitf.system.files import require_regular

# ---- minitf corpus FOLDER ----


SHOWN = 10


def corpus(argv: Sequence[str]) -> None:
    """Write the built-in corpus, and print a few of its pairs."""
    options = vars(_corpus_parser().parse_args(argv))
    folder = options.pop("folder")
    pairs = built_in_corpus(**options)
    write_corpus(folder, pairs)
    print(f"{folder}: {len(pairs.train)} training, {len(pairs.valid)} validation, {len(pairs.test)} test pairs")
    for english, german in pairs.train[:SHOWN]:
        print(f"  {english}  →  {german}")


def _corpus_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf corpus",
        description="Write the built-in corpus (English to German: numbers, dates, clock times, prices) to a "
        "directory.",
    )
    parser.add_argument(
        "folder", help="directory for train.en, train.de, valid.en and so on; existing files are replaced"
    )
    helps = {
        "train_pairs": "training pairs",
        "valid_pairs": "held-out pairs for validation",
        "test_pairs": "held-out pairs for the final score",
    }
    add_options_of(parser, built_in_corpus, helps)
    return parser


# ---- minitf statistics SOURCE TARGET ----


def statistics(argv: Sequence[str]) -> None:
    """Print the statistics of a corpus."""
    parser = ArgumentParser(
        prog="minitf statistics",
        description="Print lengths, the number of distinct words, problems such as empty sides and repeated pairs, "
        "and a suitable preset and vocabulary size.",
    )
    _add_corpus(parser)
    parser.add_argument(
        "--held-out",
        type=Path,
        nargs=2,
        action="append",
        default=[],
        metavar=("SOURCE", "TARGET"),
        help="validation or test text: exit with status 2 if the corpus contains one of its sources; may be given "
        "twice",
    )
    given = parser.parse_args(argv)
    if given.held_out:
        require_regular(given.source)  # it is read again
    print(render(corpus_statistics(given.source, given.target)))
    for source, _ in given.held_out:
        refuse_leaks(given.source, given.target, source)


def _add_corpus(parser: ArgumentParser) -> None:
    parser.add_argument(
        "source",
        type=Path,
        metavar="SOURCE",
        help="source text, one sentence per line, such as mine.en; or, without TARGET, a text whose lines are a "
        "sentence, a tab and its translation, such as mine.en-de.tsv",
    )
    parser.add_argument(
        "target", type=Path, nargs="?", metavar="TARGET", help="its translation, line by line, such as mine.de"
    )


# ---- minitf split SOURCE TARGET ----


def split(argv: Sequence[str]) -> None:
    """Split a corpus, and print the sizes of the parts and the next command."""
    given = _split_parser().parse_args(argv)
    report = split_corpus(
        given.source,
        given.target,
        given.output,
        valid=given.valid,
        test=given.test,
        seed=given.seed,
        by=given.by,
        clean=given.clean,
    )
    print(f"{given.output}: {report.train:,} training, {report.valid:,} validation, {report.test:,} test pairs")
    if (report.valid, report.test) != report.requested:
        wanted = " and ".join(f"{count:,}" for count in report.requested)
        print(f"{wanted} were requested: pairs with a common sentence are not split")
    total = report.train + report.valid + report.test + sum(report.removed.values())
    for fault, count in report.removed.items():
        print(f"{count:>9,} of {total:,} pairs removed: they {fault}")
    if report.targets_in_train:
        print(
            f"{report.targets_in_train:,} held-out targets also occur in training, with other sources; --by both "
            "prevents this"
        )
    texts = " ".join(
        f"--{name} {quote(str(source))} {quote(str(target))}" for name, (source, target) in report.paths.items()
    )
    flags = suggested_flags(corpus_statistics(*report.paths["train"]))
    print(f"train with:\n    minitf train {texts} {flags} --output runs/mine")


def _split_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf split",
        description="Split a corpus into training, validation and test text. Pairs with the same source sentence stay "
        "together, so that no held-out sentence is trained on.",
    )
    _add_corpus(parser)
    for name in ("valid", "test"):
        text = f"number of {'validation' if name == 'valid' else 'test'} pairs (default: one in 20, at most 1000)"
        parser.add_argument(f"--{name}", type=int, metavar="N", help=text)
    parser.add_argument(
        "--output", type=Path, default=Path("split"), metavar="FOLDER", help="directory to write (default split)"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="seed of the random split (default 0)")
    parser.add_argument(
        "--by",
        choices=BY,
        default="source",
        help="source: pairs with the same source stay together (default); both: also pairs with the same target",
    )
    parser.add_argument(
        "--clean",
        action="store_true",
        help="remove the pairs that minitf statistics lists as pairs to check, each for the first rule that it breaks, "
        "and print how many (default: only pairs with an empty side)",
    )
    return parser
