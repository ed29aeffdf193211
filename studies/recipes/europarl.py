#!/usr/bin/env python3
"""English to French from 400,000 pairs of Europarl, with 32,000 word pieces as the paper's: train, score, write a page.

    python studies/recipes/europarl.py --texts DIR --newstest news.en news.fr --output runs/europarl --write docs/results.md

DIR holds train.en.gz and train.fr.gz. The last 5,000 pairs are held out but for those whose English side occurs before:
the first 2,000 of the rest are the validation text, the next 2,000 the test text. The model is chosen for two hours of
two cores of a Zen 3, in which they train on 12 to 15 million target tokens: with a vocabulary of 32,000, half as wide
as the preset small. 16,000 updates of up to 1,024 tokens per side are a little over one epoch. Further flags go to
train.py; where there is more time or a faster machine, `--model.d-model 256 --model.d-ff 1024` and more updates.

A run that was interrupted goes on; one that is done is scored again, without training. Prints the learning curve, BLEU
on the test text and on newstest2013, and the translations of ten test sentences: the first of a permutation that the
seed 1 draws, whatever they are like.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage

import resumable  # first: it finds minitf without an installation
import summary

from minitf.data.text import read_lines, read_pairs
from minitf.evaluation.metrics import bleu
from minitf.system.process import run_command, say
from minitf.translation.translator import Translator

LAST, HELD_OUT = 5_000, 2_000
MARK = "europarl.py"
BASE = [
    *("--preset", "small", "--model.d-model", "128", "--model.d-ff", "512", "--vocab-size", "32000"),
    *("--max-tokens-per-batch", "1024", "--max-steps", "16000", "--optimizer.warmup-steps", "2000"),
    *("--valid-every", "500", "--save-every", "250", "--seed", "1"),
]


def main(argv: Sequence[str]) -> int:
    """Hold texts out, train, print and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--texts", type=Path, required=True, metavar="DIR", help="holds train.en.gz and train.fr.gz")
    parser.add_argument("--newstest", type=Path, nargs=2, required=True, metavar=("SOURCE", "REFERENCE"))
    parser.add_argument("--output", type=Path, default=Path("runs/europarl"), metavar="DIR", help="the run")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the results into this page")
    args, flags = parser.parse_known_args(argv)
    if args.write:
        resumable.write_within(args.write, MARK, None)  # now, not after hours
    texts = args.output.with_name(f"{args.output.name}-texts")
    hold_out([args.texts / f"train.{language}.gz" for language in ("en", "fr")], texts)
    given = [word for split in SPLITS for word in (f"--{split}", *map(str, paths_of(texts, split)))]
    resumable.train(args.output, [*BASE, *given, *flags])
    if peak := getrusage(RUSAGE_CHILDREN).ru_maxrss:
        say(f"peak memory of training: {peak // 1024:,} MiB")
    page = results(args.output, paths_of(texts, "test"), args.newstest)
    print(page, end="")
    if args.write:
        resumable.write_within(args.write, MARK, page)
    return 0


SPLITS = ("train", "valid", "test")


def paths_of(texts: Path, split: str) -> list[Path]:
    return [texts / f"{split}.{language}" for language in ("en", "fr")]


def hold_out(corpus: Sequence[Path], texts: Path) -> None:
    """Write training, validation and test text, where they are not."""
    if all(path.exists() for split in SPLITS for path in paths_of(texts, split)):
        return
    pairs = list(read_pairs(*corpus))
    train = pairs[:-LAST]
    seen = {source for source, _ in train}
    targets = dict(reversed(pairs[-LAST:]))  # of equal English sides the first
    held_out = [(source, targets[source]) for source in dict(pairs[-LAST:]) if source not in seen]
    parts = {"train": train, "valid": held_out[:HELD_OUT], "test": held_out[HELD_OUT : 2 * HELD_OUT]}
    for split, part in parts.items():
        for side, path in enumerate(paths_of(texts, split)):
            resumable.write(path, "".join(f"{pair[side]}\n" for pair in part))


def results(run: Path, test: Sequence[Path], news: Sequence[Path]) -> str:
    """The summary of the run, with the score of newstest2013, which is translated here."""
    sources, references = (list(read_lines(path)) for path in news)
    translator = Translator.load(run, warn=lambda message: say(f"warning: {message}"))
    score = bleu(translator.translate(sources), references)
    row = summary.score_row("newstest2013", len(sources), score.score, score.signature)
    return summary.of_run(run, "Europarl", *test, [row])


if __name__ == "__main__":
    sys.exit(run_command(main))
