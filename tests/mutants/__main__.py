"""python -m tests.mutants: apply every mutant, show which check detects it, exit with 1 if one is not detected."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from minitf.system.writing import atomic_write
from tests.mutants.lists import GROUPS
from tests.mutants.page import page
from tests.mutants.run import Verdict, summary, try_out


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    groups = {what: [mutant for mutant in mutants if options.only in str(mutant)] for what, mutants in GROUPS.items()}
    verdicts: dict[str, list[Verdict]] = {}
    number = 0
    print("  #  verdict   damage  [detected by]")
    for what, mutants in groups.items():
        verdicts[what] = []
        for mutant in mutants:
            number += 1
            verdict = try_out(mutant)
            verdicts[what].append(verdict)
            print(_row(number, verdict), flush=True)
    every = [verdict for some in verdicts.values() for verdict in some]
    undetected = [verdict for verdict in every if not verdict.is_detected]
    for verdict in undetected:
        print(f"NOT DETECTED: {verdict.mutant}: {verdict.problem}")
    print(summary(every))
    if undetected or not every:
        return 1
    if options.write is not None:
        with atomic_write(options.write) as file:
            file.write(page(verdicts).encode())
    return 0


def _row(number: int, verdict: Verdict) -> str:
    outcome = "detected" if verdict.is_detected else verdict.problem.partition(":")[0]
    detected_by = f"  [{verdict.detected_by}]" if verdict.detected_by else ""
    return f"{number:3}  {outcome:8}  {verdict.mutant}{detected_by}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Apply deliberate errors to gradients, engine, optimizer and gradcheck, one at a time; a check "
        "must detect each.",
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants with TEXT in their place or damage")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the results as a page of the documentation")
    options = parser.parse_args(arguments)
    if options.write is not None and options.only:
        parser.error("--write writes the page of all mutants; leave out --only")
    return options


if __name__ == "__main__":
    sys.exit(main())
