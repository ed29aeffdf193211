"""python -m tests.mutants: damage the code in every listed way, show what notices, exit with 1 where nothing does."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.mutants.lists import GROUPS
from tests.mutants.page import page
from tests.mutants.run import Verdict, shortened, summary, try_out


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    groups = {what: [mutant for mutant in mutants if options.only in str(mutant)] for what, mutants in GROUPS.items()}
    verdicts: dict[str, list[Verdict]] = {}
    number = 0
    print("  # place: damage\n    caught by: what it says\n    verdict")
    for what, mutants in groups.items():
        verdicts[what] = []
        for mutant in mutants:
            number += 1
            verdict = try_out(mutant)
            verdicts[what].append(verdict)
            print(_row(number, verdict), flush=True)
    every = [verdict for some in verdicts.values() for verdict in some]
    print(summary(every))
    if not every or not all(verdict.is_caught for verdict in every):
        return 1
    if options.write is not None:
        options.write.write_text(page(verdicts), encoding="utf-8")
    return 0


def _row(number: int, verdict: Verdict) -> str:
    caught_by = f"\n    {verdict.caught_by}: {shortened(verdict.error)}" if verdict.caught_by else ""
    return f"{number:3} {verdict.mutant}{caught_by}\n    {verdict.problem or 'caught'}"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description="Damage gradients, engine, optimizer and checker one at a time; each damage must be noticed.",
    )
    parser.add_argument("--only", default="", metavar="TEXT", help="mutants with this in their place or damage only")
    parser.add_argument("--write", type=Path, metavar="FILE", help="write the results as a page of the documentation")
    options = parser.parse_args(arguments)
    if options.write is not None and options.only:
        parser.error("--write writes the page of all mutants; leave out --only")
    return options


if __name__ == "__main__":
    sys.exit(main())
