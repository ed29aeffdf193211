"""docs/mutants.md, from the verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from autograd.engine import Op
from tests.mutants.run import Verdict, shortened

_HEAD = """\
# Mutants: proof that the proof works

This page is written by

    python -m tests.mutants --write docs/mutants.md

which fails, and writes nothing, where a mutant gets past the checks. A gradient check that accepts everything passes
as well as one that works. So the code is damaged on purpose, one place at a time, and the checks must notice.

A mutant is the real text of one function with one exact replacement: a sign, a lost term, a factor of 1.001, a wrong
axis, a mask the wrong way round. The replacement is compiled and put in the function's place, wherever it was imported
or inherited; if the text to replace no longer occurs exactly once, the run fails. None of the checks was made for a
mutant. They are those that users and the tests run, the nearest first, until one notices:

- the cases of an op, three random examples each, as in `python -m tests.cases`: against differences, complex
  steps and the op's plain form; for kernels as after an import, "in blocks" as with threads but so small that small
  arrays are cut too, and "plainly" by their definitions;
- the cases of a layer or a whole Transformer, as in `python -m tests.cases`;
- the tests: what must be exactly zero, ties, who owns an array, hooks, Adam's textbook loop, the
  checker's own, and those of `autograd.inspect`.

Then the damage is taken back, and the check that noticed must pass. Mutants that change nothing that anyone could see
are not listed.

"""


def page(verdicts: Mapping[str, Sequence[Verdict]]) -> str:
    every = [verdict for some in verdicts.values() for verdict in some]
    noticed = Counter(kind(verdict) for verdict in every)
    parts = [_HEAD, f"**{len(every)} mutants, {sum(v.is_caught for v in every)} caught**: "]
    parts.append(", ".join(f"{count} by {what}" for what, count in noticed.most_common()) + ".\n")
    number = 0
    for group, some in verdicts.items():
        parts.append(
            f"\n## {group}\n\n| | damaged | how | caught by | what it says | verdict |\n|--:|---|---|---|---|---|\n"
        )
        for verdict in some:
            number += 1
            place = verdict.mutant.place.replace(":", ".").removeprefix("autograd.").removeprefix("minitf.")
            cells = [str(number), f"`{place}`", verdict.mutant.damage, _caught_by(verdict)]
            cells += [f"`` {shortened(verdict.error)} ``", "caught" if verdict.is_caught else verdict.problem]
            parts.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(parts)


def kind(verdict: Verdict) -> str:
    """What sort of check noticed."""
    if verdict.caught_by.startswith("tests/"):
        return "tests"
    op = verdict.caught_by.partition(":")[0]
    return "cases of ops" if op in Op.registry else "cases of layers and Transformers"


def _caught_by(verdict: Verdict) -> str:
    return verdict.caught_by.removeprefix("tests/").replace("::", ", ").replace("_", "\\_")
