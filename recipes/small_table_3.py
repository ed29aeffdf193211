#!/usr/bin/env python3
"""Table 3 in small: the paper's variations of a base model, each trained on Multi30k, in one table.

    python recipes/small_table_3.py --output runs/small-table-3 --jobs 2 --data-dir TOK --write docs/results.md
    python recipes/small_table_3.py --output runs/small-table-3 --rows base a-heads-1 --seeds 1 2 3
    python recipes/small_table_3.py --output runs/small-table-3 --rows base a-heads-1 --max-steps 100 --threads 2

The base model has 3 + 3 layers, d_model 64, d_ff 256 and 8 heads: half the layers and an eighth of the widths of the
paper's. Each row changes it as the paper's row changes the paper's: the same numbers of heads, dropout and smoothing,
the same fractions of layers and widths. As in section 6.2, figures are taken on the validation text, without averaging
checkpoints, with a beam of 4 and α = 0.6; but at the best validation, as few pairs are soon learned by heart.

The plan: three seeds of 20 rows in four hours of two cores, in which base comes to its best validation. In trials base
still gained after 7,000 updates on the first 10,000 pairs; on the first 6,000, with a vocabulary of 2,000, its
perplexity fell to 17.2 by update 4,250 and by another 2 % until 5,500. Warm-up takes 2,000 updates, with which four
layers learn faster than with 1,000. An update of base, up to 1,024 tokens a side, takes 47 ms of a core of an AMD EPYC
(Zen 5) while the other trains as well; one of each of the rows 1.03 s. At most 8,000 updates of 60 runs are 3.4 hours,
validations and translations not quite half an hour. A run ends earlier where 2,000 updates bring no better validation.

Differences are taken seed by seed; their standard errors say which of them mean anything, and the last column where
the sign is the paper's, by the 95 % interval. With --jobs, as many rows at once share the cores, which is faster for
models so small: give the number of cores.

Rows that are done are not trained again, one that was interrupted goes on; the table is written whenever a row ends.
Flags that are not listed here go to train.py, for every row.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import mean, stdev

import resumable  # first: it finds minitf without an installation
from paper_claims.claim import sampled

from minitf.app.cli import run_command
from minitf.config.presets import NAMED
from minitf.data.datasets import find
from minitf.data.text import read_lines, write_atomically
from minitf.errors import UserError
from minitf.model.counting import parameter_count
from minitf.storage.log import read_log
from minitf.storage.run_directory import RunDirectory
from minitf.system.messages import say

PAIRS = 6_000
MARK = "small_table_3.py"
BASE = [
    *("--preset", "base", "--bleu-tokenize", "none", "--vocab-size", "2000"),
    *("--model.layers", "3", "--model.d-model", "64", "--model.d-ff", "256", "--model.heads", "8"),
    *("--model.dropout", "0.1", "--optimizer.warmup-steps", "2000", "--max-tokens-per-batch", "1024"),
    *("--max-steps", "8000", "--valid-every", "250", "--patience", "8", "--save-every", "500"),
    *("--keep-checkpoints", "1", "--average-checkpoints", "1", "--weights", "best", "--log-every", "50"),
]
ROWS: dict[str, list[str]] = {
    "base": [],
    "a-heads-1": ["--model.heads", "1"],
    "a-heads-4": ["--model.heads", "4"],
    "a-heads-16": ["--model.heads", "16"],
    "a-heads-32": ["--model.heads", "32"],
    "b-dk-16": ["--model.d-k", "2", "--model.d-v", "8"],  # a quarter
    "b-dk-32": ["--model.d-k", "4", "--model.d-v", "8"],  # a half
    "c-layers-2": ["--model.layers", "1"],  # a third
    "c-layers-4": ["--model.layers", "2"],  # two thirds
    "c-layers-8": ["--model.layers", "4"],  # four thirds
    "c-d-model-256": ["--model.d-model", "32"],
    "c-d-model-1024": ["--model.d-model", "128"],
    "c-d-ff-1024": ["--model.d-ff", "128"],
    "c-d-ff-4096": ["--model.d-ff", "512"],
    "d-dropout-0.0": ["--model.dropout", "0"],
    "d-dropout-0.2": ["--model.dropout", "0.2"],
    "d-smoothing-0.0": ["--optimizer.label-smoothing", "0"],
    "d-smoothing-0.2": ["--optimizer.label-smoothing", "0.2"],
    "e-learned-positions": ["--model.positions", "learned"],
    "big": ["--model.d-model", "128", "--model.d-ff", "512", "--model.heads", "16", "--model.dropout", "0.3"],
}
"""By the names of the presets that are the paper's rows; what is changed here."""


@dataclass(frozen=True)
class Result:
    """A row that is done, of one seed."""

    name: str
    seed: int
    parameters: int
    steps: int
    perplexity: float
    bleu: float
    minutes: float


def main(argv: Sequence[str]) -> int:
    """Train the rows; print and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--output", type=Path, default=Path("runs/small-table-3"), help="folder for the runs")
    parser.add_argument("--rows", nargs="+", default=list(ROWS), metavar="ROW", help=f"some of: {' '.join(ROWS)}")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], metavar="N", help="default: 1 2 3")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="rows to train at once; default: 1")
    parser.add_argument("--data", default="multi30k-tok", help="public corpus, as train.py's; default: multi30k-tok")
    parser.add_argument("--data-dir", type=Path, metavar="DIR", help="folder of the corpus, as train.py's")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the table into this page")
    args, flags = parser.parse_known_args(argv)
    if unknown := sorted(set(args.rows) - set(ROWS)):
        raise UserError(f"there is no row {unknown[0]!r}; choose some of {', '.join(ROWS)}")
    if args.write:
        resumable.write_within(args.write, MARK, None)  # now, not after the first run
    flags_of = {seed: resumable.seeded(flags, seed) for seed in args.seeds}
    found = find(args.data, args.data_dir, say)
    valid = list(map(str, found["valid"]))
    texts = ["--train", *first_pairs(found["train"], args.output), "--valid", *valid, "--test", *valid]  # 6.2
    runs = {
        args.output / f"seed-{seed}" / name: [*BASE, *texts, *ROWS[name], *flags_of[seed]]
        for seed in args.seeds  # outside: a table of fewer seeds is whole before one of more is begun
        for name in args.rows
    }
    results: list[Result] = []
    with closing(resumable.train_all(runs, args.jobs)) as done:
        for run in done:
            results.append(measure(run))
            page = f"{len(results)} of {len(runs)} runs have ended.\n\n{table(results)}\n"
            print(page, end="", flush=True)
            write(args.output / "table.md", page)
            if args.write:
                resumable.write_within(args.write, MARK, page)
    return 0


def first_pairs(texts: Sequence[Path], folder: Path) -> list[str]:
    """The files of the first pairs of a text, written where they are not."""
    paths = [folder / name for name in ("train.source", "train.target")]
    folder.mkdir(parents=True, exist_ok=True)
    for whole, path in zip(texts, paths, strict=True):
        if not path.exists():
            write(path, "".join(f"{line}\n" for line in itertools.islice(read_lines(whole), PAIRS)))
    return list(map(str, paths))


def measure(run: Path) -> Result:
    """The best perplexity of the validation text, and its BLEU with those weights, with which the run has ended."""
    directory = RunDirectory.open(run)
    config, log, final = directory.config(), read_log(directory.log_path), resumable.final_score(run)
    assert final is not None  # or `train` had failed
    return Result(
        name=run.name,
        seed=config.seed,
        parameters=parameter_count(replace(config.model, vocab_size=config.vocab_size)),
        steps=final["step"],
        perplexity=min(record["valid_perplexity"] for record in log if "valid_perplexity" in record),
        bleu=final["bleu"],
        minutes=resumable.minutes(run),
    )


COLUMNS = [
    *("row", "change", "parameters", "updates", "PPL", "− base", "BLEU", "− base", "BLEU of each seed", "minutes"),
    *("the paper's parameters", "PPL", "BLEU", "− base", "signs as the paper's"),
]


def table(results: Sequence[Result]) -> str:
    """Markdown: each row's means over its seeds and their differences from base under the same seed, with standard
    errors, beside the paper's figures."""
    of_row: dict[str, list[Result]] = {}
    for result in results:
        of_row.setdefault(result.name, []).append(result)
    base = {result.seed: result for result in of_row.get("base", [])}
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for name, row in of_row.items():
        pairs = [(result, base[result.seed]) for result in row if result.seed in base]
        perplexity = [one.perplexity - other.perplexity for one, other in pairs]
        bleu = [one.bleu - other.bleu for one, other in pairs]
        paper = NAMED[f"table3-{name}"].published
        in_ppl, in_bleu = (published_difference(name, figure) for figure in ("perplexity", "bleu"))
        cells = [
            name,
            " ".join(ROWS[name]).replace("--model.", "").replace("--optimizer.", "") or "-",
            f"{row[0].parameters:,}",
            f"{max(result.steps for result in row):,}",
            with_error([result.perplexity for result in row]),
            with_error(perplexity, "+"),
            with_error([result.bleu for result in row]),
            with_error(bleu, "+"),
            ", ".join(f"{result.bleu:.2f}" for result in row),
            f"{mean(result.minutes for result in row):.1f}",
            "" if paper.parameters_m is None else f"{paper.parameters_m} M",
            f"{paper.perplexity}",
            f"{paper.bleu}",
            f"{in_bleu:+.1f}",
            "" if name == "base" else f"PPL {agreement(perplexity, in_ppl)}; BLEU {agreement(bleu, in_bleu)}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_error(values: Sequence[float], sign: str = "") -> str:
    """The mean ± its standard error, which one value does not have; "" of none."""
    if not values:
        return ""
    error = f" ± {stdev(values) / math.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{mean(values):{sign}.2f}{error}"


def published_difference(name: str, figure: str) -> float:
    """The paper's row minus its base."""
    row, base = (getattr(NAMED[f"table3-{each}"].published, figure) for each in (name, "base"))
    return row - base


def agreement(differences: Sequence[float], published: float) -> str:
    """Whether differences have the sign of the published one, by their 95 % interval."""
    if len(differences) < 2:
        return "?"
    figure = sampled(differences)
    if figure.low <= 0 <= figure.high:
        return "within chance"
    return "yes" if figure.value * published > 0 else "**no**"


def write(path: Path, text: str) -> None:
    """The text as a file, whole or not at all."""
    with write_atomically(path) as file:
        file.write(text)


if __name__ == "__main__":
    sys.exit(run_command(main))
