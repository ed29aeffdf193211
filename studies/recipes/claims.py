#!/usr/bin/env python3
"""The paper's claims, tested: each checkable sentence, the measurement, the figure and the verdict.

    python studies/recipes/claims.py                                 # whatever has no result yet: an hour or two of one core
    python studies/recipes/claims.py --list
    python studies/recipes/claims.py warm-up averaging --again       # some of them, measured again
    python studies/recipes/claims.py --quick                         # the same with tiny sizes, and results of their own

A claim's verdict follows from its rule, a range that stands beside its sentence in studies/recipes/paper_claims, and the 95 %
interval of its figure: nobody writes it. Claims about trained models need a folder for the runs (--output): three seeds
of each variant, half a minute to a minute each, trained when the first claim asks for them, once, and gone on with
after an interruption. Results are kept in a JSON file as they come, and the page of the same name is written from it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import resumable  # first: it finds minitf without an installation
from paper_claims.claim import CLAIMS, DOES_NOT, HOLDS, UNDECIDED, Claim, Figure, chosen
from paper_claims.runs import Study

from minitf.system.process import run_command, say

for _module in ("attention", "positions", "layers", "training", "curvature", "variations", "parsing"):
    importlib.import_module(f"paper_claims.{_module}")

Results = dict[str, dict[str, Any]]


def main(argv: Sequence[str]) -> int:
    """Measure the claims that are asked for and have no result; print their verdicts; write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="some of --list; none: all")
    parser.add_argument("--list", action="store_true", help="print the names and sentences")
    parser.add_argument("--again", action="store_true", help="measure the claims named also if they have a result")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, whose verdicts mean nothing, in two minutes")
    parser.add_argument("--output", type=Path, default=Path("runs/claims"), metavar="DIR", help="folder for the runs")
    parser.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="train on Multi30k, tokenized, in this folder; none: built-in corpus",
    )
    parser.add_argument(
        "--results", type=Path, metavar="FILE",
        help="results so far, beside which the page is written with the ending .md; none: docs/claims.json, or with "
        "--quick claims-quick.json in the folder for the runs",
    )  # fmt: skip
    args = parser.parse_args(argv)
    if args.results is None:
        args.results = args.output / "claims-quick.json" if args.quick else resumable.ROOT / "docs" / "claims.json"
    asked = chosen(args.names)
    if args.list:
        for each in asked:
            print(f"{each.name:24}  {each.section:24}  {each.sentence}")
        return 0
    study = Study(args.output, args.quick, args.data_dir)
    results: Results = json.loads(args.results.read_text(encoding="utf-8")) if args.results.exists() else {}
    for each in asked:
        if args.again or each.name not in results:
            results[each.name] = measured(each, study)
            resumable.write(args.results, json.dumps(_in_order(results), indent=1, ensure_ascii=False) + "\n")
        print(
            f"{each.name}: {verdict(each, results)}; {shown(figure_of(results[each.name]))} (rule: {each.rule})",
            flush=True,
        )
    resumable.write(args.results.with_suffix(".md"), page(results))
    return 0


def measured(each: Claim, study: Study) -> dict[str, Any]:
    """The figure of a claim, and the seconds it took."""
    say(f"{each.name}: {each.sentence}")
    start = time.perf_counter()
    figure = each.measure(study)
    return {**asdict(figure), "seconds": round(time.perf_counter() - start, 1)}


def figure_of(result: dict[str, Any]) -> Figure:
    return Figure(**{name: result[name] for name in ("value", "low", "high", "text")})


def verdict(each: Claim, results: Results) -> str:
    """By the rule of the claim."""
    return each.rule.verdict(figure_of(results[each.name]))


def shown(figure: Figure) -> str:
    """The figure with its interval."""
    if figure.low == figure.high:
        return _number(figure.value)
    return f"{_number(figure.value)} ({_number(figure.low)} to {_number(figure.high)})"


def _number(value: float) -> str:
    return f"{value:.3g}" if abs(value) < 100 else f"{value:,.0f}"


def _in_order(results: Results) -> Results:
    """In the order of the claims; those of claims that are gone are left out."""
    return {name: results[name] for name in CLAIMS if name in results}


def page(results: Results) -> str:
    """The page: a summary, then a row for each claim."""
    verdicts = {name: verdict(CLAIMS[name], results) for name in _in_order(results)}
    hold, do_not, open_ = (list(verdicts.values()).count(each) for each in (HOLDS, DOES_NOT, UNDECIDED))
    counts = f"{hold} hold, {do_not} do not hold, {open_} cannot be decided at this scale"
    missing = [f"`{name}`" for name in CLAIMS if name not in results]
    lines = [HEAD.format(total=len(verdicts), counts=counts)]
    if missing:
        lines.append(f"Not measured yet: {', '.join(missing)}.\n")
    failed = [name for name, found in verdicts.items() if found == DOES_NOT]
    lines += ["These do not hold:\n", *(f"- {CLAIMS[name].sentence} [`{name}`](#{name})" for name in failed), ""]
    lines += ["| section | the paper | verdict | figure | rule | `claims.py` |", "|---|---|---|---|---|---|"]
    for name, found in verdicts.items():
        each, figure = CLAIMS[name], figure_of(results[name])
        cells = [each.section, each.sentence, f"**{found}**", shown(figure), str(each.rule), f"[`{name}`](#{name})"]
        lines.append(f"| {' | '.join(cells)} |")
    lines.append("\n## Measurements")
    for name in verdicts:
        each, figure = CLAIMS[name], figure_of(results[name])
        lines.append(f"\n### {name}\n\n    python studies/recipes/claims.py {name} --again\n\n{each.done}\n")
        lines.append(f"> {each.rule.what}: {shown(figure)}. {figure.text}".rstrip())
    return "\n".join(lines) + "\n"


HEAD = """# The paper's claims, tested

`python studies/recipes/claims.py` generates this page. Of {total} claims: {counts}.

A verdict follows from a rule in the code. A claim *holds* if the 95 % interval of its figure lies within the rule's
range, and *does not hold* if the interval lies outside the range; otherwise the verdict is *not at this scale*. The
ranges were chosen before the figures were seen, with these exceptions: the measurements of `relative-positions` and
`dot-product-smaller` were corrected, `dot-product-smaller-plain` was added, and `heads-between` was split from
`one-head`. Intervals are Student's t intervals over seeds or draws; a figure without an interval is deterministic or a
time on one machine. Words in brackets are added.

Trained models have 2 + 2 layers, d_model 64, d_ff 256 and 4 heads. They are trained for 600 updates of up to 1,024
tokens per side of the built-in corpus, two epochs, with the seeds 1, 2 and 3 (studies/recipes/paper_claims/runs.py has the
flags of each variant). BLEU is computed by sacreBLEU on 1,000 test pairs, with a beam of 4, α = 0.6 and the mean of
five checkpoints. Claims that do not hold for these models may hold for models of the paper's size, and vice versa. The
text is that of the paper's first edition, except section 6.3, which is that of its later edition.
"""


if __name__ == "__main__":
    sys.exit(run_command(main))
