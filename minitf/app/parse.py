"""`python -m minitf.parsing evalb GOLD TEST`, `… treebank FOLDER`, `… tokenize`: what parsing needs beside training."""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Sequence

from minitf.app.cli import run_command
from minitf.data.text import lines_of, read_lines
from minitf.errors import UserError
from minitf.evaluation.evalb import Parameters, read_parameters, score_trees
from minitf.parsing.words import tokenize

ABOUT = """\
Constituency parsing as translation (section 6.3). Training and parsing are those of translation:

    python train.py --preset parsing-tiny                             the built-in treebank, in minutes
    python train.py --preset parsing-small --parsing.trees TREES      a treebank of yours, in brackets
    python translate.py RUN < sentences.txt > trees.txt               words with spaces between them in, trees out
"""


def main(argv: Sequence[str]) -> None:
    options = _parser().parse_args(argv)
    options.work(options)


def score(options: argparse.Namespace) -> None:
    """Print what EVALB prints."""
    parameters = Parameters() if options.parameters is None else read_parameters(options.parameters)
    report = score_trees(read_lines(options.gold), read_lines(options.test), parameters)
    for row in report.scores:
        if row.fault:
            print(f"{row.number} : {row.fault}", file=sys.stderr)
    print(report.all if options.summary else report)


def make_treebank(options: argparse.Namespace) -> None:
    """Write the built-in treebank and show some of it."""
    from minitf.corpora.treebank import generate_treebank, write_treebank

    names = inspect.signature(generate_treebank).parameters
    treebank = generate_treebank(**{name: getattr(options, name) for name in names})
    write_treebank(options.folder, treebank)
    counts = f"{len(treebank.train):,} training, {len(treebank.valid):,} validation, {len(treebank.test):,} test trees"
    print(f"{options.folder}: {counts}")
    for tree in treebank.train[: options.show]:
        print(f"\n{tree}")


def split_words(options: argparse.Namespace) -> None:
    """Print each line of standard input with spaces between its words."""
    if sys.stdin is None:
        raise UserError("standard input is closed; give it the text")
    for line in lines_of(sys.stdin.buffer, "standard input"):
        print(" ".join(tokenize(line)), flush=True)


def _parser() -> argparse.ArgumentParser:
    from minitf.corpora.treebank import generate_treebank

    parser = argparse.ArgumentParser(
        prog="python -m minitf.parsing", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("evalb", help="score trees against gold ones, as EVALB does", allow_abbrev=False)
    one.add_argument("gold", help="the right trees, one a line")
    one.add_argument("test", help="the parser's trees of the same sentences, one a line; an empty line is no tree")
    one.add_argument("-p", "--parameters", metavar="FILE", help="EVALB's parameter file; default: as COLLINS.prm")
    one.add_argument("--summary", action="store_true", help="print the figures over all sentences only")
    one.set_defaults(work=score)

    helps = {
        "seed": "another seed, another treebank",
        "train_trees": "how many trees to learn from",
        "valid_trees": "how many held-out trees to watch while learning",
        "test_trees": "how many held-out trees for the final score",
    }
    one = commands.add_parser("treebank", help="write the built-in treebank to a folder", allow_abbrev=False)
    one.add_argument("folder", help="gets train.mrg, valid.mrg and test.mrg; files of these names are replaced")
    for name, parameter in inspect.signature(generate_treebank).parameters.items():
        flag = "--" + name.replace("_", "-")
        text = f"{helps[name]} (default {parameter.default})"
        one.add_argument(flag, type=int, default=parameter.default, metavar="N", help=text)
    one.add_argument("--show", type=int, default=5, metavar="N", help="how many trees to print (default 5)")
    one.set_defaults(work=make_treebank)

    one = commands.add_parser("tokenize", help="standard input with spaces between the words, as in treebanks")
    one.set_defaults(work=split_words)
    return parser


if __name__ == "__main__":
    sys.exit(run_command(main))
