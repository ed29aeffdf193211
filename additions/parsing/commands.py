"""`minitf parse`: score trees, tokenize text, write the built-in treebank."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from additions.parsing.evalb import Parameters, read_parameters, score_trees
from additions.parsing.treebank import built_in_treebank, write_treebank
from additions.parsing.trees import tokenize
from minitf.app.command_line import ArgumentParser, add_options_of
from minitf.data.text import lines_of, read_lines
from minitf.errors import UserError
from minitf.system.process import say

# ---- minitf parse evalb GOLD TEST, … treebank FOLDER, … tokenize ----


ABOUT = """\
Constituency parsing as translation (section 6.3). Training and parsing use the commands for translation:

    minitf train --preset parsing-tiny                             the built-in treebank, in minutes
    minitf train --preset parsing-small --parsing.trees TREES      your own treebank, in brackets
    minitf translate RUN < sentences.txt > trees.txt               input: words separated by spaces; output: trees
"""


def parse(argv: Sequence[str]) -> None:
    """Run the subcommand named by the first word."""
    options = vars(_parse_parser().parse_args(argv))
    options.pop("work")(**options)


def evalb(gold: str, test: str, parameters: str | None, summary: bool) -> None:
    """Score trees, and print the table and summary of EVALB."""
    rules = Parameters() if parameters is None else read_parameters(parameters)
    report = score_trees(read_lines(gold), read_lines(test), rules)
    for row in report.scores:
        if row.fault:
            say(f"{row.number} : {row.fault}")
    print(report.all if summary else report)


def write_built_in(folder: str, show: int, **sizes: int) -> None:
    """Write the built-in treebank, and print some of its trees."""
    treebank = built_in_treebank(**sizes)
    write_treebank(folder, treebank)
    counts = f"{len(treebank.train):,} training, {len(treebank.valid):,} validation, {len(treebank.test):,} test trees"
    print(f"{folder}: {counts}")
    for tree in treebank.train[:show]:
        print(f"\n{tree}")


def split_words() -> None:
    """Print each line of standard input with spaces between its words."""
    if sys.stdin is None:
        raise UserError("standard input is closed; give it the text")
    for line in lines_of(sys.stdin.buffer, "standard input"):
        print(" ".join(tokenize(line)), flush=True)


def _parse_parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="minitf parse", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    one = commands.add_parser("evalb", help="score trees against gold trees, like EVALB")
    one.add_argument("gold", help="gold trees, one per line")
    one.add_argument("test", help="the parser's trees of the same sentences, one per line; an empty line is not a tree")
    one.add_argument("-p", "--parameters", metavar="FILE", help="EVALB's parameter file (default: as in COLLINS.prm)")
    one.add_argument("--summary", action="store_true", help="print only the scores over all sentences")
    one.set_defaults(work=evalb)

    one = commands.add_parser("treebank", help="write the built-in treebank to a directory")
    one.add_argument("folder", help="directory for train.mrg, valid.mrg and test.mrg; existing files are replaced")
    helps = {
        "train_trees": "training trees",
        "valid_trees": "held-out trees for validation",
        "test_trees": "held-out trees for the final score",
    }
    add_options_of(one, built_in_treebank, helps)
    one.add_argument("--show", type=int, default=5, metavar="N", help="number of trees to print (default 5)")
    one.set_defaults(work=write_built_in)

    one = commands.add_parser("tokenize", help="separate the words of standard input by spaces, as in treebanks")
    one.set_defaults(work=split_words)
    return parser
