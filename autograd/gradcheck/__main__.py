"""python -m autograd.gradcheck: check the gradient of every op, print a table, exit with 1 where one is wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from autograd.backend import get_backend
from autograd.engine import Op
from autograd.testing.case import cases_for
from autograd.testing.check import HEADER, check_cases, summary


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parse(arguments)
    try:
        get_backend(options.device)
        ops = {name: cases_for(name) for name in options.ops or sorted(Op.registry)}
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print("op" + HEADER[2:])
    rows = []
    for name, cases in ops.items():
        row = check_cases(name, cases, options.examples, options.seed, options.device)
        rows.append(row)
        print(row, *row.failures, sep="\n", flush=True)
    print(summary(rows, "ops"))
    return 1 if any(row.failures for row in rows) else 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m autograd.gradcheck",
        description="Check the gradient of every op: against central differences, against complex steps where the op "
        "computes with complex numbers, and against its plain composition where it has one.",
    )
    parser.add_argument("--ops", nargs="+", metavar="NAME", help="check these only, by class name (default: all)")
    parser.add_argument("--examples", type=positive, default=3, metavar="N", help="random examples a case (default: 3)")
    parser.add_argument("--seed", type=natural, default=0, metavar="N", help="of the random numbers (default: 0)")
    parser.add_argument("--device", default="cpu", help="where to compute (default: cpu)")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    """A number on the command line, at least 1."""
    return _at_least(1, text)


def natural(text: str) -> int:
    """A number on the command line, at least 0."""
    return _at_least(0, text)


def _at_least(least: int, text: str) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
