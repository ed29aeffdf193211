"""Damage the code, check it, restore it, check again; and the verdicts."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from tests.mutants.checks import Finding, checks_for
from tests.mutants.damage import Mutant, StaleMutantError, damaged

_DOES_NOT_RUN = re.compile(r"\b(NameError|UnboundLocalError|ImportError|ModuleNotFoundError)\b")


@dataclass(frozen=True)
class Verdict:
    """detected_by: the first check that failed; error: its message; problem: why the mutant counts as undetected."""

    mutant: Mutant
    detected_by: str = ""
    error: str = ""
    problem: str = ""

    @property
    def is_detected(self) -> bool:
        return not self.problem


def try_out(mutant: Mutant) -> Verdict:
    """Run checks on the damaged code until one fails, then that check on the restored code, where it must pass."""
    try:
        with damaged(mutant), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning does not count as a failure
            finding = _first_finding(mutant)
    except StaleMutantError as stale:
        return Verdict(mutant, problem=f"STALE: {stale}")
    if finding is None:
        return Verdict(mutant, problem="SURVIVES: no check notices")
    if _DOES_NOT_RUN.search(finding.error):
        problem = f"BROKEN: the damage cannot run: {shortened(finding.error)}"
        return Verdict(mutant, finding.name, finding.error, problem)
    on_whole_code = finding.again()
    if on_whole_code is None:
        return Verdict(mutant, finding.name, finding.error)
    problem = f"UNPROVEN: this check fails on the code as it is too: {shortened(on_whole_code.error)}"
    return Verdict(mutant, finding.name, finding.error, problem)


def _first_finding(mutant: Mutant) -> Finding | None:
    for check in checks_for(mutant):
        finding = check()
        if finding is not None:
            return finding
    return None


NUMBER = r"([-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|inf|nan))(?![^\s,])"  # a comma may follow, and a remark


def shortened(error: str, limit: int = 100) -> str:
    """The telling part of an error on one line, without what differs from machine to machine."""
    cause = re.search(r"likely cause: (?!no known mistake)(.*)", error)
    numbers = re.search(rf"most that of (.*):\n  analytic +{NUMBER}\n  numerical +{NUMBER}", error)
    text = error.removeprefix("GradcheckError: ")
    if cause:
        text = cause.group(1)
    elif numbers:
        text = f"{numbers.group(1)} is {float(numbers.group(2)):.4g}, should be {float(numbers.group(3)):.4g}"
    text = re.sub(r"composition:.*", "composition", text, flags=re.DOTALL)
    text = re.sub(r"\A(AssertionError: |Failed: )?\s*", "", text)
    if cause is None and numbers is None:
        text = text.partition("\n")[0]  # of an assertion, what follows are arrays
    text = " ".join(re.sub(r"\(made at [^)]*\)", "", text).split())
    text = re.sub(r"'/[^']*'", "'…'", text)
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def summary(verdicts: Sequence[Verdict]) -> str:
    return f"{len(verdicts)} mutants, {sum(v.is_detected for v in verdicts)} detected"
