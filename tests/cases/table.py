"""Tables of checks: a row for each op, layer or model, and one line that sums up."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tests.cases.checks import Case, Errors, check_case

HEADER = f"{'':28}{'cases':>6}{'examples':>10}{'central':>10}{'complex':>10}{'plain':>10}{'seconds':>8}"
_SOURCES = ("by central differences", "by complex steps", "from plain compositions")


@dataclass
class Row:
    """The result of checking all cases of an op, a layer or a model."""

    name: str
    cases: int
    examples: int = 0
    errors: Errors = field(default_factory=Errors)
    seconds: float = 0.0
    failures: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        numbers = "".join(f"{'-' if error is None else f'{error:.0e}':>10}" for error in self.errors)
        verdict = "" if not self.failures else "  FAILED"
        return f"{self.name:28}{self.cases:6}{self.examples:10}{numbers}{self.seconds:8.1f}{verdict}"


def check_cases(name: str, cases: Sequence[Case], examples: int, seed: int = 0, device: str = "cpu") -> Row:
    """Check `examples` examples of each case; the row lists the first failure of each."""
    row = Row(name, len(cases))
    if not cases:
        row.failures.append(f"{name} has no case: @register one in tests/cases/ops")
    start = time.perf_counter()
    for case in cases:
        for k in range(examples):
            try:
                row.errors = row.errors.merge(check_case(case, np.random.default_rng([seed, k]), device))
            except Exception as error:  # of any kind: it is reported, and the other cases are still checked
                row.failures.append(f"{case} (example {k}): {type(error).__name__}: {error}")
                break
            row.examples += 1
    row.seconds = time.perf_counter() - start
    return row


def summary(rows: Iterable[Row], what: str) -> str:
    """One line on all rows."""
    rows = list(rows)
    failed = [row.name for row in rows if row.failures]
    if failed:
        return f"FAILED: {len(failed)} of {len(rows)} {what}: {', '.join(failed)}"
    errors = Errors()
    for row in rows:
        errors = errors.merge(row.errors)
    worst = [f"{error:.0e} {source}" for error, source in zip(errors, _SOURCES, strict=True) if error is not None]
    cases, examples = sum(row.cases for row in rows), sum(row.examples for row in rows)
    return f"{len(rows)} {what}, {cases} cases, {examples} examples; worst error {', '.join(worst)}"


def in_markdown(tables: Mapping[str, Sequence[Row]]) -> str:
    """The tables of docs/gradient-tables.md, with errors rounded up, so that they depend little on the machine."""
    parts = []
    for what, rows in tables.items():
        parts.append(f"## {what[0].upper() + what[1:]}\n\n")
        parts.append("| | cases | examples | differences | complex steps | plain form |\n")
        parts.append("|---|--:|--:|--:|--:|--:|\n")
        for row in rows:
            errors = " | ".join("" if error is None else _bound(error) for error in row.errors)
            parts.append(f"| {row.name} | {row.cases} | {row.examples} | {errors} |\n")
        parts.append("\n")
    return "".join(parts[:-1])


def _bound(error: float) -> str:
    """The next power of ten above an error."""
    return "0" if error == 0 else f"< 1e{math.floor(math.log10(error)) + 1}"
