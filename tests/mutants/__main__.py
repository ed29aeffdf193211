"""python -m tests.mutants: make mutants, show what notices each, exit with 1 if nothing notices one."""

from __future__ import annotations

import argparse
import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.mutants.checks import NOT_RUN, all_checks, import_tests, try_out
from tests.mutants.mutants import ROOMS, RULES, Mutant, all_mutants


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    chosen = [mutant for mutant in all_mutants(options.percent) if options.only in str(mutant)]
    import_tests({mutant.module for mutant in chosen})
    if not options.only and (fault := next(try_out([None], 1, lambda _: all_checks(chosen)))[1]):
        print(f"NOTHING PROVEN: a check fails on the code as it is: {fault}")
        return 1
    found: dict[Mutant, str | None] = {}
    for mutant, message in try_out(chosen, options.jobs):
        assert mutant is not None
        found[mutant] = message
        outcome = "SURVIVES" if message is None else "not run " if message.startswith(NOT_RUN) else "detected"
        print(f"{len(found):4} {outcome}  {mutant}  [{shortened(message or '')}]")
        sys.stdout.flush()
    survivors = [mutant for mutant, message in found.items() if message is None]
    for mutant in survivors:
        print(f"NOT DETECTED: {mutant}")
    print(summary(found))
    if survivors or not found:
        return 1
    if options.write is not None:
        before = options.write.read_text("utf-8").partition("**")[0]
        options.write.write_text(before + in_markdown(found), encoding="utf-8")
    return 0


def summary(found: Mapping[Mutant, str | None]) -> str:
    reasons = Counter(message for message in found.values() if message and message.startswith(NOT_RUN))
    detected = sum(message is not None for message in found.values()) - reasons.total()
    return ", ".join([f"{len(found)} mutants", f"{detected} detected", *(f"{n} {why}" for why, n in reasons.items())])


def in_markdown(found: Mapping[Mutant, str | None]) -> str:
    """The tables of docs/mutants.md."""
    parts = [f"**{summary(found)}.**\n"]
    found = {mutant: message for mutant, message in found.items() if not (message or "").startswith(NOT_RUN)}
    by_tests = {mutant for mutant, message in found.items() if (message or "").startswith("tests/")}
    for title, key, names in (("Code", "room", tuple(ROOMS)), ("Mistake", "rule", RULES)):
        rows = Counter(getattr(mutant, key) for mutant in found)
        tests = Counter(getattr(mutant, key) for mutant in by_tests)
        parts.append(f"\n| {title} | mutants | detected by cases | by tests |\n| --- | --: | --: | --: |\n")
        parts += [
            f"| {name} | {rows[name]} | {rows[name] - tests[name]} | {tests[name]} |\n" for name in names if rows[name]
        ]
    return "".join(parts)


def shortened(message: str, limit: int = 100) -> str:
    line = " ".join(message.partition("\n")[0].split())
    return line if len(line) <= limit else line[: limit - 1] + "…"


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--percent", type=float, default=10, metavar="N", help="of all mutants (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="only mutants with TEXT in their place or mistake")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes at a time")
    parser.add_argument("--write", type=Path, metavar="FILE", help="replace the tables of a page")
    options = parser.parse_args(arguments)
    if options.write is not None and options.only:
        parser.error("--write writes the page of all mutants; leave out --only")
    return options


if __name__ == "__main__":
    sys.exit(main())
