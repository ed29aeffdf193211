"""docs/mutants.md, from the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from autograd.engine import Op
from tests.mutants.run import Verdict, shortened

_HEAD = """\
# Mutation tests of gradients, engine and checker

This page is written by

    python -m tests.mutants --write docs/mutants.md

which fails, and writes nothing, if a mutant is not detected. A gradient check that accepts everything passes as well as
one that works; mutation tests tell the two apart.

A mutant is the source of one function with one exact replacement: a wrong sign, a missing term, a factor of 1.001, a
wrong axis, an inverted mask. The replacement is compiled and substituted for the function wherever it was imported or
inherited. If the text to replace does not occur exactly once, the run fails. No check was written for a mutant: the
checks are those of users and of the test suite. They run in the following order until one fails:

- the cases of an op, three random examples each, as in `python -m tests.cases`: compared with differences, complex
  steps and a composition of other ops. They run "plainly" (the ops as they are defined), as after an import (with their
  fast implementations), "in blocks" (as with threads, but with blocks so small that small arrays are divided too), and
  "by definition" (fast implementations with the kernels of `kernels.py`), as far as the damaged code is part of that;
- the cases of a layer or of a whole Transformer, as in `python -m tests.cases`;
- the test suite: values that must be exactly zero, ties, ownership of arrays, hooks, the textbook loop of Adam, and the
  tests of the gradient checker and of `autograd.inspect`.

Then the original function is restored, and the check that failed must pass. Mutants without an observable effect are
not listed.

"""


def page(verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    every = [verdict for some in verdicts.values() for verdict in some]
    noticed = Counter(kind(verdict) for verdict in every)
    parts = [_HEAD, f"**{len(every)} mutants, {sum(v.is_detected for v in every)} detected**: "]
    parts.append(", ".join(f"{count} by {what}" for what, count in noticed.most_common()) + ".\n")
    number = 0
    for group, some in verdicts.items():
        parts.append(
            f"\n## {group}\n\n| | damaged | how | detected by | what it says | verdict |\n|--:|---|---|---|---|---|\n"
        )
        for verdict in some:
            number += 1
            place = verdict.mutant.place.replace(":", ".").removeprefix("autograd.").removeprefix("minitf.")
            cells = [str(number), f"`{place}`", verdict.mutant.damage, _detected_by(verdict)]
            cells += [f"`` {shortened(verdict.error)} ``", "detected" if verdict.is_detected else verdict.problem]
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(parts)


def kind(verdict: Verdict) -> str:
    """The kind of check that failed."""
    if verdict.detected_by.startswith("tests/"):
        return "tests"
    op = verdict.detected_by.partition(":")[0]
    return "cases of ops" if op in Op.registry else "cases of layers and Transformers"


def _detected_by(verdict: Verdict) -> str:
    return verdict.detected_by.removeprefix("tests/").replace("::", ", ").replace("_", "\\_")
