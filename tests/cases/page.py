"""docs/gradient-tables.md, from the tables of checks."""

from __future__ import annotations

import math

from tests.cases.table import Row


def page(tables: dict[str, list[Row]], examples: int, seed: int) -> str:
    """The text of docs/gradient-tables.md; errors are rounded up to powers of ten, to depend little on the machine."""
    command = f"python -m tests.cases --examples {examples} --seed {seed} --write docs/gradient-tables.md"
    parts = [_PAGE.replace("COMMAND", command)]
    for what, rows in tables.items():
        parts.append(
            f"\n## {what[0].upper() + what[1:]}\n\n| | cases | examples | differences | complex steps | plain form |\n"
        )
        parts.append("|---|--:|--:|--:|--:|--:|\n")
        for row in rows:
            errors = " | ".join("" if error is None else _bound(error) for error in row.errors)
            parts.append(f"| {row.name} | {row.cases} | {row.examples} | {errors} |\n")
    return "".join(parts)


def _bound(error: float) -> str:
    """The next power of ten above an error."""
    return "0" if error == 0 else f"< 1e{math.floor(math.log10(error)) + 1}"


_PAGE = """\
# Gradients of all ops, layers and models

This page is written by

    COMMAND

which fails and writes nothing if any gradient is wrong. It differentiates every op of `autograd`, every layer of
`minitf` and whole Transformers in float64 at random inputs: random shapes, strides and masks, broadcasting, repeated
indices, queries that may attend to nothing, arrays without elements. The masks of dropout are held fixed. The cases are
in `tests/cases/`. The gradients are compared with three other sources:

| source | definition | must agree within |
|---|---|---|
| differences | (f(x + h) - f(x - h)) / 2h with h = 5e-6 | 1e-7 + 1e-6 · \\|derivative\\| |
| complex steps | Im f(x + ih) / h with h = 1e-20: no difference is taken, so no digits are lost | 1e-12 |
| plain form | for a fused op, the same function composed of simpler ops: its values and gradients | 1e-12 |

The tables give the largest error found, |analytic - other| / max(1, |other|), rounded up to a power of ten (which may
be one step more on another processor, as it rounds differently). A field is empty if a source does not apply: functions
that compute with |x| (abs, sigmoid, silu, gelu) are not analytic, and most ops have no simpler form. Ops and small
layers are compared derivative by derivative; from EncoderLayer on, along one random direction in each input and each
parameter. `make prove` also compares all layers and two of the Transformers derivative by derivative, and checks 1,000
examples of each op. With PyTorch installed, `tests/autograd/ops/test_against_pytorch.py` compares the same cases with
PyTorch's functions, in float64 and float32.

What must be exactly zero is tested to be exactly zero: the gradient of a prediction by later target tokens, the
gradients of the loss by padding positions, the gradients of queries that may attend to nothing.

Deliberate errors in the code prove that these checks detect a wrong gradient: [mutants.md](mutants.md). To check a
gradient of your own: [gradients.md](gradients.md).
"""
