#!/usr/bin/env python3
"""Table 3 in small: the paper's variations of a base model, each trained on Multi30k, in one table.

    python recipes/small_table_3.py --output runs/small-table-3 --jobs 2 --data-dir TOK
    python recipes/small_table_3.py --output runs/small-table-3 --rows base a-heads-1 --seeds 1 2 3
    python recipes/small_table_3.py --output runs/small-table-3 --rows base a-heads-1 --max-steps 100 --threads 2

The base model has 3 + 3 layers, d_model 64, d_ff 256 and 8 heads: half the layers and an eighth of the widths of the
paper's. Each row changes it as the paper's row changes the paper's: the same numbers of heads, dropout and smoothing,
the same fractions of layers and widths. As in section 6.2, figures are taken on the validation text, without averaging
checkpoints, with a beam of 4 and α = 0.6; but at the best validation, as 29,000 pairs are soon learned by heart.

The plan: three seeds of 20 rows in four hours of two cores. The rows cost about 24 times as much as the base, which
leaves a base run 6.5 minutes of one core: 6,000 updates of up to 1,024 tokens a side, 13 passes over the text.
Differences are taken seed by seed; their standard errors say which of them mean anything. With --jobs, as many rows at
once share the cores, which is faster for models so small: give the number of cores.

Rows that are done are not trained again, one that was interrupted goes on; the table is written after each row. Flags
that are not listed here go to train.py, for every row.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import resumable  # first: it finds minitf without an installation

from minitf.app.cli import run_command
from minitf.errors import UserError

BASE = [
    *("--preset", "base", "--data", "multi30k-tok", "--bleu-tokenize", "none", "--vocab-size", "5000"),
    *("--model.layers", "3", "--model.d-model", "64", "--model.d-ff", "256", "--model.heads", "8"),
    *("--model.dropout", "0.1", "--optimizer.warmup-steps", "1000", "--max-tokens-per-batch", "1024"),
    *("--max-steps", "6000", "--valid-every", "500", "--save-every", "500", "--keep-checkpoints", "1"),
    *("--average-checkpoints", "1", "--weights", "best", "--log-every", "50"),
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
    """Train the rows, print and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--output", type=Path, default=Path("runs/small-table-3"), help="folder for the runs")
    parser.add_argument("--rows", nargs="+", default=list(ROWS), metavar="ROW", help=f"some of: {' '.join(ROWS)}")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3], metavar="N", help="default: 1 2 3")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="rows to train at once; default: 1")
    args, flags = parser.parse_known_args(argv)
    if unknown := sorted(set(args.rows) - set(ROWS)):
        raise UserError(f"there is no row {unknown[0]!r}; choose some of {', '.join(ROWS)}")
    results = []
    runs = {
        args.output / f"seed-{seed}" / name: resumable.seeded([*BASE, *ROWS[name], *flags], seed)
        for seed in args.seeds  # outside: a table of fewer seeds is whole before one of more is begun
        for name in args.rows
    }
    with closing(resumable.train_all(runs, args.jobs)) as done:
        for run in done:
            results.append(measure(run))
            print(table(results), flush=True)
            write(args.output / "table.md", table(results))
    return 0


def measure(run: Path) -> Result:
    """Perplexity and BLEU of the validation text at the best validation, by a beam of 4 with α = 0.6."""
    from minitf.data.datasets import find
    from minitf.data.text import read_lines
    from minitf.evaluation.metrics import bleu
    from minitf.storage.checkpoint import CheckpointStore, load
    from minitf.storage.log import read_log
    from minitf.storage.run_directory import RunDirectory
    from minitf.system.messages import say
    from minitf.training.state import perplexity
    from minitf.translation.translator import Translator

    directory = RunDirectory.open(run)
    config = directory.config()
    store = CheckpointStore(directory.checkpoints_path)
    step = store.best_step()
    if step is None:
        raise UserError(f"{run} has no best validation; delete it to train it again")
    _, best = load(store.best_path(step))
    translator = Translator.load(run, weights="best", warn=lambda message: say(f"warning: {message}"))
    assert config.data is not None
    sources, references = (list(read_lines(path)) for path in find(config.data, config.data_dir, say)["valid"])
    score = bleu(translator.translate(sources, beam=4, alpha=0.6), references, tokenize=config.bleu_tokenize).score
    model: Any = translator.model
    return Result(
        name=run.name,
        seed=config.seed,
        parameters=model.parameter_count(),
        steps=max(record["step"] for record in read_log(directory.log_path)),
        perplexity=perplexity(best["valid_loss"]),
        bleu=score,
        minutes=resumable.minutes(run),
    )


COLUMNS = [
    *("row", "change", "parameters", "updates", "PPL", "BLEU", "- base", "each seed", "minutes"),
    *("the paper's parameters", "PPL", "BLEU", "- base"),
]


def table(results: Sequence[Result]) -> str:
    """Markdown: each row's means over its seeds and their differences from base under the same seed, with standard
    errors, beside the paper's figures."""
    from minitf.config.presets import NAMED

    of_row: dict[str, list[Result]] = {}
    for result in results:
        of_row.setdefault(result.name, []).append(result)
    base = {result.seed: result.bleu for result in of_row.get("base", [])}
    paper_base = NAMED["table3-base"].published
    lines = [f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|"]
    for name, row in of_row.items():
        differences = [result.bleu - base[result.seed] for result in row if result.seed in base]
        paper = NAMED[f"table3-{name}"].published
        cells = [
            name,
            " ".join(ROWS[name]).replace("--model.", "").replace("--optimizer.", "") or "-",
            f"{row[0].parameters:,}",
            f"{max(result.steps for result in row):,}",
            with_error([result.perplexity for result in row]),
            with_error([result.bleu for result in row]),
            with_error(differences, "+") if differences else "",
            ", ".join(f"{result.bleu:.2f}" for result in row),
            f"{mean(result.minutes for result in row):.1f}",
            "" if paper.parameters_m is None else f"{paper.parameters_m} M",
            f"{paper.perplexity}",
            f"{paper.bleu}",
            f"{(paper.bleu or 0.0) - (paper_base.bleu or 0.0):+.1f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def with_error(values: Sequence[float], sign: str = "") -> str:
    """The mean ± its standard error, which one value does not have."""
    error = f" ± {stdev(values) / math.sqrt(len(values)):.2f}" if len(values) > 1 else ""
    return f"{mean(values):{sign}.2f}{error}"


def write(path: Path, text: str) -> None:
    """The table as a file, whole or not at all."""
    from minitf.data.text import write_atomically

    with write_atomically(path) as file:
        file.write(text + "\n")


if __name__ == "__main__":
    sys.exit(run_command(main))
