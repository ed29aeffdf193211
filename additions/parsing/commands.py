"""`minitf parse`: prepare a treebank, parse, score trees, tokenize text, write the built-in treebank."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from additions.parsing.evalb import Parameters, read_parameters, score_trees
from additions.parsing.treebank import built_in_treebank, write_treebank
from additions.parsing.trees import tokenize
from minitf.app.command_line import ArgumentParser, add_options_of
from minitf.data.text import lines_of, read_lines
from minitf.errors import UserError
from minitf.system.files import atomic_write
from minitf.system.process import say, set_up_device

if TYPE_CHECKING:
    from additions.parsing.parser import Parser

SAMPLE_TREES = 3

ABOUT = """\
Constituency parsing as translation (section 6.3): words are translated into the tokens of a tree.

    minitf parse prepare runs/treebank                             the built-in treebank; --trees FILE: your own
    minitf train --preset parsing-tiny                             on the built-in treebank, in minutes
    minitf parse test runs/parsing-tiny runs/treebank              score the test trees
    minitf parse trees RUN < sentences.txt > trees.txt             input: words separated by spaces; output: trees
"""


def parse(argv: Sequence[str]) -> None:
    """Run the subcommand named by the first word."""
    options = vars(_parse_parser().parse_args(argv))
    options.pop("work")(**options)


def prepare_treebank(folder: str, vocab_size: int, **values: Any) -> None:
    """Write the texts that a parser learns from."""
    from additions.parsing.aligned_text import ParsingConfig, prepare  # deferred: `--help` needs no NumPy

    prepare(ParsingConfig(**values), Path(folder), vocab_size, say)
    print(f"{folder}: train.words, train.tokens, vocabulary.model and so on, for minitf train --preset parsing-tiny")


def write_trees(run: str, **options: Any) -> None:
    """Parse the lines of standard input."""
    parser = load(run, options.pop("threads"))
    for tree in parser.translate_stream(lines_of(sys.stdin.buffer, "standard input"), **options):
        print(tree, flush=True)
    say(parser.summary())


def test(run: str, folder: str, output: str | None, threads: int | None, **options: Any) -> None:
    """Parse the test sentences of a prepared treebank, and score the trees."""
    parser = load(run, threads)
    words, gold = (list(read_lines(Path(folder, f"test.{kind}"))) for kind in ("words", "trees"))
    trees = list(parser.translate_stream(words, **options))
    if output is not None:
        with atomic_write(output, "w", chosen=True) as file:
            file.writelines(tree + "\n" for tree in trees)
    for sentence, tree in list(zip(words, trees, strict=True))[:SAMPLE_TREES]:
        print(f"    {sentence}\n  → {tree}")
    score = parser.score(gold, trees)
    print(
        f"F1 {score.f1:.2f} (recall {score.recall:.2f}, precision {score.precision:.2f}), complete match "
        f"{score.complete_match:.1f} %, tagging accuracy {score.tagging_accuracy:.2f} %, {score.errors} error "
        f"sentences; {parser.summary()}"
    )


def load(run: str, threads: int | None) -> Parser:
    """Load the parser of a run."""
    from additions.parsing.parser import Parser

    set_up_device(threads)
    return Parser.load(run, warn=lambda message: say(f"warning: {message}"))


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

    one = commands.add_parser("prepare", help="write the texts and the vocabulary that a parser learns from")
    one.add_argument("folder", help="directory, such as runs/treebank, where the presets look")
    one.add_argument("--trees", type=Path, help="training treebank, in brackets (default: the built-in treebank)")
    one.add_argument("--valid-trees", type=Path, help="validation treebank (default: a twentieth of the trees)")
    one.add_argument("--test-trees", type=Path, help="test treebank (default: the last twentieth of the trees)")
    one.add_argument("--tags", choices=("pos", "xx"), default="pos", help="xx: one tag for all words but punctuation")
    form = "one token per word, or symbols: one per bracket, as in the paper's reference 37"
    one.add_argument("--form", choices=("joined", "symbols"), default="joined", help=form)
    one.add_argument("--vocab-size", type=int, default=1_200, help="size of the vocabulary (default %(default)s)")
    one.set_defaults(work=prepare_treebank)

    for name, about, work in (
        ("trees", "parse the lines of standard input", write_trees),
        ("test", "parse the test sentences of a prepared treebank, and score the trees", test),
    ):
        one = commands.add_parser(name, help=about)
        one.add_argument("run", help="run directory")
        if work is test:
            one.add_argument("folder", help="directory of minitf parse prepare")
            one.add_argument("--output", metavar="FILE", help="file for the trees")
        one.add_argument("--beam", type=int, metavar="N", help="beam size (default: the run's)")
        one.add_argument("--threads", type=int, metavar="N", help="number of threads (default: one per core)")
        one.set_defaults(work=work)

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
