#!/usr/bin/env python3
"""Table 3 in small: the paper's variations of a base model, each trained on Multi30k, in one table.

    python studies/recipes/small_table_3.py --output runs/small-table-3 --jobs 2 --data-dir TOK --kernels numba \\
        --records docs/small-table-3.json --write docs/results.md
    python studies/recipes/small_table_3.py --output runs/small-table-3 --rows base a-heads-1 --seeds 1 2 3
    python studies/recipes/small_table_3.py --output runs/small-table-3 --rows base a-heads-1 --max-steps 100 --threads 2

The base model has 3 + 3 layers, d_model 64, d_ff 256 and 8 heads: half the layers and an eighth of the widths of the
paper's. Each row changes it as the paper's row changes the paper's: the same numbers of heads, dropout and smoothing,
the same fractions of layers and widths. As in section 6.2, figures are taken on the validation text, without averaging
checkpoints, with a beam of 4 and α = 0.6; but at the best validation, as few pairs are soon learned by heart.

The plan: three seeds of 20 rows in four hours of two cores, in which base reaches its best validation. In trials base
still gained after 7,000 updates on the first 10,000 pairs; on the first 6,000, with a vocabulary of 2,000, its
perplexity fell to 17.2 by update 4,250 and by another 2 % until 5,500. Warm-up takes 2,000 updates, with which four
layers learn faster than with 1,000. An update of base, up to 1,024 tokens per side, takes 47 ms of a core of an AMD
EPYC (Zen 5) while the other trains as well; one of each of the rows 1.03 s. At most 8,000 updates of 60 runs are 3.4
hours, validations and translations not quite half an hour. On a slow Zen 3 the first runs took twice as long. A run
ends earlier if 2,000 updates bring no better validation.

Differences are taken seed by seed; their standard errors say which of them mean anything, and the last column where
the sign is the paper's, by the 95 % interval. With --jobs, as many rows at once share the cores, which is faster for
models so small: give the number of cores.

--pairs trains on more or fewer of them, for a comparison of some rows.

Rows that are done are not trained again, one that was interrupted goes on; the table is written whenever a row ends.
--records names a JSON file of results that outlives the runs: a row and seed with a record is trained on no machine
again. Records and runs of other flags or texts are refused. Flags that are not listed here go to train.py, for every
row.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import mean, stdev
from typing import Any, get_type_hints

import resumable  # first: it finds minitf without an installation
from paper_claims.claim import sampled

from additions.corpora.public import find
from additions.pages.run_log import read_log
from minitf.app.train import read_train_args
from minitf.config import RunConfig
from minitf.config.options import from_plain, shown, to_plain
from minitf.config.presets import NAMED
from minitf.data.text import read_lines
from minitf.errors import UserError
from minitf.model.transformer import Transformer
from minitf.storage.run_directory import CONFIG_NAME, RunDirectory, load_config
from minitf.system.files import parse_json_object, read_small_file
from minitf.system.process import run_command, say
from studies.benchmarks.side_by_side import machine

MARK = "small_table_3.py"
BASE = [
    *("--preset", "base", "--set", "bleu_tokenize=none", "--vocab-size", "2000"),
    *("--model.layers", "3", "--model.d-model", "64", "--model.d-ff", "256", "--model.heads", "8"),
    *("--model.dropout", "0.1", "--optimizer.warmup-steps", "2000", "--max-tokens-per-batch", "1024"),
    *("--max-steps", "8000", "--valid-every", "250", "--patience", "8", "--save-every", "500"),
    *("--set", "keep_checkpoints=1", "--average-checkpoints", "1", "--set", "weights=best", "--log-every", "50"),
]
ROWS: dict[str, list[str]] = {
    "base": [],
    "a-heads-1": ["--model.heads", "1"],
    "a-heads-4": ["--model.heads", "4"],
    "a-heads-16": ["--model.heads", "16"],
    "a-heads-32": ["--model.heads", "32"],
    "b-dk-16": ["--set", "model.d_k=2", "--set", "model.d_v=8"],  # a quarter
    "b-dk-32": ["--set", "model.d_k=4", "--set", "model.d_v=8"],  # a half
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
    "e-learned-positions": ["--set", "model.positions=learned"],
    "big": ["--model.d-model", "128", "--model.d-ff", "512", "--model.heads", "16", "--model.dropout", "0.3"],
}
"""By the names of the presets that are the paper's rows; what is changed here."""


NO_FIGURE = {"output", "train", "valid", "test", "threads", "devices", "log_every"}
"""Settings of a run that no figure depends on; texts are compared by their content."""


@dataclass(frozen=True, kw_only=True)
class Result:
    """A row that is done, of one seed: what a record holds."""

    name: str
    seed: int
    parameters: int
    steps: int
    best_step: int
    perplexity: float
    bleu: float
    signature: str
    minutes: float
    machine: str
    flags: str
    pairs: int  # --pairs
    texts: str  # their digest


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
    parser.add_argument("--pairs", type=int, default=6_000, metavar="N", help="train on the first N; default: 6000")
    parser.add_argument("--records", type=Path, metavar="FILE", help="also keep results here, and train none twice")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the table into this page")
    args, flags = parser.parse_known_args(argv)
    if unknown := sorted(set(args.rows) - set(ROWS)):
        raise UserError(f"there is no row {unknown[0]!r}; choose some of {', '.join(ROWS)}")
    if args.pairs < 1:
        raise UserError(f"--pairs is {args.pairs}, but must be at least 1")
    if args.write:
        resumable.write_within(args.write, MARK, None)  # now, not after the first run
    runs = {
        args.output / f"seed-{seed}" / name: resumable.seeded([*BASE, *ROWS[name], *flags], seed)
        for seed in args.seeds  # outside: a table of fewer seeds is whole before one of more is begun
        for name in args.rows
    }
    results = recorded(runs, args.records, args.pairs) if args.records else {}
    missing = {run: flags for run, flags in runs.items() if run not in results}
    for run, flags in missing.items():
        if (run / CONFIG_NAME).exists():
            require_same(str(run), load_config(run / CONFIG_NAME), flags, "another --output, or delete this run")
    texts, digest = texts_of(args) if missing else ([], "")
    if len({digest, *(result.texts for result in results.values())} - {""}) > 1:
        raise UserError(
            f"{args.records} is of other texts than --data {args.data}; give its texts, or another --records"
        )
    if results:
        publish(args, runs, results)
    trained = {run: [*flags, *texts] for run, flags in missing.items()}
    with closing(resumable.train_all(trained, args.jobs, in_order=False)) as done:
        for run in done:
            results[run] = measure(run, shlex.join(runs[run]), args.pairs, digest)
            if args.records:
                record(results[run], args.records)
            publish(args, runs, results)
    return 0


def texts_of(args: argparse.Namespace) -> tuple[list[str], str]:
    """The flags of the texts, of which the first pairs are written where they are not, and a digest of the texts."""
    found = find(args.data, args.data_dir, say)
    paths = [args.output / name for name in ("train.source", "train.target")]
    for whole, path in zip(found["train"], paths, strict=True):
        first = "".join(f"{line}\n" for line in itertools.islice(read_lines(whole), args.pairs))
        if not path.exists():
            resumable.write(path, first)
        elif path.read_bytes() != first.encode():
            raise UserError(f"{path} is not the first {args.pairs:,} lines of {whole}; give another --output")
    digest = hashlib.sha256()
    for path in (*paths, *found["valid"]):
        digest.update("".join(f"{line}\n" for line in read_lines(path)).encode())
    train, valid = map(str, paths), list(map(str, found["valid"]))
    return ["--train", *train, "--valid", *valid, "--test", *valid], digest.hexdigest()  # 6.2


def measure(run: Path, flags: str, pairs: int, texts: str) -> Result:
    """The best perplexity of the validation text, and its BLEU with those weights, with which the run has ended."""
    directory = RunDirectory.open(run)
    config, log, final = directory.config(), read_log(directory.log_path), resumable.final_score(run)
    assert final is not None  # or `train` had failed
    best = min((line for line in log if "valid_perplexity" in line), key=lambda line: line["valid_perplexity"])
    return Result(
        name=run.name,
        seed=config.seed,
        parameters=Transformer(replace(config.model, vocab_size=config.vocab_size), seed=None).parameter_count(),
        steps=final["step"],
        best_step=best["step"],
        perplexity=best["valid_perplexity"],
        bleu=final["bleu"],
        signature=final["signature"],
        minutes=resumable.minutes(run),
        machine=machine(),
        flags=flags,
        pairs=pairs,
        texts=texts,
    )


# ---- Records -----------------------------------------------------------------------------------------------------


def recorded(runs: Mapping[Path, list[str]], path: Path, pairs: int) -> dict[Path, Result]:
    """The results of the runs that have a record.  Raises: UserError for a record of other flags or pairs"""
    records = read_records(path)
    results = {run: records[key] for run in runs if (key := f"{run.parent.name}/{run.name}") in records}
    for run, result in results.items():
        config = read_train_args(shlex.split(result.flags)).config
        advice = "another --records, or delete this record, to train it again"
        require_same(f"{path}: {key_of(result)}", config, runs[run], advice)
        if result.pairs != pairs:
            raise UserError(
                f"{path}: {key_of(result)} was trained on {result.pairs} pairs and not {pairs}; give {advice}"
            )
    return results


def require_same(what: str, config: RunConfig, flags: list[str], advice: str) -> None:
    """Raises: UserError for a run, or the record of one, with which the flags would have given other figures"""
    had, given = (settings(each) for each in (config, read_train_args(flags).config))
    if other := [f"{name} {shown(had[name])} and not {shown(given[name])}" for name in had if had[name] != given[name]]:
        raise UserError(f"{what} was trained with {', '.join(other)}; give the same flags, {advice}")


def settings(config: RunConfig) -> dict[str, Any]:
    """All that the figures of a run depend on: {"seed": 1, "model.heads": 8, …}"""
    found = {name: value for name, value in to_plain(config).items() if name not in NO_FIGURE}
    for name in [name for name, value in found.items() if isinstance(value, dict)]:
        found |= {f"{name}.{key}": value for key, value in found.pop(name).items()}
    return found


def key_of(result: Result) -> str:
    return f"seed-{result.seed}/{result.name}"


def read_records(path: Path) -> dict[str, Result]:
    """Results by `key_of`; none where there is no file.  Raises: UserError for a file that holds something else"""
    if not path.exists():
        return {}
    content = read_small_file(path)
    try:
        records = {key: from_plain(Result, plain, key) for key, plain in parse_json_object(content).items()}
        for key, result in records.items():
            for name, kind in get_type_hints(Result).items():
                if type(value := getattr(result, name)) is not kind:
                    raise UserError(f"{name} of {key} is {shown(value)}, which is not of the type {kind.__name__}")
            if key != key_of(result) or result.name not in ROWS:
                raise UserError(f"{key} holds the record of {key_of(result)}, or of no row of this table")
            read_train_args(shlex.split(result.flags))
    except ValueError as error:
        advice = "restore its last version, or move it away to train all rows again"
        raise UserError(f"{path} is not a file of records: {error}; {advice}") from error
    return records


def record(result: Result, path: Path) -> None:
    """Add a result to those recorded, or replace its own."""
    records = {**read_records(path), key_of(result): result}  # also those that another process has added
    ordered = sorted(records.values(), key=lambda each: (each.seed, list(ROWS).index(each.name)))
    plain = {key_of(each): asdict(each) for each in ordered}
    resumable.write(path, json.dumps(plain, indent=1, ensure_ascii=False) + "\n")


# ---- The page ----------------------------------------------------------------------------------------------------


def publish(args: argparse.Namespace, runs: Collection[Path], results: Mapping[Path, Result]) -> None:
    """Print the page and write it."""
    text = page([results[run] for run in runs if run in results], len(runs))
    print(text, end="", flush=True)
    resumable.write(args.output / "table.md", text)
    if args.write:
        resumable.write_within(args.write, MARK, text)


def page(results: Sequence[Result], runs: int) -> str:
    """How many runs have ended, the table, BLEU's signature, and where they were trained."""
    ended = f"{len(results)} of {runs} runs have ended.\n"
    if not results:
        return ended
    signatures = ", ".join(f"`{signature}`" for signature in sorted({result.signature for result in results}))
    machines = Counter(result.machine for result in results).items()
    trained = "\n".join(f"- {count} on {machine}" for machine, count in machines)
    return f"{ended}\n{table(results)}\n\nBLEU: {signatures}. Runs:\n\n{trained}\n"


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
            " ".join(ROWS[name]).replace("--set ", "").replace("--", "").replace("model.", "").replace("optimizer.", "")
            or "-",
            f"{row[0].parameters:,}",
            f"{max(result.steps for result in row):,}",
            with_error([result.perplexity for result in row]),
            with_error(perplexity, "+"),
            with_error([result.bleu for result in row]),
            with_error(bleu, "+"),
            ", ".join(f"{result.bleu:.2f}" for result in row),
            f"{mean(result.minutes for result in row):.1f}",
            "" if "parameters" not in paper else f"{paper['parameters']} M",
            f"{paper['perplexity']}",
            f"{paper['bleu']}",
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
    row, base = (NAMED[f"table3-{each}"].published[figure] for each in (name, "base"))
    return row - base


def agreement(differences: Sequence[float], published: float) -> str:
    """Whether differences have the sign of the published one, by their 95 % interval."""
    if len(differences) < 2:
        return "?"
    figure = sampled(differences)
    if figure.low <= 0 <= figure.high:
        return "within chance"
    return "yes" if figure.value * published > 0 else "**no**"


if __name__ == "__main__":
    sys.exit(run_command(main))
